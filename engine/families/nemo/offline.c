/* Family nemo: encoders that take whole segments. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "families/common/piece_features.h"
#include "families/common/scores.h"
#include "families/nemo/family.h"
#include "families/nemo/internal.h"

#define FAMILY "nemo"
#define LONGEST 30.0 /* s: of a chunk; an utterance is not longer unless a stream says so */
#define TOKENS_PER_SECOND 30.0
#define SLACK 2 /* frames: how far the time of a token may differ between two chunks */

static bool probe(const char *dir)
{
    bool streaming;
    return steno_nemo_conf_probe(dir, &streaming) && !streaming;
}

static void close_model(void *model)
{
    steno_nemo_close(model);
}

static void get_info(const void *model, struct steno_family_info *out)
{
    const struct steno_nemo_model *m = model;
    steno_nemo_info(m, out);
    steno_offline_info(&m->offline, out);
    out->chunk_seconds = STENO_OFFLINE_FIRST_PARTIAL;
    out->batches = true;
}

static void describe(const void *model, const struct steno_model_info *i, FILE *out)
{
    steno_nemo_describe(model, i, out);
}

/* ---- a stream -------------------------------------------------------------------------------- */

static void settings_free(void *settings)
{
    struct steno_nemo_search *s = settings;
    if (!s)
        return;
    steno_nemo_search_close(s);
    free(s);
}

