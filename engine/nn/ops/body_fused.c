/* Bodies of the operators that passes make: what op_fused*.c compute, in standard operators. */
#include "nn/ops/body.h"

#include "nn/kernels/kernels.h"

#include <stdio.h>
#include <string.h>

/* act(alpha * X W + bias) + residual */
void steno_body_linear(struct steno_body *b)
{
    const struct steno_node *n = b->node;
    float alpha = steno_node_float(n, "alpha", 1);
    int64_t act = steno_node_int(n, "act", STENO_ACT_NONE);
    bool residual = steno_body_has(b, 3), bias = steno_body_has(b, 2);
    bool scaled = alpha != 1;
    const char *y = "xw";
    steno_body_add(b, "%s = MatMul(in0, in1)", scaled || bias || act || residual ? "xw" : "out0");
    if (scaled) {
        steno_body_add(b, "alpha = f32(%s)", steno_body_float((double)alpha).s);
        steno_body_add(b, "%s = Mul(xw, alpha)", bias || act || residual ? "scaled" : "out0");
        y = "scaled";
    }
    if (bias) {
        steno_body_add(b, "%s = Add(%s, in2)", act || residual ? "biased" : "out0", y);
        y = "biased";
    }
    if (act) {
        steno_body_act(b, residual ? "active" : "out0", y, (int)act);
        y = "active";
    }
    if (residual)
        steno_body_add(b, "out0 = Add(%s, in3)", y);
}

void steno_body_glu(struct steno_body *b)
{
    bool first = steno_node_int(b->node, "first", 0) != 0;
    steno_body_halves(b, first ? "c" : "a", first ? "a" : "c", "in0");
    steno_body_act(b, "gate", "c", (int)steno_node_int(b->node, "act", STENO_ACT_SIGMOID));
    steno_body_add(b, "out0 = Mul(a, gate)");
}

void steno_body_depthwise(struct steno_body *b)
{
    const struct steno_tensor *w = steno_body_const(b, 1);
    int64_t act = steno_node_int(b->node, "act", STENO_ACT_NONE);
    const int64_t *pads;
    size_t n;
    if (!w || w->shape.rank != 3) {
        steno_body_unsupported(b);
        return;
    }
    steno_body_add(b, "x = Transpose<perm = [0, 2, 1]>(in0)");
    pads = steno_node_ints(b->node, "pads", &n);
    steno_body_add(b, "y = Conv<group = %lld, pads = [%lld, %lld]>(x, in1%s)",
                   (long long)w->shape.dim[0], n == 2 ? (long long)pads[0] : 0,
                   n == 2 ? (long long)pads[1] : 0, steno_body_has(b, 2) ? ", in2" : "");
    if (act)
        steno_body_act(b, "active", "y", (int)act);
    steno_body_add(b, "out0 = Transpose<perm = [0, 2, 1]>(%s)", act ? "active" : "y");
}

void steno_body_masked_softmax(struct steno_body *b)
{
    steno_body_add(b, "fill = f32(%s)",
                   steno_body_float((double)steno_node_float(b->node, "fill", 0)).s);
    steno_body_add(b, "scores = Where(in1, fill, in0)\np = Softmax<axis = -1>(scores)\n"
                      "zero = f32(0.0)\nout0 = Where(in1, zero, p)");
}

/* The relative shift. Put a column of zeros before x [.., T, L], reshape to [.., L + 1, T], drop
 * the first row, reshape to [.., T, L]. Defines r_L, the extent L; at most once in a body. */
static void shift(struct steno_body *b, const char *y, const char *x)
{
    steno_body_add(b, "r_shape = Shape(%s)\nr_one = i64[1]\nr_last = i64[-1]\nr_2nd = i64[-2]", x);
    steno_body_slice(b, "r_lead", "r_shape", NULL, "r_2nd", 0);
    steno_body_slice(b, "r_T", "r_shape", "r_2nd", "r_last", 0);
    steno_body_slice(b, "r_L", "r_shape", "r_last", NULL, 0);
    steno_body_add(b,
                   "r_zshape = Concat<axis = 0>(r_lead, r_T, r_one)\n"
                   "r_z = ConstantOfShape(r_zshape)\nr_padded = Concat<axis = -1>(r_z, %s)\n"
                   "r_L1 = Add(r_L, r_one)\nr_turned = Concat<axis = 0>(r_lead, r_L1, r_T)\n"
                   "r_r = Reshape(r_padded, r_turned)",
                   x);
    steno_body_slice(b, "r_rows", "r_r", "r_one", NULL, -2);
    steno_body_add(b, "%s = Reshape(r_rows, r_shape)", y);
}

