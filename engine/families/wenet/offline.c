/* Family wenet: encoders that take whole segments, with CTC.
 *
 *     x [N, frames, 80], x_lens [N] -> log_probs [N, T, vocab], log_probs_lens [N]
 *
 * In the layout of WeNet's runtime they are the streaming encoder with a single chunk and empty
 * caches, and ctc.onnx; they take one segment at a time:
 *
 *     chunk [1, frames, 80], offset, att_cache [blocks, head, 0, 2 d_k],
 *     cnn_cache [blocks, 1, width, kernel - 1] -> output [1, T, width], r_att_cache, r_cnn_cache
 */
#include <stdlib.h>

#include "families/common/offline.h"
#include "families/common/piece_encoder.h"
#include "families/common/piece_features.h"
#include "families/common/scores.h"
#include "families/wenet/family.h"
#include "families/wenet/model.h"

#define FAMILY "wenet"
#define FULL 30.0       /* s: of a chunk; an utterance is not longer unless a stream says so */
#define SLACK 2         /* frames: how far the time of a token may differ between two chunks */
#define TRIAL_FRAMES 24 /* of 10 ms */
#define LEAST_FRAMES 7  /* feature frames that the convolutions need */

/* Of WeNet's runtime; an exporter leaves inputs out that a network does not read. */
enum input { CHUNK, OFFSET, ATTENTION, CONVOLUTION, INPUTS };
static const char *const inputs[INPUTS] = {"chunk", "offset", "att_cache", "cnn_cache"};

struct model {
    struct steno_wenet_model m;
    struct steno_offline_family offline;
    struct steno_piece_encoder encoder;
    int in[INPUTS];     /* runtime; -1: the network has no such input */
    float *convolution; /* runtime: the empty cache */
};

struct worker {
    const struct model *model;
    steno_piece_runs *runs;
    steno_session *session, *ctc; /* instead of runs: runtime */
    struct steno_piece_features features;
};

/* Of a stream. */
struct settings {
    struct steno_token_search search;
    struct steno_wenet_finals finals;
};

/* ---- steps ----------------------------------------------------------------------------------- */

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_piece_runs_close(w->runs);
    steno_session_close(w->session);
    steno_session_close(w->ctc);
    steno_piece_features_close(&w->features);
    free(w);
}

static steno_status open_sessions(struct worker *w, const struct model *m, steno_err *err)
{
    const struct steno_session_options so = {.threads = m->m.threads};
    steno_status st;
    if (!m->m.runtime)
        return steno_piece_runs_open(&w->runs, &m->encoder, m->m.threads, err);
    st = steno_session_open(&w->session, m->m.net.net, &so, err);
    return st ? st : steno_session_open(&w->ctc, m->m.ctc.net, &so, err);
}

static steno_status worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct model *m = model;
    struct worker *w = calloc(1, sizeof *w);
    steno_status st =
        w ? open_sessions(w, m, err) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    (void)max;
    if (!st)
        st = steno_piece_features_open(&w->features, m->m.front, err);
    if (st) {
        worker_close(w);
        return st;
    }
    w->model = m;
    *worker = w;
    return STENO_OK;
}

static steno_status list(const struct steno_offline_piece *p, struct settings *s)
{
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t n = 0, stable;
    steno_status st = STENO_OK;
    if (!p->partial)
        st = steno_wenet_rescore(&s->search, &s->finals, 0, p->err);
    if (st)
        return st;
    if (!p->partial && s->finals.n)
        return steno_hypothesis_list_add_all(p->out, s->finals.h, s->finals.n);
    st = steno_token_search_list(&s->search, h, p->partial ? 1 : s->search.n_best, &n, &stable);
    return st ? st : steno_hypothesis_list_add_all(p->out, h, n);
}

static steno_status compute(void *worker, struct steno_piece *p, float **x, size_t *n)
{
    struct worker *w = worker;
    steno_status st =
        steno_piece_features_compute(&w->features, p->of->pcm, p->of->n, n, p->of->err);
    *x = w->features.frames;
    return st;
}

/* Scores [n, vocab] of a piece -> hypotheses. */
static steno_status search(const struct steno_wenet_model *m, const struct steno_offline_piece *p,
                           const float *scores, size_t n)
{
    struct settings *s = p->settings;
    steno_status st = steno_scores_check(scores, n * (size_t)m->meta.vocab,
                                         m->runtime ? m->ctc.name : m->net.name, p->err);
    if (st)
        return st;
    st = steno_token_search_restart(&s->search, 0);
    if (!st)
        st = steno_token_search_push(&s->search, scores, n);
    if (st)
        return steno_fail(p->err, st, "stream: out of memory");
    st = list(p, s);
    return st == STENO_ERR_NOMEM ? steno_fail(p->err, st, "stream: out of memory") : st;
}

