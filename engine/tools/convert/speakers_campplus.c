/* speakerlab/models/campplus/DTDNN.py and layers.py of 3D-Speaker: a residual network over bands
 * and frames, three blocks of time-delay layers whose inputs are all outputs before them, each
 * layer masked by what its stretch of 100 frames and the whole recording hold, then mean and
 * deviation over time. */
#include "tools/convert/speakers_graphs.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_LAYERS 64 /* of a block */

static const int64_t stretch = 100, dilations[] = {1, 2, 2};

/* ---- parts ----------------------------------------------------------------------------------- */

/* d numbers that a norm without weights has: ones, zeros. */
static steno_value_id all(struct steno_make *m, int64_t d, float is)
{
    float *x = m->st ? NULL : malloc((size_t)d * sizeof *x);
    steno_value_id v;
    for (int64_t i = 0; x && i < d; i++)
        x[i] = is;
    v = m->st ? STENO_NONE : steno_make_floats(m, "", 1, &d, x);
    free(x);
    return v;
}

static steno_value_id campplus_norm(struct steno_make *m, steno_value_id x, const char *name,
                                    int64_t d)
{
    static const char *const roles[] = {"weight", "bias", "running_mean", "running_var"};
    const struct steno_attr a = {.name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = 1e-5f};
    steno_value_id in[5] = {x};
    for (int i = 0; i < 4; i++) {
        char role[64];
        snprintf(role, sizeof role, "%s.%s", name, roles[i]);
        in[i + 1] = i < 2 && !steno_make_has(m, role) ? all(m, d, i ? 0 : 1)
                                                      : steno_make_param(m, role, 1, &d);
    }
    return steno_make_node(m, "BatchNormalization", 5, in, 1, &a);
}

static steno_value_id norm_relu(struct steno_make *m, steno_value_id x, const char *name, int64_t d)
{
    return steno_make_1(m, "Relu", campplus_norm(m, x, name, d));
}

/* A convolution over time; *d columns in, and then those out. */
static steno_value_id convolve_normed(struct steno_make *m, steno_value_id x, const char *name,
                                      int64_t *d, struct steno_make_conv c)
{
    c.rank = 1;
    c.in = *d;
    c.out = *d = steno_speaker_outputs(m, name);
    return steno_make_convolve(m, x, name, &c);
}

static steno_value_id pointwise(struct steno_make *m, steno_value_id x, const char *name,
                                int64_t *d, bool bias)
{
    const int64_t in = *d;
    *d = steno_speaker_outputs(m, name);
    return steno_make_mix(m, x, name, in, *d, bias);
}

static steno_value_id mean(struct steno_make *m, steno_value_id x)
{
    static const int64_t time = 2;
    const struct steno_attr a = {.name = "axes", .kind = STENO_ATTR_INTS, .n = 1, .ints = &time};
    return steno_make_node(m, "ReduceMean", 1, &x, 1, &a);
}

/* ---- the residual network -------------------------------------------------------------------- */

/* Taps of 3 by 3, or of one: every second or every band. */
static steno_value_id planes(struct steno_make *m, steno_value_id x, const char *name, int64_t in,
                             int64_t d, int64_t kernel, int64_t step)
{
    const int64_t strides[] = {step, 1};
    const struct steno_make_conv c = {
        .rank = 2, .in = in, .out = d, .kernel = kernel, .pad = kernel / 2, .strides = strides};
    return steno_make_convolve(m, x, name, &c);
}

static steno_value_id residual(struct steno_make *m, steno_value_id x, int layer, int at, int64_t d)
{
    const int64_t step = at ? 1 : 2;
    steno_value_id y, rest = x;
    steno_make_at(m, "head.layer%d.%d.", layer, at);
    y = norm_relu(m, planes(m, x, "conv1", d, d, 3, step), "bn1", d);
    y = campplus_norm(m, planes(m, y, "conv2", d, d, 3, 1), "bn2", d);
    if (!at)
        rest = campplus_norm(m, planes(m, x, "shortcut.0", d, d, 1, step), "shortcut.1", d);
    return steno_make_1(m, "Relu", steno_make_add(m, y, rest));
}

/* x [N,1,bands,T] to [N,*d,T]: an eighth of the bands, with the planes of each. */
static steno_value_id head(struct steno_make *m, steno_value_id x, int64_t bands, int64_t *d)
{
    int64_t n;
    steno_make_at(m, "head.");
    n = steno_speaker_outputs(m, "conv1");
    x = norm_relu(m, planes(m, x, "conv1", 1, n, 3, 1), "bn1", n);
    for (int i = 0; i < 4; i++)
        x = residual(m, x, 1 + i / 2, i % 2, n);
    steno_make_at(m, "head.");
    x = norm_relu(m, planes(m, x, "conv2", n, n, 3, 2), "bn2", n);
    *d = n * (bands / 8);
    return steno_make_reshape(m, x, 3, (int64_t[]){0, *d, -1});
}

/* ---- time-delay layers ----------------------------------------------------------------------- */

/* The mean of each stretch, in each of its frames. */
static steno_value_id means_of_stretches(struct steno_make *m, steno_value_id x)
{
    const struct steno_attr a[] = {
        {.name = "kernel_shape", .kind = STENO_ATTR_INTS, .n = 1, .ints = &stretch},
        {.name = "strides", .kind = STENO_ATTR_INTS, .n = 1, .ints = &stretch},
        {.name = "ceil_mode", .kind = STENO_ATTR_INT, .i = 1}};
    steno_value_id y = steno_make_node(m, "AveragePool", 1, &x, 3, a);
    y = steno_make_2(m, "Expand", steno_make_unsqueeze(m, y, 3),
                     steno_make_ints(m, 4, (int64_t[]){1, 1, 1, stretch}));
    y = steno_make_reshape(m, y, 3, (int64_t[]){0, 0, -1});
    return steno_make_cut(m, y, 2, steno_make_ints(m, 1, (int64_t[]){0}),
                          steno_make_extent_of(m, x, 2));
}

