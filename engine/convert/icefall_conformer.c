/* pruned_transducer_stateless5/conformer.py and pruned_transducer_stateless2/scaling.py of icefall:
 * a Conformer whose weights have logarithmic scales (steno_make_weights.scaled), with positions as
 * in Transformer-XL. Time comes first: [T, N, columns]. */
#include "convert/icefall_graphs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define POSITIONS 4096 /* rows for each sign; beyond them steno computes, other runtimes end */
#define BANDS (((STENO_ICEFALL_BINS - 1) / 2 - 1) / 2)

struct conformer {
    struct steno_make *m;
    const struct steno_zipformer_stack *s;
    steno_value_id positions; /* [1, 2 T - 1, d] */
    steno_value_id mask;      /* [N, 1, T] bool, padding */
};

/* ---- parts --------------------------------------------------------------------------------- */

/* x sigmoid(x - 1) */
static steno_value_id double_swish(struct steno_make *m, steno_value_id x)
{
    steno_value_id y = steno_make_2(m, "Sub", x, steno_make_number(m, 1));
    return steno_make_2(m, "Mul", x, steno_make_1(m, "Sigmoid", y));
}

/* x / sqrt(mean(x^2) + e^NAME.eps) */
static steno_value_id basic_norm(struct steno_make *m, steno_value_id x, const char *name)
{
    const int64_t last = -1;
    const struct steno_attr attr[] = {
        {.name = "axes", .kind = STENO_ATTR_INTS, .n = 1, .ints = &last},
        {.name = "keepdims", .kind = STENO_ATTR_INT, .i = 1}};
    char part[40];
    steno_value_id y = steno_make_2(m, "Mul", x, x);
    snprintf(part, sizeof part, "%s.eps", name);
    y = steno_make_node(m, "ReduceMean", 1, &y, 2, attr);
    y = steno_make_add(m, y, steno_make_number(m, steno_make_exp(m, part)));
    return steno_make_2(m, "Div", x, steno_make_1(m, "Sqrt", y));
}

static steno_value_id feed_forward(const struct conformer *c, steno_value_id x, const char *name)
{
    struct steno_make *m = c->m;
    char part[40];
    steno_value_id y;
    snprintf(part, sizeof part, "%s.0", name);
    y = double_swish(m, steno_make_linear(m, x, part, c->s->d, c->s->ff[0], true));
    snprintf(part, sizeof part, "%s.4", name);
    return steno_make_add(m, x, steno_make_linear(m, y, part, c->s->ff[0], c->s->d, true));
}

/* ---- attention ----------------------------------------------------------------------------- */

static const int64_t by_head[] = {0, 2, 1, 3}, turned[] = {0, 2, 3, 1};

/* A third of the columns of x, [N, T, heads, d / heads]. */
static steno_value_id third(const struct conformer *c, steno_value_id x, int64_t i)
{
    const int64_t d = c->s->d;
    x = steno_make_slice(c->m, x, 2, i * d, (i + 1) * d);
    return steno_make_reshape(c->m, x, 4, (int64_t[]){0, 0, c->s->heads, c->s->query});
}

/* q + sqrt(size) NAME, heads before time. icefall divides q by sqrt(size) before it adds NAME;
 * here the scores are divided. */
static steno_value_id biased(const struct conformer *c, steno_value_id q, const char *name)
{
    const int64_t dim[] = {c->s->heads, c->s->query};
    float *bias = steno_make_read(c->m, name, 2, dim);
    for (int64_t i = 0; bias && i < c->s->d; i++)
        bias[i] *= sqrtf((float)c->s->query);
    q = steno_make_add(c->m, q, steno_make_floats(c->m, name, 2, dim, bias));
    free(bias);
    return steno_make_transpose(c->m, q, 4, by_head);
}

