/* Graph IR -> ONNX messages: what every writer has in common. Two use it: the private copy that a
 * packed cache keeps (steno_onnx_stow), and the files for other tools, which no daemon writes
 * (optimize/write.h). They differ in a struct steno_write_form. */
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
    /* constants that conversions between opsets need, beside the graph's own */
    Onnx__Tensor **extra;
    size_t n_extra, cap_extra;
};

/* What a writer says in its own way. */
struct steno_write_form {
    /* Finish m, a copy of node n of s->g as the engine has it. */
    steno_status (*node)(struct writer *w, struct write_scope *s, const struct steno_node *n,
                         Onnx__Node *m);
    /* Nodes [from, to) of s->g, a whole outermost region, as one node. *out NULL: they cannot be,
     * and are to be written one by one. NULL: all are. */
    steno_status (*region)(struct writer *w, const struct write_scope *s, int32_t from, int32_t to,
                           Onnx__Node **out);
    /* Constant v of s->g under this name. */
    steno_status (*constant)(struct writer *w, const struct write_scope *s, const char *name,
                             const struct steno_value *v, Onnx__Tensor **out);
    bool private_copy; /* regions are told, and bodies have constants of their own */
};

/* A writer's own data lies around it: this is its first member. */
struct writer {
    const struct steno_write_form *form;
    steno_arena *a;
    struct steno_names used;  /* every value name of the model */
    struct steno_names read;  /* values that something written reads: constants else are left out */
    struct steno_names nodes; /* every node name: runtimes want them to differ */
    Onnx__OperatorSetId *imports[32];
    size_t n_imports;
    size_t made; /* names made up so far */
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

/* g as m, with opset of ai.onnx; w has form and err set, all else zero. The caller adds functions
 * and versions. Messages point into w's arena and g: steno_write_end after they are packed. */
STENO_MUST steno_status steno_write_model(struct writer *w, const struct steno_graph *g, int opset,
                                          Onnx__Model *m);
void steno_write_end(struct writer *w);
/* The packed message behind what out has. */
STENO_MUST steno_status steno_write_pack(const Onnx__Model *m, struct steno_buf *out,
                                         steno_err *err);

void *steno_write_alloc(struct writer *w, size_t n, size_t size); /* zeroed; NULL: err is set */
char *steno_write_dup(struct writer *w, const char *s);
/* `name` is read by what was written; a copy of it. NULL: err is set. */
char *steno_write_read(struct writer *w, const char *name);
/* A node's name, with a number when another node has it. NULL: err is set. */
char *steno_write_node_name(struct writer *w, const char *name);
/* A name nobody has: `stem`, or stem_1, stem_2, ... NULL: err is set. */
const char *steno_write_name(struct writer *w, const char *stem);
STENO_MUST steno_status steno_write_import(struct writer *w, const char *domain, int version);
/* Elements are borrowed. */
STENO_MUST steno_status steno_write_tensor(struct writer *w, const char *name,
                                           const struct steno_tensor *t, Onnx__Tensor **out);
/* One more entry of m's external_data, which has room for it. */
STENO_MUST steno_status steno_write_external(struct writer *w, Onnx__Tensor *m, const char *key,
                                             const char *value);
STENO_MUST steno_status steno_write_value(struct writer *w, const struct steno_graph *g,
                                          const char *name, const struct steno_value *v,
                                          Onnx__ValueInfo **out);
STENO_MUST steno_status steno_write_attr(struct writer *w, struct write_scope *s,
                                         const struct steno_attr *a, Onnx__Attribute **out);
STENO_MUST steno_status steno_write_node(struct writer *w, struct write_scope *s,
                                         const struct steno_node *n, Onnx__Node **out);
STENO_MUST steno_status steno_write_graph(struct writer *w, struct write_scope *s,
                                          Onnx__Graph **out);
int steno_write_inputs(const struct steno_node *n); /* without absent ones at the end */

#endif
