/* Shared by the files of this writer, which writes for other tools. */
#ifndef STENO_OPTIMIZE_WRITE_INTERNAL_H
#define STENO_OPTIMIZE_WRITE_INTERNAL_H

#include "nn/onnx/write.h"
#include "tools/optimize/write.h"

#include <stdio.h>

struct write_function {
    struct write_function *next;
    const char *type;
    const uint8_t *key; /* packed without its name; distinguishes functions of one type */
    size_t n_key;
    Onnx__Function *f;
};

struct file_writer {
    struct writer w; /* must be first: nn/onnx/write.h */
    const struct steno_onnx_write_options *opt;
    struct write_function *functions, **last;
    size_t n_functions;
    const char *data; /* name of the external file; NULL: elements stay in the message */
    FILE *data_file;
    size_t data_bytes;
};

/* The file_writer that contains w. */
static inline struct file_writer *steno_file_writer(struct writer *w)
{
    return (struct file_writer *)w;
}

/* write_function.c: turn m, a copy of node n, into a call of the function of its fused operator. */
STENO_MUST steno_status steno_write_call(struct writer *w, const struct steno_graph *g,
                                         const struct steno_node *n, Onnx__Node *m);
/* steno_write_form.region */
STENO_MUST steno_status steno_write_region(struct writer *w, const struct write_scope *s,
                                           int32_t from, int32_t to, Onnx__Node **out);

/* opset_schema.c: the version that introduced the form that the operator has at `opset`. 0: it does
 * not exist yet. -1: not a known operator of ai.onnx. */
int steno_opset_since(const char *type, int opset);
/* opset_schema.c: the opset that introduced the operator; 0: not a known operator. */
int steno_opset_first(const char *type);
/* opset.c: true if the operator does not exist at `opset`, and others can do the same. */
bool steno_opset_replaces(const char *type, int opset);
/* opset.c: convert m, a copy of node n of s->g, to the opset of the options. STENO_ERR_UNSUPPORTED,
 * with names: there is no equivalent. */
STENO_MUST steno_status steno_opset_convert(struct writer *w, struct write_scope *s,
                                            const struct steno_node *n, Onnx__Node *m);

#endif
