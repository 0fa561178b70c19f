#include "recognizer/events.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXT ((size_t)256 << 20)

/* Make room for `more` elements in each of the given arrays, which share one capacity. */
struct column {
    void **items;
    size_t size;
};

static steno_status grow(const struct column *cols, size_t n_cols, size_t n, size_t more,
                         size_t *cap)
{
    size_t want = *cap ? *cap : 4;
    if (n + more <= *cap)
        return STENO_OK;
    while (want < n + more)
        want *= 2;
    for (size_t i = 0; i < n_cols; i++) {
        void *p = realloc(*cols[i].items, want * cols[i].size);
        if (!p)
            return STENO_ERR_NOMEM;
        *cols[i].items = p;
    }
    *cap = want;
    return STENO_OK;
}

static steno_status reserve(struct steno_events *q, size_t recs, size_t words, size_t alts,
                            size_t tokens)
{
    void *r = q->recs, *w = q->words, *wt = q->word_text;
    void *a = q->alts, *at = q->alt_text, *aw = q->alt_words, *ak = q->alt_tokens, *k = q->tokens;
    steno_status st = grow((struct column[]){{&r, sizeof *q->recs}}, 1, q->n, recs, &q->cap);
    if (!st)
        st = grow((struct column[]){{&w, sizeof *q->words}, {&wt, sizeof *q->word_text}}, 2,
                  q->n_words, words, &q->cap_words);
    if (!st)
        st = grow((struct column[]){{&a, sizeof *q->alts},
                                    {&at, sizeof *q->alt_text},
                                    {&aw, sizeof *q->alt_words},
                                    {&ak, sizeof *q->alt_tokens}},
                  4, q->n_alts, alts, &q->cap_alts);
    if (!st)
        st = grow((struct column[]){{&k, sizeof *q->tokens}}, 1, q->n_tokens, tokens,
                  &q->cap_tokens);
    q->recs = r;
    q->words = w;
    q->word_text = wt;
    q->alts = a;
    q->alt_text = at;
    q->alt_words = aw;
    q->alt_tokens = ak;
    q->tokens = k;
    return st;
}

steno_status steno_events_init(struct steno_events *q)
{
    steno_status st;
    *q = (struct steno_events){0};
    steno_buf_init(&q->text, MAX_TEXT);
    st = steno_buf_reserve(&q->text, 1000);
    return st ? st : reserve(q, 4, 32, 4, 8);
}

void steno_events_free(struct steno_events *q)
{
    steno_buf_free(&q->text);
    free(q->recs);
    free(q->words);
    free(q->word_text);
    free(q->alts);
    free(q->alt_text);
    free(q->alt_words);
    free(q->alt_tokens);
    free(q->tokens);
    *q = (struct steno_events){0};
}

static void cut_back(struct steno_events *q, const struct steno_event_rec *r)
{
    q->text.len = r->text;
    q->n_words = r->words;
    q->n_alts = r->alternatives;
    q->n_tokens = r->tokens;
}

static steno_status add_text(struct steno_events *q, const char *s, size_t *at)
{
    *at = q->text.len;
    return steno_buf_add(&q->text, s, strlen(s) + 1);
}

static steno_status add_words(struct steno_events *q, const struct steno_word *w, size_t n)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++) {
        q->words[q->n_words] = w[i];
        st = add_text(q, w[i].text, &q->word_text[q->n_words++]);
    }
    return st;
}

static steno_status add_parts(struct steno_events *q, const struct steno_event *ev)
{
    size_t at;
    steno_status st = add_text(q, ev->text, &at);
    if (!st)
        st = add_words(q, ev->words, ev->n_words);
    for (size_t i = 0; i < ev->n_alternatives && !st; i++) {
        const struct steno_alternative *a = &ev->alternatives[i];
        size_t k = q->n_alts++;
        q->alts[k] = *a;
        q->alt_words[k] = q->n_words;
        q->alt_tokens[k] = q->n_tokens;
        if (a->n_tokens)
            memcpy(q->tokens + q->n_tokens, a->tokens, a->n_tokens * sizeof *q->tokens);
        q->n_tokens += a->n_tokens;
        st = add_text(q, a->text, &q->alt_text[k]);
        if (!st)
            st = add_words(q, a->words, a->n_words);
    }
    return st;
}

/* The newest unread partial, if too many wait and ev says more about the same segment. */
static bool superseded(const struct steno_events *q, const struct steno_event *ev)
{
    const struct steno_event *last = q->n ? &q->recs[q->n - 1].ev : NULL;
    return last && q->n - q->head > STENO_EVENTS_KEPT && last->kind == STENO_PARTIAL &&
           ev->kind == STENO_PARTIAL && last->segment == ev->segment;
}

steno_status steno_events_add(struct steno_events *q, const struct steno_event *ev)
{
    struct steno_event_rec rec;
    size_t words = ev->n_words, tokens = 0;
    steno_status st;
    for (size_t i = 0; i < ev->n_alternatives; i++) {
        words += ev->alternatives[i].n_words;
        tokens += ev->alternatives[i].n_tokens;
    }
    st = reserve(q, 1, words, ev->n_alternatives, tokens);
    if (st)
        return st;
    if (q->head == q->n) {
        q->head = q->n = q->n_words = q->n_alts = q->n_tokens = 0;
        steno_buf_reset(&q->text);
    } else if (superseded(q, ev)) {
        cut_back(q, &q->recs[--q->n]);
    }
    rec = (struct steno_event_rec){.ev = *ev,
                                   .text = q->text.len,
                                   .words = q->n_words,
                                   .alternatives = q->n_alts,
                                   .tokens = q->n_tokens};
    st = add_parts(q, ev);
    if (st) {
        cut_back(q, &rec);
        return st;
    }
    q->recs[q->n++] = rec;
    return STENO_OK;
}

static void point_words(struct steno_events *q, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++)
        q->words[i].text = q->text.data + q->word_text[i];
}

bool steno_events_next(struct steno_events *q, struct steno_event *ev)
{
    const struct steno_event_rec *r;
    if (q->head == q->n)
        return false;
    r = &q->recs[q->head++];
    *ev = r->ev;
    ev->text = q->text.data + r->text;
    ev->words = q->words + r->words;
    ev->alternatives = q->alts + r->alternatives;
    point_words(q, r->words, ev->n_words);
    for (size_t i = r->alternatives; i < r->alternatives + ev->n_alternatives; i++) {
        struct steno_alternative *a = &q->alts[i];
        a->text = q->text.data + q->alt_text[i];
        a->words = q->words + q->alt_words[i];
        a->tokens = q->tokens + q->alt_tokens[i];
        point_words(q, q->alt_words[i], a->n_words);
    }
    return true;
}

/* ---- for those who make them ---- */

steno_status steno_event_words_reserve(struct steno_event_words *o, size_t n, size_t least)
{
    size_t cap = o->cap ? o->cap : least;
    struct steno_word *p;
    if (n <= o->cap)
        return STENO_OK;
    while (cap < n)
        cap *= 2;
    p = realloc(o->w, cap * sizeof *p);
    if (!p)
        return STENO_ERR_NOMEM;
    o->w = p;
    o->cap = cap;
    return STENO_OK;
}

uint64_t steno_event_fingerprint(const char *text, size_t stable)
{
    uint64_t h = 14695981039346656037u ^ stable; /* FNV-1a */
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}
