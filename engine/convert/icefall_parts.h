/* Small parts that several networks of icefall have. */
#ifndef STENO_CONVERT_ICEFALL_PARTS_H
#define STENO_CONVERT_ICEFALL_PARTS_H

#include "convert/icefall_graphs.h"

/* x sigmoid(x - 1) */
steno_value_id steno_icefall_double_swish(struct steno_make *m, steno_value_id x);
/* x / sqrt(mean(x^2) + e^NAME.eps) over the last axis. */
steno_value_id steno_icefall_basic_norm(struct steno_make *m, steno_value_id x, const char *name);
/* (x - minus) / 2 of whole numbers. */
steno_value_id steno_icefall_half(struct steno_make *m, steno_value_id x, int64_t minus);
/* Relative positions T - 1 down to 1 - T, [1, 2 T - 1, d], for a T that the graph does not know.
 * *table, STENO_NONE at first, is the table of all positions with these columns. */
steno_value_id steno_icefall_positions(struct steno_make *m, steno_value_id *table,
                                       steno_value_id frames, int64_t d);

/* Metadata of a number of each stack, "2,2,3". */
typedef int64_t steno_icefall_number(const struct steno_icefall_arch *a,
                                     const struct steno_zipformer_stack *s);
void steno_icefall_list(struct steno_make *m, const struct steno_icefall_arch *a, const char *key,
                        steno_icefall_number *of);

#endif
