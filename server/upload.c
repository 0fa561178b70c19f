/* An upload is looked at from two sides: the libmicrohttpd thread that owns the connection, and the
 * job (a feeder thread and pool workers). The connection's side ends with steno_upload_end, the
 * job's with its done callback; the last of the two frees. What both touch is under `lock`.
 *
 * Suspending: the connection is suspended before the job starts, and `suspended` says so; whoever
 * clears the flag (under the lock) resumes the connection, so it happens once, and a connection
 * that is gone is never touched: while it is suspended libmicrohttpd cannot end it. */
#include "server/upload.h"

#include "base/clock.h"
#include "protocol/multipart.h"
#include "protocol/openai_rest.h"
#include "protocol/query.h"
#include "protocol/result_json.h"
#include "protocol/subtitle.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ANSWER_MAX (256u << 20) /* bytes of one answer */
#define EVENTS_MAX (16u << 20)  /* bytes of server-sent events a client has not read yet */
#define DISCARD_MAX (16u << 20) /* bytes read on after a body of unknown length went wrong */
#define RESERVE_STEP (1u << 20) /* memory of a body of unknown length is taken in such steps */

/* How the answer looks; the OpenAI form has its own verbose JSON, /v1/transcribe the project's. */
enum answer { ANSWER_OPENAI, ANSWER_NATIVE };

struct steno_upload {
    pthread_mutex_t lock;
    int sides; /* connection, job */
    const struct steno_services *sv;
    enum steno_session_api api;
    enum answer form;
    struct steno_openai_request ask;
    bool no_words;
    int beam, n_best;
    bool no_endpointing;

    /* receiving: the connection's */
    struct steno_multipart *parts;
    struct steno_buf body, field;
    size_t reserved, content_length, discarded;
    char field_name[64];
    bool in_file, started;
    int fail_http; /* what was wrong with the body, told at its end; 0 = nothing */
    const char *fail_param, *fail_code;
    steno_err fail;
    steno_hangup_id watch;

    /* lock */
    struct MHD_Connection *conn; /* NULL once it is over */
    bool suspended, over, gone, timed_out;
    steno_job *job;          /* until its done */
    struct steno_buf answer; /* when over: the body */
    int code;
    steno_err err;
    double audio_seconds, inference_seconds;
    char audio_format[32], warning[160];

    /* server-sent events: lock */
    bool sse, sse_begun, sse_ended, sse_overflow;
    struct steno_buf events;
    int64_t segment;   /* whose text is being sent */
    size_t sent_bytes; /* of that segment's text */
    bool any_sent;
};

/* ---- life ------------------------------------------------------------------------------------ */

static void upload_free(struct steno_upload *up)
{
    steno_multipart_close(up->parts);
    steno_buf_free(&up->body);
    steno_buf_free(&up->field);
    steno_buf_free(&up->answer);
    steno_buf_free(&up->events);
    pthread_mutex_destroy(&up->lock);
    free(up);
}

/* One side is done with it. */
static void upload_leave(struct steno_upload *up)
{
    bool last;
    pthread_mutex_lock(&up->lock);
    last = --up->sides == 0;
    pthread_mutex_unlock(&up->lock);
    if (last)
        upload_free(up);
}

static struct steno_upload *upload_new(struct steno_request *rq)
{
    struct steno_upload *up = calloc(1, sizeof *up);
    if (!up)
        return NULL;
    pthread_mutex_init(&up->lock, NULL);
    up->sides = 1;
    up->sv = rq->sv;
    up->api = rq->route->api;
    up->form = up->api == STENO_SESSION_OPENAI ? ANSWER_OPENAI : ANSWER_NATIVE;
    up->conn = rq->conn;
    up->segment = -1;
    steno_buf_init(&up->body, rq->sv->srv->conf->body_bytes);
    steno_buf_init(&up->field, STENO_OPENAI_FIELD);
    steno_buf_init(&up->answer, ANSWER_MAX);
    steno_buf_init(&up->events, EVENTS_MAX);
    return up;
}

