/* Stands in for the host where a test runs natively; not part of the component. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void __wasm_import_pbg_plugin_log_write(int32_t level, uint8_t *text, size_t length) {
    printf("log %d: %.*s\n", (int)level, (int)length, (const char *)text);
}

/* A test grants no folder; a plugin that reads files is tried with `pbg-host train`. */
void __wasm_import_pbg_plugin_files_read(uint8_t *path, size_t length, uint8_t *answer) {
    (void)path, (void)length, (void)answer;
    abort();
}

void __wasm_import_pbg_plugin_files_list(uint8_t *path, size_t length, uint8_t *answer) {
    (void)path, (void)length, (void)answer;
    abort();
}

void __component_type_object_force_link_plugin(void) {}
