/* Cones: all nodes between one value and one result, with only constants as other inputs. Used by
 * curve.h (functions of one number) and norm.h (functions of one row). */
#ifndef STENO_NN_PASSES_CONE_H
#define STENO_NN_PASSES_CONE_H

#include "nn/passes/passes.h"

#define STENO_CONE_NODES 28

/* Elementwise operators that cones know. */
enum steno_cone_op {
    STENO_CONE_NONE,
    STENO_CONE_ERF,
    STENO_CONE_TANH,
    STENO_CONE_SIGMOID,
    STENO_CONE_EXP,
    STENO_CONE_LOG,
    STENO_CONE_SQRT,
    STENO_CONE_SOFTPLUS,
    STENO_CONE_RELU,
    STENO_CONE_NEG,
    STENO_CONE_RECIPROCAL,
    STENO_CONE_HARD_SIGMOID,
    STENO_CONE_ADD,
    STENO_CONE_SUB,
    STENO_CONE_MUL,
    STENO_CONE_DIV,
    STENO_CONE_POW,
    STENO_CONE_MAX,
    STENO_CONE_MIN,
    STENO_CONE_CLIP,
    STENO_CONE_ABS,
    STENO_CONE_EQUAL,
    STENO_CONE_WHERE
};

struct steno_cone {
    /* Each writes what an earlier one reads; node[0] writes the result. */
    struct steno_node *node[STENO_CONE_NODES];
    int code[STENO_CONE_NODES]; /* steno_cone_code of each */
    int n;
    steno_value_id x; /* set by the caller: the one value that the cone reads */
    /* May the node join? Is v a constant that the cone may read? */
    bool (*takes)(const struct steno_graph *g, const struct steno_cone *c,
                  const struct steno_node *n);
    bool (*number)(const struct steno_graph *g, const struct steno_cone *c, steno_value_id v);
};

/* Start with a cone of `end` alone. The caller sets takes and number. */
void steno_cone_start(struct steno_cone *c, struct steno_node *end);
/* Return the number of n's inputs that are data (the axes of a reduction are not). */
int steno_cone_inputs(const struct steno_node *n);
/* Count the values that the cone reads and does not write, constants aside (1 is exact, more means
 * several). *last: the one that is written last. */
int steno_cone_leaves(const struct steno_graph *g, const struct steno_cone *c,
                      steno_value_id *last);
/* Add the node that writes v. False if it may not join, or if others read v as well. */
bool steno_cone_widen(struct steno_graph *g, struct steno_cone *c, steno_value_id v);
/* Return the index in c->node of the node that writes v, or -1. */
int steno_cone_find(const struct steno_cone *c, steno_value_id v);

/* Return the enum steno_cone_op of a node, 0 for other nodes. */
int steno_cone_code(const struct steno_node *n);
/* Return v, infinity beyond the range of f32, or zero below it, as the graph computes it. */
double steno_cone_f32(double v);
/* Compute elementwise node number i from `in`, one number per input, in f64. */
double steno_cone_value(const struct steno_cone *c, int i, const double *in);

#endif
