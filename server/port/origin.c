#include "server/port/origin.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/list.h"
#include "server/port/address.h"

#define ORIGIN_BYTES 256 /* of an origin that is written */

bool steno_origin_allowed(const char *allowed, const char *origin)
{
    const size_t n = strlen(origin);
    struct steno_list_item it = steno_list_next(allowed);
    for (; it.n; it = steno_list_next(it.p + it.n))
        if (steno_list_is(it, "*") || (it.n == n && !strncasecmp(it.p, origin, n)))
            return true;
    return false;
}

void steno_origin_lines(const char *allowed, const char *origin, size_t n,
                        char out[STENO_ORIGIN_LINES])
{
    char text[ORIGIN_BYTES] = "";
    bool good = n && n < sizeof text;
    for (size_t i = 0; good && i < n; i++)
        good = origin[i] > ' ' && origin[i] <= '~';
    if (good)
        memcpy(text, origin, n);
    good = good && steno_origin_allowed(allowed, text);
    snprintf(out, STENO_ORIGIN_LINES, "%s%s%s%s", *allowed ? "Vary: Origin\r\n" : "",
             good ? "Access-Control-Allow-Origin: " : "", good ? text : "",
             good ? "\r\nAccess-Control-Expose-Headers: " STENO_ORIGIN_EXPOSED "\r\n" : "");
}

/* A host [n] without its port, and the port; n_port 0: none is named. */
struct authority {
    const char *host, *port;
    size_t n, n_port;
};

static struct authority authority_of(const char *text)
{
    const size_t n = strcspn(text, "/?#");
    const char *colon = memchr(text, ':', n), *bracket = memchr(text, ']', n);
    struct authority a = {.host = text, .n = n};
    if (*text == '[' && bracket) {
        a.n = (size_t)(bracket - text) + 1;
        colon = a.n < n && bracket[1] == ':' ? bracket + 1 : NULL;
    } else if (colon) {
        a.n = (size_t)(colon - text);
    }
    if (colon) {
        a.port = colon + 1;
        a.n_port = n - (size_t)(a.port - text);
    }
    return a;
}

static bool same(const char *a, size_t n, const char *b)
{
    return strlen(b) == n && !strncasecmp(a, b, n);
}

static bool is_listed(const struct authority *a, const char *names)
{
    struct steno_list_item it = steno_list_next(names);
    for (; it.n; it = steno_list_next(it.p + it.n))
        if (it.n == a->n && !strncasecmp(it.p, a->host, it.n))
            return true;
    return false;
}

static bool is_address(const struct authority *a)
{
    struct sockaddr_storage addr;
    return *a->host == '[' ? a->n > 2 && steno_address_parse_host(a->host + 1, a->n - 2, &addr)
                           : steno_address_parse_host(a->host, a->n, &addr);
}

bool steno_origin_good_host(const char *host, const char *names)
{
    static const char below[] = ".localhost";
    const size_t n_below = sizeof below - 1;
    struct authority a = authority_of(host);
    if (is_listed(&a, names) || steno_list_holds(names, "*"))
        return true;
    if (a.n && a.host[a.n - 1] == '.') /* the root's dot */
        a.n--;
    return is_listed(&a, names) || !a.n || !memchr(a.host, '.', a.n) || is_address(&a) ||
           (a.n > n_below && same(a.host + a.n - n_below, n_below, below));
}

/* Whether a page of this origin is on the host that the request was sent to. A Host without a port
 * may have lost it in a proxy. */
static bool is_at(const char *origin, const char *host)
{
    const char *scheme = strstr(origin, "://");
    const char *usual = !strncasecmp(origin, "https:", 6) ? "443" : "80";
    struct authority o, h;
    if (!scheme || !host || !*host)
        return false;
    o = authority_of(scheme + 3);
    h = authority_of(host);
    if (!o.n_port)
        o.port = usual, o.n_port = strlen(usual);
    return o.n == h.n && !strncasecmp(o.host, h.host, o.n) &&
           (!h.n_port || (o.n_port == h.n_port && !memcmp(o.port, h.port, o.n_port)));
}

bool steno_origin_is_foreign(const struct steno_origin_headers *h, const char *names)
{
    const char *origin = h->origin ? h->origin : "", *scheme = strstr(origin, "://");
    struct authority a;
    if (h->fetch_site && *h->fetch_site)
        return strcmp(h->fetch_site, "same-origin") != 0 && strcmp(h->fetch_site, "none") != 0;
    if (!*origin || is_at(origin, h->host) || is_at(origin, h->forwarded_host))
        return false;
    a = authority_of(scheme ? scheme + 3 : origin);
    return !scheme || !is_listed(&a, names);
}
