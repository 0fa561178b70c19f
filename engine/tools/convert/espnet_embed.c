/* Input layers and positions of the encoders: transformer/subsampling.py and embedding.py of ESPnet
 * 202511. */
#include "tools/convert/espnet_encoder.h"
#include "tools/convert/espnet_parts.h"

#include <math.h>
#include <string.h>

/* Two convolutions over time alone; the first one has kernel 3 and stride 1. */
static steno_value_id subsample_1d(struct steno_make *m, steno_value_id x,
                                   const struct steno_espnet_encoder *e, int64_t stride)
{
    const struct steno_make_conv first = {.rank = 1,
                                          .in = e->in,
                                          .out = e->d,
                                          .kernel = 3,
                                          .stride = 1,
                                          .bias = true},
                                 second = {.rank = 1,
                                           .in = e->d,
                                           .out = e->d,
                                           .kernel = stride == 3 ? 5 : 3,
                                           .stride = stride,
                                           .bias = true};
    x = steno_make_convolve(m, steno_make_turn(m, x), "conv.0", &first);
    x = steno_make_convolve(m, steno_make_1(m, "Relu", x), "conv.2", &second);
    x = steno_make_turn(m, steno_make_1(m, "Relu", x));
    return steno_make_linear(m, x, "out.0", e->d, e->d, true);
}

steno_value_id steno_espnet_input_layer(struct steno_make *m, steno_value_id x,
                                        const struct steno_espnet_encoder *e)
{
    const struct steno_make_subsampling *s = steno_make_subsampling(e->input_layer);
    if (!strncmp(e->input_layer, "conv1d", 6))
        return subsample_1d(m, x, e, e->input_layer[6] - '0');
    if (s) /* "out.0" in front of the positions, "out" where those are a part of their own */
        return steno_make_subsample(m, x, s, 1, e->in, e->d,
                                    steno_make_has(m, "out.weight") ? "out" : "out.0");
    x = steno_make_norm(m, steno_make_linear(m, x, "0", e->in, e->d, true), "1", e->d, 1e-5f);
    return e->kind == STENO_ESPNET_TRANSFORMER ? steno_make_1(m, "Relu", x) : x;
}

/* The weight of the positions. They are the last part of the input layer, which is a list or has
 * parts with names. */
static steno_value_id alpha(struct steno_make *m)
{
    static const char *const names[] = {"out.1.alpha", "pos_enc.alpha", "3.alpha"};
    size_t i = 0;
    while (i < 2 && !steno_make_has(m, names[i]))
        i++;
    return steno_make_param(m, names[i], 0, NULL);
}

steno_value_id steno_espnet_embed(struct steno_make *m, steno_value_id x,
                                  const struct steno_espnet_encoder *e, struct steno_espnet_view *v)
{
    steno_value_id table;
    *v = (struct steno_espnet_view){STENO_NONE, STENO_NONE, STENO_NONE, STENO_NONE, 0};
    steno_make_at(m, "encoder.embed.");
    x = steno_espnet_input_layer(m, x, e);
    if (e->pos != STENO_ESPNET_POS_SCALED)
        x = steno_make_scale(m, x, sqrtf((float)e->d));
    if (e->pos == STENO_ESPNET_POS_LATEST) {
        v->pos = steno_make_relative(m, "pe", STENO_ESPNET_POSITIONS, e->d,
                                     steno_make_extent_of(m, x, 1));
        return x;
    }
    if (e->pos == STENO_ESPNET_POS_LEGACY) {
        table = steno_make_sinusoids(m, "pe", STENO_ESPNET_POSITIONS, e->d,
                                     (double)(e->pos_rows - 1), -1);
        v->pos = steno_espnet_positions(m, x, table);
        return x;
    }
    table = steno_make_sinusoids(m, "pe", STENO_ESPNET_POSITIONS, e->d, 0, 1);
    table = steno_espnet_positions(m, x, table);
    if (e->pos == STENO_ESPNET_POS_SCALED)
        table = steno_make_2(m, "Mul", table, alpha(m));
    return steno_make_add(m, x, table);
}
