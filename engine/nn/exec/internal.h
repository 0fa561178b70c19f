/* Shared by the executor's files. docs/engine.md has the full description; in short:
 *
 * network   frozen: graph, operators' prepared state, kernel table
 * session   confined: workspace, one frame for the main graph, the inputs
 * frame     one graph (main or body) within one session: its plans and its memory
 * plan      steps and memory for one set of concrete input shapes. Values that the shapes alone
 *           decide are computed when the plan is made, and their nodes are not run again. All other
 *           values have a slot with a home: a place in the frame's arena if the shape is known
 *           before the run, a pool block if only the data decides it
 * step      one node of a plan */
#ifndef STENO_NN_EXEC_INTERNAL_H
#define STENO_NN_EXEC_INTERNAL_H

#include "base/threads.h"
#include "nn/exec/infer.h"
#include "nn/exec/session.h"
#include "nn/exec/op.h"

#define STENO_MAX_PLANS 8 /* per frame; the least recently used plan is dropped */
/* Limit for the plan constants of a frame's plans: products of weights with what shapes alone
 * decide (tables of positions). In bytes. */
#define STENO_MAX_PLAN_CONSTANTS ((size_t)16 << 20)
/* Limit for the products of table rows that a network holds for its sessions (table_rows.c). In
 * bytes. */
#define STENO_MAX_TABLE_ROWS ((size_t)64 << 20)
#define STENO_MAX_TABLES 1024 /* ... and the limit for the nodes that have such rows */

/* Packed weights of a network, in the order in which its operators requested the memory. Requests
 * for the same weights have the same data. */
struct steno_packed_block {
    void *data;
    size_t bytes;
    bool overflowed; /* in f32, because the network's precision does not hold the weights */
    /* While packing: the constants it was packed from, and how; NULL: it is not shared. */
    const struct steno_tensor *from[3];
    struct steno_packing *how;
};
struct steno_packed_chunk { /* holds blocks, one after the other */
    char *base;
    size_t size, used;
};
struct steno_packed_store {
    struct steno_packed_block *block;
    int n, cap;
    struct steno_packed_chunk *chunk; /* the last one is being filled */
    int n_chunks;
    /* from an earlier load, in the same order; NULL: none */
    const struct steno_packed_block *cached;
    int n_cached;
    /* keep constants that are packed until steno_prepare_drop: they still have to be written */
    bool keep;
};

/* Products of table rows, by node: those of the longest input so far (table_rows.c). */
struct steno_table_rows;
struct steno_row_store {
    pthread_mutex_t lock;
    struct steno_table_rows *first;
    size_t n, bytes; /* number and size of these */
};

struct steno_network {
    struct steno_graph *g;
    struct steno_row_store row_store;
    steno_kernels k;
    unsigned cpu;
    size_t packed_bytes;
    struct steno_precision_report precision;
    bool rewrite_only;
    const struct steno_observer *observer; /* or NULL; if set, path is a copy of its own */
    char *path;
    struct steno_packed_store store;
    /* nn/network/internal.h: facts from loading; runs do not read them */
    struct steno_network_facts *facts;
    /* mapping that constants and packed weights point into, or NULL */
    struct steno_cache *cache;
    /* the file with the packed weights, or NULL */
    const struct steno_map *mapped;
};

struct pool_block {
    struct pool_block *next;
    void *data;
    size_t cap;
    int refs;
};

struct scratch_block {
    void *data;
    size_t cap;
};

/* Memory and threads that all frames of a session share, one frame at a time. */
struct workspace {
    const steno_kernels *k;
    steno_team *team;
    struct pool_block *pool;
    struct scratch_block *scratch; /* filled in order, like a stack */
    size_t n_scratch, cur, used;
    bool spilled;        /* this run has used scratch blocks */
    char *arena_scratch; /* scratch of the current step that lies in the arena, or NULL */
    size_t arena_scratch_cap, arena_scratch_used;
    size_t scratch_needed;     /* scratch of the current step, in the arena and in blocks */
    size_t bytes, max_bytes;   /* total of all blocks below, and its limit (0: none) */
    uint64_t steps, max_steps; /* in this run */
    bool profile;
    struct steno_row_store *row_store; /* of the network; NULL while it is loaded */
    /* by input of the main graph: its entries, if they are separate; or NULL */
    void *const **rows;
    const struct steno_kv_binding *kv_binding; /* from the session's caller; or NULL */
    size_t misplans;                           /* outputs with an unexpected shape */
};

