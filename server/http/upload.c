/* An upload has two sides: the libmicrohttpd thread that owns the connection, and its transcription
 * (a feeder thread and pool workers). The connection's side ends with steno_upload_end, the
 * transcription's with its done callback. The last of the two frees the upload. Fields that both
 * use are under `lock`.
 *
 * Suspending: the connection is suspended before the transcription starts, and `suspended` is set.
 * Whoever clears the flag (under the lock) resumes the connection, so that this happens once. A
 * connection that is gone is never touched: while it is suspended, libmicrohttpd cannot end it. */
#include "server/http/upload_internal.h"

#include "base/clock.h"
#include "protocol/deepgram.h"
#include "server/base/log.h"
#include "server/http/enrolled.h"
#include "server/http/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ANSWER_MAX (256u << 20) /* bytes of one answer */
#define EVENTS_MAX (16u << 20)  /* bytes of unread server-sent events */
#define PRINT_SECONDS 60        /* of a recording, of which a voice print is made */
#define SEARCH_MAX 8192         /* bytes of all terms */
#define TEXT_MAX (1u << 20)     /* bytes of a text to be aligned */
#define DISCARD_MAX (16u << 20) /* bytes discarded after a body of unknown length went wrong */

/* ---- begin and end --------------------------------------------------------------------------- */

void steno_upload_free(struct steno_upload *up)
{
    steno_models_release(up->sv->srv->models, up->served);
    steno_models_release(up->sv->srv->models, up->aligner);
    if (up->stored)
        steno_upload_storing_of(up)->free(up);
    steno_multipart_close(up->in.parts);
    steno_hint_store_free(&up->want.ask.hints);
    free(up->vocabulary);
    steno_known_voices_free(&up->want.known);
    steno_buf_free(&up->want.search);
    steno_buf_free(&up->want.text);
    steno_text_lines_free(&up->want.lines);
    steno_buf_free(&up->in.body);
    steno_buf_free(&up->in.field);
    steno_buf_free(&up->out.answer);
    steno_buf_free(&up->sse.events);
    pthread_mutex_destroy(&up->lock);
    free(up);
}

/* One side has ended. */
void steno_upload_leave(struct steno_upload *up)
{
    bool last;
    pthread_mutex_lock(&up->lock);
    last = --up->sides == 0;
    pthread_mutex_unlock(&up->lock);
    if (last)
        steno_upload_free(up);
}

static enum steno_upload_form form_of(enum steno_session_api api)
{
    switch (api) {
    case STENO_SESSION_OPENAI:
        return STENO_UPLOAD_OPENAI;
    case STENO_SESSION_LISTEN:
        return STENO_UPLOAD_DEEPGRAM;
    case STENO_SESSION_WHISPER_CPP:
        return STENO_UPLOAD_WHISPER_CPP;
    case STENO_SESSION_WHISPER_ASR:
        return STENO_UPLOAD_WHISPER_ASR;
    case STENO_SESSION_ALIGN:
        return STENO_UPLOAD_ALIGN;
    case STENO_SESSION_DETECT:
        return STENO_UPLOAD_DETECT;
    case STENO_SESSION_ENROLL:
        return STENO_UPLOAD_ENROLL;
    default:
        return STENO_UPLOAD_NATIVE;
    }
}

struct steno_upload *steno_upload_new(const struct steno_services *sv, enum steno_session_api api)
{
    struct steno_upload *up = calloc(1, sizeof *up);
    if (!up)
        return NULL;
    pthread_mutex_init(&up->lock, NULL);
    up->sides = 1;
    up->sv = sv;
    up->api = api;
    up->form = form_of(api);
    up->sse.segment = -1;
    up->want.ask.hints.profanity = sv->srv->profanity;
    steno_sha256_begin(&up->in.sum);
    steno_buf_init(&up->want.search, SEARCH_MAX);
    steno_buf_init(&up->want.text, TEXT_MAX);
    steno_buf_init(&up->in.body, sv->srv->conf->body_bytes);
    steno_buf_init(&up->in.field, STENO_OPENAI_FIELD);
    steno_buf_init(&up->out.answer, ANSWER_MAX);
    steno_buf_init(&up->sse.events, EVENTS_MAX);
    return up;
}

static struct steno_upload *upload_of(struct steno_request *rq)
{
    struct steno_upload *up = steno_upload_new(rq->sv, rq->route->api);
    const char *origin = steno_request_header(rq, "Origin");
    if (!up)
        return NULL;
    steno_origin_lines(rq->sv->srv->conf->cors_origins, origin, origin ? strlen(origin) : 0,
                       up->client.cors);
    (void)steno_trace_id(&rq->trace, up->trace);
    up->want.ask.hints.translate = rq->route->translate;
    up->client.conn = rq->conn;
    up->client.http11 = rq->http11;
    up->client.id = rq->id;
    up->errors = rq->route->errors;
    return up;
}

