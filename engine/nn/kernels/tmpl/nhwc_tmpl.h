/* Convolution of channels-last images for one vector width. Included after gemm_tmpl.h.
 *
 * General: patches_tmpl.h. One channel, 3x3, the first layer of most networks: below, with its
 * weights in registers.
 *
 * Depthwise: vectors of channels; TILE pixels of a row share each weight load. A tap outside the
 * image is skipped, so nothing is padded. */

#include "nn/kernels/tmpl/patches_tmpl.h"
#include "nn/kernels/tmpl/winograd_tmpl.h"

static bool nhwc_depthwise(const struct steno_conv *s)
{
    return s->group > 1; /* by the contract group is then c_in, and c_out too */
}

static size_t nhwc_taps(const struct steno_conv *s)
{
    return s->kernel[0] * s->kernel[1] * (nhwc_depthwise(s) ? 1 : s->c_in);
}

static size_t V_NAME(conv_nhwc_f32_packed_bytes)(const struct steno_conv *s)
{
    if (nhwc_depthwise(s))
        return nhwc_taps(s) * s->c_out * sizeof(float);
    return V_NAME(gemm_f32_packed_bytes)(nhwc_taps(s), s->c_out);
}

/* w [c_out, c_in / group, kernel0, kernel1] to [taps, c_out] where depthwise, else to the panels of
 * the product. */
static void V_NAME(conv_nhwc_f32_pack)(void *dst, const float *w, const struct steno_conv *s)
{
    const size_t per = s->kernel[0] * s->kernel[1], ins = s->c_in / s->group, k = per * ins;
    float *to = dst;
    if (nhwc_depthwise(s)) {
        for (size_t o = 0; o < s->c_out; o++)
            for (size_t t = 0; t < per; t++)
                to[t * s->c_out + o] = w[o * per + t];
        return;
    }
    memset(to, 0, V_NAME(gemm_f32_packed_bytes)(k, s->c_out));
    for (size_t o = 0; o < s->c_out; o++)
        for (size_t c = 0; c < ins; c++)
            for (size_t t = 0; t < per; t++)
                to[(o / NR * k + t * ins + c) * NR + o % NR] = w[(o * ins + c) * per + t];
}

/* Distances in floats between taps, rows of taps, and output pixels. */
struct dw_steps {
    size_t x_tap, x_row, w_tap, w_row, pixel;
};

/* out [pixels][width]: vectors of sums over rows x taps. x: the first tap of the first pixel. m:
 * the lanes when width is 1. Always inlined with constant pixels and width. */
static inline __attribute__((always_inline)) void dw_sums(const struct dw_steps *s, const float *x,
                                                          const float *w, size_t rows, size_t taps,
                                                          int pixels, int width, vm m, float *out)
{
    const size_t x_tap = s->x_tap, w_tap = s->w_tap, pixel = s->pixel;
    vf acc[12];
#pragma GCC unroll 12
    for (int i = 0; i < pixels * width; i++)
        acc[i] = v_zero();
    for (; rows; rows--, x += s->x_row, w += s->w_row) {
        const float *xt = x, *wt = w;
        for (size_t t = taps; t; t--, xt += x_tap, wt += w_tap)
#pragma GCC unroll 2
            for (int j = 0; j < width; j++) {
                const vf tap = width == 2 ? v_load(wt + (size_t)j * VL) : v_load_m(wt, m);
#pragma GCC unroll 6
                for (int i = 0; i < pixels; i++) {
                    const float *from = xt + (size_t)i * pixel + (size_t)j * VL;
                    acc[i * width + j] = v_fma(tap, width == 2 ? v_load(from) : v_load_m(from, m),
                                               acc[i * width + j]);
                }
            }
    }
#pragma GCC unroll 12
    for (int i = 0; i < pixels * width; i++)
        v_store(out + (size_t)i * VL, acc[i]);
}

/* Separate functions: inlined together they would compete for address registers. */
#define DW_SUMS(pixels, width)                                                                     \
    static __attribute__((noinline)) void dw_##pixels##x##width(                                   \
        const struct dw_steps *s, const float *x, const float *w, size_t rows, size_t taps, vm m,  \
        float *out)                                                                                \
    {                                                                                              \
        dw_sums(s, x, w, rows, taps, pixels, width, m, out);                                       \
    }
DW_SUMS(1, 1)
DW_SUMS(1, 2)
DW_SUMS(6, 1)
DW_SUMS(6, 2)

/* Values that are the same for all outputs of one row. */
struct dw_row {
    const struct steno_conv *s;
    struct dw_steps steps;
    const float *x, *w; /* image row of the first tap inside; its weights; both at channel c */
    size_t rows;        /* rows of taps inside the image */
    size_t left, right; /* output columns [left, right) have all their taps inside */
};

/* The taps of output o along axis d that are inside the image: [*a, *b). */
static void taps_inside(const struct steno_conv *s, int d, size_t o, size_t *a, size_t *b)
{
    const size_t at = o * s->stride[d];
    *a = 0;
    while (*a < s->kernel[d] && at + *a * s->dilation[d] < s->pad[d])
        ++*a;
    *b = *a;
    while (*b < s->kernel[d] && at + *b * s->dilation[d] - s->pad[d] < s->in[d])
        ++*b;
}

