/* Attention where one kernel does all of it best (kernels.h: attend_f32, _bf16, _i16). K, V and
 * the positions of a head are packed once; then all keys are multiplied with ROWS rows at a time.
 *
 * Positions: score (i, j) needs (q_i + p_bias) p_c with c = rows - 1 - i + j. A tile from row i0
 * needs the positions from rows - ROWS - i0 on. They are packed from rows % ROWS on, or from ROWS
 * before that, so that every tile begins with a whole panel. Positions outside P are zero. Where
 * the shift wraps, attention_tiled.c is used. */
#include "nn/ops/attention.h"
#include "nn/ops/internal.h"

#include <math.h>

enum {
    ROWS = STENO_ATTEND_ROWS,
    PANEL = 32,         /* positions that are packed together, a whole number of panels */
    BLOCK = 512,        /* keys per block where keys between visible ones are hidden */
    MASKED_BLOCK = 128, /* keys per block where a mask by rows may hide whole blocks */
    I16_KEYS = 2048     /* most keys in integers */
};

/* Number of panels of positions. *origin: the first position of the first panel, possibly
 * negative. */
static size_t pos_panels(const struct steno_attention *a, int64_t *origin)
{
    const size_t in = a->rows % ROWS;
    *origin = a->p_by_key || !in ? 0 : (int64_t)in - ROWS;
    return a->p_by_key ? (a->keys + PANEL - 1) / PANEL
                       : (size_t)((int64_t)a->rows - ROWS - *origin) / PANEL +
                             (a->keys + PANEL - 1) / PANEL + 1;
}

static bool in_bf16(const struct steno_attention *a, const steno_kernels *k)
{
    return a->use_bf16 && k->attend_rounded_as == STENO_ATTEND_BF16;
}

static bool is_plain(const struct steno_attention *a)
{
    return !a->hidden.data && !a->mask.data && a->left < 0 && a->right < 0 && !a->valid;
}

/* True: by integers of 16 bits. Units of keys and values are those of all rows, so none may be
 * hidden: a result would depend on what its batch is padded with. Weights below half a step are
 * lost, so there may not be too many. */
static bool in_i16(const struct steno_attention *a, const steno_kernels *k)
{
    return a->use_bf16 && k->attend_rounded_as == STENO_ATTEND_I16 && is_plain(a) && !a->p.data &&
           a->v_size <= STENO_ATTEND_SIZE && a->keys <= I16_KEYS;
}

bool steno_attention_fused_fits(const struct steno_attention *a, const steno_kernels *k)
{
    return (in_bf16(a, k) || k->attend_as == STENO_ATTEND_F32) && a->rows >= 8 && a->keys &&
           a->size <= STENO_ATTEND_SIZE && !(a->p.data && steno_attention_wraps(a));
}

bool steno_attention_fused_init(struct steno_attention_fused *t, const struct steno_attention *a,
                                const steno_kernels *k)
{
    const bool by_row = a->hidden.data && a->hidden.row && a->hidden.key == 1;
    int64_t origin;
    memset(t, 0, sizeof *t);
    t->a = a;
    t->by = in_bf16(a, k) ? &k->attend_bf16 : in_i16(a, k) ? &k->attend_i16 : &k->attend_f32;
    t->k = k;
    t->unit = in_bf16(a, k) || in_i16(a, k) ? STENO_ATTEND_LOG2 : 1;
    t->plain = is_plain(a);
    t->skips = by_row && a->keys > MASKED_BLOCK;
    t->block = by_row ? MASKED_BLOCK : a->hidden.data ? BLOCK : a->keys;
    return steno_attention_reserve(&t->bytes, &t->at_k, 1, t->by->packed_bytes(a->size, a->keys)) &&
           steno_attention_reserve(&t->bytes, &t->at_v, 1,
                                   t->by->packed_bytes(a->keys, a->v_size)) &&
           (!a->p.data || steno_attention_reserve(&t->bytes, &t->at_p, pos_panels(a, &origin),
                                                  t->by->packed_bytes(a->size, PANEL))) &&
           steno_attention_reserve(&t->bytes, &t->at_edge, PANEL * sizeof(float), a->size) &&
           steno_attention_reserve(&t->bytes, &t->at_o, ROWS * sizeof(float),
                                   steno_attend_ldo(a->v_size)) &&
           steno_attention_reserve(&t->bytes, &t->at_row, ROWS, 2 * sizeof(float)) &&
           steno_attention_reserve(&t->bytes, &t->at_seen, ROWS,
                                   sizeof(struct steno_attend_seen)) &&
           steno_attention_reserve(&t->bytes, &t->at_mask,
                                   a->hidden.data ? ROWS * sizeof(float) : 0, t->block);
}

struct head {
    const struct steno_attention_fused *t;
    const struct steno_attention *a;
    size_t b, h;
    const float *q, *p;
    float *y;
    char *mem;
    int64_t origin; /* first packed position */
};

static float *at(const struct head *d, size_t offset)
{
    return (float *)(void *)(d->mem + offset);
}

/* Positions [first, first + PANEL) ready for packing, where some of them do not exist. */
static const float *edge(const struct head *d, int64_t first)
{
    const struct steno_attention *a = d->a;
    float *rows = at(d, d->t->at_edge);
    for (int64_t r = 0; r < PANEL; r++)
        if (first + r >= 0 && first + r < (int64_t)a->p_len)
            memcpy(rows + (size_t)r * a->size, d->p + (size_t)(first + r) * a->p.row,
                   a->size * sizeof *rows);
        else
            memset(rows + (size_t)r * a->size, 0, a->size * sizeof *rows);
    return rows;
}