static steno_value_id attention(const struct conformer *c, steno_value_id x)
{
    const int64_t d = c->s->d, h = c->s->heads, size = c->s->query;
    struct steno_make *m = c->m;
    steno_value_id q, k, v, p, scores, all, hidden;
    all = steno_make_linear(m, x, "self_attn.in_proj", d, 3 * d, true);
    q = third(c, all, 0);
    k = steno_make_transpose(m, third(c, all, 1), 4, turned);
    v = steno_make_transpose(m, third(c, all, 2), 4, by_head);
    p = steno_make_linear(m, c->positions, "self_attn.linear_pos", d, d, false);
    p = steno_make_reshape(m, p, 4, (int64_t[]){1, -1, h, size});
    p = steno_make_transpose(m, p, 4, turned);
    scores = steno_make_2(m, "MatMul", biased(c, q, "self_attn.pos_bias_v"), p);
    scores = steno_make_shift(m, scores, true);
    scores = steno_make_add(m, steno_make_2(m, "MatMul", biased(c, q, "self_attn.pos_bias_u"), k),
                            scores);
    scores = steno_make_2(m, "Div", scores, steno_make_number(m, sqrtf((float)size)));
    hidden = steno_make_unsqueeze(m, c->mask, 1);
    scores = steno_make_node(
        m, "Where", 3, (steno_value_id[]){hidden, steno_make_number(m, -1e30f), scores}, 0, NULL);
    v = steno_make_2(m, "MatMul", steno_make_softmax(m, "Softmax", scores, -1), v);
    v = steno_make_reshape(m, steno_make_transpose(m, v, 4, by_head), 3, (int64_t[]){0, 0, d});
    return steno_make_add(m, x, steno_make_linear(m, v, "self_attn.out_proj", d, d, true));
}

/* ---- convolution --------------------------------------------------------------------------- */

static steno_value_id convolve(const struct conformer *c, steno_value_id x, const char *part,
                               int64_t out, int64_t kernel, int64_t groups)
{
    const struct steno_make_conv k = {.rank = 1,
                                      .in = c->s->d,
                                      .out = out,
                                      .kernel = kernel,
                                      .stride = 1,
                                      .pad = kernel / 2,
                                      .groups = groups,
                                      .bias = true};
    char name[48];
    snprintf(name, sizeof name, "conv_module.%s", part);
    return steno_make_convolve(c->m, x, name, &k);
}

static steno_value_id convolution(const struct conformer *c, steno_value_id x)
{
    static const int64_t turn[] = {0, 2, 1};
    const int64_t d = c->s->d;
    struct steno_make *m = c->m;
    steno_value_id y = steno_make_transpose(m, x, 3, turn), gate;
    y = convolve(c, y, "pointwise_conv1", 2 * d, 1, 1);
    gate = steno_make_1(m, "Sigmoid", steno_make_slice(m, y, 1, d, 2 * d));
    y = steno_make_2(m, "Mul", steno_make_slice(m, y, 1, 0, d), gate);
    y = steno_make_node(m, "Where", 3, (steno_value_id[]){c->mask, steno_make_number(m, 0), y}, 0,
                        NULL);
    y = double_swish(m, convolve(c, y, "depthwise_conv", d, c->s->kernel, d));
    y = convolve(c, y, "pointwise_conv2", d, 1, 1);
    return steno_make_add(m, x, steno_make_transpose(m, y, 3, turn));
}

/* ---- the encoder --------------------------------------------------------------------------- */

/* [N, T, bins] -> [N, about T / 4, d] */
static steno_value_id embed(struct steno_make *m, const struct steno_icefall_arch *a,
                            steno_value_id x)
{
    static const int64_t turn[] = {0, 2, 1, 3};
    static const char *const names[] = {"conv.0", "conv.3", "conv.6"};
    const int64_t d = a->stack[0].d;
    steno_make_at(m, "encoder.encoder_embed.");
    x = steno_make_unsqueeze(m, x, 1);
    for (int i = 0; i < 3; i++) {
        const struct steno_make_conv c = {.rank = 2,
                                          .in = i ? a->conv[i - 1] : 1,
                                          .out = a->conv[i],
                                          .kernel = 3,
                                          .stride = i ? 2 : 1,
                                          .pad = i ? 0 : 1,
                                          .bias = true};
        x = double_swish(m, steno_make_convolve(m, x, names[i], &c));
    }
    x = steno_make_reshape(m, steno_make_transpose(m, x, 4, turn), 3,
                           (int64_t[]){0, 0, BANDS * a->conv[2]});
    return basic_norm(m, steno_make_linear(m, x, "out", BANDS * a->conv[2], d, true), "out_norm");
}

