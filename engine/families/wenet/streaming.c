/* Family wenet_streaming: U2++ encoders that take a chunk at a time (Zhang et al., "WeNet:
 * Production Oriented Streaming and Non-streaming End-to-End Speech Recognition Toolkit", 2021),
 * with CTC.
 *
 *     x [1, window, 80], offset [1], required_cache_size [1], attn_cache [blocks, head, cache, 2
 * d_k], conv_cache [blocks, 1, width, kernel - 1], attn_mask [1, 1, cache + chunk] bool
 *     -> log_probs [1, chunk, vocab], next_att_cache, next_conv_cache
 *
 * cache = chunk * left. The offset is that of the chunk behind a full cache, so it begins at
 * `cache`; the mask says which places of the cache hold something. The graph has one stream. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "families/common/scores.h"
#include "families/wenet/family.h"
#include "families/wenet/model.h"

#define FAMILY "wenet_streaming"
#define POSITIONS 5000 /* where the table is not found: what WeNet's exports have */
#define LONGEST 20.0   /* s: maximum length of an utterance, unless a stream sets another */

enum input { X, OFFSET, REQUIRED, ATTENTION, CONVOLUTION, MASK, INPUTS };
static const char *const inputs[INPUTS] = {"x",          "offset",     "required_cache_size",
                                           "attn_cache", "conv_cache", "attn_mask"};

struct model {
    struct steno_wenet_model m;
    int in[INPUTS];
    size_t attention, convolution; /* floats of the caches */
    int64_t positions;             /* frames for which the network has positions */
    float *quiet;                  /* [chunk, vocab] scores of a window without speech */
};

static int64_t cache_of(const struct model *m)
{
    return m->m.meta.chunk * m->m.meta.left;
}

static size_t window_of(const struct model *m)
{
    const struct steno_wenet_meta *t = &m->m.meta;
    return (size_t)((t->chunk - 1) * t->subsampling + t->right_context + 1);
}

static size_t shift_of(const struct model *m)
{
    return (size_t)(m->m.meta.chunk * m->m.meta.subsampling);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* What a stream carries from chunk to chunk. */
struct caches {
    float *data;    /* [attention + convolution] */
    int64_t chunks; /* so far */
};

struct worker {
    const struct model *model;
    steno_session *session;
    uint8_t *mask; /* [cache + chunk] */
};

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_session_close(w->session);
    steno_aligned_free(w->mask);
    free(w);
}

static steno_status worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct model *m = model;
    const struct steno_session_options so = {.threads = m->m.threads};
    struct worker *w = calloc(1, sizeof *w);
    steno_status st;
    (void)max;
    if (w)
        w->mask = steno_aligned_zeroed((size_t)(cache_of(m) + m->m.meta.chunk));
    st = w && w->mask ? steno_session_open(&w->session, m->m.net.net, &so, err)
                      : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (st) {
        worker_close(w);
        return st;
    }
    w->model = m;
    *worker = w;
    return STENO_OK;
}

static steno_status set_inputs(struct worker *w, const struct caches *c, const float *window,
                               int64_t *offset, int64_t *required, steno_err *err)
{
    const struct model *m = w->model;
    const struct steno_wenet_meta *t = &m->m.meta;
    const int64_t one[] = {1}, x[] = {1, (int64_t)window_of(m), STENO_WENET_BINS},
                  attention[] = {t->blocks, t->head, cache_of(m), 2 * t->width / t->head},
                  convolution[] = {t->blocks, 1, t->width, t->kernel - 1},
                  mask[] = {1, 1, cache_of(m) + t->chunk};
    const int64_t empty = c->chunks < t->left ? (t->left - c->chunks) * t->chunk : 0;
    steno_status st;
    *offset = cache_of(m) + c->chunks * t->chunk;
    *required = cache_of(m);
    memset(w->mask, 0, (size_t)empty);
    memset(w->mask + empty, 1, (size_t)(mask[2] - empty));
    st = steno_part_set(w->session, m->in[X], STENO_F32, x, 3, window, err);
    if (!st)
        st = steno_part_set(w->session, m->in[OFFSET], STENO_I64, one, 1, offset, err);
    if (!st)
        st = steno_part_set(w->session, m->in[REQUIRED], STENO_I64, one, 1, required, err);
    if (!st)
        st = steno_part_set(w->session, m->in[ATTENTION], STENO_F32, attention, 4, c->data, err);
    if (!st)
        st = steno_part_set(w->session, m->in[CONVOLUTION], STENO_F32, convolution, 4,
                            c->data + m->attention, err);
    return st ? st : steno_part_set(w->session, m->in[MASK], STENO_BOOL, mask, 3, w->mask, err);
}

static steno_status check_output(const struct worker *w, int i, size_t want, steno_err *err)
{
    const struct steno_tensor *y = steno_session_get(w->session, i);
    char shape[96];
    if (y->dtype == STENO_F32 && steno_numel(y) == want)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: output %s is %s, expected %zu numbers",
                      w->model->m.net.name, steno_network_output(w->model->m.net.net, i)->name,
                      steno_shape_str(&y->shape, shape, sizeof shape), want);
}

