/* espnet2/asr/encoder/{conformer,transformer}_encoder.py, decoder/transformer_decoder.py,
 * lm/transformer_lm.py of ESPnet 202511. The graphs are for one whole utterance, so no position is
 * masked: the last token of a prefix attends to all before it. */
#include "convert/espnet_graphs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define POSITIONS 2048 /* rows of the tables; beyond them steno computes, other runtimes end */
#define EPSILON 1e-12f /* of ESPnet's own layer normalization */
#define LEGACY_LAST 4999.0

/* ---- attention ----------------------------------------------------------------------------- */

static steno_value_id heads_of(struct steno_make *m, steno_value_id x, int64_t heads, int64_t d,
                               bool keys)
{
    static const int64_t rows[] = {0, 2, 1, 3}, columns[] = {0, 2, 3, 1};
    x = steno_make_reshape(m, x, 4, (int64_t[]){0, -1, heads, d / heads});
    return steno_make_transpose(m, x, 4, keys ? columns : rows);
}

static steno_value_id linear(struct steno_make *m, steno_value_id x, const char *name,
                             const char *part, int64_t in, int64_t out, bool bias)
{
    char full[120];
    snprintf(full, sizeof full, "%s.%s", name, part);
    return steno_make_linear(m, x, full, in, out, bias);
}

static steno_value_id root(struct steno_make *m, steno_value_id x, int64_t d)
{
    return steno_make_2(m, "Div", x, steno_make_number(m, sqrtf((float)d)));
}

static steno_value_id weigh(struct steno_make *m, const char *name, steno_value_id scores,
                            steno_value_id v, int64_t d)
{
    static const int64_t rows[] = {0, 2, 1, 3};
    steno_value_id y = steno_make_2(m, "MatMul", steno_make_softmax(m, "Softmax", scores, -1), v);
    y = steno_make_reshape(m, steno_make_transpose(m, y, 4, rows), 3, (int64_t[]){0, -1, d});
    return linear(m, y, name, "linear_out", d, d, true);
}

static steno_value_id attention(struct steno_make *m, const char *name, steno_value_id q,
                                steno_value_id kv, int64_t heads, int64_t d)
{
    steno_value_id k, v;
    q = heads_of(m, linear(m, q, name, "linear_q", d, d, true), heads, d, false);
    k = heads_of(m, linear(m, kv, name, "linear_k", d, d, true), heads, d, true);
    v = heads_of(m, linear(m, kv, name, "linear_v", d, d, true), heads, d, false);
    return weigh(m, name, root(m, steno_make_2(m, "MatMul", q, k), d / heads), v, d);
}

/* Row i of x moves i places to the right (Transformer-XL, appendix B). */
static steno_value_id shift(struct steno_make *m, steno_value_id x, bool latest)
{
    steno_value_id shape = steno_make_1(m, "Shape", x), t, length, zeros, padded, view, y;
    const int64_t one = 1, two = 2;
    steno_value_id head = steno_make_slice(m, shape, 0, 0, 2);
    t = steno_make_2(m, "Gather", shape, steno_make_ints(m, 1, (int64_t[]){2}));
    length = steno_make_2(m, "Gather", shape, steno_make_ints(m, 1, (int64_t[]){3}));
    y = steno_make_concat(m, 0, steno_make_slice(m, shape, 0, 0, 3), steno_make_ints(m, 1, &one));
    zeros = steno_make_1(m, "ConstantOfShape", y);
    padded = steno_make_concat(m, -1, zeros, x);
    view = steno_make_concat(
        m, 0, head,
        steno_make_concat(m, 0, steno_make_add(m, length, steno_make_ints(m, 1, &one)), t));
    y = steno_make_2(m, "Reshape", padded, view);
    y = steno_make_cut(m, y, 2, steno_make_ints(m, 1, &one),
                       steno_make_ints(m, 1, (int64_t[]){INT64_MAX}));
    y = steno_make_2(m, "Reshape", y, shape);
    if (!latest)
        return y;
    length = steno_make_add(m, steno_make_2(m, "Div", length, steno_make_ints(m, 1, &two)),
                            steno_make_ints(m, 1, &one));
    return steno_make_cut(m, y, 3, steno_make_ints(m, 1, (int64_t[]){0}), length);
}

