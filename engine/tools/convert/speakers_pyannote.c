/* pyannote/audio/models/segmentation/PyanNet.py and blocks/sincnet.py of pyannote.audio 4.0.7, and
 * ParamSincFB of asteroid-filterbanks 0.4.0: band-pass filters with learnt borders, two
 * convolutions, LSTM layers in both directions, linear layers, and the logarithm of the
 * probability of each set of speakers. */
#include "tools/convert/speakers_graphs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SPECIFICATIONS "pyannote.audio.specifications."
#define SINCNET "hyper_parameters.sincnet."
#define LOWEST_HZ 50.0 /* of a filter's band, and its least width */
#define EPSILON 1e-5f
#define MAX_SPEAKERS 8
#define MAX_LAYERS 64

struct net {
    int64_t rate, window; /* Hz; samples */
    int64_t taps, stride; /* of the filters: samples of one, samples between outputs */
    int64_t speakers, together, classes;
};

/* ---- what the checkpoint says ---------------------------------------------------------------- */

static void read_int(struct steno_make *m, const char *name, int64_t min, int64_t max, int64_t *out)
{
    *out = min;
    if (!m->st && !steno_torch_int(m->w.torch, name, min, max, out))
        m->st = steno_fail(m->err, STENO_ERR_FORMAT, "%s: %s is no number from %lld to %lld",
                           m->w.file, name, (long long)min, (long long)max);
}

/* Sets of up to `together` of the speakers. */
static int64_t count_sets(int64_t speakers, int64_t together)
{
    int64_t of_size = 1, all = 1;
    for (int64_t k = 1; k <= together; k++) {
        of_size = of_size * (speakers - k + 1) / k;
        all += of_size;
    }
    return all;
}

static struct net read_net(struct steno_make *m)
{
    struct net n = {0};
    double seconds = 0;
    char name[64];
    read_int(m, "hyper_parameters.sample_rate", 8000, 48000, &n.rate);
    read_int(m, SINCNET "stride", 1, 1000, &n.stride);
    do
        snprintf(name, sizeof name, SPECIFICATIONS "classes.%lld", (long long)n.speakers);
    while (steno_torch_str(m->w.torch, name) && n.speakers++ < MAX_SPEAKERS);
    if (!m->st && (n.speakers < 1 || n.speakers > MAX_SPEAKERS))
        m->st = steno_fail(m->err, STENO_ERR_UNSUPPORTED,
                           "%s: " SPECIFICATIONS "classes does not name 1 to %d speakers",
                           m->w.file, MAX_SPEAKERS);
    read_int(m, SPECIFICATIONS "powerset_max_classes", 1, n.speakers, &n.together);
    if (!m->st && !steno_torch_number(m->w.torch, SPECIFICATIONS "duration", 1, 60, &seconds))
        m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                           "%s: " SPECIFICATIONS "duration is no number from 1 to 60", m->w.file);
    n.window = (int64_t)lrint(seconds * (double)n.rate);
    n.classes = m->st ? 1 : count_sets(n.speakers, n.together);
    return n;
}

/* ---- filters --------------------------------------------------------------------------------- */

/* A cosine and a sine filter of 2 half + 1 taps: those before the middle times the window, the
 * middle, and the others mirrored. In double: in float, as PyTorch has it, scores differ by 4e-4.
 */
static void make_filters(float *cosine, float *sine, int64_t half, const float *time,
                         const float *window, double low, double high)
{
    const double band = high - low;
    for (int64_t i = 0; i < half; i++) {
        const double t = (double)time[i], by = (double)window[i] / (t / 2) / (2 * band);
        cosine[i] = (float)((sin(high * t) - sin(low * t)) * by);
        sine[i] = (float)((cos(low * t) - cos(high * t)) * by);
        cosine[2 * half - i] = cosine[i];
        sine[2 * half - i] = -sine[i];
    }
    cosine[half] = 1;
    sine[half] = 0;
}

static steno_value_id filters(struct steno_make *m, struct net *n, int64_t *count)
{
    const int64_t bands = steno_speaker_extent(m, "low_hz_", 0);
    const int64_t half = steno_speaker_extent(m, "n_", 1), taps = 2 * half + 1;
    const double top = (double)n->rate / 2;
    float *low = steno_make_read(m, "low_hz_", 2, (int64_t[]){bands, 1});
    float *width = steno_make_read(m, "band_hz_", 2, (int64_t[]){bands, 1});
    float *time = steno_make_read(m, "n_", 2, (int64_t[]){1, half});
    float *window = steno_make_read(m, "window_", 1, &half);
    float *x = m->st ? NULL : malloc((size_t)(2 * bands * taps) * sizeof *x);
    steno_value_id v;
    for (int64_t i = 0; x && i < bands; i++) {
        const double from = LOWEST_HZ + fabs((double)low[i]);
        const double to = fmin(from + LOWEST_HZ + fabs((double)width[i]), top);
        make_filters(x + i * taps, x + (bands + i) * taps, half, time, window, from, to);
    }
    n->taps = taps;
    *count = 2 * bands;
    v = m->st ? STENO_NONE : steno_make_floats(m, "filters", 3, (int64_t[]){*count, 1, taps}, x);
    free(low);
    free(width);
    free(time);
    free(window);
    free(x);
    return v;
}

/* ---- the network ----------------------------------------------------------------------------- */

