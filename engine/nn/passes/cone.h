/* Cones: nodes between one value and one result with nothing else but constants in them, so that
 * what they compute can be found out by computing it. Used by curve.h (functions of one number) and
 * norm.h (functions of one row). */
#ifndef STENO_NN_PASSES_CONE_H
#define STENO_NN_PASSES_CONE_H

#include "nn/passes/passes.h"

#define STENO_CONE_MAX 28

struct steno_cone {
    struct steno_node *node[STENO_CONE_MAX]; /* by falling number: each writes what those before it
                                                read; node[0] writes the result */
    int code[STENO_CONE_MAX];                /* steno_cone_code of each */
    int n;
    steno_value_id x; /* set by who uses the cone: the one value it reads */
    /* May the node join; is v a constant that the cone may read? */
    bool (*takes)(const struct steno_graph *g, const struct steno_cone *c,
                  const struct steno_node *n);
    bool (*number)(const struct steno_graph *g, const struct steno_cone *c, steno_value_id v);
};

/* The cone of `end` alone; takes and number are set by the caller. */
void steno_cone_start(struct steno_cone *c, struct steno_node *end);
/* Inputs of n that are data (the axes of a reduction are not). */
int steno_cone_inputs(const struct steno_node *n);
/* How many different values the cone reads and does not write, constants aside (1 is exact, more
 * means several); *last: the one that is written last. */
int steno_cone_leaves(const struct steno_graph *g, const struct steno_cone *c,
                      steno_value_id *last);
/* The node that writes v joins; false when it may not, or others read v as well. */
bool steno_cone_widen(struct steno_graph *g, struct steno_cone *c, steno_value_id v);
/* Number in c->node of the node that writes v, -1 for none. */
int steno_cone_find(const struct steno_cone *c, steno_value_id v);

/* Not 0: one of the elementwise operators known here. */
int steno_cone_code(const struct steno_node *n);
/* v, infinite beyond the range of f32, as the graph has it there. */
double steno_cone_f32(double v);
/* What elementwise node number i makes of `in`, one number per input, in f64. */
double steno_cone_value(const struct steno_cone *c, int i, const double *in);

#endif
