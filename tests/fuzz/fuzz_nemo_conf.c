/* config.json of onnx-asr: any text is read or refused with a message; accepted values are within
 * their limits. */
/* covers: engine/speech/families/nemo/conf.c */
#include <stdlib.h>

#include "speech/families/nemo/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_nemo_conf c = {.subsampling = 8};
    steno_err err = {0};
    if (steno_nemo_conf_parse(&c, data, n, "fuzz", &err)) {
        if (!err.msg[0])
            abort();
    } else if (c.bins < 0 || c.bins > 512 || c.subsampling < 1 || c.subsampling > 64 ||
               c.max_tokens < 0 || c.max_tokens > 1000) {
        abort();
    }
    return 0;
}
