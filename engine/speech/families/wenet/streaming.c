/* Family wenet_streaming: U2++ encoders that take a chunk at a time (Zhang et al., "WeNet:
 * Production Oriented Streaming and Non-streaming End-to-End Speech Recognition Toolkit", 2021),
 * with CTC.
 *
 *     x [1, window, 80], offset [1], required_cache_size [1], attn_cache [blocks, head, cache, 2
 * d_k], conv_cache [blocks, 1, width, kernel - 1], attn_mask [1, 1, cache + chunk] bool
 *     -> log_probs [1, chunk, vocab], next_att_cache, next_conv_cache
 *
 * cache = chunk * left. The offset is that of the chunk behind a full cache, so it begins at
 * `cache`; the mask says which places of the cache hold something. The graph has one stream.
 *
 * WeNet's own runtime has the same network without CTC, and other names: chunk, att_cache,
 * cnn_cache, att_mask -> output, r_att_cache, r_cnn_cache; the offset is a number, not a list.
 * ctc.onnx follows. An export that looks back at no chunk (left 0) or at all (-1) has neither mask
 * nor required_cache_size; its offset begins at 0, and its cache grows with -1. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "speech/families/common/scores.h"
#include "speech/families/entries.h"
#include "speech/families/wenet/model.h"

#define FAMILY "wenet_streaming"
#define POSITIONS 5000 /* where the table is not found: what WeNet's exports have */
#define LONGEST 20.0   /* s: maximum length of an utterance, unless a stream sets another */

enum input { X, OFFSET, REQUIRED, ATTENTION, CONVOLUTION, MASK, INPUTS };
static const char *const inputs[2][INPUTS] = {
    {"x", "offset", "required_cache_size", "attn_cache", "conv_cache", "attn_mask"},
    {"chunk", "offset", "required_cache_size", "att_cache", "cnn_cache", "att_mask"}};

struct model {
    struct steno_wenet_model m;
    int in[INPUTS];                /* -1: the network has no such input */
    size_t attention, convolution; /* floats of the caches; attention: of a row, in all layers */
    int64_t positions;             /* frames for which the network has positions */
};

/* Rows of the attention's cache at the begin. */
static int64_t cache_of(const struct model *m)
{
    return m->m.meta.left > 0 ? m->m.meta.chunk * m->m.meta.left : 0;
}

/* Rows behind a chunk that had `rows`. */
static int64_t next_rows(const struct model *m, int64_t rows)
{
    return m->m.meta.left < 0 ? rows + m->m.meta.chunk : cache_of(m);
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
    float *attention; /* [rows * attention], cap rows; NULL before the first chunk */
    float *convolution;
    int64_t chunks, rows, cap; /* chunks: so far */
};

static void free_caches(struct caches *c)
{
    steno_aligned_free(c->attention);
    steno_aligned_free(c->convolution);
    *c = (struct caches){0};
}

struct worker {
    struct steno_shell_worker base;
    uint8_t *mask; /* [cache + chunk] */
};

static void close_worker_wenet_streaming(void *worker)
{
    steno_aligned_free(((struct worker *)worker)->mask);
}

static steno_status open_worker_wenet_streaming(void *worker, const void *model, int max,
                                                steno_err *err)
{
    const struct model *m = model;
    struct worker *w = worker;
    (void)max;
    w->mask = steno_aligned_zeroed((size_t)(cache_of(m) + m->m.meta.chunk));
    return w->mask ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

static steno_status run_encoder(struct worker *w, const struct caches *c, const float *window,
                                steno_err *err)
{
    const struct model *m = w->base.model;
    const struct steno_wenet_meta *t = &m->m.meta;
    const int rank = m->m.runtime ? 0 : 1;
    const int64_t one[] = {1}, x[] = {1, (int64_t)window_of(m), STENO_WENET_BINS},
                  attention[] = {t->blocks, t->head, c->rows, 2 * t->width / t->head},
                  convolution[] = {t->blocks, 1, t->width, t->kernel - 1},
                  mask[] = {1, 1, cache_of(m) + t->chunk};
    const int64_t empty = c->chunks < t->left ? (t->left - c->chunks) * t->chunk : 0;
    const int64_t offset = cache_of(m) + c->chunks * t->chunk, required = cache_of(m);
    struct steno_run r = steno_shell_run(w, 0, err);
    memset(w->mask, 0, (size_t)empty);
    memset(w->mask + empty, 1, (size_t)(mask[2] - empty));
    steno_run_set(&r, m->in[X], STENO_F32, x, 3, window);
    steno_run_set(&r, m->in[OFFSET], STENO_I64, one, rank, &offset);
    steno_run_set(&r, m->in[REQUIRED], STENO_I64, one, rank, &required);
    steno_run_set(&r, m->in[ATTENTION], STENO_F32, attention, 4, c->attention);
    steno_run_set(&r, m->in[CONVOLUTION], STENO_F32, convolution, 4, c->convolution);
    steno_run_set(&r, m->in[MASK], STENO_BOOL, mask, 3, w->mask);
    return steno_run_end(&r);
}

static steno_status check_output(const struct worker *w, int i, size_t want, steno_err *err)
{
    const struct model *m = w->base.model;
    const struct steno_tensor *y = steno_session_get(w->base.session[0], i);
    char shape[96];
    if (y->dtype == STENO_F32 && steno_numel(y) == want)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: output %s is %s, expected %zu numbers",
                      m->m.net->name, steno_network_output(m->m.net->net, i)->name,
                      steno_shape_str(&y->shape, shape, sizeof shape), want);
}

