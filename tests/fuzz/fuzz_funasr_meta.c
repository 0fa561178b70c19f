/* Metadata of FunASR's exports, one "key=value" a line: it is read or refused with a message, and
 * what is accepted is within its limits. */
/* covers: engine/speech/families/funasr/meta.c */
#include <stdlib.h>
#include <string.h>

#include "speech/families/funasr/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define BINS 80
#define MAX_KEYS 64

struct entries {
    const char *key[MAX_KEYS], *value[MAX_KEYS];
    size_t n;
};

static const char *get(const void *arg, const char *key)
{
    const struct entries *e = arg;
    for (size_t i = 0; i < e->n; i++)
        if (strcmp(e->key[i], key) == 0)
            return e->value[i];
    return NULL;
}

static void split(char *text, struct entries *e)
{
    char *line = text;
    while (line && *line && e->n < MAX_KEYS) {
        char *next = strchr(line, '\n'), *value;
        if (next)
            *next++ = '\0';
        value = strchr(line, '=');
        if (value) {
            *value++ = '\0';
            e->key[e->n] = line;
            e->value[e->n++] = value;
        }
        line = next;
    }
}

static void check_front(const struct steno_funasr_source *s)
{
    float frame[BINS * 64] = {0};
    struct steno_lfr lfr;
    steno_cmvn *cmvn = NULL;
    steno_err err = {0};
    if (steno_funasr_front_meta(s, BINS, &lfr, &cmvn, &err)) {
        if (!err.msg[0])
            abort();
        return;
    }
    if (!lfr.window || lfr.window > 64 || !lfr.shift)
        abort();
    steno_cmvn_apply(cmvn, frame, 1);
    steno_cmvn_close(cmvn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct entries e = {.n = 0};
    const struct steno_funasr_source s = {get, &e, "fuzz.onnx"};
    struct steno_sense_voice_meta m;
    steno_err err = {0};
    char *text = malloc(n + 1);
    if (!text)
        return 0;
    memcpy(text, data, n);
    text[n] = '\0';
    split(text, &e);
    check_front(&s);
    if (steno_sense_voice_meta_read(&s, &m, &err)) {
        if (!err.msg[0])
            abort();
    } else if (m.vocab < 2 || m.any < 0 || m.with_itn < 0 || m.language[0] < -1) {
        abort();
    }
    free(text);
    return 0;
}
