/* Element types of ggml's files and of GGUF: numbers, or blocks of numbers that share scales
 * (ggml-org/ggml, src/ggml-common.h and ggml-quants.c). Pure. */
#ifndef STENO_FORMATS_GGML_TYPE_H
#define STENO_FORMATS_GGML_TYPE_H

#include "base/status.h"

#define STENO_GGML_TYPES                                                                           \
    "f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_K, q3_K, q4_K, q5_K and q6_K"

struct steno_ggml_type {
    const char *name; /* "q8_0" */
    uint32_t number;  /* in a file */
    size_t bytes;     /* of a block */
    size_t per;       /* elements of a block, all of one row; 1: plain numbers */
    /* n blocks at any address as f32 [n, per] */
    void (*read)(const unsigned char *p, size_t n, float *out);
};

/* The type with that number; NULL: not one of STENO_GGML_TYPES. Static. */
const struct steno_ggml_type *steno_ggml_type(uint32_t number);
/* Bytes of `count` elements in rows of `row`; false: rows are no whole blocks, or the size
 * overflows. */
bool steno_ggml_bytes(const struct steno_ggml_type *t, size_t row, size_t count, size_t *bytes);

/* n 16-bit floats at any address, of IEEE 754 and of the upper half of an f32. */
void steno_ggml_from_f16(const unsigned char *p, size_t n, float *out);
void steno_ggml_from_bf16(const unsigned char *p, size_t n, float *out);

#endif
