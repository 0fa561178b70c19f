/* espnet2/asr/decoder/rnn_decoder.py, espnet/nets/pytorch_backend/rnn/attentions.py of ESPnet
 * 202511: one token of one hypothesis. The part of the attention that depends on encoder frames
 * alone is a network of its own, the predecoder. There is no mask: all frames belong to the
 * utterance. */
#include "tools/convert/espnet_graphs.h"
#include "tools/convert/espnet_recur.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARPEN 2.0f /* ESPnet's factor in front of the softmax */

/* ---- attention ----------------------------------------------------------------------------- */

struct attention {
    const struct steno_espnet_attention_arch *a;
    int64_t d, units;
    /* past: weights of the step before [1,T]; coverage: of all steps before [N,1,T] */
    steno_value_id z, past, keys, frames;
};

/* NAME.N, or NAME for attentions of one head: n is -1. */
static const char *part_name(char out[32], const char *name, int n)
{
    if (n < 0)
        snprintf(out, 32, "%s", name);
    else
        snprintf(out, 32, "%s.%d", name, n);
    return out;
}

/* weights [rows,T] along time, by the convolution: [1,T,dim]. */
static steno_value_id locate(struct steno_make *m, const struct attention *t, steno_value_id x,
                             int head)
{
    const bool resolutions = t->a->kind == STENO_ATTENTION_HEADS_RESOLUTIONS;
    const int64_t filters = resolutions ? t->a->filters * (head + 1) / t->a->heads : t->a->filters;
    const int64_t rows = t->a->kind == STENO_ATTENTION_LOCATION_2D ? t->a->window : 1;
    const int64_t channels = t->a->channels, kernel = 2 * filters + 1, one = 1;
    const int64_t pads[] = {filters, filters};
    const struct steno_attr attr[] = {
        {.name = "kernel_shape", .kind = STENO_ATTR_INTS, .n = 1, .ints = &kernel},
        {.name = "pads", .kind = STENO_ATTR_INTS, .n = 2, .ints = pads},
        {.name = "strides", .kind = STENO_ATTR_INTS, .n = 1, .ints = &one}};
    char name[32], weight[48];
    float *w;
    steno_value_id in[2] = {steno_make_unsqueeze(m, x, rows > 1 ? 0 : 1), STENO_NONE};
    snprintf(weight, sizeof weight, "%s.weight", part_name(name, "loc_conv", head));
    w = steno_make_read(m, weight, 4, (int64_t[]){channels, 1, rows, kernel});
    in[1] = steno_make_floats(m, weight, 3, (int64_t[]){channels, rows, kernel}, w);
    free(w);
    x = steno_make_turn(m, steno_make_node(m, "Conv", 2, in, 3, attr));
    return steno_make_linear(m, x, part_name(name, "mlp_att", head), channels, t->a->dim, false);
}

/* Scores of the frames [1,T]. */
static steno_value_id attention_scores(struct steno_make *m, const struct attention *t)
{
    const enum steno_espnet_attention_kind kind = t->a->kind;
    const bool dot = kind == STENO_ATTENTION_DOT;
    const int64_t dim = t->a->dim;
    steno_value_id z = steno_make_linear(m, t->z, "mlp_dec", t->units, dim, dot), e, sum = t->past;
    if (dot) {
        z = steno_make_unsqueeze(m, steno_make_1(m, "Tanh", z), 2);
        return steno_make_squeeze(m, steno_make_2(m, "MatMul", t->keys, z), 2);
    }
    e = steno_make_add(m, t->keys, steno_make_unsqueeze(m, z, 1));
    if (kind == STENO_ATTENTION_COVERAGE || kind == STENO_ATTENTION_COVERAGE_LOCATION) {
        const struct steno_attr keep = {.name = "keepdims", .kind = STENO_ATTR_INT, .i = 0};
        const steno_value_id in[] = {t->past, steno_make_ints(m, 1, (int64_t[]){0})};
        sum = steno_make_node(m, "ReduceSum", 2, in, 1, &keep);
    }
    if (kind == STENO_ATTENTION_LOCATION || kind == STENO_ATTENTION_COVERAGE_LOCATION ||
        kind == STENO_ATTENTION_LOCATION_2D)
        e = steno_make_add(m, e, locate(m, t, sum, -1));
    if (kind == STENO_ATTENTION_COVERAGE)
        e = steno_make_add(
            m, e, steno_make_linear(m, steno_make_unsqueeze(m, sum, 2), "wvec", 1, dim, true));
    e = steno_make_linear(m, steno_make_1(m, "Tanh", e), "gvec", dim, 1, true);
    return steno_make_squeeze(m, e, 2);
}