/* Lock held. */
static void resume(struct steno_upload *up)
{
    if (!up->suspended)
        return;
    up->suspended = false;
    MHD_resume_connection(up->conn);
}

static void give_back(struct steno_upload *up)
{
    if (up->reserved)
        steno_limits_release(up->sv->srv->limits, up->reserved);
    up->reserved = 0;
}

/* ---- what is asked --------------------------------------------------------------------------- */

static steno_status set_native_format(struct steno_upload *up, const char *value, steno_err *err)
{
    static const struct {
        const char *name;
        enum steno_openai_format format;
    } names[] = {{"json", STENO_OPENAI_JSON},
                 {"text", STENO_OPENAI_TEXT},
                 {"srt", STENO_OPENAI_SRT},
                 {"vtt", STENO_OPENAI_VTT}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(value, names[i].name)) {
            up->ask.format = names[i].format;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL, "format: '%.40s' is not one of json, text, srt, vtt",
                      value);
}

static steno_status set_model(struct steno_upload *up, const char *value, steno_err *err)
{
    if (strlen(value) >= sizeof up->ask.model)
        return steno_fail(err, STENO_ERR_INVAL, "model: longer than %zu bytes",
                          sizeof up->ask.model - 1);
    memcpy(up->ask.model, value, strlen(value) + 1);
    return STENO_OK;
}

/* A pair of /v1/transcribe's query. A name that means nothing is an error here: it is our own form,
 * so it is a slip of the pen. */
static steno_status on_query(void *user, const char *name, const char *value, steno_err *err)
{
    struct steno_upload *up = user;
    bool flag;
    steno_status st;
    if (!strcmp(name, "format"))
        return set_native_format(up, value, err);
    if (!strcmp(name, "model"))
        return set_model(up, value, err);
    if (!strcmp(name, "channel"))
        return steno_query_int(name, value, 0, STENO_OPENAI_CHANNELS, &up->ask.channel, err);
    if (!strcmp(name, "beam"))
        return steno_query_int(name, value, 0, STENO_MAX_BEAM, &up->beam, err);
    if (!strcmp(name, "n_best"))
        return steno_query_int(name, value, 0, STENO_MAX_BEAM, &up->n_best, err);
    if (strcmp(name, "words") && strcmp(name, "segments"))
        return steno_fail(err, STENO_ERR_INVAL,
                          "query: '%.40s' is unknown; known are format, model, channel, beam, "
                          "n_best, words, segments",
                          name);
    st = steno_query_bool(name, value, &flag, err);
    if (!st && !strcmp(name, "words"))
        up->no_words = !flag;
    else if (!st)
        up->no_endpointing = !flag;
    return st;
}

/* OpenAI's form has no query; `channel`, our extension, may stand there as well as in a field.
 * Other names are other people's (api-version, for example). */
static steno_status on_openai_query(void *user, const char *name, const char *value, steno_err *err)
{
    return strcmp(name, "channel") ? STENO_OK : on_query(user, name, value, err);
}

static const char *model_error(struct steno_upload *up, steno_err *err)
{
    const struct steno_server *srv = up->sv->srv;
    if (!steno_server_knows_model(srv, up->ask.model)) {
        (void)steno_fail(err, STENO_ERR_INVAL, "the model '%.80s' does not exist, there is '%s'",
                         up->ask.model, srv->info.name);
        return "model_not_found";
    }
    return NULL;
}

/* ---- the body comes -------------------------------------------------------------------------- */

static void fail_body(struct steno_upload *up, int http, const char *code, const char *param,
                      const steno_err *err)
{
    if (up->fail_http)
        return;
    up->fail_http = http;
    up->fail_code = code;
    up->fail_param = param;
    up->fail = *err;
    steno_buf_free(&up->body);
    give_back(up);
}

