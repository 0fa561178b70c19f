/* One thread, one epoll, and a timer wheel of milliseconds. Each user is in the wheel at most once,
 * at the time when it has something to send or to begin. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "loadtest/support/load.h"

#define COMPLAINTS 5
#define MS 1000000
#define RETRY_S 1 /* delay of a refused user if the server gives none */

static const struct load_kind *kind_of(const struct load_run *r)
{
    return r->plan->url.ws ? &load_streams : &load_uploads;
}

void load_at(struct load_user *u, int64_t ns)
{
    struct load_run *r = u->run;
    int64_t ms = (ns - r->t0_ns + MS - 1) / MS, last = r->wheel_ms + LOAD_WHEEL - 1;
    if (u->waiting) { /* it keeps its place in the wheel; wake() moves it on */
        u->due_ns = ns > u->due_ns ? ns : u->due_ns;
        return;
    }
    ms = ms <= r->wheel_ms ? r->wheel_ms + 1 : ms > last ? last : ms;
    u->due_ns = ns;
    u->waiting = true;
    u->next_due = r->wheel[ms % LOAD_WHEEL];
    r->wheel[ms % LOAD_WHEEL] = u;
}

void load_watch(struct load_user *u, int fd, bool in_epoll, bool out)
{
    struct epoll_event e = {.events = EPOLLIN | (out ? EPOLLOUT : 0u), .data.ptr = u};
    if (in_epoll && u->watched == e.events)
        return;
    u->watched = e.events;
    (void)epoll_ctl(u->run->epoll, in_epoll ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e);
}

void load_complain(struct load_user *u, const char *what)
{
    if (u->run->printed++ < COMPLAINTS)
        fprintf(stderr, "steno-load: user %d, session %d: %s\n", u->number, u->session, what);
}

/* ---- sessions ---------------------------------------------------------------------------- */

static void compare(struct load_user *u, const char *said, enum load_outcome *outcome)
{
    struct load_run *r = u->run;
    size_t n;
    r->word_errors += clip_word_errors(u->clip->text, said, &n);
    r->words += n;
    if (strcmp(said, u->clip->text) != 0) {
        *outcome = LOAD_WRONG;
        load_complain(u, "wrong transcript:");
        load_complain(u, said);
    }
}

static void judge(struct load_user *u, enum load_outcome *outcome)
{
    struct load_run *r = u->run;
    char **last = &r->said[u->clip - r->plan->clips],
         *said = strdup(u->said.data ? u->said.data : "");
    if (!said) {
        *outcome = LOAD_FAILED;
        return;
    }
    free(*last);
    *last = strdup(said);
    if (r->plan->plain)
        clip_make_plain(said);
    if (u->clip->text)
        compare(u, said, outcome);
    free(said);
}

static bool finished(const struct load_user *u, int64_t now)
{
    const struct load_run *r = u->run;
    if (r->stop_ns)
        return now >= r->stop_ns;
    return u->session >= r->plan->sessions;
}

void load_session_over(struct load_user *u, enum load_outcome outcome)
{
    struct load_run *r = u->run;
    int64_t now = steno_now_ns();
    if (outcome == LOAD_OK)
        judge(u, &outcome);
    r->outcomes[outcome]++;
    u->active = false;
    atomic_fetch_sub_explicit(&r->active, 1, memory_order_relaxed);
    if (outcome == LOAD_REFUSED && r->plan->retry) {
        load_at(u, now + (u->retry_after ? u->retry_after : RETRY_S) * 1000 * (int64_t)MS);
        return;
    }
    u->session++;
    load_at(u, finished(u, now) ? now : now + (int64_t)r->plan->think_ms * MS);
}

static void wake(struct load_user *u, int64_t now)
{
    struct load_run *r = u->run;
    if (u->due_ns > now) { /* farther away than the wheel reaches */
        load_at(u, u->due_ns);
        return;
    }
    if (u->active) {
        kind_of(r)->due(u, now);
        return;
    }
    if (finished(u, now)) {
        r->done++;
        return;
    }
    u->clip = &r->plan->clips[(u->number + u->session) % r->plan->n_clips];
    u->active = true;
    atomic_fetch_add_explicit(&r->active, 1, memory_order_relaxed);
    steno_buf_reset(&u->said);
    u->begun_ns = now;
    kind_of(r)->begin(u);
}

