/* Family wenet: encoders that take whole segments, with CTC.
 *
 *     x [N, frames, 80], x_lens [N] -> log_probs [N, T, vocab], log_probs_lens [N]
 */
#include <stdlib.h>

#include "families/common/offline.h"
#include "families/common/piece_features.h"
#include "families/common/scores.h"
#include "families/wenet/family.h"
#include "families/wenet/model.h"

#define FAMILY "wenet"
#define FULL 30.0      /* s: of a chunk; an utterance is not longer unless a stream says so */
#define SLACK 2        /* frames: how far the time of a token may differ between two chunks */
#define LEAST_FRAMES 7 /* feature frames that the convolutions need */

struct model {
    struct steno_wenet_model m;
    struct steno_offline_family offline;
};

struct worker {
    const struct model *model;
    steno_session *session;
    struct steno_piece_features features;
};

/* ---- steps ----------------------------------------------------------------------------------- */

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_session_close(w->session);
    steno_piece_features_close(&w->features);
    free(w);
}

static steno_status worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct model *m = model;
    const struct steno_session_options so = {.threads = m->m.threads};
    struct worker *w = calloc(1, sizeof *w);
    steno_status st = w ? steno_session_open(&w->session, m->m.net.net, &so, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
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

/* *scores [*rows, vocab]: valid until the next run. */
static steno_status run(struct worker *w, size_t n, const float **scores, size_t *rows,
                        steno_err *err)
{
    const struct steno_wenet_model *m = &w->model->m;
    const int64_t x[] = {1, (int64_t)n, STENO_WENET_BINS}, one[] = {1}, length = (int64_t)n;
    const struct steno_tensor *y;
    steno_status st = steno_part_set(w->session, 0, STENO_F32, x, 3, w->features.frames, err);
    if (!st)
        st = steno_part_set(w->session, 1, STENO_I64, one, 1, &length, err);
    if (!st)
        st = steno_session_run(w->session, err);
    if (st)
        return steno_fail_in(err, st, "%s", m->net.name);
    y = steno_session_get(w->session, 0);
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[0] != 1 ||
        y->shape.dim[2] != m->meta.vocab)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected scores [1,T,%lld]", m->net.name,
                          (long long)m->meta.vocab);
    *scores = y->data;
    *rows = (size_t)y->shape.dim[1];
    return steno_scores_check(*scores, *rows * (size_t)m->meta.vocab, m->net.name, err);
}

static steno_status list(const struct steno_offline_piece *p, struct steno_ctc_search *s)
{
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t n, stable;
    steno_status st = steno_ctc_search_list(s, h, p->partial ? 1 : s->n_best, &n, &stable);
    if (!st)
        st = steno_hypothesis_list_add_all(p->out, h, n);
    return st;
}

static steno_status recognize(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    struct steno_ctc_search *s = p->settings;
    const float *scores = NULL;
    size_t n, rows = 0;
    steno_status st = steno_piece_features_compute(&w->features, p->pcm, p->n, &n, p->err);
    if (!st && n >= LEAST_FRAMES)
        st = run(w, n, &scores, &rows, p->err);
    if (st)
        return st;
    steno_ctc_search_restart(s, 0);
    if (rows)
        st = steno_ctc_search_push(s, scores, rows);
    if (!st)
        st = list(p, s);
    return st ? steno_fail(p->err, st, "stream: out of memory") : STENO_OK;
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
    free(m);
}

static void settings_free(void *settings)
{
    struct steno_ctc_search *s = settings;
    if (!s)
        return;
    steno_ctc_search_close(s);
    free(s);
}

static steno_status bind(const struct model *m, steno_err *err)
{
    const steno_network *net = m->m.net.net;
    if (steno_network_n_inputs(net) == 2 && steno_network_input(net, 0)->dtype == STENO_F32 &&
        steno_network_input(net, 1)->dtype == STENO_I64)
        return STENO_OK;
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
        st = bind(m, err);
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
    out->batches = true;
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
    struct steno_ctc_search *s = calloc(1, sizeof *s);
    steno_status st = s ? steno_wenet_search(s, &m->m, o, err)
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
                                                .worker_open = worker_open,
                                                .worker_close = worker_close};
