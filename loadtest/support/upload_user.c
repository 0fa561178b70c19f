/* A user who uploads the recording as the body of a POST over a persistent connection. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "loadtest/support/load.h"

static void take_text(struct load_user *u)
{
    const char *body = u->http.answer.data + u->http.at;
    json_t *root = json_loadb(body, u->http.answer.len - u->http.at, 0, NULL);
    const char *text = json_string_value(json_object_get(root, "text"));
    if (!text || steno_buf_puts(&u->said, text))
        u->error = true;
    json_decref(root);
}

static void over(struct load_user *u)
{
    enum load_outcome how = LOAD_FAILED;
    char what[64];
    int status = u->http.status;
    u->retry_after = u->http.retry_after;
    if (status == 200)
        take_text(u);
    if (status == 503 || status == 429)
        how = LOAD_REFUSED;
    else if (status == 200 && !u->error)
        how = LOAD_OK;
    if (how == LOAD_OK) {
        histogram_add(&u->run->answer, (double)(steno_now_ns() - u->begun_ns) * 1e-6);
        u->run->audio_seconds += clip_seconds(u->clip);
    } else if (how == LOAD_FAILED) {
        snprintf(what, sizeof what, "answered with status %d", status);
        load_complain(u, what);
    }
    load_session_over(u, how);
}

static void pump(struct load_user *u)
{
    bool wrote = u->http.want_out;
    if (load_http_pump(&u->http))
        over(u);
    else if (wrote)
        load_watch(u, u->http.fd, true, u->http.want_out);
}

static void begin(struct load_user *u)
{
    const struct load_plan *p = u->run->plan;
    char head[600];
    steno_err err = {0};
    bool kept = u->http.fd >= 0;
    u->error = false;
    snprintf(head, sizeof head, "Content-Type: audio/wav\r\n%s%s%s",
             p->key ? "Authorization: Bearer " : "", p->key ? p->key : "", p->key ? "\r\n" : "");
    if (load_http_begin(&u->http, &p->url, head, u->clip->data.data, u->clip->data.len, &err)) {
        load_complain(u, err.msg);
        u->http.status = -1;
        over(u);
        return;
    }
    load_watch(u, u->http.fd, kept, true);
}

static void due(struct load_user *u, int64_t now)
{
    (void)u;
    (void)now; /* the socket does the rest */
}

/* The server has closed the persistent connection. */
static void idle(struct load_user *u)
{
    load_http_disconnect(&u->http);
}

static void cut(struct load_user *u)
{
    load_http_disconnect(&u->http);
    load_session_over(u, LOAD_DROPPED);
}

static void release(struct load_user *u)
{
    load_http_close(&u->http);
}

const struct load_kind load_uploads = {begin, due, pump, idle, cut, release};
