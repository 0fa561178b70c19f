/* The weights in exported ONNX networks: sherpa-onnx's pair and the set that optimum writes for
 * transformers.js.
 *
 * Exporters fold and rename constants (`onnx::MatMul_123`, transposed), quantizers replace them,
 * optimizers drop their names. So a weight is found by what computes with it, not by its name.
 * Everything on the residual path depends on what is before it. In any topological order, layer
 * after layer has
 *
 *     encoder: 2 convolutions, the positions, then 2 norms and the matrices query, out, mlp.0,
 * mlp.2 decoder: the embeddings, then 3 norms and query, out, cross query, cross out, mlp.0, mlp.2
 *
 * and a last norm. Keys and values are the operands of the products around each Softmax: of all
 * matrices upstream of an operand, through views, caches, scales and biases, the nearest. The cross
 * keys and values are in sherpa's encoder (outputs n_layer_cross_k and n_layer_cross_v), and in
 * optimum's first decoder: decoder_model, or one branch of the merged decoder's If.
 *
 * A matrix may be f32, f16, bf16, or 8 bits with scales (DequantizeLinear, MatMulInteger and its
 * fused forms, ConvInteger), or 4 or 8 bits in blocks (MatMulNBits). */
#include "speech/families/whisper/onnx_graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_VISITS 100000 /* nodes looked at on the way to one matrix */

/* ---- ways through the graph ---------------------------------------------------------------- */

/* Inputs of a node that a way upstream follows. */
enum follow { NONE, FIRST, ALL, UPDATES };

static enum follow through_operand(const struct steno_node *n)
{
    static const char *const first[] = {"Transpose", "Reshape", "Cast",   "Identity",
                                        "Unsqueeze", "Squeeze", "Slice",  "Gather",
                                        "Split",     "Flatten", "Expand", NULL};
    static const char *const all[] = {"Mul", "Div", "Concat", "Add", NULL};
    static const char *const updates[] = {"ScatterND", "ScatterElements", NULL};
    if (is_one_of(n, first))
        return FIRST;
    if (is_one_of(n, updates))
        return UPDATES;
    return is_one_of(n, all) ? ALL : NONE;
}

static enum follow through_weights(const struct steno_node *n)
{
    static const char *const all[] = {"Where", "Cast", "Identity", "Dropout", NULL};
    return is_one_of(n, all) ? ALL : NONE;
}

static enum follow through_scores(const struct steno_node *n)
{
    static const char *const all[] = {"Where", "Cast", "Identity", "Add",     "Mul", "Div",
                                      "Clip",  "Min",  "Max",      "Reshape", NULL};
    return is_one_of(n, all) ? ALL : NONE;
}

static bool is_linear(const struct steno_whisper_onnx *r, int32_t node)
{
    return r->linear_of[node] >= 0;
}

static bool is_product(const struct steno_whisper_onnx *r, int32_t node)
{
    return r->product[node];
}

static bool is_softmax(const struct steno_whisper_onnx *r, int32_t node)
{
    return is(&r->g->nodes[node], "Softmax");
}

/* Nearest node upstream of v that `want` accepts, or STENO_NONE. */
static int32_t upstream(struct steno_whisper_onnx *r, steno_value_id v,
                        bool (*want)(const struct steno_whisper_onnx *, int32_t),
                        enum follow (*through)(const struct steno_node *), int hops)
{
    const struct steno_node *n;
    int32_t at = v == STENO_NONE ? STENO_NONE : r->g->values[v].producer, found = STENO_NONE;
    enum follow f;
    if (at == STENO_NONE || r->seen[at] == r->now || !hops || ++r->visits > MAX_VISITS)
        return STENO_NONE;
    if (want(r, at))
        return at;
    r->seen[at] = r->now;
    n = &r->g->nodes[at];
    f = through(n);
    if (f == UPDATES && n->n_in > 2)
        found = upstream(r, n->in[2], want, through, hops - 1);
    for (int i = 0; f && found == STENO_NONE && i < (f == ALL ? n->n_in : 1) && i < n->n_in; i++)
        found = upstream(r, n->in[i], want, through, hops - 1);
    return found;
}

static int32_t nearest(struct steno_whisper_onnx *r, steno_value_id v,
                       bool (*want)(const struct steno_whisper_onnx *, int32_t),
                       enum follow (*through)(const struct steno_node *))
{
    r->now++;
    r->visits = 0;
    return upstream(r, v, want, through, ONNX_MAX_HOPS);
}