void steno_upload_give_back(struct steno_upload *up)
{
    if (up->in.reserved)
        steno_limits_release(up->sv->srv->limits, up->in.reserved);
    up->in.reserved = 0;
}

/* Options that the clients of a form send to all models, such as OpenAI's temperature, are for the
 * families that have them. */
static steno_status take_options(struct steno_upload *up, steno_err *err)
{
    struct steno_options only = up->want.cpp.options;
    char text[STENO_OPTION_TEXT];
    steno_status st = STENO_OK;
    snprintf(text, sizeof text, "%.6g", up->want.ask.temperature);
    if (up->want.ask.temperature > 0)
        st = steno_options_set(&only, "temperature", text, err);
    steno_options_keep(&only, STENO_OPTION_OF_STREAM, up->served->family);
    steno_options_complete(&up->want.options, &only);
    return st;
}

/* What the model takes of the hints. Forms of others are lenient with texts, because their clients
 * send them to all models. */
static struct steno_hints hints_of(const struct steno_upload *up)
{
    const struct steno_hints h = steno_hints_of(&up->want.ask.hints);
    return up->form == STENO_UPLOAD_NATIVE ? h : steno_hints_taken(&h, &up->served->info);
}

/* Whether the model can do what is asked for. */
static bool check_hints(struct steno_upload *up, struct steno_upload_refused *why, steno_err *err)
{
    const struct steno_hints h = hints_of(up);
    steno_status st = steno_hint_check(&up->want.ask.hints, &h, &up->served->info, err);
    if (!st)
        st = take_options(up, err);
    if (!st)
        return true;
    *why = (struct steno_upload_refused){steno_status_info(st)->http, steno_status_info(st)->name,
                                         steno_hint_named_in(err->msg)};
    if (why->param && !strcmp(why->param, "language"))
        why->code = "unsupported_language";
    return false;
}

/* Choose the model for word_times=aligned, as far as the language is known; it is kept loaded.
 * None: the language that is detected may have one. Errors of steno_models_acquire_aligner. */
static steno_status choose_aligner(struct steno_upload *up, steno_err *err)
{
    const char *language = up->want.ask.hints.language;
    if (!up->want.aligned || up->aligner)
        return STENO_OK;
    if (!language || !*language)
        language = up->served->info.language;
    return steno_models_acquire_aligner(up->sv->srv->models, language, &up->aligner, err);
}

/* A text to be aligned is in the default model's only language, where the request does not tell. */
static steno_status assume_language(struct steno_upload *up, steno_err *err)
{
    struct steno_model_view v;
    if (*up->want.ask.model || *up->want.ask.hints.language)
        return STENO_OK;
    steno_model_slot_view(steno_models_slot(up->sv->srv->models, 0), &v);
    return *v.language ? steno_hint_set(&up->want.ask.hints, "language", v.language, err)
                       : STENO_OK;
}

/* Choose the model. False when the request must be refused with *why. */
bool steno_upload_choose_model(struct steno_upload *up, struct steno_upload_refused *why,
                               steno_err *err)
{
    steno_models *models = up->sv->srv->models;
    const struct steno_status_map *map;
    enum steno_rejection busy = STENO_REJECT_LOADING;
    char aligner[STENO_OPENAI_NAME];
    const char *model = up->want.ask.model;
    steno_status st = STENO_OK;
    if (up->served || up->form == STENO_UPLOAD_ENROLL)
        return true;
    if (up->form == STENO_UPLOAD_ALIGN) {
        st = assume_language(up, err);
        model = steno_upload_align_model(up, aligner, sizeof aligner);
    }
    if (!st)
        st = steno_models_acquire(models, model, &up->want.options, &up->served, err);
    if (!st) {
        busy = STENO_REJECT_CAPACITY;
        st = steno_pool_admit(up->served->pool, STENO_POOL_UPLOAD, err);
    }
    if (!st && up->form == STENO_UPLOAD_ALIGN) {
        st = steno_upload_align_check_model(up, err);
        *why = (struct steno_upload_refused){steno_status_info(st)->http,
                                             steno_status_info(st)->name, STENO_ALIGN_TEXT};
        if (st == STENO_ERR_UNSUPPORTED)
            *why = (struct steno_upload_refused){400, "unsupported_model", "model"};
        else if (st == STENO_ERR_INVAL && steno_hint_named_in(err->msg))
            *why = (struct steno_upload_refused){400, "unsupported_language", "language"};
        return !st;
    }
    if (!st && (st = choose_aligner(up, err)))
        busy = STENO_REJECT_LOADING;
    if (!st)
        st = steno_keys_vocabulary(up->sv->srv->keys, up->key, &up->vocabulary, err);
    up->in.refused = st == STENO_ERR_BUSY;
    if (up->in.refused && !up->background)
        steno_metric_add(up->sv->srv->stats->sessions_rejected[busy], 1);
    map = steno_status_info(st);
    *why = (struct steno_upload_refused){map->http, map->name, "model"};
    if (st == STENO_ERR_INVAL && steno_models_check(models, model, NULL))
        *why = (struct steno_upload_refused){404, "model_not_found", "model"};
    else if (st == STENO_ERR_INVAL)
        why->param = !strncmp(err->msg, STENO_WORD_TIMES ":", sizeof STENO_WORD_TIMES)
                         ? STENO_WORD_TIMES
                         : steno_options_named_in(err->msg);
    return !st && check_hints(up, why, err);
}

