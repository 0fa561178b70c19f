/* espnet2/asr/decoder/transducer_decoder.py, asr_transducer/joint_network.py of ESPnet 202511. */
#include "tools/convert/espnet_graphs.h"
#include "tools/convert/espnet_recur.h"

#include <stdio.h>
#include <string.h>

steno_status steno_espnet_write_prediction(const struct steno_espnet_arch *arch,
                                           const struct steno_make_weights *w, const char *path,
                                           steno_err *err)
{
    static const int64_t turn[] = {1, 0, 2};
    static const struct steno_espnet_state_names names = {{"h_cache", "c_cache"},
                                                          {"out_h_cache", "out_c_cache_"}};
    const struct steno_espnet_rnn *a = &arch->dec_rnn;
    const struct steno_make_rnn r = {.cell = a->cell, .in = a->units, .units = a->units};
    struct steno_make m;
    struct steno_espnet_states s;
    steno_value_id x;
    int64_t batch, length;
    if (steno_make_begin(&m, w, 3, err))
        return m.st;
    m.asked = "decoder_conf";
    batch = steno_make_symbol(&m, "labels_batch");
    length = steno_make_symbol(&m, "labels_length");
    x = steno_make_input(&m, "labels", STENO_I64, 2, (int64_t[]){batch, length});
    steno_espnet_states_begin(&s, &m, &names, a->cell, a->layers, a->units);
    steno_make_at(&m, "decoder.");
    x = steno_make_embed(&m, x, "embed.weight", arch->vocab, a->units);
    x = steno_make_transpose(&m, x, 3, turn);
    for (int i = 0; i < a->layers && !m.st; i++) {
        char name[32];
        snprintf(name, sizeof name, "decoder.%d", i);
        x = steno_espnet_states_layer(&s, &m, x, name, "_l0", &r);
    }
    x = steno_make_transpose(&m, x, 3, turn);
    steno_make_output(&m, x, "sequence", STENO_F32, 3, (int64_t[]){batch, length, a->units});
    steno_espnet_states_end(&s, &m, &names);
    return steno_make_write(&m, path, NULL);
}

static steno_value_id activate(struct steno_make *m, steno_value_id x, const char *name)
{
    if (!strcmp(name, "identity"))
        return x;
    if (!strcmp(name, "selu"))
        return steno_make_1(m, "Selu", x);
    if (!strcmp(name, "leaky_relu"))
        return steno_make_1(m, "LeakyRelu", x); /* slope 0.01, as in PyTorch */
    return steno_make_activation(m, x, name);
}

steno_status steno_espnet_write_joint(const struct steno_espnet_arch *a,
                                      const struct steno_make_weights *w, const char *path,
                                      steno_err *err)
{
    const int64_t d = a->d, u = a->dec_rnn.units, n = a->joint_space;
    struct steno_make m;
    steno_value_id enc, dec, x;
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "joint_net_conf";
    enc = steno_make_input(&m, "enc_out", STENO_F32, 1, &d);
    dec = steno_make_input(&m, "dec_out", STENO_F32, 1, &u);
    steno_make_at(&m, "joint_network.");
    enc = steno_make_linear(&m, enc, "lin_enc", d, n, true);
    dec = steno_make_linear(&m, dec, "lin_dec", u, n, a->joint_bias);
    x = activate(&m, steno_make_add(&m, enc, dec), a->joint_activation);
    x = steno_make_linear(&m, x, "lin_out", n, a->vocab, true);
    steno_make_output(&m, x, "joint_out", STENO_F32, 1, &a->vocab);
    return steno_make_write(&m, path, NULL);
}
