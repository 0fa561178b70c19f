/* Numbers in files and messages whose first byte is the lowest, and a place in such a file. Pure.
 */
#ifndef STENO_BASE_LITTLE_ENDIAN_H
#define STENO_BASE_LITTLE_ENDIAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t steno_le16(const void *p)
{
    const unsigned char *b = p;
    return b[0] | (uint32_t)b[1] << 8;
}

static inline uint32_t steno_le32(const void *p)
{
    const unsigned char *b = p;
    return steno_le16(b) | steno_le16(b + 2) << 16;
}

static inline uint64_t steno_le64(const void *p)
{
    const unsigned char *b = p;
    return steno_le32(b) | (uint64_t)steno_le32(b + 4) << 32;
}

/* Of 1 to 8 bytes. */
static inline uint64_t steno_le_number(const void *p, size_t bytes)
{
    const unsigned char *b = p;
    uint64_t v = 0;
    while (bytes--)
        v = v << 8 | b[bytes];
    return v;
}

static inline float steno_le_f32(const void *p)
{
    const uint32_t bits = steno_le32(p);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The bytes that are not read yet. */
struct steno_cursor {
    const unsigned char *p, *end;
};
static inline size_t steno_cursor_left(const struct steno_cursor *c)
{
    return (size_t)(c->end - c->p);
}
/* The next n bytes. NULL: fewer are left, and none is taken. */
static inline const unsigned char *steno_cursor_skip(struct steno_cursor *c, uint64_t n)
{
    const unsigned char *p = c->p;
    if (n > steno_cursor_left(c))
        return NULL;
    c->p += n;
    return p;
}
/* The next number, of 1 to 8 bytes. False: fewer are left. */
static inline bool steno_cursor_number(struct steno_cursor *c, size_t bytes, uint64_t *out)
{
    const unsigned char *p = steno_cursor_skip(c, bytes);
    if (p)
        *out = steno_le_number(p, bytes);
    return p;
}
static inline bool steno_cursor_u32(struct steno_cursor *c, uint32_t *out)
{
    const unsigned char *p = steno_cursor_skip(c, 4);
    if (p)
        *out = steno_le32(p);
    return p;
}

#endif
