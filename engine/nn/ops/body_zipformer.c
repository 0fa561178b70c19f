/* Bodies of the operators in op_fused_zipformer.c, op_fused_chunkconv.c, op_fused_weights.c and
 * op_fused_spectrum.c. */
#include "nn/ops/body.h"

void steno_body_bias_norm(struct steno_body *b)
{
    steno_body_add(b, "d = Sub(in0, in1)\nq = Mul(d, d)");
    steno_body_reduce_mean(b, "m", "q");
    steno_body_add(b, "r = Sqrt(m)\nscale = f32(%s)\nf = Div(scale, r)\nout0 = Mul(in0, f)",
                   steno_body_float((double)steno_node_float(b->node, "scale", 1)).s);
}

void steno_body_bypass(struct steno_body *b)
{
    steno_body_add(b, "d = Sub(in1, in0)\nw = Mul(d, in2)\nout0 = Add(in0, w)");
}

void steno_body_chunk_conv(struct steno_body *b)
{
    const struct steno_tensor *w1 = steno_body_const(b, 3), *w2 = steno_body_const(b, 5);
    int64_t act = steno_node_int(b->node, "act", 0);
    long long left_context, pad;
    if (!w1 || !w2 || w1->shape.rank != 3 || w2->shape.rank != 3) {
        steno_body_unsupported(b);
        return;
    }
    left_context = w1->shape.dim[2] - 1;
    pad = w2->shape.dim[2] / 2;
    if (steno_node_int(b->node, "glu", 0)) {
        steno_body_halves(b, "a", "c", "in0");
        steno_body_add(b, "gate = Sigmoid(c)\ngated = Mul(a, gate)");
    }
    steno_body_add(b, "x = Transpose<perm = [1, 2, 0]>(%s)",
                   steno_node_int(b->node, "glu", 0) ? "gated" : "in0");
    if (steno_body_has(b, 1))
        steno_body_add(b, "zero = f32(0.0)\nseen = Where(in1, zero, x)");
    steno_body_add(b, "z = Concat<axis = 2>(in2, %s)", steno_body_has(b, 1) ? "seen" : "x");
    steno_body_add(b, "causal = Conv<group = %lld>(z, in3%s)\nlead = i64[%lld]",
                   (long long)w1->shape.dim[0], steno_body_has(b, 4) ? ", in4" : "", left_context);
    steno_body_slice(b, "chunk", "z", "lead", NULL, 2);
    steno_body_add(b, "within = Conv<group = %lld, pads = [%lld, %lld]>(chunk, in5%s)",
                   (long long)w2->shape.dim[0], pad, pad, steno_body_has(b, 6) ? ", in6" : "");
    steno_body_add(b,
                   "scaled = Mul(within, in7)\nsum = Add(scaled, causal)\n"
                   "%s = Transpose<perm = [2, 0, 1]>(sum)",
                   act ? "turned" : "out0");
    if (act)
        steno_body_act(b, "out0", "turned", (int)act);
    if (!steno_body_wants(b, 1))
        return;
    steno_body_add(b, "back = i64[%lld]", -left_context);
    if (left_context)
        steno_body_slice(b, "out1", "z", "back", NULL, 2);
    else
        steno_body_unsupported(b);
}

/* y: the rows of length W of x, read as rows of length W - 1 from element T - 1 on, so that row t
 * begins at its own element T - 1 - t. At most once in a body. */
static void window(struct steno_body *b, const char *y, const char *x)
{
    steno_body_add(b, "shape = Shape(%s)\none = i64[1]\nlast = i64[-1]\nsecond = i64[-2]", x);
    steno_body_slice(b, "lead", "shape", NULL, "second", 0);
    steno_body_slice(b, "T", "shape", "second", "last", 0);
    steno_body_slice(b, "W", "shape", "last", NULL, 0);
    steno_body_add(b,
                   "all = Mul(T, W)\nflat = Concat<axis = 0>(lead, all)\n"
                   "x = Reshape(%s, flat)\nfrom = Sub(T, one)\nless = Sub(W, one)\n"
                   "n = Mul(T, less)\nto = Add(from, n)",
                   x);
    steno_body_slice(b, "rows", "x", "from", "to", -1);
    steno_body_add(b, "table = Concat<axis = 0>(lead, T, less)\nseen = Reshape(rows, table)\n"
                      "S = Sub(W, from)");
    steno_body_slice(b, y, "seen", NULL, "S", -1);
}

void steno_body_relative_window(struct steno_body *b)
{
    window(b, "out0", "in0");
}

/* y: columns [from, from + n) of x, rank 3. */
static void columns(struct steno_body *b, const char *y, const char *x, long long from, long long n)
{
    struct steno_body_name first = steno_body_temp(b), end = steno_body_temp(b);
    steno_body_add(b, "%s = i64[%lld]\n%s = i64[%lld]", first.s, from, end.s, from + n);
    steno_body_slice(b, y, x, first.s, end.s, 2);
}

