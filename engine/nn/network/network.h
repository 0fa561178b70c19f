/* Networks: load an ONNX file once, run it in many sessions. */
#ifndef STENO_NN_NETWORK_NETWORK_H
#define STENO_NN_NETWORK_NETWORK_H

#include "nn/exec/session.h"
#include "nn/passes/part.h"

/* A graph that is built instead of read. The caller's file stands for it in messages and in the key
 * of its packed cache, so `variant` names all else that it depends on. */
struct steno_graph_source {
    /* *out: a main graph, the network's from then on. Not called where a cache has the result. */
    steno_status (*make)(void *arg, struct steno_graph **out, steno_err *err);
    void *arg;
    const char *variant;
};

struct steno_network_options {
    const struct steno_graph_source *source; /* NULL: path is an ONNX file */
    const char *cpu;                         /* level name or NULL */
    int opt_level;                           /* 0 none .. 3 all; -1 = default (3) */
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
    const struct steno_observer *observer; /* NULL = no one; lives as long as the network */
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
struct steno_precision_report; /* nn/exec/precision.h: what rounding the weights did */
const struct steno_precision_report *steno_network_precision(const steno_network *n);
/* Kernels that keep keys and values in bf16 for later runs, where the network's own attention
 * rounds to that as well; NULL: they are to stay f32. */
const struct steno_kernels *steno_network_kv_bf16(const steno_network *n);
bool steno_network_is_mapped(const steno_network *n); /* it came out of a packed cache */
struct steno_onnx_info;                               /* nn/onnx/load.h */
const struct steno_onnx_info *steno_network_info(const steno_network *n);
struct steno_pass_counts; /* nn/passes/passes.h: rewrites made at load, by pass */
const struct steno_pass_counts *steno_network_passes(const steno_network *n);
size_t steno_network_nodes_in_file(const steno_network *n); /* before any pass, bodies included */
const struct steno_graph *steno_network_graph(const steno_network *n);

#endif
