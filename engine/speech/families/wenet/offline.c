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

#include "speech/families/entries.h"
#include "speech/families/wenet/model.h"

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
    int in[INPUTS];     /* runtime; -1: the network has no such input */
    float *convolution; /* runtime: the empty cache */
};

/* ---- steps ----------------------------------------------------------------------------------- */

/* Scores [n, vocab] of a piece -> hypotheses. */
static steno_status search_scores(const struct steno_wenet_model *m,
                                  const struct steno_offline_piece *p, const float *scores,
                                  size_t n)
{
    struct steno_wenet_stream *s = p->settings;
    steno_status st =
        steno_shell_search_scores(p, scores, n, m->runtime ? m->ctc->name : m->net->name);
    if (!st && !p->partial)
        st = steno_wenet_rescore(s, 0, p->err);
    if (st || p->partial || !s->finals.n)
        return st ? st : steno_shell_list(p);
    return steno_hypothesis_list_add_all(p->out, s->finals.h, s->finals.n)
               ? steno_fail(p->err, STENO_ERR_NOMEM, "stream: out of memory")
               : STENO_OK;
}

static steno_status search_wenet_offline(void *worker, const struct steno_piece *p)
{
    return search_scores(((struct steno_shell_worker *)worker)->model, p->of, p->rows, p->n);
}

/* ---- WeNet's runtime ------------------------------------------------------------------------- */

static steno_status run_encoder(struct steno_shell_worker *w, const float *x, size_t n,
                                steno_err *err)
{
    static const int64_t zero = 0;
    static const float none = 0;
    const struct model *m = w->model;
    const struct steno_wenet_meta *t = &m->m.meta;
    const int64_t frames[] = {1, (int64_t)n, STENO_WENET_BINS},
                  attention[] = {t->blocks, t->head, 0, 2 * t->width / t->head},
                  convolution[] = {t->blocks, 1, t->width, t->kernel - 1};
    struct steno_run r = steno_shell_run(w, 0, err);
    steno_run_set(&r, m->in[CHUNK], STENO_F32, frames, 3, x);
    steno_run_set(&r, m->in[OFFSET], STENO_I64, &zero, 0, &zero);
    steno_run_set(&r, m->in[ATTENTION], STENO_F32, attention, 4, &none);
    steno_run_set(&r, m->in[CONVOLUTION], STENO_F32, convolution, 4, m->convolution);
    return steno_run_end(&r);
}

/* The encoder's output [1, *rows, width] and the scores of CTC [1, *rows, vocab]. */
static steno_status run_both(struct steno_shell_worker *w, const float *x, size_t n, size_t *rows,
                             const struct steno_tensor **hidden, const struct steno_tensor **scores,
                             steno_err *err)
{
    const struct steno_wenet_model *m = w->model;
    struct steno_run r = steno_shell_run(w, 1, err);
    steno_status st = run_encoder(w, x, n, err);
    if (st)
        return st;
    *hidden = steno_session_get(w->session[0], 0);
    *rows = steno_numel(*hidden) / (size_t)m->meta.width;
    steno_run_set_tensor(&r, 0, *hidden);
    st = steno_run_end(&r);
    if (st)
        return st;
    *scores = steno_session_get(r.session, 0);
    if ((*hidden)->dtype == STENO_F32 && (*scores)->dtype == STENO_F32 &&
        steno_numel(*hidden) == *rows * (size_t)m->meta.width &&
        steno_numel(*scores) == *rows * (size_t)m->meta.vocab)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %zu scores for %zu numbers of %s", m->ctc->name,
                      steno_numel(*scores), steno_numel(*hidden), m->net->name);
}

