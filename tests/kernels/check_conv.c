#include "tests/kernels/kcheck.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "nn/kernels/half.h"

#include <stdlib.h>
#include <string.h>

/* Sizes are {time, width}; out follows from in, total padding, kernel, stride. Shapes of real
 * models: digits-en subsampling and depthwise, ESPnet conv2d subsampling, Zipformer's 1->8 3x3,
 * silero-vad's STFT as a convolution with stride, a pointwise one. */
static const struct conv_case {
    size_t c_in, c_out, group, in[2], kernel[2], stride[2], dilation[2], pad[2], after[2];
} cases[] = {
    {1, 1, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {1, 16, 1, {27, 40}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {16, 32, 1, {13, 19}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {128, 128, 128, {1, 14}, {1, 9}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {32, 48, 1, {24, 19}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {1, 8, 1, {45, 80}, {3, 3}, {1, 1}, {1, 1}, {0, 1}, {0, 1}},
    {8, 32, 1, {43, 80}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {1, 130, 1, {1, 576}, {1, 256}, {1, 128}, {1, 1}, {0, 0}, {0, 0}},
    {64, 96, 1, {1, 25}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {20, 30, 1, {1, 50}, {1, 5}, {1, 1}, {1, 2}, {0, 4}, {0, 4}},
    {12, 24, 4, {7, 9}, {2, 3}, {1, 2}, {2, 1}, {1, 2}, {2, 1}},
    {40, 40, 40, {1, 100}, {1, 31}, {1, 1}, {1, 1}, {0, 15}, {0, 15}},
    {33, 33, 33, {1, 50}, {1, 3}, {1, 2}, {1, 2}, {0, 2}, {0, 2}},
    {24, 24, 24, {9, 20}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
    {6, 12, 6, {1, 30}, {1, 4}, {1, 1}, {1, 1}, {0, 3}, {0, 0}},
    {24, 24, 24, {19, 37}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {5, 5, 5, {11, 100}, {3, 5}, {1, 3}, {1, 1}, {1, 2}, {1, 2}},
    {129, 128, 1, {1, 4}, {1, 3}, {1, 1}, {1, 1}, {0, 1}, {0, 1}},
    {128, 64, 1, {1, 4}, {1, 3}, {1, 2}, {1, 1}, {0, 1}, {0, 1}},
    {200, 70, 2, {1, 40}, {1, 3}, {1, 1}, {1, 1}, {0, 1}, {0, 1}},
    {300, 90, 1, {3, 13}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {70, 40, 1, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {40, 70, 1, {12, 11}, {3, 3}, {2, 2}, {2, 2}, {2, 3}, {2, 2}},
    {512, 40, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, /* patches of 512 that are not
                                                                   * copied */
    {512, 40, 1, {4, 9}, {2, 2}, {1, 1}, {1, 3}, {0, 1}, {0, 1}},
    {256, 40, 1, {9, 21}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {100, 100, 100, {7, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 72, 1, {20, 29}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, /* one channel */
    {1, 33, 1, {11, 23}, {3, 3}, {1, 3}, {1, 1}, {0, 2}, {0, 0}},
    {1, 20, 1, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 16, 1, {1, 3}, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {1, 2}},
    {1, 40, 1, {1, 4000}, {1, 251}, {1, 3}, {1, 1}, {0, 0}, {0, 0}}, /* filter banks */
    {1, 18, 1, {1, 9000}, {1, 25}, {1, 7}, {1, 1}, {0, 12}, {0, 16}},
    {2, 3, 1, {1, 3}, {1, 7}, {1, 1}, {1, 1}, {0, 6}, {0, 6}}, /* kernel wider than the image */
};

static struct steno_conv shape_of(const struct conv_case *c)
{
    struct steno_conv s = {.c_in = c->c_in, .c_out = c->c_out, .group = c->group};
    for (int d = 0; d < 2; d++) {
        s.in[d] = c->in[d];
        s.kernel[d] = c->kernel[d];
        s.stride[d] = c->stride[d];
        s.dilation[d] = c->dilation[d];
        s.pad[d] = c->pad[d];
        s.out[d] = (c->in[d] + c->pad[d] + c->after[d] - (c->kernel[d] - 1) * c->dilation[d] - 1) /
                       c->stride[d] +
                   1;
    }
    return s;
}

static void exact_at(const struct steno_conv *s, const float *x, const float *w, size_t o,
                     size_t o0, size_t o1, double *sum, double *mag)
{
    size_t per = s->c_in / s->group, first = o / (s->c_out / s->group) * per;
    *sum = *mag = 0;
    for (size_t c = 0; c < per; c++)
        for (size_t k0 = 0; k0 < s->kernel[0]; k0++)
            for (size_t k1 = 0; k1 < s->kernel[1]; k1++) {
                int64_t i0 =
                    (int64_t)(o0 * s->stride[0] + k0 * s->dilation[0]) - (int64_t)s->pad[0];
                int64_t i1 =
                    (int64_t)(o1 * s->stride[1] + k1 * s->dilation[1]) - (int64_t)s->pad[1];
                double v;
                if (i0 < 0 || i1 < 0 || i0 >= (int64_t)s->in[0] || i1 >= (int64_t)s->in[1])
                    continue;
                v = (double)x[((first + c) * s->in[0] + (size_t)i0) * s->in[1] + (size_t)i1] *
                    (double)w[((o * per + c) * s->kernel[0] + k0) * s->kernel[1] + k1];
                *sum += v;
                *mag += fabs(v);
            }
}

/* [channels, pixels] to [pixels, channels], or a copy. */
static void to_nhwc(float *to, const float *from, size_t channels, size_t pixels)
{
    for (size_t c = 0; c < channels; c++)
        for (size_t p = 0; p < pixels; p++)
            to[p * channels + c] = from[c * pixels + p];
}

/* Of KCHECK_FEW each 13th on average. */
static void compare_conv(const struct steno_conv *s, const float *x, const float *w, const float *y,
                         const struct steno_gemm_epilogue *ep, size_t number)
{
    size_t pixels = s->out[0] * s->out[1];
    size_t taps = s->c_in / s->group * s->kernel[0] * s->kernel[1];
    for (size_t i = 0; i < s->c_out * pixels; i += KCHECK_FEW ? 1 + random_below(25) : 1) {
        size_t o = i / pixels, p = i % pixels;
        double sum, mag, bound;
        exact_at(s, x, w, o, p / s->out[1], p % s->out[1], &sum, &mag);
        bound = (double)(taps + 2) * EPS * mag + 1e-30;
        if (ep) {
            sum += (double)ep->bias[o];
            bound += 4 * EPS * (fabs(sum) + 1);
            sum = sum > 0 ? sum : 0;
            sum += (double)ep->residual[i];
            bound += 2 * EPS * fabs(sum);
        }
        if (!close_to(y[i], sum, bound))
            test_fail("case %zu: y[%zu,%zu] = %a, exact %a, bound %.3g", number, o, p, (double)y[i],
                      sum, bound);
    }
}

static void run_case(const steno_kernels *k, size_t number, size_t n_parts, bool epilogue)
{
    struct steno_conv s = shape_of(&cases[number]);
    size_t nx = s.c_in * s.in[0] * s.in[1], ny = s.c_out * s.out[0] * s.out[1];
    size_t nw = s.c_out * (s.c_in / s.group) * s.kernel[0] * s.kernel[1];
    float *x = guard_new(nx), *w = guard_new(nw), *y = guard_new(ny), *bias = guard_new(s.c_out);
    float *residual = guard_new(ny), *whole = guard_new(ny);
    struct steno_gemm_epilogue ep = {.alpha = 1,
                                     .bias = bias,
                                     .bias_rows = true,
                                     .act = STENO_ACT_RELU,
                                     .residual = residual,
                                     .ldr = s.out[0] * s.out[1]};
    void *packed = steno_aligned_alloc(k->conv_f32_packed_bytes(&s));
    void *work = steno_aligned_alloc(k->conv_f32_work(&s, n_parts));
    fill_uniform(x, nx);
    fill_uniform(w, nw);
    fill_uniform(bias, s.c_out);
    fill_uniform(residual, ny);
    k->conv_f32_pack(packed, w, &s);
    for (size_t p = n_parts; p-- > 0;)
        k->conv_f32(&s, x, packed, y, epilogue ? &ep : NULL, work, p, n_parts);
    compare_conv(&s, x, w, y, epilogue ? &ep : NULL, number);
    steno_aligned_free(work);
    work = steno_aligned_alloc(k->conv_f32_work(&s, 1));
    k->conv_f32(&s, x, packed, whole, epilogue ? &ep : NULL, work, 0, 1);
    if (memcmp(whole, y, ny * sizeof *y))
        test_fail("case %zu: %zu parts give other bits than one", number, n_parts);
    steno_aligned_free(packed);
    steno_aligned_free(work);
    guard_free(x);
    guard_free(w);
    guard_free(y);
    guard_free(bias);
    guard_free(residual);
    guard_free(whole);
}

/* The channels-last form of a case, against the exact sums in the other layout. */
static void run_nhwc(const steno_kernels *k, size_t number, size_t n_parts, bool epilogue)
{
    struct steno_conv s = shape_of(&cases[number]);
    size_t image = s.in[0] * s.in[1], pixels = s.out[0] * s.out[1];
    size_t nx = s.c_in * image, ny = s.c_out * pixels;
    size_t nw = s.c_out * (s.c_in / s.group) * s.kernel[0] * s.kernel[1];
    float *x = guard_new(nx), *xt = guard_new(nx), *w = guard_new(nw), *bias = guard_new(s.c_out);
    float *y = guard_new(ny), *yt = guard_new(ny), *whole = guard_new(ny);
    float *residual = guard_new(ny), *rt = guard_new(ny);
    struct steno_gemm_epilogue ep = {
        .alpha = 1, .bias = bias, .act = STENO_ACT_RELU, .residual = rt, .ldr = s.c_out};
    struct steno_gemm_epilogue expected = ep;
    void *packed = steno_aligned_alloc(k->conv_nhwc_f32_packed_bytes(&s));
    fill_uniform(x, nx);
    fill_uniform(w, nw);
    fill_uniform(bias, s.c_out);
    fill_uniform(residual, ny);
    to_nhwc(xt, x, s.c_in, image);
    to_nhwc(rt, residual, s.c_out, pixels);
    expected.residual = residual;
    k->conv_nhwc_f32_pack(packed, w, &s);
    for (size_t p = n_parts; p-- > 0;)
        k->conv_nhwc_f32(&s, xt, packed, yt, epilogue ? &ep : NULL, p, n_parts);
    to_nhwc(y, yt, pixels, s.c_out);
    compare_conv(&s, x, w, y, epilogue ? &expected : NULL, number);
    k->conv_nhwc_f32(&s, xt, packed, whole, epilogue ? &ep : NULL, 0, 1);
    if (memcmp(whole, yt, ny * sizeof *yt))
        test_fail("case %zu: %zu parts give other bits than one", number, n_parts);
    steno_aligned_free(packed);
    guard_free(x);
    guard_free(xt);
    guard_free(w);
    guard_free(bias);
    guard_free(y);
    guard_free(yt);
    guard_free(whole);
    guard_free(residual);
    guard_free(rt);
}

static void round_to_bf16(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = half_from_bf16(half_to_bf16(x[i]));
}

/* The same with bf16 weights, against the exact sums of the rounded numbers. */
static void run_bf16(const steno_kernels *k, size_t number, size_t n_parts, bool epilogue)
{
    const struct steno_gemm_weights *g = &k->gemm_bf16;
    struct steno_conv s = shape_of(&cases[number]);
    size_t image = s.in[0] * s.in[1], pixels = s.out[0] * s.out[1];
    size_t nx = s.c_in * image, ny = s.c_out * pixels, taps = s.kernel[0] * s.kernel[1];
    size_t nw = s.c_out * s.c_in * taps;
    float *x = guard_new(nx), *xt = guard_new(nx), *w = guard_new(nw), *rows = guard_new(nw);
    float *y = guard_new(ny), *yt = guard_new(ny), *residual = guard_new(ny), *rt = guard_new(ny);
    float *bias = guard_new(s.c_out);
    struct steno_gemm_epilogue ep = {
        .alpha = 1, .bias = bias, .act = STENO_ACT_RELU, .residual = rt, .ldr = s.c_out};
    struct steno_gemm_epilogue expected = ep;
    void *packed = steno_aligned_alloc(g->packed_bytes(taps * s.c_in, s.c_out));
    fill_uniform(x, nx);
    fill_uniform(w, nw);
    fill_uniform(bias, s.c_out);
    fill_uniform(residual, ny);
    to_nhwc(xt, x, s.c_in, image);
    to_nhwc(rt, residual, s.c_out, pixels);
    expected.residual = residual;
    for (size_t o = 0; o < s.c_out; o++)
        to_nhwc(rows + o * taps * s.c_in, w + o * taps * s.c_in, s.c_in, taps);
    g->pack(packed, rows, taps * s.c_in, true, taps * s.c_in, s.c_out);
    for (size_t p = n_parts; p-- > 0;)
        g->conv(&s, xt, packed, yt, epilogue ? &ep : NULL, p, n_parts);
    to_nhwc(y, yt, pixels, s.c_out);
    round_to_bf16(w, nw);
    if (k->cpu & STENO_CPU_BF16)
        round_to_bf16(x, nx);
    compare_conv(&s, x, w, y, epilogue ? &expected : NULL, number);
    steno_aligned_free(packed);
    guard_free(x);
    guard_free(xt);
    guard_free(w);
    guard_free(rows);
    guard_free(y);
    guard_free(yt);
    guard_free(residual);
    guard_free(rt);
    guard_free(bias);
}

static void depthwise_rows(const steno_kernels *k)
{
    static const size_t sizes[][3] = {{0, 8, 3},     {1, 1, 1},     {5, 7, 3},   {6, 128, 9},
                                      {25, 256, 15}, {16, 100, 31}, {3, 33, 17}, {40, 17, 2},
                                      {13, 64, 64},  {30, 48, 65},  {11, 32, 5}, {18, 40, 12},
                                      {23, 33, 13},  {35, 70, 11},  {42, 64, 31}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int with_bias = 0; with_bias < 2; with_bias++) {
            size_t t = sizes[i][0], c = sizes[i][1], taps = sizes[i][2];
            float *x = guard_new((t + taps - 1) * c), *w = guard_new(taps * c);
            float *y = guard_new(t * c), *bias = guard_new(c);
            fill_uniform(x, (t + taps - 1) * c);
            fill_uniform(w, taps * c);
            fill_uniform(bias, c);
            k->dwconv_f32(y, x, w, with_bias ? bias : NULL, t, c, taps);
            for (size_t e = 0; e < t * c; e++) {
                double want = with_bias ? (double)bias[e % c] : 0, mag = fabs(want);
                for (size_t l = 0; l < taps; l++) {
                    double v = (double)x[e + l * c] * (double)w[l * c + e % c];
                    want += v;
                    mag += fabs(v);
                }
                if (!close_to(y[e], want, (double)(taps + 1) * EPS * mag))
                    test_fail("t %zu c %zu k %zu: y[%zu] = %a, exact %a", t, c, taps, e,
                              (double)y[e], want);
            }
            guard_free(x);
            guard_free(w);
            guard_free(y);
            guard_free(bias);
        }
}

void check_conv(const steno_kernels *k)
{
    if (test_begin(k, "conv_f32")) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (size_t n_parts = 1; n_parts <= 3; n_parts++)
                run_case(k, i, n_parts, n_parts == 2);
        test_end();
    }
    if (test_begin(k, "conv_nhwc_f32")) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (cases[i].group == 1 ||
                (cases[i].group == cases[i].c_in && cases[i].c_out == cases[i].c_in))
                for (size_t n_parts = 1; n_parts <= 3; n_parts++)
                    run_nhwc(k, i, n_parts, n_parts == 2);
        test_end();
    }
    if (test_begin(k, "conv_bf16")) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (size_t n_parts = 1; n_parts <= 3 && cases[i].group == 1; n_parts++)
                run_bf16(k, i, n_parts, n_parts == 2);
        test_end();
    }
    if (test_begin(k, "dwconv_f32")) {
        depthwise_rows(k);
        test_end();
    }
}