/* Make room for the rows behind the next chunk; the content need not stay. */
static steno_status reserve_wenet_streaming(const struct model *m, struct caches *c, steno_err *err)
{
    const int64_t most = next_rows(m, c->rows) > c->rows ? 2 * next_rows(m, c->rows) : c->rows;
    const size_t bytes = ((size_t)most * m->attention + 1) * sizeof(float);
    float *grown;
    if (!c->convolution &&
        !(c->convolution = steno_aligned_zeroed((m->convolution + 1) * sizeof *c->convolution)))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (c->attention && c->cap >= next_rows(m, c->rows))
        return STENO_OK;
    grown = steno_aligned_zeroed(bytes);
    if (!grown)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (c->attention)
        memcpy(grown, c->attention, (size_t)c->rows * m->attention * sizeof *grown);
    steno_aligned_free(c->attention);
    c->attention = grown;
    c->cap = most;
    return STENO_OK;
}

/* Caches before the first chunk of an utterance. */
static void begin_wenet_streaming(const struct model *m, struct caches *c)
{
    c->chunks = 0;
    c->rows = cache_of(m);
    if (c->attention)
        memset(c->attention, 0, (size_t)c->rows * m->attention * sizeof *c->attention);
    if (c->convolution)
        memset(c->convolution, 0, m->convolution * sizeof *c->convolution);
}

/* The scores of WeNet's runtime: CTC of the encoder's output. */
static steno_status run_ctc(struct worker *w, const float **scores, steno_err *err)
{
    const struct model *m = w->base.model;
    const size_t want = (size_t)(m->m.meta.chunk * m->m.meta.vocab);
    struct steno_run r = steno_shell_run(w, 1, err);
    const struct steno_tensor *y;
    steno_status st;
    steno_run_set_tensor(&r, 0, steno_session_get(w->base.session[0], 0));
    st = steno_run_end(&r);
    if (st)
        return st;
    y = steno_session_get(r.session, 0);
    if (y->dtype != STENO_F32 || steno_numel(y) != want)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %zu scores, expected %zu", m->m.ctc->name,
                          steno_numel(y), want);
    *scores = y->data;
    return STENO_OK;
}

static void keep_caches(struct worker *w, struct caches *c)
{
    const struct model *m = w->base.model;
    c->rows = next_rows(m, c->rows);
    memcpy(c->attention, steno_session_get(w->base.session[0], 1)->data,
           (size_t)c->rows * m->attention * sizeof *c->attention);
    memcpy(c->convolution, steno_session_get(w->base.session[0], 2)->data,
           m->convolution * sizeof *c->convolution);
    c->chunks++;
}

/* Run one chunk. *scores [chunk, vocab]: valid until the next run. A failure leaves c as it was. */
static steno_status run_wenet_streaming(struct worker *w, struct caches *c, const float *window,
                                        const float **scores, steno_err *err)
{
    const struct model *m = w->base.model;
    const size_t rows = (size_t)(m->m.meta.chunk * m->m.meta.vocab);
    const size_t columns = m->m.runtime ? (size_t)m->m.meta.width : (size_t)m->m.meta.vocab;
    steno_status st;
    if (!c->chunks || cache_of(m) + (c->chunks + 1) * m->m.meta.chunk > m->positions)
        begin_wenet_streaming(m, c); /* the first, or after minutes */
    st = reserve_wenet_streaming(m, c, err);
    if (!st)
        st = run_encoder(w, c, window, err);
    if (st)
        return st;
    st = check_output(w, 0, (size_t)m->m.meta.chunk * columns, err);
    if (!st)
        st = check_output(w, 1, (size_t)next_rows(m, c->rows) * m->attention, err);
    if (!st)
        st = check_output(w, 2, m->convolution, err);
    *scores = steno_session_get(w->base.session[0], 0)->data;
    if (!st && m->m.runtime)
        st = run_ctc(w, scores, err);
    if (!st)
        st = steno_scores_check(*scores, rows, m->m.runtime ? m->m.ctc->name : m->m.net->name, err);
    if (!st)
        keep_caches(w, c);
    return st;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool probe_wenet_streaming(const char *dir)
{
    bool streaming;
    return steno_wenet_probe(dir, &streaming) && streaming;
}

/* Whether a network of WeNet's runtime may lack the input. */
static bool optional(const struct model *m, int i)
{
    return m->m.runtime && m->m.meta.left <= 0 && (i == REQUIRED || i == MASK);
}

static steno_status check_ctc(const struct model *m, steno_err *err)
{
    if (!m->m.runtime ||
        (steno_network_n_inputs(m->m.ctc->net) == 1 && steno_network_n_outputs(m->m.ctc->net) == 1))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: expected one input and one output",
                      m->m.ctc->name);
}

