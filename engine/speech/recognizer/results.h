/* Makes events of a family's hypotheses: words, and their times on the stream's clock. */
#ifndef STENO_RECOGNIZER_RESULTS_H
#define STENO_RECOGNIZER_RESULTS_H

#include "base/arena.h"
#include "speech/families/family.h"
#include "speech/recognizer/begun.h"
#include "speech/recognizer/events.h"
#include "speech/recognizer/steady.h"
#include "speech/text/words.h"

/* Confined. Memory is small at first and grows with the utterances. */
struct steno_results {
    size_t n_best;
    struct steno_words *words; /* [n_best], like the next two */
    struct steno_hypothesis *hyps;
    struct steno_alternative *alts;
    struct steno_word *w;       /* [cap_words] of all alternatives */
    struct steno_token *tokens; /* [cap_tokens] of all alternatives */
    size_t cap_words, cap_tokens;
    struct steno_section *sections; /* [cap_sections] of the best one */
    size_t cap_sections;
    steno_arena *written;  /* what grammars wrote of the last event; NULL: nothing yet */
    steno_arena *filtered; /* what filters made of the last event; NULL: nothing yet */
    struct steno_steady steady;
    struct steno_begun begun;
    struct steno_events events;
    int64_t segment; /* counts finals */
    uint64_t shown;  /* fingerprint of the last partial; 0: none */
    bool pausing;    /* an UTTERANCE_END may follow the last final */
    double word_end; /* s: of the last final's last word */
};

/* A word's frames, and those of its neighbours; -1: it has none. */
struct steno_word_frames {
    int64_t before, first, last, after; /* the last frame before it; its own; the first behind it */
};

/* Set the times of a word: it extends around its frames by word_before and word_after of the model.
 * If the gap to a neighbour is smaller than both together, the words meet in it, each with its
 * share of the gap. */
void steno_results_place(const steno_stream *s, const struct steno_word_frames *at,
                         struct steno_word *out);
/* Queue a final that is complete: it ends the segment. STENO_ERR_NOMEM, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_results_end_segment(steno_stream *s, struct steno_event *final);

STENO_MUST steno_status steno_results_open(struct steno_results *r, int n_best);
void steno_results_close(struct steno_results *r);

/* Queue an event. start: speech has begun; voice: a VAD network says so. partial: unless it is the
 * same as the last partial. final: it ends the segment, and the next segment gets the next number.
 * STENO_ERR_NOMEM, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_results_start(steno_stream *s, bool voice);
STENO_MUST steno_status steno_results_partial(steno_stream *s);
STENO_MUST steno_status steno_results_final(steno_stream *s, enum steno_final_reason reason);
/* The stream has failed: the last partial of its utterance becomes a final, without one what the
 * family has. None without words. STENO_ERR_NOMEM, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_results_rescue(steno_stream *s);
/* Whether the running best hypothesis has a word. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_results_has_words(steno_stream *s, bool *words);
/* The turn watch has answered that no end is here: queue an UTTERANCE_END if it may be one. */
STENO_MUST steno_status steno_results_turn(steno_stream *s);
/* Between utterances, the audio up to `now` s has no word: queue the UTTERANCE_END if it is due. */
STENO_MUST steno_status steno_results_pause(steno_stream *s, double now);
/* The same within an utterance whose last symbol ends at last_end s. *done: it was queued; a final
 * without another word is then followed by none. */
STENO_MUST steno_status steno_results_pause_within(steno_stream *s, double last_end, double now,
                                                   bool *done);

#endif
