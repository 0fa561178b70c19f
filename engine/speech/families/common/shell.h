/* The shell of a family: the functions of struct steno_family that are the same for all models of a
 * feeding, and the memory of models, streams and workers. A family fills struct steno_shell with
 * what is its own, and puts it into its struct steno_family, with STENO_OFFLINE_SHELL or
 * STENO_WINDOWED_SHELL. Its structs begin with the shell's:
 *
 *     struct model  { struct steno_shell_model base; ... };
 *     struct stream { struct steno_shell_stream base; ... };
 *     struct worker { struct steno_shell_worker base; ... };
 *
 * All are zero when their `open` function is called; `close` frees what the family put there, also
 * after a failure. docs/add-a-family.md walks through one. */
#ifndef STENO_FAMILIES_COMMON_SHELL_H
#define STENO_FAMILIES_COMMON_SHELL_H

#include "speech/families/common/cached_encoder_trial.h"
#include "speech/families/common/part.h"
#include "speech/families/common/piece_encoder.h"
#include "speech/families/common/piece_features.h"
#include "nn/network/run.h"
#include "speech/families/common/token_search.h"

/* Functions may be NULL unless it says otherwise. */
struct steno_shell {
    size_t model_bytes, stream_bytes, worker_bytes;
    /* Of the first so many networks in base.part that are open, a worker has sessions; of none,
     * where base.pieces has an encoder. */
    int sessions;
    /* Open the directory o->dir and fill base, whose shell, dir, name and threads are already
     * set. Not NULL. */
    steno_status (*open)(void *model, const struct steno_family_open *o, steno_err *err);
    void (*close)(void *model);
    /* Fill what steno_shell_info does not. Not NULL. */
    void (*info)(const void *model, struct steno_family_info *out);
    void (*describe)(const void *model, const struct steno_model_info *i, FILE *out); /* not NULL */
    /* Open a stream's search; resolves o->beam and o->n_best. NULL: there is one hypothesis. */
    steno_status (*stream_open)(void *stream, const void *model, struct steno_family_stream *o,
                                steno_err *err);
    void (*stream_close)(void *stream);
    steno_status (*worker_open)(void *worker, const void *model, int max, steno_err *err);
    void (*worker_close)(void *worker);

    /* Offline. Without an encoder in base.pieces, pieces come one at a time. */
    steno_status (*recognize)(void *worker, struct steno_offline_piece *p);
    /* With one: *x [*n, bins], valid until the next call, and p->numbers. NULL: the filter bank's
     * frames. */
    steno_status (*features)(void *worker, struct steno_piece *p, float **x, size_t *n);
    /* Search the encoder's frames of n pieces at once, before `search` is called for each of those
     * whose of->st is STENO_OK: for searches that run networks. */
    void (*search_together)(void *worker, struct steno_piece *p, size_t n);
    /* Search the frames of a piece, and list its hypotheses in p->of->out. */
    steno_status (*search)(void *worker, const struct steno_piece *p);
};

#define STENO_SHELL_PARTS 5

/* Frozen after open. The shell closes what is in it but for the network of pieces. */
struct steno_shell_model {
    const struct steno_shell *shell;
    char *dir;
    char name[256]; /* the directory's */
    int threads;
    struct steno_part_file part[STENO_SHELL_PARTS]; /* networks, in the family's order */
    steno_tokens *tokens;
    int32_t blank;                       /* of CTC: for steno_shell_open_ctc_stream */
    steno_fbank *front;                  /* NULL: the networks take samples, or the family frames */
    struct steno_search_hints hints;     /* opened: streams take hot words */
    struct steno_offline_family offline; /* set by steno_shell_set_cuts */
    struct steno_piece_encoder pieces;   /* net NULL: there is no such encoder */
    struct steno_cached_encoder encoder; /* of windows, bound; net NULL: there is no such encoder */
    float *quiet; /* CTC of windows: the scores of one without speech, by steno_shell_make_quiet */
};

/* Confined. */
struct steno_shell_stream {
    const void *model;
    struct steno_token_search search;
    struct steno_cached_encoder_state encoder; /* of windows */
};

