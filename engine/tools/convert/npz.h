/* Writes NumPy's archives: stored members of f64. */
#ifndef STENO_CONVERT_NPZ_H
#define STENO_CONVERT_NPZ_H

#include "base/status.h"

struct steno_npz_array {
    const char *name; /* without ".npy" */
    const double *x;  /* [n]; n 0: one number, a scalar */
    size_t n;
};
STENO_MUST steno_status steno_npz_write(const char *path, const struct steno_npz_array *a, int n,
                                        steno_err *err);

#endif
