/* libcurl, loaded when a download begins. Linked, it would load thirty libraries at every start of
 * the command, 20 million instructions, for the one subcommand that downloads. */
#ifndef STENO_CLI_LIBCURL_H
#define STENO_CLI_LIBCURL_H

#include "base/status.h"

#include <curl/curl.h>

/* The functions that are used, without the prefix curl_. */
#define LIBCURL_FUNCTIONS(X)                                                                       \
    X(global_init)                                                                                 \
    X(global_cleanup)                                                                              \
    X(easy_init)                                                                                   \
    X(easy_reset)                                                                                  \
    X(easy_setopt)                                                                                 \
    X(easy_perform)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(easy_cleanup)                                                                                \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(url)                                                                                         \
    X(url_set)                                                                                     \
    X(url_get)                                                                                     \
    X(url_cleanup)                                                                                 \
    X(free)

struct libcurl {
#define LIBCURL_MEMBER(f) __typeof__(curl_##f) *f;
    LIBCURL_FUNCTIONS(LIBCURL_MEMBER)
#undef LIBCURL_MEMBER
};

/* Load the library; it stays loaded. STENO_ERR_UNSUPPORTED: it is absent or too old. */
STENO_MUST steno_status libcurl_load(struct libcurl *out, steno_err *err);

#endif
