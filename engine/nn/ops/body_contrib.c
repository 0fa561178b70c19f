/* Bodies of the com.microsoft operators that passes make, and of standard operators that are newer
 * than most files. Definitions: ONNX Runtime, docs/ContribOperators.md. */
#include "nn/ops/body.h"

#include "nn/kernels/kernels.h"

#include <string.h>

/* y = x / sqrt(mean(x^2) + epsilon) * gamma along the last axis */
static void rmsnorm(struct steno_body *b, const char *x, const char *gamma, float epsilon)
{
    steno_body_add(b, "r_square = Mul(%s, %s)", x, x);
    steno_body_reduce_mean(b, "r_mean", "r_square");
    steno_body_add(b,
                   "r_eps = f32(%s)\nr_sum = Add(r_mean, r_eps)\nr_root = Sqrt(r_sum)\n"
                   "r_y = Div(%s, r_root)\nout0 = Mul(r_y, %s)",
                   steno_body_float((double)epsilon).s, x, gamma);
}

void steno_body_rms_normalization(struct steno_body *b)
{
    if (steno_node_int(b->node, "axis", -1) != -1)
        steno_body_unsupported(b);
    rmsnorm(b, "in0", "in1", steno_node_float(b->node, "epsilon", 1e-5f));
}

/* Outputs 1 and 2: mean of the rows of x, 1 / sqrt(variance + epsilon). A function writes all its
 * outputs. */
static void statistics(struct steno_body *b, const char *x, bool rms, float epsilon)
{
    steno_body_reduce_mean(b, "out1", x);
    steno_body_add(b, rms ? "m_part = Identity(%s)" : "m_part = Sub(%s, out1)", x);
    steno_body_add(b, "m_square = Mul(m_part, m_part)");
    steno_body_reduce_mean(b, "m_var", "m_square");
    steno_body_add(b,
                   "m_eps = f32(%s)\nm_sum = Add(m_var, m_eps)\nm_root = Sqrt(m_sum)\n"
                   "out2 = Reciprocal(m_root)",
                   steno_body_float((double)epsilon).s);
}

void steno_body_skip_norm(struct steno_body *b)
{
    bool rms = strstr(b->node->op_type, "Simplified") != NULL;
    const char *sum = steno_body_wants(b, 3) ? "out3" : "sum";
    float eps = steno_node_float(b->node, "epsilon", 1e-12f);
    if (steno_body_has(b, rms ? 3 : 4) ||
        (!steno_body_wants(b, 3) && (steno_body_wants(b, 1) || steno_body_wants(b, 2))))
        steno_body_unsupported(b);
    steno_body_add(b, "%s = Add(in0, in1)", sum);
    if (steno_body_wants(b, 3))
        statistics(b, sum, rms, eps);
    if (rms)
        rmsnorm(b, sum, "in2", eps);
    else
        steno_body_layernorm(b, "out0", sum, "in2", steno_body_has(b, 3) ? "in3" : NULL, eps);
}

void steno_body_bias_gelu(struct steno_body *b)
{
    const char *x = "in0";
    if (steno_body_has(b, 1)) {
        steno_body_add(b, "sum = Add(in0, in1)");
        x = "sum";
    }
    if (!strcmp(b->node->op_type, "FastGelu"))
        steno_body_gelu_tanh(b, "out0", x);
    else
        steno_body_act(b, "out0", x, STENO_ACT_GELU);
}

void steno_body_embed(struct steno_body *b)
{
    const char *sum = "sum";
    if (steno_body_wants(b, 1) || steno_body_wants(b, 2) || !steno_body_has(b, 8))
        steno_body_unsupported(b);
    steno_body_add(b, "word = Gather(in2, in0)\nplace = Gather(in3, in8)\nsum = Add(word, place)");
    if (steno_body_has(b, 4)) {
        steno_body_add(b, "kind = Gather(in4, in1)\nall = Add(sum, kind)");
        sum = "all";
    }
    steno_body_layernorm(b, "out0", sum, "in5", "in6",
                         steno_node_float(b->node, "epsilon", 1e-12f));
}

/* For any rank: Einsum transposes the last two axes without naming the others. */
void steno_body_fused_matmul(struct steno_body *b)
{
    static const char *const names[] = {"transA", "transB"};
    const char *in[2] = {"in0", "in1"};
    double alpha = (double)steno_node_float(b->node, "alpha", 1);
    if (steno_node_int(b->node, "transBatchA", 0) || steno_node_int(b->node, "transBatchB", 0) ||
        b->opset < 12)
        steno_body_unsupported(b);
    for (int i = 0; i < 2; i++) {
        if (!steno_node_int(b->node, names[i], 0))
            continue;
        steno_body_add(b, "turned%d = Einsum<equation = \"...ij->...ji\">(in%d)", i, i);
        in[i] = i ? "turned1" : "turned0";
    }
    steno_body_add(b, "%s = MatMul(%s, %s)", alpha == 1 ? "out0" : "p", in[0], in[1]);
    if (alpha != 1)
        steno_body_add(b, "factor = f32(%s)\nout0 = Mul(p, factor)", steno_body_float(alpha).s);
}

void steno_body_hard_swish(struct steno_body *b)
{
    steno_body_add(b, "gate = HardSigmoid<alpha = 0.166666667, beta = 0.5>(in0)\n"
                      "out0 = Mul(in0, gate)");
}

void steno_body_mish(struct steno_body *b)
{
    steno_body_add(b, "soft = Softplus(in0)\ngate = Tanh(soft)\nout0 = Mul(in0, gate)");
}
