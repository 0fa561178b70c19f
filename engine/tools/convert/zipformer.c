/* zipformer/zipformer.py and scaling.py of icefall (Yao et al. 2024, "Zipformer: a faster and
 * better encoder for automatic speech recognition"). The nodes for chunks follow the order of
 * icefall's own export where steno's passes look for it (nn/passes/pass_weights.c,
 * pass_chunkconv.c). */
#include "tools/convert/zipformer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN (-1000.0f) /* the score of a masked key */

static const int64_t by_head[] = {2, 1, 0, 3}, by_head_turned[] = {2, 1, 3, 0};

/* ---- small parts --------------------------------------------------------------------------- */

steno_value_id steno_zipformer_swoosh(struct steno_make *m, steno_value_id x, bool left)
{
    steno_value_id z = steno_make_2(m, "Sub", x, steno_make_number(m, left ? 4 : 1));
    steno_value_id y = steno_make_1(m, "Softplus", z);
    y = steno_make_2(m, "Sub", y, steno_make_scale(m, x, 0.08f));
    return steno_make_2(m, "Sub", y, steno_make_number(m, left ? 0.035f : 0.313261687f));
}

steno_value_id steno_zipformer_norm(struct steno_make *m, steno_value_id x, const char *name,
                                    int64_t d)
{
    const int64_t last = -1;
    const struct steno_attr attr[] = {
        {.name = "axes", .kind = STENO_ATTR_INTS, .n = 1, .ints = &last},
        {.name = "keepdims", .kind = STENO_ATTR_INT, .i = 1}};
    char part[80];
    steno_value_id y;
    snprintf(part, sizeof part, "%s.bias", name);
    y = steno_make_2(m, "Sub", x, steno_make_param(m, part, 1, &d));
    y = steno_make_2(m, "Pow", y, steno_make_number(m, 2));
    y = steno_make_node(m, "ReduceMean", 1, &y, 2, attr);
    y = steno_make_2(m, "Pow", y, steno_make_number(m, -0.5f));
    snprintf(part, sizeof part, "%s.log_scale", name);
    y = steno_make_scale(m, y, steno_make_exp(m, part));
    return steno_make_2(m, "Mul", x, y);
}

steno_value_id steno_zipformer_bypass(struct steno_make *m, steno_value_id a, steno_value_id b,
                                      const char *name, int64_t d)
{
    b = steno_make_2(m, "Mul", steno_make_2(m, "Sub", b, a), steno_make_param(m, name, 1, &d));
    return steno_make_add(m, a, b);
}

static steno_value_id linear(struct steno_make *m, steno_value_id x, const char *name,
                             const char *part, int64_t in, int64_t out)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%s", name, part);
    return steno_make_linear(m, x, full, in, out, true);
}

/* Columns from..to of [T, N, columns]. */
static steno_value_id slice_columns(struct steno_make *m, steno_value_id x, int64_t from,
                                    int64_t to)
{
    return steno_make_slice(m, x, 2, from, to);
}

static steno_value_id zipformer_heads(struct steno_make *m, steno_value_id x, int64_t heads,
                                      int64_t d, const int64_t *order)
{
    x = steno_make_reshape(m, x, 4, (int64_t[]){0, 0, heads, d});
    return steno_make_transpose(m, x, 4, order);
}

/* [heads, N, T, d] -> [T, N, heads d]. */
static steno_value_id joined_heads(struct steno_make *m, steno_value_id x, int64_t columns)
{
    x = steno_make_transpose(m, x, 4, by_head);
    return steno_make_reshape(m, x, 3, (int64_t[]){0, 0, columns});
}

/* Chunks: put the state before x along `axis`; the state becomes the last `keep` of both, of which
 * x has `added`. */
static steno_value_id behind_past(struct steno_make *m, const struct steno_zipformer_env *e,
                                  steno_value_id x, int64_t axis, int64_t added,
                                  steno_value_id *state)
{
    if (!e->chunk)
        return x;
    x = steno_make_concat(m, axis, *state, x);
    *state = steno_make_slice(m, x, axis, added, INT64_MAX);
    return x;
}