void steno_body_relative_shift(struct steno_body *b)
{
    bool half = steno_node_int(b->node, "half", 0) != 0;
    shift(b, half ? "whole" : "out0", "in0");
    if (!half)
        return;
    steno_body_add(b, "two = i64[2]\nh = Div(r_L, two)\nend = Add(h, r_one)");
    steno_body_slice(b, "out0", "whole", NULL, "end", -1);
}

/* ---- Attention: defined in op_fused_attention.c ---- */

enum { A_Q, A_K, A_V, A_MASK, A_P, A_Q_BIAS, A_P_BIAS };

/* True if this input is a part of the columns of a value: it says so, or another input is the same
 * value from another column on. */
static bool is_part(const struct steno_body *b, int in)
{
    static const char *const at[] = {"q_at", "k_at", "v_at", NULL, "p_at"};
    if (in <= A_V && steno_node_int(b->node, "parts", 0) >> in & 1)
        return true;
    for (int i = A_Q; i <= A_P; i++)
        if (at[i] && steno_body_has(b, i) && b->node->in[i] == b->node->in[in] &&
            steno_node_int(b->node, at[i], 0))
            return true;
    return false;
}

/* y [B, h, T, size] of input `in`; apart: the input already has that layout. */
static void heads_apart(struct steno_body *b, const char *y, int in, const char *at, int64_t size,
                        bool apart)
{
    long long heads = steno_node_int(b->node, "heads", 1), from = steno_node_int(b->node, at, 0);
    char x[24];
    if (in == A_K || in == A_V)
        heads = steno_node_int(b->node, "kv_heads", heads);
    snprintf(x, sizeof x, "in%d", in);
    if (apart) {
        steno_body_add(b, "%s = Identity(%s)", y, x);
        return;
    }
    if (is_part(b, in)) {
        steno_body_add(b, "%s_from = i64[%lld]\n%s_to = i64[%lld]\n%s_axis = i64[-1]", y, from, y,
                       from + heads * size, y);
        steno_body_add(b, "%s_part = Slice(%s, %s_from, %s_to, %s_axis)", y, x, y, y, y);
        snprintf(x, sizeof x, "%s_part", y);
    }
    steno_body_add(b,
                   "%s_shape = i64[0, 0, %lld, %lld]\n%s_split = Reshape(%s, %s_shape)\n"
                   "%s = Transpose<perm = [0, 2, 1, 3]>(%s_split)",
                   y, heads, (long long)size, y, x, y, y, y);
}

/* Q with a bias of [h d] added, split by heads. */
static const char *biased(struct steno_body *b, const char *y, int in)
{
    if (!steno_body_has(b, in))
        return "q";
    steno_body_add(b,
                   "%s_shape = i64[%lld, 1, %lld]\n%s_bias = Reshape(in%d, %s_shape)\n"
                   "%s = Add(q, %s_bias)",
                   y, (long long)steno_node_int(b->node, "heads", 1),
                   (long long)steno_node_int(b->node, "size", 1), y, in, y, y, y);
    return y;
}

/* Repeat each head of y for the queries that share it; returns the name of the result. */
static const char *repeat_heads(struct steno_body *b, const char *y, const char *repeated)
{
    const long long heads = steno_node_int(b->node, "heads", 1),
                    kv_heads = steno_node_int(b->node, "kv_heads", heads),
                    size = steno_node_int(b->node, *y == 'k' ? "size" : "v_size", 1);
    if (kv_heads == heads)
        return y;
    steno_body_add(b, "%s_apart = i64[0, 0, 1, -1, %lld]\n%s_one = Reshape(%s, %s_apart)", y, size,
                   y, y, y);
    steno_body_add(b, "%s_times = i64[1, 1, %lld, 1, 1]\n%s_wide = Expand(%s_one, %s_times)", y,
                   heads / kv_heads, y, y, y);
    steno_body_add(b, "%s_joined = i64[0, %lld, -1, %lld]\n%s = Reshape(%s_wide, %s_joined)", y,
                   heads, size, repeated, y, y);
    return repeated;
}

