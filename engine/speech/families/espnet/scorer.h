/* Scorers of the joint search for graphs as espnet_onnx exports them: a Transformer decoder or a
 * Transformer LM that takes whole prefixes, and the outputs of its layers as caches. Confined. */
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
    /* LM: give the layers a cache of one zero row in the first step, as espnet_onnx 0.2.1 does. All
     * scores of the first step then differ a little. */
    bool first_row;
};

/* Open a scorer on a network, which is borrowed. name: for messages, borrowed. STENO_ERR_FORMAT
 * names what the graph lacks. */
STENO_MUST steno_status steno_espnet_scorer_open(steno_espnet_scorer **out, steno_network *net,
                                                 const struct steno_espnet_scorer_options *opt,
                                                 const char *name, steno_err *err);
void steno_espnet_scorer_close(steno_espnet_scorer *s);
/* Decoder: set the encoder frames of the utterance, rows [n, dim], borrowed until the next one. */
void steno_espnet_scorer_set_memory(steno_espnet_scorer *s, const float *rows, size_t n,
                                    int64_t dim);
/* Try whether all hypotheses can share one copy of the encoder frames, memory [1, n, dim]. Exported
 * graphs want one copy per hypothesis. Where attention is fused into one node, it reads keys and
 * values of batch 1 for any number of queries, and the frames are projected once per step. The
 * trial is a step of two hypotheses in both ways; equal scores turn sharing on. */
STENO_MUST steno_status steno_espnet_scorer_try_sharing(steno_espnet_scorer *s,
                                                        const int32_t tokens[2], steno_err *err);
bool steno_espnet_scorer_shares(const steno_espnet_scorer *s);
/* Turn sharing on or off, as another scorer of the same network found out. */
void steno_espnet_scorer_share(steno_espnet_scorer *s, bool on);
/* `score` of struct steno_joint_scorer; self is a steno_espnet_scorer. */
STENO_MUST steno_status steno_espnet_scorer_score(void *self, const int32_t *const *prefix,
                                                  size_t length, const int32_t *parent, size_t n,
                                                  float *out, steno_err *err);
size_t steno_espnet_scorer_bytes(const steno_espnet_scorer *s);

#endif
