/* For the reader of exported networks: what is found in one graph. */
#ifndef STENO_FAMILIES_WHISPER_ONNX_GRAPH_H
#define STENO_FAMILIES_WHISPER_ONNX_GRAPH_H

#include <string.h>

#include "speech/families/whisper/weights_internal.h"

#define ONNX_MAX_HOPS 64
#define ONNX_MAX_FOUND 4096 /* matrices, norms, attentions */

/* A value, in the graph that does not capture it. */
struct onnx_place {
    const struct steno_graph *g;
    steno_value_id v;
};

struct onnx_linear {
    int32_t node;
    struct steno_whisper_tensor w, bias;
    bool has_bias, taken; /* taken: of keys or values */
};

struct onnx_norm {
    struct steno_whisper_tensor w, bias;
};

struct onnx_attention {
    int32_t node; /* its last product */
    steno_value_id q, k, v;
};

struct steno_whisper_onnx {
    steno_whisper_weights *w;
    const struct steno_graph *g; /* the graph or branch that is read */
    const char *file, *side;
    struct onnx_linear *linear; /* [ONNX_MAX_FOUND], as norm and attention */
    struct onnx_norm *norm;
    struct onnx_attention *attention;
    struct onnx_linear conv[2];
    size_t n_linear, n_norm, n_attention, n_conv;
    int32_t *linear_of; /* of a node: number in `linear`, or -1 */
    bool *product;      /* the node is a product of two computed matrices */
    uint32_t *seen, now;
    size_t visits;
    steno_status st; /* the first failure sticks */
    steno_err *err;
};

/* A constant as it lies in the file, and how a value is made of it. */
struct onnx_found {
    struct steno_whisper_tensor t;
    bool turned;                   /* transposed in between */
    struct onnx_place scale, zero; /* of a DequantizeLinear in between */
};

/* Note a failure, with the file in front; the first one sticks. */
void steno_whisper_onnx_fail(struct steno_whisper_onnx *r, steno_status st, const char *fmt, ...)
    STENO_PRINTF(3, 4);
/* Read a constant vector behind p. False: there is none. */
bool steno_whisper_onnx_vector(struct steno_whisper_onnx *r, struct onnx_place p,
                               struct steno_whisper_tensor *t);
/* Find the constant of `rank` axes behind p, through transpositions and DequantizeLinear. */
bool steno_whisper_onnx_find(struct steno_whisper_onnx *r, struct onnx_place p, int rank,
                             struct onnx_found *f);
/* Make of f PyTorch's matrix or filters. columns: the value of f is [in, out]. what: for messages.
 * False: integers without scales. */
bool steno_whisper_onnx_use(struct steno_whisper_onnx *r, const struct onnx_found *f, bool columns,
                            const char *what, struct steno_whisper_tensor *t);
/* Read the table [rows, columns] whose rows p is. *tokens: their numbers are the tokens. */
bool steno_whisper_onnx_table(struct steno_whisper_onnx *r, struct onnx_place p,
                              struct steno_whisper_tensor *t, bool *tokens);
/* Return a constant's elements as f32, in the arena unless they are f32 already; NULL: another
 * type. */
const unsigned char *steno_whisper_onnx_floats(struct steno_whisper_onnx *r,
                                               const struct steno_tensor *c, size_t *n);
/* Note the weights that node n of r->g holds. */
void steno_whisper_onnx_node(struct steno_whisper_onnx *r, const struct steno_node *n);

static inline bool is(const struct steno_node *n, const char *type)
{
    return n && !strcmp(n->op_type, type);
}

static inline bool is_one_of(const struct steno_node *n, const char *const *types)
{
    for (; n && *types; types++)
        if (is(n, *types))
            return true;
    return false;
}

static inline struct onnx_place place_of(const struct steno_graph *g, steno_value_id v)
{
    while (v != STENO_NONE && !g->values[v].constant && g->parent &&
           g->values[v].captured_from != STENO_NONE) {
        v = g->values[v].captured_from;
        g = g->parent;
    }
    return (struct onnx_place){g, v};
}

static inline struct onnx_place input_of(struct onnx_place p, const struct steno_node *n, int i)
{
    return place_of(p.g, i < n->n_in ? n->in[i] : STENO_NONE);
}

static inline const struct steno_node *producer(struct onnx_place p)
{
    const int32_t at = p.v == STENO_NONE ? STENO_NONE : p.g->values[p.v].producer;
    return at == STENO_NONE ? NULL : &p.g->nodes[at];
}

static inline const struct steno_tensor *constant(struct onnx_place p)
{
    return p.v == STENO_NONE ? NULL : p.g->values[p.v].constant;
}

static inline const char *name_of(struct onnx_place p)
{
    return p.v == STENO_NONE ? "" : p.g->values[p.v].name;
}

static inline bool is_bytes(const struct steno_whisper_tensor *t)
{
    return t->type == STENO_WHISPER_I8 || t->type == STENO_WHISPER_U8;
}

#endif