/* Context-aware masking. */
static steno_value_id masked(struct steno_make *m, steno_value_id x, int64_t *d, int64_t dilation)
{
    const struct steno_make_conv local = {
        .kernel = 3, .stride = 1, .pad = dilation, .dilation = dilation};
    int64_t out = *d;
    steno_value_id y = convolve_normed(m, x, "cam_layer.linear_local", &out, local);
    x = steno_make_add(m, mean(m, x), means_of_stretches(m, x));
    x = steno_make_1(m, "Relu", pointwise(m, x, "cam_layer.linear1", d, true));
    x = pointwise(m, x, "cam_layer.linear2", d, true);
    return steno_make_2(m, "Mul", y, steno_make_1(m, "Sigmoid", x));
}

static steno_value_id dense_block(struct steno_make *m, steno_value_id x, int at, int64_t *d)
{
    for (int i = 1; i <= MAX_LAYERS && !m->st; i++) {
        int64_t n = *d;
        steno_value_id y;
        steno_make_at(m, "xvector.block%d.tdnnd%d.", at, i);
        if (i > 1 && !steno_make_has(m, "linear1.weight"))
            break;
        y = norm_relu(m, x, "nonlinear1.batchnorm", n);
        y = pointwise(m, y, "linear1", &n, false);
        y = masked(m, norm_relu(m, y, "nonlinear2.batchnorm", n), &n, dilations[at - 1]);
        x = steno_make_concat(m, 1, x, y);
        *d += n;
    }
    steno_make_at(m, "xvector.transit%d.", at);
    x = norm_relu(m, x, "nonlinear.batchnorm", *d);
    return pointwise(m, x, "linear", d, false);
}

/* Mean and deviation over time, of T - 1 degrees of freedom. */
static steno_value_id statistics(struct steno_make *m, steno_value_id x)
{
    const struct steno_attr f32 = {.name = "to", .kind = STENO_ATTR_INT, .i = 1 /* FLOAT */};
    const steno_value_id centre = mean(m, x), frames = steno_make_extent_of(m, x, 2);
    const steno_value_id off = steno_make_2(m, "Sub", x, centre);
    steno_value_id sum = steno_make_2(m, "ReduceSum", steno_make_2(m, "Mul", off, off),
                                      steno_make_ints(m, 1, (int64_t[]){2}));
    steno_value_id n = steno_make_node(m, "Cast", 1, &frames, 1, &f32);
    n = steno_make_add(m, n, steno_make_number(m, -1));
    sum = steno_make_1(m, "Sqrt", steno_make_2(m, "Div", sum, n));
    return steno_make_concat(m, 1, centre, sum);
}

/* x [N,*d,T] to [N,*d]. */
static steno_value_id xvector(struct steno_make *m, steno_value_id x, int64_t *d)
{
    steno_make_at(m, "xvector.tdnn.");
    x = convolve_normed(m, x, "linear", d,
                        (struct steno_make_conv){.kernel = 5, .stride = 2, .pad = 2});
    x = norm_relu(m, x, "nonlinear.batchnorm", *d);
    for (int i = 1; i <= 3; i++)
        x = dense_block(m, x, i, d);
    steno_make_at(m, "xvector.");
    x = statistics(m, norm_relu(m, x, "out_nonlinear.batchnorm", *d));
    *d *= 2;
    x = pointwise(m, x, "dense.linear", d, false);
    return steno_make_squeeze(m, campplus_norm(m, x, "dense.nonlinear.batchnorm", *d), 2);
}

/* What sherpa-onnx and engine/speech/speakers read: features of samples of 16 bits without their
 * mean. The checkpoint does not say which languages it heard; sherpa-onnx asks for a text. */
static void write_meta(struct steno_make *m, int64_t d)
{
    steno_make_meta(m, "framework", "3d-speaker");
    steno_make_meta(m, "language", "unknown");
    steno_make_meta(m, "comment", "CAM++");
    steno_make_meta(m, "sample_rate", "16000");
    steno_make_meta(m, "output_dim", "%lld", (long long)d);
    steno_make_meta(m, "normalize_samples", "0");
    steno_make_meta(m, "feature_normalize_type", "global-mean");
}

steno_status steno_speaker_write_campplus(const struct steno_make_weights *w, const char *path,
                                          steno_err *err)
{
    const int64_t bands = 80; /* sherpa-onnx has no other number */
    struct steno_make m;
    int64_t batch, d = 0;
    steno_value_id x;
    if (steno_make_begin(&m, w, 1, err))
        return m.st;
    m.asked = "CAM++";
    batch = steno_make_symbol(&m, "N");
    x = steno_make_input(&m, "x", STENO_F32, 3,
                         (int64_t[]){batch, steno_make_symbol(&m, "T"), bands});
    x = steno_make_unsqueeze(&m, steno_make_turn(&m, x), 1);
    x = xvector(&m, head(&m, x, bands, &d), &d);
    steno_make_output(&m, x, "embedding", STENO_F32, 2, (int64_t[]){batch, d});
    write_meta(&m, d);
    return steno_make_write(&m, path, NULL);
}
