/* Moonshine's tokens.txt, plain or in base64, its tokenizer.bin and streaming_config.json: any
 * bytes are parsed or refused with a message. */
/* covers: engine/speech/families/moonshine/vocabulary.c engine/speech/families/moonshine/live.c */
#include <stdlib.h>

#include "speech/families/moonshine/live.h"
#include "speech/families/moonshine/vocabulary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(steno_status st, steno_tokens *t, const steno_err *err)
{
    if (st && !err->msg[0])
        abort();
    for (int32_t i = 0; !st && i < steno_tokens_count(t); i++) {
        size_t len;
        if (!steno_tokens_piece(t, i) || !steno_tokens_text(t, i, &len))
            abort();
    }
    if (!st)
        steno_tokens_close(t);
}

static void check_conf(const uint8_t *data, size_t n)
{
    struct steno_moonshine_live_conf c;
    steno_json *j;
    steno_err err = {0};
    steno_status st;
    if (steno_json_parse(&j, data, n, "fuzz", NULL))
        return;
    st = steno_moonshine_live_conf_read(&c, steno_json_root(j), "fuzz", &err);
    if (st ? !err.msg[0]
           : c.depth < 1 || c.vocab < 2 || c.begin >= c.vocab || c.end >= c.vocab || c.most < 1)
        abort();
    steno_json_close(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_tokens *t = NULL;
    steno_err err = {0};
    steno_status st = steno_moonshine_tokens_parse(&t, (const char *)data, n, "fuzz", &err);
    check(st, t, &err);
    err.msg[0] = '\0';
    t = NULL;
    st = steno_moonshine_tokenizer_parse(&t, (const char *)data, n, "fuzz", &err);
    check(st, t, &err);
    check_conf(data, n);
    return 0;
}