/* The greatest of three, the norm of a channel, and LeakyRelu with a slope of 0.01. */
static steno_value_id after_filters(struct steno_make *m, steno_value_id x, int at, int64_t d)
{
    static const int64_t three = 3;
    const struct steno_attr a[] = {
        {.name = "kernel_shape", .kind = STENO_ATTR_INTS, .n = 1, .ints = &three},
        {.name = "strides", .kind = STENO_ATTR_INTS, .n = 1, .ints = &three}};
    char name[32];
    snprintf(name, sizeof name, "norm1d.%d", at);
    x = steno_make_channel_norm(m, steno_make_node(m, "MaxPool", 1, &x, 2, a), name, d, EPSILON);
    return steno_make_1(m, "LeakyRelu", x);
}

static steno_value_id sincnet(struct steno_make *m, steno_value_id x, struct net *n,
                              int64_t *channels)
{
    const struct steno_attr stride = {
        .name = "strides", .kind = STENO_ATTR_INTS, .n = 1, .ints = &n->stride};
    steno_value_id in[2];
    int64_t d;
    steno_make_at(m, "sincnet.");
    in[0] = steno_make_channel_norm(m, x, "wav_norm1d", 1, EPSILON);
    steno_make_at(m, "sincnet.conv1d.0.filterbank.");
    in[1] = filters(m, n, &d);
    steno_make_at(m, "sincnet.");
    x = steno_make_1(m, "Abs", steno_make_node(m, "Conv", 2, in, 1, &stride));
    x = after_filters(m, x, 0, d);
    for (int i = 1; i < 3; i++) {
        char name[32];
        struct steno_make_conv c = {.rank = 1, .in = d, .kernel = 5, .stride = 1, .bias = true};
        snprintf(name, sizeof name, "conv1d.%d", i);
        c.out = d = steno_speaker_outputs(m, name);
        x = after_filters(m, steno_make_convolve(m, x, name, &c), i, d);
    }
    *channels = d;
    return x;
}

static steno_value_id recurrent(struct steno_make *m, steno_value_id x, int64_t *d)
{
    struct steno_make_rnn r = {.cell = STENO_MAKE_LSTM, .in = *d};
    char name[32];
    r.units = steno_speaker_extent(m, "lstm.weight_hh_l0", 1);
    r.both = steno_make_has(m, "lstm.weight_hh_l0_reverse");
    for (int i = 0; i < MAX_LAYERS; i++) {
        snprintf(name, sizeof name, "lstm.weight_hh_l%d", i);
        if (m->st || (i && !steno_make_has(m, name)))
            break;
        snprintf(name, sizeof name, "_l%d", i);
        x = steno_make_recur(m, x, "lstm", name, &r, NULL, NULL);
        r.in = *d = r.both ? 2 * r.units : r.units;
    }
    return x;
}

static steno_value_id linear(struct steno_make *m, steno_value_id x, int64_t *d)
{
    for (int i = 0; i < MAX_LAYERS; i++) {
        char name[32], weight[48];
        int64_t out;
        snprintf(name, sizeof name, "linear.%d", i);
        snprintf(weight, sizeof weight, "%s.weight", name);
        if (m->st || !steno_make_has(m, weight))
            break;
        out = steno_speaker_outputs(m, name);
        x = steno_make_1(m, "LeakyRelu", steno_make_linear(m, x, name, *d, out, true));
        *d = out;
    }
    return x;
}

/* What sherpa-onnx and engine/speech/speakers read. Frames follow from the strides: three poolings
 * of three, and the taps of the filters and of two convolutions. */
static void write_meta(struct steno_make *m, const struct net *n)
{
    steno_make_meta(m, "model_type", "pyannote-segmentation-3.0");
    steno_make_meta(m, "model_author", "pyannote");
    steno_make_meta(m, "version", "1");
    steno_make_meta(m, "sample_rate", "%lld", (long long)n->rate);
    steno_make_meta(m, "window_size", "%lld", (long long)n->window);
    steno_make_meta(m, "receptive_field_size", "%lld", (long long)(74 * n->stride + n->taps));
    steno_make_meta(m, "receptive_field_shift", "%lld", (long long)(27 * n->stride));
    steno_make_meta(m, "num_speakers", "%lld", (long long)n->speakers);
    steno_make_meta(m, "powerset_max_classes", "%lld", (long long)n->together);
    steno_make_meta(m, "num_classes", "%lld", (long long)n->classes);
}

steno_status steno_speaker_write_pyannote(const struct steno_make_weights *w, const char *path,
                                          steno_err *err)
{
    struct steno_make m;
    struct net n;
    int64_t batch, d = 0;
    steno_value_id x;
    if (steno_make_begin(&m, w, 1, err))
        return m.st;
    m.asked = "PyanNet";
    n = read_net(&m);
    batch = steno_make_symbol(&m, "N");
    x = steno_make_input(&m, "x", STENO_F32, 3, (int64_t[]){batch, 1, steno_make_symbol(&m, "T")});
    x = sincnet(&m, x, &n, &d);
    *m.prefix = '\0';
    x = recurrent(&m, steno_make_transpose(&m, x, 3, (int64_t[]){2, 0, 1}), &d);
    x = linear(&m, steno_make_transpose(&m, x, 3, (int64_t[]){1, 0, 2}), &d);
    x = steno_make_linear(&m, x, "classifier", d, n.classes, true);
    x = steno_make_softmax(&m, "LogSoftmax", x, 2);
    steno_make_output(&m, x, "y", STENO_F32, 3,
                      (int64_t[]){batch, steno_make_symbol(&m, "F"), n.classes});
    write_meta(&m, &n);
    return steno_make_write(&m, path, NULL);
}
