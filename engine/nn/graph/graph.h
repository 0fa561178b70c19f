/* Graph IR: what onnx/ builds, passes/ rewrite, plan/ lays out and exec/ runs.
 *
 * Values are numbered; a node names its inputs and outputs by number. A value is produced by one
 * node, or is a graph input, or is constant, or (in a subgraph) is captured from the graph around.
 * Nodes live in an array in topological order after steno_graph_sort. Removed nodes stay in the
 * array with `dead` set until steno_graph_compact. All memory belongs to the graph's arena, but for
 * constants, which may be shared and are refcounted (steno_constant).
 * Built and rewritten by one thread; frozen once a session is opened on it. */
#ifndef STENO_NN_GRAPH_GRAPH_H
#define STENO_NN_GRAPH_GRAPH_H

#include "base/arena.h"
#include "nn/graph/tensor.h"

typedef int32_t steno_value_id; /* value number; STENO_NONE = absent optional input or output */
#define STENO_NONE (-1)
#define STENO_MAX_GRAPH_DEPTH 32 /* body graphs within body graphs */

struct steno_graph;
struct steno_op;

enum steno_attr_kind {
    STENO_ATTR_INT,
    STENO_ATTR_FLOAT,
    STENO_ATTR_STRING,
    STENO_ATTR_TENSOR,
    STENO_ATTR_GRAPH,
    STENO_ATTR_INTS,
    STENO_ATTR_FLOATS,
    STENO_ATTR_STRINGS
};

struct steno_attr {
    const char *name;
    enum steno_attr_kind kind;
    size_t n; /* elements of ints, floats, strings */
    union {
        int64_t i;
        float f;
        const char *s;
        const struct steno_tensor *t;
        struct steno_graph *g;
        const int64_t *ints;
        const float *floats;
        const char *const *strings;
    };
};

/* A constant's tensor and its bytes. `t` is what steno_value.constant points to. Headers live in
 * the graph's arena; bytes live there, or in a heap block (base/arena.h: aligned) that goes with
 * the last reference, or are borrowed. */
struct steno_constant {
    struct steno_tensor t;
    void *owned;      /* heap block or NULL */
    size_t paged;     /* > 0: `owned` is that many bytes of steno_pages_new */
    const void *file; /* its elements in the bytes of the model, at any address; NULL: not there */
    const struct steno_join *join; /* made of others' elements there, when it is fetched; or NULL */
    const struct steno_maker *maker; /* or by somebody else; or NULL */
    size_t bytes;
    int32_t refs; /* values that show it */
};

struct steno_value {
    const char *name; /* "" when the model gave none */
    steno_dtype dtype;
    struct steno_shape shape;
    const struct steno_tensor *constant; /* set: the value is known at load */
    const struct steno_tensor *inferred; /* what shape inference found the elements to be, or NULL;
                                            nn/passes/pass_shape.c makes them constants */
    steno_value_id equals; /* as of the last inference: an earlier value whose elements are the same
                         dimensions, or STENO_NONE */
    int32_t producer;      /* node number; STENO_NONE for inputs, constants, captures */
    steno_value_id captured_from; /* in a subgraph: value of the parent graph; else STENO_NONE */
    uint32_t uses;                /* inputs of live nodes + graph outputs + captures by subgraphs */
    int32_t reader;               /* as of the last recount: a node of this graph that reads it, or
                                     STENO_NONE */
    steno_value_id alias; /* steno_graph_replace_uses: readers are to read that one instead */
    bool is_input, is_output;
    bool spent;  /* a constant that every reader has packed: its elements are not needed any more */
    bool stowed; /* and packed into memory that a cache keeps: nor for another load from there */
};

struct steno_node {
    const char *name;   /* the model's, or made from type and number */
    const char *domain; /* "" for ai.onnx */
    const char *op_type;
    int opset;                 /* imported version of the domain */
    const struct steno_op *op; /* resolved by steno_graph_replacement_of */
    int n_in, n_out, n_attr;
    steno_value_id *in, *out;
    struct steno_attr *attr;
    void *priv; /* the operator's frozen state: packed weights, checked attributes (nn/exec/op.h) */
    size_t packed;      /* bytes of weights in it */
    uint32_t packed_in; /* a bit for each of the inputs 0 to 31 that those were made of */
    int32_t region;     /* the innermost layer it belongs to, or STENO_NONE */
    bool dead;
};

/* A whole layer (pass `layers`): nodes that are one node to who reads the graph (counts, dumps,
 * profiles, the function of a written file) and plain nodes to who plans and runs it, so that it
 * costs neither time nor memory. Convex: no path leaves a region and comes back. */
struct steno_region {
    const char *type, *name; /* operator type in domain ai.steno, name of its first node */
    int32_t parent;          /* the region around it, or STENO_NONE */
};

struct steno_symbol {
    const char *name; /* dim_param */
};