static void attention_weights(struct steno_body *b, const char *scores)
{
    const char *w = steno_node_int(b->node, "no_nan", 0) ? "w_nan" : "w";
    if (!steno_body_has(b, A_MASK)) {
        steno_body_add(b, "%s = Softmax<axis = -1>(%s)", w, scores);
    } else if (steno_node_int(b->node, "hides", 0)) {
        steno_body_add(b,
                       "low = f32(%s)\nseen = Where(in3, low, %s)\n"
                       "w_all = Softmax<axis = -1>(seen)\nzero = f32(0.0)\n"
                       "%s = Where(in3, zero, w_all)",
                       steno_body_float((double)steno_node_float(b->node, "fill", -3e38f)).s,
                       scores, w);
    } else if (steno_node_attr(b->node, "replaces")) {
        steno_body_add(b,
                       "hides = f32(-1e+29)\nhide = Less(in3, hides)\nfill = f32(%s)\n"
                       "seen = Where(hide, fill, %s)\n%s = Softmax<axis = -1>(seen)",
                       steno_body_float((double)steno_node_float(b->node, "replaces", 0)).s, scores,
                       w);
    } else {
        steno_body_add(b, "seen = Add(%s, in3)\n%s = Softmax<axis = -1>(seen)", scores, w);
    }
    if (w[1])
        steno_body_add(b, "nan = IsNaN(w_nan)\nnone = f32(0.0)\nw = Where(nan, none, w_nan)");
}

void steno_body_attention(struct steno_body *b)
{
    const struct steno_node *n = b->node;
    int64_t apart = steno_node_int(n, "apart", 0), size = steno_node_int(n, "size", 1);
    bool positions = steno_body_has(b, A_P), y_apart = apart >> 4 & 1;
    const char *q, *p, *k, *v;
    heads_apart(b, "q", A_Q, "q_at", size, apart & 1);
    heads_apart(b, "k", A_K, "k_at", size, apart >> 1 & 1);
    heads_apart(b, "v", A_V, "v_at", steno_node_int(n, "v_size", 1), apart >> 2 & 1);
    k = repeat_heads(b, "k", "k_each");
    v = repeat_heads(b, "v", "v_each");
    q = biased(b, "qc", A_Q_BIAS);
    steno_body_add(b, "kt = Transpose<perm = [0, 1, 3, 2]>(%s)\ns_content = MatMul(%s, kt)", k, q);
    if (positions) {
        heads_apart(b, "p", A_P, "p_at", size, apart >> 3 & 1);
        p = biased(b, "qp", A_P_BIAS);
        steno_body_add(b, "pt = Transpose<perm = [0, 1, 3, 2]>(p)\ns_place = MatMul(%s, pt)", p);
        if (steno_node_int(n, "shift", 1)) {
            shift(b, "shifted", "s_place");
            steno_body_add(b, "k_all = Shape(k)\nthird = i64[2]\nfourth = i64[3]");
            steno_body_slice(b, "keys", "k_all", "third", "fourth", 0);
            steno_body_slice(b, "place", "shifted", NULL, "keys", -1);
        }
        steno_body_add(b, "s = Add(s_content, %s)",
                       steno_node_int(n, "shift", 1) ? "place" : "s_place");
    }
    steno_body_add(b, "factor = f32(%s)\nscores = Mul(%s, factor)",
                   steno_body_float((double)steno_node_float(n, "scale", 1)).s,
                   positions ? "s" : "s_content");
    attention_weights(b, "scores");
    steno_body_add(b, "%s = MatMul(w, %s)", y_apart ? "out0" : "y", v);
    if (!y_apart)
        steno_body_add(b,
                       "joined = Transpose<perm = [0, 2, 1, 3]>(y)\ny_shape = i64[0, 0, %lld]\n"
                       "out0 = Reshape(joined, y_shape)",
                       (long long)(steno_node_int(n, "heads", 1) * steno_node_int(n, "v_size", 1)));
}

/* x [B, T, heads * size] as y [B, heads, T, size]. */
static void split_heads(struct steno_body *b, const char *y, const char *x, const char *size)
{
    steno_body_add(b,
                   "%s_shape = i64[0, 0, %lld, %lld]\n%s_split = Reshape(%s, %s_shape)\n"
                   "%s = Transpose<perm = [0, 2, 1, 3]>(%s_split)",
                   y, (long long)steno_node_int(b->node, "heads", 1),
                   (long long)steno_node_int(b->node, size, 1), y, x, y, y, y);
}

