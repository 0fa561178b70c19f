/* Requests that become jobs: POST /v1/jobs, and POST /v1/listen with a callback. The recording goes
 * to the spool while it arrives. At its end the connection is suspended, and the thread of the
 * service waits until the disk has the recording and the job; only then is the request answered. */
#include "server/http/upload_internal.h"

#include "protocol/dialect.h"
#include "protocol/job_request.h"
#include "protocol/json_text.h"
#include "protocol/query.h"
#include "server/core/credentials.h"
#include "server/jobs/job_json.h"
#include "server/jobs/job_routes.h"
#include "server/jobs/job_service.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define TARGET_MAX 32768                            /* bytes of all parameters */
#define URLS_MAX (STENO_JOB_URLS * STENO_FETCH_URL) /* bytes of all URLs */
#define EXPIRES_MAX 31536000.0                      /* s */
#define ONCE_MAX 255                                /* bytes of an Idempotency-Key */

struct steno_stored {
    struct steno_job_task task;
    struct steno_upload *up;
    steno_job_service *service;
    steno_spool_file *file; /* NULL before the first byte */
    char ids[STENO_JOB_URLS][STENO_JOB_ID];
    size_t n; /* jobs */
    struct steno_buf target, urls;
    char callback[STENO_FETCH_URL], method[8];
    double expires; /* s from now; 0 = never */
    char location[STENO_JOB_ID + 16];
    char once[ONCE_MAX + 1]; /* the client's Idempotency-Key; "" = none */
    struct steno_sha256 sum; /* of what came, when there is one */
    struct steno_trace_headers trace;
    bool repeated; /* ids are those of an earlier request */
    char earlier[STENO_JOB_URLS][STENO_JOB_ID];
    const char *error_code; /* of a refusal by the store */
};

static steno_status take_pair(void *user, const char *name, const char *value, steno_err *err);

/* ---- the head -------------------------------------------------------------------------------- */

static steno_status note_callback(void *user, const char *name, const char *value, steno_err *err)
{
    (void)value, (void)err;
    if (!strcmp(name, "callback"))
        *(bool *)user = true;
    return STENO_OK;
}

/* Read the client's name of the request: 1 to 255 visible characters of ASCII. */
static steno_status read_once(struct steno_request *rq, struct steno_stored *s, steno_err *err)
{
    const char *key = steno_request_header(rq, "Idempotency-Key");
    size_t n = 0;
    if (!key)
        return STENO_OK;
    while (key[n] > ' ' && key[n] <= '~' && n < ONCE_MAX)
        n++;
    if (!n || key[n])
        return steno_fail(err, STENO_ERR_INVAL,
                          "Idempotency-Key: must be 1 to %d visible characters of ASCII", ONCE_MAX);
    memcpy(s->once, key, n + 1);
    steno_sha256_begin(&s->sum);
    return STENO_OK;
}

static steno_status want_store(struct steno_request *rq, struct steno_upload *up, steno_err *err)
{
    steno_job_service *service = rq->sv->stored;
    bool wanted = up->api == STENO_SESSION_JOB;
    struct steno_stored *s;
    up->json = (wanted || up->form == STENO_UPLOAD_DEEPGRAM) &&
               steno_request_has_type(rq, "application/json");
    if (up->form == STENO_UPLOAD_DEEPGRAM && service &&
        steno_query_each(rq->target, note_callback, &wanted, err))
        return STENO_ERR_INVAL;
    if (!wanted)
        return STENO_OK;
    if (!service)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "this server keeps no jobs (jobs.dir is empty)");
    s = calloc(1, sizeof *s);
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    s->up = up;
    s->service = service;
    s->n = 1;
    steno_buf_init(&s->target, TARGET_MAX);
    steno_buf_init(&s->urls, URLS_MAX);
    steno_trace_get_headers(&rq->trace, &s->trace);
    steno_id_new(s->ids[0], "job");
    memcpy(s->method, "POST", 5);
    up->stored = s;
    if (up->form == STENO_UPLOAD_DEEPGRAM) { /* a client's own name would not be unique */
        char id[STENO_ID_SIZE];
        steno_dialect_uuid(steno_id_new(id, "job"), s->ids[0]);
        snprintf(rq->id, sizeof rq->id, "%s", s->ids[0]);
        return STENO_OK;
    }
    return read_once(rq, s, err);
}

static void free_stored(struct steno_upload *up)
{
    struct steno_stored *s = up->stored;
    if (!s)
        return;
    steno_spool_discard(s->file);
    steno_buf_free(&s->target);
    steno_buf_free(&s->urls);
    free(s);
    up->stored = NULL;
}

