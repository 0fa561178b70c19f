/* Family icefall: streaming models. A step runs the encoder once for all streams, then, frame by
 * frame, the joiner once for all their hypotheses. */
#include <string.h>

#include "speech/families/entries.h"
#include "speech/families/icefall/internal.h"

#define FAMILY "icefall"
/* sherpa-onnx's clients send 0.66 s of silence after a recording for windows of 0.45 s: it decodes
 * 0.21 s past the end. */
#define TAIL_FRAMES 21

static bool probe_icefall_streaming(const char *dir)
{
    bool streaming;
    return steno_icefall_probe(dir, &streaming) && streaming;
}

static void get_info_icefall_streaming(const void *model, struct steno_family_info *out)
{
    const struct steno_icefall_model *m = model;
    double frame = (double)m->hop / STENO_ICEFALL_RATE;
    steno_icefall_info(m, out);
    out->sample_rate = STENO_ICEFALL_RATE;
    out->frame_samples = m->hop * STENO_ICEFALL_SUBSAMPLING;
    out->chunk_seconds = frame * (double)m->shift;
    out->lookahead_seconds = frame * (double)(m->base.encoder.shape.window - m->shift);
    out->endpoint = (struct steno_endpoint_rules){2.4, 1.2, 20};
    out->untimed = !m->ctc;
    out->windows.shift = (size_t)m->shift;
    out->windows.right_padding = TAIL_FRAMES;
}

/* ---- a stream -------------------------------------------------------------------------------- */

static steno_status open_stream_icefall_streaming(void *stream, const void *model,
                                                  struct steno_family_stream *o, steno_err *err)
{
    return steno_icefall_search_open(&((struct steno_shell_stream *)stream)->search, model, o, err);
}

/* After an endpoint a transducer keeps the encoder's states, and a CTC network begins anew, as in
 * sherpa-onnx. */
static steno_status reset_icefall_streaming(void *state, enum steno_reset what, steno_err *err)
{
    struct steno_shell_stream *s = state;
    steno_status st;
    s->encoder.fresh = s->encoder.fresh || what == STENO_RESET_RECORDING || !s->search.stateless;
    if (what == STENO_RESET_RECORDING || s->search.stateless)
        st = steno_shell_reset_search(s, what);
    else
        st = steno_token_search_restart(&s->search, steno_token_search_frames(&s->search));
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

static steno_status skip_icefall_streaming(void *state)
{
    struct steno_shell_stream *s = state;
    const struct steno_shell_model *m = s->model;
    const size_t frames = (size_t)m->encoder.shape.frames;
    s->search.read = true;
    if (!s->search.stateless)
        return steno_token_search_push(&s->search, m->quiet, frames);
    steno_token_search_skip(&s->search, frames);
    return STENO_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* All frames of a step at once, with the other streams': they are consumed together. */
static void search(struct steno_icefall_worker *w, struct steno_step_item *items, size_t n,
                   const float *y)
{
    const struct steno_icefall_model *m = w->base.model;
    const struct steno_cached_encoder_shape *e = &m->base.encoder.shape;
    size_t stride = (size_t)(e->frames * e->width);
    struct steno_token_search *s[STENO_BATCH_MAX];
    const float *frame[STENO_BATCH_MAX];
    steno_status st[STENO_BATCH_MAX] = {STENO_OK};
    steno_err *err[STENO_BATCH_MAX];
    for (size_t i = 0; i < n; i++) {
        s[i] = &((struct steno_shell_stream *)items[i].state)->search;
        err[i] = items[i].err;
        if (!w->scorer)
            st[i] = steno_token_search_push(s[i], y + i * stride, (size_t)e->frames);
    }
    for (int64_t t = 0; t < e->frames && w->scorer; t++) {
        for (size_t i = 0; i < n; i++)
            frame[i] = y + i * stride + (size_t)(t * e->width);
        steno_icefall_search_frame(m, w->scorer, s, frame, n, st, err);
    }
    for (size_t i = 0; i < n; i++) {
        s[i]->read = !st[i];
        items[i].st = st[i];
    }
}

static void icefall_streaming_step(void *worker, struct steno_step_item *items, size_t n, int size,
                                   struct steno_network_time *spent)
{
    const float *y = NULL;
    if (!steno_shell_step_encoder(worker, items, n, size, spent, &y))
        search(worker, items, n, y);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* What the search reads of the last frame of each stream: the scores of CTC, or the joiner's
 * logits after an empty context. */
static steno_status read_scores(void *worker, const float *y, size_t n, float *out, steno_err *err)
{
    struct steno_icefall_worker *w = worker;
    const struct steno_icefall_model *m = w->base.model;
    const struct steno_cached_encoder_shape *e = &m->base.encoder.shape;
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
    const struct steno_cached_encoder_reader r = {
        .read = read_scores, .values = (size_t)m->vocab, .exact = m->files.quantized};
    return steno_shell_try_encoder(&m->base, &r, false, m->network, err);
}

static steno_status bind_icefall_streaming(struct steno_icefall_model *m, steno_err *err)
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
    return steno_cached_encoder_bind(&m->base.encoder, steno_icefall_encoder(m), "x", &shape,
                                     m->files.encoder, err);
}

static steno_status open_model_icefall_streaming(void *model, const struct steno_family_open *o,
                                                 steno_err *err)
{
    struct steno_icefall_model *m = model;
    steno_status st = steno_icefall_open(m, o, err);
    if (!st)
        st = bind_icefall_streaming(m, err);
    if (!st)
        st = try_steps(m, err);
    return st || !m->ctc
               ? st
               : steno_shell_make_quiet(&m->base, m->base.encoder.shape.frames, m->vocab, err);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct steno_icefall_model),
                                         .stream_bytes = sizeof(struct steno_shell_stream),
                                         .worker_bytes = sizeof(struct steno_icefall_worker),
                                         .open = open_model_icefall_streaming,
                                         .close = steno_icefall_close,
                                         .info = get_info_icefall_streaming,
                                         .describe = steno_icefall_describe,
                                         .stream_open = open_stream_icefall_streaming,
                                         .worker_open = steno_icefall_worker_open,
                                         .worker_close = steno_icefall_worker_close};

static const struct steno_option_info options[] = {STENO_SEARCH_OPTIONS(FAMILY)};

const struct steno_family steno_family_icefall = {.name = FAMILY,
                                                  .options = options,
                                                  .n_options = sizeof options / sizeof *options,
                                                  .probe = probe_icefall_streaming,
                                                  .shell = &shell,
                                                  STENO_WINDOWED_SHELL,
                                                  STENO_ENCODER_TRIALS,
                                                  .reset = reset_icefall_streaming,
                                                  .step = icefall_streaming_step,
                                                  .skip = skip_icefall_streaming};
