#include "tools/cli/hypotheses.h"

#include "base/buf.h"
#include "tools/cli/recordings.h"
#include "tools/cli/word_match.h"
#include "steno.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT ((size_t)16 << 20)

/* ---- words ---- */

static size_t split_words(char *s, char **words)
{
    size_t n = 0;
    char *save = NULL;
    for (char *w = strtok_r(s, " ", &save); w && n < WORD_MATCH_MOST;
         w = strtok_r(NULL, " ", &save))
        words[n++] = w;
    return n;
}

static steno_status count_edits(struct hypotheses *h, char *a, char *b, steno_err *err)
{
    char **words = calloc(2 * WORD_MATCH_MOST, sizeof *words);
    long d = -1;
    if (words) {
        char **other = words + WORD_MATCH_MOST;
        const size_t n = split_words(a, words), m = split_words(b, other);
        d = word_match(words, n, other, m, NULL);
        h->words += (long)n;
    }
    free(words);
    if (d < 0)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    h->edits += d;
    return STENO_OK;
}

/* ---- all recordings ---- */

struct comparison {
    struct hypotheses *h;
    steno_model *m[2];
    FILE *out;
    json_t *list; /* NULL: text */
};

static steno_status one(void *arg, const char *path, steno_err *err)
{
    struct comparison *c = arg;
    struct steno_buf text[2];
    steno_status st = STENO_OK;
    for (int k = 0; k < 2; k++) {
        steno_buf_init(&text[k], MAX_TEXT);
        if (!st && steno_buf_puts(&text[k], ""))
            st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
        if (!st)
            st = recordings_transcribe(c->m[k], path, &text[k], err);
    }
    if (!st) {
        const char *a = text[0].data, *b = text[1].data;
        bool same = !strcmp(a, b);
        c->h->files++;
        c->h->differing += !same;
        if (c->list)
            (void)json_array_append_new(c->list, json_pack("{s:s, s:s, s:s, s:b}", "file", path,
                                                           "a", a, "b", b, "same", same));
        else if (!same)
            fprintf(c->out, "%s\n  A: %s\n  B: %s\n", path, a, b);
        st = count_edits(c->h, text[0].data, text[1].data, err);
    }
    for (int k = 0; k < 2; k++)
        steno_buf_free(&text[k]);
    return st;
}

static steno_status open_models(struct comparison *c, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int k = 0; !st && k < 2; k++) {
        struct steno_model_options mo = {
            .cpu = c->h->cpu, .threads = c->h->threads, .plain = c->h->plain && k == 0};
        st = steno_model_open(&c->m[k], c->h->dir[k], &mo, err);
    }
    return st;
}

static void report(const struct comparison *c)
{
    const struct hypotheses *h = c->h;
    double rate = h->words ? 100.0 * (double)h->edits / (double)h->words : 0;
    json_t *j;
    if (!c->list) {
        fprintf(c->out, "%d recording%s, %d differ; %ld of %ld words (%.2f %%)\n", h->files,
                h->files == 1 ? "" : "s", h->differing, h->edits, h->words, rate);
        return;
    }
    j = json_pack("{s:i, s:i, s:I, s:I, s:O}", "recordings", h->files, "differing", h->differing,
                  "words", (json_int_t)h->words, "edits", (json_int_t)h->edits, "results", c->list);
    (void)json_dumpf(j, c->out, JSON_INDENT(2));
    fputs("\n", c->out);
    json_decref(j);
}

steno_status hypotheses_compare(struct hypotheses *h, FILE *out, bool json, steno_err *err)
{
    struct comparison c = {.h = h, .out = out, .list = json ? json_array() : NULL};
    steno_status st = open_models(&c, err);
    if (!st)
        st = recordings_each(h->audio, one, &c, err);
    if (!st && !h->files)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: there is no recording in it", h->audio->v[0]);
    if (!st)
        report(&c);
    for (int k = 0; k < 2; k++)
        steno_model_close(c.m[k]);
    json_decref(c.list);
    return st;
}
