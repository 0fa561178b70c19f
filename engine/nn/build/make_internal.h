/* What the files of the builder share. */
#ifndef STENO_NN_BUILD_MAKE_INTERNAL_H
#define STENO_NN_BUILD_MAKE_INTERNAL_H

#include "nn/build/make.h"

#define STENO_MAKE_NAME 400 /* bytes of a weight's name with root and prefix, its end included */

void steno_make_no_memory(struct steno_make *m);
/* The name of the constant in the graph: without the root, so that it does not depend on what wraps
 * the checkpoint. */
void steno_make_const_name(const struct steno_make *m, const char *name, char out[STENO_MAKE_NAME]);
/* The weight of exactly this shape. NULL: m->st is set. */
const struct steno_torch_tensor *steno_make_find(struct steno_make *m, const char *name, int rank,
                                                 const int64_t *dim);
/* n of its elements as f32. */
void steno_make_read_weight(const struct steno_make_weights *w, const struct steno_torch_tensor *t,
                            size_t from, size_t n, float *x);
/* A new aligned constant, not yet filled; *v is its value. NULL: m->st is set. */
float *steno_make_new_const(struct steno_make *m, const char *name, int rank, const int64_t *dim,
                            steno_value_id *v);

#endif
