/* LSTM, GRU, RNN (ai.onnx, opset 1 and later; layout from 14), com.microsoft DynamicQuantizeLSTM:
 * 8-bit weights as [dirs, in, 4 H]; X and the h of every step are quantized to u8 over their own
 * range.
 *
 * For each direction, one matrix product computes the input part of all steps. Then each step has a
 * small product for the recurrent part, and computes the cell row by row. Constant weights are
 * packed at load. Gate order as in the specification: LSTM i o f c, GRU z r h. */
#include "nn/ops/rnn.h"

#include <math.h>
#include <stdlib.h>

/* ---- shapes ---- */

static steno_status infer_rnn(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_rnn p = {0};
    struct steno_shape x = steno_infer_shape(ic, 0), r = steno_infer_shape(ic, 2), y = {.rank = 4};
    steno_dtype t = steno_infer_dtype(ic, 0);
    int64_t seq = STENO_DIM_ANY, batch = STENO_DIM_ANY, hidden;
    struct steno_shape last = {.rank = 3};
    steno_status st = steno_rnn_attributes(n, &p, err);
    if (st)
        return st;
    if (t == STENO_F64 || (t && !steno_ops_is_float(t)))
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s does not support %s", n->op_type,
                          steno_dtype_name(t));
    if (x.rank >= 0 && x.rank != 3)
        return steno_fail(err, STENO_ERR_INVAL, "X has rank %d, expected 3", x.rank);
    if (x.rank == 3) {
        seq = x.dim[p.batch_first ? 1 : 0];
        batch = x.dim[p.batch_first ? 0 : 1];
    }
    hidden = p.hidden ? (int64_t)p.hidden : steno_rnn_width(&p, &r);
    if (p.batch_first) {
        y = (struct steno_shape){4, {batch, seq, p.dirs, hidden}};
        last = (struct steno_shape){3, {batch, p.dirs, hidden}};
    } else {
        y = (struct steno_shape){4, {seq, p.dirs, batch, hidden}};
        last = (struct steno_shape){3, {p.dirs, batch, hidden}};
    }
    for (int i = 0; i < n->n_out; i++)
        steno_infer_set(ic, i, t, i ? &last : &y);
    return STENO_OK;
}

/* ---- run ---- */

struct share {
    const struct steno_rnn_run *r;
    const float *x;
    const struct steno_gemm_epilogue *ep;
    int parts;
};

static void input_part(void *arg, int part)
{
    struct share *s = arg;
    const struct steno_rnn_run *r = s->r;
    size_t wide = r->p->hidden * (size_t)r->p->gates;
    if (r->w8) {
        steno_rnn_int8_product(r->k, r->w8, &r->x8, r->seq * r->batch, s->ep->bias, r->gates,
                               (size_t)part, (size_t)s->parts);
        return;
    }
    r->form->part(r->seq * r->batch, wide, r->input, s->x, r->input, r->packed.w, r->gates, wide,
                  s->ep, (size_t)part, (size_t)s->parts);
}

/* Sum the biases of one direction into dst [G*H], except the recurrent bias of h in a GRU; NULL B
 * gives zeros. */
static void sum_bias(const struct steno_rnn *p, const float *b, float *dst)
{
    size_t n = p->hidden, wide = n * (size_t)p->gates;
    for (size_t j = 0; j < wide; j++) {
        bool late = p->cell == STENO_CELL_GRU && j >= 2 * n; /* the reset gate comes in between */
        dst[j] = b ? b[j] + (late ? 0 : b[wide + j]) : 0;
    }
}

struct io { /* inputs as f32; outputs as f32 memory to write */
    const float *x, *w, *r, *b, *h0, *c0, *peep;
    struct steno_tensor *ty, *th, *tc;
    float *y, *yh, *yc;
};

static steno_status fetch(struct steno_op_ctx *ctx, int i, size_t want, const float **out,
                          steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, i);
    *out = NULL;
    if (!t)
        return STENO_OK;
    if (!steno_ops_is_float(t->dtype))
        return steno_ops_bad_type(ctx, err, t->dtype);
    if (steno_numel(t) != want)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d has %zu elements, expected %zu",
                             i, steno_numel(t), want);
    *out = steno_ops_as_f32(ctx, t);
    return *out ? STENO_OK : steno_ops_nomem(ctx, err);
}

