/* stenod: opens the parts in order, waits for a signal, drains, and closes the parts in reverse
 * order. The parts and their threads: docs/server.md. */
#define _GNU_SOURCE /* sigtimedwait */
#include "base/clock.h"
#include "base/map.h"
#include "server/base/log.h"
#include "server/core/aligners.h"
#include "server/check.h"
#include "server/http/http.h"
#include "server/http/waker.h"
#include "server/jobs/job_routes.h"
#include "server/jobs/job_service.h"
#include "server/live/upgrade.h"
#include "server/live/ws.h"
#include "server/live/ws_admission.h"
#include "server/options.h"
#include "server/port/acceptor.h"
#include "server/watch/admin.h"
#include "server/watch/agent.h"
#include "server/watch/gauges.h"
#include "server/watch/trace.h"
#include "server/watch/usage.h"
#include "server/watch/zeroconf.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#define OWN_DESCRIPTORS 64 /* epolls, eventfds, listeners, files: about 30 */

#define LAST_WORDS_NS 200000000

struct daemon {
    struct steno_config conf;
    struct steno_server srv;
    struct steno_services services;
    steno_acceptor *acceptor;
    steno_http *http;
    steno_ws *ws;
    steno_tls *tls;
    steno_admin *admin;
    steno_agent *agent;
    steno_zeroconf *zeroconf; /* the announcement of the Wyoming port */
    sigset_t signals;
    struct steno_stats_totals totals;
    struct timespec file_changed; /* the configuration file, before it was used */
};

/* ---- opening --------------------------------------------------------------------------------- */

/* The acceptor's callback: choose who serves this head. */
static void on_head(void *user, int fd, const struct steno_peer *peer, const char *head, size_t len)
{
    struct daemon *d = user;
    if (!head || steno_ws_asked(&d->srv, peer, head, len))
        steno_ws_adopt(d->ws, fd, peer, head, len);
    else
        steno_http_add(d->http, fd, peer);
}

static void on_ws_closed(void *user, const struct steno_peer *peer)
{
    struct daemon *d = user;
    steno_acceptor_closed(d->acceptor, peer);
}

static void on_ws_linger(void *user, int fd)
{
    struct daemon *d = user;
    steno_acceptor_linger(d->acceptor, fd);
}

static bool on_ws_recount(void *user, struct steno_peer *peer,
                          const struct sockaddr_storage *client)
{
    struct daemon *d = user;
    return steno_acceptor_recount(d->acceptor, peer, client);
}

static const struct steno_ws_owner ws_owner = {on_ws_closed, on_ws_recount, on_ws_linger};

/* Raise the limit of descriptors as far as needed and allowed: a connection is one, also a
 * WebSocket. */
static void raise_descriptors(const struct steno_config *conf)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim))
        return;
    lim.rlim_cur = lim.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &lim);
    /* a connection with TLS has three */
    if (lim.rlim_max <
        (rlim_t)conf->connections * (*conf->tls_certificate ? 3 : 1) + OWN_DESCRIPTORS)
        steno_log(LOG_WARNING,
                  "limits.connections is %d, but the system allows %llu descriptors in all",
                  conf->connections, (unsigned long long)lim.rlim_max);
}

static void on_batch(void *user, size_t streams)
{
    steno_metric_observe(((struct steno_server *)user)->stats->batch_size, (double)streams);
}

static steno_status open_engine(struct daemon *d, steno_err *err)
{
    struct steno_pool_options opt = {.workers = d->conf.threads,
                                     /* and one for the canary */
                                     .max_streams = d->conf.sessions + d->conf.uploads +
                                                    d->conf.jobs_workers + 1,
                                     .buffer_seconds = d->conf.buffer_seconds,
                                     .batch = d->conf.batch,
                                     .capacity = d->conf.capacity,
                                     .on_batch = on_batch,
                                     .user = &d->srv};
    return steno_models_open(&d->srv.models, &d->conf, &opt, err);
}

