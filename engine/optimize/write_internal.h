/* Shared by the writer's files, and by the loader where it recognises what the writer wrote. */
#ifndef STENO_OPTIMIZE_WRITE_INTERNAL_H
#define STENO_OPTIMIZE_WRITE_INTERNAL_H

#include "nn/onnx/internal.h"
#include "optimize/write.h"

#include <stdio.h>

#define STENO_MAX_BODY ((size_t)1 << 20) /* text of one function */
#define STENO_FUSED_DOMAIN "ai.steno"
#define STENO_REGION_KEY "steno.region" /* metadata of private copies: "PARENT TYPE NAME" */

/* Names of one graph's values. */
struct write_scope {
    struct write_scope *up;
    const struct steno_graph *g;
    const char **name; /* by value number */
    bool apart;        /* constants of bodies are their own, though outer ones be the same */
    /* constants that conversions between opsets need, beside the graph's own */
    Onnx__Tensor **extra;
    size_t n_extra, cap_extra;
};

struct write_function {
    struct write_function *next;
    const char *type;
    const uint8_t *key; /* packed without its name: what tells functions of one type apart */
    size_t n_key;
    Onnx__Function *f;
};

struct writer {
    const struct steno_onnx_write_options *opt;
    steno_arena *a;
    struct steno_names used;  /* every value name of the model */
    struct steno_names read;  /* values that something written reads: constants else are left out */
    struct steno_names nodes; /* every node name: runtimes want them to differ */
    struct write_function *functions, **last;
    size_t n_functions;
    Onnx__OperatorSetId *imports[32];
    size_t n_imports;
    size_t made;      /* names made up so far */
    const char *data; /* name of the external file, NULL: elements stay in the message */
    FILE *data_file;
    size_t data_bytes;
    steno_err *err;
};

#define NEW(W, VAR, INIT)                                                                          \
    do {                                                                                           \
        (VAR) = steno_write_alloc(W, 1, sizeof *(VAR));                                            \
        if (!(VAR))                                                                                \
            return STENO_ERR_NOMEM;                                                                \
        INIT(VAR);                                                                                 \
    } while (0)

void *steno_write_alloc(struct writer *w, size_t n, size_t size); /* zeroed; NULL: err is set */
char *steno_write_dup(struct writer *w, const char *s);
/* `name` is read by what was written; a copy of it. NULL: err is set. */
char *steno_write_read(struct writer *w, const char *name);
/* A node's name, with a number when another node has it. NULL: err is set. */
char *steno_write_node_name(struct writer *w, const char *name);
/* A name nobody has: `stem`, or stem_1, stem_2, ... NULL: err is set. */
const char *steno_write_name(struct writer *w, const char *stem);
STENO_MUST steno_status steno_write_tensor(struct writer *w, const char *name,
                                           const struct steno_tensor *t, bool external,
                                           Onnx__Tensor **out);
STENO_MUST steno_status steno_write_stowed(struct writer *w, const char *name,
                                           const struct steno_value *v, Onnx__Tensor **out);
STENO_MUST steno_status steno_write_import(struct writer *w, const char *domain, int version);
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

/* write_function.c: m, a copy of node n, becomes a call of the function of its fused operator. */
STENO_MUST steno_status steno_write_call(struct writer *w, const struct steno_graph *g,
                                         const struct steno_node *n, Onnx__Node *m);
/* Nodes [from, to) of s->g, a whole outermost region, as one call. *out NULL: they cannot be, and
 * are to be written one by one. */
STENO_MUST steno_status steno_write_region(struct writer *w, const struct write_scope *s,
                                           int32_t from, int32_t to, Onnx__Node **out);

/* opset.c: version at which the operator's present form at `opset` came in; 0: not there yet,
 * -1: not an operator of ai.onnx that we know. */
int steno_opset_since(const char *type, int opset);
/* Say m, a copy of node n of s->g, in the options' opset. STENO_ERR_UNSUPPORTED with names where
 * there is no way. */
STENO_MUST steno_status steno_opset_convert(struct writer *w, struct write_scope *s,
                                            const struct steno_node *n, Onnx__Node *m);

/* body.c. Messages live in the arena. */
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
