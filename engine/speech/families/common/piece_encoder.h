/* An encoder of whole pieces of audio that takes several pieces in one run:
 *
 *     x [N, frames, bins] or [N, bins, frames], lengths [N], numbers [N]...
 *         -> y [N, T, dim] or [N, dim, T], lengths [N]
 *
 * Pieces of a step are sorted by length. A run takes neighbours as long as the zeros behind the
 * shorter ones are at most a fifth of its frames, so that the length of one piece does not make the
 * others expensive. A test at load (steno_piece_encoder_try) finds out whether other pieces change
 * a piece's frames, and whether zeros behind it do (Zipformer's last frames: its downsampling
 * repeats the last frame). Then pieces run alone, or with others of the same length. */
#ifndef STENO_FAMILIES_COMMON_PIECE_ENCODER_H
#define STENO_FAMILIES_COMMON_PIECE_ENCODER_H

#include "speech/families/common/offline.h"
#include "nn/network/network.h"

#define STENO_PIECE_NUMBERS 2 /* most whole numbers that a network takes beside a piece */

/* Frozen after steno_piece_encoder_try. */
struct steno_piece_encoder {
    steno_network *net;               /* borrowed */
    const char *name;                 /* of its file, for messages; borrowed */
    int x;                            /* input */
    int length;                       /* input [N] i32 or i64, or a mask [N, frames] i64 of ones;
                                       * -1: there is none, and pieces run alone */
    int numbers[STENO_PIECE_NUMBERS]; /* inputs [N] i32 */
    int n_numbers;
    int y;         /* output */
    int lengths;   /* output [N] i32 or i64, or a mask [N, T] i64 or bool whose ones are counted;
                    * -1: there is none, and y of a piece of n frames has n + ahead */
    int64_t ahead; /* -1: not known without lengths; only pieces of one length share a run, or */
    /* without lengths: y of a piece of n frames has ceil(n / every); 0: not known. The test at load
     * sets 0 where that is not so. */
    int64_t every;
    size_t bins, dim;
    bool bins_first, dim_first; /* the frames are the last dimension of x; of y */
    bool frames_first;          /* y [T, 1, dim] of one piece */
    size_t least;               /* feature frames; shorter pieces have no encoder frames */
    /* Feature frames of a piece of a trial: a quarter of a second, which reads all weights. The
     * limit of a batch's time (batch_run of pool.h) then allows batches of short pieces, and
     * STENO_OFFLINE_TOGETHER bounds the time of long ones. */
    size_t trial_frames;
    /* Set by steno_piece_encoder_try: several pieces of one length in a run; of different lengths.
     */
    bool batches, pads;
};

/* A piece in a step. */
struct steno_piece {
    struct steno_offline_piece *of;
    int32_t numbers[STENO_PIECE_NUMBERS];
    const float *rows; /* [n, dim] encoder frames; valid in the call of search */
    size_t n;
};

/* What a family does with pieces. */
struct steno_piece_functions {
    /* Compute the features of p->of: *x [*n, bins], valid until the next call; fill p->numbers. */
    steno_status (*features)(void *worker, struct steno_piece *p, float **x, size_t *n);
    /* Search the encoder frames of n <= STENO_BATCH_MAX pieces and list their hypotheses; each gets
     * its status of->st. A piece too short for frames has p->n = 0. */
    void (*search)(void *worker, struct steno_piece *p, size_t n);
};

/* Runs of one thread. Confined. */
typedef struct steno_piece_runs steno_piece_runs;

/* e: borrowed. STENO_ERR_NOMEM, errors of steno_session_open. */
STENO_MUST steno_status steno_piece_runs_open(steno_piece_runs **out,
                                              const struct steno_piece_encoder *e, int threads,
                                              steno_err *err);
void steno_piece_runs_close(steno_piece_runs *r);
/* Recognize n <= STENO_BATCH_MAX pieces: as struct steno_offline_family's. worker: f's. */
void steno_piece_runs_recognize(steno_piece_runs *r, const struct steno_piece_functions *f,
                                void *worker, struct steno_offline_piece *p, size_t n);

/* Run pieces of noise alone and together, and set e->batches and e->pads: the frames are equal up
 * to 1e-3 (1 + their size), or exactly if `exact` (quantized networks may round over the range of
 * all pieces). Errors of a run alone, so that a network that fails does so at load;
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_piece_encoder_try(struct steno_piece_encoder *e, int threads,
                                                bool exact, steno_err *err);

/* Trials of struct steno_family: pieces of noise of e->trial_frames. *trial becomes NULL if pieces
 * run alone. */
steno_status steno_piece_trial_open(void **trial, steno_piece_runs *r, steno_err *err);
steno_status steno_piece_trial_run(void *trial, int size, steno_err *err);
void steno_piece_trial_close(void *trial);

#endif
