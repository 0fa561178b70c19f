/* A network that makes a vector of a stretch of one speaker's speech, alike for one speaker's
 * stretches: 3D-Speaker (CAM++, ERes2Net), WeSpeaker and NeMo (TitaNet, SpeakerNet) as sherpa-onnx
 * exports them, with metadata (github.com/k2-fsa/sherpa-onnx, scripts/3dspeaker, wespeaker, nemo).
 * Frozen; a steno_embedder is one session of it. */
#ifndef STENO_SPEAKERS_EMBEDDING_H
#define STENO_SPEAKERS_EMBEDDING_H

#include "speech/features/fbank.h"
#include "formats/onnx_head.h"
#include "nn/network/network.h"

struct steno_embedding {
    steno_network *net;
    int input, length, output; /* length: -1 if there is none */
    int rate;                  /* Hz */
    size_t dim;                /* of the vector */
    uint64_t tag;              /* hash of the file: vectors of one tag compare */
    struct steno_fbank_options fbank;
    bool mean;           /* features minus their mean over time */
    bool channels_first; /* [1, bins, frames]: NeMo, with mean 0 and deviation 1 for each bin, and
                            frames padded with zeros to a multiple of 16 */
};

/* Whether a file is such a network, by its metadata. */
bool steno_embedding_is(const steno_onnx_head *h);
/* Open one; noise is run through it. STENO_ERR_FORMAT names the metadata. e must be zeros, and is
 * closed after a failure too. */
STENO_MUST steno_status steno_embedding_open(struct steno_embedding *e, const char *path,
                                             steno_err *err);
void steno_embedding_close(struct steno_embedding *e);

typedef struct steno_embedder steno_embedder; /* confined */
/* threads: of the session. e must outlive it. */
STENO_MUST steno_status steno_embedder_open(steno_embedder **out, const struct steno_embedding *e,
                                            int threads, steno_err *err);
void steno_embedder_close(steno_embedder *m);
/* The vector of samples [n] at the network's rate, not of unit length: out [dim]. STENO_NEED_MORE:
 * too few samples for a frame, or the network gave no finite numbers. */
STENO_MUST steno_status steno_embedder_run(steno_embedder *m, const float *samples, size_t n,
                                           float *out, steno_err *err);

#endif
