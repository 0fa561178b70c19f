/* Networks: load an ONNX file once, run it in many sessions. */
#ifndef STENO_NN_NETWORK_NETWORK_H
#define STENO_NN_NETWORK_NETWORK_H

#include "nn/exec/session.h"
#include "nn/passes/part.h"

/* A graph that is built instead of read from an ONNX file. Messages and the key of the packed cache
 * use the caller's file, so `variant` must name everything else that the graph depends on. */
struct steno_graph_source {
    /* *out: a main graph, which then belongs to the network. Not called if a cache has the
     * result. */
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
    /* Part of an exported decoder or language model to open (nn/passes/part.h).
     * STENO_ERR_UNSUPPORTED: it must be run as a whole. */
    enum steno_part part;
    /* Sinusoidal positions and length masks continue past the length of the export
     * (nn/passes/any_length.c). */
    bool any_length;
    /* Comma-separated inputs that were exported for one stream, [1, ...], and that are to take any
     * number of streams (nn/passes/free_batch.h). All other inputs are the same for all streams of
     * a run. STENO_ERR_UNSUPPORTED: a node mixes streams. NULL = none. */
    const char *free_batch;
    /* Of output 0, [B, T, N], only the last row is read: it becomes [B, 1, N]
     * (nn/passes/last_row.h). */
    bool last_row;
    const char *only_passes; /* names of the passes to run, or NULL for all */
    /* steno_onnx_options.borrow_from: matrices of this many bytes or more are not copied out of the
     * bytes read until they are packed (with rewrite_only: as long as the network lives). */
    size_t borrow_from;
    /* Folder of packed caches, created if needed; NULL = none. The first load of a model file
     * writes its graph after the passes and its packed weights there. Later loads map them: they
     * are ready at once, and all processes share one copy. The cache is written anew if it belongs
     * to another file, version, CPU level or setting, if it is damaged, or if another user may
     * write it. */
    const char *cache_dir;
    int write_opset; /* of ai.onnx in the file that save.h writes; 0: that of the input */
    /* For optimize/save.h: nothing is packed, and no session can be opened. Operators that the
     * engine lacks stay in the graph, without op. */
    bool rewrite_only;
    /* steno_onnx_options.overridable: inputs whose initializers the caller may replace. With a
     * packed cache: NULL. */
    bool (*overridable)(void *arg, const char *name, int64_t ir);
    void *overridable_arg;
    /* Called for each near miss: a pass found most of its pattern and refused. NULL = not
     * wanted. */
    void (*refused)(void *arg, const char *pass, const char *node, const char *why);
    void *refused_arg;
    void (*loaded)(void *arg,
                   const struct steno_graph *g); /* sees the graph before any pass; or NULL */
    void *loaded_arg;
    int num_heads, hidden_size; /* of attention, if the graph does not tell; 0 = not known */
    const struct steno_observer *observer; /* NULL = none; must outlive the network */
};

/* Folder of packed caches from the environment: STENO_CACHE, empty for none; without it
 * CACHE_DIRECTORY, which systemd sets. NULL: none. */
const char *steno_cache_dir(void);

/* Open a network: read, check, optimize, infer, pack. One error lists all missing operators. opt
 * may be NULL. */
STENO_MUST steno_status steno_network_open(steno_network **out, const char *path,
                                           const struct steno_network_options *opt, steno_err *err);
/* The same from memory, which is borrowed for the call; name replaces the path in messages.
 * External data is rejected. */
STENO_MUST steno_status steno_network_open_memory(steno_network **out, const void *data,
                                                  size_t size, const char *name,
                                                  const struct steno_network_options *opt,
                                                  steno_err *err);
void steno_network_close(steno_network *n);

int steno_network_n_inputs(const steno_network *n);
int steno_network_n_outputs(const steno_network *n);
/* Name, type and (symbolic) shape of an input. */
const struct steno_value *steno_network_input(const steno_network *n, int i);
const struct steno_value *steno_network_output(const steno_network *n, int i);
int steno_network_find_input(const steno_network *n, const char *name); /* -1 if none */
int steno_network_find_output(const steno_network *n, const char *name);
const char *steno_network_meta(const steno_network *n, const char *key); /* NULL if none */
/* Bytes of the constants that are still held and of packed weights, each counted once. */
size_t steno_network_weight_bytes(const steno_network *n);
struct steno_precision_report; /* nn/exec/precision.h: the effect of the weights' precision */
const struct steno_precision_report *steno_network_precision(const steno_network *n);
/* Kernels that store keys and values in bf16 for later runs, if the network's own attention rounds
 * to bf16 too; NULL: they must stay f32. */
const struct steno_kernels *steno_network_kv_bf16(const steno_network *n);
/* Kernels that store keys and values in 8 bits for later runs, if the network's weights have 8
 * bits; NULL if not. */
const struct steno_kernels *steno_network_kv_i8(const steno_network *n);
/* True when it was loaded from a packed cache. */
bool steno_network_is_mapped(const steno_network *n);
struct steno_onnx_info; /* nn/onnx/load.h */
const struct steno_onnx_info *steno_network_info(const steno_network *n);
struct steno_pass_counts; /* nn/passes/passes.h: number of rewrites at load, by pass */
const struct steno_pass_counts *steno_network_passes(const steno_network *n);
/* Number of nodes before any pass, bodies included. */
size_t steno_network_nodes_in_file(const steno_network *n);
const struct steno_graph *steno_network_graph(const steno_network *n);
/* Append the operators of n (opened with rewrite_only) that the engine lacks: "TYPE@OPSET, ...",
 * each once. *count: their number. STENO_ERR_NOMEM. */
struct steno_buf;
STENO_MUST steno_status steno_network_missing(const steno_network *n, struct steno_buf *list,
                                              int *count);

#endif