/* ---- receiving the body ---------------------------------------------------------------------- */

void steno_upload_fail(struct steno_upload *up, int http, const char *code, const char *param,
                       const steno_err *err)
{
    if (up->fault.http)
        return;
    up->fault.http = http;
    up->fault.code = code;
    up->fault.param = param;
    up->fault.err = *err;
    steno_buf_free(&up->in.body);
    steno_upload_give_back(up);
}

void steno_upload_fail_status(struct steno_upload *up, const char *param, const steno_err *err)
{
    const struct steno_status_map *map = steno_status_info(err->code);
    steno_upload_fail(up, map->http, map->name, param, err);
}

/* ---- the transcription's side -----------------------------------------------------------------
 */

static void on_released(void *user, size_t bytes)
{
    struct steno_upload *up = user;
    (void)bytes;
    steno_upload_give_back(up);
}

static void observe(struct steno_upload *up, const struct steno_transcription_result *r)
{
    struct steno_stats *stats = up->sv->srv->stats;
    const struct steno_pool_stream_stats *s = &r->stats;
    if (r->status)
        steno_stats_decode_error(stats, up->api, r->status);
    steno_stats_audio(stats, up->api, r->received, 0, s, up->trace);
    if (s->audio_seconds >
        0) /* the length was not known before: the excess reduces the next minute's quota */
        (void)!steno_key_audio(up->sv->srv->keys, up->key, steno_now_ns(), s->audio_seconds, NULL,
                               NULL);
}

/* Keep the print. Returns the status of the answer. Lock held. */
static int take_print(struct steno_upload *up, const struct steno_transcription_result *r)
{
    const steno_status st = steno_enrolled_take(up, r, &up->out.err);
    return !st ? 200 : st == STENO_ERR_IO ? 503 : steno_status_info(st)->http;
}

/* Lock held. */
static void take_result(struct steno_upload *up, const struct steno_transcription_result *r)
{
    struct steno_openai_result out;
    steno_status st = r->status;
    up->out.err = r->err;
    up->out.audio_seconds = r->stats.audio_seconds;
    up->out.inference_seconds = r->stats.inference_seconds;
    up->out.pool = r->stats;
    up->out.result_ns = steno_now_ns();
    memcpy(up->out.audio_format, r->format, sizeof up->out.audio_format);
    memcpy(up->out.warning, r->warning, sizeof up->out.warning);
    if (!st && up->form == STENO_UPLOAD_ENROLL) {
        up->out.code = take_print(up, r);
        return;
    }
    if (up->served)
        out = steno_upload_result(up, r);
    if (!st && up->sse.on && up->want.multichannel)
        steno_upload_enter_channel(up, r->channels);
    if (!st && up->sse.failure)
        st = up->sse.failure;
    if (!st && up->sse.on && up->want.ask.voices.on &&
        up->want.ask.format == STENO_OPENAI_DIARIZED_JSON)
        st = steno_openai_write_all_segment_events(&up->sse.events, &out);
    if (!st)
        st = up->sse.on ? steno_openai_write_done(&up->sse.events, &out)
                        : steno_upload_write(up, &out);
    if (st && !r->status)
        (void)steno_fail(&up->out.err, st == STENO_ERR_LIMIT ? STENO_ERR_INTERNAL : st, "%s",
                         st == STENO_ERR_NOMEM ? "out of memory for the answer"
                                               : "the answer is too large");
    up->out.code = st ? steno_status_info(up->out.err.code)->http : 200;
    if (st == STENO_ERR_CANCELLED)
        up->out.code = 503; /* by the server's shutdown, unless: */
    if (up->client.gone)
        up->out.code = 499;
    else if (up->client.timed_out)
        up->out.code = 504;
    if (up->out.code != 200 &&
        up->sse.begun) /* without memory: the stream ends without a done event */
        (void)!steno_openai_write_error_event(&up->sse.events, up->out.err.msg,
                                              steno_openai_error_type(up->out.code),
                                              steno_status_info(up->out.err.code)->name);
}

