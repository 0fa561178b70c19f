/* LSTM, GRU, RNN (ai.onnx, opset 1 and later; layout from 14), com.microsoft DynamicQuantizeLSTM:
 * 8-bit weights as [dirs, in, 4 H]; X and the h of every step are quantized to u8 over their own
 * range.
 *
 * For each direction, one matrix product computes the input part of all steps. Then each step has a
 * small product for the recurrent part, and computes the cell row by row. Constant weights are
 * packed at load. Gate order as in the specification: LSTM i o f c, GRU z r h. */
#include "nn/ops/rnn_activation.h"
#include "nn/ops/rnn_int8.h"
#include "nn/ops/weights.h"

#include <math.h>
#include <stdlib.h>

enum cell { CELL_LSTM, CELL_GRU, CELL_RNN };

struct packed { /* one direction; GRU has the recurrent rows of h separate */
    void *w, *r, *rh;
};

struct forms { /* how each of them is packed and multiplied */
    struct steno_gemm_weights w, r, rh;
};

struct rnn { /* the node's frozen state */
    enum cell cell;
    int dirs, gates;
    bool quantized;     /* DynamicQuantizeLSTM */
    bool reverse_first; /* direction "reverse" */
    bool batch_first, input_forget, linear_before_reset;
    size_t hidden, input; /* input 0: not constant, read from X */
    float clip;           /* 0 = none */
    struct steno_rnn_activation act[2][3];
    struct forms forms;
    struct packed packed[2];
    bool is_packed;
    struct { /* quantized, by direction; W and R are constant where is_packed */
        struct steno_rnn_int8 w, r;
    } int8[2];
};

/* ---- attributes ---- */

static steno_status read_attributes(const struct steno_node *n, struct rnn *p, steno_err *err)
{
    const char *dir = steno_node_str(n, "direction", "forward");
    int64_t hidden = steno_node_int(n, "hidden_size", 0);
    p->quantized = n->op_type[0] == 'D';
    p->cell = n->op_type[0] == 'L' || p->quantized ? CELL_LSTM
              : n->op_type[0] == 'G'               ? CELL_GRU
                                                   : CELL_RNN;
    p->gates = p->cell == CELL_LSTM ? 4 : p->cell == CELL_GRU ? 3 : 1;
    p->dirs = !strcmp(dir, "bidirectional") ? 2 : 1;
    p->reverse_first = !strcmp(dir, "reverse");
    if (p->dirs == 1 && !p->reverse_first && strcmp(dir, "forward"))
        return steno_fail(err, STENO_ERR_FORMAT, "node '%s': direction '%s' is not known", n->name,
                          dir);
    if (hidden < 0 || hidden > 1 << 24)
        return steno_fail(err, STENO_ERR_LIMIT, "node '%s': hidden_size %lld is out of range",
                          n->name, (long long)hidden);
    p->hidden = (size_t)hidden;
    p->batch_first = steno_node_int(n, "layout", 0) != 0;
    p->input_forget = steno_node_int(n, "input_forget", 0) != 0;
    p->linear_before_reset = steno_node_int(n, "linear_before_reset", 0) != 0;
    p->clip = steno_node_float(n, "clip", 0);
    return steno_rnn_activations_read(n, (size_t)p->dirs,
                                      p->cell == CELL_LSTM  ? 3
                                      : p->cell == CELL_GRU ? 2
                                                            : 1,
                                      p->act, err);
}

/* ---- packing ---- */

static size_t recurrent_columns(const struct rnn *p) /* those that multiply h directly */
{
    return p->hidden * (size_t)(p->cell == CELL_GRU ? 2 : p->gates);
}

/* All weights in f32. */
static struct forms as_they_are(const steno_kernels *k)
{
    const struct steno_gemm_weights f32 = steno_weights_as(k, STENO_FP32, false);
    return (struct forms){f32, f32, f32};
}

/* Precision of f32 weights. int8 becomes bf16: the state passes through the product too often for 8
 * bits. */
static enum steno_precision kept_in(const struct steno_prepare *pc)
{
    const enum steno_precision asked = steno_prepare_precision(pc);
    return asked == STENO_INT8_WEIGHTS ? STENO_BF16_WEIGHTS : asked;
}

