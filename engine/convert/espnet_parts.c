#include "convert/espnet_parts.h"

#include <math.h>
#include <stdio.h>

steno_value_id steno_espnet_heads(struct steno_make *m, steno_value_id x, int64_t heads, int64_t d,
                                  bool keys)
{
    static const int64_t rows[] = {0, 2, 1, 3}, columns[] = {0, 2, 3, 1};
    x = steno_make_reshape(m, x, 4, (int64_t[]){0, -1, heads, d / heads});
    return steno_make_transpose(m, x, 4, keys ? columns : rows);
}

steno_value_id steno_espnet_linear(struct steno_make *m, steno_value_id x, const char *name,
                                   const char *part, int64_t in, int64_t out, bool bias)
{
    char full[120];
    snprintf(full, sizeof full, "%s.%s", name, part);
    return steno_make_linear(m, x, full, in, out, bias);
}

steno_value_id steno_espnet_root(struct steno_make *m, steno_value_id x, int64_t d)
{
    return steno_make_2(m, "Div", x, steno_make_number(m, sqrtf((float)d)));
}

steno_value_id steno_espnet_weigh(struct steno_make *m, const char *name, steno_value_id scores,
                                  steno_value_id v, int64_t d)
{
    static const int64_t rows[] = {0, 2, 1, 3};
    steno_value_id y = steno_make_2(m, "MatMul", steno_make_softmax(m, "Softmax", scores, -1), v);
    y = steno_make_reshape(m, steno_make_transpose(m, y, 4, rows), 3, (int64_t[]){0, -1, d});
    return steno_espnet_linear(m, y, name, "linear_out", d, d, true);
}

steno_value_id steno_espnet_attention(struct steno_make *m, const char *name, steno_value_id q,
                                      steno_value_id kv, int64_t heads, int64_t d)
{
    steno_value_id k, v;
    q = steno_espnet_heads(m, steno_espnet_linear(m, q, name, "linear_q", d, d, true), heads, d,
                           false);
    k = steno_espnet_heads(m, steno_espnet_linear(m, kv, name, "linear_k", d, d, true), heads, d,
                           true);
    v = steno_espnet_heads(m, steno_espnet_linear(m, kv, name, "linear_v", d, d, true), heads, d,
                           false);
    return steno_espnet_weigh(
        m, name, steno_espnet_root(m, steno_make_2(m, "MatMul", q, k), d / heads), v, d);
}

steno_value_id steno_espnet_feed_forward(struct steno_make *m, steno_value_id x, const char *name,
                                         int64_t d, int64_t ff, const char *activation)
{
    x = steno_make_activation(m, steno_espnet_linear(m, x, name, "w_1", d, ff, true), activation);
    return steno_espnet_linear(m, x, name, "w_2", ff, d, true);
}

/* Rows of the table for as many positions as x has rows. */
steno_value_id steno_espnet_positions(struct steno_make *m, steno_value_id x, steno_value_id table)
{
    return steno_make_cut(m, table, 1, steno_make_ints(m, 1, (int64_t[]){0}),
                          steno_make_extent_of(m, x, 1));
}
