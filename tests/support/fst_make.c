#include "tests/support/fst_make.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES ((size_t)1 << 17)

struct writer {
    unsigned char *p;
    size_t n;
};

void fst_make_start(struct fst_make *m)
{
    m->n_states = m->n_arcs = 0;
    (void)fst_make_state(m, INFINITY);
}

int32_t fst_make_state(struct fst_make *m, float final)
{
    if (m->n_states == FST_MAKE_STATES)
        abort();
    m->final[m->n_states] = final;
    return (int32_t)m->n_states++;
}

void fst_make_add(struct fst_make *m, int32_t from, int in, int out, float weight, int32_t to)
{
    if (m->n_arcs == FST_MAKE_ARCS)
        abort();
    m->arc[m->n_arcs++] = (struct fst_make_arc){from, in, out, weight, to};
}

void fst_make_path(struct fst_make *m, int32_t from, const char *in, const char *out, float weight,
                   int32_t to)
{
    const size_t a = strlen(in), b = strlen(out), n = a > b ? a : b;
    for (size_t i = 0; i < n; i++) {
        const int32_t next = i + 1 == n ? to : fst_make_state(m, INFINITY);
        fst_make_add(m, from, i < a ? (unsigned char)in[i] : 0, i < b ? (unsigned char)out[i] : 0,
                     i ? 0 : weight, next);
        from = next;
    }
}

static void put(struct writer *w, const void *p, size_t n)
{
    if (n > MAX_BYTES - w->n)
        abort();
    memcpy(w->p + w->n, p, n);
    w->n += n;
}

static void put_i32(struct writer *w, int32_t v)
{
    put(w, &v, 4);
}

static void put_i64(struct writer *w, int64_t v)
{
    put(w, &v, 8);
}

static void put_text(struct writer *w, const char *s)
{
    put_i32(w, (int32_t)strlen(s));
    put(w, s, strlen(s));
}

static void put_symbols(struct writer *w)
{
    put_i32(w, 2125658996);
    put_text(w, "symbols");
    put_i64(w, 2);
    put_i64(w, 2);
    put_text(w, "<eps>");
    put_i64(w, 0);
    put_text(w, "a");
    put_i64(w, 97);
}

static void put_arcs(struct writer *w, const struct fst_make *m, int32_t state)
{
    for (size_t i = 0; i < m->n_arcs; i++)
        if (m->arc[i].from == state) {
            put_i32(w, m->arc[i].in);
            put_i32(w, m->arc[i].out);
            put(w, &m->arc[i].weight, 4);
            put_i32(w, m->arc[i].to);
        }
}

static int32_t count_arcs(const struct fst_make *m, int32_t state)
{
    int32_t n = 0;
    for (size_t i = 0; i < m->n_arcs; i++)
        n += m->arc[i].from == state;
    return n;
}

static void align(struct writer *w)
{
    while (w->n % 16)
        put(w, "", 1);
}

static void put_const(struct writer *w, const struct fst_make *m, bool aligned)
{
    int32_t at = 0;
    if (aligned)
        align(w);
    for (int32_t s = 0; s < (int32_t)m->n_states; s++) {
        put(w, &m->final[s], 4);
        put_i32(w, at);
        put_i32(w, count_arcs(m, s));
        put_i64(w, 0);
        at += count_arcs(m, s);
    }
    if (aligned)
        align(w);
    for (int32_t s = 0; s < (int32_t)m->n_states; s++)
        put_arcs(w, m, s);
}

unsigned char *fst_make_bytes(const struct fst_make *m, enum fst_make_form form, size_t *n)
{
    const bool vector = form == FST_MAKE_VECTOR || form == FST_MAKE_SYMBOLS;
    struct writer w = {.p = malloc(MAX_BYTES)};
    if (!w.p)
        abort();
    put_i32(&w, 2125659606);
    put_text(&w, vector ? "vector" : "const");
    put_text(&w, "standard");
    put_i32(&w, form == FST_MAKE_ALIGNED ? 1 : 2);
    put_i32(&w, form == FST_MAKE_SYMBOLS ? 3 : 0);
    put_i64(&w, 0);
    put_i64(&w, 0);
    put_i64(&w, (int64_t)m->n_states);
    put_i64(&w, vector ? 0 : (int64_t)m->n_arcs);
    for (int i = 0; i < 2 && form == FST_MAKE_SYMBOLS; i++)
        put_symbols(&w);
    for (int32_t s = 0; vector && s < (int32_t)m->n_states; s++) {
        put(&w, &m->final[s], 4);
        put_i64(&w, count_arcs(m, s));
        put_arcs(&w, m, s);
    }
    if (!vector)
        put_const(&w, m, form == FST_MAKE_ALIGNED);
    *n = w.n;
    return w.p;
}

unsigned char *fst_make_archive(unsigned char *const *file, const size_t *size, size_t count,
                                size_t *n)
{
    struct writer w = {.p = malloc(MAX_BYTES)};
    int64_t places[8];
    if (!w.p || count > 8)
        abort();
    put_i32(&w, 2125656924);
    put_i32(&w, 1);
    for (size_t i = 0; i < count; i++) {
        const char key[] = {'r', (char)('0' + i), 0};
        places[i] = (int64_t)w.n;
        put_text(&w, key);
        put(&w, file[i], size[i]);
    }
    put_i64(&w, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        put_i64(&w, places[i]);
    put_i64(&w, (int64_t)count);
    *n = w.n;
    return w.p;
}

void fst_make_small(struct fst_make *m)
{
    int32_t end;
    fst_make_start(m);
    end = fst_make_state(m, 0.25f);
    fst_make_path(m, 0, "ab", "x", 1, end);
    fst_make_path(m, 0, "a", "y", 2, end);
}
