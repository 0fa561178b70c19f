/* The two ways of telling who speaks while it is said: windows of a segmentation network whose
 * voices are clustered (live_windows.c), and a Sortformer (live_sortformer.c). */
#ifndef STENO_SPEAKERS_LIVE_METHOD_H
#define STENO_SPEAKERS_LIVE_METHOD_H

#include "speech/audio/resample.h"
#include "speech/speakers/live.h"
#include "speech/speakers/networks.h"

#define STENO_LIVE_NOBODY 0xFF
#define STENO_LIVE_KEPT 16384 /* frames whose labels are known */

struct steno_live_networks {
    steno_session *session;   /* of the Sortformer or of segmentation */
    steno_embedder *embedder; /* NULL: there is none */
};

struct steno_live_method {
    size_t size; /* of what begins with a steno_live_speakers */
    /* l has rules and max_speakers; fills in shift, field and behind. close follows a failure too,
     * and frees all but l's own fields. */
    steno_status (*open)(steno_live_speakers *l, steno_err *err);
    void (*close)(steno_live_speakers *l);
    /* Take samples [n] at the networks' rate; label all up to now; end: there are no more. */
    steno_status (*take)(steno_live_speakers *l, steno_live_networks *w, const float *x, size_t n,
                         steno_err *err);
    steno_status (*flush)(steno_live_speakers *l, steno_live_networks *w, steno_err *err);
    steno_status (*end)(steno_live_speakers *l, steno_live_networks *w, steno_err *err);
    /* The voice of a label, of unit length: out [embedding.dim]. Returns the seconds of clean
     * speech behind it; 0: none. */
    double (*voice)(const steno_live_speakers *l, int label, float *out);
};
extern const struct steno_live_method steno_live_by_windows, steno_live_by_sortformer;

struct steno_live_speakers {
    const struct steno_live_method *method;
    const steno_speakers *speakers;
    struct steno_live_rules rules;
    int max_speakers;
    steno_resampler *resampler;
    int64_t samples;                   /* at the networks' rate */
    size_t shift, field;               /* samples between frames, and of one */
    int64_t behind;                    /* frames that are labelled before the first of the audio */
    uint8_t label[STENO_LIVE_KEPT];    /* of frame f at f % STENO_LIVE_KEPT */
    int64_t labelled;                  /* frames that have one, from 0 on */
    int64_t flushed;                   /* the same with those of the last flush */
    const struct steno_stable *stable; /* labels that may be merged; NULL: none is */
    int n_labels;                      /* without stable */
    int told;                          /* merges */
    const float *prints;               /* [n_prints, dim] of known voices, borrowed */
    size_t n_prints;
    int person[STENO_LIVE_SPEAKERS]; /* which of them a label is; -1: none yet */
    bool ended;
};

/* What a label is after all merges. */
int steno_live_resolve(const steno_live_speakers *l, int label);
/* Frames from 0 on that have a label. */
int64_t steno_live_labelled(const steno_live_speakers *l);
/* Label a frame, the next or a later one, unless a flush told one: what it told stays. Returns what
 * the frame has. */
uint8_t steno_live_put(steno_live_speakers *l, int64_t frame, uint8_t label);
/* Find out which speakers are known. What was found stays. */
STENO_MUST steno_status steno_live_find_people(steno_live_speakers *l, steno_err *err);

#endif
