/* Graph IR -> ONNX messages: the part that all writers share. Two use it: the private copy of a
 * packed cache (steno_onnx_write_private), and files for other tools, which no daemon writes
 * (optimize/write.h). A struct steno_write_form holds their differences. */
#ifndef STENO_NN_ONNX_WRITE_H
#define STENO_NN_ONNX_WRITE_H

#include "base/buf.h"
#include "nn/onnx/internal.h"

struct writer;

/* Names of one graph's values. */
struct write_scope {
    struct write_scope *up;
    const struct steno_graph *g;
    const char **name; /* by value number */
    /* constants that conversions between opsets add */
    Onnx__Tensor **extra;
    size_t n_extra, cap_extra;
    /* nodes that they put before and after the node being written; the graph's writer takes them */
    Onnx__Node **before, **after;
    size_t n_before, cap_before, n_after, cap_after;
    /* The body of an operator that the engine lacks: inputs and outputs keep their names. */
    bool exact;
};

/* A growing list of nodes. */
struct write_nodes {
    Onnx__Node **v;
    size_t n, cap;
};

/* The part that differs between writers. */
struct steno_write_form {
    /* Finish m, a copy of node n of s->g as the engine has it. */
    steno_status (*node)(struct writer *w, struct write_scope *s, const struct steno_node *n,
                         Onnx__Node *m);
    /* Write nodes [from, to) of s->g, a whole outermost region, as one node. *out NULL: not
     * possible, write them one by one. The callback is NULL: write all one by one. */
    steno_status (*region)(struct writer *w, const struct write_scope *s, int32_t from, int32_t to,
                           Onnx__Node **out);
    /* Write constant v of s->g under this name. */
    steno_status (*constant)(struct writer *w, const struct write_scope *s, const char *name,
                             const struct steno_value *v, Onnx__Tensor **out);
    bool private_copy; /* write regions; bodies have constants of their own */
};

/* A constant of several body graphs, which the main graph has for them. */
struct write_shared {
    struct write_shared *next;
    const struct steno_value *value; /* of one of them */
    const char *name;
};

/* A writer's own data follows: this is its first member. */
struct writer {
    const struct steno_write_form *form;
    steno_arena *a;
    struct steno_names used; /* every value name of the model */
    /* Values that something written reads; other constants are left out. */
    struct steno_names read;
    struct steno_names nodes; /* every node name: runtimes want them unique */
    Onnx__OperatorSetId *imports[32];
    size_t n_imports;
    size_t made; /* number of names made up so far */
    struct write_shared *shared;
    size_t n_shared;
    steno_err *err;
};

#define NEW(W, VAR, INIT)                                                                          \
    do {                                                                                           \
        (VAR) = steno_write_alloc(W, 1, sizeof *(VAR));                                            \
        if (!(VAR))                                                                                \
            return STENO_ERR_NOMEM;                                                                \
        INIT(VAR);                                                                                 \
    } while (0)

enum { STENO_WRITE_SMALL = 1024 }; /* bytes: smaller constants stay in the message */

/* Write g as m, with `opset` of ai.onnx. w has form and err set and is zero otherwise. The caller
 * adds functions and versions. Messages point into w's arena and g: call steno_write_end after
 * packing. */
STENO_MUST steno_status steno_write_model(struct writer *w, const struct steno_graph *g, int opset,
                                          Onnx__Model *m);
/* Free the memory of the messages. */
void steno_write_end(struct writer *w);
/* Append the packed message to out. */
STENO_MUST steno_status steno_write_pack(const Onnx__Model *m, struct steno_buf *out,
                                         steno_err *err);

void *steno_write_alloc(struct writer *w, size_t n, size_t size); /* zeroed; NULL: err is set */
char *steno_write_dup(struct writer *w, const char *s);
/* Note that something written reads `name`; returns a copy. NULL: err is set. */
char *steno_write_read(struct writer *w, const char *name);
/* Return a node name, with a number added if another node has it. NULL: err is set. */
char *steno_write_node_name(struct writer *w, const char *name);
/* Return a new name: `stem`, or stem_1, stem_2, ... NULL: err is set. */
const char *steno_write_name(struct writer *w, const char *stem);
/* Name the values of s->g. Main graph: also the constants that its bodies share. */
STENO_MUST steno_status steno_write_make_names(struct writer *w, struct write_scope *s);
/* Return the name that constant t has in a graph around s; NULL: none. */
const char *steno_write_outer_constant(const struct writer *w, const struct write_scope *s,
                                       const struct steno_tensor *t);
/* Import at least this opset version of a domain. STENO_ERR_LIMIT: too many domains. */
STENO_MUST steno_status steno_write_import(struct writer *w, const char *domain, int version);
/* Elements are borrowed. */
STENO_MUST steno_status steno_write_tensor(struct writer *w, const char *name,
                                           const struct steno_tensor *t, Onnx__Tensor **out);
/* Append an entry to m's external_data, which has room for it. */
STENO_MUST steno_status steno_write_external(struct writer *w, Onnx__Tensor *m, const char *key,
                                             const char *value);
/* Write the type and shape of an input or output of g under this name. */
STENO_MUST steno_status steno_write_value(struct writer *w, const struct steno_graph *g,
                                          const char *name, steno_dtype dtype,
                                          const struct steno_shape *s, Onnx__ValueInfo **out);
/* Unpack a part of the read file into w's arena. NULL: err is set. */
void *steno_write_unpack(struct writer *w, const ProtobufCMessageDescriptor *d,
                         const struct steno_opaque *o);
/* Write an attribute; body graphs are written too, with `exact` as in their scope. */
STENO_MUST steno_status steno_write_attr(struct writer *w, struct write_scope *s,
                                         const struct steno_attr *a, bool exact,
                                         Onnx__Attribute **out);
STENO_MUST steno_status steno_write_append(struct writer *w, struct write_nodes *list,
                                           Onnx__Node *m);
/* Append node n of s->g, which the form finishes, and the nodes that this adds. Returns n's in *out
 * (may be NULL). */
STENO_MUST steno_status steno_write_node(struct writer *w, struct write_scope *s,
                                         const struct steno_node *n, struct write_nodes *list,
                                         Onnx__Node **out);
/* Write s->g with names, nodes and constants. */
STENO_MUST steno_status steno_write_graph(struct writer *w, struct write_scope *s,
                                          Onnx__Graph **out);
int steno_write_inputs(const struct steno_node *n); /* without absent ones at the end */

#endif
