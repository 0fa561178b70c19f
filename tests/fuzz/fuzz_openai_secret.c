/* Short JSON bodies: a request for an ephemeral key in both schemas, whose answer is JSON with the
 * key, and Deepgram's request that names its recording. */
/* covers: protocol/openai_secret.c */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/deepgram.h"
#include "protocol/openai_secret.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one(const char *p, size_t n, bool beta)
{
    struct steno_openai_secret s = {0};
    struct steno_buf out;
    json_t *root;
    steno_err err = {STENO_OK, ""};
    if (steno_openai_secret_parse(&s, p, n, beta, &err)) {
        if (!err.msg[0] || s.session)
            abort();
        return;
    }
    steno_buf_init(&out, 1 << 20);
    if (steno_openai_secret_write(&out, &s,
                                  &(struct steno_openai_secret_answer){"ek_1", "sess_1", 7}))
        abort();
    root = json_loadb(out.data, out.len, 0, NULL);
    if (!root || !strstr(out.data, "ek_1") || s.seconds < 10)
        abort();
    json_decref(root);
    steno_buf_free(&out);
    steno_openai_secret_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char url[64] = "";
    if (!steno_deepgram_url((const char *)data, size, url, sizeof url, NULL) &&
        strlen(url) >= sizeof url)
        abort();
    one((const char *)data, size, false);
    one((const char *)data, size, true);
    return 0;
}
