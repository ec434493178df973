/* Stands in for the host where a test runs natively; not part of the component. */
#include <stdint.h>
#include <stdio.h>

void __wasm_import_pbg_plugin_log_write(int32_t level, uint8_t *text, size_t length) {
    printf("log %d: %.*s\n", (int)level, (int)length, (const char *)text);
}

void __component_type_object_force_link_plugin(void) {}
