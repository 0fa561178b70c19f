#include "server/jobs/redis_url.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PORT 6379

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode %xx into out [size]. False: it does not fit, or an escape is wrong or is a NUL. */
static bool decode_part(const char *p, size_t n, char *out, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)p[i];
        if (c == '%') {
            const int high = i + 2 < n ? hex((char)(p[i + 1] | 32)) : -1;
            const int low = high >= 0 ? hex((char)(p[i + 2] | 32)) : -1;
            if (low < 0 || high * 16 + low == 0)
                return false;
            c = high * 16 + low;
            i += 2;
        }
        if (at + 1 >= size)
            return false;
        out[at++] = (char)c;
    }
    out[at] = '\0';
    return true;
}

/* Read a decimal number that ends the text or is followed by `stop`. */
static bool read_url_number(const char **p, char stop, int max, int *out)
{
    const char *q = *p;
    long v = 0;
    while (*q >= '0' && *q <= '9' && v <= max)
        v = 10 * v + (*q++ - '0');
    if (q == *p || v > max || (*q && *q != stop))
        return false;
    *p = q;
    *out = (int)v;
    return true;
}

static steno_status read_login(const char *p, const char *at, struct steno_redis_url *u,
                               steno_err *err)
{
    const char *colon = memchr(p, ':', (size_t)(at - p));
    if (!colon)
        return steno_fail(err, STENO_ERR_INVAL, "the password is missing: USER:PASSWORD@HOST");
    if (!decode_part(p, (size_t)(colon - p), u->user, sizeof u->user))
        return steno_fail(err, STENO_ERR_INVAL, "the user is too long, or has a wrong %%xx");
    if (!decode_part(colon + 1, (size_t)(at - colon - 1), u->password, sizeof u->password))
        return steno_fail(err, STENO_ERR_INVAL, "the password is too long, or has a wrong %%xx");
    return STENO_OK;
}

static steno_status read_place(const char *p, struct steno_redis_url *u, steno_err *err)
{
    const bool bracket = *p == '[';
    const char *end = bracket ? strchr(p, ']') : p + strcspn(p, ":/");
    const char *host = p + bracket;
    if (!end || end == host || (size_t)(end - host) >= sizeof u->host)
        return steno_fail(err, STENO_ERR_INVAL, "the host is missing or too long");
    memcpy(u->host, host, (size_t)(end - host));
    p = end + bracket;
    if (*p == ':') {
        p++;
        if (!read_url_number(&p, '/', 65535, &u->port) || !u->port)
            return steno_fail(err, STENO_ERR_INVAL, "the port is not a number from 1 to 65535");
    }
    if (*p == '/' && p[1]) {
        p++;
        if (!read_url_number(&p, '\0', 65535, &u->database))
            return steno_fail(err, STENO_ERR_INVAL, "the database is not a number");
    } else if (*p && *p != '/')
        return steno_fail(err, STENO_ERR_INVAL, "the host is followed by something else");
    return STENO_OK;
}

steno_status steno_redis_url_read(const char *url, struct steno_redis_url *out, steno_err *err)
{
    static const char scheme[] = "redis://", with_tls[] = "rediss://";
    struct steno_redis_url u = {.port = PORT};
    const char *p = url + sizeof scheme - 1, *at;
    steno_status st;
    if (!strncmp(url, with_tls, sizeof with_tls - 1))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "rediss:// needs a libhiredis with TLS, which Debian 12 does not have; "
                          "use redis:// through stunnel or an encrypted network");
    if (strncmp(url, scheme, sizeof scheme - 1))
        return steno_fail(err, STENO_ERR_INVAL,
                          "must be redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]");
    at = strrchr(p, '@');
    st = at ? read_login(p, at, &u, err) : STENO_OK;
    if (!st)
        st = read_place(at ? at + 1 : p, &u, err);
    if (!st)
        *out = u;
    explicit_bzero(u.password, sizeof u.password);
    return st;
}
