/* Conversion between NumPy arrays and tensors. */
#ifndef STENO_CLI_ARRAYS_H
#define STENO_CLI_ARRAYS_H

#include "formats/npy.h"
#include "nn/graph/tensor.h"

/* Make a tensor of a's elements, borrowed, for an input of type `want`. bfloat16 comes as its bits,
 * because NumPy has no such type; bools become 0 and 1 in place. dtype STENO_DT_NONE: the type is
 * not supported. */
void arrays_tensor(struct steno_npy *a, steno_dtype want, struct steno_tensor *t);
/* Make an array of t's elements, borrowed. */
void arrays_npy(const struct steno_tensor *t, struct steno_npy *a);

#endif
