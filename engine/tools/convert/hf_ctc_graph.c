/* transformers 5.24: models/{wav2vec2,hubert,wavlm,data2vec}/modeling_*.py. The graph has no mask:
 * rows of a batch have one length. */
#include "tools/convert/hf_ctc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NORM_EPSILON 1e-5f /* where the configuration has no say */

/* ---- convolutions over samples --------------------------------------------------------------- */

static steno_value_id frames_of_samples(struct steno_make *m, steno_value_id x,
                                        const struct steno_hf_ctc *a)
{
    x = steno_make_unsqueeze(m, x, 1);
    for (int i = 0; i < a->convs && !m->st; i++) {
        const int64_t d = a->conv_dim[i];
        const struct steno_make_conv c = {.rank = 1,
                                          .in = i ? a->conv_dim[i - 1] : 1,
                                          .out = d,
                                          .kernel = a->conv_kernel[i],
                                          .stride = a->conv_stride[i],
                                          .bias = a->conv_bias};
        steno_make_at(m, "%sfeature_extractor.conv_layers.%d.", a->root, i);
        x = steno_make_convolve(m, x, "conv", &c);
        if (a->layer_norm)
            x = steno_make_turn(
                m, steno_make_norm(m, steno_make_turn(m, x), "layer_norm", d, NORM_EPSILON));
        else if (!i)
            x = steno_make_channel_norm(m, x, "layer_norm", d, NORM_EPSILON);
        x = steno_make_activation(m, x, a->conv_activation);
    }
    return steno_make_turn(m, x);
}

/* ---- positions ------------------------------------------------------------------------------- */

/* v scaled so that all weights of a tap k have the norm g[k] (torch's weight_norm with dim=2). */
static void scale_taps(float *v, const float *g, size_t filters, size_t taps)
{
    for (size_t k = 0; k < taps; k++) {
        double sum = 0, by;
        for (size_t i = 0; i < filters; i++)
            sum += (double)v[i * taps + k] * (double)v[i * taps + k];
        by = sum > 0 ? (double)g[k] / sqrt(sum) : 0;
        for (size_t i = 0; i < filters; i++)
            v[i * taps + k] = (float)((double)v[i * taps + k] * by);
    }
}

/* The weight of the positional convolution, whichever way torch wrote its norm. */
static float *position_weight(struct steno_make *m, const int64_t dim[3])
{
    static const char *const names[][2] = {
        {"conv.parametrizations.weight.original0", "conv.parametrizations.weight.original1"},
        {"conv.weight_g", "conv.weight_v"}};
    const int64_t taps[] = {1, 1, dim[2]};
    for (size_t i = 0; i < sizeof names / sizeof *names && !m->st; i++) {
        float *g, *v;
        if (!steno_make_has(m, names[i][0]))
            continue;
        g = steno_make_read(m, names[i][0], 3, taps);
        v = steno_make_read(m, names[i][1], 3, dim);
        if (g && v)
            scale_taps(v, g, (size_t)(dim[0] * dim[1]), (size_t)dim[2]);
        free(g);
        if (!m->st)
            return v;
        free(v);
    }
    return steno_make_read(m, "conv.weight", 3, dim);
}

/* A convolution that keeps the number of frames: of an even kernel, the padding in front is longer
 * by one (transformers pads both sides and drops the last frame). */
static steno_value_id same_convolution(struct steno_make *m, steno_value_id x,
                                       const struct steno_hf_ctc *a)
{
    const int64_t k = a->position_kernel, d = a->d, dim[] = {d, d / a->position_groups, k};
    const int64_t pads[] = {k / 2, k - 1 - k / 2};
    const struct steno_attr attr[] = {
        {.name = "kernel_shape", .kind = STENO_ATTR_INTS, .n = 1, .ints = &k},
        {.name = "pads", .kind = STENO_ATTR_INTS, .n = 2, .ints = pads},
        {.name = "group", .kind = STENO_ATTR_INT, .i = a->position_groups}};
    float *w = position_weight(m, dim);
    const steno_value_id in[] = {x, steno_make_floats(m, "positions", 3, dim, w),
                                 steno_make_param(m, "conv.bias", 1, &d)};
    free(w);
    return steno_make_node(m, "Conv", 3, in, 3, attr);
}

