/* Family nemo_streaming: encoders with caches, fed by windows. A window has the frames of a step
 * and, before them, some of the step before, which the convolutions at the encoder's beginning
 * need. In front of the first step NeMo has zeros there; sherpa-onnx begins with the first frames
 * of the recording, and so passes over the scores of one step. Or encoders without caches, whose
 * windows overlap (Parakeet unified). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "speech/families/common/noise.h"
#include "speech/families/entries.h"
#include "speech/families/nemo/internal.h"
#include "speech/text/language.h"

#define FAMILY "nemo_streaming"
#define TAIL 64      /* feature frames of silence after a recording, for the last word */
#define LONGEST 20.0 /* s: maximum length of an utterance, unless a stream sets another */

static bool probe_nemo_streaming(const char *dir)
{
    bool streaming;
    return steno_nemo_conf_probe(dir, &streaming) && streaming;
}

static size_t nemo_streaming_rows_of(const struct steno_nemo_model *m)
{
    return (size_t)(m->conf.shift / m->conf.subsampling);
}

static steno_status open_model_nemo_streaming(void *model, const struct steno_family_open *o,
                                              steno_err *err)
{
    struct steno_nemo_model *m = model;
    steno_status st = steno_nemo_open(m, o, true, err);
    return st || steno_nemo_is_transducer(m)
               ? st
               : steno_shell_make_quiet(&m->base, (int64_t)nemo_streaming_rows_of(m),
                                        (int32_t)m->dim, err);
}

static void get_info_nemo_streaming(const void *model, struct steno_family_info *out)
{
    const struct steno_nemo_model *m = model;
    const struct steno_nemo_conf *c = &m->conf;
    const double frame = (double)STENO_NEMO_HOP / STENO_NEMO_RATE;
    steno_nemo_info(m, out);
    out->chunk_seconds = frame * (double)c->shift;
    out->lookahead_seconds = c->buffered ? frame * (double)(c->window - c->past - c->shift)
                             : m->sherpa ? frame * (double)(c->window - c->shift)
                                         : 0;
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
        (struct steno_windows_info){.front = m->base.front,
                                    .frames = (size_t)c->window,
                                    .shift = (size_t)c->shift,
                                    .zeros = c->buffered ? (size_t)c->past
                                             : m->sherpa ? 0
                                                         : (size_t)(c->window - c->shift),
                                    .right_padding = TAIL,
                                    .rows = nemo_streaming_rows_of(m)};
}

/* ---- a stream -------------------------------------------------------------------------------- */

struct stream {
    struct steno_nemo_stream base; /* a transducer reads the frames of a step in the step */
    struct steno_nemo_caches caches;
};

static struct steno_token_search *search_of(void *state)
{
    return &((struct steno_shell_stream *)state)->search;
}

static const struct steno_nemo_model *model_of_nemo_streaming(const struct stream *s)
{
    return s->base.base.model;
}

static void close_stream_nemo_streaming(void *stream)
{
    steno_aligned_free(((struct stream *)stream)->caches.data);
}

static steno_status open_stream_nemo_streaming(void *stream, const void *model,
                                               struct steno_family_stream *o, steno_err *err)
{
    struct stream *s = stream;
    steno_status st = steno_nemo_stream_open(stream, model, o, err);
    s->caches = (struct steno_nemo_caches){.fresh = true, .prompt = s->base.prompt};
    return st;
}

/* The language that a model with a prompt has found: that of the last mark. */
static void find_language(const struct steno_nemo_model *m, struct steno_hypothesis *h)
{
    for (size_t i = h->n; i-- > 0 && !h->language;) {
        const char *piece = steno_tokens_piece(m->base.tokens, h->spans[i].token);
        char code[8] = "";
        if (!steno_nemo_prompts_is_mark(piece))
            continue;
        memcpy(code, piece + 1, strcspn(piece + 1, "->"));
        h->language = steno_language_code_at(steno_language_find(code));
        h->language_probability = expf(fminf(h->spans[i].peak, 0));
    }
}

static steno_status hypotheses(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                               size_t *stable)
{
    const struct stream *s = state;
    steno_status st = steno_shell_hypotheses(state, out, max, n, stable);
    for (size_t i = 0; i < *n && !st && model_of_nemo_streaming(s)->prompt >= 0; i++) {
        out[i].language = s->base.language;
        out[i].language_probability = 1;
        find_language(model_of_nemo_streaming(s), &out[i]);
    }
    return st;
}

/* After an endpoint the encoder keeps its caches: the speech comes from the same room. sherpa-onnx
 * begins anew. */
static steno_status reset_nemo_streaming(void *state, enum steno_reset what, steno_err *err)
{
    struct stream *s = state;
    (void)err;
    s->caches.fresh =
        s->caches.fresh || model_of_nemo_streaming(s)->sherpa || what == STENO_RESET_RECORDING;
    return steno_shell_reset_search(s, what);
}

static steno_status skip_nemo_streaming(void *state)
{
    struct stream *s = state;
    const struct steno_nemo_model *m = model_of_nemo_streaming(s);
    steno_nemo_encoder_pass(m, &s->caches);
    if (m->base.quiet)
        steno_token_search_give(search_of(s), m->base.quiet, nemo_streaming_rows_of(m));
    else
        steno_token_search_skip(search_of(s), nemo_streaming_rows_of(m));
    return STENO_OK;
}

