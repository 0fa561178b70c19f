/* Shared by the executor's files. docs/engine.md tells the whole story; in short:
 *
 * network   frozen: graph, operators' prepared state, kernel table
 * session   confined: workspace, one frame for the main graph, the inputs
 * frame     one graph (main or body) within one session: its plans and its memory
 * plan      what to do for one set of concrete input shapes: values that shapes alone decide are
 *           computed when the plan is made (their nodes are not run again), all others have a slot
 *           with a home: a place in the frame's arena where the shape is known beforehand, a pool
 *           block where only the data tells
 * step      one node of a plan */
#ifndef STENO_NN_EXEC_INTERNAL_H
#define STENO_NN_EXEC_INTERNAL_H

#include "base/threads.h"
#include "nn/exec/infer.h"
#include "nn/exec/session.h"
#include "nn/exec/op.h"

#define STENO_MAX_PLANS 8 /* per frame, least recently used goes */
/* Products of weights and what shapes alone decide (tables of positions) that the plans of a frame
 * keep, bytes. */
#define STENO_MAX_PLAN_CONSTANTS ((size_t)16 << 20)
/* Products of rows of tables that a network keeps for its sessions, bytes (table_rows.c). */
#define STENO_MAX_TABLE_ROWS ((size_t)64 << 20)
#define STENO_MAX_TABLES 1024 /* ... and nodes that have some */

/* Packed weights of a network, in the order in which its operators asked for them. */
struct steno_packed_block {
    void *data;
    size_t bytes;
};
struct steno_packed_chunk { /* blocks lie in these, one after the other */
    char *base;
    size_t size, used;
};
struct steno_packed_store {
    struct steno_packed_block *block;
    int n, cap;
    struct steno_packed_chunk *chunk; /* the last one is being filled */
    int n_chunks;
    const struct steno_packed_block *cached; /* of an earlier load, in the same order; NULL: none */
    int n_cached;
    bool keep; /* spent constants stay until steno_prepare_drop: they are still to be written */
};

/* Products of a table's rows, by node: those of the longest input so far (table_rows.c). */
struct steno_table_rows;
struct steno_row_store {
    pthread_mutex_t lock;
    struct steno_table_rows *first;
    size_t n, bytes; /* of these */
};

