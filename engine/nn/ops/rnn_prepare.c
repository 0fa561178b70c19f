/* LSTM, GRU and RNN while they are loaded: attributes, packed weights. */
#include "nn/ops/rnn.h"

#include "nn/ops/weights_round.h"

#include <stdlib.h>

/* ---- attributes ---- */

steno_status steno_rnn_attributes(const struct steno_node *n, struct steno_rnn *p, steno_err *err)
{
    const char *dir = steno_node_str(n, "direction", "forward");
    int64_t hidden = steno_node_int(n, "hidden_size", 0);
    p->quantized = n->op_type[0] == 'D';
    p->cell = n->op_type[0] == 'L' || p->quantized ? STENO_CELL_LSTM
              : n->op_type[0] == 'G'               ? STENO_CELL_GRU
                                                   : STENO_CELL_RNN;
    p->gates = p->cell == STENO_CELL_LSTM ? 4 : p->cell == STENO_CELL_GRU ? 3 : 1;
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
                                      p->cell == STENO_CELL_LSTM  ? 3
                                      : p->cell == STENO_CELL_GRU ? 2
                                                                  : 1,
                                      p->act, err);
}

/* ---- packing ---- */

/* Precision of f32 weights. int8 becomes bf16: the state passes through the product too often for 8
 * bits. */
static enum steno_precision kept_in(const struct steno_prepare *pc)
{
    const enum steno_precision asked = steno_prepare_precision(pc);
    return asked == STENO_INT8_WEIGHTS ? STENO_BF16_WEIGHTS : asked;
}

void steno_rnn_packed_sizes(const struct steno_rnn *p, size_t input,
                            const struct steno_gemm_weights *f, size_t size[3])
{
    size[0] = f->packed_bytes(input, p->hidden * (size_t)p->gates);
    size[1] = f->packed_bytes(p->hidden, steno_rnn_recurrent_columns(p));
    size[2] = p->cell == STENO_CELL_GRU ? f->packed_bytes(p->hidden, p->hidden) : 0;
}

void steno_rnn_pack_direction(const struct steno_rnn *p, size_t input,
                              const struct steno_gemm_weights *f, const struct steno_rnn_packed *to,
                              const float *w, const float *r)
{
    size_t h = p->hidden, rows = h * (size_t)p->gates;
    bool t = !p->quantized; /* the layout is [columns, rows] */
    f->pack(to->w, w, t ? input : rows, t, input, rows);
    f->pack(to->r, r, t ? h : rows, t, h, steno_rnn_recurrent_columns(p));
    if (p->cell == STENO_CELL_GRU)
        f->pack(to->rh, r + 2 * h * h, h, true, h, h);
}

void steno_rnn_release(void *priv)
{
    struct steno_rnn *p = priv;
    for (int d = 0; p && d < 2; d++) {
        steno_rnn_int8_free(&p->int8[d].w);
        steno_rnn_int8_free(&p->int8[d].r);
    }
    free(p);
}

bool steno_rnn_weights_fit(const struct steno_rnn *p, const struct steno_shape *w,
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

int64_t steno_rnn_width(const struct steno_rnn *p, const struct steno_shape *s)
{
    return s->rank == 3 ? s->dim[p->quantized ? 1 : 2] : STENO_DIM_ANY;
}

/* Report what precision `kept` did to weights t. */
static void report(struct steno_prepare *pc, const struct steno_tensor *t,
                   enum steno_precision kept)
{
    const size_t n = steno_numel(t);
    steno_prepare_rounded(pc, t->data, n, kept != STENO_FP32, steno_round_error(t->data, n, kept));
}

/* The precision of W and R: the network's, or f32 if it does not hold them. Sets the form and the
 * bytes of W, of R and of its last part, for one direction. */
static enum steno_precision choose_form(struct steno_prepare *pc, struct steno_rnn *p,
                                        const struct steno_tensor *w, const struct steno_tensor *r,
                                        size_t size[3])
{
    enum steno_precision kept = kept_in(pc);
    if (steno_weights_overflow(pc, kept, w) || steno_weights_overflow(pc, kept, r))
        kept = STENO_FP32;
    p->form = steno_weights_as(steno_prepare_kernels(pc), kept);
    steno_rnn_packed_sizes(p, p->input, &p->form, size);
    for (int i = 0; i < 3; i++)
        size[i] = steno_aligned(size[i]);
    return kept;
}

static steno_status pack_constant(struct steno_prepare *pc, struct steno_rnn *p,
                                  const struct steno_tensor *w, const struct steno_tensor *r,
                                  steno_err *err)
{
    size_t h = p->hidden, rows = h * (size_t)p->gates, size[3];
    enum steno_precision kept;
    char *mw, *mr;
    bool filled, r_filled;
    p->input = (size_t)steno_rnn_width(p, &w->shape);
    kept = choose_form(pc, p, w, r, size);
    mw = steno_prepare_memory(pc, 1, size[0] * (size_t)p->dirs, NULL, &filled);
    mr = steno_prepare_memory(pc, 2, (size[1] + size[2]) * (size_t)p->dirs, NULL, &r_filled);
    if (!mw || !mr)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    for (size_t d = 0; d < (size_t)p->dirs; d++) {
        struct steno_rnn_packed *to = &p->packed[d];
        to->w = mw + d * size[0];
        to->r = mr + d * (size[1] + size[2]);
        to->rh = mr + d * (size[1] + size[2]) + size[1];
        if (!filled)
            steno_rnn_pack_direction(p, p->input, &p->form, to,
                                     (const float *)w->data + d * rows * p->input,
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
static steno_status pack_quantized(struct steno_prepare *pc, struct steno_rnn *p, steno_err *err)
{
    const steno_kernels *k = steno_prepare_kernels(pc);
    struct steno_int8 w, r;
    steno_status st = STENO_OK;
    if (!constant_int8(pc, 0, &w) || !constant_int8(pc, 1, &r) || !p->hidden)
        return STENO_OK;
    if (!steno_rnn_weights_fit(p, &w.q->shape, &r.q->shape))
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
    p->input = (size_t)steno_rnn_width(p, &w.q->shape);
    p->is_packed = true;
    return STENO_OK;
}

steno_status steno_rnn_prepare(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_tensor *w = steno_prepare_const(pc, 1);
    const struct steno_tensor *r = steno_prepare_const(pc, 2);
    struct steno_rnn *p = calloc(1, sizeof *p);
    steno_status st;
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    st = steno_rnn_attributes(n, p, err);
    if (!st && r && !p->hidden && steno_rnn_width(p, &r->shape) > 0)
        p->hidden = (size_t)steno_rnn_width(p, &r->shape);
    if (!st && p->quantized && w && r)
        st = pack_quantized(pc, p, err);
    if (!st && w && r && w->dtype == STENO_F32 && r->dtype == STENO_F32 && p->hidden) {
        if (!steno_rnn_weights_fit(p, &w->shape, &r->shape))
            st = steno_fail(err, STENO_ERR_FORMAT,
                            "node '%s': W and R do not fit hidden_size %zu and %d directions",
                            n->name, p->hidden, p->dirs);
        else
            st = pack_constant(pc, p, w, r, err);
    }
    if (st) {
        steno_rnn_release(p);
        return st;
    }
    *priv = p;
    return STENO_OK;
}