static steno_status recognize_wenet_offline(void *worker, struct steno_offline_piece *p)
{
    struct steno_shell_worker *w = worker;
    struct steno_piece_features *f = &w->features;
    const struct steno_wenet_model *m = w->model;
    const struct steno_tensor *hidden, *scores = NULL;
    struct steno_wenet_stream *s = p->settings;
    size_t n = 0, rows = 0;
    steno_status st = steno_piece_features_compute(f, p->pcm, p->n, &n, p->err);
    steno_wenet_finals_next(&s->finals, 0);
    if (st || n <= (size_t)m->meta.right_context)
        return st ? st : search_scores(m, p, NULL, 0);
    st = run_both(w, f->frames, n, &rows, &hidden, &scores, p->err);
    if (!st && !p->partial && steno_wenet_finals_add(&s->finals, hidden->data, rows))
        st = steno_fail(p->err, STENO_ERR_NOMEM, "stream: out of memory");
    return st ? st : search_scores(m, p, scores->data, rows);
}

static steno_status bind_runtime(struct model *m, steno_err *err)
{
    const struct steno_wenet_meta *t = &m->m.meta;
    for (int i = 0; i < INPUTS; i++)
        m->in[i] = steno_network_find_input(m->m.net->net, inputs[i]);
    if (m->in[CHUNK] < 0 || steno_network_n_inputs(m->m.ctc->net) != 1)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected %s with an input chunk, %s with one",
                          m->m.base.dir, m->m.net->name, m->m.ctc->name);
    m->convolution =
        calloc((size_t)(t->blocks * t->width * (t->kernel - 1)) + 1, sizeof *m->convolution);
    return m->convolution ? steno_shell_try_piece(&m->m.base, err)
                          : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->m.base.dir);
}

/* ---- model and stream ------------------------------------------------------------------------ */

static bool probe_wenet_offline(const char *dir)
{
    bool streaming;
    return steno_wenet_probe(dir, &streaming) && !streaming;
}

static void close_model_wenet_offline(void *model)
{
    free(((struct model *)model)->convolution);
    steno_wenet_close(model);
}

static steno_status bind_wenet_offline(struct model *m, steno_err *err)
{
    steno_network *net = m->m.net->net;
    struct steno_piece_encoder *e = &m->m.base.pieces;
    *e = (struct steno_piece_encoder){.net = net,
                                      .name = m->m.net->name,
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
        return steno_piece_encoder_try(e, m->m.base.threads, m->m.net->quantized, err);
    return steno_fail(err, STENO_ERR_FORMAT,
                      "%s/%s: expected inputs x [N,frames,80] f32 and x_lens [N] i64",
                      m->m.base.dir, m->m.net->name);
}

static steno_status open_model_wenet_offline(void *model, const struct steno_family_open *o,
                                             steno_err *err)
{
    struct model *m = model;
    steno_status st = steno_wenet_open(&m->m, o, false, err);
    if (st)
        return st;
    steno_shell_set_cuts(&m->m.base, STENO_WENET_RATE, FULL,
                         STENO_WENET_HOP * (size_t)m->m.meta.subsampling, SLACK);
    return m->m.runtime ? bind_runtime(m, err) : bind_wenet_offline(m, err);
}

static void get_info_wenet_offline(const void *model, struct steno_family_info *out)
{
    steno_wenet_info(model, out);
}

static void describe_wenet_offline(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    steno_wenet_describe(&m->m, i, out);
    fprintf(out, "steps      whole segments of at most %.0f s, scores every %.0f ms\n", FULL,
            i->frame_seconds * 1e3);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct steno_wenet_stream),
                                         .worker_bytes = sizeof(struct steno_shell_worker),
                                         .sessions = 2,
                                         .open = open_model_wenet_offline,
                                         .close = close_model_wenet_offline,
                                         .info = get_info_wenet_offline,
                                         .describe = describe_wenet_offline,
                                         .stream_open = steno_wenet_stream_open,
                                         .stream_close = steno_wenet_stream_close,
                                         .recognize = recognize_wenet_offline,
                                         .search = search_wenet_offline};

const struct steno_family steno_family_wenet = {.name = FAMILY,
                                                .options = steno_wenet_options,
                                                .n_options = sizeof steno_wenet_options /
                                                             sizeof *steno_wenet_options,
                                                .probe = probe_wenet_offline,
                                                .shell = &shell,
                                                STENO_OFFLINE_SHELL};
