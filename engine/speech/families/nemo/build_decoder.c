/* nemo/collections/asr/modules/rnnt.py of NeMo 3.0.0: the prediction network and the joint network
 * of its transducers, as sherpa-onnx has them. Inputs and outputs are bound by their positions. */
#include "speech/families/nemo/build.h"

#include <stdio.h>

#define MAX_LAYERS 64

static steno_value_id transpose3(struct steno_make *m, steno_value_id x, int64_t a, int64_t b,
                                 int64_t c)
{
    return steno_make_transpose(m, x, 3, (int64_t[]){a, b, c});
}

static steno_value_id append_state(struct steno_make *m, steno_value_id all, steno_value_id x)
{
    return all == STENO_NONE ? x : steno_make_concat(m, 0, all, x);
}

steno_status steno_nemo_build_decoder(const struct steno_nemo_arch *a,
                                      const struct steno_make_weights *w, struct steno_graph **out,
                                      steno_err *err)
{
    const struct steno_make_rnn lstm = {.cell = STENO_MAKE_LSTM, .in = a->pred, .units = a->pred};
    struct steno_make_states all = {STENO_NONE, STENO_NONE}, start, end;
    struct steno_make m;
    steno_value_id x, tokens, length, h, c;
    int64_t batch, count, states[3];
    if (a->pred_layers > MAX_LAYERS)
        return steno_fail(err, STENO_ERR_LIMIT, "decoder.prednet.pred_rnn_layers: more than %d",
                          MAX_LAYERS);
    if (steno_make_begin(&m, w, 4, err))
        return m.st;
    m.asked = "decoder.prednet";
    batch = steno_make_symbol(&m, "batch");
    count = steno_make_symbol(&m, "count");
    states[0] = a->pred_layers;
    states[1] = batch;
    states[2] = a->pred;
    tokens = steno_make_input(&m, "targets", STENO_I32, 2, (int64_t[]){batch, count});
    length = steno_make_input(&m, "target_length", STENO_I32, 1, &batch);
    h = steno_make_input(&m, "input_states_1", STENO_F32, 3, states);
    c = steno_make_input(&m, "input_states_2", STENO_F32, 3, states);
    steno_make_at(&m, "decoder.prediction.");
    x = steno_make_embed(&m, tokens, "embed.weight", a->vocab + 1, a->pred);
    x = transpose3(&m, x, 1, 0, 2);
    for (int i = 0; i < a->pred_layers && !m.st; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "_l%d", i);
        start.h = steno_make_slice(&m, h, 0, i, i + 1);
        start.c = steno_make_slice(&m, c, 0, i, i + 1);
        x = steno_make_recur(&m, x, "dec_rnn.lstm", suffix, &lstm, &start, &end);
        all.h = append_state(&m, all.h, end.h);
        all.c = append_state(&m, all.c, end.c);
    }
    x = transpose3(&m, x, 1, 2, 0);
    steno_make_output(&m, x, "outputs", STENO_F32, 3, (int64_t[]){batch, a->pred, count});
    steno_make_output(&m, steno_make_1(&m, "Identity", length), "prednet_lengths", STENO_I32, 1,
                      &batch);
    steno_make_output(&m, all.h, "output_states_1", STENO_F32, 3, states);
    steno_make_output(&m, all.c, "output_states_2", STENO_F32, 3, states);
    return steno_make_take(&m, out);
}

static steno_value_id nemo_joint_activation(struct steno_make *m, steno_value_id x,
                                            const char *name)
{
    return *name == 's' ? steno_make_1(m, "Sigmoid", x) : steno_make_activation(m, x, name);
}

/* The scores are as the last layer has them, without a softmax, as in NeMo's own exports. */
steno_status steno_nemo_build_joiner(const struct steno_nemo_arch *a,
                                     const struct steno_make_weights *w, struct steno_graph **out,
                                     steno_err *err)
{
    const int64_t scores = a->vocab + 1 + a->durations;
    struct steno_make m;
    steno_value_id x, y;
    int64_t batch, frames, count;
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "joint.jointnet";
    batch = steno_make_symbol(&m, "batch");
    frames = steno_make_symbol(&m, "frames");
    count = steno_make_symbol(&m, "count");
    x = steno_make_input(&m, "encoder_outputs", STENO_F32, 3, (int64_t[]){batch, a->out, frames});
    y = steno_make_input(&m, "decoder_outputs", STENO_F32, 3, (int64_t[]){batch, a->pred, count});
    steno_make_at(&m, "joint.");
    x = steno_make_linear(&m, transpose3(&m, x, 0, 2, 1), "enc", a->out, a->joint, true);
    y = steno_make_linear(&m, transpose3(&m, y, 0, 2, 1), "pred", a->pred, a->joint, true);
    x = steno_make_add(&m, steno_make_unsqueeze(&m, x, 2), steno_make_unsqueeze(&m, y, 1));
    x = nemo_joint_activation(&m, x, a->joint_activation);
    /* a dropout stands between the two layers, if there is one */
    x = steno_make_linear(&m, x,
                          steno_make_has(&m, "joint_net.1.weight") ? "joint_net.1" : "joint_net.2",
                          a->joint, scores, true);
    steno_make_output(&m, x, "outputs", STENO_F32, 4, (int64_t[]){batch, frames, count, scores});
    return steno_make_take(&m, out);
}
