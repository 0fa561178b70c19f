/* Layers of pruned_transducer_stateless7/zipformer.py and, with causal convolutions and states,
 * pruned_transducer_stateless7_streaming/zipformer.py of icefall. */
#include "tools/convert/zipformer1.h"

#include "tools/convert/icefall_parts.h"

#include <stdio.h>
#include <stdlib.h>

static const int64_t by_head[] = {1, 2, 0, 3}, keys_by_head[] = {1, 2, 3, 0};

/* ---- small parts --------------------------------------------------------------------------- */

static steno_value_id zipformer1_feed_forward(struct steno_make *m,
                                              const struct steno_zipformer1_env *e, int i,
                                              steno_value_id x)
{
    const int64_t d = e->s->d, hidden = e->s->ff[i];
    char in[40], out[40];
    snprintf(in, sizeof in, "feed_forward%d.in_proj", i + 1);
    snprintf(out, sizeof out, "feed_forward%d.out_proj", i + 1);
    x = steno_icefall_double_swish(m, steno_make_linear(m, x, in, d, hidden, true));
    return steno_make_linear(m, x, out, hidden, d, true);
}

/* Chunks: put the state before x along `axis`; the state becomes what the next chunk needs. */
static steno_value_id behind_cache(struct steno_make *m, const struct steno_zipformer1_env *e,
                                   steno_value_id x, int64_t axis, steno_value_id *state)
{
    if (!e->chunk)
        return x;
    x = steno_make_concat(m, axis, *state, x);
    *state = steno_make_slice(m, x, axis, e->chunk, INT64_MAX);
    return x;
}

/* ---- the average --------------------------------------------------------------------------- */

static const struct steno_attr to_float = {.name = "to", .kind = STENO_ATTR_INT, .i = 1};

static steno_value_id floats(struct steno_make *m, steno_value_id x)
{
    return steno_make_node(m, "Cast", 1, &x, 1, &to_float);
}

/* Of all frames so far, at each frame of the chunk. */
static steno_value_id running_average(struct steno_make *m, const struct steno_zipformer1_env *e,
                                      steno_value_id x, steno_value_id *state)
{
    const int64_t t = e->chunk;
    int64_t steps[STENO_ICEFALL_MAX_CHUNK];
    steno_value_id sum, count, before;
    for (int64_t i = 0; i < t; i++)
        steps[i] = i + 1;
    before = steno_make_unsqueeze(m, floats(m, state[STENO_ZIPFORMER1_LEN]), 1);
    before = steno_make_2(m, "Mul", state[STENO_ZIPFORMER1_AVG], before);
    sum = steno_make_2(m, "CumSum", x, steno_make_int(m, 0));
    sum = steno_make_add(m, sum, before);
    count = steno_make_unsqueeze(m, steno_make_ints(m, (int)t, steps), 1);
    count = floats(m, steno_make_add(m, count, state[STENO_ZIPFORMER1_LEN]));
    x = steno_make_2(m, "Div", sum, steno_make_unsqueeze(m, count, 2));
    state[STENO_ZIPFORMER1_LEN] =
        steno_make_add(m, state[STENO_ZIPFORMER1_LEN], steno_make_ints(m, 1, &t));
    state[STENO_ZIPFORMER1_AVG] = steno_make_squeeze(m, steno_make_slice(m, x, 0, t - 1, t), 0);
    return x;
}

static steno_value_id pooling(struct steno_make *m, const struct steno_zipformer1_env *e,
                              steno_value_id x, steno_value_id *state)
{
    const struct steno_attr keep = {.name = "keepdims", .kind = STENO_ATTR_INT, .i = 1};
    const int64_t zero = 0;
    if (e->chunk) {
        x = running_average(m, e, x, state);
    } else {
        x = steno_make_2(m, "Mul", x, e->share);
        x = steno_make_node(m, "ReduceSum", 2, (steno_value_id[]){x, steno_make_ints(m, 1, &zero)},
                            1, &keep);
    }
    return steno_make_linear(m, x, "pooling.proj", e->s->d, e->s->d, false);
}

/* ---- attention ----------------------------------------------------------------------------- */

static steno_value_id zipformer1_heads(struct steno_make *m, steno_value_id x, int64_t heads,
                                       int64_t size, const int64_t *order)
{
    x = steno_make_reshape(m, x, 4, (int64_t[]){0, 0, heads, size});
    return steno_make_transpose(m, x, 4, order);
}