/* The first step has one row of weights [1,T]; all of n rows are equal then. The last shape is for
 * runtimes, which learn from att_w how many rows there are. */
static steno_value_id all_rows(struct steno_make *m, steno_value_id past, int64_t n)
{
    steno_value_id shape = steno_make_extent_of(m, past, 1);
    shape = steno_make_concat(m, 0, steno_make_ints(m, 1, &n), shape);
    past = steno_make_2(m, "Expand", past, shape);
    return steno_make_reshape(m, past, 2, (int64_t[]){n, -1});
}

/* ---- several heads ------------------------------------------------------------------------- */

static bool has_heads(const struct steno_espnet_attention_arch *a)
{
    return a->kind >= STENO_ATTENTION_HEADS_DOT;
}

/* Weights [1,T] of one head; keys [1,T,dim], past [1,T]. */
static steno_value_id head_weights(struct steno_make *m, const struct attention *t, int h,
                                   steno_value_id keys, steno_value_id past)
{
    const enum steno_espnet_attention_kind kind = t->a->kind;
    const int64_t dim = t->a->dim;
    const float by = kind == STENO_ATTENTION_HEADS_LOCATION ? SHARPEN : 1 / sqrtf((float)dim);
    char name[32];
    steno_value_id q, e;
    q = steno_make_linear(m, t->z, part_name(name, "mlp_q", h), t->units, dim, true);
    if (kind == STENO_ATTENTION_HEADS_DOT) {
        q = steno_make_unsqueeze(m, steno_make_1(m, "Tanh", q), 2);
        e = steno_make_2(m, "MatMul", keys, q);
    } else {
        e = steno_make_add(m, keys, steno_make_unsqueeze(m, q, 1));
        if (past != STENO_NONE)
            e = steno_make_add(m, e, locate(m, t, past, h));
        e = steno_make_linear(m, steno_make_1(m, "Tanh", e), part_name(name, "gvec", h), dim, 1,
                              true);
    }
    e = steno_make_scale(m, steno_make_squeeze(m, e, 2), by);
    return steno_make_softmax(m, "Softmax", e, 1);
}

/* Keys of all heads and then their values lie side by side in t->keys. */
static steno_value_id attend_heads(struct steno_make *m, const struct attention *t,
                                   steno_value_id *weights)
{
    const int64_t dim = t->a->dim, heads = t->a->heads;
    steno_value_id context = STENO_NONE, all = STENO_NONE, past = t->past;
    if (past != STENO_NONE)
        past = all_rows(m, past, heads);
    for (int h = 0; h < heads && !m->st; h++) {
        const int64_t at = h * dim, value = (heads + h) * dim;
        steno_value_id k = steno_make_slice(m, t->keys, 2, at, at + dim), c, w;
        steno_value_id row = past == STENO_NONE ? past : steno_make_slice(m, past, 0, h, h + 1);
        w = head_weights(m, t, h, k, row);
        c = steno_make_2(m, "MatMul", steno_make_unsqueeze(m, w, 1),
                         steno_make_slice(m, t->keys, 2, value, value + dim));
        context = h ? steno_make_concat(m, 2, context, c) : c;
        all = h ? steno_make_concat(m, 0, all, w) : w;
    }
    *weights = all;
    context = steno_make_linear(m, context, "mlp_o", heads * dim, t->d, false);
    return steno_make_squeeze(m, context, 1);
}

static steno_value_id head_keys(struct steno_make *m, steno_value_id x,
                                const struct steno_espnet_arch *a)
{
    const int64_t dim = a->attention.dim;
    steno_value_id all = STENO_NONE;
    for (int i = 0; i < 2 * a->attention.heads && !m->st; i++) {
        const bool value = i >= a->attention.heads;
        char name[32];
        steno_value_id y;
        part_name(name, value ? "mlp_v" : "mlp_k", value ? i - (int)a->attention.heads : i);
        y = steno_make_linear(m, x, name, a->d, dim, false);
        if (!value && a->attention.kind == STENO_ATTENTION_HEADS_DOT)
            y = steno_make_1(m, "Tanh", y);
        all = i ? steno_make_concat(m, 2, all, y) : y;
    }
    return all;
}

/* ---- the attention and what is computed of frames alone ------------------------------------- */

