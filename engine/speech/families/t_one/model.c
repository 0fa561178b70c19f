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
#include "speech/families/common/network_file.h"
#include "speech/families/common/search_options.h"
#include "speech/families/common/shell.h"
#include "speech/families/entries.h"
#include "speech/families/t_one/vocabulary.h"

#define FAMILY "t_one"
#define MAX_CONFIG ((size_t)1 << 20)
#define RATE 8000
#define BINS 80      /* samples of a frame of 10 ms */
#define WINDOW 30    /* such frames of a step */
#define ROWS 10      /* frames of scores of a step */
#define TAIL 30      /* frames of silence behind a recording, as its authors have */
#define LONGEST 20.0 /* s: maximum length of an utterance, unless a stream sets another */

static const char *const stems[] = {"model"};

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_t_one(const steno_onnx_head *h)
{
    return steno_onnx_head_has_input(h, "signal") && steno_onnx_head_has_input(h, "state");
}

static bool probe_t_one(const char *dir)
{
    return (steno_path_readable(dir, "tokens.txt") || steno_path_readable(dir, "config.json")) &&
           steno_network_file_is(dir, stems[0], is_t_one);
}

static bool languages(const char *dir, struct steno_model_languages *out)
{
    snprintf(out->languages, sizeof out->languages, "ru");
    return *dir;
}

static steno_status open_config(struct steno_shell_model *m, steno_err *err)
{
    char *bytes = NULL, *path = steno_path_join(m->dir, "config.json");
    size_t n = 0;
    steno_status st = path ? steno_file_read(path, MAX_CONFIG, &bytes, &n, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    if (!st)
        st = steno_t_one_vocabulary(&m->tokens, bytes, n, path, err);
    free(bytes);
    free(path);
    return st;
}

static steno_status open_tokens_t_one(struct steno_shell_model *m, steno_err *err)
{
    const bool list = steno_path_readable(m->dir, "tokens.txt");
    steno_status st = list ? steno_shell_open_tokens(m, "tokens.txt", err) : open_config(m, err);
    if (!st && (m->blank = steno_tokens_find(m->tokens, "<blk>")) < 0)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s/%s: there is no <blk>", m->dir,
                        list ? "tokens.txt" : "config.json");
    return st ? st : steno_tokens_drop(m->tokens, "<blk>", err);
}

static steno_status check_rate(const struct steno_shell_model *m, steno_err *err)
{
    const char *rate = steno_network_meta(m->part[0].net, "sample_rate");
    const char *frame = steno_network_meta(m->part[0].net, "frame_length_ms");
    if ((rate && strcmp(rate, "8000") != 0) || (frame && strcmp(frame, "300") != 0))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s/%s: metadata sample_rate %.20s and frame_length_ms %.20s, expected "
                          "8000 and 300",
                          m->dir, m->part[0].name, rate ? rate : "", frame ? frame : "");
    return STENO_OK;
}

static steno_status open_network_t_one(struct steno_shell_model *m,
                                       const struct steno_family_open *o, steno_err *err)
{
    const struct steno_cached_encoder_shape shape = {
        .window = WINDOW * BINS, .bins = 1, .frames = ROWS, .width = steno_tokens_count(m->tokens)};
    steno_status st = steno_shell_open_parts(m, o, stems, 1, err);
    if (!st)
        st = check_rate(m, err);
    return st ? st
              : steno_cached_encoder_bind(&m->encoder, m->part[0].net, "signal", &shape,
                                          m->part[0].name, err);
}

static steno_status open_model_t_one(void *model, const struct steno_family_open *o, steno_err *err)
{
    const struct steno_fbank_options samples = steno_fbank_samples(RATE, BINS);
    struct steno_cached_encoder_reader all = {.read = NULL};
    struct steno_shell_model *m = model;
    steno_status st = open_tokens_t_one(m, err);
    if (!st)
        st = open_network_t_one(m, o, err);
    if (!st)
        st = steno_fbank_open(&m->front, &samples, err);
    if (!st)
        st = steno_search_hints_open(&m->hints, o, m->tokens, steno_tokens_count(m->tokens), err);
    all.exact = m->part[0].quantized;
    if (!st)
        st = steno_shell_try_encoder(m, &all, true, m->part[0].name, err);
    return st ? st : steno_shell_make_quiet(m, ROWS, steno_tokens_count(m->tokens), err);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_t_one(const void *model, struct steno_family_info *out)
{
    (void)model;
    out->language = out->languages = "ru";
    out->sample_rate = RATE;
    out->frame_samples = BINS * WINDOW / ROWS;
    out->chunk_seconds = (double)(BINS * WINDOW) / RATE;
    out->endpoint = (struct steno_endpoint_rules){2.4, 1.2, LONGEST};
    out->windows.frames = out->windows.shift = WINDOW;
    out->windows.right_padding = TAIL;
}

static void describe_t_one(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct steno_shell_model *m = model;
    steno_shell_describe_head(i, "CTC, T-one", out);
    fprintf(out, "features   samples at %d Hz\n", i->sample_rate);
    fprintf(out, "network    %s, a state of %zu bytes\n", i->network, m->encoder.state_bytes);
    fprintf(out, "steps      streaming: %.0f ms, scores every %.0f ms\n", i->chunk_seconds * 1e3,
            i->frame_seconds * 1e3);
    steno_shell_describe_search(m, i, "<blk>", out);
    steno_shell_describe_limits(i, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct steno_shell_model),
                                         .stream_bytes = sizeof(struct steno_shell_stream),
                                         .worker_bytes = sizeof(struct steno_shell_worker),
                                         .open = open_model_t_one,
                                         .info = get_info_t_one,
                                         .describe = describe_t_one,
                                         .stream_open = steno_shell_open_ctc_stream};

static const struct steno_option_info options[] = {STENO_SEARCH_OPTIONS(FAMILY)};

const struct steno_family steno_family_t_one = {.name = FAMILY,
                                                .options = options,
                                                .n_options = sizeof options / sizeof *options,
                                                .probe = probe_t_one,
                                                .languages = languages,
                                                .shell = &shell,
                                                STENO_WINDOWED_CTC};
