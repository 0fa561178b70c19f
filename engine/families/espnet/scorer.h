/* Scorers of the joint search on exported graphs: Transformer decoder and Transformer LM, which
 * take the outputs of their layers as caches. Confined. */
#ifndef STENO_FAMILIES_ESPNET_SCORER_H
#define STENO_FAMILIES_ESPNET_SCORER_H

#include "nn/network/network.h"

typedef struct steno_espnet_scorer steno_espnet_scorer;

enum steno_espnet_scorer_kind { STENO_ESPNET_SCORER_DECODER, STENO_ESPNET_SCORER_LM };

struct steno_espnet_scorer_options {
    enum steno_espnet_scorer_kind kind;
    int threads;
    int layers;
    int64_t dim; /* of a cache row */
    int32_t vocab;
    /* LM: show the first step's zero row to the layers, as espnet_onnx 0.2.1 does: every first
     * score is a little off. */
    bool first_row;
};

/* Check the graph's inputs and outputs: STENO_ERR_FORMAT names what is missing. name: for messages.
 */
STENO_MUST steno_status steno_espnet_scorer_open(steno_espnet_scorer **out, steno_network *net,
                                                 const struct steno_espnet_scorer_options *opt,
                                                 const char *name, steno_err *err);
void steno_espnet_scorer_close(steno_espnet_scorer *s);
/* Decoder: the utterance's encoder rows [n, dim], borrowed until the next utterance. */
void steno_espnet_scorer_set_memory(steno_espnet_scorer *s, const float *rows, size_t n,
                                    int64_t dim);
/* May all hypotheses share one copy of the rows, memory [1, n, dim]? Exported graphs ask for a copy
 * for each; where attention has become one node it reads keys and values of batch 1 for any number
 * of queries, and the rows are projected once per step. Found out by a step of two hypotheses both
 * ways; from then on it is done where both gave the same. */
STENO_MUST steno_status steno_espnet_scorer_try_sharing(steno_espnet_scorer *s,
                                                        const int32_t tokens[2], steno_err *err);
bool steno_espnet_scorer_shares(const steno_espnet_scorer *s);
/* As another scorer of the same network has found out. */
void steno_espnet_scorer_share(steno_espnet_scorer *s, bool on);
/* struct steno_joint_scorer's score; self is the steno_espnet_scorer. */
STENO_MUST steno_status steno_espnet_scorer_score(void *self, const int32_t *const *prefix,
                                                  size_t length, const int32_t *parent, size_t n,
                                                  float *out, steno_err *err);
size_t steno_espnet_scorer_bytes(const steno_espnet_scorer *s);

#endif
