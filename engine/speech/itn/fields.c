#include "speech/itn/fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/list.h"

#define MAX_KEYS 64 /* of a token */

/* Tokens whose keys have an order, and the order. */
static const struct {
    const char *name, *keys;
} orders[] = {
    {"date", "year month day preserve_order"},        {"fraction", "sign numerator denominator"},
    {"measure", "numerator denominator value units"}, {"money", "currency value decimal quantity"},
    {"time", "hour minute second noon zone"},         {"telephone", "country_code number_part"},
    {"electronic", "username domain protocol"},
};

struct slice {
    const char *p;
    size_t n;
};

struct key {
    struct slice name, value; /* value: with its quotes */
    uint32_t begin, end;      /* in the tagged text */
    bool written;
};

struct parser {
    const char *text;
    size_t n, at;
    struct slice name;
    struct key key[MAX_KEYS];
    size_t n_keys;
    size_t begin; /* of the token */
};

static bool slice_is(struct slice s, const char *text, size_t n)
{
    return s.n == n && !memcmp(s.p, text, n);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void skip_blanks(struct parser *p)
{
    while (p->at < p->n && p->text[p->at] == ' ')
        p->at++;
}

static bool accept_text(struct parser *p, const char *text)
{
    const size_t n = strlen(text);
    if (n > p->n - p->at || memcmp(p->text + p->at, text, n))
        return false;
    p->at += n;
    return true;
}

static bool read_name(struct parser *p, struct slice *out)
{
    const size_t begin = p->at;
    while (p->at < p->n && (((p->text[p->at] | 32) >= 'a' && (p->text[p->at] | 32) <= 'z') ||
                            p->text[p->at] == '_'))
        p->at++;
    *out = (struct slice){p->text + begin, p->at - begin};
    return out->n > 0;
}

static bool read_value(struct parser *p, struct slice *out)
{
    const size_t begin = p->at;
    if (!accept_text(p, "\""))
        return false;
    while (p->at < p->n && p->text[p->at] != '"')
        p->at += p->text[p->at] == '\\' ? 2 : 1;
    if (p->at >= p->n)
        return false;
    p->at++;
    *out = (struct slice){p->text + begin, p->at - begin};
    return true;
}

/* A token with its keys. False: it is damaged. */
static bool read_token_fields(struct parser *p)
{
    size_t last = p->begin = p->at;
    p->n_keys = 0;
    if (!read_name(p, &p->name) || !accept_text(p, " {"))
        return false;
    for (skip_blanks(p); !accept_text(p, "}"); skip_blanks(p)) {
        struct key *k = &p->key[p->n_keys];
        if (p->n_keys == MAX_KEYS || !read_name(p, &k->name) || !accept_text(p, ": ") ||
            !read_value(p, &k->value))
            return false;
        k->begin = (uint32_t)last;
        k->end = (uint32_t)(last = p->at);
        k->written = false;
        p->n_keys++;
    }
    if (p->n_keys)
        p->key[p->n_keys - 1].end = (uint32_t)p->at;
    return p->n_keys > 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Write key i. Its field begins where the one written before it ended: at `*begin`. */
static steno_status write_key(struct parser *p, size_t i, struct steno_buf *out,
                              struct steno_itn_field *field, size_t *begin)
{
    struct key *k = &p->key[i];
    steno_status st = steno_buf_printf(out, "%.*s: ", (int)k->name.n, k->name.p);
    k->written = true;
    if (!st)
        st = steno_buf_add(out, k->value.p, k->value.n);
    if (!st)
        st = steno_buf_puts(out, " ");
    *field = (struct steno_itn_field){.tagged = k->begin,
                                      .tagged_end = k->end,
                                      .ordered = (uint32_t)*begin,
                                      .ordered_end = (uint32_t)out->len};
    *begin = out->len;
    return st;
}

/* The keys that this token's verbalizer wants first; "": none. */
static const char *order_of(const struct parser *p)
{
    for (size_t i = 0; i < p->n_keys; i++)
        if (slice_is(p->key[i].name, "preserve_order", 14) &&
            slice_is(p->key[i].value, "\"true\"", 6))
            return "";
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (slice_is(p->name, orders[i].name, strlen(orders[i].name)))
            return orders[i].keys;
    return "";
}

static steno_status write_token(struct parser *p, struct steno_buf *out, struct steno_itn_fields *f)
{
    struct steno_itn_field *field, *last = NULL;
    size_t begin = out->len + (out->len > 0);
    steno_status st = STENO_RESERVE(&f->field, &f->cap, f->n + p->n_keys);
    if (st)
        return st;
    field = f->field + f->n;
    st = steno_buf_printf(out, "%s%.*s { ", out->len ? " " : "", (int)p->name.n, p->name.p);
    for (struct steno_list_item i = steno_list_next(order_of(p)); !st && i.n;
         i = steno_list_next(i.p + i.n))
        for (size_t k = 0; !st && k < p->n_keys; k++)
            if (slice_is(p->key[k].name, i.p, i.n) && !p->key[k].written)
                st = write_key(p, k, out, last = &field[k], &begin);
    for (size_t k = 0; !st && k < p->n_keys; k++)
        if (!p->key[k].written)
            st = write_key(p, k, out, last = &field[k], &begin);
    if (!st)
        st = steno_buf_puts(out, "}");
    if (!st && last)
        last->ordered_end = (uint32_t)out->len;
    f->n += st ? 0 : p->n_keys;
    return st;
}

steno_status steno_itn_fields_order(const char *text, size_t n, struct steno_buf *out,
                                    struct steno_itn_fields *f)
{
    struct parser p = {.text = text, .n = n};
    steno_status st = n < UINT32_MAX ? STENO_OK : STENO_ERR_LIMIT;
    steno_buf_reset(out);
    f->n = 0;
    for (skip_blanks(&p); !st && p.at < p.n; skip_blanks(&p))
        st = read_token_fields(&p) ? write_token(&p, out, f) : STENO_ERR_FORMAT;
    return st;
}
