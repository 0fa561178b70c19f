/* nemo/collections/asr/parts/submodules/subsampling.py of NeMo 3.0.0. What is behind the end of an
 * utterance becomes zeros before each convolution. NeMo 3.0.0 itself fails to run vggnet,
 * striding_conv1d and dw_striding_conv1d; these are as in NeMo 2 for one utterance. */
#include "speech/families/nemo/build_parts.h"

#include <stdio.h>

static steno_value_id stack(struct steno_make *m, steno_value_id x, steno_value_id *length,
                            const struct steno_nemo_arch *a)
{
    steno_value_id by = steno_make_ints(m, 1, &a->factor), n;
    n = steno_make_2(m, "Mod", steno_make_1(m, "Neg", steno_make_extent_of(m, x, 1)), by);
    x = steno_nemo_pad(m, x, n);
    if (a->subsampling == STENO_NEMO_STACKING_NORM)
        x = steno_make_norm(m, x, "pre_norm", a->in, STENO_NEMO_EPSILON);
    x = steno_make_reshape(m, x, 3, (int64_t[]){0, -1, a->factor * a->in});
    *length = steno_make_2(m, "Div", steno_make_add(m, *length, n), by);
    return steno_make_linear(m, x, "proj_out", a->factor * a->in, a->d, true);
}

/* x [B,C,T,F], or [B,C,T] if `flat`, with zeros behind length [B]. */
static steno_value_id hide(struct steno_make *m, steno_value_id x, steno_value_id length, bool flat)
{
    steno_value_id mask = steno_make_present(m, steno_make_extent_of(m, x, 2), length);
    mask = steno_make_unsqueeze(m, mask, 1);
    if (!flat)
        mask = steno_make_unsqueeze(m, mask, 3);
    return steno_make_2(m, "Mul", x, steno_make_cast(m, mask, STENO_MAKE_FLOAT));
}

/* *length becomes (*length + more) / 2. */
static void halve_length(struct steno_make *m, steno_value_id *length, int64_t more)
{
    const int64_t two = 2;
    *length = steno_make_add(m, *length, steno_make_ints(m, 1, &more));
    *length = steno_make_2(m, "Div", *length, steno_make_ints(m, 1, &two));
}

/* One convolution of stride 2 over [B,C,T,F]. */
static steno_value_id halve(struct steno_make *m, steno_value_id x, const char *name,
                            steno_value_id *length, int64_t in, int64_t groups,
                            const struct steno_nemo_arch *a)
{
    static const int64_t causal[] = {2, 2, 1, 1}, even[] = {1, 1, 1, 1};
    const struct steno_make_conv c = {.rank = 2,
                                      .in = in,
                                      .out = a->channels,
                                      .kernel = 3,
                                      .stride = 2,
                                      .pads = a->causal ? causal : even,
                                      .groups = groups,
                                      .bias = true};
    x = steno_make_convolve(m, hide(m, x, *length, false), name, &c);
    halve_length(m, length, a->causal ? 2 : 1); /* (n + pads - 3) / 2 + 1 */
    return x;
}

/* [B,C,T,bands] -> [B,T,d]. */
static steno_value_id join_bands(struct steno_make *m, steno_value_id x, int64_t bands,
                                 const struct steno_nemo_arch *a)
{
    x = steno_make_transpose(m, x, 4, (int64_t[]){0, 2, 1, 3});
    x = steno_make_reshape(m, x, 3, (int64_t[]){0, -1, a->channels * bands});
    return steno_make_linear(m, x, "out", a->channels * bands, a->d, true);
}

static steno_value_id convolve_halving(struct steno_make *m, steno_value_id x,
                                       steno_value_id *length, const struct steno_nemo_arch *a)
{
    const bool depthwise = a->subsampling == STENO_NEMO_DW_STRIDING;
    const struct steno_make_conv point = {
        .rank = 2, .in = a->channels, .out = a->channels, .kernel = 1, .stride = 1, .bias = true};
    int64_t bands = a->in, c = a->channels;
    int at = 0;
    char name[32];
    x = steno_make_unsqueeze(m, x, 1);
    for (int64_t factor = a->factor; factor > 1; factor /= 2) {
        const bool first = factor == a->factor;
        snprintf(name, sizeof name, "conv.%d", at++);
        x = halve(m, x, name, length, first ? 1 : c, first || !depthwise ? 1 : c, a);
        if (!first && depthwise) {
            snprintf(name, sizeof name, "conv.%d", at++);
            x = steno_make_convolve(m, x, name, &point);
        }
        x = steno_make_1(m, "Relu", x);
        at++;
        bands = (bands + (a->causal ? 2 : 1)) / 2;
    }
    return join_bands(m, x, bands, a);
}

