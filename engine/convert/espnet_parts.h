/* Parts that several networks of ESPnet2 have. They read weights below m->prefix. */
#ifndef STENO_CONVERT_ESPNET_PARTS_H
#define STENO_CONVERT_ESPNET_PARTS_H

#include "convert/make.h"

#define STENO_ESPNET_POSITIONS                                                                     \
    2048 /* rows of the tables; beyond them steno computes, other runtimes end */
#define STENO_ESPNET_EPSILON 1e-12f /* of ESPnet's own layer normalization */

/* x W' + b of NAME.PART. */
steno_value_id steno_espnet_linear(struct steno_make *m, steno_value_id x, const char *name,
                                   const char *part, int64_t in, int64_t out, bool bias);
/* x [1,T,d] -> [1,heads,T,d / heads]; keys: [1,heads,d / heads,T]. */
steno_value_id steno_espnet_heads(struct steno_make *m, steno_value_id x, int64_t heads, int64_t d,
                                  bool keys);
/* x / sqrt(d). */
steno_value_id steno_espnet_root(struct steno_make *m, steno_value_id x, int64_t d);
/* Softmax of the scores, the values v weighed by it, and NAME.linear_out. */
steno_value_id steno_espnet_weigh(struct steno_make *m, const char *name, steno_value_id scores,
                                  steno_value_id v, int64_t d);
/* Multi-head attention of q [B,L,d] over kv [B,T,d] (transformer/attention.py). */
steno_value_id steno_espnet_attention(struct steno_make *m, const char *name, steno_value_id q,
                                      steno_value_id kv, int64_t heads, int64_t d);
steno_value_id steno_espnet_feed_forward(struct steno_make *m, steno_value_id x, const char *name,
                                         int64_t d, int64_t ff, const char *activation);
/* As many of the first rows of a table [1,n,d] as x has. */
steno_value_id steno_espnet_positions(struct steno_make *m, steno_value_id x, steno_value_id table);

/* x + by * part(norm(x)), or norm(x + by * part(x)). */
#define STENO_ESPNET_RESIDUAL(M, X, NORM, D, BEFORE, BY, PART)                                     \
    do {                                                                                           \
        steno_value_id y = (BEFORE) ? steno_make_norm(M, X, NORM, D, STENO_ESPNET_EPSILON) : (X);  \
        y = (PART);                                                                                \
        if ((BY) != 1)                                                                             \
            y = steno_make_scale(M, y, BY);                                                        \
        (X) = steno_make_add(M, X, y);                                                             \
        if (!(BEFORE))                                                                             \
            (X) = steno_make_norm(M, X, NORM, D, STENO_ESPNET_EPSILON);                            \
    } while (0)

#endif
