/* The part of <stdlib.h> that the bindings need; there is no C library in the sandbox. */
#ifndef PBG_STDLIB_H
#define PBG_STDLIB_H
#include <stddef.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);
void free(void *block);
_Noreturn void abort(void);

#endif