/* log.transcripts alone. Lock held. */
static void log_transcript(const struct steno_upload *up,
                           const struct steno_transcription_result *r)
{
    const char *text = steno_transcript_text(r->transcript);
    const char *id = up->client.conn ? up->client.id : "";
    const struct steno_log_field fields[] = {{"request_id", id, 0}, {"text", text, 0}};
    steno_log_event(LOG_INFO, "upload_transcript", STENO_LOG_FIELDS(fields), "%s: %s", id, text);
}

static void on_done(void *user, steno_transcription *work)
{
    struct steno_upload *up = user;
    const struct steno_transcription_result *r = steno_transcription_get_result(work);
    observe(up, r);
    pthread_mutex_lock(&up->lock);
    if (up->sv->srv->conf->log_transcripts && !r->status)
        log_transcript(up, r);
    take_result(up, r);
    up->work = NULL;
    up->out.over = true;
    steno_upload_answer_half_closed(up);
    steno_upload_resume(up);
    pthread_mutex_unlock(&up->lock);
    steno_transcription_free(work);
    steno_upload_leave(up);
}

/* ---- the connection's side ------------------------------------------------------------------- */

static void on_hangup(void *user, enum steno_hangup_why why)
{
    struct steno_upload *up = user;
    pthread_mutex_lock(&up->lock);
    if (why == STENO_HANGUP_HALF) {
        steno_upload_probe(up);
    } else if (!up->out.over) {
        up->client.timed_out = why == STENO_HANGUP_LATE;
        up->client.gone = !up->client.timed_out;
        if (up->work)
            steno_transcription_cancel(up->work);
    }
    pthread_mutex_unlock(&up->lock);
}

static void watch_connection(struct steno_request *rq, struct steno_upload *up)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(rq->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    int64_t limit = (int64_t)(rq->sv->srv->conf->request_timeout * 1e9);
    if (info)
        up->in.watch = steno_hangup_watch(rq->sv->hangup, info->connect_fd, steno_now_ns() + limit,
                                          on_hangup, up);
}

/* Whether the answer has the times of words. */
static bool shows_words(const struct steno_upload *up)
{
    const enum steno_openai_format f = up->want.ask.format;
    if (f == STENO_OPENAI_SRT || f == STENO_OPENAI_VTT || f == STENO_OPENAI_LRC ||
        f == STENO_OPENAI_WHISPERX)
        return true;
    switch (up->form) {
    case STENO_UPLOAD_OPENAI:
        return f == STENO_OPENAI_VERBOSE_JSON && up->want.ask.words;
    case STENO_UPLOAD_NATIVE:
        return f == STENO_OPENAI_JSON && !up->want.no_words;
    case STENO_UPLOAD_DEEPGRAM:
        return true;
    case STENO_UPLOAD_WHISPER_CPP:
        return f == STENO_OPENAI_VERBOSE_JSON && !up->want.cpp.no_times &&
               !up->want.cpp.no_word_times;
    case STENO_UPLOAD_WHISPER_ASR:
        return up->want.asr.words || up->want.asr.output == STENO_WHISPER_ASR_SRT ||
               up->want.asr.output == STENO_WHISPER_ASR_VTT;
    case STENO_UPLOAD_ALIGN:
    case STENO_UPLOAD_DETECT:
    case STENO_UPLOAD_ENROLL:
        break;
    }
    return false;
}

/* What the request said of speech detection. */
static enum steno_vad_choice vad_of(const struct steno_upload *up)
{
    if (up->want.vad != STENO_VAD_UNSET || !up->want.ask.vad_filter)
        return up->want.vad;
    return up->sv->srv->vad_net ? STENO_VAD_SILERO : STENO_VAD_ENERGY;
}

