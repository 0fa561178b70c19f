#include "speech/families/nemo/build_parts.h"

steno_value_id steno_nemo_zero(struct steno_make *m)
{
    return steno_make_ints(m, 1, (int64_t[]){0});
}

steno_value_id steno_nemo_pad(struct steno_make *m, steno_value_id x, steno_value_id n)
{
    /* [0, 0, 0, 0, n, 0] */
    steno_value_id pads =
        steno_make_concat(m, 0, steno_make_ints(m, 4, (int64_t[]){0, 0, 0, 0}), n);
    return steno_make_2(m, "Pad", x, steno_make_concat(m, 0, pads, steno_nemo_zero(m)));
}
