/* Convolution for one vector width; included after gemm_tmpl.h, whose blocks it drives.
 *
 * General: for each group, Y [c_out/g, pixels] = W [c_out/g, K] * patches [K, pixels] with
 * K = c_in/g * kernel0 * kernel1. The patches are never there as a whole: for KC rows of K and at
 * most GROUP panels of pixels they are gathered into work in the layout of packed B (1 MiB, L2),
 * used for every output channel, and overwritten by the next. Weights stay as ONNX has them,
 * [c_out, K]: they are the left side, which the product copies in small blocks anyway.
 *
 * Depthwise: per channel, the padded image is copied to work and every output vector sums its taps
 * with plain unaligned loads. */

enum { GROUP = 32 }; /* panels gathered at a time */

static size_t conv_taps(const struct steno_conv *s)
{
    return s->c_in / s->group * s->kernel[0] * s->kernel[1];
}

static bool is_depthwise(const struct steno_conv *s)
{
    return s->group == s->c_in && s->group > 1;
}

static size_t V_NAME(conv_f32_packed_bytes)(const struct steno_conv *s)
{
    return s->c_out * conv_taps(s) * sizeof(float);
}

static void V_NAME(conv_f32_pack)(void *dst, const float *w, const struct steno_conv *s)
{
    memcpy(dst, w, V_NAME(conv_f32_packed_bytes)(s));
}

/* Extents of the padded image that the outputs reach into, in floats; rows a vector longer, for the
 * loads of the last outputs of a row. */
static size_t padded_cols(const struct steno_conv *s)
{
    size_t reach = (s->out[1] - 1) * s->stride[1] + (s->kernel[1] - 1) * s->dilation[1] + 1;
    size_t have = s->in[1] + s->pad[1];
    return (reach > have ? reach : have) + 4 * VL;
}

static size_t padded_rows(const struct steno_conv *s)
{
    return (s->out[0] - 1) * s->stride[0] + (s->kernel[0] - 1) * s->dilation[0] + 1;
}

/* Floats of work for one part. */
static size_t part_work(const struct steno_conv *s)
{
    size_t np = panels(s->out[0] * s->out[1]), k = conv_taps(s);
    if (!s->out[0] || !s->out[1])
        return 0;
    if (is_depthwise(s))
        return padded_rows(s) * padded_cols(s) + NR;
    return (np < GROUP ? np : GROUP) * NR * (k < KC ? k : KC);
}

static size_t V_NAME(conv_f32_work)(const struct steno_conv *s, size_t n_parts)
{
    return n_parts * part_work(s) * sizeof(float);
}

/* One row of patches: tap (k0, k1) of image x [in0, in1] for pixels [p, p + n), in order. */
static void gather_row(const struct steno_conv *s, const float *x, size_t k0, size_t k1, size_t p,
                       size_t n, float *out)
{
    size_t o0 = p / s->out[1], o1 = p % s->out[1];
    while (n) {
        size_t run = s->out[1] - o1 < n ? s->out[1] - o1 : n, at = 0;
        size_t i0 = o0 * s->stride[0] + k0 * s->dilation[0] - s->pad[0]; /* wraps below zero */
        ptrdiff_t i1 = (ptrdiff_t)(o1 * s->stride[1] + k1 * s->dilation[1]) - (ptrdiff_t)s->pad[1];
        if (i0 < s->in[0]) {
            const float *row = x + i0 * s->in[1];
            const ptrdiff_t step = (ptrdiff_t)s->stride[1], width = (ptrdiff_t)s->in[1];
            for (; at < run && i1 < 0; at++, i1 += step)
                out[at] = 0.0f;
            if (step == 1 && i1 < width) {
                size_t len = run - at < (size_t)(width - i1) ? run - at : (size_t)(width - i1);
                memcpy(out + at, row + i1, len * sizeof *out);
                at += len;
            } else {
                for (; at < run && i1 < width; at++, i1 += step)
                    out[at] = row[i1];
            }
        }
        for (; at < run; at++)
            out[at] = 0.0f;
        out += run;
        n -= run;
        o1 = 0;
        o0++;
    }
}

/* Rows [k, k + kc) of the patches for pixels [p, p + n), as panels of NR columns, kc rows each. */
static void gather(const struct steno_conv *s, const float *x, size_t k, size_t kc, size_t p,
                   size_t n, float *dst)
{
    alignas(64) float row[GROUP * NR];
    const size_t per = s->kernel[0] * s->kernel[1], image = s->in[0] * s->in[1];
    const size_t wide = panels(n);
    memset(row, 0, sizeof row);
    for (size_t i = 0; i < kc; i++) {
        size_t c = (k + i) / per, tap = (k + i) % per;
        gather_row(s, x + c * image, tap / s->kernel[1], tap % s->kernel[1], p, n, row);
        for (size_t j = 0; j < wide; j++) {
            float *to = dst + (j * kc + i) * NR;
            v_store(to, v_load(row + j * NR));
            v_store(to + VL, v_load(row + j * NR + VL));
        }
    }
}

