/* One stream over an espnet_onnx directory, as the files share it that it is made of:
 * espnet_stream.c (audio in, segments, what is due), espnet_segment.c (a segment through features,
 * encoder and CTC), espnet_result.c (hypotheses and words to events). Confined. */
#ifndef STENO_FAMILIES_ESPNET_STREAM_H
#define STENO_FAMILIES_ESPNET_STREAM_H

#include "audio/resample.h"
#include "search/align.h"
#include "text/words.h"
#include "features/activity.h"
#include "families/espnet/block.h"
#include "families/espnet/recurrent.h"
#include "recognizer/events.h"
#include "recognizer/family.h"
#include "recognizer/internal.h"

/* PARTIAL: with blocks, the next of them. */
enum steno_espnet_stream_due { STENO_DUE_NOTHING, STENO_DUE_PARTIAL, STENO_DUE_FINAL };

struct steno_espnet_stream {
    struct steno_stream_head head;
    steno_model *model;
    struct steno_stream_options opt;
    struct steno_espnet_search search;
    bool whole; /* one segment, no activity rule */
    /* front end */
    steno_resampler *resampler;
    float *clean,
        *pending; /* [BLOCK]; [cap_pending] at the model's rate, [pos, len) not yet taken */
    size_t cap_pending, pos, len;
    struct steno_activity activity;
    /* segment */
    float *pcm; /* [cap] samples of the segment but for the first `cut`, which blocks are made of */
    size_t n, cap, cut; /* n: of the segment, which begins at `from` */
    size_t seen;        /* of the segment, samples that went through the activity rule */
    bool speaking;
    int64_t quiet;  /* frames since the last loud one */
    size_t partial; /* samples of the segment when the next partial is due */
    enum steno_espnet_stream_due due;
    enum steno_final_reason reason;
    bool closing; /* finalize or end: all audio is in, what is left is the segment */
    size_t keep;  /* STENO_DUE_FINAL: samples behind the cut that stay */
    /* contextual blocks */
    struct steno_espnet_state state;
    steno_fbank *fbank;
    float *feats; /* [cap_feats, bins] frames not yet encoded, normalised */
    size_t n_feats, cap_feats;
    size_t fed; /* samples of the segment that became frames */
    float *rows,
        *ctc; /* [cap_rows, dim], [cap_rows, vocab] of the segment but for the n_taken first,
               * which the search needs no more: a transducer's (no scores), CTC alone */
    size_t n_rows, n_taken, cap_rows;
    steno_espnet_block_search
        *blocks;                  /* joint search block by block; NULL: at the end of a segment */
    steno_transducer *transduced; /* a transducer's search of the segment, of n_taken rows; NULL:
                                   * not begun, or at its end */
    struct {
        const float *rows, *ctc; /* a runner's */
        size_t n;
    } block; /* encoded ahead with other streams' (steno_espnet_stream_encode); rows NULL: none is
              */
    /* results */
    steno_ctc_greedy *greedy;
    steno_ctc_beam *beam; /* CTC alone with a beam */
    struct steno_align align;
    struct steno_words words[STENO_MAX_BEAM];
    struct steno_event_words out;
    struct steno_alternative alts[STENO_MAX_BEAM];
    struct steno_buf plain; /* compat: texts as espnet_onnx joins them */
    int32_t *tokens;        /* of one hypothesis, without blank and eos */
    size_t cap_tokens;
    struct steno_span *spans; /* of a partial: the search's tokens, then the best path's */
    size_t *costs;            /* one row of a table of edits */
    size_t cap_spans;
    struct steno_events events;
    uint64_t shown;
    /* clock */
    int64_t taken,
        base;     /* input samples so far; ... when this run (since start or finalize) began */
    int64_t from; /* model samples of this run in front of the segment */
    int64_t segment;
    bool failed, ended;
};

/* Log-probabilities [rows, vocab] of a segment, and the encoder's rows [rows, dim]. */
struct steno_espnet_stream_scores {
    const float *ctc, *enc;
    size_t rows;
};

static inline size_t steno_espnet_stream_samples(const struct steno_espnet_stream *s,
                                                 double seconds)
{
    return (size_t)(seconds * s->model->conf.sample_rate);
}

