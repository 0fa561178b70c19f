/* Family nemo_streaming: encoders with caches, fed by windows. A window has the frames of a step
 * and, before them, some of the step before, which the convolutions at the encoder's beginning
 * need. In front of the first step NeMo has zeros there; sherpa-onnx begins with the first frames
 * of the recording, and so passes over the scores of one step. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "families/common/noise.h"
#include "families/common/scores.h"
#include "families/nemo/family.h"
#include "families/nemo/internal.h"

#define FAMILY "nemo_streaming"
#define TAIL 64      /* feature frames of silence after a recording, for the last word */
#define LONGEST 20.0 /* s: maximum length of an utterance, unless a stream sets another */

static bool probe(const char *dir)
{
    bool streaming;
    return steno_nemo_conf_probe(dir, &streaming) && streaming;
}

static size_t rows_of(const struct steno_nemo_model *m)
{
    return (size_t)(m->conf.shift / m->conf.subsampling);
}

static steno_status open_model(void **model, const struct steno_family_open *o, steno_err *err)
{
    struct steno_nemo_model *m = NULL;
    steno_status st = steno_nemo_open(&m, o, true, err);
    if (st)
        return st;
    if (!steno_nemo_is_transducer(m) &&
        !(m->quiet = steno_ctc_quiet((int64_t)rows_of(m), (int32_t)m->dim, m->blank))) {
        steno_nemo_close(m);
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    }
    *model = m;
    return STENO_OK;
}

static void close_model(void *model)
{
    steno_nemo_close(model);
}

static void get_info(const void *model, struct steno_family_info *out)
{
    const struct steno_nemo_model *m = model;
    const struct steno_nemo_conf *c = &m->conf;
    const double frame = (double)STENO_NEMO_HOP / STENO_NEMO_RATE;
    steno_nemo_info(m, out);
    out->chunk_seconds = frame * (double)c->shift;
    out->lookahead_seconds = m->sherpa ? frame * (double)(c->window - c->shift) : 0;
    out->stream_bytes =
        m->cache_bytes + (size_t)(c->window * c->bins) * sizeof(float) +
        (steno_nemo_is_transducer(m)
             ? 2 * (steno_nemo_state_size(&m->transducer) + m->transducer.width) * sizeof(float)
             : 0);
    out->endpoint = (struct steno_endpoint_rules){2.4, 1.2, LONGEST};
    out->batches = !m->alone;
    out->untimed = steno_nemo_is_transducer(m);
    out->feeding = STENO_FEED_WINDOWS;
    out->windows =
        (struct steno_windows_info){.front = m->front,
                                    .frames = (size_t)c->window,
                                    .shift = (size_t)c->shift,
                                    .zeros = m->sherpa ? 0 : (size_t)(c->window - c->shift),
                                    .right_padding = TAIL,
                                    .rows = rows_of(m)};
}

static void describe(const void *model, const struct steno_model_info *i, FILE *out)
{
    steno_nemo_describe(model, i, out);
}

/* ---- a stream -------------------------------------------------------------------------------- */

struct stream {
    const struct steno_nemo_model *model;
    struct steno_nemo_caches caches;
    struct steno_nemo_search search; /* a transducer reads the frames of a step in the step */
};

static void state_free(void *state)
{
    struct stream *s = state;
    if (!s)
        return;
    steno_aligned_free(s->caches.data);
    steno_token_search_close(&s->search.tokens);
    free(s);
}

static steno_status state_new(void **state, void *model, struct steno_family_stream *o,
                              steno_err *err)
{
    struct stream *s = calloc(1, sizeof *s);
    steno_status st = s ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (st)
        return st;
    s->model = model;
    s->caches.fresh = true;
    st = steno_nemo_search_open(&s->search, s->model, o, err);
    if (st)
        state_free(s);
    else
        *state = s;
    return st;
}

/* After an endpoint the encoder keeps its caches: the speech comes from the same room. sherpa-onnx
 * begins anew. */
static steno_status reset(void *state, enum steno_reset what, steno_err *err)
{
    struct stream *s = state;
    (void)err;
    s->caches.fresh = s->caches.fresh || s->model->sherpa || what == STENO_RESET_RECORDING;
    return what == STENO_RESET_RECORDING ? steno_token_search_restart(&s->search.tokens, 0)
                                         : steno_token_search_reset(&s->search.tokens);
}

static steno_status consume(void *state, bool *left)
{
    return steno_token_search_consume(&((struct stream *)state)->search.tokens, left);
}

static steno_status skip(void *state)
{
    struct stream *s = state;
    if (s->model->quiet)
        steno_token_search_give(&s->search.tokens, s->model->quiet, rows_of(s->model));
    else
        steno_token_search_skip(&s->search.tokens, rows_of(s->model));
    return STENO_OK;
}

static steno_status hypotheses(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                               size_t *stable)
{
    return steno_token_search_list(&((struct stream *)state)->search.tokens, out, max, n, stable);
}

