/* NumPy arrays as tensors. */
#ifndef STENO_CLI_ARRAYS_H
#define STENO_CLI_ARRAYS_H

#include "formats/npy.h"
#include "nn/graph/tensor.h"

/* a's elements, borrowed, as an input of type `want` takes them: bfloat16 as its bits, since NumPy
 * has none; bools become 0 and 1 in place. dtype STENO_DT_NONE: there is no such type. */
void arrays_tensor(struct steno_npy *a, steno_dtype want, struct steno_tensor *t);
/* t's elements, borrowed. */
void arrays_npy(const struct steno_tensor *t, struct steno_npy *a);

#endif