enum home {
    HOME_NONE,    /* not read by anyone */
    HOME_KNOWN,   /* constant, or computed with the plan */
    HOME_INPUT,   /* the caller's memory */
    HOME_CAPTURE, /* a slot of the enclosing frame */
    HOME_ARENA,   /* at an offset in the frame's arena */
    HOME_OUT,     /* buffer of a graph output */
    HOME_POOL,    /* shape known only during the run */
    HOME_VIEW     /* the elements of input 0 of its node, wherever they are */
};

struct slot {
    struct steno_tensor t;
    enum home home;
    bool planned;  /* t's type and shape are known before the node runs */
    int32_t root;  /* value whose memory this one shares; mostly itself */
    int32_t out;   /* HOME_OUT: index of the graph output */
    int32_t last;  /* step that reads it last; for a root, the last of its whole group */
    size_t offset; /* HOME_ARENA */
    size_t bytes;  /* of a root: the largest size in its group */
    struct pool_block *block;
};

/* A graph whose nodes are in a plan: the frame's own, or the branch that an If is sure to take. */
struct scope {
    struct steno_graph *g;
    int32_t *slot; /* by value id: the slot that holds it */
};

struct step {
    const struct steno_node *node;
    const struct scope *scope;
    const struct steno_tensor **in; /* NULL entries: absent */
    struct slot **out;              /* NULL entries: not read by anyone */
    struct frame **sub;             /* by attribute index; NULL array: no body graphs */
    struct slot **dead;             /* slots that this step reads for the last time */
    int n_dead;
    /* the output's memory is the input's and is bound before the run: nothing to run */
    bool view;
    size_t scratch_needed; /* most scratch it has used in a run */
    /* its place in the arena: size (0 before the second run) and where */
    size_t scratch, offset;
    double flops;
    int64_t ns, runs; /* while profiling */
};

struct plan_rows { /* rows of a table that a plan refers to */
    struct plan_rows *next;
    struct steno_table_rows *rows;
};

struct plan {
    steno_arena *mem;
    struct steno_shape *key; /* shapes of the inputs, then of captured values */
    int n_key;
    struct scope *top;  /* scope of the frame's graph */
    struct slot *slots; /* slots of its values, then of branches */
    int32_t n_slots;
    struct step *steps;
    int32_t n_steps;
    int32_t *busy; /* indices of the steps that are not only views */
    int32_t n_busy;
    bool misplanned;       /* some value is not where the plan put it: views must be run too */
    struct slot **by_home; /* slots whose data pointer the frame sets */
    int32_t n_by_home;
    struct slot **views; /* views of inputs, captured values and known values */
    int32_t n_views;
    struct slot **to_end; /* slots that are read until the run has ended */
    int32_t n_to_end;
    size_t arena_bytes;
    size_t *out_bytes; /* by graph output: bytes of its planned group, else 0 */
    bool grown;        /* a step used more scratch than its place in the arena has */
    double flops;
    uint64_t used_at;
    size_t constant_bytes; /* counted against STENO_MAX_PLAN_CONSTANTS */
    struct plan_rows *rows;
};

struct outbuf {
    void *buf[2];
    size_t cap[2];
    int sel;
};

struct frame {
    struct workspace *ws;
    struct steno_graph *g;
    struct frame *up;
    struct plan *up_plan;         /* plan of `up` that owns this frame */
    const struct scope *up_scope; /* scope of the node in that plan */
    steno_value_id *captured;     /* values that come from outside */
    int n_captured;
    struct plan *plans[STENO_MAX_PLANS];
    struct plan *cur;
    void *arena;
    size_t arena_cap;
    struct outbuf *outs;
    struct steno_tensor *out_t;
    uint64_t tick;
    int misses;
    double flops; /* last run, body graphs included */
};

