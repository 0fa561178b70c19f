/* Attention one tile of scores at a time: TILE rows times up to BLOCK keys lie in L2, never the
 * whole matrix.
 *
 * For each tile of rows and block of keys there are four steps: a product with the block of K gives
 * the scores; a product with a window of the positions gives the position term; each row takes one
 * step of online softmax (kernels.h: softmax_step_f32); a product with the block of V is added to
 * the result so far. If there is more than one tile of rows, K, V and P are packed once for the
 * head, in blocks, so that each block is the packed factor of a product. With one tile they are
 * read in place, and with few rows (a decoder's step) keys are taken one by one. A mask that
 * differs by row (a window: Longformer, Beltagy et al. 2020; the context of a chunk) makes blocks
 * smaller, and a block that no row of the tile sees is skipped.
 *
 * Positions: score (i, j) needs (q_i + p_bias) p_c with c = rows - 1 - i + j, as long as rows +
 * keys <= p_len + 1 (then the shift does not wrap). A tile from row i0 and a block from key j0 need
 * the window of c from rows - TILE - i0 + j0 on, TILE + keys wide. The blocks hold TILE positions
 * and start at rows % TILE, so that every window begins with a block. Otherwise (the legacy form)
 * the products with all positions are computed and shifted row by row. Positions by key (WeNet) are
 * not shifted at all. */
#include "nn/ops/attention.h"
#include "nn/ops/internal.h"

#include "base/cpu.h"

#include <math.h>

#define TILE 64
#define BLOCK 512
#define MASKED_BLOCK 128 /* keys per block where a mask by rows may hide whole blocks */
#define DIRECT_ROWS 4    /* so few rows multiply by themselves, not by tiles */

/* Rows of the unshifted product that the shifted rows [i0, i0 + m) read. */
static void shift_source(const struct steno_attention *a, size_t i0, size_t m, size_t *first,
                         size_t *count)
{
    size_t last = (a->rows + (i0 + m) * a->p_len - 1) / (a->p_len + 1);
    *first = (a->rows + i0 * a->p_len) / (a->p_len + 1);
    *count = last - *first + 1;
}

void steno_ops_shift_row(float *out, const float *x, size_t first, size_t rows, size_t len,
                         size_t i, size_t from, size_t to)
{
    /* position in [rows, len + 1], where column 0 holds zeros */
    size_t at = rows + i * len + from, row = at / (len + 1), col = at % (len + 1);
    for (size_t n; from < to; row++, col = 0) {
        if (col == 0) {
            *out++ = 0;
            from++;
            col++;
        }
        n = len + 1 - col < to - from ? len + 1 - col : to - from;
        if (n)
            memcpy(out, x + (row - first) * len + col - 1, n * sizeof *out);
        out += n;
        from += n;
    }
}

/* Number of blocks of TILE positions. *origin: the first position of the first block, possibly
 * negative. */
static size_t pos_blocks(const struct steno_attention *a, int64_t *origin)
{
    size_t in = a->rows % TILE;
    *origin = (int64_t)in - (in ? TILE : 0);
    return (size_t)((int64_t)(a->rows + a->keys + TILE) - *origin) / TILE + 1;
}

/* Reserve `n` times `each` floats at the end of the layout. False: overflow. */
static bool put_attention_tiled(struct steno_attention_tiles *t, size_t *at, size_t n, size_t each)
{
    size_t count;
    return steno_mul_size(n, each, &count) &&
           steno_attention_reserve(&t->bytes, at, count, sizeof(float));
}

/* ---- packed factors, in f32 or bf16 ---- */

static size_t packed_floats(const struct steno_attention_tiles *t, size_t rows, size_t cols)
{
    return steno_aligned(t->use_bf16 ? t->k->gemm_bf16.packed_bytes(rows, cols)
                                     : t->k->gemm_f32_packed_bytes(rows, cols)) /
           sizeof(float);
}

static void pack_attention_tiled(const struct steno_attention_tiles *t, float *to, const float *b,
                                 size_t ldb, bool trans, size_t rows, size_t cols)
{
    if (t->use_bf16)
        t->k->gemm_bf16.pack(to, b, ldb, trans, rows, cols);
    else
        t->k->gemm_f32_pack(to, b, ldb, trans, rows, cols);
}

