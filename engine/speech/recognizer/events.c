#include "speech/recognizer/events.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXT ((size_t)256 << 20)

/* One of the arrays that share a capacity. */
struct column {
    void **items;
    size_t size;
};

static steno_status grow_events(const struct column *cols, size_t n_cols, size_t n, size_t more,
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

/* How much of each kind an event has. */
struct counts {
    size_t words, alts, tokens, ids, sections;
};

static struct counts count(const struct steno_event *ev)
{
    struct counts c = {.words = ev->n_words, .alts = ev->n_alternatives, .tokens = ev->n_tokens};
    for (size_t i = 0; i < ev->n_alternatives; i++) {
        c.words += ev->alternatives[i].n_words;
        c.tokens += ev->alternatives[i].n_tokens;
        c.ids += ev->alternatives[i].n_ids;
    }
    c.sections = ev->n_sections;
    for (size_t i = 0; i < ev->n_sections; i++)
        c.ids += ev->sections[i].n_ids;
    return c;
}

static steno_status reserve_events(struct steno_events *q, size_t recs, const struct counts *c)
{
    void *r = q->recs, *w = q->words, *wt = q->word_text;
    void *a = q->alts, *at = q->alt_text, *aw = q->alt_words, *ak = q->alt_tokens;
    void *ai = q->alt_ids, *k = q->tokens, *d = q->ids;
    void *s = q->sections, *s_text = q->section_text, *s_ids = q->section_ids;
    steno_status st = grow_events((struct column[]){{&r, sizeof *q->recs}}, 1, q->n, recs, &q->cap);
    if (!st)
        st = grow_events((struct column[]){{&w, sizeof *q->words}, {&wt, sizeof *q->word_text}}, 2,
                         q->n_words, c->words, &q->cap_words);
    if (!st)
        st = grow_events((struct column[]){{&a, sizeof *q->alts},
                                           {&at, sizeof *q->alt_text},
                                           {&aw, sizeof *q->alt_words},
                                           {&ak, sizeof *q->alt_tokens},
                                           {&ai, sizeof *q->alt_ids}},
                         5, q->n_alts, c->alts, &q->cap_alts);
    if (!st)
        st = grow_events((struct column[]){{&k, sizeof *q->tokens}}, 1, q->n_tokens, c->tokens,
                         &q->cap_tokens);
    if (!st)
        st = grow_events((struct column[]){{&d, sizeof *q->ids}}, 1, q->n_ids, c->ids, &q->cap_ids);
    if (!st && c->sections) /* few models have any */
        st = grow_events((struct column[]){{&s, sizeof *q->sections},
                                           {&s_text, sizeof *q->section_text},
                                           {&s_ids, sizeof *q->section_ids}},
                         3, q->n_sections, c->sections, &q->cap_sections);
    q->recs = r;
    q->words = w;
    q->word_text = wt;
    q->alts = a;
    q->alt_text = at;
    q->alt_words = aw;
    q->alt_tokens = ak;
    q->alt_ids = ai;
    q->tokens = k;
    q->ids = d;
    q->sections = s;
    q->section_text = s_text;
    q->section_ids = s_ids;
    return st;
}

steno_status steno_events_init(struct steno_events *q)
{
    steno_status st;
    *q = (struct steno_events){0};
    steno_buf_init(&q->text, MAX_TEXT);
    st = steno_buf_reserve(&q->text, 1000);
    return st ? st : reserve_events(q, 4, &(struct counts){32, 4, 64, 8, 0});
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
    free(q->alt_ids);
    free(q->tokens);
    free(q->ids);
    free(q->sections);
    free(q->section_text);
    free(q->section_ids);
    *q = (struct steno_events){0};
}

static void cut_back(struct steno_events *q, const struct steno_event_rec *r)
{
    q->text.len = r->text;
    q->n_words = r->words;
    q->n_alts = r->alternatives;
    q->n_tokens = r->tokens;
    q->n_ids = r->ids;
    q->n_sections = r->sections;
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

static void add_tokens(struct steno_events *q, const struct steno_token *t, size_t n)
{
    if (n)
        memcpy(q->tokens + q->n_tokens, t, n * sizeof *t);
    q->n_tokens += n;
}

static void add_ids(struct steno_events *q, const int32_t *ids, size_t n)
{
    if (n)
        memcpy(q->ids + q->n_ids, ids, n * sizeof *ids);
    q->n_ids += n;
}

static steno_status add_section(struct steno_events *q, const struct steno_section *s)
{
    size_t k = q->n_sections++;
    q->sections[k] = *s;
    q->section_ids[k] = q->n_ids;
    add_ids(q, s->ids, s->n_ids);
    return add_text(q, s->text, &q->section_text[k]);
}

static steno_status add_alternative(struct steno_events *q, const struct steno_alternative *a)
{
    size_t k = q->n_alts++;
    steno_status st;
    q->alts[k] = *a;
    q->alt_words[k] = q->n_words;
    q->alt_tokens[k] = q->n_tokens;
    q->alt_ids[k] = q->n_ids;
    add_tokens(q, a->tokens, a->n_tokens);
    add_ids(q, a->ids, a->n_ids);
    st = add_text(q, a->text, &q->alt_text[k]);
    return st ? st : add_words(q, a->words, a->n_words);
}

static steno_status add_parts(struct steno_events *q, const struct steno_event *ev)
{
    size_t at;
    steno_status st = add_text(q, ev->text, &at);
    if (!st)
        st = add_words(q, ev->words, ev->n_words);
    add_tokens(q, ev->tokens, ev->n_tokens);
    for (size_t i = 0; i < ev->n_alternatives && !st; i++)
        st = add_alternative(q, &ev->alternatives[i]);
    for (size_t i = 0; i < ev->n_sections && !st; i++)
        st = add_section(q, &ev->sections[i]);
    return st;
}

/* Whether ev replaces the newest event: too many are unread, and both are partials of one segment.
 */
static bool superseded(const struct steno_events *q, const struct steno_event *ev)
{
    const struct steno_event *last = q->n ? &q->recs[q->n - 1].ev : NULL;
    return last && q->n - q->head > STENO_EVENTS_KEPT && last->kind == STENO_PARTIAL &&
           ev->kind == STENO_PARTIAL && last->segment == ev->segment;
}

steno_status steno_events_add(struct steno_events *q, const struct steno_event *ev)
{
    struct steno_event_rec rec;
    const struct counts c = count(ev);
    steno_status st = reserve_events(q, 1, &c);
    if (st)
        return st;
    if (q->head == q->n) {
        q->head = q->n = q->n_words = q->n_alts = q->n_tokens = q->n_ids = 0;
        q->n_sections = 0;
        steno_buf_reset(&q->text);
    } else if (superseded(q, ev)) {
        cut_back(q, &q->recs[--q->n]);
    }
    rec = (struct steno_event_rec){.ev = *ev,
                                   .text = q->text.len,
                                   .words = q->n_words,
                                   .alternatives = q->n_alts,
                                   .tokens = q->n_tokens,
                                   .ids = q->n_ids,
                                   .sections = q->n_sections};
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
    ev->tokens = q->tokens + r->tokens;
    ev->alternatives = q->alts + r->alternatives;
    ev->sections = q->sections + r->sections;
    point_words(q, r->words, ev->n_words);
    for (size_t i = r->sections; i < r->sections + ev->n_sections; i++) {
        q->sections[i].text = q->text.data + q->section_text[i];
        q->sections[i].ids = q->ids + q->section_ids[i];
    }
    for (size_t i = r->alternatives; i < r->alternatives + ev->n_alternatives; i++) {
        struct steno_alternative *a = &q->alts[i];
        a->text = q->text.data + q->alt_text[i];
        a->words = q->words + q->alt_words[i];
        a->tokens = q->tokens + q->alt_tokens[i];
        a->ids = q->ids + q->alt_ids[i];
        point_words(q, q->alt_words[i], a->n_words);
    }
    return true;
}
