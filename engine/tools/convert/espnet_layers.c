/* Layers of the encoders: {conformer,transformer}/{,contextual_block_}encoder_layer.py,
 * asr/encoder/{branchformer,e_branchformer}_encoder.py, asr/layers/cgmlp.py of ESPnet 202511. */
#include "tools/convert/espnet_encoder.h"
#include "tools/convert/espnet_parts.h"

#include <stdio.h>
#include <string.h>

steno_value_id steno_espnet_activation(struct steno_make *m, steno_value_id x, const char *name)
{
    if (!strcmp(name, "identity"))
        return x;
    if (!strcmp(name, "selu"))
        return steno_make_1(m, "Selu", x);
    if (!strcmp(name, "hardtanh"))
        return steno_make_node(
            m, "Clip", 3, (steno_value_id[]){x, steno_make_number(m, -1), steno_make_number(m, 1)},
            0, NULL);
    return steno_make_activation(m, x, name);
}

/* Convolution over time, of rows: [1,T,in] -> [1,T,out]. */
static steno_value_id over_time(struct steno_make *m, steno_value_id x, const char *name,
                                int64_t in, int64_t out, int64_t kernel, int64_t groups)
{
    const struct steno_make_conv c = {.rank = 1,
                                      .in = in,
                                      .out = out,
                                      .kernel = kernel,
                                      .stride = 1,
                                      .pad = (kernel - 1) / 2,
                                      .groups = groups,
                                      .bias = true};
    x = steno_make_convolve(m, steno_make_turn(m, x), name, &c);
    return steno_make_turn(m, x);
}

/* transformer/positionwise_feed_forward.py, multi_layer_conv.py. */
static steno_value_id espnet_feed_forward(struct steno_make *m, steno_value_id x, const char *name,
                                          const struct steno_espnet_encoder *e)
{
    char first[60], second[60];
    snprintf(first, sizeof first, "%s.w_1", name);
    snprintf(second, sizeof second, "%s.w_2", name);
    if (e->ffn_type == STENO_ESPNET_FFN_LINEAR)
        x = steno_espnet_activation(m, steno_make_linear(m, x, first, e->d, e->ff, true),
                                    e->activation);
    else
        x = steno_make_1(m, "Relu", over_time(m, x, first, e->d, e->ff, e->ffn_kernel, 1));
    return e->ffn_type == STENO_ESPNET_FFN_CONV
               ? over_time(m, x, second, e->ff, e->d, e->ffn_kernel, 1)
               : steno_make_linear(m, x, second, e->ff, e->d, true);
}

static steno_value_id attend_and_merge(struct steno_make *m, steno_value_id x,
                                       const struct steno_espnet_view *v,
                                       const struct steno_espnet_encoder *e)
{
    steno_value_id y = steno_espnet_self_attention(m, "self_attn", x, v, e);
    if (!e->concat_after)
        return y;
    return steno_make_linear(m, steno_make_concat(m, -1, x, y), "concat_linear", 2 * e->d, e->d,
                             true);
}

static steno_value_id espnet_convolution(struct steno_make *m, steno_value_id x,
                                         const struct steno_espnet_encoder *e)
{
    const int64_t pad = (e->kernel - 1) / 2;
    const struct steno_make_conv_module c = {"conv_module", e->d, e->kernel,
                                             {pad, pad},    true, "conv_module.norm"};
    x = steno_make_conv_gate(m, steno_make_turn(m, x), &c);
    x = steno_espnet_activation(m, steno_make_conv_depthwise(m, x, &c), e->conv_activation);
    return steno_make_conv_out(m, x, &c);
}