static void multiply_attention_tiled(const struct steno_attention_tiles *t, size_t m, size_t n,
                                     size_t k, const float *a, size_t lda, const float *packed,
                                     float *c, size_t ldc)
{
    if (t->use_bf16)
        t->k->gemm_bf16.part(m, n, k, a, lda, packed, c, ldc, NULL, 0, 1);
    else
        t->k->gemm_f32_packed(m, n, k, a, lda, packed, c, ldc, NULL);
}

/* Floats of one packed block of K, V or positions. */
static size_t k_block(const struct steno_attention_tiles *t)
{
    return packed_floats(t, t->a->size, t->block);
}
static size_t v_block(const struct steno_attention_tiles *t)
{
    return packed_floats(t, t->block, t->a->v_size);
}
static size_t p_block(const struct steno_attention_tiles *t)
{
    return packed_floats(t, t->a->size, TILE);
}

static bool many_tiles(const struct steno_attention *a)
{
    return a->rows > TILE;
}

bool steno_attention_tiles_init(struct steno_attention_tiles *t, const struct steno_attention *a,
                                const steno_kernels *k)
{
    const bool by_row = a->hidden.data && a->hidden.row && a->hidden.key == 1 && many_tiles(a);
    const size_t most = by_row ? MASKED_BLOCK : BLOCK, block = a->keys < most ? a->keys : most;
    size_t blocks = (a->keys + most - 1) / most;
    size_t width = a->p.data && steno_attention_wraps(a) ? a->p_len : block + TILE, first,
           count = 0, work;
    int64_t origin;
    bool ok;
    memset(t, 0, sizeof *t);
    t->a = a;
    t->k = k;
    t->block = most;
    t->skips = by_row;
    t->use_bf16 = a->use_bf16 && many_tiles(a) && k->cpu & STENO_CPU_BF16;
    t->tile = a->rows < TILE ? a->rows : TILE;
    t->score_ld = block;
    t->pos_ld = a->p.data && !steno_attention_wraps(a) && many_tiles(a)
                    ? (width + TILE - 1) / TILE * TILE
                    : width;
    if (a->p.data && steno_attention_wraps(a)) {
        for (size_t i = 0; i < a->rows; i += TILE) {
            size_t n;
            shift_source(a, i, a->rows - i < TILE ? a->rows - i : TILE, &first, &n);
            count = steno_ops_larger(count, n);
        }
    } else if (a->p.data) {
        count = t->tile;
    }
    ok = put_attention_tiled(t, &t->at_q, steno_ops_larger(count, t->tile), 2 * a->size) &&
         put_attention_tiled(t, &t->at_s, t->tile, block) &&
         put_attention_tiled(t, &t->at_p, count, t->pos_ld) &&
         put_attention_tiled(t, &t->at_o, t->tile, a->v_size) &&
         put_attention_tiled(t, &t->at_row, t->tile, 8) &&
         put_attention_tiled(t, &t->at_mask, a->hidden.data ? block : 0, 1) &&
         put_attention_tiled(t, &t->at_pos, a->p.data && steno_attention_wraps(a) ? block : 0, 1);
    if (!ok)
        return false;
    work = steno_ops_larger(k->gemm_f32_work(t->tile, block, a->size),
                            k->gemm_f32_work(t->tile, a->v_size, block));
    work = a->p.data ? steno_ops_larger(work, k->gemm_f32_work(count, width, a->size)) : work;
    if (!put_attention_tiled(t, &t->at_work, work / sizeof(float) + 1, 1))
        return false;
    if (!many_tiles(a))
        return true;
    return put_attention_tiled(t, &t->at_k, blocks, k_block(t)) &&
           put_attention_tiled(t, &t->at_v, blocks, v_block(t)) &&
           (!a->p.data || a->p_by_key || steno_attention_wraps(a) ||
            put_attention_tiled(t, &t->at_pos, pos_blocks(a, &origin), p_block(t)));
}

