#define _GNU_SOURCE /* accept4 */
#include "server/watch/agent.h"

#include "base/threads.h"
#include "server/base/log.h"
#include "server/port/address.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

struct steno_agent {
    struct steno_server *srv;
    steno_health *health;
    int fds[STENO_MAX_ADDRESSES], wake;
    size_t n;
    pthread_t thread;
    bool running;
};

char *steno_agent_write(const struct steno_agent_state *s, char *out)
{
    double free_places = s->sessions > 0 ? 1 - (double)s->streams / s->sessions : 1;
    double weight = fmax(1, floor(1e-6 + 100 * fmin(1 - s->load, free_places)));
    if (s->draining || s->leaving == STENO_DRAINS)
        snprintf(out, STENO_AGENT_LINE, "drain\n");
    else if (s->leaving == STENO_MAINTAINED)
        snprintf(out, STENO_AGENT_LINE, "maint\n");
    else if (!s->ready)
        snprintf(out, STENO_AGENT_LINE, "ready down #recognition does not answer\n");
    else /* "ready" takes an earlier drain or maint back */
        snprintf(out, STENO_AGENT_LINE, "ready up %.0f%%\n", weight);
    return out;
}

static void look_at_models(const steno_agent *a, struct steno_agent_state *s)
{
    struct steno_server *srv = a->srv;
    struct steno_model_slot *slot;
    struct steno_buf unused;
    steno_buf_init(&unused, 4096);
    *s = (struct steno_agent_state){.draining = steno_limits_draining(srv->limits),
                                    .leaving =
                                        atomic_load_explicit(&srv->leaving, memory_order_relaxed),
                                    .ready = steno_health_ready(a->health, &unused),
                                    .sessions = srv->conf->sessions};
    steno_buf_free(&unused);
    for (size_t i = 0; (slot = steno_models_slot(srv->models, i)); i++) {
        struct steno_model_view v;
        steno_model_slot_view(slot, &v);
        s->streams += v.pool.live;
        if (v.pool.capacity > 0)
            s->load += (double)v.pool.live / v.pool.capacity;
    }
}

/* Answer, and wait until the client closes, at most 1 s: closing before its request (agent-send) is
 * read could reset the connection and lose the line. */
static void answer(const steno_agent *a, int fd)
{
    const struct timeval second = {.tv_sec = 1};
    struct steno_agent_state s;
    char line[STENO_AGENT_LINE], sink[256];
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    look_at_models(a, &s);
    steno_agent_write(&s, line);
    if (send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT) > 0 && !shutdown(fd, SHUT_WR))
        (void)!recv(fd, sink, sizeof sink, 0);
}

static void *run_agent(void *arg)
{
    steno_agent *a = arg;
    for (;;) {
        struct pollfd p[STENO_MAX_ADDRESSES + 1] = {{.fd = a->wake, .events = POLLIN}};
        for (size_t i = 0; i < a->n; i++)
            p[i + 1] = (struct pollfd){.fd = a->fds[i], .events = POLLIN};
        if (poll(p, (nfds_t)a->n + 1, -1) < 0 && errno != EINTR)
            break;
        if (p[0].revents)
            break;
        for (size_t i = 0; i < a->n; i++) {
            int fd = p[i + 1].revents ? accept4(a->fds[i], NULL, NULL, SOCK_CLOEXEC) : -1;
            if (fd >= 0) {
                answer(a, fd);
                close(fd);
            } else if (p[i + 1].revents && (errno == EMFILE || errno == ENFILE)) {
                (void)poll(p, 1, 1000); /* do not spin */
            }
        }
    }
    return NULL;
}

static steno_status listen_on(steno_agent *a, const struct steno_address *addr, steno_err *err)
{
    char name[STENO_ADDRESS_TEXT];
    int one = 1, fd = socket(addr->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    if (fd >= 0)
        a->fds[a->n++] = fd;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        bind(fd, (const struct sockaddr *)&addr->addr, addr->len) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)&bound, &len))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", steno_address_print(&addr->addr, name),
                          strerror(errno));
    steno_log(LOG_NOTICE, "agent checks on %s", steno_address_print(&bound, name));
    return STENO_OK;
}

steno_status steno_agent_open(steno_agent **out, struct steno_server *srv, steno_health *health,
                              steno_err *err)
{
    struct steno_address addresses[STENO_MAX_ADDRESSES];
    steno_agent *a;
    steno_status st;
    size_t n;
    *out = NULL;
    if (!*srv->conf->agent_listen)
        return STENO_OK;
    st = steno_address_parse_list(srv->conf->agent_listen, addresses, &n, err);
    if (st)
        return st;
    a = calloc(1, sizeof *a);
    if (!a)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    a->srv = srv;
    a->health = health;
    a->wake = eventfd(0, EFD_CLOEXEC);
    if (a->wake < 0)
        st = steno_fail(err, STENO_ERR_IO, "eventfd: %s", strerror(errno));
    for (size_t i = 0; i < n && !st; i++)
        st = listen_on(a, &addresses[i], err);
    if (!st)
        st = steno_thread_start(&a->thread, "agent", run_agent, a, err);
    if (st) {
        steno_agent_close(a);
        return st;
    }
    a->running = true;
    *out = a;
    return STENO_OK;
}

void steno_agent_close(steno_agent *a)
{
    if (!a)
        return;
    if (a->running) {
        (void)!eventfd_write(a->wake, 1);
        pthread_join(a->thread, NULL);
    }
    for (size_t i = 0; i < a->n; i++)
        close(a->fds[i]);
    if (a->wake >= 0)
        close(a->wake);
    free(a);
}