/* The weighted frames [1,d]; *weights: what the next step takes as past. */
static steno_value_id attend_frames(struct steno_make *m, struct attention *t,
                                    steno_value_id *weights)
{
    steno_value_id w = t->past, y;
    if (has_heads(t->a))
        return attend_heads(m, t, weights);
    if (t->a->kind == STENO_ATTENTION_LOCATION_2D)
        t->past = all_rows(m, t->past, t->a->window);
    if (t->a->kind != STENO_ATTENTION_NONE)
        w = steno_make_softmax(m, "Softmax", steno_make_scale(m, attention_scores(m, t), SHARPEN),
                               1);
    y = steno_make_2(m, "MatMul", steno_make_unsqueeze(m, w, 1), t->frames);
    switch (t->a->kind) {
    case STENO_ATTENTION_NONE:
        w = steno_make_1(m, "Identity", w);
        break;
    case STENO_ATTENTION_COVERAGE:
    case STENO_ATTENTION_COVERAGE_LOCATION:
        w = steno_make_concat(m, 0, t->past, steno_make_unsqueeze(m, w, 0));
        break;
    case STENO_ATTENTION_LOCATION_2D: /* the oldest row goes */
        w = steno_make_concat(m, 0, steno_make_slice(m, t->past, 0, 1, INT64_MAX), w);
        break;
    default:
        break;
    }
    *weights = w;
    return steno_make_squeeze(m, y, 1);
}

static int64_t key_width(const struct steno_espnet_attention_arch *a)
{
    return has_heads(a) ? 2 * a->heads * a->dim : a->dim;
}

steno_status steno_espnet_write_predecoder(const struct steno_espnet_arch *a,
                                           const struct steno_make_weights *w, const char *path,
                                           steno_err *err)
{
    struct steno_make m;
    steno_value_id x;
    int64_t frames;
    if (steno_make_begin(&m, w, 1, err))
        return m.st;
    m.asked = "decoder_conf.att_conf";
    frames = steno_make_symbol(&m, "enc_h_length");
    x = steno_make_input(&m, "enc_h", STENO_F32, 3, (int64_t[]){1, frames, a->d});
    steno_make_at(&m, "decoder.att_list.0.");
    if (has_heads(&a->attention))
        x = head_keys(&m, x, a);
    else
        x = steno_make_linear(&m, x, "mlp_enc", a->d, a->attention.dim, true);
    if (a->attention.kind == STENO_ATTENTION_DOT)
        x = steno_make_1(&m, "Tanh", x);
    steno_make_output(&m, x, "pre_compute_enc_h", STENO_F32, 3,
                      (int64_t[]){1, frames, key_width(&a->attention)});
    return steno_make_write(&m, path, NULL);
}

/* ---- the decoder --------------------------------------------------------------------------- */

static steno_value_id state_input(struct steno_make *m, const char *base, int i, int64_t units)
{
    char name[32];
    snprintf(name, sizeof name, "%s_%d", base, i);
    return steno_make_input(m, name, STENO_F32, 2, (int64_t[]){1, units});
}

static void outputs(struct steno_make *m, const char *base, int n, int64_t units,
                    const steno_value_id *v)
{
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_%d", base, i);
        steno_make_output(m, v[i], name, STENO_F32, 2, (int64_t[]){1, units});
    }
}

/* A layer: x [1,in], *z and *c [1,units] become those after the step. A GRU leaves c. */
static steno_value_id cell(struct steno_make *m, int i, const struct steno_make_rnn *r,
                           steno_value_id x, steno_value_id *z, steno_value_id *c)
{
    char name[32];
    struct steno_make_states s = {.h = steno_make_unsqueeze(m, *z, 0), .c = STENO_NONE};
    const bool lstm = r->cell == STENO_MAKE_LSTM;
    snprintf(name, sizeof name, "decoder.%d", i);
    if (lstm)
        s.c = steno_make_unsqueeze(m, *c, 0);
    steno_make_recur(m, steno_make_unsqueeze(m, x, 0), name, "", r, &s, &s);
    *z = steno_make_squeeze(m, s.h, 0);
    *c = lstm ? steno_make_squeeze(m, s.c, 0) : steno_make_1(m, "Identity", *c);
    return *z;
}