static steno_status search_piece(struct worker *w, const struct steno_piece *p)
{
    return search(&w->model->m, p->of, p->rows, p->n);
}

static void search_pieces(void *worker, struct steno_piece *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i].of->st = search_piece(worker, &p[i]);
}

/* ---- WeNet's runtime ------------------------------------------------------------------------- */

static steno_status set(struct worker *w, enum input i, steno_dtype type, const int64_t *dim,
                        int rank, const void *data, steno_err *err)
{
    const int at = w->model->in[i];
    return at < 0 ? STENO_OK : steno_part_set(w->session, at, type, dim, rank, data, err);
}

static steno_status run_encoder(struct worker *w, const float *x, size_t n, steno_err *err)
{
    static const int64_t zero = 0;
    static const float none = 0;
    const struct model *m = w->model;
    const struct steno_wenet_meta *t = &m->m.meta;
    const int64_t frames[] = {1, (int64_t)n, STENO_WENET_BINS},
                  attention[] = {t->blocks, t->head, 0, 2 * t->width / t->head},
                  convolution[] = {t->blocks, 1, t->width, t->kernel - 1};
    steno_status st = set(w, CHUNK, STENO_F32, frames, 3, x, err);
    if (!st)
        st = set(w, OFFSET, STENO_I64, &zero, 0, &zero, err);
    if (!st)
        st = set(w, ATTENTION, STENO_F32, attention, 4, &none, err);
    if (!st)
        st = set(w, CONVOLUTION, STENO_F32, convolution, 4, m->convolution, err);
    if (!st)
        st = steno_session_run(w->session, err);
    return st ? steno_fail_in(err, st, "%s", m->m.net.name) : STENO_OK;
}

/* The encoder's output [1, *rows, width] and the scores of CTC [1, *rows, vocab]. */
static steno_status run_both(struct worker *w, const float *x, size_t n, size_t *rows,
                             const struct steno_tensor **hidden, const struct steno_tensor **scores,
                             steno_err *err)
{
    const struct steno_wenet_model *m = &w->model->m;
    steno_status st = run_encoder(w, x, n, err);
    if (st)
        return st;
    *hidden = steno_session_get(w->session, 0);
    *rows = steno_numel(*hidden) / (size_t)m->meta.width;
    st = steno_session_set(w->ctc, 0, *hidden, err);
    if (!st)
        st = steno_session_run(w->ctc, err);
    if (st)
        return steno_fail_in(err, st, "%s", m->ctc.name);
    *scores = steno_session_get(w->ctc, 0);
    if ((*hidden)->dtype == STENO_F32 && (*scores)->dtype == STENO_F32 &&
        steno_numel(*hidden) == *rows * (size_t)m->meta.width &&
        steno_numel(*scores) == *rows * (size_t)m->meta.vocab)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %zu scores for %zu numbers of %s", m->ctc.name,
                      steno_numel(*scores), steno_numel(*hidden), m->net.name);
}

static steno_status recognize_one(struct worker *w, struct steno_offline_piece *p)
{
    const struct steno_wenet_model *m = &w->model->m;
    const struct steno_tensor *hidden, *scores;
    struct settings *s = p->settings;
    size_t n = 0, rows = 0;
    steno_status st = steno_piece_features_compute(&w->features, p->pcm, p->n, &n, p->err);
    steno_wenet_finals_next(&s->finals, 0);
    if (st || n <= (size_t)m->meta.right_context)
        return st ? st : search(m, p, NULL, 0);
    st = run_both(w, w->features.frames, n, &rows, &hidden, &scores, p->err);
    if (!st && !p->partial && steno_wenet_finals_add(&s->finals, hidden->data, rows))
        st = steno_fail(p->err, STENO_ERR_NOMEM, "stream: out of memory");
    return st ? st : search(m, p, scores->data, rows);
}

/* Zeros: a network that fails does so at load. */
static steno_status try(struct model *m, steno_err *err)
{
    float *x = calloc(TRIAL_FRAMES * STENO_WENET_BINS, sizeof *x);
    const struct steno_tensor *hidden, *scores;
    void *w = NULL;
    size_t rows;
    steno_status st = x ? worker_open(&w, m, 1, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->m.dir);
    if (!st)
        st = run_both(w, x, TRIAL_FRAMES, &rows, &hidden, &scores, err);
    worker_close(w);
    free(x);
    return st ? steno_fail_in(err, st, "%s", m->m.dir) : STENO_OK;
}

