#include "server/core/credentials.h"

#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "protocol/query.h"

#define OPENAI_KEY "openai-insecure-api-key."

static bool take_secret(char out[STENO_SECRET], const char *p, size_t n)
{
    snprintf(out, STENO_SECRET, "%.*s", n < STENO_SECRET ? (int)n : STENO_SECRET - 1, p);
    return n > 0;
}

/* Find the key in a list of subprotocols. *answer: as steno_credentials_protocol. */
static struct steno_list_item find_key(const char *list, const char **answer)
{
    for (struct steno_list_item e = steno_list_next(list); e.n; e = steno_list_next(e.p + e.n)) {
        if (steno_list_is(e, "token") || steno_list_is(e, "bearer")) {
            struct steno_list_item key = steno_list_next(e.p + e.n);
            *answer = steno_list_is(e, "token") ? "token" : "bearer";
            if (key.n)
                return key;
        }
        if (e.n > strlen(OPENAI_KEY) && !strncmp(e.p, OPENAI_KEY, strlen(OPENAI_KEY))) {
            *answer = "";
            return (struct steno_list_item){e.p + strlen(OPENAI_KEY), e.n - strlen(OPENAI_KEY)};
        }
    }
    return (struct steno_list_item){NULL, 0};
}

const char *steno_credentials_protocol(const char *protocols)
{
    const char *answer;
    if (!find_key(protocols, &answer).n)
        return NULL;
    return !*answer && steno_list_holds(protocols, STENO_OPENAI_BETA) ? STENO_OPENAI_BETA : answer;
}

bool steno_credentials_parameter(const char *name)
{
    return !strcmp(name, "api_key") || !strcmp(name, "token");
}

static steno_status on_parameter(void *user, const char *name, const char *value, steno_err *err)
{
    char *out = user;
    (void)err;
    if (!*out && steno_credentials_parameter(name))
        take_secret(out, value, strlen(value));
    return STENO_OK;
}

bool steno_credentials_secret(const struct steno_credentials *c, char out[STENO_SECRET])
{
    const char *answer, *bearer = steno_key_of_authorization(c->authorization);
    struct steno_list_item key = {NULL, 0};
    *out = '\0';
    if (bearer)
        return take_secret(out, bearer, strlen(bearer));
    if (c->api_key && *c->api_key)
        return take_secret(out, c->api_key, strlen(c->api_key));
    if (c->protocols)
        key = find_key(c->protocols, &answer);
    if (key.n)
        return take_secret(out, key.p, key.n);
    /* a damaged query is reported by whoever reads the rest of it */
    return c->target && !steno_query_each(c->target, on_parameter, out, NULL) && *out;
}
