/* ai.steno PowerSpectrum, made by passes: the squared magnitude of the Fourier transform of
 * windowed frames of x.
 *
 * x [B, 1, S], w [2 F, 1, n] constant, the transform written as a convolution (spectrum.h);
 * attributes hop, root. y [B, F, T], F = n/2 + 1, T = (S - n) / hop + 1:
 *     y = re^2 + im^2 of Conv(x, w; strides hop), its square root where root is 1
 * The cost is n log n by nn/kernels/fft.h instead of n^2, and w is not read. */
#include "nn/ops/spectrum.h"

#include "nn/kernels/fft.h"
#include "nn/ops/families.h"
#include "nn/ops/internal.h"

#include <math.h>
#include <stdlib.h>

/* v[i] cos or sin (2 pi k i / n) */
static double basis(const float *v, size_t n, size_t k, size_t i, bool sine)
{
    double a = 2 * acos(-1) * (double)(k * i % n) / (double)n;
    return (double)v[i] * (sine ? sin(a) : cos(a));
}

/* True when row k of the cosines or sines, times sign, agrees with p. */
static bool row_agrees(const float *v, size_t n, size_t k, bool sine, double sign, const float *p,
                       double bound)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)p[i] - sign * basis(v, n, k, i, sine)) <= bound))
            return false;
    return true;
}

bool steno_ops_is_dft(const struct steno_tensor *w)
{
    const float *v;
    size_t n, f;
    double bound = 0, sign = 0;
    if (!w || !w->data || w->dtype != STENO_F32 || w->shape.rank != 3 || w->shape.dim[1] != 1)
        return false;
    n = (size_t)w->shape.dim[2];
    f = n / 2 + 1;
    if (n < 64 || n > 8192 || (n & (n - 1)) || (size_t)w->shape.dim[0] != 2 * f)
        return false;
    v = w->data; /* row 0: the cosine is 1 */
    for (size_t i = 0; i < n; i++) {
        bound = fmax(bound, 2e-6 * fabs((double)v[i]));
        sign += (double)v[(f + 1) * n + i] * basis(v, n, 1, i, true);
    }
    sign = sign < 0 ? -1 : 1;
    for (size_t k = 0; k < f; k++)
        if (!row_agrees(v, n, k, false, 1, v + k * n, bound) ||
            !row_agrees(v, n, k, true, sign, v + (f + k) * n, bound))
            return false;
    return bound > 0;
}

struct spectrum {
    size_t n, hop;
    bool root;
    struct steno_fft_tables fft;
    float *window; /* [n], followed by the tables of the transform */
};

static void release_spectrum(void *priv)
{
    struct spectrum *p = priv;
    if (!p)
        return;
    steno_aligned_free(p->window);
    free(p);
}

static steno_status prepare_spectrum(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *node = steno_prepare_node_of(pc);
    const struct steno_tensor *w = steno_prepare_const(pc, 1);
    int64_t hop = steno_node_int(node, "hop", 0);
    struct spectrum *p;
    if (hop < 1 || hop > INT32_MAX || !steno_ops_is_dft(w))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "W is not a windowed Fourier transform, or hop %lld is out of range",
                          (long long)hop);
    p = calloc(1, sizeof *p);
    if (p) {
        p->n = (size_t)w->shape.dim[2];
        p->hop = (size_t)hop;
        p->root = steno_node_int(node, "root", 0) != 0;
        p->window = steno_aligned_alloc((p->n + steno_fft_room(p->n)) * sizeof *p->window);
    }
    if (!p || !p->window) {
        release_spectrum(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for the window");
    }
    steno_fft_fill(&p->fft, p->n, p->window + p->n);
    memcpy(p->window, w->data, p->n * sizeof *p->window);
    steno_prepare_packed(pc, p->n * sizeof *p->window);
    steno_prepare_consumed(pc, 1);
    *priv = p;
    return STENO_OK;
}

static steno_status infer_spectrum(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1);
    int64_t hop = steno_node_int(steno_infer_node(ic), "hop", 0);
    if (x.rank != 3 || w.rank != 3 || hop < 1) {
        steno_infer_set(ic, 0, STENO_F32, NULL);
        return STENO_OK;
    }
    x.dim[1] = w.dim[2] >= 0 ? w.dim[2] / 2 + 1 : steno_infer_new_dim(ic);
    if (x.dim[2] < 0 || w.dim[2] < 0)
        x.dim[2] = steno_infer_new_dim(ic);
    else if (x.dim[2] < w.dim[2])
        return steno_fail(err, STENO_ERR_INVAL, "x has %lld samples, a frame needs %lld",
                          (long long)x.dim[2], (long long)w.dim[2]);
    else
        x.dim[2] = (x.dim[2] - w.dim[2]) / hop + 1;
    steno_infer_set(ic, 0, STENO_F32, &x);
    return STENO_OK;
}

/* One channel: y [F, frames] of x. scratch: a frame [n], the transform [2 n], the power [F]. */
static void channel(const struct spectrum *p, const steno_kernels *k, const float *x, float *y,
                    size_t frames, float *scratch)
{
    const size_t bins = p->n / 2 + 1;
    float *frame = scratch, *fft = frame + p->n, *power = fft + 2 * p->n;
    for (size_t t = 0; t < frames; t++) {
        k->mul_f32(frame, x + t * p->hop, 1, p->window, 1, p->n);
        steno_fft_spectrum(&p->fft, frame, power, fft);
        if (p->root)
            k->sqrt_f32(power, power, bins);
        for (size_t f = 0; f < bins; f++)
            y[f * frames + t] = power[f];
    }
}

static steno_status run_spectrum(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct spectrum *p = steno_op_priv(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    struct steno_shape s;
    size_t samples, each;
    float *scratch;
    steno_status st;
    if (!x || x->dtype != STENO_F32 || x->shape.rank != 3 || x->shape.dim[1] != 1 ||
        (size_t)x->shape.dim[2] < p->n)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "x must be f32 [B,1,%zu or more]", p->n);
    s = x->shape;
    samples = (size_t)s.dim[2];
    s.dim[1] = (int64_t)(p->n / 2 + 1);
    s.dim[2] = (int64_t)((samples - p->n) / p->hop + 1);
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    scratch = steno_op_scratch(ctx, (3 * p->n + p->n / 2 + 1) * sizeof *scratch);
    if (!scratch)
        return steno_ops_nomem(ctx, err);
    each = (size_t)(s.dim[1] * s.dim[2]);
    for (size_t b = 0; b < (size_t)s.dim[0]; b++)
        channel(p, steno_op_kernels(ctx), (const float *)x->data + b * samples,
                (float *)y->data + b * each, (size_t)s.dim[2], scratch);
    return STENO_OK;
}

const struct steno_op steno_ops_fused_spectrum[] = {
    {"ai.steno", "PowerSpectrum", 1, 0, 0, infer_spectrum, prepare_spectrum, release_spectrum,
     run_spectrum},
    {0},
};
