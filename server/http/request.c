#include "server/http/request.h"

#include "server/core/credentials.h"

#include <stdlib.h>

const char *steno_request_header(struct steno_request *rq, const char *name)
{
    return MHD_lookup_connection_value(rq->conn, MHD_HEADER_KIND, name);
}

struct head_writer {
    struct steno_buf *out;
    steno_status st;
};

static enum MHD_Result add_line(void *cls, enum MHD_ValueKind kind, const char *name, size_t n_name,
                                const char *value, size_t n)
{
    struct head_writer *w = cls;
    (void)kind;
    w->st = steno_buf_add(w->out, name, n_name);
    if (!w->st)
        w->st = steno_buf_puts(w->out, ": ");
    if (!w->st && n)
        w->st = steno_buf_add(w->out, value, n);
    if (!w->st)
        w->st = steno_buf_puts(w->out, "\r\n");
    return w->st ? MHD_NO : MHD_YES;
}

steno_status steno_request_write_head(struct steno_request *rq, struct steno_buf *out)
{
    struct head_writer w = {out, STENO_OK};
    w.st = steno_buf_printf(out, "%s %s HTTP/1.%d\r\n", rq->method, rq->target, rq->http11);
    if (!w.st)
        MHD_get_connection_values_n(rq->conn, MHD_HEADER_KIND, add_line, &w);
    return w.st ? w.st : steno_buf_puts(out, "\r\n");
}

/* The key that the request brings, in clear. */
static bool secret_of(struct steno_request *rq, char secret[STENO_SECRET])
{
    const char *key = steno_request_header(rq, "X-API-Key");
    const struct steno_credentials given = {
        .authorization = steno_request_header(rq, "Authorization"),
        .api_key = key ? key : steno_request_header(rq, "api-key"), /* Azure's */
        .target = rq->target};
    return steno_credentials_secret(&given, secret);
}

static bool is_ephemeral(struct steno_request *rq, const char *secret)
{
    char *session = steno_keys_session(rq->sv->srv->keys, secret);
    const bool is = session != NULL;
    free(session);
    return is;
}

bool steno_request_is_ephemeral(struct steno_request *rq)
{
    char secret[STENO_SECRET];
    const bool is = secret_of(rq, secret) && is_ephemeral(rq, secret);
    explicit_bzero(secret, sizeof secret);
    return is;
}

steno_status steno_request_key(struct steno_request *rq, steno_key **key, steno_err *err)
{
    steno_keys *keys = rq->sv->srv->keys;
    char secret[STENO_SECRET];
    bool any = secret_of(rq, secret);
    steno_status st = steno_keys_find(keys, any ? secret : NULL, key, err);
    if (!st && any && steno_keys_required(keys) && is_ephemeral(rq, secret))
        st = steno_fail(err, STENO_ERR_INVAL, "an ephemeral key opens live sessions alone");
    explicit_bzero(secret, sizeof secret);
    if (st)
        steno_metric_add(rq->sv->srv->stats->sessions_rejected[STENO_REJECT_KEY], 1);
    return st;
}
