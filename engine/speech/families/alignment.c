#include "speech/families/alignment_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define BEAM 400.0                      /* log: of a line without times */
#define RECORD_BYTES ((size_t)32 << 20) /* of the record of its paths */

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_timed(const struct steno_line *l)
{
    return l->to > l->from;
}

static steno_status check_lines(const struct steno_line *lines, size_t n, size_t *bytes,
                                steno_err *err)
{
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        utf8proc_int32_t c;
        const size_t length = strlen(lines[i].text);
        if (!isfinite(lines[i].from) || !isfinite(lines[i].to) ||
            (i && is_timed(&lines[i]) && lines[i].from < lines[i - 1].from))
            return steno_fail(err, STENO_ERR_INVAL,
                              "text: line %zu: its times are no numbers, or before those of the "
                              "line before",
                              i + 1);
        for (size_t at = 0; at < length;) {
            const utf8proc_ssize_t k = utf8proc_iterate(
                (const utf8proc_uint8_t *)lines[i].text + at, (utf8proc_ssize_t)(length - at), &c);
            if (k <= 0)
                return steno_fail(err, STENO_ERR_INVAL, "text: line %zu: byte %zu is not UTF-8",
                                  i + 1, at + 1);
            at += (size_t)k;
        }
        *bytes += length + 1;
        if (*bytes > STENO_ALIGNMENT_TEXT)
            return steno_fail(err, STENO_ERR_LIMIT, "text: more than %zu bytes",
                              STENO_ALIGNMENT_TEXT);
    }
    return STENO_OK;
}

static void copy_lines(steno_alignment *a, const struct steno_line *lines, size_t n)
{
    char *at = a->text;
    for (size_t i = 0; i < n; i++) {
        const bool joins = i && !is_timed(&lines[i]) && !is_timed(&lines[i - 1]);
        a->lines[i].text = memcpy(at, lines[i].text, strlen(lines[i].text) + 1);
        a->lines[i].word = a->n_words;
        a->lines[i].n_words = steno_alignment_cut_words(at, a->words + a->n_words);
        a->n_words += a->lines[i].n_words;
        at += strlen(at) + 1;
        if (!joins)
            a->groups[a->n_groups++] =
                (struct steno_alignment_group){.from = lines[i].from, .to = lines[i].to, .unit = i};
    }
    a->n_lines = n;
}

steno_status steno_alignment_open(steno_alignment **out, const struct steno_line *lines, size_t n,
                                  steno_err *err)
{
    steno_alignment *a;
    size_t bytes, words = 0;
    steno_status st = check_lines(lines, n, &bytes, err);
    if (st)
        return st;
    for (size_t i = 0; i < n; i++)
        words += steno_alignment_cut_words(lines[i].text, NULL);
    a = calloc(1, sizeof *a);
    if (a) {
        a->text = malloc(bytes + 1);
        a->lines = calloc(n + 1, sizeof *a->lines);
        a->words = calloc(words + 1, sizeof *a->words);
        a->groups = calloc(n + 1, sizeof *a->groups);
    }
    if (!a || !a->text || !a->lines || !a->words || !a->groups) {
        steno_alignment_close(a);
        return steno_fail(err, STENO_ERR_NOMEM, "text: out of memory");
    }
    copy_lines(a, lines, n);
    *out = a;
    return STENO_OK;
}

void steno_alignment_close(steno_alignment *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->n_groups; i++)
        steno_align_free(&a->groups[i].search);
    free(a->text);
    free(a->lines);
    free(a->words);
    free(a->units);
    free(a->tokens);
    free(a->begins);
    free(a->groups);
    free(a);
}

/* ---- frames ---------------------------------------------------------------------------------- */

void steno_alignment_attach(steno_alignment *a, int32_t vocab, int32_t blank)
{
    a->vocab = vocab;
    a->blank = blank;
    a->attached = true;
}

bool steno_alignment_attached(const steno_alignment *a)
{
    return a->attached;
}

static int64_t frame_at(const steno_alignment *a, double seconds, double otherwise)
{
    const double frame = floor(a->zero + seconds * a->per_second);
    return (int64_t)fmin(fmax(frame, 0), otherwise);
}

