#include "speech/families/whisper/build.h"

#include "nn/build/make.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRIP 16 /* rows of a matrix that are turned at a time: a line of the result */
#define MAX_PARTS 3

struct builder {
    struct steno_make m; /* its prefix: of tensors */
    const steno_whisper_weights *w;
    struct steno_whisper_dims d;
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
    char name[STENO_MAKE_PREFIX + STENO_WHISPER_NAME];
    snprintf(name, sizeof name, "%s%s%s", b->m.prefix, part, role);
    return steno_whisper_weights_find(b->w, name);
}

static steno_value_id add_matrix(struct builder *b, const char *const *parts, int n, bool conv)
{
    struct matrix *m = b->m.st ? NULL : steno_graph_alloc(b->m.g, 1, sizeof *m, b->m.err);
    const struct steno_maker maker = {make_matrix, m};
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 2}};
    char name[STENO_MAKE_PREFIX + STENO_WHISPER_NAME];
    steno_value_id v = STENO_NONE;
    if (!m) {
        b->m.st = b->m.st ? b->m.st : STENO_ERR_NOMEM;
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
    snprintf(name, sizeof name, "%s%s", b->m.prefix, parts[0]);
    b->m.st = steno_graph_add_made(b->m.g, name, &t, &maker, &v, b->m.err);
    return v;
}

/* The biases of those parts side by side; zeros where a part has none, as keys. */
static steno_value_id add_biases(struct builder *b, const char *const *parts, int n)
{
    size_t total = 0, at = 0;
    steno_value_id v;
    float *x;
    for (int i = 0; i < n; i++)
        total += steno_whisper_row_count(find(b, parts[i], ".weight"));
    x = calloc(total + 1, sizeof *x);
    for (int i = 0; x && i < n; i++) {
        const struct steno_whisper_tensor *t = find(b, parts[i], ".bias");
        if (t)
            steno_whisper_rows(t, 0, 1, x + at);
        at += steno_whisper_row_count(find(b, parts[i], ".weight"));
    }
    v = steno_make_floats(&b->m, parts[0], 1, (int64_t[]){(int64_t)total}, x);
    free(x);
    return v;
}

/* ---- nodes --------------------------------------------------------------------------------- */

static steno_value_id gelu(struct builder *b, steno_value_id x)
{
    return steno_make_node_of(&b->m, "", 20, "Gelu", 1, &x, 0, NULL);
}

/* x W' + biases, of n parts side by side. */
static steno_value_id linear(struct builder *b, steno_value_id x, const char *const *parts, int n,
                             bool conv)
{
    steno_value_id w = add_matrix(b, parts, n, conv), bias = add_biases(b, parts, n);
    return steno_make_add(&b->m, steno_make_2(&b->m, "MatMul", x, w), bias);
}

static steno_value_id linear1(struct builder *b, steno_value_id x, const char *part)
{
    return linear(b, x, &part, 1, false);
}

static steno_value_id norm(struct builder *b, steno_value_id x, const char *part)
{
    static const char *const roles[] = {".weight", ".bias"};
    const struct steno_attr attr[] = {{.name = "axis", .kind = STENO_ATTR_INT, .i = -1},
                                      {.name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = 1e-5f}};
    const int64_t d = (int64_t)steno_whisper_row_length(find(b, part, ".weight"));
    float *v = malloc((size_t)d * sizeof *v);
    steno_value_id in[3] = {x, STENO_NONE, STENO_NONE};
    for (int i = 0; i < 2; i++) {
        if (v)
            steno_whisper_rows(find(b, part, roles[i]), 0, 1, v);
        in[1 + i] = steno_make_floats(&b->m, part, 1, &d, v);
    }
    free(v);
    return steno_make_node(&b->m, "LayerNormalization", 3, in, 2, attr);
}

static steno_value_id feed_forward(struct builder *b, steno_value_id x)
{
    steno_value_id y = gelu(b, linear1(b, norm(b, x, "mlp_ln"), "mlp.0"));
    return steno_make_add(&b->m, x, linear1(b, y, "mlp.2"));
}

/* ---- inputs, outputs ------------------------------------------------------------------------ */

static steno_value_id build_input(struct builder *b, const char *name, int64_t n, int64_t rows,
                                  int64_t columns)
{
    return steno_make_input(&b->m, name, STENO_F32, 3, (int64_t[]){n, rows, columns});
}