/* Run one chunk. *scores [chunk, vocab]: valid until the next run. A failure leaves c as it was. */
static steno_status run(struct worker *w, struct caches *c, const float *window,
                        const float **scores, steno_err *err)
{
    const struct model *m = w->model;
    const size_t n = m->attention + m->convolution;
    const size_t rows = (size_t)(m->m.meta.chunk * m->m.meta.vocab);
    int64_t offset, required;
    steno_status st = STENO_OK;
    if (!c->data && !(c->data = steno_aligned_zeroed(n * sizeof *c->data)))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (cache_of(m) + (c->chunks + 1) * m->m.meta.chunk > m->positions)
        c->chunks = 0; /* an utterance of minutes */
    if (!c->chunks)
        memset(c->data, 0, n * sizeof *c->data);
    st = set_inputs(w, c, window, &offset, &required, err);
    if (!st)
        st = steno_session_run(w->session, err);
    if (st)
        return steno_fail_in(err, st, "%s", m->m.net.name);
    st = check_output(w, 0, rows, err);
    if (!st)
        st = check_output(w, 1, m->attention, err);
    if (!st)
        st = check_output(w, 2, m->convolution, err);
    if (st)
        return st;
    memcpy(c->data, steno_session_get(w->session, 1)->data, m->attention * sizeof *c->data);
    memcpy(c->data + m->attention, steno_session_get(w->session, 2)->data,
           m->convolution * sizeof *c->data);
    c->chunks++;
    *scores = steno_session_get(w->session, 0)->data;
    return steno_scores_check(*scores, rows, m->m.net.name, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool probe(const char *dir)
{
    bool streaming;
    return steno_wenet_probe(dir, &streaming) && streaming;
}

static void close_model(void *model)
{
    struct model *m = model;
    if (!m)
        return;
    steno_wenet_close(&m->m);
    free(m->quiet);
    free(m);
}

static steno_status bind(struct model *m, steno_err *err)
{
    const struct steno_wenet_meta *t = &m->m.meta;
    for (int i = 0; i < INPUTS; i++) {
        m->in[i] = steno_network_find_input(m->m.net.net, inputs[i]);
        if (m->in[i] < 0)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: expected an input %s", m->m.net.name,
                              inputs[i]);
    }
    if (steno_network_n_outputs(m->m.net.net) != 3)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %d outputs, expected scores and two caches",
                          m->m.net.name, steno_network_n_outputs(m->m.net.net));
    m->attention = (size_t)(t->blocks * cache_of(m) * 2 * t->width);
    m->convolution = (size_t)(t->blocks * t->width * (t->kernel - 1));
    if (m->attention + m->convolution > (size_t)1 << 26)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: caches of %zu numbers", m->m.net.name,
                          m->attention + m->convolution);
    return STENO_OK;
}

/* The encoder reads positions of a table [1, n, width]. */
static void find_positions(struct model *m)
{
    const struct steno_graph *g = steno_network_graph(m->m.net.net);
    m->positions = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const struct steno_tensor *t = g->values[i].constant;
        if (t && t->shape.rank == 3 && t->shape.dim[0] == 1 && t->shape.dim[2] == m->m.meta.width &&
            t->shape.dim[1] > m->positions)
            m->positions = t->shape.dim[1];
    }
    if (m->positions < cache_of(m) + 2 * m->m.meta.chunk)
        m->positions = POSITIONS;
}

/* Two chunks of zeros: a network that fails does so at load. */
static steno_status try(struct model *m, steno_err *err)
{
    struct caches c = {0};
    float *window = steno_aligned_zeroed(window_of(m) * STENO_WENET_BINS * sizeof *window);
    const float *scores;
    void *w = NULL;
    steno_status st = window ? worker_open(&w, m, 1, err)
                             : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->m.dir);
    for (int i = 0; i < 2 && !st; i++)
        st = run(w, &c, window, &scores, err);
    worker_close(w);
    steno_aligned_free(window);
    steno_aligned_free(c.data);
    return st ? steno_fail_in(err, st, "%s", m->m.dir) : STENO_OK;
}