static void fail_body_status(struct steno_upload *up, const char *param, const steno_err *err)
{
    const struct steno_status_map *map = steno_status_info(err->code);
    fail_body(up, map->http, map->name, param, err);
}

static steno_status too_large(const struct steno_upload *up, steno_err *err)
{
    size_t max = up->sv->srv->conf->body_bytes;
    /* OpenAI's wording, which clients may look for */
    return steno_fail(err, STENO_ERR_LIMIT,
                      "Maximum content size limit (%zu) exceeded (%zu bytes read)", max,
                      up->content_length > max ? up->content_length : max + 1);
}

static steno_status keep(struct steno_upload *up, const char *data, size_t n, steno_err *err)
{
    steno_status st;
    size_t need;
    if (!steno_add_size(up->body.len, n, &need) || need > up->body.max)
        return too_large(up, err);
    while (up->reserved < need) {
        size_t step = need - up->reserved > RESERVE_STEP ? need - up->reserved : RESERVE_STEP;
        st = steno_limits_reserve(up->sv->srv->limits, step, err);
        if (st)
            return st;
        up->reserved += step;
    }
    st = steno_buf_add(&up->body, data, n);
    return st ? steno_fail(err, st, "no memory for the upload") : STENO_OK;
}

static steno_status on_part(void *user, const char *name, const char *filename, steno_err *err)
{
    struct steno_upload *up = user;
    (void)filename; /* never trusted: the first bytes say what the recording is */
    up->in_file = !strcmp(name, "file");
    if (up->in_file && up->ask.has_file)
        return steno_fail(err, STENO_ERR_INVAL, "file: the form has more than one");
    up->ask.has_file |= up->in_file;
    snprintf(up->field_name, sizeof up->field_name, "%s", name);
    steno_buf_reset(&up->field);
    return STENO_OK;
}

static steno_status on_part_data(void *user, const char *data, size_t n, steno_err *err)
{
    struct steno_upload *up = user;
    if (up->in_file)
        return keep(up, data, n, err);
    if (steno_buf_add(&up->field, data, n))
        return steno_fail(err, STENO_ERR_INVAL, "%s: longer than %d bytes", up->field_name,
                          STENO_OPENAI_FIELD);
    return STENO_OK;
}

static steno_status on_part_end(void *user, steno_err *err)
{
    struct steno_upload *up = user;
    if (up->in_file)
        return STENO_OK;
    return steno_openai_field(&up->ask, up->field_name, up->field.data ? up->field.data : "",
                              up->field.len, &up->fail_param, err);
}

enum MHD_Result steno_upload_data(struct steno_request *rq, const char *data, size_t n)
{
    struct steno_upload *up = rq->upload;
    int64_t age = steno_now_ns() - rq->started;
    steno_err err;
    steno_status st;
    if (!up || age > (int64_t)(rq->sv->srv->conf->body_timeout * 1e9)) {
        rq->code = 408;
        return MHD_NO;
    }
    if (up->fail_http) {
        up->discarded += n;
        /* with a length the body is bounded anyway; without one we do not listen for ever */
        return up->content_length || up->discarded <= DISCARD_MAX ? MHD_YES : MHD_NO;
    }
    st = up->parts ? steno_multipart_push(up->parts, data, n, &err) : keep(up, data, n, &err);
    if (st)
        fail_body_status(up, up->fail_param, &err);
    return MHD_YES;
}

/* ---- admission ------------------------------------------------------------------------------- */

/* Content-Length; false when it is nonsense. 0 also when there is none. */
static bool read_length(struct steno_request *rq, struct steno_upload *up)
{
    const char *text = steno_request_header(rq, "Content-Length");
    size_t v = 0;
    for (; text && *text; text++) {
        if (*text < '0' || *text > '9' || !steno_mul_size(v, 10, &v) ||
            !steno_add_size(v, (size_t)(*text - '0'), &v))
            return false;
    }
    up->content_length = v;
    return true;
}

