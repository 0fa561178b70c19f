/* Conversion of a node between opsets of ai.onnx, driven by the operators' schemas.
 *
 * opset_table.h has every version of every operator. steno_opset_convert walks from the version of
 * the node to that of the file. Where the form changed (an attribute became an input, another
 * default, another name) a rule rewrites the node (opset_rules.c). Then the node is compared with
 * the schema of the file's opset: attributes that it lacks are dropped if they say nothing, and
 * everything else that it cannot express is an error that names operator, attribute or type, and
 * the first opset that has it. */
#ifndef STENO_OPTIMIZE_OPSET_H
#define STENO_OPTIMIZE_OPSET_H

#include "tools/optimize/write_internal.h"

/* ---- schemas (opset_schema.c) ---- */

struct opset_param {
    const char *name;
    char kind;    /* '1' required, '?' optional, '*' any number of them */
    uint8_t same; /* parameters with the same number have the same element type; 0: any type */
    uint8_t types;
};

struct opset_attr {
    const char *name;
    char kind; /* i f s t g, or I F S for lists; x: others */
    uint8_t required;
    const char *fallback; /* the default as text; NULL: it has none */
};

struct opset_version {
    uint8_t since, deprecated, min_in, n_in;
    uint16_t in;
    uint8_t n_out;
    uint16_t out;
    uint8_t n_attr;
    uint16_t attr;
};

struct opset_op {
    const char *name;
    uint8_t n; /* versions */
    uint16_t first;
};

/* Return the version that holds at `opset`; NULL: the operator is not known or does not exist yet.
 */
const struct opset_version *steno_opset_version(const char *type, int opset);
/* Return the next version of the same operator; NULL: there is none. */
const struct opset_version *steno_opset_next(const char *type, const struct opset_version *v);
/* Return the schema's attribute of this name, or NULL. */
const struct opset_attr *steno_opset_attr(const struct opset_version *v, const char *name);
/* Return attribute i, below v->n_attr. */
const struct opset_attr *steno_opset_attr_at(const struct opset_version *v, int i);
/* Return the schema of input or output k; NULL: there are fewer. */
const struct opset_param *steno_opset_in(const struct opset_version *v, size_t k);
const struct opset_param *steno_opset_out(const struct opset_version *v, size_t k);
/* True if the parameter takes this element type. */
bool steno_opset_takes(const struct opset_param *p, steno_dtype t);
/* Values that are not tensors. */
enum opset_other { STENO_OPSET_TENSOR, STENO_OPSET_SEQUENCE, STENO_OPSET_OPTIONAL };
/* True if the parameter takes such values; always true for a tensor. */
bool steno_opset_takes_other(const struct opset_param *p, enum opset_other other);

/* ---- a node being converted ---- */

struct opset_operand {
    steno_dtype dtype; /* STENO_DT_NONE: unknown */
    struct steno_shape shape;
    const struct steno_tensor *constant; /* or NULL */
    bool made;                           /* the constant is a rule's, not the graph's */
    enum opset_other other;
    bool absent;
};

struct opset_change {
    struct writer *w;
    struct write_scope *s;
    const struct steno_node *n; /* as the engine has it */
    Onnx__Node *m;              /* rewritten in place */
    struct opset_operand *in;   /* of m's inputs; room for 8 more than n has */
    int from, to;               /* opsets: of the node, of the file */
};

/* One rule: version `at` of an operator has another form than those before it. up makes the new
 * form of the old one, down the old form of the new one; NULL: the schemas tell everything. */
struct opset_rule {
    const char *type;
    int at;
    steno_status (*up)(struct opset_change *c);
    steno_status (*down)(struct opset_change *c);
};
const struct opset_rule *steno_opset_rules(size_t *n);

/* STENO_ERR_UNSUPPORTED with the node's name and type. */
STENO_MUST steno_status steno_opset_refuse(const struct opset_change *c, const char *fmt, ...)
    STENO_PRINTF(2, 3);

Onnx__Attribute *steno_opset_find(const Onnx__Node *m, const char *name);
void steno_opset_remove(Onnx__Node *m, const char *name);
int64_t steno_opset_int(const Onnx__Node *m, const char *name, int64_t fallback);
/* Set an attribute of m; adds it if needed. */
STENO_MUST steno_status steno_opset_set_int(struct opset_change *c, const char *name, int64_t v);
STENO_MUST steno_status steno_opset_set_string(struct opset_change *c, const char *name,
                                               const char *v);
/* Set list attribute `name` to v [n], which is copied. */
STENO_MUST steno_status steno_opset_set_ints(struct opset_change *c, const char *name,
                                             const int64_t *v, size_t n);
/* Make input k of m a new constant. t is copied. Inputs before k that m lacks become absent. */
STENO_MUST steno_status steno_opset_set_constant(struct opset_change *c, size_t k, const char *stem,
                                                 const struct steno_tensor *t);
/* The same for a list of i64. */
STENO_MUST steno_status steno_opset_set_list(struct opset_change *c, size_t k, const char *stem,
                                             const int64_t *v, size_t n);
/* Make a constant that no input of m names yet. */
STENO_MUST steno_status steno_opset_constant(struct opset_change *c, const char *stem,
                                             const struct steno_tensor *t, const char **name);
/* Add a node before (or after) m: one output, up to three inputs (NULL ends them). Attributes are
 * added with the functions above while c->m is the node. */
STENO_MUST steno_status steno_opset_add(struct opset_change *c, bool after, const char *type,
                                        const char *const in[3], const char *out,
                                        Onnx__Node **made);
/* Let m write to a new name, and return the name that it wrote before. NULL: out of memory. */
const char *steno_opset_redirect(struct opset_change *c, const char *stem, const char **made);
/* Return the bytes of a constant operand; NULL: it is not constant. */
const void *steno_opset_bytes(const struct opset_operand *in);
/* Read integers of constant operand k (i64 or i32). False: not constant, or more than max. */
bool steno_opset_ints(const struct opset_change *c, size_t k, int64_t *out, size_t max, size_t *n);

#endif
