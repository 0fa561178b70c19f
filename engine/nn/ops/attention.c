#include "nn/ops/attention.h"
#include "nn/ops/internal.h"

#include <math.h>

#define ROWS 64 /* score rows in memory at a time: 64 x 4096 keys are 1 MiB, half of L2 */

struct job {
    const struct steno_attention *a;
    const steno_kernels *k;
    char *scratch;
    size_t score_bytes, work_bytes, part_bytes, parts;
    enum { BY_ROWS, TILED, FUSED } way;
    struct steno_attention_tiles tiles;
    struct steno_attention_fused fused;
};

void steno_attention_visible(const struct steno_attention *a, size_t b, size_t i, size_t *from,
                             size_t *to)
{
    int64_t at = (int64_t)i + (a->offset ? a->offset[b] : 0), lo = 0, hi = (int64_t)a->keys;
    if (a->left >= 0 && at - a->left > lo)
        lo = at - a->left;
    if (a->right >= 0 && at + a->right + 1 < hi)
        hi = at + a->right + 1;
    if (a->valid && a->valid[b] < hi)
        hi = a->valid[b];
    if (a->mask.data && (int64_t)a->mask_keys < hi)
        hi = (int64_t)a->mask_keys;
    *from = (size_t)(lo < hi ? lo : 0);
    *to = (size_t)(lo < hi ? hi : 0);
}

bool steno_attention_reserve(size_t *bytes, size_t *at, size_t n, size_t each)
{
    size_t more;
    *at = *bytes;
    return steno_mul_size(n, each, &more) &&
           steno_add_size(more, STENO_ALIGN + STENO_OVERREAD, &more) &&
           steno_add_size(*bytes, steno_aligned(more), bytes);
}

/* A row of a->replaces, key by key as the Where has it. */
static void replaced_row(const struct steno_attention *a, const steno_kernels *k, size_t b,
                         size_t h, size_t i, float *y)
{
    const size_t g = h / (a->q_heads / a->kv_heads);
    const float *q = a->q.data + b * a->q.batch + h * a->q.head + i * a->q.row;
    const float *keys = a->k.data + b * a->k.batch + g * a->k.head;
    const float *v = a->v.data + b * a->v.batch + g * a->v.head;
    const float *mask = a->mask.data + b * a->mask.batch + h * a->mask.head + i * a->mask.row;
    const float *bias = a->q_bias ? a->q_bias + h * a->size : NULL;
    float max = -INFINITY, s = 0;
    double sum = 0;
    memset(y, 0, a->v_size * sizeof *y);
    for (int pass = 0; pass < 2; pass++)
        for (size_t j = 0; j < a->keys; j++) {
            const float *key = keys + j * a->k.row;
            s = a->fill;
            if (!(mask[j] < STENO_ATTENTION_HIDES))
                s = a->scale *
                    (k->dot_f32(q, key, a->size) + (bias ? k->dot_f32(bias, key, a->size) : 0));
            if (!pass) {
                max = s > max || isnan(s) ? s : max;
                continue;
            }
            s = expf(s - max);
            sum += (double)s;
            k->axpy_f32(y, v + j * a->v.row, a->v_size, s);
        }
    k->affine_f32(y, y, a->v_size, (float)(1 / sum), 0);
    for (size_t c = 0; a->no_nan && isnan(sum) && c < a->v_size; c++)
        y[c] = 0;
}

void steno_attention_finish(const struct steno_attention *a, const steno_kernels *k, size_t b,
                            size_t h, size_t i, float *y, const float *o, float max, float sum)
{
    const bool nan = a->no_nan && isnan(sum);
    const bool nothing = !a->keys || nan || (max == -INFINITY && !isnan(sum));
    /* no visible score is far above the fill, or a hidden one is NaN or infinite */
    if (a->replaces && a->keys && !(max > a->fill / 2 && max < INFINITY && isfinite(sum))) {
        replaced_row(a, k, b, h, i, y);
        return;
    }
    for (size_t c = 0; nothing && c < a->v_size; c++)
        y[c] = a->keys && !nan ? a->empty : 0;
    if (!nothing)
        k->affine_f32(y, o, a->v_size, 1 / sum, 0);
}

