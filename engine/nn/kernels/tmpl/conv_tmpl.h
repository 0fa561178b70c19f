/* Convolution for one vector width. Included after gemm_tmpl.h, whose blocks it drives.
 *
 * An image that needs padding is first copied to work with its zeros, one group's channels at a
 * time. All code below then reads inside the image.
 *
 * General: for each group, Y [c_out/g, pixels] = W [c_out/g, K] * patches [K, pixels] with K =
 * c_in/g * kernel0 * kernel1, in one of three forms:
 * - Many pixels: W is the left side. The patches never exist as a whole. For KC rows of K and at
 *   most GROUP panels of pixels they are gathered into work in the layout of packed B, used for
 *   every output channel, and overwritten by the next ones.
 * - Few pixels (a short chunk, silero-vad's 4): the product is transposed. Patches are on the left,
 *   output channels fill the vectors, and the small result is transposed at the end.
 * - One channel and one axis with a large step (a learned filter bank): as the second form, some
 *   pixels at a time. Patches are rows of the image itself, which overlap.
 * Weights are packed as the right side of the second form. The first form transposes them back in
 * the small blocks in which the product copies its left side anyway. All forms sum over K in the
 * same order with the same operations, so the choice does not change the bits.
 *
 * Depthwise: per channel, every vector of outputs sums its taps with plain unaligned loads. */

enum { GROUP = 32 }; /* panels gathered at a time: 2 MiB for K >= KC */

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
    if (is_depthwise(s))
        return s->c_out * conv_taps(s) * sizeof(float);
    return s->group * V_NAME(gemm_f32_packed_bytes)(conv_taps(s), s->c_out / s->group);
}

static void V_NAME(conv_f32_pack)(void *dst, const float *w, const struct steno_conv *s)
{
    const size_t k = conv_taps(s), outs = s->c_out / s->group;
    if (is_depthwise(s)) {
        memcpy(dst, w, s->c_out * k * sizeof *w);
        return;
    }
    for (size_t g = 0; g < s->group; g++)
        V_NAME(gemm_f32_pack)
    ((float *)dst + g * panels(outs) * NR * k, w + g * outs * k, k, true, k, outs);
}

/* Elements of the padded image along axis d that the outputs read. */
static size_t reach(const struct steno_conv *s, int d)
{
    return (s->out[d] - 1) * s->stride[d] + (s->kernel[d] - 1) * s->dilation[d] + 1;
}

static bool needs_padding(const struct steno_conv *s)
{
    return s->pad[0] || s->pad[1] || reach(s, 0) > s->in[0] || reach(s, 1) > s->in[1];
}

static inline void fill_zero(float *out, size_t n)
{
    for (size_t c = 0; c < n; c += VL)
        v_store_m(out + c, v_tail(n - c < VL ? n - c : VL), v_zero());
}

/* Copy row i0 of an image with zeros before and behind; a row of zeros when i0 is outside. */
static inline void pad_row(const struct steno_conv *s, const float *x, size_t i0, float *out)
{
    const size_t cols = reach(s, 1), before = s->pad[1] < cols ? s->pad[1] : cols;
    size_t n = cols - before < s->in[1] ? cols - before : s->in[1], c = 0;
    if (i0 >= s->in[0]) {
        fill_zero(out, cols);
        return;
    }
    fill_zero(out, before);
    out += before;
    x += i0 * s->in[1];
    for (; c + VL <= n; c += VL)
        v_store(out + c, v_load(x + c));
    if (c < n)
        v_store_m(out + c, v_tail(n - c), v_load_m(x + c, v_tail(n - c)));
    fill_zero(out + n, cols - before - n);
}

/* Padded copies of the channels of one group, as far as the outputs read. */
static void pad_images(const struct steno_conv *s, const float *x, size_t channels, float *out)
{
    const size_t rows = reach(s, 0), cols = reach(s, 1);
    for (size_t c = 0; c < channels; c++, x += s->in[0] * s->in[1])
        for (size_t r = 0; r < rows; r++, out += cols)
            pad_row(s, x, r - s->pad[0], out); /* wraps below zero */
}

