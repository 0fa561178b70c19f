#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <syslog.h>

static const struct steno_status_map status_map[STENO_STATUS_COUNT] = {
    [STENO_OK] = {"ok", 200, 1000, EX_OK, LOG_DEBUG},
    [STENO_NEED_MORE] = {"need_more", 400, 1008, EX_DATAERR, LOG_INFO},
    [STENO_ERR_INVAL] = {"invalid_argument", 400, 1008, EX_USAGE, LOG_INFO},
    [STENO_ERR_NOMEM] = {"out_of_memory", 503, 1013, EX_OSERR, LOG_ERR},
    [STENO_ERR_IO] = {"io_error", 500, 1011, EX_IOERR, LOG_WARNING},
    [STENO_ERR_FORMAT] = {"invalid_data", 400, 1007, EX_DATAERR, LOG_INFO},
    [STENO_ERR_UNSUPPORTED] = {"unsupported", 415, 1003, EX_DATAERR, LOG_INFO},
    [STENO_ERR_LIMIT] = {"limit_exceeded", 413, 1009, EX_DATAERR, LOG_INFO},
    [STENO_ERR_BUSY] = {"busy", 503, 1013, EX_TEMPFAIL, LOG_NOTICE},
    [STENO_ERR_CANCELLED] = {"cancelled", 499, 1001, EX_TEMPFAIL, LOG_INFO},
    [STENO_ERR_INTERNAL] = {"internal_error", 500, 1011, EX_SOFTWARE, LOG_ERR},
};

const struct steno_status_map *steno_status_info(steno_status st)
{
    if ((unsigned)st >= STENO_STATUS_COUNT)
        st = STENO_ERR_INTERNAL;
    return &status_map[st];
}

const char *steno_status_name(steno_status st)
{
    return steno_status_info(st)->name;
}

steno_status steno_fail(steno_err *err, steno_status code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        err->code = code;
        if (vsnprintf(err->msg, sizeof err->msg, fmt, ap) >= (int)sizeof err->msg)
            memcpy(err->msg + sizeof err->msg - 4, "...", 4); /* a reader sees that it is cut */
        va_end(ap);
    }
    return code;
}

steno_status steno_fail_in(steno_err *err, steno_status st, const char *fmt, ...)
{
    if (err) {
        char inner[sizeof err->msg];
        va_list ap;
        int n;
        memcpy(inner, err->msg, sizeof inner);
        va_start(ap, fmt);
        n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n + 2 < sizeof err->msg) {
            /* too long: shorten it in the middle, because the reason is at the end */
            size_t room = sizeof err->msg - (size_t)n - 3, len = strlen(inner);
            const char *rest = len <= room ? inner : inner + len - room + 3;
            snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s%.*s",
                     len <= room || room < 3 ? "" : "...", (int)room, rest);
        }
        err->code = st;
    }
    return st;
}
