/* Streams of models that recognize a piece of audio at once. A segment is cut into chunks
 * (cutter.h); each is recognized once it is complete, and the tokens of all are the segment's
 * hypothesis, on its clock. A segment that fits into one chunk is recognized as it is, and may have
 * several hypotheses. Partials recognize the chunk that still grows, each time it has grown by a
 * third.
 *
 * A step recognizes the pieces of several streams together, as many as have at most
 * STENO_OFFLINE_TOGETHER seconds, and defers the others: long pieces gain little, and short ones
 * would wait for them.
 *
 * Families have all of it by their shell (shell.h). */
#ifndef STENO_FAMILIES_COMMON_OFFLINE_H
#define STENO_FAMILIES_COMMON_OFFLINE_H

#include "speech/families/common/cutter.h"
#include "speech/families/common/hypotheses.h"
#include "speech/families/family.h"

#define STENO_OFFLINE_FIRST_PARTIAL 0.8 /* s of a chunk until its first partial */
#define STENO_OFFLINE_TOGETHER 8.0      /* s of the pieces of a step, unless there is one alone */

/* What the family does with one chunk. */
struct steno_offline_piece {
    void *settings;   /* the family's, of the stream */
    const float *pcm; /* [n] at the model's rate */
    size_t n;
    bool partial;        /* only the best hypothesis is needed */
    uint64_t chunk;      /* its number in the stream, from 1: the same as long as pcm only grows */
    int64_t frame;       /* number of its first frame in the segment */
    int64_t before, end; /* of its frames, those before and from there on are of other chunks too */
    /* results */
    struct steno_hypothesis_list *out; /* empty; frames count from the begin of pcm */
    struct steno_labels labels;
    const char *language; /* code; NULL: not known. Static */
    float language_probability;
    steno_status st;
    steno_err *err; /* or NULL */
};

struct steno_offline_family {
    struct steno_cutter_options cuts; /* with keep_silence; the grain is frame_samples */
    size_t frame_samples;
    int64_t slack; /* frames: how far the time of a token may differ between two chunks */
    const steno_tokens *tokens;
    bool resumes; /* a partial costs what is new: it comes as often as the first */
    /* Recognize n <= STENO_BATCH_MAX pieces of different streams; each gets its status. A piece's
     * results do not depend on the others. */
    void (*recognize)(void *worker, struct steno_offline_piece *p, size_t n);
    void (*settings_free)(void *settings);
};

/* A chunk of at most `full` seconds, cut where nobody speaks if it can be. */
struct steno_cutter_options steno_offline_cuts(int rate, double full, size_t frame_samples);

/* Fill the fields of info that all such models share: frame_samples, stream_bytes, endpoint (with
 * utterances of at most a chunk), untimed, feeding and segments. */
void steno_offline_info(const struct steno_offline_family *family, struct steno_family_info *out);
/* The lines of a description that say how such a model is fed, its endpoint and its memory. */
void steno_offline_describe(const struct steno_offline_family *family,
                            const struct steno_model_info *i, FILE *out);

/* family: borrowed, the model's. settings: belongs to the stream, also after a failure. o->n_best
 * and o->beam: resolved by the caller. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_offline_new(void **state, const struct steno_offline_family *family,
                                          void *settings, struct steno_family_stream *o,
                                          steno_err *err);

/* As of struct steno_family. */
void steno_offline_free(void *state);
steno_status steno_offline_reset(void *state, enum steno_reset what, steno_err *err);
void steno_offline_step(void *worker, struct steno_step_item *items, size_t n, int size,
                        struct steno_network_time *spent);
steno_status steno_offline_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                      size_t *n, size_t *stable);
steno_status steno_offline_accept(void *state, const float *pcm, size_t dropped, size_t end,
                                  bool *due);
size_t steno_offline_accepted(const void *state);
size_t steno_offline_missing(const void *state);
/* These functions in a family's table. Trials are those of the shell (shell.h). They find the sizes
 * of batches; the time of a step, which depends on its pieces, is not in *spent but counts as a
 * stream's own. */
#define STENO_OFFLINE_FUNCTIONS                                                                    \
    .state_free = steno_offline_free, .reset = steno_offline_reset, .step = steno_offline_step,    \
    .hypotheses = steno_offline_hypotheses, .accept = steno_offline_accept,                        \
    .accepted = steno_offline_accepted, .missing = steno_offline_missing

#endif
