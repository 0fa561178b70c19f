/* transformers 5.24: models/moonshine/modeling_moonshine.py. The names of inputs and outputs are
 * those of optimum's export, which has two branches in its decoder: the first call computes keys
 * and values of the encoder's frames, later ones take them. Here both are one: with
 * use_cache_branch the frames are cut to none, and what is computed of them goes behind the past.
 */
#include "speech/families/moonshine/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-5f

/* A layer normalization without bias. */
static steno_value_id norm_without_bias(struct steno_make *m, steno_value_id x, const char *name,
                                        int64_t d)
{
    const struct steno_attr attr[] = {{.name = "axis", .kind = STENO_ATTR_INT, .i = -1},
                                      {.name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = EPSILON}};
    char weight[64];
    steno_value_id in[2] = {x, STENO_NONE};
    snprintf(weight, sizeof weight, "%s.weight", name);
    in[1] = steno_make_param(m, weight, 1, &d);
    return steno_make_node(m, "LayerNormalization", 2, in, 2, attr);
}

/* ---- positions ------------------------------------------------------------------------------- */

/* Turns of neighbours (2j, 2j+1) by position * theta^(-2j/rotary); the rest of a head stays. */
struct turns {
    steno_value_id cos, sin; /* [T, width] */
};

/* positions: f32 [T, 1]. The sine of the first of a pair has a minus: its angle has one, which its
 * cosine does not see. */
static struct turns make_turns(struct steno_make *m, steno_value_id positions,
                               const struct steno_moonshine_arch *a)
{
    const int64_t width = a->d / a->heads;
    float *by = m->st ? NULL : calloc((size_t)width, sizeof *by);
    steno_value_id angle;
    struct turns t;
    for (int64_t j = 0; by && 2 * j < a->rotary; j++) {
        const float f = 1 / powf((float)a->theta, (float)(2 * j) / (float)a->rotary);
        by[2 * j] = -f;
        by[2 * j + 1] = f;
    }
    angle = steno_make_2(m, "Mul", positions, steno_make_floats(m, "frequencies", 1, &width, by));
    free(by);
    t.cos = steno_make_1(m, "Cos", angle);
    t.sin = steno_make_1(m, "Sin", angle);
    return t;
}

/* Each feature's neighbour: pairs [.., width] in reverse order. */
static steno_value_id neighbours(struct steno_make *m, steno_value_id x, int64_t heads,
                                 int64_t width)
{
    x = steno_make_reshape(m, x, 5, (int64_t[]){0, heads, -1, width / 2, 2});
    x = steno_make_concat(m, 4, steno_make_slice(m, x, 4, 1, 2), steno_make_slice(m, x, 4, 0, 1));
    return steno_make_reshape(m, x, 4, (int64_t[]){0, heads, -1, width});
}

/* x: [N, heads, T, width]. */
static steno_value_id turn(struct steno_make *m, steno_value_id x, const struct turns *t,
                           const struct steno_moonshine_arch *a)
{
    steno_value_id y = neighbours(m, x, a->heads, a->d / a->heads);
    return steno_make_add(m, steno_make_2(m, "Mul", x, t->cos), steno_make_2(m, "Mul", y, t->sin));
}

/* ---- parts ----------------------------------------------------------------------------------- */

static steno_value_id moonshine_heads(struct steno_make *m, steno_value_id x, const char *name,
                                      const struct steno_moonshine_arch *a)
{
    x = steno_make_linear(m, x, name, a->d, a->d, a->bias);
    return steno_make_heads(m, x, a->heads, a->d, false);
}

/* q, k, v: [N, heads, T, width]. */
static steno_value_id moonshine_attend(struct steno_make *m, steno_value_id q, steno_value_id k,
                                       steno_value_id v, const struct steno_moonshine_arch *a)
{
    static const int64_t last[] = {0, 1, 3, 2};
    steno_value_id y = steno_make_2(m, "MatMul", q, steno_make_transpose(m, k, 4, last));
    y = steno_make_weigh(m, steno_make_root(m, y, a->d / a->heads), v, a->d);
    return steno_make_linear(m, y, "o_proj", a->d, a->d, false);
}

