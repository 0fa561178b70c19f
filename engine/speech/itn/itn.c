#include "speech/itn/itn.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "speech/itn/fields.h"
#include "speech/itn/internal.h"
#include "speech/itn/rewrite.h"

#define MAX_TEXT ((size_t)64 << 20)

struct steno_itn_writer {
    steno_rewrite *rewrite;
    struct steno_buf text, tagged, ordered;
    struct steno_itn_fields fields;
    struct steno_itn_origin *origin, *before; /* of each byte of the text; of that one before */
    size_t cap_origin, cap_before;
};

steno_itn_writer *steno_itn_writer_new(void)
{
    steno_itn_writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    steno_buf_init(&w->text, MAX_TEXT);
    steno_buf_init(&w->tagged, MAX_TEXT);
    steno_buf_init(&w->ordered, MAX_TEXT);
    w->rewrite = steno_rewrite_new();
    if (!w->rewrite) {
        steno_itn_writer_free(w);
        return NULL;
    }
    return w;
}

void steno_itn_writer_free(steno_itn_writer *w)
{
    if (!w)
        return;
    steno_rewrite_free(w->rewrite);
    steno_buf_free(&w->text);
    steno_buf_free(&w->tagged);
    steno_buf_free(&w->ordered);
    free(w->fields.field);
    free(w->origin);
    free(w->before);
    free(w);
}

/* The bytes that a path writes. */
static steno_status write_path(const struct steno_rewrite_path *p, struct steno_buf *out)
{
    steno_status st;
    size_t n = 0;
    steno_buf_reset(out);
    st = steno_buf_reserve(out, p->n);
    for (size_t i = 0; !st && i < p->n; i++)
        if (p->step[i].out)
            out->data[n++] = (char)p->step[i].out;
    if (!st) {
        out->len = n;
        out->data[n] = '\0';
    }
    return st;
}

/* ---- tagger and verbalizer ------------------------------------------------------------------- */

/* The bytes of the spoken text that each field was read from: those that the tagger's path reads
 * while it writes the field. */
static void find_spoken(struct steno_itn_fields *fields, const struct steno_rewrite_path *p)
{
    struct steno_itn_field *f = fields->field, *end = f + fields->n;
    uint32_t in = 0, out = 0;
    for (size_t i = 0; i < p->n && f < end; i++) {
        out += p->step[i].out != 0;
        while (f < end && out > f->tagged_end)
            f++;
        if (p->step[i].in && f < end && out >= f->tagged) {
            f->spoken = f->spoken_end ? f->spoken : in;
            f->spoken_end = in + 1;
        }
        in += p->step[i].in != 0;
    }
}

static bool is_inside(char c) /* a character of UTF-8, behind its first byte */
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* Whole characters, without blanks at the ends, and bytes as in the text before trimming. */
static void trim_spoken(struct steno_itn_fields *fields, const char *text, uint32_t shift)
{
    for (size_t k = 0; k < fields->n; k++) {
        struct steno_itn_field *f = &fields->field[k];
        while (f->spoken && is_inside(text[f->spoken]))
            f->spoken--;
        while (is_inside(text[f->spoken_end]))
            f->spoken_end++;
        while (f->spoken < f->spoken_end && text[f->spoken] == ' ')
            f->spoken++;
        while (f->spoken < f->spoken_end && text[f->spoken_end - 1] == ' ')
            f->spoken_end--;
        f->spoken += shift;
        f->spoken_end += shift;
    }
}

static int by_order(const void *a, const void *b)
{
    const struct steno_itn_field *x = a, *y = b;
    return x->ordered < y->ordered ? -1 : x->ordered > y->ordered;
}

/* The origin of each byte that the verbalizer's path writes: that of the field which it reads. */
static void find_origins(const struct steno_itn_fields *fields, const struct steno_rewrite_path *p,
                         struct steno_itn_origin *origin)
{
    const struct steno_itn_field *f = fields->field, *end = f + fields->n;
    uint32_t in = 0, last = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        in += p->step[i].in != 0;
        while (f < end && in > f->ordered_end)
            last = f++->spoken_end;
        if (!p->step[i].out)
            continue;
        if (f < end && in >= f->ordered && p->step[i].out != ' ')
            origin[n++] = (struct steno_itn_origin){f->spoken, f->spoken_end};
        else
            origin[n++] = (struct steno_itn_origin){last, last};
    }
}

/* One stage: true in *read if the transducer reads the text. */
static steno_status rewrite_stage(steno_itn_writer *w, const struct steno_fst *f,
                                  const struct steno_buf *in, struct steno_buf *out,
                                  struct steno_rewrite_path *p)
{
    steno_status st = steno_rewrite_run(w->rewrite, f, in->data ? in->data : "", in->len, p);
    if (!st)
        st = write_path(p, out);
    if (!st)
        st = STENO_RESERVE(&w->before, &w->cap_before, out->len + 1);
    return st;
}

