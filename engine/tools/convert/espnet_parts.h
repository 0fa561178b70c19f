/* Parts that several networks of ESPnet2 have. They read weights below m->prefix. */
#ifndef STENO_CONVERT_ESPNET_PARTS_H
#define STENO_CONVERT_ESPNET_PARTS_H

#include "tools/convert/make.h"

#define STENO_ESPNET_POSITIONS                                                                     \
    2048 /* rows of the tables; beyond them steno computes, other runtimes end */
#define STENO_ESPNET_EPSILON 1e-12f /* of ESPnet's own layer normalization */

/* Softmax of the scores, the values v weighed by it, and NAME.linear_out. */
steno_value_id steno_espnet_weigh(struct steno_make *m, const char *name, steno_value_id scores,
                                  steno_value_id v, int64_t d);
/* Multi-head attention of q [B,L,d] over kv [B,T,d] (transformer/attention.py). */
steno_value_id steno_espnet_attention(struct steno_make *m, const char *name, steno_value_id q,
                                      steno_value_id kv, int64_t heads, int64_t d);
/* As many of the first rows of a table [1,n,d] as x has. */
steno_value_id steno_espnet_positions(struct steno_make *m, steno_value_id x, steno_value_id table);

#define STENO_ESPNET_RESIDUAL(M, X, NORM, D, BEFORE, BY, PART)                                     \
    STENO_MAKE_RESIDUAL(M, X, NORM, D, BEFORE, STENO_ESPNET_EPSILON, BY, PART)

#endif
