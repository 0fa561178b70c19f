/* Recordings that a request names by URL (Deepgram's {"url": ...}), fetched by libcurl. Off unless
 * fetch.hosts lists hosts.
 *
 * A URL of a client must not reach what the client cannot: only http and https, only listed hosts,
 * at each redirect again, no proxy of the environment, and no private address unless fetch.private.
 * The address is checked when the socket is made, after the name was resolved, so a name that
 * resolves to something else the second time gains nothing. Size and time are limited, the time for
 * all redirects together: a server that sends a byte a second ends as one that is silent.
 *
 * Locked: one mutex. A fetch has a thread of its own, at most STENO_FETCHES at once. */
#ifndef STENO_SERVER_HTTP_FETCH_H
#define STENO_SERVER_HTTP_FETCH_H

#include <sys/socket.h>

#include "base/buf.h"
#include "server/core/config.h"
#include "server/core/limits.h"

#define STENO_FETCHES 8
#define STENO_FETCH_URL 2048 /* bytes of a URL with its NUL */

typedef struct steno_fetcher steno_fetcher;

/* conf and limits outlive it. STENO_ERR_NOMEM; STENO_ERR_UNSUPPORTED: hosts are listed and libcurl
 * is absent. */
STENO_MUST steno_status steno_fetcher_open(steno_fetcher **out, const struct steno_config *conf,
                                           steno_limits *limits, steno_err *err);
/* Stop all fetches, which call done, and wait for them. No other begins. */
void steno_fetcher_stop(steno_fetcher *f); /* accepts NULL, like close */
void steno_fetcher_close(steno_fetcher *f);

struct steno_fetched {
    struct steno_buf body; /* the receiver's to take or free */
    size_t reserved;       /* bytes of steno_limits_reserve, the receiver's to release */
    steno_err err;         /* code OK: the body is whole */
};
struct steno_trace;
/* Fetch url in a thread and call done from it, once. trace: of the request on whose behalf.
 * STENO_ERR_INVAL: the URL is not allowed, or nothing is fetched here; STENO_ERR_BUSY: too many at
 * once; STENO_ERR_CANCELLED: it was stopped; STENO_ERR_NOMEM. Then done is not called. */
STENO_MUST steno_status steno_fetch(steno_fetcher *f, const char *url,
                                    const struct steno_trace *trace,
                                    void (*done)(void *user, struct steno_fetched *got), void *user,
                                    steno_err *err);
/* Where a fetch writes a recording that does not go to memory. Called from the fetch's thread. */
struct steno_fetch_sink {
    steno_status (*write)(void *user, const void *p, size_t n, steno_err *err);
    bool (*stopped)(void *user); /* the fetch is not needed any longer */
};
/* The same into a sink, which has its own limit of size. */
STENO_MUST steno_status steno_fetch_into(steno_fetcher *f, const char *url,
                                         const struct steno_trace *trace,
                                         const struct steno_fetch_sink *sink,
                                         void (*done)(void *user, struct steno_fetched *got),
                                         void *user, steno_err *err);
/* Check that steno_fetch would begin to fetch this URL. Errors as of it. */
STENO_MUST steno_status steno_fetch_check(steno_fetcher *f, const char *url, steno_err *err);

/* Check scheme and host of a URL, as libcurl reads it. hosts: a list as below; name: what messages
 * begin with; https_only: http is refused. STENO_ERR_INVAL, STENO_ERR_NOMEM. */
struct libcurl;
STENO_MUST steno_status steno_fetch_check_url(const struct libcurl *curl, const char *hosts,
                                              bool https_only, const char *name, const char *url,
                                              steno_err *err);
/* Whether a host is in a list "a.example, *.b.example" ("*": any). Case does not matter. */
bool steno_fetch_host_listed(const char *list, const char *host);
/* Whether an address is of this machine, a private or local network, or no host's at all. */
bool steno_fetch_is_private(const struct sockaddr *a);

#endif
