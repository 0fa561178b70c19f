#include "speech/search/align.h"

#include <math.h>
#include <stdlib.h>

#define NONE (-1e30)

static steno_status reserve_alignment(struct steno_align *a, size_t frames, size_t states, size_t n)
{
    size_t cells;
    if (!steno_mul_size(frames, states, &cells))
        return STENO_ERR_NOMEM;
    if (cells > a->cap_back) {
        free(a->back);
        a->back = malloc(cells);
        a->cap_back = a->back ? cells : 0;
    }
    if (states > a->cap_states) {
        free(a->now);
        free(a->next);
        a->now = malloc(states * sizeof *a->now);
        a->next = malloc(states * sizeof *a->next);
        a->cap_states = a->now && a->next ? states : 0;
    }
    if (n > a->cap_spans) {
        free(a->spans);
        a->spans = malloc(n * sizeof *a->spans);
        a->cap_spans = a->spans ? n : 0;
    }
    return a->cap_back >= cells && a->cap_states >= states && a->cap_spans >= n ? STENO_OK
                                                                                : STENO_ERR_NOMEM;
}

void steno_align_free(struct steno_align *a)
{
    free(a->back);
    free(a->now);
    free(a->next);
    free(a->spans);
    *a = (struct steno_align){0};
}

/* Minimum of frames for the tokens: equal neighbours need a blank between them. */
static size_t frames_needed(const int32_t *tokens, size_t n)
{
    size_t need = n;
    for (size_t i = 1; i < n; i++)
        need += tokens[i] == tokens[i - 1];
    return need;
}

static double frame_score(const float *row, int32_t c)
{
    return row[c] > -1e10F ? (double)row[c] : -1e10;
}

/* back[t][s]: how many states the best path advanced to reach s at t: 0, 1 or 2. */
static void forward(struct steno_align *a, const float *x, size_t frames, int32_t vocab,
                    int32_t blank, const int32_t *tokens, size_t n)
{
    size_t states = 2 * n + 1;
    for (size_t s = 0; s < states; s++)
        a->now[s] = NONE;
    a->now[0] = frame_score(x, blank);
    a->now[1] = frame_score(x, tokens[0]);
    for (size_t t = 1; t < frames; t++) {
        const float *row = x + t * (size_t)vocab;
        uint8_t *back = a->back + t * states;
        double *swap = a->now;
        for (size_t s = 0; s < states; s++) {
            double best = a->now[s];
            int32_t c = s % 2 ? tokens[s / 2] : blank;
            back[s] = 0;
            if (s >= 1 && a->now[s - 1] > best) {
                best = a->now[s - 1];
                back[s] = 1;
            }
            if (s >= 3 && s % 2 && c != tokens[s / 2 - 1] && a->now[s - 2] > best) {
                best = a->now[s - 2];
                back[s] = 2;
            }
            a->next[s] = best > NONE / 2 ? best + frame_score(row, c) : NONE;
        }
        a->now = a->next;
        a->next = swap;
    }
}

static void trace(struct steno_align *a, const float *x, size_t frames, int32_t vocab,
                  const int32_t *tokens, size_t n)
{
    size_t states = 2 * n + 1,
           s = a->now[states - 1] > a->now[states - 2] ? states - 1 : states - 2;
    for (size_t i = 0; i < n; i++)
        a->spans[i] = (struct steno_span){.token = tokens[i], .peak = -INFINITY, .first = -1};
    for (size_t t = frames; t-- > 0;) {
        if (s % 2) {
            struct steno_span *p = &a->spans[s / 2];
            float v = x[t * (size_t)vocab + (size_t)p->token];
            if (p->first < 0)
                p->last = (int64_t)t;
            p->first = (int64_t)t;
            if (v > p->peak)
                p->peak = v;
        }
        if (t)
            s -= a->back[t * states + s];
    }
}

static void spread(struct steno_align *a, const float *x, size_t frames, int32_t vocab,
                   const int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t t = i * frames / n;
        a->spans[i] = (struct steno_span){.token = tokens[i],
                                          .peak = x[t * (size_t)vocab + (size_t)tokens[i]],
                                          .first = (int64_t)t,
                                          .last = (int64_t)t};
    }
}

steno_status steno_align_run(struct steno_align *a, const float *x, size_t frames, int32_t vocab,
                             int32_t blank, const int32_t *tokens, size_t n,
                             const struct steno_span **spans)
{
    steno_status st = reserve_alignment(a, frames, 2 * n + 1, n ? n : 1);
    if (st)
        return st;
    *spans = a->spans;
    if (!n)
        return STENO_OK;
    if (frames_needed(tokens, n) > frames) {
        spread(a, x, frames, vocab, tokens, n);
        return STENO_OK;
    }
    forward(a, x, frames, vocab, blank, tokens, n);
    trace(a, x, frames, vocab, tokens, n);
    return STENO_OK;
}
