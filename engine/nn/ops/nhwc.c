#include "nn/ops/nhwc.h"

#include "base/cpu.h"
#include "nn/kernels/winograd.h"
#include "nn/ops/conv_i8.h"
#include "nn/ops/conv_winograd_i8.h"

#include <stdlib.h>

/* ---- shapes ---- */

steno_status steno_infer_nhwc(struct steno_infer *ic, const struct steno_shape *x,
                              const struct steno_conv *s, struct steno_window *win,
                              struct steno_shape *y, steno_err *err)
{
    steno_status st = STENO_OK;
    *y = *x;
    if (x->rank < 0)
        return STENO_OK;
    if (x->rank != win->n + 2)
        return steno_fail(err, STENO_ERR_INVAL, "X has rank %d, but W has rank %d", x->rank,
                          win->n + 2);
    if (x->dim[x->rank - 1] >= 0 && (size_t)x->dim[x->rank - 1] != s->c_in)
        return steno_fail(err, STENO_ERR_INVAL, "X has %lld channels, but W and group require %zu",
                          (long long)x->dim[x->rank - 1], s->c_in);
    for (int i = 0; i < win->n && !st; i++) {
        st = steno_window_out(win, i, x->dim[i + 1], &y->dim[i + 1], err);
        if (y->dim[i + 1] == STENO_DIM_ANY)
            y->dim[i + 1] = steno_infer_new_dim(ic);
    }
    y->dim[y->rank - 1] = (int64_t)s->c_out;
    return st;
}

steno_status steno_nhwc_extents(const struct steno_shape *x, struct steno_window *win,
                                struct steno_conv *s, struct steno_shape *y, steno_err *err)
{
    steno_status st = STENO_OK;
    *y = *x;
    y->dim[y->rank - 1] = (int64_t)s->c_out;
    s->in[0] = s->out[0] = 1;
    for (int i = 0; i < win->n && !st; i++) {
        const int d = i + 2 - win->n;
        st = steno_window_out(win, i, x->dim[i + 1], &y->dim[i + 1], err);
        if (st)
            break;
        s->in[d] = (size_t)x->dim[i + 1];
        s->out[d] = (size_t)y->dim[i + 1];
        s->pad[d] = (size_t)win->before[i];
    }
    return st;
}

/* ---- weights ---- */

static void make_few(float *to, const float *w, const void *arg)
{
    const struct steno_conv *s = arg;
    steno_winograd_weights(to, w, s->c_out, s->c_in);
}

static steno_status pack_nhwc(struct steno_prepare *pc, int in, struct steno_nhwc *c, size_t bytes,
                              steno_err *err)
{
    const struct steno_tensor *w = steno_prepare_const(pc, in);
    const steno_kernels *k = steno_prepare_kernels(pc);
    struct steno_packing how = {.n = 0};
    bool filled;
    steno_packing_put(&how, "nhwc", 4);
    steno_packing_put(&how, &c->s, sizeof c->s);
    c->packed = steno_prepare_memory(pc, in, bytes, &how, &filled);
    if (!c->packed)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    if (!filled) {
        k->conv_nhwc_f32_pack(c->packed, w->data, &c->s);
        steno_prepare_rounded(pc, w->data, steno_numel(w), false, 0);
    }
    return STENO_OK;
}

steno_status steno_prepare_nhwc(struct steno_prepare *pc, int in, const struct steno_conv *s,
                                const struct steno_window *win, struct steno_nhwc *c,
                                steno_err *err)
{
    const struct steno_tensor *w = steno_prepare_const(pc, in);
    const enum steno_precision precision = steno_prepare_precision(pc);
    const steno_kernels *k = steno_prepare_kernels(pc);
    size_t bytes;
    if (!w || w->dtype != STENO_F32 || w->shape.rank < 3 || w->shape.rank > 4 || !steno_numel(w))
        return steno_fail(err, STENO_ERR_FORMAT, "weights must be constant, f32, of rank 3 or 4");
    if (s->group != 1 && (s->group != s->c_in || s->c_out != s->c_in))
        return steno_fail(err, STENO_ERR_FORMAT, "group %zu with %zu channels is not supported",
                          s->group, s->c_in);
    c->s = *s;
    c->few = precision != STENO_INT8_WEIGHTS && steno_winograd_fits(s) &&
             (precision != STENO_BF16_WEIGHTS || k->gemm_bf16.conv_winograd);
    if (c->few) {
        const struct steno_weight_transform m = {
            STENO_WINOGRAD_SLOTS * s->c_in, s->c_out, make_few, &c->s, sizeof c->s, false};
        return steno_prepare_weights_transformed(pc, in, &m, &c->lowered, err);
    }
    /* AMX tiles multiply bytes faster than sums of pixels can be formed */
    if (precision == STENO_INT8_WEIGHTS && steno_winograd_fits(s) &&
        !(k->cpu & STENO_CPU_AMX && k->cpu & STENO_CPU_BF16)) {
        const struct steno_weight_transform m = {s->c_in, s->c_out,    make_few,
                                                 &c->s,   sizeof c->s, false};
        return steno_prepare_weights_transformed_parts(pc, in, &m, STENO_WINOGRAD_SLOTS, &c->slots,
                                                       err);
    }
    /* with channels last, patches cost nothing, so that 16 bits apply wherever int8 does */
    bytes = k->conv_nhwc_f32_packed_bytes(s);
    if (precision != STENO_FP32 && steno_ops_conv_lowers(STENO_INT8_WEIGHTS, s, win)) {
        const steno_status st = steno_ops_conv_lower(pc, in, &c->s, &c->lowered, err);
        if (st || c->lowered)
            return st;
    }
    return pack_nhwc(pc, in, c, bytes, err);
}

void steno_nhwc_release(struct steno_nhwc *c)
{
    steno_weights_free(c->lowered);
    free(c->slots);
}

/* ---- one image ---- */

static bool rounds(const struct steno_nhwc *c)
{
    return c->lowered && c->lowered->precision == STENO_INT8_WEIGHTS;
}

size_t steno_nhwc_work(const struct steno_nhwc *c, const struct steno_conv *s, size_t n_parts)
{
    return c->slots    ? steno_conv_few_work(s, n_parts)
           : rounds(c) ? steno_ops_conv_rounded_work(s, c->lowered, n_parts)
                       : 0;
}

void steno_nhwc_part(const steno_kernels *k, const struct steno_nhwc_image *m, size_t part,
                     size_t n_parts)
{
    const struct steno_weights *w = m->c->lowered;
    if (m->c->slots)
        steno_conv_few_part(k,
                            &(struct steno_conv_winograd_i8){m->s, m->x, m->c->slots, m->ep, m->y},
                            m->work, part, n_parts);
    else if (!w)
        k->conv_nhwc_f32(m->s, m->x, m->c->packed, m->y, m->ep, part, n_parts);
    else if (rounds(m->c))
        steno_ops_conv_rounded_part(k, &(struct steno_conv_rounded){m->s, m->x, w, m->ep, m->y},
                                    m->work, part, n_parts);
    else if (w->precision == STENO_FP32)
        k->conv_winograd_f32(m->s, m->x, w->data, m->y, m->ep, part, n_parts);
    else if (m->c->few)
        steno_weights_kernels(k, w)->conv_winograd(m->s, m->x, w->data, m->y, m->ep, part, n_parts);
    else
        steno_weights_kernels(k, w)->conv(m->s, m->x, w->data, m->y, m->ep, part, n_parts);
}