static steno_status read_lens(struct steno_op_ctx *ctx, size_t seq, size_t batch, int64_t *lens,
                              steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, 4);
    if (t && (steno_numel(t) != batch || (t->dtype != STENO_I32 && t->dtype != STENO_I64)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "sequence_lens has %zu elements, expected %zu", steno_numel(t), batch);
    for (size_t b = 0; b < batch; b++) {
        lens[b] = t ? steno_ops_get_i64(t, b) : (int64_t)seq;
        if (lens[b] < 0 || (uint64_t)lens[b] > seq)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "sequence_lens[%zu] is %lld of %zu", b,
                                 (long long)lens[b], seq);
    }
    return STENO_OK;
}

static steno_status make_outputs(struct steno_op_ctx *ctx, const struct steno_rnn_run *r,
                                 struct io *io, steno_err *err)
{
    const struct steno_rnn *p = r->p;
    int64_t s = (int64_t)r->seq, b = (int64_t)r->batch, h = (int64_t)p->hidden;
    struct steno_shape y = {4, {s, p->dirs, b, h}}, last = {3, {p->dirs, b, h}};
    steno_dtype t = steno_op_in(ctx, 0)->dtype;
    steno_status st = STENO_OK;
    if (p->batch_first) {
        y = (struct steno_shape){4, {b, s, p->dirs, h}};
        last = (struct steno_shape){3, {b, p->dirs, h}};
    }
    if (steno_op_wants(ctx, 0))
        st = steno_op_out(ctx, 0, t, &y, &io->ty, err);
    if (!st && steno_op_wants(ctx, 1))
        st = steno_op_out(ctx, 1, t, &last, &io->th, err);
    if (!st && p->cell == STENO_CELL_LSTM && steno_op_wants(ctx, 2))
        st = steno_op_out(ctx, 2, t, &last, &io->tc, err);
    if (st)
        return st;
    io->y = io->ty ? steno_ops_out_f32(ctx, io->ty) : NULL;
    io->yh = io->th ? steno_ops_out_f32(ctx, io->th) : NULL;
    io->yc = io->tc ? steno_ops_out_f32(ctx, io->tc) : NULL;
    if ((io->ty && !io->y) || (io->th && !io->yh) || (io->tc && !io->yc))
        return steno_ops_nomem(ctx, err);
    if (io->y)
        memset(io->y, 0, steno_numel(io->ty) * sizeof *io->y);
    return STENO_OK;
}

/* Dequantize 8-bit W or R, input 1 or 2, to f32. */
static steno_status fetch_int8(struct steno_op_ctx *ctx, int in, const float **out, steno_err *err)
{
    int scale = 6 + 2 * in;
    struct steno_int8 w = {steno_op_in(ctx, in), steno_op_in(ctx, scale),
                           steno_op_in(ctx, scale + 1)};
    if (!w.scale)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d is missing", scale);
    return steno_int8_scratch(ctx, &w, out, err);
}

/* Quantize X to u8, for the 8-bit product; dequantize it again where that is not there. */
static steno_status round_x(struct steno_op_ctx *ctx, struct steno_rnn_run *r, const float **x,
                            steno_err *err)
{
    const size_t rows = r->seq * r->batch, n = rows * r->input;
    float *to, scale;
    if (r->p->is_packed) {
        r->x8.q = steno_op_scratch(ctx, n + 1);
        r->h8.q = steno_op_scratch(ctx, r->batch * r->p->hidden + 1);
        r->x8.scale = steno_op_scratch(ctx, (rows + 1) * sizeof(float));
        r->h8.scale = steno_op_scratch(ctx, (r->batch + 1) * sizeof(float));
        r->x8.zero = steno_op_scratch(ctx, (rows + 1) * sizeof(int32_t));
        r->h8.zero = steno_op_scratch(ctx, (r->batch + 1) * sizeof(int32_t));
        if (!r->x8.q || !r->h8.q || !r->x8.scale || !r->h8.scale || !r->x8.zero || !r->h8.zero)
            return steno_ops_nomem(ctx, err);
        steno_rnn_int8_round(r->k, *x, rows, r->input, &r->x8);
        return STENO_OK;
    }
    to = steno_op_scratch(ctx, (n + 1) * sizeof *to);
    if (!to)
        return steno_ops_nomem(ctx, err);
    scale = steno_contrib_dynamic(r->k, *x, n, to);
    r->k->mul_f32(to, to, 1, &scale, 0, n);
    *x = to;
    return STENO_OK;
}

