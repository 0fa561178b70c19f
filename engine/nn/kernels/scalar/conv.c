/* Convolution, the specification: the sum of ONNX Conv, one output at a time. */
#include "nn/kernels/internal.h"
#include "nn/kernels/scalar/epilogue.h"

#include <string.h>

static size_t weights(const struct steno_conv *s)
{
    return s->c_out * (s->c_in / s->group) * s->kernel[0] * s->kernel[1];
}

static size_t conv_f32_packed_bytes__scalar(const struct steno_conv *s)
{
    return weights(s) * sizeof(float);
}

static void conv_f32_pack__scalar(void *dst, const float *w, const struct steno_conv *s)
{
    memcpy(dst, w, weights(s) * sizeof(float));
}

static size_t conv_f32_work__scalar(const struct steno_conv *s, size_t n_parts)
{
    (void)s, (void)n_parts;
    return 0;
}

/* Sum over the window of one input channel, whose pixels are `step` numbers apart. A tap outside
 * the image counts as zero. */
static float window(const struct steno_conv *s, const float *x, size_t step, const float *w,
                    size_t o0, size_t o1)
{
    float sum = 0;
    for (size_t k0 = 0; k0 < s->kernel[0]; k0++) {
        size_t i0 = o0 * s->stride[0] + k0 * s->dilation[0] - s->pad[0]; /* wraps below zero */
        for (size_t k1 = 0; k1 < s->kernel[1] && i0 < s->in[0]; k1++) {
            size_t i1 = o1 * s->stride[1] + k1 * s->dilation[1] - s->pad[1];
            if (i1 < s->in[1])
                sum += x[(i0 * s->in[1] + i1) * step] * w[k0 * s->kernel[1] + k1];
        }
    }
    return sum;
}

static void channel(const struct steno_conv *s, const float *x, const float *w, float *y, size_t o,
                    const struct steno_gemm_epilogue *ep)
{
    size_t per = s->c_in / s->group, taps = s->kernel[0] * s->kernel[1];
    size_t pixels = s->out[0] * s->out[1], image = s->in[0] * s->in[1];
    x += o / (s->c_out / s->group) * per * image;
    w += o * per * taps;
    for (size_t p = 0; p < pixels; p++) {
        float sum = 0;
        for (size_t c = 0; c < per; c++)
            sum += window(s, x + c * image, 1, w + c * taps, p / s->out[1], p % s->out[1]);
        y[o * pixels + p] = epilogue_scalar(sum, o, p, ep);
    }
}

static void conv_f32__scalar(const struct steno_conv *s, const float *x, const void *packed,
                             float *y, const struct steno_gemm_epilogue *ep, void *work,
                             size_t part, size_t n_parts)
{
    (void)work;
    for (size_t o = s->c_out * part / n_parts; o < s->c_out * (part + 1) / n_parts; o++)
        channel(s, x, packed, y, o, ep);
}

/* ---- channels last ---- */

static void conv_nhwc_f32__scalar(const struct steno_conv *s, const float *x, const void *packed,
                                  float *y, const struct steno_gemm_epilogue *ep, size_t part,
                                  size_t n_parts)
{
    const size_t per = s->c_in / s->group, taps = s->kernel[0] * s->kernel[1];
    const float *w = packed;
    for (size_t p = 0; p < s->out[0] * s->out[1]; p++)
        for (size_t o = s->c_out * part / n_parts; o < s->c_out * (part + 1) / n_parts; o++) {
            const float *from = x + o / (s->c_out / s->group) * per;
            float sum = 0;
            for (size_t c = 0; c < per; c++)
                sum += window(s, from + c, s->c_in, w + (o * per + c) * taps, p / s->out[1],
                              p % s->out[1]);
            y[p * s->c_out + o] = epilogue_scalar(sum, p, o, ep);
        }
}

/* The plain sum. It reads the first nine slots of the packed weights: [taps, c_in, c_out]. */
static void conv_winograd_f32__scalar(const struct steno_conv *s, const float *x,
                                      const void *packed, float *y,
                                      const struct steno_gemm_epilogue *ep, size_t part,
                                      size_t n_parts)
{
    const size_t pixels = s->out[0] * s->out[1];
    for (size_t p = pixels * part / n_parts; p < pixels * (part + 1) / n_parts; p++) {
        float *row = y + p * s->c_out;
        const float *w = packed;
        memset(row, 0, s->c_out * sizeof *row);
        for (size_t tap = 0; tap < 9; tap++) {
            size_t i0 = p / s->out[1] * 2 + tap / 3 - s->pad[0]; /* wraps below zero */
            size_t i1 = p % s->out[1] * 2 + tap % 3 - s->pad[1];
            bool inside = i0 < s->in[0] && i1 < s->in[1];
            for (size_t c = 0; c < s->c_in; c++, w += s->c_out)
                for (size_t o = 0; o < s->c_out && inside; o++)
                    row[o] += x[(i0 * s->in[1] + i1) * s->c_in + c] * w[o];
        }
        for (size_t o = 0; o < s->c_out; o++)
            row[o] = epilogue_scalar(row[o], p, o, ep);
    }
}

static void dwconv_f32__scalar(float *y, const float *x, const float *w, const float *bias,
                               size_t t, size_t c, size_t k)
{
    for (size_t i = 0; i < t; i++)
        for (size_t j = 0; j < c; j++) {
            float sum = bias ? bias[j] : 0.0f;
            for (size_t l = 0; l < k; l++)
                sum += x[(i + l) * c + j] * w[l * c + j];
            y[i * c + j] = sum;
        }
}

void steno_kernels_conv__scalar(steno_kernels *k)
{
    k->conv_f32_packed_bytes = conv_f32_packed_bytes__scalar;
    k->conv_f32_pack = conv_f32_pack__scalar;
    k->conv_f32_work = conv_f32_work__scalar;
    k->conv_f32 = conv_f32__scalar;
    k->conv_nhwc_f32_packed_bytes = conv_f32_packed_bytes__scalar;
    k->conv_nhwc_f32_pack = conv_f32_pack__scalar;
    k->conv_nhwc_f32 = conv_nhwc_f32__scalar;
    k->conv_winograd_f32 = conv_winograd_f32__scalar;
    k->dwconv_f32 = dwconv_f32__scalar;
}
