/* espnet2/asr/encoder/{conformer,transformer}_encoder.py of ESPnet 202511. The graphs are for one
 * whole utterance, so no position is masked. */
#include "convert/espnet_graphs.h"
#include "convert/espnet_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEGACY_LAST 4999.0

/* ---- attention ----------------------------------------------------------------------------- */

/* Row i of x moves i places to the right (Transformer-XL, appendix B). */
static steno_value_id shift(struct steno_make *m, steno_value_id x, bool latest)
{
    steno_value_id shape = steno_make_1(m, "Shape", x), t, length, zeros, padded, view, y;
    const int64_t one = 1, two = 2;
    steno_value_id head = steno_make_slice(m, shape, 0, 0, 2);
    t = steno_make_2(m, "Gather", shape, steno_make_ints(m, 1, (int64_t[]){2}));
    length = steno_make_2(m, "Gather", shape, steno_make_ints(m, 1, (int64_t[]){3}));
    y = steno_make_concat(m, 0, steno_make_slice(m, shape, 0, 0, 3), steno_make_ints(m, 1, &one));
    zeros = steno_make_1(m, "ConstantOfShape", y);
    padded = steno_make_concat(m, -1, zeros, x);
    view = steno_make_concat(
        m, 0, head,
        steno_make_concat(m, 0, steno_make_add(m, length, steno_make_ints(m, 1, &one)), t));
    y = steno_make_2(m, "Reshape", padded, view);
    y = steno_make_cut(m, y, 2, steno_make_ints(m, 1, &one),
                       steno_make_ints(m, 1, (int64_t[]){INT64_MAX}));
    y = steno_make_2(m, "Reshape", y, shape);
    if (!latest)
        return y;
    length = steno_make_add(m, steno_make_2(m, "Div", length, steno_make_ints(m, 1, &two)),
                            steno_make_ints(m, 1, &one));
    return steno_make_cut(m, y, 3, steno_make_ints(m, 1, (int64_t[]){0}), length);
}

static steno_value_id biased(struct steno_make *m, steno_value_id q, const char *name,
                             const char *bias, int64_t heads, int64_t d)
{
    static const int64_t rows[] = {0, 2, 1, 3};
    char full[120];
    snprintf(full, sizeof full, "%s.%s", name, bias);
    q = steno_make_add(m, q, steno_make_param(m, full, 2, (int64_t[]){heads, d / heads}));
    return steno_make_transpose(m, q, 4, rows);
}

static steno_value_id rel_attention(struct steno_make *m, const char *name, steno_value_id x,
                                    steno_value_id positions, const struct steno_espnet_arch *a)
{
    const int64_t h = a->heads, d = a->d;
    steno_value_id q, k, v, p, content, place;
    q = steno_make_reshape(m, steno_espnet_linear(m, x, name, "linear_q", d, d, true), 4,
                           (int64_t[]){0, -1, h, d / h});
    k = steno_espnet_heads(m, steno_espnet_linear(m, x, name, "linear_k", d, d, true), h, d, true);
    v = steno_espnet_heads(m, steno_espnet_linear(m, x, name, "linear_v", d, d, true), h, d, false);
    p = steno_espnet_heads(m, steno_espnet_linear(m, positions, name, "linear_pos", d, d, false), h,
                           d, true);
    content = steno_make_2(m, "MatMul", biased(m, q, name, "pos_bias_u", h, d), k);
    place = steno_make_2(m, "MatMul", biased(m, q, name, "pos_bias_v", h, d), p);
    place = shift(m, place, a->rel == STENO_REL_LATEST);
    return steno_espnet_weigh(m, name,
                              steno_espnet_root(m, steno_make_add(m, content, place), d / h), v, d);
}

/* ---- layers -------------------------------------------------------------------------------- */

