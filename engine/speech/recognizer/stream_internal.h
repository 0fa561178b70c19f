/* One stream, shared by its files: stream.c (audio in, steps, end), windows.c and segments.c (the
 * two ways to feed a family), results.c (hypotheses to events). Confined. */
#ifndef STENO_RECOGNIZER_STREAM_INTERNAL_H
#define STENO_RECOGNIZER_STREAM_INTERNAL_H

#include "speech/families/alignment.h"
#include "speech/recognizer/filters.h"
#include "speech/audio/resample.h"
#include "speech/features/activity.h"
#include "speech/recognizer/endpoint.h"
#include "speech/recognizer/vad_filter.h"
#include "speech/recognizer/model.h"
#include "speech/recognizer/results.h"
#include "speech/recognizer/sound.h"
#include "speech/recognizer/stream.h"
#include "speech/recognizer/turn_watch.h"
#include "speech/recognizer/vad.h"

/* Feeding by windows (windows.c). A run is the audio between two finalizes. */
struct steno_windows {
    steno_fbank *fbank;
    steno_vad_filter *vad_filter; /* NULL: the network runs on every window */
    steno_sound *sound;           /* NULL: no rule needs it */
    int64_t skipped;              /* windows of real audio that did not run */
    float *window;                /* [frames, bins] */
    size_t frames;                /* feature frames in window */
    struct steno_endpoint rules;
    int64_t fed;          /* samples of this run at the model's rate, padding included */
    int64_t left_padding; /* samples of silence before the run, not fed yet */
    int64_t steps;        /* of this run */
    int64_t limit;        /* frames of scores of real audio; INT64_MAX until the run ends */
    int64_t begin;        /* first frame of scores of the utterance, in this run */
    int64_t first_sound;  /* first frame with a symbol, likewise; < 0: none */
    int64_t pause_told;   /* the last symbol whose UTTERANCE_END was told; < 0: none */
    enum { STENO_FLUSH_NONE, STENO_FLUSH_DRAIN, STENO_FLUSH_PAD } flushing;
    int64_t last_step; /* PAD: number of steps of this run */
};

/* Feeding by segments (segments.c). */
struct steno_segments {
    bool whole;                     /* one segment per run, no VAD */
    struct steno_activity activity; /* the rule on energy, on hops */
    steno_vad_state *vad;           /* instead of it; NULL: the rule */
    bool loud;                      /* the last frame of vad has speech */
    float *pcm;                     /* samples [dropped, n) of the segment at the model's rate */
    size_t n, cap, dropped;
    size_t seen; /* samples of the segment that the energy rule has classified */
    bool speaking;
    int64_t quiet;  /* hops since the last one with speech */
    size_t partial; /* samples of the segment at which the next partial is due */
    bool heard;     /* speech since the last partial */
    size_t glance;  /* samples at which a glance is due; SIZE_MAX: none is */
    bool glancing;  /* the step that is due is one of a glance */
    double queued;  /* s that the stream had been queued when the last partial ended */
    double wait;    /* s that partials wait for a worker, recently */
    int64_t calm;   /* hops since the last one with speech, soft speech included */
    /* Samples. The family gets the audio up to `trail` behind the last sound, until the segment
     * goes on. After `patience` of silence a final is begun early, if the segment has at least
     * `early_from` samples; on an idle worker without patience, from `quick_from` samples on. */
    size_t trail, patience, early_from, quick_from;
    size_t dropped_finals; /* of the segment, that were begun without patience */
    enum { STENO_EARLY_NONE, STENO_EARLY_RUNS, STENO_EARLY_DONE, STENO_EARLY_SHOWN } early;
    bool due;   /* a step is due */
    bool final; /* the step is the last one of the segment */
    enum steno_final_reason reason;
    bool closing;     /* finalize or end: all audio is in, only the segment is left */
    size_t keep;      /* final: samples at the end of pcm that belong to the next segment */
    int64_t from;     /* samples of this run in front of the segment */
    int64_t last_end; /* samples of this run up to the end of the segment before */
};