static int64_t frames(const void *state)
{
    return steno_token_search_frames(&((const struct stream *)state)->search.tokens);
}

static int64_t last_sound(const void *state)
{
    return steno_token_search_last_sound(&((const struct stream *)state)->search.tokens);
}

static size_t n_tokens(const void *state)
{
    return steno_token_search_n_tokens(&((const struct stream *)state)->search.tokens);
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct worker {
    const struct steno_nemo_model *model;
    steno_nemo_encoder *encoder;
    steno_nemo_joint *joint;
    steno_tdt_work *work;
    int max;
};

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_nemo_encoder_close(w->encoder);
    steno_nemo_joint_close(w->joint);
    steno_tdt_work_close(w->work);
    free(w);
}

static steno_status worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct steno_nemo_model *m = model;
    struct worker *w = calloc(1, sizeof *w);
    steno_status st = w ? steno_nemo_encoder_open(&w->encoder, m, max, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!w)
        return st;
    w->model = m;
    w->max = m->alone ? 1 : max;
    if (!st && steno_nemo_is_transducer(m))
        st = steno_nemo_joint_open(&w->joint, &m->transducer, m->threads, err);
    if (!st && steno_nemo_is_transducer(m))
        st = steno_tdt_work_open(&w->work, m->transducer.outputs, err);
    if (st)
        worker_close(w);
    else
        *worker = w;
    return st;
}

static steno_status search_frames(struct worker *w, struct steno_step_item *items, size_t n,
                                  const float *rows, steno_err *err)
{
    const struct steno_transducer_nets nets = steno_nemo_joint_nets(w->joint);
    const size_t each = rows_of(w->model), dim = w->model->dim;
    steno_tdt *t[STENO_BATCH_MAX];
    struct steno_tdt_frames f[STENO_BATCH_MAX];
    for (size_t i = 0; i < n; i++) {
        struct stream *s = items[i].state;
        t[i] = s->search.tokens.tdt;
        f[i] = (struct steno_tdt_frames){rows + i * each * dim, each, dim};
        s->search.tokens.read = true;
    }
    return steno_tdt_push(t, f, n, &nets, w->work, err);
}

static void step(void *worker, struct steno_step_item *items, size_t n, int size,
                 struct steno_network_time *spent)
{
    struct worker *w = worker;
    const struct steno_nemo_model *m = w->model;
    const size_t each = rows_of(m);
    struct steno_nemo_caches *c[STENO_BATCH_MAX];
    const float *rows = NULL;
    steno_err why = {0};
    steno_status st;
    for (size_t i = 0; i < n; i++) {
        struct stream *s = items[i].state;
        steno_nemo_encoder_put(w->encoder, (int)i, items[i].window);
        c[i] = &s->caches;
    }
    steno_network_time_begin(spent);
    st = steno_nemo_encoder_step(w->encoder, c, (int)n, size, &rows, &why);
    steno_network_time_end(spent);
    if (!st && w->joint)
        st = search_frames(w, items, n, rows, &why);
    for (size_t i = 0; i < n; i++) {
        struct stream *s = items[i].state;
        items[i].st = st;
        if (st && items[i].err)
            *items[i].err = why;
        if (!st && !w->joint)
            steno_token_search_give(&s->search.tokens, rows + i * each * m->dim, each);
    }
}

/* ---- trials ---------------------------------------------------------------------------------- */

struct trial {
    struct worker *worker;
    struct steno_nemo_caches caches[STENO_BATCH_MAX];
};

static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    struct worker *w = worker;
    const size_t window = (size_t)(w->model->conf.window * w->model->conf.bins);
    struct trial *t = calloc(1, sizeof *t);
    float *noise = malloc(window * sizeof *noise);
    if (!t || !noise) {
        free(t);
        free(noise);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    t->worker = w;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        t->caches[i].fresh = true;
    for (int i = 0; i < w->max; i++) {
        steno_noise_fill(noise, window, (uint32_t)i);
        steno_nemo_encoder_put(w->encoder, i, noise);
    }
    free(noise);
    *trial = t;
    return STENO_OK;
}

static steno_status trial_run(void *trial, int size, steno_err *err)
{
    struct trial *t = trial;
    struct steno_nemo_caches *c[STENO_BATCH_MAX];
    const float *rows;
    for (int i = 0; i < size; i++)
        c[i] = &t->caches[i];
    return steno_nemo_encoder_step(t->worker->encoder, c, size, size, &rows, err);
}

static void trial_close(void *trial)
{
    struct trial *t = trial;
    if (!t)
        return;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        steno_aligned_free(t->caches[i].data);
    free(t);
}

static const struct steno_option_info options[] = {STENO_NEMO_OPTIONS(FAMILY)};

const struct steno_family steno_family_nemo_streaming = {.name = FAMILY,
                                                         .layout = "encoder.onnx",
                                                         .options = options,
                                                         .n_options =
                                                             sizeof options / sizeof *options,
                                                         .probe = probe,
                                                         .languages = steno_nemo_languages,
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
