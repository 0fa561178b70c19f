/* Prediction network and joiner of a transducer whose prediction network is stateless. */
#ifndef STENO_FAMILIES_ICEFALL_NETS_H
#define STENO_FAMILIES_ICEFALL_NETS_H

#include "nn/network/network.h"
#include "speech/search/stateless.h"

/* How the networks' inputs and outputs are used. Frozen. The networks are borrowed. */
struct steno_icefall_nets {
    steno_network *decoder, *joiner;
    int y, decoder_out;                     /* of the prediction network */
    int enc, dec, logit;                    /* of the joiner */
    int context;                            /* tokens that the prediction network sees */
    int64_t width, vocab;                   /* values of an encoder frame; logits of a pair */
    const char *decoder_name, *joiner_name; /* for messages; borrowed */
    /* The prediction network rounds over the range of all contexts of a run: its outputs are not
     * kept for later runs. */
    bool rounds_together;
};

/* Match the graphs: decoder y [N, context] i64 -> decoder_out [N, width] f32; joiner encoder_out
 * and decoder_out [N, width] f32 -> logit [N, vocab] f32. The caller has set the networks and
 * names. STENO_ERR_FORMAT names what differs. */
STENO_MUST steno_status steno_icefall_nets_bind(struct steno_icefall_nets *n, steno_err *err);

/* Sessions, buffers, and the prediction network's outputs of contexts that occurred lately.
 * Confined: one for each worker. */
typedef struct steno_icefall_scorer steno_icefall_scorer;

STENO_MUST steno_status steno_icefall_scorer_open(steno_icefall_scorer **out,
                                                  const struct steno_icefall_nets *nets,
                                                  int threads, steno_err *err);
void steno_icefall_scorer_close(steno_icefall_scorer *s);

#define STENO_ICEFALL_ROWS 128 /* pairs of one run of the joiner */

/* Logits of n pairs of an encoder frame enc[i] [width] and a context[i] [context] of tokens.
 * *logits: [n, vocab], valid until the next call. n <= STENO_ICEFALL_ROWS. Results of a pair do not
 * depend on the others. */
STENO_MUST steno_status steno_icefall_score(steno_icefall_scorer *s, const float *const *enc,
                                            const int32_t *const *context, size_t n, float **logits,
                                            steno_err *err);

#endif