static steno_value_id convolution(struct steno_make *m, steno_value_id x,
                                  const struct steno_espnet_arch *a)
{
    static const int64_t turn[] = {0, 2, 1};
    const int64_t d = a->d, k = a->kernel;
    const struct steno_make_conv
        in = {.rank = 1, .in = d, .out = 2 * d, .kernel = 1, .stride = 1, .bias = true},
        depth = {.rank = 1,
                 .in = d,
                 .out = d,
                 .kernel = k,
                 .stride = 1,
                 .pad = (k - 1) / 2,
                 .groups = d,
                 .bias = true,
                 .batch_norm = "conv_module.norm"},
        out = {.rank = 1, .in = d, .out = d, .kernel = 1, .stride = 1, .bias = true};
    steno_value_id gate;
    x = steno_make_convolve(m, steno_make_transpose(m, x, 3, turn), "conv_module.pointwise_conv1",
                            &in);
    gate = steno_make_slice(m, x, 1, d, 2 * d);
    x = steno_make_2(m, "Mul", steno_make_slice(m, x, 1, 0, d), steno_make_1(m, "Sigmoid", gate));
    x = steno_make_activation(m, steno_make_convolve(m, x, "conv_module.depthwise_conv", &depth),
                              a->activation);
    x = steno_make_convolve(m, x, "conv_module.pointwise_conv2", &out);
    return steno_make_transpose(m, x, 3, turn);
}

static steno_value_id conformer_layer(struct steno_make *m, steno_value_id x, steno_value_id pos,
                                      const struct steno_espnet_arch *a)
{
    const int64_t d = a->d;
    const float by = a->macaron ? 0.5f : 1;
    if (a->macaron)
        STENO_ESPNET_RESIDUAL(
            m, x, "norm_ff_macaron", d, a->before, by,
            steno_espnet_feed_forward(m, y, "feed_forward_macaron", d, a->ff, a->activation));
    STENO_ESPNET_RESIDUAL(m, x, "norm_mha", d, a->before, 1,
                          a->rel ? rel_attention(m, "self_attn", y, pos, a)
                                 : steno_espnet_attention(m, "self_attn", y, y, a->heads, d));
    if (a->conv)
        STENO_ESPNET_RESIDUAL(m, x, "norm_conv", d, a->before, 1, convolution(m, y, a));
    STENO_ESPNET_RESIDUAL(m, x, "norm_ff", d, a->before, by,
                          steno_espnet_feed_forward(m, y, "feed_forward", d, a->ff, a->activation));
    return a->conv ? steno_make_norm(m, x, "norm_final", d, STENO_ESPNET_EPSILON) : x;
}

static steno_value_id transformer_layer(struct steno_make *m, steno_value_id x, int64_t heads,
                                        int64_t d, int64_t ff, bool before)
{
    STENO_ESPNET_RESIDUAL(m, x, "norm1", d, before, 1,
                          steno_espnet_attention(m, "self_attn", y, y, heads, d));
    STENO_ESPNET_RESIDUAL(m, x, "norm2", d, before, 1,
                          steno_espnet_feed_forward(m, y, "feed_forward", d, ff, "relu"));
    return x;
}

/* ---- encoder ------------------------------------------------------------------------------- */

/* Convolutions over time and mel bands (transformer/subsampling.py). */
static const struct subsampling {
    const char *name;
    int n;
    int64_t kernel[3], stride[3];
} subsamplings[] = {
    {"conv2d", 2, {3, 3}, {2, 2}},        {"conv2d1", 2, {3, 3}, {1, 1}},
    {"conv2d2", 2, {3, 3}, {2, 1}},       {"conv2d6", 2, {3, 5}, {2, 3}},
    {"conv2d8", 3, {3, 3, 3}, {2, 2, 2}},
};

static steno_value_id subsample(struct steno_make *m, steno_value_id x,
                                const struct steno_espnet_arch *a, const struct subsampling *s)
{
    static const int64_t turn[] = {0, 2, 1, 3}, axis = 1;
    int64_t bands = a->in;
    x = steno_make_2(m, "Unsqueeze", x, steno_make_ints(m, 1, &axis));
    for (int i = 0; i < s->n; i++) {
        const struct steno_make_conv c = {.rank = 2,
                                          .in = i ? a->d : 1,
                                          .out = a->d,
                                          .kernel = s->kernel[i],
                                          .stride = s->stride[i],
                                          .bias = true};
        char name[32];
        snprintf(name, sizeof name, "conv.%d", 2 * i);
        x = steno_make_1(m, "Relu", steno_make_convolve(m, x, name, &c));
        bands = (bands - s->kernel[i]) / s->stride[i] + 1;
    }
    x = steno_make_reshape(m, steno_make_transpose(m, x, 4, turn), 3,
                           (int64_t[]){1, -1, a->d * bands});
    /* "out.0" in front of the positions, "out" where those are a part of their own */
    return steno_make_linear(m, x, steno_make_has(m, "out.weight") ? "out" : "out.0", a->d * bands,
                             a->d, true);
}

