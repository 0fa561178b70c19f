/* What the files of a product share. An includer's element of packed B is
 *   b_t, b_load    its type, and a vector of elements as f32
 *   K_STEP         numbers of K in an element: 1, or 2 for a pair. K counts elements below.
 *   mac            sum + a * b, all products of each lane
 *   copy_a         see below
 *   ACTIVATE_EACH, ACTIVATE   the epilogue's activation of n vectors, and of one
 * gemm_floats_tmpl.h and x86/bf16_tmpl.h define them. */
#include "nn/kernels/internal.h"

#include "nn/kernels/tmpl/math_tmpl.h"
#include "nn/kernels/tmpl/prefetch.h"

#include <stdalign.h>
#include <string.h>

enum { NR = 2 * VL, FLOATS = K_STEP == 1 && sizeof(b_t) == sizeof(float) };

struct product {
    size_t n, k;
    size_t depth; /* columns of A: k, or of pairs 2 k or 2 k - 1 */
    const float *a;
    size_t a_row, a_col; /* strides */
    /* Copies rows [i0, i0 + rows) and columns [k0, k0 + kc) of an A that does not exist in memory:
     * the patches of `image`, whose pixels are at a. Else NULL. */
    void (*gather)(const struct product *p, float *buf, size_t i0, size_t rows, size_t k0,
                   size_t kc);
    const struct steno_conv *image;
    /* Returns columns [k0, k0 + n) of row i where they are contiguous in memory, else NULL: then
     * gather copies them. May be NULL. */
    const float *(*in_place)(const struct product *p, size_t i, size_t k0, size_t n);
    /* winograd_tmpl.h: add sums to C. With spread, that function stores them. */
    bool add;
    void (*spread)(const struct product *p, const float *tile, size_t rows, size_t width, size_t i,
                   size_t j, size_t cols);
    const struct winograd *few;
    bool a_panels;   /* A is the transpose of a packed B: panels of NR rows of A, each [K][NR] */
    const b_t *b;    /* element (k, panel j): b[k * b_row + j * b_next] */
    const b_t *then; /* panel 0 of what is read after the last row of all panels; NULL: the panels
                      * that follow in memory */
    size_t b_row, b_next;
    float *c;
    size_t ldc;
    const struct steno_gemm_epilogue *ep;
};

/* The input of a block: rows copied to buf, k from k0 on. b: row k0 of panel 0. */
struct part {
    const float *buf;
    const b_t *b;
    size_t i0, k0, kc;
};

/* Copy rows [i0, i0 + rows) and columns [k0, k0 + kc) of A to buf [rows][copy_ld(kc)], as the
 * elements that B has. */
static void copy_a(const struct product *p, float *buf, size_t i0, size_t rows, size_t k0,
                   size_t kc);