/* One head, as its tiles see it. */
struct head {
    const struct steno_attention_tiles *t;
    const struct steno_attention *a;
    size_t b, h;
    const float *q, *k, *v, *p;
    float *y;
    char *mem;
    int64_t origin;
};

static float *at(const struct head *d, size_t offset)
{
    return (float *)(void *)(d->mem + offset);
}

/* Pack this head's K, V and positions in blocks. */
static void pack_head(struct head *d)
{
    const struct steno_attention *a = d->a;
    const struct steno_attention_tiles *t = d->t;
    float *rows = at(d, t->at_q); /* not in use yet */
    size_t blocks, n;
    for (size_t j = 0, i = 0; j < a->keys; j += t->block, i++) {
        n = a->keys - j < t->block ? a->keys - j : t->block;
        pack_attention_tiled(t, at(d, t->at_k) + i * k_block(t), d->k + j * a->k.row, a->k.row,
                             true, a->size, n);
        pack_attention_tiled(t, at(d, t->at_v) + i * v_block(t), d->v + j * a->v.row, a->v.row,
                             false, n, a->v_size);
    }
    if (!d->p || a->p_by_key || steno_attention_wraps(a))
        return;
    blocks = pos_blocks(a, &d->origin);
    for (size_t i = 0; i < blocks; i++) {
        int64_t first = d->origin + (int64_t)(i * TILE);
        const float *from = d->p + first * (int64_t)a->p.row;
        size_t ld = a->p.row;
        if (first < 0 || first + TILE > (int64_t)a->p_len) { /* what does not exist is zero */
            for (int64_t r = 0; r < TILE; r++, from += a->p.row)
                if (first + r >= 0 && first + r < (int64_t)a->p_len)
                    memcpy(rows + (size_t)r * a->size, from, a->size * sizeof *rows);
                else
                    memset(rows + (size_t)r * a->size, 0, a->size * sizeof *rows);
            from = rows;
            ld = a->size;
        }
        pack_attention_tiled(t, at(d, t->at_pos) + i * p_block(t), from, ld, true, a->size, TILE);
    }
}

/* Rows [i0, i0 + m) of q plus a bias; q itself where there is no bias. */
static const float *biased(const struct head *d, const float *bias, size_t i0, size_t m, float *to,
                           size_t *ld)
{
    const struct steno_attention *a = d->a;
    *ld = a->q.row;
    if (!bias)
        return d->q + i0 * a->q.row;
    for (size_t i = 0; i < m; i++)
        d->t->k->add_f32(to + i * a->size, d->q + (i0 + i) * a->q.row, 1, bias + d->h * a->size, 1,
                         a->size);
    *ld = a->size;
    return to;
}

static void key_scores(const struct head *d, size_t i0, size_t m, size_t j0, size_t n)
{
    const struct steno_attention *a = d->a;
    const struct steno_attention_tiles *t = d->t;
    size_t ld;
    const float *q = biased(d, a->q_bias, i0, m, at(d, t->at_q), &ld);
    float *s = at(d, t->at_s);
    if (many_tiles(a))
        multiply_attention_tiled(t, m, n, a->size, q, ld,
                                 at(d, t->at_k) + j0 / t->block * k_block(t), s, t->score_ld);
    else if (m <= DIRECT_ROWS)
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++)
                s[i * t->score_ld + j] =
                    t->k->dot_f32(q + i * ld, d->k + (j0 + j) * a->k.row, a->size);
    else
        t->k->gemm_f32(m, n, a->size, q, ld, false, d->k + j0 * a->k.row, a->k.row, true, s,
                       t->score_ld, NULL, at(d, t->at_work));
}

/* Compute the products with the window of positions, or with all positions where the shift
 * wraps. */
