/* Bodies of what op_fused_zipformer.c and op_fused_chunkconv.c compute, and
 * op_fused_spectrum.c. */
#include "ops/body.h"

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
    long long lead, pad;
    if (!w1 || !w2 || w1->shape.rank != 3 || w2->shape.rank != 3) {
        steno_body_unsupported(b);
        return;
    }
    lead = w1->shape.dim[2] - 1;
    pad = w2->shape.dim[2] / 2;
    steno_body_add(b, "x = Transpose<perm = [1, 2, 0]>(in0)");
    if (steno_body_has(b, 1))
        steno_body_add(b, "zero = f32(0.0)\nseen = Where(in1, zero, x)");
    steno_body_add(b, "z = Concat<axis = 2>(in2, %s)", steno_body_has(b, 1) ? "seen" : "x");
    steno_body_add(b, "causal = Conv<group = %lld>(z, in3%s)\nlead = i64[%lld]",
                   (long long)w1->shape.dim[0], steno_body_has(b, 4) ? ", in4" : "", lead);
    steno_body_slice(b, "chunk", "z", "lead", NULL, 2);
    steno_body_add(b, "within = Conv<group = %lld, pads = [%lld, %lld]>(chunk, in5%s)",
                   (long long)w2->shape.dim[0], pad, pad, steno_body_has(b, 6) ? ", in6" : "");
    steno_body_add(b, "scaled = Mul(within, in7)\nsum = Add(scaled, causal)\n"
                      "out0 = Transpose<perm = [2, 0, 1]>(sum)");
    if (!steno_body_wants(b, 1))
        return;
    steno_body_add(b, "back = i64[%lld]", -lead);
    if (lead)
        steno_body_slice(b, "out1", "z", "back", NULL, 2);
    else
        steno_body_unsupported(b);
}

/* Rows of W seen as rows of W - 1, from element T - 1 on: row t begins at its element T - 1 - t. */
void steno_body_relative_window(struct steno_body *b)
{
    steno_body_add(b, "shape = Shape(in0)\none = i64[1]\nlast = i64[-1]\nsecond = i64[-2]");
    steno_body_slice(b, "lead", "shape", NULL, "second", 0);
    steno_body_slice(b, "T", "shape", "second", "last", 0);
    steno_body_slice(b, "W", "shape", "last", NULL, 0);
    steno_body_add(b, "all = Mul(T, W)\nflat = Concat<axis = 0>(lead, all)\n"
                      "x = Reshape(in0, flat)\nfrom = Sub(T, one)\nless = Sub(W, one)\n"
                      "n = Mul(T, less)\nto = Add(from, n)");
    steno_body_slice(b, "rows", "x", "from", "to", -1);
    steno_body_add(b, "table = Concat<axis = 0>(lead, T, less)\nseen = Reshape(rows, table)\n"
                      "S = Sub(W, from)");
    steno_body_slice(b, "out0", "seen", NULL, "S", -1);
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
