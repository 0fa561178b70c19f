/* The nodes that passes append. */
#ifndef STENO_NN_PASSES_PUT_H
#define STENO_NN_PASSES_PUT_H

#include "nn/graph/graph.h"

struct steno_pass_values {
    const steno_value_id *v;
    int n;
};
#define STENO_VALUES(...)                                                                          \
    {                                                                                              \
        (const steno_value_id[]){__VA_ARGS__},                                                     \
            (int)(sizeof(const steno_value_id[]){__VA_ARGS__} / sizeof(steno_value_id))            \
    }

struct steno_pass_attrs {
    const struct steno_attr *v;
    int n;
};
/* Attributes of nn/graph/graph.h: STENO_INT_ATTR and others. */
#define STENO_ATTRS(...)                                                                           \
    {                                                                                              \
        (const struct steno_attr[]){__VA_ARGS__},                                                  \
            (int)(sizeof(const struct steno_attr[]){__VA_ARGS__} / sizeof(struct steno_attr))      \
    }

/* A node. The lists are copied; what attributes point to lives as long as the graph. */
struct steno_pass_node {
    const char *domain, *type;
    int opset;
    struct steno_pass_values in, out;
    struct steno_pass_attrs attr;
    const struct steno_node *attrs_of;  /* its attributes come after those; NULL: none */
    const struct steno_node *region_of; /* it joins the region of this node; NULL: none */
};
/* STENO_NODE("", "Add", 14, .in = STENO_VALUES(a, b), .out = STENO_VALUES(y)) */
#define STENO_NODE(DOMAIN, TYPE, OPSET, ...)                                                       \
    (&(const struct steno_pass_node){                                                              \
        .domain = (DOMAIN), .type = (TYPE), .opset = (OPSET), __VA_ARGS__})

/* Append a node. STENO_ERR_INTERNAL: there is no such operator. */
STENO_MUST steno_status steno_pass_put(struct steno_graph *g, const char *name,
                                       const struct steno_pass_node *y, steno_err *err);
/* Append to = Cast(from) of type t. */
STENO_MUST steno_status steno_pass_put_cast(struct steno_graph *g, const char *name,
                                            steno_value_id from, steno_value_id to, steno_dtype t,
                                            steno_err *err);
/* Make n this node; its name and region stay. */
STENO_MUST steno_status steno_pass_become(struct steno_graph *g, struct steno_node *n,
                                          const struct steno_pass_node *y, steno_err *err);
/* Give n this attribute, in a list of its own: other nodes may share the old one. */
STENO_MUST steno_status steno_pass_set_attr(struct steno_graph *g, struct steno_node *n,
                                            const struct steno_attr *a, steno_err *err);

/* ---- several nodes: the first failure sticks, and later calls do nothing ---- */
struct steno_pass_writer {
    struct steno_graph *g;
    const char *name; /* of nodes and their results */
    steno_err *err;
    steno_status st;
};

/* Append a node. */
void steno_pass_write(struct steno_pass_writer *w, const struct steno_pass_node *y);
/* Append a node whose output is a new value, and return that; STENO_NONE after a failure. */
steno_value_id steno_pass_write_new(struct steno_pass_writer *w, const struct steno_pass_node *y);
/* A new value; STENO_NONE after a failure. */
steno_value_id steno_pass_new_value(struct steno_pass_writer *w);
/* A constant, whose elements are copied. */
steno_value_id steno_pass_new_const(struct steno_pass_writer *w, const char *name, steno_dtype t,
                                    int rank, const int64_t *dim, const void *data);
/* A constant of i64 [n]. */
steno_value_id steno_pass_new_ints(struct steno_pass_writer *w, const char *name, int n,
                                   const int64_t *v);
/* Append to = Transpose(from; 0,2,1). */
void steno_pass_write_swapped(struct steno_pass_writer *w, steno_value_id from, steno_value_id to);
/* Append y = MatMul(x, matrix) [+ bias]; bias may be STENO_NONE. */
void steno_pass_write_product(struct steno_pass_writer *w, steno_value_id x, steno_value_id matrix,
                              steno_value_id bias, steno_value_id y);
/* Append y = f32(sum) * (sx * sw) [+ bias] to a sum of 8-bit products; bias may be STENO_NONE. */
void steno_pass_write_scaled(struct steno_pass_writer *w, steno_value_id sum, steno_value_id sx,
                             steno_value_id sw, steno_value_id bias, steno_value_id y);
/* Append out = Slice(x) of opset 13. v: starts, ends, axes and steps, n numbers each, which become
 * constants; axes and steps may be NULL. */
void steno_pass_write_slice(struct steno_pass_writer *w, steno_value_id x,
                            const int64_t *const v[4], int n, steno_value_id out);

#endif