/* The matrix nearest upstream of v; NULL: none. */
static struct onnx_linear *operand(struct steno_whisper_onnx *r, steno_value_id v)
{
    const int32_t at = nearest(r, v, is_linear, through_operand);
    return at == STENO_NONE ? NULL : &r->linear[r->linear_of[at]];
}

static void find_attentions(struct steno_whisper_onnx *r)
{
    for (int32_t i = 0; i < r->g->n_nodes; i++) {
        const struct steno_node *n = &r->g->nodes[i], *qk;
        int32_t at = r->product[i] ? nearest(r, n->in[0], is_softmax, through_weights) : STENO_NONE;
        if (at == STENO_NONE)
            continue;
        qk = &r->g->nodes[at];
        at = qk->n_in ? nearest(r, qk->in[0], is_product, through_scores) : STENO_NONE;
        if (at == STENO_NONE)
            continue;
        if (r->n_attention == ONNX_MAX_FOUND) {
            steno_whisper_onnx_fail(r, STENO_ERR_LIMIT, "more than %d attentions", ONNX_MAX_FOUND);
            return;
        }
        qk = &r->g->nodes[at];
        r->attention[r->n_attention++] = (struct onnx_attention){i, qk->in[0], qk->in[1], n->in[1]};
    }
}

/* ---- a whole graph ------------------------------------------------------------------------- */

static bool alloc_all(struct steno_whisper_onnx *r)
{
    const size_t n = (size_t)r->g->n_nodes + 1;
    r->linear = calloc(ONNX_MAX_FOUND, sizeof *r->linear);
    r->norm = calloc(ONNX_MAX_FOUND, sizeof *r->norm);
    r->attention = calloc(ONNX_MAX_FOUND, sizeof *r->attention);
    r->linear_of = malloc(n * sizeof *r->linear_of);
    r->product = calloc(n, sizeof *r->product);
    r->seen = calloc(n, sizeof *r->seen);
    if (!r->linear || !r->norm || !r->attention || !r->linear_of || !r->product || !r->seen)
        return false;
    memset(r->linear_of, 0xFF, n * sizeof *r->linear_of);
    return true;
}

static void free_all(struct steno_whisper_onnx *r)
{
    free(r->linear);
    free(r->norm);
    free(r->attention);
    free(r->linear_of);
    free(r->product);
    free(r->seen);
}

static size_t count_products(const struct steno_graph *g)
{
    size_t n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        n += strstr(g->nodes[i].op_type, "MatMul") || is(&g->nodes[i], "Gemm");
    return n;
}

static int take_larger(struct steno_graph *g, void *arg)
{
    const struct steno_graph **best = arg;
    if (count_products(g) > count_products(*best))
        *best = g;
    return 0;
}

/* The graph with the most products: the branch of a merged decoder that runs first computes the
 * cross keys and values too. */
static const struct steno_graph *largest(const struct steno_graph *g)
{
    const struct steno_graph *best = g;
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (is(&g->nodes[i], "If"))
            (void)steno_node_each_graph(&g->nodes[i], take_larger, &best);
    return best;
}

static void scan(struct steno_whisper_onnx *r, const struct steno_graph *g)
{
    r->g = largest(g);
    if (!alloc_all(r)) {
        steno_whisper_onnx_fail(r, STENO_ERR_NOMEM, "out of memory");
        return;
    }
    for (int32_t i = 0; i < r->g->n_nodes && !r->st; i++)
        steno_whisper_onnx_node(r, &r->g->nodes[i]);
    if (!r->st)
        find_attentions(r);
}

/* ---- names --------------------------------------------------------------------------------- */

static void put_read_onnx(struct steno_whisper_onnx *r, const struct steno_whisper_tensor *t,
                          const char *fmt, ...) STENO_PRINTF(3, 4);
static void put_read_onnx(struct steno_whisper_onnx *r, const struct steno_whisper_tensor *t,
                          const char *fmt, ...)
{
    struct steno_whisper_tensor copy = *t;
    va_list ap;
    if (r->st)
        return;
    va_start(ap, fmt);
    vsnprintf(copy.name, sizeof copy.name, fmt, ap);
    va_end(ap);
    r->st = steno_whisper_add(r->w, &copy, r->err);
}

static void put_linear(struct steno_whisper_onnx *r, const struct onnx_linear *l, size_t layer,
                       const char *part)
{
    put_read_onnx(r, &l->w, "%s.blocks.%zu.%s.weight", r->side, layer, part);
    if (l->has_bias)
        put_read_onnx(r, &l->bias, "%s.blocks.%zu.%s.bias", r->side, layer, part);
}

