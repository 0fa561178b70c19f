#include "server/jobs/job_routes.h"

#include "protocol/openai_rest.h"
#include "protocol/query.h"
#include "server/core/credentials.h"
#include "server/http/upload_internal.h"
#include "server/jobs/job_json.h"
#include "server/jobs/job_service.h"

#include <stdio.h>
#include <string.h>

#define ANSWER_MAX (256u << 20)
#define PAGE 50 /* jobs of a page, unless the request says otherwise */
#define PAGE_MAX 1000
#define SEGMENTS 1000 /* of one answer */

/* ---- common ---------------------------------------------------------------------------------- */

/* Check the key and that there is a store. False: the request was answered with *ok. */
static bool enter(struct steno_request *rq, steno_key **key, enum MHD_Result *ok)
{
    steno_err err;
    if (steno_request_key(rq, key, &err)) {
        *ok = steno_respond_wrong_key(rq, &err);
        return false;
    }
    rq->key = *key;
    if (rq->sv->stored)
        return true;
    *ok = steno_respond_error(rq, 404, "not_found", NULL,
                              "this server keeps no jobs (jobs.dir is empty)");
    return false;
}

/* Whose jobs a request sees; NULL: all, because there are no keys. */
static const char *owner_of(const steno_key *key)
{
    return key ? steno_key_name(key) : NULL;
}

static enum MHD_Result respond_text(struct steno_request *rq, steno_status st, int http,
                                    const char *media, struct steno_buf *body)
{
    if (!st)
        return steno_respond(rq, http, media, body, NULL);
    steno_buf_free(body);
    return steno_respond_error(rq, 500, "internal_error", NULL, "the answer is too large");
}

static enum MHD_Result respond_unknown(struct steno_request *rq, const steno_err *err)
{
    return err->code == STENO_ERR_INVAL
               ? steno_respond_error(rq, 404, "job_not_found", NULL, "%s", err->msg)
               : steno_respond_stored_status(rq, err, NULL);
}

/* Split "/v1/jobs/ID" or "/v1/jobs/ID/PART". False: the path is neither. *has_part: it has one. */
static bool read_path(const struct steno_request *rq, const char *part, char id[STENO_JOB_ID],
                      bool *has_part)
{
    const char *p = rq->target + strlen(rq->route->path);
    const size_t len = steno_query_path_len(rq->target) - strlen(rq->route->path);
    const char *slash = memchr(p, '/', len);
    const size_t n = slash ? (size_t)(slash - p) : len;
    *has_part = slash && len - n == strlen(part) + 1 && !memcmp(slash + 1, part, strlen(part));
    if (!n || n >= STENO_JOB_ID || (slash && !*has_part))
        return false;
    memcpy(id, p, n);
    id[n] = '\0';
    return true;
}

static enum MHD_Result respond_no_path(struct steno_request *rq)
{
    const size_t path = steno_query_path_len(rq->target);
    return steno_respond_error(rq, 404, "not_found", NULL, "%.*s does not exist",
                               path > 200 ? 200 : (int)path, rq->target);
}

/* ---- one job --------------------------------------------------------------------------------- */

static const struct {
    const char *format, *media;
} media_types[] = {
    {"json", "application/json"},         {"srt", "text/plain; charset=utf-8"},
    {"vtt", "text/vtt; charset=utf-8"},   {"text", "text/plain; charset=utf-8"},
    {"lrc", "text/plain; charset=utf-8"}, {"tsv", "text/tab-separated-values; charset=utf-8"},
    {"whisperx", "application/json"},     {"deepgram", "application/json"}};

struct job_query {
    bool result;        /* is it asked for */
    int from;           /* the first segment */
    const char *format; /* of the result */
};

static steno_status on_job_query(void *user, const char *name, const char *value, steno_err *err)
{
    struct job_query *q = user;
    if (steno_credentials_parameter(name))
        return STENO_OK;
    const char *known = q->result ? "format" : "segment";
    if (strcmp(name, known) != 0)
        return steno_fail(err, STENO_ERR_INVAL, "query: '%.40s' is unknown; known is %s", name,
                          known);
    if (!q->result)
        return steno_query_int(name, value, 0, INT32_MAX, &q->from, err);
    for (size_t i = 0; i < sizeof media_types / sizeof *media_types; i++)
        if (!strcmp(value, media_types[i].format)) {
            q->format = media_types[i].format;
            return STENO_OK;
        }
    return steno_fail(
        err, STENO_ERR_INVAL,
        "format: '%.40s' is not one of json, srt, vtt, text, lrc, tsv, whisperx, deepgram", value);
}

