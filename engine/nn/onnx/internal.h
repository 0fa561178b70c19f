/* Shared by the loader's files. */
#ifndef STENO_NN_ONNX_INTERNAL_H
#define STENO_NN_ONNX_INTERNAL_H

#include "nn/graph/graph.h"
#include "nn/onnx/load.h"

#include <protobuf-c/protobuf-c.h>
#include "onnx.pb-c.h"

/* Limit for a graph after inlining: a small file can ask for exponentially many nodes. */
#define STENO_ONNX_MAX_NODES 1000000u
#define STENO_MAX_BODY ((size_t)1 << 20) /* text of one function */
#define STENO_FUSED_DOMAIN "ai.steno"
#define STENO_REGION_KEY                                                                           \
    "steno.region" /* metadata of graphs in private copies: "PARENT TYPE NAME" */

/* External-data files of one model, each opened once. */
struct steno_external_file;
struct steno_onnx_source {
    const char *dir; /* NULL: external data is refused */
    struct steno_external_file *files;
    size_t bytes, max_bytes;      /* of weights so far, and the limit */
    struct steno_onnx_info *info; /* records every file opened; may be NULL */
    const char *map;              /* the model's file, if its message is slim */
    size_t n_map;
};
void steno_onnx_source_close(struct steno_onnx_source *s);

/* Read [offset, offset + n) of file `location`, which must be below s->dir. dst NULL: only check
 * that the bytes exist. */
STENO_MUST steno_status steno_onnx_external(struct steno_onnx_source *s, const char *location,
                                            int64_t offset, size_t n, void *dst, steno_err *err);

/* Read the dense tensor of a message. *t gets a steno_aligned_alloc block that becomes the
 * caller's; raw_data is moved out of the message if it is such a block (allocator of
 * steno_onnx_unpack). mapped, if not NULL, becomes true for a large matrix in s->map; t->data then
 * points there. */
STENO_MUST steno_status steno_onnx_tensor(struct steno_onnx_source *s, Onnx__Tensor *m,
                                          struct steno_tensor *t, bool *mapped, steno_err *err);
/* The same for a private copy whose elements are stored: t->data is borrowed, NULL if they are not
 * needed. *stored false: they are in the message. */
STENO_MUST steno_status steno_onnx_stored(const struct steno_onnx_options *opt,
                                          const Onnx__Tensor *m, struct steno_tensor *t,
                                          bool *stored, steno_err *err);
/* Find the bytes of a tensor that stays unread. *owned: a block that the caller frees, or NULL.
 * *bytes NULL: they are in the message. */
STENO_MUST steno_status steno_onnx_raw(struct steno_onnx_source *s, const Onnx__Tensor *m,
                                       const void **bytes, size_t *n, void **owned, steno_err *err);
/* Read a sparse tensor as a dense one; *t as in steno_onnx_tensor. */
STENO_MUST steno_status steno_onnx_sparse(struct steno_onnx_source *s, Onnx__SparseTensor *m,
                                          struct steno_tensor *t, steno_err *err);

/* The large byte strings of a message. */
struct steno_onnx_large {
    size_t from; /* bytes from which raw_data counts as large; 0: none does */
    bool mapped; /* the message is a mapped file: release pages after reading */
    size_t sum;  /* bytes of all of them, after steno_onnx_check_wire */
};
/* Walk the wire format with the schema before anything is allocated. Checks that every length is
 * within its message, that nesting is bounded (protobuf-c recurses without a limit), and that the
 * numbers of nodes and messages are within limits. */
STENO_MUST steno_status steno_onnx_check_wire(const uint8_t *p, size_t n,
                                              struct steno_onnx_large *large, steno_err *err);
/* Return the message type of field `number` of d; NULL if it is not a message. */
const ProtobufCMessageDescriptor *steno_onnx_submessage(const ProtobufCMessageDescriptor *d,
                                                        uint64_t number);

enum { STENO_ONNX_RAW_DATA = 9 }; /* field of Tensor */
/* Its data_location: raw_data is two u64, offset and length. */
enum { STENO_ONNX_IN_PLACE = 2 };
/* Copy the message to *out with large raw_data replaced by its place in `data`. The caller frees
 * *out with free(). */
STENO_MUST steno_status steno_onnx_slim(const void *data, size_t size,
                                        const struct steno_onnx_large *large, void **out, size_t *n,
                                        steno_err *err);

/* Memory of the unpacked messages. It counts against a limit. Long byte strings are aligned blocks
 * that can become weights without a copy. */
struct steno_onnx_heap {
    ProtobufCAllocator alloc;
    size_t used, max;
};
/* Start an empty heap with this limit in bytes. */
void steno_onnx_heap_init(struct steno_onnx_heap *h, size_t max);
/* True if a byte string of this length is a steno_aligned_alloc block. */
bool steno_onnx_is_block(size_t n);

/* Name -> value number, per scope. */
struct steno_names {
    struct {
        const char *name; /* borrowed */
        steno_value_id v;
    } * slot;
    size_t n, cap;
};
void steno_names_free(struct steno_names *t);
steno_value_id steno_names_find(const struct steno_names *t, const char *name); /* STENO_NONE */
STENO_MUST steno_status steno_names_put(struct steno_names *t, const char *name, steno_value_id v);

