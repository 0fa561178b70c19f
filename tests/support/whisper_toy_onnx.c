#include "tests/support/whisper_toy_onnx.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define D WHISPER_TOY_STATE
#define MAX_VALUES 400
#define BLOCK 16 /* of MatMulNBits */

/* A graph under construction: fields of GraphProto, and names of values by number. */
struct net {
    enum whisper_toy_onnx kind;
    struct steno_buf graph;
    char name[MAX_VALUES][40];
    int n;
};

enum { F32 = 1, U8 = 2, I8 = 3, I64 = 7, BOOL = 9 }; /* TensorProto.DataType */

/* ---- protobuf ------------------------------------------------------------------------------ */

static void must(steno_status st)
{
    if (st)
        abort();
}

static void varint(struct steno_buf *b, uint64_t v)
{
    for (; v > 127; v >>= 7)
        must(steno_buf_add(b, &(char){(char)(v | 128)}, 1));
    must(steno_buf_add(b, &(char){(char)v}, 1));
}

static void number(struct steno_buf *b, unsigned field, uint64_t v)
{
    varint(b, field << 3);
    varint(b, v);
}

static void bytes(struct steno_buf *b, unsigned field, const void *p, size_t n)
{
    varint(b, field << 3 | 2);
    varint(b, n);
    must(steno_buf_add(b, p, n));
}

static void text(struct steno_buf *b, unsigned field, const char *s)
{
    bytes(b, field, s, strlen(s));
}

/* Append a message and free it. */
static void message(struct steno_buf *b, unsigned field, struct steno_buf *m)
{
    bytes(b, field, m->data ? m->data : "", m->len);
    steno_buf_free(m);
}

static struct steno_buf start(void)
{
    struct steno_buf b;
    steno_buf_init(&b, 1 << 22);
    return b;
}

/* ---- graphs -------------------------------------------------------------------------------- */

static int value(struct net *g, const char *name)
{
    if (g->n == MAX_VALUES)
        abort();
    if (name)
        snprintf(g->name[g->n], sizeof g->name[0], "%s", name);
    else
        snprintf(g->name[g->n], sizeof g->name[0], "v%d", g->n);
    return g->n++;
}

static void put_value(struct net *g, unsigned field, int v, int type)
{
    struct steno_buf info = start(), kind = start(), tensor = start();
    number(&tensor, 1, (uint64_t)type);
    message(&kind, 1, &tensor);
    text(&info, 1, g->name[v]);
    message(&info, 2, &kind);
    message(&g->graph, field, &info);
}

static int input(struct net *g, const char *name, int type)
{
    const int v = value(g, name);
    put_value(g, 11, v, type);
    return v;
}

static int constant(struct net *g, int type, int rank, const int64_t *dim, const void *p, size_t n)
{
    struct steno_buf t = start();
    const int v = value(g, NULL);
    for (int i = 0; i < rank; i++)
        number(&t, 1, (uint64_t)dim[i]);
    number(&t, 2, (uint64_t)type);
    text(&t, 8, g->name[v]);
    bytes(&t, 9, p, n);
    message(&g->graph, 5, &t);
    return v;
}

static int float_constant(struct net *g, float x)
{
    return constant(g, F32, 0, NULL, &x, sizeof x);
}

static int ints(struct net *g, int n, const int64_t *x)
{
    return constant(g, I64, 1, (int64_t[]){n}, x, (size_t)n * sizeof *x);
}

struct attribute {
    const char *name;
    int64_t i;
    int n; /* > 0: a list of that many numbers */
    int64_t list[4];
};

static void put_attribute(struct steno_buf *node, const struct attribute *a)
{
    struct steno_buf m = start();
    text(&m, 1, a->name);
    for (int i = 0; i < a->n; i++)
        number(&m, 8, (uint64_t)a->list[i]);
    if (!a->n)
        number(&m, 3, (uint64_t)a->i);
    number(&m, 20, a->n ? 7 : 2);
    message(node, 5, &m);
}

