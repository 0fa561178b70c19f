/* nemo/collections/asr/modules/transformer of NeMo 3.0.0: the decoder of multitask models (Canary),
 * one token of one hypothesis, as sherpa-onnx's export has it. A memory holds what the layers of
 * past tokens got as input; there is one for each layer, and one of the last outputs, which nothing
 * reads. */
#include "speech/families/nemo/build_transformer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define POSITIONS 2048 /* 30 s of 30 tokens per second, and a prompt */

static steno_value_id canary_feed_forward(struct steno_make *m, steno_value_id x,
                                          const struct steno_nemo_aed *t)
{
    return steno_nemo_dense(m, "third_sub_layer", x, t->d, t->ff, t->activation);
}

static steno_value_id canary_norm(struct steno_make *m, steno_value_id x, const char *name,
                                  const struct steno_nemo_aed *t)
{
    return steno_make_norm(m, x, name, t->d, STENO_NEMO_EPSILON);
}

/* x [1,1,d], keys [1,n,d]: x and what went before it. */
static steno_value_id canary_layer(struct steno_make *m, steno_value_id x, steno_value_id keys,
                                   steno_value_id states, steno_value_id mask,
                                   const struct steno_nemo_aed *t)
{
    steno_value_id y;
    if (!t->before) {
        y = steno_nemo_attention(m, "first_sub_layer", x, keys, STENO_NONE, t->d, t->heads);
        x = canary_norm(m, steno_make_add(m, y, x), "layer_norm_1", t);
        y = steno_nemo_attention(m, "second_sub_layer", x, states, mask, t->d, t->heads);
        x = canary_norm(m, steno_make_add(m, y, x), "layer_norm_2", t);
        return canary_norm(m, steno_make_add(m, canary_feed_forward(m, x, t), x), "layer_norm_3",
                           t);
    }
    y = canary_norm(m, x, "layer_norm_1", t);
    y = steno_nemo_attention(m, "first_sub_layer", y, canary_norm(m, keys, "layer_norm_1", t),
                             STENO_NONE, t->d, t->heads);
    x = steno_make_add(m, y, x);
    y = steno_nemo_attention(m, "second_sub_layer", canary_norm(m, x, "layer_norm_2", t), states,
                             mask, t->d, t->heads);
    x = steno_make_add(m, y, x);
    y = canary_feed_forward(m, canary_norm(m, x, "layer_norm_3", t), t);
    return steno_make_add(m, y, x);
}

static steno_value_id position_table(struct steno_make *m, const struct steno_nemo_aed *t)
{
    const float by = 1 / sqrtf((float)t->d);
    float *x;
    steno_value_id v;
    if (t->learnt)
        return steno_make_param(m, "position_embedding.weight", 2, (int64_t[]){t->positions, t->d});
    x = m->st ? NULL : malloc((size_t)(POSITIONS * t->d) * sizeof *x);
    if (x)
        steno_make_sinusoid_table(x, POSITIONS, t->d, 0, 1);
    for (int64_t i = 0; x && i < POSITIONS * t->d; i++)
        x[i] *= by;
    v = steno_make_floats(m, "position_embedding.pos_enc", 2, (int64_t[]){POSITIONS, t->d}, x);
    free(x);
    return v;
}

/* ids [1,2]: token and position. */
static steno_value_id canary_embed(struct steno_make *m, steno_value_id ids,
                                   const struct steno_nemo_aed *t)
{
    steno_value_id x, at;
    steno_make_at(m, "transf_decoder._embedding.");
    x = steno_make_embed(m, steno_make_slice(m, ids, 1, 0, 1), "token_embedding.weight", t->rows,
                         t->d);
    at = steno_make_2(m, "Gather", position_table(m, t), steno_make_slice(m, ids, 1, 1, 2));
    return canary_norm(m, steno_make_add(m, x, at), "layer_norm", t);
}