struct steno_transcription_request steno_upload_transcription(const struct steno_upload *up)
{
    if (up->form == STENO_UPLOAD_ENROLL)
        return (struct steno_transcription_request){.api = up->api,
                                                    .owner = steno_key_owner(up->key),
                                                    .key = up->key,
                                                    .seconds = PRINT_SECONDS,
                                                    .print_only = true};
    return (struct steno_transcription_request){
        .api = up->api,
        .owner = steno_key_owner(up->key),
        .key = up->key,
        .served = up->served,
        .channel = (unsigned)up->want.ask.channel,
        .multichannel = up->want.multichannel,
        .seconds = up->want.seconds,
        .raw = up->want.raw,
        .beam = up->want.beam,
        .n_best = up->want.n_best,
        .vad = vad_of(up),
        .hints = up->form == STENO_UPLOAD_ALIGN ? (struct steno_hints){0} : hints_of(up),
        .filters = steno_hint_filters(&up->want.ask.hints),
        .vocabulary = up->vocabulary,
        .lines = up->want.lines.lines,
        .n_lines = up->want.lines.n,
        .no_word_times = up->want.aligned || (!shows_words(up) && !up->want.ask.voices.on),
        .aligned = up->want.aligned,
        .voices = up->want.ask.voices,
        .known = &up->want.known,
        .known_names = &up->want.ask.speakers,
        .voices_of_mono = up->want.cpp.speakers,
        .options = up->want.options,
        .no_endpointing = up->want.no_endpointing};
}

static enum MHD_Result start_upload(struct steno_request *rq, struct steno_upload *up)
{
    struct steno_transcription_request request = steno_upload_transcription(up);
    steno_err err;
    steno_status st;
    uint8_t digest[STENO_SHA256_BYTES];
    size_t len;
    if (up->form == STENO_UPLOAD_DEEPGRAM) {
        steno_sha256_end(&up->in.sum, digest);
        steno_sha256_text(digest, up->in.sha256);
    }
    request.partials = up->sse.on;
    request.event = up->sse.on ? steno_upload_on_event : NULL;
    request.done = on_done;
    request.released = on_released;
    request.user = up;
    request.len = up->in.body.len;
    request.audio = steno_buf_take(&up->in.body, &len);
    up->in.started = true;
    up->out.received_ns = steno_now_ns();
    watch_connection(rq, up);
    pthread_mutex_lock(&up->lock);
    up->sides++;
    up->client.suspended = true;
    MHD_suspend_connection(rq->conn);
    st = steno_transcription_start(&up->work, rq->sv->transcriber, &request, &err);
    if (st) {
        free(request.audio);
        up->sides--;
        up->out.over = true;
        up->out.err = err;
        up->out.code = st == STENO_ERR_CANCELLED ? 503 : steno_status_info(st)->http;
        steno_upload_resume(up);
    }
    pthread_mutex_unlock(&up->lock);
    if (st)
        steno_upload_give_back(up);
    return MHD_YES;
}

/* ---- a recording that the body names --------------------------------------------------------- */

/* Runs on the fetch's thread. */
static void on_fetched(void *user, struct steno_fetched *got)
{
    struct steno_upload *up = user;
    steno_sha256_begin(&up->in.sum); /* until now it was of the body with the URL */
    steno_sha256_add(&up->in.sum, got->body.data, got->body.len);
    pthread_mutex_lock(&up->lock);
    up->in.fetched = true;
    up->in.fetch_err = got->err;
    up->in.reserved = got->reserved;
    up->in.body = got->body;
    steno_upload_resume(up);
    pthread_mutex_unlock(&up->lock);
    steno_upload_leave(up);
}

/* Fetch the recording, with the connection suspended meanwhile. False: it cannot be fetched
 * (up->in.fetch_err). The lock is held, so on_fetched comes after all of this. */
static bool begin_fetch(struct steno_request *rq, struct steno_upload *up)
{
    char url[STENO_FETCH_URL];
    steno_err err;
    steno_status st = steno_deepgram_url(up->in.body.data ? up->in.body.data : "", up->in.body.len,
                                         url, sizeof url, &err);
    steno_buf_free(&up->in.body);
    steno_upload_give_back(up);
    pthread_mutex_lock(&up->lock);
    if (!st)
        st = steno_fetch(rq->sv->fetcher, url, &rq->trace, on_fetched, up, &err);
    up->in.fetched = st != STENO_OK;
    if (st) {
        up->in.fetch_err = err;
    } else {
        up->sides++;
        up->client.suspended = true;
        MHD_suspend_connection(rq->conn);
    }
    pthread_mutex_unlock(&up->lock);
    return !st;
}