/* Weights kept in this precision. Large weights are compressed if they are multiplied with few
 * rows: for R the rows of the batch, for W the rows of all steps at once. An unknown batch counts
 * as one; an unknown number of steps counts as few when a state is carried. */
static struct forms forms_of(const struct steno_prepare *pc, const struct rnn *p,
                             enum steno_precision kept)
{
    const steno_kernels *k = steno_prepare_kernels(pc);
    const struct steno_shape x = steno_prepare_shape(pc, 0);
    const int64_t seq = x.rank == 3 ? x.dim[p->batch_first] : -1,
                  batch = x.rank == 3 ? x.dim[!p->batch_first] : -1;
    const int64_t most = k->compressed_max_rows ? (int64_t)k->compressed_max_rows : INT64_MAX,
                  rows = batch > 1 ? batch : 1;
    const struct steno_node *n = steno_prepare_node_of(pc);
    const bool carried = n->n_in > 5 && n->in[5] != STENO_NONE && !steno_prepare_const(pc, 5);
    const bool few = rows <= most,
               few_in_all = few && (seq > 0 ? seq <= most / rows : carried || most == INT64_MAX);
    const size_t h = p->hidden, cols = h * (size_t)p->gates;
    return (struct forms){
        steno_weights_as(k, kept, few_in_all && steno_ops_compressed(k, kept, p->input, cols)),
        steno_weights_as(k, kept, few && steno_ops_compressed(k, kept, h, recurrent_columns(p))),
        steno_weights_as(k, kept, few && steno_ops_compressed(k, kept, h, h))};
}

static void packed_sizes(const struct rnn *p, size_t input, const struct forms *f, size_t size[3])
{
    size[0] = f->w.packed_bytes(input, p->hidden * (size_t)p->gates);
    size[1] = f->r.packed_bytes(p->hidden, recurrent_columns(p));
    size[2] = p->cell == CELL_GRU ? f->rh.packed_bytes(p->hidden, p->hidden) : 0;
}

static void pack_direction(const struct rnn *p, size_t input, const struct forms *f,
                           const struct packed *to, const float *w, const float *r)
{
    size_t h = p->hidden, rows = h * (size_t)p->gates;
    bool t = !p->quantized; /* the layout is [columns, rows] */
    f->w.pack(to->w, w, t ? input : rows, t, input, rows);
    f->r.pack(to->r, r, t ? h : rows, t, h, recurrent_columns(p));
    if (p->cell == CELL_GRU)
        f->rh.pack(to->rh, r + 2 * h * h, h, true, h, h);
}

static void release_rnn(void *priv)
{
    struct rnn *p = priv;
    for (int d = 0; p && d < 2; d++) {
        steno_rnn_int8_free(&p->int8[d].w);
        steno_rnn_int8_free(&p->int8[d].r);
    }
    free(p);
}

static bool weights_fit(const struct rnn *p, const struct steno_shape *w,
                        const struct steno_shape *r)
{
    int64_t rows = (int64_t)p->hidden * p->gates;
    if (p->quantized)
        return w->rank == 3 && r->rank == 3 && w->dim[0] == p->dirs && r->dim[0] == p->dirs &&
               w->dim[2] == rows && r->dim[2] == rows && w->dim[1] >= 0 &&
               r->dim[1] == (int64_t)p->hidden;
    return w->rank == 3 && r->rank == 3 && w->dim[0] == p->dirs && r->dim[0] == p->dirs &&
           w->dim[1] == rows && r->dim[1] == rows && w->dim[2] >= 0 &&
           r->dim[2] == (int64_t)p->hidden;
}

/* Width of the input, given W, or hidden size, given R: the last axis, or the middle one if
 * quantized. */
static int64_t width_of(const struct rnn *p, const struct steno_shape *s)
{
    return s->rank == 3 ? s->dim[p->quantized ? 1 : 2] : STENO_DIM_ANY;
}

/* Report what precision `kept` did to weights t. */
static void report(struct steno_prepare *pc, const struct steno_tensor *t,
                   enum steno_precision kept)
{
    const size_t n = steno_numel(t);
    steno_prepare_rounded(pc, t->data, n, kept != STENO_FP32, steno_weights_lost(t->data, n, kept));
}

