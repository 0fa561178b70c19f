/* For graph.c: the memory of one constant. */
#ifndef STENO_NN_GRAPH_MAPPED_H
#define STENO_NN_GRAPH_MAPPED_H

#include "nn/graph/graph.h"

/* The constant that a steno_value.constant is the tensor of. */
struct steno_constant *steno_constant_of(const struct steno_tensor *t);
/* Free its memory; the elements are gone, or in the file again. */
void steno_constant_release(struct steno_constant *c);

/* Elements of others in the model's bytes, side by side. Lives in the graph's arena. */
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
/* to: [rows, total] of elements of `size` bytes. */
void steno_join_make(const struct steno_join *j, size_t size, void *to);

#endif
