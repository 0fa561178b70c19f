#include "convert/icefall_parts.h"

#include <stdio.h>
#include <string.h>

#define POSITIONS 4096 /* rows for each sign; beyond them steno computes, other runtimes end */

steno_value_id steno_icefall_double_swish(struct steno_make *m, steno_value_id x)
{
    steno_value_id y = steno_make_2(m, "Sub", x, steno_make_number(m, 1));
    return steno_make_2(m, "Mul", x, steno_make_1(m, "Sigmoid", y));
}

steno_value_id steno_icefall_basic_norm(struct steno_make *m, steno_value_id x, const char *name)
{
    const int64_t last = -1;
    const struct steno_attr attr[] = {
        {.name = "axes", .kind = STENO_ATTR_INTS, .n = 1, .ints = &last},
        {.name = "keepdims", .kind = STENO_ATTR_INT, .i = 1}};
    char eps[40];
    steno_value_id y = steno_make_2(m, "Mul", x, x);
    snprintf(eps, sizeof eps, "%s.eps", name);
    y = steno_make_node(m, "ReduceMean", 1, &y, 2, attr);
    y = steno_make_add(m, y, steno_make_number(m, steno_make_exp(m, eps)));
    return steno_make_2(m, "Div", x, steno_make_1(m, "Sqrt", y));
}

steno_value_id steno_icefall_half(struct steno_make *m, steno_value_id x, int64_t minus)
{
    const int64_t two = 2;
    x = steno_make_2(m, "Sub", x, steno_make_ints(m, 1, &minus));
    return steno_make_2(m, "Div", x, steno_make_ints(m, 1, &two));
}

steno_value_id steno_icefall_positions(struct steno_make *m, steno_value_id *table,
                                       steno_value_id frames, int64_t d)
{
    const int64_t center = POSITIONS - 1, one = center + 1;
    if (*table == STENO_NONE)
        *table = steno_make_sinusoids(m, "positions", 2 * POSITIONS - 1, d, (double)center, -1);
    return steno_make_cut(m, *table, 1, steno_make_2(m, "Sub", steno_make_ints(m, 1, &one), frames),
                          steno_make_add(m, steno_make_ints(m, 1, &center), frames));
}

void steno_icefall_list(struct steno_make *m, const struct steno_icefall_arch *a, const char *key,
                        steno_icefall_number *of)
{
    char text[STENO_ZIPFORMER_STACKS * 22] = "";
    for (int64_t i = 0; i < a->stacks; i++) {
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%lld", i ? "," : "", (long long)of(a, &a->stack[i]));
    }
    steno_make_meta(m, key, "%s", text);
}
