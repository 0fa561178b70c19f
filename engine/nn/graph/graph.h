/* Graph IR: onnx/ builds it, passes/ rewrite it, exec/ plans and runs it.
 *
 * Values are numbered; a node names its inputs and outputs by number. A value is the output of one
 * node, a graph input, a constant, or (in a subgraph) captured from the graph around. After
 * steno_graph_sort the nodes are in topological order. Removed nodes stay in the array with `dead`
 * set. All memory belongs to the graph's arena, except constants, which may be shared and are
 * refcounted (steno_constant).
 * One thread builds and rewrites a graph; it is frozen once a session is opened on it. */
#ifndef STENO_NN_GRAPH_GRAPH_H
#define STENO_NN_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/map.h"
#include "nn/graph/tensor.h"

typedef int32_t steno_value_id; /* value number; STENO_NONE: absent optional input or output */
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
    STENO_ATTR_STRINGS,
    STENO_ATTR_OPAQUE /* of a node that the engine cannot run */
};

/* A part of the file that the engine does not read: a written file has it unchanged. */
struct steno_opaque {
    const void *bytes;
    size_t n;
};

struct steno_attr {
    const char *name;
    enum steno_attr_kind kind;
    size_t n; /* number of ints, floats or strings */
    union {
        int64_t i;
        float f;
        const char *s;
        const struct steno_tensor *t;
        struct steno_graph *g;
        const int64_t *ints;
        const float *floats;
        const char *const *strings;
        const struct steno_opaque *opaque; /* nn/onnx: a message Attribute */
    };
};

/* A constant's tensor and its bytes. steno_value.constant points to `t`. Headers are in the graph's
 * arena. Bytes are there too, or in a heap block (base/arena.h: aligned) that is freed with the
 * last reference, or borrowed. */
struct steno_constant {
    struct steno_tensor t;
    void *owned;  /* heap block or NULL */
    size_t paged; /* > 0: `owned` is from steno_pages_new, with this many bytes */
    /* Its elements in the bytes of the model, at any address; NULL: not there. */
    const void *file;
    /* Recipe to make the elements from others in those bytes at fetch; or NULL. */
    const struct steno_join *join;
    /* Recipe to make the elements with a callback; or NULL. */
    const struct steno_maker *maker;
    size_t bytes;
    int32_t refs; /* values that use it */
};

struct steno_value {
    const char *name; /* "" if the model gave none */
    steno_dtype dtype;
    struct steno_shape shape;
    const struct steno_tensor *constant; /* set: the value is known at load */
    /* Of an input: its elements if the caller gives none; else NULL. */
    const struct steno_tensor *initial;
    /* Only in a graph that is rewritten and not run (nn/onnx: messages Type, Tensor): a type that
     * is not a dense tensor's, elements of a type that the engine lacks. NULL: neither. */
    const struct steno_opaque *type, *elements;
    /* Type and shape that the file gives for the output of an operator that the engine lacks, or
     * NULL. */
    const struct steno_tensor *given;
    /* The elements that shape inference found, or NULL; nn/passes/pass_shape.c makes them
     * constants. */
    const struct steno_tensor *inferred;
    /* As of the last inference: an earlier value whose elements are the same dimensions, or
     * STENO_NONE. */
    steno_value_id equals;
    int32_t producer; /* node number; STENO_NONE for inputs, constants, captures */
    /* In a subgraph: value of the parent graph; else STENO_NONE. */
    steno_value_id captured_from;
    /* Inputs of live nodes + graph outputs + captures by subgraphs. */
    uint32_t uses;
    /* As of the last recount: a node of this graph that reads it, or STENO_NONE. */
    int32_t reader;
    /* Noted by steno_graph_replace_uses: readers will read that value instead. */
    steno_value_id alias;
    bool is_input, is_output;
    /* A constant that every reader has packed; its elements are no longer needed. */
    bool spent;
    /* The packed copies are in memory that a cache keeps; a load from there does not need the
     * elements either. */
    bool cached;
};

struct steno_node {
    const char *name;   /* the model's, or made from type and number */
    const char *domain; /* "" for ai.onnx */
    const char *op_type;
    int opset;                 /* imported version of the domain */
    const struct steno_op *op; /* found by steno_op_find */
    int n_in, n_out, n_attr;
    steno_value_id *in, *out;
    struct steno_attr *attr;
    /* The operator's frozen state: packed weights, checked attributes (nn/exec/op.h). */
    void *priv;
    size_t packed; /* bytes of packed weights in priv */
    /* Bit k: input k, 0 to 31, is packed in there. */
    uint32_t packed_in;
    int32_t region; /* the innermost layer that holds the node, or STENO_NONE */
    bool dead;
};

