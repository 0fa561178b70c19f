/* Layers of icefall's Conformers, in two forms with positions as in Transformer-XL:
 * conformer_ctc/conformer.py, with layer norms and batch normalization (arch.plain), and
 * pruned_transducer_stateless5/conformer.py with pruned_transducer_stateless2/scaling.py, whose
 * weights have logarithmic scales (steno_make_weights.scaled). */
#include "tools/convert/icefall_conformer.h"

#include "tools/convert/icefall_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BANDS (((STENO_ICEFALL_BINS - 1) / 2 - 1) / 2)
#define EPSILON 1e-5f

typedef steno_value_id part(struct steno_conformer *c, steno_value_id x, const char *name);

/* ---- small parts --------------------------------------------------------------------------- */

static steno_value_id conformer_activation(struct steno_conformer *c, steno_value_id x)
{
    return c->a->plain ? steno_make_activation(c->m, x, "swish")
                       : steno_icefall_double_swish(c->m, x);
}

static steno_value_id conformer_feed_forward(struct steno_conformer *c, steno_value_id x,
                                             const char *name)
{
    const int64_t d = c->s->d, hidden = c->s->ff[0];
    x = conformer_activation(c, steno_make_linear_of(c->m, x, name, "0", d, hidden, true));
    return steno_make_linear_of(c->m, x, name, c->a->plain ? "3" : "4", hidden, d, true);
}

/* ---- attention ----------------------------------------------------------------------------- */

static const int64_t by_head[] = {0, 2, 1, 3}, turned[] = {0, 2, 3, 1};

/* Columns from..from+d-1 of x, [N, T, heads, d / heads]. */
static steno_value_id heads_of_columns(struct steno_conformer *c, steno_value_id x, int64_t from)
{
    x = steno_make_slice(c->m, x, 2, from, from + c->s->d);
    return steno_make_reshape(c->m, x, 4, (int64_t[]){0, 0, c->s->heads, c->s->query});
}

/* Queries, keys and values; of a chunk, the keys and values of the frames before it as well. */
static void project_all(struct steno_conformer *c, steno_value_id x, steno_value_id out[3])
{
    static const char name[] = "self_attn.in_proj";
    const int64_t d = c->s->d, chunk = c->a->chunk;
    struct steno_make *m = c->m;
    steno_value_id all;
    if (!chunk) {
        all = steno_make_linear(m, x, name, d, 3 * d, true);
        for (int i = 0; i < 3; i++)
            out[i] = heads_of_columns(c, all, i * d);
        return;
    }
    out[0] = steno_make_linear_rows(m, x, name, d, 3 * d, 0, d);
    out[0] = steno_make_reshape(m, out[0], 4, (int64_t[]){0, 0, c->s->heads, c->s->query});
    all = steno_make_concat(m, 1, c->past, x);
    c->past = steno_make_slice(m, all, 1, chunk, chunk + c->a->left);
    all = steno_make_linear_rows(m, all, name, d, 3 * d, d, 3 * d);
    for (int i = 0; i < 2; i++)
        out[i + 1] = heads_of_columns(c, all, i * d);
}

/* q + NAME, heads before time. The scores are divided by sqrt(size) here; icefall's form with
 * scaled weights divides q alone, before it adds NAME, so NAME is multiplied. */
static steno_value_id biased(struct steno_conformer *c, steno_value_id q, const char *name)
{
    const int64_t dim[] = {c->s->heads, c->s->query};
    float *bias = steno_make_read(c->m, name, 2, dim);
    for (int64_t i = 0; bias && !c->a->plain && i < c->s->d; i++)
        bias[i] *= sqrtf((float)c->s->query);
    q = steno_make_add(c->m, q, steno_make_floats(c->m, name, 2, dim, bias));
    free(bias);
    return steno_make_transpose(c->m, q, 4, by_head);
}

/* [N, heads, T, left + 2 T - 1] of relative positions -> [N, heads, T, left + T] of keys. */
static steno_value_id shift(struct steno_conformer *c, steno_value_id x)
{
    const struct steno_icefall_arch *a = c->a;
    if (!a->chunk)
        return steno_make_shift(c->m, x, true);
    x = steno_make_shift(c->m, x, false);
    return steno_make_slice(c->m, x, 3, 0, a->left + a->chunk + a->right);
}

static steno_value_id conformer_attention(struct steno_conformer *c, steno_value_id x,
                                          const char *name)
{
    const int64_t d = c->s->d, h = c->s->heads, size = c->s->query;
    struct steno_make *m = c->m;
    steno_value_id qkv[3], k, v, p, scores, hidden;
    (void)name;
    project_all(c, x, qkv);
    k = steno_make_transpose(m, qkv[1], 4, turned);
    v = steno_make_transpose(m, qkv[2], 4, by_head);
    p = steno_make_linear(m, c->positions, "self_attn.linear_pos", d, d, false);
    p = steno_make_reshape(m, p, 4, (int64_t[]){1, -1, h, size});
    p = steno_make_transpose(m, p, 4, turned);
    scores = steno_make_2(m, "MatMul", biased(c, qkv[0], "self_attn.pos_bias_v"), p);
    scores = shift(c, scores);
    scores = steno_make_add(
        m, steno_make_2(m, "MatMul", biased(c, qkv[0], "self_attn.pos_bias_u"), k), scores);
    scores = steno_make_root(m, scores, size);
    hidden = steno_make_unsqueeze(m, c->mask, 1);
    scores = steno_make_hide(m, hidden, -1e30f, scores);
    v = steno_make_2(m, "MatMul", steno_make_softmax(m, "Softmax", scores, -1), v);
    v = steno_make_reshape(m, steno_make_transpose(m, v, 4, by_head), 3, (int64_t[]){0, 0, d});
    return steno_make_linear(m, v, "self_attn.out_proj", d, d, true);
}

