/* Structs and functions that the files of family ctc_streaming share: model.c (a directory),
 * stream.c (states and search of one stream), step.c (steps of several streams at once). */
#ifndef STENO_FAMILIES_CTC_INTERNAL_H
#define STENO_FAMILIES_CTC_INTERNAL_H

#include "families/ctc/conf.h"
#include "families/common/cached_encoder.h"
#include "families/common/token_search.h"
#include "families/family.h"

/* Frozen after open. */
struct steno_ctc_model {
    char *dir;
    int threads;
    struct steno_model_conf conf;
    steno_tokens *tokens;
    int32_t blank;
    steno_network *network;
    struct steno_cached_encoder encoder; /* how its inputs and outputs are used */
    steno_fbank *front;
    size_t hop;   /* samples per feature frame */
    float *quiet; /* [frames, vocab] scores of a window without speech */
};

/* The family's state of one stream. Confined. */
struct steno_ctc_stream {
    const struct steno_ctc_model *model;
    struct steno_cached_encoder_state encoder;
    struct steno_token_search search;
};

/* step.c */
STENO_MUST steno_status steno_ctc_worker_open(void **worker, void *model, int max, steno_err *err);
void steno_ctc_worker_close(void *worker);
void steno_ctc_step(void *worker, struct steno_step_item *items, size_t n, int size,
                    struct steno_network_time *spent);
STENO_MUST steno_status steno_ctc_trial_open(void **trial, void *worker, steno_err *err);
/* steno_cached_encoder_try on all scores of a step. */
STENO_MUST steno_status steno_ctc_try(struct steno_ctc_model *m, steno_err *err);

/* stream.c */
STENO_MUST steno_status steno_ctc_stream_new(void **state, void *model,
                                             struct steno_family_stream *o, steno_err *err);
void steno_ctc_stream_free(void *state);
STENO_MUST steno_status steno_ctc_reset(void *state, enum steno_reset what, steno_err *err);
STENO_MUST steno_status steno_ctc_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                             size_t *n, size_t *stable);
STENO_MUST steno_status steno_ctc_consume(void *state, bool *left);
STENO_MUST steno_status steno_ctc_skip(void *state);
int64_t steno_ctc_frames(const void *state);
int64_t steno_ctc_last_sound(const void *state);
size_t steno_ctc_n_tokens(const void *state);

#endif
