/* The recurrent networks that an espnet_onnx directory may have: RNN decoder, RNN language model,
 * transducer. struct steno_espnet has the frozen parts, a runner the sessions. */
#ifndef STENO_FAMILIES_ESPNET_RECURRENT_H
#define STENO_FAMILIES_ESPNET_RECURRENT_H

#include "speech/families/espnet/net.h"
#include "speech/families/espnet/transducer.h"

/* The parts of one runner; NULL: the model has no such network. Confined. */
struct steno_espnet_rnns {
    steno_espnet_rnn_decoder *decoder;
    steno_espnet_rnn *lm;
    steno_espnet_transducer *transducer;
};

/* Load the networks e->decoder, e->predecoder, e->lm, e->joint, as far as the model has them.
 * Errors of steno_espnet_load. */
STENO_MUST steno_status steno_espnet_rnns_load(struct steno_espnet *e, steno_err *err);
/* Open the sessions of one runner. Close *r in any case. */
STENO_MUST steno_status steno_espnet_rnns_open(struct steno_espnet_rnns *r, struct steno_espnet *e,
                                               steno_err *err);
void steno_espnet_rnns_close(struct steno_espnet_rnns *r);
size_t steno_espnet_rnns_bytes(const struct steno_espnet_rnns *r);

static inline bool steno_espnet_is_transducer(const struct steno_espnet *e)
{
    return e->conf.decoder_kind == STENO_ESPNET_TRANSDUCER;
}

/* Search encoder frames rows [n_rows, dim] with the model's own algorithm, or greedily. *result
 * belongs to the runner. */
STENO_MUST steno_status steno_espnet_transduce(steno_espnet_runner *r,
                                               const struct steno_espnet_search *s,
                                               const float *rows, size_t n_rows, bool greedy,
                                               steno_transducer **result, steno_err *err);
/* Search the next encoder frames of an utterance. *t is the caller's search, to be closed with
 * steno_transducer_close; the first call, with *t NULL, opens it. */
STENO_MUST steno_status steno_espnet_transduce_push(steno_espnet_runner *r,
                                                    const struct steno_espnet_search *s,
                                                    const float *rows, size_t n_rows,
                                                    steno_transducer **t, steno_err *err);
/* End the utterance of t: its results are final. */
STENO_MUST steno_status steno_espnet_transduce_finish(steno_espnet_runner *r,
                                                      const struct steno_espnet_search *s,
                                                      steno_transducer *t, steno_err *err);

#endif
