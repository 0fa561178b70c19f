/* The JSON files beside a CTC network over samples, in one object: {"config": {...},
 * "preprocessor":
 * {...}, "vocab": {...}, "tokenizer": {...}, "added": {...}}. They are read or refused with a
 * message; accepted values are within their limits. */
/* covers: engine/speech/families/wav2vec2/conf.c */
#include <stdlib.h>

#include "speech/families/wav2vec2/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_tokens(const struct steno_wav2vec2_conf *c, const struct steno_json_node *root)
{
    steno_tokens *t = NULL;
    int32_t blank = -1;
    steno_err err = {0};
    if (steno_wav2vec2_tokens(&t, &blank, c, steno_json_get(root, "vocab"),
                              steno_json_get(root, "tokenizer"), steno_json_get(root, "added"),
                              &err)) {
        if (!err.msg[0])
            abort();
        return;
    }
    if (blank < 0 || blank >= steno_tokens_count(t) ||
        (c->vocab && steno_tokens_count(t) != c->vocab) ||
        steno_tokens_delimiter(t) >= steno_tokens_count(t))
        abort();
    steno_tokens_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_wav2vec2_conf c;
    steno_json *j = NULL;
    const struct steno_json_node *root;
    steno_err err = {0};
    if (steno_json_parse(&j, data, n, "fuzz", &err))
        return 0;
    root = steno_json_root(j);
    if (steno_wav2vec2_conf_read(&c, steno_json_get(root, "config"),
                                 steno_json_get(root, "preprocessor"), &err)) {
        if (!err.msg[0])
            abort();
    } else {
        if (!c.frame_samples || c.frame_samples >= 16000 || !c.least || c.rate != 16000)
            abort();
        if (c.vocab > 1 << 12)
            c.vocab = 1 << 12; /* larger ones take the same code, and long */
        read_tokens(&c, root);
    }
    steno_json_close(j);
    return 0;
}