/* Output channels [o0, o1) of a group, pixel panels [j0, j1). */
static void conv_group(const struct steno_conv *s, const float *x, const float *w, float *y,
                       const struct steno_gemm_epilogue *ep, float *work, size_t o0, size_t o1,
                       size_t j0, size_t j1)
{
    const size_t pixels = s->out[0] * s->out[1], k = conv_taps(s);
    for (size_t j = j0; j < j1; j += GROUP) {
        size_t last = j1 - j < GROUP ? j1 : j + GROUP, p0 = j * NR;
        size_t n = (last * NR < pixels ? last * NR : pixels) - p0;
        struct steno_gemm_epilogue here = {.alpha = 1};
        struct product p = {n, k, w, k, 1, work, NR, 0, y + p0, pixels, NULL};
        if (ep) {
            here = *ep;
            here.residual = ep->residual ? ep->residual + p0 : NULL;
            p.ep = &here;
        }
        for (size_t k0 = 0; k0 < k; k0 += KC) {
            size_t kc = k - k0 < KC ? k - k0 : KC;
            gather(s, x, k0, kc, p0, n, work);
            p.b_next = kc * NR;
            multiply_block(&p, work, o0, o1, 0, last - j, k0, kc);
        }
    }
}

/* Pixels are shared out while there are enough panels, else output channels. */
static void conv_general(const struct steno_conv *s, const float *x, const float *w, float *y,
                         const struct steno_gemm_epilogue *ep, float *work, size_t part,
                         size_t n_parts)
{
    const size_t pixels = s->out[0] * s->out[1], np = panels(pixels), k = conv_taps(s);
    const size_t outs = s->c_out / s->group, ins = s->c_in / s->group;
    size_t o0 = 0, o1 = outs, j0 = 0, j1 = np;
    if (np >= 2 * n_parts) {
        j0 = np * part / n_parts;
        j1 = np * (part + 1) / n_parts;
    } else {
        o0 = outs * part / n_parts;
        o1 = outs * (part + 1) / n_parts;
    }
    if (o0 == o1)
        return;
    for (size_t g = 0; g < s->group; g++) {
        struct steno_gemm_epilogue here;
        const struct steno_gemm_epilogue *use = NULL;
        if (ep) {
            here = *ep;
            here.bias = ep->bias ? ep->bias + g * outs : NULL;
            here.residual = ep->residual ? ep->residual + g * outs * pixels : NULL;
            use = &here;
        }
        conv_group(s, x + g * ins * s->in[0] * s->in[1], w + g * outs * k, y + g * outs * pixels,
                   use, work, o0, o1, j0, j1);
    }
}

/* One channel's image with its zeros around it. */
static void pad_image(const struct steno_conv *s, const float *x, float *out)
{
    const size_t rows = padded_rows(s), cols = padded_cols(s);
    for (size_t r = 0; r < rows; r++, out += cols) {
        size_t i0 = r - s->pad[0];
        if (i0 >= s->in[0]) {
            memset(out, 0, cols * sizeof *out);
            continue;
        }
        memset(out, 0, s->pad[1] * sizeof *out);
        memcpy(out + s->pad[1], x + i0 * s->in[1], s->in[1] * sizeof *out);
        memset(out + s->pad[1] + s->in[1], 0, (cols - s->pad[1] - s->in[1]) * sizeof *out);
    }
}

/* Sums of `width` vectors of outputs from column o1 on; x: padded image at output row's first tap.
 */
static inline __attribute__((always_inline)) void depthwise_sums(const struct steno_conv *s,
                                                                 const float *x, size_t cols,
                                                                 const float *w, size_t width,
                                                                 float *out)
{
    vf acc[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < width; i++)
        acc[i] = v_zero();
    for (size_t k0 = 0; k0 < s->kernel[0]; k0++)
        for (size_t k1 = 0; k1 < s->kernel[1]; k1++) {
            const float *from = x + k0 * s->dilation[0] * cols + k1 * s->dilation[1];
            vf tap = v_set1(w[k0 * s->kernel[1] + k1]);
#pragma GCC unroll 4
            for (size_t i = 0; i < width; i++)
                acc[i] = v_fma(tap, v_load(from + i * VL), acc[i]);
        }
#pragma GCC unroll 4
    for (size_t i = 0; i < width; i++)
        v_store(out + i * VL, acc[i]);
}

/* Strides other than 1: one output at a time, in the same order of taps. */
static void depthwise_strided(const struct steno_conv *s, const float *x, size_t cols,
                              const float *w, size_t n, float *out)
{
    for (size_t o = 0; o < n; o++, x += s->stride[1]) {
        float sum = 0;
        for (size_t k0 = 0; k0 < s->kernel[0]; k0++)
            for (size_t k1 = 0; k1 < s->kernel[1]; k1++)
                sum = fmaf(w[k0 * s->kernel[1] + k1],
                           x[k0 * s->dilation[0] * cols + k1 * s->dilation[1]], sum);
        out[o] = sum;
    }
}