/* A way to feed a family. */
struct steno_feeder {
    steno_status (*open)(steno_stream *s, steno_err *err);
    void (*close)(steno_stream *s);
    /* New samples are in s->fresh. */
    steno_status (*arrive)(steno_stream *s, steno_err *err);
    /* Move pending samples on, until a step is due or none are left. */
    steno_status (*drain)(steno_stream *s);
    bool (*undrained)(const steno_stream *s);
    bool (*ready)(const steno_stream *s); /* whether a step is due */
    /* Samples at the input rate until a step is due, approximately; 0 only if ready. */
    size_t (*missing)(const steno_stream *s);
    double (*slack)(const steno_stream *s); /* as steno_stream_slack; NULL: 0 */
    size_t (*block)(const steno_stream *s,
                    size_t n); /* how many of n samples to resample at once */
    void (*fill_item)(const steno_stream *s, struct steno_step_item *item);
    /* The step has run, or failed (item->st). */
    steno_status (*finish_step)(steno_stream *s, const struct steno_step_item *item);
    /* The turn watch has its answer. */
    steno_status (*finish_turn)(steno_stream *s, bool complete);
    /* Like steno_stream_flush. */
    steno_status (*flush)(steno_stream *s, bool end, bool *done, steno_err *err);
    /* Seconds on the stream's clock: the begin of a frame of scores; the end of the audio that the
     * networks have processed; the begin of an utterance that has no words. */
    double (*frame_time)(const steno_stream *s, int64_t frame);
    double (*processed)(const steno_stream *s);
    double (*begin)(const steno_stream *s);
};

struct steno_stream {
    steno_model *model;
    const struct steno_family *family;
    const struct steno_feeder *feeder;
    void *state; /* of the family */
    struct steno_stream_options opt;
    const char *asked;      /* the language as the request has it; borrowed for the open only */
    const char *given;      /* its code; NULL: none or several. Static */
    steno_batcher *own;     /* of a stream that steps by itself; made at its first step */
    steno_turn_watch *turn; /* NULL: silence alone ends an utterance */
    /* audio in */
    steno_resampler *resampler;
    float *clean; /* [STENO_STREAM_BLOCK] for input with NaN; pending if the rates are equal */
    /* At the model's rate; [pos, len) are not moved on yet. pending, or within steno_stream_feed
     * the caller's samples if the rates are equal. */
    const float *fresh;
    float *pending; /* [cap_pending] */
    size_t cap_pending, pos, len;
    union {
        struct steno_windows w;
        struct steno_segments g;
    } in;
    struct steno_results results;
    steno_filters *filters;     /* NULL: none */
    steno_alignment *alignment; /* NULL: the speech is recognized */
    enum steno_when { STENO_WHEN_AUTO, STENO_WHEN_ON, STENO_WHEN_OFF } itn, punctuation;
    bool itn_digits; /* lone numbers below ten, too */
    /* clock */
    int64_t taken;  /* input samples so far */
    int64_t base;   /* input samples before this run */
    size_t waiting; /* input samples that are there and were not fed yet */
    double queued;  /* s that its work has waited for a worker */
    bool failed, ended;
    bool family_cuts; /* the family cuts the audio into utterances */
    bool steady;      /* partials keep what was shown, where they can */
    bool no_early;    /* no early finals and no glances: steps that may be dropped */
    bool listens;     /* audio is taken while the steps of an early final are due */
};

#define STENO_STREAM_BLOCK 640 /* maximum of samples to resample at once */

extern const struct steno_feeder steno_feed_windows, steno_feed_segments;

/* Write a message for a failure that has none. */
steno_status steno_stream_explain(steno_status st, steno_err *err);
/* Begin a new run, after finalize. */
STENO_MUST steno_status steno_stream_restart(steno_stream *s, steno_err *err);

#endif