struct list {
    struct steno_buf *b;
    bool any;
};

static steno_status put_segment(void *user, const struct steno_job_segment *s)
{
    struct list *l = user;
    steno_status st = l->any ? steno_buf_puts(l->b, ",") : STENO_OK;
    l->any = true;
    return st ? st : steno_job_json_segment(l->b, s);
}

static enum MHD_Result respond_job(struct steno_request *rq, int http,
                                   const struct steno_job_record *r, int from)
{
    steno_job_queue *q = steno_job_service_queue(rq->sv->stored);
    struct steno_buf b;
    struct list l = {&b, false};
    steno_err err;
    steno_status st;
    steno_buf_init(&b, ANSWER_MAX);
    st = steno_job_json_write(&b, r, true);
    if (!st)
        st = steno_buf_puts(&b, ",\"segments\":[");
    if (!st)
        st = q->ops->segments(q, r->id, from, SEGMENTS, put_segment, &l, &err);
    if (!st)
        st = steno_buf_puts(&b, "]}\n");
    return respond_text(rq, st, http, "application/json", &b);
}

static enum MHD_Result respond_result(struct steno_request *rq, const struct steno_job_record *r,
                                      const char *format)
{
    steno_job_queue *q = steno_job_service_queue(rq->sv->stored);
    const char *media = "";
    struct steno_buf b;
    steno_err err;
    steno_status st;
    for (size_t i = 0; i < sizeof media_types / sizeof *media_types; i++)
        if (!strcmp(format, media_types[i].format))
            media = media_types[i].media;
    if (r->state != STENO_JOB_DONE)
        return steno_respond_error(rq, 409, steno_job_is_over(r->state) ? r->code : "not_done",
                                   NULL, "the job is %s%s%s", steno_job_state_name(r->state),
                                   *r->reason ? ": " : "", r->reason);
    steno_buf_init(&b, ANSWER_MAX);
    st = q->ops->result(q, r->id, format, &b, &err);
    if (!st)
        return steno_respond(rq, 200, media, &b, NULL);
    steno_buf_free(&b);
    if (st == STENO_NEED_MORE)
        return steno_respond_error(rq, 400, "invalid_argument", "format",
                                   "format: the job has no result in this format");
    return steno_respond_stored_status(rq, &err, NULL);
}

static enum MHD_Result get_job(struct steno_request *rq)
{
    struct job_query ask = {.format = "json"};
    struct steno_job_record r;
    char id[STENO_JOB_ID];
    enum MHD_Result ok;
    steno_job_queue *q;
    steno_key *key;
    steno_err err;
    if (!enter(rq, &key, &ok))
        return ok;
    if (!read_path(rq, "result", id, &ask.result))
        return respond_no_path(rq);
    if (steno_query_each(rq->target, on_job_query, &ask, &err))
        return steno_respond_status(rq, &err, NULL);
    q = steno_job_service_queue(rq->sv->stored);
    if (q->ops->get(q, owner_of(key), id, &r, &err))
        return respond_unknown(rq, &err);
    snprintf(rq->job, sizeof rq->job, "%s", id);
    ok = ask.result ? respond_result(rq, &r, ask.format) : respond_job(rq, 200, &r, ask.from);
    steno_job_record_free(&r);
    return ok;
}

static enum MHD_Result delete_job(struct steno_request *rq)
{
    char id[STENO_JOB_ID];
    enum MHD_Result ok;
    struct steno_buf none;
    steno_job_queue *q;
    steno_key *key;
    steno_err err;
    bool result;
    if (!enter(rq, &key, &ok))
        return ok;
    if (!read_path(rq, "result", id, &result) || result)
        return respond_no_path(rq);
    q = steno_job_service_queue(rq->sv->stored);
    if (q->ops->remove(q, owner_of(key), id, steno_job_now(), &err))
        return respond_unknown(rq, &err);
    snprintf(rq->job, sizeof rq->job, "%s", id);
    steno_job_service_removed(rq->sv->stored, id);
    steno_buf_init(&none, 1);
    return steno_respond(rq, 204, "application/json", &none, NULL);
}

static enum MHD_Result respond_no_post(struct steno_request *rq)
{
    const struct steno_header headers[] = {{"Allow", "GET, HEAD, DELETE, OPTIONS"}, {NULL, NULL}};
    struct steno_buf body;
    snprintf(rq->note, sizeof rq->note, "POST is not allowed here");
    steno_buf_init(&body, 4096);
    if (steno_openai_write_error(&body, "POST is not allowed here; allowed: GET, HEAD, DELETE",
                                 "invalid_request_error", NULL, "method_not_allowed")) {
        steno_buf_free(&body);
        return MHD_NO;
    }
    return steno_respond(rq, 405, "application/json", &body, headers);
}

