/* Sessions: a network's graph run, as often as wanted, on inputs of any shape. */
#ifndef STENO_NN_EXEC_SESSION_H
#define STENO_NN_EXEC_SESSION_H

#include "nn/exec/precision.h"
#include "nn/exec/kv_cache.h"
#include "nn/graph/graph.h"

typedef struct steno_network steno_network; /* frozen: graph, packed weights, kernel table */
typedef struct steno_session steno_session; /* confined: arena, plan, states of one run at a time */

/* Hears of every run of a session of a network, before it: path as that was opened. */
struct steno_observer {
    void (*run)(void *arg, const char *path, const steno_network *n, const struct steno_tensor *in);
    void *arg;
};

struct steno_session_options {
    int threads; /* size of the session's worker team, this thread included; 0 = 1 */
    /* For models and inputs of unknown origin: STENO_ERR_LIMIT instead of more. */
    size_t max_bytes;   /* of activations; 0 = no limit */
    uint64_t max_steps; /* nodes run in one steno_session_run, loop rounds included; 0 = no limit */
};
STENO_MUST steno_status steno_session_open(steno_session **out, steno_network *n,
                                           const struct steno_session_options *opt, steno_err *err);
void steno_session_close(steno_session *s);

/* Give input i a tensor: header copied, elements borrowed. It stays set for later runs, as long as
 * the memory does. STENO_ERR_INVAL when type, rank or a fixed dimension differ from the model's.
 *
 * Streaming states: the elements may be those of an output of the last run,
 *     steno_session_set(s, state_in, steno_session_get(s, state_out), err);
 * a run never writes over what it reads (the session keeps a second buffer for such an output and
 * changes over; nothing is copied). */
STENO_MUST steno_status steno_session_set(steno_session *s, int i, const struct steno_tensor *t,
                                          steno_err *err);
/* Input i is a state that one operator alone reads, whose next form is output *returned* and read
 * by nobody else, and the operator can change it where it lies; -1 for any other input. */
int steno_session_in_place(const steno_session *s, int i);
/* Such an input entry by entry: t gives type and shape, row [dim 0] the memory of each entry along
 * axis 0 (the array is borrowed too). A run changes the entries to those of the output, which has
 * no defined elements then; a run that fails may have changed some. */
STENO_MUST steno_status steno_session_set_rows(steno_session *s, int i,
                                               const struct steno_tensor *t, void *const *row,
                                               steno_err *err);
/* Memory that operators of STENO_PART_STEP read beside the inputs; borrowed until the next call of
 * this. */
void steno_session_bind_kv(steno_session *s, const struct steno_kv_binding *kv_binding);
/* Run. The first run with new input shapes plans the arena; later ones allocate nothing. */
STENO_MUST steno_status steno_session_run(steno_session *s, steno_err *err);
/* Result; valid until the next run, or, when it was set as an input, until the end of that run.
 * Never NULL after a good run; NULL for an output that does not exist. */
const struct steno_tensor *steno_session_get(const steno_session *s, int i);

/* Give back the memory of activations; outputs of the last run are gone, states that were set must
 * be set again. The next run makes it anew. all: and what is kept for the shapes seen so far
 * (plans, and products that shapes alone decide). */
void steno_session_trim(steno_session *s, bool all);

/* Time per node: from the next run on (on), counted until off. */
void steno_session_set_profile(steno_session *s, bool on);
struct steno_profile_row {
    const struct steno_node *node;
    const struct steno_graph *graph; /* its graph: the main one, or a settled branch */
    int64_t ns; /* sum over runs; bodies of If, Loop, Scan count for their node */
    int64_t runs;
    double flops; /* of one run */
    double bytes; /* of its inputs and outputs, weights as they are packed */
};
/* Step i of the main graph's current plan, in running order; false past the last. Views cost
 * nothing and are left out. */
bool steno_session_profile(const steno_session *s, int i, struct steno_profile_row *row);

/* Memory for activations: arenas, output buffers, pool and scratch of all graphs. */
size_t steno_session_arena_bytes(const steno_session *s);
/* Products that plans of the main graph keep because shapes alone decide them, as long as the
 * session lives, resting or not; and what the network keeps for all its sessions. */
size_t steno_session_plan_constant_bytes(const steno_session *s);
/* Outputs so far whose shape turned out not to be what inference had said. */
size_t steno_session_misplans(const steno_session *s);
double steno_session_flops(const steno_session *s); /* floating point operations of the last run */

#endif
