/* The metadata of an ONNX file (metadata_props): a comparison with the model directory, and
 * numbers. */
#ifndef STENO_FAMILIES_COMMON_METADATA_H
#define STENO_FAMILIES_COMMON_METADATA_H

#include "formats/onnx_head.h"
#include "nn/network/network.h"
#include "speech/features/cmvn.h"

struct steno_metadata {
    const char *key;
    int64_t value; /* expected */
};

/* Compare the keys that the file has with the expected values; keys that it lacks are not checked.
 * file: for messages. STENO_ERR_FORMAT names the key and both values. */
STENO_MUST steno_status steno_metadata_check(const steno_network *net, const char *file,
                                             const struct steno_metadata *want, size_t n,
                                             steno_err *err);

/* A whole number of the metadata. */
struct steno_metadata_number {
    const char *key;
    int64_t min, max;
    int64_t *to;
    bool needed; /* else *to stays as it is where the key is missing */
};

/* Read n numbers. STENO_ERR_FORMAT names the key and what was expected. */
STENO_MUST steno_status steno_metadata_read(const steno_onnx_head *h,
                                            const struct steno_metadata_number *want, size_t n,
                                            const char *file, steno_err *err);

/* Read a list "1.5,-2,..." of n numbers, the value of `key`. text NULL: the key is missing.
 * STENO_ERR_FORMAT names the key and the wrong entry. */
STENO_MUST steno_status steno_metadata_list(const char *text, const char *key, const char *file,
                                            float *out, size_t n, steno_err *err);
/* The normalisation (x - mean) * factor of `bins` <= STENO_METADATA_BINS features, from the lists
 * of two keys. STENO_ERR_FORMAT, STENO_ERR_NOMEM. */
#define STENO_METADATA_BINS 128
STENO_MUST steno_status steno_metadata_cmvn(const steno_onnx_head *h, const char *mean,
                                            const char *factor, const char *file, size_t bins,
                                            steno_cmvn **out, steno_err *err);

#endif