/* ---- attention weights --------------------------------------------------------------------- */

/* [heads, N, T, left + 2 T - 1] of relative positions -> [heads, N, T, left + T] of keys: row i is
 * read from column T - 1 - i on. */
static steno_value_id keys_of_chunk(struct steno_make *m, const struct steno_zipformer_env *e,
                                    steno_value_id x)
{
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 1};
    const int64_t t = e->chunk, all = e->left + t;
    x = steno_make_reshape(m, x, 2, (int64_t[]){-1, all + t - 1});
    x = steno_make_node(m, "GatherElements", 2, (steno_value_id[]){x, e->window}, 1, &axis);
    return steno_make_reshape(m, x, 4, (int64_t[]){e->s->heads, -1, t, all});
}

static steno_value_id attention_weights(struct steno_make *m, const struct steno_zipformer_env *e,
                                        steno_value_id x, steno_value_id *state)
{
    static const int64_t turned[] = {2, 0, 3, 1};
    const int64_t h = e->s->heads, size = e->s->query, n = h * size, p_size = e->s->pos;
    steno_value_id q, k, r, p, scores;
    x = steno_make_linear(m, x, "self_attn_weights.in_proj", e->s->d, 2 * n + h * p_size, true);
    q = slice_columns(m, x, 0, n);
    k = behind_past(m, e, slice_columns(m, x, n, 2 * n), 0, e->chunk, state);
    r = slice_columns(m, x, 2 * n, INT64_MAX);
    q = zipformer_heads(m, q, h, size, by_head);
    r = zipformer_heads(m, r, h, p_size, by_head);
    k = zipformer_heads(m, k, h, size, by_head_turned);
    scores = steno_make_2(m, "MatMul", q, k);
    p = steno_make_linear(m, e->positions, "self_attn_weights.linear_pos", e->pos_dim, h * p_size,
                          false);
    p = steno_make_reshape(m, p, 4, (int64_t[]){1, -1, h, p_size});
    r = steno_make_2(m, "MatMul", r, steno_make_transpose(m, p, 4, turned));
    r = e->chunk ? keys_of_chunk(m, e, r) : steno_make_shift(m, r, true);
    scores = steno_make_add(m, scores, r);
    scores = steno_make_hide(m, e->mask, HIDDEN, scores);
    return steno_make_softmax(m, "Softmax", scores, -1);
}

/* ---- what they weigh ----------------------------------------------------------------------- */

static steno_value_id weigh_values(struct steno_make *m, const struct steno_zipformer_env *e,
                                   const char *name, steno_value_id weights, steno_value_id x,
                                   steno_value_id *state)
{
    const int64_t h = e->s->heads, n = h * e->s->value;
    x = behind_past(m, e, linear(m, x, name, "in_proj", e->s->d, n), 0, e->chunk, state);
    x = steno_make_2(m, "MatMul", weights, zipformer_heads(m, x, h, e->s->value, by_head));
    return linear(m, joined_heads(m, x, n), name, "out_proj", n, e->s->d);
}

/* Non-linear attention (section 3.2): the weights of the first head. */
static steno_value_id nonlin(struct steno_make *m, const struct steno_zipformer_env *e,
                             steno_value_id weights, steno_value_id x, steno_value_id *state)
{
    const int64_t n = 3 * e->s->d / 4;
    steno_value_id all, s;
    all = steno_make_linear(m, x, "nonlin_attention.in_proj", e->s->d, 3 * n, true);
    s = steno_make_1(m, "Tanh", slice_columns(m, all, 0, n));
    x = steno_make_2(m, "Mul", slice_columns(m, all, n, 2 * n), s);
    x = behind_past(m, e, zipformer_heads(m, x, 1, n, by_head), 2, e->chunk, state);
    x = steno_make_2(m, "MatMul", steno_make_slice(m, weights, 0, 0, 1), x);
    x = steno_make_2(m, "Mul", joined_heads(m, x, n), slice_columns(m, all, 2 * n, 3 * n));
    return steno_make_linear(m, x, "nonlin_attention.out_proj", n, e->s->d, true);
}