/* The precision of W and R: the network's, or f32 if it does not hold them. Sets the forms and the
 * bytes of W, of R and of its last part, for one direction. The size of what an earlier load packed
 * says which it was, so both differ. */
static enum steno_precision choose_forms(struct steno_prepare *pc, struct rnn *p,
                                         const struct steno_tensor *w, const struct steno_tensor *r,
                                         size_t size[3])
{
    const enum steno_precision asked = kept_in(pc);
    const size_t filled = steno_prepare_filled(pc);
    const steno_kernels *k = steno_prepare_kernels(pc);
    struct forms f32 = forms_of(pc, p, STENO_FP32);
    size_t size32[3];
    bool held;
    p->forms = forms_of(pc, p, asked);
    packed_sizes(p, p->input, &p->forms, size);
    packed_sizes(p, p->input, &f32, size32);
    for (int i = 0; i < 3; i++) {
        size[i] = steno_aligned(size[i]);
        size32[i] = steno_aligned(size32[i]);
    }
    size32[0] += size32[0] == size[0] ? STENO_ALIGN : 0;
    held =
        asked == STENO_FP32 || (filled ? filled != size32[0] * (size_t)p->dirs
                                       : steno_weights_hold(k, asked, w->data, steno_numel(w)) &&
                                             steno_weights_hold(k, asked, r->data, steno_numel(r)));
    if (held)
        return asked;
    if (!filled)
        steno_prepare_unheld(pc);
    p->forms = f32;
    memcpy(size, size32, sizeof size32);
    return STENO_FP32;
}

static steno_status pack_constant(struct steno_prepare *pc, struct rnn *p,
                                  const struct steno_tensor *w, const struct steno_tensor *r,
                                  steno_err *err)
{
    size_t h = p->hidden, rows = h * (size_t)p->gates, size[3];
    enum steno_precision kept;
    char *mw, *mr;
    bool filled, r_filled;
    p->input = (size_t)width_of(p, &w->shape);
    kept = choose_forms(pc, p, w, r, size);
    mw = steno_prepare_memory(pc, 1, size[0] * (size_t)p->dirs, NULL, &filled);
    mr = steno_prepare_memory(pc, 2, (size[1] + size[2]) * (size_t)p->dirs, NULL, &r_filled);
    if (!mw || !mr)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    for (size_t d = 0; d < (size_t)p->dirs; d++) {
        struct packed *to = &p->packed[d];
        to->w = mw + d * size[0];
        to->r = mr + d * (size[1] + size[2]);
        to->rh = mr + d * (size[1] + size[2]) + size[1];
        if (!filled)
            pack_direction(p, p->input, &p->forms, to, (const float *)w->data + d * rows * p->input,
                           (const float *)r->data + d * rows * h);
    }
    if (!filled)
        report(pc, w, kept);
    if (!r_filled)
        report(pc, r, kept);
    p->is_packed = true;
    return STENO_OK;
}

/* W (i = 0) or R (1) of a quantized node. False: not constant, or wrong, which run finds. */
static bool constant_int8(struct steno_prepare *pc, int i, struct steno_int8 *w)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const int scale = 8 + 2 * i;
    const bool zero = scale + 1 < n->n_in && n->in[scale + 1] != STENO_NONE;
    *w = (struct steno_int8){steno_prepare_const(pc, 1 + i),
                             scale < n->n_in ? steno_prepare_const(pc, scale) : NULL,
                             zero ? steno_prepare_const(pc, scale + 1) : NULL};
    return w->q && w->scale && (!zero || w->zero) && !steno_int8_check(w);
}

/* Pack constant 8-bit weights. They are not in the packed cache: the next load packs them again. */
static steno_status pack_quantized(struct steno_prepare *pc, struct rnn *p, steno_err *err)
{
    const steno_kernels *k = steno_prepare_kernels(pc);
    struct steno_int8 w, r;
    steno_status st = STENO_OK;
    if (!constant_int8(pc, 0, &w) || !constant_int8(pc, 1, &r) || !p->hidden)
        return STENO_OK;
    if (!weights_fit(p, &w.q->shape, &r.q->shape))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "node '%s': W and R do not fit hidden_size %zu and %d directions",
                          steno_prepare_node_of(pc)->name, p->hidden, p->dirs);
    for (int d = 0; d < p->dirs && !st; d++) {
        st = steno_rnn_int8_new(k, &w, (size_t)d, &p->int8[d].w, err);
        if (!st)
            st = steno_rnn_int8_new(k, &r, (size_t)d, &p->int8[d].r, err);
        if (!st)
            steno_prepare_packed(pc, p->int8[d].w.w->bytes + p->int8[d].r.w->bytes);
    }
    if (st)
        return st;
    steno_prepare_consumed(pc, 1);
    steno_prepare_consumed(pc, 2);
    p->input = (size_t)width_of(p, &w.q->shape);
    p->is_packed = true;
    return STENO_OK;
}

