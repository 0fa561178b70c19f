/* 3x3 convolutions of stride 2 with fewer multiplications: Winograd's F(3,2) on each axis
 * (Winograd, Arithmetic Complexity of Computations, 1980; for images Lavin and Gray,
 * arXiv:1509.09308).
 *
 * Along one axis y[i] = w0 e[i] + w1 o[i] + w2 e[i+1], with e the even and o the odd inputs. Three
 * consecutive outputs need 3 products for o, and for e 4 instead of 6:
 *     a = (e0 - e2) w0     b = (e1 + e2) (w0 + w2) / 2     c = (e2 - e1) (w0 - w2) / 2
 *     d = (e3 - e1) w2     y0 = a + b + c     y1 = b - c     y2 = b + c + d
 * If two outputs remain at the end of an axis, they need 2 + 3 products, F(2,2), with the same
 * weights:
 *     a = (e0 - e1) w0     b = (e1 + e1) (w0 + w2) / 2     d = (e2 - e1) w2
 *     y0 = a + b     y1 = b + d
 * A single remaining output needs the three of the plain sum. On two axes, 9 outputs take 49
 * products instead of 81, with 25 kinds of weights instead of 9. All factors are 1 and -1, so the
 * sums lose hardly any accuracy.
 *
 * Kinds of weights, and so of products, along an axis: */
#ifndef STENO_NN_KERNELS_WINOGRAD_H
#define STENO_NN_KERNELS_WINOGRAD_H

#include "nn/kernels/kernels.h"

#include <stdint.h>

enum steno_winograd_kind {
    STENO_WINOGRAD_FIRST, /* w0 */
    STENO_WINOGRAD_ODD,   /* w1 */
    STENO_WINOGRAD_LAST,  /* w2 */
    STENO_WINOGRAD_PLUS,  /* (w0 + w2) / 2 */
    STENO_WINOGRAD_MINUS, /* (w0 - w2) / 2 */
    STENO_WINOGRAD_KINDS
};
#define STENO_WINOGRAD_SLOTS (STENO_WINOGRAD_KINDS * STENO_WINOGRAD_KINDS)

/* Index of the matrix [c_in, c_out] of kind0 along axis 0 and kind1 along axis 1, among the 25. The
 * nine of the convolution itself come first, tap by tap, so that the plain sum reads the same
 * weights. */
static inline size_t steno_winograd_slot(int kind0, int kind1)
{
    if (kind0 < 3 && kind1 < 3)
        return (size_t)(kind0 * 3 + kind1);
    return (size_t)(kind0 < 3 ? 9 + kind0 * 2 + kind1 - 3 : 15 + (kind0 - 3) * 5 + kind1);
}

/* What a product of a kind computes along an axis: its contribution to one output (ODD), or to a
 * group of up to three consecutive outputs (other kinds). */
struct steno_winograd_unit {
    size_t from[2]; /* positions in the image: from[0] minus from[1], or their sum for PLUS;
                     * SIZE_MAX: none */
    size_t to, n;   /* adds to outputs [to, to + n); kind MINUS subtracts from the second */
};

static inline size_t steno_winograd_units(int kind, size_t out)
{
    if (kind == STENO_WINOGRAD_ODD)
        return out;
    if (kind == STENO_WINOGRAD_MINUS)
        return out / 3;
    return out / 3 + (out % 3 > (kind == STENO_WINOGRAD_PLUS));
}

/* Unit u along axis d. Positions in the padding wrap below zero, as in patches_tmpl.h. */
static inline struct steno_winograd_unit steno_winograd_unit(const struct steno_conv *s, int d,
                                                             int kind, size_t u)
{
    const size_t base = kind == STENO_WINOGRAD_ODD ? u : 3 * u, left = s->out[d] - base;
    const size_t size = left < 3 ? left : 3, e = 2 * base - s->pad[d];
    switch (kind) {
    case STENO_WINOGRAD_FIRST:
        return (struct steno_winograd_unit){{e, size > 1 ? e + 2 * (size - 1) : SIZE_MAX}, base, 1};
    case STENO_WINOGRAD_LAST:
        return (struct steno_winograd_unit){
            {e + 2 * size, size > 1 ? e + 2 : SIZE_MAX}, base + size - 1, 1};
    case STENO_WINOGRAD_PLUS:
        return (struct steno_winograd_unit){{e + 2, e + 2 * (size - 1)}, base, size};
    case STENO_WINOGRAD_MINUS:
        return (struct steno_winograd_unit){{e + 4, e + 2}, base, 3};
    default:
        return (struct steno_winograd_unit){{e + 1, SIZE_MAX}, base, 1};
    }
}

/* True for 3x3, stride 2, group 1, and enough channels that the additions cost little. */
bool steno_winograd_fits(const struct steno_conv *s);
/* Transform weights w [c_out, c_in, 3, 3] to [c_out, 25, c_in]: the transpose of what gemm_*_pack
 * packs for the winograd slots of the kernel table. */
void steno_winograd_weights(float *to, const float *w, size_t c_out, size_t c_in);

#endif
