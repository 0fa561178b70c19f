/* Before: s = moves of Q K' over chunks of 2 w or 3 w rows [+ moves of a mask], -inf outside the
 *             window; p = Softmax(s); [Where(off, 0, p)]; y = moves of p V over chunks
 * After:  y = ai.steno:LocalAttention(Q, K, V, mask, off)      (nn/ops/op_local_attention.c)
 * Longformer's attention (Beltagy et al. 2020) without dilation and without global tokens.
 *
 * Exports write the chunks in many ways: Slices and Concats, Gathers by computed indices,
 * ScatterNDs, one for each chunk (transformers up to version 4), paddings and Reshapes that turn
 * diagonals into columns. So the pass does not look for a pattern. Between Q, K, mask and the
 * Softmax, and again between the Softmax, V and y, it allows only operators whose results are
 * polynomials of what they read (local.h). It computes these polynomials to learn what they are.
 * The scores of numbered rows, and then of numbered keys, tell which row and which key each score
 * belongs to. Random integers tell whether every score is the product of the two rows plus the mask
 * of the key, and whether every result is the sum of weighted values. Two different polynomials of
 * degree 2 agree in few points (Schwartz 1980, Zippel 1979), and there are thousands of scores. A
 * length that is not fixed is tried with several numbers of chunks.
 *
 * Not replaced: attention with global tokens (more leaves, more columns), with dilation (other
 * keys), with a fill above -inf outside the window, and time before batch unless the batch is 1. */
#include "nn/passes/local.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of a leaf, and of the scores, in a trial: each is computed about ten times, by operators
 * that move elements one by one. */
#define MAX_NUMBERS ((size_t)1 << 20)
#define MAX_SUM (1 << 23) /* f32 holds integers up to twice that */
#define MAX_CHUNKS 5
#define MAX_CHAIN 32

enum { Q, K, V, MASK, OFF, SIDES };

struct side {
    steno_value_id v;
    int64_t batch, rows, cols; /* of the trial at hand */
};

struct local {
    struct steno_graph *g;
    const struct steno_pass_env *env;
    const bool *fixed;
    struct steno_node *softmax;
    struct steno_moved scores, mix; /* what is before the Softmax, and behind it */
    struct side side[SIDES];
    steno_value_id end;
    int32_t chain[MAX_CHAIN + 1]; /* nodes from the Softmax to the end, read by no other */
    int n_chain;
    bool late, end_late; /* Q, K and V, or the result, are [T, B, columns] */
    bool swapped;        /* the leaf of K comes before that of Q */
    int64_t columns;     /* of a row of scores */
    /* found by the trials */
    int64_t heads, size, v_size, window;
    float scale;
    struct local *last; /* the attention that was found last, or nothing: no text */
    /* of one trial */
    struct steno_moved_sizes sizes;
    steno_arena *mem;
    float *s;           /* [n] scores */
    size_t n;           /* all scores */
    int32_t *row, *key; /* [n / columns], [n]: number of row t of head h, or -1 where s is -inf */
};

static int64_t row_number(const struct local *l, int64_t b, int64_t t, int64_t h)
{
    return (b * l->side[Q].rows + t) * l->heads + h;
}

/* Where row `of` of all heads begins in [B, T, heads * per], or in [T, B, heads * per] if late. */
static int64_t place_local(const struct local *l, int64_t of, int64_t per, bool late)
{
    const int64_t h = of % l->heads, t = of / l->heads % l->side[Q].rows;
    const int64_t b = of / l->heads / l->side[Q].rows;
    return late ? ((t * l->side[Q].batch + b) * l->heads + h) * per : of * per;
}

/* ---- the extents of a trial ---- */

/* Read Q, K or V as [B, T, columns], or [T, B, columns]. */
static bool local_rows_of(struct local *l, int which)
{
    struct side *d = &l->side[which];
    const struct steno_value *v = &l->g->values[d->v];
    if (v->dtype != STENO_F32 || v->shape.rank != 3)
        return false;
    d->batch = steno_moved_extent(&l->sizes, v->shape.dim[l->late]);
    d->rows = steno_moved_extent(&l->sizes, v->shape.dim[!l->late]);
    d->cols = v->shape.dim[2];
    return d->batch > 0 && d->rows > 0 && d->cols > 0;
}

