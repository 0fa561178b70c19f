/* One stream, as its files share it: stream.c (audio in, steps, end), windows.c and segments.c (the
 * two ways in which families are fed), results.c (hypotheses to events). Confined. */
#ifndef STENO_RECOGNIZER_STREAM_INTERNAL_H
#define STENO_RECOGNIZER_STREAM_INTERNAL_H

#include "audio/resample.h"
#include "features/activity.h"
#include "recognizer/endpoint.h"
#include "recognizer/vad_filter.h"
#include "recognizer/model.h"
#include "recognizer/results.h"
#include "recognizer/stream.h"

/* Feeding by windows (windows.c). A run is what lies between two finalizes. */
struct steno_windows {
    steno_fbank *fbank;
    steno_vad_filter *vad_filter; /* NULL: every window goes through the network */
    int64_t skipped;              /* windows that did not, of real audio */
    float *window;                /* [frames, bins] */
    size_t frames;                /* in window */
    struct steno_endpoint rules;
    int64_t fed;          /* samples of this run at the model's rate, padding included */
    int64_t left_padding; /* ... of silence before it, still to come */
    int64_t steps;        /* of this run */
    int64_t limit;        /* frames of scores of real audio; until a run ends INT64_MAX */
    int64_t begin;        /* of the utterance, in frames of scores of this run */
    int64_t first_sound;  /* likewise; < 0: nothing heard */
    enum { STENO_FLUSH_NONE, STENO_FLUSH_DRAIN, STENO_FLUSH_PAD } flushing;
    int64_t last_step; /* PAD: steps of this run after which it is over */
};

/* Feeding by segments (segments.c). */
struct steno_segments {
    bool whole; /* one segment a run, no energy rule */
    struct steno_activity activity;
    float *pcm; /* samples [dropped, n) of the segment, model's rate */
    size_t n, cap, dropped;
    size_t seen; /* samples of the segment that went through the energy rule */
    bool speaking;
    int64_t quiet;  /* hops since the last loud one */
    size_t partial; /* samples of the segment when the next partial is due */
    bool due;       /* a step */
    bool final;     /* ... the segment's last */
    enum steno_final_reason reason;
    bool closing; /* finalize or end: all audio is in, what is left is the segment */
    size_t keep;  /* final: samples at the end of pcm that belong to the next segment */
    int64_t from; /* samples of this run in front of the segment */
};

/* How a family is fed. */
struct steno_feeder {
    steno_status (*open)(steno_stream *s, steno_err *err);
    void (*close)(steno_stream *s);
    /* Samples just resampled, in s->pending. */
    steno_status (*arrive)(steno_stream *s, steno_err *err);
    /* Pending samples on their way, until a step is due or none are left. */
    steno_status (*drain)(steno_stream *s);
    bool (*undrained)(const steno_stream *s);
    bool (*ready)(const steno_stream *s); /* a step is due */
    /* Samples at the input rate until a step is due, about; never 0 unless ready. */
    size_t (*missing)(const steno_stream *s);
    size_t (*block)(const steno_stream *s, size_t n); /* samples of n to resample at a time */
    void (*fill_item)(const steno_stream *s, struct steno_step_item *item);
    /* A step was done, or failed (item->st). */
    steno_status (*finish_step)(steno_stream *s, const struct steno_step_item *item);
    /* As steno_stream_flush. */
    steno_status (*flush)(steno_stream *s, bool end, bool *done, steno_err *err);
    /* Seconds on the stream's clock: where a frame of scores begins; up to where the networks have
     * heard; where the utterance begins when no word says so. */
    double (*frame_time)(const steno_stream *s, int64_t frame);
    double (*processed)(const steno_stream *s);
    double (*begin)(const steno_stream *s);
};

struct steno_stream {
    steno_model *model;
    const struct steno_family *family;
    const struct steno_feeder *feeder;
    void *state; /* the family's */
    struct steno_stream_options opt;
    steno_batcher *own; /* of a stream that steps by itself; comes with its first step */
    /* audio in */
    steno_resampler *resampler;
    float *clean;   /* [STENO_STREAM_BLOCK] input without NaN */
    float *pending; /* [cap_pending] at the model's rate, [pos, len) still to go on */
    size_t cap_pending, pos, len;
    union {
        struct steno_windows w;
        struct steno_segments g;
    } in;
    struct steno_results results;
    /* clock */
    int64_t taken; /* samples of input so far */
    int64_t base;  /* ... when this run began */
    bool failed, ended;
};

#define STENO_STREAM_BLOCK 640 /* samples that are resampled at a time, at most */

extern const struct steno_feeder steno_feed_windows, steno_feed_segments;

/* A message for a failure that has none. */
steno_status steno_stream_explain(steno_status st, steno_err *err);
/* Start a run: after finalize. */
STENO_MUST steno_status steno_stream_restart(steno_stream *s, steno_err *err);

#endif
