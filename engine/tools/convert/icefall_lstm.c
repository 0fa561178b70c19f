/* lstm_transducer_stateless/lstm.py and scaling.py of icefall: a streaming encoder of LSTM layers
 * with scaled weights (steno_make_weights.scaled), in the layout of export-onnx-zh.py: one output
 * frame in each call. */
#include "tools/convert/icefall_parts.h"

#include <stdlib.h>
#include <string.h>

#define CALL_FRAMES 9 /* feature frames of a call; the next call begins 4 later */
#define BANDS (((STENO_ICEFALL_BINS - 3) / 2 - 1) / 2)

/* ---- embedding ----------------------------------------------------------------------------- */

/* [N, 9, bins] -> [N, d]. */
static steno_value_id embed_features(struct steno_make *m, const struct steno_icefall_arch *a,
                                     steno_value_id x)
{
    static const char *const names[] = {"conv.0", "conv.3", "conv.6"};
    const int64_t d = a->stack[0].d, wide = BANDS * a->conv[2];
    steno_make_at(m, "encoder.encoder_embed.");
    x = steno_make_unsqueeze(m, x, 1);
    for (int i = 0; i < 3; i++) {
        const struct steno_make_conv c = {.rank = 2,
                                          .in = i ? a->conv[i - 1] : 1,
                                          .out = a->conv[i],
                                          .kernel = 3,
                                          .stride = i ? 2 : 1,
                                          .bias = true};
        x = steno_icefall_double_swish(m, steno_make_convolve(m, x, names[i], &c));
    }
    x = steno_make_reshape(m, x, 2, (int64_t[]){-1, wide}); /* one frame: channels, then bands */
    x = steno_make_linear(m, x, "out", wide, d, true);
    return steno_icefall_basic_norm(m, x, "out_norm");
}

/* ---- layers -------------------------------------------------------------------------------- */

/* Put x [rows, columns] transposed into to [columns, rows]. */
static void transpose_weights(const float *x, int64_t rows, int64_t columns, float *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[c * rows + r] = x[r * columns + c];
}

/* Both products of the gates as one: [d + hidden, 4 units]. */
static steno_value_id gate_weights(struct steno_make *m, int64_t d, int64_t hidden, int64_t gates)
{
    float *in = steno_make_read(m, "lstm.weight_ih_l0", 2, (int64_t[]){gates, d});
    float *back = steno_make_read(m, "lstm.weight_hh_l0", 2, (int64_t[]){gates, hidden});
    float *all = back ? malloc((size_t)((d + hidden) * gates) * sizeof *all) : NULL;
    steno_value_id v;
    if (all) {
        transpose_weights(in, gates, d, all);
        transpose_weights(back, gates, hidden, all + d * gates);
    }
    v = steno_make_floats(m, "", 2, (int64_t[]){d + hidden, gates}, all);
    free(in);
    free(back);
    free(all);
    return v;
}

static steno_value_id gate_biases(struct steno_make *m, int64_t gates)
{
    float *in = steno_make_read(m, "lstm.bias_ih_l0", 1, &gates);
    float *back = steno_make_read(m, "lstm.bias_hh_l0", 1, &gates);
    steno_value_id v;
    for (int64_t i = 0; back && i < gates; i++)
        in[i] += back[i];
    v = steno_make_floats(m, "", 1, &gates, in);
    free(in);
    free(back);
    return v;
}

static steno_value_id gate_product(struct steno_make *m, const char *gate, steno_value_id x,
                                   steno_value_id y)
{
    return steno_make_2(m, "Mul", steno_make_1(m, gate, x), y);
}

/* One step (Hochreiter and Schmidhuber 1997; the projection is Sak et al. 2014's). h [N, d],
 * c [N, units]: in and out. PyTorch's gates: input, forget, cell, output. */
