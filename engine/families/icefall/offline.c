/* Family icefall_offline: models that take a piece of audio at once. */
#include <stdlib.h>

#include "families/common/piece_features.h"
#include "families/icefall/family.h"
#include "families/icefall/internal.h"

#define FAMILY "icefall_offline"
/* s: of a chunk. Zipformer's tables of positions stop at 40 s in its recipe (2,000 frames of 50 a
 * second), and its attention takes memory by the square. */
#define LONGEST 30.0
#define LEAST 9         /* feature frames: fewer give the convolutions no frame */
#define TRIAL_FRAMES 24 /* of 10 ms */
#define SLACK 2         /* frames: how far the time of a token may differ between two chunks */

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
    out->batches = m->pieces.batches;
}

/* ---- a stream -------------------------------------------------------------------------------- */

static void settings_free(void *settings)
{
    struct steno_token_search *s = settings;
    if (!s)
        return;
    steno_token_search_close(s);
    free(s);
}

static steno_status state_new(void **state, void *model, struct steno_family_stream *o,
                              steno_err *err)
{
    struct steno_icefall_model *m = model;
    struct steno_token_search *s = calloc(1, sizeof *s);
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
    steno_piece_runs *runs;
    steno_icefall_scorer *scorer; /* transducer */
    struct steno_piece_features features;
};

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_piece_runs_close(w->runs);
    steno_icefall_scorer_close(w->scorer);
    steno_piece_features_close(&w->features);
    free(w);
}

static steno_status worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct steno_icefall_model *m = model;
    struct worker *w = calloc(1, sizeof *w);
    steno_status st;
    (void)max;
    if (!w)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    w->model = m;
    st = steno_piece_runs_open(&w->runs, &m->pieces, m->threads, err);
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

/* Search the pieces of a transducer together: those that still have a frame share a run of the
 * networks. */
static void search_tokens(struct worker *w, struct steno_piece *p, size_t n)
{
    const size_t width = (size_t)w->model->width;
    struct steno_token_search *s[STENO_BATCH_MAX];
    const float *frame[STENO_BATCH_MAX];
    steno_status st[STENO_BATCH_MAX];
    steno_err *err[STENO_BATCH_MAX];
    size_t of[STENO_BATCH_MAX], k = 1;
    for (size_t t = 0; k; t++) {
        k = 0;
        for (size_t i = 0; i < n; i++) {
            if (p[i].of->st || t >= p[i].n)
                continue;
            s[k] = p[i].of->settings;
            frame[k] = p[i].rows + t * width;
            st[k] = STENO_OK;
            err[k] = p[i].of->err;
            of[k++] = i;
        }
        if (k)
            steno_icefall_search_frame(w->model, w->scorer, s, frame, k, st, err);
        for (size_t i = 0; i < k; i++)
            p[of[i]].of->st = st[i];
    }
    for (size_t i = 0; i < n; i++)
        if (!p[i].of->st)
            steno_token_search_finish(p[i].of->settings);
}

static steno_status begin(struct worker *w, const struct steno_piece *p)
{
    struct steno_token_search *s = p->of->settings;
    steno_status st = steno_token_search_restart(s, 0);
    if (!st && !w->scorer)
        st = steno_token_search_push(s, p->rows, p->n);
    return st ? steno_fail(p->of->err, st, "stream: out of memory") : STENO_OK;
}

static steno_status list(const struct steno_offline_piece *p)
{
    struct steno_token_search *s = p->settings;
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t n, stable;
    steno_status st = steno_token_search_list(s, h, p->partial ? 1 : s->n_best, &n, &stable);
    if (!st)
        st = steno_hypothesis_list_add_all(p->out, h, n);
    return st ? steno_fail(p->err, st, "stream: out of memory") : STENO_OK;
}

static steno_status compute(void *worker, struct steno_piece *p, float **x, size_t *n)
{
    struct worker *w = worker;
    steno_status st =
        steno_piece_features_compute(&w->features, p->of->pcm, p->of->n, n, p->of->err);
    *x = w->features.frames;
    return st;
}

static void search(void *worker, struct steno_piece *p, size_t n)
{
    struct worker *w = worker;
    for (size_t i = 0; i < n; i++)
        p[i].of->st = begin(w, &p[i]);
    if (w->scorer)
        search_tokens(w, p, n);
    for (size_t i = 0; i < n; i++)
        if (!p[i].of->st)
            p[i].of->st = list(p[i].of);
}

static void recognize(void *worker, struct steno_offline_piece *p, size_t n)
{
    static const struct steno_piece_functions f = {compute, search};
    steno_piece_runs_recognize(((struct worker *)worker)->runs, &f, worker, p, n);
}

static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    return steno_piece_trial_open(trial, ((struct worker *)worker)->runs, err);
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
    m->pieces = (struct steno_piece_encoder){.net = net,
                                             .name = m->files.encoder,
                                             .x = m->x,
                                             .length = m->x_lens,
                                             .y = m->out,
                                             .lengths = m->out_lens,
                                             .ahead = -1,
                                             .bins = (size_t)m->bins,
                                             .dim = (size_t)m->width,
                                             .least = LEAST,
                                             .trial_frames = TRIAL_FRAMES};
    return steno_piece_encoder_try(&m->pieces, m->threads, m->files.quantized, err);
}

/* A second of silence, so that a network that fails does so at load. */
static steno_status try_piece(struct steno_icefall_model *m, steno_err *err)
{
    void *w = NULL;
    float *silence = calloc(STENO_ICEFALL_RATE, sizeof *silence);
    struct steno_token_search s = {0};
    struct steno_family_stream o = {0};
    struct steno_hypothesis_list out;
    steno_status st = silence ? worker_open(&w, m, 1, err)
                              : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    steno_hypothesis_list_init(&out);
    if (!st)
        st = steno_icefall_search_open(&s, m, &o, err);
    if (!st) {
        struct steno_offline_piece p = {
            .settings = &s, .pcm = silence, .n = STENO_ICEFALL_RATE, .out = &out, .err = err};
        recognize(w, &p, 1);
        st = p.st;
    }
    steno_hypothesis_list_free(&out);
    steno_token_search_close(&s);
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

static const struct steno_option_info options[] = {STENO_SEARCH_OPTIONS(FAMILY)};

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
    .trial_open = trial_open,
    .trial_run = steno_piece_trial_run,
    .trial_close = steno_piece_trial_close,
    .worker_open = worker_open,
    .worker_close = worker_close};
