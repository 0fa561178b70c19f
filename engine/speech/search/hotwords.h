/* Phrases that a search favours: an Aho-Corasick automaton over tokens (Aho and Corasick, 1975),
 * with the scores of icefall's context graph (icefall/context_graph.py).
 *
 * Each token of a phrase adds the phrase's score as a hypothesis moves along it. When the next
 * token leaves the phrase, what was added is taken back, down to the longest suffix that begins
 * another phrase. A complete phrase keeps its sum, and matching begins anew behind it.
 *
 * Frozen after steno_hotwords_build. Memory and time of a build are bounded by
 * STENO_HOTWORDS_TOKENS; a step takes the logarithm of a state's successors, and as many failure
 * links as the phrase has tokens. */
#ifndef STENO_SEARCH_HOTWORDS_H
#define STENO_SEARCH_HOTWORDS_H

#include "base/status.h"

typedef struct steno_hotwords steno_hotwords;

#define STENO_HOTWORDS_TOKENS 65536 /* of all phrases together */
#define STENO_HOTWORDS_START 0      /* state of a hypothesis that is in no phrase */

STENO_MUST steno_status steno_hotwords_open(steno_hotwords **out, steno_err *err);
void steno_hotwords_close(steno_hotwords *h);
/* Add a phrase of n tokens; score: log-probability that each of its tokens adds. A token that
 * several phrases share has the highest of their scores. An empty phrase is ignored. Before
 * steno_hotwords_build. STENO_ERR_LIMIT: more than STENO_HOTWORDS_TOKENS; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_hotwords_add(steno_hotwords *h, const int32_t *tokens, size_t n,
                                           float score, steno_err *err);
/* Complete the automaton. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_hotwords_build(steno_hotwords *h, steno_err *err);
/* The state after `token`. *score: what the step adds, negative where it takes back. */
int32_t steno_hotwords_step(const steno_hotwords *h, int32_t state, int32_t token, float *score);
/* The tokens that go on with a phrase in a state: their number, and token i < that. */
size_t steno_hotwords_n_next(const steno_hotwords *h, int32_t state);
int32_t steno_hotwords_next(const steno_hotwords *h, int32_t state, size_t i);
/* What the end of the sequence takes back in a state. */
float steno_hotwords_end(const steno_hotwords *h, int32_t state);

#endif
