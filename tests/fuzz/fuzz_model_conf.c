/* model.conf: any text is read or refused with a message; accepted values are within their
 * limits. */
/* covers: engine/speech/families/ctc/conf.c */
#include <stdlib.h>
#include <string.h>

#include "speech/families/ctc/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_model_conf c;
    steno_err err = {0};
    char *text = malloc(n + 1);
    if (!text)
        return 0;
    memcpy(text, data, n);
    text[n] = '\0';
    if (steno_model_conf_parse(&c, text, "fuzz", &err)) {
        if (!err.msg[0])
            abort();
    } else if (c.shift_frames > c.window_frames || c.shift_frames % c.subsampling ||
               c.network[0] == '/' || strstr(c.tokens, "/../") || c.sample_rate < 8000) {
        abort();
    }
    free(text);
    return 0;
}