/* ---- encoder --------------------------------------------------------------------------------- */

/* One norm over all channels and frames. */
static steno_value_id group_norm(struct steno_make *m, steno_value_id x, int64_t d)
{
    static const float one = 1, zero = 0;
    const int64_t single = 1;
    const struct steno_attr epsilon = {.name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = EPSILON};
    const steno_value_id shape = steno_make_1(m, "Shape", x);
    steno_value_id in[3] = {steno_make_reshape(m, x, 3, (int64_t[]){0, 1, -1}),
                            steno_make_floats(m, "one", 1, &single, &one),
                            steno_make_floats(m, "zero", 1, &single, &zero)};
    x = steno_make_2(m, "Reshape", steno_make_node(m, "InstanceNormalization", 3, in, 1, &epsilon),
                     shape);
    in[0] = steno_make_unsqueeze(m, steno_make_param(m, "groupnorm.weight", 1, &d), 1);
    in[1] = steno_make_unsqueeze(m, steno_make_param(m, "groupnorm.bias", 1, &d), 1);
    return steno_make_add(m, steno_make_2(m, "Mul", x, in[0]), in[1]);
}

static steno_value_id moonshine_frames(struct steno_make *m, steno_value_id x,
                                       const struct steno_moonshine_arch *a)
{
    const int64_t d = a->d;
    const struct steno_make_conv
        first = {.rank = 1, .in = 1, .out = d, .kernel = 127, .stride = 64},
        second = {.rank = 1, .in = d, .out = 2 * d, .kernel = 7, .stride = 3, .bias = true},
        third = {.rank = 1, .in = 2 * d, .out = d, .kernel = 3, .stride = 2, .bias = true};
    x = steno_make_unsqueeze(m, x, 1);
    x = steno_make_1(m, "Tanh", steno_make_convolve(m, x, "conv1", &first));
    x = group_norm(m, x, d);
    x = steno_make_activation(m, steno_make_convolve(m, x, "conv2", &second), "gelu");
    x = steno_make_activation(m, steno_make_convolve(m, x, "conv3", &third), "gelu");
    return steno_make_turn(m, x);
}

static struct turns turns_of_frames(struct steno_make *m, steno_value_id x,
                                    const struct steno_moonshine_arch *a)
{
    steno_value_id n = steno_make_2(m, "Gather", steno_make_1(m, "Shape", x), steno_make_int(m, 1));
    n = steno_make_node(m, "Range", 3,
                        (steno_value_id[]){steno_make_int(m, 0), n, steno_make_int(m, 1)}, 0, NULL);
    n = steno_make_unsqueeze(m, steno_make_cast(m, n, STENO_MAKE_FLOAT), 1);
    return make_turns(m, n, a);
}

static steno_value_id encoder_layer(struct steno_make *m, steno_value_id x, int i,
                                    const struct turns *t, const struct steno_moonshine_arch *a)
{
    steno_value_id y, q, k, v;
    steno_make_at(m, "model.encoder.layers.%d.", i);
    y = norm_without_bias(m, x, "input_layernorm", a->d);
    steno_make_at(m, "model.encoder.layers.%d.self_attn.", i);
    q = turn(m, moonshine_heads(m, y, "q_proj", a), t, a);
    k = turn(m, moonshine_heads(m, y, "k_proj", a), t, a);
    v = moonshine_heads(m, y, "v_proj", a);
    x = steno_make_add(m, x, moonshine_attend(m, q, k, v, a));
    steno_make_at(m, "model.encoder.layers.%d.", i);
    y = norm_without_bias(m, x, "post_attention_layernorm", a->d);
    y = steno_make_linear(m, y, "mlp.fc1", a->d, a->ff, true);
    y = steno_make_activation(m, y, a->encoder_activation);
    return steno_make_add(m, x, steno_make_linear(m, y, "mlp.fc2", a->ff, a->d, true));
}