/* Names are of channels, or of voices that the request has recordings of. */
static steno_status check_known(struct steno_upload *up, steno_err *err)
{
    const int voices = up->want.known.n, names = up->want.ask.speakers.n;
    up->fault.param = voices ? STENO_KNOWN_VOICE_FIELD : "known_speaker_names";
    if (voices && up->want.multichannel)
        return steno_fail(err, STENO_ERR_INVAL,
                          STENO_KNOWN_VOICE_FIELD
                          "[]: not with multichannel, where each channel is "
                          "a speaker");
    if (voices && !up->want.ask.voices.on)
        return steno_fail(err, STENO_ERR_INVAL,
                          STENO_KNOWN_VOICE_FIELD "[]: need diarize=true or "
                                                  "response_format=diarized_json");
    if (voices && voices != names)
        return steno_fail(err, STENO_ERR_INVAL,
                          STENO_KNOWN_VOICE_FIELD "[]: %d, but %d known_speaker_names[]", voices,
                          names);
    if (names && !voices && !up->want.multichannel)
        return steno_fail(err, STENO_ERR_INVAL,
                          "known_speaker_names[]: need " STENO_KNOWN_VOICE_FIELD
                          "[], or multichannel=true, where they are of the channels");
    up->fault.param = NULL;
    return STENO_OK;
}

/* diarized_json without channels is of voices. */
static steno_status check_diarized(struct steno_upload *up, steno_err *err)
{
    if (up->want.ask.format != STENO_OPENAI_DIARIZED_JSON || up->want.multichannel)
        return STENO_OK;
    up->want.ask.voices.on = true;
    if (!up->sv->srv->speakers) {
        up->fault.param = "response_format";
        return steno_fail(err, STENO_ERR_INVAL,
                          "response_format: diarized_json needs multichannel=true (a speaker on "
                          "each channel), or networks for speakers, which the server does not have "
                          "(steno model fetch speakers, or speakers.model)");
    }
    return STENO_OK;
}

steno_status steno_upload_check_wants(struct steno_upload *up, steno_err *err)
{
    steno_status st;
    if (up->want.multichannel && up->want.ask.channel) {
        up->fault.param = "multichannel";
        return steno_fail(err, STENO_ERR_INVAL, "multichannel: not possible together with channel");
    }
    st = check_diarized(up, err);
    if (!st)
        st = check_known(up, err);
    /* clients of whisper-asr-webservice send numbers in any case */
    if (!st && (up->form != STENO_UPLOAD_WHISPER_ASR || up->want.ask.voices.on))
        st = steno_voices_check(&up->want.ask.voices, &up->fault.param, err);
    return st;
}

/* The body is complete: check whether the request can be served. */
static enum MHD_Result check_and_start(struct steno_request *rq, struct steno_upload *up)
{
    const char *file = steno_upload_file_field(up);
    struct steno_upload_refused why;
    steno_err err;
    if (!up->fault.http && up->in.parts) {
        if (steno_multipart_end(up->in.parts, &err) ||
            (!up->stored && steno_upload_check_form(up, &err)))
            steno_upload_fail_status(up, up->fault.param, &err);
    }
    if (!up->fault.http && up->stored && steno_upload_storing_of(up)->store(rq, up))
        return MHD_YES;
    if (!up->fault.http && steno_upload_check_wants(up, &err))
        steno_upload_fail_status(up, up->fault.param, &err);
    if (!up->fault.http && !steno_upload_choose_model(up, &why, &err))
        steno_upload_fail(up, why.http, why.code, why.param, &err);
    if (!up->fault.http && !up->in.fetched && up->json && !up->stored && begin_fetch(rq, up))
        return MHD_YES;
    if (!up->fault.http && up->in.fetched && up->in.fetch_err.code)
        steno_upload_fail_status(up, "url", &up->in.fetch_err);
    if (!up->fault.http && !up->in.body.len) {
        steno_stats_decode_error(rq->sv->srv->stats, up->api, STENO_NEED_MORE);
        (void)steno_fail(&err, STENO_ERR_FORMAT, "%s%s", up->in.parts ? file : "the request body",
                         up->in.parts ? ": it is empty" : " is empty");
        steno_upload_fail_status(up, up->in.parts ? file : NULL, &err);
    }
    if (up->fault.http)
        return steno_respond_error(rq, up->fault.http, up->fault.code, up->fault.param, "%s",
                                   up->fault.err.msg);
    up->sse.on = up->want.ask.stream;
    return start_upload(rq, up);
}

