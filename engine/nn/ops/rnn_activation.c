#include "nn/ops/rnn_activation.h"

#include <strings.h>

static const struct {
    const char *name;
    bool takes_alpha, takes_beta;
    float alpha, beta; /* defaults of the operator with this name */
} acts[STENO_RNN_COUNT] = {
    [STENO_RNN_SIGMOID] = {"Sigmoid", false, false, 0, 0},
    [STENO_RNN_TANH] = {"Tanh", false, false, 0, 0},
    [STENO_RNN_RELU] = {"Relu", false, false, 0, 0},
    [STENO_RNN_AFFINE] = {"Affine", true, true, 1, 0},
    [STENO_RNN_LEAKY_RELU] = {"LeakyRelu", true, false, 0.01f, 0},
    [STENO_RNN_THRESHOLDED_RELU] = {"ThresholdedRelu", true, false, 1, 0},
    [STENO_RNN_SCALED_TANH] = {"ScaledTanh", true, true, 1, 1},
    [STENO_RNN_HARD_SIGMOID] = {"HardSigmoid", true, true, 0.2f, 0.5f},
    [STENO_RNN_ELU] = {"Elu", true, false, 1, 0},
    [STENO_RNN_SOFTSIGN] = {"Softsign", false, false, 0, 0},
    [STENO_RNN_SOFTPLUS] = {"Softplus", false, false, 0, 0},
};

steno_status steno_rnn_activations_read(const struct steno_node *n, size_t dirs, size_t each,
                                        struct steno_rnn_activation out[][3], steno_err *err)
{
    const struct steno_attr *names = steno_node_attr(n, "activations");
    const struct steno_attr *alpha = steno_node_attr(n, "activation_alpha");
    const struct steno_attr *beta = steno_node_attr(n, "activation_beta");
    const bool named = names && names->kind == STENO_ATTR_STRINGS;
    size_t ia = 0, ib = 0;
    if (named && names->n != each * dirs)
        return steno_fail(err, STENO_ERR_FORMAT, "node '%s': %zu activations, expected %zu",
                          n->name, names->n, each * dirs);
    for (size_t i = 0; i < each * dirs; i++) {
        struct steno_rnn_activation *a = &out[i / each][i % each];
        a->kind = each > 1 && i % each == 0 ? STENO_RNN_SIGMOID : STENO_RNN_TANH;
        if (named) {
            int k = 0;
            while (k < STENO_RNN_COUNT && strcasecmp(acts[k].name, names->strings[i]))
                k++;
            if (k == STENO_RNN_COUNT)
                return steno_fail(err, STENO_ERR_UNSUPPORTED, "node '%s': activation '%s'", n->name,
                                  names->strings[i]);
            a->kind = (enum steno_rnn_act)k;
        }
        a->alpha = acts[a->kind].alpha;
        a->beta = acts[a->kind].beta;
        /* the functions that take a value get the values in order */
        if (acts[a->kind].takes_alpha && alpha && alpha->kind == STENO_ATTR_FLOATS && ia < alpha->n)
            a->alpha = alpha->floats[ia++];
        if (acts[a->kind].takes_beta && beta && beta->kind == STENO_ATTR_FLOATS && ib < beta->n)
            a->beta = beta->floats[ib++];
    }
    return STENO_OK;
}

void steno_rnn_activate(const steno_kernels *k, const struct steno_rnn_activation *a, float *x,
                        size_t n)
{
    switch (a->kind) {
    case STENO_RNN_SIGMOID:
        k->sigmoid_f32(x, x, n);
        return;
    case STENO_RNN_TANH:
        k->tanh_f32(x, x, n);
        return;
    case STENO_RNN_RELU:
        k->relu_f32(x, x, n);
        return;
    case STENO_RNN_AFFINE:
        k->affine_f32(x, x, n, a->alpha, a->beta);
        return;
    case STENO_RNN_LEAKY_RELU:
        k->leaky_relu_f32(x, x, n, a->alpha, 0);
        return;
    case STENO_RNN_THRESHOLDED_RELU:
        k->thresholded_relu_f32(x, x, n, a->alpha, 0);
        return;
    case STENO_RNN_SCALED_TANH:
        k->affine_f32(x, x, n, a->beta, 0);
        k->tanh_f32(x, x, n);
        k->affine_f32(x, x, n, a->alpha, 0);
        return;
    case STENO_RNN_HARD_SIGMOID:
        k->hard_sigmoid_f32(x, x, n, a->alpha, a->beta);
        return;
    case STENO_RNN_ELU:
        k->elu_f32(x, x, n, a->alpha, 1);
        return;
    case STENO_RNN_SOFTSIGN:
        k->softsign_f32(x, x, n);
        return;
    case STENO_RNN_SOFTPLUS:
        k->softplus_f32(x, x, n);
        return;
    case STENO_RNN_COUNT:
        return;
    }
}
