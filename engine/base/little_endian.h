/* Numbers in files and messages whose first byte is the lowest. Pure. */
#ifndef STENO_BASE_LITTLE_ENDIAN_H
#define STENO_BASE_LITTLE_ENDIAN_H

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

static inline float steno_le_f32(const void *p)
{
    const uint32_t bits = steno_le32(p);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

#endif