static steno_value_id conformer_layer(struct steno_make *m, steno_value_id x,
                                      const struct steno_espnet_view *v,
                                      const struct steno_espnet_encoder *e)
{
    const int64_t d = e->d;
    const bool block = e->kind == STENO_ESPNET_BLOCK_CONFORMER;
    const char *norm_mha = block ? "norm1" : "norm_mha", *norm_ff = block ? "norm2" : "norm_ff";
    const float by = e->macaron ? 0.5f : 1;
    if (e->macaron)
        STENO_ESPNET_RESIDUAL(m, x, "norm_ff_macaron", d, e->before, by,
                              espnet_feed_forward(m, y, "feed_forward_macaron", e));
    STENO_ESPNET_RESIDUAL(m, x, norm_mha, d, e->before, 1, attend_and_merge(m, y, v, e));
    if (e->conv)
        STENO_ESPNET_RESIDUAL(m, x, "norm_conv", d, e->before, 1, espnet_convolution(m, y, e));
    STENO_ESPNET_RESIDUAL(m, x, norm_ff, d, e->before, by,
                          espnet_feed_forward(m, y, "feed_forward", e));
    return e->conv ? steno_make_norm(m, x, "norm_final", d, STENO_ESPNET_EPSILON) : x;
}

static steno_value_id transformer_layer(struct steno_make *m, steno_value_id x,
                                        const struct steno_espnet_view *v,
                                        const struct steno_espnet_encoder *e)
{
    const int64_t d = e->d;
    STENO_ESPNET_RESIDUAL(m, x, "norm1", d, e->before, 1, attend_and_merge(m, y, v, e));
    STENO_ESPNET_RESIDUAL(m, x, "norm2", d, e->before, 1,
                          espnet_feed_forward(m, y, "feed_forward", e));
    return x;
}

/* ---- Branchformer, E-Branchformer ---------------------------------------------------------- */

/* Half of the columns, times a gate that the convolution makes of the others (cgMLP). */
static steno_value_id gated(struct steno_make *m, steno_value_id x,
                            const struct steno_espnet_encoder *e)
{
    const int64_t d = e->d, all = e->gate_units, half = all / 2;
    steno_value_id gate;
    x = steno_make_linear_of(m, x, "cgmlp", "channel_proj1.0", d, all, true);
    x = steno_make_activation(m, x, "gelu");
    gate = steno_make_norm(m, steno_make_slice(m, x, 2, half, all), "cgmlp.csgu.norm", half,
                           STENO_ESPNET_EPSILON);
    gate = over_time(m, gate, "cgmlp.csgu.conv", half, half, e->gate_kernel, half);
    if (e->gate_linear)
        gate = steno_make_linear_of(m, gate, "cgmlp", "csgu.linear", half, half, true);
    gate = steno_espnet_activation(m, gate, e->gate_activation);
    x = steno_make_2(m, "Mul", steno_make_slice(m, x, 2, 0, half), gate);
    return steno_make_linear_of(m, x, "cgmlp", "channel_proj2", half, d, true);
}

/* The weight of a branch before the softmax: [1,1,1]. */
static steno_value_id branch_weight(struct steno_make *m, steno_value_id x, const char *pooling,
                                    const char *weight, int64_t d)
{
    steno_value_id s = steno_make_root(m, steno_make_linear(m, x, pooling, d, 1, true), d);
    s = steno_make_softmax(m, "Softmax", steno_make_turn(m, s), -1);
    return steno_make_linear(m, steno_make_2(m, "MatMul", s, x), weight, d, 1, true);
}

static steno_value_id learned_average(struct steno_make *m, steno_value_id x1, steno_value_id x2,
                                      int64_t d)
{
    steno_value_id w =
        steno_make_concat(m, -1, branch_weight(m, x1, "pooling_proj1", "weight_proj1", d),
                          branch_weight(m, x2, "pooling_proj2", "weight_proj2", d));
    w = steno_make_softmax(m, "Softmax", w, -1);
    return steno_make_add(m, steno_make_2(m, "Mul", x1, steno_make_slice(m, w, 2, 0, 1)),
                          steno_make_2(m, "Mul", x2, steno_make_slice(m, w, 2, 1, 2)));
}