static steno_status fetch_all(struct steno_op_ctx *ctx, struct steno_rnn_run *r, struct io *io,
                              steno_err *err)
{
    const struct steno_rnn *p = r->p;
    size_t d = (size_t)p->dirs, h = p->hidden, wide = h * (size_t)p->gates;
    steno_status st = fetch(ctx, 0, r->seq * r->batch * r->input, &io->x, err);
    if (!st && p->quantized)
        st = round_x(ctx, r, &io->x, err);
    if (!st && !p->is_packed)
        st = p->quantized ? fetch_int8(ctx, 1, &io->w, err)
                          : fetch(ctx, 1, d * wide * r->input, &io->w, err);
    if (!st && !p->is_packed)
        st = p->quantized ? fetch_int8(ctx, 2, &io->r, err)
                          : fetch(ctx, 2, d * wide * h, &io->r, err);
    if (!st)
        st = fetch(ctx, 3, d * 2 * wide, &io->b, err);
    if (!st)
        st = fetch(ctx, 5, d * r->batch * h, &io->h0, err);
    if (!st && p->cell == STENO_CELL_LSTM)
        st = fetch(ctx, 6, d * r->batch * h, &io->c0, err);
    if (!st && p->cell == STENO_CELL_LSTM)
        st = fetch(ctx, 7, d * 3 * h, &io->peep, err);
    return st;
}

static steno_status scratch_of(struct steno_op_ctx *ctx, struct steno_rnn_run *r, float **bias,
                               steno_err *err)
{
    const struct steno_rnn *p = r->p;
    size_t h = p->hidden, wide = h * (size_t)p->gates, size[3];
    r->gates = steno_op_scratch(ctx, r->seq * r->batch * wide * sizeof(float));
    r->rec = steno_op_scratch(ctx, r->batch * wide * sizeof(float));
    r->h = steno_op_scratch(ctx, r->batch * h * sizeof(float));
    r->c = steno_op_scratch(ctx, r->batch * h * sizeof(float));
    r->tmp = steno_op_scratch(ctx, r->batch * h * sizeof(float));
    *bias = steno_op_scratch(ctx, wide * sizeof(float));
    if (!r->gates || !r->rec || !r->h || !r->c || !r->tmp || !*bias)
        return steno_ops_nomem(ctx, err);
    if (!p->is_packed) {
        steno_rnn_packed_sizes(p, r->input, r->form, size);
        r->packed.w = steno_op_scratch(ctx, size[0]);
        r->packed.r = steno_op_scratch(ctx, size[1]);
        r->packed.rh = steno_op_scratch(ctx, size[2] ? size[2] : 1);
        if (!r->packed.w || !r->packed.r || !r->packed.rh)
            return steno_ops_nomem(ctx, err);
    }
    return STENO_OK;
}

static void load_state(const struct steno_rnn_run *r, float *dst, const float *src, int d)
{
    size_t h = r->p->hidden;
    for (size_t b = 0; b < r->batch; b++) {
        size_t at =
            r->p->batch_first ? (b * (size_t)r->p->dirs + (size_t)d) : ((size_t)d * r->batch + b);
        if (src)
            memcpy(dst + b * h, src + at * h, h * sizeof *dst);
        else
            memset(dst + b * h, 0, h * sizeof *dst);
    }
}

static void store_state(const struct steno_rnn_run *r, float *dst, const float *src, int d)
{
    size_t h = r->p->hidden;
    for (size_t b = 0; dst && b < r->batch; b++) {
        size_t at =
            r->p->batch_first ? (b * (size_t)r->p->dirs + (size_t)d) : ((size_t)d * r->batch + b);
        memcpy(dst + at * h, src + b * h, h * sizeof *dst);
    }
}