static steno_status open_model(void **model, const struct steno_family_open *o, steno_err *err)
{
    struct model *m = calloc(1, sizeof *m);
    steno_status st = m ? steno_wenet_open(&m->m, o, true, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    if (!st)
        st = bind(m, err);
    if (!st)
        find_positions(m);
    if (!st)
        st = try(m, err);
    if (!st && !(m->quiet = steno_ctc_quiet(m->m.meta.chunk, (int32_t)m->m.meta.vocab, m->m.blank)))
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    if (st)
        close_model(m);
    else
        *model = m;
    return st;
}

static void get_info(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    const double frame = (double)STENO_WENET_HOP / STENO_WENET_RATE;
    *out = steno_wenet_info(&m->m);
    out->chunk_seconds = frame * (double)shift_of(m);
    out->lookahead_seconds = frame * (double)(window_of(m) - shift_of(m));
    out->stream_bytes =
        (m->attention + m->convolution + window_of(m) * STENO_WENET_BINS) * sizeof(float);
    out->endpoint = (struct steno_endpoint_rules){2.4, 1.2, LONGEST};
    out->feeding = STENO_FEED_WINDOWS;
    out->windows = (struct steno_windows_info){.front = m->m.front,
                                               .frames = window_of(m),
                                               .shift = shift_of(m),
                                               .right_padding = window_of(m),
                                               .rows = (size_t)m->m.meta.chunk};
}

static void describe(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    steno_wenet_describe(&m->m, i, out);
    fprintf(out, "steps      streaming: %.0f ms and %.0f ms of lookahead, scores every %.0f ms\n",
            i->chunk_seconds * 1e3, i->lookahead_seconds * 1e3, i->frame_seconds * 1e3);
    fprintf(out, "attention  %lld chunks back\n", (long long)m->m.meta.left);
}

/* ---- a stream -------------------------------------------------------------------------------- */

struct stream {
    const struct model *model;
    struct caches caches;
    struct steno_ctc_search search;
};

static void state_free(void *state)
{
    struct stream *s = state;
    if (!s)
        return;
    steno_aligned_free(s->caches.data);
    steno_ctc_search_close(&s->search);
    free(s);
}

static steno_status state_new(void **state, void *model, struct steno_family_stream *o,
                              steno_err *err)
{
    struct stream *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    s->model = model;
    st = steno_wenet_search(&s->search, &s->model->m, o, err);
    if (st)
        state_free(s);
    else
        *state = s;
    return st;
}

/* Each utterance begins with empty caches, as in WeNet's runtime: positions count from there, and
 * their number is limited. */
static steno_status reset(void *state, enum steno_reset what, steno_err *err)
{
    struct stream *s = state;
    (void)err;
    s->caches.chunks = 0;
    if (what == STENO_RESET_RECORDING)
        steno_ctc_search_restart(&s->search, 0);
    else
        steno_ctc_search_reset(&s->search);
    return STENO_OK;
}

static void step(void *worker, struct steno_step_item *items, size_t n, int size,
                 struct steno_network_time *spent)
{
    struct worker *w = worker;
    (void)size;
    for (size_t i = 0; i < n; i++) {
        struct stream *s = items[i].state;
        const float *scores;
        steno_network_time_begin(spent);
        items[i].st = run(w, &s->caches, items[i].window, &scores, items[i].err);
        steno_network_time_end(spent);
        if (!items[i].st)
            steno_ctc_search_give(&s->search, scores, (size_t)s->model->m.meta.chunk);
    }
}

static steno_status hypotheses(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                               size_t *stable)
{
    return steno_ctc_search_list(&((struct stream *)state)->search, out, max, n, stable);
}

static steno_status consume(void *state, bool *left)
{
    return steno_ctc_search_consume(&((struct stream *)state)->search, left);
}

static steno_status skip(void *state)
{
    struct stream *s = state;
    steno_ctc_search_give(&s->search, s->model->quiet, (size_t)s->model->m.meta.chunk);
    return STENO_OK;
}

static int64_t frames(const void *state)
{
    return steno_ctc_search_frames(&((const struct stream *)state)->search);
}

static int64_t last_sound(const void *state)
{
    return steno_ctc_search_last_sound(&((const struct stream *)state)->search);
}

static size_t n_tokens(const void *state)
{
    return steno_ctc_search_n_tokens(&((const struct stream *)state)->search);
}

/* ---- trials ---------------------------------------------------------------------------------- */

struct trial {
    struct worker *worker;
    struct caches caches;
    float *window;
};

static void trial_close(void *trial)
{
    struct trial *t = trial;
    if (!t)
        return;
    steno_aligned_free(t->caches.data);
    steno_aligned_free(t->window);
    free(t);
}

static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    struct worker *w = worker;
    struct trial *t = calloc(1, sizeof *t);
    if (t)
        t->window = steno_aligned_zeroed(window_of(w->model) * STENO_WENET_BINS * sizeof(float));
    if (!t || !t->window) {
        trial_close(t);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    t->worker = w;
    *trial = t;
    return STENO_OK;
}

static steno_status trial_run(void *trial, int size, steno_err *err)
{
    struct trial *t = trial;
    const float *scores;
    (void)size;
    return run(t->worker, &t->caches, t->window, &scores, err);
}

const struct steno_family steno_family_wenet_streaming = {
    .name = FAMILY,
    .layout = "model-streaming.onnx",
    .options = steno_wenet_streaming_options,
    .n_options = sizeof steno_wenet_streaming_options / sizeof *steno_wenet_streaming_options,
    .probe = probe,
    .open = open_model,
    .close = close_model,
    .info = get_info,
    .describe = describe,
    .state_new = state_new,
    .state_free = state_free,
    .reset = reset,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .step = step,
    .hypotheses = hypotheses,
    .trial_open = trial_open,
    .trial_run = trial_run,
    .trial_close = trial_close,
    .consume = consume,
    .skip = skip,
    .frames = frames,
    .last_sound = last_sound,
    .n_tokens = n_tokens};
