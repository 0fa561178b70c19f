#include "speech/speakers/segmentation.h"

#include <stdlib.h>
#include <string.h>

#include "nn/network/run.h"
#include "speech/speakers/metadata.h"

#define MAX_FRAMES 100000

bool steno_segmentation_is(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    if (type)
        return !strncmp(type, "pyannote-segmentation", strlen("pyannote-segmentation"));
    return steno_onnx_head_n_inputs(h) == 1 && steno_onnx_head_n_outputs(h) == 1 &&
           steno_onnx_head_has_input(h, "input_values") && steno_onnx_head_has_output(h, "logits");
}

static steno_status read_meta(struct steno_segmentation *s, steno_err *err)
{
    long rate, window, shift, field, speakers, together, classes;
    steno_status st = steno_speakers_number(s->net, "sample_rate", 16000, 8000, 48000, &rate, err);
    if (!st)
        st = steno_speakers_number(s->net, "window_size", 10 * rate, rate, 60 * rate, &window, err);
    if (!st)
        st = steno_speakers_number(s->net, "receptive_field_shift", 270, 16, rate, &shift, err);
    if (!st)
        st = steno_speakers_number(s->net, "receptive_field_size", 991, 16, rate, &field, err);
    if (!st)
        st = steno_speakers_number(s->net, "num_speakers", 3, 1, STENO_POWERSET_SPEAKERS, &speakers,
                                   err);
    if (!st)
        st = steno_speakers_number(s->net, "powerset_max_classes", speakers < 2 ? 1 : 2, 1,
                                   speakers, &together, err);
    if (st)
        return st;
    s->rate = (int)rate;
    s->window = (size_t)window;
    s->shift = (size_t)shift;
    s->field = (size_t)field;
    s->speakers = (int)speakers;
    s->classes = steno_powerset(s->sets, s->speakers, (int)together);
    st = steno_speakers_number(s->net, "num_classes", (long)s->classes, 2, STENO_POWERSET_CLASSES,
                               &classes, err);
    if (!st && (size_t)classes != s->classes)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "metadata num_classes is %ld; %ld speakers, %ld at once, make %zu", classes,
                        speakers, together, s->classes);
    return st;
}

static steno_status run_segmentation(const struct steno_segmentation *s, steno_session *session,
                                     const float *samples, const struct steno_tensor **y,
                                     steno_err *err)
{
    struct steno_run r = steno_run_begin(session, NULL, err);
    steno_status st;
    steno_run_set(&r, s->input, STENO_F32, (const int64_t[]){1, 1, (int64_t)s->window}, 3, samples);
    st = steno_run_end(&r);
    if (st)
        return st;
    *y = steno_session_get(session, s->output);
    if ((*y)->dtype != STENO_F32 || (*y)->shape.rank != 3 || (*y)->shape.dim[0] != 1 ||
        (*y)->shape.dim[1] < 1 || (*y)->shape.dim[1] > MAX_FRAMES ||
        (*y)->shape.dim[2] != (int64_t)s->classes)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "segmentation: the network gave no scores [1,frames,%zu]", s->classes);
    return STENO_OK;
}

/* Count the frames of a window. */
static steno_status try_silence(struct steno_segmentation *s, steno_err *err)
{
    const struct steno_tensor *y;
    steno_session *session = NULL;
    float *silence = calloc(s->window, sizeof *silence);
    steno_status st = silence ? steno_session_open(&session, s->net, NULL, err)
                              : steno_fail(err, STENO_ERR_NOMEM, "segmentation: out of memory");
    if (!st)
        st = run_segmentation(s, session, silence, &y, err);
    if (!st)
        s->frames = (size_t)y->shape.dim[1];
    if (!st && s->frames * s->shift > s->window + s->field)
        st =
            steno_fail(err, STENO_ERR_FORMAT,
                       "segmentation: %zu frames, %zu samples apart, are more than a window of %zu",
                       s->frames, s->shift, s->window);
    steno_session_close(session);
    free(silence);
    return st;
}

steno_status steno_segmentation_open(struct steno_segmentation *s, const char *path, steno_err *err)
{
    steno_status st =
        steno_network_open(&s->net, path, &(struct steno_network_options){.opt_level = -1}, err);
    if (st)
        return st;
    if (steno_network_n_inputs(s->net) != 1 || steno_network_n_outputs(s->net) != 1)
        st = steno_fail(err, STENO_ERR_FORMAT, "one input and one output expected");
    if (!st)
        st = read_meta(s, err);
    if (!st)
        st = try_silence(s, err);
    if (st) {
        steno_segmentation_close(s);
        return steno_fail_in(err, st, "%.200s", path);
    }
    return STENO_OK;
}

void steno_segmentation_close(struct steno_segmentation *s)
{
    steno_network_close(s->net);
    s->net = NULL;
}

steno_status steno_segmentation_run(const struct steno_segmentation *s, steno_session *session,
                                    const float *samples, uint8_t *sets, steno_err *err)
{
    const struct steno_tensor *y;
    steno_status st = run_segmentation(s, session, samples, &y, err);
    if (st)
        return st;
    if ((size_t)y->shape.dim[1] != s->frames)
        return steno_fail(err, STENO_ERR_FORMAT, "segmentation: %lld frames, expected %zu",
                          (long long)y->shape.dim[1], s->frames);
    steno_powerset_decode(s->sets, s->classes, y->data, s->frames, sets);
    return STENO_OK;
}

size_t steno_segmentation_samples(const struct steno_segmentation *s, const float *window,
                                  size_t samples, const uint8_t *mask, size_t frames, size_t first,
                                  float *out)
{
    size_t n = 0;
    for (size_t f = 0; f < frames; f++) {
        const size_t a = (first + f) * s->shift + (s->field - s->shift) / 2;
        const size_t b = a + s->shift < samples ? a + s->shift : samples;
        if (!mask[f] || a >= b)
            continue;
        memcpy(out + n, window + a, (b - a) * sizeof *out);
        n += b - a;
    }
    return n;
}
