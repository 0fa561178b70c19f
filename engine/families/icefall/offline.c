/* Family icefall_offline: models that take a piece of audio at once. */
#include <stdlib.h>

#include "families/common/piece_features.h"
#include "families/icefall/family.h"
#include "families/icefall/internal.h"

#define FAMILY "icefall_offline"
/* s: of a chunk. Zipformer's tables of positions stop at 40 s in its recipe (2,000 frames of 50 a
 * second), and its attention takes memory by the square. */
#define LONGEST 30.0
#define SLACK 2 /* frames: how far the time of a token may differ between two chunks */

static bool probe(const char *dir)
{
    bool streaming;
    return steno_icefall_probe(dir, &streaming) && !streaming;
}

static void get_info(const void *model, struct steno_family_info *out)
{
    const struct steno_icefall_model *m = model;
    steno_icefall_info(m, out);
    steno_offline_info(&m->offline, out);
    out->chunk_seconds = STENO_OFFLINE_FIRST_PARTIAL;
    out->batches = true;
}

/* ---- a stream -------------------------------------------------------------------------------- */

static void settings_free(void *settings)
{
    struct steno_icefall_search *s = settings;
    if (!s)
        return;
    steno_icefall_search_close(s);
    free(s);
}

static steno_status state_new(void **state, void *model, struct steno_family_stream *o,
                              steno_err *err)
{
    struct steno_icefall_model *m = model;
    struct steno_icefall_search *s = calloc(1, sizeof *s);
    steno_status st = s ? steno_icefall_search_open(s, m, o, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (st) {
        settings_free(s);
        return st;
    }
    return steno_offline_new(state, &m->offline, s, o, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct worker {
    const struct steno_icefall_model *model;
    steno_session *encoder;
    steno_icefall_scorer *scorer; /* transducer */
    struct steno_piece_features features;
};

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_session_close(w->encoder);
    steno_icefall_scorer_close(w->scorer);
    steno_piece_features_close(&w->features);
    free(w);
}

static steno_status worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct steno_icefall_model *m = model;
    const struct steno_session_options o = {.threads = m->threads};
    struct worker *w = calloc(1, sizeof *w);
    steno_status st;
    (void)max;
    if (!w)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    w->model = m;
    st = steno_session_open(&w->encoder, m->encoder_net, &o, err);
    if (!st)
        st = steno_piece_features_open(&w->features, m->front, err);
    if (!st && !m->ctc)
        st = steno_icefall_scorer_open(&w->scorer, &m->nets, m->threads, err);
    if (st)
        worker_close(w);
    else
        *worker = w;
    return st;
}

static steno_status run_encoder(struct worker *w, size_t n, steno_err *err)
{
    const struct steno_icefall_model *m = w->model;
    int64_t length = (int64_t)n;
    const struct steno_tensor x = {.dtype = STENO_F32,
                                   .shape = {.rank = 3, .dim = {1, length, m->bins}},
                                   .data = w->features.frames};
    const struct steno_tensor lens = {
        .dtype = STENO_I64, .shape = {.rank = 1, .dim = {1}}, .data = &length};
    steno_status st = steno_session_set(w->encoder, m->x, &x, err);
    if (!st)
        st = steno_session_set(w->encoder, m->x_lens, &lens, err);
    if (!st)
        st = steno_session_run(w->encoder, err);
    return st ? steno_fail_in(err, st, "%s", m->files.encoder) : STENO_OK;
}

/* The encoder's output: *y [*n, width]. */
static steno_status take_frames(struct worker *w, const float **y, size_t *n, steno_err *err)
{
    const struct steno_icefall_model *m = w->model;
    const struct steno_tensor *out = steno_session_get(w->encoder, m->out);
    const struct steno_tensor *lens = steno_session_get(w->encoder, m->out_lens);
    char shape[96];
    if (out->dtype != STENO_F32 || out->shape.rank != 3 || out->shape.dim[0] != 1 ||
        out->shape.dim[2] != m->width || lens->dtype != STENO_I64 || steno_numel(lens) != 1 ||
        *(const int64_t *)lens->data < 0 || *(const int64_t *)lens->data > out->shape.dim[1])
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "%s: an output of %s, expected f32 [1,frames,%d] and the number of frames",
            m->files.encoder, steno_shape_str(&out->shape, shape, sizeof shape), (int)m->width);
    *y = out->data;
    *n = (size_t) * (const int64_t *)lens->data;
    return STENO_OK;
}

