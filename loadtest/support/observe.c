/* Once a second: the server's processor time, memory and descriptors, and the mean batch size of
 * that second from its metrics. Runs in its own thread, so that it does not disturb the users'
 * timing. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "loadtest/support/load.h"

#define EVERY_MS 1000
#define MAX_POINTS 86400
#define PATIENCE_MS 900

struct load_observer {
    struct load_run *run;
    pthread_t thread;
    int stop[2]; /* a pipe: closed means stop */
    double batches, streams;
};

/* Return the value of a series without labels; 0 if it is absent. */
static double value_of(const char *page, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = page; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (!strncmp(p, name, n) && p[n] == ' ')
            return strtod(p + n, NULL);
    }
    return 0;
}

/* Return the mean batch size since the last call; 0 if nothing ran or the server does not report
 * it. */
static double batch_size(struct load_observer *o)
{
    struct load_http h;
    int64_t until = steno_now_ns() + (int64_t)PATIENCE_MS * 1000000;
    double batches = 0, streams = 0, mean = 0;
    load_http_init(&h);
    if (!load_http_begin(&h, &o->run->plan->metrics, "Connection: close\r\n", NULL, 0, NULL))
        while (!load_http_pump(&h) && steno_now_ns() < until) {
            struct pollfd p = {h.fd, (short)(POLLIN | (h.want_out ? POLLOUT : 0)), 0};
            poll(&p, 1, 100);
        }
    if (h.status == 200) {
        batches = value_of(h.answer.data + h.at, "steno_batch_size_count");
        streams = value_of(h.answer.data + h.at, "steno_batch_size_sum");
        if (batches > o->batches)
            mean = (streams - o->streams) / (batches - o->batches);
        o->batches = batches;
        o->streams = streams;
    }
    load_http_close(&h);
    return mean;
}

static void look(struct load_observer *o, struct process_usage *last, int64_t *last_ns)
{
    struct load_run *r = o->run;
    struct process_usage u = {0};
    int64_t now = steno_now_ns();
    struct load_point *p = &r->points[r->n_points];
    if (r->plan->pid && !process_usage_read(&u, r->plan->pid))
        return;
    *p = (struct load_point){.t = (double)(now - r->t0_ns) * 1e-9,
                             .cpu_percent = 100 * (u.cpu_seconds - last->cpu_seconds) /
                                            ((double)(now - *last_ns) * 1e-9),
                             .rss_mib = u.rss_mib,
                             .descriptors = u.descriptors,
                             .active = atomic_load_explicit(&r->active, memory_order_relaxed),
                             .batch = r->plan->metrics_text ? batch_size(o) : 0};
    r->n_points++;
    *last = u;
    *last_ns = now;
}

static void *work(void *arg)
{
    struct load_observer *o = arg;
    struct process_usage last = o->run->before;
    int64_t last_ns = steno_now_ns();
    if (o->run->plan->metrics_text)
        (void)batch_size(o);
    while (o->run->n_points < MAX_POINTS) {
        struct pollfd p = {o->stop[0], POLLIN, 0};
        if (poll(&p, 1, EVERY_MS))
            break;
        look(o, &last, &last_ns);
    }
    return NULL;
}

steno_status load_observe(struct load_observer **out, struct load_run *r, steno_err *err)
{
    struct load_observer *o;
    if (!r->plan->pid && !r->plan->metrics_text)
        return STENO_OK;
    o = calloc(1, sizeof *o);
    r->points = calloc(MAX_POINTS, sizeof *r->points);
    if (!o || !r->points || pipe(o->stop)) {
        free(o);
        return steno_fail(err, STENO_ERR_NOMEM, "no memory for the observer");
    }
    o->run = r;
    if (pthread_create(&o->thread, NULL, work, o)) {
        free(o);
        return steno_fail(err, STENO_ERR_NOMEM, "no thread for the observer");
    }
    *out = o;
    return STENO_OK;
}

void load_observe_end(struct load_observer *o)
{
    if (!o)
        return;
    close(o->stop[1]);
    pthread_join(o->thread, NULL);
    close(o->stop[0]);
    free(o);
}
