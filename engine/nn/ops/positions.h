/* The sinusoidal position table (Vaswani et al. 2017, section 3.5). */
#ifndef STENO_NN_OPS_POSITIONS_H
#define STENO_NN_OPS_POSITIONS_H

#include <stdint.h>

/* One element of the row of position `pos`: a sine in even columns, a cosine in odd ones. */
float steno_ops_position(int64_t pos, int64_t column, int64_t dim);

#endif
