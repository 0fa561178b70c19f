/* Streams and workers of families by windows whose encoder has states (cached_encoder.h): what
 * comes behind the shell's own structs, and a step of it for several streams. */
#ifndef STENO_FAMILIES_COMMON_CACHED_STREAM_H
#define STENO_FAMILIES_COMMON_CACHED_STREAM_H

#include "speech/families/common/cached_encoder_trial.h"
#include "speech/families/common/shell.h"

/* Begins a family's stream. Its encoder begins fresh. */
struct steno_cached_stream {
    struct steno_shell_stream base;
    struct steno_cached_encoder_state encoder;
};

/* Begins a family's worker. */
struct steno_cached_worker {
    struct steno_shell_worker base;
    steno_cached_encoder_batch *batch;
};

/* For `stream_close`, `worker_open` and `worker_close` of the shell, and trials. */
void steno_cached_stream_close(void *stream);
STENO_MUST steno_status steno_cached_worker_open(void *worker, const struct steno_cached_encoder *e,
                                                 int max, steno_err *err);
void steno_cached_worker_close(void *worker);
STENO_MUST steno_status steno_cached_trial_open(void **trial, void *worker, steno_err *err);
#define STENO_CACHED_TRIALS                                                                        \
    .trial_open = steno_cached_trial_open, .trial_run = steno_cached_encoder_trial_run,            \
    .trial_close = steno_cached_encoder_trial_close

/* Run the encoder for the items of a step, as struct steno_family's step. *y: [n, frames, width],
 * valid until the next step. Each item gets its status, which is also returned. */
STENO_MUST steno_status steno_cached_step(void *worker, struct steno_step_item *items, size_t n,
                                          int size, struct steno_network_time *spent,
                                          const float **y);

#endif
