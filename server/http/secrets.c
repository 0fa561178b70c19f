#include "server/http/secrets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "protocol/deepgram.h"
#include "protocol/openai_secret.h"

/* Make the key and write the answer. */
static steno_status make_secret(struct steno_request *rq, steno_key *key,
                                const struct steno_openai_secret *ask, struct steno_buf *out)
{
    char value[STENO_ID_SIZE], id[STENO_ID_SIZE];
    struct steno_openai_secret_answer answer = {
        .value = value, .session_id = id, .expires_at = (int64_t)time(NULL) + ask->seconds};
    steno_status st;
    steno_id_new(id, "sess");
    steno_id_new(value, "ek");
    st =
        steno_keys_add_ephemeral(rq->sv->srv->keys, key, value,
                                 steno_now_ns() + (int64_t)ask->seconds * 1000000000, ask->session);
    return st ? st : steno_openai_secret_write(out, ask, &answer);
}

/* Answer a request that may make no key. True if it may; else *result is the answer's. */
static bool may_ask(struct steno_request *rq, steno_key **key, enum MHD_Result *result)
{
    steno_err err;
    if (steno_request_key(rq, key, &err))
        *result = steno_respond_wrong_key(rq, &err);
    else if (steno_request_is_ephemeral(rq)) /* it would never end */
        *result = steno_respond_error(rq, 401, "invalid_api_key", NULL,
                                      "an ephemeral key cannot make another one");
    else if (steno_key_request(rq->sv->srv->keys, *key, steno_now_ns(), &rq->retry_after, &err))
        *result = steno_respond_error(rq, 429, "quota_exceeded", NULL, "%s", err.msg);
    else if (steno_request_has_type(rq, "text/"))
        *result = steno_respond_error(rq, 415, "unsupported", NULL,
                                      "Content-Type: must be application/json");
    else
        return true;
    return false;
}

enum MHD_Result steno_secret_grant(struct steno_request *rq)
{
    char value[STENO_ID_SIZE];
    struct steno_buf out;
    enum MHD_Result result;
    double seconds;
    steno_key *key;
    steno_err err;
    steno_status st;
    if (!may_ask(rq, &key, &result))
        return result;
    if (steno_deepgram_grant(rq->body.data ? rq->body.data : "", rq->body.len, &seconds, &err))
        return steno_respond_status(rq, &err, NULL);
    steno_id_new(value, "ek");
    steno_buf_init(&out, 256);
    st = steno_keys_add_ephemeral(rq->sv->srv->keys, key, value,
                                  steno_now_ns() + (int64_t)(seconds * 1e9), "{}");
    if (!st)
        st = steno_buf_printf(&out, "{\"access_token\":\"%s\",\"expires_in\":%.15g}\n", value,
                              seconds);
    if (!st)
        return steno_respond(rq, 200, "application/json", &out, NULL);
    steno_buf_free(&out);
    return steno_respond_error(rq, 503, "out_of_memory", NULL, "out of memory");
}

enum MHD_Result steno_secret_post(struct steno_request *rq)
{
    struct steno_openai_secret ask = {0};
    struct steno_buf out;
    enum MHD_Result result;
    steno_key *key;
    steno_err err;
    steno_status st;
    if (!may_ask(rq, &key, &result))
        return result;
    st = steno_openai_secret_parse(&ask, rq->body.data ? rq->body.data : "", rq->body.len,
                                   strstr(rq->route->path, "transcription_sessions") != NULL, &err);
    if (st)
        return steno_respond_status(rq, &err, NULL);
    steno_buf_init(&out, 4 * STENO_POST_BYTES);
    st = make_secret(rq, key, &ask, &out);
    steno_openai_secret_free(&ask);
    if (!st)
        return steno_respond(rq, 200, "application/json", &out, NULL);
    steno_buf_free(&out);
    return steno_respond_error(rq, 503, "out_of_memory", NULL, "out of memory");
}
