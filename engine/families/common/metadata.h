/* The metadata of an ONNX file (metadata_props) against what a model directory says. */
#ifndef STENO_FAMILIES_COMMON_METADATA_H
#define STENO_FAMILIES_COMMON_METADATA_H

#include "nn/network/network.h"

struct steno_metadata {
    const char *key;
    int64_t value; /* expected */
};

/* Compare the keys that the file has with the expected values; keys that it lacks are not checked.
 * file: for messages. STENO_ERR_FORMAT names the key and both values. */
STENO_MUST steno_status steno_metadata_check(const steno_network *net, const char *file,
                                             const struct steno_metadata *want, size_t n,
                                             steno_err *err);

#endif
