/* Times of tokens: the likeliest CTC alignment of given tokens to scores (Viterbi over blank, t1,
 * blank, t2, ... blank: Graves et al. 2006; with free ends as in Kürzinger et al.,
 * "CTC-Segmentation of Large Corpora", 2020). A token may be a wildcard, for characters that the
 * model has no token for. Confined. docs/align.md has the definitions. */
#ifndef STENO_SEARCH_ALIGN_H
#define STENO_SEARCH_ALIGN_H

#include "speech/search/ctc.h"

#define STENO_ALIGN_ANY (-1) /* a wildcard among the tokens */
/* Log-probability that a frame with speech costs before the first token or behind the last one,
 * beside that of its best symbol. */
#define STENO_ALIGN_UNSPOKEN 2.0

struct steno_align_options {
    int32_t vocab, blank;
    int32_t delimiter;     /* may stand wherever a blank may between words; -1: none */
    const int32_t *tokens; /* [n] without blanks; borrowed until the end */
    const bool *begins;    /* [n] the token begins a word; NULL: no delimiters. Likewise */
    size_t n;
    bool open_ends; /* the audio may begin before the first token and go on behind the last one */
    double beam;    /* paths this far (log) below the best one are dropped; 0: none are */
    /* Bytes of the record of paths; 0: no limit. Of a full one the older half of the best path is
     * taken, and the paths that differ from it there are dropped. */
    size_t record_bytes;
    int64_t first; /* number of the first frame */
};

/* Memory, kept between calls; zero-initialised. The fields are align.c's. */
struct steno_align {
    struct steno_align_options o;
    double *now, *next; /* [2 n + 1] scores of the states; those in [low, high) are valid */
    double *states;     /* [cap_states] memory of both */
    size_t cap_states, low, high;
    struct steno_align_frame *frames; /* [n_frames, cap_frames] what the record has */
    size_t n_frames, cap_frames;
    uint32_t *cells; /* [n_cells, cap_cells] */
    size_t n_cells, cap_cells;
    int64_t taken;            /* frames so far */
    struct steno_span *spans; /* [n] */
    size_t cap_spans;
};

/* Begin an alignment. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_align_begin(struct steno_align *a,
                                          const struct steno_align_options *o);
/* Take scores x [frames, vocab], log-probabilities; NULL: frames in which nobody speaks.
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_align_push(struct steno_align *a, const float *x, size_t frames);
/* The tokens' frames, [n], valid until the next call; peak is the highest log-probability in them.
 * first is -1 for those that the audio ends before. */
const struct steno_span *steno_align_end(struct steno_align *a);

/* Align tokens [n] to all of x [frames, vocab], whose ends belong to them. *spans: as of end. If
 * the tokens do not fit into the frames (each needs one, a repeated one two), they are spread
 * evenly. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_align_run(struct steno_align *a, const float *x, size_t frames,
                                        int32_t vocab, int32_t blank, const int32_t *tokens,
                                        size_t n, const struct steno_span **spans);
void steno_align_free(struct steno_align *a);

#endif