/* x [n, rows, columns]; layer -1: there is one of that name. */
static void output(struct builder *b, steno_value_id x, const char *name, int layer,
                   const int64_t shape[3])
{
    char full[32];
    snprintf(full, sizeof full, layer < 0 ? "%s" : "%s_%d", name, layer);
    steno_make_output(&b->m, x, full, STENO_F32, 3, shape);
}

static steno_status begin_build(struct builder *b, const steno_whisper_weights *w, steno_err *err)
{
    const struct steno_make_weights none = {.file = "whisper"};
    b->w = w;
    b->d = steno_whisper_weights_dims(w);
    return steno_make_begin(&b->m, &none, 4 + 2 * (int)b->d.text_layers, err);
}

static void at_layer(struct builder *b, const char *side, int64_t layer)
{
    steno_make_at(&b->m, "%s.blocks.%d.", side, (int)layer);
}

/* ---- encoder ------------------------------------------------------------------------------- */

#define INT(NAME, VALUE)                                                                           \
    (struct steno_attr)                                                                            \
    {                                                                                              \
        .name = (NAME), .kind = STENO_ATTR_INT, .i = (VALUE)                                       \
    }
enum { N_ATTENTION = 7 };

static void set_attention(struct steno_attr a[N_ATTENTION], int64_t heads, int64_t columns,
                          const int64_t at[3])
{
    static const char *const names[] = {"q_at", "k_at", "v_at"};
    a[0] = INT("heads", heads);
    a[1] = INT("size", columns / heads);
    a[2] = INT("v_size", columns / heads);
    for (int i = 0; i < 3; i++)
        a[3 + i] = INT(names[i], at[i]);
    a[6] = (struct steno_attr){
        .name = "scale", .kind = STENO_ATTR_FLOAT, .f = 1 / sqrtf((float)(columns / heads))};
}

static steno_value_id encoder_attention(struct builder *b, steno_value_id x)
{
    static const char *const parts[] = {"attn.query", "attn.key", "attn.value"};
    const int64_t d = b->d.audio_state, at[3] = {0, d, 2 * d};
    const steno_value_id a = linear(b, norm(b, x, "attn_ln"), parts, 3, false);
    struct steno_attr attr[N_ATTENTION];
    steno_value_id y;
    set_attention(attr, b->d.audio_heads, d, at);
    y = steno_make_node_of(&b->m, "ai.steno", 1, "Attention", 3, (steno_value_id[]){a, a, a},
                           N_ATTENTION, attr);
    return steno_make_add(&b->m, x, linear1(b, y, "attn.out"));
}

/* Rows 2t - 1, 2t, 2t + 1 of y [1, 2T, d] side by side, a row of zeros before the first. */
static steno_value_id every_second(struct builder *b, steno_value_id y)
{
    const int64_t d = b->d.audio_state, pair[3] = {1, -1, 2 * d}, row[3] = {1, 1, d};
    struct steno_make *m = &b->m;
    float *x = calloc((size_t)d, sizeof *x);
    const steno_value_id zeros = steno_make_floats(m, "row of zeros", 3, row, x);
    const steno_value_id pairs = steno_make_reshape(m, y, 3, pair);
    steno_value_id before = steno_make_slice(m, pairs, 2, d, 2 * d);
    free(x);
    before = steno_make_slice(m, before, 1, 0, -1);
    return steno_make_concat(m, 2, steno_make_concat(m, 1, zeros, before), pairs);
}

static steno_value_id convolutions(struct builder *b, steno_value_id frames,
                                   steno_value_id positions)
{
    static const char *const conv1[] = {"encoder.conv1"}, *const conv2[] = {"encoder.conv2"};
    steno_value_id y = gelu(b, linear(b, frames, conv1, 1, true));
    y = gelu(b, linear(b, every_second(b, y), conv2, 1, true));
    return steno_make_add(&b->m, y, positions);
}

static void add_memories(struct builder *b, steno_value_id x, int64_t rows)
{
    static const char *const parts[] = {"cross_attn.key", "cross_attn.value"};
    for (int64_t i = 0; i < b->d.text_layers && !b->m.st; i++) {
        at_layer(b, "decoder", i);
        output(b, linear(b, x, parts, 2, false), "memory", (int)i,
               (int64_t[]){1, rows, 2 * b->d.text_state});
    }
}

