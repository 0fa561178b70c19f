/* Sessions run a network's graph any number of times, on inputs of any shape. */
#ifndef STENO_NN_EXEC_SESSION_H
#define STENO_NN_EXEC_SESSION_H

#include "nn/exec/precision.h"
#include "nn/exec/kv_cache.h"
#include "nn/graph/graph.h"

typedef struct steno_network steno_network; /* frozen: graph, packed weights, kernel table */
/* confined: arena, plan, state of one run at a time */
typedef struct steno_session steno_session;

/* Called before every run of a session of a network; path is the one with which the network was
 * opened. */
struct steno_observer {
    void (*run)(void *arg, const char *path, const steno_network *n, const struct steno_tensor *in);
    void *arg;
};

struct steno_session_options {
    int threads; /* size of the session's worker team, this thread included; 0 = 1 */
    /* For models and inputs of unknown origin: STENO_ERR_LIMIT when these limits are exceeded. */
    size_t max_bytes; /* bytes of activations; 0 = no limit */
    /* nodes run in one steno_session_run, loop iterations included; 0 = no limit */
    uint64_t max_steps;
};
/* Open a session of n, which must outlive it. opt may be NULL. STENO_ERR_INVAL: n was opened with
 * rewrite_only. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_session_open(steno_session **out, steno_network *n,
                                           const struct steno_session_options *opt, steno_err *err);
void steno_session_close(steno_session *s);

/* Set input i to a tensor: the header is copied, the elements are borrowed. It stays set for later
 * runs, as long as the memory exists. STENO_ERR_INVAL: type, rank or a fixed dimension differ from
 * the model's.
 *
 * Streaming states: the elements may be those of an output of the last run,
 *     steno_session_set(s, state_in, steno_session_get(s, state_out), err);
 * A run never overwrites what it reads. The session has a second buffer for such an output and
 * alternates between the two; nothing is copied. */
STENO_MUST steno_status steno_session_set(steno_session *s, int i, const struct steno_tensor *t,
                                          steno_err *err);
/* Index of the output that is the next state of input i, if the state can be updated in place: one
 * operator alone reads the input, nothing else reads the output, and the operator can update the
 * input where it lies. -1 for any other input. */
int steno_session_in_place(const steno_session *s, int i);
/* Set such an input entry by entry: t has type and shape, row [dim 0] the memory of each entry
 * along axis 0; the array is borrowed too. A run updates the entries to those of the output, whose
 * own elements are then undefined. A run that fails may have updated some of them. */
STENO_MUST steno_status steno_session_set_rows(steno_session *s, int i,
                                               const struct steno_tensor *t, void *const *row,
                                               steno_err *err);
/* Bind the key/value cache that operators of STENO_PART_STEP read beside the inputs; borrowed until
 * the next call of this function. */
void steno_session_bind_kv(steno_session *s, const struct steno_kv_binding *kv_binding);
/* Run the network. The first run with new input shapes makes a plan; later runs allocate nothing.
 */
STENO_MUST steno_status steno_session_run(steno_session *s, steno_err *err);
/* Result i, valid until the next run or, if it was set as an input, until the end of that run.
 * Never NULL after a successful run; NULL for an output that does not exist. */
const struct steno_tensor *steno_session_get(const steno_session *s, int i);

/* Give back the memory of activations. Outputs of the last run become invalid, and states must be
 * set again. The next run allocates anew. all: also drop what is held for the shapes so far (plans
 * and plan constants). */
void steno_session_trim(steno_session *s, bool all);

/* Switch the time measurement per node on or off, from the next run on; times add up until it is
 * off. */
void steno_session_set_profile(steno_session *s, bool on);
struct steno_profile_row {
    const struct steno_node *node;
    /* its graph: the main one, or a branch that is part of the plan */
    const struct steno_graph *graph;
    int64_t ns; /* sum over runs; the bodies of If, Loop and Scan count for their node */
    int64_t runs;
    double flops; /* one run */
    double bytes; /* of its inputs and outputs; packed weights count as packed */
};
/* Step i of the main graph's current plan, in running order; false after the last. Views cost
 * nothing and are left out. */
bool steno_session_profile(const steno_session *s, int i, struct steno_profile_row *row);

/* Bytes of activations: arenas, output buffers, pool and scratch of all graphs. */
size_t steno_session_arena_bytes(const steno_session *s);
/* Bytes of plan constants: those of the main graph's plans, which a trim without `all` leaves, and
 * those that the network holds for all its sessions. */
size_t steno_session_plan_constant_bytes(const steno_session *s);
/* Number of outputs so far with another shape than the inferred one. */
size_t steno_session_misplans(const steno_session *s);
/* Floating point operations of the last run. */
double steno_session_flops(const steno_session *s);

#endif
