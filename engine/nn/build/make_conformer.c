/* Parts that the Conformers of several toolkits have. */
#include "nn/build/make.h"

#include <stdio.h>
#include <string.h>

static const struct steno_make_subsampling subsamplings[] = {
    {"conv2d", 2, {3, 3}, {2, 2}},        {"conv2d1", 2, {3, 3}, {1, 1}},
    {"conv2d2", 2, {3, 3}, {2, 1}},       {"conv2d6", 2, {3, 5}, {2, 3}},
    {"conv2d8", 3, {3, 3, 3}, {2, 2, 2}},
};

const struct steno_make_subsampling *steno_make_subsampling(const char *input_layer)
{
    for (size_t i = 0; i < sizeof subsamplings / sizeof *subsamplings; i++)
        if (!strcmp(input_layer, subsamplings[i].name))
            return &subsamplings[i];
    return NULL;
}

steno_value_id steno_make_subsample(struct steno_make *m, steno_value_id x,
                                    const struct steno_make_subsampling *s, int64_t batch,
                                    int64_t in, int64_t d, const char *out)
{
    static const int64_t turn[] = {0, 2, 1, 3};
    x = steno_make_unsqueeze(m, x, 1);
    for (int i = 0; i < s->n; i++) {
        const struct steno_make_conv c = {.rank = 2,
                                          .in = i ? d : 1,
                                          .out = d,
                                          .kernel = s->kernel[i],
                                          .stride = s->stride[i],
                                          .bias = true};
        char name[32];
        snprintf(name, sizeof name, "conv.%d", 2 * i);
        x = steno_make_1(m, "Relu", steno_make_convolve(m, x, name, &c));
        in = (in - s->kernel[i]) / s->stride[i] + 1;
    }
    x = steno_make_transpose(m, x, 4, turn);
    x = steno_make_reshape(m, x, 3, (int64_t[]){batch, -1, d * in});
    return steno_make_linear(m, x, out, d * in, d, true);
}

steno_value_id steno_make_conv_gate(struct steno_make *m, steno_value_id x,
                                    const struct steno_make_conv_module *c)
{
    char name[80];
    snprintf(name, sizeof name, "%s.pointwise_conv1", c->name);
    return steno_make_glu(m, steno_make_mix(m, x, name, c->d, 2 * c->d, c->bias), 1);
}

steno_value_id steno_make_conv_depthwise(struct steno_make *m, steno_value_id x,
                                         const struct steno_make_conv_module *c)
{
    const struct steno_make_conv depth = {.rank = 1,
                                          .in = c->d,
                                          .out = c->d,
                                          .kernel = c->kernel,
                                          .stride = 1,
                                          .pads = c->pads,
                                          .groups = c->d,
                                          .bias = c->bias,
                                          .batch_norm = c->batch_norm};
    char name[80];
    snprintf(name, sizeof name, "%s.depthwise_conv", c->name);
    return steno_make_convolve(m, x, name, &depth);
}

steno_value_id steno_make_conv_out(struct steno_make *m, steno_value_id x,
                                   const struct steno_make_conv_module *c)
{
    char name[80];
    snprintf(name, sizeof name, "%s.pointwise_conv2", c->name);
    return steno_make_turn(m, steno_make_mix(m, x, name, c->d, c->d, c->bias));
}
