/* What one stream carries over an espnet_onnx directory, as the files share it that it is made of:
 * stream.c (opening, audio accepted), segment.c (a segment through features, encoder and CTC),
 * steps.c (steps of several streams), result.c (searches to hypotheses). Confined. */
#ifndef STENO_FAMILIES_ESPNET_STREAM_H
#define STENO_FAMILIES_ESPNET_STREAM_H

#include "families/common/hypotheses.h"
#include "families/espnet/block.h"
#include "families/espnet/internal.h"
#include "families/espnet/recurrent.h"
#include "search/align.h"

struct steno_espnet_stream {
    struct steno_espnet_model *model;
    struct steno_espnet *net; /* the model's */
    struct steno_espnet_search search;
    bool whole; /* one segment, however short */
    /* contextual blocks */
    struct steno_espnet_state state;
    steno_fbank *fbank;
    float *feats; /* [cap_feats, bins] frames not yet encoded, normalised */
    size_t n_feats, cap_feats;
    size_t fed;        /* samples of the segment that became frames */
    float *rows, *ctc; /* [cap_rows, dim], [cap_rows, vocab] encoder frames of the segment but for
                        * the n_taken first, which the search needs no more: a transducer's (no
                        * scores), CTC alone */
    size_t n_rows, n_taken, cap_rows;
    steno_espnet_block_search
        *blocks;                  /* joint search block by block; NULL: at the end of a segment */
    steno_transducer *transduced; /* a transducer's search of the segment, of n_taken rows; NULL:
                                   * not begun, or at its end */
    struct {
        const float *rows, *ctc; /* a runner's */
        size_t n;
    } block; /* encoded with other streams' (steno_espnet_encode_blocks); rows NULL: none is */
    /* results */
    steno_ctc_greedy *greedy;
    steno_ctc_beam *beam; /* CTC alone with a beam */
    struct steno_align align;
    struct steno_hypothesis_list list;
    int32_t *tokens; /* of one hypothesis, without blank and eos */
    size_t cap_tokens;
    struct steno_span *spans; /* of a partial: the search's tokens, then the best path's */
    size_t *costs;            /* one row of a table of edits */
    size_t cap_spans;
};

/* Log-probabilities [rows, vocab] of a segment, and the encoder's frames [rows, dim]. */
struct steno_espnet_scores {
    const float *ctc, *enc;
    size_t rows;
};

/* CTC alone needs no joint search: best path, or prefix beam. */
static inline bool steno_espnet_ctc_alone(const struct steno_espnet_stream *s)
{
    return !s->net->opt.as_espnet_onnx && s->search.ctc_weight == 1 &&
           !steno_espnet_is_transducer(s->net) && s->search.lm_weight == 0 &&
           s->search.length_bonus == 0;
}

/* The encoder takes blocks as they come. */
static inline bool steno_espnet_by_blocks(const struct steno_espnet *e)
{
    return e->blocks && !e->opt.as_espnet_onnx;
}

/* A message for a failure that has none. */
static inline steno_status steno_espnet_explain(steno_status st, steno_err *err)
{
    return st ? steno_fail(err, st, "stream: %s", steno_status_info(st)->name) : STENO_OK;
}

/* One step of a stream on its way. */
struct steno_espnet_work {
    struct steno_espnet_stream *s;
    struct steno_step_item *item;
    struct steno_espnet_scores x; /* of the segment so far */
    bool more;                    /* a final's: further blocks come first */
    size_t last;                  /* of the search, as of struct steno_joint_block */
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

/* Feature frames that the next block takes. */
size_t steno_espnet_frames_wanted(const struct steno_espnet_stream *s);
/* Samples of the segment up to `end` become frames, as many as a block wants. pcm begins at sample
 * `dropped`. */
STENO_MUST steno_status steno_espnet_make_frames(struct steno_espnet_stream *s, const float *pcm,
                                                 size_t dropped, size_t end);
/* The step begins with a block, whose frames are there. */
bool steno_espnet_wants_block(const struct steno_step_item *item);
/* Encode the frames that wait of n streams of one model and of one form (steno_espnet_same_form),
 * for the next steno_espnet_take_block of each, which comes before the runner encodes anything
 * else. */
STENO_MUST steno_status steno_espnet_encode_blocks(struct steno_espnet_stream *const *s, size_t n,
                                                   steno_espnet_runner *r, steno_err *err);
/* Take the block that is encoded, or encode the frames that wait; at most `max` rows count in all.
 */
STENO_MUST steno_status steno_espnet_take_block(struct steno_espnet_stream *s,
                                                steno_espnet_runner *r, size_t max, steno_err *err);
/* The joint search, or the transducer's, where it goes block by block, over the rows there are, of
 * all n streams side by side. Those that have failed are left alone. */
void steno_espnet_search_blocks(struct steno_espnet_work *work, size_t n, steno_espnet_runner *r);
/* The item's samples through features, encoder and CTC. *x: the runner's or the stream's, until the
 * next call; no rows when there is too little audio. STENO_NEED_MORE, blocks: one more of them is
 * done, call again after the search. */
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

/* result.c: into s->list */

/* The best so far: the transducer's t, or with NULL the best path of CTC; where the joint search
 * goes block by block what it has, and of that path what lies behind. */
STENO_MUST steno_status steno_espnet_list_partial(struct steno_espnet_stream *s,
                                                  steno_transducer *t);
/* All of a segment; j, t: the joint search's result, or the transducer's; both NULL: CTC alone, or
 * nothing to say. */
STENO_MUST steno_status steno_espnet_list_final(struct steno_espnet_stream *s,
                                                const struct steno_espnet_scores *x,
                                                const steno_joint *j, steno_transducer *t);
STENO_MUST steno_status steno_espnet_hypotheses(void *state, struct steno_hypothesis *out,
                                                size_t max, size_t *n, size_t *stable);

#endif
