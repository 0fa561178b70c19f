/* SenseVoice's network as a graph, with the inputs and the output of sherpa-onnx's export, for
 * files that have weights alone. */
#ifndef STENO_FAMILIES_FUNASR_BUILD_H
#define STENO_FAMILIES_FUNASR_BUILD_H

#include "nn/build/make.h"

struct steno_sense_voice_arch {
    int64_t in, d, heads, ff, kernel; /* in: columns of an input frame; kernel: of the memory */
    int64_t blocks, behind;           /* of the encoder; those behind its norm, "tp" */
    int64_t queries, vocab;           /* rows of the embedding; pieces, the blank is the first */
    bool flat;                        /* all blocks count as encoder.blocks.N */
    bool apart;                       /* queries, keys and values have a matrix each */
};

/* Make the network. Weights have FunASR's names. Errors of steno_make_begin; missing and
 * contradicting weights are STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_sense_voice_build(const struct steno_sense_voice_arch *a,
                                                const struct steno_make_weights *w,
                                                struct steno_graph **out, steno_err *err);

#endif
