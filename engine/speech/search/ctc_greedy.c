#include "speech/search/ctc.h"

#include <math.h>
#include <stdlib.h>

#include "base/array.h"

struct steno_ctc_greedy {
    struct steno_ctc_options opt;
    struct steno_span *spans;
    size_t n, cap;
    double score;
    int32_t prev; /* likeliest token of the previous frame; the blank at the start */
    int64_t frame, last_sound;
};

steno_status steno_ctc_greedy_open(steno_ctc_greedy **out, const struct steno_ctc_options *opt,
                                   steno_err *err)
{
    steno_ctc_greedy *g;
    if (opt->vocab < 2 || opt->blank < 0 || opt->blank >= opt->vocab)
        return steno_fail(err, STENO_ERR_INVAL, "CTC: blank %d in a vocabulary of %d",
                          (int)opt->blank, (int)opt->vocab);
    g = calloc(1, sizeof *g);
    if (!g)
        return steno_fail(err, STENO_ERR_NOMEM, "CTC: out of memory");
    g->opt = *opt;
    steno_ctc_greedy_restart(g, 0);
    *out = g;
    return STENO_OK;
}

void steno_ctc_greedy_close(steno_ctc_greedy *g)
{
    if (!g)
        return;
    free(g->spans);
    free(g);
}

void steno_ctc_greedy_reset(steno_ctc_greedy *g)
{
    g->n = 0;
    g->score = 0;
}

void steno_ctc_greedy_restart(steno_ctc_greedy *g, int64_t frame)
{
    steno_ctc_greedy_reset(g);
    g->prev = g->opt.blank;
    g->frame = frame;
    g->last_sound = -1;
}

/* The blank wins ties and rows of NaN: silence is the harmless answer. */
static int32_t likeliest(const struct steno_ctc_options *opt, const float *row)
{
    int32_t best = opt->blank;
    float top = row[best] - opt->blank_penalty;
    if (isnan(top))
        top = -INFINITY;
    for (int32_t v = 0; v < opt->vocab; v++)
        if (row[v] > top && v != opt->blank) {
            top = row[v];
            best = v;
        }
    return best;
}

static steno_status add_span(steno_ctc_greedy *g, int32_t token, float logp)
{
    if (STENO_RESERVE(&g->spans, &g->cap, g->n + 1))
        return STENO_ERR_NOMEM;
    g->spans[g->n++] =
        (struct steno_span){.token = token, .peak = logp, .first = g->frame, .last = g->frame};
    return STENO_OK;
}

static steno_status step_greedy(steno_ctc_greedy *g, const float *row)
{
    int32_t v = likeliest(&g->opt, row);
    float logp = isnan(row[v]) ? -INFINITY : row[v];
    if (v != g->opt.blank) {
        g->last_sound = g->frame;
        if (v != g->prev) {
            steno_status st = add_span(g, v, logp);
            if (st)
                return st;
        } else if (g->n) {
            struct steno_span *s = &g->spans[g->n - 1];
            s->last = g->frame;
            if (logp > s->peak)
                s->peak = logp;
        }
        g->score += (double)logp;
    } else {
        g->score += (double)(logp - g->opt.blank_penalty);
    }
    g->prev = v;
    g->frame++;
    return STENO_OK;
}

steno_status steno_ctc_greedy_push(steno_ctc_greedy *g, const float *scores, size_t frames)
{
    for (size_t t = 0; t < frames; t++) {
        steno_status st = step_greedy(g, scores + t * (size_t)g->opt.vocab);
        if (st)
            return st;
    }
    return STENO_OK;
}

struct steno_hyp steno_ctc_greedy_best(const steno_ctc_greedy *g)
{
    return (struct steno_hyp){.spans = g->spans, .n = g->n, .score = g->score};
}

int64_t steno_ctc_greedy_last_sound(const steno_ctc_greedy *g)
{
    return g->last_sound;
}

int64_t steno_ctc_greedy_frames(const steno_ctc_greedy *g)
{
    return g->frame;
}