static void advance_wheel(struct load_run *r)
{
    int64_t now = steno_now_ns(), ms = (now - r->t0_ns) / MS;
    while (r->wheel_ms < ms) {
        struct load_user *u, *next;
        r->wheel_ms++;
        u = r->wheel[r->wheel_ms % LOAD_WHEEL];
        r->wheel[r->wheel_ms % LOAD_WHEEL] = NULL;
        for (; u; u = next) {
            next = u->next_due;
            u->waiting = false;
            wake(u, now);
        }
    }
}

static void loop(struct load_run *r)
{
    while (r->done < r->plan->users && !r->interrupted) {
        struct epoll_event ev[256];
        int n = epoll_wait(r->epoll, ev, 256, 1);
        for (int i = 0; i < n; i++) {
            struct load_user *u = ev[i].data.ptr;
            if (!u)
                r->interrupted = true;
            else if (u->active)
                kind_of(r)->pump(u);
            else
                kind_of(r)->idle(u);
        }
        advance_wheel(r);
    }
    for (int i = 0; i < r->plan->users; i++)
        if (r->users[i].active)
            kind_of(r)->cut(&r->users[i]);
}

/* ---- the run ------------------------------------------------------------------------------ */

static size_t most_chunks(const struct load_plan *p)
{
    size_t most = 0;
    for (int i = 0; i < p->n_clips; i++) {
        size_t n = p->clips[i].samples / clip_chunk(&p->clips[i], p->chunk_ms);
        most = n > most ? n : most;
    }
    return most + 2;
}

/* Make SIGINT and SIGTERM an event of the loop; threads that are created later block them too. */
static steno_status take_signals(struct load_run *r, steno_err *err)
{
    struct epoll_event e = {.events = EPOLLIN};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    r->epoll = epoll_create1(EPOLL_CLOEXEC);
    r->signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (r->epoll < 0 || r->signals < 0 || sigprocmask(SIG_BLOCK, &set, NULL) ||
        epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->signals, &e))
        return steno_fail(err, STENO_ERR_IO, "no event loop: %s", strerror(errno));
    return STENO_OK;
}

static steno_status make_users(struct load_run *r, steno_err *err)
{
    const struct load_plan *p = r->plan;
    r->users = calloc((size_t)p->users, sizeof *r->users);
    if (!r->users)
        return steno_fail(err, STENO_ERR_NOMEM, "no memory for %d users", p->users);
    for (int i = 0; i < p->users; i++) {
        struct load_user *u = &r->users[i];
        u->run = r;
        u->number = i;
        u->ws.fd = -1;
        load_http_init(&u->http);
        steno_buf_init(&u->said, 1 << 24);
        steno_buf_init(&u->stable, 1 << 20);
        u->sent_ns = p->url.ws ? calloc(most_chunks(p), sizeof *u->sent_ns) : NULL;
        if (p->url.ws && !u->sent_ns)
            return steno_fail(err, STENO_ERR_NOMEM, "no memory for %d users", p->users);
        load_at(u, r->t0_ns + (int64_t)(p->ramp * 1e9 * i / p->users));
    }
    return STENO_OK;
}

steno_status load_run(struct load_run *r, const struct load_plan *p, steno_err *err)
{
    struct load_observer *o = NULL;
    steno_status st;
    memset(r, 0, sizeof *r);
    r->plan = p;
    r->t0_ns = steno_now_ns();
    r->stop_ns = p->seconds > 0 ? r->t0_ns + (int64_t)(p->seconds * 1e9) : 0;
    if (p->pid && !process_usage_read(&r->before, p->pid))
        return steno_fail(err, STENO_ERR_INVAL, "process %d does not exist", p->pid);
    st = take_signals(r, err);
    if (!st)
        st = make_users(r, err);
    if (!st)
        st = load_observe(&o, r, err);
    if (st)
        return st;
    loop(r);
    r->took = (double)(steno_now_ns() - r->t0_ns) * 1e-9;
    load_observe_end(o);
    if (p->pid)
        (void)process_usage_read(&r->after, p->pid);
    return STENO_OK;
}

void load_run_free(struct load_run *r)
{
    for (int i = 0; r->users && i < r->plan->users; i++) {
        struct load_user *u = &r->users[i];
        kind_of(r)->free(u);
        steno_buf_free(&u->said);
        steno_buf_free(&u->stable);
        free(u->sent_ns);
    }
    for (int i = 0; i < r->plan->n_clips; i++)
        free(r->said[i]);
    close(r->epoll);
    close(r->signals);
    free(r->users);
    free(r->points);
}