/* Output row o0 of channels [c, c + NR) or fewer. The last tile of whole pixels may start early and
 * write some of them twice. */
static void dw_row(const struct dw_row *r, const struct product *p, size_t o0, size_t c)
{
    enum { TILE = 6 };
    const struct steno_conv *s = r->s;
    const bool two = s->c_out - c >= NR;
    const vm m = v_tail(s->c_out - c >= VL ? VL : s->c_out - c);
    alignas(64) float out[TILE * NR];
    for (size_t o1 = 0, n; o1 < s->out[1]; o1 += n) {
        const bool inside = o1 >= r->left && o1 < r->right && r->right >= r->left + TILE;
        size_t a = 0, b = s->kernel[1];
        n = inside ? TILE : 1;
        if (inside)
            o1 = o1 + TILE <= r->right ? o1 : r->right - TILE;
        else
            taps_inside(s, 1, o1, &a, &b);
        (inside ? two ? dw_6x2 : dw_6x1
         : two  ? dw_1x2
                : dw_1x1)(&r->steps,
                         r->x + (o1 * s->stride[1] + a * s->dilation[1] - s->pad[1]) * s->c_in,
                         r->w + a * s->c_in, r->rows, b - a, m, out);
        if (two)
            store_whole(p, out, n, NR, o0 * s->out[1] + o1, c, true, p->ep);
        for (size_t i = 0; i < n && !two; i++)
            store_vector(p, v_load(out + i * VL), o0 * s->out[1] + o1 + i, c, m, p->ep);
    }
}

/* Parts divide the channels. */
static void nhwc_rows(const struct steno_conv *s, const float *x, const float *w, float *y,
                      const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    const size_t np = panels(s->c_out), end = np * (part + 1) / n_parts * NR, c_in = s->c_in;
    const size_t stop = end < s->c_out ? end : s->c_out, line = s->in[1] * c_in;
    const size_t span = (s->kernel[1] - 1) * s->dilation[1] + 1;
    const struct product p = {.c = y, .ldc = s->c_out, .ep = ep};
    struct dw_row r = {.s = s,
                       .steps = {.x_tap = s->dilation[1] * c_in,
                                 .x_row = s->dilation[0] * line,
                                 .w_tap = c_in,
                                 .w_row = s->kernel[1] * c_in,
                                 .pixel = s->stride[1] * c_in}};
    size_t a, b;
    while (r.left < s->out[1] && r.left * s->stride[1] < s->pad[1])
        r.left++;
    if (s->in[1] + s->pad[1] >= span)
        r.right = (s->in[1] + s->pad[1] - span) / s->stride[1] + 1;
    if (r.right > s->out[1])
        r.right = s->out[1];
    for (size_t o0 = 0; o0 < s->out[0]; o0++) {
        taps_inside(s, 0, o0, &a, &b);
        r.rows = b - a;
        for (size_t c = np * part / n_parts * NR; c < stop; c += s->c_out - c >= NR ? NR : VL) {
            r.x = x + (o0 * s->stride[0] + a * s->dilation[0] - s->pad[0]) * line + c;
            r.w = w + a * s->kernel[1] * c_in + c;
            dw_row(&r, &p, o0, c);
        }
    }
}

/* ---- one channel, 3x3: nine multiply-adds per output are too few for the general product, whose
 * gathering costs as much ---- */

enum {
    STEM_TAPS = 9,
    STEM_PIXELS = 6,
    STEM_WIDE = 2048,
    STEM_VECTORS = VL == 8 ? 1 : 2 /* vectors of weights at a time */
};

static bool nhwc_stem(const struct steno_conv *s)
{
    const size_t most =
        VL == 8 ? 4 * NR : s->c_out; /* 16 registers hold the weights of one vector only, which
                                      * takes more broadcasts than a product does */
    return s->c_in == 1 && s->group == 1 && s->c_out <= most && s->kernel[0] == 3 &&
           s->kernel[1] == 3 && s->dilation[0] == 1 && s->dilation[1] == 1 &&
           (s->out[1] - 1) * s->stride[1] + 3 <= STEM_WIDE;
}

/* The three rows of x that output row o0 reads, from the first tap on; zeros outside x. */
static void stem_rows(const struct steno_conv *s, const float *x, size_t o0,
                      float rows[3][STEM_WIDE + VL])
{
    const size_t n = (s->out[1] - 1) * s->stride[1] + 3, left = s->pad[1] < n ? s->pad[1] : n;
    const size_t some = s->in[1] < n - left ? s->in[1] : n - left;
    for (size_t t = 0; t < 3; t++) {
        const size_t at = o0 * s->stride[0] + t - s->pad[0]; /* wraps below zero */
        memset(rows[t], 0, n * sizeof *rows[t]);
        if (at < s->in[0])
            memcpy(rows[t] + left, x + at * s->in[1], some * sizeof *x);
    }
}

