#include "server/credentials.h"

#include <stdio.h>
#include <string.h>

#include "protocol/query.h"

#define OPENAI_KEY "openai-insecure-api-key."
#define OPENAI_BETA "openai-beta.realtime-v1"

static bool take(char out[STENO_SECRET], const char *p, size_t n)
{
    snprintf(out, STENO_SECRET, "%.*s", n < STENO_SECRET ? (int)n : STENO_SECRET - 1, p);
    return n > 0;
}

/* An element of a comma-separated list; n 0: the list is over. */
struct element {
    const char *p;
    size_t n;
};

static struct element next_element(const char *p)
{
    p += strspn(p, ", \t");
    return (struct element){p, strcspn(p, ", \t")};
}

static bool is(struct element e, const char *text)
{
    return e.n == strlen(text) && !strncmp(e.p, text, e.n);
}

/* Find the key in a list of subprotocols. *answer: as steno_credentials_protocol. */
static struct element find_key(const char *list, const char **answer)
{
    for (struct element e = next_element(list); e.n; e = next_element(e.p + e.n)) {
        if (is(e, "token") || is(e, "bearer")) {
            struct element key = next_element(e.p + e.n);
            *answer = is(e, "token") ? "token" : "bearer";
            if (key.n)
                return key;
        }
        if (e.n > strlen(OPENAI_KEY) && !strncmp(e.p, OPENAI_KEY, strlen(OPENAI_KEY))) {
            *answer = "";
            return (struct element){e.p + strlen(OPENAI_KEY), e.n - strlen(OPENAI_KEY)};
        }
    }
    return (struct element){NULL, 0};
}

static bool offers(const char *list, const char *name)
{
    for (struct element e = next_element(list); e.n; e = next_element(e.p + e.n))
        if (is(e, name))
            return true;
    return false;
}

const char *steno_credentials_protocol(const char *protocols)
{
    const char *answer;
    if (!find_key(protocols, &answer).n)
        return NULL;
    return !*answer && offers(protocols, OPENAI_BETA) ? OPENAI_BETA : answer;
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
        take(out, value, strlen(value));
    return STENO_OK;
}

bool steno_credentials_secret(const struct steno_credentials *c, char out[STENO_SECRET])
{
    const char *answer, *bearer = steno_key_of_authorization(c->authorization);
    struct element key = {NULL, 0};
    *out = '\0';
    if (bearer)
        return take(out, bearer, strlen(bearer));
    if (c->api_key && *c->api_key)
        return take(out, c->api_key, strlen(c->api_key));
    if (c->protocols)
        key = find_key(c->protocols, &answer);
    if (key.n)
        return take(out, key.p, key.n);
    /* a damaged query is reported by whoever reads the rest of it */
    return c->target && !steno_query_each(c->target, on_parameter, out, NULL) && *out;
}