static steno_status open_stored(struct steno_request *rq, struct steno_upload *up, steno_err *err)
{
    struct steno_stored *s = up->stored;
    steno_status st =
        steno_buf_puts(&s->target, up->form == STENO_UPLOAD_DEEPGRAM ? "/v1/listen" : "/v1/jobs");
    if (st)
        return steno_fail(err, st, "out of memory");
    st = steno_query_each(rq->target, take_pair, up, err);
    if (!st && up->form != STENO_UPLOAD_DEEPGRAM &&
        steno_request_has_type(rq, "multipart/form-data"))
        st = steno_upload_open_parts(rq, up, err);
    return st;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static steno_status set_method(struct steno_stored *s, const char *value, steno_err *err)
{
    if (strcasecmp(value, "post") && strcasecmp(value, "put"))
        return steno_fail(err, STENO_ERR_INVAL, "callback_method: '%.20s' is not post or put",
                          value);
    snprintf(s->method, sizeof s->method, "%s", strcasecmp(value, "put") ? "POST" : "PUT");
    return STENO_OK;
}

static steno_status set_callback(struct steno_stored *s, const char *value, steno_err *err)
{
    if (strlen(value) >= sizeof s->callback)
        return steno_fail(err, STENO_ERR_INVAL, "callback: longer than %zu bytes",
                          sizeof s->callback - 1);
    memcpy(s->callback, value, strlen(value) + 1);
    return *value ? steno_job_service_check_callback(s->service, value, err) : STENO_OK;
}

static steno_status take_pair(void *user, const char *name, const char *value, steno_err *err)
{
    struct steno_upload *up = user;
    struct steno_stored *s = up->stored;
    steno_status st;
    if (steno_credentials_parameter(name))
        return STENO_OK;
    if (!strcmp(name, "callback"))
        st = set_callback(s, value, err);
    else if (!strcmp(name, "callback_method"))
        st = set_method(s, value, err);
    else if (!strcmp(name, "expires"))
        st = steno_query_double(name, value, 1, EXPIRES_MAX, &s->expires, err);
    else {
        st = steno_target_add(&s->target, name, value);
        if (st)
            st = steno_fail(err, STENO_ERR_LIMIT, "the parameters are longer than %d bytes",
                            TARGET_MAX);
    }
    if (st && name != up->in.field_name) {
        snprintf(up->in.field_name, sizeof up->in.field_name, "%s", name);
        up->fault.param = up->in.field_name;
    }
    return st;
}

/* ---- the body -------------------------------------------------------------------------------- */

static steno_status keep_stored(struct steno_upload *up, const char *data, size_t n, steno_err *err)
{
    struct steno_stored *s = up->stored;
    steno_status st = STENO_OK;
    if (*s->once)
        steno_sha256_add(&s->sum, data, n);
    if (up->json)
        return steno_upload_keep_memory(up, data, n, err);
    if (!s->file)
        st = steno_spool_begin(&s->file, steno_job_service_spool(s->service), s->ids[0],
                               up->sv->srv->conf->jobs_bytes, err);
    return st ? st : steno_spool_write(s->file, data, n, err);
}

static void fail_stored(struct steno_upload *up, const steno_err *err)
{
    struct steno_stored *s = up->stored;
    if (err->code == STENO_ERR_IO) /* RFC 4918, 11.5 */
        steno_upload_fail(up, 507, "not_stored", NULL, err);
    else
        steno_upload_fail_status(up, up->fault.param, err);
    steno_spool_discard(s->file);
    s->file = NULL;
}

/* Check the parameters as an upload does that runs at once. */
static bool check_parameters(struct steno_upload *up)
{
    struct steno_stored *s = up->stored;
    steno_err err;
    steno_status st = steno_upload_read_target(up, s->target.data, &err);
    if (st) {
        steno_upload_fail_status(up, up->fault.param, &err);
        return false;
    }
    st = steno_models_check(up->sv->srv->models, up->want.ask.model, &err);
    if (st)
        steno_upload_fail(up, 404, "model_not_found", "model", &err);
    else
        st = steno_upload_check_wants(up, &err);
    if (st)
        steno_upload_fail_status(up, up->fault.param, &err);
    return !st;
}

/* Find the recordings. */
static steno_status check_recordings(struct steno_upload *up, steno_err *err)
{
    struct steno_stored *s = up->stored;
    steno_status st;
    up->fault.param = NULL;
    if (!up->json) {
        up->fault.param = up->in.parts ? "file" : NULL;
        return s->file && steno_spool_size(s->file)
                   ? STENO_OK
                   : steno_fail(err, STENO_ERR_FORMAT, "%s",
                                up->in.parts ? "file: it is missing or empty"
                                             : "the request body is empty");
    }
    st = steno_job_request_read(up->in.body.data ? up->in.body.data : "", up->in.body.len,
                                take_pair, up, &s->urls, &s->n, err);
    if (st)
        return st;
    up->fault.param = "url";
    for (size_t i = 0, at = 0; i < s->n && !st; i++, at += strlen(s->urls.data + at) + 1) {
        if (i)
            steno_id_new(s->ids[i], "job");
        st = steno_fetch_check(up->sv->fetcher, s->urls.data + at, err);
    }
    if (!st && s->n > 1 && up->form == STENO_UPLOAD_DEEPGRAM)
        st = steno_fail(err, STENO_ERR_INVAL, "urls: one recording for each request");
    return st;
}

/* ---- storing --------------------------------------------------------------------------------- */

/* Bring the recording into a store that other machines reach. */
static steno_status share_recording(struct steno_stored *s, steno_job_queue *q, steno_err *err)
{
    steno_spool *spool = steno_job_service_spool(s->service);
    int fd;
    steno_status st = steno_spool_read(spool, s->ids[0], &fd, err);
    if (st)
        return st;
    st = q->ops->put_audio(q, s->ids[0], fd, err);
    close(fd);
    steno_spool_remove(spool, s->ids[0]); /* before a run of this process puts its copy there */
    return st;
}

/* The digest of the request: its body, then what its parameters say. */
static void end_sum(struct steno_stored *s, char out[STENO_SHA256_HEX])
{
    uint8_t digest[STENO_SHA256_BYTES];
    char expires[32];
    snprintf(expires, sizeof expires, "%.3f", s->expires);
    const char *const parts[] = {"", s->target.data, s->callback, s->method, expires};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        steno_sha256_add(&s->sum, parts[i], strlen(parts[i]) + 1);
    steno_sha256_end(&s->sum, digest);
    steno_sha256_text(digest, out);
}

static steno_status submit_jobs(struct steno_stored *s, struct steno_job_new *jobs, steno_err *err)
{
    const struct steno_upload *up = s->up;
    const struct steno_config *conf = up->sv->srv->conf;
    const struct steno_job_quota quota = {conf->jobs_max, up->key ? conf->jobs_per_key : 0};
    steno_job_queue *q = steno_job_service_queue(s->service);
    const int64_t now = steno_job_now();
    char digest[STENO_SHA256_HEX];
    struct steno_job_once once = {
        .key = s->once, .digest = digest, .ids = s->earlier, .room = STENO_JOB_URLS};
    steno_status st;
    for (size_t i = 0, at = 0; i < s->n; i++) {
        const char *url = up->json ? s->urls.data + at : "";
        at += strlen(url) + 1;
        jobs[i] = (struct steno_job_new){
            .id = s->ids[i],
            .owner = steno_key_name(up->key),
            .target = s->target.data,
            .url = url,
            .callback = s->callback,
            .method = s->method,
            .traceparent = s->trace.parent,
            .tracestate = s->trace.state,
            .form = up->form == STENO_UPLOAD_DEEPGRAM ? STENO_JOB_DEEPGRAM : STENO_JOB_NATIVE,
            .bytes = s->file ? (int64_t)steno_spool_size(s->file) : 0,
            .created = now,
            .expires = s->expires > 0 ? now + (int64_t)(s->expires * 1000) : 0};
    }
    if (!s->file)
        st = steno_spool_check_room(steno_job_service_spool(s->service), err);
    else {
        steno_spool_file *file = s->file;
        s->file = NULL;
        st = steno_spool_commit(file, err);
        if (!st && q->ops->put_audio)
            st = share_recording(s, q, err);
    }
    if (st)
        return st;
    if (*s->once)
        end_sum(s, digest);
    st = q->ops->submit(q, jobs, s->n, &quota, *s->once ? &once : NULL, err);
    if (!st && once.repeated) { /* the recording that came now is not needed */
        steno_spool_remove(steno_job_service_spool(s->service), s->ids[0]);
        memcpy(s->ids, s->earlier, once.n * sizeof *s->ids);
        s->n = once.n;
        s->repeated = true;
        snprintf(s->location, sizeof s->location, "/v1/jobs/%s", s->ids[0]);
    }
    return st;
}

/* Write the answer of a request whose jobs are stored. */
static steno_status write_jobs(struct steno_stored *s, struct steno_buf *b)
{
    steno_job_queue *q = steno_job_service_queue(s->service);
    steno_status st = STENO_OK;
    if (s->up->form == STENO_UPLOAD_DEEPGRAM)
        return steno_buf_printf(b, "{\"request_id\":\"%s\"}\n", s->ids[0]);
    if (s->n > 1)
        st = steno_buf_puts(b, "{\"jobs\":[");
    for (size_t i = 0; i < s->n && !st; i++) {
        struct steno_job_record r;
        steno_err err;
        if (i)
            st = steno_buf_puts(b, ",");
        if (!st)
            st = q->ops->get(q, NULL, s->ids[i], &r, &err);
        if (st)
            return st;
        st = steno_job_json_write(b, &r, false);
        steno_job_record_free(&r);
    }
    return st ? st : steno_buf_puts(b, s->n > 1 ? "]}\n" : "\n");
}

static int refusal_of(struct steno_stored *s, steno_status st)
{
    switch (st) {
    case STENO_ERR_BUSY:
        s->error_code = "quota_exceeded";
        return 429;
    case STENO_ERR_LIMIT:
        s->error_code = "too_many_jobs";
        return 503;
    case STENO_ERR_IO:
        s->error_code = "not_stored";
        return 507;
    case STENO_ERR_INVAL:
        s->error_code = "idempotency_key_reused";
        return 422;
    default:
        s->error_code = steno_status_info(st)->name;
        return steno_status_info(st)->http;
    }
}

/* On the service's thread. */
static void store(struct steno_job_task *task)
{
    struct steno_stored *s = (struct steno_stored *)task;
    struct steno_upload *up = s->up;
    struct steno_job_new *jobs = calloc(s->n, sizeof *jobs);
    steno_err err = {STENO_OK, ""};
    steno_status st =
        jobs ? submit_jobs(s, jobs, &err) : steno_fail(&err, STENO_ERR_NOMEM, "out of memory");
    free(jobs);
    if (st) {
        steno_spool_remove(steno_job_service_spool(s->service), s->ids[0]);
    } else {
        if (!s->repeated)
            steno_job_service_submitted(s->service, s->n);
        if (write_jobs(s, &up->out.answer)) { /* it is stored all the same */
            steno_buf_reset(&up->out.answer);
            (void)!steno_buf_printf(&up->out.answer, "{\"id\":\"%s\",\"state\":\"queued\"}\n",
                                    s->ids[0]);
        }
    }
    pthread_mutex_lock(&up->lock);
    up->out.err = err;
    up->out.code = st ? refusal_of(s, st) : up->form == STENO_UPLOAD_DEEPGRAM ? 200 : 202;
    up->out.over = true;
    steno_upload_resume(up);
    pthread_mutex_unlock(&up->lock);
    steno_upload_leave(up);
}

static bool store_upload(struct steno_request *rq, struct steno_upload *up)
{
    struct steno_stored *s = up->stored;
    steno_err err;
    steno_status st = check_recordings(up, &err);
    if (st)
        fail_stored(up, &err);
    if (st || !check_parameters(up))
        return false;
    steno_buf_free(&up->in.body); /* its URLs are in s->urls */
    steno_upload_give_back(up);
    s->task.run = store;
    snprintf(s->location, sizeof s->location, "/v1/jobs/%s", s->ids[0]);
    up->in.started = true;
    pthread_mutex_lock(&up->lock);
    up->sides++;
    up->client.suspended = true;
    MHD_suspend_connection(rq->conn);
    st = steno_job_service_post(s->service, &s->task, &err);
    if (st) {
        up->sides--;
        up->out.over = true;
        up->out.err = err;
        up->out.code = 503;
        s->error_code = "draining";
        steno_upload_resume(up);
    }
    pthread_mutex_unlock(&up->lock);
    return true;
}

static enum MHD_Result answer_stored(struct steno_request *rq, struct steno_upload *up)
{
    struct steno_stored *s = up->stored;
    bool over;
    pthread_mutex_lock(&up->lock);
    over = up->out.over;
    pthread_mutex_unlock(&up->lock);
    if (!over)
        return MHD_YES;
    const struct steno_header headers[] = {
        {up->form == STENO_UPLOAD_DEEPGRAM ? NULL : "Location", s->location},
        {s->repeated ? "Idempotency-Replayed" : NULL, "true"},
        {NULL, NULL}};
    if (up->out.code == 429)
        rq->retry_after = 60;
    if (up->out.code >= 400)
        return steno_respond_error(rq, up->out.code, s->error_code, NULL, "%s", up->out.err.msg);
    snprintf(rq->note, sizeof rq->note, "%s%s", s->ids[0], s->n > 1 ? " and others" : "");
    snprintf(rq->job, sizeof rq->job, "%s", s->ids[0]);
    return steno_respond(rq, up->out.code, "application/json", &up->out.answer, headers);
}

const struct steno_upload_storing steno_upload_storing = {.want = want_store,
                                                          .open = open_stored,
                                                          .take_pair = take_pair,
                                                          .keep = keep_stored,
                                                          .fail = fail_stored,
                                                          .store = store_upload,
                                                          .answer = answer_stored,
                                                          .free = free_stored};