/* ---- convolution --------------------------------------------------------------------------- */

/* Causal models see frames before alone; of a chunk these are the kept ones. */
static steno_value_id conformer_convolution(struct steno_conformer *c, steno_value_id x,
                                            const char *name)
{
    const int64_t before = c->s->kernel - 1, chunk = c->a->chunk, half = before / 2;
    const bool causal = c->a->causal;
    const struct steno_make_conv_module k = {
        .name = name,
        .d = c->s->d,
        .kernel = c->s->kernel,
        .pads = {chunk ? 0 : (causal ? before : half), causal ? 0 : half},
        .bias = true,
        .batch_norm = c->a->plain ? "conv_module.norm" : NULL};
    struct steno_make *m = c->m;
    x = steno_make_conv_gate(m, steno_make_turn(m, x), &k);
    if (chunk) {
        x = steno_make_concat(m, 2, c->taps, x);
        c->taps = steno_make_slice(m, x, 2, chunk, chunk + before);
    } else {
        x = steno_make_hide(m, c->mask, 0, x);
    }
    x = conformer_activation(c, steno_make_conv_depthwise(m, x, &k));
    return steno_make_conv_out(m, x, &k);
}

/* ---- the layer ----------------------------------------------------------------------------- */

/* x + by f(x). The plain form has a norm, in front of f or behind the sum. */
static steno_value_id residual(struct steno_conformer *c, steno_value_id x, const char *norm,
                               part *f, const char *name, float by)
{
    const bool plain = c->a->plain, after = c->a->norm_after;
    struct steno_make *m = c->m;
    steno_value_id y = plain && !after ? steno_make_norm(m, x, norm, c->s->d, EPSILON) : x;
    y = f(c, y, name);
    x = steno_make_add(m, x, plain && by < 1 ? steno_make_scale(m, y, by) : y);
    return plain && after ? steno_make_norm(m, x, norm, c->s->d, EPSILON) : x;
}

steno_value_id steno_conformer_layer(struct steno_conformer *c, int i, steno_value_id x)
{
    steno_make_at(c->m, "%sencoder.layers.%d.", c->a->at, i);
    x = residual(c, x, "norm_ff_macaron", conformer_feed_forward, "feed_forward_macaron", 0.5f);
    x = residual(c, x, "norm_mha", conformer_attention, "self_attn", 1);
    x = residual(c, x, "norm_conv", conformer_convolution, "conv_module", 1);
    x = residual(c, x, "norm_ff", conformer_feed_forward, "feed_forward", 0.5f);
    if (!c->a->plain)
        return steno_icefall_basic_norm(c->m, x, "norm_final");
    return c->a->norm_after ? x : steno_make_norm(c->m, x, "norm_final", c->s->d, EPSILON);
}

/* ---- the embedding ------------------------------------------------------------------------- */

/* NAME of a batch normalization of features: x by + shift of each bin. */
static steno_value_id batch_norm(struct steno_make *m, steno_value_id x, const char *name)
{
    static const char *const roles[] = {"weight", "bias", "running_mean", "running_var"};
    const int64_t bins = STENO_ICEFALL_BINS;
    steno_value_id scale, shifted;
    float *p[4];
    for (int i = 0; i < 4; i++) {
        char full[40];
        snprintf(full, sizeof full, "%s.%s", name, roles[i]);
        p[i] = steno_make_read(m, full, 1, &bins);
    }
    for (int64_t i = 0; i < bins && !m->st; i++) {
        p[0][i] = (float)((double)p[0][i] / sqrt((double)p[3][i] + (double)EPSILON));
        p[1][i] -= p[2][i] * p[0][i];
    }
    scale = steno_make_floats(m, "", 1, &bins, p[0]);
    shifted = steno_make_floats(m, "", 1, &bins, p[1]);
    for (int i = 0; i < 4; i++)
        free(p[i]);
    return steno_make_add(m, steno_make_2(m, "Mul", x, scale), shifted);
}

/* Three convolutions, the first without a stride; the plain form has the last two. */
steno_value_id steno_conformer_embed(struct steno_conformer *c, steno_value_id x)
{
    static const int64_t turn[] = {0, 2, 1, 3};
    static const char *const scaled[] = {"conv.0", "conv.3", "conv.6"}, *const plain[] = {NULL,
                                                                                          "conv.0",
                                                                                          "conv.2"};
    const struct steno_icefall_arch *a = c->a;
    const int64_t d = c->s->d;
    struct steno_make *m = c->m;
    steno_make_at(m, "%s", a->at);
    if (a->feat_norm)
        x = batch_norm(m, x, "feat_batchnorm");
    steno_make_at(m, "%sencoder_embed.", a->at);
    x = steno_make_unsqueeze(m, x, 1);
    for (int i = a->plain; i < 3; i++) {
        const struct steno_make_conv k = {.rank = 2,
                                          .in = i > a->plain ? a->conv[i - 1] : 1,
                                          .out = a->conv[i],
                                          .kernel = 3,
                                          .stride = i ? 2 : 1,
                                          .pad = i ? 0 : 1,
                                          .bias = true};
        x = steno_make_convolve(m, x, a->plain ? plain[i] : scaled[i], &k);
        x = a->plain ? steno_make_1(m, "Relu", x) : conformer_activation(c, x);
    }
    x = steno_make_reshape(m, steno_make_transpose(m, x, 4, turn), 3,
                           (int64_t[]){0, 0, BANDS * a->conv[2]});
    x = steno_make_linear(m, x, "out", BANDS * a->conv[2], d, true);
    return a->plain ? steno_make_scale(m, x, sqrtf((float)d))
                    : steno_icefall_basic_norm(m, x, "out_norm");
}