static steno_status search(struct worker *w, struct steno_icefall_search *s, const float *y,
                           size_t n, steno_err *err)
{
    steno_status st = steno_icefall_search_restart(s, 0);
    if (!st && !w->scorer)
        st = steno_ctc_search_push(&s->ctc, y, n);
    if (st)
        return steno_fail(err, st, "stream: out of memory");
    for (size_t t = 0; t < n && w->scorer && !st; t++) {
        const float *frame = y + t * (size_t)w->model->width;
        steno_icefall_search_frame(w->scorer, &s, &frame, 1, &st, &err);
    }
    if (w->scorer)
        steno_stateless_finish(s->tokens);
    return st;
}

static steno_status list(const struct steno_offline_piece *p)
{
    struct steno_icefall_search *s = p->settings;
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t n, stable;
    steno_status st =
        steno_icefall_search_list(s, h, p->partial ? 1 : (size_t)s->n_best, &n, &stable);
    if (!st)
        st = steno_hypothesis_list_add_all(p->out, h, n);
    return st ? steno_fail(p->err, st, "stream: out of memory") : STENO_OK;
}

/* Pieces shorter than LEAST feature frames give the convolutions no frame. */
static steno_status recognize(void *worker, struct steno_offline_piece *p)
{
    enum { LEAST = 9 };
    struct worker *w = worker;
    const float *y = NULL;
    size_t frames, n = 0;
    steno_status st = steno_piece_features_compute(&w->features, p->pcm, p->n, &frames, p->err);
    if (!st && frames >= LEAST)
        st = run_encoder(w, frames, p->err);
    if (!st && frames >= LEAST)
        st = take_frames(w, &y, &n, p->err);
    if (!st)
        st = search(w, p->settings, y, n, p->err);
    return st ? st : list(p);
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status bind(struct steno_icefall_model *m, steno_err *err)
{
    steno_network *net = m->encoder_net;
    m->x = steno_network_find_input(net, "x");
    m->x_lens = steno_network_find_input(net, "x_lens");
    m->out = steno_network_find_output(net, m->ctc ? "log_probs" : "encoder_out");
    m->out_lens = steno_network_find_output(net, m->ctc ? "log_probs_len" : "encoder_out_lens");
    if (m->x < 0 || m->x_lens < 0 || m->out < 0 || m->out_lens < 0 ||
        steno_network_n_inputs(net) != 2)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected inputs x and x_lens, and outputs %s and their number",
                          m->files.encoder, m->ctc ? "log_probs" : "encoder_out");
    return STENO_OK;
}

/* A second of silence, so that a network that fails does so at load. */
static steno_status try_piece(struct steno_icefall_model *m, steno_err *err)
{
    void *w = NULL;
    float *silence = calloc(STENO_ICEFALL_RATE, sizeof *silence);
    struct steno_icefall_search s = {0};
    struct steno_family_stream o = {0};
    struct steno_hypothesis_list out;
    steno_status st = silence ? worker_open(&w, m, 1, err)
                              : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    steno_hypothesis_list_init(&out);
    if (!st)
        st = steno_icefall_search_open(&s, m, &o, err);
    if (!st)
        st = recognize(
            w,
            &(struct steno_offline_piece){
                .settings = &s, .pcm = silence, .n = STENO_ICEFALL_RATE, .out = &out, .err = err});
    steno_hypothesis_list_free(&out);
    steno_icefall_search_close(&s);
    worker_close(w);
    free(silence);
    return st;
}

static steno_status open_model(void **model, const struct steno_family_open *o, steno_err *err)
{
    struct steno_icefall_model *m = NULL;
    steno_status st = steno_icefall_open(&m, o, err);
    size_t frame;
    if (!st)
        st = bind(m, err);
    if (!st)
        st = try_piece(m, err);
    if (st) {
        steno_icefall_close(m);
        return st;
    }
    frame = m->hop * STENO_ICEFALL_SUBSAMPLING;
    m->offline = (struct steno_offline_family){
        .cuts = steno_offline_cuts(STENO_ICEFALL_RATE, LONGEST, frame),
        .frame_samples = frame,
        .slack = SLACK,
        .tokens = m->tokens,
        .recognize = recognize,
        .settings_free = settings_free};
    *model = m;
    return STENO_OK;
}

static const struct steno_option_info options[] = {STENO_ICEFALL_OPTIONS(FAMILY)};

const struct steno_family steno_family_icefall_offline = {
    .name = FAMILY,
    .layout = "encoder, decoder and joiner or a Zipformer CTC .onnx",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .probe = probe,
    .open = open_model,
    .close = steno_icefall_close,
    .info = get_info,
    .describe = steno_icefall_describe,
    .state_new = state_new,
    STENO_OFFLINE_FUNCTIONS,
    .worker_open = worker_open,
    .worker_close = worker_close};
