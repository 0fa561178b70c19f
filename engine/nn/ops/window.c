/* Geometry of sliding windows (nn/ops/window.h). */
#include "nn/ops/window.h"

static steno_status read_list(const struct steno_node *node, const char *name, size_t n, int64_t lo,
                              int64_t fallback, int64_t *out, steno_err *err)
{
    size_t count;
    const int64_t *v = steno_node_ints(node, name, &count);
    if (v && count != n)
        return steno_fail(err, STENO_ERR_INVAL, "%s has %zu entries, expected %zu", name, count, n);
    for (size_t i = 0; i < n; i++) {
        out[i] = v ? v[i] : fallback;
        if (out[i] < lo || out[i] > INT32_MAX)
            return steno_fail(err, STENO_ERR_INVAL, "%s[%zu] is out of range: %lld", name, i,
                              (long long)out[i]);
    }
    return STENO_OK;
}

steno_status steno_window_read(const struct steno_node *node, int n, int most,
                               const int64_t *kernel, struct steno_window *w, steno_err *err)
{
    static const char *const names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    const char *pad = steno_node_str(node, "auto_pad", "NOTSET");
    int64_t pads[2 * STENO_WINDOW_AXES];
    size_t count;
    steno_status st;
    if (n < 1 || n > most)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%d spatial axes, 1 to %d are supported", n,
                          most);
    w->n = n;
    for (int i = 0; i < n && kernel; i++)
        if (kernel[i] < 1 || kernel[i] > INT32_MAX)
            return steno_fail(err, STENO_ERR_INVAL, "kernel extent %lld is out of range",
                              (long long)kernel[i]);
    if (kernel)
        memcpy(w->kernel, kernel, (size_t)n * sizeof *kernel);
    else if (!steno_node_ints(node, "kernel_shape", &count))
        return steno_fail(err, STENO_ERR_FORMAT, "kernel_shape is missing");
    st = kernel ? STENO_OK : read_list(node, "kernel_shape", (size_t)n, 1, 1, w->kernel, err);
    if (!st)
        st = read_list(node, "strides", (size_t)n, 1, 1, w->stride, err);
    if (!st)
        st = read_list(node, "dilations", (size_t)n, 1, 1, w->dilation, err);
    if (!st)
        st = read_list(node, "pads", 2 * (size_t)n, 0, 0, pads, err);
    if (st)
        return st;
    memcpy(w->before, pads, (size_t)n * sizeof *pads);
    memcpy(w->after, pads + n, (size_t)n * sizeof *pads);
    w->ceil_mode = !kernel && steno_node_int(node, "ceil_mode", 0) != 0;
    for (int i = 0; i < 4; i++)
        if (!strcmp(pad, names[i])) {
            w->auto_pad = (enum steno_auto_pad)i;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_FORMAT, "auto_pad '%s' is not known", pad);
}

static void split_padding(struct steno_window *w, int a, int64_t total)
{
    int64_t small = total / 2;
    w->before[a] = w->auto_pad == STENO_PAD_SAME_LOWER ? total - small : small;
    w->after[a] = total - w->before[a];
}

/* Whether the output has as many places as the input, however many these are. */
static bool keeps_extent(const struct steno_window *w, int a)
{
    const int64_t span = (w->kernel[a] - 1) * w->dilation[a] + 1;
    if (w->stride[a] != 1)
        return false;
    if (w->auto_pad == STENO_PAD_SAME_UPPER || w->auto_pad == STENO_PAD_SAME_LOWER)
        return true;
    return span == 1 + (w->auto_pad == STENO_PAD_VALID ? 0 : w->before[a] + w->after[a]);
}

steno_status steno_window_out(struct steno_window *w, int a, int64_t in, int64_t *out,
                              steno_err *err)
{
    int64_t span = (w->kernel[a] - 1) * w->dilation[a] + 1, room, total;
    if (in < 0) {
        *out = keeps_extent(w, a) ? in : STENO_DIM_ANY;
        return STENO_OK;
    }
    if (in > INT64_MAX / 4)
        return steno_fail(err, STENO_ERR_LIMIT, "extent %lld is too large", (long long)in);
    if (w->auto_pad == STENO_PAD_SAME_UPPER || w->auto_pad == STENO_PAD_SAME_LOWER) {
        *out = (in + w->stride[a] - 1) / w->stride[a];
        total = *out ? (*out - 1) * w->stride[a] + span - in : 0;
        split_padding(w, a, total > 0 ? total : 0);
        return STENO_OK;
    }
    if (w->auto_pad == STENO_PAD_VALID)
        w->before[a] = w->after[a] = 0;
    room = in + w->before[a] + w->after[a] - span;
    if (room < 0 && !(w->ceil_mode && -room / w->stride[a] <= 1))
        return steno_fail(err, STENO_ERR_INVAL,
                          "a window of %lld does not fit an axis of %lld with "
                          "padding %lld and %lld",
                          (long long)span, (long long)in, (long long)w->before[a],
                          (long long)w->after[a]);
    *out = room / w->stride[a] + 1; /* rounds up where room < 0: one window of what is there */
    /* with ceil_mode a last, partial window counts if it starts inside the input or in the padding
     * before it */
    if (w->ceil_mode && room > 0 && room % w->stride[a] && *out * w->stride[a] < in + w->before[a])
        ++*out;
    return STENO_OK;
}

steno_status steno_window_out_transposed(struct steno_window *w, int a, int64_t in, int64_t out_pad,
                                         int64_t want, int64_t *out, steno_err *err)
{
    int64_t span = (w->kernel[a] - 1) * w->dilation[a] + 1, full;
    if (in < 1 || in > INT32_MAX)
        return steno_fail(err, in < 1 ? STENO_ERR_INVAL : STENO_ERR_LIMIT,
                          "extent %lld is too large", (long long)in);
    full = (in - 1) * w->stride[a] + out_pad + span;
    if (want < 0 && (w->auto_pad == STENO_PAD_SAME_UPPER || w->auto_pad == STENO_PAD_SAME_LOWER))
        want = in * w->stride[a];
    if (want >= 0) {
        int64_t total = full - want;
        *out = want;
        if (total < 0) { /* wider than the full result: the rest is bias */
            w->before[a] = 0;
            w->after[a] = total;
        } else {
            /* ONNX ConvTranspose: the odd element goes after for SAME_UPPER, before otherwise */
            w->before[a] = w->auto_pad == STENO_PAD_SAME_UPPER ? total / 2 : total - total / 2;
            w->after[a] = total - w->before[a];
        }
        return STENO_OK;
    }
    if (w->auto_pad == STENO_PAD_VALID)
        w->before[a] = w->after[a] = 0;
    *out = full - w->before[a] - w->after[a];
    if (*out < 0)
        return steno_fail(err, STENO_ERR_INVAL,
                          "padding %lld and %lld is more than the extent %lld",
                          (long long)w->before[a], (long long)w->after[a], (long long)full);
    return STENO_OK;
}