/* A whole layer (pass `layers`). Readers of the graph (counts, dumps, profiles, the function of a
 * written file) see its nodes as one; planning and execution see plain nodes, so a region costs
 * neither time nor memory. Convex: no path leaves a region and comes back. */
struct steno_region {
    const char *type, *name; /* operator type in domain ai.steno, name of its first node */
    int32_t parent;          /* the region around it, or STENO_NONE */
};

struct steno_symbol {
    const char *name; /* dim_param */
};

struct steno_graph {
    steno_arena *arena;
    struct steno_graph *parent; /* NULL for the main graph */
    int depth;                  /* 0 for the main graph */
    const char *name;
    struct steno_value *values;
    int32_t n_values, cap_values;
    struct steno_node *nodes;
    int32_t n_nodes, cap_nodes;
    /* inputs: without those that have an initializer, unless the caller may replace it */
    steno_value_id *inputs, *outputs;
    int n_inputs, n_outputs;
    /* The shapes that the file gives for the first n_declared outputs. They are often wrong (the
     * lengths used while tracing), so only a written file reads them, where inference does not
     * even know the rank. */
    struct steno_shape *declared;
    /* Their types that are not a dense tensor's (steno_value.type), or NULL. */
    const struct steno_opaque **declared_types;
    int n_declared;
    struct steno_symbol *symbols; /* owned by the main graph */
    int n_symbols, cap_symbols;
    struct steno_constant **consts; /* of g and its bodies; owned by the main graph */
    int32_t n_consts, cap_consts;
    /* The mapped model file, while constants are in it; owned by the main graph. */
    struct steno_map map;
    struct steno_region *regions;
    int32_t n_regions, cap_regions;
    /* metadata_props of the model (main graph only) */
    const char **meta_keys, **meta_values;
    int n_meta;
    bool aliased; /* some value has an alias */
    /* Main graph, not run: a node that its operator refuses as unsupported stays as it is, with
     * unknown outputs. */
    bool lenient;
    /* The 16-bit type that the file computes in (nn/passes/pass_widen.c), or STENO_DT_NONE; main
     * graph only. */
    steno_dtype halves;
};

/* Make a new graph with its own arena (parent NULL) or in the parent's arena. */
struct steno_graph *steno_graph_new(struct steno_graph *parent);
/* The main graph that g is or belongs to. */
static inline struct steno_graph *steno_graph_root(const struct steno_graph *g)
{
    while (g->parent)
        g = g->parent;
    return (struct steno_graph *)(uintptr_t)g;
}
/* Accepts NULL. The caller that prepared the operators' state (priv) has released it
 * (nn/network/network.c). */
void steno_graph_free(struct steno_graph *g);

/* Append a value of unknown type and shape. Copies the name; NULL or "": none. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_graph_add_value(struct steno_graph *g, const char *name,
                                              steno_value_id *out, steno_err *err);
/* Append a node. Copies names. The inputs and outputs arrays get the given counts and are set to
 * STENO_NONE. *out is the node's number. */
STENO_MUST steno_status steno_graph_add_node(struct steno_graph *g, const char *domain,
                                             const char *op_type, const char *name, int n_in,
                                             int n_out, int n_attr, int32_t *out, steno_err *err);
/* Add a constant value. The bytes are copied into the arena, or borrowed if borrow is true; then
 * they must outlive the graph. */
STENO_MUST steno_status steno_graph_add_const(struct steno_graph *g, const char *name,
                                              const struct steno_tensor *t, bool borrow,
                                              steno_value_id *out, steno_err *err);
/* Add a constant value whose bytes, a steno_aligned_alloc block, become the graph's. On failure
 * they stay the caller's. */
STENO_MUST steno_status steno_graph_take_const(struct steno_graph *g, const char *name,
                                               const struct steno_tensor *t, steno_value_id *out,
                                               steno_err *err);
/* Add a constant of this type and shape and return its elements, which the caller writes. NULL: err
 * is set. */
void *steno_graph_new_const(struct steno_graph *g, const char *name, steno_dtype dtype,
                            const struct steno_shape *shape, steno_value_id *out, steno_err *err);
