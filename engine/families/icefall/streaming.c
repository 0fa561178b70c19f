/* Family icefall: streaming models. A step runs the encoder once for all streams, then, frame by
 * frame, the joiner once for all their hypotheses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/common/noise.h"
#include "families/icefall/family.h"
#include "families/icefall/internal.h"

#define FAMILY "icefall"
/* sherpa-onnx's clients send 0.66 s of silence after a recording for windows of 0.45 s: it decodes
 * 0.21 s past the end. */
#define TAIL_FRAMES 21
#define QUIET_SCORE -30.0F /* CTC: log-probability of each token in a skipped window */

static bool probe(const char *dir)
{
    bool streaming;
    return steno_icefall_probe(dir, &streaming) && streaming;
}

static void get_info(const void *model, struct steno_family_info *out)
{
    const struct steno_icefall_model *m = model;
    const struct steno_cached_encoder_shape *e = &m->encoder.shape;
    double frame = (double)m->hop / STENO_ICEFALL_RATE;
    steno_icefall_info(m, out);
    out->chunk_seconds = frame * (double)m->shift;
    out->lookahead_seconds = frame * (double)(e->window - m->shift);
    out->stream_bytes = m->encoder.state_bytes + (size_t)(e->window * e->bins) * sizeof(float);
    out->endpoint = (struct steno_endpoint_rules){2.4, 1.2, 20};
    out->batches = m->encoder.batches;
    out->untimed = !m->ctc;
    out->feeding = STENO_FEED_WINDOWS;
    out->windows = (struct steno_windows_info){.front = m->front,
                                               .frames = (size_t)e->window,
                                               .shift = (size_t)m->shift,
                                               .right_padding = TAIL_FRAMES,
                                               .rows = (size_t)e->frames};
}

/* ---- a stream -------------------------------------------------------------------------------- */

struct stream {
    struct steno_icefall_model *model;
    struct steno_cached_encoder_state encoder;
    struct steno_icefall_search search;
    bool stepped; /* the search has read a step that the recognizer has not consumed */
};

static void state_free(void *state)
{
    struct stream *s = state;
    if (!s)
        return;
    steno_cached_encoder_state_free(&s->encoder);
    steno_icefall_search_close(&s->search);
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
    s->encoder.fresh = true;
    st = steno_icefall_search_open(&s->search, s->model, o, err);
    if (st)
        state_free(s);
    else
        *state = s;
    return st;
}

static steno_status restart(struct stream *s, int64_t frame)
{
    s->encoder.fresh = true;
    s->stepped = false;
    return steno_icefall_search_restart(&s->search, frame);
}

/* After an endpoint a transducer keeps the encoder's states, and a CTC network begins anew, as in
 * sherpa-onnx. */
static steno_status reset(void *state, enum steno_reset what, steno_err *err)
{
    struct stream *s = state;
    steno_status st;
    if (what == STENO_RESET_RECORDING)
        st = restart(s, 0);
    else if (s->search.tokens)
        st = steno_stateless_reset(s->search.tokens);
    else
        st = restart(s, steno_icefall_search_frames(&s->search));
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

/* All frames of a step at once: the search has read them in the step, with the other streams'. */
static steno_status consume(void *state, bool *left)
{
    struct stream *s = state;
    *left = s->stepped;
    s->stepped = false;
    return STENO_OK;
}

static steno_status skip(void *state)
{
    struct stream *s = state;
    int64_t frames = s->model->encoder.shape.frames;
    s->stepped = true;
    if (!s->search.tokens)
        return steno_icefall_search_scores(&s->search, s->model->quiet, (size_t)frames);
    steno_stateless_skip(s->search.tokens, frames);
    return STENO_OK;
}

static int64_t frames(const void *state)
{
    return steno_icefall_search_frames(&((const struct stream *)state)->search);
}

static int64_t last_sound(const void *state)
{
    return steno_icefall_search_last_sound(&((const struct stream *)state)->search);
}

static size_t n_tokens(const void *state)
{
    return steno_icefall_search_n_tokens(&((const struct stream *)state)->search);
}

static steno_status hypotheses(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                               size_t *stable)
{
    return steno_icefall_search_list(&((struct stream *)state)->search, out, max, n, stable);
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct worker {
    struct steno_icefall_model *model;
    steno_cached_encoder_batch *batch;
    steno_icefall_scorer *scorer; /* transducer */
    int max;
};

static size_t window_of(const struct steno_cached_encoder *e)
{
    return (size_t)(e->shape.window * e->shape.bins);
}

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_cached_encoder_batch_close(w->batch);
    steno_icefall_scorer_close(w->scorer);
    free(w);
}

static steno_status worker_open(void **worker, void *model, int max, steno_err *err)
{
    struct steno_icefall_model *m = model;
    struct worker *w = calloc(1, sizeof *w);
    steno_status st =
        w ? steno_cached_encoder_batch_open(&w->batch, &m->encoder, max, m->threads, err)
          : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st && !m->ctc)
        st = steno_icefall_scorer_open(&w->scorer, &m->nets, m->threads, err);
    if (st) {
        worker_close(w);
        return st;
    }
    w->model = m;
    w->max = m->encoder.batches ? max : 1;
    *worker = w;
    return STENO_OK;
}

