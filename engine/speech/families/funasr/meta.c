#include "speech/families/funasr/meta.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/metadata.h"

#define MAX_WINDOW 64
#define MAX_QUERY 4096 /* a row of SenseVoice's embedding of languages and text norms */

const char *const steno_funasr_languages[STENO_FUNASR_LANGUAGES] = {"zh", "en", "yue", "ja", "ko"};

steno_status steno_funasr_optional(const struct steno_funasr_source *s, const char *key, int low,
                                   int high, int *out, steno_err *err)
{
    const char *text = s->get(s->arg, key);
    char *end;
    long v;
    if (!text)
        return STENO_OK;
    errno = 0;
    v = strtol(text, &end, 10);
    if (end == text || *end || errno || v < low || v > high)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata: %s is '%.40s', expected a whole number from %d to %d",
                          s->file, key, text, low, high);
    *out = (int)v;
    return STENO_OK;
}

steno_status steno_funasr_number(const struct steno_funasr_source *s, const char *key, int low,
                                 int high, int *out, steno_err *err)
{
    if (!s->get(s->arg, key))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata: %s is missing, expected a whole number from %d to %d",
                          s->file, key, low, high);
    return steno_funasr_optional(s, key, low, high, out, err);
}

steno_status steno_funasr_lfr_meta(const struct steno_funasr_source *s, struct steno_lfr *lfr,
                                   steno_err *err)
{
    int window = 0, shift = 0;
    steno_status st = steno_funasr_number(s, "lfr_window_size", 1, MAX_WINDOW, &window, err);
    if (!st)
        st = steno_funasr_number(s, "lfr_window_shift", 1, MAX_WINDOW, &shift, err);
    if (!st)
        *lfr = (struct steno_lfr){(size_t)window, (size_t)shift, true};
    return st;
}

steno_status steno_funasr_front_meta(const struct steno_funasr_source *s, size_t bins,
                                     struct steno_lfr *lfr, steno_cmvn **cmvn, steno_err *err)
{
    float *list = NULL;
    size_t n = 0;
    steno_status st = steno_funasr_lfr_meta(s, lfr, err);
    if (!st) {
        n = bins * lfr->window;
        list = malloc(2 * n * sizeof *list);
        if (!list)
            st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", s->file);
    }
    if (!st)
        st = steno_metadata_list(s->get(s->arg, "neg_mean"), "neg_mean", s->file, list, n, err);
    if (!st)
        st = steno_metadata_list(s->get(s->arg, "inv_stddev"), "inv_stddev", s->file, list + n, n,
                                 err);
    if (!st && (st = steno_cmvn_open_inverse(cmvn, list, list + n, n, err)))
        st = steno_fail_in(err, st == STENO_ERR_INVAL ? STENO_ERR_FORMAT : st,
                           "%s: metadata: neg_mean, inv_stddev", s->file);
    free(list);
    return st;
}

steno_status steno_sense_voice_meta_read(const struct steno_funasr_source *s,
                                         struct steno_sense_voice_meta *out, steno_err *err)
{
    struct steno_sense_voice_meta m = {0};
    steno_status st =
        steno_funasr_number(s, "vocab_size", 2, STENO_FUNASR_MAX_VOCAB, &m.vocab, err);
    if (!st)
        st = steno_funasr_number(s, "lang_auto", 0, MAX_QUERY, &m.any, err);
    if (!st)
        st = steno_funasr_number(s, "with_itn", 0, MAX_QUERY, &m.with_itn, err);
    if (!st)
        st = steno_funasr_number(s, "without_itn", 0, MAX_QUERY, &m.without_itn, err);
    for (size_t i = 0; i < STENO_FUNASR_LANGUAGES && !st; i++) {
        char key[16];
        snprintf(key, sizeof key, "lang_%s", steno_funasr_languages[i]);
        m.language[i] = -1;
        st = steno_funasr_optional(s, key, 0, MAX_QUERY, &m.language[i], err);
    }
    if (!st)
        *out = m;
    return st;
}