/* Make an existing value constant with such a block (or, if owned is false, with bytes that live as
 * long as the graph). */
STENO_MUST steno_status steno_graph_set_const(struct steno_graph *g, steno_value_id v,
                                              const struct steno_tensor *t, bool owned,
                                              steno_err *err);
/* ---- constants in the model's file (or in bytes that a caller keeps) ----
 * Large matrices stay in the mapped file until they are packed, one after the other, so that a
 * second copy of a model's weights never exists in memory. Call one of these before reading their
 * `data`: steno_graph_fetch to read elements or run a kernel, steno_constant_bytes to copy or
 * compare bytes (no alignment). */

/* Give the mapping to the root graph g. */
void steno_graph_take_map(struct steno_graph *g, const struct steno_map *map);
/* Make an existing value constant with elements in that mapping. */
STENO_MUST steno_status steno_graph_set_mapped(struct steno_graph *g, steno_value_id v,
                                               const struct steno_tensor *t, steno_err *err);
/* Make constant v an aligned copy in memory, if it is not one already. STENO_ERR_NOMEM,
 * STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_graph_fetch(struct steno_graph *g, steno_value_id v, steno_err *err);
/* The same for a constant tensor of a graph. */
STENO_MUST steno_status steno_constant_fetch(const struct steno_tensor *constant, steno_err *err);
/* Return the constant's bytes, at any address. NULL if they are not made yet
 * (steno_graph_add_made), or if there is no memory to make them. */
const void *steno_constant_bytes(const struct steno_tensor *constant);
/* Free the copy in memory, if the elements can be fetched again. */
void steno_graph_unfetch(struct steno_graph *g, steno_value_id v);
/* Release resident pages of the file; a later read loads them again. */
void steno_graph_rest_map(struct steno_graph *g);
/* Fetch all constants that are still in the file and unmap it. */
STENO_MUST steno_status steno_graph_unmap(struct steno_graph *g, steno_err *err);

/* Constants whose elements can be made on demand from data of another type or layout, or from
 * several parts of a file. `make` writes all elements, any number of times, the same each time
 * (false: out of memory). arg lives as long as the graph, or until steno_graph_unmap. */
struct steno_maker {
    bool (*make)(const void *arg, void *to);
    const void *arg;
};
/* Add such a constant. t: type and shape. Only for large constants: passes that look at elements
 * skip it. */
STENO_MUST steno_status steno_graph_add_made(struct steno_graph *g, const char *name,
                                             const struct steno_tensor *t,
                                             const struct steno_maker *maker, steno_value_id *out,
                                             steno_err *err);

/* Join matrices by columns into one constant. If all of them are in the file, it is made when it is
 * fetched, else at once. f32, or 8 bits with factors of 1. */
struct steno_join_part {
    /* constant [rows, cols], or [cols, rows] if transposed; axes of 1 may follow */
    steno_value_id from;
    bool transposed;
    float factor;
};
enum { STENO_JOIN_MAX = 3 };
/* Make the join of part [n <= STENO_JOIN_MAX], all with the same number of rows. STENO_ERR_NOMEM.
 */
STENO_MUST steno_status steno_graph_join(struct steno_graph *g, const char *name,
                                         const struct steno_join_part *part, int n,
                                         steno_value_id *out, steno_err *err);
/* Make a constant [cols, rows] of matrix v [rows, cols]. */
STENO_MUST steno_status steno_graph_transpose_const(struct steno_graph *g, steno_value_id v,
                                                    steno_value_id *out, steno_err *err);

/* Make value `v` of g share a constant of another value (of g or of any graph of the same model):
 * one copy of the bytes. */
void steno_graph_share_const(struct steno_graph *g, steno_value_id v,
                             const struct steno_tensor *constant);
/* Drop the constant of v. Heap bytes are freed with the last reference. The value keeps type and
 * shape; `constant` becomes NULL. */
void steno_graph_drop_const(struct steno_graph *g, steno_value_id v);
/* Drop the constants in the bodies of a removed node. */
void steno_graph_drop_bodies(const struct steno_node *n);
/* Return the bytes of all constants that g and its subgraphs still hold, each counted once. */
size_t steno_graph_const_bytes(const struct steno_graph *g);
/* Return the negative dim of a symbolic dimension; adds the symbol if it is new. */
int64_t steno_graph_symbol(struct steno_graph *g, const char *dim_param);