/* A node with n_out outputs; the number of the first. Inputs of -1 are absent. */
static int node(struct net *g, const char *type, int n_in, const int *in, int n_out,
                const struct attribute *a, int n_attr)
{
    struct steno_buf m = start();
    int first = -1;
    for (int i = 0; i < n_in; i++)
        text(&m, 1, in[i] < 0 ? "" : g->name[in[i]]);
    for (int i = 0; i < n_out; i++) {
        const int v = value(g, NULL);
        first = i ? first : v;
        text(&m, 2, g->name[v]);
    }
    text(&m, 4, type);
    for (int i = 0; i < n_attr; i++)
        put_attribute(&m, &a[i]);
    if (!strcmp(type, "MatMulNBits"))
        text(&m, 7, "com.microsoft");
    message(&g->graph, 1, &m);
    return first;
}

static int one(struct net *g, const char *type, int x)
{
    return node(g, type, 1, &x, 1, NULL, 0);
}

static int two(struct net *g, const char *type, int x, int y)
{
    return node(g, type, 2, (int[]){x, y}, 1, NULL, 0);
}

static int transposed(struct net *g, int x, int n, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return node(g, "Transpose", 1, &x, 1, &(struct attribute){"perm", 0, n, {a, b, c, d}}, 1);
}

static void output(struct net *g, int v, const char *name)
{
    struct steno_buf m = start();
    const int to = value(g, name);
    text(&m, 1, g->name[v]);
    text(&m, 2, name);
    text(&m, 4, "Identity");
    message(&g->graph, 1, &m);
    put_value(g, 12, to, F32);
}

static void finish(struct net *g, struct steno_buf *out)
{
    struct steno_buf opset = start(), contrib = start();
    text(&g->graph, 2, "toy");
    number(out, 1, 8);
    message(out, 7, &g->graph);
    text(&opset, 1, "");
    number(&opset, 2, 17);
    message(out, 8, &opset);
    text(&contrib, 1, "com.microsoft");
    number(&contrib, 2, 1);
    message(out, 8, &contrib);
}

/* ---- weights ------------------------------------------------------------------------------- */

/* Element (r, c) of PyTorch's matrix of `cols` columns. */
static float element(const char *name, int64_t r, int64_t c, int64_t cols)
{
    return whisper_toy_element(name, (size_t)(r * cols + c));
}

static float largest(const char *name, size_t from, size_t n)
{
    float max = 0;
    for (size_t i = from; i < from + n; i++)
        max = fmaxf(max, fabsf(whisper_toy_element(name, i)));
    return max;
}

static int floats(struct net *g, const char *name, int rank, const int64_t *dim)
{
    size_t n = 1;
    float *x;
    int v;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    x = malloc(n * sizeof *x);
    if (!x)
        abort();
    for (size_t i = 0; i < n; i++)
        x[i] = whisper_toy_element(name, i);
    v = constant(g, F32, rank, dim, x, n * sizeof *x);
    free(x);
    return v;
}

static int vector(struct net *g, const char *name)
{
    return floats(g, name, 1, (int64_t[]){D});
}

/* The transposed copy that exporters make. */
static int turned(struct net *g, const char *name, int64_t rows, int64_t cols)
{
    float *x = malloc((size_t)(rows * cols) * sizeof *x);
    int v;
    if (!x)
        abort();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            x[c * rows + r] = element(name, r, c, cols);
    v = constant(g, F32, 2, (int64_t[]){cols, rows}, x, (size_t)(rows * cols) * sizeof *x);
    free(x);
    return v;
}

/* All elements with one scale; u8 around 128. columns > 0: of a matrix, transposed. */
static int quantized(struct net *g, const char *name, int rank, const int64_t *dim, int64_t columns,
                     int *scale, int *zero)
{
    const bool u8 = rank == 3 || !columns;
    const unsigned char middle = u8 ? 128 : 0;
    unsigned char *q;
    size_t n = 1;
    float s;
    int v;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    q = malloc(n);
    if (!q)
        abort();
    s = largest(name, 0, n) / 127;
    for (size_t i = 0; i < n; i++) {
        const size_t rows = columns ? n / (size_t)columns : 1;
        const size_t to = columns ? i % (size_t)columns * rows + i / (size_t)columns : i;
        q[to] = (unsigned char)((int)rintf(whisper_toy_element(name, i) / s) + middle);
    }
    v = constant(g, u8 ? U8 : I8, rank, dim, q, n);
    *scale = float_constant(g, s);
    *zero = constant(g, u8 ? U8 : I8, 0, NULL, &middle, 1);
    free(q);
    return v;
}