static steno_value_id biased(struct steno_make *m, steno_value_id q, const char *name,
                             const char *bias, int64_t heads, int64_t d)
{
    static const int64_t rows[] = {0, 2, 1, 3};
    char full[120];
    snprintf(full, sizeof full, "%s.%s", name, bias);
    q = steno_make_add(m, q, steno_make_param(m, full, 2, (int64_t[]){heads, d / heads}));
    return steno_make_transpose(m, q, 4, rows);
}

static steno_value_id rel_attention(struct steno_make *m, const char *name, steno_value_id x,
                                    steno_value_id positions, const struct steno_espnet_arch *a)
{
    const int64_t h = a->heads, d = a->d;
    steno_value_id q, k, v, p, content, place;
    q = steno_make_reshape(m, linear(m, x, name, "linear_q", d, d, true), 4,
                           (int64_t[]){0, -1, h, d / h});
    k = heads_of(m, linear(m, x, name, "linear_k", d, d, true), h, d, true);
    v = heads_of(m, linear(m, x, name, "linear_v", d, d, true), h, d, false);
    p = heads_of(m, linear(m, positions, name, "linear_pos", d, d, false), h, d, true);
    content = steno_make_2(m, "MatMul", biased(m, q, name, "pos_bias_u", h, d), k);
    place = steno_make_2(m, "MatMul", biased(m, q, name, "pos_bias_v", h, d), p);
    place = shift(m, place, a->rel == STENO_REL_LATEST);
    return weigh(m, name, root(m, steno_make_add(m, content, place), d / h), v, d);
}

/* ---- layers -------------------------------------------------------------------------------- */

static steno_value_id feed_forward(struct steno_make *m, steno_value_id x, const char *name,
                                   int64_t d, int64_t ff, const char *activation)
{
    x = steno_make_activation(m, linear(m, x, name, "w_1", d, ff, true), activation);
    return linear(m, x, name, "w_2", ff, d, true);
}

static steno_value_id convolution(struct steno_make *m, steno_value_id x,
                                  const struct steno_espnet_arch *a)
{
    static const int64_t turn[] = {0, 2, 1};
    const int64_t d = a->d, k = a->kernel;
    const struct steno_make_conv
        in = {.rank = 1, .in = d, .out = 2 * d, .kernel = 1, .stride = 1, .bias = true},
        depth = {.rank = 1,
                 .in = d,
                 .out = d,
                 .kernel = k,
                 .stride = 1,
                 .pad = (k - 1) / 2,
                 .groups = d,
                 .bias = true,
                 .batch_norm = "conv_module.norm"},
        out = {.rank = 1, .in = d, .out = d, .kernel = 1, .stride = 1, .bias = true};
    steno_value_id gate;
    x = steno_make_convolve(m, steno_make_transpose(m, x, 3, turn), "conv_module.pointwise_conv1",
                            &in);
    gate = steno_make_slice(m, x, 1, d, 2 * d);
    x = steno_make_2(m, "Mul", steno_make_slice(m, x, 1, 0, d), steno_make_1(m, "Sigmoid", gate));
    x = steno_make_activation(m, steno_make_convolve(m, x, "conv_module.depthwise_conv", &depth),
                              a->activation);
    x = steno_make_convolve(m, x, "conv_module.pointwise_conv2", &out);
    return steno_make_transpose(m, x, 3, turn);
}