/* x * scale + shift of each column, as a batch normalization does at inference. */
static steno_value_id batch_norm(struct steno_make *m, steno_value_id x, int64_t d)
{
    static const char *const names[] = {"batch_norm.weight", "batch_norm.bias",
                                        "batch_norm.running_mean", "batch_norm.running_var"};
    float *p[4];
    for (int i = 0; i < 4; i++)
        p[i] = steno_make_read(m, names[i], 1, &d);
    for (int64_t i = 0; i < d && !m->st; i++) {
        p[0][i] = (float)((double)p[0][i] / sqrt((double)p[3][i] + 1e-5));
        p[1][i] -= p[0][i] * p[2][i];
    }
    x = steno_make_2(m, "Mul", x, steno_make_floats(m, "scale", 1, &d, p[0]));
    x = steno_make_add(m, x, steno_make_floats(m, "shift", 1, &d, p[1]));
    for (int i = 0; i < 4; i++)
        free(p[i]);
    return x;
}

/* A layer normalization without weights. */
static steno_value_id plain_norm(struct steno_make *m, steno_value_id x, int64_t d)
{
    const struct steno_attr attr[] = {
        {.name = "axis", .kind = STENO_ATTR_INT, .i = -1},
        {.name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = NORM_EPSILON}};
    float *one = m->st ? NULL : malloc((size_t)d * sizeof *one);
    steno_value_id in[2] = {x, STENO_NONE};
    for (int64_t i = 0; one && i < d; i++)
        one[i] = 1;
    in[1] = steno_make_floats(m, "ones", 1, &d, one);
    free(one);
    return steno_make_node(m, "LayerNormalization", 2, in, 2, attr);
}

static steno_value_id add_positions(struct steno_make *m, steno_value_id x,
                                    const struct steno_hf_ctc *a)
{
    steno_value_id y = x;
    if (a->data2vec) {
        for (int64_t i = 0; i < a->position_layers && !m->st; i++) {
            steno_make_at(m, "%sencoder.pos_conv_embed.layers.%d.", a->root, (int)i);
            y = plain_norm(m, steno_make_turn(m, same_convolution(m, steno_make_turn(m, y), a)),
                           a->d);
            y = steno_make_activation(m, y, a->conv_activation);
        }
        return steno_make_add(m, x, y);
    }
    steno_make_at(m, "%sencoder.pos_conv_embed.", a->root);
    if (a->position_batch_norm)
        y = batch_norm(m, y, a->d);
    y = steno_make_activation(m, same_convolution(m, steno_make_turn(m, y), a), a->conv_activation);
    return steno_make_add(m, x, steno_make_turn(m, y));
}

/* ---- relative positions of WavLM ------------------------------------------------------------- */

/* The row of the table for key - query = d: exact near by, logarithmic farther away. */
static int64_t bucket(const struct steno_hf_ctc *a, int64_t d)
{
    const int64_t half = a->buckets / 2, exact = half / 2, far = d < 0 ? -d : d;
    const int64_t side = d > 0 ? half : 0;
    int64_t b;
    if (far < exact)
        return side + far;
    b = exact + (int64_t)(logf((float)far / (float)exact) /
                          (float)log((double)a->distance / (double)exact) * (float)(half - exact));
    return side + (b < half - 1 ? b : half - 1);
}

