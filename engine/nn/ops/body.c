#include "nn/ops/body.h"

#include "nn/kernels/kernels.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct steno_body_row rows[] = {
    {"ai.steno", "Linear", 1, steno_body_linear},
    {"ai.steno", "Glu", 1, steno_body_glu},
    {"ai.steno", "Swoosh", 1, steno_body_swoosh},
    {"ai.steno", "BiasNorm", 1, steno_body_bias_norm},
    {"ai.steno", "Bypass", 1, steno_body_bypass},
    {"ai.steno", "RelativeWindow", 1, steno_body_relative_window},
    {"ai.steno", "PowerSpectrum", 1, steno_body_power_spectrum},
    {"ai.steno", "ChunkConv", 1, steno_body_chunk_conv},
    {"ai.steno", "AttentionWeights", 1, steno_body_attention_weights},
    {"ai.steno", "WeightedValues", 1, steno_body_weighted_values},
    {"ai.steno", "NonlinAttention", 1, steno_body_nonlin_attention},
    {"ai.steno", "DepthwiseConv1d", 1, steno_body_depthwise},
    {"ai.steno", "ConvNhwc", 1, steno_body_conv_nhwc},
    {"ai.steno", "PoolNhwc", 1, steno_body_pool_nhwc},
    {"ai.steno", "MaskedSoftmax", 1, steno_body_masked_softmax},
    {"ai.steno", "RelativeShift", 1, steno_body_relative_shift},
    {"ai.steno", "Attention", 1, steno_body_attention},
    {"ai.steno", "AbsorbedAttention", 1, steno_body_absorbed_attention},
    {"ai.steno", "LocalAttention", 1, steno_body_local_attention},
    {"ai.steno", "IntLinear", 1, steno_body_int_linear},
    {"", "Swish", 24, steno_body_swish},
    {"", "Gelu", 20, steno_body_gelu},
    {"", "LayerNormalization", 17, steno_body_layer_normalization},
    {"", "RMSNormalization", 23, steno_body_rms_normalization},
    {"", "HardSwish", 14, steno_body_hard_swish},
    {"", "Mish", 18, steno_body_mish},
    {"com.microsoft", "FusedConv", 1, steno_body_fused_conv},
    {"com.microsoft", "SkipLayerNormalization", 1, steno_body_skip_norm},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, steno_body_skip_norm},
    {"com.microsoft", "BiasGelu", 1, steno_body_bias_gelu},
    {"com.microsoft", "FastGelu", 1, steno_body_bias_gelu},
    {"com.microsoft", "EmbedLayerNormalization", 1, steno_body_embed},
    {"com.microsoft", "FusedMatMul", 1, steno_body_fused_matmul},
    {0},
};

const struct steno_body_row *steno_body_find(const char *type)
{
    for (const struct steno_body_row *r = rows; r->type; r++)
        if (!strcmp(r->type, type))
            return r;
    return NULL;
}

const struct steno_body_row *steno_body_next(const struct steno_body_row *row)
{
    row = row ? row + 1 : rows;
    return row->type ? row : NULL;
}

steno_status steno_body_text(const struct steno_graph *g, const struct steno_node *node, int opset,
                             struct steno_buf *text)
{
    const struct steno_body_row *r = steno_body_find(node->op_type);
    struct steno_body b = {.g = g, .node = node, .opset = opset, .text = text};
    if (!r || strcmp(r->domain, node->domain) || opset < 11)
        return STENO_ERR_UNSUPPORTED;
    steno_buf_reset(text);
    r->write(&b);
    return b.st;
}

bool steno_body_has(const struct steno_body *b, int in)
{
    return in < b->node->n_in && b->node->in[in] != STENO_NONE;
}

bool steno_body_wants(const struct steno_body *b, int out)
{
    return out < b->node->n_out && b->node->out[out] != STENO_NONE;
}

