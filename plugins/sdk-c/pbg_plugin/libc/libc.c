/* Implements <stdlib.h> and <string.h> of this folder. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Blocks are carved from the end of the memory and, once freed, kept in lists by size: powers of
   two, so that a freed block serves the next request of its class. */
typedef struct block {
    size_t class;
    struct block *next;
    uint64_t aligned[]; /* blocks begin at multiples of 16 */
} block;

#define PAGE 65536u
#define HEADER 16u

static block *freed[32];
static uintptr_t top, end;

extern unsigned char __heap_base;

static size_t class_of(size_t size) {
    size_t class = 5; /* 32 bytes */
    while (((size_t)1 << class) < size + HEADER) class++;
    return class;
}

void *malloc(size_t size) {
    if (size > ((size_t)1 << 30)) return NULL;
    size_t class = class_of(size);
    block *found = freed[class];
    if (found) {
        freed[class] = found->next;
        return (unsigned char *)found + HEADER;
    }
    if (!top) {
        top = ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
        end = __builtin_wasm_memory_size(0) * PAGE;
    }
    size_t bytes = (size_t)1 << class;
    if (end - top < bytes) {
        size_t pages = (bytes - (end - top) + PAGE - 1) / PAGE;
        if (__builtin_wasm_memory_grow(0, pages) == SIZE_MAX) return NULL;
        end += pages * PAGE;
    }
    found = (block *)top;
    found->class = class;
    top += bytes;
    return (unsigned char *)found + HEADER;
}

void free(void *given) {
    if (!given) return;
    block *done = (block *)((unsigned char *)given - HEADER);
    done->next = freed[done->class];
    freed[done->class] = done;
}

void *calloc(size_t count, size_t size) {
    if (size && count > ((size_t)1 << 30) / size) return NULL;
    void *made = malloc(count * size);
    if (made) memset(made, 0, count * size);
    return made;
}

void *realloc(void *old, size_t size) {
    if (!old) return malloc(size);
    size_t class = ((block *)((unsigned char *)old - HEADER))->class;
    if (class_of(size) <= class) return old;
    void *made = malloc(size);
    if (!made) return NULL;
    memcpy(made, old, ((size_t)1 << class) - HEADER);
    free(old);
    return made;
}

void abort(void) { __builtin_trap(); }

/* With bulk memory these are one instruction each. */
void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    return __builtin_memcpy(to, from, size);
}

void *memmove(void *to, const void *from, size_t size) {
    return __builtin_memmove(to, from, size);
}

void *memset(void *block, int byte, size_t size) { return __builtin_memset(block, byte, size); }

int memcmp(const void *a, const void *b, size_t size) {
    const unsigned char *left = a, *right = b;
    for (size_t i = 0; i < size; i++) {
        if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
    }
    return 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length]) length++;
    return length;
}
