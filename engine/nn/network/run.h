/* A run of a network: its inputs are set, then it runs. The first failure stays, and what follows
 * it does nothing, so that a caller looks once, at the end. Confined. */
#ifndef STENO_NN_NETWORK_RUN_H
#define STENO_NN_NETWORK_RUN_H

#include "nn/network/network.h"

struct steno_run {
    steno_session *session;
    const char *name; /* of the network's file: messages begin with it; NULL: they do not */
    steno_err *err;   /* or NULL */
    steno_status st;
};

struct steno_run steno_run_begin(steno_session *s, const char *name, steno_err *err);
/* Set input i: data [dim 0, ...], borrowed as steno_session_set says; dim may be NULL for rank 0.
 * An input of number -1, which a network may lack, is passed over, here and below. */
void steno_run_set(struct steno_run *r, int i, steno_dtype type, const int64_t *dim, int rank,
                   const void *data);
/* Set input i to a tensor, as an output of another session. */
void steno_run_set_tensor(struct steno_run *r, int i, const struct steno_tensor *t);
/* A mask of ones, as many as were needed. Confined; the caller frees `data`. */
struct steno_ones {
    int64_t *data;
    size_t cap;
};
/* Set input i to ones [1, n], i64 or bool, always the same for one mask. */
void steno_run_set_ones(struct steno_run *r, int i, steno_dtype type, size_t n,
                        struct steno_ones *m);
/* Run the network. The first failure: of an input, STENO_ERR_NOMEM, of steno_session_run. */
STENO_MUST steno_status steno_run_end(struct steno_run *r);
/* Number of elements of output i, in f32 at *out; 0: it has another type. */
size_t steno_run_floats(const steno_session *s, int i, const float **out);

#endif