/* Confined. */
struct steno_shell_worker {
    const void *model;
    steno_session *session[STENO_SHELL_PARTS]; /* see `sessions`; closed last to first, behind the
                                                * family's own */
    steno_piece_runs *runs;                    /* with an encoder of pieces */
    struct steno_piece_features features;      /* offline, with a filter bank */
    steno_cached_encoder_batch *batch;         /* with an encoder of windows */
};

/* In `open` of an offline family, which has set base.tokens: chunks have at most `full` seconds at
 * `rate` Hz, times of tokens differ by at most `slack` frames between chunks. */
void steno_shell_set_cuts(struct steno_shell_model *m, int rate, double full, size_t frame_samples,
                          int64_t slack);
/* In `open` of an offline family, last: recognize a second of noise, so that a network that fails
 * does so at load. */
STENO_MUST steno_status steno_shell_try_piece(struct steno_shell_model *m, steno_err *err);

/* In `open`: find and open the files of stems [n] as base.part[0], ...; those of 8 bits, if they
 * are there, where they are faster or asked for. Errors of steno_part_file_open. */
STENO_MUST steno_status steno_shell_open_parts(struct steno_shell_model *m,
                                               const struct steno_family_open *o,
                                               const char *const *stems, int n, steno_err *err);
/* In `open`: read a file of the directory as base.tokens. Errors of steno_tokens_open. */
STENO_MUST steno_status steno_shell_open_tokens(struct steno_shell_model *m, const char *file,
                                                steno_err *err);
/* `stream_open` of a CTC model without rules of its own. */
STENO_MUST steno_status steno_shell_open_ctc_stream(void *stream, const void *model,
                                                    struct steno_family_stream *o, steno_err *err);
/* A run of the session of base.part[part]. */
struct steno_run steno_shell_run(const void *worker, int part, steno_err *err);

/* Open a session of a network, with the model's threads. */
STENO_MUST steno_status steno_shell_session_open(steno_session **out,
                                                 const struct steno_shell_model *m,
                                                 steno_network *net, steno_err *err);
/* The lines "model", "directory" and "languages" of a description. kind: what follows name and
 * family, or "". */
void steno_shell_describe_head(const struct steno_model_info *i, const char *kind, FILE *out);
/* The line of a description that tells the search of a model with CTC. blank: its piece. */
void steno_shell_describe_search(const struct steno_shell_model *m,
                                 const struct steno_model_info *i, const char *blank, FILE *out);
/* The lines of a description that tell endpoints and memory of a model fed by windows. */
void steno_shell_describe_limits(const struct steno_model_info *i, FILE *out);

/* List what the search of p's stream has found. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_shell_list(const struct steno_offline_piece *p);
/* Search all scores [n, vocab] of a piece with CTC. file: that gave them, for messages.
 * STENO_ERR_FORMAT: one is NaN; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_shell_search_scores(const struct steno_offline_piece *p,
                                                  const float *scores, size_t n, const char *file);

/* As of struct steno_family. */
STENO_MUST steno_status steno_shell_open(void **model, const struct steno_family_open *o,
                                         steno_err *err);
void steno_shell_close(void *model);
/* Names, tokens, weights of base.part, the file of the first as `network`, hop and bins of the
 * filter bank; of offline models sample_rate, batches, what steno_offline_info fills, and the first
 * partial as chunk_seconds; of an encoder of windows stream_bytes, batches, feeding, and of
 * `windows` front, frames and rows. */
void steno_shell_info(const void *model, struct steno_family_info *out);
void steno_shell_describe(const void *model, const struct steno_model_info *i, FILE *out);
STENO_MUST steno_status steno_shell_worker_open(void **worker, void *model, int max,
                                                steno_err *err);
void steno_shell_worker_close(void *worker);
STENO_MUST steno_status steno_shell_offline_new(void **state, void *model,
                                                struct steno_family_stream *o, steno_err *err);
STENO_MUST steno_status steno_shell_trial_open(void **trial, void *worker, steno_err *err);
/* By windows: the state is the family's stream, and the others ask its search. */
STENO_MUST steno_status steno_shell_state_new(void **state, void *model,
                                              struct steno_family_stream *o, steno_err *err);
