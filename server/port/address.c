#include "server/port/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

bool steno_address_parse_number(const char *text, size_t len, unsigned most, unsigned *out)
{
    unsigned v = 0;
    if (!len || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        v = v * 10 + (unsigned)(text[i] - '0');
    }
    if (v > most)
        return false;
    *out = v;
    return true;
}

bool steno_address_parse_host(const char *text, size_t len, struct sockaddr_storage *out)
{
    char host[INET6_ADDRSTRLEN];
    struct sockaddr_in sin = {.sin_family = AF_INET};
    struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};
    if (!len || len >= sizeof host || memchr(text, '\0', len))
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, host, &sin.sin_addr) == 1)
        memcpy(out, &sin, sizeof sin);
    else if (inet_pton(AF_INET6, host, &sin6.sin6_addr) == 1)
        memcpy(out, &sin6, sizeof sin6);
    return out->ss_family != 0;
}

void steno_address_set_port(struct sockaddr_storage *addr, uint16_t port)
{
    struct sockaddr_in sin;
    struct sockaddr_in6 sin6;
    if (addr->ss_family == AF_INET) {
        memcpy(&sin, addr, sizeof sin);
        sin.sin_port = htons(port);
        memcpy(addr, &sin, sizeof sin);
    } else {
        memcpy(&sin6, addr, sizeof sin6);
        sin6.sin6_port = htons(port);
        memcpy(addr, &sin6, sizeof sin6);
    }
}

static bool set_host(struct steno_address *a, const char *host, size_t len, uint16_t port)
{
    if (!len || (len == 1 && *host == '*')) {
        a->any = true;
        host = "::";
        len = strlen(host);
    } else if (len == strlen("localhost") && !memcmp(host, "localhost", len)) {
        host = "127.0.0.1";
        len = strlen(host);
    }
    if (!steno_address_parse_host(host, len, &a->addr))
        return false;
    steno_address_set_port(&a->addr, port);
    a->len =
        a->addr.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    return true;
}

static bool set_path(struct steno_address *a, const char *path, size_t len)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    if (*path != '/' || len >= sizeof sun.sun_path || memchr(path, '\0', len))
        return false;
    memcpy(sun.sun_path, path, len);
    memcpy(&a->addr, &sun, sizeof sun);
    a->len = sizeof sun;
    return true;
}

steno_status steno_address_parse(const char *text, size_t len, struct steno_address *out,
                                 steno_err *err)
{
    struct steno_address a;
    size_t colon = len, from = 0, to;
    unsigned port;
    int shown = len > 60 ? 60 : (int)len;
    memset(&a, 0, sizeof a);
    if (len > 5 && !memcmp(text, "unix:", 5)) {
        if (!set_path(&a, text + 5, len - 5))
            return steno_fail(err, STENO_ERR_INVAL, "'%.*s': not an absolute path below %zu bytes",
                              shown, text, sizeof((struct sockaddr_un *)0)->sun_path);
        *out = a;
        return STENO_OK;
    }
    while (colon > 0 && text[colon - 1] != ':')
        colon--;
    if (!colon || !steno_address_parse_number(text + colon, len - colon, 65535, &port))
        return steno_fail(err, STENO_ERR_INVAL, "'%.*s' is not ADDR:PORT with a port of 0..65535",
                          shown, text);
    to = colon - 1;
    if (to >= 2 && text[0] == '[' && text[to - 1] == ']') {
        from = 1;
        to--;
    } else if (memchr(text, ':', to)) {
        return steno_fail(err, STENO_ERR_INVAL, "'%.*s': an IPv6 address must be in [brackets]",
                          shown, text);
    }
    if (!set_host(&a, text + from, to - from, (uint16_t)port))
        return steno_fail(err, STENO_ERR_INVAL,
                          "'%.*s' is not an IPv4 or IPv6 address, localhost or *", shown, text);
    *out = a;
    return STENO_OK;
}

steno_status steno_address_parse_list(const char *text, struct steno_address *out, size_t *n,
                                      steno_err *err)
{
    struct steno_address list[STENO_MAX_ADDRESSES];
    size_t count = 0;
    for (;;) {
        size_t len;
        steno_status st;
        text += strspn(text, " \t");
        len = strcspn(text, ",");
        while (len && (text[len - 1] == ' ' || text[len - 1] == '\t'))
            len--;
        if (count == STENO_MAX_ADDRESSES)
            return steno_fail(err, STENO_ERR_INVAL, "more than %d addresses", STENO_MAX_ADDRESSES);
        st = steno_address_parse(text, len, &list[count], err);
        if (st)
            return st;
        count++;
        text += strcspn(text, ",");
        if (!*text)
            break;
        text++;
    }
    memcpy(out, list, count * sizeof *out);
    *n = count;
    return STENO_OK;
}

const char *steno_address_print(const struct sockaddr_storage *addr, char *out)
{
    char host[INET6_ADDRSTRLEN];
    struct sockaddr_in sin;
    struct sockaddr_in6 sin6;
    snprintf(out, STENO_ADDRESS_TEXT, "unknown");
    if (addr->ss_family == AF_INET) {
        memcpy(&sin, addr, sizeof sin);
        if (inet_ntop(AF_INET, &sin.sin_addr, host, sizeof host))
            snprintf(out, STENO_ADDRESS_TEXT, "%s:%u", host, ntohs(sin.sin_port));
    } else if (addr->ss_family == AF_INET6) {
        memcpy(&sin6, addr, sizeof sin6);
        if (inet_ntop(AF_INET6, &sin6.sin6_addr, host, sizeof host))
            snprintf(out, STENO_ADDRESS_TEXT, "[%s]:%u", host, ntohs(sin6.sin6_port));
    } else if (addr->ss_family == AF_UNIX) {
        struct sockaddr_un sun;
        memcpy(&sun, addr, sizeof sun);
        snprintf(out, STENO_ADDRESS_TEXT, "unix%s%.*s", *sun.sun_path ? ":" : "",
                 (int)sizeof sun.sun_path, sun.sun_path);
    }
    return out;
}

bool steno_address_host(const struct sockaddr_storage *a, unsigned char key[16])
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct sockaddr_in sin;
    struct sockaddr_in6 sin6;
    if (a->ss_family == AF_INET) {
        memcpy(&sin, a, sizeof sin);
        memcpy(key, mapped, 12);
        memcpy(key + 12, &sin.sin_addr, 4);
        return true;
    }
    if (a->ss_family == AF_INET6) {
        memcpy(&sin6, a, sizeof sin6);
        memcpy(key, &sin6.sin6_addr, 16);
        return true;
    }
    return false;
}

bool steno_address_is_loopback(const struct sockaddr_storage *a)
{
    static const unsigned char one[16] = {[15] = 1}, mapped[13] = {[10] = 0xff, [11] = 0xff, 127};
    unsigned char host[16];
    return steno_address_host(a, host) &&
           (!memcmp(host, one, sizeof one) || !memcmp(host, mapped, sizeof mapped));
}

bool steno_address_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    unsigned char ka[16], kb[16];
    return steno_address_host(a, ka) && steno_address_host(b, kb) && !memcmp(ka, kb, 16);
}