static void search(struct worker *w, struct steno_step_item *items, size_t n, const float *y)
{
    const struct steno_cached_encoder_shape *e = &w->model->encoder.shape;
    size_t stride = (size_t)(e->frames * e->width);
    struct steno_icefall_search *s[STENO_BATCH_MAX];
    const float *frame[STENO_BATCH_MAX];
    steno_status st[STENO_BATCH_MAX] = {STENO_OK};
    steno_err *err[STENO_BATCH_MAX];
    for (size_t i = 0; i < n; i++) {
        s[i] = &((struct stream *)items[i].state)->search;
        err[i] = items[i].err;
        if (!w->scorer)
            st[i] = steno_icefall_search_scores(s[i], y + i * stride, (size_t)e->frames);
    }
    for (int64_t t = 0; t < e->frames && w->scorer; t++) {
        for (size_t i = 0; i < n; i++)
            frame[i] = y + i * stride + (size_t)(t * e->width);
        steno_icefall_search_frame(w->scorer, s, frame, n, st, err);
    }
    for (size_t i = 0; i < n; i++) {
        ((struct stream *)items[i].state)->stepped = !st[i];
        items[i].st = st[i];
    }
}

static void step(void *worker, struct steno_step_item *items, size_t n, int size,
                 struct steno_network_time *spent)
{
    struct worker *w = worker;
    const struct steno_cached_encoder *e = &w->model->encoder;
    struct steno_cached_encoder_state *state[STENO_BATCH_MAX];
    const float *y = NULL;
    steno_err why = {0};
    steno_status st;
    for (size_t i = 0; i < n; i++) {
        memcpy(steno_cached_encoder_batch_x(w->batch, (int)i), items[i].window,
               window_of(e) * sizeof *items[i].window);
        state[i] = &((struct stream *)items[i].state)->encoder;
    }
    steno_network_time_begin(spent);
    st = steno_cached_encoder_batch_step(w->batch, state, (int)n, size, &y, &why);
    steno_network_time_end(spent);
    for (size_t i = 0; i < n && st; i++) {
        items[i].st = st;
        if (items[i].err)
            *items[i].err = why;
    }
    if (!st)
        search(w, items, n, y);
}

/* ---- trials ---------------------------------------------------------------------------------- */

struct trial {
    struct worker *worker;
    struct steno_cached_encoder_state state[STENO_BATCH_MAX];
};

static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    struct trial *t = calloc(1, sizeof *t);
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    t->worker = worker;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        t->state[i].fresh = true;
    for (int i = 0; i < t->worker->max; i++)
        steno_noise_fill(steno_cached_encoder_batch_x(t->worker->batch, i),
                         window_of(&t->worker->model->encoder), (uint32_t)i);
    *trial = t;
    return STENO_OK;
}

static steno_status trial_run(void *trial, int size, steno_err *err)
{
    struct trial *t = trial;
    struct steno_cached_encoder_state *s[STENO_BATCH_MAX];
    const float *y;
    for (int i = 0; i < size; i++)
        s[i] = &t->state[i];
    return steno_cached_encoder_batch_step(t->worker->batch, s, size, size, &y, err);
}

static void trial_close(void *trial)
{
    struct trial *t = trial;
    if (!t)
        return;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        steno_cached_encoder_state_free(&t->state[i]);
    free(t);
}

/* ---- the trial at load ----------------------------------------------------------------------- */

#define TRIAL_STEPS 2 /* the second step reads the states of the first */
/* Allowed difference of scores x, relative to 1 + |x|, between a batch and streams alone (the same
 * as of families/ctc). A quantized network may have products that round over the range of the whole
 * batch: then any difference counts. */
#define TRIAL_ERROR 1e-3f

/* What the search reads of one stream's last frame of output: the scores of CTC, or the joiner's
 * logits after an empty context. */
static steno_status read_scores(struct worker *w, const float *const *frame, size_t n, float *out,
                                steno_err *err)
{
    const struct steno_icefall_model *m = w->model;
    int32_t context[STENO_STATELESS_CONTEXT] = {0};
    const int32_t *contexts[2] = {context, context};
    float *logits = NULL;
    steno_status st = STENO_OK;
    if (!m->ctc)
        st = steno_icefall_score(w->scorer, frame, contexts, n, &logits, err);
    for (size_t i = 0; i < n && !st; i++)
        memcpy(out + i * (size_t)m->vocab, m->ctc ? frame[i] : logits + i * (size_t)m->vocab,
               (size_t)m->vocab * sizeof *out);
    return st;
}

