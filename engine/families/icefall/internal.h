/* Structs and functions that the files of family icefall share: model.c (a directory), stream.c
 * (states and search of one stream), step.c (steps of several streams at once). */
#ifndef STENO_FAMILIES_ICEFALL_INTERNAL_H
#define STENO_FAMILIES_ICEFALL_INTERNAL_H

#include "families/common/cached_encoder.h"
#include "families/family.h"
#include "families/icefall/files.h"
#include "families/icefall/nets.h"

#define STENO_ICEFALL_SUBSAMPLING 4 /* feature frames of a frame of scores, in all recipes */

/* Frozen after open. */
struct steno_icefall_model {
    char *dir;
    char name[64], network[128], type[32]; /* directory, encoder's file, metadata model_type */
    int threads;
    struct steno_icefall_files files;
    bool streaming, ctc;
    steno_tokens *tokens;
    int32_t blank, unknown, vocab;                         /* unknown: -1 where there is none */
    steno_network *encoder_net, *decoder_net, *joiner_net; /* the last two NULL: CTC */
    struct steno_cached_encoder encoder;                   /* streaming */
    struct steno_icefall_nets nets;                        /* transducer */
    steno_fbank *front;
    size_t hop;    /* samples per feature frame */
    int64_t shift; /* streaming: feature frames that a window moves per step */
    float *quiet;  /* streaming CTC: [frames, vocab] scores of a window without speech */
    double blank_penalty;
};

/* The family's state of one stream. Confined. */
struct steno_icefall_stream {
    struct steno_icefall_model *model;
    struct steno_cached_encoder_state encoder;
    steno_stateless *search;  /* transducer */
    steno_ctc_greedy *greedy; /* CTC: one of greedy and beam is NULL */
    steno_ctc_beam *beam;
    struct steno_hyp *hyps; /* [n_best] */
    bool stepped;           /* the search has read a step that the recognizer has not consumed */
};

/* step.c */
STENO_MUST steno_status steno_icefall_worker_open(void **worker, void *model, int max,
                                                  steno_err *err);
void steno_icefall_worker_close(void *worker);
void steno_icefall_step(void *worker, struct steno_step_item *items, size_t n, int size,
                        struct steno_network_time *spent);
STENO_MUST steno_status steno_icefall_trial_open(void **trial, void *worker, steno_err *err);
STENO_MUST steno_status steno_icefall_trial_run(void *trial, int size, steno_err *err);
void steno_icefall_trial_close(void *trial);
/* Run a few steps on noise, alone and as a batch, so that a network that fails does so at load and
 * not with the first stream. Where the streams of a batch change each other's results, the model
 * takes no batches (encoder.batches). */
STENO_MUST steno_status steno_icefall_try(struct steno_icefall_model *m, steno_err *err);

/* stream.c */
STENO_MUST steno_status steno_icefall_stream_new(void **state, void *model,
                                                 struct steno_family_stream *o, steno_err *err);
void steno_icefall_stream_free(void *state);
STENO_MUST steno_status steno_icefall_reset(void *state, enum steno_reset what, steno_err *err);
STENO_MUST steno_status steno_icefall_hypotheses(void *state, struct steno_hypothesis *out,
                                                 size_t max, size_t *n, size_t *stable);
STENO_MUST steno_status steno_icefall_consume(void *state, bool *left);
STENO_MUST steno_status steno_icefall_skip(void *state);
int64_t steno_icefall_frames(const void *state);
int64_t steno_icefall_last_sound(const void *state);
size_t steno_icefall_n_tokens(const void *state);

#endif