/* Defined in op_absorbed_attention.c. */
void steno_body_absorbed_attention(struct steno_body *b)
{
    const struct steno_node *n = b->node;
    bool bias = steno_body_has(b, 5);
    steno_body_add(b, "k_rows = MatMul(in1, in2)\n%s = MatMul(in1, in4)",
                   bias ? "v_plain" : "v_rows");
    if (bias)
        steno_body_add(b, "v_rows = Add(v_plain, in5)");
    split_heads(b, "q", "in0", "size");
    split_heads(b, "k", "k_rows", "size");
    split_heads(b, "v", "v_rows", "v_size");
    steno_body_add(b, "kt = Transpose<perm = [0, 1, 3, 2]>(k)\ns = MatMul(q, kt)");
    steno_body_add(b, "factor = f32(%s)\nscores = Mul(s, factor)",
                   steno_body_float((double)steno_node_float(n, "scale", 1)).s);
    attention_weights(b, "scores");
    steno_body_add(b,
                   "y = MatMul(w, v)\njoined = Transpose<perm = [0, 2, 1, 3]>(y)\n"
                   "y_shape = i64[0, 0, %lld]\nout0 = Reshape(joined, y_shape)",
                   (long long)(steno_node_int(n, "heads", 1) * steno_node_int(n, "v_size", 1)));
}

void steno_body_int_linear(struct steno_body *b)
{
    bool bias = steno_body_has(b, 6);
    steno_body_add(b,
                   "sum = MatMulInteger(in0, in1, in2%s)\nreal = Cast<to = 1>(sum)\n"
                   "scale = Mul(in4, in5)\n%s = Mul(real, scale)",
                   steno_body_has(b, 3) ? ", in3" : "", bias ? "y" : "out0");
    if (bias)
        steno_body_add(b, "out0 = Add(y, in6)");
}