static steno_value_id merge_branches(struct steno_make *m, steno_value_id x1, steno_value_id x2,
                                     const struct steno_espnet_encoder *e, float weight)
{
    if (e->merge == STENO_ESPNET_MERGE_CONCAT)
        return steno_make_linear(m, steno_make_concat(m, -1, x1, x2), "merge_proj", 2 * e->d, e->d,
                                 true);
    if (e->merge == STENO_ESPNET_MERGE_LEARNED)
        x1 = learned_average(m, x1, x2, e->d);
    else
        x1 =
            steno_make_add(m, steno_make_scale(m, x1, 1 - weight), steno_make_scale(m, x2, weight));
    return steno_make_linear(m, x1, "merge_proj", e->d, e->d, true);
}

/* ESPnet leaves out a branch whose fixed weight is 0, and merges the other one alone. */
static steno_value_id branchformer_layer(struct steno_make *m, steno_value_id x,
                                         const struct steno_espnet_view *v,
                                         const struct steno_espnet_encoder *e, int64_t i)
{
    const bool two = e->attn && e->cgmlp, fixed = two && e->merge == STENO_ESPNET_MERGE_FIXED;
    const float weight = e->gate_weight[i];
    const bool attn = e->attn && !(fixed && weight == 1),
               cgmlp = e->cgmlp && !(fixed && weight == 0);
    const int64_t d = e->d;
    steno_value_id x1 = STENO_NONE, x2 = STENO_NONE;
    if (attn)
        x1 = steno_espnet_self_attention(
            m, "attn", steno_make_norm(m, x, "norm_mha", d, STENO_ESPNET_EPSILON), v, e);
    if (cgmlp)
        x2 = gated(m, steno_make_norm(m, x, "norm_mlp", d, STENO_ESPNET_EPSILON), e);
    if (attn && cgmlp)
        x1 = merge_branches(m, x1, x2, e, weight);
    else if (two)
        x1 = steno_make_linear(m, attn ? x1 : x2, "merge_proj", d, d, true);
    else
        x1 = attn ? x1 : x2;
    return steno_make_norm(m, steno_make_add(m, x, x1), "norm_final", d, STENO_ESPNET_EPSILON);
}

static steno_value_id e_branchformer_layer(struct steno_make *m, steno_value_id x,
                                           const struct steno_espnet_view *v,
                                           const struct steno_espnet_encoder *e)
{
    const float by = e->macaron ? 0.5f : 1;
    const int64_t d = e->d;
    steno_value_id x1, x2, both;
    if (e->macaron)
        STENO_ESPNET_RESIDUAL(m, x, "norm_ff_macaron", d, true, by,
                              espnet_feed_forward(m, y, "feed_forward_macaron", e));
    x1 = steno_espnet_self_attention(
        m, "attn", steno_make_norm(m, x, "norm_mha", d, STENO_ESPNET_EPSILON), v, e);
    x2 = gated(m, steno_make_norm(m, x, "norm_mlp", d, STENO_ESPNET_EPSILON), e);
    both = steno_make_concat(m, -1, x1, x2);
    both = steno_make_add(
        m, both, over_time(m, both, "depthwise_conv_fusion", 2 * d, 2 * d, e->merge_kernel, 2 * d));
    x = steno_make_add(m, x, steno_make_linear(m, both, "merge_proj", 2 * d, d, true));
    if (e->ffn)
        STENO_ESPNET_RESIDUAL(m, x, "norm_ff", d, true, by,
                              espnet_feed_forward(m, y, "feed_forward", e));
    return steno_make_norm(m, x, "norm_final", d, STENO_ESPNET_EPSILON);
}

steno_value_id steno_espnet_layer(struct steno_make *m, steno_value_id x,
                                  const struct steno_espnet_view *v,
                                  const struct steno_espnet_encoder *e, int64_t i)
{
    switch (e->kind) {
    case STENO_ESPNET_CONFORMER:
    case STENO_ESPNET_BLOCK_CONFORMER:
        return conformer_layer(m, x, v, e);
    case STENO_ESPNET_BRANCHFORMER:
        return branchformer_layer(m, x, v, e, i);
    case STENO_ESPNET_E_BRANCHFORMER:
        return e_branchformer_layer(m, x, v, e);
    default:
        return transformer_layer(m, x, v, e);
    }
}
