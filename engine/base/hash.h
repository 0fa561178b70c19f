/* FNV-1a in 64 bits, of bytes, of a text, or of numbers one by one. Pure. */
#ifndef STENO_BASE_HASH_H
#define STENO_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STENO_HASH UINT64_C(14695981039346656037) /* of nothing */

static inline uint64_t steno_hash_add(uint64_t h, uint64_t v)
{
    return (h ^ v) * UINT64_C(1099511628211);
}
static inline uint64_t steno_hash_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *s = p;
    for (size_t i = 0; i < n; i++)
        h = steno_hash_add(h, s[i]);
    return h;
}
static inline uint64_t steno_hash_text(uint64_t h, const char *text)
{
    return steno_hash_bytes(h, text, strlen(text));
}

#endif
