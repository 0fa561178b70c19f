/* States of recurrent layers as inputs and outputs of a network, [layers, B, units]. */
#ifndef STENO_CONVERT_ESPNET_RECUR_H
#define STENO_CONVERT_ESPNET_RECUR_H

#include "tools/convert/make.h"

struct steno_espnet_state_names {
    const char *in[2], *out[2]; /* h; c of an LSTM */
};
#define STENO_ESPNET_RNN_LAYERS 64
struct steno_espnet_states {
    int n; /* 2: LSTM */
    int64_t layers, units, batch;
    int layer; /* the next one */
    steno_value_id in[2], out[2][STENO_ESPNET_RNN_LAYERS];
};

/* Declare the inputs. layers: at most STENO_ESPNET_RNN_LAYERS. */
void steno_espnet_states_begin(struct steno_espnet_states *s, struct steno_make *m,
                               const struct steno_espnet_state_names *names,
                               enum steno_make_cell cell, int64_t layers, int64_t units);
/* The next layer, with its part of the states. x [T, B, in], and weights, as for steno_make_recur.
 */
steno_value_id steno_espnet_states_layer(struct steno_espnet_states *s, struct steno_make *m,
                                         steno_value_id x, const char *name, const char *suffix,
                                         const struct steno_make_rnn *r);
/* Declare the outputs. */
void steno_espnet_states_end(const struct steno_espnet_states *s, struct steno_make *m,
                             const struct steno_espnet_state_names *names);

#endif