/* Declare the inputs of the attention that it needs. */
static void attention_inputs(struct steno_make *m, const struct steno_espnet_arch *a,
                             int64_t length, struct attention *t)
{
    switch (a->attention.kind) {
    case STENO_ATTENTION_DOT:
    case STENO_ATTENTION_ADD:
    case STENO_ATTENTION_HEADS_DOT:
    case STENO_ATTENTION_HEADS_ADD:
        break;
    case STENO_ATTENTION_LOCATION_2D:
    case STENO_ATTENTION_HEADS_LOCATION:
    case STENO_ATTENTION_HEADS_RESOLUTIONS:
        t->past = steno_make_input(m, "a_prev_0", STENO_F32, 2,
                                   (int64_t[]){steno_make_symbol(m, "rows"), length});
        break;
    case STENO_ATTENTION_COVERAGE:
    case STENO_ATTENTION_COVERAGE_LOCATION:
        t->past = steno_make_input(m, "a_prev_0", STENO_F32, 3,
                                   (int64_t[]){steno_make_symbol(m, "steps"), 1, length});
        break;
    default:
        t->past = steno_make_input(m, "a_prev_0", STENO_F32, 2, (int64_t[]){1, length});
    }
    if (a->attention.kind != STENO_ATTENTION_NONE)
        t->keys = steno_make_input(m, "pceh_0", STENO_F32, 3,
                                   (int64_t[]){1, length, key_width(&a->attention)});
    if (!has_heads(&a->attention)) /* their values are among the keys */
        t->frames = steno_make_input(m, "enc_h_0", STENO_F32, 3, (int64_t[]){1, length, a->d});
}

static void weights_output(struct steno_make *m, const struct steno_espnet_arch *a, int64_t length,
                           steno_value_id w)
{
    const bool all = a->attention.kind == STENO_ATTENTION_COVERAGE ||
                     a->attention.kind == STENO_ATTENTION_COVERAGE_LOCATION;
    const int64_t rows = has_heads(&a->attention)                           ? a->attention.heads
                         : a->attention.kind == STENO_ATTENTION_LOCATION_2D ? a->attention.window
                                                                            : 1;
    if (all)
        steno_make_output(m, w, "att_w", STENO_F32, 3,
                          (int64_t[]){steno_make_symbol(m, "steps_after"), 1, length});
    else
        steno_make_output(m, w, "att_w", STENO_F32, 2, (int64_t[]){rows, length});
}

steno_status steno_espnet_write_rnn_decoder(const struct steno_espnet_arch *a,
                                            const struct steno_make_weights *w, const char *path,
                                            steno_err *err)
{
    const int64_t units = a->dec_rnn.units, d = a->d;
    const int layers = (int)a->dec_rnn.layers;
    struct steno_make m;
    struct attention t = {.a = &a->attention, .d = d, .units = units, .past = STENO_NONE};
    steno_value_id x, context, att_w, z[STENO_ESPNET_RNN_LAYERS], c[STENO_ESPNET_RNN_LAYERS];
    int64_t length;
    if (steno_make_begin(&m, w, 2 * layers + 4, err))
        return m.st;
    m.asked = "decoder_conf";
    length = steno_make_symbol(&m, "enc_h_0_length");
    x = steno_make_input(&m, "vy", STENO_I64, 1, (int64_t[]){1});
    for (int i = 0; i < layers; i++)
        z[i] = state_input(&m, "z_prev", i, units);
    for (int i = 0; i < layers; i++)
        c[i] = state_input(&m, "c_prev", i, units);
    attention_inputs(&m, a, length, &t);
    steno_make_at(&m, "decoder.att_list.0.");
    t.z = z[0];
    context = attend_frames(&m, &t, &att_w);
    steno_make_at(&m, "decoder.");
    x = steno_make_embed(&m, x, "embed.weight", a->vocab, units);
    x = steno_make_concat(&m, 1, x, context);
    for (int i = 0; i < layers && !m.st; i++) {
        const struct steno_make_rnn r = {
            .cell = a->dec_rnn.cell, .in = i ? units : units + d, .units = units};
        x = cell(&m, i, &r, x, &z[i], &c[i]);
    }
    if (a->attention.residual)
        x = steno_make_concat(&m, 1, x, context);
    x = steno_make_linear(&m, x, "output", a->attention.residual ? units + d : units, a->vocab,
                          true);
    x = steno_make_squeeze(&m, steno_make_softmax(&m, "LogSoftmax", x, 1), 0);
    steno_make_output(&m, x, "logp", STENO_F32, 1, &a->vocab);
    outputs(&m, "c_list", layers, units, c);
    outputs(&m, "z_list", layers, units, z);
    weights_output(&m, a, length, att_w);
    return steno_make_write(&m, path, NULL);
}