static steno_status state_new(void **state, void *model, struct steno_family_stream *o,
                              steno_err *err)
{
    struct steno_nemo_model *m = model;
    struct steno_nemo_search *s = calloc(1, sizeof *s);
    steno_status st = s ? steno_nemo_search_open(s, m, o, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (st) {
        settings_free(s);
        return st;
    }
    return steno_offline_new(state, &m->offline, s, o, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct worker {
    const struct steno_nemo_model *model;
    steno_session *encoder;
    steno_nemo_joint *joint;
    steno_tdt_work *work;
    steno_canary_decoder *canary;
    struct steno_piece_features features;
    float *x; /* [bins, n] the same transposed */
    size_t cap_x;
    float *rows; /* [n, dim] of the encoder */
    size_t cap_rows;
};

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_session_close(w->encoder);
    steno_nemo_joint_close(w->joint);
    steno_tdt_work_close(w->work);
    steno_canary_decoder_close(w->canary);
    steno_piece_features_close(&w->features);
    steno_aligned_free(w->x);
    steno_aligned_free(w->rows);
    free(w);
}

static steno_status open_worker_parts(struct worker *w, steno_err *err)
{
    const struct steno_nemo_model *m = w->model;
    const struct steno_session_options so = {.threads = m->threads};
    steno_status st = steno_session_open(&w->encoder, m->encoder, &so, err);
    if (!st)
        st = steno_piece_features_open(&w->features, m->front, err);
    if (!st && steno_nemo_is_transducer(m))
        st = steno_nemo_joint_open(&w->joint, &m->transducer, m->threads, err);
    if (!st && steno_nemo_is_transducer(m))
        st = steno_tdt_work_open(&w->work, m->transducer.outputs, err);
    if (!st && m->conf.kind == STENO_NEMO_CANARY)
        st = steno_canary_decoder_open(&w->canary, &m->canary, m->threads, err);
    return st;
}

static steno_status worker_open(void **worker, void *model, int max, steno_err *err)
{
    struct worker *w = calloc(1, sizeof *w);
    steno_status st = w ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    (void)max;
    if (st)
        return st;
    w->model = model;
    st = open_worker_parts(w, err);
    if (st)
        worker_close(w);
    else
        *worker = w;
    return st;
}

/* y [columns, rows] = x [rows, columns] transposed. */
static void transpose(const float *x, size_t rows, size_t columns, float *y)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            y[k * rows + i] = x[i * columns + k];
}

/* Compute the features of the piece: *x [bins, *n]; for Canary [*n, bins]. */
static steno_status make_features(struct worker *w, const struct steno_offline_piece *p, float **x,
                                  size_t *n)
{
    const struct steno_nemo_model *m = w->model;
    const size_t bins = (size_t)m->conf.bins;
    steno_status st = steno_piece_features_compute(&w->features, p->pcm, p->n, n, p->err);
    if (st)
        return st;
    if (m->conf.per_feature && *n)
        steno_cmvn_utterance(w->features.frames, *n, bins, &m->norm);
    *x = w->features.frames;
    if (m->conf.kind == STENO_NEMO_CANARY)
        return STENO_OK;
    if (!steno_floats_reserve(&w->x, &w->cap_x, *n * bins))
        return steno_fail(p->err, STENO_ERR_NOMEM, "stream: out of memory");
    transpose(w->features.frames, *n, bins, w->x);
    *x = w->x;
    return STENO_OK;
}

static steno_status run_encoder(struct worker *w, float *features, size_t n, steno_err *err)
{
    const struct steno_nemo_model *m = w->model;
    const steno_dtype type = steno_network_input(m->encoder, m->length)->dtype;
    int64_t length = (int64_t)n;
    int32_t short_length = (int32_t)n;
    const bool canary = m->conf.kind == STENO_NEMO_CANARY;
    const struct steno_tensor x = {
        .dtype = STENO_F32,
        .shape = {.rank = 3,
                  .dim = {1, canary ? length : m->conf.bins, canary ? m->conf.bins : length}},
        .data = features};
    const struct steno_tensor l = {.dtype = type,
                                   .shape = {.rank = 1, .dim = {1}},
                                   .data =
                                       type == STENO_I64 ? (void *)&length : (void *)&short_length};
    steno_status st = steno_session_set(w->encoder, m->audio, &x, err);
    if (!st)
        st = steno_session_set(w->encoder, m->length, &l, err);
    if (!st)
        st = steno_session_run(w->encoder, err);
    return st ? steno_fail_in(err, st, "%s", m->conf.encoder) : STENO_OK;
}

/* Take the encoder's output: *rows [*n, dim]. A transducer's has the frames last. */
static steno_status take_rows(struct worker *w, const float **rows, size_t *n, steno_err *err)
{
    const struct steno_nemo_model *m = w->model;
    const struct steno_tensor *y = steno_session_get(w->encoder, m->scores), *l;
    const int frames_at = steno_nemo_is_transducer(m) ? 2 : 1;
    size_t frames;
    char shape[96];
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[0] != 1 ||
        (size_t)y->shape.dim[3 - frames_at] != m->dim)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: an output of %s, expected frames of %zu",
                          m->conf.encoder, steno_shape_str(&y->shape, shape, sizeof shape), m->dim);
    frames = (size_t)y->shape.dim[frames_at];
    *n = frames;
    if (m->lengths >= 0) {
        l = steno_session_get(w->encoder, m->lengths);
        if (l->dtype == STENO_I64 && steno_numel(l) == 1 && *(const int64_t *)l->data >= 0 &&
            (size_t) * (const int64_t *)l->data < frames)
            *n = (size_t) * (const int64_t *)l->data;
    }
    *rows = y->data;
    if (frames_at == 1)
        return steno_scores_check(*rows, *n * m->dim, m->conf.encoder, err);
    if (!steno_floats_reserve(&w->rows, &w->cap_rows, frames * m->dim))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    transpose(y->data, m->dim, frames, w->rows);
    *rows = w->rows;
    return STENO_OK;
}

