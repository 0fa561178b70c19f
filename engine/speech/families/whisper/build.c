#include "speech/families/whisper/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRIP 16 /* rows of a matrix that are turned at a time: a line of the result */
#define MAX_PARTS 3

/* The first failure sticks, so that a graph reads as a list of what it is made of. */
struct builder {
    struct steno_graph *g;
    const steno_whisper_weights *w;
    struct steno_whisper_dims d;
    char prefix[40]; /* of tensors */
    steno_status st;
    steno_err *err;
};

/* ---- constants ----------------------------------------------------------------------------- */

/* A matrix [in, out] of matrices [out_i, in], or of a convolution [out, in, 3] as [3 in, out]. */
struct matrix {
    const steno_whisper_weights *w;
    const struct steno_whisper_tensor *part[MAX_PARTS];
    int n;
    size_t rows, cols;
    bool conv;
};

/* Row r of the strip, a filter of the convolution: tap k of channel c goes to row k * channels + c.
 */
static size_t place_build(const struct matrix *m, size_t i)
{
    return m->conv ? i % 3 * (m->rows / 3) + i / 3 : i;
}

static bool make_matrix(const void *arg, void *to)
{
    const struct matrix *m = arg;
    float *strip = malloc(STRIP * m->rows * sizeof *strip), *out = to;
    if (!strip)
        return false;
    for (int p = 0; p < m->n; p++) {
        const size_t rows = steno_whisper_row_count(m->part[p]);
        for (size_t at = 0, n; at < rows; at += n) {
            n = rows - at < STRIP ? rows - at : STRIP;
            steno_whisper_rows(m->part[p], at, n, strip);
            for (size_t i = 0; i < m->rows; i++)
                for (size_t r = 0; r < n; r++)
                    out[place_build(m, i) * m->cols + at + r] = strip[r * m->rows + i];
        }
        out += rows;
    }
    free(strip);
    steno_whisper_weights_rest(m->w); /* else the files are resident beside the packed weights */
    return true;
}

static const struct steno_whisper_tensor *find(const struct builder *b, const char *part,
                                               const char *role)
{
    char name[STENO_WHISPER_NAME];
    snprintf(name, sizeof name, "%s%s%s", b->prefix, part, role);
    return steno_whisper_weights_find(b->w, name);
}

static steno_value_id add_matrix(struct builder *b, const char *const *parts, int n, bool conv)
{
    struct matrix *m = b->st ? NULL : steno_graph_alloc(b->g, 1, sizeof *m, b->err);
    const struct steno_maker maker = {make_matrix, m};
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 2}};
    char name[STENO_WHISPER_NAME];
    steno_value_id v = STENO_NONE;
    if (!m) {
        b->st = b->st ? b->st : STENO_ERR_NOMEM;
        return v;
    }
    m->w = b->w;
    m->n = n;
    m->conv = conv;
    for (int i = 0; i < n; i++) {
        m->part[i] = find(b, parts[i], ".weight");
        m->rows = steno_whisper_row_length(m->part[i]);
        m->cols += steno_whisper_row_count(m->part[i]);
    }
    t.shape.dim[0] = (int64_t)m->rows;
    t.shape.dim[1] = (int64_t)m->cols;
    snprintf(name, sizeof name, "%s%s", b->prefix, parts[0]);
    b->st = steno_graph_add_made(b->g, name, &t, &maker, &v, b->err);
    return v;
}

/* A constant of f32, x [n]. */
static steno_value_id add_vector(struct builder *b, const char *name, int rank, const int64_t *dim,
                                 float *x)
{
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = rank}, .data = x};
    steno_value_id v = STENO_NONE;
    memcpy(t.shape.dim, dim, (size_t)rank * sizeof *dim);
    if (!b->st)
        b->st = steno_graph_add_const(b->g, name, &t, false, &v, b->err);
    return v;
}

static steno_value_id add_ints(struct builder *b, const char *name, const int64_t *x, int n)
{
    struct steno_tensor t = {.dtype = STENO_I64, .shape = {.rank = 1, .dim = {n}}};
    int64_t copy[4];
    steno_value_id v = STENO_NONE;
    memcpy(copy, x, (size_t)n * sizeof *copy);
    t.data = copy;
    if (!b->st)
        b->st = steno_graph_add_const(b->g, name, &t, false, &v, b->err);
    return v;
}

/* The biases of those parts side by side; zeros where a part has none, as keys. */
static steno_value_id add_biases(struct builder *b, const char *const *parts, int n)
{
    size_t total = 0, at = 0;
    steno_value_id v;
    float *x;
    for (int i = 0; i < n && !b->st; i++)
        total += steno_whisper_row_count(find(b, parts[i], ".weight"));
    x = calloc(total + 1, sizeof *x);
    if (!x)
        b->st = b->st ? b->st : steno_fail(b->err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; i < n && !b->st; i++) {
        const struct steno_whisper_tensor *t = find(b, parts[i], ".bias");
        if (t)
            steno_whisper_rows(t, 0, 1, x + at);
        at += steno_whisper_row_count(find(b, parts[i], ".weight"));
    }
    v = add_vector(b, parts[0], 1, (int64_t[]){(int64_t)total}, x);
    free(x);
    return v;
}