/* tile [pixels][NR]: all taps, in order, of pixels `stride` apart. w: [STEM_TAPS][NR]. Always
 * inlined with constant pixels and, except for rare strides, constant stride. */
static inline __attribute__((always_inline)) void stem_tile(const float *from, size_t stride,
                                                            const float *w, int pixels, float *tile)
{
    for (size_t v = 0; v < 2; v += STEM_VECTORS) {
        vf tap[STEM_TAPS][STEM_VECTORS], acc[STEM_PIXELS][STEM_VECTORS];
#pragma GCC unroll 9
        for (size_t t = 0; t < STEM_TAPS; t++)
#pragma GCC unroll 2
            for (size_t u = 0; u < STEM_VECTORS; u++)
                tap[t][u] = v_load(w + t * NR + (v + u) * VL);
#pragma GCC unroll 9
        for (size_t t = 0; t < STEM_TAPS; t++)
#pragma GCC unroll 6
            for (int i = 0; i < pixels; i++) {
                const vf x = v_set1(from[t / 3 * (STEM_WIDE + VL) + t % 3 + (size_t)i * stride]);
#pragma GCC unroll 2
                for (size_t u = 0; u < STEM_VECTORS; u++)
                    acc[i][u] = v_fma(x, tap[t][u], t ? acc[i][u] : v_zero());
            }
#pragma GCC unroll 6
        for (int i = 0; i < pixels; i++)
#pragma GCC unroll 2
            for (size_t u = 0; u < STEM_VECTORS; u++)
                v_store(tile + i * NR + (v + u) * VL, acc[i][u]);
    }
}

/* One output row of a panel of channels. The last tile may start early and write some pixels
 * twice. */
static inline __attribute__((always_inline)) void stem_line(const struct product *p,
                                                            const struct steno_conv *s,
                                                            const float *rows, size_t stride,
                                                            const float *w, size_t o0, size_t j)
{
    const size_t out = s->out[1], cols = s->c_out - j < NR ? s->c_out - j : NR;
    alignas(64) float tile[STEM_PIXELS * NR];
    for (size_t o1 = 0; o1 < out; o1 += out < STEM_PIXELS ? 1 : STEM_PIXELS) {
        const size_t at = out < STEM_PIXELS || o1 + STEM_PIXELS <= out ? o1 : out - STEM_PIXELS;
        if (out < STEM_PIXELS)
            stem_tile(rows + at * stride, stride, w, 1, tile);
        else
            stem_tile(rows + at * stride, stride, w, STEM_PIXELS, tile);
        store_tile(p, tile, out < STEM_PIXELS ? 1 : STEM_PIXELS, NR, o0 * out + at, j, cols, true,
                   true);
    }
}

/* Parts divide the rows or, where rows are too few, the channels. */
static void stem(const struct steno_conv *s, const float *x, const float *packed, float *y,
                 const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    const struct product p = {.c = y, .ldc = s->c_out, .ep = ep};
    const size_t np = panels(s->c_out);
    const bool by_rows = s->out[0] >= n_parts;
    const size_t end = by_rows ? s->out[0] * (part + 1) / n_parts : s->out[0];
    const size_t j0 = by_rows ? 0 : np * part / n_parts,
                 j1 = by_rows ? np : np * (part + 1) / n_parts;
    float rows[3][STEM_WIDE + VL];
    for (size_t o0 = by_rows ? s->out[0] * part / n_parts : 0; o0 < end && j0 < j1; o0++) {
        stem_rows(s, x, o0, rows);
        for (size_t j = j0; j < j1; j++) {
            const float *w = packed + j * STEM_TAPS * NR;
            if (s->stride[1] == 2)
                stem_line(&p, s, rows[0], 2, w, o0, j * NR);
            else if (s->stride[1] == 1)
                stem_line(&p, s, rows[0], 1, w, o0, j * NR);
            else
                stem_line(&p, s, rows[0], s->stride[1], w, o0, j * NR);
        }
    }
}

static void V_NAME(conv_nhwc_f32)(const struct steno_conv *s, const float *x, const void *packed,
                                  float *y, const struct steno_gemm_epilogue *ep, size_t part,
                                  size_t n_parts)
{
    if (!s->out[0] || !s->out[1])
        return;
    if (nhwc_depthwise(s))
        nhwc_rows(s, x, packed, y, ep, part, n_parts);
    else if (nhwc_stem(s))
        stem(s, x, packed, y, ep, part, n_parts);
    else
        product_of_patches(s, x, packed, 0, y, ep, part, n_parts);
}

void V_NAME(steno_kernels_nhwc)(steno_kernels *k)
{
    k->conv_nhwc_f32_packed_bytes = V_NAME(conv_nhwc_f32_packed_bytes);
    k->conv_nhwc_f32_pack = V_NAME(conv_nhwc_f32_pack);
    k->conv_nhwc_f32 = V_NAME(conv_nhwc_f32);
    k->conv_winograd_f32 = conv_winograd;
}