static enum MHD_Result refuse(struct steno_request *rq, int http, const char *code,
                              const char *param, const steno_err *err)
{
    return steno_respond_error(rq, http, code, param, "%s", err->msg);
}

static steno_status open_body(struct steno_request *rq, struct steno_upload *up, steno_err *err)
{
    const struct steno_multipart_events events = {up, on_part, on_part_data, on_part_end};
    const char *encoding = steno_request_header(rq, "Content-Encoding");
    steno_status st;
    if (encoding && strcasecmp(encoding, "identity"))
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "Content-Encoding '%.40s' is not supported",
                          encoding);
    st = steno_query_each(rq->target, up->form == ANSWER_NATIVE ? on_query : on_openai_query, up,
                          err);
    if (st || up->form == ANSWER_NATIVE)
        return st;
    return steno_multipart_open(&up->parts, steno_request_header(rq, "Content-Type"), &events, err);
}

/* Looks at the head only: what can be refused is refused before a byte of the body is read. */
static enum MHD_Result admit(struct steno_request *rq, struct steno_upload *up)
{
    steno_err err;
    const char *code;
    steno_status st;
    if (!read_length(rq, up))
        return steno_respond_error(rq, 400, "invalid_argument", NULL,
                                   "Content-Length is no number");
    if (up->content_length > rq->sv->srv->conf->body_bytes) {
        (void)too_large(up, &err);
        return refuse(rq, 413, "limit_exceeded", NULL, &err);
    }
    st = open_body(rq, up, &err);
    if (st)
        return steno_respond_status(rq, &err, NULL);
    code = up->form == ANSWER_NATIVE ? model_error(up, &err) : NULL;
    if (code)
        return refuse(rq, 404, code, "model", &err);
    if (up->content_length) {
        st = steno_limits_reserve(rq->sv->srv->limits, up->content_length, &err);
        if (st)
            return steno_respond_status(rq, &err, NULL);
        up->reserved = up->content_length;
    }
    return MHD_YES;
}

enum MHD_Result steno_upload_begin(struct steno_request *rq)
{
    struct steno_upload *up;
    steno_err err;
    if (steno_limits_enter(rq->sv->srv->limits, rq->route->api, &err))
        return steno_respond_status(rq, &err, NULL);
    up = upload_new(rq);
    if (!up) {
        steno_limits_leave(rq->sv->srv->limits, rq->route->api, STENO_SESSION_FAILED);
        return steno_respond_error(rq, 503, "out_of_memory", NULL, "out of memory");
    }
    rq->upload = up;
    return admit(rq, up);
}

/* ---- the job's side -------------------------------------------------------------------------- */

static steno_status write_openai(struct steno_upload *up, const struct steno_openai_result *r)
{
    if (up->ask.format == STENO_OPENAI_VERBOSE_JSON)
        return steno_openai_write_verbose(&up->answer, r, up->ask.words, up->ask.segments);
    return steno_openai_write_json(&up->answer, r);
}

static steno_status write_native(struct steno_upload *up, const struct steno_openai_result *r)
{
    const struct steno_result_json_options opt = {
        .no_words = up->no_words,
        .model = up->sv->srv->info.name,
        .language = r->language,
        .warning = r->warning};
    steno_status st = steno_result_json_write(&up->answer, r->transcript, &opt);
    return st ? st : steno_buf_puts(&up->answer, "\n");
}

static steno_status write_answer(struct steno_upload *up, const struct steno_openai_result *r)
{
    steno_status st;
    switch (up->ask.format) {
    case STENO_OPENAI_SRT:
        return steno_subtitle_write(&up->answer, r->transcript, STENO_SRT, NULL);
    case STENO_OPENAI_VTT:
        return steno_subtitle_write(&up->answer, r->transcript, STENO_VTT, NULL);
    case STENO_OPENAI_TEXT:
        st = steno_buf_puts(&up->answer, steno_transcript_text(r->transcript));
        return st ? st : steno_buf_puts(&up->answer, "\n");
    case STENO_OPENAI_JSON:
    case STENO_OPENAI_VERBOSE_JSON:
        break;
    }
    return up->form == ANSWER_OPENAI ? write_openai(up, r) : write_native(up, r);
}