/* ---- feed-forward, convolution ------------------------------------------------------------- */

static steno_value_id zipformer_feed_forward(struct steno_make *m,
                                             const struct steno_zipformer_env *e, int i,
                                             steno_value_id x)
{
    char name[24];
    snprintf(name, sizeof name, "feed_forward%d", i + 1);
    x = steno_zipformer_swoosh(m, linear(m, x, name, "in_proj", e->s->d, e->s->ff[i]), true);
    return linear(m, x, name, "out_proj", e->s->ff[i], e->s->d);
}

static steno_value_id depthwise(struct steno_make *m, const struct steno_zipformer_env *e,
                                const char *name, const char *part, steno_value_id x,
                                int64_t kernel, int64_t pad)
{
    const struct steno_make_conv c = {.rank = 1,
                                      .in = e->s->d,
                                      .out = e->s->d,
                                      .kernel = kernel,
                                      .stride = 1,
                                      .pad = pad,
                                      .groups = e->s->d,
                                      .bias = true};
    char full[80];
    snprintf(full, sizeof full, "%s.depthwise_conv%s", name, part);
    return steno_make_convolve(m, x, full, &c);
}

/* Factors of the convolution within chunks, [columns, T]: 1 plus corrections near both ends. */
static steno_value_id chunk_scale(struct steno_make *m, const struct steno_zipformer_env *e,
                                  const char *name)
{
    const int64_t d = e->s->d, k = e->s->kernel, t = e->chunk;
    char full[80];
    float *edges, *scale;
    steno_value_id v;
    snprintf(full, sizeof full, "%s.depthwise_conv.chunkwise_conv_scale", name);
    edges = steno_make_read(m, full, 3, (int64_t[]){2, d, k});
    if (!edges)
        return STENO_NONE;
    scale = malloc((size_t)(d * t) * sizeof *scale);
    for (int64_t c = 0; scale && c < d; c++)
        for (int64_t i = 0; i < t; i++) {
            const float *left = edges + c * k, *right = edges + (d + c) * k;
            const int64_t at = i - t + k; /* from the right end */
            scale[c * t + i] = 1 + ((i < k ? left[i] : 0) + (at >= 0 ? right[at] : 0));
        }
    v = steno_make_floats(m, full, 2, (int64_t[]){d, t}, scale);
    free(edges);
    free(scale);
    return v;
}

/* Chunks [N, columns, T]: a causal convolution that sees the chunks before, plus one within the
 * chunk. */
static steno_value_id chunk_convolution(struct steno_make *m, const struct steno_zipformer_env *e,
                                        const char *name, steno_value_id x, steno_value_id *state)
{
    const int64_t half = e->s->kernel / 2;
    steno_value_id all = behind_past(m, e, x, 2, e->chunk, state), causal;
    causal = depthwise(m, e, name, ".causal_conv", all, half + 1, 0);
    x = steno_make_slice(m, all, 2, half, INT64_MAX);
    x = depthwise(m, e, name, ".chunkwise_conv", x, e->s->kernel, half);
    x = steno_make_2(m, "Mul", x, chunk_scale(m, e, name));
    return steno_make_add(m, x, causal);
}

static steno_value_id zeros(struct steno_make *m, const struct steno_zipformer_env *e)
{
    return steno_make_1(m, "ConstantOfShape",
                        steno_make_concat(m, 0, steno_make_ints(m, 1, &e->s->d), e->frames));
}

