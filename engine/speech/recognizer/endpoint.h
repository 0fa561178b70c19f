/* Decides when an utterance is over: the rules of Kaldi's online2/online-endpoint.h, on frames,
 * except that silence after speech counts from the end of sound, as a VAD finds it, and not from
 * the network's last symbol; and what a model says itself comes before all rules. Pure functions.
 */
#ifndef STENO_RECOGNIZER_ENDPOINT_H
#define STENO_RECOGNIZER_ENDPOINT_H

#include "speech/families/family.h"

struct steno_endpoint {    /* frames; 0 or less: the rule is off */
    int64_t silence_alone; /* trailing silence before any sound */
    double silence_after;  /* trailing silence after sound */
    int64_t longest;       /* frames since the first symbol */
    int64_t grace;         /* after longest: wait this long for a silent frame to cut at */
    int64_t clear;         /* frames without a symbol before an end, so that late ones come */
    int64_t late;          /* a symbol comes at most this long after its sound */
    int64_t no_symbol;     /* beyond silence_after, without a symbol: the end in spite of sound */
    bool marks;            /* the model's own word counts */
};

/* Frames, all of the same origin. */
struct steno_endpoint_state {
    int64_t now;              /* decoded so far */
    int64_t begin;            /* first frame of the utterance */
    int64_t first, last;      /* its first and last frame with a symbol; first < 0: none */
    double sound;             /* end of the last sound, at most now; < 0: none */
    enum steno_ending ending; /* what the model says */
};

enum steno_endpoint_kind {
    STENO_ENDPOINT_NONE,
    STENO_ENDPOINT_EMPTY, /* silence only: begin again, with no result */
    STENO_ENDPOINT_SILENCE,
    STENO_ENDPOINT_LENGTH,
    STENO_ENDPOINT_TURN,       /* the model says that the turn is over */
    STENO_ENDPOINT_BACKCHANNEL /* the model says that it was no turn */
};

/* Apply the rules. Where the VAD finds no sound in an utterance, silence counts from its last
 * symbol. */
enum steno_endpoint_kind steno_endpoint_check(const struct steno_endpoint *e,
                                              const struct steno_endpoint_state *s);

#endif