static steno_status prepare_rnn(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_tensor *w = n->n_in > 1 ? steno_prepare_const(pc, 1) : NULL;
    const struct steno_tensor *r = n->n_in > 2 ? steno_prepare_const(pc, 2) : NULL;
    struct rnn *p = calloc(1, sizeof *p);
    steno_status st;
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    st = read_attributes(n, p, err);
    if (!st && r && !p->hidden && width_of(p, &r->shape) > 0)
        p->hidden = (size_t)width_of(p, &r->shape);
    if (!st && p->quantized && w && r)
        st = pack_quantized(pc, p, err);
    if (!st && w && r && w->dtype == STENO_F32 && r->dtype == STENO_F32 && p->hidden) {
        if (!weights_fit(p, &w->shape, &r->shape))
            st = steno_fail(err, STENO_ERR_FORMAT,
                            "node '%s': W and R do not fit hidden_size %zu and %d directions",
                            n->name, p->hidden, p->dirs);
        else
            st = pack_constant(pc, p, w, r, err);
    }
    if (st) {
        release_rnn(p);
        return st;
    }
    *priv = p;
    return STENO_OK;
}

/* ---- shapes ---- */

static steno_status infer_rnn(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct rnn p = {0};
    struct steno_shape x = steno_infer_shape(ic, 0), r = steno_infer_shape(ic, 2), y = {.rank = 4};
    steno_dtype t = steno_infer_dtype(ic, 0);
    int64_t seq = STENO_DIM_ANY, batch = STENO_DIM_ANY, hidden;
    struct steno_shape last = {.rank = 3};
    steno_status st = read_attributes(n, &p, err);
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
    hidden = p.hidden ? (int64_t)p.hidden : width_of(&p, &r);
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

/* ---- the cell ---- */

static void gate(const struct rnn *p, const steno_kernels *k, const struct steno_rnn_activation *a,
                 float *x, size_t n)
{
    if (p->clip > 0)
        k->clip_f32(x, x, n, -p->clip, p->clip);
    steno_rnn_activate(k, a, x, n);
}

struct run { /* one node, one direction at a time */
    const struct rnn *p;
    const steno_kernels *k;
    size_t seq, batch, input;
    const struct steno_rnn_activation *act;
    const float *peep;   /* [3H] peepholes i o f, or NULL */
    const float *bias_h; /* GRU: recurrent bias of h */
    const int64_t *lens; /* [batch] */
    const struct forms *forms;
    struct packed packed;
    const struct steno_rnn_int8 *w8, *r8; /* 8-bit weights of the direction, or NULL */
    struct steno_rnn_rounded x8, h8;      /* X, and the state of the last step */
    /* [seq * batch, G*H] input part, with the biases that do not depend on a gate */
    float *gates;
    float *rec;   /* [batch, G*H] recurrent part of this step */
    float *h, *c; /* [batch, H] */
    float *tmp;   /* [batch, H] */
};

static void lstm_row(struct run *r, float *g, size_t b)
{
    size_t n = r->p->hidden;
    const steno_kernels *k = r->k;
    float *i = g, *o = g + n, *f = g + 2 * n, *cc = g + 3 * n, *c = r->c + b * n, *h = r->h + b * n;
    for (size_t j = 0; r->peep && j < n; j++) {
        i[j] += r->peep[j] * c[j];
        f[j] += r->peep[2 * n + j] * c[j];
    }
    gate(r->p, k, &r->act[0], i, n);
    if (r->p->input_forget)
        k->affine_f32(f, i, n, -1, 1);
    else
        gate(r->p, k, &r->act[0], f, n);
    gate(r->p, k, &r->act[1], cc, n);
    for (size_t j = 0; j < n; j++)
        c[j] = f[j] * c[j] + i[j] * cc[j];
    for (size_t j = 0; r->peep && j < n; j++)
        o[j] += r->peep[n + j] * c[j];
    gate(r->p, k, &r->act[0], o, n);
    memcpy(h, c, n * sizeof *h);
    steno_rnn_activate(k, &r->act[2], h, n);
    k->mul_f32(h, h, 1, o, 1, n);
}

/* g holds z r h of the input; z and r already include their recurrent part. */
static void gru_row(struct run *r, float *g, size_t b)
{
    size_t n = r->p->hidden;
    const steno_kernels *k = r->k;
    float *z = g, *reset = g + n, *hh = g + 2 * n, *h = r->h + b * n, *t = r->tmp + b * n;
    gate(r->p, k, &r->act[0], z, n);
    gate(r->p, k, &r->act[0], reset, n);
    if (r->p->linear_before_reset) {
        r->forms->rh.part(1, n, n, h, n, r->packed.rh, t, n, NULL, 0, 1);
        for (size_t j = 0; j < n; j++)
            hh[j] += reset[j] * (t[j] + (r->bias_h ? r->bias_h[j] : 0));
    } else {
        float *rh = r->rec + b * n * 3 + 2 * n; /* a part of rec that GRU does not use otherwise */
        k->mul_f32(rh, reset, 1, h, 1, n);
        r->forms->rh.part(1, n, n, rh, n, r->packed.rh, t, n, NULL, 0, 1);
        for (size_t j = 0; j < n; j++)
            hh[j] += t[j] + (r->bias_h ? r->bias_h[j] : 0);
    }
    gate(r->p, k, &r->act[1], hh, n);
    for (size_t j = 0; j < n; j++)
        h[j] = (1 - z[j]) * hh[j] + z[j] * h[j];
}

static void rnn_row(struct run *r, float *g, size_t b)
{
    gate(r->p, r->k, &r->act[0], g, r->p->hidden);
    memcpy(r->h + b * r->p->hidden, g, r->p->hidden * sizeof *g);
}

static size_t row_of(const struct run *r, size_t t, size_t b)
{
    return r->p->batch_first ? b * r->seq + t : t * r->batch + b;
}

/* The h before step t, in r->tmp. Sequences that ended before the previous step count as zeros in
 * the range that h is quantized over, as in ONNX Runtime. */
static void copy_state(struct run *r, size_t t)
{
    size_t n = r->p->hidden;
    memcpy(r->tmp, r->h, r->batch * n * sizeof *r->tmp);
    for (size_t b = 0; b < r->batch; b++)
        if (t > (size_t)r->lens[b])
            memset(r->tmp + b * n, 0, n * sizeof *r->tmp);
}

/* rec = h R before step t. */
static void recurrent_product(struct run *r, size_t t)
{
    const size_t n = r->p->hidden, wide = n * (size_t)r->p->gates, cols = recurrent_columns(r->p);
    struct steno_gemm_epilogue ep = {.alpha = 1};
    if (r->p->quantized)
        copy_state(r, t);
    if (r->r8) {
        steno_rnn_int8_round(r->k, r->tmp, r->batch, n, &r->h8);
        steno_rnn_int8_product(r->k, r->r8, &r->h8, r->batch, NULL, r->rec, 0, 1);
        return;
    }
    if (r->p->quantized)
        ep.alpha = steno_contrib_dynamic(r->k, r->tmp, r->batch * n, r->tmp);
    r->forms->r.part(r->batch, cols, n, r->p->quantized ? r->tmp : r->h, n, r->packed.r, r->rec,
                     wide, &ep, 0, 1);
}

/* Run one direction through time. y points at this direction's first element; y_time and y_batch
 * are its strides in time and batch. */
static void run_direction(struct run *r, bool reverse, float *y, size_t y_time, size_t y_batch)
{
    size_t n = r->p->hidden, wide = n * (size_t)r->p->gates, cols = recurrent_columns(r->p);
    for (size_t t = 0; t < r->seq; t++) {
        recurrent_product(r, t);
        for (size_t b = 0; b < r->batch; b++) {
            size_t len = (size_t)r->lens[b], at = reverse ? len - 1 - t : t;
            float *g;
            if (t >= len)
                continue;
            g = r->gates + row_of(r, at, b) * wide;
            r->k->add_f32(g, g, 1, r->rec + b * wide, 1, cols);
            if (r->p->cell == CELL_LSTM)
                lstm_row(r, g, b);
            else if (r->p->cell == CELL_GRU)
                gru_row(r, g, b);
            else
                rnn_row(r, g, b);
            if (y)
                memcpy(y + at * y_time + b * y_batch, r->h + b * n, n * sizeof *y);
        }
    }
}

/* ---- run ---- */

struct share {
    const struct run *r;
    const float *x;
    const struct steno_gemm_epilogue *ep;
    int parts;
};

static void input_part(void *arg, int part)
{
    struct share *s = arg;
    const struct run *r = s->r;
    size_t wide = r->p->hidden * (size_t)r->p->gates;
    if (r->w8) {
        steno_rnn_int8_product(r->k, r->w8, &r->x8, r->seq * r->batch, s->ep->bias, r->gates,
                               (size_t)part, (size_t)s->parts);
        return;
    }
    r->forms->w.part(r->seq * r->batch, wide, r->input, s->x, r->input, r->packed.w, r->gates, wide,
                     s->ep, (size_t)part, (size_t)s->parts);
}

/* Sum the biases of one direction into dst [G*H], except the recurrent bias of h in a GRU; NULL B
 * gives zeros. */
static void sum_bias(const struct rnn *p, const float *b, float *dst)
{
    size_t n = p->hidden, wide = n * (size_t)p->gates;
    for (size_t j = 0; j < wide; j++) {
        bool late = p->cell == CELL_GRU && j >= 2 * n; /* the reset gate comes in between */
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
    const struct steno_tensor *t = i < steno_op_n_in(ctx) ? steno_op_in(ctx, i) : NULL;
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
    const struct steno_tensor *t = steno_op_n_in(ctx) > 4 ? steno_op_in(ctx, 4) : NULL;
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

static steno_status make_outputs(struct steno_op_ctx *ctx, const struct run *r, struct io *io,
                                 steno_err *err)
{
    const struct rnn *p = r->p;
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
    if (!st && p->cell == CELL_LSTM && steno_op_wants(ctx, 2))
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
    struct steno_int8 w = {steno_op_in(ctx, in), steno_contrib_in(ctx, scale),
                           steno_contrib_in(ctx, scale + 1)};
    if (!w.scale)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d is missing", scale);
    return steno_int8_scratch(ctx, &w, out, err);
}

/* Quantize X to u8, for the 8-bit product; dequantize it again where that is not there. */
static steno_status round_x(struct steno_op_ctx *ctx, struct run *r, const float **x,
                            steno_err *err)
{
    const size_t rows = r->seq * r->batch, n = rows * r->input;
    float *to, scale;
    if (r->p->is_packed) {
        r->x8.q = steno_op_scratch(ctx, n + 1);
        r->h8.q = steno_op_scratch(ctx, r->batch * r->p->hidden + 1);
        r->x8.scale = steno_op_scratch(ctx, (rows + 1) * sizeof(float));
        r->h8.scale = steno_op_scratch(ctx, (r->batch + 1) * sizeof(float));
        if (!r->x8.q || !r->h8.q || !r->x8.scale || !r->h8.scale)
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

static steno_status fetch_all(struct steno_op_ctx *ctx, struct run *r, struct io *io,
                              steno_err *err)
{
    const struct rnn *p = r->p;
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
    if (!st && p->cell == CELL_LSTM)
        st = fetch(ctx, 6, d * r->batch * h, &io->c0, err);
    if (!st && p->cell == CELL_LSTM)
        st = fetch(ctx, 7, d * 3 * h, &io->peep, err);
    return st;
}

static steno_status scratch_of(struct steno_op_ctx *ctx, struct run *r, float **bias,
                               steno_err *err)
{
    const struct rnn *p = r->p;
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
        packed_sizes(p, r->input, r->forms, size);
        r->packed.w = steno_op_scratch(ctx, size[0]);
        r->packed.r = steno_op_scratch(ctx, size[1]);
        r->packed.rh = steno_op_scratch(ctx, size[2] ? size[2] : 1);
        if (!r->packed.w || !r->packed.r || !r->packed.rh)
            return steno_ops_nomem(ctx, err);
    }
    return STENO_OK;
}

static void load_state(const struct run *r, float *dst, const float *src, int d)
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

static void store_state(const struct run *r, float *dst, const float *src, int d)
{
    size_t h = r->p->hidden;
    for (size_t b = 0; dst && b < r->batch; b++) {
        size_t at =
            r->p->batch_first ? (b * (size_t)r->p->dirs + (size_t)d) : ((size_t)d * r->batch + b);
        memcpy(dst + at * h, src + b * h, h * sizeof *dst);
    }
}

static void one_direction(struct steno_op_ctx *ctx, struct run *r, const struct io *io, float *bias,
                          int d)
{
    const struct rnn *p = r->p;
    size_t h = p->hidden, wide = h * (size_t)p->gates, dirs = (size_t)p->dirs, dd = (size_t)d;
    const float *b = io->b ? io->b + dd * 2 * wide : NULL;
    struct steno_gemm_epilogue ep = {.bias = bias, .alpha = 1};
    struct share s = {r, io->x, &ep, 1};
    size_t y_time = p->batch_first ? dirs * h : dirs * r->batch * h;
    size_t y_batch = p->batch_first ? r->seq * dirs * h : h;
    float *y = io->y ? io->y + (p->batch_first ? dd * h : dd * r->batch * h) : NULL;
    r->act = p->act[d];
    r->peep = io->peep ? io->peep + dd * 3 * h : NULL;
    r->bias_h = b && p->cell == CELL_GRU ? b + wide + 2 * h : NULL;
    r->w8 = p->is_packed && p->quantized ? &p->int8[d].w : NULL;
    r->r8 = p->is_packed && p->quantized ? &p->int8[d].r : NULL;
    if (p->is_packed)
        r->packed = p->packed[d];
    else
        pack_direction(p, r->input, r->forms, &r->packed, io->w + dd * wide * r->input,
                       io->r + dd * wide * h);
    sum_bias(p, b, bias);
    load_state(r, r->h, io->h0, d);
    load_state(r, r->c, io->c0, d);
    /* below 2^18 multiply-adds one thread is faster than waking another */
    if (r->seq * r->batch * wide * r->input > 1u << 18)
        s.parts = steno_op_threads(ctx);
    steno_op_parallel(ctx, s.parts, input_part, &s);
    run_direction(r, d == 1 || p->reverse_first, y, y_time, y_batch);
    store_state(r, io->yh, r->h, d);
    store_state(r, io->yc, r->c, d);
}

static steno_status run_rnn(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct rnn *frozen = steno_op_priv(ctx);
    struct rnn p = *frozen;
    const struct forms f32 = as_they_are(steno_op_kernels(ctx));
    struct run r = {.p = &p, .k = steno_op_kernels(ctx), .forms = p.is_packed ? &p.forms : &f32};
    struct io io = {0};
    const struct steno_tensor *x, *wt, *rt;
    int64_t *lens;
    float *bias;
    steno_status st = steno_ops_need(ctx, 3, err);
    if (st)
        return st;
    x = steno_op_in(ctx, 0);
    wt = steno_op_in(ctx, 1);
    rt = steno_op_in(ctx, 2);
    if (!p.hidden && !p.is_packed && width_of(&p, &rt->shape) > 0)
        p.hidden = (size_t)width_of(&p, &rt->shape);
    if (x->shape.rank != 3 || !p.hidden ||
        (!p.is_packed && !weights_fit(&p, &wt->shape, &rt->shape)) ||
        x->shape.dim[2] != (p.is_packed ? (int64_t)p.input : width_of(&p, &wt->shape)))
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
    {"", "LSTM", 1, 0, 0, infer_rnn, prepare_rnn, release_rnn, run_rnn},
    {"", "GRU", 1, 0, 0, infer_rnn, prepare_rnn, release_rnn, run_rnn},
    {"", "RNN", 1, 0, 0, infer_rnn, prepare_rnn, release_rnn, run_rnn},
    {"com.microsoft", "DynamicQuantizeLSTM", 1, 0, 0, infer_rnn, prepare_rnn, release_rnn, run_rnn},
    {0},
};
