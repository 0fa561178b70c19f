/* The recurrent parts of an espnet_onnx directory, whichever it has: RNN decoder, RNN language
 * model, transducer. What is frozen belongs to struct steno_espnet, the rest to a runner. */
#ifndef STENO_FAMILIES_ESPNET_RECURRENT_H
#define STENO_FAMILIES_ESPNET_RECURRENT_H

#include "families/espnet/net.h"
#include "families/espnet/transducer.h"

/* Of one runner; NULL where the model has none. Confined. */
struct steno_espnet_rnns {
    steno_espnet_rnn_decoder *decoder;
    steno_espnet_rnn *lm;
    steno_espnet_transducer *transducer;
};

/* Load the networks: e->decoder, e->before, e->lm, e->joint. */
STENO_MUST steno_status steno_espnet_rnns_load(struct steno_espnet *e, steno_err *err);
/* *r is to be closed in any case. */
STENO_MUST steno_status steno_espnet_rnns_open(struct steno_espnet_rnns *r, struct steno_espnet *e,
                                               steno_err *err);
void steno_espnet_rnns_close(struct steno_espnet_rnns *r);
size_t steno_espnet_rnns_bytes(const struct steno_espnet_rnns *r);

static inline bool steno_espnet_is_transducer(const struct steno_espnet *e)
{
    return e->conf.decoder_kind == STENO_ESPNET_TRANSDUCER;
}

/* Transducer: search rows [n, dim] with the model's own algorithm, or the best path alone. */
STENO_MUST steno_status steno_espnet_transduce(steno_espnet_runner *r,
                                               const struct steno_espnet_search *s,
                                               const float *rows, size_t n_rows, bool greedy,
                                               steno_transducer **result, steno_err *err);
/* The same for rows that come piece by piece, into a search of the caller's
 * (steno_transducer_close): made with the first of them, *t being NULL before. dim as of the model.
 */
STENO_MUST steno_status steno_espnet_transduce_push(steno_espnet_runner *r,
                                                    const struct steno_espnet_search *s,
                                                    const float *rows, size_t n_rows,
                                                    steno_transducer **t, steno_err *err);
/* There are no more: t's results are final. */
STENO_MUST steno_status steno_espnet_transduce_finish(steno_espnet_runner *r,
                                                      const struct steno_espnet_search *s,
                                                      steno_transducer *t, steno_err *err);

#endif