static steno_status bind_runtime(struct model *m, steno_err *err)
{
    const struct steno_wenet_meta *t = &m->m.meta;
    for (int i = 0; i < INPUTS; i++)
        m->in[i] = steno_network_find_input(m->m.net.net, inputs[i]);
    if (m->in[CHUNK] < 0 || steno_network_n_inputs(m->m.ctc.net) != 1)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected %s with an input chunk, %s with one",
                          m->m.dir, m->m.net.name, m->m.ctc.name);
    m->convolution =
        calloc((size_t)(t->blocks * t->width * (t->kernel - 1)) + 1, sizeof *m->convolution);
    return m->convolution ? try(m, err)
                          : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->m.dir);
}

/* ---- both ------------------------------------------------------------------------------------ */

static void recognize(void *worker, struct steno_offline_piece *p, size_t n)
{
    static const struct steno_piece_functions f = {compute, search_pieces};
    struct worker *w = worker;
    if (!w->model->m.runtime) {
        steno_piece_runs_recognize(w->runs, &f, worker, p, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        p[i].st = recognize_one(w, &p[i]);
}

static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    struct worker *w = worker;
    if (w->model->m.runtime)
        return steno_offline_trial_open(trial, worker, err);
    return steno_piece_trial_open(trial, w->runs, err);
}

/* ---- model and stream ------------------------------------------------------------------------ */

static bool probe(const char *dir)
{
    bool streaming;
    return steno_wenet_probe(dir, &streaming) && !streaming;
}

static void close_model(void *model)
{
    struct model *m = model;
    if (!m)
        return;
    steno_wenet_close(&m->m);
    free(m->convolution);
    free(m);
}

static void settings_free(void *settings)
{
    struct settings *s = settings;
    if (!s)
        return;
    steno_token_search_close(&s->search);
    steno_wenet_finals_free(&s->finals);
    free(s);
}

static steno_status bind(struct model *m, steno_err *err)
{
    steno_network *net = m->m.net.net;
    m->encoder = (struct steno_piece_encoder){.net = net,
                                              .name = m->m.net.name,
                                              .x = 0,
                                              .length = 1,
                                              .y = 0,
                                              .lengths = steno_network_n_outputs(net) > 1 ? 1 : -1,
                                              .ahead = -1,
                                              .bins = STENO_WENET_BINS,
                                              .dim = (size_t)m->m.meta.vocab,
                                              .least = LEAST_FRAMES,
                                              .trial_frames = TRIAL_FRAMES};
    if (steno_network_n_inputs(net) == 2 && steno_network_input(net, 0)->dtype == STENO_F32 &&
        steno_network_input(net, 1)->dtype == STENO_I64)
        return steno_piece_encoder_try(&m->encoder, m->m.threads, m->m.net.quantized, err);
    return steno_fail(err, STENO_ERR_FORMAT,
                      "%s/%s: expected inputs x [N,frames,80] f32 and x_lens [N] i64", m->m.dir,
                      m->m.net.name);
}

static steno_status open_model(void **model, const struct steno_family_open *o, steno_err *err)
{
    struct model *m = calloc(1, sizeof *m);
    const size_t hop = STENO_WENET_HOP;
    steno_status st = m ? steno_wenet_open(&m->m, o, false, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    if (!st)
        st = m->m.runtime ? bind_runtime(m, err) : bind(m, err);
    if (st) {
        close_model(m);
        return st;
    }
    m->offline = (struct steno_offline_family){.frame_samples = hop * (size_t)m->m.meta.subsampling,
                                               .slack = SLACK,
                                               .tokens = m->m.tokens,
                                               .recognize = recognize,
                                               .settings_free = settings_free};
    m->offline.cuts = steno_offline_cuts(STENO_WENET_RATE, FULL, m->offline.frame_samples);
    *model = m;
    return STENO_OK;
}

static void get_info(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    *out = steno_wenet_info(&m->m);
    steno_offline_info(&m->offline, out);
    out->chunk_seconds = STENO_OFFLINE_FIRST_PARTIAL;
    out->batches = m->encoder.batches; /* runtime: one at a time */
}

static void describe(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    steno_wenet_describe(&m->m, i, out);
    fprintf(out, "steps      whole segments of at most %.0f s, scores every %.0f ms\n", FULL,
            i->frame_seconds * 1e3);
}

static steno_status state_new(void **state, void *model, struct steno_family_stream *o,
                              steno_err *err)
{
    struct model *m = model;
    struct settings *s = calloc(1, sizeof *s);
    steno_status st = s ? steno_wenet_search(&s->search, &s->finals, &m->m, o, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (st) {
        settings_free(s);
        return st;
    }
    return steno_offline_new(state, &m->offline, s, o, err);
}

const struct steno_family steno_family_wenet = {.name = FAMILY,
                                                .layout = "model.onnx",
                                                .options = steno_wenet_options,
                                                .n_options = sizeof steno_wenet_options /
                                                             sizeof *steno_wenet_options,
                                                .probe = probe,
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
