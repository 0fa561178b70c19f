#include "nn/build/make.h"

#include <math.h>
#include <stdio.h>

steno_value_id steno_make_linear_of(struct steno_make *m, steno_value_id x, const char *name,
                                    const char *part, int64_t in, int64_t out, bool bias)
{
    char full[120];
    snprintf(full, sizeof full, "%s.%s", name, part);
    return steno_make_linear(m, x, full, in, out, bias);
}

steno_value_id steno_make_split(struct steno_make *m, steno_value_id x, int64_t heads, int64_t d)
{
    return steno_make_reshape(m, x, 4, (int64_t[]){0, -1, heads, d / heads});
}

steno_value_id steno_make_heads(struct steno_make *m, steno_value_id x, int64_t heads, int64_t d,
                                bool keys)
{
    static const int64_t rows[] = {0, 2, 1, 3}, columns[] = {0, 2, 3, 1};
    return steno_make_transpose(m, steno_make_split(m, x, heads, d), 4, keys ? columns : rows);
}

steno_value_id steno_make_heads_of(struct steno_make *m, steno_value_id x, const char *name,
                                   const char *part, int64_t heads, int64_t d, bool keys, bool bias)
{
    return steno_make_heads(m, steno_make_linear_of(m, x, name, part, d, d, bias), heads, d, keys);
}

steno_value_id steno_make_biased(struct steno_make *m, steno_value_id q, const char *name,
                                 const char *bias, int64_t heads, int64_t d)
{
    static const int64_t rows[] = {0, 2, 1, 3};
    char full[120];
    snprintf(full, sizeof full, "%s.%s", name, bias);
    q = steno_make_add(m, q, steno_make_param(m, full, 2, (int64_t[]){heads, d / heads}));
    return steno_make_transpose(m, q, 4, rows);
}

steno_value_id steno_make_root(struct steno_make *m, steno_value_id x, int64_t d)
{
    return steno_make_2(m, "Div", x, steno_make_number(m, sqrtf((float)d)));
}

steno_value_id steno_make_weigh(struct steno_make *m, steno_value_id scores, steno_value_id v,
                                int64_t d)
{
    static const int64_t rows[] = {0, 2, 1, 3};
    v = steno_make_2(m, "MatMul", steno_make_softmax(m, "Softmax", scores, -1), v);
    return steno_make_reshape(m, steno_make_transpose(m, v, 4, rows), 3, (int64_t[]){0, -1, d});
}

steno_value_id steno_make_feed_forward(struct steno_make *m, steno_value_id x, const char *name,
                                       int64_t d, int64_t ff, const char *activation)
{
    x = steno_make_activation(m, steno_make_linear_of(m, x, name, "w_1", d, ff, true), activation);
    return steno_make_linear_of(m, x, name, "w_2", ff, d, true);
}

steno_value_id steno_make_mix(struct steno_make *m, steno_value_id x, const char *name, int64_t in,
                              int64_t out, bool bias)
{
    const struct steno_make_conv c = {
        .rank = 1, .in = in, .out = out, .kernel = 1, .stride = 1, .bias = bias};
    return steno_make_convolve(m, x, name, &c);
}

steno_value_id steno_make_shift(struct steno_make *m, steno_value_id x, bool half)
{
    steno_value_id shape = steno_make_1(m, "Shape", x), t, n, zeros, view, y;
    steno_value_id one = steno_make_ints(m, 1, (int64_t[]){1});
    t = steno_make_2(m, "Gather", shape, steno_make_ints(m, 1, (int64_t[]){2}));
    n = steno_make_2(m, "Gather", shape, steno_make_ints(m, 1, (int64_t[]){3}));
    zeros = steno_make_1(m, "ConstantOfShape",
                         steno_make_concat(m, 0, steno_make_slice(m, shape, 0, 0, 3), one));
    y = steno_make_concat(m, -1, zeros, x);
    /* with a column of zeros in front, rows of n + 1 read as rows of T begin one place later each
     */
    view = steno_make_concat(m, 0, steno_make_slice(m, shape, 0, 0, 2),
                             steno_make_concat(m, 0, steno_make_add(m, n, one), t));
    y = steno_make_slice(m, steno_make_2(m, "Reshape", y, view), 2, 1, INT64_MAX);
    y = steno_make_2(m, "Reshape", y, shape);
    if (!half)
        return y;
    n = steno_make_2(m, "Div", n, steno_make_ints(m, 1, (int64_t[]){2}));
    return steno_make_cut(m, y, 3, steno_make_ints(m, 1, (int64_t[]){0}),
                          steno_make_add(m, n, one));
}