static steno_status bind_wenet_streaming(struct model *m, steno_err *err)
{
    const struct steno_wenet_meta *t = &m->m.meta;
    for (int i = 0; i < INPUTS; i++) {
        m->in[i] = steno_network_find_input(m->m.net->net, inputs[m->m.runtime][i]);
        if (m->in[i] < 0 && !optional(m, i))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: expected an input %s", m->m.net->name,
                              inputs[m->m.runtime][i]);
    }
    if (steno_network_n_outputs(m->m.net->net) != 3)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %d outputs, expected scores and two caches",
                          m->m.net->name, steno_network_n_outputs(m->m.net->net));
    m->attention = (size_t)(t->blocks * 2 * t->width);
    m->convolution = (size_t)(t->blocks * t->width * (t->kernel - 1));
    if ((size_t)cache_of(m) * m->attention + m->convolution > (size_t)1 << 26)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: caches of %zu numbers", m->m.net->name,
                          (size_t)cache_of(m) * m->attention + m->convolution);
    return check_ctc(m, err);
}

/* The encoder reads positions of a table [1, n, width]. */
static void find_positions(struct model *m)
{
    const struct steno_graph *g = steno_network_graph(m->m.net->net);
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
    steno_status st = window ? steno_shell_worker_open(&w, m, 1, err)
                             : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->m.base.dir);
    for (int i = 0; i < 2 && !st; i++)
        st = run_wenet_streaming(w, &c, window, &scores, err);
    steno_shell_worker_close(w);
    steno_aligned_free(window);
    free_caches(&c);
    return st ? steno_fail_in(err, st, "%s", m->m.base.dir) : STENO_OK;
}

static steno_status open_model_wenet_streaming(void *model, const struct steno_family_open *o,
                                               steno_err *err)
{
    struct model *m = model;
    steno_status st = steno_wenet_open(&m->m, o, true, err);
    if (!st)
        st = bind_wenet_streaming(m, err);
    if (st)
        return st;
    find_positions(m);
    st = try(m, err);
    return st ? st
              : steno_shell_make_quiet(&m->m.base, m->m.meta.chunk, (int32_t)m->m.meta.vocab, err);
}

/* Frames of the longest utterance. */
static int64_t longest(const struct model *m)
{
    const double hops = LONGEST * STENO_WENET_RATE / STENO_WENET_HOP;
    return (int64_t)(hops / (double)m->m.meta.subsampling);
}

static int64_t cached(const struct model *m)
{
    return m->m.meta.left < 0 ? longest(m) : cache_of(m);
}

/* Numbers of the encoder's output that wait for the end of an utterance. */
static int64_t remembered(const struct model *m)
{
    return m->m.rescorer ? longest(m) * m->m.meta.width : 0;
}

static void get_info_wenet_streaming(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    const double frame = (double)STENO_WENET_HOP / STENO_WENET_RATE;
    steno_wenet_info(&m->m, out);
    out->chunk_seconds = frame * (double)shift_of(m);
    out->lookahead_seconds = frame * (double)(window_of(m) - shift_of(m));
    out->stream_bytes = ((size_t)cached(m) * m->attention + m->convolution +
                         window_of(m) * STENO_WENET_BINS + (size_t)remembered(m)) *
                        sizeof(float);
    out->untimed = m->m.rescorer != NULL;
    out->endpoint = (struct steno_endpoint_rules){2.4, 1.2, LONGEST};
    out->feeding = STENO_FEED_WINDOWS;
    out->windows = (struct steno_windows_info){.front = m->m.base.front,
                                               .frames = window_of(m),
                                               .shift = shift_of(m),
                                               .right_padding = window_of(m),
                                               .rows = (size_t)m->m.meta.chunk};
}

