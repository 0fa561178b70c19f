/* Family icefall: streaming models. A step runs the encoder once for all streams, then, frame by
 * frame, the joiner once for all their hypotheses. */
#include <stdlib.h>
#include <string.h>

#include "families/common/cached_encoder_trial.h"
#include "families/icefall/family.h"
#include "families/icefall/internal.h"

#define FAMILY "icefall"
/* sherpa-onnx's clients send 0.66 s of silence after a recording for windows of 0.45 s: it decodes
 * 0.21 s past the end. */
#define TAIL_FRAMES 21

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
    out->stream_bytes =
        m->encoder.state_bytes + steno_cached_encoder_window(&m->encoder) * sizeof(float);
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
    struct steno_token_search search;
};

static void state_free(void *state)
{
    struct stream *s = state;
    if (!s)
        return;
    steno_cached_encoder_state_free(&s->encoder);
    steno_token_search_close(&s->search);
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
    return steno_token_search_restart(&s->search, frame);
}

/* After an endpoint a transducer keeps the encoder's states, and a CTC network begins anew, as in
 * sherpa-onnx. */
static steno_status reset(void *state, enum steno_reset what, steno_err *err)
{
    struct stream *s = state;
    steno_status st;
    if (what == STENO_RESET_RECORDING)
        st = restart(s, 0);
    else if (s->search.stateless)
        st = steno_token_search_reset(&s->search);
    else
        st = restart(s, steno_token_search_frames(&s->search));
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

/* All frames of a step at once: the search has read them in the step, with the other streams'. */
static steno_status consume(void *state, bool *left)
{
    return steno_token_search_consume(&((struct stream *)state)->search, left);
}

static steno_status skip(void *state)
{
    struct stream *s = state;
    const size_t frames = (size_t)s->model->encoder.shape.frames;
    s->search.read = true;
    if (!s->search.stateless)
        return steno_token_search_push(&s->search, s->model->quiet, frames);
    steno_token_search_skip(&s->search, frames);
    return STENO_OK;
}

static int64_t frames(const void *state)
{
    return steno_token_search_frames(&((const struct stream *)state)->search);
}

static int64_t last_sound(const void *state)
{
    return steno_token_search_last_sound(&((const struct stream *)state)->search);
}

static size_t n_tokens(const void *state)
{
    return steno_token_search_n_tokens(&((const struct stream *)state)->search);
}

static steno_status hypotheses(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                               size_t *stable)
{
    return steno_token_search_list(&((struct stream *)state)->search, out, max, n, stable);
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct worker {
    struct steno_icefall_model *model;
    steno_cached_encoder_batch *batch;
    steno_icefall_scorer *scorer; /* transducer */
};

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
    *worker = w;
    return STENO_OK;
}

static void search(struct worker *w, struct steno_step_item *items, size_t n, const float *y)
{
    const struct steno_cached_encoder_shape *e = &w->model->encoder.shape;
    size_t stride = (size_t)(e->frames * e->width);
    struct steno_token_search *s[STENO_BATCH_MAX];
    const float *frame[STENO_BATCH_MAX];
    steno_status st[STENO_BATCH_MAX] = {STENO_OK};
    steno_err *err[STENO_BATCH_MAX];
    for (size_t i = 0; i < n; i++) {
        s[i] = &((struct stream *)items[i].state)->search;
        err[i] = items[i].err;
        if (!w->scorer)
            st[i] = steno_token_search_push(s[i], y + i * stride, (size_t)e->frames);
    }
    for (int64_t t = 0; t < e->frames && w->scorer; t++) {
        for (size_t i = 0; i < n; i++)
            frame[i] = y + i * stride + (size_t)(t * e->width);
        steno_icefall_search_frame(w->model, w->scorer, s, frame, n, st, err);
    }
    for (size_t i = 0; i < n; i++) {
        s[i]->read = !st[i];
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
               steno_cached_encoder_window(e) * sizeof *items[i].window);
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

static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    return steno_cached_encoder_trial_open(trial, ((struct worker *)worker)->batch, err);
}

/* What the search reads of the last frame of each stream: the scores of CTC, or the joiner's
 * logits after an empty context. */
static steno_status read_scores(void *worker, const float *y, size_t n, float *out, steno_err *err)
{
    struct worker *w = worker;
    const struct steno_icefall_model *m = w->model;
    const struct steno_cached_encoder_shape *e = &m->encoder.shape;
    const size_t vocab = (size_t)m->vocab;
    int32_t context[STENO_STATELESS_CONTEXT] = {0};
    const int32_t *contexts[2] = {context, context};
    const float *frame[2];
    float *logits = NULL;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n; i++)
        frame[i] = y + ((int64_t)(i + 1) * e->frames - 1) * e->width;
    if (!m->ctc)
        st = steno_icefall_score(w->scorer, frame, contexts, n, &logits, err);
    for (size_t i = 0; i < n && !st; i++)
        memcpy(out + i * vocab, m->ctc ? frame[i] : logits + i * vocab, vocab * sizeof *out);
    return st;
}

static steno_status try_steps(struct steno_icefall_model *m, steno_err *err)
{
    void *w = NULL;
    steno_status st = worker_open(&w, m, 2, err);
    const struct steno_cached_encoder_reader r = {
        .read = read_scores, .arg = w, .values = (size_t)m->vocab, .exact = m->files.quantized};
    if (!st)
        st = steno_cached_encoder_try(&m->encoder, ((struct worker *)w)->batch, &r, err);
    worker_close(w);
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

static steno_status open_model(void **model, const struct steno_family_open *o, steno_err *err)
{
    struct steno_icefall_model *m = NULL;
    steno_status st = steno_icefall_open(&m, o, err);
    if (!st)
        st = bind(m, err);
    if (!st)
        st = try_steps(m, err);
    if (!st && m->ctc && !(m->quiet = steno_ctc_quiet(m->encoder.shape.frames, m->vocab, m->blank)))
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    if (st)
        steno_icefall_close(m);
    else
        *model = m;
    return st;
}

static const struct steno_option_info options[] = {STENO_SEARCH_OPTIONS(FAMILY)};

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
    .trial_run = steno_cached_encoder_trial_run,
    .trial_close = steno_cached_encoder_trial_close,
    .consume = consume,
    .skip = skip,
    .frames = frames,
    .last_sound = last_sound,
    .n_tokens = n_tokens};