/* Weights [N, heads, T, left + T]; *values gets the first input that they weigh. */
static steno_value_id attention_weights(struct steno_make *m, const struct steno_zipformer1_env *e,
                                        steno_value_id x, steno_value_id *state,
                                        steno_value_id *values)
{
    static const int64_t turned[] = {0, 2, 3, 1};
    const int64_t h = e->s->heads, size = e->s->query, pos = e->s->pos, n = h * size;
    const int64_t end = 5 * n / 2;
    steno_value_id q, k, r, p, scores;
    x = steno_make_linear(m, x, "self_attn.in_proj", e->s->d, end + h * pos, true);
    q = steno_make_slice(m, x, 2, 0, n);
    k = behind_cache(m, e, steno_make_slice(m, x, 2, n, 2 * n), 0, state + STENO_ZIPFORMER1_KEY);
    *values =
        behind_cache(m, e, steno_make_slice(m, x, 2, 2 * n, end), 0, state + STENO_ZIPFORMER1_VAL);
    r = zipformer1_heads(m, steno_make_slice(m, x, 2, end, INT64_MAX), h, pos, by_head);
    p = steno_make_linear(m, e->positions, "self_attn.linear_pos", e->s->d, h * pos, false);
    p = zipformer1_heads(m, p, h, pos, turned);
    r = steno_make_shift(m, steno_make_2(m, "MatMul", r, p), !e->chunk);
    if (e->chunk)
        r = steno_make_slice(m, r, 3, 0, e->left + e->chunk);
    scores = steno_make_2(m, "MatMul", zipformer1_heads(m, q, h, size, by_head),
                          zipformer1_heads(m, k, h, size, keys_by_head));
    scores = steno_make_add(m, scores, r);
    if (!e->chunk)
        scores = steno_make_hide(m, steno_make_unsqueeze(m, e->mask, 1), -1e30f, scores);
    return steno_make_softmax(m, "Softmax", scores, -1);
}

static steno_value_id weigh_values(struct steno_make *m, const struct steno_zipformer1_env *e,
                                   steno_value_id weights, steno_value_id values, const char *out)
{
    static const int64_t back[] = {2, 0, 1, 3};
    const int64_t h = e->s->heads, n = h * e->s->value;
    values = zipformer1_heads(m, values, h, e->s->value, by_head);
    values = steno_make_transpose(m, steno_make_2(m, "MatMul", weights, values), 4, back);
    values = steno_make_reshape(m, values, 3, (int64_t[]){0, 0, n});
    return steno_make_linear(m, values, out, n, e->s->d, true);
}

/* ---- convolution --------------------------------------------------------------------------- */

static steno_value_id pointwise(struct steno_make *m, steno_value_id x, const char *name, int i,
                                int64_t in, int64_t out)
{
    char full[48];
    snprintf(full, sizeof full, "%s.pointwise_conv%d", name, i);
    return steno_make_pointwise(m, x, full, in, out);
}

static steno_value_id zipformer1_convolution(struct steno_make *m,
                                             const struct steno_zipformer1_env *e, const char *name,
                                             steno_value_id x, steno_value_id *state)
{
    static const int64_t to_columns[] = {1, 2, 0}, back[] = {2, 0, 1};
    const int64_t d = e->s->d, pad = e->chunk ? 0 : e->s->kernel / 2;
    const struct steno_make_conv_module c = {name, d, e->s->kernel, {pad, pad}, true, NULL};
    x = steno_make_glu(m, pointwise(m, x, name, 1, d, 2 * d), 2);
    x = steno_make_transpose(m, x, 3, to_columns);
    if (!e->chunk)
        x = steno_make_hide(m, e->mask, 0, x);
    x = behind_cache(m, e, x, 2, state);
    x = steno_make_conv_depthwise(m, x, &c);
    x = steno_icefall_double_swish(m, steno_make_transpose(m, x, 3, back));
    return pointwise(m, x, name, 2, d, d);
}

/* ---- the layer ----------------------------------------------------------------------------- */

steno_value_id steno_zipformer1_layer(struct steno_make *m, const struct steno_zipformer1_env *e,
                                      steno_value_id x, steno_value_id *state)
{
    const int64_t d = e->s->d, n = e->s->heads * e->s->value;
    steno_value_id first = x, w, values;
    float *scale;
    x = steno_make_add(m, x, zipformer1_feed_forward(m, e, 0, x));
    x = steno_make_add(m, x, pooling(m, e, x, state));
    w = attention_weights(m, e, x, state, &values);
    x = steno_make_add(m, x, weigh_values(m, e, w, values, "self_attn.out_proj"));
    x = steno_make_add(
        m, x, zipformer1_convolution(m, e, "conv_module1", x, state + STENO_ZIPFORMER1_CONV1));
    x = steno_make_add(m, x, zipformer1_feed_forward(m, e, 1, x));
    values = steno_make_linear(m, x, "self_attn.in_proj2", d, n, false);
    values = behind_cache(m, e, values, 0, state + STENO_ZIPFORMER1_VAL2);
    x = steno_make_add(m, x, weigh_values(m, e, w, values, "self_attn.out_proj2"));
    x = steno_make_add(
        m, x, zipformer1_convolution(m, e, "conv_module2", x, state + STENO_ZIPFORMER1_CONV2));
    x = steno_make_add(m, x, zipformer1_feed_forward(m, e, 2, x));
    x = steno_make_2(m, "Sub", steno_icefall_basic_norm(m, x, "norm_final"), first);
    scale = steno_make_read(m, "bypass_scale", 0, NULL);
    x = steno_make_add(m, first, steno_make_scale(m, x, scale ? *scale : 1));
    free(scale);
    return x;
}
