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

#include "speech/families/common/piece_encoder.h"
#include "speech/families/common/piece_features.h"
#include "speech/families/common/token_search.h"

/* Functions may be NULL unless it says otherwise. */
struct steno_shell {
    size_t model_bytes, stream_bytes, worker_bytes;
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

/* Frozen after open. The shell closes what is in it but for the network of pieces. */
struct steno_shell_model {
    const struct steno_shell *shell;
    char *dir;
    char name[256]; /* the directory's */
    int threads;
    steno_tokens *tokens;
    steno_fbank *front;                  /* NULL: the networks take samples, or the family frames */
    struct steno_search_hints hints;     /* opened: streams take hot words */
    struct steno_offline_family offline; /* set by steno_shell_set_cuts */
    struct steno_piece_encoder pieces;   /* net NULL: there is no such encoder */
};

/* Confined. */
struct steno_shell_stream {
    const void *model;
    struct steno_token_search search;
};

/* Confined. */
struct steno_shell_worker {
    const void *model;
    steno_piece_runs *runs;               /* with an encoder of pieces */
    struct steno_piece_features features; /* offline, with a filter bank */
};

/* In `open` of an offline family, which has set base.tokens: chunks have at most `full` seconds at
 * `rate` Hz, times of tokens differ by at most `slack` frames between chunks. */
void steno_shell_set_cuts(struct steno_shell_model *m, int rate, double full, size_t frame_samples,
                          int64_t slack);
/* In `open` of an offline family, last: recognize a second of noise, so that a network that fails
 * does so at load. */
STENO_MUST steno_status steno_shell_try_piece(struct steno_shell_model *m, steno_err *err);

/* Open a session of a network, with the model's threads. */
STENO_MUST steno_status steno_shell_session_open(steno_session **out,
                                                 const struct steno_shell_model *m,
                                                 steno_network *net, steno_err *err);
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
/* Names, tokens, hop and bins of the filter bank, and of offline models sample_rate, batches, what
 * steno_offline_info fills, and the first partial as chunk_seconds. */
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
/* By windows: a family adds reset, step, skip and trials. */
#define STENO_WINDOWED_STATE                                                                       \
    STENO_SHELL_FUNCTIONS, .state_new = steno_shell_state_new, .state_free = steno_shell_state_free
#define STENO_WINDOWED_SHELL                                                                       \
    STENO_WINDOWED_STATE, .hypotheses = steno_shell_hypotheses, .consume = steno_shell_consume,    \
                          .frames = steno_shell_frames, .last_sound = steno_shell_last_sound,      \
                          .n_tokens = steno_shell_n_tokens

#endif