float steno_attention_filled(const struct steno_attention *a, size_t b, size_t h, size_t i,
                             float max)
{
    const uint8_t *hide;
    size_t n = 0;
    if (!a->fills || !(a->fill - max > -104)) /* e^-104 is 0 */
        return 0;
    hide = a->hidden.data + b * a->hidden.batch + h * a->hidden.head + i * a->hidden.row;
    for (size_t j = 0; j < a->keys; j++)
        n += hide[j * a->hidden.key] != 0;
    return n ? (float)n * expf(a->fill - max) : 0;
}

static bool any_hidden(const uint8_t *hide, size_t step, size_t from, size_t to)
{
    uint64_t eight, all = 0;
    for (; step == 1 && from + sizeof eight <= to; from += sizeof eight) {
        memcpy(&eight, hide + from, sizeof eight);
        all |= eight;
    }
    for (; from < to; from++)
        all |= hide[from * step];
    return all != 0;
}

const float *steno_attention_mask_row(const struct steno_attention *a, size_t b, size_t h, size_t i,
                                      size_t j0, size_t n, float *made, size_t *from, size_t *to)
{
    const float *mask =
        a->mask.data ? a->mask.data + b * a->mask.batch + h * a->mask.head + i * a->mask.row + j0
                     : NULL;
    const uint8_t *hide;
    steno_attention_visible(a, b, i, from, to);
    *from = *from > j0 ? *from - j0 : 0;
    *to = *to > j0 ? *to - j0 : 0;
    *to = *to < n ? *to : n;
    if (!a->hidden.data)
        return mask;
    hide = a->hidden.data + b * a->hidden.batch + h * a->hidden.head + i * a->hidden.row +
           j0 * a->hidden.key;
    while (*from < *to && hide[*from * a->hidden.key])
        ++*from;
    while (*from < *to && hide[(*to - 1) * a->hidden.key])
        --*to;
    if (!any_hidden(hide, a->hidden.key, *from, *to))
        return mask;
    for (size_t j = *from; j < *to; j++)
        made[j] = hide[j * a->hidden.key] ? -INFINITY : mask ? mask[j] : 0;
    return made;
}

/* Turn one row of scores into softmax weights, in place. */
static void weigh_attention(const struct job *j, size_t b, size_t h, size_t i, float *s)
{
    const struct steno_attention *a = j->a;
    const float *mask =
        a->mask.data ? a->mask.data + b * a->mask.batch + h * a->mask.head + i * a->mask.row : NULL;
    float *out = a->captured ? a->captured + ((b * a->q_heads + h) * a->rows + i) * a->keys : NULL;
    size_t from, to, n = a->keys;
    bool seen = false;
    if (out && a->capture == STENO_ATTENTION_RAW)
        memcpy(out, s, n * sizeof *s);
    if (a->softcap > 0) {
        j->k->affine_f32(s, s, n, 1 / a->softcap, 0);
        j->k->tanh_f32(s, s, n);
        j->k->affine_f32(s, s, n, a->softcap, 0);
    }
    if (out && a->capture == STENO_ATTENTION_CAPPED)
        memcpy(out, s, n * sizeof *s);
    steno_attention_visible(a, b, i, &from, &to);
    for (size_t c = from; c < to && mask && !seen; c++)
        seen = mask[c] != -INFINITY;
    if (!mask)
        seen = from < to;
    else if (from < to)
        j->k->add_f32(s + from, s + from, 1, mask + from, 1, to - from);
    if (out && a->capture == STENO_ATTENTION_BIASED) {
        for (size_t c = 0; c < n; c++)
            out[c] = c >= from && c < to ? s[c] : -INFINITY;
    }
    if (seen)
        j->k->softmax_f32(s + from, s + from, 1, to - from);
    else
        from = to = 0;
    memset(s, 0, from * sizeof *s);
    memset(s + to, 0, (n - to) * sizeof *s);
    if (out && a->capture == STENO_ATTENTION_WEIGHTS)
        memcpy(out, s, n * sizeof *s);
}