/* Pairs of convolutions, each pair followed by the maxima of squares of 2 x 2; the last square of
 * an odd extent is cut. */
static steno_value_id vggnet(struct steno_make *m, steno_value_id x, steno_value_id *length,
                             const struct steno_nemo_arch *a)
{
    static const int64_t two[] = {2, 2};
    const struct steno_attr pool[] = {
        {.name = "kernel_shape", .kind = STENO_ATTR_INTS, .n = 2, .ints = two},
        {.name = "strides", .kind = STENO_ATTR_INTS, .n = 2, .ints = two},
        {.name = "ceil_mode", .kind = STENO_ATTR_INT, .i = 1}};
    struct steno_make_conv c = {
        .rank = 2, .in = 1, .out = a->channels, .kernel = 3, .stride = 1, .pad = 1, .bias = true};
    int64_t bands = a->in;
    int at = 0;
    x = steno_make_unsqueeze(m, x, 1);
    for (int64_t factor = a->factor; factor > 1; factor /= 2) {
        for (int i = 0; i < 2; i++, at += 2) {
            char name[32];
            snprintf(name, sizeof name, "conv.%d", at);
            x = steno_make_convolve(m, hide(m, x, *length, false), name, &c);
            x = steno_make_1(m, "Relu", x);
            c.in = a->channels;
        }
        x = hide(m, x, *length, false);
        x = steno_make_node(m, "MaxPool", 1, &x, 3, pool);
        halve_length(m, length, 1);
        bands = (bands + 1) / 2;
        at++;
    }
    return join_bands(m, x, bands, a);
}

/* Convolutions over time alone, [B,bands,T] -> [B,T,d]. */
static steno_value_id convolve_1d(struct steno_make *m, steno_value_id x, steno_value_id *length,
                                  const struct steno_nemo_arch *a)
{
    static const int64_t causal_pads[] = {4, 1}, even[] = {2, 2};
    const bool depthwise = a->subsampling == STENO_NEMO_DW_STRIDING_1D;
    const bool causal = a->causal && !depthwise; /* as in NeMo */
    int64_t in = a->in;
    int at = 0;
    char name[32];
    for (int64_t factor = a->factor; factor > 1; factor /= 2, at++) {
        const int64_t out = factor == 2 ? a->d : a->channels;
        const struct steno_make_conv c = {.rank = 1,
                                          .in = in,
                                          .out = depthwise ? in : out,
                                          .kernel = 5,
                                          .stride = 2,
                                          .pads = causal ? causal_pads : even,
                                          .groups = depthwise ? in : 1,
                                          .bias = true},
                                     point = {.rank = 1,
                                              .in = in,
                                              .out = out,
                                              .kernel = 1,
                                              .stride = 1,
                                              .bias = true};
        snprintf(name, sizeof name, "conv.%d", at++);
        x = steno_make_convolve(m, hide(m, x, *length, true), name, &c);
        if (depthwise) {
            snprintf(name, sizeof name, "conv.%d", at++);
            x = steno_make_convolve(m, x, name, &point);
        }
        x = steno_make_1(m, "Relu", x);
        halve_length(m, length, causal ? 2 : 1); /* (n + pads - 5) / 2 + 1 */
        in = out;
    }
    return steno_make_turn(m, x);
}

steno_value_id steno_nemo_subsample(struct steno_make *m, steno_value_id x, steno_value_id *length,
                                    const struct steno_nemo_arch *a)
{
    const bool flat =
        a->subsampling == STENO_NEMO_STRIDING_1D || a->subsampling == STENO_NEMO_DW_STRIDING_1D;
    steno_make_at(m, a->subsampling == STENO_NEMO_LINEAR ? "encoder." : "encoder.pre_encode.");
    if (flat)
        return convolve_1d(m, x, length, a);
    x = steno_make_turn(m, x);
    switch (a->subsampling) {
    case STENO_NEMO_LINEAR:
        return steno_make_linear(m, x, "pre_encode", a->in, a->d, true);
    case STENO_NEMO_STACKING:
    case STENO_NEMO_STACKING_NORM:
        return stack(m, x, length, a);
    case STENO_NEMO_VGGNET:
        return vggnet(m, x, length, a);
    default:
        return convolve_halving(m, x, length, a);
    }
}
