/* Attention rescoring of U2 and U2++ (Zhang et al., "WeNet", 2021): the decoder of WeNet's runtime
 * scores the hypotheses of the CTC search at the end of an utterance, from left to right and from
 * right to left; the weighted sum orders them. */
#ifndef STENO_FAMILIES_WENET_RESCORING_H
#define STENO_FAMILIES_WENET_RESCORING_H

#include "speech/families/common/part.h"

struct steno_wenet_decoder {
    int64_t vocab, width; /* tokens; columns of the encoder's output */
    int64_t sos, eos;     /* ids of the begin and the end of a sentence */
    bool both;            /* it scores from right to left too */
};

struct steno_wenet_weights {
    double attention, ctc, reverse; /* reverse: share of right to left in attention */
};

/* Locked: sessions that no thread uses. */
typedef struct steno_wenet_rescorer steno_wenet_rescorer;

/* Open decoder.onnx of o->dir, and run it once. STENO_ERR_FORMAT names input or output, and what
 * was expected; errors of steno_part_file_open. */
STENO_MUST steno_status steno_wenet_rescorer_open(steno_wenet_rescorer **out,
                                                  const struct steno_family_open *o, bool int8,
                                                  const struct steno_wenet_decoder *d,
                                                  steno_err *err);
void steno_wenet_rescorer_close(steno_wenet_rescorer *r);
const char *steno_wenet_rescorer_file(const steno_wenet_rescorer *r);
size_t steno_wenet_rescorer_bytes(const steno_wenet_rescorer *r); /* of weights */

/* The finals of one stream: the encoder's output of its utterance, and the hypotheses in their new
 * order. Confined. */
struct steno_wenet_finals {
    steno_wenet_rescorer
        *rescorer; /* borrowed; NULL: the CTC search's hypotheses stay as they are */
    struct steno_wenet_weights weights;
    float *memory; /* [rows, width] */
    size_t rows, cap;
    struct steno_hypothesis h[STENO_MAX_BEAM]; /* [n], best first; n 0: not rescored */
    size_t n;
};

/* Append rows [n, width] of the encoder. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_wenet_finals_add(struct steno_wenet_finals *f, const float *rows,
                                               size_t n);
/* Copy h [n], whose spans are borrowed until the next search, and order them by
 *
 *     attention ((1 - reverse) left + reverse right) + ctc score
 *
 * over memory rows [0, rows - ahead): the last `ahead` belong to the next utterance. Nothing
 * changes (f->n 0) without rescorer or rows, or for an utterance of minutes that the decoder has no
 * positions for. Errors of the network. */
STENO_MUST steno_status steno_wenet_finals_rescore(struct steno_wenet_finals *f,
                                                   const struct steno_hypothesis *h, size_t n,
                                                   size_t ahead, steno_err *err);
/* Another utterance begins: keep the last `ahead` rows. */
void steno_wenet_finals_next(struct steno_wenet_finals *f, size_t ahead);
void steno_wenet_finals_free(struct steno_wenet_finals *f);

#endif
