/* Nodes of an exported network that hold weights. */
#include "speech/families/whisper/onnx_graph.h"

static const struct onnx_place nowhere = {NULL, STENO_NONE};

static bool matrix(struct steno_whisper_onnx *r, struct onnx_place p, bool columns,
                   struct steno_whisper_tensor *t)
{
    struct onnx_found f;
    return steno_whisper_onnx_find(r, p, 2, &f) &&
           steno_whisper_onnx_use(r, &f, columns, name_of(p), t);
}

static void too_many(struct steno_whisper_onnx *r, const char *what)
{
    steno_whisper_onnx_fail(r, STENO_ERR_LIMIT, "more than %d %s", ONNX_MAX_FOUND, what);
}

static void add_linear(struct steno_whisper_onnx *r, const struct steno_node *n,
                       struct onnx_linear *l)
{
    if (r->n_linear == ONNX_MAX_FOUND) {
        too_many(r, "matrices");
        return;
    }
    l->node = (int32_t)(n - r->g->nodes);
    r->linear_of[l->node] = (int32_t)r->n_linear;
    r->linear[r->n_linear++] = *l;
}

static void add_conv(struct steno_whisper_onnx *r, const struct onnx_linear *l)
{
    if (r->n_conv == 2)
        steno_whisper_onnx_fail(r, STENO_ERR_FORMAT, "more than 2 convolutions of Whisper");
    else
        r->conv[r->n_conv++] = *l;
}

static void add_found_norm(struct steno_whisper_onnx *r, const struct onnx_norm *m)
{
    if (r->n_norm == ONNX_MAX_FOUND)
        too_many(r, "layer norms");
    else
        r->norm[r->n_norm++] = *m;
}

/* The one node that reads v; NULL: none or several. */
static const struct steno_node *reader_of(const struct steno_whisper_onnx *r, steno_value_id v)
{
    const struct steno_value *x = v == STENO_NONE ? NULL : &r->g->values[v];
    return x && x->uses == 1 && x->reader != STENO_NONE ? &r->g->nodes[x->reader] : NULL;
}

/* v plus a constant of as many elements as l has rows: its bias. */
static void find_bias(struct steno_whisper_onnx *r, struct onnx_linear *l, steno_value_id v)
{
    const struct steno_node *n = reader_of(r, v);
    while (is(n, "Cast"))
        n = reader_of(r, n->out[0]);
    for (int i = 0; is(n, "Add") && i < n->n_in && !l->has_bias; i++)
        l->has_bias = steno_whisper_onnx_vector(r, place_of(r->g, n->in[i]), &l->bias) &&
                      l->bias.dim[0] == l->w.dim[0] && !is_bytes(&l->bias);
}

static bool given_bias(struct steno_whisper_onnx *r, const struct steno_node *n, int i,
                       struct onnx_linear *l)
{
    if (i >= n->n_in || n->in[i] == STENO_NONE)
        return true;
    l->has_bias =
        steno_whisper_onnx_vector(r, place_of(r->g, n->in[i]), &l->bias) && !is_bytes(&l->bias);
    return l->has_bias;
}

static bool flag(const struct steno_node *n, const char *name)
{
    return steno_node_int(n, name, 0) != 0;
}

/* MatMul and FusedMatMul: x W, or E x' where the exporter spared a transposed copy. */
static void read_product(struct steno_whisper_onnx *r, const struct steno_node *n)
{
    struct onnx_linear l = {0};
    const bool columns = !flag(n, "transB");
    if (n->n_in < 2)
        return;
    if (!matrix(r, place_of(r->g, n->in[1]), columns, &l.w) &&
        !matrix(r, place_of(r->g, n->in[0]), flag(n, "transA"), &l.w)) {
        r->product[n - r->g->nodes] = true;
        return;
    }
    if (steno_node_float(n, "alpha", 1) != 1)
        steno_whisper_onnx_fail(r, STENO_ERR_UNSUPPORTED,
                                "node '%.80s': FusedMatMul with a factor is not read", n->name);
    find_bias(r, &l, n->out[0]);
    add_linear(r, n, &l);
}

