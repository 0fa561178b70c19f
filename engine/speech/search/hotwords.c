#include "speech/search/hotwords.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define NONE (-1)

/* A prefix of phrases. Before the build its successors are a list, after it a sorted range. */
struct state {
    int32_t token;
    float score;    /* of the token */
    float sum;      /* of the tokens from the start */
    float complete; /* sum of this phrase and of those that are suffixes of it; 0: none is */
    bool end;       /* a phrase ends here */
    int32_t fail;   /* state of the longest suffix that begins a phrase */
    int32_t output; /* state of the longest suffix that is a phrase; NONE: none is */
    int32_t child, sibling; /* before the build */
    int32_t first, n;       /* after it: range in `arcs` */
};

struct arc {
    int32_t token, to;
};

struct steno_hotwords {
    struct state *states; /* [n] */
    size_t n, cap;
    struct arc *arcs; /* [n - 1] */
};

static steno_status no_memory_for_hot_words(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "hotwords: out of memory");
}

static steno_status add_state(steno_hotwords *h, int32_t token, steno_err *err)
{
    if (STENO_RESERVE(&h->states, &h->cap, h->n + 1))
        return no_memory_for_hot_words(err);
    h->states[h->n++] =
        (struct state){.token = token, .output = NONE, .child = NONE, .sibling = NONE};
    return STENO_OK;
}

steno_status steno_hotwords_open(steno_hotwords **out, steno_err *err)
{
    steno_hotwords *h = calloc(1, sizeof *h);
    steno_status st = h ? add_state(h, NONE, err) : no_memory_for_hot_words(err);
    if (st)
        steno_hotwords_close(h);
    else
        *out = h;
    return st;
}

void steno_hotwords_close(steno_hotwords *h)
{
    if (!h)
        return;
    free(h->states);
    free(h->arcs);
    free(h);
}

/* ---- building -------------------------------------------------------------------------------- */

static int32_t find_child(const steno_hotwords *h, int32_t at, int32_t token)
{
    int32_t c = h->states[at].child;
    while (c != NONE && h->states[c].token != token)
        c = h->states[c].sibling;
    return c;
}

/* Scores of a state, given those of the one before. Sums of phrases that were added before are not
 * raised past this token, as in icefall. */
static void set_scores(struct state *s, float before, float score, bool end)
{
    s->score = fmaxf(s->score, score);
    s->sum = before + s->score;
    s->end |= end;
    s->complete = s->end ? s->sum : 0;
}

steno_status steno_hotwords_add(steno_hotwords *h, const int32_t *tokens, size_t n, float score,
                                steno_err *err)
{
    int32_t at = STENO_HOTWORDS_START;
    for (size_t i = 0; i < n; i++) {
        int32_t to = find_child(h, at, tokens[i]);
        if (to == NONE) {
            steno_status st;
            if (h->n > STENO_HOTWORDS_TOKENS)
                return steno_fail(err, STENO_ERR_LIMIT, "hotwords: more than %d tokens",
                                  STENO_HOTWORDS_TOKENS);
            st = add_state(h, tokens[i], err);
            if (st)
                return st;
            to = (int32_t)h->n - 1;
            h->states[to].score = score;
            h->states[to].sibling = h->states[at].child;
            h->states[at].child = to;
        }
        set_scores(&h->states[to], h->states[at].sum, score, i + 1 == n);
        at = to;
    }
    return STENO_OK;
}

static int by_token(const void *a, const void *b)
{
    const struct arc *x = a, *y = b;
    return (x->token > y->token) - (x->token < y->token);
}

/* The successor of a state along a token; NONE. */
static int32_t follow(const steno_hotwords *h, int32_t at, int32_t token)
{
    const struct arc *arcs = h->arcs + h->states[at].first;
    int32_t low = 0, high = h->states[at].n;
    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        if (arcs[mid].token < token)
            low = mid + 1;
        else
            high = mid;
    }
    return low < h->states[at].n && arcs[low].token == token ? arcs[low].to : NONE;
}

/* The state of the longest proper suffix of `at`, token included, that begins a phrase. */
static int32_t follow_fail(const steno_hotwords *h, int32_t at, int32_t token)
{
    while (at != STENO_HOTWORDS_START) {
        int32_t to;
        at = h->states[at].fail;
        to = follow(h, at, token);
        if (to != NONE)
            return to;
    }
    return STENO_HOTWORDS_START;
}

/* Phrases that end in state s as a suffix of it. */
static void link_output(const steno_hotwords *h, struct state *s)
{
    int32_t o = s->fail;
    while (o != STENO_HOTWORDS_START && !h->states[o].end)
        o = h->states[o].fail;
    s->output = o != STENO_HOTWORDS_START ? o : NONE;
    if (s->output != NONE)
        s->complete += h->states[o].complete;
}

steno_status steno_hotwords_build(steno_hotwords *h, steno_err *err)
{
    int32_t used = 0;
    int32_t *queue = malloc(h->n * sizeof *queue); /* breadth first: suffixes are done before */
    h->arcs = malloc(h->n * sizeof *h->arcs);
    if (!queue || !h->arcs) {
        free(queue);
        return no_memory_for_hot_words(err);
    }
    for (size_t i = 0; i < h->n; i++) {
        struct state *s = &h->states[i];
        s->first = used;
        for (int32_t c = s->child; c != NONE; c = h->states[c].sibling)
            h->arcs[used++] = (struct arc){h->states[c].token, c};
        s->n = used - s->first;
        qsort(h->arcs + s->first, (size_t)s->n, sizeof *h->arcs, by_token);
    }
    queue[0] = STENO_HOTWORDS_START;
    for (size_t head = 0, tail = 1; head < tail; head++) {
        int32_t at = queue[head];
        for (int32_t i = 0; i < h->states[at].n; i++) {
            struct arc a = h->arcs[h->states[at].first + i];
            h->states[a.to].fail = follow_fail(h, at, a.token);
            link_output(h, &h->states[a.to]);
            queue[tail++] = a.to;
        }
    }
    free(queue);
    return STENO_OK;
}

/* ---- matching -------------------------------------------------------------------------------- */

int32_t steno_hotwords_step(const steno_hotwords *h, int32_t state, int32_t token, float *score)
{
    const struct state *from = &h->states[state], *to;
    int32_t next = follow(h, state, token);
    if (next != NONE) {
        to = &h->states[next];
        *score = to->score;
    } else {
        next = follow_fail(h, state, token);
        to = &h->states[next];
        *score = to->sum - from->sum;
    }
    if (to->complete == 0)
        return next;
    /* a phrase is complete: its sum stays, that of a longer one that it may begin goes */
    *score += (to->end ? to->sum : h->states[to->output].sum) - to->sum;
    return STENO_HOTWORDS_START;
}

size_t steno_hotwords_n_next(const steno_hotwords *h, int32_t state)
{
    return (size_t)h->states[state].n;
}

int32_t steno_hotwords_next(const steno_hotwords *h, int32_t state, size_t i)
{
    return h->arcs[(size_t)h->states[state].first + i].token;
}

float steno_hotwords_end(const steno_hotwords *h, int32_t state)
{
    return -h->states[state].sum;
}