static void pos_scores(const struct head *d, size_t i0, size_t m, size_t j0, size_t n)
{
    const struct steno_attention *a = d->a;
    const struct steno_attention_tiles *t = d->t;
    size_t ld, first = 0, count;
    float *to = at(d, t->at_q) + t->tile * a->size, *s = at(d, t->at_p);
    const float *q;
    if (steno_attention_wraps(a)) {
        if (j0)
            return; /* the products of the first block serve all blocks */
        shift_source(a, i0, m, &first, &count);
        q = biased(d, a->p_bias, first, count, at(d, t->at_q), &ld);
        t->k->gemm_f32(count, a->p_len, a->size, q, ld, false, d->p, a->p.row, true, s, t->pos_ld,
                       NULL, at(d, t->at_work));
        return;
    }
    q = biased(d, a->p_bias, i0, m, to, &ld);
    if (a->p_by_key) {
        t->k->gemm_f32(m, n, a->size, q, ld, false, d->p + j0 * a->p.row, a->p.row, true, s,
                       t->pos_ld, NULL, at(d, t->at_work));
        return;
    }
    if (!many_tiles(a)) {
        first = a->rows - m - i0 + j0;
        t->k->gemm_f32(m, n + m - 1, a->size, q, ld, false, d->p + first * a->p.row, a->p.row, true,
                       s, t->pos_ld, NULL, at(d, t->at_work));
        return;
    }
    first = (size_t)((int64_t)(a->rows + j0) - TILE - (int64_t)i0 - d->origin) / TILE;
    count =
        t->k->gemm_panel && TILE % t->k->gemm_panel == 0 ? (n + 2 * TILE - 2) / TILE * TILE : TILE;
    for (size_t c = 0; c < n + TILE - 1; c += count, first++)
        multiply_attention_tiled(t, m, count, a->size, q, ld, at(d, t->at_pos) + first * p_block(t),
                                 s + c, t->pos_ld);
}

/* The position term of row i0 + i for the keys of the block. */
static const float *pos_row(const struct head *d, size_t i0, size_t m, size_t i, size_t j0,
                            size_t n)
{
    const struct steno_attention *a = d->a;
    const float *s = at(d, d->t->at_p);
    size_t first, count;
    if (!d->p)
        return NULL;
    if (a->p_by_key)
        return s + i * d->t->pos_ld;
    if (!steno_attention_wraps(a))
        return s + i * d->t->pos_ld + (many_tiles(a) ? TILE : m) - 1 - i;
    shift_source(a, i0, m, &first, &count);
    steno_ops_shift_row(at(d, d->t->at_pos), s, first, a->rows, a->p_len, i0 + i, j0, j0 + n);
    return at(d, d->t->at_pos);
}

/* Turn the scores of row i into weights. Returns the factor for the results of earlier blocks. */
static float weigh_attention_tiled(const struct head *d, size_t i0, size_t m, size_t i, size_t j0,
                                   size_t n, float *max, float *sum)
{
    float *s = at(d, d->t->at_s) + i * d->t->score_ld, keep = 1;
    size_t from, to;
    const float *mask = steno_attention_mask_row(d->a, d->b, d->h, i0 + i, j0, n,
                                                 at(d, d->t->at_mask), &from, &to),
                *pos;
    if (from >= to) {
        memset(s, 0, n * sizeof *s);
        return 1;
    }
    pos = pos_row(d, i0, m, i, j0, n);
    keep = d->t->k->softmax_step_f32(s + from, to - from, d->a->scale, pos ? pos + from : NULL,
                                     mask ? mask + from : NULL, max, sum);
    memset(s, 0, from * sizeof *s);
    memset(s + to, 0, (n - to) * sizeof *s);
    return keep;
}

