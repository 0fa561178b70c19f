/* A request with a recording, from its form to the answer. The input is the request's target and
 * its Content-Type, one line each, and then the body. Covered: the server's parsing of query and
 * form, our readers of recordings, the tone network of tests/data/models, and the answer in the
 * requested form. There are no sockets and no pool; the order of the calls is that of transcriber.c
 * and upload.c. No request becomes a job (fuzz_job_request has their parameters). */
/* link: server/core/credentials.c server/core/keys.c server/port/retry_spreader.c */
/* link: server/core/word_list.c server/core/aligners.c server/http/upload_align.c */
/* link: server/http/upload_values.c */
/* link: server/http/upload_form.c server/http/known_voices.c server/core/limits.c */
/* link: server/base/metrics.c */
/* covers: server/http/upload_align.c protocol/whisperx.c server/core/aligners.c */
/* covers: server/http/upload_form.c protocol/openai_rest.c protocol/result_json.c */
/* covers: protocol/subtitle.c protocol/deepgram_search.c */
/* covers: protocol/transcript.c protocol/voices.c protocol/whisper_cpp.c protocol/whisper_asr.c */
#define _GNU_SOURCE /* memmem */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "speech/audio/file.h"
#include "protocol/deepgram.h"
#include "protocol/result_json.h"
#include "protocol/subtitle.h"
#include "protocol/whisperx.h"
#include "server/http/upload_internal.h"
#include "tests/fuzz/ogg_repair.h"

#define BODY_MAX ((size_t)1 << 20)
#define ANSWER_MAX ((size_t)8 << 20)
#define BLOCK 4096
#define TOTAL 60000 /* samples of one recording; a few bytes can claim hours */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* ---- the request ---------------------------------------------------------------------------- */

static char content_type[256]; /* of the current request */

/* The server has libmicrohttpd's function. */
const char *steno_request_header(struct steno_request *rq, const char *name)
{
    (void)rq;
    return strcasecmp(name, "Content-Type") ? NULL : content_type;
}

static enum steno_upload_form form_of(const char *target)
{
    static const struct {
        const char *path;
        enum steno_upload_form form;
    } forms[] = {
        {"/v1/audio/", STENO_UPLOAD_OPENAI},      {"/v1/listen", STENO_UPLOAD_DEEPGRAM},
        {"/inference", STENO_UPLOAD_WHISPER_CPP}, {"/asr", STENO_UPLOAD_WHISPER_ASR},
        {"/v1/align", STENO_UPLOAD_ALIGN},        {"/detect-language", STENO_UPLOAD_DETECT}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strncmp(target, forms[i].path, strlen(forms[i].path)))
            return forms[i].form;
    return STENO_UPLOAD_NATIVE;
}

static void upload_open(struct steno_upload *up, const struct steno_services *sv,
                        const char *target)
{
    *up = (struct steno_upload){.sv = sv, .form = form_of(target), .sse.segment = -1};
    up->want.ask.hints.profanity = "darn";
    steno_buf_init(&up->want.search, STENO_OPENAI_FIELD);
    steno_buf_init(&up->want.text, BODY_MAX);
    steno_buf_init(&up->in.body, BODY_MAX);
    steno_buf_init(&up->in.field, STENO_OPENAI_FIELD);
    steno_buf_init(&up->out.answer, ANSWER_MAX);
}

static void upload_close(struct steno_upload *up)
{
    if (up->in.reserved)
        steno_limits_release(up->sv->srv->limits, up->in.reserved);
    steno_multipart_close(up->in.parts);
    steno_buf_free(&up->want.search);
    steno_buf_free(&up->want.text);
    steno_text_lines_free(&up->want.lines);
    steno_buf_free(&up->in.body);
    steno_buf_free(&up->in.field);
    steno_buf_free(&up->out.answer);
    steno_hint_store_free(&up->want.ask.hints);
}

/* The body in two pieces, split where the input says; like upload.c until the body is complete. */
static steno_status receive(struct steno_upload *up, struct steno_request *rq, const char *body,
                            size_t n, steno_err *err)
{
    size_t cut = n ? (unsigned char)body[n / 2] * n / 256 : 0;
    steno_status st = steno_upload_open_body(rq, up, err);
    if (!st)
        st = steno_upload_take(up, body, cut, err);
    if (!st)
        st = steno_upload_take(up, body + cut, n - cut, err);
    if (!st && up->in.parts)
        st = steno_multipart_end(up->in.parts, err);
    if (!st && up->in.parts)
        st = steno_upload_check_form(up, err);
    require(up->in.body.len <= n && up->in.reserved >= up->in.body.len);
    require(up->want.ask.channel >= 0 && up->want.ask.channel <= STENO_OPENAI_CHANNELS);
    require(up->want.beam >= 0 && up->want.beam <= STENO_MAX_BEAM);
    require(up->want.n_best >= 0 && up->want.n_best <= STENO_MAX_BEAM);
    return st;
}

