/* NumPy array files: format NPY 1.0, 2.0, 3.0 (numpy.lib.format), little-endian. Writes C order,
 * reads C and Fortran order. */
#ifndef STENO_FORMATS_NPY_H
#define STENO_FORMATS_NPY_H

#include "base/status.h"

#define STENO_NPY_MAX_RANK 10

struct steno_npy {
    char kind; /* 'f' float, 'i' int, 'u' unsigned, 'b' bool */
    int item;  /* bytes per element: 1, 2, 4, 8 */
    int rank;
    int64_t dim[STENO_NPY_MAX_RANK];
    size_t bytes;
    void *data; /* C order; from steno_aligned_alloc, freed by the holder */
};

/* Read a file. STENO_ERR_IO, STENO_ERR_FORMAT (not such a file, cut short), STENO_ERR_UNSUPPORTED
 * (element type, byte order), STENO_ERR_LIMIT (over max_bytes). */
STENO_MUST steno_status steno_npy_read(const char *path, size_t max_bytes, struct steno_npy *out,
                                       steno_err *err);
/* The same from memory, borrowed for the call; name is used in messages. STENO_ERR_LIMIT: the
 * header claims data beyond the n bytes. */
STENO_MUST steno_status steno_npy_parse(const void *bytes, size_t n, const char *name,
                                        size_t max_bytes, struct steno_npy *out, steno_err *err);
STENO_MUST steno_status steno_npy_write(const char *path, const struct steno_npy *a,
                                        steno_err *err);

#endif
