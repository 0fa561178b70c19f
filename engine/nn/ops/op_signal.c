/* DFT, STFT, the window functions and MelWeightMatrix (opset 17, DFT also 20). Transforms run in
 * f64 by mixed-radix decimation in time (Cooley and Tukey, 1965): any length, O(n * sum of its
 * prime factors). */
#include "nn/ops/internal.h"

#include <math.h>

#define MAX_LENGTH ((int64_t)1 << 24)
#define PI 3.14159265358979323846

struct cpx {
    double re, im;
};

struct fft {
    size_t n;
    struct cpx *root; /* exp(-2 pi i k / n), or + for the inverse */
    struct cpx *tmp;  /* [n] */
};

static bool fft_init(struct steno_op_ctx *ctx, struct fft *f, size_t n, bool inverse)
{
    f->n = n;
    f->root = steno_op_scratch(ctx, (2 * n + 1) * sizeof *f->root);
    if (!f->root)
        return false;
    f->tmp = f->root + n;
    for (size_t k = 0; k < n; k++) {
        double a = 2 * PI * (double)k / (double)n;
        f->root[k].re = cos(a);
        f->root[k].im = inverse ? sin(a) : -sin(a);
    }
    return true;
}

static size_t smallest_factor(size_t n)
{
    for (size_t p = 2; p * p <= n; p++)
        if (n % p == 0)
            return p;
    return n;
}

/* out[0..n) = transform of in[0], in[step], ...; root_step: distance between this size's roots. */
static void fft_run(const struct fft *f, struct cpx *out, const struct cpx *in, size_t n,
                    size_t step)
{
    size_t p = smallest_factor(n), m = n / p, root_step = f->n / n;
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    for (size_t r = 0; r < p && m > 1; r++)
        fft_run(f, out + r * m, in + r * step, m, step * p);
    for (size_t r = 0; r < p && m == 1; r++)
        out[r] = in[r * step];
    for (size_t k = 0; k < m; k++) { /* p-point butterflies over the m sub-transforms */
        for (size_t r = 0; r < p; r++)
            f->tmp[r] = out[r * m + k];
        for (size_t q = 0; q < p; q++) {
            size_t at = k + q * m, turn = 0;
            struct cpx sum = f->tmp[0];
            for (size_t r = 1; r < p; r++) {
                const struct cpx *w;
                turn = (turn + at) % n;
                w = &f->root[turn * root_step];
                sum.re += f->tmp[r].re * w->re - f->tmp[r].im * w->im;
                sum.im += f->tmp[r].re * w->im + f->tmp[r].im * w->re;
            }
            out[at] = sum;
        }
    }
}

/* ---- DFT ---- */
struct dft {
    int axis;
    int64_t length; /* length of the transform */
    bool inverse, onesided;
    struct steno_shape out;
};

static const char *dft_plan(const struct steno_node *n, const struct steno_shape *x, int64_t axis,
                            int64_t length, struct dft *d)
{
    d->inverse = steno_node_int(n, "inverse", 0) != 0;
    d->onesided = steno_node_int(n, "onesided", 0) != 0;
    if (x->rank < 2 || !steno_ops_axis(axis, x->rank, &d->axis) || d->axis == x->rank - 1)
        return "axis out of range";
    if (x->dim[x->rank - 1] >= 0 && x->dim[x->rank - 1] != 1 && x->dim[x->rank - 1] != 2)
        return "the last axis must have length 1 or 2";
    if (length < 0)
        length = x->dim[d->axis] < 0         ? STENO_DIM_ANY
                 : d->inverse && d->onesided ? 2 * (x->dim[d->axis] - 1)
                                             : x->dim[d->axis];
    if (length > MAX_LENGTH || length == 0 || length < STENO_DIM_ANY)
        return "the length is out of range";
    d->length = length;
    d->out = *x;
    d->out.dim[d->axis] = length < 0                   ? STENO_DIM_ANY
                          : d->onesided && !d->inverse ? length / 2 + 1
                                                       : length;
    d->out.dim[x->rank - 1] = d->onesided && d->inverse ? 1 : 2;
    return NULL;
}

static steno_status infer_dft(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape x = steno_infer_shape(ic, 0);
    int64_t axis = steno_node_int(n, "axis", n->opset < 20 ? 1 : -2), length = -1;
    bool known = x.rank >= 0;
    size_t count;
    struct dft d;
    const char *wrong;
    if (steno_infer_has(ic, 1))
        known = steno_infer_ints(ic, 1, &length, 1, &count) && count == 1 && known;
    if (steno_infer_has(ic, 2))
        known = steno_infer_ints(ic, 2, &axis, 1, &count) && count == 1 && known;
    if (!known) {
        steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), NULL);
        return STENO_OK;
    }
    wrong = dft_plan(n, &x, axis, length, &d);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    for (int i = 0; i < d.out.rank; i++)
        if (d.out.dim[i] == STENO_DIM_ANY)
            d.out.dim[i] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &d.out);
    return STENO_OK;
}