/* Number of depthwise channels that are padded before the first is used: a load that spans two
 * recent stores waits until both have left the store buffer. */
enum { PAD_CHANNELS = 8 };

/* Floats of work for one part: the padded image, then the patches. */
static size_t pad_work(const struct steno_conv *s)
{
    size_t channels = is_depthwise(s) ? PAD_CHANNELS : s->c_in / s->group;
    return needs_padding(s) ? (channels * reach(s, 0) * reach(s, 1) + 15) / 16 * 16 : 0;
}

/* True when the patches are the image itself, or its transpose. */
static bool pointwise(const struct steno_conv *s)
{
    return s->kernel[0] * s->kernel[1] == 1 && s->stride[0] == 1 && s->stride[1] == 1 &&
           s->in[0] == s->out[0] && s->in[1] == s->out[1];
}

/* Compares the estimated cycles of both forms. Gathering takes 1 per number in the first form and 4
 * per run of kernel[1] numbers in the second. Transposing W or the image takes 0.4, transposing the
 * result 0.5, products 1 per 32. The choice does not depend on n_parts. */
static bool few_pixels(const struct steno_conv *s)
{
    const double n = (double)(s->out[0] * s->out[1]), k = (double)conv_taps(s);
    const double m = (double)(s->c_out / s->group);
    const double m_panels = (double)panels(s->c_out / s->group);
    const double n_panels = (double)panels(s->out[0] * s->out[1]);
    const double copy = pointwise(s) ? 0.4 : 9.0 / (double)s->kernel[1];
    return n <= 1024 && k * n * (copy + m_panels) + m * n * 0.5 < m * k * (0.4 + n_panels) + k * n;
}

/* True where patches are rows of the image. Gathering numbers that lie `stride` apart takes more
 * than transposing the result. */
static bool overlapping_rows(const struct steno_conv *s)
{
    return s->c_in == 1 && s->in[0] == 1 && s->out[0] == 1 && s->kernel[0] == 1 &&
           s->dilation[1] == 1 && s->stride[1] > 2 && 2 * s->kernel[1] > s->c_out;
}

static size_t part_work(const struct steno_conv *s)
{
    size_t n = s->out[0] * s->out[1], np = panels(n), k = conv_taps(s);
    if (!n)
        return 0;
    if (is_depthwise(s))
        return pad_work(s);
    if (few_pixels(s))
        return pad_work(s) + (n * (k + panels(s->c_out / s->group) * NR) + 15) / 16 * 16;
    if (overlapping_rows(s))
        return pad_work(s) + MC * panels(s->c_out) * NR;
    return pad_work(s) + (np < GROUP ? np : GROUP) * NR * (k < KC ? k : KC);
}

static size_t V_NAME(conv_f32_work)(const struct steno_conv *s, size_t n_parts)
{
    return n_parts * part_work(s) * sizeof(float);
}

/* p[0], p[step], ... in the first n lanes. A step of 2 takes two loads and a shuffle. Gather
 * instructions are avoided on purpose: they were no faster where measured (Cascade Lake), and
 * microcode that mitigates Intel GDS (2023) makes them slow. */
static inline vf load_step(const float *p, size_t step, size_t n)
{
    alignas(64) float one_by_one[VL];
    if (step == 1)
        return v_load_m(p, v_tail(n));
    if (step == 2) {
        size_t end = 2 * n - 1; /* elements read */
        if (end <= VL)
            return v_even(v_load_m(p, v_tail(end)), v_zero());
        return v_even(v_load(p), v_load_m(p + VL, v_tail(end - VL)));
    }
    for (size_t i = 0; i < n; i++)
        one_by_one[i] = p[i * step];
    return v_load_m(one_by_one, v_tail(n));
}

