/* For graph.c and join.c: the memory of one constant. */
#ifndef STENO_NN_GRAPH_MAPPED_H
#define STENO_NN_GRAPH_MAPPED_H

#include "nn/graph/graph.h"

/* Return the constant that holds a steno_value.constant. */
struct steno_constant *steno_constant_of(const struct steno_tensor *t);
/* Free its memory; the elements are gone, or only in the file again. */
void steno_constant_release(struct steno_constant *c);

/* Matrices in the model's bytes, joined by columns. In the graph's arena. */
struct steno_join {
    int n;
    size_t rows, total; /* columns of all */
    struct {
        const void *file;
        size_t cols;
        bool transposed;
        float factor;
    } part[STENO_JOIN_MAX];
};
/* Write the join to `to` [rows, total], elements of `size` bytes. */
void steno_join_make(const struct steno_join *j, size_t size, void *to);

#endif
