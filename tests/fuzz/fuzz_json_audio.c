/* A JSON message with audio in it, in parts of a length that the first byte names. Any split gives
 * the same result. If the message is JSON whose audio is base64, then what remains is JSON too, and
 * the audio is what the whole text says. */
/* covers: protocol/json_audio.c */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "protocol/json_audio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct taken {
    struct steno_json_audio a;
    struct steno_buf rest, audio;
};

static void take(struct taken *t, const char *p, size_t n, size_t step)
{
    memset(t, 0, sizeof *t);
    steno_buf_init(&t->rest, n + 1);
    steno_buf_init(&t->audio, n + 4);
    for (size_t k; n; n -= k, p += k) {
        k = n < step ? n : step;
        if (steno_json_audio_push(&t->a, p, k, &t->rest, &t->audio, NULL))
            abort();
    }
}

static bool same(const struct steno_buf *a, const struct steno_buf *b)
{
    return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

static void compare(const struct taken *t, const char *p, size_t n)
{
    json_t *whole = json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);
    json_t *rest = json_loadb(t->rest.data, t->rest.len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *audio = json_object_get(whole, "audio");
    if (whole && !rest)
        abort();
    if (json_is_string(audio) && !t->a.fail.code &&
        !json_string_length(json_object_get(rest, "audio"))) {
        const size_t digits = json_string_length(audio);
        char *bytes = malloc(STENO_BASE64_DECODED(digits));
        size_t len = 0;
        if (bytes &&
            (steno_base64_decode(json_string_value(audio), digits, bytes, &len) != digits ||
             len != t->audio.len || (len && memcmp(bytes, t->audio.data, len) != 0)))
            abort();
        free(bytes);
    }
    json_decref(whole);
    json_decref(rest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct taken once, split;
    const char *p = (const char *)data + 1;
    if (n < 2)
        return 0;
    take(&once, p, n - 1, n);
    take(&split, p, n - 1, 1u + *data % 16);
    if (!same(&once.rest, &split.rest) || !same(&once.audio, &split.audio) ||
        once.a.fail.code != split.a.fail.code)
        abort();
    compare(&once, p, n - 1);
    steno_buf_free(&once.rest);
    steno_buf_free(&once.audio);
    steno_buf_free(&split.rest);
    steno_buf_free(&split.audio);
    return 0;
}