static void add_ints(struct steno_body *b, char *out, size_t size, const char *name)
{
    size_t n, len = strlen(out);
    const int64_t *v = steno_node_ints(b->node, name, &n);
    if (!v)
        return;
    len += (size_t)snprintf(out + len, size - len, "%s%s = [", *out ? ", " : "", name);
    for (size_t i = 0; i < n && len + 24 < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%lld", i ? ", " : "", (long long)v[i]);
    if (len + 24 >= size)
        steno_body_unsupported(b);
    else
        snprintf(out + len, size - len, "]");
}

/* The attributes of a sliding window as text of a body, behind those in out. */
static void window_attrs(struct steno_body *b, char *out, size_t size)
{
    static const char *const lists[] = {"dilations", "kernel_shape", "pads", "strides"};
    const char *pad = steno_node_str(b->node, "auto_pad", "NOTSET");
    if (strcmp(pad, "NOTSET"))
        snprintf(out + strlen(out), size - strlen(out), "%sauto_pad = \"%.20s\"", *out ? ", " : "",
                 pad);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        add_ints(b, out, size, lists[i]);
}

static void conv_attrs(struct steno_body *b, char *out, size_t size)
{
    snprintf(out, size, "group = %lld", (long long)steno_node_int(b->node, "group", 1));
    window_attrs(b, out, size);
}

static double activation_param(const struct steno_body *b, size_t i, double otherwise)
{
    const struct steno_attr *a = steno_node_attr(b->node, "activation_params");
    return a && a->kind == STENO_ATTR_FLOATS && i < a->n ? (double)a->floats[i] : otherwise;
}

/* out0 = the activation of x that FusedConv names, with its defaults (nn/ops/op_conv.c). */
static void conv_activation(struct steno_body *b, const char *x)
{
    static const struct {
        const char *type;
        double alpha;
    } scaled[] = {{"LeakyRelu", 0.01}, {"Elu", 1}, {"ThresholdedRelu", 1}};
    const char *act = steno_node_str(b->node, "activation", "");
    if (steno_op_type_in(act, "Relu Sigmoid Tanh Softplus Softsign")) {
        steno_body_add(b, "out0 = %s(%s)", act, x);
        return;
    }
    for (size_t i = 0; i < sizeof scaled / sizeof scaled[0]; i++)
        if (!strcmp(act, scaled[i].type)) {
            steno_body_add(b, "out0 = %s<alpha = %s>(%s)", act,
                           steno_body_float(activation_param(b, 0, scaled[i].alpha)).s, x);
            return;
        }
    if (!strcmp(act, "HardSigmoid") || !strcmp(act, "HardSwish")) {
        bool times = !strcmp(act, "HardSwish");
        steno_body_add(b, "%s = HardSigmoid<alpha = %s, beta = %s>(%s)", times ? "gate" : "out0",
                       steno_body_float(times ? 1.0 / 6 : activation_param(b, 0, 0.2)).s,
                       steno_body_float(times ? 0.5 : activation_param(b, 1, 0.5)).s, x);
        if (times)
            steno_body_add(b, "out0 = Mul(%s, gate)", x);
    } else if (!strcmp(act, "Clip")) {
        steno_body_add(b, "low = f32(%s)\nhigh = f32(%s)\nout0 = Clip(%s, low, high)",
                       steno_body_float(activation_param(b, 0, 0)).s,
                       steno_body_float(activation_param(b, 1, 0)).s, x);
    } else if (!strcmp(act, "Swish")) {
        steno_body_act(b, "out0", x, STENO_ACT_SILU);
    } else if (!strcmp(act, "Gelu")) {
        steno_body_act(b, "out0", x, STENO_ACT_GELU);
    } else {
        steno_body_unsupported(b);
    }
}

/* activation(Conv(x, W, b) + z) */
void steno_body_fused_conv(struct steno_body *b)
{
    char attrs[512];
    conv_attrs(b, attrs, sizeof attrs);
    steno_body_add(b, "y = Conv<%s>(in0, in1%s)", attrs, steno_body_has(b, 2) ? ", in2" : "");
    if (steno_body_has(b, 3))
        steno_body_add(b, "sum = Add(y, in3)");
    conv_activation(b, steno_body_has(b, 3) ? "sum" : "y");
}

/* act(Conv) + residual on channels-last tensors, as op_conv_nhwc.c computes it. */
void steno_body_conv_nhwc(struct steno_body *b)
{
    const struct steno_tensor *w = steno_body_const(b, 1);
    const int64_t act = steno_node_int(b->node, "act", STENO_ACT_NONE);
    const bool residual = steno_body_has(b, 3), wide = w && w->shape.rank == 4;
    const char *y = "c";
    char attrs[512];
    if (!w || w->shape.rank < 3 || w->shape.rank > 4) {
        steno_body_unsupported(b);
        return;
    }
    conv_attrs(b, attrs, sizeof attrs);
    steno_body_add(b, "x = Transpose<perm = %s>(in0)", wide ? "[0, 3, 1, 2]" : "[0, 2, 1]");
    steno_body_add(b, "c = Conv<%s>(x, in1%s)", attrs, steno_body_has(b, 2) ? ", in2" : "");
    if (act) {
        steno_body_act(b, "active", "c", (int)act);
        y = "active";
    }
    steno_body_add(b, "%s = Transpose<perm = %s>(%s)", residual ? "last" : "out0",
                   wide ? "[0, 2, 3, 1]" : "[0, 2, 1]", y);
    if (residual)
        steno_body_add(b, "out0 = Add(last, in3)");
}

/* MaxPool or AveragePool of channels-last images, as op_pool_nhwc.c computes it. */
void steno_body_pool_nhwc(struct steno_body *b)
{
    const bool max = steno_node_int(b->node, "max", 1) != 0;
    char attrs[512];
    snprintf(attrs, sizeof attrs, "ceil_mode = %lld",
             (long long)steno_node_int(b->node, "ceil_mode", 0));
    if (!max)
        snprintf(attrs + strlen(attrs), sizeof attrs - strlen(attrs), ", count_include_pad = %lld",
                 (long long)steno_node_int(b->node, "count_include_pad", 0));
    window_attrs(b, attrs, sizeof attrs);
    steno_body_add(b, "x = Transpose<perm = [0, 3, 1, 2]>(in0)\ny = %s<%s>(x)",
                   max ? "MaxPool" : "AveragePool", attrs);
    steno_body_add(b, "out0 = Transpose<perm = [0, 2, 3, 1]>(y)");
}
