/* One stream of family ctc_streaming, as stream.c (audio in, steps, runs) and stream_events.c
 * (decoder, events) share it. */
#ifndef STENO_RECOGNIZER_STREAM_INTERNAL_H
#define STENO_RECOGNIZER_STREAM_INTERNAL_H

#include "audio/resample.h"
#include "recognizer/endpoint.h"
#include "text/words.h"
#include "recognizer/events.h"
#include "recognizer/family.h"
#include "recognizer/vad_filter.h"
#include "recognizer/internal.h"

struct steno_stream { /* of family ctc_streaming; recognizer/family.h */
    struct steno_stream_head head;
    steno_model *model;
    struct steno_stream_options opt;
    double frame_seconds;
    /* front end */
    steno_resampler *resampler;
    steno_fbank *fbank;
    steno_vad_filter *vad_filter; /* NULL: the network hears everything */
    float *quiet;                 /* [rows, vocab] scores of a window that it does not hear */
    int64_t skipped;              /* such windows, of real audio */
    float *clean;                 /* [BLOCK] input without NaN */
    float *pending; /* [cap_pending] at the model's rate, [pos, len) not yet in frames */
    size_t cap_pending, pos, len;
    float *window;                /* [window, bins] */
    size_t frames;                /* in window */
    struct steno_ctc_state state; /* the network's */
    steno_stepper *own;           /* of a stream that steps by itself; comes with its first step */
    /* decoder: one of the two */
    steno_ctc_greedy *greedy;
    steno_ctc_beam *beam;
    struct steno_endpoint rules;
    struct steno_words *words; /* [n_best], and so are the next and alts */
    struct steno_hyp *hyps;
    struct steno_event_words out; /* what the event points to */
    struct steno_alternative *alts;
    struct steno_events events;
    /* clock */
    int64_t taken;        /* samples of input so far */
    int64_t base;         /* ... when this run began */
    int64_t fed;          /* samples of this run at the model's rate, silence around it included */
    int64_t left_padding; /* ... of silence before it, still to come */
    int64_t steps;        /* of this run */
    int64_t limit;        /* rows of real audio; known at the end of a run, until then INT64_MAX */
    /* utterance */
    int64_t begin, first_sound; /* rows of this run; first_sound < 0: nothing heard */
    int64_t segment;
    uint64_t shown; /* fingerprint of the last partial */
    bool failed, ended;
    /* flush */
    enum { OPEN, DRAIN, PAD } flushing;
    int64_t last_step; /* PAD: steps of this run after which it is over */
};

/* Samples of silence that the network hears before a run. */
int64_t steno_ctc_stream_left_padding(const steno_model *m);
/* One row of scores [vocab] into the decoder. */
STENO_MUST steno_status steno_ctc_stream_decode(steno_stream *s, const float *row);
/* Rows of this run so far, and the last of them in which anything was heard. */
int64_t steno_ctc_stream_rows(const steno_stream *s);
int64_t steno_ctc_stream_last_sound(const steno_stream *s);
/* Forget the utterance; the next one begins here. */
void steno_ctc_stream_next_utterance(steno_stream *s);
/* Queue an event: speech has begun; a partial, unless it says what the last one did; a final, after
 * which the next utterance begins. */
STENO_MUST steno_status steno_ctc_stream_emit_start(steno_stream *s);
STENO_MUST steno_status steno_ctc_stream_emit_partial(steno_stream *s);
STENO_MUST steno_status steno_ctc_stream_emit_final(steno_stream *s,
                                                    enum steno_final_reason reason);

#endif