/* x + by * part(norm(x)), or norm(x + by * part(x)). */
#define RESIDUAL(M, X, NORM, D, BEFORE, BY, PART)                                                  \
    do {                                                                                           \
        steno_value_id y = (BEFORE) ? steno_make_norm(M, X, NORM, D, EPSILON) : (X);               \
        y = (PART);                                                                                \
        if ((BY) != 1)                                                                             \
            y = steno_make_scale(M, y, BY);                                                        \
        (X) = steno_make_add(M, X, y);                                                             \
        if (!(BEFORE))                                                                             \
            (X) = steno_make_norm(M, X, NORM, D, EPSILON);                                         \
    } while (0)

static steno_value_id conformer_layer(struct steno_make *m, steno_value_id x, steno_value_id pos,
                                      const struct steno_espnet_arch *a)
{
    const int64_t d = a->d;
    const float by = a->macaron ? 0.5f : 1;
    if (a->macaron)
        RESIDUAL(m, x, "norm_ff_macaron", d, a->before, by,
                 feed_forward(m, y, "feed_forward_macaron", d, a->ff, a->activation));
    RESIDUAL(m, x, "norm_mha", d, a->before, 1,
             a->rel ? rel_attention(m, "self_attn", y, pos, a)
                    : attention(m, "self_attn", y, y, a->heads, d));
    if (a->conv)
        RESIDUAL(m, x, "norm_conv", d, a->before, 1, convolution(m, y, a));
    RESIDUAL(m, x, "norm_ff", d, a->before, by,
             feed_forward(m, y, "feed_forward", d, a->ff, a->activation));
    return a->conv ? steno_make_norm(m, x, "norm_final", d, EPSILON) : x;
}

static steno_value_id transformer_layer(struct steno_make *m, steno_value_id x, int64_t heads,
                                        int64_t d, int64_t ff, bool before)
{
    RESIDUAL(m, x, "norm1", d, before, 1, attention(m, "self_attn", y, y, heads, d));
    RESIDUAL(m, x, "norm2", d, before, 1, feed_forward(m, y, "feed_forward", d, ff, "relu"));
    return x;
}

/* ---- encoder ------------------------------------------------------------------------------- */

/* Convolutions over time and mel bands (transformer/subsampling.py). */
static const struct subsampling {
    const char *name;
    int n;
    int64_t kernel[3], stride[3];
} subsamplings[] = {
    {"conv2d", 2, {3, 3}, {2, 2}},        {"conv2d1", 2, {3, 3}, {1, 1}},
    {"conv2d2", 2, {3, 3}, {2, 1}},       {"conv2d6", 2, {3, 5}, {2, 3}},
    {"conv2d8", 3, {3, 3, 3}, {2, 2, 2}},
};

static steno_value_id subsample(struct steno_make *m, steno_value_id x,
                                const struct steno_espnet_arch *a, const struct subsampling *s)
{
    static const int64_t turn[] = {0, 2, 1, 3}, axis = 1;
    int64_t bands = a->in;
    x = steno_make_2(m, "Unsqueeze", x, steno_make_ints(m, 1, &axis));
    for (int i = 0; i < s->n; i++) {
        const struct steno_make_conv c = {.rank = 2,
                                          .in = i ? a->d : 1,
                                          .out = a->d,
                                          .kernel = s->kernel[i],
                                          .stride = s->stride[i],
                                          .bias = true};
        char name[32];
        snprintf(name, sizeof name, "conv.%d", 2 * i);
        x = steno_make_1(m, "Relu", steno_make_convolve(m, x, name, &c));
        bands = (bands - s->kernel[i]) / s->stride[i] + 1;
    }
    x = steno_make_reshape(m, steno_make_transpose(m, x, 4, turn), 3,
                           (int64_t[]){1, -1, a->d * bands});
    /* "out.0" in front of the positions, "out" where those are a part of their own */
    return steno_make_linear(m, x, steno_make_has(m, "out.weight") ? "out" : "out.0", a->d * bands,
                             a->d, true);
}