const struct steno_tensor *steno_body_const(const struct steno_body *b, int in)
{
    return steno_body_has(b, in) ? b->g->values[b->node->in[in]].constant : NULL;
}

void steno_body_unsupported(struct steno_body *b)
{
    if (!b->st)
        b->st = STENO_ERR_UNSUPPORTED;
}

void steno_body_add(struct steno_body *b, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    int n;
    va_start(ap, fmt);
    n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (b->st)
        return;
    if (n < 0 || n >= (int)sizeof line)
        b->st = STENO_ERR_LIMIT;
    else
        b->st = steno_buf_printf(b->text, "%s\n", line);
}

struct steno_body_name steno_body_temp(struct steno_body *b)
{
    struct steno_body_name n;
    snprintf(n.s, sizeof n.s, "t%d", b->n_temps++);
    return n;
}

struct steno_body_name steno_body_float(double v)
{
    struct steno_body_name n;
    snprintf(n.s, sizeof n.s, "%.9g", v);
    if (!strpbrk(n.s, ".en"))
        strncat(n.s, ".0", sizeof n.s - strlen(n.s) - 1);
    return n;
}

void steno_body_reduce_mean(struct steno_body *b, const char *y, const char *x)
{
    struct steno_body_name axes;
    if (b->opset < 18) {
        steno_body_add(b, "%s = ReduceMean<axes = [-1], keepdims = 1>(%s)", y, x);
        return;
    }
    axes = steno_body_temp(b);
    steno_body_add(b, "%s = i64[-1]", axes.s);
    steno_body_add(b, "%s = ReduceMean<keepdims = 1>(%s, %s)", y, x, axes.s);
}

void steno_body_halves(struct steno_body *b, const char *a, const char *c, const char *x)
{
    steno_body_add(b, "%s, %s = Split<axis = -1%s>(%s)", a, c,
                   b->opset >= 18 ? ", num_outputs = 2" : "", x);
}

void steno_body_slice(struct steno_body *b, const char *y, const char *x, const char *from,
                      const char *to, int axis)
{
    struct steno_body_name axes = steno_body_temp(b), start = steno_body_temp(b);
    struct steno_body_name end = steno_body_temp(b);
    steno_body_add(b, "%s = i64[%d]", axes.s, axis);
    if (!from)
        steno_body_add(b, "%s = i64[0]", start.s);
    if (!to)
        steno_body_add(b, "%s = i64[9223372036854775807]", end.s);
    steno_body_add(b, "%s = Slice(%s, %s, %s, %s)", y, x, from ? from : start.s, to ? to : end.s,
                   axes.s);
}

/* x (1 + erf(x / sqrt 2)) / 2 */
static void gelu(struct steno_body *b, const char *y, const char *x)
{
    struct steno_body_name root = steno_body_temp(b), e = steno_body_temp(b);
    struct steno_body_name s = steno_body_temp(b), one = steno_body_temp(b);
    struct steno_body_name t = steno_body_temp(b), p = steno_body_temp(b);
    struct steno_body_name half = steno_body_temp(b);
    steno_body_add(b, "%s = f32(%s)", root.s, steno_body_float(sqrt(2)).s);
    steno_body_add(b, "%s = Div(%s, %s)", e.s, x, root.s);
    steno_body_add(b, "%s = Erf(%s)", s.s, e.s);
    steno_body_add(b, "%s = f32(1.0)", one.s);
    steno_body_add(b, "%s = Add(%s, %s)", t.s, s.s, one.s);
    steno_body_add(b, "%s = Mul(%s, %s)", p.s, x, t.s);
    steno_body_add(b, "%s = f32(0.5)", half.s);
    steno_body_add(b, "%s = Mul(%s, %s)", y, p.s, half.s);
}

/* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
void steno_body_gelu_tanh(struct steno_body *b, const char *y, const char *x)
{
    steno_body_add(b,
                   "g_three = f32(3.0)\ng_cube = Pow(%s, g_three)\ng_c = f32(0.044715)\n"
                   "g_part = Mul(g_cube, g_c)\ng_sum = Add(%s, g_part)\ng_r = f32(%s)\n"
                   "g_arg = Mul(g_sum, g_r)\ng_tanh = Tanh(g_arg)\ng_one = f32(1.0)\n"
                   "g_plus = Add(g_tanh, g_one)\ng_prod = Mul(%s, g_plus)\ng_half = f32(0.5)\n"
                   "%s = Mul(g_prod, g_half)",
                   x, x, steno_body_float(sqrt(2 / acos(-1))).s, x, y);
}

/* log(1 + e^(x - shift)) - 0.08 x - offset; at most once in a body */
static void swoosh(struct steno_body *b, const char *y, const char *x, float shift, float offset)
{
    steno_body_add(b,
                   "s_shift = f32(%s)\ns_z = Sub(%s, s_shift)\ns_plus = Softplus(s_z)\n"
                   "s_slope = f32(0.08)\ns_line = Mul(%s, s_slope)\ns_bent = Sub(s_plus, s_line)\n"
                   "s_offset = f32(%s)\n%s = Sub(s_bent, s_offset)",
                   steno_body_float((double)shift).s, x, x, steno_body_float((double)offset).s, y);
}

void steno_body_swoosh(struct steno_body *b)
{
    swoosh(b, "out0", "in0", steno_node_float(b->node, "shift", 0),
           steno_node_float(b->node, "offset", 0));
}

static void hard_sigmoid(struct steno_body *b, const char *y, const char *x, double alpha,
                         double beta)
{
    steno_body_add(b, "%s = HardSigmoid<alpha = %s, beta = %s>(%s)", y, steno_body_float(alpha).s,
                   steno_body_float(beta).s, x);
}

void steno_body_act(struct steno_body *b, const char *y, const char *x, int act)
{
    const float p0 = steno_node_float(b->node, "act_min", 0);
    const float p1 = steno_node_float(b->node, "act_max", 0);
    struct steno_body_name t;
    switch (act) {
    case STENO_ACT_RELU:
        steno_body_add(b, "%s = Relu(%s)", y, x);
        return;
    case STENO_ACT_SIGMOID:
        steno_body_add(b, "%s = Sigmoid(%s)", y, x);
        return;
    case STENO_ACT_TANH:
        steno_body_add(b, "%s = Tanh(%s)", y, x);
        return;
    case STENO_ACT_SILU:
        t = steno_body_temp(b);
        steno_body_add(b, "%s = Sigmoid(%s)", t.s, x);
        steno_body_add(b, "%s = Mul(%s, %s)", y, x, t.s);
        return;
    case STENO_ACT_GELU:
        gelu(b, y, x);
        return;
    case STENO_ACT_CLIP:
        steno_body_add(b, "clip_lo = f32(%s)\nclip_hi = f32(%s)\n%s = Clip(%s, clip_lo, clip_hi)",
                       steno_body_float((double)p0).s, steno_body_float((double)p1).s, y, x);
        return;
    case STENO_ACT_SWOOSH:
        swoosh(b, y, x, p0, p1);
        return;
    case STENO_ACT_HARD_SIGMOID:
        hard_sigmoid(b, y, x, (double)p0, (double)p1);
        return;
    case STENO_ACT_HARD_SWISH:
        t = steno_body_temp(b);
        hard_sigmoid(b, t.s, x, 1.0 / 6, 0.5);
        steno_body_add(b, "%s = Mul(%s, %s)", y, x, t.s);
        return;
    case STENO_ACT_LEAKY_RELU:
        steno_body_add(b, "%s = LeakyRelu<alpha = %s>(%s)", y, steno_body_float((double)p0).s, x);
        return;
    case STENO_ACT_ELU: /* with another rate than 1: Celu */
        steno_body_add(b, "%s = %s<alpha = %s>(%s)", y, p1 == 1 ? "Elu" : "Celu",
                       steno_body_float((double)p0).s, x);
        return;
    case STENO_ACT_SOFTPLUS:
        steno_body_add(b, "%s = Softplus(%s)", y, x);
        return;
    case STENO_ACT_SOFTSIGN:
        steno_body_add(b, "%s = Softsign(%s)", y, x);
        return;
    case STENO_ACT_MISH: {
        struct steno_body_name u = steno_body_temp(b);
        t = steno_body_temp(b);
        steno_body_add(b, "%s = Softplus(%s)\n%s = Tanh(%s)", t.s, x, u.s, t.s);
        steno_body_add(b, "%s = Mul(%s, %s)", y, x, u.s);
        return;
    }
    default:
        steno_body_unsupported(b);
    }
}