static steno_status one_int(struct steno_op_ctx *ctx, int in, int64_t *v, steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, in);
    if (!t)
        return STENO_OK;
    if (steno_numel(t) != 1 || !steno_ops_is_int(t->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d must be one integer", in);
    *v = steno_ops_get_i64(t, 0);
    return STENO_OK;
}

static steno_status run_dft(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    int64_t axis = steno_node_int(node, "axis", node->opset < 20 ? 1 : -2), length = -1;
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    struct dft d;
    struct fft f;
    struct cpx *in, *out;
    const double *xd;
    double *yd;
    size_t outer, inner, have, parts, n, want, out_parts;
    const char *wrong;
    steno_status st = one_int(ctx, 1, &length, err);
    if (!st)
        st = one_int(ctx, 2, &axis, err);
    if (st)
        return st;
    if (!steno_ops_is_float(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    wrong = dft_plan(node, &x->shape, axis, length, &d);
    if (wrong || d.length < 1)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s",
                             wrong ? wrong : "the length is out of range");
    st = steno_op_out(ctx, 0, x->dtype, &d.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    n = (size_t)d.length;
    in = steno_op_scratch(ctx, 2 * n * sizeof *in);
    xd = steno_ops_as_f64(ctx, x);
    yd = steno_ops_out_f64(ctx, y);
    if (!in || !xd || !yd || !fft_init(ctx, &f, n, d.inverse))
        return steno_ops_nomem(ctx, err);
    out = in + n;
    parts = (size_t)x->shape.dim[x->shape.rank - 1];
    out_parts = (size_t)d.out.dim[d.out.rank - 1];
    have = (size_t)x->shape.dim[d.axis];
    want = (size_t)d.out.dim[d.axis];
    outer = steno_ops_prod(&x->shape, 0, d.axis);
    inner = steno_ops_prod(&x->shape, d.axis + 1, x->shape.rank - 1);
    for (size_t lane = 0; lane < outer * inner; lane++) {
        size_t o = lane / inner, i = lane % inner;
        double scale = d.inverse ? 1 / (double)n : 1;
        for (size_t k = 0; k < n; k++) {
            const double *v = xd + ((o * have + k) * inner + i) * parts;
            in[k] = (struct cpx){k < have ? v[0] : 0, k < have && parts == 2 ? v[1] : 0};
        }
        for (size_t k = n / 2 + 1; k < n && d.inverse && d.onesided; k++) /* the other half */
            in[k] = (struct cpx){in[n - k].re, -in[n - k].im};
        fft_run(&f, out, in, n, 1);
        for (size_t k = 0; k < want; k++) {
            double *v = yd + ((o * want + k) * inner + i) * out_parts;
            v[0] = out[k].re * scale;
            if (out_parts == 2)
                v[1] = out[k].im * scale;
        }
    }
    steno_ops_put_f64(y, yd);
    return STENO_OK;
}

/* ---- STFT ---- signal [B, L], [B, L, 1] or [B, L, 2] -> [B, frames, bins, 2] */
static size_t stft_parts(const struct steno_shape *x)
{
    return x->rank == 3 ? (size_t)x->dim[2] : 1; /* [B, L] is real, as torch.stft writes it */
}

/* Unknown sizes (below 1 for hop and length) leave STENO_DIM_ANY. */
static void stft_shape(const struct steno_node *n, const struct steno_shape *x, int64_t hop,
                       int64_t length, struct steno_shape *s)
{
    bool onesided = steno_node_int(n, "onesided", 1) != 0, ranked = x->rank > 1;
    s->rank = 4;
    s->dim[0] = ranked ? x->dim[0] : STENO_DIM_ANY;
    s->dim[1] = s->dim[2] = STENO_DIM_ANY;
    s->dim[3] = 2;
    if (length < 1)
        return;
    s->dim[2] = onesided ? length / 2 + 1 : length;
    if (ranked && x->dim[1] >= 0 && hop >= 1)
        s->dim[1] = x->dim[1] < length ? 0 : (x->dim[1] - length) / hop + 1;
}

static const char *stft_signal(const struct steno_shape *x)
{
    if (x->rank != STENO_RANK_ANY && x->rank != 2 && x->rank != 3)
        return "the signal must have shape [batch, samples] or [batch, samples, 1 or 2]";
    if (x->rank == 3 && x->dim[2] >= 0 && x->dim[2] != 1 && x->dim[2] != 2)
        return "the last axis of the signal must have length 1 or 2";
    return NULL;
}

static steno_status infer_stft(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 2), s;
    int64_t hop = 0, length = 0;
    size_t count;
    const char *wrong = stft_signal(&x);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    if (!steno_infer_ints(ic, 1, &hop, 1, &count) || count != 1)
        hop = 0;
    if (steno_infer_has(ic, 3)) {
        if (!steno_infer_ints(ic, 3, &length, 1, &count) || count != 1)
            length = 0;
    } else if (steno_infer_has(ic, 2)) {
        length = w.rank == 1 ? w.dim[0] : 0;
    } else {
        length = x.rank > 1 ? x.dim[1] : 0;
    }
    stft_shape(steno_infer_node(ic), &x, hop, length, &s);
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] == STENO_DIM_ANY)
            s.dim[i] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

static steno_status run_stft(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *w = steno_op_in(ctx, 2);
    struct steno_tensor *y;
    struct steno_shape s;
    struct fft f;
    struct cpx *in, *out;
    const double *xd, *wd = NULL;
    double *yd;
    int64_t hop = 0, length = 0;
    const char *wrong;
    size_t n, parts, offset = 0, frames, bins, width;
    steno_status st = one_int(ctx, 1, &hop, err);
    if (st)
        return st;
    wrong =
        steno_ops_is_float(x->dtype) ? stft_signal(&x->shape) : "the signal must be floating point";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    length = w ? (int64_t)steno_numel(w) : x->shape.dim[1];
    st = one_int(ctx, 3, &length, err);
    if (st)
        return st;
    if (hop < 1)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "the frame step must be at least 1, not %lld", (long long)hop);
    if (length < 1 || length > MAX_LENGTH)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "the frame length must be from 1 to %lld, not %lld",
                             (long long)MAX_LENGTH, (long long)length);
    if (w && (int64_t)steno_numel(w) > length)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "the window's %zu values do not fit a frame of %lld", steno_numel(w),
                             (long long)length);
    stft_shape(steno_op_node(ctx), &x->shape, hop, length, &s);
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    n = (size_t)length;
    parts = stft_parts(&x->shape);
    width = w ? steno_numel(w) : n;
    offset = (n - width) / 2; /* a shorter window is centered in the frame */
    in = steno_op_scratch(ctx, 2 * n * sizeof *in);
    xd = steno_ops_as_f64(ctx, x);
    yd = steno_ops_out_f64(ctx, y);
    if (w)
        wd = steno_ops_as_f64(ctx, w);
    if (!in || !xd || !yd || (w && !wd) || !fft_init(ctx, &f, n, false))
        return steno_ops_nomem(ctx, err);
    out = in + n;
    frames = (size_t)s.dim[1];
    bins = (size_t)s.dim[2];
    for (size_t i = 0; i < (size_t)s.dim[0] * frames; i++) {
        const double *v =
            xd + (i / frames * (size_t)x->shape.dim[1] + i % frames * (size_t)hop) * parts;
        for (size_t k = 0; k < n; k++) {
            double a = !wd ? 1 : k < offset || k >= offset + width ? 0 : wd[k - offset];
            in[k] = (struct cpx){v[k * parts] * a, parts == 2 ? v[k * parts + 1] * a : 0};
        }
        fft_run(&f, out, in, n, 1);
        for (size_t k = 0; k < bins; k++) {
            yd[(i * bins + k) * 2] = out[k].re;
            yd[(i * bins + k) * 2 + 1] = out[k].im;
        }
    }
    steno_ops_put_f64(y, yd);
    return STENO_OK;
}

