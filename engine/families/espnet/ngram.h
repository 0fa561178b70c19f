/* The n-gram model of an espnet_onnx directory as a scorer, as ESPnet's NgramFullScorer and
 * NgramPartScorer (espnet/nets/scorers/ngram.py): log10 values times the weight, "<eos>" is </s>,
 * and of the tokens of espnet2 "<sos/eos>" is an unknown word. */
#ifndef STENO_FAMILIES_ESPNET_NGRAM_H
#define STENO_FAMILIES_ESPNET_NGRAM_H

#include "families/espnet/net.h"

/* e->ngram, e->ngram_map. Nothing in the compat mode: espnet_onnx 0.2.1 makes no such scorer. */
STENO_MUST steno_status steno_espnet_open_ngram(struct steno_espnet *e, steno_err *err);
struct steno_joint_scorer steno_espnet_ngram_scorer(const struct steno_espnet *e);

#endif