/* POST /v1/jobs/ID/callback: send it once more. */
static enum MHD_Result send_callback_again(struct steno_request *rq)
{
    struct steno_job_record r;
    char id[STENO_JOB_ID];
    enum MHD_Result ok;
    bool callback;
    steno_job_queue *q;
    steno_key *key;
    steno_err err;
    steno_status st;
    if (!read_path(rq, "callback", id, &callback) || !callback)
        return respond_no_post(rq);
    if (!enter(rq, &key, &ok))
        return ok;
    q = steno_job_service_queue(rq->sv->stored);
    st = q->ops->callback_again(q, owner_of(key), id, steno_job_now(), &err);
    if (st == STENO_NEED_MORE)
        return steno_respond_error(rq, 409, "no_callback", NULL,
                                   "the job has no callback that was delivered or given up");
    if (!st)
        st = q->ops->get(q, owner_of(key), id, &r, &err);
    if (st)
        return respond_unknown(rq, &err);
    snprintf(rq->job, sizeof rq->job, "%s", id);
    ok = respond_job(rq, 202, &r, 0);
    steno_job_record_free(&r);
    return ok;
}

/* ---- the list -------------------------------------------------------------------------------- */

struct list_query {
    struct steno_job_page page;
    char after[STENO_JOB_ID];
};

static steno_status find_name(const char *name, const char *value, const char *(*name_of)(int),
                              int n, int *out, steno_err *err)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(value, name_of(i))) {
            *out = i;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is not a state", name, value);
}

static const char *job_state(int i)
{
    return steno_job_state_name((enum steno_job_state)i);
}

static const char *callback_state(int i)
{
    return steno_callback_state_name((enum steno_callback_state)i);
}

static steno_status on_list_query(void *user, const char *name, const char *value, steno_err *err)
{
    struct list_query *q = user;
    if (steno_credentials_parameter(name))
        return STENO_OK;
    if (!strcmp(name, "limit"))
        return steno_query_int(name, value, 1, PAGE_MAX, &q->page.limit, err);
    if (!strcmp(name, "state"))
        return find_name(name, value, job_state, STENO_JOB_STATES, &q->page.state, err);
    if (!strcmp(name, "callback"))
        return find_name(name, value, callback_state, STENO_CALLBACK_STATES,
                         &q->page.callback_state, err);
    if (strcmp(name, "after"))
        return steno_fail(err, STENO_ERR_INVAL,
                          "query: '%.40s' is unknown; known are after, limit, state and callback",
                          name);
    snprintf(q->after, sizeof q->after, "%s", value);
    return STENO_OK;
}

static steno_status add_job(void *user, const struct steno_job_record *r)
{
    struct list *l = user;
    steno_status st = l->any ? steno_buf_puts(l->b, ",") : STENO_OK;
    l->any = true;
    return st ? st : steno_job_json_write(l->b, r, false);
}

static enum MHD_Result get_list(struct steno_request *rq)
{
    struct list_query ask = {
        .page = {.limit = PAGE, .state = -1, .callback_state = -1, .owner = ""}};
    struct steno_buf b;
    struct list l = {&b, false};
    enum MHD_Result ok;
    steno_job_queue *q;
    steno_key *key;
    steno_err err;
    steno_status st;
    bool more;
    if (!enter(rq, &key, &ok))
        return ok;
    if (steno_query_each(rq->target, on_list_query, &ask, &err))
        return steno_respond_status(rq, &err, NULL);
    ask.page.owner = steno_key_name(key);
    ask.page.all = !key;
    ask.page.after = ask.after;
    q = steno_job_service_queue(rq->sv->stored);
    steno_buf_init(&b, ANSWER_MAX);
    st = steno_buf_puts(&b, "{\"jobs\":[");
    if (!st)
        st = q->ops->list(q, &ask.page, add_job, &l, &more, &err);
    if (st == STENO_ERR_INVAL || st == STENO_ERR_IO) {
        steno_buf_free(&b);
        return steno_respond_stored_status(rq, &err, "after");
    }
    if (!st)
        st = steno_buf_printf(&b, "],\"has_more\":%s}\n", more ? "true" : "false");
    return respond_text(rq, st, 200, "application/json", &b);
}

const struct steno_job_calls steno_job_calls = {.get_list = get_list,
                                                .get = get_job,
                                                .post = send_callback_again,
                                                .remove = delete_job,
                                                .storing = &steno_upload_storing};