steno_status steno_moonshine_build_encoder(const struct steno_moonshine_arch *a,
                                           const struct steno_make_weights *w,
                                           struct steno_graph **out, steno_err *err)
{
    struct steno_make m;
    int64_t batch, samples, frames;
    struct turns t;
    steno_value_id x;
    if (steno_make_begin(&m, w, 1, err))
        return m.st;
    m.asked = "config.json";
    batch = steno_make_symbol(&m, "batch_size");
    samples = steno_make_symbol(&m, "num_samples");
    frames = steno_make_symbol(&m, "encoder_sequence_length");
    x = steno_make_input(&m, "input_values", STENO_F32, 2, (int64_t[]){batch, samples});
    steno_make_at(&m, "model.encoder.");
    x = moonshine_frames(&m, x, a);
    t = turns_of_frames(&m, x, a);
    for (int i = 0; i < a->encoder_layers && !m.st; i++)
        x = encoder_layer(&m, x, i, &t, a);
    steno_make_at(&m, "model.encoder.");
    x = norm_without_bias(&m, x, "layer_norm", a->d);
    steno_make_output(&m, x, "last_hidden_state", STENO_F32, 3, (int64_t[]){batch, frames, a->d});
    return steno_make_take(&m, out);
}

/* ---- decoder --------------------------------------------------------------------------------- */

static const char *const states[] = {"decoder.key", "decoder.value", "encoder.key",
                                     "encoder.value"};

struct cache {
    steno_value_id past[4], present[4]; /* as `states` */
};

static void read_past(struct steno_make *m, struct cache *c, int layer, int64_t batch,
                      const struct steno_moonshine_arch *a)
{
    const int64_t dim[] = {batch, a->heads, 0, a->d / a->heads};
    for (int k = 0; k < 4; k++) {
        char name[64];
        int64_t d[4];
        memcpy(d, dim, sizeof d);
        d[2] = steno_make_symbol(m, k < 2 ? "past_decoder_sequence_length"
                                          : "past_encoder_sequence_length");
        snprintf(name, sizeof name, "past_key_values.%d.%s", layer, states[k]);
        c->past[k] = steno_make_input(m, name, STENO_F32, 4, d);
    }
}

static void write_present(struct steno_make *m, const struct cache *c, int layer, int64_t batch,
                          const struct steno_moonshine_arch *a)
{
    for (int k = 0; k < 4; k++) {
        char name[64];
        const int64_t dim[] = {
            batch, a->heads,
            steno_make_symbol(m, k < 2 ? "decoder_sequence_length" : "encoder_sequence_length_out"),
            a->d / a->heads};
        snprintf(name, sizeof name, "present.%d.%s", layer, states[k]);
        steno_make_output(m, c->present[k], name, STENO_F32, 4, dim);
    }
}

/* The encoder's frames, or none of them if their keys and values are in the past. */
static steno_value_id new_frames(struct steno_make *m, steno_value_id encoded,
                                 steno_value_id cached)
{
    static const int64_t zero = 0, one = 1;
    steno_value_id n = steno_make_2(m, "Sub", steno_make_ints(m, 1, &one),
                                    steno_make_cast(m, cached, STENO_MAKE_INT64));
    n = steno_make_2(m, "Mul", n, steno_make_extent_of(m, encoded, 1));
    return steno_make_cut(m, encoded, 1, steno_make_ints(m, 1, &zero), n);
}