/* ---- HannWindow, HammingWindow, BlackmanWindow ---- */
static steno_status infer_window(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = {.rank = 1};
    int64_t n;
    size_t count;
    bool known = steno_infer_ints(ic, 0, &n, 1, &count) && count == 1;
    if (known && n < 0)
        return steno_fail(err, STENO_ERR_INVAL, "size is negative");
    s.dim[0] = known ? n : steno_infer_new_dim(ic);
    steno_infer_set(
        ic, 0, (steno_dtype)steno_node_int(steno_infer_node(ic), "output_datatype", STENO_F32), &s);
    return STENO_OK;
}

static steno_status run_window(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    steno_dtype t = (steno_dtype)steno_node_int(node, "output_datatype", STENO_F32);
    bool periodic = steno_node_int(node, "periodic", 1) != 0;
    struct steno_shape s = {.rank = 1};
    struct steno_tensor *y;
    double period;
    steno_status st = one_int(ctx, 0, &s.dim[0], err);
    if (st)
        return st;
    if (s.dim[0] < 0 || (!steno_ops_is_float(t) && !steno_ops_is_int(t)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "size or type is out of range");
    st = steno_op_out(ctx, 0, t, &s, &y, err);
    if (st)
        return st;
    period = (double)(periodic ? s.dim[0] : s.dim[0] - 1);
    for (int64_t i = 0; i < s.dim[0]; i++) {
        double a = period > 0 ? 2 * PI * (double)i / period : 0, v;
        switch (node->op_type[2]) {
        case 'n': /* Hann */
            v = 0.5 - 0.5 * cos(a);
            break;
        case 'm': /* Hamming */
            v = 25.0 / 46 - 21.0 / 46 * cos(a);
            break;
        default: /* Blackman */
            v = 0.42 - 0.5 * cos(a) + 0.08 * cos(2 * a);
            break;
        }
        steno_ops_set_f64(y, (size_t)i, v);
    }
    return STENO_OK;
}

/* ---- MelWeightMatrix ---- inputs: bins, dft_length, sample_rate, lower, upper edge in Hz */
static double mel_of(double hz)
{
    return 2595 * log10(1 + hz / 700);
}

static steno_status run_mel(struct steno_op_ctx *ctx, steno_err *err)
{
    steno_dtype t = (steno_dtype)steno_node_int(steno_op_node(ctx), "output_datatype", STENO_F32);
    double v[5], low, step;
    struct steno_shape s = {.rank = 2};
    struct steno_tensor *y;
    double *d;
    int64_t rows;
    steno_status st;
    for (int i = 0; i < 5; i++) {
        if (steno_numel(steno_op_in(ctx, i)) != 1)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d must be one number", i);
        v[i] = steno_ops_get_f64(steno_op_in(ctx, i), 0);
    }
    if (!(v[0] >= 1 && v[0] <= 1e6 && v[1] >= 1 && v[1] <= (double)MAX_LENGTH && v[2] >= 1 &&
          v[3] >= 0 && v[4] >= v[3]) ||
        (!steno_ops_is_float(t) && !steno_ops_is_int(t)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "a size or frequency is out of range");
    rows = (int64_t)v[1] / 2 + 1;
    s.dim[0] = rows;
    s.dim[1] = (int64_t)v[0];
    st = steno_ops_float_output(ctx, t, &s, &y, &d, err);
    if (st)
        return st;
    memset(d, 0, steno_numel(y) * sizeof *d);
    low = mel_of(v[3]);
    step = (mel_of(v[4]) - low) / (double)(s.dim[1] + 2);
    for (int64_t m = 0; m < s.dim[1]; m++) {
        int64_t edge[3];
        for (int k = 0; k < 3; k++) {
            double hz = 700 * (pow(10, (low + (double)(m + k) * step) / 2595) - 1);
            edge[k] = (int64_t)fmin(floor((v[1] + 1) * hz / v[2]), (double)MAX_LENGTH);
        }
        for (int64_t r = edge[0]; r <= edge[1] && r < rows; r++)
            d[r * s.dim[1] + m] =
                edge[1] == edge[0] ? 1 : (double)(r - edge[0]) / (double)(edge[1] - edge[0]);
        for (int64_t r = edge[1]; r < edge[2] && r < rows; r++)
            d[r * s.dim[1] + m] = (double)(edge[2] - r) / (double)(edge[2] - edge[1]);
    }
    steno_ops_put_f64(y, d);
    return STENO_OK;
}

static steno_status infer_mel(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = {.rank = 2};
    int64_t v;
    size_t n;
    (void)err;
    s.dim[0] =
        steno_infer_ints(ic, 1, &v, 1, &n) && n == 1 && v > 0 ? v / 2 + 1 : steno_infer_new_dim(ic);
    s.dim[1] = steno_infer_ints(ic, 0, &v, 1, &n) && n == 1 && v > 0 ? v : steno_infer_new_dim(ic);
    steno_infer_set(
        ic, 0, (steno_dtype)steno_node_int(steno_infer_node(ic), "output_datatype", STENO_F32), &s);
    return STENO_OK;
}

const struct steno_op steno_ops_signal[] = {
    {"", "DFT", 17, 0, 0, infer_dft, NULL, NULL, run_dft},
    {"", "STFT", 17, 0, 0, infer_stft, NULL, NULL, run_stft},
    {"", "HannWindow", 17, 0, 0, infer_window, NULL, NULL, run_window},
    {"", "HammingWindow", 17, 0, 0, infer_window, NULL, NULL, run_window},
    {"", "BlackmanWindow", 17, 0, 0, infer_window, NULL, NULL, run_window},
    {"", "MelWeightMatrix", 17, 0, 0, infer_mel, NULL, NULL, run_mel},
    {0},
};
