#include "server/jobs/job_json.h"

#include "protocol/json_text.h"

#include <string.h>

/* Append ,"name":seconds unless the time is 0. */
static steno_status put_time(struct steno_buf *b, const char *name, int64_t ms)
{
    return ms ? steno_buf_printf(b, ",\"%s\":%.3f", name, (double)ms / 1000) : STENO_OK;
}

/* Append ,"name":"text" unless it is empty. */
static steno_status put_string(struct steno_buf *b, const char *name, const char *text)
{
    steno_status st = STENO_OK;
    if (!*text)
        return st;
    st = steno_buf_puts(b, ",");
    return st ? st : steno_json_put_member(b, name, text);
}

/* Append "url" without what may hold a secret: user, password, query and fragment. */
static steno_status put_url(struct steno_buf *b, const char *url)
{
    const char *host = strstr(url, "://");
    const char *end = url + strcspn(url, "?#"), *at = NULL;
    steno_status st = steno_buf_puts(b, "\"url\":");
    struct steno_buf text;
    host = host && host < end ? host + 3 : url;
    for (const char *p = host; p < end && *p != '/'; p++)
        if (*p == '@')
            at = p + 1;
    steno_buf_init(&text, strlen(url) + 1);
    if (!st)
        st = steno_buf_add(&text, url, (size_t)(host - url));
    if (!st)
        st = steno_buf_add(&text, at ? at : host, (size_t)(end - (at ? at : host)));
    if (!st)
        st = steno_json_put_string(b, text.data ? text.data : "", text.len);
    steno_buf_free(&text);
    return st;
}

static steno_status put_audio(struct steno_buf *b, const struct steno_job_record *r)
{
    steno_status st = steno_buf_printf(b, ",\"audio\":{\"position\":%.3f", r->position);
    if (!st && r->duration > 0)
        st = steno_buf_printf(b, ",\"duration\":%.3f", r->duration);
    if (!st && r->bytes)
        st = steno_buf_printf(b, ",\"bytes\":%lld", (long long)r->bytes);
    return st ? st : steno_buf_puts(b, "}");
}

/* What is said of the last try, or of the result. */
static steno_status put_reason(struct steno_buf *b, const struct steno_job_record *r)
{
    steno_status st;
    if (!*r->reason)
        return STENO_OK;
    if (r->state == STENO_JOB_DONE) {
        st = steno_buf_puts(b, ",\"warnings\":[");
        if (!st)
            st = steno_json_put_string(b, r->reason, strlen(r->reason));
        return st ? st : steno_buf_puts(b, "]");
    }
    st = steno_json_printf(b, "%-s\"code\":%s",
                           steno_job_is_over(r->state) ? ",\"error\":{" : ",\"last_error\":{",
                           r->code);
    if (!st)
        st = put_string(b, "message", r->reason);
    return st ? st : steno_buf_puts(b, "}");
}

static steno_status put_callback(struct steno_buf *b, const struct steno_job_record *r)
{
    steno_status st;
    if (!*r->callback)
        return STENO_OK;
    st = steno_buf_puts(b, ",\"callback\":{");
    if (!st)
        st = put_url(b, r->callback);
    if (!st)
        st = put_string(b, "event_id", r->event);
    if (!st)
        st = steno_buf_printf(b, ",\"state\":\"%s\",\"tries\":%d",
                              steno_callback_state_name(r->callback_state), r->callback_tries);
    if (!st && r->callback_state == STENO_CALLBACK_PENDING)
        st = put_time(b, "next", r->callback_next);
    if (!st)
        st = put_string(b, "error", r->callback_error);
    return st ? st : steno_buf_puts(b, "}");
}

steno_status steno_job_json_write(struct steno_buf *b, const struct steno_job_record *r, bool open)
{
    steno_status st = steno_json_printf(b, "{\"id\":%s,\"state\":\"%-s\",\"tries\":%d", r->id,
                                        steno_job_state_name(r->state), r->attempts);
    if (!st)
        st = put_time(b, "created", r->created);
    if (!st)
        st = put_time(b, "started", r->started);
    if (!st)
        st = put_time(b, "ended", r->ended);
    if (!st)
        st = put_time(b, "expires", r->expires);
    if (!st)
        st = put_audio(b, r);
    if (!st)
        st = *r->url ? steno_buf_puts(b, ",") : STENO_OK;
    if (!st && *r->url)
        st = put_url(b, r->url);
    if (!st)
        st = put_string(b, "model", r->model);
    if (!st)
        st = put_reason(b, r);
    if (!st)
        st = put_callback(b, r);
    return st || open ? st : steno_buf_puts(b, "}");
}

steno_status steno_job_json_segment(struct steno_buf *b, const struct steno_job_segment *s)
{
    return steno_json_printf(b, "{\"start\":%.3f,\"end\":%.3f,\"text\":%s}", s->start, s->end,
                             s->text);
}