static int nbits(struct net *g, const char *name, int x)
{
    const struct attribute a[] = {
        {"N", D, 0, {0}}, {"K", D, 0, {0}}, {"bits", 4, 0, {0}}, {"block_size", BLOCK, 0, {0}}};
    unsigned char q[D * D / 2] = {0};
    float s[D * D / BLOCK];
    int in[3] = {x, 0, 0};
    for (size_t b = 0; b < D * D / BLOCK; b++) {
        s[b] = largest(name, b * BLOCK, BLOCK) / 7;
        for (size_t i = b * BLOCK; i < (b + 1) * BLOCK; i++) {
            const int v = (int)rintf(whisper_toy_element(name, i) / s[b]) + 8;
            q[i / 2] = (unsigned char)(q[i / 2] | v << (i & 1 ? 4 : 0));
        }
    }
    in[1] = constant(g, U8, 3, (int64_t[]){D, D / BLOCK, BLOCK / 2}, q, sizeof q);
    in[2] = constant(g, F32, 1, (int64_t[]){D * D / BLOCK}, s, sizeof s);
    return node(g, "MatMulNBits", 3, in, 1, a, 4);
}

/* MatMulInteger or ConvInteger as quantize_dynamic writes them. */
static int integers(struct net *g, const char *type, const char *name, int rank, const int64_t *dim,
                    int64_t columns, int x)
{
    const int dynamic = node(g, "DynamicQuantizeLinear", 1, &x, 3, NULL, 0);
    int scale, zero, q = quantized(g, name, rank, dim, columns, &scale, &zero);
    const int in[] = {dynamic, q, dynamic + 2, zero};
    const int to = node(g, type, 4, in, 1, NULL, 0);
    const int y = node(g, "Cast", 1, &to, 1, &(struct attribute){"to", F32, 0, {0}}, 1);
    return two(g, "Mul", y, two(g, "Mul", dynamic + 1, scale));
}

static int linear(struct net *g, const char *prefix, bool bias, int x)
{
    char name[80];
    int y;
    snprintf(name, sizeof name, "%s.weight", prefix);
    if (g->kind == WHISPER_TOY_SHERPA_I8)
        y = integers(g, "MatMulInteger", name, 2, (int64_t[]){D, D}, D, x);
    else if (g->kind == WHISPER_TOY_Q4)
        y = nbits(g, name, x);
    else
        y = two(g, "MatMul", x, turned(g, name, D, D));
    snprintf(name, sizeof name, "%s.bias", prefix);
    return bias ? two(g, "Add", vector(g, name), y) : y;
}

static int conv(struct net *g, const char *prefix, int64_t channels, int x)
{
    const int64_t dim[] = {D, channels, 3}, shape[] = {1, D, 1};
    char name[80];
    int y, b;
    snprintf(name, sizeof name, "%s.bias", prefix);
    b = vector(g, name);
    snprintf(name, sizeof name, "%s.weight", prefix);
    if (g->kind != WHISPER_TOY_SHERPA_I8)
        return node(g, "Conv", 3, (int[]){x, floats(g, name, 3, dim), b}, 1, NULL, 0);
    y = integers(g, "ConvInteger", name, 3, dim, 0, x);
    return two(g, "Add", y, two(g, "Reshape", b, ints(g, 3, shape)));
}

static int norm(struct net *g, const char *prefix, int x)
{
    char w[80], b[80];
    snprintf(w, sizeof w, "%s.weight", prefix);
    snprintf(b, sizeof b, "%s.bias", prefix);
    return node(g, "LayerNormalization", 3, (int[]){x, vector(g, w), vector(g, b)}, 1, NULL, 0);
}

/* ---- networks ------------------------------------------------------------------------------ */

