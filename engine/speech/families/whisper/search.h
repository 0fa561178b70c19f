/* The search for one window's text: greedy, sampling, or a beam, one step at a time, so that a
 * caller can run the steps of several searches at once. Confined; buffers are kept from window to
 * window. */
#ifndef STENO_FAMILIES_WHISPER_SEARCH_H
#define STENO_FAMILIES_WHISPER_SEARCH_H

#include "speech/families/whisper/net.h"
#include "speech/families/whisper/rules.h"

#define STENO_WHISPER_MAX_BEAM 32

struct steno_whisper_search_options {
    size_t beam;          /* hypotheses kept at temperature 0; 1: greedy */
    float patience;       /* a beam ends with beam * patience finished hypotheses */
    float length_penalty; /* of hypotheses' scores: score / pieces^length_penalty */
    float temperature;    /* > 0: sampled, and the best of best_of taken */
    size_t best_of;
    size_t max_new; /* pieces; 0: what there is room for, at most 224 */
    uint64_t seed;
    struct steno_whisper_rules rules;
    /* [n_given] pieces that the text begins with, and their log-probabilities; borrowed until the
     * search has ended */
    const int32_t *given;
    const float *given_log_probs;
    size_t n_given;
};

struct steno_whisper_text {
    const int32_t *ids;     /* without the end */
    const float *log_probs; /* of each, after the rules; one more, of the end, where it ended */
    size_t n;
    bool ended;      /* by the end, not by the limit */
    double sum;      /* of log-probabilities, the end's among them */
    float no_speech; /* probability of no speech at the start of the transcript */
};

typedef struct steno_whisper_search steno_whisper_search;

STENO_MUST steno_status steno_whisper_search_open(steno_whisper_search **out,
                                                  const struct steno_whisper *m, steno_err *err);
void steno_whisper_search_close(steno_whisper_search *s);

/* Begin with a prompt [n] that holds the start of the transcript, for the window that `state` has
 * encoded. STENO_ERR_LIMIT: it leaves no room; STENO_ERR_INVAL: options out of range. */
STENO_MUST steno_status steno_whisper_search_start(steno_whisper_search *s,
                                                   const struct steno_whisper_search_options *opt,
                                                   steno_whisper_state *state,
                                                   const int32_t *prompt, size_t n, steno_err *err);
/* What it wants of the next step; false: it has ended. Borrowed until take. */
bool steno_whisper_search_ask(steno_whisper_search *s, struct steno_whisper_ask *ask);
/* The step has been run. */
void steno_whisper_search_take(steno_whisper_search *s, const struct steno_whisper_ask *ask);
/* The best text; valid until the next start. */
struct steno_whisper_text steno_whisper_search_best(const steno_whisper_search *s);
/* All finished texts [n], at most max, best first; valid until the next start. Returns n. */
size_t steno_whisper_search_ranked(const steno_whisper_search *s, struct steno_whisper_text *out,
                                   size_t max);
#endif