enum MHD_Result steno_upload_data(struct steno_request *rq, const char *data, size_t n)
{
    struct steno_upload *up = rq->upload;
    steno_err err;
    steno_status st;
    if (!up)
        return MHD_NO;
    if (!steno_upload_body_goes_on(rq, up))
        return MHD_NO;
    if (up->fault.http) {
        up->in.discarded += n;
        /* a length bounds the body; without one the server reads only so much */
        return up->in.content_length || up->in.discarded <= DISCARD_MAX ? MHD_YES : MHD_NO;
    }
    st = steno_upload_take(up, data, n, &err);
    if (st && up->stored)
        steno_upload_storing_of(up)->fail(up, &err);
    else if (st)
        steno_upload_fail_status(up, up->fault.param, &err);
    return MHD_YES;
}

static enum MHD_Result refuse(struct steno_request *rq, int http, const char *code,
                              const char *param, const steno_err *err)
{
    return steno_respond_error(rq, http, code, param, "%s", err->msg);
}

static bool names_model_in_body(const struct steno_upload *up)
{
    return up->form == STENO_UPLOAD_OPENAI || up->form == STENO_UPLOAD_WHISPER_CPP ||
           up->form == STENO_UPLOAD_ALIGN;
}

/* Check the head: everything that can be refused is refused before a byte of the body is read. */
static enum MHD_Result admit(struct steno_request *rq, struct steno_upload *up)
{
    struct steno_upload_refused why;
    steno_err err;
    steno_status st;
    if (!steno_upload_read_length(rq, up))
        return steno_respond_error(rq, 400, "invalid_argument", NULL,
                                   "Content-Length is not a number");
    if (up->form == STENO_UPLOAD_ENROLL && !steno_enrolled_admit(rq))
        return MHD_YES;
    st = steno_upload_storing_of(up)->want(rq, up, &err);
    if (st)
        return steno_respond_status(rq, &err, up->fault.param);
    if (up->in.content_length > steno_upload_max(up)) {
        (void)steno_upload_too_large(up, &err);
        return refuse(rq, 413, "limit_exceeded", NULL, &err);
    }
    up->in.body.max = steno_upload_max(up);
    st = steno_upload_open_body(rq, up, &err);
    if (st)
        return steno_respond_status(rq, &err, up->fault.param);
    if (up->stored && !up->json) /* its body goes to the disk */
        return MHD_YES;
    if (!up->stored && !names_model_in_body(up) && !steno_upload_choose_model(up, &why, &err))
        return refuse(rq, why.http, why.code, why.param, &err);
    if (up->in.content_length) {
        st = steno_limits_reserve(rq->sv->srv->limits, up->in.content_length, &err);
        if (st)
            return steno_respond_status(rq, &err, NULL);
        up->in.reserved = up->in.content_length;
    }
    return MHD_YES;
}

/* Take a place of the limits, of the pool and of the key. Answered when one of them has none. */
static bool take_place(struct steno_request *rq, steno_key *key)
{
    const struct steno_server *srv = rq->sv->srv;
    steno_err err;
    if (steno_limits_enter(srv->limits, rq->route->api, &err)) {
        (void)steno_respond_status(rq, &err, NULL);
        return false;
    }
    if (steno_key_enter(srv->keys, key, steno_now_ns(), &rq->retry_after, &err)) {
        steno_limits_refund(srv->limits, rq->route->api, STENO_REJECT_QUOTA);
        (void)steno_respond_error(rq, 429, "quota_exceeded", NULL, "%s", err.msg);
        return false;
    }
    steno_limits_started(srv->limits, rq->route->api);
    return true;
}

enum MHD_Result steno_upload_begin(struct steno_request *rq)
{
    struct steno_upload *up;
    steno_key *key;
    enum MHD_Result good;
    steno_err err;
    if (steno_request_key(rq, &key, &err))
        return steno_respond_wrong_key(rq, &err);
    if (!take_place(rq, key))
        return rq->code ? MHD_YES : MHD_NO;
    up = upload_of(rq);
    if (!up) {
        steno_key_leave(rq->sv->srv->keys, key);
        steno_limits_leave(rq->sv->srv->limits, rq->route->api, STENO_SESSION_FAILED);
        return steno_respond_error(rq, 503, "out_of_memory", NULL, "out of memory");
    }
    up->key = key;
    rq->upload = up;
    rq->admitted = true;
    good = admit(rq, up);
    if (good == MHD_YES && !rq->code)
        steno_upload_watch_body(rq, up);
    return good;
}

/* The parameter that a message begins with, if its model or recording does not go with it. */
static const char *blamed(const char *message)
{
    static const char *const others[] = {"beam", "n_best", "vad", "channel"};
    const size_t n = strcspn(message, ": ");
    const char *name = steno_options_named_in(message);
    if (!name)
        name = steno_hint_named_in(message);
    for (size_t i = 0; !name && i < sizeof others / sizeof *others; i++)
        if (strlen(others[i]) == n && !memcmp(message, others[i], n))
            name = others[i];
    return name ? name : "file";
}