static steno_status open_services(struct daemon *d, steno_err *err)
{
    struct steno_services *sv = &d->services;
    steno_status st;
    steno_gauges_register(&d->srv);
    sv->srv = &d->srv;
    sv->live = &steno_upgrade_calls;
    sv->job_calls = &steno_job_calls;
    st = steno_transcriber_open(&sv->transcriber, &d->srv, 2, d->conf.speakers_threads, err);
    if (!st)
        st = steno_fetcher_open(&sv->fetcher, &d->conf, d->srv.limits, err);
    if (!st)
        st = steno_job_service_open(&sv->stored, sv, err);
    if (!st)
        st = steno_hangup_open(&sv->hangup, d->conf.uploads + 1, err);
    if (!st)
        st = steno_health_open(&sv->health, &d->srv, err);
    if (!st)
        st = steno_ws_open(&d->ws, &d->srv, &ws_owner, d, steno_job_service_links(sv->stored), err);
    sv->ws = d->ws;
    if (!st && sv->stored)
        st = steno_job_service_start(sv->stored, err);
    if (!st)
        st = steno_http_open(&d->http, sv, d->acceptor, err);
    return st;
}

/* The port comes first: when it is taken, loading a model is useless. Nothing is accepted before
 * everything is open; early clients wait in the backlog. */
static steno_status open_all(struct daemon *d, steno_err *err)
{
    steno_status st;
    steno_key *key;
    struct steno_server *srv = &d->srv;
    const struct steno_port_settings port = steno_config_port(&d->conf);
    srv->conf = &d->conf;
    srv->started = (int64_t)time(NULL);
    srv->stats = steno_stats_new();
    if (srv->stats)
        srv->limits = steno_limits_new(&d->conf, srv->stats);
    if (!srv->limits)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    st = steno_keys_open(&srv->keys, d->conf.keys, err);
    if (st)
        return steno_fail_in(err, st, "auth.keys");
    if (*d->conf.wyoming_listen)
        st = steno_keys_named(srv->keys, d->conf.wyoming_key, &key, err);
    if (st)
        return steno_fail_in(err, st, "wyoming.key");
    st = steno_keys_read_vocabulary(srv->keys, d->conf.vocabulary, err);
    if (st)
        return steno_fail_in(err, st, "text.vocabulary");
    st = steno_usage_open(&srv->usage, &d->conf, srv->keys, err);
    if (st)
        return steno_fail_in(err, st, "server.state");
    st = steno_networks_parse(d->conf.trusted_proxies, &srv->trusted, err);
    if (st)
        return steno_fail_in(err, st, "server.trusted_proxies");
    st = steno_acceptor_open(&d->acceptor, &port, srv->stats, on_head, d, err);
    if (st)
        return steno_fail_in(err, st, "listen");
    if (*d->conf.tls_certificate) {
        st = steno_tls_open(&d->tls, d->conf.tls_certificate, d->conf.tls_key, d->conf.idle_timeout,
                            err);
        if (st)
            return steno_fail_in(err, st, "tls");
        steno_acceptor_use_tls(d->acceptor, d->tls);
    }
    st = steno_server_open_vad(srv, err);
    if (!st)
        st = steno_server_open_speakers(srv, err);
    if (!st)
        st = steno_server_open_turn(srv, err);
    if (!st)
        st = steno_server_read_profanity(srv, err);
    if (!st) {
        st = steno_tracer_open(&srv->tracer, &d->conf, srv->stats->registry, err);
        if (st)
            return steno_fail_in(err, st, "tracing.endpoint");
    }
    if (!st)
        st = steno_decoders_open(&srv->decoders, d->conf.helpers, err);
    if (!st)
        st = steno_waker_open(&srv->waker, d->conf.sessions + d->conf.uploads, err);
    if (!st)
        st = open_engine(d, err);
    if (!st)
        st = open_services(d, err);
    if (!st) {
        st = steno_admin_open(&d->admin, srv, err);
        if (st)
            return steno_fail_in(err, st, "server.admin");
    }
    if (!st) {
        st = steno_agent_open(&d->agent, srv, d->services.health, err);
        if (st)
            return steno_fail_in(err, st, "server.agent_listen");
    }
    return st ? st : steno_acceptor_start(d->acceptor, err);
}