/* A causal model that sees the whole recording: one chunk of a T that the graph does not know. */
static steno_value_id one_chunk(struct steno_make *m, const struct steno_zipformer_env *e,
                                const char *name, steno_value_id x)
{
    const int64_t d = e->s->d, k = e->s->kernel, dim[] = {d, k}, zero = 0;
    const int64_t pads[] = {0, 0, k / 2, 0, 0, 0};
    steno_value_id causal, left, right;
    char full[80];
    float *edges;
    snprintf(full, sizeof full, "%s.depthwise_conv.chunkwise_conv_scale", name);
    edges = steno_make_read(m, full, 3, (int64_t[]){2, d, k});
    left = steno_make_floats(m, "", 2, dim, edges);
    right = steno_make_floats(m, "", 2, dim, edges ? edges + d * k : NULL);
    free(edges);
    left = steno_make_concat(m, 1, left, zeros(m, e));
    left = steno_make_cut(m, left, 1, steno_make_ints(m, 1, &zero), e->frames);
    right = steno_make_slice(m, steno_make_concat(m, 1, zeros(m, e), right), 1, k, INT64_MAX);
    left = steno_make_add(m, steno_make_add(m, left, right), steno_make_number(m, 1));
    causal = steno_make_2(m, "Pad", x, steno_make_ints(m, 6, pads));
    causal = depthwise(m, e, name, ".causal_conv", causal, k / 2 + 1, 0);
    x = depthwise(m, e, name, ".chunkwise_conv", x, k, k / 2);
    return steno_make_add(m, steno_make_2(m, "Mul", x, left), causal);
}

static steno_value_id zipformer_convolution(struct steno_make *m,
                                            const struct steno_zipformer_env *e, const char *name,
                                            steno_value_id x, steno_value_id *state)
{
    static const int64_t to_columns[] = {1, 2, 0}, back[] = {2, 0, 1};
    const int64_t d = e->s->d;
    steno_value_id gate;
    x = linear(m, x, name, "in_proj", d, 2 * d);
    gate = steno_make_1(m, "Sigmoid", slice_columns(m, x, d, 2 * d));
    x = steno_make_2(m, "Mul", slice_columns(m, x, 0, d), gate);
    x = steno_make_transpose(m, x, 3, to_columns);
    if (e->chunk) {
        x = chunk_convolution(m, e, name, x, state);
    } else {
        x = steno_make_hide(m, e->mask, 0, x);
        x = e->causal ? one_chunk(m, e, name, x)
                      : depthwise(m, e, name, "", x, e->s->kernel, e->s->kernel / 2);
    }
    x = steno_zipformer_swoosh(m, steno_make_transpose(m, x, 3, back), false);
    return linear(m, x, name, "out_proj", d, d);
}

/* ---- the layer ----------------------------------------------------------------------------- */

steno_value_id steno_zipformer_layer(struct steno_make *m, const struct steno_zipformer_env *e,
                                     steno_value_id x, steno_value_id *state)
{
    enum { KEY, NONLIN, VALUE1, VALUE2, CONV1, CONV2 };
    const int64_t d = e->s->d;
    steno_value_id first = x, w = attention_weights(m, e, x, state + KEY);
    x = steno_make_add(m, x, zipformer_feed_forward(m, e, 0, x));
    x = steno_make_add(m, x, nonlin(m, e, w, x, state + NONLIN));
    x = steno_make_add(m, x, weigh_values(m, e, "self_attn1", w, x, state + VALUE1));
    x = steno_make_add(m, x, zipformer_convolution(m, e, "conv_module1", x, state + CONV1));
    x = steno_make_add(m, x, zipformer_feed_forward(m, e, 1, x));
    x = steno_zipformer_bypass(m, first, x, "bypass_mid.bypass_scale", d);
    x = steno_make_add(m, x, weigh_values(m, e, "self_attn2", w, x, state + VALUE2));
    x = steno_make_add(m, x, zipformer_convolution(m, e, "conv_module2", x, state + CONV2));
    x = steno_make_add(m, x, zipformer_feed_forward(m, e, 2, x));
    x = steno_zipformer_norm(m, x, "norm", d);
    return steno_zipformer_bypass(m, first, x, "bypass.bypass_scale", d);
}