/* ---- nodes --------------------------------------------------------------------------------- */

static struct steno_node *add_node(struct builder *b, const char *domain, const char *type,
                                   int opset, int n_in, int n_attr)
{
    struct steno_node *n;
    int32_t at;
    if (!b->st)
        b->st = steno_graph_add_node(b->g, domain, type, type, n_in, 1, n_attr, &at, b->err);
    if (b->st)
        return NULL;
    n = &b->g->nodes[at];
    n->opset = opset;
    if (steno_graph_add_value(b->g, "", &n->out[0], b->err)) {
        b->st = STENO_ERR_NOMEM;
        return NULL;
    }
    return n;
}

static steno_value_id one(struct builder *b, const char *type, int opset, steno_value_id x)
{
    struct steno_node *n = add_node(b, "", type, opset, 1, 0);
    if (!n)
        return STENO_NONE;
    n->in[0] = x;
    return n->out[0];
}

static steno_value_id two(struct builder *b, const char *type, int opset, steno_value_id x,
                          steno_value_id y)
{
    struct steno_node *n = add_node(b, "", type, opset, 2, 0);
    if (!n)
        return STENO_NONE;
    n->in[0] = x;
    n->in[1] = y;
    return n->out[0];
}

static void set_int(struct steno_node *n, int at, const char *name, int64_t v)
{
    n->attr[at] = (struct steno_attr){.name = name, .kind = STENO_ATTR_INT, .i = v};
}

static steno_value_id concat(struct builder *b, int64_t axis, steno_value_id x, steno_value_id y)
{
    struct steno_node *n = add_node(b, "", "Concat", 13, 2, 1);
    if (!n)
        return STENO_NONE;
    set_int(n, 0, "axis", axis);
    n->in[0] = x;
    n->in[1] = y;
    return n->out[0];
}

/* x[from : to] along an axis. */
static steno_value_id slice(struct builder *b, steno_value_id x, int64_t axis, int64_t from,
                            int64_t to)
{
    steno_value_id in[4] = {x, add_ints(b, "from", &from, 1), add_ints(b, "to", &to, 1),
                            add_ints(b, "axis", &axis, 1)};
    struct steno_node *n = add_node(b, "", "Slice", 13, 4, 0);
    if (!n)
        return STENO_NONE;
    memcpy(n->in, in, sizeof in);
    return n->out[0];
}

/* x W' + biases, of n parts side by side. */
static steno_value_id linear(struct builder *b, steno_value_id x, const char *const *parts, int n,
                             bool conv)
{
    steno_value_id w = add_matrix(b, parts, n, conv), bias = add_biases(b, parts, n);
    return two(b, "Add", 14, two(b, "MatMul", 13, x, w), bias);
}

static steno_value_id linear1(struct builder *b, steno_value_id x, const char *part)
{
    return linear(b, x, &part, 1, false);
}

static steno_value_id norm(struct builder *b, steno_value_id x, const char *part)
{
    const struct steno_whisper_tensor *g = find(b, part, ".weight"), *s = find(b, part, ".bias");
    const int64_t d = (int64_t)steno_whisper_row_length(g);
    float *v = malloc((size_t)d * sizeof *v);
    struct steno_node *n;
    steno_value_id in[3] = {x, STENO_NONE, STENO_NONE};
    if (!v)
        b->st = steno_fail(b->err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; i < 2 && v; i++) {
        steno_whisper_rows(i ? s : g, 0, 1, v);
        in[1 + i] = add_vector(b, part, 1, &d, v);
    }
    free(v);
    n = add_node(b, "", "LayerNormalization", 17, 3, 2);
    if (!n)
        return STENO_NONE;
    memcpy(n->in, in, sizeof in);
    set_int(n, 0, "axis", -1);
    n->attr[1] = (struct steno_attr){.name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = 1e-5f};
    return n->out[0];
}

static steno_value_id feed_forward(struct builder *b, steno_value_id x)
{
    steno_value_id y = one(b, "Gelu", 20, linear1(b, norm(b, x, "mlp_ln"), "mlp.0"));
    return two(b, "Add", 14, x, linear1(b, y, "mlp.2"));
}

/* ---- inputs, outputs ------------------------------------------------------------------------ */