static void close_all(struct daemon *d)
{
    steno_zeroconf_close(d->zeroconf);
    if (d->acceptor)
        steno_acceptor_stop(d->acceptor);
    steno_agent_close(d->agent);
    steno_admin_close(d->admin);
    steno_job_service_stop(d->services.stored);
    steno_fetcher_stop(d->services.fetcher); /* requests that wait for one go on */
    steno_http_close(d->http);               /* it hands sockets to the next */
    steno_ws_close(d->ws);
    steno_tls_close(d->tls);
    steno_health_close(d->services.health);
    steno_hangup_close(d->services.hangup);
    steno_job_service_close(d->services.stored);
    steno_transcriber_close(d->services.transcriber);
    steno_fetcher_close(d->services.fetcher);
    steno_acceptor_close(d->acceptor);
    steno_waker_close(d->srv.waker);
    steno_decoders_close(d->srv.decoders);
    steno_models_close(d->srv.models);
    steno_tracer_close(d->srv.tracer);
    steno_vad_close(d->srv.vad_rule);
    steno_vad_close(d->srv.vad_net);
    steno_speakers_close(d->srv.speakers);
    steno_turn_detector_close(d->srv.turn);
    free(d->srv.profanity);
    if (d->srv.stats)
        d->totals = steno_stats_totals(d->srv.stats);
    steno_limits_free(d->srv.limits);
    steno_usage_close(d->srv.usage);
    steno_keys_close(d->srv.keys);
    steno_stats_free(d->srv.stats);
    steno_config_free(&d->conf);
}

/* ---- running --------------------------------------------------------------------------------- */

static void announce(struct daemon *d)
{
    const char *url;
    if (d->conf.helpers && !steno_decoders_installed())
        steno_log(LOG_WARNING,
                  "steno-decode is not installed: WebM, MP4, AAC and others are refused");
    char name[STENO_ALIGNER_NAME];
    steno_err err;
    for (const char *list = d->conf.align_model; steno_aligners_next(&list, name);)
        if (steno_models_check(d->srv.models, name, &err))
            steno_log(LOG_WARNING, "align.model: %s", err.msg);
    for (size_t i = 0; (url = steno_acceptor_url(d->acceptor, i)); i++)
        steno_log(LOG_NOTICE, "listening on %s%s", url,
                  d->tls && !strncmp(url, "http:", 5) ? ", and for TLS" : "");
    if (*d->conf.wyoming_advertise &&
        steno_zeroconf_open(&d->zeroconf, d->conf.wyoming_advertise, "_wyoming._tcp",
                            steno_acceptor_wyoming_port(d->acceptor), &err))
        steno_log(LOG_WARNING, "wyoming.advertise: %s", err.msg);
    sd_notify(0, "READY=1\nSTATUS=Serving");
}

/* When the configuration file was last changed; 0: there is none. */
static struct timespec file_changed(const struct steno_config *conf)
{
    struct stat s;
    return *conf->file && !stat(conf->file, &s) ? s.st_mtim : (struct timespec){0};
}

/* Settings stay as they were at the start, which an operator who changed them may not expect. */
static void tell_changed_file(struct daemon *d)
{
    const struct timespec t = file_changed(&d->conf);
    if (t.tv_sec == d->file_changed.tv_sec && t.tv_nsec == d->file_changed.tv_nsec)
        return;
    steno_log(LOG_WARNING, "reload: %s was changed; its settings are read at a start only",
              d->conf.file);
    d->file_changed = t;
}