void steno_body_layernorm(struct steno_body *b, const char *y, const char *x, const char *gamma,
                          const char *beta, float epsilon)
{
    struct steno_body_name m, d, q, v, e, ve, r, n, s;
    if (b->opset >= 17) {
        steno_body_add(b, "%s = LayerNormalization<axis = -1, epsilon = %s>(%s, %s%s%s)", y,
                       steno_body_float((double)epsilon).s, x, gamma, beta ? ", " : "",
                       beta ? beta : "");
        return;
    }
    m = steno_body_temp(b), d = steno_body_temp(b), q = steno_body_temp(b);
    v = steno_body_temp(b), e = steno_body_temp(b), ve = steno_body_temp(b);
    r = steno_body_temp(b), n = steno_body_temp(b), s = steno_body_temp(b);
    steno_body_reduce_mean(b, m.s, x);
    steno_body_add(b, "%s = Sub(%s, %s)", d.s, x, m.s);
    steno_body_add(b, "%s = Mul(%s, %s)", q.s, d.s, d.s);
    steno_body_reduce_mean(b, v.s, q.s);
    steno_body_add(b, "%s = f32(%s)", e.s, steno_body_float((double)epsilon).s);
    steno_body_add(b, "%s = Add(%s, %s)", ve.s, v.s, e.s);
    steno_body_add(b, "%s = Sqrt(%s)", r.s, ve.s);
    steno_body_add(b, "%s = Div(%s, %s)", n.s, d.s, r.s);
    steno_body_add(b, "%s = Mul(%s, %s)", beta ? s.s : y, n.s, gamma);
    if (beta)
        steno_body_add(b, "%s = Add(%s, %s)", y, s.s, beta);
}

/* ---- standard operators that are newer than the file's opset ---- */

/* x sigmoid(alpha x) */
void steno_body_swish(struct steno_body *b)
{
    float alpha = steno_node_float(b->node, "alpha", 1);
    if (alpha != 1) {
        steno_body_add(b,
                       "alpha = f32(%s)\nscaled = Mul(in0, alpha)\ns = Sigmoid(scaled)\n"
                       "out0 = Mul(in0, s)",
                       steno_body_float((double)alpha).s);
        return;
    }
    steno_body_act(b, "out0", "in0", STENO_ACT_SILU);
}

void steno_body_gelu(struct steno_body *b)
{
    if (!strcmp(steno_node_str(b->node, "approximate", "none"), "tanh"))
        steno_body_gelu_tanh(b, "out0", "in0");
    else
        gelu(b, "out0", "in0");
}

void steno_body_layer_normalization(struct steno_body *b)
{
    if (steno_node_int(b->node, "axis", -1) != -1 || steno_body_wants(b, 1) ||
        steno_body_wants(b, 2))
        steno_body_unsupported(b);
    steno_body_layernorm(b, "out0", "in0", "in1", steno_body_has(b, 2) ? "in2" : NULL,
                         steno_node_float(b->node, "epsilon", 1e-5f));
}
