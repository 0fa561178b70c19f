/* Family t_one: a streaming CTC network over samples, fed by windows of 300 ms.
 *
 *     signal [N, 2400, 1] i32 (samples of 16 bits), state [N, S] f16
 *         -> logprobs [N, 10, vocab] f32, state_next [N, S]
 *
 * A recording begins with the state after 300 ms of silence, whose scores its authors drop
 * (T-one, StreamingCTCModel). sherpa-onnx leaves that silence to the caller and keeps its scores.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "speech/families/common/cached_stream.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/part.h"
#include "speech/families/common/precision.h"
#include "speech/families/common/search_options.h"
#include "speech/families/t_one/family.h"
#include "speech/families/t_one/vocabulary.h"

#define FAMILY "t_one"
#define STEM "model"
#define MAX_CONFIG ((size_t)1 << 20)
#define RATE 8000
#define BINS 80      /* samples of a frame of 10 ms */
#define WINDOW 30    /* such frames of a step */
#define ROWS 10      /* frames of scores of a step */
#define TAIL 30      /* frames of silence behind a recording, as its authors have */
#define LONGEST 20.0 /* s: maximum length of an utterance, unless a stream sets another */

/* Frozen after open. */
struct model {
    struct steno_shell_model base;
    struct steno_part_file net;
    struct steno_cached_encoder encoder;
    int32_t blank;
    float *quiet; /* [ROWS, vocab] scores of a window without speech */
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool probe_t_one(const char *dir)
{
    steno_onnx_head *h =
        steno_path_readable(dir, "tokens.txt") || steno_path_readable(dir, "config.json")
            ? steno_network_file_peek(dir, STEM)
            : NULL;
    const bool is =
        h && steno_onnx_head_has_input(h, "signal") && steno_onnx_head_has_input(h, "state");
    steno_onnx_head_close(h);
    return is;
}

static bool languages(const char *dir, struct steno_model_languages *out)
{
    snprintf(out->languages, sizeof out->languages, "ru");
    return *dir;
}

static steno_status open_config(struct model *m, const char *path, steno_err *err)
{
    char *bytes = NULL;
    size_t n = 0;
    steno_status st = steno_file_read(path, MAX_CONFIG, &bytes, &n, err);
    if (!st)
        st = steno_t_one_vocabulary(&m->base.tokens, bytes, n, path, err);
    free(bytes);
    return st;
}

static steno_status open_tokens_t_one(struct model *m, steno_err *err)
{
    const bool list = steno_path_readable(m->base.dir, "tokens.txt");
    char *path = steno_path_join(m->base.dir, list ? "tokens.txt" : "config.json");
    steno_status st = !path  ? steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->base.dir)
                      : list ? steno_tokens_open(&m->base.tokens, path, err)
                             : open_config(m, path, err);
    if (!st && (m->blank = steno_tokens_find(m->base.tokens, "<blk>")) < 0)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: there is no <blk>", path);
    if (!st)
        st = steno_tokens_drop(m->base.tokens, "<blk>", err);
    free(path);
    return st;
}

static steno_status check_rate(const struct model *m, steno_err *err)
{
    const char *rate = steno_network_meta(m->net.net, "sample_rate");
    const char *frame = steno_network_meta(m->net.net, "frame_length_ms");
    if ((rate && strcmp(rate, "8000") != 0) || (frame && strcmp(frame, "300") != 0))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s/%s: metadata sample_rate %.20s and frame_length_ms %.20s, expected "
                          "8000 and 300",
                          m->base.dir, m->net.name, rate ? rate : "", frame ? frame : "");
    return STENO_OK;
}

static steno_status open_network_t_one(struct model *m, const struct steno_family_open *o,
                                       steno_err *err)
{
    const struct steno_cached_encoder_shape shape = {.window = WINDOW * BINS,
                                                     .bins = 1,
                                                     .frames = ROWS,
                                                     .width = steno_tokens_count(m->base.tokens)};
    bool int8 = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    if (!st)
        st = steno_part_file_open(&m->net, o, STEM, int8, err);
    if (!st)
        st = check_rate(m, err);
    return st ? st
              : steno_cached_encoder_bind(&m->encoder, m->net.net, "signal", &shape, m->net.name,
                                          err);
}

/* Steps on noise, then the states that recordings begin with. */
static steno_status try_steps(struct model *m, steno_err *err)
{
    const struct steno_cached_encoder_reader all = {.exact = m->net.quantized};
    void *w = NULL;
    steno_status st = steno_shell_worker_open(&w, m, 2, err);
    steno_cached_encoder_batch *batch = st ? NULL : ((struct steno_cached_worker *)w)->batch;
    if (!st)
        st = steno_cached_encoder_try(&m->encoder, batch, &all, err);
    if (!st)
        st = steno_cached_encoder_lead_in(&m->encoder, batch, err);
    steno_shell_worker_close(w);
    return st ? steno_fail_in(err, st, "%s/%s", m->base.dir, m->net.name) : STENO_OK;
}

