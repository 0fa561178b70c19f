#include "tools/convert/espnet_recur.h"

void steno_espnet_states_begin(struct steno_espnet_states *s, struct steno_make *m,
                               const struct steno_espnet_state_names *names,
                               enum steno_make_cell cell, int64_t layers, int64_t units)
{
    *s = (struct steno_espnet_states){.n = cell == STENO_MAKE_LSTM ? 2 : 1,
                                      .layers = layers,
                                      .units = units,
                                      .batch = steno_make_symbol(m, "state_batch")};
    for (int k = 0; k < s->n; k++)
        s->in[k] =
            steno_make_input(m, names->in[k], STENO_F32, 3, (int64_t[]){layers, s->batch, units});
}

steno_value_id steno_espnet_states_layer(struct steno_espnet_states *s, struct steno_make *m,
                                         steno_value_id x, const char *name, const char *suffix,
                                         const struct steno_make_rnn *r)
{
    const int i = s->layer++;
    steno_value_id part[2] = {STENO_NONE, STENO_NONE};
    struct steno_make_states start, end;
    for (int k = 0; k < s->n; k++)
        part[k] = s->layers == 1 ? s->in[k] : steno_make_slice(m, s->in[k], 0, i, i + 1);
    start = (struct steno_make_states){.h = part[0], .c = part[1]};
    x = steno_make_recur(m, x, name, suffix, r, &start, &end);
    s->out[0][i] = end.h;
    s->out[1][i] = end.c;
    return x;
}

void steno_espnet_states_end(const struct steno_espnet_states *s, struct steno_make *m,
                             const struct steno_espnet_state_names *names)
{
    for (int k = 0; k < s->n; k++)
        steno_make_output(
            m, s->layers == 1 ? s->out[k][0] : steno_make_join(m, 0, (int)s->layers, s->out[k]),
            names->out[k], STENO_F32, 3, (int64_t[]){s->layers, s->batch, s->units});
}
