#include "server/port/proxy.h"

#include "base/list.h"
#include "server/port/address.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define V1_MAX 107 /* bytes of a version 1 header with its CR LF */
#define V2_HEAD 16
#define V2_MAX 4096 /* longer ones are refused: nobody needs so many extensions */

/* ---- trusted peers --------------------------------------------------------------------------- */

static bool parse_network(const char *text, size_t len, struct steno_networks *w)
{
    const char *slash = memchr(text, '/', len);
    size_t host = slash ? (size_t)(slash - text) : len;
    struct sockaddr_storage addr;
    unsigned bits, given;
    if (len == 4 && !memcmp(text, "unix", 4)) {
        w->local = true;
        return true;
    }
    if (w->n == STENO_MAX_NETWORKS || !steno_address_parse_host(text, host, &addr))
        return false;
    bits = given = addr.ss_family == AF_INET ? 32 : 128;
    if (slash && !steno_address_parse_number(slash + 1, len - host - 1, bits, &given))
        return false;
    (void)steno_address_host(&addr, w->list[w->n].host);
    w->list[w->n].bits = (int)(128 - bits + given);
    w->n++;
    return true;
}

steno_status steno_networks_parse(const char *text, struct steno_networks *out, steno_err *err)
{
    struct steno_networks w = {.n = 0};
    struct steno_list_item it = steno_list_next(text);
    for (; it.n; it = steno_list_next(it.p + it.n))
        if (!parse_network(it.p, it.n, &w))
            return steno_fail(err, STENO_ERR_INVAL,
                              "'%.*s' is not ADDRESS, ADDRESS/BITS or unix, or there are more than "
                              "%d",
                              it.n > 60 ? 60 : (int)it.n, it.p, STENO_MAX_NETWORKS);
    *out = w;
    return STENO_OK;
}

static bool same_bits(const unsigned char *a, const unsigned char *b, int bits)
{
    const int whole = bits / 8, rest = bits % 8;
    return !memcmp(a, b, (size_t)whole) && (!rest || !((a[whole] ^ b[whole]) >> (8 - rest)));
}

bool steno_networks_hold(const struct steno_networks *w, const struct sockaddr_storage *addr)
{
    unsigned char host[16];
    if (addr->ss_family == AF_UNIX)
        return w->local;
    if (!w->n || !steno_address_host(addr, host))
        return false;
    for (size_t i = 0; i < w->n; i++)
        if (same_bits(w->list[i].host, host, w->list[i].bits))
            return true;
    return false;
}

/* ---- the PROXY protocol ---------------------------------------------------------------------- */

/* "TCP4 SOURCE DESTINATION PORT PORT" or "UNKNOWN ...", [len] without its end. */
static bool parse_v1(const char *p, size_t len, struct steno_proxy_header *out)
{
    const char *word[5];
    size_t n[5], words = 0, at = 0;
    struct sockaddr_storage other;
    unsigned port, ignored;
    if (len >= 7 && !memcmp(p, "UNKNOWN", 7))
        return len == 7 || p[7] == ' ';
    while (at <= len && words < 5) {
        const char *space = memchr(p + at, ' ', len - at);
        word[words] = p + at;
        n[words] = space ? (size_t)(space - p) - at : len - at;
        at += n[words++] + 1;
    }
    if (words != 5 || at != len + 1 || n[0] != 4 || memcmp(word[0], "TCP", 3) ||
        !steno_address_parse_host(word[1], n[1], &out->client) ||
        !steno_address_parse_host(word[2], n[2], &other) ||
        out->client.ss_family != other.ss_family ||
        word[0][3] != (other.ss_family == AF_INET ? '4' : '6') ||
        !steno_address_parse_number(word[3], n[3], 65535, &port) ||
        !steno_address_parse_number(word[4], n[4], 65535, &ignored))
        return false;
    steno_address_set_port(&out->client, (uint16_t)port);
    return out->known = true;
}