/* y = y * keep + weights * V; the first block writes y. */
static void add_values_attention_tiled(const struct head *d, size_t i0, size_t m, size_t j0,
                                       size_t n, const float *keep)
{
    const struct steno_attention *a = d->a;
    const struct steno_attention_tiles *t = d->t;
    float *s = at(d, t->at_s), *y = d->y + i0 * a->y_view.row, *o = y;
    size_t ld = a->y_view.row;
    if (m <= DIRECT_ROWS && !many_tiles(a)) {
        for (size_t i = 0; i < m; i++, y += ld) {
            if (j0)
                t->k->affine_f32(y, y, a->v_size, keep[i], 0);
            else
                memset(y, 0, a->v_size * sizeof *y);
            for (size_t j = 0; j < n; j++)
                t->k->axpy_f32(y, d->v + (j0 + j) * a->v.row, a->v_size, s[i * t->score_ld + j]);
        }
        return;
    }
    if (j0) {
        o = at(d, t->at_o);
        ld = a->v_size;
    }
    if (many_tiles(a))
        multiply_attention_tiled(t, m, a->v_size, n, s, t->score_ld,
                                 at(d, t->at_v) + j0 / t->block * v_block(t), o, ld);
    else
        t->k->gemm_f32(m, a->v_size, n, s, t->score_ld, false, d->v + j0 * a->v.row, a->v.row,
                       false, o, ld, NULL, at(d, t->at_work));
    for (size_t i = 0; j0 && i < m; i++, y += a->y_view.row) {
        if (keep[i] < 1 || keep[i] > 1 || isnan(keep[i]))
            t->k->affine_f32(y, y, a->v_size, keep[i], 0);
        t->k->add_f32(y, y, 1, o + i * ld, 1, a->v_size);
    }
}

/* True when some row of the tile sees some key of the block. */
static bool sees(const struct head *d, size_t i0, size_t m, size_t j0, size_t n)
{
    const struct steno_attention_hidden *h = &d->a->hidden;
    const uint8_t *row = h->data + d->b * h->batch + d->h * h->head + i0 * h->row + j0;
    for (size_t i = 0; i < m; i++, row += h->row)
        if (memchr(row, 0, n))
            return true;
    return false;
}

static void one_tile_attention_tiled(const struct head *d, size_t i0, size_t m)
{
    const struct steno_attention *a = d->a;
    float *max = at(d, d->t->at_row), *sum = max + d->t->tile, *keep = sum + d->t->tile;
    for (size_t i = 0; i < m; i++) {
        max[i] = -INFINITY;
        sum[i] = 0;
    }
    for (size_t j0 = 0; j0 < a->keys; j0 += d->t->block) {
        size_t n = a->keys - j0 < d->t->block ? a->keys - j0 : d->t->block;
        if (d->t->skips && !sees(d, i0, m, j0, n)) {
            for (size_t i = 0; !j0 && i < m; i++) /* later blocks add to the first one's result */
                memset(d->y + (i0 + i) * a->y_view.row, 0, a->v_size * sizeof *d->y);
            if (d->p && steno_attention_wraps(a))
                pos_scores(d, i0, m, j0, n); /* serves all blocks */
            continue;
        }
        if (d->p)
            pos_scores(d, i0, m, j0, n);
        key_scores(d, i0, m, j0, n);
        for (size_t i = 0; i < m; i++)
            keep[i] = weigh_attention_tiled(d, i0, m, i, j0, n, &max[i], &sum[i]);
        add_values_attention_tiled(d, i0, m, j0, n, keep);
    }
    for (size_t i = 0; i < m; i++) {
        float *y = d->y + (i0 + i) * a->y_view.row;
        steno_attention_finish(a, d->t->k, d->b, d->h, i0 + i, y, y, max[i],
                               sum[i] + steno_attention_filled(a, d->b, d->h, i0 + i, max[i]));
    }
}

void steno_attention_tiles_head(const struct steno_attention_tiles *t, size_t b, size_t h,
                                char *mem)
{
    const struct steno_attention *a = t->a;
    size_t g = h / (a->q_heads / a->kv_heads);
    struct head d = {.t = t, .a = a, .b = b, .h = h, .mem = mem};
    d.q = a->q.data + b * a->q.batch + h * a->q.head;
    d.k = a->k.data + b * a->k.batch + g * a->k.head;
    d.v = a->v.data + b * a->v.batch + g * a->v.head;
    d.p = a->p.data ? a->p.data + b * a->p.batch + h * a->p.head : NULL;
    d.y = a->y + b * a->y_view.batch + h * a->y_view.head;
    if (many_tiles(a))
        pack_head(&d);
    for (size_t i = 0; i < a->rows; i += TILE)
        one_tile_attention_tiled(&d, i, a->rows - i < TILE ? a->rows - i : TILE);
}