static steno_status open_model_t_one(void *model, const struct steno_family_open *o, steno_err *err)
{
    const struct steno_fbank_options samples = steno_fbank_samples(RATE, BINS);
    struct model *m = model;
    steno_status st = open_tokens_t_one(m, err);
    if (!st)
        st = open_network_t_one(m, o, err);
    if (!st)
        st = steno_fbank_open(&m->base.front, &samples, err);
    if (!st)
        st = steno_search_hints_open(&m->base.hints, o, m->base.tokens,
                                     steno_tokens_count(m->base.tokens), err);
    if (!st)
        st = try_steps(m, err);
    if (st)
        return st;
    m->quiet = steno_ctc_quiet(ROWS, steno_tokens_count(m->base.tokens), m->blank);
    return m->quiet ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->base.dir);
}

static void close_model_t_one(void *model)
{
    struct model *m = model;
    steno_cached_encoder_unbind(&m->encoder);
    steno_part_file_close(&m->net);
    free(m->quiet);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_t_one(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    out->network = m->net.name;
    out->language = out->languages = "ru";
    out->sample_rate = RATE;
    out->frame_samples = BINS * WINDOW / ROWS;
    out->chunk_seconds = (double)(BINS * WINDOW) / RATE;
    out->weight_bytes = steno_network_weight_bytes(m->net.net);
    out->stream_bytes = m->encoder.state_bytes + BINS * WINDOW * sizeof(float);
    out->endpoint = (struct steno_endpoint_rules){2.4, 1.2, LONGEST};
    out->batches = m->encoder.batches;
    out->feeding = STENO_FEED_WINDOWS;
    out->windows = (struct steno_windows_info){.front = m->base.front,
                                               .frames = WINDOW,
                                               .shift = WINDOW,
                                               .right_padding = TAIL,
                                               .rows = ROWS};
}

static void describe_t_one(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    fprintf(out, "model      %s, %s, CTC, T-one\n", i->name, i->family);
    fprintf(out, "directory  %s\n", m->base.dir);
    fprintf(out, "languages  %s\n", i->languages);
    fprintf(out, "features   samples at %d Hz\n", i->sample_rate);
    fprintf(out, "network    %s, a state of %zu bytes\n", i->network, m->encoder.state_bytes);
    fprintf(out, "steps      streaming: %.0f ms, scores every %.0f ms\n", i->chunk_seconds * 1e3,
            i->frame_seconds * 1e3);
    steno_shell_describe_search(&m->base, i, "<blk>", out);
    steno_shell_describe_limits(i, out);
}

/* ---- streams --------------------------------------------------------------------------------- */

static steno_status open_stream_t_one(void *stream, const void *model,
                                      struct steno_family_stream *o, steno_err *err)
{
    const struct model *m = model;
    struct steno_cached_stream *s = stream;
    s->encoder.fresh = true;
    return steno_token_search_open_ctc(&s->base.search, &m->base.hints, o,
                                       steno_tokens_count(m->base.tokens), m->blank, err);
}

/* After an endpoint the network keeps its state: the speech comes from the same line. */
static steno_status reset_t_one(void *state, enum steno_reset what, steno_err *err)
{
    struct steno_cached_stream *s = state;
    (void)err;
    if (what != STENO_RESET_RECORDING)
        return steno_token_search_reset(&s->base.search);
    s->encoder.fresh = true;
    return steno_token_search_restart(&s->base.search, 0);
}

static steno_status skip_t_one(void *state)
{
    struct steno_shell_stream *s = state;
    steno_token_search_give(&s->search, ((const struct model *)s->model)->quiet, ROWS);
    return STENO_OK;
}

static steno_status open_worker_t_one(void *worker, const void *model, int max, steno_err *err)
{
    return steno_cached_worker_open(worker, &((const struct model *)model)->encoder, max, err);
}

static void t_one_step(void *worker, struct steno_step_item *items, size_t n, int size,
                       struct steno_network_time *spent)
{
    const struct model *m = ((struct steno_shell_worker *)worker)->model;
    const size_t each = (size_t)(m->encoder.shape.frames * m->encoder.shape.width);
    const float *y = NULL;
    const bool ran = !steno_cached_step(worker, items, n, size, spent, &y);
    for (size_t i = 0; i < n; i++)
        steno_token_search_give(&((struct steno_shell_stream *)items[i].state)->search,
                                ran ? y + i * each : NULL, ran ? ROWS : 0);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct steno_cached_stream),
                                         .worker_bytes = sizeof(struct steno_cached_worker),
                                         .open = open_model_t_one,
                                         .close = close_model_t_one,
                                         .info = get_info_t_one,
                                         .describe = describe_t_one,
                                         .stream_open = open_stream_t_one,
                                         .stream_close = steno_cached_stream_close,
                                         .worker_open = open_worker_t_one,
                                         .worker_close = steno_cached_worker_close};

static const struct steno_option_info options[] = {STENO_SEARCH_OPTIONS(FAMILY)};

const struct steno_family steno_family_t_one = {.name = FAMILY,
                                                .options = options,
                                                .n_options = sizeof options / sizeof *options,
                                                .probe = probe_t_one,
                                                .languages = languages,
                                                .shell = &shell,
                                                STENO_WINDOWED_SHELL,
                                                STENO_CACHED_TRIALS,
                                                .reset = reset_t_one,
                                                .step = t_one_step,
                                                .skip = skip_t_one};