/* [1, heads, T, T]: the table's row of each pair of frames, which all layers share. */
static steno_value_id position_bias(struct steno_make *m, steno_value_id x,
                                    const struct steno_hf_ctc *a)
{
    static const int64_t order[] = {2, 0, 1};
    const int64_t h = a->heads, most = a->distance, n = 2 * most + 1;
    const int64_t dim[] = {a->buckets, h}, rows[] = {n, h};
    float *table, *by;
    steno_value_id t, place, y;
    steno_make_at(m, "%sencoder.layers.0.attention.", a->root);
    table = steno_make_read(m, "rel_attn_embed.weight", 2, dim);
    by = table ? malloc((size_t)(n * h) * sizeof *by) : NULL;
    for (int64_t i = 0; by && i < n; i++)
        memcpy(by + i * h, table + bucket(a, i - most) * h, (size_t)h * sizeof *by);
    y = steno_make_floats(m, "positions", 2, rows, by);
    free(table);
    free(by);
    t = steno_make_2(m, "Gather", steno_make_1(m, "Shape", x), steno_make_int(m, 1));
    t = steno_make_node(m, "Range", 3,
                        (steno_value_id[]){steno_make_int(m, 0), t, steno_make_int(m, 1)}, 0, NULL);
    place = steno_make_2(m, "Sub", steno_make_unsqueeze(m, t, 0), steno_make_unsqueeze(m, t, 1));
    place = steno_make_2(m, "Max", place, steno_make_int(m, -most));
    place = steno_make_2(m, "Min", place, steno_make_int(m, most));
    place = steno_make_add(m, place, steno_make_int(m, most));
    y = steno_make_transpose(m, steno_make_2(m, "Gather", y, place), 3, order);
    return steno_make_unsqueeze(m, y, 0);
}

/* gru_rel_pos_linear has eight outputs, which are summed in fours: a matrix [width, 2]. */
static steno_value_id gate_scores(struct steno_make *m, steno_value_id x, int64_t width)
{
    const int64_t eight = 8, two = 2, in[] = {8, width}, out[] = {width, 2};
    float *w = steno_make_read(m, "gru_rel_pos_linear.weight", 2, in);
    float *b = steno_make_read(m, "gru_rel_pos_linear.bias", 1, &eight);
    float *sum = m->st ? NULL : calloc((size_t)(2 * width), sizeof *sum), shift[2] = {0};
    for (int64_t r = 0; w && b && sum && r < 8; r++) {
        shift[r / 4] += b[r];
        for (int64_t k = 0; k < width; k++)
            sum[k * 2 + r / 4] += w[r * width + k];
    }
    x = steno_make_2(m, "MatMul", x, steno_make_floats(m, "gate", 2, out, sum));
    x = steno_make_add(m, x, steno_make_floats(m, "gate_bias", 1, &two, shift));
    free(w);
    free(b);
    free(sum);
    return steno_make_1(m, "Sigmoid", x);
}