static void one_direction(struct steno_op_ctx *ctx, struct steno_rnn_run *r, const struct io *io,
                          float *bias, int d)
{
    const struct steno_rnn *p = r->p;
    size_t h = p->hidden, wide = h * (size_t)p->gates, dirs = (size_t)p->dirs, dd = (size_t)d;
    const float *b = io->b ? io->b + dd * 2 * wide : NULL;
    struct steno_gemm_epilogue ep = {.bias = bias, .alpha = 1};
    struct share s = {r, io->x, &ep, 1};
    size_t y_time = p->batch_first ? dirs * h : dirs * r->batch * h;
    size_t y_batch = p->batch_first ? r->seq * dirs * h : h;
    float *y = io->y ? io->y + (p->batch_first ? dd * h : dd * r->batch * h) : NULL;
    r->act = p->act[d];
    r->peep = io->peep ? io->peep + dd * 3 * h : NULL;
    r->bias_h = b && p->cell == STENO_CELL_GRU ? b + wide + 2 * h : NULL;
    r->w8 = p->is_packed && p->quantized ? &p->int8[d].w : NULL;
    r->r8 = p->is_packed && p->quantized ? &p->int8[d].r : NULL;
    if (p->is_packed)
        r->packed = p->packed[d];
    else
        steno_rnn_pack_direction(p, r->input, r->form, &r->packed, io->w + dd * wide * r->input,
                                 io->r + dd * wide * h);
    sum_bias(p, b, bias);
    load_state(r, r->h, io->h0, d);
    load_state(r, r->c, io->c0, d);
    /* below 2^18 multiply-adds one thread is faster than waking another */
    if (r->seq * r->batch * wide * r->input > 1u << 18)
        s.parts = steno_op_threads(ctx);
    steno_op_parallel(ctx, s.parts, input_part, &s);
    steno_rnn_direction(r, d == 1 || p->reverse_first, y, y_time, y_batch);
    store_state(r, io->yh, r->h, d);
    store_state(r, io->yc, r->c, d);
}

static steno_status run_rnn(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_rnn *frozen = steno_op_priv(ctx);
    struct steno_rnn p = *frozen;
    const struct steno_gemm_weights f32 = steno_weights_as(steno_op_kernels(ctx), STENO_FP32);
    struct steno_rnn_run r = {
        .p = &p, .k = steno_op_kernels(ctx), .form = p.is_packed ? &p.form : &f32};
    struct io io = {0};
    const struct steno_tensor *x = steno_op_in(ctx, 0), *wt = steno_op_in(ctx, 1),
                              *rt = steno_op_in(ctx, 2);
    int64_t *lens;
    float *bias;
    steno_status st;
    if (!p.hidden && !p.is_packed && steno_rnn_width(&p, &rt->shape) > 0)
        p.hidden = (size_t)steno_rnn_width(&p, &rt->shape);
    if (x->shape.rank != 3 || !p.hidden ||
        (!p.is_packed && !steno_rnn_weights_fit(&p, &wt->shape, &rt->shape)) ||
        x->shape.dim[2] != (p.is_packed ? (int64_t)p.input : steno_rnn_width(&p, &wt->shape)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "X, W and R do not fit each other, hidden_size %zu and %d directions",
                             p.hidden, p.dirs);
    r.seq = (size_t)x->shape.dim[p.batch_first ? 1 : 0];
    r.batch = (size_t)x->shape.dim[p.batch_first ? 0 : 1];
    r.input = (size_t)x->shape.dim[2];
    lens = steno_op_scratch(ctx, (r.batch + 1) * sizeof *lens);
    if (!lens)
        return steno_ops_nomem(ctx, err);
    r.lens = lens;
    st = read_lens(ctx, r.seq, r.batch, lens, err);
    if (!st)
        st = fetch_all(ctx, &r, &io, err);
    if (!st)
        st = make_outputs(ctx, &r, &io, err);
    if (!st)
        st = scratch_of(ctx, &r, &bias, err);
    if (st)
        return st;
    for (int d = 0; d < p.dirs; d++)
        one_direction(ctx, &r, &io, bias, d);
    if (io.ty)
        steno_ops_put_f32(io.ty, io.y);
    if (io.th)
        steno_ops_put_f32(io.th, io.yh);
    if (io.tc)
        steno_ops_put_f32(io.tc, io.yc);
    return STENO_OK;
}

const struct steno_op steno_ops_rnn[] = {
    {"", "LSTM", 1, 0, 0, infer_rnn, steno_rnn_prepare, steno_rnn_release, run_rnn},
    {"", "GRU", 1, 0, 0, infer_rnn, steno_rnn_prepare, steno_rnn_release, run_rnn},
    {"", "RNN", 1, 0, 0, infer_rnn, steno_rnn_prepare, steno_rnn_release, run_rnn},
    {"com.microsoft", "DynamicQuantizeLSTM", 1, 0, 0, infer_rnn, steno_rnn_prepare,
     steno_rnn_release, run_rnn},
    {0},
};