static void one_head(const struct job *j, size_t b, size_t h, char *mem)
{
    const struct steno_attention *a = j->a;
    size_t g = h / (a->q_heads / a->kv_heads);
    const float *q = a->q.data + b * a->q.batch + h * a->q.head;
    const float *k = a->k.data + b * a->k.batch + g * a->k.head;
    const float *v = a->v.data + b * a->v.batch + g * a->v.head;
    float *y = a->y + b * a->y_view.batch + h * a->y_view.head;
    struct steno_gemm_epilogue ep = {.alpha = a->scale};
    float *s = (float *)(void *)mem;
    void *work = mem + j->score_bytes;
    for (size_t r = 0; r < a->rows; r += ROWS) {
        size_t m = a->rows - r < ROWS ? a->rows - r : ROWS;
        j->k->gemm_f32(m, a->keys, a->size, q + r * a->q.row, a->q.row, false, k, a->k.row, true, s,
                       a->keys, &ep, work);
        for (size_t i = 0; i < m; i++)
            weigh_attention(j, b, h, r + i, s + i * a->keys);
        j->k->gemm_f32(m, a->v_size, a->keys, s, a->keys, false, v, a->v.row, false,
                       y + r * a->y_view.row, a->y_view.row, NULL, work);
    }
}

static void part_attention(void *arg, int p)
{
    const struct job *j = arg;
    size_t heads = j->a->batch * j->a->q_heads;
    for (size_t i = heads * (size_t)p / j->parts; i < heads * ((size_t)p + 1) / j->parts; i++) {
        char *mem = j->scratch + (size_t)p * j->part_bytes;
        const size_t b = i / j->a->q_heads, h = i % j->a->q_heads;
        if (j->way == BY_ROWS)
            one_head(j, b, h, mem);
        else if (j->way == TILED)
            steno_attention_tiles_head(&j->tiles, b, h, mem);
        else
            steno_attention_fused_head(&j->fused, b, h, mem);
    }
}

static void size_rows(struct job *j)
{
    const struct steno_attention *a = j->a;
    size_t m = a->rows < ROWS ? a->rows : ROWS, w;
    j->score_bytes = steno_aligned(m * a->keys * sizeof(float));
    j->work_bytes = j->k->gemm_f32_work(m, a->keys, a->size);
    w = j->k->gemm_f32_work(m, a->v_size, a->keys);
    j->work_bytes = steno_aligned(w > j->work_bytes ? w : j->work_bytes);
    j->part_bytes = j->score_bytes + j->work_bytes + STENO_ALIGN;
}

/* Choose the method and the scratch of a part. False: sizes overflow. */
static bool choose_attention(struct job *j)
{
    bool ok = true;
    if (j->a->captured || j->a->softcap > 0) {
        j->way = BY_ROWS;
        size_rows(j);
    } else if (steno_attention_fused_fits(j->a, j->k)) {
        j->way = FUSED;
        ok = steno_attention_fused_init(&j->fused, j->a, j->k);
        j->part_bytes = j->fused.bytes;
    } else {
        j->way = TILED;
        ok = steno_attention_tiles_init(&j->tiles, j->a, j->k);
        j->part_bytes = j->tiles.bytes;
    }
    return ok;
}

steno_status steno_ops_attention(struct steno_op_ctx *ctx, const struct steno_attention *a,
                                 steno_err *err)
{
    struct job j = {.a = a, .k = steno_op_kernels(ctx)};
    size_t threads = (size_t)steno_op_threads(ctx), total;
    double macs = (double)a->batch * (double)a->q_heads * (double)a->rows * (double)a->keys *
                  (double)(a->size + a->v_size);
    if (!a->batch || !a->q_heads || !a->rows)
        return STENO_OK;
    if (!choose_attention(&j))
        return steno_ops_nomem(ctx, err);
    j.parts = macs < 262144 ? 1 : threads < a->batch * a->q_heads ? threads : a->batch * a->q_heads;
    j.scratch = steno_mul_size(j.parts, j.part_bytes, &total) ? steno_op_scratch(ctx, total) : NULL;
    if (!j.scratch)
        return steno_ops_nomem(ctx, err);
    steno_op_parallel(ctx, (int)j.parts, part_attention, &j);
    return STENO_OK;
}

steno_status steno_attention_check_columns(const struct steno_node *n, const char *fourth,
                                           steno_err *err)
{
    const char *const at[] = {"q_at", "k_at", "v_at", fourth};
    int64_t heads = steno_node_int(n, "heads", 0), size = steno_node_int(n, "size", 0);
    int64_t v = steno_node_int(n, "v_size", 0);
    bool ok = heads > 0 && size > 0 && v > 0 && heads < 65536 && size < 65536 && v < 65536;
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        ok = ok && steno_node_int(n, at[i], 0) >= 0 && steno_node_int(n, at[i], 0) < INT32_MAX;
    return ok ? STENO_OK
              : steno_fail(err, STENO_ERR_FORMAT,
                           "heads, size, v_size or a first column is out of range");
}