/* SIGHUP: reload what can change while sessions run. A part with an error keeps its old state. */
static void reload(struct daemon *d)
{
    int reloaded, failed;
    steno_err err;
    sd_notify(0, "RELOADING=1");
    tell_changed_file(d);
    if (steno_keys_reload(d->srv.keys, d->conf.keys, &err))
        steno_log(LOG_ERR, "reload: %s; the old keys stay in force", err.msg);
    else if (*d->conf.keys)
        steno_log(LOG_NOTICE, "reload: keys read again");
    if (steno_keys_read_vocabulary(d->srv.keys, d->conf.vocabulary, &err))
        steno_log(LOG_ERR, "reload: text.vocabulary: %s; the old words stay in use", err.msg);
    if (d->tls && steno_tls_reload(d->tls, &err))
        steno_log(LOG_ERR, "reload: tls: %s; the old certificate stays in use", err.msg);
    else if (d->tls)
        steno_log(LOG_NOTICE, "reload: certificate read again");
    steno_models_reload(d->srv.models, &reloaded, &failed);
    steno_log(LOG_NOTICE, "reload: %d models loaded again, %d kept as they were", reloaded, failed);
    sd_notify(0, "READY=1");
}

/* Sleep until SIGTERM or SIGINT. */
static void wait_for_end(struct daemon *d)
{
    for (;;) {
        int sig = sigwaitinfo(&d->signals, NULL);
        if (sig == SIGUSR1) {
            atomic_store_explicit(&d->srv.leaving, STENO_DRAINS, memory_order_relaxed);
            steno_log(LOG_NOTICE, "SIGUSR1: drain: the balancer is told so");
        } else if (sig == SIGHUP) {
            reload(d);
        } else if (sig == SIGTERM || sig == SIGINT) {
            steno_log(LOG_NOTICE, "%s: draining for at most %g s, %d sessions run",
                      sig == SIGTERM ? "SIGTERM" : "SIGINT", d->conf.drain_timeout,
                      steno_limits_active(d->srv.limits));
            return;
        }
    }
}

/* A second signal ends the waiting. */
static bool second_signal(struct daemon *d)
{
    const struct timespec now = {0, 0};
    int sig = sigtimedwait(&d->signals, NULL, &now);
    return sig == SIGTERM || sig == SIGINT;
}

static void drain_daemon(struct daemon *d)
{
    int64_t deadline = steno_now_ns() + (int64_t)(d->conf.drain_timeout * 1e9);
    sd_notifyf(0, "STOPPING=1\nSTATUS=Draining\nEXTEND_TIMEOUT_USEC=%.0f",
               (d->conf.drain_timeout + 5) * 1e6);
    steno_limits_drain(d->srv.limits);
    steno_ws_drain(d->ws);
    while (steno_limits_active(d->srv.limits)) {
        int64_t now = steno_now_ns(), next = now + 50000000;
        if (steno_limits_wait_idle(d->srv.limits, next < deadline ? next : deadline))
            break;
        if (second_signal(d)) {
            steno_log(LOG_WARNING, "second signal: %d sessions are cut off",
                      steno_limits_active(d->srv.limits));
            break;
        }
        if (now >= deadline) {
            steno_log(LOG_WARNING, "drain timeout: %d sessions are cut off",
                      steno_limits_active(d->srv.limits));
            break;
        }
    }
    steno_job_service_stop(d->services.stored); /* the next start runs its jobs */
    steno_transcriber_cancel_all(d->services.transcriber);
    /* sessions that were cut off may still get their last messages */
    (void)steno_limits_wait_idle(d->srv.limits, steno_now_ns() + LAST_WORDS_NS);
}

static void warn(const char *message)
{
    steno_log(LOG_WARNING, "%s", message);
}

