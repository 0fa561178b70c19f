#define _GNU_SOURCE /* accept4, pthread_setname_np */
#include "server/watch/admin.h"

#include "server/base/log.h"
#include "server/watch/agent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/base/log.h"
#include "server/port/listeners.h"

#define CLIENTS 8
#define LINE_BYTES 256
#define STATUS_BYTES (16 << 20)

struct client {
    int fd; /* -1: no client */
    int64_t received_ns;
    size_t n;
    char line[LINE_BYTES];
    struct steno_buf out;
    size_t sent;
};

struct steno_admin {
    struct steno_server *srv;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    int listener, wake; /* -1: not open */
    bool bound;
    pthread_t thread;
    bool running;
    struct client clients[CLIENTS]; /* of the thread */
};

/* ---- clients ------------------------------------------------------------------------------- */

static void drop_client(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    steno_buf_free(&c->out);
    c->sent = c->n = 0;
}

static void adopt(steno_admin *a, int fd)
{
    struct client *c = &a->clients[0];
    for (int i = 0; i < CLIENTS && c->fd >= 0; i++)
        if (a->clients[i].fd < 0 || a->clients[i].received_ns < c->received_ns)
            c = &a->clients[i];
    drop_client(c);
    c->fd = fd;
    c->received_ns = steno_now_ns();
    steno_buf_init(&c->out, STATUS_BYTES + LINE_BYTES);
}

static bool is_leaving(const char *line, int *leaving)
{
    static const char *const names[] = {
        [STENO_STAYS] = "ready", [STENO_DRAINS] = "drain", [STENO_MAINTAINED] = "maint"};
    for (*leaving = 0; *leaving < 3; ++*leaving)
        if (!strcmp(line, names[*leaving]))
            return true;
    return false;
}

static steno_status answer(steno_admin *a, struct client *c, const char *line)
{
    int leaving;
    steno_status st;
    if (!strcmp(line, "status")) {
        st = steno_admin_status(a->srv, &c->out);
    } else if (!strcmp(line, "reload")) {
        kill(getpid(), SIGHUP); /* the main thread waits for this signal */
        st = steno_buf_puts(&c->out, "{\"ok\":true}");
    } else if (is_leaving(line, &leaving)) {
        atomic_store_explicit(&a->srv->leaving, leaving, memory_order_relaxed);
        steno_log(LOG_NOTICE, "%s: the balancer is told so", line);
        st = steno_buf_puts(&c->out, "{\"ok\":true}");
    } else {
        st = steno_buf_puts(&c->out, "{\"error\":\"unknown command; known are status, reload, "
                                     "drain, maint and ready\"}");
    }
    return st ? st : steno_buf_puts(&c->out, "\n");
}

/* Write the pending answer; false when the client is gone. */
static bool flush_client(struct client *c)
{
    while (c->sent < c->out.len) {
        ssize_t n =
            send(c->fd, c->out.data + c->sent, c->out.len - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        c->sent += (size_t)n;
    }
    steno_buf_free(&c->out);
    c->sent = 0;
    return true;
}

/* Answer the complete lines that came, while no answer waits to be read. False: drop the client. */
static bool act_for_client(steno_admin *a, struct client *c)
{
    char *end;
    while (!c->out.len && (end = memchr(c->line, '\n', c->n))) {
        size_t used = (size_t)(end + 1 - c->line);
        *end = '\0';
        if (answer(a, c, c->line))
            return false;
        memmove(c->line, c->line + used, c->n - used);
        c->n -= used;
        if (!flush_client(c))
            return false;
    }
    return c->n < LINE_BYTES;
}

static bool receive(steno_admin *a, struct client *c)
{
    ssize_t n = recv(c->fd, c->line + c->n, LINE_BYTES - c->n, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    c->n += (size_t)n;
    c->received_ns = steno_now_ns();
    return act_for_client(a, c);
}

static void serve_client(steno_admin *a, struct client *c, short events)
{
    bool good = true;
    if (c->fd < 0 || !events)
        return;
    if (events & POLLOUT)
        good = flush_client(c) && act_for_client(a, c);
    else
        good = receive(a, c);
    if (!good)
        drop_client(c);
}

static void *run_admin(void *arg)
{
    steno_admin *a = arg;
    pthread_setname_np(pthread_self(), "admin");
    for (;;) {
        struct pollfd p[CLIENTS + 2] = {{.fd = a->wake, .events = POLLIN},
                                        {.fd = a->listener, .events = POLLIN}};
        for (int i = 0; i < CLIENTS; i++) /* unread answers stop reading from a client */
            p[i + 2] = (struct pollfd){.fd = a->clients[i].fd,
                                       .events = a->clients[i].out.len ? POLLOUT : POLLIN};
        if (poll(p, CLIENTS + 2, -1) < 0 && errno != EINTR)
            break;
        if (p[0].revents)
            break;
        for (int i = 0; i < CLIENTS; i++)
            serve_client(a, &a->clients[i], p[i + 2].revents);
        if (p[1].revents) {
            int fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd >= 0)
                adopt(a, fd);
            else if (errno == EMFILE || errno == ENFILE)
                (void)poll(p, 1, 1000); /* do not spin */
        }
    }
    return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------- */

static steno_status listen_on(steno_admin *a, steno_err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    const char *path = a->srv->conf->admin;
    size_t n = strlen(path);
    if (n >= sizeof addr.sun_path)
        return steno_fail(err, STENO_ERR_INVAL, "%.60s...: %zu bytes, at most %zu", path, n,
                          sizeof addr.sun_path - 1);
    memcpy(addr.sun_path, path, n + 1);
    memcpy(a->path, path, n + 1);
    steno_listeners_remove_dead(&addr);
    a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    a->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* the file gets the descriptor's mode, so nobody else can open it even for a moment (Linux,
     * unix_bind) */
    if (a->wake < 0 || a->listener < 0 || fchmod(a->listener, 0600))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    a->bound = !bind(a->listener, (const struct sockaddr *)&addr, sizeof addr);
    if (!a->bound || chmod(path, 0600) || listen(a->listener, CLIENTS))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    return STENO_OK;
}

steno_status steno_admin_open(steno_admin **out, struct steno_server *srv, steno_err *err)
{
    steno_status st;
    steno_admin *a;
    *out = NULL;
    if (!*srv->conf->admin)
        return STENO_OK;
    a = calloc(1, sizeof *a);
    if (!a)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    a->srv = srv;
    a->listener = a->wake = -1;
    for (int i = 0; i < CLIENTS; i++)
        a->clients[i].fd = -1;
    st = listen_on(a, err);
    if (!st && pthread_create(&a->thread, NULL, run_admin, a))
        st = steno_fail(err, STENO_ERR_INTERNAL, "%s: cannot make a thread", a->path);
    if (st) {
        steno_admin_close(a);
        return st;
    }
    a->running = true;
    *out = a;
    return STENO_OK;
}

void steno_admin_close(steno_admin *a)
{
    uint64_t one = 1;
    if (!a)
        return;
    if (a->running) {
        (void)!write(a->wake, &one, sizeof one);
        pthread_join(a->thread, NULL);
    }
    for (int i = 0; i < CLIENTS; i++)
        drop_client(&a->clients[i]);
    if (a->listener >= 0)
        close(a->listener);
    if (a->wake >= 0)
        close(a->wake);
    if (a->bound)
        unlink(a->path);
    free(a);
}
