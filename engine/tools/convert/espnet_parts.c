#include "tools/convert/espnet_parts.h"

steno_value_id steno_espnet_weigh(struct steno_make *m, const char *name, steno_value_id scores,
                                  steno_value_id v, int64_t d)
{
    return steno_make_linear_of(m, steno_make_weigh(m, scores, v, d), name, "linear_out", d, d,
                                true);
}

steno_value_id steno_espnet_attention(struct steno_make *m, const char *name, steno_value_id q,
                                      steno_value_id kv, int64_t heads, int64_t d)
{
    steno_value_id k, v;
    q = steno_make_heads_of(m, q, name, "linear_q", heads, d, false, true);
    k = steno_make_heads_of(m, kv, name, "linear_k", heads, d, true, true);
    v = steno_make_heads_of(m, kv, name, "linear_v", heads, d, false, true);
    return steno_espnet_weigh(m, name,
                              steno_make_root(m, steno_make_2(m, "MatMul", q, k), d / heads), v, d);
}

/* Rows of the table for as many positions as x has rows. */
steno_value_id steno_espnet_positions(struct steno_make *m, steno_value_id x, steno_value_id table)
{
    return steno_make_cut(m, table, 1, steno_make_ints(m, 1, (int64_t[]){0}),
                          steno_make_extent_of(m, x, 1));
}
