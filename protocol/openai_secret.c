#include "protocol/openai_secret.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json_object.h"

#define SECONDS 600 /* of a key, when the request does not say; OpenAI's default */
#define LEAST 10
#define MOST 7200

static steno_status set_seconds(struct steno_openai_secret *s, const json_t *root, steno_err *err)
{
    const json_t *after = json_object_get(root, "expires_after");
    const json_t *v = json_object_get(after, "seconds");
    if (after && !json_is_null(after) && !json_is_object(after))
        return steno_fail(err, STENO_ERR_INVAL, "expires_after: must be an object");
    if (!v)
        return STENO_OK;
    if (!json_is_integer(v) || json_integer_value(v) < LEAST || json_integer_value(v) > MOST)
        return steno_fail(err, STENO_ERR_INVAL, "expires_after.seconds must be %d to %d", LEAST,
                          MOST);
    s->seconds = (int)json_integer_value(v);
    return STENO_OK;
}

steno_status steno_openai_secret_check(const json_t *session, steno_err *err)
{
    const json_t *type = json_object_get(session, "type");
    const char *name = json_string_value(type);
    if (session && !json_is_object(session))
        return steno_fail(err, STENO_ERR_INVAL, "session: must be an object");
    return !type || (name && !strcmp(name, "transcription"))
               ? STENO_OK
               : steno_fail(err, STENO_ERR_INVAL,
                            "session.type: '%.40s' is not transcription, which is all that this "
                            "server does",
                            name ? name : "not a string");
}

static steno_status read_root(struct steno_openai_secret *s, const json_t *root, steno_err *err)
{
    const json_t *session = s->beta ? root : json_object_get(root, "session");
    steno_status st = set_seconds(s, root, err);
    if (!st)
        st = steno_openai_secret_check(session, err);
    if (st)
        return st;
    s->session = session ? json_dumps(session, JSON_COMPACT) : strdup("{}");
    return s->session ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

steno_status steno_openai_secret_parse(struct steno_openai_secret *out, const char *p, size_t n,
                                       bool beta, steno_err *err)
{
    struct steno_openai_secret s = {.beta = beta, .seconds = SECONDS};
    json_t *root = NULL;
    steno_status st = STENO_OK;
    if (n)
        st = steno_json_object(&root, p, n, err);
    if (!st)
        st = read_root(&s, root, err);
    json_decref(root);
    if (!st)
        *out = s;
    return st;
}

void steno_openai_secret_free(struct steno_openai_secret *s)
{
    free(s->session);
    s->session = NULL;
}

static json_t *describe_secret(const struct steno_openai_secret *s,
                               const struct steno_openai_secret_answer *a)
{
    json_t *session = json_loads(s->session, 0, NULL);
    json_t *secret =
        json_pack("{s:s,s:I}", "value", a->value, "expires_at", (json_int_t)a->expires_at);
    json_object_set_new(session, "id", json_string(a->session_id));
    json_object_set_new(session, "object", json_string("realtime.transcription_session"));
    if (s->beta) {
        json_object_set_new(session, "client_secret", secret);
        return session;
    }
    json_object_set_new(session, "type", json_string("transcription"));
    json_object_set_new(secret, "session", session);
    return secret;
}

steno_status steno_openai_secret_write(struct steno_buf *out, const struct steno_openai_secret *s,
                                       const struct steno_openai_secret_answer *a)
{
    json_t *root = describe_secret(s, a);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    steno_status st = text ? steno_buf_puts(out, text) : STENO_ERR_NOMEM;
    json_decref(root);
    free(text);
    return st ? st : steno_buf_puts(out, "\n");
}
