/* What a precision does to f32 weights: rounding to bytes with error feedback, the errors of 16
 * bits, the range. */
#ifndef STENO_NN_OPS_WEIGHTS_ROUND_H
#define STENO_NN_OPS_WEIGHTS_ROUND_H

#include "nn/exec/precision.h"
#include "nn/ops/internal.h"

/* W [k, n] in rows that are ld numbers apart; trans: x has its transpose [n, k] so. */
struct steno_f32_matrix {
    const float *x;
    size_t ld, k, n;
    bool trans;
};

/* Quantize each column of w over its own range: q [n, k], scale [n]. The squared rounding errors
 * are added to *error. False: out of memory. */
STENO_MUST bool steno_round_columns(const steno_kernels *k, const struct steno_f32_matrix *w,
                                    int8_t *q, float *scale, double *error);
/* Return the sum of squared errors of w [n], or of w, rounded to f32 or 16 bits. */
double steno_round_error(const float *w, size_t n, enum steno_precision p);
double steno_round_matrix_error(const struct steno_f32_matrix *w, enum steno_precision p);
/* True if w [n] stay finite in p, or in what a Winograd transform makes of them. */
bool steno_round_finite(const steno_kernels *k, enum steno_precision p, const float *w, size_t n,
                        bool transformed);

#endif
