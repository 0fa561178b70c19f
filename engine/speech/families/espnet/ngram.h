/* The n-gram model of an espnet_onnx directory as a scorer, like ESPnet's NgramFullScorer and
 * NgramPartScorer (espnet/nets/scorers/ngram.py): log10 values times the weight. "<eos>" is </s>;
 * "<sos/eos>", a token of espnet2, is an unknown word. */
#ifndef STENO_FAMILIES_ESPNET_NGRAM_H
#define STENO_FAMILIES_ESPNET_NGRAM_H

#include "speech/families/espnet/net.h"

/* Open e->ngram and e->ngram_map. In the compat mode they stay NULL: espnet_onnx 0.2.1 has no such
 * scorer. STENO_ERR_UNSUPPORTED: the model is a transducer; errors of steno_ngram_open. */
STENO_MUST steno_status steno_espnet_open_ngram(struct steno_espnet *e, steno_err *err);
struct steno_joint_scorer steno_espnet_ngram_scorer(const struct steno_espnet *e);

#endif