static void depthwise_channel(const struct steno_conv *s, const struct product *p, const float *x,
                              const float *w, size_t o)
{
    alignas(64) float tile[NR * 2];
    const size_t cols = padded_cols(s);
    for (size_t o0 = 0; o0 < s->out[0]; o0++) {
        const float *row = x + o0 * s->stride[0] * cols;
        for (size_t o1 = 0; o1 < s->out[1]; o1 += 4 * VL) {
            size_t n = s->out[1] - o1 < 4 * VL ? s->out[1] - o1 : 4 * VL;
            const float *from = row + o1 * s->stride[1];
            if (s->stride[1] > 1)
                depthwise_strided(s, from, cols, w, n, tile);
            else if (n <= VL)
                depthwise_sums(s, from, cols, w, 1, tile);
            else
                depthwise_sums(s, from, cols, w, 4, tile);
            store_row(p, tile, o, o0 * s->out[1] + o1, n, true, true);
        }
    }
}

static void conv_depthwise(const struct steno_conv *s, const float *x, const float *w, float *y,
                           const struct steno_gemm_epilogue *ep, float *work, size_t part,
                           size_t n_parts)
{
    const size_t per_in = s->c_out / s->c_in, taps = s->kernel[0] * s->kernel[1];
    struct product p = {.c = y, .ldc = s->out[0] * s->out[1], .ep = ep};
    for (size_t c = s->c_in * part / n_parts; c < s->c_in * (part + 1) / n_parts; c++) {
        pad_image(s, x + c * s->in[0] * s->in[1], work);
        for (size_t o = c * per_in; o < (c + 1) * per_in; o++)
            depthwise_channel(s, &p, work, w + o * taps, o);
    }
}

static void V_NAME(conv_f32)(const struct steno_conv *s, const float *x, const void *packed,
                             float *y, const struct steno_gemm_epilogue *ep, void *work,
                             size_t part, size_t n_parts)
{
    float *mine = (float *)work + part * part_work(s);
    if (!s->out[0] || !s->out[1])
        return;
    if (is_depthwise(s))
        conv_depthwise(s, x, packed, y, ep, mine, part, n_parts);
    else
        conv_general(s, x, packed, y, ep, mine, part, n_parts);
}

/* TIME outputs of `width` vectors of channels: each weight vector is loaded once for all of them.
 */
enum { TIME = 6 };
static inline __attribute__((always_inline)) void dw_rows(float *y, const float *x, const float *w,
                                                          const float *bias, size_t c, size_t k,
                                                          int rows, int width, vm m)
{
    vf acc[TIME * 2];
#pragma GCC unroll 12
    for (int i = 0; i < rows * width; i++)
        acc[i] = !bias        ? v_zero()
                 : width == 2 ? v_load(bias + (size_t)(i % 2) * VL)
                              : v_load_m(bias, m);
    for (size_t l = 0; l < k; l++, x += c, w += c) {
#pragma GCC unroll 2
        for (int j = 0; j < width; j++) {
            vf tap = width == 2 ? v_load(w + (size_t)j * VL) : v_load_m(w, m);
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                const float *from = x + (size_t)r * c + (size_t)j * VL;
                acc[r * width + j] =
                    v_fma(tap, width == 2 ? v_load(from) : v_load_m(from, m), acc[r * width + j]);
            }
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows * width; i++) {
        float *to = y + (size_t)(i / width) * c + (size_t)(i % width) * VL;
        if (width == 2)
            v_store(to, acc[i]);
        else
            v_store_m(to, m, acc[i]);
    }
}

static void V_NAME(dwconv_f32)(float *y, const float *x, const float *w, const float *bias,
                               size_t t, size_t c, size_t k)
{
    for (size_t i = 0; i < t;) {
        const bool whole = t - i >= TIME;
        size_t j = 0;
        for (; j < c; j += j + NR <= c ? NR : VL) {
            const float *b = bias ? bias + j : NULL;
            const vm m = v_tail(c - j < VL ? c - j : VL);
            if (j + NR <= c && whole)
                dw_rows(y + j, x + j, w + j, b, c, k, TIME, 2, m);
            else if (j + NR <= c)
                dw_rows(y + j, x + j, w + j, b, c, k, 1, 2, m);
            else if (whole)
                dw_rows(y + j, x + j, w + j, b, c, k, TIME, 1, m);
            else
                dw_rows(y + j, x + j, w + j, b, c, k, 1, 1, m);
        }
        i += whole ? TIME : 1;
        x += whole ? TIME * c : c;
        y += whole ? TIME * c : c;
    }
}

void V_NAME(steno_kernels_conv)(steno_kernels *k)
{
    k->conv_f32_packed_bytes = V_NAME(conv_f32_packed_bytes);
    k->conv_f32_pack = V_NAME(conv_f32_pack);
    k->conv_f32_work = V_NAME(conv_f32_work);
    k->conv_f32 = V_NAME(conv_f32);
    k->dwconv_f32 = V_NAME(dwconv_f32);
}