static void read_gemm(struct steno_whisper_onnx *r, const struct steno_node *n)
{
    struct onnx_linear l = {0};
    if (n->n_in < 2 || !matrix(r, place_of(r->g, n->in[1]), !flag(n, "transB"), &l.w))
        return;
    if (steno_node_float(n, "alpha", 1) != 1 || steno_node_float(n, "beta", 1) != 1 ||
        !given_bias(r, n, 2, &l))
        steno_whisper_onnx_fail(r, STENO_ERR_UNSUPPORTED,
                                "node '%.80s': Gemm with factors is not read", n->name);
    if (!l.has_bias)
        find_bias(r, &l, n->out[0]);
    add_linear(r, n, &l);
}

/* The scale of the weights of an integer product: what its only reader, behind a Cast, multiplies
 * by is that scale times the input's. *out: the scaled product. */
static struct onnx_place scale_behind(const struct steno_whisper_onnx *r,
                                      const struct steno_node *n, steno_value_id *out)
{
    const struct steno_node *m = reader_of(r, n->out[0]);
    steno_value_id v = n->out[0];
    struct onnx_place p = nowhere;
    while (is(m, "Cast")) {
        v = m->out[0];
        m = reader_of(r, v);
    }
    if (!is(m, "Mul") || m->n_in != 2)
        return p;
    *out = m->out[0];
    p = place_of(r->g, m->in[m->in[0] == v]);
    for (int i = 0; !constant(p) && i < 2; i++) {
        const struct steno_node *both = producer(p);
        if (is(both, "Mul") && constant(input_of(p, both, i)))
            p = input_of(p, both, i);
    }
    return p;
}

/* MatMulInteger, ConvInteger (rank 3) and the forms that a runtime fused, with their own scales. */
static void read_integers(struct steno_whisper_onnx *r, const struct steno_node *n, int rank,
                          int zero, int scale, int bias)
{
    struct onnx_linear l = {0};
    struct onnx_found f;
    steno_value_id out = n->out[0];
    if (n->n_in < 2 || !steno_whisper_onnx_find(r, place_of(r->g, n->in[1]), rank, &f) ||
        !is_bytes(&f.t))
        return;
    f.zero = zero < n->n_in ? place_of(r->g, n->in[zero]) : nowhere;
    f.scale = !scale ? scale_behind(r, n, &out)
                     : place_of(r->g, scale < n->n_in ? n->in[scale] : STENO_NONE);
    if (f.scale.v == STENO_NONE || !steno_whisper_onnx_use(r, &f, rank == 2, n->name, &l.w)) {
        steno_whisper_onnx_fail(r, STENO_ERR_FORMAT,
                                "node '%.80s' (%s): no scale of its weights was found", n->name,
                                n->op_type);
        return;
    }
    if (!bias || !given_bias(r, n, bias, &l) || !l.has_bias)
        find_bias(r, &l, out);
    if (rank == 3)
        add_conv(r, &l);
    else
        add_linear(r, n, &l);
}

static void read_conv(struct steno_whisper_onnx *r, const struct steno_node *n)
{
    struct onnx_linear l = {0};
    struct onnx_found f;
    if (n->n_in < 2 || !steno_whisper_onnx_find(r, place_of(r->g, n->in[1]), 3, &f) ||
        !steno_whisper_onnx_use(r, &f, false, name_of(place_of(r->g, n->in[1])), &l.w))
        return;
    if (!given_bias(r, n, 2, &l) || !l.has_bias)
        find_bias(r, &l, n->out[0]);
    add_conv(r, &l);
}

/* com.microsoft.MatMulNBits: B [N, blocks, bytes], scales [N blocks], zero points in 4 bits too,
 * [N, bytes]; without them 8 or 128. */