/* n pixels of one image row, from element `from` of a channel on. */
struct segment {
    size_t from, n;
};

/* Split pixels [p, p + n) into segments. Returns their number. */
static size_t segments(const struct steno_conv *s, size_t p, size_t n, struct segment *seg)
{
    size_t o0 = p / s->out[1], o1 = p % s->out[1], count = 0;
    while (n) {
        size_t some = s->out[1] - o1 < n ? s->out[1] - o1 : n;
        seg[count].from = o0 * s->stride[0] * s->in[1] + o1 * s->stride[1];
        seg[count++].n = some;
        n -= some;
        o1 = 0;
        o0++;
    }
    return count;
}

/* Rows [k, k + kc) of the patches as panels of NR columns, kc rows each. */
static void gather(const struct steno_conv *s, const float *x, size_t k, size_t kc,
                   const struct segment *seg, size_t count, size_t wide, float *dst)
{
    alignas(64) float row[GROUP * NR + VL]; /* the last vector stores too far */
    const size_t per = s->kernel[0] * s->kernel[1], image = s->in[0] * s->in[1];
    memset(row, 0, sizeof row);
    for (size_t i = 0; i < kc; i++) {
        const size_t c = (k + i) / per, tap = (k + i) % per;
        const float *from = x + c * image + tap / s->kernel[1] * s->dilation[0] * s->in[1] +
                            tap % s->kernel[1] * s->dilation[1];
        float *to = row;
        for (size_t j = 0; j < count; to += seg[j].n, j++)
            for (size_t at = 0; at < seg[j].n; at += VL)
                v_store(to + at, load_step(from + seg[j].from + at * s->stride[1], s->stride[1],
                                           seg[j].n - at < VL ? seg[j].n - at : VL));
        for (size_t j = 0; j < wide; j++) {
            v_store(dst + (j * kc + i) * NR, v_load(row + j * NR));
            v_store(dst + (j * kc + i) * NR + VL, v_load(row + j * NR + VL));
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
        struct product p = {.n = n,
                            .k = k,
                            .a = w,
                            .a_panels = true,
                            .b = work,
                            .b_row = NR,
                            .c = y + p0,
                            .ldc = pixels};
        struct segment seg[GROUP * NR];
        const size_t count = segments(s, p0, n, seg);
        if (ep) {
            here = *ep;
            here.residual = ep->residual ? ep->residual + p0 : NULL;
            p.ep = &here;
        }
        for (size_t k0 = 0; k0 < k; k0 += KC) {
            size_t kc = k - k0 < KC ? k - k0 : KC;
            gather(s, x, k0, kc, seg, count, panels(n), work);
            p.b_next = kc * NR;
            multiply_block(&p, work, o0, o1, 0, last - j, k0, kc);
        }
    }
}

/* Patches [pixels, K] of the whole image. */
static void gather_pixels(const struct steno_conv *s, const float *x, float *to)
{
    const size_t image = s->in[0] * s->in[1], run = s->kernel[1];
    if (pointwise(s)) {
        transpose_blocks(to, s->c_in / s->group, x, image, s->c_in / s->group, image);
        return;
    }
    for (size_t p = 0; p < s->out[0] * s->out[1]; p++) {
        const float *first =
            x + p / s->out[1] * s->stride[0] * s->in[1] + p % s->out[1] * s->stride[1];
        for (size_t c = 0; c < s->c_in / s->group; c++, first += image)
            for (size_t k0 = 0; k0 < s->kernel[0]; k0++, to += run) {
                const float *from = first + k0 * s->dilation[0] * s->in[1];
                if (s->dilation[1] > 1) {
                    for (size_t i = 0; i < run; i++)
                        to[i] = from[i * s->dilation[1]];
                    continue;
                }
                if (run == 3) { /* a masked store costs more than three plain ones */
                    to[0] = from[0];
                    to[1] = from[1];
                    to[2] = from[2];
                    continue;
                }
                for (size_t i = 0; i < run; i += VL) {
                    vm m = v_tail(run - i < VL ? run - i : VL);
                    v_store_m(to + i, m, v_load_m(from + i, m));
                }
            }
    }
}

/* True for a short line of one axis with dilation 1. The taps that fall inside the image are
 * computed once per pixel and zeros are written for the others, so there is no padded copy of the
 * image. */
static bool is_line(const struct steno_conv *s)
{
    return s->in[0] == 1 && s->out[0] == 1 && s->kernel[0] == 1 && s->dilation[1] == 1 &&
           !s->pad[0] && !pointwise(s);
}

/* Patches [pixels, K] of a line, its padding included. */
static void gather_line(const struct steno_conv *s, const float *x, float *to)
{
    const size_t channels = s->c_in / s->group, in = s->in[1], run = s->kernel[1];
    for (size_t p = 0; p < s->out[1]; p++, to += channels * run) {
        const size_t start = p * s->stride[1]; /* in the padded line */
        size_t lo = start < s->pad[1] ? s->pad[1] - start : 0;
        size_t hi = in + s->pad[1] > start ? in + s->pad[1] - start : 0;
        hi = hi < run ? hi : run;
        lo = lo < hi ? lo : hi;
        if (run == 3 && !lo && hi == 3) {
            const float *from = x + (start - s->pad[1]);
            for (size_t c = 0; c < channels; c++) {
                to[3 * c] = from[c * in];
                to[3 * c + 1] = from[c * in + 1];
                to[3 * c + 2] = from[c * in + 2];
            }
            continue;
        }
        fill_zero(to, channels * run);
        for (size_t k = lo; k < hi; k++)
            for (size_t c = 0; c < channels; c++)
                to[c * run + k] = x[c * in + start + k - s->pad[1]];
    }
}

/* Pixels [first, first + n), whose patches are the rows of a, and panels [j0, j1) of a group's
 * output channels. result: work of n rows of whole panels. */
static void conv_rows(const struct steno_conv *s, const float *a, size_t lda, size_t first,
                      size_t n, const float *w, float *y, const struct steno_gemm_epilogue *ep,
                      float *result, size_t j0, size_t j1)
{
    const size_t pixels = s->out[0] * s->out[1], outs = s->c_out / s->group;
    const size_t ld = panels(outs) * NR;
    const size_t o0 = j0 * NR, o1 = j1 * NR < outs ? j1 * NR : outs;
    struct steno_gemm_epilogue here = {.alpha = 1};
    struct product p = product_of(outs, conv_taps(s), a, lda, w, result, ld, NULL);
    if (ep) {
        here = *ep;
        here.bias_rows = false;
        here.residual = NULL;
        p.ep = &here;
    }
    multiply(&p, 0, n, j0, j1);
    transpose_blocks(y + o0 * pixels + first, pixels, result + o0, ld, n, o1 - o0);
    for (size_t o = o0; o < o1 && ep && ep->residual; o++) {
        struct steno_gemm_epilogue add = {.alpha = 1, .residual = ep->residual, .ldr = ep->ldr};
        struct product row = {.c = y, .ldc = pixels, .ep = &add};
        alignas(64) float tile[VL];
        for (size_t i = first; i < first + n; i += VL) {
            size_t some = first + n - i < VL ? first + n - i : VL;
            v_store(tile, v_load_m(y + o * pixels + i, v_tail(some)));
            store_some(&row, tile, 1, VL, o, i, some, true, &add);
        }
    }
}

/* The second form, for panels [j0, j1) of a group's output channels. */
static void conv_few(const struct steno_conv *s, const float *x, const float *w, float *y,
                     const struct steno_gemm_epilogue *ep, float *work, size_t j0, size_t j1)
{
    const size_t n = s->out[0] * s->out[1], k = conv_taps(s);
    if (is_line(s))
        gather_line(s, x, work);
    else
        gather_pixels(s, x, work);
    conv_rows(s, work, k, 0, n, w, y, ep, work + n * k, j0, j1);
}

/* The third form, for pixels [i, end). */
static void conv_overlapping(const struct steno_conv *s, const float *x, const float *w, float *y,
                             const struct steno_gemm_epilogue *ep, float *work, size_t i,
                             size_t end, size_t j0, size_t j1)
{
    for (; i < end; i += MC)
        conv_rows(s, x + i * s->stride[1], s->stride[1], i, end - i < MC ? end - i : MC, w, y, ep,
                  work, j0, j1);
}

/* The convolution of the image that pad_images made. */
static struct steno_conv padded_shape(const struct steno_conv *s)
{
    struct steno_conv to = *s;
    for (int d = 0; d < 2; d++) {
        to.in[d] = reach(s, d);
        to.pad[d] = 0;
    }
    return to;
}

/* Parts divide the pixels while there are enough panels, else the output channels. */
static void conv_general(const struct steno_conv *s, const float *x, const float *w, float *y,
                         const struct steno_gemm_epilogue *ep, float *work, size_t part,
                         size_t n_parts)
{
    const size_t pixels = s->out[0] * s->out[1], np = panels(pixels), k = conv_taps(s);
    const size_t outs = s->c_out / s->group, ins = s->c_in / s->group, op = panels(outs);
    const bool few = few_pixels(s), by_pixels = !few && np >= 2 * n_parts;
    const size_t j0 = by_pixels ? np * part / n_parts : 0;
    const size_t j1 = by_pixels ? np * (part + 1) / n_parts : np;
    const size_t o0 = by_pixels ? 0 : op * part / n_parts;
    const size_t o1 = by_pixels ? op : op * (part + 1) / n_parts;
    const bool pads = needs_padding(s) && !(few && is_line(s));
    const struct steno_conv shape = pads ? padded_shape(s) : *s;
    for (size_t g = 0; g < s->group && o0 < o1; g++) {
        const float *image = x + g * ins * s->in[0] * s->in[1];
        const float *weights = w + g * op * NR * k;
        float *out = y + g * outs * pixels;
        struct steno_gemm_epilogue here = {.alpha = 1};
        if (pads) {
            pad_images(s, image, ins, work);
            image = work;
        }
        if (ep) {
            here = *ep;
            here.bias = ep->bias ? ep->bias + g * outs : NULL;
            here.residual = ep->residual ? ep->residual + g * outs * pixels : NULL;
        }
        if (few)
            conv_few(&shape, image, weights, out, ep ? &here : NULL, work + pad_work(s), o0, o1);
        else if (overlapping_rows(s))
            conv_overlapping(&shape, image, weights, out, ep ? &here : NULL, work + pad_work(s),
                             j0 * NR, j1 * NR < pixels ? j1 * NR : pixels, o0, o1);
        else
            conv_group(&shape, image, weights, out, ep ? &here : NULL, work + pad_work(s), o0 * NR,
                       o1 * NR < outs ? o1 * NR : outs, j0, j1);
    }
}

/* The lanes that a vector of n outputs reads: of the vector at its tap, and of the following vector
 * where outputs step by two. */
struct lanes {
    vm first, second;
};

static inline struct lanes lanes_of(size_t n, size_t step)
{
    const size_t end = (n - 1) * step + 1;
    struct lanes l = {v_tail(end < VL ? end : VL), v_tail(end < VL ? 0 : end - VL)};
    return l;
}

/* `width` vectors of sums, `next` floats of the image apart. x: the first tap of the first one.
 * step: 1 or 2 columns from output to output. Always inlined with constant width and step. */
static inline __attribute__((always_inline)) void depthwise_sums(const struct steno_conv *s,
                                                                 const float *x, size_t next,
                                                                 const float *w, int width,
                                                                 struct lanes l, int step, vf *out)
{
    vf acc[4]; /* not `out`, whose address is taken: these stay in registers */
#pragma GCC unroll 4
    for (int i = 0; i < width; i++)
        acc[i] = v_zero();
    for (size_t k0 = 0; k0 < s->kernel[0]; k0++) {
        const float *tap = x + k0 * s->dilation[0] * s->in[1];
        for (size_t k1 = 0; k1 < s->kernel[1]; k1++, tap += s->dilation[1]) {
            const vf weight = v_set1(*w++);
#pragma GCC unroll 4
            for (int i = 0; i < width; i++) {
                const float *from = tap + (size_t)i * next;
                vf v = v_load_m(from, l.first);
                if (step == 2)
                    v = v_even(v, v_load_m(from + VL, l.second));
                acc[i] = v_fma(weight, v, acc[i]);
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < width; i++)
        out[i] = acc[i];
}

/* Columns [o1, o1 + VL) of output rows [o0, o0 + 4), fewer at the edges. */
static inline __attribute__((always_inline)) void
depthwise_rows(const struct steno_conv *s, const struct product *p, const float *x, const float *w,
               size_t o, size_t o0, size_t o1, int step)
{
    const size_t cols = s->out[1] - o1 < VL ? s->out[1] - o1 : VL;
    const size_t next = s->stride[0] * s->in[1];
    const vm m = v_tail(cols);
    const struct lanes l = lanes_of(cols, (size_t)step);
    const float *from = x + o0 * next + o1 * (size_t)step;
    vf acc[4];
    if (o0 + 4 <= s->out[0]) {
        depthwise_sums(s, from, next, w, 4, l, step, acc);
        for (size_t i = 0; i < 4; i++)
            store_vector(p, acc[i], o, (o0 + i) * s->out[1] + o1, m, p->ep);
        return;
    }
    for (size_t i = o0; i < s->out[0]; i++, from += next) {
        depthwise_sums(s, from, next, w, 1, l, step, acc);
        store_vector(p, acc[0], o, i * s->out[1] + o1, m, p->ep);
    }
}

/* One output row (time), four vectors at a time. The last four may start early and write some
 * outputs twice. */
static void depthwise_line(const struct steno_conv *s, const struct product *p, const float *x,
                           const float *w, size_t o)
{
    const size_t n = s->out[1], four = 4 * VL;
    const vm all = v_tail(VL);
    const struct lanes every = lanes_of(VL, 1);
    vf acc[4];
    for (size_t at = 0; n >= four && at < n; at += four) {
        const size_t o1 = at + four <= n ? at : n - four;
        depthwise_sums(s, x + o1, VL, w, 4, every, 1, acc);
        for (size_t i = 0; i < 4; i++)
            store_vector(p, acc[i], o, o1 + i * VL, all, p->ep);
    }
    for (size_t o1 = 0; n < four && o1 < n; o1 += VL) {
        const size_t some = n - o1 < VL ? n - o1 : VL;
        const vm m = v_tail(some);
        depthwise_sums(s, x + o1, VL, w, 1, lanes_of(some, 1), 1, acc);
        store_vector(p, acc[0], o, o1, m, p->ep);
    }
}

/* Steps of three and more along a row: every tap gathers its own lanes. */
static void depthwise_strided(const struct steno_conv *s, const struct product *p, const float *x,
                              const float *w, size_t o)
{
    for (size_t o0 = 0; o0 < s->out[0]; o0++)
        for (size_t o1 = 0; o1 < s->out[1]; o1 += VL) {
            const size_t n = s->out[1] - o1 < VL ? s->out[1] - o1 : VL;
            const float *from = x + o0 * s->stride[0] * s->in[1] + o1 * s->stride[1];
            vf acc = v_zero();
            for (size_t k0 = 0; k0 < s->kernel[0]; k0++)
                for (size_t k1 = 0; k1 < s->kernel[1]; k1++) {
                    const float *tap = from + k0 * s->dilation[0] * s->in[1] + k1 * s->dilation[1];
                    acc = v_fma(v_set1(w[k0 * s->kernel[1] + k1]), load_step(tap, s->stride[1], n),
                                acc);
                }
            store_vector(p, acc, o, o0 * s->out[1] + o1, v_tail(n), p->ep);
        }
}

static void depthwise_channel(const struct steno_conv *s, const struct product *p, const float *x,
                              const float *w, size_t o)
{
    if (s->stride[1] > 2) {
        depthwise_strided(s, p, x, w, o);
        return;
    }
    if (s->out[0] == 1 && s->stride[1] == 1) {
        depthwise_line(s, p, x, w, o);
        return;
    }
    for (size_t o1 = 0; o1 < s->out[1]; o1 += VL)
        for (size_t o0 = 0; o0 < s->out[0]; o0 += 4)
            if (s->stride[1] == 1)
                depthwise_rows(s, p, x, w, o, o0, o1, 1);
            else
                depthwise_rows(s, p, x, w, o, o0, o1, 2);
}

static void conv_depthwise(const struct steno_conv *s, const float *x, const float *w, float *y,
                           const struct steno_gemm_epilogue *ep, float *work, size_t part,
                           size_t n_parts)
{
    const size_t per_in = s->c_out / s->c_in, taps = s->kernel[0] * s->kernel[1];
    const struct steno_conv shape = needs_padding(s) ? padded_shape(s) : *s;
    struct product p = {.c = y, .ldc = s->out[0] * s->out[1], .ep = ep};
    const size_t image = s->in[0] * s->in[1], padded = shape.in[0] * shape.in[1];
    const size_t end = s->c_in * (part + 1) / n_parts;
    for (size_t c = s->c_in * part / n_parts; c < end; c += PAD_CHANNELS) {
        const size_t some = end - c < PAD_CHANNELS ? end - c : PAD_CHANNELS;
        const float *from = x + c * image;
        if (needs_padding(s)) {
            pad_images(s, from, some, work);
            from = work;
        }
        for (size_t o = c * per_in; o < (c + some) * per_in; o++)
            depthwise_channel(&shape, &p, from + (o / per_in - c) * padded, w + o * taps, o);
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

enum { TIME = VL == 16 ? 12 : 6, REST = TIME / 3, TAPS = 64 };

/* Outputs of a vector of channels (or its lanes m) at TIME times. The rows of x that a tap
 * multiplies stay in registers. The next tap needs the same rows without the first and with one
 * more, so each tap takes two loads for TIME multiply-adds. The registers are reused in rotation,
 * hence the unrolling by TIME taps. w: taps `ldw` apart. */
static inline __attribute__((always_inline)) void dw_many(float *y, const float *x, const float *w,
                                                          size_t ldw, const float *bias, size_t c,
                                                          size_t k, bool whole, vm m)
{
    vf acc[TIME], seen[TIME];
#pragma GCC unroll 12
    for (int r = 0; r < TIME; r++)
        acc[r] = !bias ? v_zero() : whole ? v_load(bias) : v_load_m(bias, m);
#pragma GCC unroll 12
    for (int r = 0; r < TIME - 1; r++, x += c)
        seen[r] = whole ? v_load(x) : v_load_m(x, m);
    for (size_t l = 0; l < k; l += TIME) {
#pragma GCC unroll 12
        for (int u = 0; u < TIME; u++, x += c, w += ldw) {
            vf tap;
            if (l + (size_t)u >= k)
                break;
            tap = whole ? v_load(w) : v_load_m(w, m);
            seen[(u + TIME - 1) % TIME] = whole ? v_load(x) : v_load_m(x, m);
#pragma GCC unroll 12
            for (int r = 0; r < TIME; r++)
                acc[r] = v_fma(tap, seen[(u + r) % TIME], acc[r]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < TIME; r++, y += c)
        if (whole)
            v_store(y, acc[r]);
        else
            v_store_m(y, m, acc[r]);
}

/* Few times, `width` vectors of channels. Each weight vector is loaded once for all of them. Each
 * row of x is loaded from L1 once per tap. */
static inline __attribute__((always_inline)) void dw_rows(float *y, const float *x, const float *w,
                                                          size_t ldw, const float *bias, size_t c,
                                                          size_t k, int rows, int width, vm m)
{
    vf acc[TIME];
#pragma GCC unroll 24
    for (int i = 0; i < rows * width; i++)
        acc[i] = !bias        ? v_zero()
                 : width == 2 ? v_load(bias + (size_t)(i % 2) * VL)
                              : v_load_m(bias, m);
    for (size_t l = 0; l < k; l++, x += c, w += ldw) {
#pragma GCC unroll 2
        for (int j = 0; j < width; j++) {
            vf tap = width == 2 ? v_load(w + (size_t)j * VL) : v_load_m(w, m);
#pragma GCC unroll 12
            for (int r = 0; r < rows; r++) {
                const float *from = x + (size_t)r * c + (size_t)j * VL;
                acc[r * width + j] =
                    v_fma(tap, width == 2 ? v_load(from) : v_load_m(from, m), acc[r * width + j]);
            }
        }
    }
#pragma GCC unroll 24
    for (int i = 0; i < rows * width; i++) {
        float *to = y + (size_t)(i / width) * c + (size_t)(i % width) * VL;
        if (width == 2)
            v_store(to, acc[i]);
        else
            v_store_m(to, m, acc[i]);
    }
}

/* All times of two vectors of channels, or of one (its lanes m). */
static inline __attribute__((always_inline)) void dw_columns(float *y, const float *x,
                                                             const float *w, const float *bias,
                                                             size_t t, size_t c, size_t k,
                                                             int width, vm m)
{
    float taps[TAPS * NR]; /* the taps of these columns, contiguous: rows of w may be a power of two
                            * apart */
    const bool many = t >= TIME;
    size_t ldw = c;
    if (k <= TAPS && t > 1) {
        ldw = NR;
        for (size_t l = 0; l < k; l++)
            for (int j = 0; j < width; j++)
                v_store_m(taps + l * NR + (size_t)j * VL, m,
                          width == 2 ? v_load(w + l * c + (size_t)j * VL) : v_load_m(w + l * c, m));
        w = taps;
    }
    /* The remaining times are computed REST at a time and then one by one. Where that takes longer,
     * the last TIME times are computed together, some of them again. */
    while (t >= TIME || (many && t / REST + t % REST >= TIME / REST)) {
        const size_t back = t < TIME ? (TIME - t) * c : 0;
        dw_many(y - back, x - back, w, ldw, bias, c, k, width == 2, m);
        if (width == 2)
            dw_many(y - back + VL, x - back + VL, w + VL, ldw, bias ? bias + VL : NULL, c, k, true,
                    m);
        if (back)
            return;
        t -= TIME;
        x += TIME * c;
        y += TIME * c;
    }
    for (; t >= REST; t -= REST, x += REST * c, y += REST * c)
        dw_rows(y, x, w, ldw, bias, c, k, REST, width, m);
    for (; t; t--, x += c, y += c)
        dw_rows(y, x, w, ldw, bias, c, k, 1, width, m);
}

static void V_NAME(dwconv_f32)(float *y, const float *x, const float *w, const float *bias,
                               size_t t, size_t c, size_t k)
{
    for (size_t j = 0; j < c; j += j + NR <= c ? NR : VL) {
        const float *b = bias ? bias + j : NULL;
        if (j + NR <= c)
            dw_columns(y + j, x + j, w + j, b, t, c, k, 2, v_tail(VL));
        else
            dw_columns(y + j, x + j, w + j, b, t, c, k, 1, v_tail(c - j < VL ? c - j : VL));
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