static steno_value_id decoder_layer(struct steno_make *m, steno_value_id x, steno_value_id encoded,
                                    struct cache *c, int i, const struct turns *t,
                                    const struct steno_moonshine_arch *a)
{
    steno_value_id y, q, gate;
    steno_make_at(m, "model.decoder.layers.%d.", i);
    y = norm_without_bias(m, x, "input_layernorm", a->d);
    steno_make_at(m, "model.decoder.layers.%d.self_attn.", i);
    q = turn(m, moonshine_heads(m, y, "q_proj", a), t, a);
    c->present[0] =
        steno_make_concat(m, 2, c->past[0], turn(m, moonshine_heads(m, y, "k_proj", a), t, a));
    c->present[1] = steno_make_concat(m, 2, c->past[1], moonshine_heads(m, y, "v_proj", a));
    x = steno_make_add(m, x, moonshine_attend(m, q, c->present[0], c->present[1], a));
    steno_make_at(m, "model.decoder.layers.%d.", i);
    y = norm_without_bias(m, x, "post_attention_layernorm", a->d);
    steno_make_at(m, "model.decoder.layers.%d.encoder_attn.", i);
    q = moonshine_heads(m, y, "q_proj", a);
    c->present[2] = steno_make_concat(m, 2, c->past[2], moonshine_heads(m, encoded, "k_proj", a));
    c->present[3] = steno_make_concat(m, 2, c->past[3], moonshine_heads(m, encoded, "v_proj", a));
    x = steno_make_add(m, x, moonshine_attend(m, q, c->present[2], c->present[3], a));
    steno_make_at(m, "model.decoder.layers.%d.", i);
    y = steno_make_linear(m, norm_without_bias(m, x, "final_layernorm", a->d), "mlp.fc1", a->d,
                          2 * a->ff, true);
    gate = steno_make_activation(m, steno_make_slice(m, y, 2, a->ff, 2 * a->ff),
                                 a->decoder_activation);
    y = steno_make_2(m, "Mul", gate, steno_make_slice(m, y, 2, 0, a->ff));
    return steno_make_add(m, x, steno_make_linear(m, y, "mlp.fc2", a->ff, a->d, true));
}

/* The position of the token: the number of those before it. */
static struct turns turns_of_token(struct steno_make *m, const struct cache *c,
                                   const struct steno_moonshine_arch *a)
{
    steno_value_id n = steno_make_cast(m, steno_make_extent_of(m, c->past[0], 2), STENO_MAKE_FLOAT);
    return make_turns(m, steno_make_unsqueeze(m, n, 1), a);
}

steno_status steno_moonshine_build_decoder(const struct steno_moonshine_arch *a,
                                           const struct steno_make_weights *w,
                                           struct steno_graph **out, steno_err *err)
{
    struct cache cache[256];
    struct steno_make m;
    struct turns t;
    int64_t batch, frames;
    steno_value_id ids, encoded, cached, x;
    if (a->decoder_layers > 256)
        return steno_fail(err, STENO_ERR_LIMIT, "config.json: more than 256 layers");
    if (steno_make_begin(&m, w, 4 * (int)a->decoder_layers + 3, err))
        return m.st;
    m.asked = "config.json";
    batch = steno_make_symbol(&m, "batch_size");
    frames = steno_make_symbol(&m, "encoder_sequence_length");
    ids = steno_make_input(&m, "input_ids", STENO_I64, 2, (int64_t[]){batch, 1});
    encoded = steno_make_input(&m, "encoder_hidden_states", STENO_F32, 3,
                               (int64_t[]){batch, frames, a->d});
    for (int i = 0; i < a->decoder_layers; i++)
        read_past(&m, &cache[i], i, batch, a);
    cached = steno_make_input(&m, "use_cache_branch", STENO_BOOL, 1, (int64_t[]){1});
    encoded = new_frames(&m, encoded, cached);
    t = turns_of_token(&m, &cache[0], a);
    steno_make_at(&m, "model.decoder.");
    x = steno_make_embed(&m, ids, "embed_tokens.weight", a->vocab, a->d);
    for (int i = 0; i < a->decoder_layers && !m.st; i++)
        x = decoder_layer(&m, x, encoded, &cache[i], i, &t, a);
    steno_make_at(&m, "model.decoder.");
    x = norm_without_bias(&m, x, "norm", a->d);
    steno_make_at(&m, "%s", "");
    x = steno_make_linear(
        &m, x, steno_make_has(&m, "proj_out.weight") ? "proj_out" : "model.decoder.embed_tokens",
        a->d, a->vocab, false);
    steno_make_output(&m, x, "logits", STENO_F32, 3, (int64_t[]){batch, 1, a->vocab});
    for (int i = 0; i < a->decoder_layers; i++)
        write_present(&m, &cache[i], i, batch, a);
    return steno_make_take(&m, out);
}
