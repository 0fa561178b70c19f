/* espnet2/asr/encoder/{rnn,vgg_rnn}_encoder.py of ESPnet 202511 (espnet/nets/pytorch_backend/rnn/
 * encoders.py) for one whole utterance. */
#include "tools/convert/espnet_encoder.h"

#include <stdio.h>

/* Two pairs of convolutions, each followed by the maxima of squares of 2 x 2; the last square of an
 * odd extent is cut. [1,T,in] -> [1,T/4,*width]. */
static steno_value_id vgg(struct steno_make *m, steno_value_id x, int64_t in, int64_t *width)
{
    static const int64_t turn[] = {0, 2, 1, 3}, two[] = {2, 2};
    static const char *const names[] = {"conv1_1", "conv1_2", "conv2_1", "conv2_2"};
    static const int64_t channels[] = {1, 64, 64, 128, 128};
    const struct steno_attr pool[] = {
        {.name = "kernel_shape", .kind = STENO_ATTR_INTS, .n = 2, .ints = two},
        {.name = "strides", .kind = STENO_ATTR_INTS, .n = 2, .ints = two},
        {.name = "ceil_mode", .kind = STENO_ATTR_INT, .i = 1}};
    x = steno_make_unsqueeze(m, x, 1);
    for (int i = 0; i < 4; i++) {
        const struct steno_make_conv c = {.rank = 2,
                                          .in = channels[i],
                                          .out = channels[i + 1],
                                          .kernel = 3,
                                          .stride = 1,
                                          .pad = 1,
                                          .bias = true};
        x = steno_make_1(m, "Relu", steno_make_convolve(m, x, names[i], &c));
        if (i % 2) {
            x = steno_make_node(m, "MaxPool", 1, &x, 3, pool);
            in = (in + 1) / 2;
        }
    }
    *width = channels[4] * in;
    return steno_make_reshape(m, steno_make_transpose(m, x, 4, turn), 3,
                              (int64_t[]){1, -1, *width});
}

/* Rows 0, 2, 4, ... of x [1,T,n]. */
static steno_value_id every_second(struct steno_make *m, steno_value_id x)
{
    const int64_t from = 0, to = INT64_MAX, axis = 1, step = 2;
    const steno_value_id in[] = {x, steno_make_ints(m, 1, &from), steno_make_ints(m, 1, &to),
                                 steno_make_ints(m, 1, &axis), steno_make_ints(m, 1, &step)};
    return steno_make_node(m, "Slice", 5, in, 0, NULL);
}

/* One layer of x [1,T,in]. */
static steno_value_id recur(struct steno_make *m, const struct steno_espnet_encoder *e,
                            steno_value_id x, const char *name, const char *suffix, int64_t in)
{
    static const int64_t turn[] = {1, 0, 2};
    const struct steno_make_rnn r = {
        .cell = e->cell, .in = in, .units = e->units, .both = e->both_ways};
    x = steno_make_recur(m, steno_make_transpose(m, x, 3, turn), name, suffix, &r, NULL, NULL);
    return steno_make_transpose(m, x, 3, turn);
}

steno_value_id steno_espnet_recurrent_encoder(struct steno_make *m, steno_value_id x,
                                              const struct steno_espnet_encoder *e)
{
    const int64_t out = e->both_ways ? 2 * e->units : e->units;
    const char *const prefix =
        e->kind == STENO_ESPNET_VGG_RNN ? "encoder.enc.1." : "encoder.enc.0.";
    int64_t in = e->in;
    char name[40], suffix[40];
    if (e->kind == STENO_ESPNET_VGG_RNN) {
        steno_make_at(m, "encoder.enc.0.");
        x = vgg(m, x, in, &in);
    }
    steno_make_at(m, "%s", prefix);
    for (int64_t i = 0; i < e->blocks && !m->st; i++) {
        snprintf(name, sizeof name, "%s%d", e->both_ways ? "birnn" : "rnn", (int)i);
        snprintf(suffix, sizeof suffix, "_l%d", (int)i);
        x = e->projected ? recur(m, e, x, name, "_l0", in) : recur(m, e, x, "nbrnn", suffix, in);
        in = out;
        if (!e->projected)
            continue;
        if (e->halved[i])
            x = every_second(m, x);
        snprintf(name, sizeof name, "bt%d", (int)i);
        x = steno_make_linear(m, x, name, out, e->d, true);
        in = e->d;
        if (i + 1 < e->blocks)
            x = steno_make_1(m, "Tanh", x);
    }
    snprintf(name, sizeof name, "bt%d.weight", (int)e->blocks);
    snprintf(suffix, sizeof suffix, "nbrnn.weight_ih_l%d", (int)e->blocks);
    if (!m->st && steno_make_has(m, e->projected ? name : suffix))
        m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                           "%s: more than the %lld layers of encoder_conf.num_layers", m->w.file,
                           (long long)e->blocks);
    return e->projected
               ? x
               : steno_make_1(m, "Tanh", steno_make_linear(m, x, "l_last", out, e->d, true));
}