void steno_shell_state_free(void *state);
steno_status steno_shell_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                    size_t *n, size_t *stable);
steno_status steno_shell_consume(void *state, bool *left);
int64_t steno_shell_frames(const void *state);
int64_t steno_shell_last_sound(const void *state);
size_t steno_shell_n_tokens(const void *state);

/* ---- windows ---- */

/* In `open`, of an encoder that is bound as base.encoder: steps on noise (cached_encoder_trial.h).
 * r: its `arg` becomes the worker. leads: recordings begin with the states after a window of
 * zeros. file: of the network, for messages. */
STENO_MUST steno_status steno_shell_try_encoder(struct steno_shell_model *m,
                                                const struct steno_cached_encoder_reader *r,
                                                bool leads, const char *file, steno_err *err);
/* Fill base.quiet for windows of `frames` frames of `vocab` scores. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_shell_make_quiet(struct steno_shell_model *m, int64_t frames,
                                               int32_t vocab, steno_err *err);
/* Run base.encoder for the items of a step, as struct steno_family's step. *y: [n, frames, width],
 * valid until the next step. Each item gets its status, which is also returned. */
STENO_MUST steno_status steno_shell_step_encoder(void *worker, struct steno_step_item *items,
                                                 size_t n, int size,
                                                 struct steno_network_time *spent, const float **y);
STENO_MUST steno_status steno_shell_encoder_trial_open(void **trial, void *worker, steno_err *err);
/* The search of a stream at a reset: the frames go on, but in a new recording. */
STENO_MUST steno_status steno_shell_reset_search(void *state, enum steno_reset what);
/* After an endpoint the encoder keeps its states: the speech comes from the same room. */
steno_status steno_shell_reset_ctc(void *state, enum steno_reset what, steno_err *err);
void steno_shell_step_ctc(void *worker, struct steno_step_item *items, size_t n, int size,
                          struct steno_network_time *spent);
steno_status steno_shell_skip_ctc(void *state);

#define STENO_SHELL_FUNCTIONS                                                                      \
    .open = steno_shell_open, .close = steno_shell_close, .info = steno_shell_info,                \
    .describe = steno_shell_describe, .worker_open = steno_shell_worker_open,                      \
    .worker_close = steno_shell_worker_close
/* Trials of an encoder of pieces; none without one. */
#define STENO_SHELL_TRIALS                                                                         \
    .trial_open = steno_shell_trial_open, .trial_run = steno_piece_trial_run,                      \
    .trial_close = steno_piece_trial_close
#define STENO_OFFLINE_SHELL                                                                        \
    STENO_SHELL_FUNCTIONS, STENO_SHELL_TRIALS, STENO_OFFLINE_FUNCTIONS,                            \
        .state_new = steno_shell_offline_new
/* Trials of an encoder of windows. */
#define STENO_ENCODER_TRIALS                                                                       \
    .trial_open = steno_shell_encoder_trial_open, .trial_run = steno_cached_encoder_trial_run,     \
    .trial_close = steno_cached_encoder_trial_close
/* By windows: a family adds reset, step, skip and trials. */
#define STENO_WINDOWED_STATE                                                                       \
    STENO_SHELL_FUNCTIONS, .state_new = steno_shell_state_new, .state_free = steno_shell_state_free
#define STENO_WINDOWED_SEARCH                                                                      \
    .consume = steno_shell_consume, .frames = steno_shell_frames,                                  \
    .last_sound = steno_shell_last_sound, .n_tokens = steno_shell_n_tokens
#define STENO_WINDOWED_SHELL                                                                       \
    STENO_WINDOWED_STATE, STENO_WINDOWED_SEARCH, .hypotheses = steno_shell_hypotheses
/* The same of an encoder of windows whose frames are the scores of CTC: all of it. */
#define STENO_WINDOWED_CTC                                                                         \
    STENO_WINDOWED_SHELL, STENO_ENCODER_TRIALS,                                                    \
        .reset = steno_shell_reset_ctc, .step = steno_shell_step_ctc, .skip = steno_shell_skip_ctc

#endif
