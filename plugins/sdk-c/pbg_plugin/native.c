/* Replacement for the host in native tests; not part of the component. */
#include "pbg_plugin.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pbg_plugin_run_run_length_t pbg_native_run_length = {1, 1, 1};

void __wasm_import_pbg_plugin_log_write(int32_t level, uint8_t *text, size_t length) {
    printf("log %d: %.*s\n", (int)level, (int)length, (const char *)text);
}

/* Native tests have no granted folders; test a plugin that reads files with `pbg-host train`. */
void __wasm_import_pbg_plugin_files_read(uint8_t *path, size_t length, uint8_t *answer) {
    (void)path, (void)length, (void)answer;
    abort();
}

void __wasm_import_pbg_plugin_files_list(uint8_t *path, size_t length, uint8_t *answer) {
    (void)path, (void)length, (void)answer;
    abort();
}

/* The record has the same layout in the component: a number of 32 bits, then two of 64. */
void __wasm_import_pbg_plugin_run_length(uint8_t *answer) {
    memcpy(answer, &pbg_native_run_length, sizeof pbg_native_run_length);
}

void __component_type_object_force_link_plugin(void) {}