static void describe_wenet_streaming(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    steno_wenet_describe(&m->m, i, out);
    fprintf(out, "steps      streaming: %.0f ms and %.0f ms of lookahead, scores every %.0f ms\n",
            i->chunk_seconds * 1e3, i->lookahead_seconds * 1e3, i->frame_seconds * 1e3);
    if (m->m.meta.left < 0)
        fprintf(out, "attention  all chunks of the utterance\n");
    else
        fprintf(out, "attention  %lld chunks back\n", (long long)m->m.meta.left);
}

/* ---- a stream -------------------------------------------------------------------------------- */

struct stream {
    struct steno_wenet_stream base;
    struct caches caches;
    bool ran; /* the scores that the search reads are of the network, not of a skipped window */
};

/* Rows of the encoder whose scores the search has not read. */
static size_t ahead(const struct stream *s)
{
    return s->ran ? s->base.base.search.left : 0;
}

static void close_stream_wenet_streaming(void *stream)
{
    free_caches(&((struct stream *)stream)->caches);
    steno_wenet_stream_close(stream);
}

/* Each utterance begins with empty caches, as in WeNet's runtime: positions count from there, and
 * their number is limited. */
static steno_status reset_wenet_streaming(void *state, enum steno_reset what, steno_err *err)
{
    struct stream *s = state;
    (void)err;
    s->caches.chunks = 0;
    steno_wenet_finals_next(&s->base.finals, what == STENO_RESET_RECORDING ? 0 : ahead(s));
    return steno_shell_reset_search(s, what);
}

/* Hand the scores to the search, and keep what the decoder will look at. */
static steno_status give(struct worker *w, struct stream *s, const float *scores, steno_err *err)
{
    const struct steno_wenet_model *m = w->base.model;
    const size_t rows = (size_t)m->meta.chunk;
    steno_token_search_give(&s->base.base.search, scores, rows);
    s->ran = true;
    if (m->runtime && steno_wenet_finals_add(&s->base.finals,
                                             steno_session_get(w->base.session[0], 0)->data, rows))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    return STENO_OK;
}

static void wenet_streaming_step(void *worker, struct steno_step_item *items, size_t n, int size,
                                 struct steno_network_time *spent)
{
    struct worker *w = worker;
    (void)size;
    for (size_t i = 0; i < n; i++) {
        struct stream *s = items[i].state;
        const float *scores;
        steno_network_time_begin(spent);
        items[i].st = run_wenet_streaming(w, &s->caches, items[i].window, &scores, items[i].err);
        steno_network_time_end(spent);
        if (!items[i].st)
            items[i].st = give(w, s, scores, items[i].err);
    }
}

static steno_status hypotheses(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                               size_t *stable)
{
    const struct steno_wenet_finals *f = &((struct steno_wenet_stream *)state)->finals;
    if (!f->n)
        return steno_shell_hypotheses(state, out, max, n, stable);
    *n = max < f->n ? max : f->n;
    memcpy(out, f->h, *n * sizeof *out);
    *stable = f->h[0].n;
    return STENO_OK;
}

static steno_status finish_wenet_streaming(void *state, steno_err *err)
{
    return steno_wenet_rescore(state, ahead(state), err);
}

static steno_status skip_wenet_streaming(void *state)
{
    struct stream *s = state;
    const struct model *m = s->base.base.model;
    s->ran = false;
    steno_token_search_give(&s->base.base.search, m->m.base.quiet, (size_t)m->m.meta.chunk);
    return STENO_OK;
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
    free_caches(&t->caches);
    steno_aligned_free(t->window);
    free(t);
}

static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    struct worker *w = worker;
    struct trial *t = calloc(1, sizeof *t);
    if (t)
        t->window =
            steno_aligned_zeroed(window_of(w->base.model) * STENO_WENET_BINS * sizeof(float));
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
    return run_wenet_streaming(t->worker, &t->caches, t->window, &scores, err);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .sessions = 2,
                                         .open = open_model_wenet_streaming,
                                         .close = steno_wenet_close,
                                         .info = get_info_wenet_streaming,
                                         .describe = describe_wenet_streaming,
                                         .stream_open = steno_wenet_stream_open,
                                         .stream_close = close_stream_wenet_streaming,
                                         .worker_open = open_worker_wenet_streaming,
                                         .worker_close = close_worker_wenet_streaming};

const struct steno_family steno_family_wenet_streaming = {
    .name = FAMILY,
    .options = steno_wenet_streaming_options,
    .n_options = sizeof steno_wenet_streaming_options / sizeof *steno_wenet_streaming_options,
    .probe = probe_wenet_streaming,
    .shell = &shell,
    STENO_WINDOWED_STATE,
    STENO_WINDOWED_SEARCH,
    .hypotheses = hypotheses,
    .reset = reset_wenet_streaming,
    .step = wenet_streaming_step,
    .trial_open = trial_open,
    .trial_run = trial_run,
    .trial_close = trial_close,
    .skip = skip_wenet_streaming,
    .finish = finish_wenet_streaming};