static steno_value_id embed(struct steno_make *m, steno_value_id x,
                            const struct steno_espnet_arch *a)
{
    steno_make_at(m, "encoder.embed.");
    for (size_t i = 0; i < sizeof subsamplings / sizeof *subsamplings; i++)
        if (!strcmp(a->input_layer, subsamplings[i].name))
            return subsample(m, x, a, &subsamplings[i]);
    x = steno_make_norm(m, steno_make_linear(m, x, "0", a->in, a->d, true), "1", a->d, 1e-5f);
    return a->conformer ? x : steno_make_1(m, "Relu", x);
}

/* Rows of the table for as many positions as x has rows. */
static steno_value_id positions_of(struct steno_make *m, steno_value_id x, steno_value_id table)
{
    return steno_make_cut(m, table, 1, steno_make_ints(m, 1, (int64_t[]){0}),
                          steno_make_extent_of(m, x, 1));
}

/* Rows of relative positions T - 1 down to 1 - T. */
static steno_value_id latest_positions(struct steno_make *m, steno_value_id x, int64_t d)
{
    const int64_t center = POSITIONS - 1, one = center + 1;
    steno_value_id n = steno_make_extent_of(m, x, 1);
    steno_value_id table = steno_make_sinusoids(m, "pe", 2 * POSITIONS - 1, d, (double)center, -1);
    return steno_make_cut(m, table, 1, steno_make_2(m, "Sub", steno_make_ints(m, 1, &one), n),
                          steno_make_add(m, steno_make_ints(m, 1, &center), n));
}

steno_status steno_espnet_write_encoder(const struct steno_espnet_arch *a,
                                        const struct steno_make_weights *w, const char *path,
                                        steno_err *err)
{
    struct steno_make m;
    steno_value_id x, pos = STENO_NONE, n;
    int64_t frames, rows;
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "encoder_conf";
    frames = steno_make_symbol(&m, "feats_length");
    rows = steno_make_symbol(&m, "encoder_out_length");
    x = steno_make_input(&m, "feats", STENO_F32, 3, (int64_t[]){1, frames, a->in});
    x = steno_make_scale(&m, embed(&m, x, a), sqrtf((float)a->d));
    if (a->rel == STENO_REL_LATEST)
        pos = latest_positions(&m, x, a->d);
    else if (a->rel == STENO_REL_LEGACY)
        pos = positions_of(&m, x, steno_make_sinusoids(&m, "pe", POSITIONS, a->d, LEGACY_LAST, -1));
    else
        x = steno_make_add(
            &m, x, positions_of(&m, x, steno_make_sinusoids(&m, "pe", POSITIONS, a->d, 0, 1)));
    for (int64_t i = 0; i < a->blocks && !m.st; i++) {
        steno_make_at(&m, "encoder.encoders.%d.", (int)i);
        x = a->conformer ? conformer_layer(&m, x, pos, a)
                         : transformer_layer(&m, x, a->heads, a->d, a->ff, a->before);
    }
    steno_make_at(&m, "encoder.encoders.%d.", (int)a->blocks);
    if (!m.st && steno_make_has(&m, a->conformer ? "norm_mha.weight" : "norm1.weight"))
        m.st = steno_fail(err, STENO_ERR_FORMAT,
                          "%s: more than the %lld blocks of encoder_conf.num_blocks", w->file,
                          (long long)a->blocks);
    steno_make_at(&m, "encoder.");
    if (a->before)
        x = steno_make_norm(&m, x, "after_norm", a->d, EPSILON);
    n = steno_make_extent_of(&m, x, 1);
    steno_make_output(&m, x, "encoder_out", STENO_F32, 3, (int64_t[]){1, rows, a->d});
    steno_make_output(&m, n, "encoder_out_lens", STENO_I64, 1, (int64_t[]){1});
    return steno_make_write(&m, path, NULL);
}