/* Memory of a graph output of so many bytes, in the buffer that this run writes. Where it grows
 * with each run or iteration it is half as large again. NULL: out of memory. */
void *steno_frame_grow_out(struct frame *f, int out, size_t bytes);

/* The slot of the enclosing frame that captured value v of a body graph refers to. */
static inline struct slot *steno_frame_outer(const struct frame *f, steno_value_id v)
{
    return &f->up_plan->slots[f->up_scope->slot[f->g->values[v].captured_from]];
}

struct steno_op_ctx {
    struct workspace *ws;
    const struct steno_node *node;
    const struct steno_tensor **in;
    struct slot **out;
    struct step *step; /* NULL: plan-time evaluation; outputs are in eval_arena */
    struct frame *frame;
    struct plan *plan;
    steno_arena *eval_arena;
};

struct steno_session {
    steno_network *net;
    struct workspace ws;
    struct frame *main;
    struct steno_tensor *in;
    const struct steno_tensor **in_ptr;
    void *const **rows; /* by input, NULL entries: steno_session_set_rows */
};

/* workspace.c */
STENO_MUST steno_status steno_workspace_init(struct workspace *ws, const steno_kernels *k,
                                             int threads, steno_err *err);
void steno_workspace_free(struct workspace *ws);
/* Between runs: give all memory back. */
void steno_workspace_trim(struct workspace *ws);
/* Between steps of the main graph: give scratch blocks back. */
void steno_workspace_drop_scratch(struct workspace *ws);
/* Between runs: replace several scratch blocks by one; by none if unused. */
void steno_workspace_merge_scratch(struct workspace *ws);
/* Allocate and free blocks of a session, which count against its limit. NULL: out of memory or over
 * the limit. */
void *steno_workspace_alloc(struct workspace *ws, size_t n);
void steno_workspace_release(struct workspace *ws, void *p, size_t n);
/* Replace *p (of *cap bytes) by a block of n bytes. On failure *p is NULL and *cap 0. */
bool steno_workspace_regrow(struct workspace *ws, void **p, size_t *cap, size_t n);
void *steno_workspace_scratch(struct workspace *ws, size_t n);
/* A pool block with refs 1; NULL: out of memory. */
struct pool_block *steno_workspace_acquire(struct workspace *ws, size_t n);
void steno_workspace_unref(struct pool_block *b);
void steno_workspace_parallel(struct workspace *ws, int n_parts, void (*fn)(void *, int),
                              void *arg);

/* eval.c */
/* Evaluate a node whose inputs are known; its outputs lie in `mem`. out: [n_out] tensors; data is
 * NULL for outputs that are not wanted. */
STENO_MUST steno_status steno_eval_node(struct workspace *ws, const struct steno_node *n,
                                        const struct steno_tensor **in, struct steno_tensor *out,
                                        const bool *wanted, steno_arena *mem, steno_err *err);
/* True when plan-time evaluation of the node is possible. */
bool steno_can_eval_node(const struct steno_node *n);

/* table_rows.c */
/* A product of rows lo .. hi of a constant table; node src takes these rows from the table. */
struct steno_row_range {
    const struct steno_node *src;
    int64_t lo, hi;
};
/* Such rows while a plan is made. */
struct steno_table_part {
    steno_arena *mem;
    struct steno_row_range range;
    struct steno_tensor x;
};
STENO_MUST steno_status steno_row_store_init(struct steno_row_store *s, steno_err *err);
/* No plan may refer to rows of the store any more. */
void steno_row_store_free(struct steno_row_store *s);
size_t steno_row_store_bytes(struct steno_row_store *s);
/* Find the range of table rows that n, with inferred outputs, multiplies. False: n is no such
 * product. */