/* Input i of a node; STENO_NONE: it has none. */
static inline steno_value_id steno_node_in(const struct steno_node *n, int i)
{
    return i >= 0 && i < n->n_in ? n->in[i] : STENO_NONE;
}
/* True if `type` is a word of `types`, operators that are separated by spaces. */
bool steno_op_type_in(const char *type, const char *types);
/* Attributes, as initializers. */
#define STENO_INT_ATTR(NAME, VALUE)                                                                \
    {                                                                                              \
        .name = (NAME), .kind = STENO_ATTR_INT, .i = (VALUE)                                       \
    }
#define STENO_FLOAT_ATTR(NAME, VALUE)                                                              \
    {                                                                                              \
        .name = (NAME), .kind = STENO_ATTR_FLOAT, .f = (VALUE)                                     \
    }
#define STENO_INTS_ATTR(NAME, N, VALUES)                                                           \
    {                                                                                              \
        .name = (NAME), .kind = STENO_ATTR_INTS, .n = (size_t)(N), .ints = (VALUES)                \
    }
/* Return the attribute of this name, or NULL. The functions below return `fallback` if it is absent
 * or of another kind. */
const struct steno_attr *steno_node_attr(const struct steno_node *n, const char *name);
int64_t steno_node_int(const struct steno_node *n, const char *name, int64_t fallback);
float steno_node_float(const struct steno_node *n, const char *name, float fallback);
const char *steno_node_str(const struct steno_node *n, const char *name, const char *fallback);
struct steno_graph *steno_node_graph(const struct steno_node *n, const char *name); /* or NULL */
/* Borrowed array or NULL; *count = 0 when absent. */
const int64_t *steno_node_ints(const struct steno_node *n, const char *name, size_t *count);

/* Sort into topological order. STENO_ERR_FORMAT names a node on a cycle, a value that is read but
 * not written, or one that is written twice. The nodes of an outermost region become adjacent; a
 * region for which that is impossible (it is not convex) is dissolved. */
/* Bodies of If, Loop, Scan are sorted too; what they capture counts as read by their node. */
STENO_MUST steno_status steno_graph_sort(struct steno_graph *g, steno_err *err);
/* Recount producers and uses. */
void steno_graph_recount(struct steno_graph *g);
/* Make all readers of `from` read `to`. The next steno_graph_apply_replacements does it, in one
 * walk for any number of replacements. Until then nodes may still name `from`. */
void steno_graph_replace_uses(struct steno_graph *g, steno_value_id from, steno_value_id to);
/* Return the value that is read in place of v. */
steno_value_id steno_graph_replacement_of(struct steno_graph *g, steno_value_id v);
/* Do all replacements that were noted in g, also where its bodies capture the values. */
void steno_graph_apply_replacements(struct steno_graph *g);
/* Count the live nodes of g and its subgraphs. */
size_t steno_graph_count_nodes(const struct steno_graph *g);
/* The same, with every outermost region counted as one. */
size_t steno_graph_count_top(const struct steno_graph *g);

/* ---- regions (nn/graph/region.c) ---- */
STENO_MUST steno_status steno_graph_add_region(struct steno_graph *g, const char *type,
                                               const char *name, int32_t parent, int32_t *out,
                                               steno_err *err);
/* Return the outermost region that holds the node, or STENO_NONE. */
int32_t steno_node_top_region(const struct steno_graph *g, const struct steno_node *n);
/* True if the node is in region r or in one inside it. */
bool steno_node_in_region(const struct steno_graph *g, const struct steno_node *n, int32_t r);
/* Move the nodes of region r to the region around it, if any. */
void steno_region_dissolve(struct steno_graph *g, int32_t r);
/* Call fn for each body graph of a node; stops at the first non-zero result and returns it. */
int steno_node_each_graph(const struct steno_node *n, int (*fn)(struct steno_graph *g, void *arg),
                          void *arg);
/* Return the value of body graph g that captures `outer` of g->parent; make it if needed. */
STENO_MUST steno_status steno_graph_capture(struct steno_graph *g, steno_value_id outer,
                                            steno_value_id *out, steno_err *err);
/* Allocate from the graph's arena. NULL: out of memory or over the limit, and err is set. */
void *steno_graph_alloc(struct steno_graph *g, size_t n, size_t size, steno_err *err);

struct steno_buf;
/* Append g and its subgraphs to out as text (one line per node) or Graphviz dot. */
STENO_MUST steno_status steno_graph_dump(const struct steno_graph *g, bool dot,
                                         struct steno_buf *out);

#endif