static int heads(struct net *g, int x)
{
    return transposed(g, two(g, "Reshape", x, ints(g, 4, (int64_t[]){0, 0, 2, D / 2})), 4, 0, 2, 1,
                      3);
}

/* x plus attention to keys and values, which are split by heads. */
static int attend(struct net *g, const char *prefix, int x, int q, int k, int v)
{
    char name[80];
    int s = two(g, "Mul", heads(g, q), float_constant(g, 0.5f));
    s = two(g, "MatMul", s,
            transposed(g, two(g, "Mul", k, float_constant(g, 0.5f)), 4, 0, 1, 3, 2));
    s = two(g, "MatMul", one(g, "Softmax", s), v);
    s = two(g, "Reshape", transposed(g, s, 4, 0, 2, 1, 3), ints(g, 3, (int64_t[]){0, 0, D}));
    snprintf(name, sizeof name, "%s.out", prefix);
    return two(g, "Add", x, linear(g, name, true, s));
}

static int feed_forward(struct net *g, const char *block, int x)
{
    char name[80];
    int y;
    snprintf(name, sizeof name, "%s.mlp_ln", block);
    y = norm(g, name, x);
    snprintf(name, sizeof name, "%s.mlp.0", block);
    y = one(g, "Erf", linear(g, name, true, y));
    snprintf(name, sizeof name, "%s.mlp.2", block);
    return two(g, "Add", x, linear(g, name, true, y));
}

static bool is_sherpa(const struct net *g)
{
    return g->kind == WHISPER_TOY_SHERPA || g->kind == WHISPER_TOY_SHERPA_I8;
}

static void write_encoder(struct net *g)
{
    int x = input(g, is_sherpa(g) ? "mel" : "input_features", F32), h, k, v;
    const int64_t positions[] = {WHISPER_TOY_CTX, D};
    x = one(g, "Erf", conv(g, "encoder.conv1", WHISPER_TOY_MELS, x));
    x = transposed(g, one(g, "Erf", conv(g, "encoder.conv2", D, x)), 3, 0, 2, 1, 0);
    x = two(g, "Add", x, floats(g, "encoder.positional_embedding", 2, positions));
    h = norm(g, "encoder.blocks.0.attn_ln", x);
    k = linear(g, "encoder.blocks.0.attn.key", false, h);
    v = linear(g, "encoder.blocks.0.attn.value", true, h);
    x = attend(g, "encoder.blocks.0.attn", x, linear(g, "encoder.blocks.0.attn.query", true, h),
               heads(g, k), heads(g, v));
    x = norm(g, "encoder.ln_post", feed_forward(g, "encoder.blocks.0", x));
    if (!is_sherpa(g)) {
        output(g, x, "last_hidden_state");
        return;
    }
    k = one(g, "Unsqueeze", linear(g, "decoder.blocks.0.cross_attn.key", false, x));
    v = one(g, "Unsqueeze", linear(g, "decoder.blocks.0.cross_attn.value", true, x));
    output(g, one(g, "Concat", k), "n_layer_cross_k");
    output(g, one(g, "Concat", v), "n_layer_cross_v");
}

static int embed(struct net *g, int tokens)
{
    const int64_t dim[] = {WHISPER_TOY_VOCAB, D}, positions[] = {WHISPER_TOY_TEXT_CTX, D};
    const char *name = "decoder.token_embedding.weight";
    int scale, zero, x;
    if (g->kind == WHISPER_TOY_SHERPA_I8) {
        x = quantized(g, name, 2, dim, 0, &scale, &zero);
        x = node(g, "DequantizeLinear", 3, (int[]){two(g, "Gather", x, tokens), scale, zero}, 1,
                 NULL, 0);
    } else {
        x = two(g, "Gather", floats(g, name, 2, dim), tokens);
    }
    return two(g, "Add", x,
               one(g, "Slice", floats(g, "decoder.positional_embedding", 2, positions)));
}

/* The cache of all layers with new rows of one. */
static int cached(struct net *g, int cache, int x)
{
    const int at = ints(g, 1, (int64_t[]){0});
    return node(g, "ScatterND", 3, (int[]){cache, at, x}, 1, NULL, 0);
}