/* text -> tagged -> ordered -> text. shift: bytes that were cut from the spoken text's begin. */
static steno_status write_tagged(steno_itn_writer *w, const struct steno_itn *g, uint32_t shift,
                                 bool *read)
{
    struct steno_rewrite_path p;
    steno_status st = rewrite_stage(w, &g->stage.fst[0], &w->text, &w->tagged, &p);
    *read = false;
    if (st || !p.found)
        return st;
    st = steno_itn_fields_order(w->tagged.data, w->tagged.len, &w->ordered, &w->fields);
    if (st == STENO_ERR_FORMAT || (!st && !w->fields.n))
        return STENO_OK;
    if (st)
        return st;
    find_spoken(&w->fields, &p);
    trim_spoken(&w->fields, w->text.data, shift);
    qsort(w->fields.field, w->fields.n, sizeof *w->fields.field, by_order);
    st = rewrite_stage(w, &g->stage.fst[1], &w->ordered, &w->tagged, &p);
    if (st || !p.found || !w->tagged.len)
        return st;
    find_origins(&w->fields, &p, w->before);
    *read = true;
    return st;
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* The origins of what a path writes of a text with origins of its own. Bytes that are copied have
 * those of the copied one. A run of other steps is one piece: all that it writes is from all that
 * it reads. */
static void follow_path(const struct steno_rewrite_path *p, const struct steno_itn_origin *old,
                        size_t n_old, struct steno_itn_origin *origin)
{
    size_t in = 0, out = 0;
    for (size_t i = 0, end; i < p->n; i = end) {
        const size_t from = in, begin = out;
        const bool copied = p->step[i].in && p->step[i].in == p->step[i].out;
        struct steno_itn_origin o;
        for (end = i; end < p->n; end++) {
            if ((p->step[end].in && p->step[end].in == p->step[end].out) != copied ||
                (copied && end > i))
                break;
            in += p->step[end].in != 0;
            out += p->step[end].out != 0;
        }
        o.begin = from < n_old ? old[from].begin : n_old ? old[n_old - 1].end : 0;
        o.end = in > from ? old[in - 1].end : o.begin;
        for (size_t k = begin; k < out; k++)
            origin[k] = o;
    }
}

static void swap_origins(steno_itn_writer *w)
{
    struct steno_itn_origin *p = w->origin;
    const size_t cap = w->cap_origin;
    w->origin = w->before;
    w->cap_origin = w->cap_before;
    w->before = p;
    w->cap_before = cap;
}

/* Rewrite the text with each transducer; one that does not read it leaves it alone. */
static steno_status write_chain(steno_itn_writer *w, const struct steno_itn *g, bool *read)
{
    steno_status st = STENO_OK;
    *read = false;
    for (size_t i = 0; !st && i < g->stage.n; i++) {
        struct steno_rewrite_path p;
        struct steno_buf old = w->text;
        st = rewrite_stage(w, &g->stage.fst[i], &w->text, &w->tagged, &p);
        if (st || !p.found || !w->tagged.len)
            continue;
        follow_path(&p, w->origin, w->text.len, w->before);
        swap_origins(w);
        w->text = w->tagged;
        w->tagged = old;
        *read = true;
    }
    return st;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* The text without blanks at its ends, each byte its own origin. */
static steno_status take_text_itn(steno_itn_writer *w, const char *text, uint32_t *shift)
{
    size_t n;
    const char *p = text + strspn(text, " \t\r\n");
    steno_status st;
    *shift = (uint32_t)(p - text);
    for (n = strlen(p); n && strchr(" \t\r\n", p[n - 1]);)
        n--;
    steno_buf_reset(&w->text);
    st = steno_buf_add(&w->text, p, n);
    if (!st)
        st = STENO_RESERVE(&w->origin, &w->cap_origin, n + 1);
    for (uint32_t i = 0; !st && i < n; i++)
        w->origin[i] = (struct steno_itn_origin){*shift + i, *shift + i + 1};
    return st;
}

steno_status steno_itn_write(steno_itn_writer *w, const steno_itn *g, const char *text,
                             struct steno_itn_text *out, steno_err *err)
{
    uint32_t shift = 0;
    bool read = false;
    size_t begin = 0;
    steno_status st = take_text_itn(w, text, &shift);
    if (!st && w->text.len && g->tagged)
        st = write_tagged(w, g, shift, &read);
    else if (!st && w->text.len)
        st = write_chain(w, g, &read);
    if (st)
        return steno_fail(err, st, "inverse text normalization: %s",
                          st == STENO_ERR_LIMIT ? "the text is too long for this grammar"
                                                : "out of memory");
    if (read && g->tagged) {
        struct steno_buf old = w->text;
        swap_origins(w);
        w->text = w->tagged;
        w->tagged = old;
    }
    while (w->text.len && w->text.data[w->text.len - 1] == ' ')
        steno_buf_cut(&w->text, w->text.len - 1);
    while (begin < w->text.len && w->text.data[begin] == ' ')
        begin++;
    *out =
        (struct steno_itn_text){w->text.data + begin, w->text.len - begin, w->origin + begin, read};
    return STENO_OK;
}

bool steno_itn_decides(const steno_itn *g)
{
    return g->tagged;
}

steno_status steno_itn_decided(steno_itn_writer *w, const steno_itn *g, const char *text,
                               bool shielded, size_t *decided)
{
    *decided = 0;
    return g->tagged ? steno_rewrite_decided(w->rewrite, &g->stage.fst[0], text, strlen(text),
                                             shielded ? "electronic" : NULL, decided)
                     : STENO_OK;
}

void steno_itn_close(steno_itn *g)
{
    if (!g)
        return;
    steno_fst_list_free(&g->stage);
    free(g);
}
