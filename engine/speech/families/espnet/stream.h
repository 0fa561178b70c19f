/* The family's state of one stream, shared by these files: stream.c (opening, accepted audio),
 * segment.c (a segment through features, encoder and CTC), steps.c (steps of several streams),
 * result.c (searches to hypotheses). Confined. */
#ifndef STENO_FAMILIES_ESPNET_STREAM_H
#define STENO_FAMILIES_ESPNET_STREAM_H

#include "speech/families/common/hypotheses.h"
#include "speech/families/espnet/block.h"
#include "speech/families/espnet/internal.h"
#include "speech/families/espnet/recurrent.h"
#include "speech/search/align.h"

struct steno_espnet_stream {
    struct steno_espnet_model *model;
    struct steno_espnet *net; /* the model's */
    struct steno_espnet_search search;
    bool whole; /* a recording is one segment, also if it is very short */
    /* contextual blocks */
    struct steno_espnet_state state;
    steno_fbank *fbank;
    float *feats; /* [cap_feats, bins] normalized feature frames, not encoded yet */
    size_t n_feats, cap_feats;
    size_t fed;        /* samples of the segment that are in feature frames */
    float *rows, *ctc; /* [frames, dim], [frames, vocab] encoder frames of the segment and their CTC
                        * scores, without the first n_taken frames. The search of a transducer
                        * (which has no ctc) and CTC alone do not need those again. */
    size_t n_rows, n_taken, cap_rows, cap_ctc; /* capacities: floats */
    steno_espnet_block_search
        *blocks; /* joint search block by block; NULL: the segment is searched at its end */
    steno_transducer *transduced; /* the transducer's search, over n_taken frames; NULL: not begun,
                                   * or the segment is searched at its end */
    struct {
        const float *rows, *ctc; /* borrowed from a runner */
        size_t n;
    } block; /* encoded in a batch by steno_espnet_encode_blocks; rows NULL: no block */
    /* results */
    steno_ctc_greedy *greedy;
    steno_ctc_beam *beam; /* CTC alone with a beam; else NULL */
    struct steno_align align;
    struct steno_hypothesis_list list;
    int32_t *tokens; /* [cap_tokens] of one hypothesis, without blank and eos */
    size_t cap_tokens;
    struct steno_span
        *spans;    /* [cap_spans] of a partial: tokens of the search, then of the best path */
    size_t *costs; /* [cap_spans] one row of the table of edit distances */
    size_t cap_spans;
};

/* CTC log-probabilities [rows, vocab] of a segment, and its encoder frames [rows, dim]. */
struct steno_espnet_scores {
    const float *ctc, *enc;
    size_t rows;
};

/* The search is CTC alone: best path or prefix beam search, no joint search. */
static inline bool steno_espnet_ctc_alone(const struct steno_espnet_stream *s)
{
    return !s->net->opt.as_espnet_onnx && s->search.ctc_weight == 1 &&
           !steno_espnet_is_transducer(s->net) && s->search.lm_weight == 0 &&
           s->search.length_bonus == 0;
}

/* The encoder runs on each block as soon as its audio is there. */
static inline bool steno_espnet_by_blocks(const struct steno_espnet *e)
{
    return e->blocks && !e->opt.as_espnet_onnx;
}

/* Write a message for a failure that has none. */
static inline steno_status steno_espnet_explain(steno_status st, steno_err *err)
{
    return st ? steno_fail(err, st, "stream: %s", steno_status_info(st)->name) : STENO_OK;
}

/* One step of a stream, while it runs. */
struct steno_espnet_work {
    struct steno_espnet_stream *s;
    struct steno_step_item *item;
    struct steno_espnet_scores x; /* of the segment so far */
    bool more;                    /* FINAL: more blocks must be encoded first */
    size_t last;                  /* like `last` of struct steno_joint_block */
    steno_status st;
};

/* stream.c */
STENO_MUST steno_status steno_espnet_state_new(void **state, void *model,
                                               struct steno_family_stream *o, steno_err *err);
void steno_espnet_stream_free(void *state);
STENO_MUST steno_status steno_espnet_reset(void *state, enum steno_reset what, steno_err *err);
STENO_MUST steno_status steno_espnet_accept(void *state, const float *pcm, size_t dropped,
                                            size_t end, bool *due);
size_t steno_espnet_accepted(const void *state);
size_t steno_espnet_missing(const void *state);

/* segment.c */

/* Number of feature frames of the next block. */
size_t steno_espnet_frames_wanted(const struct steno_espnet_stream *s);
/* Compute feature frames from the segment's samples up to `end`, at most those of one block. pcm
 * begins at sample `dropped` of the segment. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_espnet_make_frames(struct steno_espnet_stream *s, const float *pcm,
                                                 size_t dropped, size_t end);
/* Whether the step begins with a block. If so, its feature frames are complete. */
bool steno_espnet_wants_block(const struct steno_step_item *item);
/* Encode one block of each of n streams of one model and one form (steno_espnet_same_form) as a
 * batch. Each stream must take its block (steno_espnet_take_block) before the runner encodes
 * anything else. */
STENO_MUST steno_status steno_espnet_encode_blocks(struct steno_espnet_stream *const *s, size_t n,
                                                   steno_espnet_runner *r, steno_err *err);
/* Take the encoded block, or encode one now. The segment gets at most `max` encoder frames. */
STENO_MUST steno_status steno_espnet_take_block(struct steno_espnet_stream *s,
                                                steno_espnet_runner *r, size_t max, steno_err *err);
/* Search block by block, over the encoder frames so far: the joint search of all n streams
 * together, or the transducer's. Streams that failed or have no frames are skipped. */
void steno_espnet_search_blocks(struct steno_espnet_work *work, size_t n, steno_espnet_runner *r);
/* Compute the encoder frames and CTC scores of the item's samples. *x belongs to the runner or the
 * stream and is valid until the next call; it has no frames if there is too little audio.
 * STENO_NEED_MORE: one block is done and more are left; call again after the search. */
STENO_MUST steno_status steno_espnet_recognize(const struct steno_step_item *item,
                                               steno_espnet_runner *r,
                                               struct steno_espnet_scores *x);

/* steps.c */
STENO_MUST steno_status steno_espnet_worker_open(void **worker, void *model, int max,
                                                 steno_err *err);
void steno_espnet_worker_close(void *worker);
void steno_espnet_step(void *worker, struct steno_step_item *items, size_t n, int size,
                       struct steno_network_time *spent);
STENO_MUST steno_status steno_espnet_trial_open(void **trial, void *worker, steno_err *err);
STENO_MUST steno_status steno_espnet_trial_run(void *trial, int size, steno_err *err);
void steno_espnet_trial_close(void *trial);

/* result.c: hypotheses into s->list */

/* List the best hypothesis so far: of the transducer's search t, or of CTC's best path (t NULL).
 * With a joint search block by block: its tokens, then the rest of the best path. STENO_ERR_NOMEM.
 */
STENO_MUST steno_status steno_espnet_list_partial(struct steno_espnet_stream *s,
                                                  steno_transducer *t);
/* List all hypotheses of a segment, from the joint search j or the transducer's search t. Both
 * NULL: from CTC alone, or none. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_espnet_list_final(struct steno_espnet_stream *s,
                                                const struct steno_espnet_scores *x,
                                                const steno_joint *j, steno_transducer *t);
STENO_MUST steno_status steno_espnet_hypotheses(void *state, struct steno_hypothesis *out,
                                                size_t max, size_t *n, size_t *stable);

#endif
