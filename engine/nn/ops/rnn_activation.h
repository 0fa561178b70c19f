/* Activation functions of LSTM, GRU and RNN: attributes activations, activation_alpha and
 * activation_beta. */
#ifndef STENO_NN_OPS_RNN_ACTIVATION_H
#define STENO_NN_OPS_RNN_ACTIVATION_H

#include "nn/ops/internal.h"

enum steno_rnn_act {
    STENO_RNN_SIGMOID,
    STENO_RNN_TANH,
    STENO_RNN_RELU,
    STENO_RNN_AFFINE,
    STENO_RNN_LEAKY_RELU,
    STENO_RNN_THRESHOLDED_RELU,
    STENO_RNN_SCALED_TANH,
    STENO_RNN_HARD_SIGMOID,
    STENO_RNN_ELU,
    STENO_RNN_SOFTSIGN,
    STENO_RNN_SOFTPLUS,
    STENO_RNN_COUNT
};

struct steno_rnn_activation {
    enum steno_rnn_act kind;
    float alpha, beta;
};

/* Read those of a node: `each` (1 to 3) for each of `dirs` (1 or 2) directions. Without the
 * attribute: Sigmoid, then Tanh; one alone is Tanh. STENO_ERR_FORMAT: another number of them;
 * STENO_ERR_UNSUPPORTED: an unknown name. */
STENO_MUST steno_status steno_rnn_activations_read(const struct steno_node *n, size_t dirs,
                                                   size_t each,
                                                   struct steno_rnn_activation out[][3],
                                                   steno_err *err);
/* x = act(x), n elements. */
void steno_rnn_activate(const steno_kernels *k, const struct steno_rnn_activation *a, float *x,
                        size_t n);

#endif
