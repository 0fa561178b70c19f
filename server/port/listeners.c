#define _GNU_SOURCE /* SOCK_CLOEXEC, SOCK_NONBLOCK, strdup */
#include "server/port/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define BACKLOG 1024

/* Add a listening socket; l takes ownership of it. path: of a unix socket that close removes. */
static steno_status add_listener(struct steno_listeners *l, int fd,
                                 const struct steno_port_settings *set, bool wyoming,
                                 const char *path, steno_err *err)
{
    struct steno_listener *it = &l->at[l->n++];
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    char text[STENO_ADDRESS_TEXT], url[STENO_ADDRESS_TEXT + 16];
    const char *scheme = set->tls_required ? "https://" : "http://";
    *it = (struct steno_listener){fd, NULL, wyoming, path ? strdup(path) : NULL};
    memset(&bound, 0, sizeof bound);
    if (getsockname(fd, (struct sockaddr *)&bound, &len))
        return steno_fail(err, STENO_ERR_IO, "getsockname: %s", strerror(errno));
    if (bound.ss_family == AF_UNIX)
        scheme = "";
    else if (wyoming)
        scheme = "wyoming://";
    snprintf(url, sizeof url, "%s%s", scheme, steno_address_print(&bound, text));
    it->url = strdup(url);
    return it->url && (it->path || !path) ? STENO_OK
                                          : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

static const char *path_of(const struct steno_address *addr)
{
    return ((const struct sockaddr_un *)&addr->addr)->sun_path;
}

void steno_listeners_remove_dead(const struct sockaddr_un *addr)
{
    struct stat sb;
    int fd;
    /* connect(2) refuses a file that is no socket with the same ECONNREFUSED */
    if (lstat(addr->sun_path, &sb) || !S_ISSOCK(sb.st_mode))
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)addr, sizeof *addr) && errno == ECONNREFUSED)
        unlink(addr->sun_path);
    close(fd);
}

static int bind_only(const struct steno_address *addr)
{
    int zero = 0, one = 1, saved;
    int fd = socket(addr->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (addr->addr.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, addr->any ? &zero : &one, sizeof one);
    if (addr->addr.ss_family == AF_UNIX)
        steno_listeners_remove_dead((const struct sockaddr_un *)&addr->addr);
    if (!bind(fd, (const struct sockaddr *)&addr->addr, addr->len))
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* A socket that is bound to addr; -1 with errno. */
static int bind_any(const struct steno_address *addr)
{
    int fd = bind_only(addr);
    if (fd < 0 && addr->any && errno == EAFNOSUPPORT) { /* a kernel without IPv6 */
        struct steno_address v4;
        struct sockaddr_in sin = {.sin_family = AF_INET};
        const struct sockaddr_in6 *sin6 = (const void *)&addr->addr;
        memset(&v4, 0, sizeof v4);
        sin.sin_port = sin6->sin6_port;
        memcpy(&v4.addr, &sin, sizeof sin);
        v4.len = sizeof sin;
        fd = bind_only(&v4);
    }
    return fd;
}

static steno_status fail_address(const struct steno_address *addr, steno_status st, steno_err *err)
{
    char text[STENO_ADDRESS_TEXT];
    return steno_fail(err, st, "%s: %s", steno_address_print(&addr->addr, text), strerror(errno));
}

steno_status steno_listeners_try(const struct steno_address *addr, steno_err *err)
{
    int fd = bind_any(addr);
    if (fd < 0)
        return fail_address(addr, errno == EADDRINUSE ? STENO_ERR_BUSY : STENO_ERR_IO, err);
    if (addr->addr.ss_family == AF_UNIX)
        unlink(path_of(addr));
    close(fd);
    return STENO_OK;
}

static steno_status bind_one(struct steno_listeners *l, const struct steno_port_settings *set,
                             const struct steno_address *addr, bool wyoming, steno_err *err)
{
    const char *path = addr->addr.ss_family == AF_UNIX ? path_of(addr) : NULL;
    int fd = bind_any(addr);
    if (fd < 0 || listen(fd, BACKLOG)) {
        steno_status st = fail_address(addr, STENO_ERR_IO, err);
        if (fd >= 0)
            close(fd);
        return st;
    }
    if (path) /* like a port: every local user may connect who may enter its directory */
        (void)chmod(path, 0666);
    return add_listener(l, fd, set, wyoming, path, err);
}

static steno_status take_passed(struct steno_listeners *l, const struct steno_port_settings *set,
                                int passed, steno_err *err)
{
    steno_status st = STENO_OK;
    if (passed > STENO_MAX_ADDRESSES)
        return steno_fail(err, STENO_ERR_INVAL, "systemd passed %d sockets, more than %d", passed,
                          STENO_MAX_ADDRESSES);
    for (int i = 0; i < passed && !st; i++) {
        int fd = SD_LISTEN_FDS_START + i;
        if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
            return steno_fail(err, STENO_ERR_INVAL,
                              "descriptor %d from systemd is not a listening stream socket", fd);
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        st = add_listener(l, fd, set, false, NULL, err);
    }
    return st;
}

static steno_status bind_list(struct steno_listeners *l, const struct steno_port_settings *set,
                              bool wyoming, steno_err *err)
{
    struct steno_address addresses[STENO_MAX_ADDRESSES];
    size_t n = 0;
    steno_status st =
        steno_address_parse_list(wyoming ? set->wyoming_listen : set->listen, addresses, &n, err);
    for (size_t i = 0; i < n && !st; i++)
        st = bind_one(l, set, &addresses[i], wyoming, err);
    return st;
}

steno_status steno_listeners_open(struct steno_listeners *l, const struct steno_port_settings *set,
                                  steno_err *err)
{
    int passed = sd_listen_fds(1);
    steno_status st = passed > 0 ? take_passed(l, set, passed, err) : bind_list(l, set, false, err);
    if (!st && *set->wyoming_listen)
        st = bind_list(l, set, true, err);
    return st;
}

void steno_listeners_close(struct steno_listeners *l)
{
    for (size_t i = 0; i < l->n; i++)
        close(l->at[i].fd);
    for (size_t i = 0; i < l->n; i++) {
        if (l->at[i].path)
            unlink(l->at[i].path);
        free(l->at[i].path);
        free(l->at[i].url);
    }
    l->n = 0;
}

uint16_t steno_listeners_wyoming_port(const struct steno_listeners *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i].wyoming)
            return (uint16_t)strtoul(strrchr(l->at[i].url, ':') + 1, NULL, 10);
    return 0;
}
