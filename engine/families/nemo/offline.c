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
#define TRIAL_FRAMES 24 /* of 10 ms */
#define SLACK 2         /* frames: how far the time of a token may differ between two chunks */

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
    out->batches = m->pieces.batches;
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
    steno_token_search_close(&s->tokens);
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
    steno_piece_runs *runs;
    steno_nemo_joint *joint;
    steno_tdt_work *work;
    steno_canary_decoder *canary;
    struct steno_piece_features features;
};

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_piece_runs_close(w->runs);
    steno_nemo_joint_close(w->joint);
    steno_tdt_work_close(w->work);
    steno_canary_decoder_close(w->canary);
    steno_piece_features_close(&w->features);
    free(w);
}

static steno_status open_worker_parts(struct worker *w, steno_err *err)
{
    const struct steno_nemo_model *m = w->model;
    steno_status st = steno_piece_runs_open(&w->runs, &m->pieces, m->threads, err);
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

/* Compute the features of the piece: *x [*n, bins]. */
static steno_status make_features(struct worker *w, const struct steno_offline_piece *p, float **x,
                                  size_t *n)
{
    const struct steno_nemo_model *m = w->model;
    steno_status st = steno_piece_features_compute(&w->features, p->pcm, p->n, n, p->err);
    if (!st && m->conf.per_feature && *n)
        steno_cmvn_utterance(w->features.frames, *n, (size_t)m->conf.bins, &m->norm);
    *x = w->features.frames;
    return st;
}

/* ---- transducers and CTC --------------------------------------------------------------------- */

static steno_status compute(void *worker, struct steno_piece *p, float **x, size_t *n)
{
    return make_features(worker, p->of, x, n);
}

/* Search pieces of a transducer together. */
static void search_tokens(struct worker *w, struct steno_piece *p, size_t n)
{
    const struct steno_transducer_nets nets = steno_nemo_joint_nets(w->joint);
    steno_tdt *t[STENO_BATCH_MAX];
    struct steno_tdt_frames f[STENO_BATCH_MAX];
    steno_err why = {0};
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++) {
        struct steno_nemo_search *s = p[i].of->settings;
        st = steno_token_search_restart(&s->tokens, 0);
        t[i] = s->tokens.tdt;
        f[i] = (struct steno_tdt_frames){p[i].rows, p[i].n, w->model->dim};
    }
    if (!st)
        st = steno_tdt_push(t, f, n, &nets, w->work, &why);
    for (size_t i = 0; i < n; i++) {
        steno_token_search_finish(&((struct steno_nemo_search *)p[i].of->settings)->tokens);
        p[i].of->st = st;
        if (st && p[i].of->err)
            *p[i].of->err = why;
    }
}

static steno_status search_scores(const struct worker *w, const struct steno_piece *p)
{
    struct steno_nemo_search *s = p->of->settings;
    steno_status st =
        steno_scores_check(p->rows, p->n * w->model->dim, w->model->conf.encoder, p->of->err);
    if (st)
        return st;
    st = steno_token_search_restart(&s->tokens, 0);
    if (!st)
        st = steno_token_search_push(&s->tokens, p->rows, p->n);
    return st ? steno_fail(p->of->err, st, "stream: out of memory") : STENO_OK;
}

static steno_status list(const struct steno_offline_piece *p)
{
    struct steno_nemo_search *s = p->settings;
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t n, stable;
    steno_status st =
        steno_token_search_list(&s->tokens, h, p->partial ? 1 : s->tokens.n_best, &n, &stable);
    if (!st)
        st = steno_hypothesis_list_add_all(p->out, h, n);
    return st ? steno_fail(p->err, st, "stream: out of memory") : STENO_OK;
}

/* Canary: at most 30 tokens for each second of encoder frames, and one. */
static steno_status decode(struct worker *w, const struct steno_piece *p)
{
    const struct steno_nemo_search *s = p->of->settings;
    const double seconds = (double)(p->n * steno_nemo_frame(w->model)) / STENO_NEMO_RATE;
    const struct steno_span *spans = NULL;
    size_t n = 0;
    double score = 0;
    steno_status st;
    if (!p->n)
        return STENO_OK;
    st = steno_canary_decode(w->canary, p->rows, p->n, w->model->dim, s->source, s->target,
                             (size_t)(seconds * TOKENS_PER_SECOND) + 1, &spans, &n, &score,
                             p->of->err);
    p->of->language = s->language;
    p->of->language_probability = 1;
    if (!st && steno_hypothesis_list_add(p->of->out, spans, n, NULL, 0, score))
        st = steno_fail(p->of->err, STENO_ERR_NOMEM, "stream: out of memory");
    return st;
}

static void search(void *worker, struct steno_piece *p, size_t n)
{
    struct worker *w = worker;
    if (w->joint)
        search_tokens(w, p, n);
    for (size_t i = 0; i < n; i++) {
        if (w->canary) {
            p[i].of->st = decode(w, &p[i]);
            continue;
        }
        if (!w->joint)
            p[i].of->st = search_scores(w, &p[i]);
        if (!p[i].of->st)
            p[i].of->st = list(p[i].of);
    }
}

/* ---- a model --------------------------------------------------------------------------------- */

static void recognize(void *worker, struct steno_offline_piece *p, size_t n)
{
    static const struct steno_piece_functions f = {compute, search};
    steno_piece_runs_recognize(((struct worker *)worker)->runs, &f, worker, p, n);
}

static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    return steno_piece_trial_open(trial, ((struct worker *)worker)->runs, err);
}

static steno_status open_pieces(struct steno_nemo_model *m, steno_err *err)
{
    const bool canary = m->conf.kind == STENO_NEMO_CANARY;
    m->pieces = (struct steno_piece_encoder){.net = m->encoder,
                                             .name = m->conf.encoder,
                                             .x = m->audio,
                                             .length = m->length,
                                             .y = m->scores,
                                             .lengths = m->lengths,
                                             .ahead = -1,
                                             .bins = (size_t)m->conf.bins,
                                             .dim = m->dim,
                                             .bins_first = !canary || m->conf.onnx_asr,
                                             .dim_first = steno_nemo_is_transducer(m),
                                             .least = 1,
                                             .trial_frames = TRIAL_FRAMES};
    return steno_piece_encoder_try(&m->pieces, m->threads, m->conf.quantized, err);
}

static steno_status open_model(void **model, const struct steno_family_open *o, steno_err *err)
{
    struct steno_nemo_model *m = NULL;
    steno_status st = steno_nemo_open(&m, o, false, err);
    if (st)
        return st;
    st = open_pieces(m, err);
    if (st) {
        steno_nemo_close(m);
        return st;
    }
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
                                               .languages = steno_nemo_languages,
                                               .open = open_model,
                                               .close = close_model,
                                               .info = get_info,
                                               .describe = describe,
                                               .state_new = state_new,
                                               STENO_OFFLINE_FUNCTIONS,
                                               .trial_open = trial_open,
                                               .trial_run = steno_piece_trial_run,
                                               .trial_close = steno_piece_trial_close,
                                               .worker_open = worker_open,
                                               .worker_close = worker_close};
