#include "speech/recognizer/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define MOST_BYTES ((size_t)256 << 20)

/* A block that an event's parts are copied to; NULL: they are only measured. */
struct copies {
    unsigned char *block;
    size_t used;
};

/* Copy n elements. NULL while measuring. */
static void *copy(struct copies *c, const void *from, size_t n, size_t size)
{
    const size_t at = c->used, align = _Alignof(max_align_t);
    c->used = (at + n * size + align - 1) / align * align;
    if (c->block && n)
        memcpy(c->block + at, from, n * size);
    return c->block ? c->block + at : NULL;
}

static const char *copy_text(struct copies *c, const char *text)
{
    return copy(c, text, strlen(text) + 1, 1);
}

static const struct steno_word *copy_words(struct copies *c, const struct steno_word *w, size_t n)
{
    struct steno_word *to = copy(c, w, n, sizeof *w);
    for (size_t i = 0; i < n; i++) {
        const char *text = copy_text(c, w[i].text);
        if (to)
            to[i].text = text;
    }
    return to;
}

static const struct steno_alternative *
copy_alternatives(struct copies *c, const struct steno_alternative *a, size_t n)
{
    struct steno_alternative *to = copy(c, a, n, sizeof *a);
    for (size_t i = 0; i < n; i++) {
        struct steno_alternative one = a[i];
        one.text = copy_text(c, one.text);
        one.words = copy_words(c, one.words, one.n_words);
        one.tokens = copy(c, one.tokens, one.n_tokens, sizeof *one.tokens);
        one.ids = copy(c, one.ids, one.n_ids, sizeof *one.ids);
        if (to)
            to[i] = one;
    }
    return to;
}

static const struct steno_section *copy_sections(struct copies *c, const struct steno_section *s,
                                                 size_t n)
{
    struct steno_section *to = copy(c, s, n, sizeof *s);
    for (size_t i = 0; i < n; i++) {
        struct steno_section one = s[i];
        one.text = copy_text(c, one.text);
        one.ids = copy(c, one.ids, one.n_ids, sizeof *one.ids);
        if (to)
            to[i] = one;
    }
    return to;
}

static struct steno_event copy_event(struct copies *c, struct steno_event ev)
{
    ev.text = copy_text(c, ev.text);
    ev.words = copy_words(c, ev.words, ev.n_words);
    ev.tokens = copy(c, ev.tokens, ev.n_tokens, sizeof *ev.tokens);
    ev.alternatives = copy_alternatives(c, ev.alternatives, ev.n_alternatives);
    ev.sections = copy_sections(c, ev.sections, ev.n_sections);
    return ev;
}

void steno_events_free(struct steno_events *q)
{
    for (size_t i = 0; i < q->cap; i++)
        free(q->slots[i].block);
    free(q->slots);
    *q = (struct steno_events){0};
}

/* Whether ev replaces the newest event: too many are unread, and both are partials of one segment.
 */
static bool superseded(const struct steno_events *q, const struct steno_event *ev)
{
    const struct steno_event *last = q->n ? &q->slots[q->n - 1].ev : NULL;
    return last && q->n - q->head > STENO_EVENTS_KEPT && last->kind == STENO_PARTIAL &&
           ev->kind == STENO_PARTIAL && last->segment == ev->segment;
}

/* A slot behind the last one, with room for `used` bytes. */
static steno_status add_slot(struct steno_events *q, size_t used, struct steno_event_slot **out)
{
    const size_t had = q->cap;
    steno_status st = STENO_RESERVE(&q->slots, &q->cap, q->n + 1);
    if (st)
        return st;
    memset(q->slots + had, 0, (q->cap - had) * sizeof *q->slots);
    *out = &q->slots[q->n];
    st = STENO_RESERVE(&(*out)->block, &(*out)->cap, used);
    if (st)
        return st;
    (*out)->used = used;
    q->bytes += used;
    q->n++;
    return STENO_OK;
}

steno_status steno_events_add(struct steno_events *q, const struct steno_event *ev)
{
    struct copies measured = {0};
    struct steno_event_slot *slot;
    steno_status st;
    (void)copy_event(&measured, *ev);
    if (q->head == q->n)
        q->head = q->n = q->bytes = 0;
    else if (superseded(q, ev))
        q->bytes -= q->slots[--q->n].used;
    if (measured.used > MOST_BYTES - q->bytes)
        return STENO_ERR_LIMIT;
    st = add_slot(q, measured.used, &slot);
    if (!st)
        slot->ev = copy_event(&(struct copies){.block = slot->block}, *ev);
    return st;
}

bool steno_events_next(struct steno_events *q, struct steno_event *ev)
{
    if (q->head == q->n)
        return false;
    *ev = q->slots[q->head++].ev;
    return true;
}