static steno_status search(struct worker *w, struct steno_nemo_search *s, const float *rows,
                           size_t n, steno_err *err)
{
    const struct steno_tdt_frames f = {rows, n, w->model->dim};
    struct steno_transducer_nets nets;
    steno_status st;
    steno_nemo_search_restart(s);
    if (!n)
        return STENO_OK;
    if (s->tdt) {
        nets = steno_nemo_joint_nets(w->joint);
        return steno_tdt_push(&s->tdt, &f, 1, &nets, w->work, err);
    }
    st = steno_ctc_search_push(&s->ctc, rows, n);
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

static steno_status list(const struct steno_offline_piece *p)
{
    struct steno_nemo_search *s = p->settings;
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t n, stable;
    steno_status st = steno_nemo_search_list(s, h, p->partial ? 1 : s->n_best, &n, &stable);
    if (!st)
        st = steno_hypothesis_list_add_all(p->out, h, n);
    return st ? steno_fail(p->err, st, "stream: out of memory") : STENO_OK;
}

/* Canary: at most 30 tokens for each second of encoder frames, and one. */
static steno_status decode(struct worker *w, struct steno_offline_piece *p)
{
    const struct steno_nemo_search *s = p->settings;
    const struct steno_tensor *states = steno_session_get(w->encoder, 0),
                              *mask = steno_session_get(w->encoder, 2);
    const size_t frames = states->shape.rank == 3 ? (size_t)states->shape.dim[1] : 0;
    const double seconds = (double)(frames * steno_nemo_frame(w->model)) / STENO_NEMO_RATE;
    const struct steno_span *spans = NULL;
    size_t n = 0;
    double score = 0;
    steno_status st;
    if (states->dtype != STENO_F32 || mask->dtype != STENO_BOOL || steno_numel(mask) != frames)
        return steno_fail(p->err, STENO_ERR_FORMAT,
                          "%s: expected enc_states [1,T,D] f32 and enc_mask [1,T] bool",
                          w->model->conf.encoder);
    st = steno_canary_decode(w->canary, states, mask, s->source, s->target,
                             (size_t)(seconds * TOKENS_PER_SECOND) + 1, frames, &spans, &n, &score,
                             p->err);
    p->language = s->language;
    p->language_probability = 1;
    if (!st && steno_hypothesis_list_add(p->out, spans, n, NULL, 0, score))
        st = steno_fail(p->err, STENO_ERR_NOMEM, "stream: out of memory");
    return st;
}

static steno_status recognize(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    const float *rows = NULL;
    float *x = NULL;
    size_t frames, n = 0;
    steno_status st = make_features(w, p, &x, &frames);
    if (!st && frames)
        st = run_encoder(w, x, frames, p->err);
    if (w->canary)
        return st || !frames ? st : decode(w, p);
    if (!st && frames)
        st = take_rows(w, &rows, &n, p->err);
    if (!st)
        st = search(w, p->settings, rows, n, p->err);
    return st ? st : list(p);
}

static steno_status open_model(void **model, const struct steno_family_open *o, steno_err *err)
{
    struct steno_nemo_model *m = NULL;
    steno_status st = steno_nemo_open(&m, o, false, err);
    if (st)
        return st;
    m->offline = (struct steno_offline_family){
        .cuts = steno_offline_cuts(STENO_NEMO_RATE, fmin(LONGEST, m->limit), steno_nemo_frame(m)),
        .frame_samples = steno_nemo_frame(m),
        .slack = SLACK,
        .tokens = m->tokens,
        .recognize = recognize,
        .settings_free = settings_free};
    *model = m;
    return STENO_OK;
}

static const struct steno_option_info options[] = {
    STENO_NEMO_OPTIONS(FAMILY),
    {FAMILY, "target_language", STENO_OPTION_CHOICE, STENO_OPTION_OF_STREAM, 0, 0,
     "same|en|de|es|fr", "same", "Canary: language of the text; same: as spoken"}};

const struct steno_family steno_family_nemo = {.name = FAMILY,
                                               .layout = "encoder.onnx",
                                               .options = options,
                                               .n_options = sizeof options / sizeof *options,
                                               .probe = probe,
                                               .open = open_model,
                                               .close = close_model,
                                               .info = get_info,
                                               .describe = describe,
                                               .state_new = state_new,
                                               STENO_OFFLINE_FUNCTIONS,
                                               .worker_open = worker_open,
                                               .worker_close = worker_close};
