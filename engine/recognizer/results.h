/* Hypotheses of a family to events: words, their times on the stream's clock, what is new to say.
 */
#ifndef STENO_RECOGNIZER_RESULTS_H
#define STENO_RECOGNIZER_RESULTS_H

#include "families/family.h"
#include "recognizer/events.h"
#include "text/words.h"

/* Confined. Memory is small at first and grows with what is said. */
struct steno_results {
    size_t n_best;
    struct steno_words *words; /* [n_best], and so are the next two */
    struct steno_hypothesis *hyps;
    struct steno_alternative *alts;
    struct steno_word *w;       /* of all alternatives, [cap_words] */
    struct steno_token *tokens; /* likewise */
    size_t cap_words, cap_tokens;
    struct steno_events events;
    int64_t segment; /* counts finals */
    uint64_t shown;  /* fingerprint of the last partial */
};

STENO_MUST steno_status steno_results_open(struct steno_results *r, int n_best);
void steno_results_close(struct steno_results *r);

/* Queue an event: speech has begun; a partial, unless it says what the last one did; a final, after
 * which the next segment counts. STENO_ERR_NOMEM, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_results_start(steno_stream *s);
STENO_MUST steno_status steno_results_partial(steno_stream *s);
STENO_MUST steno_status steno_results_final(steno_stream *s, enum steno_final_reason reason);

#endif