static steno_value_id embed(struct steno_make *m, steno_value_id x,
                            const struct steno_espnet_arch *a)
{
    steno_make_at(m, "encoder.embed.");
    for (size_t i = 0; i < sizeof subsamplings / sizeof *subsamplings; i++)
        if (!strcmp(a->input_layer, subsamplings[i].name))
            return subsample(m, x, a, &subsamplings[i]);
    x = steno_make_norm(m, steno_make_linear(m, x, "0", a->in, a->d, true), "1", a->d, 1e-5f);
    return a->conformer ? x : steno_make_1(m, "Relu", x);
}

/* Rows of relative positions T - 1 down to 1 - T. */
static steno_value_id latest_positions(struct steno_make *m, steno_value_id x, int64_t d)
{
    const int64_t center = STENO_ESPNET_POSITIONS - 1, one = center + 1;
    steno_value_id n = steno_make_extent_of(m, x, 1);
    steno_value_id table =
        steno_make_sinusoids(m, "pe", 2 * STENO_ESPNET_POSITIONS - 1, d, (double)center, -1);
    return steno_make_cut(m, table, 1, steno_make_2(m, "Sub", steno_make_ints(m, 1, &one), n),
                          steno_make_add(m, steno_make_ints(m, 1, &center), n));
}

steno_status steno_espnet_write_encoder(const struct steno_espnet_arch *a,
                                        const struct steno_make_weights *w, const char *path,
                                        steno_err *err)
{
    struct steno_make m;
    steno_value_id x, pos = STENO_NONE, n;
    int64_t frames, rows;
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "encoder_conf";
    frames = steno_make_symbol(&m, "feats_length");
    rows = steno_make_symbol(&m, "encoder_out_length");
    x = steno_make_input(&m, "feats", STENO_F32, 3, (int64_t[]){1, frames, a->in});
    x = steno_make_scale(&m, embed(&m, x, a), sqrtf((float)a->d));
    if (a->rel == STENO_REL_LATEST)
        pos = latest_positions(&m, x, a->d);
    else if (a->rel == STENO_REL_LEGACY)
        pos = steno_espnet_positions(
            &m, x, steno_make_sinusoids(&m, "pe", STENO_ESPNET_POSITIONS, a->d, LEGACY_LAST, -1));
    else
        x = steno_make_add(
            &m, x,
            steno_espnet_positions(
                &m, x, steno_make_sinusoids(&m, "pe", STENO_ESPNET_POSITIONS, a->d, 0, 1)));
    for (int64_t i = 0; i < a->blocks && !m.st; i++) {
        steno_make_at(&m, "encoder.encoders.%d.", (int)i);
        x = a->conformer ? conformer_layer(&m, x, pos, a)
                         : transformer_layer(&m, x, a->heads, a->d, a->ff, a->before);
    }
    steno_make_at(&m, "encoder.encoders.%d.", (int)a->blocks);
    if (!m.st && steno_make_has(&m, a->conformer ? "norm_mha.weight" : "norm1.weight"))
        m.st = steno_fail(err, STENO_ERR_FORMAT,
                          "%s: more than the %lld blocks of encoder_conf.num_blocks", w->file,
                          (long long)a->blocks);
    steno_make_at(&m, "encoder.");
    if (a->before)
        x = steno_make_norm(&m, x, "after_norm", a->d, STENO_ESPNET_EPSILON);
    n = steno_make_extent_of(&m, x, 1);
    steno_make_output(&m, x, "encoder_out", STENO_F32, 3, (int64_t[]){1, rows, a->d});
    steno_make_output(&m, n, "encoder_out_lens", STENO_I64, 1, (int64_t[]){1});
    return steno_make_write(&m, path, NULL);
}