/* Lock held: put what the client does not have yet of a segment's unchanging text into the events.
 */
static void add_delta(struct steno_upload *up, const struct steno_event *ev, size_t stable)
{
    steno_status st = STENO_OK;
    if (ev->segment != up->segment) {
        up->segment = ev->segment;
        up->sent_bytes = 0;
    }
    if (stable <= up->sent_bytes || up->sse_overflow)
        return;
    if (!up->sent_bytes && up->any_sent)
        st = steno_openai_write_delta(&up->events, " ", 1);
    if (!st)
        st = steno_openai_write_delta(&up->events, ev->text + up->sent_bytes,
                                      stable - up->sent_bytes);
    if (st)
        up->sse_overflow = true;
    up->sent_bytes = stable;
    up->any_sent = true;
    resume(up);
}

static void on_event(void *user, const struct steno_event *ev)
{
    struct steno_upload *up = user;
    if (ev->kind == STENO_SPEECH_START)
        return;
    pthread_mutex_lock(&up->lock);
    add_delta(up, ev, ev->kind == STENO_FINAL ? strlen(ev->text) : ev->stable_bytes);
    pthread_mutex_unlock(&up->lock);
}

static void on_released(void *user, size_t bytes)
{
    struct steno_upload *up = user;
    (void)bytes;
    give_back(up);
}

static void observe(struct steno_upload *up, const struct steno_job_result *r)
{
    struct steno_stats *stats = up->sv->srv->stats;
    const struct steno_pool_stream_stats *s = &r->stats;
    if (r->status)
        steno_stats_decode_error(stats, up->api, r->status);
    if (!(s->audio_seconds > 0))
        return;
    steno_metric_add(stats->audio_seconds[up->api], s->audio_seconds);
    steno_metric_add(stats->inference_seconds[up->api], s->inference_seconds);
    steno_metric_observe(stats->realtime_factor, s->inference_seconds / s->audio_seconds);
    if (s->steps)
        steno_metric_observe(stats->queue_wait, s->queue_wait_seconds / (double)s->steps);
}

/* Lock held. */
static void take_result(struct steno_upload *up, const struct steno_job_result *r)
{
    struct steno_openai_result out = {.transcript = r->transcript,
                                      .language = up->sv->srv->info.language,
                                      .duration = r->duration,
                                      .warning = *r->warning ? r->warning : NULL};
    steno_status st = r->status;
    up->err = r->err;
    up->audio_seconds = r->stats.audio_seconds;
    up->inference_seconds = r->stats.inference_seconds;
    memcpy(up->audio_format, r->format, sizeof up->audio_format);
    memcpy(up->warning, r->warning, sizeof up->warning);
    if (!st)
        st = up->sse ? steno_openai_write_done(&up->events, &out) : write_answer(up, &out);
    if (!st && up->sse_overflow)
        st = STENO_ERR_LIMIT;
    if (st && !r->status)
        (void)steno_fail(&up->err, st == STENO_ERR_LIMIT ? STENO_ERR_INTERNAL : st,
                         "the answer does not fit");
    up->code = st ? steno_status_info(up->err.code)->http : 200;
    if (st == STENO_ERR_CANCELLED)
        up->code = 503; /* by our shutdown, unless: */
    if (up->gone)
        up->code = 499;
    else if (up->timed_out)
        up->code = 504;
    if (up->code != 200 && up->sse_begun &&
        steno_openai_write_error_event(&up->events, up->err.msg, steno_openai_error_type(up->code),
                                       steno_status_info(up->err.code)->name))
        up->sse_overflow = true; /* the client sees the end without a done event */
}

