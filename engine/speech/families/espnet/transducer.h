/* A transducer as espnet_onnx exports it, for search/rnnt.h: a prediction network (LSTM or GRU, one
 * token per step), a joint network, and optionally an RNN language model. Confined. */
#ifndef STENO_FAMILIES_ESPNET_TRANSDUCER_H
#define STENO_FAMILIES_ESPNET_TRANSDUCER_H

#include "speech/search/rnnt.h"
#include "speech/families/espnet/rnn.h"

typedef struct steno_espnet_transducer steno_espnet_transducer;

struct steno_espnet_transducer_options {
    int threads;
    int32_t vocab;
    struct steno_espnet_rnn_options prediction;
    const char *prediction_name, *joint_name; /* for messages */
    steno_espnet_rnn *lm;                     /* borrowed; NULL: none */
};

/* Open a transducer on two networks, which are borrowed. STENO_ERR_FORMAT: their inputs or outputs
 * are not those of espnet_onnx. */
STENO_MUST steno_status steno_espnet_transducer_open(
    steno_espnet_transducer **out, steno_network *prediction, steno_network *joint,
    const struct steno_espnet_transducer_options *opt, steno_err *err);
void steno_espnet_transducer_close(steno_espnet_transducer *t);
/* Search the encoder frames rows [n, dim] of one utterance. search: its vocab and blank are the
 * model's. *result belongs to t and is valid until the next call. */
STENO_MUST steno_status steno_espnet_transducer_run(steno_espnet_transducer *t,
                                                    const struct steno_transducer_options *search,
                                                    const float *rows, size_t n, size_t dim,
                                                    steno_transducer **result, steno_err *err);
/* The networks of t as steno_transducer_push takes them, for encoder frames of `dim` values. lm:
 * with the language model. */
STENO_MUST steno_status steno_espnet_transducer_nets(steno_espnet_transducer *t, size_t dim,
                                                     bool lm, struct steno_transducer_nets *out,
                                                     steno_err *err);
size_t steno_espnet_transducer_bytes(const steno_espnet_transducer *t);

#endif