void steno_alignment_set_clock(steno_alignment *a, double zero, double per_second)
{
    a->zero = zero;
    a->per_second = per_second;
    for (size_t i = 0; i < a->n_groups; i++) {
        struct steno_alignment_group *g = &a->groups[i];
        const bool timed = g->to > g->from;
        g->first = timed ? frame_at(a, g->from, 1e15) : 0;
        g->end = timed ? frame_at(a, g->to, 1e15) + 1 : INT64_MAX;
    }
}

static void end_group(steno_alignment *a, struct steno_alignment_group *g)
{
    if (g->state == GROUP_RUNS) {
        const struct steno_span *spans = steno_align_end(&g->search);
        for (size_t i = 0; i < g->n_units; i++)
            a->units[g->unit + i].span = spans[i];
        steno_align_free(&g->search);
    }
    g->state = GROUP_DONE;
}

static steno_status begin_group(steno_alignment *a, struct steno_alignment_group *g)
{
    const struct steno_align_options o = {.vocab = a->vocab,
                                          .blank = a->blank,
                                          .delimiter = a->delimiter,
                                          .tokens = a->tokens + g->unit,
                                          .begins = a->begins + g->unit,
                                          .n = g->n_units,
                                          .open_ends = true,
                                          .beam = BEAM,
                                          .record_bytes = RECORD_BYTES,
                                          .first = a->frames};
    g->state = GROUP_RUNS;
    return steno_align_begin(&g->search, &o);
}

/* The part of n next frames that belongs to a group. */
static steno_status push_group(steno_alignment *a, struct steno_alignment_group *g, const float *x,
                               size_t n)
{
    const int64_t end = a->frames + (int64_t)n;
    int64_t from = a->frames, to = end < g->end ? end : g->end;
    steno_status st = STENO_OK;
    if (g->state == GROUP_WAITS && end > g->first) {
        from = g->first > a->frames ? g->first : a->frames;
        st = begin_group(a, g);
        g->search.o.first = from;
    }
    if (!st && g->state == GROUP_RUNS && to > from)
        st = steno_align_push(&g->search, x ? x + (from - a->frames) * a->vocab : NULL,
                              (size_t)(to - from));
    if (end >= g->end)
        end_group(a, g);
    return st;
}

/* x NULL: nobody speaks. */
static steno_status push_frames(steno_alignment *a, const float *x, size_t n)
{
    steno_status st = STENO_OK;
    for (size_t i = a->open; i < a->n_groups && !st; i++) {
        if (a->groups[i].first >= a->frames + (int64_t)n)
            break;
        st = push_group(a, &a->groups[i], x, n);
    }
    while (a->open < a->n_groups && a->groups[a->open].state == GROUP_DONE)
        a->open++;
    a->frames += (int64_t)n;
    return st;
}

steno_status steno_alignment_push(steno_alignment *a, const float *scores, size_t n)
{
    return push_frames(a, scores, n);
}

steno_status steno_alignment_push_at(steno_alignment *a, int64_t frame, const float *scores,
                                     size_t n)
{
    const int64_t old = a->frames - frame;
    steno_status st = STENO_OK;
    if (old < 0)
        st = push_frames(a, NULL, (size_t)-old);
    if (st || old >= (int64_t)n)
        return st;
    return old > 0 ? push_frames(a, scores + old * a->vocab, n - (size_t)old)
                   : push_frames(a, scores, n);
}

int64_t steno_alignment_frames(const steno_alignment *a)
{
    return a->frames;
}

void steno_alignment_end(steno_alignment *a)
{
    for (size_t i = 0; i < a->n_groups; i++)
        end_group(a, &a->groups[i]);
}

/* ---- results --------------------------------------------------------------------------------- */

const struct steno_aligned_line *steno_alignment_lines(const steno_alignment *a, size_t *n)
{
    *n = a->n_lines;
    return a->lines;
}

const struct steno_aligned_word *steno_alignment_words(const steno_alignment *a, size_t *n)
{
    *n = a->n_words;
    return a->words;
}

const struct steno_aligned_unit *steno_alignment_units(const steno_alignment *a, size_t *n)
{
    *n = a->n_units;
    return a->units;
}