/* The positions' share in the scores, which the frame of the query gates. */
static steno_value_id gated(struct steno_make *m, steno_value_id x, steno_value_id bias,
                            const struct steno_hf_ctc *a)
{
    const int64_t width = a->d / a->heads, dim[] = {1, a->heads, 1, 1};
    steno_value_id g, y;
    g = gate_scores(m, steno_make_heads(m, x, a->heads, a->d, false), width);
    y = steno_make_2(m, "Mul", steno_make_slice(m, g, 3, 1, 2),
                     steno_make_param(m, "gru_rel_pos_const", 4, dim));
    y = steno_make_2(m, "Sub", y, steno_make_number(m, 1));
    y = steno_make_2(m, "Mul", steno_make_slice(m, g, 3, 0, 1), y);
    return steno_make_2(m, "Mul", steno_make_add(m, y, steno_make_number(m, 2)), bias);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static steno_value_id wav2vec2_heads(struct steno_make *m, steno_value_id x, const char *name,
                                     const struct steno_hf_ctc *a, bool keys)
{
    return steno_make_heads(m, steno_make_linear(m, x, name, a->d, a->d, true), a->heads, a->d,
                            keys);
}

static steno_value_id wav2vec2_attention(struct steno_make *m, steno_value_id x,
                                         steno_value_id bias, const struct steno_hf_ctc *a)
{
    steno_value_id q = wav2vec2_heads(m, x, "q_proj", a, false),
                   k = wav2vec2_heads(m, x, "k_proj", a, true);
    steno_value_id v = wav2vec2_heads(m, x, "v_proj", a, false), y;
    y = steno_make_2(m, "Div", steno_make_2(m, "MatMul", q, k),
                     steno_make_number(m, sqrtf((float)(a->d / a->heads))));
    if (a->wavlm)
        y = steno_make_add(m, y, gated(m, x, bias, a));
    return steno_make_linear(m, steno_make_weigh(m, y, v, a->d), "out_proj", a->d, a->d, true);
}

static steno_value_id wav2vec2_feed_forward(struct steno_make *m, steno_value_id x,
                                            const struct steno_hf_ctc *a)
{
    x = steno_make_linear(m, x, "feed_forward.intermediate_dense", a->d, a->ff, true);
    x = steno_make_activation(m, x, a->activation);
    return steno_make_linear(m, x, "feed_forward.output_dense", a->ff, a->d, true);
}

static steno_value_id wav2vec2_layer(struct steno_make *m, steno_value_id x, int i,
                                     steno_value_id bias, const struct steno_hf_ctc *a)
{
    steno_value_id y = x;
    steno_make_at(m, "%sencoder.layers.%d.", a->root, i);
    if (a->stable)
        y = steno_make_norm(m, x, "layer_norm", a->d, a->epsilon);
    steno_make_at(m, "%sencoder.layers.%d.attention.", a->root, i);
    x = steno_make_add(m, x, wav2vec2_attention(m, y, bias, a));
    steno_make_at(m, "%sencoder.layers.%d.", a->root, i);
    if (!a->stable)
        x = steno_make_norm(m, x, "layer_norm", a->d, a->epsilon);
    y = a->stable ? steno_make_norm(m, x, "final_layer_norm", a->d, a->epsilon) : x;
    x = steno_make_add(m, x, wav2vec2_feed_forward(m, y, a));
    return a->stable ? x : steno_make_norm(m, x, "final_layer_norm", a->d, a->epsilon);
}

steno_status steno_hf_write_ctc(const struct steno_hf_ctc *a, const struct steno_make_weights *w,
                                const char *path, steno_err *err)
{
    const int64_t last = a->conv_dim[a->convs - 1];
    struct steno_make m;
    int64_t batch, samples, frames;
    steno_value_id x, bias = STENO_NONE;
    if (steno_make_begin(&m, w, 1, err))
        return m.st;
    m.asked = "config.json";
    batch = steno_make_symbol(&m, "batch_size");
    samples = steno_make_symbol(&m, "sequence_length");
    frames = steno_make_symbol(&m, "frames");
    x = frames_of_samples(
        &m, steno_make_input(&m, "input_values", STENO_F32, 2, (int64_t[]){batch, samples}), a);
    steno_make_at(&m, "%sfeature_projection.", a->root);
    if (a->projection_norm)
        x = steno_make_norm(&m, x, "layer_norm", last, a->epsilon);
    x = steno_make_linear(&m, x, "projection", last, a->d, true);
    x = add_positions(&m, x, a);
    steno_make_at(&m, "%sencoder.", a->root);
    if (!a->stable)
        x = steno_make_norm(&m, x, "layer_norm", a->d, a->epsilon);
    if (a->wavlm)
        bias = position_bias(&m, x, a);
    for (int i = 0; i < a->layers && !m.st; i++)
        x = wav2vec2_layer(&m, x, i, bias, a);
    steno_make_at(&m, "%sencoder.", a->root);
    if (a->stable)
        x = steno_make_norm(&m, x, "layer_norm", a->d, a->epsilon);
    steno_make_at(&m, "%s", "");
    x = steno_make_linear(&m, x, "lm_head", a->d, a->vocab, true);
    steno_make_output(&m, x, "logits", STENO_F32, 3, (int64_t[]){batch, frames, a->vocab});
    return steno_make_write(&m, path, NULL);
}