static void pack_positions(struct head *d)
{
    const struct steno_attention *a = d->a;
    const struct steno_attention_fused *t = d->t;
    const size_t panels = pos_panels(a, &d->origin), bytes = t->by->packed_bytes(a->size, PANEL);
    char *to = d->mem + d->t->at_p;
    for (size_t i = 0, n; i < panels; i += n, to += n * bytes) {
        const int64_t first = d->origin + (int64_t)(i * PANEL), left = (int64_t)a->p_len - first;
        n = 1;
        if (first < 0 || left < PANEL) {
            t->by->pack(to, edge(d, first), a->size, true, a->size, PANEL);
            continue;
        }
        n = (size_t)left / PANEL < panels - i ? (size_t)left / PANEL : panels - i;
        t->by->pack(to, d->p + (size_t)first * a->p.row, a->p.row, true, a->size, n * PANEL);
    }
}

/* Find which of the keys [j0, j0 + n) the rows from i0 on see. False: none. */
static bool look_attention_fused(const struct head *d, size_t i0, size_t m, size_t j0, size_t n,
                                 struct steno_attend_seen *seen)
{
    const struct steno_attention *a = d->a;
    const bool alike = !a->hidden.row && !a->mask.row && a->left < 0 && a->right < 0;
    bool any = false;
    for (size_t i = 0; i < m; i++) {
        float *made = at(d, d->t->at_mask) + i * d->t->block;
        size_t from, to;
        if (i && alike) {
            seen[i] = seen[0];
            continue;
        }
        seen[i].mask = steno_attention_mask_row(a, d->b, d->h, i0 + i, j0, n, made, &from, &to);
        seen[i].from = j0 + from;
        seen[i].to = j0 + to;
        any = any || from < to;
    }
    return any;
}

static void one_tile_attention_fused(const struct head *d, size_t i0, size_t m)
{
    const struct steno_attention_fused *t = d->t;
    const struct steno_attention *a = d->a;
    const size_t ldo = steno_attend_ldo(a->v_size);
    struct steno_attend_seen *seen = (void *)(d->mem + t->at_seen);
    struct steno_attend x = {.m = m,
                             .keys = a->keys,
                             .size = a->size,
                             .v_size = a->v_size,
                             .q = d->q + i0 * a->q.row,
                             .ldq = a->q.row,
                             .k = d->mem + t->at_k,
                             .v = d->mem + t->at_v,
                             .shifted = d->p && !a->p_by_key,
                             .scale = a->scale,
                             .seen = t->plain ? NULL : seen,
                             .first = true,
                             .max = at(d, t->at_row),
                             .o = at(d, t->at_o)};
    const size_t panel = t->by->packed_bytes(a->size, PANEL);
    x.sum = x.max + ROWS;
    x.q_bias = a->q_bias ? a->q_bias + d->h * a->size : NULL;
    x.p_bias = a->p_bias ? a->p_bias + d->h * a->size : NULL;
    for (size_t i = 0; i < m; i++) {
        x.max[i] = -INFINITY;
        x.sum[i] = 0;
    }
    for (x.from = 0; x.from < a->keys; x.from = x.to) {
        const int64_t first = x.shifted
                                  ? (int64_t)(a->rows + x.from) - ROWS - (int64_t)i0 - d->origin
                                  : (int64_t)x.from;
        x.to = a->keys - x.from < t->block ? a->keys : x.from + t->block;
        x.p = d->p ? d->mem + t->at_p + (size_t)first / PANEL * panel : NULL;
        if (!t->plain && !look_attention_fused(d, i0, m, x.from, x.to - x.from, seen) && t->skips)
            continue;
        t->by->attend(&x);
        x.first = false;
    }
    for (size_t i = 0; i < m; i++)
        steno_attention_finish(
            a, t->k, d->b, d->h, i0 + i, d->y + (i0 + i) * a->y_view.row, x.o + i * ldo,
            x.max[i] * t->unit,
            x.sum[i] + steno_attention_filled(a, d->b, d->h, i0 + i, x.max[i] * t->unit));
}

void steno_attention_fused_head(const struct steno_attention_fused *t, size_t b, size_t h,
                                char *mem)
{
    const struct steno_attention *a = t->a;
    const size_t g = h / (a->q_heads / a->kv_heads);
    struct head d = {.t = t, .a = a, .b = b, .h = h, .mem = mem};
    d.q = a->q.data + b * a->q.batch + h * a->q.head;
    d.p = a->p.data ? a->p.data + b * a->p.batch + h * a->p.head : NULL;
    d.y = a->y + b * a->y_view.batch + h * a->y_view.head;
    t->by->pack(mem + t->at_k, a->k.data + b * a->k.batch + g * a->k.head, a->k.row, true, a->size,
                a->keys);
    t->by->pack(mem + t->at_v, a->v.data + b * a->v.batch + g * a->v.head, a->v.row, false, a->keys,
                a->v_size);
    if (d.p)
        pack_positions(&d);
    for (size_t i = 0; i < a->rows; i += ROWS)
        one_tile_attention_fused(&d, i, a->rows - i < ROWS ? a->rows - i : ROWS);
}
