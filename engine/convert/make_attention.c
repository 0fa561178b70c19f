#include "convert/make.h"

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