static void put_operand(struct steno_whisper_onnx *r, steno_value_id v, size_t layer,
                        const char *part)
{
    struct onnx_linear *l = operand(r, v);
    if (!l)
        return;
    l->taken = true;
    put_linear(r, l, layer, part);
}

/* Keys and values of all attentions; per_layer of them make a layer. */
static void put_operands(struct steno_whisper_onnx *r, size_t per_layer)
{
    for (size_t i = 0; i < r->n_attention; i++) {
        const bool cross = i % per_layer;
        put_operand(r, r->attention[i].k, i / per_layer, cross ? "cross_attn.key" : "attn.key");
        put_operand(r, r->attention[i].v, i / per_layer, cross ? "cross_attn.value" : "attn.value");
    }
}

/* All other matrices in their order; `parts` of a layer. */
static void put_path(struct steno_whisper_onnx *r, const char *const *parts, size_t n_parts,
                     size_t layers)
{
    size_t n = 0, left = 0;
    for (size_t i = 0; i < r->n_linear; i++)
        left += !r->linear[i].taken;
    /* the logits of a decoder come last */
    if (left != n_parts * layers && (left != n_parts * layers + 1 || n_parts == 4)) {
        steno_whisper_onnx_fail(
            r, STENO_ERR_FORMAT,
            "%zu matrices besides keys and values, expected %zu for %zu layers of the %s", left,
            n_parts * layers, layers, r->side);
        return;
    }
    for (size_t i = 0; i < r->n_linear && n < n_parts * layers; i++) {
        if (r->linear[i].taken)
            continue;
        put_linear(r, &r->linear[i], n / n_parts, parts[n % n_parts]);
        n++;
    }
}

static void check_queries(struct steno_whisper_onnx *r, size_t per_layer, size_t parts)
{
    size_t n = 0, next = 0;
    for (size_t i = 0; i < r->n_linear && next < r->n_attention && !r->st; i++) {
        if (r->linear[i].taken)
            continue;
        if (n % parts == 2 * (next % per_layer) &&
            operand(r, r->attention[next++].q) != &r->linear[i])
            steno_whisper_onnx_fail(
                r, STENO_ERR_FORMAT,
                "node '%.60s' is no query of attention %zu of the %s, as expected in its place",
                r->g->nodes[r->linear[i].node].name, next - 1, r->side);
        n++;
    }
}

static void put_norms(struct steno_whisper_onnx *r, const char *const *parts, size_t n_parts,
                      size_t layers, const char *last)
{
    if (r->n_norm != n_parts * layers + 1) {
        steno_whisper_onnx_fail(r, STENO_ERR_FORMAT,
                                "%zu layer norms, expected %zu for %zu layers of the %s", r->n_norm,
                                n_parts * layers + 1, layers, r->side);
        return;
    }
    for (size_t i = 0; i < n_parts * layers; i++) {
        put_read_onnx(r, &r->norm[i].w, "%s.blocks.%zu.%s.weight", r->side, i / n_parts,
                      parts[i % n_parts]);
        put_read_onnx(r, &r->norm[i].bias, "%s.blocks.%zu.%s.bias", r->side, i / n_parts,
                      parts[i % n_parts]);
    }
    put_read_onnx(r, &r->norm[r->n_norm - 1].w, "%s.%s.weight", r->side, last);
    put_read_onnx(r, &r->norm[r->n_norm - 1].bias, "%s.%s.bias", r->side, last);
}

/* The positions are the first table that something is added to. */
static void put_audio_positions(struct steno_whisper_onnx *r)
{
    struct steno_whisper_tensor t = {0};
    bool tokens;
    for (int32_t i = 0; i < r->g->n_nodes; i++) {
        const struct steno_node *n = &r->g->nodes[i];
        for (int k = 0; is(n, "Add") && k < n->n_in; k++)
            if (steno_whisper_onnx_table(r, place_of(r->g, n->in[k]), &t, &tokens)) {
                put_read_onnx(r, &t, "encoder.positional_embedding");
                return;
            }
    }
}

/* Embeddings and positions are the first two tables that are added. */
static void put_text_tables(struct steno_whisper_onnx *r)
{
    for (int32_t i = 0; i < r->g->n_nodes; i++) {
        const struct steno_node *n = &r->g->nodes[i];
        struct steno_whisper_tensor t[2];
        bool tokens[2], first;
        if (!is(n, "Add") || n->n_in != 2 ||
            !steno_whisper_onnx_table(r, place_of(r->g, n->in[0]), &t[0], &tokens[0]) ||
            !steno_whisper_onnx_table(r, place_of(r->g, n->in[1]), &t[1], &tokens[1]))
            continue;
        first = tokens[0] != tokens[1] ? tokens[0] : t[0].dim[0] > t[1].dim[0];
        put_read_onnx(r, &t[!first], "decoder.token_embedding.weight");
        put_read_onnx(r, &t[first], "decoder.positional_embedding");
        return;
    }
}

