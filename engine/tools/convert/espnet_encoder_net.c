/* The encoders of ESPnet2 for one whole utterance, so no position is masked. */
#include "tools/convert/espnet_encoder.h"
#include "tools/convert/espnet_graphs.h"
#include "tools/convert/espnet_parts.h"

#include <stdio.h>

void steno_espnet_check_blocks(struct steno_make *m, const struct steno_espnet_encoder *e)
{
    static const char *const names[] = {"norm1.weight", "norm_mha.weight", "norm_final.weight"};
    steno_make_at(m, "encoder.encoders.%d.", (int)e->blocks);
    for (int i = 0; i < 3; i++)
        if (!m->st && steno_make_has(m, names[i]))
            m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                               "%s: more than the %lld blocks of encoder_conf.num_blocks",
                               m->w.file, (long long)e->blocks);
}

bool steno_espnet_streams(const struct steno_espnet_encoder *e)
{
    return e->kind == STENO_ESPNET_BLOCK_TRANSFORMER || e->kind == STENO_ESPNET_BLOCK_CONFORMER;
}

/* ---- conditioned CTC ----------------------------------------------------------------------- */

/* Weights of self-conditioned CTC, which all blocks share. */
struct condition {
    steno_value_id ctc, ctc_bias, back, back_bias;
};

static steno_value_id shared_weight(struct steno_make *m, const char *name, int64_t in, int64_t out)
{
    static const int64_t turn[] = {1, 0};
    steno_value_id w = steno_make_param(m, name, 2, (int64_t[]){out, in});
    return steno_make_transpose(m, w, 2, turn);
}

static void read_condition(struct steno_make *m, const struct steno_espnet_arch *a,
                           struct condition *c)
{
    m->asked = "interctc_use_conditioning";
    steno_make_at(m, "ctc.ctc_lo.");
    c->ctc = shared_weight(m, "weight", a->d, a->vocab);
    c->ctc_bias = steno_make_param(m, "bias", 1, &a->vocab);
    steno_make_at(m, "encoder.conditioning_layer.");
    c->back = shared_weight(m, "weight", a->vocab, a->d);
    c->back_bias = steno_make_param(m, "bias", 1, &a->d);
    m->asked = "encoder_conf";
}

/* x + back(softmax(ctc(norm(x)))) (Nozaki and Komatsu, "Relaxing the Conditional Independence
 * Assumption of CTC-based ASR by Conditioning on Intermediate Predictions", 2021). E-Branchformer
 * has no norm there. */
static steno_value_id condition(struct steno_make *m, steno_value_id x,
                                const struct steno_espnet_arch *a, struct condition *c)
{
    steno_value_id y = x;
    if (c->ctc == STENO_NONE)
        read_condition(m, a, c);
    steno_make_at(m, "encoder.");
    if (a->e.before && a->e.kind != STENO_ESPNET_E_BRANCHFORMER)
        y = steno_make_norm(m, y, "after_norm", a->d, STENO_ESPNET_EPSILON);
    y = steno_make_add(m, steno_make_2(m, "MatMul", y, c->ctc), c->ctc_bias);
    y = steno_make_softmax(m, "Softmax", y, -1);
    y = steno_make_add(m, steno_make_2(m, "MatMul", y, c->back), c->back_bias);
    return steno_make_add(m, x, y);
}

/* ---- whole utterances ---------------------------------------------------------------------- */

static bool recurrent(const struct steno_espnet_encoder *e)
{
    return e->kind == STENO_ESPNET_RNN || e->kind == STENO_ESPNET_VGG_RNN;
}

/* *n: the number of frames that are not filled up. */
static steno_value_id attentive(struct steno_make *m, steno_value_id x,
                                const struct steno_espnet_arch *a, steno_value_id *n)
{
    const struct steno_espnet_encoder *e = &a->e;
    struct steno_espnet_view v;
    struct condition c = {STENO_NONE, STENO_NONE, STENO_NONE, STENO_NONE};
    x = steno_espnet_embed(m, x, e, &v);
    *n = steno_make_extent_of(m, x, 1);
    if (e->window_rows)
        x = steno_espnet_fill_windows(m, x, e, &v);
    for (int64_t i = 0; i < e->blocks && !m->st; i++) {
        steno_make_at(m, "encoder.encoders.%d.", (int)i);
        v.window = e->window[i];
        x = steno_espnet_layer(m, x, &v, e, i);
        if (e->conditioned && e->condition[i])
            x = condition(m, x, a, &c);
    }
    steno_espnet_check_blocks(m, e);
    steno_make_at(m, "encoder.");
    if (e->before)
        x = steno_make_norm(m, x, "after_norm", e->d, STENO_ESPNET_EPSILON);
    return x;
}

steno_status steno_espnet_write_encoder(const struct steno_espnet_arch *a,
                                        const struct steno_make_weights *w, const char *path,
                                        steno_err *err)
{
    const struct steno_espnet_encoder *e = &a->e;
    struct steno_make m;
    steno_value_id x, n;
    int64_t frames, rows;
    if (steno_espnet_streams(e))
        return steno_espnet_write_blocks(e, w, path, err);
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "encoder_conf";
    frames = steno_make_symbol(&m, "feats_length");
    rows = steno_make_symbol(&m, "encoder_out_length");
    x = steno_make_input(&m, "feats", STENO_F32, 3, (int64_t[]){1, frames, e->in});
    n = STENO_NONE;
    x = recurrent(e) ? steno_espnet_recurrent_encoder(&m, x, e) : attentive(&m, x, a, &n);
    if (recurrent(e))
        n = steno_make_extent_of(&m, x, 1);
    steno_make_output(&m, x, "encoder_out", STENO_F32, 3, (int64_t[]){1, rows, e->d});
    steno_make_output(&m, n, "encoder_out_lens", STENO_I64, 1, (int64_t[]){1});
    return steno_make_write(&m, path, NULL);
}
