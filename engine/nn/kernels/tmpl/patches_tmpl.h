/* Convolution of a channels-last image as a product. Included after gemm_tmpl.h.
 *
 * Y [pixels, c_out] = patches [pixels, K] * W [K, c_out], K = kernel0 * kernel1 * c_in with the
 * channels fastest. The patches never exist as a whole. Where the product copies a block of its
 * left side, this one gathers it, and a run of channels is one plain copy. Blocks of pixels are the
 * outer loop, so that a block of Y stays in L2 for all of K. The weights come from L3 again for
 * each block: one number read per 2 MC operations. */

/* Copy n floats. Runs are often short (one input channel), where a call would cost more than the
 * copy. */
static inline void copy_run(float *to, const float *from, size_t n)
{
    if (n < VL) {
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
        return;
    }
    memcpy(to, from, n * sizeof *to);
}

/* Elements [from, from + n) of one pixel's patch row (kernel[1] * c_in elements), tap by tap. x:
 * the image row, or NULL when it is outside. first: column of the first tap, which may be outside
 * too (wraps below zero). */
static void gather_taps(const struct steno_conv *s, const float *x, size_t first, size_t from,
                        size_t n, float *to)
{
    size_t c = from % s->c_in, col = first + from / s->c_in * s->dilation[1];
    for (size_t some; n; n -= some, to += some, c = 0, col += s->dilation[1]) {
        some = s->c_in - c < n ? s->c_in - c : n;
        if (x && col < s->in[1])
            copy_run(to, x + col * s->c_in + c, some);
        else
            memset(to, 0, some * sizeof *to);
    }
}

/* Gather rows [i0, i0 + rows) and columns [k0, k0 + kc) of the patches to buf [rows][A_LD]. */
static void gather_patches(const struct product *p, float *buf, size_t i0, size_t rows, size_t k0,
                           size_t kc)
{
    const struct steno_conv *s = p->image;
    const size_t wide = s->kernel[1] * s->c_in, line = s->in[1] * s->c_in;
    const size_t tap = k0 / wide, skip = k0 % wide;
    size_t o0 = i0 / s->out[1], o1 = i0 % s->out[1];
    for (size_t r = 0; r < rows; r++, buf += A_LD) {
        const size_t first = o1 * s->stride[1] - s->pad[1]; /* wraps below zero */
        const bool inside =
            s->dilation[1] == 1 && first < s->in[1] && s->in[1] - first >= s->kernel[1];
        size_t row = o0 * s->stride[0] + tap * s->dilation[0] - s->pad[0], from = skip;
        float *to = buf;
        for (size_t left = kc, n; left; left -= n, to += n, from = 0, row += s->dilation[0]) {
            const float *x = row < s->in[0] ? p->a + row * line : NULL;
            n = wide - from < left ? wide - from : left;
            if (x && inside)
                copy_run(to, x + first * s->c_in + from, n);
            else
                gather_taps(s, x, first, from, n, to);
        }
        if (++o1 == s->out[1]) {
            o1 = 0;
            o0++;
        }
    }
}

/* Columns [k0, k0 + n) of the patch of pixel i, where they are contiguous in the image, else
 * NULL. */
static const float *patch_in_place(const struct product *p, size_t i, size_t k0, size_t n)
{
    const struct steno_conv *s = p->image;
    const size_t wide = s->kernel[1] * s->c_in, tap = k0 / wide, skip = k0 % wide;
    const size_t row =
        i / s->out[1] * s->stride[0] + tap * s->dilation[0] - s->pad[0]; /* wraps below zero */
    const size_t first = i % s->out[1] * s->stride[1] - s->pad[1] + skip / s->c_in * s->dilation[1];
    const size_t c = skip % s->c_in, taps = (c + n + s->c_in - 1) / s->c_in;
    if (skip + n > wide || row >= s->in[0] || first >= s->in[1] || s->in[1] - first < taps ||
        (taps > 1 && s->dilation[1] > 1))
        return NULL;
    return p->a + (row * s->in[1] + first) * s->c_in + c;
}

/* One image. w: packed [K, c_out], with b_next 0; or the first rows of a packed B with more rows,
 * whose panels are b_next elements apart. */
__attribute__((unused)) static void product_of_patches(const struct steno_conv *s, const float *x,
                                                       const void *w, size_t b_next, float *y,
                                                       const struct steno_gemm_epilogue *ep,
                                                       size_t part, size_t n_parts)
{
    const size_t pixels = s->out[0] * s->out[1], np = panels(s->c_out);
    const bool by_rows = pixels >= 4 * MR * n_parts;
    const size_t i1 = by_rows ? pixels * (part + 1) / n_parts : pixels;
    const size_t j0 = by_rows ? 0 : np * part / n_parts;
    const size_t j1 = by_rows ? np : np * (part + 1) / n_parts;
    struct product p =
        product_of(s->c_out, s->kernel[0] * s->kernel[1] * s->c_in, x, 0, w, y, s->c_out, ep);
    const size_t deep = depth_of_block(p.k, i1 < MC ? i1 : MC);
    p.gather = gather_patches;
    p.in_place = patch_in_place;
    p.image = s;
    p.b_next = b_next ? b_next : p.b_next;
    for (size_t i = by_rows ? pixels * part / n_parts : 0; i < i1 && j0 < j1; i += MC) {
        const size_t end = i1 - i < MC ? i1 : i + MC;
        for (size_t k0 = 0; k0 < p.k; k0 += deep)
            multiply_block(&p, p.b + k0 * NR, i, end, j0, j1, k0,
                           p.k - k0 < deep ? p.k - k0 : deep);
    }
}