bool steno_table_rows_find(const struct steno_infer *ic, const struct steno_node *n,
                           struct steno_row_range *out);
/* Get rows that include the wanted ones, with a reference, and compute them if needed. *out NULL:
 * no room for them. t: the part of the table that was multiplied last; the caller frees it. */
STENO_MUST steno_status steno_table_rows_take(struct workspace *ws, const struct steno_infer *ic,
                                              const struct steno_node *n,
                                              const struct steno_row_range *want,
                                              struct steno_table_part *t,
                                              struct steno_table_rows **out, steno_err *err);
void steno_table_rows_drop(struct steno_table_rows *r);
/* False: rows of a longer input have replaced these. */
bool steno_table_rows_newest(const struct steno_table_rows *r);
const void *steno_table_rows_data(const struct steno_table_rows *r, int64_t row);

/* plan_choose.c */
struct steno_chosen { /* a node that becomes a step */
    const struct steno_node *node;
    const struct scope *scope;
};
/* Call fn with the index of every slot that the node reads, also in its bodies. */
void steno_plan_each_read(const struct steno_chosen *c, void (*fn)(void *arg, int32_t slot),
                          void *arg);
/* Create the slots and scopes of p, with all known facts about the values. *out: the n_steps nodes
 * that are run, in tmp. shapes: false = every shape counts as unknown until the node has run. */
STENO_MUST steno_status steno_plan_choose(struct plan *p, struct frame *f,
                                          const struct steno_tensor *const *in, bool shapes,
                                          steno_arena *tmp, struct steno_chosen **out,
                                          steno_err *err);
/* plan_order.c: the same nodes in the order in which they run, in tmp. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_plan_order(const struct plan *p, struct steno_chosen **chosen,
                                         steno_arena *tmp, steno_err *err);
static inline struct slot *steno_plan_slot(const struct plan *p, const struct scope *s,
                                           steno_value_id v)
{
    return &p->slots[s->slot[v]];
}

/* plan_make.c */
STENO_MUST steno_status steno_plan_make(struct plan **out, struct frame *f,
                                        const struct steno_tensor *const *in, bool shapes,
                                        steno_err *err);
/* Give the scratch that runs have used a place in the arena, and move the activations. Nothing
 * changes if that takes more memory than separate scratch, or on failure. */
STENO_MUST steno_status steno_plan_place_scratch(struct plan *p, steno_err *err);
void steno_plan_free(struct plan *p);

/* frame.c */
STENO_MUST steno_status steno_frame_new(struct frame **out, struct workspace *ws,
                                        struct steno_graph *g, struct frame *up,
                                        struct plan *up_plan, const struct scope *up_scope,
                                        steno_err *err);
/* Between runs: give arena and outputs back; all: the plans too. */
void steno_frame_trim(struct frame *f, bool all);
void steno_frame_free(struct frame *f);
STENO_MUST steno_status steno_frame_run(struct frame *f, const struct steno_tensor *const *in,
                                        steno_err *err);

/* flops.c */
double steno_node_flops(const struct steno_node *n, const struct steno_tensor *const *in,
                        struct slot *const *out);

/* prepare.c */
/* *packed += bytes of packed weights; report may be NULL. */
STENO_MUST steno_status steno_prepare_graph(struct steno_graph *g, const steno_kernels *k,
                                            enum steno_precision precision,
                                            struct steno_precision_report *report,
                                            struct steno_packed_store *store, size_t *packed,
                                            steno_err *err);
STENO_MUST steno_status steno_prepare_one(struct steno_graph *g, struct steno_node *n,
                                          const steno_kernels *k, struct steno_packed_store *store,
                                          steno_err *err);
/* Drop the constants that preparation has left because of store->keep. */
void steno_prepare_drop(struct steno_graph *g);
/* All blocks exist: give the unused rest of the chunks back. */
void steno_packed_store_shrink(struct steno_packed_store *s);
/* Call after steno_release_graph. */
void steno_packed_store_free(struct steno_packed_store *s);
void steno_release_graph(struct steno_graph *g);

#endif
