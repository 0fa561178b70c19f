/* Body of LocalAttention (op_local_attention.c) in standard operators. The rows are cut into chunks
 * of `window` rows; a chunk sees itself and the chunks before and behind it, so that no matrix is
 * larger than [T, 3 window]. */
#include "nn/ops/body.h"

/* y [B, n, 3 w, ...]: for each chunk of w rows of x [B, (n + 2) w, ...] the rows from the chunk
 * before it to the one behind it. `chunk` is the target that makes chunks of rows. */
static void three_chunks(struct steno_body *b, const char *y, const char *x, const char *chunk)
{
    static const struct {
        const char *name, *from, *to;
    } cut[] = {{"before", NULL, "less2"}, {"self", "w", "less1"}, {"behind", "w2", NULL}};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        struct steno_body_name rows = steno_body_temp(b);
        steno_body_slice(b, rows.s, x, cut[i].from, cut[i].to, 1);
        steno_body_add(b, "%s_%s = Reshape(%s, %s)", y, cut[i].name, rows.s, chunk);
    }
    steno_body_add(b, "%s = Concat<axis = 2>(%s_before, %s_self, %s_behind)", y, y, y, y);
}

/* x [B, (n + 2) w, h size] as y [B, n, h, 3 w, size], or with the last two axes swapped. */
static void heads_of_chunks(struct steno_body *b, const char *y, const char *x, const char *size,
                            bool swapped)
{
    const struct steno_node *n = b->node;
    long long heads = steno_node_int(n, "heads", 1), d = steno_node_int(n, size, 1);
    long long window = steno_node_int(n, "window", 1);
    struct steno_body_name all = steno_body_temp(b), chunk = steno_body_temp(b);
    struct steno_body_name split = steno_body_temp(b), apart = steno_body_temp(b);
    steno_body_add(b, "%s = i64[0, -1, %lld, %lld]\n%s = i64[0, 0, %lld, %lld, %lld]", chunk.s,
                   window, heads * d, split.s, 3 * window, heads, d);
    three_chunks(b, all.s, x, chunk.s);
    steno_body_add(b, "%s = Reshape(%s, %s)\n%s = Transpose<perm = %s>(%s)", apart.s, all.s,
                   split.s, y, swapped ? "[0, 1, 3, 4, 2]" : "[0, 1, 3, 2, 4]", apart.s);
}

/* Pads: `more` rows make whole chunks of the queries; keys have a chunk before and one behind, too.
 * One length for all three, so that T = 0 and T < window need no case of their own. */
static void pad_rows(struct steno_body *b)
{
    steno_body_add(b, "shape = Shape(in0)\none = i64[1]\ntwo = i64[2]\nzero = i64[0]");
    steno_body_slice(b, "batch_rows", "shape", NULL, "two", 0);
    steno_body_slice(b, "rows", "shape", "one", "two", 0);
    steno_body_add(b,
                   "rest = Mod(rows, w)\ngap = Sub(w, rest)\nmore = Mod(gap, w)\n"
                   "behind = Add(more, w)\nnone2 = i64[0, 0]\nnone = i64[0]\n"
                   "q_pads = Concat<axis = 0>(none2, none, none, more, none)\n"
                   "k_pads = Concat<axis = 0>(none, w, none, none, behind, none)\n"
                   "m_pads = Concat<axis = 0>(none, w, none, behind)\n"
                   "q_all = Pad(in0, q_pads)\nk_all = Pad(in1, k_pads)\nv_all = Pad(in2, k_pads)");
}

/* band [w, 3 w]: 0 where column c of row r is within the window, r <= c <= r + 2 w, else -inf. */
static void band(struct steno_body *b, long long window)
{
    steno_body_add(b,
                   "r_end = i64(%lld)\nc_end = i64(%lld)\nstart = i64(0)\nstep = i64(1)\n"
                   "r = Range(start, r_end, step)\nc = Range(start, c_end, step)\n"
                   "r_shape = i64[%lld, 1]\nr_col = Reshape(r, r_shape)\nd = Sub(c, r_col)\n"
                   "low = Less(d, start)\nlast = i64(%lld)\nhigh = Greater(d, last)\n"
                   "outside = Or(low, high)\nopen = f32(0.0)\nshut = f32(-inf)\n"
                   "band = Where(outside, shut, open)",
                   window, 3 * window, window, 2 * window);
}

void steno_body_local_attention(struct steno_body *b)
{
    const struct steno_node *n = b->node;
    long long heads = steno_node_int(n, "heads", 1), size = steno_node_int(n, "size", 1);
    long long v_size = steno_node_int(n, "v_size", 1), window = steno_node_int(n, "window", 0);
    if (window < 1 || window > 1 << 24) { /* chunks of no rows */
        steno_body_unsupported(b);
        return;
    }
    steno_body_add(b, "w = i64[%lld]\nw2 = i64[%lld]\nless1 = i64[%lld]\nless2 = i64[%lld]", window,
                   2 * window, -window, -2 * window);
    pad_rows(b);
    steno_body_add(b,
                   "q_shape = i64[0, -1, %lld, %lld, %lld]\nq_split = Reshape(q_all, q_shape)\n"
                   "q = Transpose<perm = [0, 1, 3, 2, 4]>(q_split)",
                   window, heads, size);
    heads_of_chunks(b, "k", "k_all", "size", true);
    heads_of_chunks(b, "v", "v_all", "v_size", false);
    band(b, window);
    if (steno_body_has(b, 3))
        steno_body_add(b, "mask = Reshape(in3, batch_rows)");
    else
        steno_body_add(b, "mask = ConstantOfShape(batch_rows)");
    steno_body_add(b,
                   "m_all = Pad(mask, m_pads, shut)\nm_chunk = i64[0, -1, %lld]\n"
                   "m_shape = i64[0, 0, 1, 1, %lld]",
                   window, 3 * window);
    three_chunks(b, "m_three", "m_all", "m_chunk");
    steno_body_add(b,
                   "m = Reshape(m_three, m_shape)\nproduct = MatMul(q, k)\nfactor = f32(%s)\n"
                   "s = Mul(product, factor)\ns_band = Add(s, band)\ns_seen = Add(s_band, m)\n"
                   "p = Softmax<axis = -1>(s_seen)\ny = MatMul(p, v)\n"
                   "y_time = Transpose<perm = [0, 1, 3, 2, 4]>(y)\ny_shape = i64[0, -1, %lld]\n"
                   "y_all = Reshape(y_time, y_shape)",
                   steno_body_float((double)steno_node_float(n, "scale", 1)).s, heads * v_size);
    steno_body_slice(b, steno_body_has(b, 4) ? "y_rows" : "out0", "y_all", "zero", "rows", 1);
    if (steno_body_has(b, 4))
        steno_body_add(b, "off_shape = Concat<axis = 0>(batch_rows, one)\n"
                          "off = Reshape(in4, off_shape)\nout0 = Where(off, open, y_rows)");
}
