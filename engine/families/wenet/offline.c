/* Family wenet: encoders that take whole segments, with CTC.
 *
 *     x [N, frames, 80], x_lens [N] -> log_probs [N, T, vocab], log_probs_lens [N]
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

struct model {
    struct steno_wenet_model m;
    struct steno_offline_family offline;
    struct steno_piece_encoder encoder;
};

struct worker {
    const struct model *model;
    steno_piece_runs *runs;
    struct steno_piece_features features;
};

/* ---- steps ----------------------------------------------------------------------------------- */

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_piece_runs_close(w->runs);
    steno_piece_features_close(&w->features);
    free(w);
}

static steno_status worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct model *m = model;
    struct worker *w = calloc(1, sizeof *w);
    steno_status st = w ? steno_piece_runs_open(&w->runs, &m->encoder, m->m.threads, err)
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

static steno_status list(const struct steno_offline_piece *p, struct steno_ctc_search *s)
{
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t n, stable;
    steno_status st = steno_ctc_search_list(s, h, p->partial ? 1 : s->n_best, &n, &stable);
    if (!st)
        st = steno_hypothesis_list_add_all(p->out, h, n);
    return st;
}

static steno_status compute(void *worker, struct steno_piece *p, float **x, size_t *n)
{
    struct worker *w = worker;
    steno_status st =
        steno_piece_features_compute(&w->features, p->of->pcm, p->of->n, n, p->of->err);
    *x = w->features.frames;
    return st;
}

static steno_status search_piece(struct worker *w, const struct steno_piece *p)
{
    const struct steno_wenet_model *m = &w->model->m;
    struct steno_ctc_search *s = p->of->settings;
    steno_status st =
        steno_scores_check(p->rows, p->n * (size_t)m->meta.vocab, m->net.name, p->of->err);
    if (st)
        return st;
    steno_ctc_search_restart(s, 0);
    if (p->n)
        st = steno_ctc_search_push(s, p->rows, p->n);
    if (!st)
        st = list(p->of, s);
    return st ? steno_fail(p->of->err, st, "stream: out of memory") : STENO_OK;
}

static void search_pieces(void *worker, struct steno_piece *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i].of->st = search_piece(worker, &p[i]);
}

static void recognize(void *worker, struct steno_offline_piece *p, size_t n)
{
    static const struct steno_piece_functions f = {compute, search_pieces};
    steno_piece_runs_recognize(((struct worker *)worker)->runs, &f, worker, p, n);
}

static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    return steno_piece_trial_open(trial, ((struct worker *)worker)->runs, err);
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
    out->batches = m->encoder.batches;
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
                                                .trial_open = trial_open,
                                                .trial_run = steno_piece_trial_run,
                                                .trial_close = steno_piece_trial_close,
                                                .worker_open = worker_open,
                                                .worker_close = worker_close};