steno_status steno_whisper_build_encoder(void *weights, struct steno_graph **out, steno_err *err)
{
    struct builder b;
    int64_t frames, rows;
    steno_value_id x, positions;
    if (begin_build(&b, weights, err))
        return b.m.st;
    frames = steno_make_symbol(&b.m, "frames");
    rows = steno_make_symbol(&b.m, "rows");
    x = build_input(&b, "frames", 1, frames, 3 * b.d.mels);
    positions = build_input(&b, "positions", 1, rows, b.d.audio_state);
    x = convolutions(&b, x, positions);
    for (int64_t i = 0; i < b.d.audio_layers && !b.m.st; i++) {
        at_layer(&b, "encoder", i);
        x = feed_forward(&b, encoder_attention(&b, x));
    }
    steno_make_at(&b.m, "%s", "");
    x = norm(&b, x, "encoder.ln_post");
    output(&b, x, "rows", -1, (int64_t[]){1, rows, b.d.audio_state});
    return steno_make_take(&b.m, out);
}

steno_status steno_whisper_build_cross(void *weights, struct steno_graph **out, steno_err *err)
{
    struct builder b;
    int64_t rows;
    if (begin_build(&b, weights, err))
        return b.m.st;
    rows = steno_make_symbol(&b.m, "rows");
    add_memories(&b, build_input(&b, "rows", 1, rows, b.d.audio_state), rows);
    return steno_make_take(&b.m, out);
}

/* ---- decoder ------------------------------------------------------------------------------- */

static steno_value_id cached(struct builder *b, steno_value_id q, steno_value_id fresh,
                             int64_t layer)
{
    const int64_t d = b->d.text_state,
                  at[3] = {0, fresh == STENO_NONE ? 0 : d, fresh == STENO_NONE ? d : 2 * d};
    struct steno_attr attr[N_ATTENTION + 1];
    set_attention(attr, b->d.text_heads, d, at);
    attr[N_ATTENTION] = INT("layer", layer);
    return steno_make_node_of(&b->m, "ai.steno.run", 1, "CachedAttention", 3,
                              (steno_value_id[]){q, fresh, STENO_NONE}, N_ATTENTION + 1, attr);
}

static steno_value_id decoder_layer(struct builder *b, steno_value_id x, int layer, int64_t entries)
{
    static const char *const parts[] = {"attn.query", "attn.key", "attn.value"};
    const int64_t d = b->d.text_state;
    steno_value_id fresh, q;
    at_layer(b, "decoder", layer);
    fresh = linear(b, norm(b, x, "attn_ln"), parts, 3, false);
    output(b, fresh, "fresh", layer, (int64_t[]){entries, 1, 3 * d});
    x = steno_make_add(&b->m, x, linear1(b, cached(b, fresh, fresh, layer), "attn.out"));
    q = linear1(b, norm(b, x, "cross_attn_ln"), "cross_attn.query");
    output(b, q, "query", layer, (int64_t[]){entries, 1, d});
    x = steno_make_add(&b->m, x, linear1(b, cached(b, q, STENO_NONE, layer), "cross_attn.out"));
    return feed_forward(b, x);
}

steno_status steno_whisper_build_step(void *weights, struct steno_graph **out, steno_err *err)
{
    struct builder b;
    int64_t entries;
    steno_value_id x;
    if (begin_build(&b, weights, err))
        return b.m.st;
    entries = steno_make_symbol(&b.m, "entries");
    x = build_input(&b, "x", entries, 1, b.d.text_state);
    for (int i = 0; i < b.d.text_layers && !b.m.st; i++)
        x = decoder_layer(&b, x, i, entries);
    output(&b, x, "hidden", -1, (int64_t[]){entries, 1, b.d.text_state});
    return steno_make_take(&b.m, out);
}

steno_status steno_whisper_build_scores(void *weights, struct steno_graph **out, steno_err *err)
{
    static const char *const parts[] = {"decoder.token_embedding"};
    struct builder b;
    int64_t rows;
    steno_value_id x;
    if (begin_build(&b, weights, err))
        return b.m.st;
    rows = steno_make_symbol(&b.m, "rows");
    x = build_input(&b, "hidden", rows, 1, b.d.text_state);
    x = norm(&b, x, "decoder.ln");
    x = steno_make_2(&b.m, "MatMul", x, add_matrix(&b, parts, 1, false));
    output(&b, x, "logits", -1, (int64_t[]){rows, 1, b.d.vocab});
    return steno_make_take(&b.m, out);
}
