/* Attention within a window: asr/encoder/longformer_encoder.py of ESPnet 202511, which takes it
 * from the package longformer, mode sliding_chunks (Beltagy et al., Longformer, 2020). It is
 * written as the engine's own operator, whose body in the file is of standard ones
 * (nn/ops/body_local.c). */
#include "tools/convert/espnet_encoder.h"
#include "tools/convert/espnet_parts.h"

#include <math.h>

#define HIDES (-10000.0f) /* added to the scores of rows that are not there */

static steno_value_id int_value(struct steno_make *m, int64_t x)
{
    return steno_make_ints(m, 1, &x);
}

steno_value_id steno_espnet_fill_windows(struct steno_make *m, steno_value_id x,
                                         const struct steno_espnet_encoder *e,
                                         struct steno_espnet_view *v)
{
    const steno_value_id rows = int_value(m, e->window_rows), n = steno_make_extent_of(m, x, 1);
    steno_value_id more, zeros, number, in[3];
    more = steno_make_2(m, "Sub", rows, steno_make_2(m, "Mod", n, rows));
    more = steno_make_2(m, "Mod", more, rows);
    zeros = steno_make_join(m, 0, 3, (steno_value_id[]){int_value(m, 1), more, int_value(m, e->d)});
    x = steno_make_concat(m, 1, x, steno_make_1(m, "ConstantOfShape", zeros));
    in[0] = steno_make_int(m, 0);
    in[1] = steno_make_squeeze(m, steno_make_extent_of(m, x, 1), 0);
    in[2] = steno_make_int(m, 1);
    number = steno_make_node(m, "Range", 3, in, 0, NULL);
    v->off = steno_make_2(m, "GreaterOrEqual", number, n);
    v->mask = steno_make_node(
        m, "Where", 3,
        (steno_value_id[]){v->off, steno_make_number(m, HIDES), steno_make_number(m, 0)}, 0, NULL);
    return x;
}

static struct steno_attr int_attr(const char *name, int64_t i)
{
    return (struct steno_attr){.name = name, .kind = STENO_ATTR_INT, .i = i};
}

steno_value_id steno_espnet_local_attention(struct steno_make *m, const char *name,
                                            steno_value_id x, const struct steno_espnet_view *v,
                                            const struct steno_espnet_encoder *e)
{
    const int64_t d = e->d, size = d / e->heads;
    const struct steno_attr attr[] = {
        int_attr("heads", e->heads),
        int_attr("size", size),
        int_attr("v_size", size),
        int_attr("window", v->window),
        {.name = "scale", .kind = STENO_ATTR_FLOAT, .f = 1 / sqrtf((float)size)}};
    steno_value_id in[] = {STENO_NONE, STENO_NONE, STENO_NONE, v->mask, v->off};
    in[0] = steno_make_linear_of(m, x, name, "attention_layer.query", d, d, true);
    in[1] = steno_make_linear_of(m, x, name, "attention_layer.key", d, d, true);
    in[2] = steno_make_linear_of(m, x, name, "attention_layer.value", d, d, true);
    return steno_make_node_of(m, "ai.steno", 1, "LocalAttention", 5, in, sizeof attr / sizeof *attr,
                              attr);
}