/* What names mean at one place of the model. */
struct scope {
    struct steno_graph *g;
    /* The graph around; NULL for the main graph and function bodies. */
    struct scope *up;
    struct scope *caller;       /* function bodies: the scope of the call */
    const Onnx__Node *call;     /* function bodies: the calling node (its attributes) */
    const Onnx__Function *func; /* ... and the function */
    struct steno_names names;
    int depth; /* of function calls */
};

struct loader {
    const struct steno_onnx_options *opt;
    Onnx__Model *model;
    struct steno_onnx_source src;
    size_t n_nodes;
    steno_err *err;
};

/* ---- values (load_value.c) ---- */

/* True if the graph is only written again, and keeps what the engine cannot read. */
bool steno_onnx_keeps_unknown(const struct loader *l);
/* Find the value that `name` means in scope s; a body captures it from outside if needed.
 * STENO_NONE if unknown. */
STENO_MUST steno_status steno_onnx_lookup(struct loader *l, struct scope *s, const char *name,
                                          steno_value_id *out);
/* Add a value that this scope writes. STENO_ERR_FORMAT if the name is taken or empty; an empty name
 * stands for an absent input or output. */
STENO_MUST steno_status steno_onnx_declare(struct loader *l, struct scope *s, const char *name,
                                           steno_value_id *out);
/* Set type and shape of v as the file gives them. */
STENO_MUST steno_status steno_onnx_set_type(struct loader *l, struct steno_graph *g,
                                            steno_value_id v, const Onnx__ValueInfo *m);
/* The engine's type of a tensor's elements or of a sequence; STENO_DT_NONE: it has none. */
steno_dtype steno_onnx_value_type(const Onnx__Type *m);
/* Keep the types and shapes that the file gives for values inside, for inference to fall back on.
 */
STENO_MUST steno_status steno_onnx_given_types(struct loader *l, struct scope *s,
                                               const Onnx__Graph *m);
/* Make the graph's initializers constants of s->g. */
STENO_MUST steno_status steno_onnx_initializers(struct loader *l, struct scope *s, Onnx__Graph *m);
/* Node Constant (opset 1 and later): its one attribute becomes the value v. */
STENO_MUST steno_status steno_onnx_constant_node(struct loader *l, struct scope *s,
                                                 const Onnx__Node *m, steno_value_id v);
/* True for a Constant that stays a node, since its value cannot be read. */
bool steno_onnx_stays_node(const struct loader *l, const struct scope *s, const Onnx__Node *m);

/* ---- nodes and graphs (load_graph.c) ---- */

/* Return the opset version that is imported for a domain at this place; 0 if none is. */
int steno_onnx_opset(const struct loader *l, const struct scope *s, const char *domain);
/* Append nodes [n] of scope s to its graph: their outputs become values, then the nodes follow. */
STENO_MUST steno_status steno_onnx_nodes(struct loader *l, struct scope *s, Onnx__Node **nodes,
                                         size_t n);
/* Read graph m into s->g: inputs, initializers, nodes, outputs. */
STENO_MUST steno_status steno_onnx_graph(struct loader *l, struct scope *s, Onnx__Graph *m);
/* True for an optional parameter of the surrounding function that its caller left out. */
bool steno_onnx_omitted(const struct scope *s, const char *name);
/* Return the attribute that a function's caller gives under this name, or the function's default;
 * NULL if there is neither, or outside of functions. */
const Onnx__Attribute *steno_onnx_call_attr(const struct scope *s, const char *name);
/* Read the attributes of node m into n. */
STENO_MUST steno_status steno_onnx_attrs(struct loader *l, struct scope *s, const Onnx__Node *m,
                                         struct steno_node *n);
/* Keep messages as they are (opaque.c). Elements that are elsewhere in the file, or in another, go
 * into the message. */
STENO_MUST steno_status steno_onnx_keep_type(struct loader *l, struct steno_graph *g,
                                             const Onnx__Type *m, const struct steno_opaque **out);
STENO_MUST steno_status steno_onnx_keep_tensor(struct loader *l, struct steno_graph *g,
                                               Onnx__Tensor *m, const struct steno_opaque **out);
STENO_MUST steno_status steno_onnx_keep_attribute(struct loader *l, struct steno_graph *g,
                                                  const Onnx__Attribute *m,
                                                  const struct steno_opaque **out);
/* True if the engine can hold the tensor's elements. */
bool steno_onnx_readable(const Onnx__Tensor *m);
/* Inline the call m of function f. */
STENO_MUST steno_status steno_onnx_call(struct loader *l, struct scope *s, const Onnx__Node *m,
                                        const Onnx__Function *f);

/* Make a function from text (nn/ops/body.h; function_body.c). Messages are in the arena. */
STENO_MUST steno_status steno_onnx_make_function(steno_arena *a, const char *text, int opset,
                                                 int n_in, int n_out, Onnx__Function **out,
                                                 steno_err *err);
/* *same: function `theirs`, called by node n of g, is the one that we would write for n. */
STENO_MUST steno_status steno_onnx_same_function(const struct steno_onnx_options *opt,
                                                 const struct steno_graph *g,
                                                 const struct steno_node *n,
                                                 const Onnx__Function *theirs, bool *same,
                                                 steno_err *err);

#endif