/* Addresses of a version 2 header: p [len] is what follows its 16 bytes. */
static bool parse_v2(unsigned command, unsigned family, const unsigned char *p, size_t len,
                     struct steno_proxy_header *out)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};
    if (command > 1)
        return false;
    if (command == 0) /* LOCAL: a health check of the proxy's own */
        return true;
    switch (family >> 4) {
    case 1:
        if (len < 12)
            return false;
        memcpy(&sin.sin_addr, p, 4);
        memcpy(&sin.sin_port, p + 8, 2);
        memcpy(&out->client, &sin, sizeof sin);
        return out->known = true;
    case 2:
        if (len < 36)
            return false;
        memcpy(&sin6.sin6_addr, p, 16);
        memcpy(&sin6.sin6_port, p + 32, 2);
        memcpy(&out->client, &sin6, sizeof sin6);
        return out->known = true;
    default: /* unspecified, unix */
        return family >> 4 == 0 || family >> 4 == 3;
    }
}

steno_status steno_proxy_parse(const char *p, size_t n, struct steno_proxy_header *out,
                               steno_err *err)
{
    static const char v1[] = "PROXY ", v2[] = "\r\n\r\n\0\r\nQUIT\n";
    const unsigned char *u = (const unsigned char *)p;
    struct steno_proxy_header h;
    memset(&h, 0, sizeof h);
    if (!memcmp(p, v1, n < sizeof v1 - 1 ? n : sizeof v1 - 1)) {
        const char *end = memchr(p, '\n', n);
        if (!end && n < V1_MAX)
            return STENO_NEED_MORE;
        if (!end || end - p >= V1_MAX || end - p < 7 || end[-1] != '\r' ||
            !parse_v1(p + 6, (size_t)(end - p) - 7, &h))
            return steno_fail(err, STENO_ERR_FORMAT, "damaged PROXY header, version 1");
        h.len = (size_t)(end - p) + 1;
    } else if (!memcmp(p, v2, n < sizeof v2 - 1 ? n : sizeof v2 - 1)) {
        size_t rest;
        if (n < V2_HEAD)
            return STENO_NEED_MORE;
        rest = (size_t)u[14] << 8 | u[15];
        if (rest > V2_MAX)
            return steno_fail(err, STENO_ERR_LIMIT, "PROXY header of %zu bytes, more than %d", rest,
                              V2_MAX);
        if (n < V2_HEAD + rest)
            return STENO_NEED_MORE;
        if (u[12] >> 4 != 2 || !parse_v2(u[12] & 15, u[13], u + V2_HEAD, rest, &h))
            return steno_fail(err, STENO_ERR_FORMAT, "damaged PROXY header, version 2");
        h.len = V2_HEAD + rest;
    } else {
        return steno_fail(err, STENO_ERR_FORMAT, "no PROXY header");
    }
    *out = h;
    return STENO_OK;
}

/* ---- headers of HTTP ------------------------------------------------------------------------- */

/* "192.0.2.1", "192.0.2.1:4711", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:4711" */
static bool parse_forwarded(const char *p, size_t len, struct sockaddr_storage *out)
{
    const char *end;
    if (len && *p == '[') {
        end = memchr(p, ']', len);
        return end && steno_address_parse_host(p + 1, (size_t)(end - p) - 1, out);
    }
    end = memchr(p, ':', len);
    if (end && !memchr(end + 1, ':', len - (size_t)(end - p) - 1))
        len = (size_t)(end - p);
    return steno_address_parse_host(p, len, out);
}

bool steno_forwarded_client(const char *value, const struct steno_networks *trusted,
                            struct sockaddr_storage *client)
{
    size_t end = strlen(value);
    bool any = false;
    for (;;) {
        size_t from, to;
        while (end && strchr(" \t,", value[end - 1]))
            end--;
        if (!end)
            return any;
        to = from = end;
        while (from && !strchr(" \t,", value[from - 1]))
            from--;
        /* what stands before an unusable address was not said by a proxy that is trusted */
        if (!parse_forwarded(value + from, to - from, client))
            return false;
        any = true;
        if (!steno_networks_hold(trusted, client))
            return true;
        end = from;
    }
}

size_t steno_path_skip(const char *path, size_t len, const char *prefix, size_t n)
{
    while (n && prefix[n - 1] == '/')
        n--;
    if (!n || *prefix != '/' || len <= n || memcmp(path, prefix, n) || path[n] != '/')
        return 0;
    return n;
}