struct steno_graph {
    steno_arena *arena;
    struct steno_graph *parent; /* NULL for the model's main graph */
    int depth;                  /* 0 for the main graph */
    const char *name;
    struct steno_value *values;
    int32_t n_values, cap_values;
    struct steno_node *nodes;
    int32_t n_nodes, cap_nodes;
    steno_value_id *inputs, *outputs; /* inputs without the initialised ones */
    int n_inputs, n_outputs;
    struct steno_symbol *symbols; /* owned by the main graph */
    int n_symbols, cap_symbols;
    struct steno_constant **consts; /* of g and its bodies; owned by the main graph */
    int32_t n_consts, cap_consts;
    void *map; /* the model file, while constants lie in it; owned by the main graph */
    size_t map_bytes;
    struct steno_region *regions;
    int32_t n_regions, cap_regions;
    /* metadata_props of the model (main graph only) */
    const char **meta_keys, **meta_values;
    int n_meta;
    bool aliased; /* some value has an alias */
};

/* A new graph with its own arena (parent NULL) or in the parent's arena. */
struct steno_graph *steno_graph_new(struct steno_graph *parent);
/* Accepts NULL. Operators' state (priv) is released before, by who prepared it
 * (nn/network/network.c). */
void steno_graph_free(struct steno_graph *g);

STENO_MUST steno_status steno_graph_add_value(struct steno_graph *g, const char *name,
                                              steno_value_id *out, steno_err *err);
/* Copies names; inputs/outputs arrays are allocated with the given counts, set to STENO_NONE.
 * *out is valid until the next add. */
STENO_MUST steno_status steno_graph_add_node(struct steno_graph *g, const char *domain,
                                             const char *op_type, const char *name, int n_in,
                                             int n_out, int n_attr, int32_t *out, steno_err *err);
/* Constant value from bytes that are copied into the arena (or borrowed when borrow is true:
 * they must outlive the graph). */
STENO_MUST steno_status steno_graph_add_const(struct steno_graph *g, const char *name,
                                              const struct steno_tensor *t, bool borrow,
                                              steno_value_id *out, steno_err *err);
/* Constant value whose bytes, a steno_aligned_alloc block, become the graph's. On failure they stay
 * the caller's. */
STENO_MUST steno_status steno_graph_take_const(struct steno_graph *g, const char *name,
                                               const struct steno_tensor *t, steno_value_id *out,
                                               steno_err *err);
/* Make an existing value constant with such a block (or, when owned is false, bytes that live as
 * long as the graph). */
STENO_MUST steno_status steno_graph_set_const(struct steno_graph *g, steno_value_id v,
                                              const struct steno_tensor *t, bool owned,
                                              steno_err *err);
/* ---- constants that lie in the model's file (or in bytes that a caller keeps) ----
 * Large matrices stay in the mapped file until they are packed, one after the other, so that no
 * second copy of a model's weights is ever in memory. Their `data` is not for reading before one of
 * these: steno_graph_fetch, for who reads elements or runs a kernel; steno_constant_bytes, for who
 * copies or compares bytes (no alignment). */

/* The root graph g owns the mapping from now on. */
void steno_graph_take_map(struct steno_graph *g, void *map, size_t bytes);
/* Make an existing value constant with elements that lie in that mapping. */
STENO_MUST steno_status steno_graph_set_mapped(struct steno_graph *g, steno_value_id v,
                                               const struct steno_tensor *t, steno_err *err);
/* Constant v as an aligned copy in memory; nothing to do for one that is. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_graph_fetch(struct steno_graph *g, steno_value_id v, steno_err *err);
/* The same for a constant tensor of a graph, found by itself. */
STENO_MUST steno_status steno_constant_fetch(const struct steno_tensor *constant, steno_err *err);
/* Its bytes, at any address; NULL when there are none yet (steno_graph_add_made), or no memory to
 * make them. */
const void *steno_constant_bytes(const struct steno_tensor *constant);
/* Give the copy back; nothing to do for a constant that has no place in the file. */
void steno_graph_unfetch(struct steno_graph *g, steno_value_id v);
/* Give resident pages of the file back: they are read again when they are needed. */
void steno_graph_rest_map(struct steno_graph *g);
/* Fetch what is still there and let go of the file. */
STENO_MUST steno_status steno_graph_unmap(struct steno_graph *g, steno_err *err);

/* Constants whose elements are not in memory and not in a file as they are wanted, but can be made:
 * of other types, turned, of several parts of a file. `make` writes all of them, any number of
 * times, the same each time (false: out of memory); arg lives as long as the graph, or until
 * steno_graph_unmap. */
struct steno_maker {
    bool (*make)(const void *arg, void *to);
    const void *arg;
};
/* t: type and shape. Only for large ones: passes that look at constants leave it alone. */
STENO_MUST steno_status steno_graph_add_made(struct steno_graph *g, const char *name,
                                             const struct steno_tensor *t,
                                             const struct steno_maker *maker, steno_value_id *out,
                                             steno_err *err);

/* Matrices side by side as one constant, made when it is fetched if all of them lie in the file,
 * else at once. f32, or 8 bits with factors of 1. */
