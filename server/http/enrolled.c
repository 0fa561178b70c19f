#include "server/http/enrolled.h"

#include "protocol/json_text.h"
#include "protocol/query.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MAX (1u << 20)

/* Check the key and that there is a store. False: the request was answered with *ok. An ephemeral
 * key is a browser's: it names no people. */
static bool enter(struct steno_request *rq, steno_key **key, enum MHD_Result *ok)
{
    steno_err err;
    if (steno_request_key(rq, key, &err)) {
        *ok = steno_respond_wrong_key(rq, &err);
        return false;
    }
    rq->key = *key;
    if (steno_request_is_ephemeral(rq)) {
        *ok = steno_respond_error(rq, 401, "invalid_api_key", NULL,
                                  "an ephemeral key cannot be used for speakers");
        return false;
    }
    if (*rq->sv->srv->conf->speakers_store)
        return true;
    *ok = steno_respond_error(rq, 404, "not_found", NULL,
                              "this server keeps no voice prints (speakers.store is empty)");
    return false;
}

static steno_status put_speaker(struct steno_buf *out, const struct steno_enrolled_speaker *who)
{
    return steno_json_printf(out, "{\"name\":%s,\"seconds\":%.1f,\"since\":%lld,\"known\":%-s}",
                             who->name, who->seconds, (long long)who->since,
                             who->known ? "true" : "false");
}

enum MHD_Result steno_enrolled_get(struct steno_request *rq)
{
    const struct steno_server *srv = rq->sv->srv;
    struct steno_enrolled_speaker who;
    struct steno_buf out;
    steno_enrolled *all;
    char dir[PATH_MAX];
    enum MHD_Result ok;
    steno_key *key;
    steno_err err;
    steno_status st;
    if (!enter(rq, &key, &ok))
        return ok;
    st = steno_server_enrolled_dir(srv, key, dir, &err);
    if (!st)
        st = steno_enrolled_open(&all, dir, srv->speakers, &err);
    if (st)
        return steno_respond_stored_status(rq, &err, NULL);
    steno_buf_init(&out, ANSWER_MAX);
    st = steno_buf_puts(&out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; !st && steno_enrolled_at(all, i, &who); i++) {
        st = i ? steno_buf_puts(&out, ",") : STENO_OK;
        if (!st)
            st = put_speaker(&out, &who);
    }
    steno_enrolled_close(all);
    if (!st)
        st = steno_buf_puts(&out, "]}\n");
    if (!st)
        return steno_respond(rq, 200, "application/json", &out, NULL);
    steno_buf_free(&out);
    return steno_respond_error(rq, 503, "out_of_memory", NULL, "out of memory");
}

enum MHD_Result steno_enrolled_remove(struct steno_request *rq)
{
    const size_t prefix = strlen(rq->route->path), len = steno_query_path_len(rq->target);
    char name[STENO_SPEAKER_NAME], dir[PATH_MAX];
    struct steno_buf none;
    enum MHD_Result ok;
    steno_key *key;
    steno_err err;
    steno_status st;
    if (!enter(rq, &key, &ok))
        return ok;
    st = steno_query_decode_path(rq->target + prefix, len - prefix, name, sizeof name, &err);
    if (!st)
        st = steno_server_enrolled_dir(rq->sv->srv, key, dir, &err);
    if (!st)
        st = steno_enrolled_delete(dir, name, &err);
    if (st == STENO_ERR_INVAL || st == STENO_ERR_LIMIT)
        return steno_respond_error(rq, 404, "speaker_not_found", NULL,
                                   "nobody of this name is enrolled");
    if (st)
        return steno_respond_stored_status(rq, &err, NULL);
    steno_buf_init(&none, 1);
    return steno_respond(rq, 204, "application/json", &none, NULL);
}

bool steno_enrolled_admit(struct steno_request *rq)
{
    enum MHD_Result ok;
    steno_key *key;
    if (!enter(rq, &key, &ok))
        return false;
    if (rq->sv->srv->speakers)
        return true;
    (void)steno_respond_error(rq, 400, "unsupported", NULL,
                              "the server has no networks for speakers (steno model fetch "
                              "speakers, or speakers.model)");
    return false;
}

steno_status steno_enrolled_take(struct steno_upload *up,
                                 const struct steno_transcription_result *r, steno_err *err)
{
    const struct steno_server *srv = up->sv->srv;
    const char *name = up->want.enroll;
    struct steno_enrolled_speaker who = {
        .name = name, .seconds = r->print_seconds, .since = (int64_t)time(NULL), .known = true};
    char dir[PATH_MAX];
    steno_status st = steno_server_enrolled_dir(srv, up->key, dir, err);
    if (!st)
        st = steno_enroll(dir, name, srv->speakers, r->print, r->print_seconds, err);
    if (st)
        return st;
    st = put_speaker(&up->out.answer, &who);
    if (!st)
        st = steno_buf_puts(&up->out.answer, "\n");
    return st ? steno_fail(err, st, "out of memory") : STENO_OK;
}