struct nbits {
    int64_t n, k, bits, block;
    size_t blocks;
};

static const unsigned char *nbits_zeros(struct steno_whisper_onnx *r, const struct nbits *b,
                                        const struct steno_tensor *z, const char *name)
{
    const size_t per_row = b->bits == 4 ? (b->blocks + 1) / 2 : b->blocks, rows = (size_t)b->n;
    const unsigned char *from = z ? steno_constant_bytes(z) : NULL;
    unsigned char *to;
    if (z && (z->dtype != STENO_U8 || steno_numel(z) != rows * per_row)) {
        steno_whisper_onnx_fail(r, STENO_ERR_UNSUPPORTED,
                                "node '%.80s': zero points of %s, expected %zu of u8", name,
                                steno_dtype_name(z->dtype), rows * per_row);
        return NULL;
    }
    to = steno_arena_alloc(r->w->mem, rows * b->blocks + 1);
    if (!to) {
        steno_whisper_onnx_fail(r, STENO_ERR_NOMEM, "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < b->blocks; j++) {
            const unsigned char *row = from ? from + i * per_row : NULL;
            to[i * b->blocks + j] = !row           ? (unsigned char)(1 << (b->bits - 1))
                                    : b->bits == 8 ? row[j]
                                                   : (row[j / 2] >> (j & 1 ? 4 : 0)) & 15;
        }
    return to;
}

static void read_nbits(struct steno_whisper_onnx *r, const struct steno_node *n)
{
    const struct nbits b = {steno_node_int(n, "N", 0), steno_node_int(n, "K", 0),
                            steno_node_int(n, "bits", 4), steno_node_int(n, "block_size", 0), 0};
    struct nbits c = b;
    struct onnx_linear l = {0};
    const struct steno_tensor *q = n->n_in < 3 ? NULL : constant(place_of(r->g, n->in[1]));
    size_t n_scale = 0;
    if ((b.bits != 4 && b.bits != 8) || b.block < 16 || b.block > 1 << 16 ||
        (b.block & (b.block - 1)) || b.n < 1 || b.k < 1 || b.n > 1 << 24 || b.k > 1 << 24) {
        steno_whisper_onnx_fail(
            r, STENO_ERR_UNSUPPORTED,
            "node '%.80s': MatMulNBits of %lld bits in blocks of %lld, expected 4 or 8 bits",
            n->name, (long long)b.bits, (long long)b.block);
        return;
    }
    c.blocks = (size_t)((b.k + b.block - 1) / b.block);
    if (!q || q->dtype != STENO_U8 ||
        steno_numel(q) != (size_t)b.n * c.blocks * (size_t)(b.block * b.bits / 8)) {
        steno_whisper_onnx_fail(
            r, STENO_ERR_FORMAT,
            "node '%.80s': the weights of MatMulNBits are no constant [%lld, %zu, %lld] of u8",
            n->name, (long long)b.n, c.blocks, (long long)(b.block * b.bits / 8));
        return;
    }
    l.w = (struct steno_whisper_tensor){.file = r->file,
                                        .type = b.bits == 4 ? STENO_WHISPER_U4 : STENO_WHISPER_U8,
                                        .rank = 2,
                                        .dim = {b.n, b.k},
                                        .data = steno_constant_bytes(q),
                                        .factors = true,
                                        .block = b.block};
    l.w.scale = steno_whisper_onnx_floats(r, constant(place_of(r->g, n->in[2])), &n_scale);
    l.w.n_scale = n_scale;
    if (!l.w.scale || !l.w.data || n_scale != (size_t)b.n * c.blocks) {
        steno_whisper_onnx_fail(r, STENO_ERR_FORMAT,
                                "node '%.80s': %zu scales of MatMulNBits, expected %zu", n->name,
                                n_scale, (size_t)b.n * c.blocks);
        return;
    }
    if (n->n_in > 4 && n->in[4] != STENO_NONE)
        steno_whisper_onnx_fail(r, STENO_ERR_UNSUPPORTED,
                                "node '%.80s': MatMulNBits with g_idx is not read", n->name);
    l.w.zero = nbits_zeros(r, &c, n->n_in > 3 ? constant(place_of(r->g, n->in[3])) : NULL, n->name);
    if (!given_bias(r, n, 5, &l) || !l.has_bias)
        find_bias(r, &l, n->out[0]);
    add_linear(r, n, &l);
}

static void add_norm(struct steno_whisper_onnx *r, const struct steno_node *n, int at)
{
    struct onnx_norm m = {0};
    if (n->n_in > at + 1 && steno_whisper_onnx_vector(r, place_of(r->g, n->in[at]), &m.w) &&
        steno_whisper_onnx_vector(r, place_of(r->g, n->in[at + 1]), &m.bias) && !is_bytes(&m.w) &&
        !is_bytes(&m.bias))
        add_found_norm(r, &m);
}

/* A norm of small operators ends in (x - mean) / deviation, times a vector, plus a vector. */
static void read_small_norm(struct steno_whisper_onnx *r, const struct steno_node *add)
{
    struct onnx_norm m = {0};
    for (int i = 0; i < 2; i++) {
        const struct onnx_place p = place_of(r->g, add->in[i]);
        const struct steno_node *mul = producer(p);
        if (!is(mul, "Mul") || !steno_whisper_onnx_vector(r, place_of(r->g, add->in[!i]), &m.bias))
            continue;
        for (int k = 0; k < 2; k++)
            if (is(producer(input_of(p, mul, k)), "Div") &&
                steno_whisper_onnx_vector(r, input_of(p, mul, !k), &m.w) &&
                m.w.dim[0] == m.bias.dim[0] && m.w.dim[0] > 1) {
                add_found_norm(r, &m);
                return;
            }
    }
}

/* Operators that hold weights in forms that are not read. */
static const char *const refused[] = {"MatMulBnb4",
                                      "QLinearMatMul",
                                      "QLinearConv",
                                      "QGemm",
                                      "QAttention",
                                      "Attention",
                                      "MultiHeadAttention",
                                      "DecoderMaskedMultiHeadAttention",
                                      "FusedConv",
                                      "BiasGelu",
                                      "EmbedLayerNormalization",
                                      "GatherBlockQuantized",
                                      NULL};

void steno_whisper_onnx_node(struct steno_whisper_onnx *r, const struct steno_node *n)
{
    if (!n->n_out || n->out[0] == STENO_NONE)
        return;
    if (is(n, "MatMul") || is(n, "FusedMatMul"))
        read_product(r, n);
    else if (is(n, "Gemm"))
        read_gemm(r, n);
    else if (is(n, "MatMulInteger"))
        read_integers(r, n, 2, 3, 0, 0);
    else if (is(n, "MatMulIntegerToFloat"))
        read_integers(r, n, 2, 5, 3, 6);
    else if (is(n, "DynamicQuantizeMatMul"))
        read_integers(r, n, 2, 3, 2, 4);
    else if (is(n, "ConvInteger"))
        read_integers(r, n, 3, 3, 0, 0);
    else if (is(n, "MatMulNBits"))
        read_nbits(r, n);
    else if (is(n, "Conv"))
        read_conv(r, n);
    else if (is(n, "LayerNormalization"))
        add_norm(r, n, 1);
    else if (is(n, "SkipLayerNormalization"))
        add_norm(r, n, 2);
    else if (is(n, "Add") && n->n_in == 2)
        read_small_norm(r, n);
    else if (is_one_of(n, refused))
        steno_whisper_onnx_fail(r, STENO_ERR_UNSUPPORTED,
                                "node '%.80s': weights of the operator %.60s are not read", n->name,
                                n->op_type);
}