static steno_value_id build_input(struct builder *b, const char *name, steno_dtype type, int rank,
                                  const int64_t *dim)
{
    steno_value_id v = STENO_NONE;
    if (!b->st)
        b->st = steno_graph_add_value(b->g, name, &v, b->err);
    if (b->st)
        return v;
    b->g->values[v].dtype = type;
    b->g->values[v].shape.rank = rank;
    memcpy(b->g->values[v].shape.dim, dim, (size_t)rank * sizeof *dim);
    b->g->values[v].is_input = true;
    b->g->inputs[b->g->n_inputs++] = v;
    return v;
}

static void output(struct builder *b, steno_value_id v, const char *name, int layer)
{
    char full[32];
    if (b->st)
        return;
    snprintf(full, sizeof full, layer < 0 ? "%s" : "%s_%d", name, layer);
    b->g->values[v].name = steno_arena_strdup(b->g->arena, full);
    b->g->values[v].is_output = true;
    b->g->outputs[b->g->n_outputs++] = v;
    if (!b->g->values[v].name)
        b->st = steno_fail(b->err, STENO_ERR_NOMEM, "out of memory");
}

static steno_status begin_build(struct builder *b, const steno_whisper_weights *w, steno_err *err)
{
    size_t ends;
    *b = (struct builder){.w = w, .d = steno_whisper_weights_dims(w), .err = err};
    ends = 4 + 2 * (size_t)b->d.text_layers;
    b->g = steno_graph_new(NULL);
    if (!b->g)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    b->g->inputs = steno_graph_alloc(b->g, ends, sizeof *b->g->inputs, err);
    b->g->outputs = steno_graph_alloc(b->g, ends, sizeof *b->g->outputs, err);
    b->st = b->g->inputs && b->g->outputs ? STENO_OK : STENO_ERR_NOMEM;
    if (b->st)
        steno_graph_free(b->g);
    return b->st;
}

static steno_status finish_build(struct builder *b, struct steno_graph **out)
{
    if (!b->st)
        b->st = steno_graph_sort(b->g, b->err);
    if (b->st)
        steno_graph_free(b->g);
    else
        *out = b->g;
    return b->st;
}

static void at_layer(struct builder *b, const char *side, int64_t layer)
{
    snprintf(b->prefix, sizeof b->prefix, "%s.blocks.%d.", side, (int)layer);
}

/* ---- encoder ------------------------------------------------------------------------------- */

static void set_attention(struct steno_node *n, int64_t heads, int64_t columns, const int64_t at[3])
{
    static const char *const names[] = {"q_at", "k_at", "v_at"};
    set_int(n, 0, "heads", heads);
    set_int(n, 1, "size", columns / heads);
    set_int(n, 2, "v_size", columns / heads);
    for (int i = 0; i < 3; i++)
        set_int(n, 3 + i, names[i], at[i]);
    n->attr[6] = (struct steno_attr){
        .name = "scale", .kind = STENO_ATTR_FLOAT, .f = 1 / sqrtf((float)(columns / heads))};
}

static steno_value_id encoder_attention(struct builder *b, steno_value_id x)
{
    static const char *const parts[] = {"attn.query", "attn.key", "attn.value"};
    const int64_t d = b->d.audio_state, at[3] = {0, d, 2 * d};
    steno_value_id a = linear(b, norm(b, x, "attn_ln"), parts, 3, false);
    struct steno_node *n = add_node(b, "ai.steno", "Attention", 1, 3, 7);
    if (!n)
        return STENO_NONE;
    n->in[0] = n->in[1] = n->in[2] = a;
    set_attention(n, b->d.audio_heads, d, at);
    return two(b, "Add", 14, x, linear1(b, n->out[0], "attn.out"));
}

/* Rows 2t - 1, 2t, 2t + 1 of y [1, 2T, d] side by side, a row of zeros before the first. */
static steno_value_id every_second(struct builder *b, steno_value_id y)
{
    const int64_t d = b->d.audio_state, pair[3] = {1, -1, 2 * d}, row[3] = {1, 1, d};
    steno_value_id zeros = STENO_NONE, pairs, before;
    float *x = calloc((size_t)d, sizeof *x);
    if (!x)
        b->st = steno_fail(b->err, STENO_ERR_NOMEM, "out of memory");
    else
        zeros = add_vector(b, "row of zeros", 3, row, x);
    free(x);
    pairs = two(b, "Reshape", 14, y, add_ints(b, "pairs", pair, 3));
    before = slice(b, slice(b, pairs, 2, d, 2 * d), 1, 0, -1);
    return concat(b, 2, concat(b, 1, zeros, before), pairs);
}

static steno_value_id convolutions(struct builder *b, steno_value_id frames,
                                   steno_value_id positions)
{
    static const char *const conv1[] = {"encoder.conv1"}, *const conv2[] = {"encoder.conv2"};
    steno_value_id y = one(b, "Gelu", 20, linear(b, frames, conv1, 1, true));
    y = one(b, "Gelu", 20, linear(b, every_second(b, y), conv2, 1, true));
    return two(b, "Add", 14, y, positions);
}

