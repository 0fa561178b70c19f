/* Whether a speaker who falls silent has finished: asks a network (speech/turn) once in each pause,
 * when it has lasted STENO_TURN_PAUSE. The answer is due as a step of the stream, so that the
 * threads that run networks give it, for several streams at once. Confined. */
#ifndef STENO_RECOGNIZER_TURN_WATCH_H
#define STENO_RECOGNIZER_TURN_WATCH_H

#include <stdint.h>

#include "speech/turn/detector.h"

#define STENO_TURN_PAUSE 0.2     /* s: what the network was trained with */
#define STENO_TURN_THRESHOLD 0.5 /* where none is given */

typedef struct steno_turn_watch steno_turn_watch;

struct steno_turn_stats {
    uint64_t answers, ends; /* ends: answers from the threshold on */
    double seconds;
};

/* rate: of the samples, Hz. threshold: from which probability on a pause is an end; 0 = the
 * default, 1 = none is. early: from which on it may be one; 0 = never. d is borrowed until close.
 * STENO_ERR_INVAL: one of them outside 0..1. */
STENO_MUST steno_status steno_turn_watch_open(steno_turn_watch **out, const steno_turn_detector *d,
                                              double threshold, double early, int rate,
                                              steno_err *err);
void steno_turn_watch_close(steno_turn_watch *w);
/* Take all of pcm [n]. */
STENO_MUST steno_status steno_turn_watch_push(steno_turn_watch *w, const float *pcm, size_t n,
                                              steno_err *err);
/* What was said before sample `at` belongs to another turn, but for the half second before it. NULL
 * is accepted. */
void steno_turn_watch_begin(steno_turn_watch *w, double at);
/* At sample `now`, counted from open or reset, the last sound ended at sample `sound`: asks if the
 * pause is long enough and this sound was not asked about. NULL: does nothing. */
void steno_turn_watch_see(steno_turn_watch *w, double sound, double now);
/* Whether an answer is due. NULL: false. */
bool steno_turn_watch_due(const steno_turn_watch *w);
/* Samples of silence until it asks, if the last sound ended at sample `sound` and sample `now` is
 * silent; SIZE_MAX: it will not, or w is NULL. */
size_t steno_turn_watch_missing(const steno_turn_watch *w, double sound, double now);
/* The probability of the last answer, if that pause may be an end; else 0. */
double steno_turn_watch_likely(const steno_turn_watch *w);
/* Its answers so far, and the worker's time for them. NULL: zeros. */
struct steno_turn_stats steno_turn_watch_stats(const steno_turn_watch *w);
/* Begin a new signal. NULL is accepted. */
STENO_MUST steno_status steno_turn_watch_reset(steno_turn_watch *w, steno_err *err);

/* Networks of one thread. Zeros: none yet. */
struct steno_turn_judges {
    const steno_turn_detector *of;
    steno_turn_judge *judge;
};
/* Answer for n watches that are due; *complete: whether it was an end. Errors leave none due. */
STENO_MUST steno_status steno_turn_watches_judge(struct steno_turn_judges *j,
                                                 steno_turn_watch *const *w, size_t n,
                                                 bool *complete, steno_err *err);
void steno_turn_judges_close(struct steno_turn_judges *j);

#endif