struct inputs {
    int tokens, hidden, k, v;
};

static void write_decoder(struct net *g, struct inputs in)
{
    int x = embed(g, in.tokens), h, k, v;
    h = norm(g, "decoder.blocks.0.attn_ln", x);
    k = linear(g, "decoder.blocks.0.attn.key", false, h);
    v = linear(g, "decoder.blocks.0.attn.value", true, h);
    if (is_sherpa(g)) {
        k = one(g, "Gather", cached(g, in.k, k));
        v = one(g, "Gather", cached(g, in.v, v));
    }
    x = attend(g, "decoder.blocks.0.attn", x, linear(g, "decoder.blocks.0.attn.query", true, h),
               heads(g, k), heads(g, v));
    h = norm(g, "decoder.blocks.0.cross_attn_ln", x);
    k = in.hidden;
    v = in.hidden;
    if (!is_sherpa(g)) {
        k = linear(g, "decoder.blocks.0.cross_attn.key", false, in.hidden);
        v = linear(g, "decoder.blocks.0.cross_attn.value", true, in.hidden);
    }
    x = attend(g, "decoder.blocks.0.cross_attn", x,
               linear(g, "decoder.blocks.0.cross_attn.query", true, h), heads(g, k), heads(g, v));
    x = norm(g, "decoder.ln", feed_forward(g, "decoder.blocks.0", x));
    if (is_sherpa(g))
        x = two(g, "MatMul",
                floats(g, "decoder.token_embedding.weight", 2, (int64_t[]){WHISPER_TOY_VOCAB, D}),
                transposed(g, x, 3, 0, 2, 1, 0));
    else
        x = two(g, "MatMul", x, turned(g, "decoder.token_embedding.weight", WHISPER_TOY_VOCAB, D));
    output(g, x, "logits");
}

/* One branch has the decoder, the other nothing. */
static void put_branches(struct net *outer, struct net *branch, int condition)
{
    struct steno_buf m = start(), other = start(), a;
    static const char *const names[] = {"then_branch", "else_branch"};
    const int v = value(outer, "logits");
    text(&m, 1, outer->name[condition]);
    text(&m, 2, outer->name[v]);
    text(&m, 4, "If");
    {
        struct net small = {.kind = outer->kind, .graph = start()};
        output(&small, float_constant(&small, 1), "logits");
        message(&other, 6, &small.graph);
    }
    for (int i = 0; i < 2; i++) {
        a = start();
        text(&a, 1, names[i]);
        if (i)
            bytes(&a, 6, branch->graph.data, branch->graph.len);
        else
            must(steno_buf_add(&a, other.data, other.len));
        number(&a, 20, 5);
        message(&m, 5, &a);
    }
    steno_buf_free(&other);
    steno_buf_free(&branch->graph);
    message(&outer->graph, 1, &m);
    put_value(outer, 12, v, F32);
}

void whisper_toy_onnx_write(enum whisper_toy_onnx kind, struct steno_buf *encoder,
                            struct steno_buf *decoder)
{
    struct net g = {.kind = kind, .graph = start()}, branch;
    struct inputs in = {0};
    write_encoder(&g);
    finish(&g, encoder);
    g = (struct net){.kind = kind, .graph = start()};
    in.tokens = input(&g, is_sherpa(&g) ? "tokens" : "input_ids", I64);
    in.hidden = input(&g, is_sherpa(&g) ? "n_layer_cross_k" : "encoder_hidden_states", F32);
    if (is_sherpa(&g)) {
        in.k = input(&g, "in_n_layer_self_k_cache", F32);
        in.v = input(&g, "in_n_layer_self_v_cache", F32);
    }
    if (kind != WHISPER_TOY_MERGED) {
        write_decoder(&g, in);
        finish(&g, decoder);
        return;
    }
    branch = g; /* the same names of inputs, which it captures */
    branch.graph = start();
    write_decoder(&branch, in);
    put_branches(&g, &branch, input(&g, "use_cache_branch", BOOL));
    finish(&g, decoder);
}
