/* Networks and sessions: load an ONNX file once, run it in many sessions. */
#ifndef STENO_NN_EXEC_SESSION_H
#define STENO_NN_EXEC_SESSION_H

#include "nn/graph/graph.h"
#include "nn/ops/precision.h"
#include "nn/ops/searches.h"
#include "nn/passes/part.h"

typedef struct steno_network steno_network; /* frozen: graph, packed weights, kernel table */
typedef struct steno_session steno_session; /* confined: arena, plan, states of one run at a time */

struct steno_network_options {
    const char *cpu; /* level name or NULL */
    int opt_level;   /* 0 none .. 3 all; -1 = default (3) */
    enum steno_precision precision;
    size_t max_bytes;           /* of weights; 0 = 64 GiB */
    const char *disable_passes; /* comma-separated names, or NULL */
    /* Of an exported decoder or language model, the part to be (nn/passes/part.h).
     * STENO_ERR_UNSUPPORTED: it has to be run whole. */
    enum steno_part part;
    /* Sinusoidal positions and length masks go on past the length of the export
     * (nn/passes/any_length.c). */
    bool any_length;
    /* Comma-separated inputs that were exported for one stream, [1, ...], and are to take any
     * number (nn/passes/free_batch.h); all others are the same for all streams of a run.
     * STENO_ERR_UNSUPPORTED: something on the way mixes streams. NULL = none. */
    const char *free_batch;
    const char *only_passes; /* names of the passes to run, or NULL for all */
    /* steno_onnx_options.borrow_from: matrices of so many bytes stay where they are until they are
     * packed (with rewrite_only: while the network lives). */
    size_t borrow_from;
    /* Folder of packed caches, made if it is not there; NULL = none. The first load of a model file
     * leaves its graph after the passes and its packed weights there, later ones map them: ready
     * at once, and one copy for all processes. A cache of another file, version, CPU level or
     * setting, a damaged one, or one that somebody else may write is made anew. */
    const char *cache_dir;
    bool rewrite_only; /* for optimize/save.h: nothing is packed, no session can be opened */
    /* Called for each place where a pass found most of its pattern and refused; NULL = no one. */
    void (*refused)(void *arg, const char *pass, const char *node, const char *why);
    void *refused_arg;
    void (*loaded)(void *arg,
                   const struct steno_graph *g); /* sees the graph before any pass; or NULL */
    void *loaded_arg;
    int num_heads, hidden_size; /* of attention, where the graph does not tell; 0 = not known */
    /* Hears of every run of a session of the network, before it: path as it was opened. */
    const struct steno_tap *tap; /* NULL = no one; lives as long as the network */
};

struct steno_tap {
    void (*run)(void *arg, const char *path, const steno_network *n, const struct steno_tensor *in);
    void *arg;
};

/* The folder of packed caches that the environment names: STENO_CACHE, empty for none; without it
 * CACHE_DIRECTORY, systemd's. NULL: none. */
const char *steno_cache_dir(void);

/* Read, check, optimize, infer, pack. Every missing operator is listed in the one error.
 * opt may be NULL. */
STENO_MUST steno_status steno_network_open(steno_network **out, const char *path,
                                           const struct steno_network_options *opt, steno_err *err);
/* The same from memory, borrowed for the call; name stands for the path in messages. External data
 * is refused. */
STENO_MUST steno_status steno_network_open_memory(steno_network **out, const void *data,
                                                  size_t size, const char *name,
                                                  const struct steno_network_options *opt,
                                                  steno_err *err);
void steno_network_close(steno_network *n);

int steno_network_n_inputs(const steno_network *n);
int steno_network_n_outputs(const steno_network *n);
/* Name, type and (symbolic) shape. */
const struct steno_value *steno_network_input(const steno_network *n, int i);
const struct steno_value *steno_network_output(const steno_network *n, int i);
int steno_network_find_input(const steno_network *n, const char *name); /* -1 if none */
int steno_network_find_output(const steno_network *n, const char *name);
const char *steno_network_meta(const steno_network *n, const char *key); /* NULL if none */
/* Constants still held plus what operators have packed, each counted once. */
size_t steno_network_weight_bytes(const steno_network *n);
struct steno_precision_report; /* nn/ops/weights.h: what rounding the weights did */
const struct steno_precision_report *steno_network_precision(const steno_network *n);
/* Kernels that keep keys and values in bf16 for later runs, where the network's own attention
 * rounds to that as well; NULL: they are to stay f32. */
const struct steno_kernels *steno_network_keeps_bf16(const steno_network *n);
bool steno_network_is_mapped(const steno_network *n); /* it came out of a packed cache */
struct steno_onnx_info;                               /* nn/onnx/load.h */
const struct steno_onnx_info *steno_network_info(const steno_network *n);
struct steno_pass_counts; /* nn/passes/passes.h: rewrites made at load, by pass */
const struct steno_pass_counts *steno_network_passes(const steno_network *n);
size_t steno_network_nodes_in_file(const steno_network *n); /* before any pass, bodies included */
const struct steno_graph *steno_network_graph(const steno_network *n);

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
void steno_session_lend(steno_session *s, const struct steno_searches *searches);
/* Run. The first run with new input shapes plans the arena; later ones allocate nothing. */
STENO_MUST steno_status steno_session_run(steno_session *s, steno_err *err);
/* Result; valid until the next run, or, when it was set as an input, until the end of that run.
 * Never NULL after a good run; NULL for an output that does not exist. */
const struct steno_tensor *steno_session_get(const steno_session *s, int i);

/* Give back the memory of activations; outputs of the last run are gone, states that were set must
 * be set again. The next run makes it anew. all: and what is kept for the shapes seen so far
 * (plans, and products that shapes alone decide). */
void steno_session_rest(steno_session *s, bool all);

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
size_t steno_session_kept_bytes(const steno_session *s);
/* Outputs so far whose shape turned out not to be what inference had said. */
size_t steno_session_misplans(const steno_session *s);
double steno_session_flops(const steno_session *s); /* floating point operations of the last run */

#endif