steno_status steno_espnet_write_ctc(const struct steno_espnet_arch *a,
                                    const struct steno_make_weights *w, const char *path,
                                    steno_err *err)
{
    struct steno_make m;
    steno_value_id x;
    int64_t rows;
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "token_list";
    rows = steno_make_symbol(&m, "ctc_in_length");
    x = steno_make_input(&m, "x", STENO_F32, 3, (int64_t[]){1, rows, a->d});
    steno_make_at(&m, "ctc.");
    x = steno_make_linear(&m, x, "ctc_lo", a->d, a->vocab, true);
    x = steno_make_softmax(&m, "LogSoftmax", x, -1);
    steno_make_output(&m, x, "ctc_out", STENO_F32, 3, (int64_t[]){1, rows, a->vocab});
    return steno_make_write(&m, path, NULL);
}

/* ---- decoder, language model --------------------------------------------------------------- */

static steno_value_id last_row(struct steno_make *m, steno_value_id x)
{
    return steno_make_slice(m, x, 1, -1, INT64_MAX);
}

/* The last row alone, without its axis. */
static steno_value_id last_vector(struct steno_make *m, steno_value_id x)
{
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 1};
    return steno_make_node(m, "Gather", 2, (steno_value_id[]){x, steno_make_int(m, -1)}, 1, &axis);
}

static steno_value_id cache(struct steno_make *m, int i, int64_t d)
{
    char name[32], rows[40], batch[40];
    snprintf(name, sizeof name, "cache_%d", i);
    snprintf(batch, sizeof batch, "cache_%d_batch", i);
    snprintf(rows, sizeof rows, "cache_%d_length", i);
    return steno_make_input(
        m, name, STENO_F32, 3,
        (int64_t[]){steno_make_symbol(m, batch), steno_make_symbol(m, rows), d});
}

static void out_cache(struct steno_make *m, int i, int64_t d, steno_value_id v)
{
    char name[32], rows[40], batch[40];
    snprintf(name, sizeof name, "out_cache_%d", i);
    snprintf(batch, sizeof batch, "out_cache_%d_batch", i);
    snprintf(rows, sizeof rows, "out_cache_%d_length", i);
    steno_make_output(m, v, name, STENO_F32, 3,
                      (int64_t[]){steno_make_symbol(m, batch), steno_make_symbol(m, rows), d});
}

/* Norm of all rows, of which the last one asks. */
static steno_value_id self_attention(struct steno_make *m, steno_value_id x, const char *norm,
                                     int64_t heads, int64_t d, bool before)
{
    steno_value_id all = before ? steno_make_norm(m, x, norm, d, EPSILON) : x, y;
    y = attention(m, "self_attn", last_row(m, all), all, heads, d);
    y = steno_make_add(m, last_row(m, x), y);
    return before ? y : steno_make_norm(m, y, norm, d, EPSILON);
}

steno_status steno_espnet_write_decoder(const struct steno_espnet_arch *a,
                                        const struct steno_make_weights *w, const char *path,
                                        steno_err *err)
{
    const int64_t d = a->d, layers = a->dec_blocks;
    struct steno_make m;
    steno_value_id tgt, memory, x, past[256];
    if (layers > 256)
        return steno_fail(err, STENO_ERR_LIMIT, "decoder_conf.num_blocks: more than 256");
    if (steno_make_begin(&m, w, (int)layers + 4, err))
        return m.st;
    m.asked = "decoder_conf";
    tgt = steno_make_input(
        &m, "tgt", STENO_I64, 2,
        (int64_t[]){steno_make_symbol(&m, "tgt_batch"), steno_make_symbol(&m, "tgt_length")});
    memory = steno_make_input(&m, "memory", STENO_F32, 3,
                              (int64_t[]){steno_make_symbol(&m, "memory_batch"),
                                          steno_make_symbol(&m, "memory_length"), d});
    for (int i = 0; i < layers; i++)
        past[i] = cache(&m, i, d);
    steno_make_at(&m, "decoder.");
    x = steno_make_2(&m, "Gather",
                     steno_make_param(&m, "embed.0.weight", 2, (int64_t[]){a->vocab, d}), tgt);
    x = steno_make_scale(&m, x, sqrtf((float)d));
    x = steno_make_add(&m, x,
                       positions_of(&m, x, steno_make_sinusoids(&m, "pe", POSITIONS, d, 0, 1)));
    for (int i = 0; i < layers && !m.st; i++) {
        steno_make_at(&m, "decoder.decoders.%d.", i);
        x = self_attention(&m, x, "norm1", a->dec_heads, d, a->dec_before);
        RESIDUAL(&m, x, "norm2", d, a->dec_before, 1,
                 attention(&m, "src_attn", y, memory, a->dec_heads, d));
        RESIDUAL(&m, x, "norm3", d, a->dec_before, 1,
                 feed_forward(&m, y, "feed_forward", d, a->dec_ff, "relu"));
        x = steno_make_concat(&m, 1, past[i], x);
        past[i] = x;
        x = steno_make_slice(&m, x, 1, 1, INT64_MAX);
    }
    steno_make_at(&m, "decoder.");
    x = last_vector(&m, x);
    if (a->dec_before)
        x = steno_make_norm(&m, x, "after_norm", d, EPSILON);
    x = steno_make_softmax(&m, "LogSoftmax",
                           steno_make_linear(&m, x, "output_layer", d, a->vocab, true), -1);
    steno_make_output(&m, x, "y", STENO_F32, 2,
                      (int64_t[]){steno_make_symbol(&m, "y_batch"), a->vocab});
    for (int i = 0; i < layers; i++)
        out_cache(&m, i, d, past[i]);
    return steno_make_write(&m, path, NULL);
}