static void add_memories(struct builder *b, steno_value_id rows)
{
    static const char *const parts[] = {"cross_attn.key", "cross_attn.value"};
    for (int64_t i = 0; i < b->d.text_layers && !b->st; i++) {
        at_layer(b, "decoder", i);
        output(b, linear(b, rows, parts, 2, false), "memory", (int)i);
    }
}

steno_status steno_whisper_build_encoder(void *weights, struct steno_graph **out, steno_err *err)
{
    struct builder b;
    int64_t frames, rows;
    steno_value_id x, positions;
    if (begin_build(&b, weights, err))
        return STENO_ERR_NOMEM;
    frames = steno_graph_symbol(b.g, "frames");
    rows = steno_graph_symbol(b.g, "rows");
    x = build_input(&b, "frames", STENO_F32, 3, (int64_t[]){1, frames, 3 * b.d.mels});
    positions = build_input(&b, "positions", STENO_F32, 3, (int64_t[]){1, rows, b.d.audio_state});
    x = convolutions(&b, x, positions);
    for (int64_t i = 0; i < b.d.audio_layers && !b.st; i++) {
        at_layer(&b, "encoder", i);
        x = feed_forward(&b, encoder_attention(&b, x));
    }
    b.prefix[0] = '\0';
    x = norm(&b, x, "encoder.ln_post");
    output(&b, x, "rows", -1);
    return finish_build(&b, out);
}

steno_status steno_whisper_build_cross(void *weights, struct steno_graph **out, steno_err *err)
{
    struct builder b;
    int64_t rows;
    if (begin_build(&b, weights, err))
        return STENO_ERR_NOMEM;
    rows = steno_graph_symbol(b.g, "rows");
    add_memories(&b, build_input(&b, "rows", STENO_F32, 3, (int64_t[]){1, rows, b.d.audio_state}));
    return finish_build(&b, out);
}

/* ---- decoder ------------------------------------------------------------------------------- */

static steno_value_id cached(struct builder *b, steno_value_id q, steno_value_id fresh,
                             int64_t layer)
{
    const int64_t d = b->d.text_state,
                  at[3] = {0, fresh == STENO_NONE ? 0 : d, fresh == STENO_NONE ? d : 2 * d};
    struct steno_node *n = add_node(b, "ai.steno.run", "CachedAttention", 1, 3, 8);
    if (!n)
        return STENO_NONE;
    n->in[0] = q;
    n->in[1] = fresh;
    n->in[2] = STENO_NONE;
    set_attention(n, b->d.text_heads, d, at);
    set_int(n, 7, "layer", layer);
    return n->out[0];
}

static steno_value_id decoder_layer(struct builder *b, steno_value_id x, int layer)
{
    static const char *const parts[] = {"attn.query", "attn.key", "attn.value"};
    steno_value_id fresh, q;
    at_layer(b, "decoder", layer);
    fresh = linear(b, norm(b, x, "attn_ln"), parts, 3, false);
    output(b, fresh, "fresh", layer);
    x = two(b, "Add", 14, x, linear1(b, cached(b, fresh, fresh, layer), "attn.out"));
    q = linear1(b, norm(b, x, "cross_attn_ln"), "cross_attn.query");
    output(b, q, "query", layer);
    x = two(b, "Add", 14, x, linear1(b, cached(b, q, STENO_NONE, layer), "cross_attn.out"));
    return feed_forward(b, x);
}

steno_status steno_whisper_build_step(void *weights, struct steno_graph **out, steno_err *err)
{
    struct builder b;
    int64_t entries;
    steno_value_id x;
    if (begin_build(&b, weights, err))
        return STENO_ERR_NOMEM;
    entries = steno_graph_symbol(b.g, "entries");
    x = build_input(&b, "x", STENO_F32, 3, (int64_t[]){entries, 1, b.d.text_state});
    for (int i = 0; i < b.d.text_layers && !b.st; i++)
        x = decoder_layer(&b, x, i);
    output(&b, x, "hidden", -1);
    return finish_build(&b, out);
}

steno_status steno_whisper_build_scores(void *weights, struct steno_graph **out, steno_err *err)
{
    static const char *const parts[] = {"decoder.token_embedding"};
    struct builder b;
    int64_t rows;
    steno_value_id x;
    if (begin_build(&b, weights, err))
        return STENO_ERR_NOMEM;
    rows = steno_graph_symbol(b.g, "rows");
    x = build_input(&b, "hidden", STENO_F32, 3, (int64_t[]){rows, 1, b.d.text_state});
    x = norm(&b, x, "decoder.ln");
    output(&b, two(&b, "MatMul", 13, x, add_matrix(&b, parts, 1, false)), "logits", -1);
    return finish_build(&b, out);
}
