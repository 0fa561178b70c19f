/* Webhooks: bodies that the server sends to a URL of the operator's or of a client's, by libcurl.
 * One call here is one try; who calls it keeps what is to be sent, and tries again: job_hooks.h for
 * the results of jobs, call_hooks.h for the texts of telephone calls.
 *
 * A URL of a client must not reach what the client cannot (fetch.h): only hosts of
 * jobs.callback_hosts, https unless jobs.callback_http, no private address unless
 * jobs.callback_private, checked when the socket is made. No redirect is followed and no proxy of
 * the environment used. The operator's own URL is trusted.
 *
 * Any thread may call everything except open and close. */
#ifndef STENO_SERVER_HTTP_WEBHOOK_H
#define STENO_SERVER_HTTP_WEBHOOK_H

#include "server/core/config.h"

typedef struct steno_webhooks steno_webhooks;
struct steno_trace;

/* One try. Strings are borrowed. */
struct steno_webhook {
    const char *url;
    const char *method; /* "POST" or "PUT" */
    const char *event;  /* id, the same in every try: Steno-Event-Id */
    int tries;          /* this one included: Steno-Event-Try */
    bool trusted;       /* the operator's own URL */
    const char *body;   /* [len], JSON */
    size_t len;
};

/* Read the file of the secret that signs webhooks; *secret [len] is the caller's, also after
 * STENO_ERR_INVAL: it is too short. Errors of steno_file_read. */
STENO_MUST steno_status steno_webhooks_read_secret(const char *path, char **secret, size_t *len,
                                                   steno_err *err);
/* needed: the operator has named a URL. conf outlives it. STENO_ERR_IO, STENO_ERR_INVAL: the secret
 * cannot be used; STENO_ERR_UNSUPPORTED: something is to be sent, and libcurl is absent. */
STENO_MUST steno_status steno_webhooks_open(steno_webhooks **out, const struct steno_config *conf,
                                            bool needed, steno_err *err);
/* End the tries that run. Accepts NULL, like close. */
void steno_webhooks_stop(steno_webhooks *w);
void steno_webhooks_close(steno_webhooks *w);
/* Whether any client's URL may be sent to. */
bool steno_webhooks_allowed(const steno_webhooks *w);
/* Check that something may be sent to a client's URL. STENO_ERR_INVAL names what is wrong. */
STENO_MUST steno_status steno_webhooks_check(const steno_webhooks *w, const char *url,
                                             steno_err *err);
/* Send a body and wait for the answer. trace NULL: none. *code: status of the answer, 0 without
 * one. why [64] is "" when it was accepted; otherwise without libcurl's reason, which may tell of
 * hosts behind this one. */
void steno_webhooks_send(steno_webhooks *w, const struct steno_webhook *m,
                         const struct steno_trace *trace, long *code, char why[64]);

#define STENO_SIGNATURE 96 /* bytes of a signature's header value with its NUL */
/* Sign a body: "t=SECONDS,v1=HEX" with HEX = HMAC-SHA256(secret, "SECONDS." body). */
STENO_MUST steno_status steno_webhook_sign(char out[STENO_SIGNATURE], const char *secret, size_t n,
                                           int64_t seconds, const char *body, size_t len);
/* ms until try number `tries` + 1: first_ms, twice as long each time, an hour at most. */
int64_t steno_webhook_retry_delay(int64_t first_ms, int tries);

#endif