steno_status steno_espnet_write_lm(const struct steno_espnet_arch *a,
                                   const struct steno_make_weights *w, const char *path,
                                   steno_err *err)
{
    const int64_t d = a->lm_d, e = a->lm_embed, layers = a->lm_blocks;
    struct steno_make m;
    steno_value_id tgt, x, past[256];
    if (layers > 256)
        return steno_fail(err, STENO_ERR_LIMIT, "lm_conf.layer: more than 256");
    if (steno_make_begin(&m, w, (int)layers + 4, err))
        return m.st;
    m.asked = "lm_conf";
    tgt = steno_make_input(
        &m, "tgt", STENO_I64, 2,
        (int64_t[]){steno_make_symbol(&m, "tgt_batch"), steno_make_symbol(&m, "tgt_length")});
    for (int i = 0; i < layers; i++)
        past[i] = cache(&m, i, d);
    steno_make_at(&m, "lm.");
    x = steno_make_2(&m, "Gather",
                     steno_make_param(&m, "embed.weight", 2, (int64_t[]){a->vocab, e}), tgt);
    steno_make_at(&m, "lm.encoder.embed.");
    x = steno_make_norm(&m, steno_make_linear(&m, x, "0", e, d, true), "1", d, 1e-5f);
    x = steno_make_1(&m, "Relu", x);
    if (a->lm_positions)
        x = steno_make_add(&m, steno_make_scale(&m, x, sqrtf((float)d)),
                           positions_of(&m, x, steno_make_sinusoids(&m, "pe", POSITIONS, d, 0, 1)));
    for (int i = 0; i < layers && !m.st; i++) {
        steno_make_at(&m, "lm.encoder.encoders.%d.", i);
        x = self_attention(&m, x, "norm1", a->lm_heads, d, true);
        RESIDUAL(&m, x, "norm2", d, true, 1,
                 feed_forward(&m, y, "feed_forward", d, a->lm_ff, "relu"));
        x = steno_make_concat(&m, 1, past[i], x);
        past[i] = x;
    }
    steno_make_at(&m, "lm.");
    x = steno_make_norm(&m, last_vector(&m, x), "encoder.after_norm", d, EPSILON);
    x = steno_make_linear(&m, x, "decoder", d, a->vocab, true);
    steno_make_output(&m, x, "y", STENO_F32, 2,
                      (int64_t[]){steno_make_symbol(&m, "y_batch"), a->vocab});
    for (int i = 0; i < layers; i++)
        out_cache(&m, i, d, past[i]);
    return steno_make_write(&m, path, NULL);
}