static void on_done(void *user, steno_job *job)
{
    struct steno_upload *up = user;
    const struct steno_job_result *r = steno_job_get_result(job);
    observe(up, r);
    pthread_mutex_lock(&up->lock);
    take_result(up, r);
    up->job = NULL;
    up->over = true;
    resume(up);
    pthread_mutex_unlock(&up->lock);
    steno_job_free(job);
    upload_leave(up);
}

/* ---- the connection's side ------------------------------------------------------------------- */

static void on_hangup(void *user, bool timed_out)
{
    struct steno_upload *up = user;
    pthread_mutex_lock(&up->lock);
    if (!up->over) {
        up->timed_out = timed_out;
        up->gone = !timed_out;
        if (up->job)
            steno_job_cancel(up->job);
    }
    pthread_mutex_unlock(&up->lock);
}

static void watch_connection(struct steno_request *rq, struct steno_upload *up)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(rq->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    int64_t limit = (int64_t)(rq->sv->srv->conf->request_timeout * 1e9);
    if (info)
        up->watch = steno_hangup_watch(rq->sv->hangup, info->connect_fd, steno_now_ns() + limit,
                                       on_hangup, up);
}

static enum MHD_Result start(struct steno_request *rq, struct steno_upload *up)
{
    struct steno_job_request job = {.api = up->api,
                                    .len = up->body.len,
                                    .channel = (unsigned)up->ask.channel,
                                    .beam = up->beam,
                                    .n_best = up->n_best,
                                    .partials = up->sse,
                                    .no_endpointing = up->no_endpointing,
                                    .event = up->sse ? on_event : NULL,
                                    .done = on_done,
                                    .released = on_released,
                                    .user = up};
    steno_err err;
    steno_status st;
    size_t len;
    job.audio = steno_buf_take(&up->body, &len);
    up->started = true;
    watch_connection(rq, up);
    pthread_mutex_lock(&up->lock);
    up->sides++;
    up->suspended = true;
    MHD_suspend_connection(rq->conn);
    st = steno_job_start(&up->job, rq->sv->jobs, &job, &err);
    if (st) {
        free(job.audio);
        up->sides--;
        up->over = true;
        up->err = err;
        up->code = st == STENO_ERR_CANCELLED ? 503 : steno_status_info(st)->http;
        resume(up);
    }
    pthread_mutex_unlock(&up->lock);
    if (st)
        give_back(up);
    return MHD_YES;
}

/* The whole body is here: is it a request that can be served? */
static enum MHD_Result check_and_start(struct steno_request *rq, struct steno_upload *up)
{
    steno_err err;
    const char *code;
    if (!up->fail_http && up->parts) {
        if (steno_multipart_end(up->parts, &err) ||
            steno_openai_check(&up->ask, &up->fail_param, &err))
            fail_body_status(up, up->fail_param, &err);
        else if ((code = model_error(up, &err)))
            fail_body(up, 404, code, "model", &err);
    }
    if (!up->fail_http &&
        !steno_openai_language_matches(up->ask.language, rq->sv->srv->info.language)) {
        (void)steno_fail(&err, STENO_ERR_INVAL, "language: the model '%s' speaks '%s', not '%.40s'",
                         rq->sv->srv->info.name, rq->sv->srv->info.language, up->ask.language);
        fail_body(up, 400, "unsupported_language", "language", &err);
    }
    if (!up->fail_http && !up->body.len) {
        steno_stats_decode_error(rq->sv->srv->stats, up->api, STENO_NEED_MORE);
        (void)steno_fail(&err, STENO_ERR_FORMAT,
                         up->parts ? "file: it is empty" : "the request body is empty");
        fail_body_status(up, up->parts ? "file" : NULL, &err);
    }
    if (up->fail_http)
        return steno_respond_error(rq, up->fail_http, up->fail_code, up->fail_param, "%s",
                                   up->fail.msg);
    up->sse = up->ask.stream;
    return start(rq, up);
}