static void lstm_step(struct steno_make *m, const struct steno_icefall_arch *a, steno_value_id x,
                      steno_value_id *h, steno_value_id *c)
{
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 1};
    const int64_t d = a->stack[0].d, units = a->units;
    steno_value_id gate[4], all;
    all =
        steno_make_2(m, "MatMul", steno_make_concat(m, 1, x, *h), gate_weights(m, d, d, 4 * units));
    all = steno_make_add(m, all, gate_biases(m, 4 * units));
    steno_make_outputs(m, "Split", 1, &all, 4, gate, 1, &axis);
    *c = steno_make_add(m, gate_product(m, "Sigmoid", gate[1], *c),
                        gate_product(m, "Sigmoid", gate[0], steno_make_1(m, "Tanh", gate[2])));
    *h = gate_product(m, "Sigmoid", gate[3], steno_make_1(m, "Tanh", *c));
    if (units != d) {
        float *w = steno_make_read(m, "lstm.weight_hr_l0", 2, (int64_t[]){d, units});
        float *turned = w ? malloc((size_t)(d * units) * sizeof *turned) : NULL;
        if (turned)
            transpose_weights(w, d, units, turned);
        *h = steno_make_2(m, "MatMul", *h,
                          steno_make_floats(m, "", 2, (int64_t[]){units, d}, turned));
        free(w);
        free(turned);
    }
}

static steno_value_id lstm_layer(struct steno_make *m, const struct steno_icefall_arch *a,
                                 steno_value_id x, steno_value_id *h, steno_value_id *c)
{
    const int64_t d = a->stack[0].d, hidden = a->stack[0].ff[0];
    steno_value_id y;
    lstm_step(m, a, x, h, c);
    x = steno_make_add(m, x, *h);
    y = steno_make_linear(m, x, "feed_forward.0", d, hidden, true);
    y = steno_make_linear(m, steno_icefall_double_swish(m, y), "feed_forward.4", hidden, d, true);
    return steno_icefall_basic_norm(m, steno_make_add(m, x, y), "norm_final");
}

/* ---- the network --------------------------------------------------------------------------- */

static void describe_lstm(struct steno_make *m, const struct steno_icefall_arch *a)
{
    steno_icefall_about(m, "lstm");
    steno_make_meta(m, "decode_chunk_len", "4");
    steno_make_meta(m, "T", "%d", CALL_FRAMES);
    steno_make_meta(m, "num_encoder_layers", "%lld", (long long)a->stack[0].layers);
    steno_make_meta(m, "d_model", "%lld", (long long)a->stack[0].d);
    steno_make_meta(m, "rnn_hidden_size", "%lld", (long long)a->units);
}

steno_status steno_icefall_write_lstm(const struct steno_icefall_arch *a,
                                      const struct steno_make_weights *w, const char *path,
                                      steno_err *err)
{
    const int64_t layers = a->stack[0].layers, d = a->stack[0].d;
    steno_value_id x, hidden, cells, h[STENO_ZIPFORMER_LAYERS], c[STENO_ZIPFORMER_LAYERS];
    struct steno_make m;
    int64_t batch;
    if (steno_make_begin(&m, w, 3, err))
        return m.st;
    m.asked = "the architecture";
    batch = steno_make_symbol(&m, "N");
    x = steno_make_input(&m, "x", STENO_F32, 3,
                         (int64_t[]){batch, CALL_FRAMES, STENO_ICEFALL_BINS});
    hidden = steno_make_input(&m, "state0", STENO_F32, 3, (int64_t[]){layers, batch, d});
    cells = steno_make_input(&m, "state1", STENO_F32, 3, (int64_t[]){layers, batch, a->units});
    x = embed_features(&m, a, x);
    for (int i = 0; i < layers && !m.st; i++) {
        steno_make_at(&m, "encoder.encoder.layers.%d.", i);
        h[i] = steno_icefall_layer_of(&m, hidden, i);
        c[i] = steno_icefall_layer_of(&m, cells, i);
        x = lstm_layer(&m, a, x, h + i, c + i);
    }
    if (m.st)
        return steno_make_write(&m, path, NULL);
    steno_make_at(&m, "%s", "");
    x = steno_make_linear(&m, x, "joiner.encoder_proj", d, a->joiner, true);
    steno_make_output(&m, steno_make_unsqueeze(&m, x, 1), "encoder_out", STENO_F32, 3,
                      (int64_t[]){batch, 1, a->joiner});
    steno_make_output(&m, steno_icefall_state_of(&m, layers, h), "new_state0", STENO_F32, 3,
                      (int64_t[]){layers, batch, d});
    steno_make_output(&m, steno_icefall_state_of(&m, layers, c), "new_state1", STENO_F32, 3,
                      (int64_t[]){layers, batch, a->units});
    describe_lstm(&m, a);
    return steno_make_write(&m, path, NULL);
}