/* Rows of relative positions T - 1 down to 1 - T. */
static steno_value_id positions_of(struct steno_make *m, steno_value_id frames, int64_t d)
{
    const int64_t center = POSITIONS - 1, one = center + 1;
    steno_value_id table =
        steno_make_sinusoids(m, "positions", 2 * POSITIONS - 1, d, (double)center, -1);
    return steno_make_cut(m, table, 1, steno_make_2(m, "Sub", steno_make_ints(m, 1, &one), frames),
                          steno_make_add(m, steno_make_ints(m, 1, &center), frames));
}

/* ((x - 1) / 2 - 1) / 2 of whole numbers */
static steno_value_id quarter(struct steno_make *m, steno_value_id x)
{
    const int64_t one = 1, two = 2;
    for (int i = 0; i < 2; i++) {
        x = steno_make_2(m, "Sub", x, steno_make_ints(m, 1, &one));
        x = steno_make_2(m, "Div", x, steno_make_ints(m, 1, &two));
    }
    return x;
}

/* True at frames behind the end of a recording, [N, 1, T]. */
static steno_value_id padding(struct steno_make *m, steno_value_id lengths, steno_value_id frames)
{
    const steno_value_id zero = steno_make_ints(m, 1, (int64_t[]){0});
    const steno_value_id in[] = {steno_make_int(m, 0), steno_make_2(m, "Squeeze", frames, zero),
                                 steno_make_int(m, 1)};
    lengths = steno_make_2(m, "Unsqueeze", lengths, steno_make_ints(m, 2, (int64_t[]){1, 2}));
    return steno_make_2(m, "GreaterOrEqual", steno_make_node(m, "Range", 3, in, 0, NULL), lengths);
}

steno_status steno_icefall_write_conformer(const struct steno_icefall_arch *a,
                                           const struct steno_make_weights *w, const char *path,
                                           steno_err *err)
{
    const int64_t d = a->stack[0].d;
    struct steno_make m;
    struct conformer c = {.m = &m, .s = &a->stack[0]};
    steno_value_id x, lengths, frames;
    int64_t batch, rows;
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "the architecture";
    batch = steno_make_symbol(&m, "N");
    x = steno_make_input(&m, "x", STENO_F32, 3,
                         (int64_t[]){batch, steno_make_symbol(&m, "T"), STENO_ICEFALL_BINS});
    lengths = quarter(&m, steno_make_input(&m, "x_lens", STENO_I64, 1, &batch));
    x = embed(&m, a, x);
    frames = steno_make_extent_of(&m, x, 1);
    c.positions = positions_of(&m, frames, d);
    c.mask = padding(&m, lengths, frames);
    for (int i = 0; i < c.s->layers && !m.st; i++) {
        steno_make_at(&m, "encoder.encoder.layers.%d.", i);
        x = attention(&c, feed_forward(&c, x, "feed_forward_macaron"));
        x = basic_norm(&m, feed_forward(&c, convolution(&c, x), "feed_forward"), "norm_final");
    }
    steno_make_at(&m, "joiner.");
    x = steno_make_linear(&m, x, "encoder_proj", d, a->joiner, true);
    rows = steno_make_symbol(&m, "T_out");
    steno_make_output(&m, x, "encoder_out", STENO_F32, 3, (int64_t[]){batch, rows, a->joiner});
    steno_make_output(&m, lengths, "encoder_out_lens", STENO_I64, 1, &batch);
    steno_make_meta(&m, "model_type", "conformer");
    steno_make_meta(&m, "version", "1");
    steno_make_meta(&m, "model_author", "k2-fsa");
    steno_make_meta(&m, "comment", "non-streaming conformer");
    return steno_make_write(&m, path, NULL);
}