/* CTC alone needs no joint search: best path, or prefix beam. */
static inline bool steno_espnet_stream_ctc_alone(const struct steno_espnet_stream *s)
{
    return !s->model->espnet->opt.as_espnet_onnx && s->search.ctc_weight == 1 &&
           !steno_espnet_is_transducer(s->model->espnet) && s->search.lm_weight == 0 &&
           s->search.length_bonus == 0;
}

/* The encoder takes blocks as they come. */
static inline bool steno_espnet_stream_by_blocks(const struct steno_espnet_stream *s)
{
    return s->model->espnet->blocks && !s->model->espnet->opt.as_espnet_onnx;
}

static inline steno_status steno_espnet_stream_status(steno_status st, steno_err *err)
{
    return st ? steno_fail(err, st, "stream: %s", steno_status_info(st)->name) : STENO_OK;
}

/* espnet_segment.c */

/* Feature frames that the next block takes. */
size_t steno_espnet_stream_frames_wanted(const struct steno_espnet_stream *s);
/* Samples of the segment up to `end` become frames, as many as a block wants. */
STENO_MUST steno_status steno_espnet_stream_make_frames(struct steno_espnet_stream *s, size_t end);
/* The step that is due begins with a block, whose frames are there. */
bool steno_espnet_stream_wants_block(struct steno_espnet_stream *s);
/* Encode the frames that wait of n streams of one model and of one form (steno_espnet_same_form),
 * for the next steno_espnet_stream_block of each, which comes before the runner encodes anything
 * else. */
STENO_MUST steno_status steno_espnet_stream_encode(struct steno_espnet_stream *const *s, size_t n,
                                                   steno_espnet_runner *r, steno_err *err);
/* Take the block that is encoded, or encode the frames that wait; at most `max` rows count in all.
 */
STENO_MUST steno_status steno_espnet_stream_block(struct steno_espnet_stream *s,
                                                  steno_espnet_runner *r, size_t max,
                                                  steno_err *err);
/* One step of a stream on its way. */
struct steno_espnet_stream_work {
    struct steno_espnet_stream *s;
    struct steno_espnet_stream_scores x; /* of the segment so far */
    bool more;                           /* a final's: further blocks come first */
    size_t last;                         /* of the search, as of struct steno_joint_block */
    steno_status st;
    steno_err *err; /* or NULL */
};
/* The joint search, or the transducer's, where it goes block by block, over the rows there are, of
 * all n streams side by side. Turns that have failed are left alone. */
void steno_espnet_stream_search(struct steno_espnet_stream_work *work, size_t n,
                                steno_espnet_runner *r);
/* The first n samples of the segment through features, encoder and CTC. *x: the runner's or the
 * stream's, until the next call; no rows when there is too little audio. STENO_NEED_MORE, blocks:
 * one more of them is done, call again after the search. */
STENO_MUST steno_status steno_espnet_stream_recognise(struct steno_espnet_stream *s,
                                                      steno_espnet_runner *r, size_t n,
                                                      struct steno_espnet_stream_scores *x,
                                                      steno_err *err);

/* espnet_result.c */

/* Sample `at` of the segment on the stream's clock, not past the audio there is. */
double steno_espnet_stream_seconds(const struct steno_espnet_stream *s, double at);
STENO_MUST steno_status steno_espnet_stream_emit_start(struct steno_espnet_stream *s);
/* The best so far, where it differs from what was shown last: the transducer's t, or with NULL the
 * best path of CTC; where the joint search goes block by block what it has, and of that path what
 * lies behind. */
STENO_MUST steno_status steno_espnet_stream_emit_partial(struct steno_espnet_stream *s,
                                                         steno_transducer *t);
/* The final of a segment of n samples; j, t: the joint search's result, or the transducer's; both
 * NULL: CTC alone, or nothing to say. */
STENO_MUST steno_status steno_espnet_stream_emit_final(struct steno_espnet_stream *s, size_t n,
                                                       const struct steno_espnet_stream_scores *x,
                                                       const steno_joint *j, steno_transducer *t);

#endif
