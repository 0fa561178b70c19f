/* What may be sampled next (openai/whisper, whisper/decoding.py: SuppressBlank, SuppressTokens,
 * ApplyTimestampRules; the options of faster-whisper beside them). Stateless. */
#ifndef STENO_FAMILIES_WHISPER_RULES_H
#define STENO_FAMILIES_WHISPER_RULES_H

#include "speech/families/whisper/model.h"

struct steno_whisper_rules {
    bool times;              /* segments are marked by timestamps */
    bool no_blank;           /* the first piece is neither a blank nor the end */
    const int32_t *suppress; /* [n_suppress] pieces that never come */
    size_t n_suppress;
    int32_t max_initial;      /* the first timestamp is at most so many steps of 0.02 s; < 0: any */
    float repetition_penalty; /* of pieces there are already; 1: none */
    size_t no_repeat_ngram;   /* no n-gram of so many pieces twice; 0: any */
};

/* Those of openai/whisper: pieces that are not speech never come, 50 steps. */
struct steno_whisper_rules steno_whisper_rules_default(const struct steno_whisper *m);

/* Scores x [vocab] of what follows seq [n], the pieces sampled so far in this window, in place:
 * what may not come becomes -infinity. */
void steno_whisper_rules_apply(const struct steno_whisper *m, const struct steno_whisper_rules *r,
                               const int32_t *seq, size_t n, float *x);

#endif