static enum MHD_Result answer(struct steno_request *rq, struct steno_upload *up)
{
    struct steno_upload_headers headers;
    if (up->out.audio_seconds > 0)
        snprintf(rq->note, sizeof rq->note, "%.3f s of %s, real-time factor %.4f",
                 up->out.audio_seconds, up->out.audio_format,
                 up->out.inference_seconds / up->out.audio_seconds);
    if (up->out.code == 504)
        return steno_respond_error(rq, 504, "timeout", NULL,
                                   "recognition took longer than limits.request_timeout (%g s)",
                                   rq->sv->srv->conf->request_timeout);
    if (up->out.code == 499)
        return steno_respond_error(rq, 499, "cancelled", NULL, "the client went away");
    if (up->out.code != 200 && up->out.err.code == STENO_ERR_CANCELLED)
        return steno_respond_error(rq, 503, "draining", NULL, "the server is shutting down");
    if (up->out.code == 503) /* STENO_ERR_IO with it: of the voice prints */
        return steno_respond_stored_status(rq, &up->out.err, blamed(up->out.err.msg));
    if (up->out.code != 200)
        return steno_respond_status(rq, &up->out.err, blamed(up->out.err.msg));
    steno_upload_write_headers(up, &headers);
    return steno_respond(rq, up->out.code, steno_upload_media_type(up), &up->out.answer, headers.v);
}

enum MHD_Result steno_upload_continue(struct steno_request *rq)
{
    struct steno_upload *up = rq->upload;
    bool over, failed;
    if (!up)
        return MHD_NO;
    if (rq->code)
        return MHD_YES;
    if (!up->in.started)
        return steno_upload_end_body(rq, up) ? check_and_start(rq, up) : MHD_NO;
    if (up->stored)
        return steno_upload_storing_of(up)->answer(rq, up);
    pthread_mutex_lock(&up->lock);
    over = up->out.over;
    failed = over && up->out.code != 200;
    if (up->sse.on && !failed)
        up->sse.begun = true;
    pthread_mutex_unlock(&up->lock);
    if (up->sse.on && !failed)
        return steno_upload_respond_events(rq, up);
    return over ? answer(rq, up) : MHD_YES;
}

static enum steno_session_result result_of(const struct steno_request *rq,
                                           const struct steno_upload *up)
{
    /* the status of an event stream is sent before its result is known */
    int code = rq->code == 200 && up->sse.ended ? up->out.code : rq->code;
    if (rq->unread)
        return STENO_SESSION_TIMEOUT;
    if (code == 202)
        return STENO_SESSION_OK;
    if (code == 200)
        return up->sse.on && !up->sse.ended ? STENO_SESSION_GONE : STENO_SESSION_OK;
    if (code == 499)
        return STENO_SESSION_GONE;
    if (code == 504 || code == 408)
        return STENO_SESSION_TIMEOUT;
    if (code == 503 && up->in.refused)
        return STENO_SESSION_REFUSED;
    if (code == 503)
        return steno_limits_draining(up->sv->srv->limits) ? STENO_SESSION_DRAINED
                                                          : STENO_SESSION_FAILED;
    return code < 500 ? STENO_SESSION_BAD : STENO_SESSION_FAILED;
}

void steno_upload_end(struct steno_request *rq)
{
    struct steno_upload *up = rq->upload;
    if (!up)
        return;
    rq->upload = NULL;
    steno_hangup_forget(rq->sv->hangup, up->in.watch);
    rq->key = up->key;
    rq->model = up->served ? up->served->label : NULL;
    pthread_mutex_lock(&up->lock);
    rq->audio_seconds = up->out.audio_seconds;
    rq->inference_seconds = up->out.inference_seconds;
    if (steno_trace_recorded(&rq->trace)) {
        rq->received_ns = up->out.received_ns;
        rq->result_ns = up->out.result_ns;
        rq->pool = up->out.pool;
    }
    up->client.conn = NULL;
    if (up->out.answered)
        rq->code = up->out.code;
    if (up->work)
        steno_transcription_cancel(up->work);
    pthread_mutex_unlock(&up->lock);
    if (!up->in.started)
        steno_upload_give_back(up);
    rq->result = result_of(rq, up);
    steno_key_leave(rq->sv->srv->keys, up->key);
    steno_limits_leave(rq->sv->srv->limits, up->api, rq->result);
    steno_upload_leave(up);
}