struct steno_join_part {
    steno_value_id
        from; /* constant [rows, cols], or [cols, rows] when turned; axes of 1 may follow */
    bool transposed;
    float factor;
};
enum { STENO_JOIN_MAX = 3 };
STENO_MUST steno_status steno_graph_join(struct steno_graph *g, const char *name,
                                         const struct steno_join_part *part, int n,
                                         steno_value_id *out, steno_err *err);
/* Matrix v [rows, cols] as a constant [cols, rows]. */
STENO_MUST steno_status steno_graph_transpose_const(struct steno_graph *g, steno_value_id v,
                                                    steno_value_id *out, steno_err *err);

/* Value `v` of g shows a constant that another value (of g or of any graph of the same model) shows
 * already: one copy of the bytes. */
void steno_graph_share_const(struct steno_graph *g, steno_value_id v,
                             const struct steno_tensor *constant);
/* Forget the constant of v; heap bytes are released with the last reference. The value keeps type
 * and shape, and `constant` becomes NULL. */
void steno_graph_drop_const(struct steno_graph *g, steno_value_id v);
/* A node is gone: constants of its bodies are forgotten. */
void steno_graph_drop_bodies(const struct steno_node *n);
/* Bytes of all constants still held by g and its subgraphs, each counted once. */
size_t steno_graph_const_bytes(const struct steno_graph *g);
int64_t steno_graph_symbol(struct steno_graph *g, const char *dim_param); /* the negative dim */

const struct steno_attr *steno_node_attr(const struct steno_node *n, const char *name);
int64_t steno_node_int(const struct steno_node *n, const char *name, int64_t fallback);
float steno_node_float(const struct steno_node *n, const char *name, float fallback);
const char *steno_node_str(const struct steno_node *n, const char *name, const char *fallback);
/* Borrowed array or NULL; *count = 0 when absent. */
const int64_t *steno_node_ints(const struct steno_node *n, const char *name, size_t *count);

/* Topological order; STENO_ERR_FORMAT naming a node on the cycle. Nodes of an outermost region come
 * to stand side by side; a region that cannot (it is not convex) is dissolved. */
/* Also checks that nothing is read that no one writes. Bodies of If, Loop, Scan are sorted too, and
 * what they capture counts as read by their node. */
STENO_MUST steno_status steno_graph_sort(struct steno_graph *g, steno_err *err);
/* Recount producers and uses. */
void steno_graph_recount(struct steno_graph *g);
/* Let all readers of `from` read `to`. It is noted at once and done by the next
 * steno_graph_apply_replacements, in one walk for any number of replacements: until then nodes may
 * still name `from`. */
void steno_graph_replace_uses(struct steno_graph *g, steno_value_id from, steno_value_id to);
/* What is read in place of v. */
steno_value_id steno_graph_replacement_of(struct steno_graph *g, steno_value_id v);
void steno_graph_apply_replacements(struct steno_graph *g);
/* Drop dead nodes from the array (numbers change; producers are recounted). */
void steno_graph_compact(struct steno_graph *g);
/* Live nodes of g and its subgraphs. */
size_t steno_graph_count_nodes(const struct steno_graph *g);
/* The same with every outermost region counted as one. */
size_t steno_graph_count_top(const struct steno_graph *g);

/* ---- regions (nn/graph/region.c) ---- */
STENO_MUST steno_status steno_graph_add_region(struct steno_graph *g, const char *type,
                                               const char *name, int32_t parent, int32_t *out,
                                               steno_err *err);
/* The outermost region that holds the node, or STENO_NONE. */
int32_t steno_node_top_region(const struct steno_graph *g, const struct steno_node *n);
/* True when the node is in region r or in one inside it. */
bool steno_node_in_region(const struct steno_graph *g, const struct steno_node *n, int32_t r);
/* Values that region r reads and does not write (weights too), and values it writes that are read
 * outside or are graph outputs, in the order of the nodes, each once. Arrays in the graph's arena.
 */
STENO_MUST steno_status steno_region_interface(struct steno_graph *g, int32_t r,
                                               steno_value_id **in, int *n_in, steno_value_id **out,
                                               int *n_out, steno_err *err);
/* Its nodes belong to the region around it, if any. */
void steno_region_dissolve(struct steno_graph *g, int32_t r);
/* fn for each body graph of a node; stops at and returns the first non-zero result. */
int steno_node_each_graph(const struct steno_node *n, int (*fn)(struct steno_graph *g, void *arg),
                          void *arg);
/* Duplicate of a value in a body graph: the one that captures `outer` of g->parent (made if it is
 * not there yet). */
STENO_MUST steno_status steno_graph_capture(struct steno_graph *g, steno_value_id outer,
                                            steno_value_id *out, steno_err *err);
/* Bytes from the graph's arena; STENO_ERR_NOMEM or STENO_ERR_LIMIT in err when there are none. */
void *steno_graph_alloc(struct steno_graph *g, size_t n, size_t size, steno_err *err);

/* Text (one line per node) or Graphviz dot of g and its subgraphs. */
struct steno_buf;
STENO_MUST steno_status steno_graph_dump(const struct steno_graph *g, bool dot,
                                         struct steno_buf *out);

#endif