static bool local_fits(struct local *l)
{
    for (int i = Q; i <= V; i++)
        if (!local_rows_of(l, i) || l->side[i].batch != l->side[Q].batch ||
            l->side[i].rows != l->side[Q].rows)
            return false;
    return l->side[Q].cols == l->side[K].cols;
}

/* A leaf of the trial, all zeros. */
static bool leaf(struct local *l, steno_value_id v, struct steno_tensor *t)
{
    const struct steno_value *x = &l->g->values[v];
    size_t bytes;
    *t = (struct steno_tensor){.dtype = x->dtype, .shape = x->shape};
    for (int i = 0; i < t->shape.rank; i++)
        t->shape.dim[i] = steno_moved_extent(&l->sizes, x->shape.dim[i]);
    if (x->shape.rank < 0 || steno_shape_bytes(&t->shape, t->dtype, &bytes) ||
        bytes / sizeof(float) > MAX_NUMBERS)
        return false;
    t->data = steno_arena_alloc_tensor(l->mem, bytes);
    if (t->data)
        memset(t->data, 0, bytes);
    return t->data != NULL;
}

/* ---- trials of the scores ---- */

static uint32_t next(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

/* Compute the scores of x: Q, K and mask. */
static bool local_score(struct local *l, struct steno_tensor x[3], struct steno_tensor *out)
{
    struct steno_tensor in[STENO_MOVED_LEAVES];
    for (int i = 0; i < l->scores.n_leaf; i++)
        in[i] = l->scores.leaf[i] == l->side[Q].v   ? x[0]
                : l->scores.leaf[i] == l->side[K].v ? x[1]
                                                    : x[2];
    return steno_moved_run(&l->scores, l->env, &l->sizes, in, out, l->mem) &&
           out->dtype == STENO_F32;
}

static bool leaves(struct local *l, struct steno_tensor x[3])
{
    return leaf(l, l->side[Q].v, &x[0]) && leaf(l, l->side[K].v, &x[1]) &&
           (l->side[MASK].v == STENO_NONE || leaf(l, l->side[MASK].v, &x[2]));
}

/* x: the first column of each head is its row's local_number, from 1 on, or 1. */
static void local_number(const struct local *l, struct steno_tensor *x, bool numbers)
{
    const int64_t all = l->side[Q].batch * l->side[Q].rows * l->heads;
    for (int64_t i = 0; i < all; i++)
        ((float *)x->data)[place_local(l, i, l->size, l->late)] = numbers ? (float)(i + 1) : 1;
}

/* The number that a score stands for, or -1. */
static int64_t read_number(const struct local *l, float s)
{
    const double v = (double)s / (double)l->scale, near = nearbyint(v);
    return fabs(v - near) < 0.25 && near >= 1 &&
                   near <= (double)(l->side[Q].batch * l->side[Q].rows * l->heads)
               ? (int64_t)near - 1
               : -1;
}

/* Scores of ones: how many there are, what the scale is, and where they are -inf. */
static bool find_scale(struct local *l)
{
    struct steno_tensor x[3], out;
    int64_t rows;
    const float *s;
    if (!local_fits(l) || !leaves(l, x) || !local_score(l, x, &out) || out.shape.rank < 1 ||
        out.shape.dim[out.shape.rank - 1] != l->columns)
        return false;
    l->n = steno_numel(&out);
    rows = (int64_t)l->n / l->columns;
    l->heads = rows / (l->side[Q].batch * l->side[Q].rows);
    if (l->n > MAX_NUMBERS || rows > MAX_SUM || l->heads < 1 ||
        rows != l->heads * l->side[Q].batch * l->side[Q].rows || l->side[Q].cols % l->heads ||
        l->side[V].cols % l->heads)
        return false;
    l->size = l->side[Q].cols / l->heads;
    l->v_size = l->side[V].cols / l->heads;
    local_number(l, &x[0], false);
    local_number(l, &x[1], false);
    if (!local_score(l, x, &out))
        return false;
    l->s = out.data;
    l->scale = 0;
    for (size_t i = 0; i < l->n; i++) {
        s = &l->s[i];
        if (*s == -INFINITY)
            continue;
        if (!isfinite(*s) || *s == 0 || (l->scale != 0 && memcmp(s, &l->scale, sizeof *s)))
            return false;
        l->scale = *s;
    }
    return l->scale != 0;
}

/* Scores of numbered rows: all scores of a softmax row must be of one row and head. */
static bool find_rows(struct local *l)
{
    struct steno_tensor x[3], out;
    const size_t rows = l->n / (size_t)l->columns;
    bool *taken = steno_arena_calloc(l->mem, rows, sizeof *taken);
    l->row = steno_arena_calloc(l->mem, rows, sizeof *l->row);
    if (!taken || !l->row || !leaves(l, x))
        return false;
    local_number(l, &x[0], true);
    local_number(l, &x[1], false);
    if (!local_score(l, x, &out))
        return false;
    for (size_t r = 0; r < rows; r++) {
        int64_t of = -1;
        for (size_t i = r * (size_t)l->columns; i < (r + 1) * (size_t)l->columns; i++) {
            const float s = ((const float *)out.data)[i];
            int64_t at = l->s[i] == -INFINITY ? -1 : read_number(l, s);
            if (l->s[i] == -INFINITY ? s != -INFINITY : at < 0 || (of >= 0 && at != of))
                return false;
            of = at >= 0 ? at : of;
        }
        if (of < 0 || taken[of])
            return false;
        taken[of] = true;
        l->row[r] = (int32_t)of;
    }
    return true;
}

/* True if keys [columns] of row t are just those of the window, each once. */
static bool is_window(const struct local *l, int64_t of, const int32_t *key, bool *seen)
{
    const int64_t h = of % l->heads, t = of / l->heads % l->side[Q].rows;
    const int64_t b = of / l->heads / l->side[Q].rows, end = l->side[Q].rows;
    const int64_t from = t > l->window ? t - l->window : 0;
    const int64_t to = t + l->window < end ? t + l->window + 1 : end;
    int64_t found = 0;
    bool ok = true;
    for (int64_t c = 0; ok && c < l->columns; c++) {
        int64_t j = key[c] < 0 ? 0 : key[c] / l->heads % end;
        if (key[c] < 0)
            continue;
        ok = key[c] == row_number(l, b, j, h) && j >= from && j < to && !seen[j];
        seen[j] = true;
        found++;
    }
    memset(seen, 0, (size_t)end * sizeof *seen);
    return ok && found == to - from;
}

/* Scores of numbered keys. */
static bool find_keys(struct local *l)
{
    struct steno_tensor x[3], out;
    bool *seen = steno_arena_calloc(l->mem, (size_t)l->side[Q].rows, sizeof *seen);
    l->key = steno_arena_calloc(l->mem, l->n, sizeof *l->key);
    if (!seen || !l->key || !leaves(l, x))
        return false;
    local_number(l, &x[0], false);
    local_number(l, &x[1], true);
    if (!local_score(l, x, &out))
        return false;
    for (size_t i = 0; i < l->n; i++) {
        const float s = ((const float *)out.data)[i];
        l->key[i] = l->s[i] == -INFINITY ? -1 : (int32_t)read_number(l, s);
        if (l->s[i] == -INFINITY ? s != -INFINITY : l->key[i] < 0)
            return false;
    }
    for (size_t r = 0; r < l->n / (size_t)l->columns; r++)
        if (!is_window(l, l->row[r], l->key + r * (size_t)l->columns, seen))
            return false;
    return true;
}

static void randomize(struct steno_tensor *t, int most, uint32_t *seed)
{
    const size_t n = steno_numel(t);
    for (size_t i = 0; i < n; i++)
        if (t->dtype == STENO_BOOL)
            ((uint8_t *)t->data)[i] = next(seed) & 1;
        else
            ((float *)t->data)[i] = (float)((int)(next(seed) % (2 * (unsigned)most + 1)) - most);
}

/* The largest factor for which `terms` products stay integers of f32. */
static int local_largest(int64_t terms)
{
    const double most = sqrt((double)MAX_SUM / (double)terms);
    return most < 2 ? 0 : most > 50 ? 50 : (int)most;
}

/* Scores without one of the factors are the mask alone: there are no other summands. */
static bool has_no_more(struct local *l, int which)
{
    struct steno_tensor x[3], out;
    const bool masked = l->side[MASK].v != STENO_NONE;
    uint32_t seed = 5;
    if (!leaves(l, x))
        return false;
    if (which >= 0)
        randomize(&x[which], 50, &seed);
    else if (masked)
        randomize(&x[MASK - 1], 50, &seed);
    if (!local_score(l, x, &out))
        return false;
    for (size_t i = 0; i < l->n; i++) {
        const float want = l->key[i] < 0 ? -INFINITY
                           : which < 0 && masked
                               ? ((const float *)x[MASK - 1].data)[l->key[i] / l->heads]
                               : 0;
        const float s = ((const float *)out.data)[i];
        if (s < want || s > want || isnan(s))
            return false;
    }
    return true;
}

/* Scores of random integers. */
static bool proves_scores(struct local *l)
{
    struct steno_tensor x[3], out;
    const int most = local_largest(l->size);
    uint32_t seed = 1;
    const float *q, *k, *m;
    if (!most || !leaves(l, x))
        return false;
    for (int i = 0; i < 2 + (l->side[MASK].v != STENO_NONE); i++)
        randomize(&x[i], most, &seed);
    if (!local_score(l, x, &out))
        return false;
    m = l->side[MASK].v != STENO_NONE ? x[2].data : NULL;
    for (size_t i = 0; i < l->n; i++) {
        const float s = ((const float *)out.data)[i];
        double want = 0, all = 0;
        if (l->key[i] < 0 ? s != -INFINITY : !isfinite(s))
            return false;
        if (l->key[i] < 0)
            continue;
        q = (const float *)x[0].data +
            place_local(l, l->row[i / (size_t)l->columns], l->size, l->late);
        k = (const float *)x[1].data + place_local(l, l->key[i], l->size, l->late);
        for (int64_t c = 0; c < l->size; c++) {
            want += (double)q[c] * (double)k[c];
            all += fabs((double)q[c] * (double)k[c]);
        }
        want = want * (double)l->scale + (m ? (double)m[l->key[i] / l->heads] : 0);
        if (fabs((double)s - want) > 1e-6 * (all * fabs((double)l->scale) + fabs(want)))
            return false;
    }
    return has_no_more(l, Q) && has_no_more(l, K) && has_no_more(l, -1);
}

/* ---- trial of the results ---- */

static bool weigh_local(struct local *l, const struct steno_tensor *p, const struct steno_tensor *v,
                        const struct steno_tensor *off, struct steno_tensor *out)
{
    struct steno_tensor in[STENO_MOVED_LEAVES];
    for (int i = 0; i < l->mix.n_leaf; i++)
        in[i] = l->mix.leaf[i] == l->softmax->out[0] ? *p
                : l->mix.leaf[i] == l->side[V].v     ? *v
                                                     : *off;
    return steno_moved_run(&l->mix, l->env, &l->sizes, in, out, l->mem) && out->dtype == STENO_F32;
}

/* True if x has the results `want`, which are in the order of row numbers. */
static bool is_result(const struct local *l, const struct steno_tensor *x, const double *want)
{
    const int64_t per = l->v_size, rows = l->side[Q].batch * l->side[Q].rows;
    const struct steno_shape *s = &x->shape;
    if (s->rank != 3 || s->dim[2] != l->side[V].cols || s->dim[l->end_late] != l->side[Q].batch ||
        s->dim[!l->end_late] != l->side[Q].rows)
        return false;
    for (int64_t r = 0; r < rows * l->heads; r++) {
        const float *y = (const float *)x->data + place_local(l, r, per, l->end_late);
        for (int64_t c = 0; c < per; c++)
            if ((double)y[c] < want[r * per + c] || (double)y[c] > want[r * per + c] ||
                isnan(y[c])) /* whole numbers, so exact */
                return false;
    }
    return true;
}

/* Results of random integers, where the weights outside the window are 0. */
static bool proves_mix(struct local *l, const struct steno_shape *scores)
{
    struct steno_tensor p = {.dtype = STENO_F32, .shape = *scores}, v, off = {0}, out;
    const int64_t rows = l->side[Q].batch * l->side[Q].rows, per = l->v_size;
    const int most = local_largest(2 * l->window + 1);
    double *want = steno_arena_calloc(l->mem, (size_t)(rows * l->side[V].cols), sizeof *want);
    const float *from;
    uint32_t seed = 3;
    p.data = steno_arena_alloc_tensor(l->mem, l->n * sizeof(float));
    if (!most || !want || !p.data || !leaf(l, l->side[V].v, &v) ||
        (l->side[OFF].v != STENO_NONE && !leaf(l, l->side[OFF].v, &off)))
        return false;
    randomize(&p, most, &seed);
    randomize(&v, most, &seed);
    if (off.data)
        randomize(&off, 1, &seed);
    for (size_t i = 0; i < l->n; i++) {
        float *w = (float *)p.data + i;
        const int64_t r = l->row[i / (size_t)l->columns];
        if (l->key[i] < 0)
            *w = 0;
        if (l->key[i] < 0 || (off.data && ((const uint8_t *)off.data)[r / l->heads]))
            continue;
        from = (const float *)v.data + place_local(l, l->key[i], per, l->late);
        for (int64_t c = 0; c < per; c++)
            want[r * per + c] += (double)*w * (double)from[c];
    }
    if (!weigh_local(l, &p, &v, &off, &out))
        return false;
    l->end_late = false;
    if (!is_result(l, &out, want)) {
        l->end_late = true;
        if (!is_result(l, &out, want))
            return false;
    }
    memset(want, 0, (size_t)(rows * l->side[V].cols) * sizeof *want);
    memset(p.data, 0, l->n * sizeof(float)); /* no weights, then no values: no summands */
    if (!weigh_local(l, &p, &v, &off, &out) || !is_result(l, &out, want))
        return false;
    for (size_t i = 0; i < l->n; i++)
        ((float *)p.data)[i] = l->key[i] < 0 ? 0 : 1;
    memset(v.data, 0, steno_numel(&v) * sizeof(float));
    return weigh_local(l, &p, &v, &off, &out) && is_result(l, &out, want);
}

/* ---- the match ---- */

static bool one_trial(struct local *l, int64_t batch, int64_t rows)
{
    const struct steno_shape *q = &l->g->values[l->side[Q].v].shape;
    struct steno_tensor x[3], out;
    bool ok;
    l->sizes = (struct steno_moved_sizes){{q->dim[l->late], q->dim[!l->late]}, {batch, rows}};
    ok = find_scale(l) && find_rows(l) && find_keys(l) && proves_scores(l) && leaves(l, x) &&
         local_score(l, x, &out) && proves_mix(l, &out.shape);
    steno_arena_reset(l->mem);
    return ok;
}

/* Try a window, in chunks of `chunk` rows. */
static bool holds(struct local *l, int64_t window, int64_t chunk)
{
    const struct steno_shape *q = &l->g->values[l->side[Q].v].shape;
    const int64_t batch = q->dim[l->late] < 0 ? 2 : q->dim[l->late], rows = q->dim[!l->late];
    float scale = 0;
    l->window = window;
    if (rows >= 0)
        return one_trial(l, batch, rows);
    for (int64_t chunks = 1; chunks <= MAX_CHUNKS; chunks++) {
        if (!one_trial(l, batch, chunks * chunk) ||
            (chunks > 1 && memcmp(&scale, &l->scale, sizeof scale)))
            return false;
        scale = l->scale;
    }
    return true;
}

/* A row of scores has 2 w + 1 columns, or 3 w of which some are -inf. */
static bool is_true(struct local *l)
{
    const struct steno_shape *q = &l->g->values[l->side[Q].v].shape;
    const int64_t c = l->columns;
    for (int late = q->dim[1] == 1 && q->dim[0] != 1; late < 2 && (!late || q->dim[0] != 1);
         late++) {
        l->late = late;
        if (c % 2 && holds(l, (c - 1) / 2, c - 1))
            return true;
        if (c % 3 == 0 && holds(l, c / 3, c / 3))
            return true;
    }
    return false;
}

/* Tell Q, K and the mask among the leaves of the scores. */
static bool name_scores(struct local *l, bool swapped)
{
    int matrices = 0;
    l->side[MASK].v = STENO_NONE;
    for (int i = 0; i < l->scores.n_leaf; i++) {
        const struct steno_value *v = &l->g->values[l->scores.leaf[i]];
        if (v->dtype != STENO_F32)
            return false;
        if (v->shape.rank == 3 && v->shape.dim[2] > 1 && matrices < 2)
            l->side[(matrices++ == 0) == swapped ? K : Q].v = l->scores.leaf[i];
        else if (l->side[MASK].v == STENO_NONE)
            l->side[MASK].v = l->scores.leaf[i];
        else
            return false;
    }
    return matrices == 2;
}

static bool name_mix(struct local *l)
{
    bool weights = false;
    l->side[V].v = l->side[OFF].v = STENO_NONE;
    for (int i = 0; i < l->mix.n_leaf; i++) {
        const steno_value_id v = l->mix.leaf[i];
        const int which = l->g->values[v].dtype == STENO_BOOL ? OFF : V;
        if (v == l->softmax->out[0])
            weights = true;
        else if (l->side[which].v == STENO_NONE)
            l->side[which].v = v;
        else
            return false;
    }
    return weights && l->side[V].v != STENO_NONE;
}

static bool same_text(const struct steno_buf *a, const struct steno_buf *b)
{
    return a->len && a->len == b->len && !memcmp(a->data, b->data, a->len);
}

/* True if this layer is another one of the same kind as the last, whose trials hold for it. */
static bool is_proven(struct local *l)
{
    const struct local *p = l->last;
    if (!same_text(&l->scores.text, &p->scores.text) || !same_text(&l->mix.text, &p->mix.text) ||
        !name_scores(l, p->swapped))
        return false;
    for (int i = 0; i < 2; i++) /* the two texts number their symbols apart */
        if (l->g->values[l->side[Q].v].shape.dim[i] != l->g->values[l->side[V].v].shape.dim[i])
            return false;
    l->swapped = p->swapped;
    l->late = p->late;
    l->end_late = p->end_late;
    l->heads = p->heads;
    l->size = p->size;
    l->v_size = p->v_size;
    l->window = p->window;
    l->scale = p->scale;
    return true;
}

/* A value behind the Softmax that may be the result. */
static bool try_end(struct local *l, steno_value_id end)
{
    l->end = end;
    l->mix = (struct steno_moved){.g = l->g, .fixed = l->fixed, .by_condition = true, .end = end};
    if (l->g->values[end].shape.rank != 3 || !steno_moved_find(&l->mix, l->softmax->out[0]) ||
        !name_mix(l))
        return false;
    if (is_proven(l))
        return true;
    for (int i = 0; i < 2; i++) {
        l->swapped = i;
        if (name_scores(l, i) && is_true(l))
            return true;
    }
    return false;
}

static bool match_local(struct local *l)
{
    steno_value_id ends[MAX_CHAIN];
    int n = 0;
    steno_value_id v = l->softmax->out[0];
    bool ok;
    l->chain[0] = l->g->values[v].producer;
    for (struct steno_node *r; n < MAX_CHAIN && (r = steno_pass_only_reader(l->g, v));
         v = r->out[0]) {
        if (r->n_out != 1 || !steno_moved_takes(l->g, l->fixed, true, r))
            break;
        ends[n++] = r->out[0];
        l->chain[n] = l->g->values[r->out[0]].producer;
    }
    if (n < 2)
        return false;
    l->scores = (struct steno_moved){.g = l->g, .fixed = l->fixed, .end = l->softmax->in[0]};
    ok = steno_moved_find(&l->scores, STENO_NONE) && l->scores.n_leaf >= 2 && name_scores(l, false);
    while (ok && n > 1 && !try_end(l, ends[n - 1])) {
        steno_moved_free(&l->mix);
        n--;
    }
    l->n_chain = n + 1;
    return ok && n > 1;
}

static bool is_softmax(const struct steno_graph *g, const struct steno_node *n)
{
    const struct steno_value *x;
    int64_t axis, last;
    double all = 1;
    if (n->dead || !steno_pass_is(n, "Softmax"))
        return false;
    x = &g->values[n->in[0]];
    axis = steno_node_int(n, "axis", n->opset < 13 ? 1 : -1);
    last = x->shape.rank - 1;
    for (int i = 0; i <= last; i++)
        all *= x->shape.dim[i] > 0 ? (double)x->shape.dim[i] : 1;
    return x->dtype == STENO_F32 && last >= 3 && (axis == -1 || axis == last) &&
           x->shape.dim[last] > 1 && all <= (double)MAX_NUMBERS;
}

/* ---- the rewrite ---- */

/* y [b, a, c] = x [a, b, c]. */
static steno_status swap(struct steno_graph *g, const char *name, steno_value_id x,
                         steno_value_id y, steno_err *err)
{
    static const int64_t perm[3] = {1, 0, 2};
    struct steno_node *n = steno_pass_add_node(g, "", "Transpose", 13, name, 1, 1, 1, err);
    int64_t *ints = n ? steno_graph_alloc(g, 3, sizeof *ints, err) : NULL;
    if (!ints)
        return STENO_ERR_NOMEM;
    memcpy(ints, perm, sizeof perm);
    n->attr[0] = (struct steno_attr){.name = "perm", .kind = STENO_ATTR_INTS, .ints = ints, .n = 3};
    n->in[0] = x;
    n->out[0] = y;
    return STENO_OK;
}

static steno_status replace_local(struct local *l, steno_err *err)
{
    struct steno_graph *g = l->g;
    steno_value_id in[SIDES], out = l->end;
    struct steno_node *y;
    steno_status st = STENO_OK;
    const char *name = l->softmax->name;
    for (int i = 0; i < l->n_chain; i++)
        g->nodes[l->chain[i]].dead = true;
    for (int i = 0; !st && i < SIDES; i++) {
        in[i] = l->side[i].v;
        if (i > V || !l->late)
            continue;
        st = steno_graph_add_value(g, NULL, &in[i], err);
        if (!st)
            st = swap(g, name, l->side[i].v, in[i], err);
    }
    if (!st && l->end_late) {
        st = steno_graph_add_value(g, NULL, &out, err);
        if (!st)
            st = swap(g, name, out, l->end, err);
    }
    if (st)
        return st;
    y = steno_pass_add_node(g, "ai.steno", "LocalAttention", 1, name, SIDES, 1, 5, err);
    if (!y)
        return STENO_ERR_NOMEM;
    steno_pass_set_int(g, y, 0, "heads", l->heads);
    steno_pass_set_int(g, y, 1, "size", l->size);
    steno_pass_set_int(g, y, 2, "v_size", l->v_size);
    steno_pass_set_int(g, y, 3, "window", l->window);
    steno_pass_set_float(g, y, 4, "scale", l->scale);
    for (int i = 0; i < SIDES; i++)
        y->in[i] = in[i];
    y->out[0] = out;
    return STENO_OK;
}

static void forget(struct local *l)
{
    steno_moved_free(&l->scores);
    steno_moved_free(&l->mix);
}

/* Rewrite the first attention that is not rewritten yet. *found: there was one. */
static steno_status rewrite_one(struct steno_graph *g, const struct steno_pass_env *env,
                                struct local *last, bool *found, steno_err *err)
{
    bool *fixed = NULL;
    steno_status st = STENO_OK;
    *found = false;
    for (int32_t i = 0, count = g->n_nodes; !st && !*found && i < count; i++) {
        struct local l = {.g = g, .env = env, .softmax = &g->nodes[i], .last = last};
        if (!is_softmax(g, l.softmax))
            continue;
        if (!fixed) {
            fixed = calloc((size_t)g->n_values, sizeof *fixed);
            if (!fixed)
                return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
            steno_moved_fixed(g, STENO_NONE, fixed);
        }
        l.fixed = fixed;
        l.columns =
            g->values[l.softmax->in[0]].shape.dim[g->values[l.softmax->in[0]].shape.rank - 1];
        l.mem = steno_arena_new(0);
        if (!l.mem)
            st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
        *found = !st && match_local(&l);
        if (*found)
            st = replace_local(&l, err);
        steno_arena_free(l.mem);
        forget(*found ? last : &l);
        if (*found)
            *last = l;
    }
    free(fixed);
    return st;
}

/* The length behind attention is known only when it is one node, and the next layer needs it; so
 * the shapes are inferred again after each. */
steno_status steno_pass_local(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    struct local last = {0};
    bool found = true;
    steno_status st = STENO_OK;
    while (!st && found) {
        st = rewrite_one(g, env, &last, &found, err);
        *changed += !st && found;
        if (g->parent)
            found = false; /* bodies are inferred with the main graph, before the next round */
        if (!st && found)
            st = steno_graph_sort(g, err);
        if (!st && found)
            st = env->infer(env->arg, g, err);
    }
    forget(&last);
    return st;
}
