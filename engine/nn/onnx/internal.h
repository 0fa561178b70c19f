/* Shared by the loader's files. */
#ifndef STENO_NN_ONNX_INTERNAL_H
#define STENO_NN_ONNX_INTERNAL_H

#include "nn/graph/graph.h"
#include "nn/onnx/load.h"

#include <protobuf-c/protobuf-c.h>
#include "onnx.pb-c.h"

/* Of a graph after inlining: a small file can ask for exponentially many. */
#define STENO_ONNX_MAX_NODES 1000000u
#define STENO_MAX_BODY ((size_t)1 << 20) /* text of one function */
#define STENO_FUSED_DOMAIN "ai.steno"
#define STENO_REGION_KEY "steno.region" /* metadata of private copies: "PARENT TYPE NAME" */

/* External-data files of one model: opened once each. */
struct steno_external_file;
struct steno_onnx_source {
    const char *dir; /* NULL: external data is refused */
    struct steno_external_file *files;
    size_t bytes, max_bytes;      /* of weights so far, and their limit */
    struct steno_onnx_info *info; /* told of every file opened; may be NULL */
    const char *map;              /* the model's file, when its message is a slim one */
    size_t n_map;
};
void steno_onnx_source_close(struct steno_onnx_source *s);

/* File contents of [offset, offset + n) of `location`, which must lie under s->dir. dst NULL: only
 * see that they are there. */
STENO_MUST steno_status steno_onnx_external(struct steno_onnx_source *s, const char *location,
                                            int64_t offset, size_t n, void *dst, steno_err *err);

/* Dense tensor of a message. *t gets a steno_aligned_alloc'd block of the caller's; raw_data is
 * taken out of the message when it is fit for that (allocator of steno_onnx_unpack). mapped, where
 * it is not NULL, becomes true for a large matrix that lies in s->map: then t->data points there.
 */
STENO_MUST steno_status steno_onnx_tensor(struct steno_onnx_source *s, Onnx__Tensor *m,
                                          struct steno_tensor *t, bool *mapped, steno_err *err);
/* The same of a private copy, when the elements are stowed: t->data is borrowed, NULL where nobody
 * needs them. *stowed false: they are in the message. */
STENO_MUST steno_status steno_onnx_stowed(const struct steno_onnx_options *opt,
                                          const Onnx__Tensor *m, struct steno_tensor *t,
                                          bool *stowed, steno_err *err);
STENO_MUST steno_status steno_onnx_sparse(struct steno_onnx_source *s, Onnx__SparseTensor *m,
                                          struct steno_tensor *t, steno_err *err);

/* The large byte strings of a message. */
struct steno_onnx_large {
    size_t from; /* bytes of raw_data that count as large; 0: none are */
    bool mapped; /* the message is a mapped file: pages that were looked at are given back */
    size_t sum;  /* bytes of all of them, after steno_onnx_check_wire */
};
/* Walk the wire format with the schema before anything is allocated: every length within its
 * message, nesting bounded (protobuf-c recurses without a limit), not more nodes and messages than
 * memory is for. */
STENO_MUST steno_status steno_onnx_check_wire(const uint8_t *p, size_t n,
                                              struct steno_onnx_large *large, steno_err *err);
/* The message that field `number` of d is; NULL when it is none. */
const ProtobufCMessageDescriptor *steno_onnx_submessage(const ProtobufCMessageDescriptor *d,
                                                        uint64_t number);

enum { STENO_ONNX_RAW_DATA = 9 }; /* field of Tensor */
enum { STENO_ONNX_IN_PLACE = 2 }; /* its data_location: raw_data is two u64, offset and length */
/* *out: a copy of the message with large raw_data replaced by its place in `data`; free() it. */
STENO_MUST steno_status steno_onnx_slim(const void *data, size_t size,
                                        const struct steno_onnx_large *large, void **out, size_t *n,
                                        steno_err *err);

/* Memory of the unpacked messages: counted against a limit, long byte strings as aligned blocks
 * that can become weights without a copy. */
struct steno_onnx_heap {
    ProtobufCAllocator alloc;
    size_t used, max;
};
void steno_onnx_heap_init(struct steno_onnx_heap *h, size_t max);
/* True when a byte string of this length came as a steno_aligned_alloc block. */
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

/* What a name means at one place of the model. */
struct scope {
    struct steno_graph *g;
    struct scope *up;           /* the graph around, NULL for the main graph and function bodies */
    struct scope *caller;       /* function bodies: where the call stands */
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

/* Opset version imported for a domain at this place; 0 when not imported. */
int steno_onnx_opset(const struct loader *l, const struct scope *s, const char *domain);
STENO_MUST steno_status steno_onnx_nodes(struct loader *l, struct scope *s, Onnx__Node **nodes,
                                         size_t n);
STENO_MUST steno_status steno_onnx_graph(struct loader *l, struct scope *s, Onnx__Graph *m);
/* Value that `name` means in scope s; in a body it is captured from outside where needed.
 * STENO_NONE when unknown. */
STENO_MUST steno_status steno_onnx_lookup(struct loader *l, struct scope *s, const char *name,
                                          steno_value_id *out);
/* An optional parameter of the function around that its caller left out. */
bool steno_onnx_omitted(const struct scope *s, const char *name);
/* The attribute that a function's caller gives under this name, or the function's default; NULL
 * when there is neither, or no function around. */
const Onnx__Attribute *steno_onnx_call_attr(const struct scope *s, const char *name);
STENO_MUST steno_status steno_onnx_attrs(struct loader *l, struct scope *s, const Onnx__Node *m,
                                         struct steno_node *n);
STENO_MUST steno_status steno_onnx_call(struct loader *l, struct scope *s, const Onnx__Node *m,
                                        const Onnx__Function *f);

/* function_body.c: text (nn/ops/body.h) as a function. Messages live in the arena. */
STENO_MUST steno_status steno_onnx_make_function(steno_arena *a, const char *text, int opset,
                                                 int n_in, int n_out, Onnx__Function **out,
                                                 steno_err *err);
/* *same: function `theirs`, called by node n of g, is what we would write for n. */
STENO_MUST steno_status steno_onnx_same_function(const struct steno_onnx_options *opt,
                                                 const struct steno_graph *g,
                                                 const struct steno_node *n,
                                                 const Onnx__Function *theirs, bool *same,
                                                 steno_err *err);

#endif