/* Parakeet EOU says where turns end, and where it was only a
 * sign of listening. */
static enum steno_ending ending_nemo_streaming(const void *state)
{
    const struct stream *s = state;
    const struct steno_nemo_model *m = model_of_nemo_streaming(s);
    static const enum steno_ending kinds[] = {STENO_ENDING_TURN, STENO_ENDING_BACKCHANNEL};
    int at = -1;
    if (s->base.base.search.tdt && (m->endings[0] >= 0 || m->endings[1] >= 0))
        at = steno_tdt_find_last(s->base.base.search.tdt, m->endings, STENO_NEMO_ENDINGS);
    return at < 0 ? STENO_ENDING_NONE : kinds[at];
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct worker {
    struct steno_nemo_worker base;
    steno_nemo_encoder *encoder;
    int max;
};

static void close_worker_nemo_streaming(void *worker)
{
    steno_nemo_encoder_close(((struct worker *)worker)->encoder);
    steno_nemo_worker_close(worker);
}

static steno_status open_worker_nemo_streaming(void *worker, const void *model, int max,
                                               steno_err *err)
{
    const struct steno_nemo_model *m = model;
    struct worker *w = worker;
    steno_status st = steno_nemo_encoder_open(&w->encoder, m, max, err);
    w->max = m->alone ? 1 : max;
    return st ? st : steno_nemo_worker_open(worker, model, max, err);
}

static steno_status search_frames(struct worker *w, struct steno_step_item *items, size_t n,
                                  const float *rows, steno_err *err)
{
    const struct steno_transducer_nets nets = steno_nemo_joint_nets(w->base.joint);
    const struct steno_nemo_model *m = w->base.base.model;
    const size_t each = nemo_streaming_rows_of(m), dim = m->dim;
    steno_tdt *t[STENO_BATCH_MAX];
    struct steno_tdt_frames f[STENO_BATCH_MAX];
    for (size_t i = 0; i < n; i++) {
        struct steno_token_search *s = search_of(items[i].state);
        t[i] = s->tdt;
        f[i] = (struct steno_tdt_frames){rows + i * each * dim, each, dim};
        s->read = true;
    }
    return steno_tdt_push(t, f, n, &nets, w->base.work, err);
}

static void nemo_streaming_step(void *worker, struct steno_step_item *items, size_t n, int size,
                                struct steno_network_time *spent)
{
    struct worker *w = worker;
    const struct steno_nemo_model *m = w->base.base.model;
    const size_t each = nemo_streaming_rows_of(m);
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
    if (!st && w->base.joint)
        st = search_frames(w, items, n, rows, &why);
    for (size_t i = 0; i < n; i++) {
        items[i].st = st;
        if (st && items[i].err)
            *items[i].err = why;
        if (!st && !w->base.joint)
            steno_token_search_give(search_of(items[i].state), rows + i * each * m->dim, each);
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
    const struct steno_nemo_model *m = w->base.base.model;
    const size_t window = (size_t)(m->conf.window * m->conf.bins);
    struct trial *t = calloc(1, sizeof *t);
    float *noise = malloc(window * sizeof *noise);
    if (!t || !noise) {
        free(t);
        free(noise);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    t->worker = w;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        t->caches[i] = (struct steno_nemo_caches){
            .fresh = !m->conf.buffered, .past = m->conf.past, .prompt = m->prompts.automatic};
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

static const struct steno_option_info options[] = {
    STENO_NEMO_OPTIONS(FAMILY),
    {FAMILY, "lookahead", STENO_OPTION_NUMBER, STENO_OPTION_OF_MODEL, 0, 1000, NULL, "",
     "GGUF: encoder frames of a chunk behind its first, one of those of the training"}};

static const struct steno_shell shell = {.model_bytes = sizeof(struct steno_nemo_model),
                                         .stream_bytes = sizeof(struct stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .open = open_model_nemo_streaming,
                                         .close = steno_nemo_close,
                                         .info = get_info_nemo_streaming,
                                         .describe = steno_nemo_describe,
                                         .stream_open = open_stream_nemo_streaming,
                                         .stream_close = close_stream_nemo_streaming,
                                         .worker_open = open_worker_nemo_streaming,
                                         .worker_close = close_worker_nemo_streaming};

const struct steno_family steno_family_nemo_streaming = {.name = FAMILY,
                                                         .options = options,
                                                         .n_options =
                                                             sizeof options / sizeof *options,
                                                         .probe = probe_nemo_streaming,
                                                         .languages = steno_nemo_languages,
                                                         .shell = &shell,
                                                         STENO_WINDOWED_STATE,
                                                         STENO_WINDOWED_SEARCH,
                                                         .hypotheses = hypotheses,
                                                         .ending = ending_nemo_streaming,
                                                         .reset = reset_nemo_streaming,
                                                         .step = nemo_streaming_step,
                                                         .skip = skip_nemo_streaming,
                                                         .trial_open = trial_open,
                                                         .trial_run = trial_run,
                                                         .trial_close = trial_close};