/* y [heads, N, T, size], or [heads, N, size, T] if transposed, of x [T, N, heads size]. */
static void apart(struct steno_body *b, const char *y, const char *x, long long heads,
                  long long size, bool transposed)
{
    struct steno_body_name shape = steno_body_temp(b), split = steno_body_temp(b);
    steno_body_add(b, "%s = i64[0, 0, %lld, %lld]\n%s = Reshape(%s, %s)", shape.s, heads, size,
                   split.s, x, shape.s);
    steno_body_add(b, "%s = Transpose<perm = [2, 1, %s]>(%s)", y, transposed ? "3, 0" : "0, 3",
                   split.s);
}

/* y [T, N, w] of x [heads, N, T, .]. */
static void together(struct steno_body *b, const char *y, const char *x, long long w)
{
    struct steno_body_name back = steno_body_temp(b), shape = steno_body_temp(b);
    steno_body_add(b,
                   "%s = Transpose<perm = [2, 1, 0, 3]>(%s)\n%s = i64[0, 0, %lld]\n"
                   "%s = Reshape(%s, %s)",
                   back.s, x, shape.s, w, y, back.s, shape.s);
}

/* Concatenate the cache (input `in`), if present, before x along `axis`. out1 is the new cache: all
 * elements from position n on, where n is the extent of input `rows` along axis 0, and of x along
 * `axis`. Returns the name of the concatenation, or x. */
static const char *with_cache(struct steno_body *b, int in, const char *x, int axis, int rows)
{
    if (!steno_body_has(b, in))
        return x;
    steno_body_add(b, "every = Concat<axis = %d>(in%d, %s)", axis, in, x);
    if (steno_body_wants(b, 1)) {
        steno_body_add(b, "extents = Shape(in%d)\nupto = i64[1]", rows);
        steno_body_slice(b, "count", "extents", NULL, "upto", 0);
        steno_body_slice(b, "out1", "every", "count", NULL, axis);
    }
    return "every";
}

void steno_body_attention_weights(struct steno_body *b)
{
    const struct steno_node *n = b->node;
    long long heads = steno_node_int(n, "heads", 1), size = steno_node_int(n, "size", 1);
    long long p_size = steno_node_int(n, "p_size", 1);
    bool mask = steno_body_has(b, 3);
    columns(b, "q", "in0", steno_node_int(n, "q_at", 0), heads * size);
    columns(b, "k", "in0", steno_node_int(n, "k_at", 0), heads * size);
    columns(b, "r", "in0", steno_node_int(n, "p_at", 0), heads * p_size);
    apart(b, "queries", "q", heads, size, false);
    apart(b, "keys", with_cache(b, 1, "k", 0, 0), heads, size, true);
    apart(b, "places", "r", heads, p_size, false);
    steno_body_add(b, "qk = MatMul(queries, keys)\nrp = MatMul(places, in2)");
    window(b, "seenp", "rp");
    steno_body_add(b, "scores = Add(qk, seenp)");
    if (mask)
        steno_body_add(b, "fill = f32(%s)\nmasked = Where(in3, fill, scores)",
                       steno_body_float((double)steno_node_float(n, "fill", 0)).s);
    steno_body_add(b, "out0 = Softmax<axis = -1>(%s)", mask ? "masked" : "scores");
}

void steno_body_weighted_values(struct steno_body *b)
{
    long long heads = steno_node_int(b->node, "heads", 1),
              size = steno_node_int(b->node, "size", 1);
    columns(b, "v", "in1", steno_node_int(b->node, "v_at", 0), heads * size);
    apart(b, "values", with_cache(b, 2, "v", 0, 1), heads, size, false);
    steno_body_add(b, "y = MatMul(in0, values)");
    together(b, "out0", "y", heads * size);
}

void steno_body_nonlin_attention(struct steno_body *b)
{
    long long w = steno_node_int(b->node, "size", 1);
    columns(b, "s", "in1", 0, w);
    columns(b, "u", "in1", w, w);
    columns(b, "g", "in1", 2 * w, w);
    steno_body_add(b, "t = Tanh(s)\nv = Mul(u, t)");
    apart(b, "values", "v", 1, w, false);
    steno_body_add(b, "head = i64[1]");
    steno_body_slice(b, "a", "in0", NULL, "head", 0);
    steno_body_add(b, "y = MatMul(a, %s)", with_cache(b, 2, "values", 2, 1));
    together(b, "seen", "y", w);
    steno_body_add(b, "out0 = Mul(seen, g)");
}

void steno_body_power_spectrum(struct steno_body *b)
{
    const struct steno_tensor *w = steno_body_const(b, 1);
    bool root = steno_node_int(b->node, "root", 0) != 0;
    if (!w || w->shape.rank != 3) {
        steno_body_unsupported(b);
        return;
    }
    steno_body_add(b, "c = Conv<strides = [%lld]>(in0, in1)\nbins = i64[%lld]",
                   (long long)steno_node_int(b->node, "hop", 1), (long long)(w->shape.dim[0] / 2));
    steno_body_slice(b, "re", "c", NULL, "bins", 1);
    steno_body_slice(b, "im", "c", "bins", NULL, 1);
    steno_body_add(b, "r2 = Mul(re, re)\ni2 = Mul(im, im)\n%s = Add(r2, i2)", root ? "p" : "out0");
    if (root)
        steno_body_add(b, "out0 = Sqrt(p)");
}