/* ---- the job -------------------------------------------------------------------------------- */

static void keep_finals(steno_stream *s, steno_transcript *t)
{
    struct steno_event e;
    while (steno_stream_next(s, &e))
        require(!steno_transcript_add(t, &e, NULL));
}

static steno_status feed(steno_stream *s, steno_audio *a, steno_transcript *t, steno_err *err)
{
    static float pcm[BLOCK];
    steno_status st = STENO_OK;
    size_t got = 1;
    for (size_t total = 0; !st && got && total < TOTAL; total += got) {
        st = steno_audio_read(a, pcm, BLOCK, &got, err);
        if (!st)
            st = steno_stream_push(s, pcm, got, err);
        keep_finals(s, t);
    }
    if (!st)
        st = steno_stream_end(s, err);
    keep_finals(s, t);
    return st;
}

/* *seconds: of audio. */
static steno_status recognise(const struct steno_upload *up, const steno_vad *vad,
                              steno_model *model, steno_transcript *t, double *seconds,
                              steno_err *err)
{
    static steno_decoders *none; /* no processes: fuzz_av has what they read */
    struct steno_audio_options opt = {
        .channel = (unsigned)up->want.ask.channel, .max_seconds = 600, .raw = up->want.raw};
    struct steno_stream_options so = {.no_partials = !up->want.ask.stream,
                                      .no_endpointing = up->want.no_endpointing,
                                      .beam = up->want.beam,
                                      .n_best = up->want.n_best,
                                      .vad = up->want.vad == STENO_VAD_ENERGY ? vad : NULL};
    struct steno_option_list list;
    struct steno_audio_info info;
    steno_audio *a = NULL;
    steno_stream *s = NULL;
    steno_status st = STENO_OK;
    if (!none && steno_decoders_open(&none, 0, NULL))
        abort();
    opt.decoders = none;
    st = steno_audio_open_mem(&a, up->in.body.data, up->in.body.len, &opt, err);
    if (st)
        return st;
    steno_audio_get_info(a, &info);
    so.sample_rate = info.sample_rate;
    steno_options_list(&up->want.options, STENO_OPTION_OF_STREAM, &list);
    so.options = list.v;
    so.n_options = list.n;
    st = up->form == STENO_UPLOAD_ALIGN
             ? steno_stream_open_lines(&s, model, &so, up->want.lines.lines, up->want.lines.n, err)
             : steno_stream_open(&s, model, &so, err);
    if (!st)
        st = feed(s, a, t, err);
    if (!st)
        *seconds = (double)steno_stream_samples(s) / info.sample_rate;
    steno_stream_close(s);
    steno_audio_close(a);
    return st;
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void check_json(const struct steno_buf *b)
{
    json_t *root = json_loadb(b->data, b->len, 0, NULL);
    require(root != NULL);
    json_decref(root);
}

static steno_status write_json(struct steno_upload *up, const struct steno_openai_result *r)
{
    const struct steno_deepgram_about about = {
        .request_id = "r", .model = "tones", .version = "1", .family = "f", .channels = 1};
    const struct steno_result_json_options opt = {.no_words = up->want.no_words,
                                                  .characters = up->want.characters,
                                                  .model = "tones",
                                                  .language = r->language};
    if (up->want.ask.format == STENO_OPENAI_WHISPERX)
        return steno_whisperx_write(&up->out.answer, r->transcript, r->language,
                                    up->want.characters);
    if (up->form == STENO_UPLOAD_NATIVE || up->form == STENO_UPLOAD_ALIGN)
        return steno_result_json_write(&up->out.answer, r->transcript, &opt);
    if (up->form == STENO_UPLOAD_DEEPGRAM)
        return steno_deepgram_write(&up->out.answer, r, &about);
    if (up->want.ask.format == STENO_OPENAI_VERBOSE_JSON)
        return steno_openai_write_verbose(&up->out.answer, r, up->want.ask.words,
                                          up->want.ask.segments);
    if (up->want.ask.format == STENO_OPENAI_DIARIZED_JSON)
        return steno_openai_write_diarized(&up->out.answer, r);
    return steno_openai_write_json(&up->out.answer, r);
}

static void answer_whisper_cpp(struct steno_upload *up, const struct steno_openai_result *r)
{
    const enum steno_openai_format f = up->want.ask.format;
    const struct steno_whisper_cpp_about about = {.wants = &up->want.cpp, .detected = true};
    require(!steno_whisper_cpp_write(&up->out.answer, f, r, &about));
    if (f == STENO_OPENAI_JSON || f == STENO_OPENAI_VERBOSE_JSON)
        check_json(&up->out.answer);
}

static void answer_whisper_asr(struct steno_upload *up, const struct steno_openai_result *r)
{
    require(!steno_whisper_asr_write(&up->out.answer, r, &up->want.asr));
    if (up->want.asr.output == STENO_WHISPER_ASR_JSON)
        check_json(&up->out.answer);
    steno_buf_reset(&up->out.answer);
    require(!steno_whisper_asr_write_language(&up->out.answer, r));
    check_json(&up->out.answer);
}

static void answer(struct steno_upload *up, const struct steno_openai_result *r)
{
    enum steno_openai_format f = up->want.ask.format;
    if (up->form == STENO_UPLOAD_WHISPER_CPP) {
        answer_whisper_cpp(up, r);
    } else if (up->form == STENO_UPLOAD_WHISPER_ASR || up->form == STENO_UPLOAD_DETECT) {
        answer_whisper_asr(up, r);
    } else if (up->want.ask.stream) {
        require(!steno_openai_write_done(&up->out.answer, r));
        require(up->out.answer.len > 2 &&
                !memcmp(up->out.answer.data + up->out.answer.len - 2, "\n\n", 2));
    } else if (f == STENO_OPENAI_SRT || f == STENO_OPENAI_VTT) {
        require(!steno_subtitle_write(&up->out.answer, r->transcript,
                                      f == STENO_OPENAI_SRT ? STENO_SRT : STENO_VTT, NULL));
        require(!up->out.answer.len || !memchr(up->out.answer.data, '\0', up->out.answer.len));
    } else if (f == STENO_OPENAI_TEXT) {
        require(!steno_voices_write_text(&up->out.answer, r->transcript));
        require(steno_transcript_text(r->transcript) != NULL);
    } else {
        require(!write_json(up, r));
        check_json(&up->out.answer);
    }
}

static void refuse(struct steno_upload *up, const steno_err *err)
{
    require(err->code && err->msg[0]);
    require(!steno_openai_write_error(&up->out.answer, err->msg, "invalid_request_error",
                                      up->fault.param, steno_status_info(err->code)->name));
    check_json(&up->out.answer);
}

/* ---- all of it in order --------------------------------------------------------------------- */

/* As transcriber.c does, with turns that no network found. */
static steno_transcript *with_voices(steno_transcript *t)
{
    static const struct steno_turn turns[] = {{0, 0.4, 1}, {0.4, 1, 0}, {1, 9, 40}};
    steno_transcript *told = steno_transcript_with_voices(t, turns, 3, NULL);
    require(told != NULL);
    steno_transcript_free(t);
    return told;
}

static void serve(const struct steno_services *sv, char *target, const char *body, size_t n,
                  bool repair)
{
    static steno_model *model;
    static steno_vad *vad;
    struct steno_upload up;
    struct steno_request rq = {.sv = sv, .target = target};
    struct steno_openai_result r = {.language = "en"};
    steno_err err = {STENO_OK, ""};
    steno_status st;
    if (!model && (steno_model_open(&model, "tests/data/models/tones", NULL, NULL) ||
                   steno_vad_open(&vad, NULL, NULL)))
        abort();
    upload_open(&up, sv, target);
    r.transcript = steno_transcript_new(0);
    require(r.transcript != NULL);
    st = receive(&up, &rq, body, n, &err);
    if (!st && repair)
        ogg_repair((uint8_t *)up.in.body.data, up.in.body.len);
    if (!st)
        st = recognise(&up, vad, model, r.transcript, &r.duration, &err);
    r.logprobs = up.want.ask.logprobs;
    steno_transcript_set_duration(r.transcript, r.duration);
    if (up.want.ask.voices.on || n % 2)
        r.transcript = with_voices(r.transcript);
    if (st)
        refuse(&up, &err);
    else
        answer(&up, &r);
    steno_transcript_free(r.transcript);
    upload_close(&up);
}

/* The line from *at on, without its end. False when there is no line or it is too long. */
static bool take_line(const char **at, const char *end, char *out, size_t size)
{
    const char *eol = memchr(*at, '\n', (size_t)(end - *at));
    if (!eol || (size_t)(eol - *at) >= size)
        return false;
    memcpy(out, *at, (size_t)(eol - *at));
    out[eol - *at] = '\0';
    *at = eol + 1;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct steno_config conf = {.body_bytes = BODY_MAX, .upload_bytes = BODY_MAX << 4};
    static struct steno_server srv = {.conf = &conf};
    static const struct steno_services sv = {.srv = &srv};
    const char *at = (const char *)data, *end = at + n;
    char target[1024];
    if (!srv.limits)
        srv.limits = steno_limits_new(&conf, NULL);
    require(srv.limits != NULL);
    if (!n || !take_line(&at, end, target, sizeof target) ||
        !take_line(&at, end, content_type, sizeof content_type))
        return 0;
    serve(&sv, target, at, (size_t)(end - at), false);
    if (memmem(at, (size_t)(end - at), "OggS", 4)) /* modified pages with correct checksums */
        serve(&sv, target, at, (size_t)(end - at), true);
    return 0;
}
