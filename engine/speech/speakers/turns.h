/* Turns from what the segmentation network said of each window and from the cluster of each
 * window's speakers. Pure. */
#ifndef STENO_SPEAKERS_TURNS_H
#define STENO_SPEAKERS_TURNS_H

#include <stdbool.h>

#include "steno.h"

#define STENO_NO_CLUSTER (-1)

/* Turns that grow in number; the memory is of the one who holds it: free(turn). Zeros: none. */
struct steno_turn_list {
    struct steno_turn *turn;
    size_t n, cap;
};

/* Append a turn. False: out of memory. */
bool steno_turn_list_add(struct steno_turn_list *l, struct steno_turn turn);
/* Order turns by start, then by speaker. */
void steno_turn_list_sort(struct steno_turn_list *l);

struct steno_windows {
    size_t n;               /* windows; a hop apart */
    size_t frames;          /* of a window */
    int speakers;           /* of a window */
    const uint8_t *sets;    /* [n, frames]: bit s of its speaker s */
    const int32_t *cluster; /* [n, speakers]: 0.. or STENO_NO_CLUSTER */
    int clusters;
    /* Samples: of a window, between windows, between frames, that a frame sees, of the
     * recording. */
    size_t window, hop, shift, field;
    int64_t samples;
    int rate; /* Hz */
};

struct steno_turn_rules {
    double least;   /* s: turns that are not longer are left out */
    double closest; /* s: turns of a speaker with a gap up to this are one */
    bool exclusive; /* at most one speaker at a time */
};

/* Number of speakers that talk in each frame: the mean over its windows, rounded. As many clusters
 * talk, those that most of its windows name; of equals the first. Turns are by start, then by
 * speaker (= cluster); *out belongs to the caller: free. STENO_ERR_NOMEM. The method is that of
 * pyannote.audio (Bredin et al., "pyannote.audio: neural building blocks for speaker diarization",
 * ICASSP 2020) with the rounding of sherpa-onnx. */
STENO_MUST steno_status steno_turns_make(const struct steno_windows *w,
                                         const struct steno_turn_rules *rules,
                                         struct steno_turn **out, size_t *n, steno_err *err);

/* First frame, among those of the recording, of window i; hop, shift: samples between windows and
 * between frames. */
size_t steno_turns_first_frame(size_t hop, size_t shift, size_t i);

#endif
