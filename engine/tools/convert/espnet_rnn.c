/* espnet2/lm/seq_rnn_lm.py of ESPnet 202511. */
#include "tools/convert/espnet_graphs.h"
#include "tools/convert/espnet_recur.h"

#include <stdio.h>

steno_status steno_espnet_write_rnn_lm(const struct steno_espnet_arch *arch,
                                       const struct steno_make_weights *w, const char *path,
                                       steno_err *err)
{
    const struct steno_espnet_rnn *a = &arch->lm_rnn;
    static const int64_t turn[] = {1, 0, 2};
    static const struct steno_espnet_state_names names = {{"in_hidden1", "in_hidden2"},
                                                          {"out_hidden1", "out_hidden2"}};
    struct steno_make m;
    struct steno_espnet_states s;
    steno_value_id x;
    int64_t batch, length;
    if (steno_make_begin(&m, w, 3, err))
        return m.st;
    m.asked = "lm_conf";
    batch = steno_make_symbol(&m, "x_batch");
    length = steno_make_symbol(&m, "x_length");
    x = steno_make_input(&m, "x", STENO_I64, 2, (int64_t[]){batch, length});
    steno_espnet_states_begin(&s, &m, &names, a->cell, a->layers, a->units);
    steno_make_at(&m, "lm.");
    x = steno_make_embed(&m, x, "encoder.weight", arch->vocab, a->embed);
    x = steno_make_transpose(&m, x, 3, turn);
    for (int i = 0; i < a->layers && !m.st; i++) {
        const struct steno_make_rnn r = {
            .cell = a->cell, .in = i ? a->units : a->embed, .units = a->units};
        char suffix[16];
        snprintf(suffix, sizeof suffix, "_l%d", i);
        x = steno_espnet_states_layer(&s, &m, x, "rnn", suffix, &r);
    }
    x = steno_make_linear(&m, steno_make_transpose(&m, x, 3, turn), "decoder", a->units,
                          arch->vocab, true);
    steno_make_output(&m, x, "y", STENO_F32, 3, (int64_t[]){batch, length, arch->vocab});
    steno_espnet_states_end(&s, &m, &names);
    return steno_make_write(&m, path, NULL);
}
