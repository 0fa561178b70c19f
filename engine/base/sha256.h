/* SHA-256 (FIPS 180-4, section 6.2). Confined. */
#ifndef STENO_BASE_SHA256_H
#define STENO_BASE_SHA256_H

#include "base/status.h"

#define STENO_SHA256_BYTES 32
#define STENO_SHA256_HEX 65 /* characters of a digest as text, with the terminator */

struct steno_sha256 {
    uint32_t h[8];
    uint64_t n; /* bytes so far */
    uint8_t block[64];
};

void steno_sha256_begin(struct steno_sha256 *s);
void steno_sha256_add(struct steno_sha256 *s, const void *bytes, size_t n);
void steno_sha256_end(struct steno_sha256 *s, uint8_t out[STENO_SHA256_BYTES]);
/* Write a digest as 64 lower-case hexadecimal digits. */
void steno_sha256_text(const uint8_t digest[STENO_SHA256_BYTES], char out[STENO_SHA256_HEX]);
/* Read a digest of 64 hexadecimal digits. False for anything else. */
bool steno_sha256_parse(const char *text, uint8_t out[STENO_SHA256_BYTES]);

#endif
