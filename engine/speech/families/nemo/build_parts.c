#include "speech/families/nemo/build_parts.h"

steno_value_id steno_nemo_zero(struct steno_make *m)
{
    return steno_make_ints(m, 1, (int64_t[]){0});
}

static steno_value_id to_scalar(struct steno_make *m, steno_value_id x)
{
    return steno_make_2(m, "Squeeze", x, steno_nemo_zero(m));
}

steno_value_id steno_nemo_cast(struct steno_make *m, steno_value_id x, int64_t onnx_type)
{
    const struct steno_attr a = {.name = "to", .kind = STENO_ATTR_INT, .i = onnx_type};
    return steno_make_node(m, "Cast", 1, &x, 1, &a);
}

steno_value_id steno_nemo_range(struct steno_make *m, steno_value_id n)
{
    const steno_value_id in[] = {steno_make_int(m, 0), to_scalar(m, n), steno_make_int(m, 1)};
    return steno_make_node(m, "Range", 3, in, 0, NULL);
}

steno_value_id steno_nemo_present(struct steno_make *m, steno_value_id n, steno_value_id length)
{
    return steno_make_2(m, "Less", steno_nemo_range(m, n), steno_make_unsqueeze(m, length, 1));
}

steno_value_id steno_nemo_pad(struct steno_make *m, steno_value_id x, steno_value_id n)
{
    /* [0, 0, 0, 0, n, 0] */
    steno_value_id pads =
        steno_make_concat(m, 0, steno_make_ints(m, 4, (int64_t[]){0, 0, 0, 0}), n);
    return steno_make_2(m, "Pad", x, steno_make_concat(m, 0, pads, steno_nemo_zero(m)));
}