static int serve_daemon(struct daemon *d)
{
    steno_err err;
    steno_status st;
    raise_descriptors(&d->conf);
    d->file_changed = file_changed(&d->conf);
    st = open_all(d, &err);
    if (st) {
        steno_log(LOG_ERR, "%s", err.msg);
        sd_notifyf(0, "STATUS=%s", err.msg);
        close_all(d);
        if (st == STENO_ERR_NOMEM)
            return EX_OSERR;
        return st == STENO_ERR_INTERNAL ? EX_SOFTWARE : EX_UNAVAILABLE;
    }
    announce(d);
    (void)steno_config_misspelt(warn);
    steno_config_idle(&d->conf, warn);
    if (d->conf.log_transcripts)
        steno_log(LOG_WARNING, "log.transcripts: recognised text is written to this log");
    wait_for_end(d);
    drain_daemon(d);
    if (steno_health_stuck(d->services.health)) { /* waiting for it would never end */
        steno_log(LOG_ERR, "stopped without the worker that hangs");
        _exit(EX_SOFTWARE);
    }
    close_all(d);
    steno_log(LOG_NOTICE,
              "stopped: %.0f sessions started, %.0f ended; %.3f s of audio came, %.3f were "
              "recognised, %.3f dropped",
              d->totals.started, d->totals.ended, d->totals.received, d->totals.recognised,
              d->totals.dropped);
    return EX_OK;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Only the main thread takes signals, by waiting for them. Every thread made later inherits the
 * mask. */
static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
    steno_map_guard();
}

static int run_action(struct daemon *d, enum steno_action action)
{
    int level = LOG_INFO;
    if (steno_log_level(d->conf.log_level, &level, NULL))
        level = LOG_INFO;
    steno_log_open(level, !strcmp(d->conf.log_format, "json"));
    switch (action) {
    case STENO_ACTION_HELP:
        fputs(steno_usage, stdout);
        break;
    case STENO_ACTION_VERSION:
        printf("stenod %s\n", steno_version());
        break;
    case STENO_ACTION_SAMPLE:
        steno_config_print_sample(stdout);
        break;
    case STENO_ACTION_PRINT:
        steno_config_print(&d->conf, stdout);
        break;
    case STENO_ACTION_CHECK:
        if (steno_check_start(&d->conf, true, d->conf.on_error)) {
            steno_config_free(&d->conf);
            return EX_CONFIG;
        }
        puts("The configuration is good.");
        break;
    case STENO_ACTION_SERVE:
        return serve_daemon(d);
    }
    steno_config_free(&d->conf);
    return fflush(stdout) ? EX_IOERR : EX_OK;
}

/* Map blocks as large as the audio of a client that sends at once, so that their pages are given
 * back when the client is silent again. On the heap small objects fill the holes of such blocks,
 * and every session makes the process larger (measured: 300 KiB per session instead of 113). By
 * default glibc raises the threshold to the largest block that was ever freed. */
static void set_allocator(void)
{
#ifdef M_MMAP_THRESHOLD
    (void)mallopt(M_MMAP_THRESHOLD, 120 * 1024);
#endif
}

int main(int argc, char **argv)
{
    static struct daemon d;
    enum steno_action action;
    bool usage = false;
    steno_err err;
    steno_status st;
    set_allocator();
    block_signals(&d.signals);
    st = steno_config_init(&d.conf, &err);
    if (!st)
        st = steno_options_read(&d.conf, argc, argv, &action, &usage, &err);
    if (!st)
        return run_action(&d, action);
    if (d.conf.on_error) { /* the errors were told; there may be more beyond the configuration */
        (void)steno_check_start(&d.conf, false, d.conf.on_error);
        steno_config_free(&d.conf);
        return EX_CONFIG;
    }
    steno_log_open(LOG_INFO, false);
    steno_log(LOG_ERR, "%s%s", err.msg, usage ? " (try stenod --help)" : "");
    steno_config_free(&d.conf);
    return st == STENO_ERR_NOMEM ? EX_OSERR : usage ? EX_USAGE : EX_CONFIG;
}