struct steno_network {
    struct steno_graph *g;
    struct steno_row_store row_store;
    steno_kernels k;
    unsigned cpu;
    size_t packed_bytes;
    struct steno_precision_report precision;
    bool rewrite_only;
    const struct steno_observer *observer; /* or NULL; then path is its own copy */
    char *path;
    struct steno_packed_store store;
    struct steno_network_facts *facts; /* nn/network/internal.h: what loading told; no run asks */
    struct steno_cache *cache; /* mapping that constants and packed weights point into, or NULL */
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

/* Memory and threads that all frames of a session use in turn. */
struct workspace {
    const steno_kernels *k;
    steno_team *team;
    struct pool_block *pool;
    struct scratch_block *scratch; /* filled in order, like a stack */
    size_t n_scratch, cur, used;
    bool spilled;        /* scratch blocks were used in this run */
    char *arena_scratch; /* scratch that lies in the arena, of the step at work; or NULL */
    size_t arena_scratch_cap, arena_scratch_used;
    size_t scratch_needed;     /* scratch of the step at work, near or in blocks */
    size_t bytes, max_bytes;   /* of all blocks below, and their limit (0: none) */
    uint64_t steps, max_steps; /* of this run */
    bool profile;
    struct steno_row_store *row_store; /* of the network; NULL: while it is loaded */
    void *const **rows; /* by input of the main graph: its entries, where they lie apart; or NULL */
    const struct steno_kv_binding *kv_binding; /* by the session's caller; or NULL */
    size_t misplans;                           /* outputs whose shape was not the inferred one */
};

enum home {
    HOME_NONE,    /* nobody reads it */
    HOME_KNOWN,   /* constant, or computed with the plan */
    HOME_INPUT,   /* the caller's memory */
    HOME_CAPTURE, /* a slot of the frame around */
    HOME_ARENA,   /* offset in the frame's arena */
    HOME_OUT,     /* buffer of a graph output */
    HOME_POOL,    /* shape known only while running */
    HOME_VIEW     /* elements of input 0 of its node, wherever they are */
};

struct slot {
    struct steno_tensor t;
    enum home home;
    bool planned;  /* t's type and shape are right before the node has run */
    int32_t root;  /* value whose memory this one shares; itself mostly */
    int32_t out;   /* HOME_OUT: number of the graph output */
    int32_t last;  /* step that reads it last; of the whole group for a root */
    size_t offset; /* HOME_ARENA */
    size_t bytes;  /* of a root: the largest of its group */
    struct pool_block *block;
};

/* A graph whose nodes a plan has: the frame's own, or a branch that an If is sure to take. */
struct scope {
    struct steno_graph *g;
    int32_t *slot; /* by value number: the slot that holds it */
};

struct step {
    const struct steno_node *node;
    const struct scope *scope;
    const struct steno_tensor **in; /* NULL entries: absent */
    struct slot **out;              /* NULL entries: nobody reads it */
    struct frame **sub;             /* by attribute number; NULL array when there are none */
    struct slot **dead;             /* read for the last time here */
    int n_dead;
    bool view; /* its output lies where its input does, bound beforehand: nothing to run */
    size_t scratch_needed;  /* most scratch it has needed in a run */
    size_t scratch, offset; /* that has a place in the arena, 0 before the second run; and where */
    double flops;
    int64_t ns, runs; /* while profiling */
};

struct plan_rows { /* rows of a table that a plan shows */
    struct plan_rows *next;
    struct steno_table_rows *rows;
};

struct plan {
    steno_arena *mem;
    struct steno_shape *key; /* inputs, then captured values */
    int n_key;
    struct scope *top;  /* of the frame's graph */
    struct slot *slots; /* of its values, then of branches */
    int32_t n_slots;
    struct step *steps;
    int32_t n_steps;
    int32_t *busy; /* numbers of the steps that are more than views */
    int32_t n_busy;
    bool misplanned;       /* a value did not come to lie where planned: views are run as well */
    struct slot **by_home; /* slots whose data pointer is ours to set */
    int32_t n_by_home;
    struct slot **views; /* of inputs, captured values and known ones */
    int32_t n_views;
    struct slot **to_end; /* slots that are read until the run has ended */
    int32_t n_to_end;
    size_t arena_bytes;
    size_t *out_bytes; /* by graph output: of its planned group, else 0 */
    bool grown;        /* a step needed more scratch than has a place in the arena */
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
    const struct scope *up_scope; /* where the node stands in it */
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
    double flops; /* of the last run, body graphs included */
};

/* The slot outside that value v of a body graph shows. */
static inline struct slot *steno_frame_outer(const struct frame *f, steno_value_id v)
{
    return &f->up_plan->slots[f->up_scope->slot[f->g->values[v].captured_from]];
}

struct steno_op_ctx {
    struct workspace *ws;
    const struct steno_node *node;
    const struct steno_tensor **in;
    struct slot **out;
    struct step *step; /* NULL: computed ahead of any run, outputs from `ahead` */
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
void steno_workspace_trim(struct workspace *ws); /* between runs: give all memory back */
void steno_workspace_drop_scratch(
    struct workspace *ws); /* between steps of the main graph: give scratch blocks back */
void steno_workspace_merge_scratch(
    struct workspace *ws); /* between runs: one scratch block instead of several; none if unused */
/* Blocks of a session, counted against its limit; NULL: out of memory or over it. */
void *steno_workspace_alloc(struct workspace *ws, size_t n);
void steno_workspace_release(struct workspace *ws, void *p, size_t n);
/* Replace *p (of *cap bytes) by a block of n. On failure *p is NULL, *cap 0. */
bool steno_workspace_regrow(struct workspace *ws, void **p, size_t *cap, size_t n);
void *steno_workspace_scratch(struct workspace *ws, size_t n);
struct pool_block *steno_workspace_acquire(struct workspace *ws,
                                           size_t n); /* refs 1; NULL: out of memory */
void steno_workspace_unref(struct pool_block *b);
void steno_workspace_parallel(struct workspace *ws, int n_parts, void (*fn)(void *, int),
                              void *arg);

/* ahead.c */
/* Compute a node whose inputs are known; outputs live in `mem`. out: [n_out] tensors, data NULL
 * where nobody reads the output. */
STENO_MUST steno_status steno_eval_node(struct workspace *ws, const struct steno_node *n,
                                        const struct steno_tensor **in, struct steno_tensor *out,
                                        const bool *wanted, steno_arena *mem, steno_err *err);
/* True when the node may be computed ahead at all. */
bool steno_can_eval_node(const struct steno_node *n);

/* table_rows.c */
/* A product of rows lo .. hi of a constant table: node src takes them from it. */
struct steno_row_range {
    const struct steno_node *src;
    int64_t lo, hi;
};
/* Such rows, while a plan is made. */
struct steno_table_part {
    steno_arena *mem;
    struct steno_row_range range;
    struct steno_tensor x;
};
STENO_MUST steno_status steno_row_store_init(struct steno_row_store *s, steno_err *err);
void steno_row_store_free(struct steno_row_store *s); /* no plan holds rows of it any more */
size_t steno_row_store_bytes(struct steno_row_store *s);
/* Is n, whose outputs have been inferred, one. */
bool steno_table_rows_find(const struct steno_infer *ic, const struct steno_node *n,
                           struct steno_row_range *out);
/* What has at least the rows wanted, with a reference; *out NULL: there is no room for them. t: the
 * table's part that was multiplied last, the caller's to free. */
STENO_MUST steno_status steno_table_rows_take(struct workspace *ws, const struct steno_infer *ic,
                                              const struct steno_node *n,
                                              const struct steno_row_range *want,
                                              struct steno_table_part *t,
                                              struct steno_table_rows **out, steno_err *err);
void steno_table_rows_drop(struct steno_table_rows *r);
bool steno_table_rows_newest(
    const struct steno_table_rows *r); /* false: a longer input's have come */
const void *steno_table_rows_data(const struct steno_table_rows *r, int64_t row);

/* plan_choose.c */
struct steno_chosen { /* a step to be */
    const struct steno_node *node;
    const struct scope *scope;
};
/* fn for the number of every slot that its node reads, also in its bodies. */
void steno_plan_each_read(const struct steno_chosen *c, void (*fn)(void *arg, int32_t slot),
                          void *arg);
/* Slots and scopes of p, with what is known of the values; *out: its n_steps nodes that are run, in
 * tmp. shapes: false, every shape is taken as unknown until the node has run. */
STENO_MUST steno_status steno_plan_choose(struct plan *p, struct frame *f,
                                          const struct steno_tensor *const *in, bool shapes,
                                          steno_arena *tmp, struct steno_chosen **out,
                                          steno_err *err);
/* plan_order.c: the same nodes in the order in which they are run, in tmp. STENO_ERR_NOMEM. */
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
/* Give scratch that runs have asked for a place among the activations, which move; where that would
 * take more memory than scratch apart does, or fails, all stays. */
STENO_MUST steno_status steno_plan_place_scratch(struct plan *p, steno_err *err);
void steno_plan_free(struct plan *p);

/* frame.c */
STENO_MUST steno_status steno_frame_new(struct frame **out, struct workspace *ws,
                                        struct steno_graph *g, struct frame *up,
                                        struct plan *up_plan, const struct scope *up_scope,
                                        steno_err *err);
/* Between runs: give arena and outputs back; all: plans too. */
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
/* Drop the constants that preparation left because of store->keep. */
void steno_prepare_drop(struct steno_graph *g);
/* All blocks are there: room that was kept for more goes back. */
void steno_packed_store_shrink(struct steno_packed_store *s);
/* After steno_release_graph. */
void steno_packed_store_free(struct steno_packed_store *s);
void steno_release_graph(struct steno_graph *g);

#endif