/* Run TRIAL_STEPS of two streams, alone or as a batch. scores: [2, vocab] of the last frame. */
static steno_status run_two(struct worker *w, bool batch, float *scores, steno_err *err)
{
    const struct steno_cached_encoder *e = &w->model->encoder;
    struct steno_cached_encoder_state mem[2] = {{.fresh = true}, {.fresh = true}},
                                      *s[2] = {&mem[0], &mem[1]};
    int size = batch ? 2 : 1;
    steno_status st = STENO_OK;
    for (int k = 0; k < TRIAL_STEPS && !st; k++)
        for (int i = 0; i < 2 && !st; i += size) {
            const float *y, *frame[2];
            for (int at = 0; at < size; at++)
                steno_noise_fill(steno_cached_encoder_batch_x(w->batch, at), window_of(e),
                                 (uint32_t)(2 * k + i + at));
            st = steno_cached_encoder_batch_step(w->batch, s + i, size, size, &y, err);
            for (int at = 0; at < size && !st; at++)
                frame[at] = y + ((int64_t)(at + 1) * e->shape.frames - 1) * e->shape.width;
            if (!st)
                st =
                    read_scores(w, frame, (size_t)size, scores + (int64_t)i * w->model->vocab, err);
        }
    for (int i = 0; i < 2; i++)
        steno_cached_encoder_state_free(&mem[i]);
    return st;
}

static bool agree(const float *a, const float *b, size_t n, float error)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= error * (1 + fabsf(a[i]))) &&
            memcmp(&a[i], &b[i], sizeof *a) != 0) /* equal -inf or NaN */
            return false;
    return true;
}

/* Run a few steps on noise, alone and as a batch, so that a network that fails does so at load and
 * not with the first stream. Where the streams of a batch change each other's results, the model
 * takes no batches. */
static steno_status try_steps(struct steno_icefall_model *m, steno_err *err)
{
    size_t n = 2 * (size_t)m->vocab;
    float *scores = calloc(2 * n, sizeof *scores);
    void *w = NULL;
    steno_status st =
        scores ? worker_open(&w, m, 2, err) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = run_two(w, false, scores, err);
    if (!st && m->encoder.batches)
        m->encoder.batches = !run_two(w, true, scores + n, NULL) &&
                             agree(scores, scores + n, n, m->files.quantized ? 0 : TRIAL_ERROR);
    worker_close(w);
    free(scores);
    return st ? steno_fail_in(err, st, "%s/%s", m->dir, m->network) : STENO_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status bind(struct steno_icefall_model *m, steno_err *err)
{
    struct steno_cached_encoder_shape shape = {.width = m->width, .bins = m->bins};
    steno_status st = steno_icefall_meta(m, "T", &shape.window, err);
    if (!st)
        st = steno_icefall_meta(m, "decode_chunk_len", &m->shift, err);
    if (st)
        return st;
    if (m->shift > shape.window || m->shift % STENO_ICEFALL_SUBSAMPLING)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata decode_chunk_len is %d and T is %d, expected a multiple of "
                          "%d that is at most T",
                          m->files.encoder, (int)m->shift, (int)shape.window,
                          STENO_ICEFALL_SUBSAMPLING);
    shape.frames = m->shift / STENO_ICEFALL_SUBSAMPLING;
    return steno_cached_encoder_bind(&m->encoder, m->encoder_net, "x", &shape, m->files.encoder,
                                     err);
}

/* The scores of a skipped window: blank in every frame. */
static steno_status make_quiet(struct steno_icefall_model *m, steno_err *err)
{
    size_t n = (size_t)(m->encoder.shape.frames * m->vocab);
    if (!m->ctc)
        return STENO_OK;
    m->quiet = malloc(n * sizeof *m->quiet);
    if (!m->quiet)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    for (size_t i = 0; i < n; i++)
        m->quiet[i] = (int32_t)(i % (size_t)m->vocab) == m->blank ? 0 : QUIET_SCORE;
    return STENO_OK;
}

static steno_status open_model(void **model, const struct steno_family_open *o, steno_err *err)
{
    struct steno_icefall_model *m = NULL;
    steno_status st = steno_icefall_open(&m, o, err);
    if (!st)
        st = bind(m, err);
    if (!st)
        st = make_quiet(m, err);
    if (!st)
        st = try_steps(m, err);
    if (st)
        steno_icefall_close(m);
    else
        *model = m;
    return st;
}

static const struct steno_option_info options[] = {STENO_ICEFALL_OPTIONS(FAMILY)};

const struct steno_family steno_family_icefall = {
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