/* Scores of the vocabulary; NeMo fills it up to a multiple of 8 with tokens that are none. */
static steno_value_id vocabulary_scores(struct steno_make *m, steno_value_id x,
                                        const struct steno_nemo_aed *t, int64_t vocab)
{
    steno_make_at(m, "log_softmax.mlp.");
    m->asked = "head and the vocabulary";
    x = steno_make_linear(m, x, "layer0", t->d, t->rows, true);
    return vocab == t->rows ? x : steno_make_slice(m, x, 2, 0, vocab);
}

static steno_value_id memory(struct steno_make *m, int i, const int64_t dim[3])
{
    char name[40];
    snprintf(name, sizeof name, "decoder_mems_list_%d", i);
    return steno_make_input(m, name, STENO_F32, 3, dim);
}

static void remember(struct steno_make *m, int i, steno_value_id x, int64_t d)
{
    char name[48];
    snprintf(name, sizeof name, "next_decoder_mem_list_%d", i);
    steno_make_output(m, x, name, STENO_F32, 3,
                      (int64_t[]){1, steno_make_symbol(m, "num_tokens_next"), d});
}

static void check_layers(struct steno_make *m, const struct steno_nemo_aed *t)
{
    steno_make_at(m, "transf_decoder._decoder.layers.%d.", (int)t->layers);
    if (!m->st && steno_make_has(m, "layer_norm_1.weight"))
        m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                           "%s: more than the %lld layers of transf_decoder.config_dict.num_layers",
                           m->w.file, (long long)t->layers);
    steno_make_at(m, "transf_decoder._decoder.final_layer_norm.");
    if (!m->st && steno_make_has(m, "weight") && !(t->before && t->final))
        m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                           "%s: '%sweight', which transf_decoder does not ask for", m->w.file,
                           m->prefix);
}

steno_status steno_nemo_build_aed_decoder(const struct steno_nemo_arch *a,
                                          const struct steno_make_weights *w,
                                          struct steno_graph **out, steno_err *err)
{
    const struct steno_nemo_aed *t = &a->aed;
    const int n = (int)steno_nemo_memories(t);
    struct steno_make m;
    steno_value_id ids, states, mask, x, past[STENO_NEMO_MEMORIES], next[STENO_NEMO_MEMORIES];
    int64_t frames, dim[3] = {1, 0, t->d};
    if (steno_make_begin(&m, w, n + 3, err))
        return m.st;
    m.asked = "transf_decoder";
    dim[1] = steno_make_symbol(&m, "num_tokens");
    frames = steno_make_symbol(&m, "frames");
    ids = steno_make_input(&m, "decoder_input_ids", STENO_I32, 2, (int64_t[]){1, 2});
    for (int i = 0; i < n; i++)
        past[i] = memory(&m, i, dim);
    states = steno_make_input(&m, "enc_states", STENO_F32, 3, (int64_t[]){1, frames, t->d});
    mask = steno_make_input(&m, "enc_mask", STENO_BOOL, 2, (int64_t[]){1, frames});
    mask = steno_nemo_hidden(&m, mask);
    x = canary_embed(&m, ids, t);
    for (int i = 0; i < t->layers && !m.st; i++) {
        next[i] = steno_make_concat(&m, 1, past[i], x);
        steno_make_at(&m, "transf_decoder._decoder.layers.%d.", i);
        x = canary_layer(&m, x, next[i], states, mask, t);
    }
    check_layers(&m, t);
    next[t->layers] = steno_make_concat(&m, 1, past[t->layers], x);
    if (t->before && t->final) {
        steno_make_at(&m, "transf_decoder._decoder.");
        x = canary_norm(&m, x, "final_layer_norm", t);
        next[n - 1] = steno_make_concat(&m, 1, past[n - 1], x);
    }
    x = vocabulary_scores(&m, x, t, a->vocab);
    steno_make_output(&m, x, "logits", STENO_F32, 3, (int64_t[]){1, 1, a->vocab});
    for (int i = 0; i < n; i++)
        remember(&m, i, next[i], t->d);
    return steno_make_take(&m, out);
}