/* ---- encoder and decoder ------------------------------------------------------------------- */

static const struct steno_node *output_of(const struct steno_whisper_onnx *r, const char *name,
                                          steno_value_id *v)
{
    for (int i = 0; i < r->g->n_outputs; i++) {
        const struct steno_value *x = &r->g->values[r->g->outputs[i]];
        if (strcmp(x->name, name))
            continue;
        *v = r->g->outputs[i];
        return x->producer == STENO_NONE ? NULL : &r->g->nodes[x->producer];
    }
    return NULL;
}

/* sherpa's encoder stacks the decoder's cross keys, or values, into one output. */
static void put_cross(struct steno_whisper_onnx *r, const char *output, const char *part)
{
    steno_value_id v;
    const struct steno_node *n = output_of(r, output, &v);
    const char *side = r->side;
    if (!n)
        return;
    r->side = "decoder";
    if (is(n, "Concat"))
        for (int i = 0; i < n->n_in; i++)
            put_operand(r, n->in[i], (size_t)i, part);
    else
        put_operand(r, v, 0, part);
    r->side = side;
}

static void put_convs(struct steno_whisper_onnx *r)
{
    if (r->n_conv != 2)
        steno_whisper_onnx_fail(r, STENO_ERR_FORMAT, "%zu convolutions, expected the encoder's 2",
                                r->n_conv);
    for (size_t i = 0; i < 2 && !r->st; i++) {
        put_read_onnx(r, &r->conv[i].w, "encoder.conv%zu.weight", i + 1);
        if (r->conv[i].has_bias)
            put_read_onnx(r, &r->conv[i].bias, "encoder.conv%zu.bias", i + 1);
    }
}

static void read_encoder(struct steno_whisper_onnx *r)
{
    static const char *const parts[] = {"attn.query", "attn.out", "mlp.0", "mlp.2"};
    static const char *const norms[] = {"attn_ln", "mlp_ln"};
    r->side = "encoder";
    put_convs(r);
    put_audio_positions(r);
    put_operands(r, 1);
    put_cross(r, "n_layer_cross_k", "cross_attn.key");
    put_cross(r, "n_layer_cross_v", "cross_attn.value");
    check_queries(r, 1, 4);
    put_path(r, parts, 4, r->n_attention);
    put_norms(r, norms, 2, r->n_attention, "ln_post");
}

static void read_decoder(struct steno_whisper_onnx *r)
{
    static const char *const parts[] = {"attn.query",     "attn.out", "cross_attn.query",
                                        "cross_attn.out", "mlp.0",    "mlp.2"};
    static const char *const norms[] = {"attn_ln", "cross_attn_ln", "mlp_ln"};
    r->side = "decoder";
    put_text_tables(r);
    put_operands(r, 2);
    check_queries(r, 2, 6);
    put_path(r, parts, 6, r->n_attention / 2);
    put_norms(r, norms, 3, r->n_attention / 2, "ln");
}

static void read_heads(struct steno_whisper_onnx *r, const char *key, int64_t *out)
{
    for (int i = 0; i < r->g->n_meta; i++) {
        char *end;
        if (strcmp(r->g->meta_keys[i], key))
            continue;
        *out = strtoll(r->g->meta_values[i], &end, 10);
        if (*end || *out < 1 || *out > 1024)
            steno_whisper_onnx_fail(r, STENO_ERR_FORMAT,
                                    "metadata %s is '%.40s', expected a number from 1 to 1024", key,
                                    r->g->meta_values[i]);
    }
}

steno_status steno_whisper_read_onnx(steno_whisper_weights *w, const char *const file[2],
                                     steno_err *err)
{
    for (int i = 0; i < 2; i++) {
        struct steno_whisper_onnx r = {.w = w, .file = file[i], .err = err};
        scan(&r, w->graph[i]);
        if (!r.st && i)
            read_decoder(&r);
        else if (!r.st)
            read_encoder(&r);
        if (!r.st && !i) {
            r.g = w->graph[0];
            read_heads(&r, "n_audio_head", &w->audio_heads);
            read_heads(&r, "n_text_head", &w->text_heads);
        }
        free_all(&r);
        if (r.st)
            return r.st;
    }
    return STENO_OK;
}