static ssize_t read_events(void *ctx, uint64_t pos, char *out, size_t max)
{
    struct steno_upload *up = ctx;
    ssize_t n = 0;
    (void)pos;
    pthread_mutex_lock(&up->lock);
    if (up->events.len) {
        n = (ssize_t)(up->events.len < max ? up->events.len : max);
        memcpy(out, up->events.data, (size_t)n);
        steno_buf_drop(&up->events, (size_t)n);
    } else if (up->over) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
        up->sse_ended = true;
    } else {
        up->suspended = true;
        MHD_suspend_connection(up->conn);
    }
    pthread_mutex_unlock(&up->lock);
    return n;
}

static enum MHD_Result answer(struct steno_request *rq, struct steno_upload *up)
{
    struct steno_header headers[] = {{NULL, NULL}, {NULL, NULL}};
    int code;
    if (up->audio_seconds > 0)
        snprintf(rq->note, sizeof rq->note, "%.3f s of %s, real-time factor %.4f",
                 up->audio_seconds, up->audio_format, up->inference_seconds / up->audio_seconds);
    if (up->code == 504)
        return steno_respond_error(rq, 504, "timeout", NULL,
                                   "recognition took longer than limits.request_timeout (%g s)",
                                   rq->sv->srv->conf->request_timeout);
    if (up->code == 499)
        return steno_respond_error(rq, 499, "cancelled", NULL, "the client went away");
    if (up->code != 200 && up->err.code == STENO_ERR_CANCELLED)
        return steno_respond_error(rq, 503, "draining", NULL, "the server is shutting down");
    if (up->code != 200)
        return steno_respond_status(rq, &up->err, "file");
    if (*up->warning)
        headers[0] = (struct steno_header){"X-Steno-Warning", up->warning};
    code = up->code;
    return steno_respond(rq, code, steno_openai_media_type(up->ask.format), &up->answer, headers);
}

enum MHD_Result steno_upload_continue(struct steno_request *rq)
{
    struct steno_upload *up = rq->upload;
    bool over, failed;
    if (!up)
        return MHD_NO;
    if (rq->code)
        return MHD_YES;
    if (!up->started)
        return check_and_start(rq, up);
    pthread_mutex_lock(&up->lock);
    over = up->over;
    failed = over && up->code != 200;
    if (up->sse && !failed)
        up->sse_begun = true;
    pthread_mutex_unlock(&up->lock);
    if (up->sse && !failed)
        return steno_respond_stream(rq, 200, "text/event-stream", read_events, up, NULL);
    return over ? answer(rq, up) : MHD_YES;
}

static enum steno_session_result result_of(const struct steno_request *rq,
                                           const struct steno_upload *up)
{
    if (rq->code == 200)
        return up->sse && !up->sse_ended ? STENO_SESSION_GONE : STENO_SESSION_OK;
    if (rq->code == 499)
        return STENO_SESSION_GONE;
    if (rq->code == 504 || rq->code == 408)
        return STENO_SESSION_TIMEOUT;
    if (rq->code == 503)
        return steno_limits_draining(up->sv->srv->limits) ? STENO_SESSION_DRAINED
                                                          : STENO_SESSION_FAILED;
    return rq->code < 500 ? STENO_SESSION_BAD : STENO_SESSION_FAILED;
}

void steno_upload_end(struct steno_request *rq)
{
    struct steno_upload *up = rq->upload;
    if (!up)
        return;
    rq->upload = NULL;
    steno_hangup_forget(rq->sv->hangup, up->watch);
    pthread_mutex_lock(&up->lock);
    up->conn = NULL;
    if (up->job)
        steno_job_cancel(up->job);
    pthread_mutex_unlock(&up->lock);
    if (!up->started)
        give_back(up);
    steno_limits_leave(rq->sv->srv->limits, up->api, result_of(rq, up));
    upload_leave(up);
}
