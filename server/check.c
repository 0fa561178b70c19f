#include "server/check.h"

#include "server/base/log.h"
#include "server/core/server.h"
#include "server/http/fetch.h"
#include "server/http/webhook.h"
#include "server/jobs/job_service.h"
#include "server/port/listeners.h"
#include "server/port/tls.h"
#include "server/watch/trace.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct check {
    struct steno_server srv;
    void (*tell)(const char *message);
    size_t errors;
};

/* key: the setting; it is put before the message unless that begins with one. */
static void add_finding(struct check *c, steno_status st, const steno_err *err, const char *key)
{
    char place[512], line[sizeof err->msg + sizeof place + 40];
    bool named;
    if (!st)
        return;
    named = steno_config_place(c->srv.conf, err->msg, place, sizeof place);
    if (!named)
        (void)steno_config_place(c->srv.conf, key, place, sizeof place);
    snprintf(line, sizeof line, "%s%s%s%s", place, named ? "" : key, named ? "" : ": ", err->msg);
    c->tell(line);
    c->errors++;
}

/* A capacity is given, so that little is measured, and that is not kept. */
static void check_model(struct check *c)
{
    const struct steno_pool_options opt = {.workers = 1, .max_streams = 1, .capacity = 1};
    struct steno_config conf = *c->srv.conf;
    char none[] = "none";
    steno_err err;
    conf.calibration = none;
    add_finding(c, steno_models_open(&c->srv.models, &conf, &opt, &err), &err, "model.dir");
    steno_models_close(c->srv.models);
}

static void check_addresses(struct check *c, const char *list, const char *key)
{
    struct steno_address addresses[STENO_MAX_ADDRESSES];
    size_t n = 0;
    if (steno_address_parse_list(list, addresses, &n, NULL)) /* the configuration's check told it */
        return;
    for (size_t i = 0; i < n; i++) {
        steno_err err;
        steno_status st = steno_listeners_try(&addresses[i], &err);
        if (st == STENO_ERR_BUSY)
            steno_log(LOG_NOTICE, "%s: %s", key, err.msg);
        else
            add_finding(c, st, &err, key);
    }
}

static void check_tls(struct check *c)
{
    const struct steno_config *conf = c->srv.conf;
    steno_err err;
    steno_status st = steno_tls_check(conf->tls_certificate, conf->tls_key, &err);
    const char *file = conf->tls_certificate;
    const bool of_key = st && strncmp(err.msg, file, strlen(file));
    add_finding(c, st, &err, of_key ? "tls.key" : "tls.certificate");
}

static void check_file(struct check *c, const char *path, const char *key)
{
    struct stat s;
    steno_err err;
    if (!*path)
        return;
    errno = stat(path, &s) || access(path, R_OK) ? errno : S_ISDIR(s.st_mode) ? EISDIR : 0;
    if (errno)
        add_finding(c, steno_fail(&err, STENO_ERR_IO, "%s: %s", path, strerror(errno)), &err, key);
}

/* The directory of a key must be there, with these rights (access(2)). */
static void check_directory(struct check *c, const char *dir, int rights, const char *key)
{
    steno_err err;
    if (access(dir, rights | X_OK))
        add_finding(c, steno_fail(&err, STENO_ERR_IO, "%s: %s", dir, strerror(errno)), &err, key);
}

/* The directory of a path that a start makes must be there and writable. */
static void check_parent(struct check *c, const char *path, const char *key)
{
    char dir[PATH_MAX];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n && path[n - 1] != '/')
        n--;
    snprintf(dir, sizeof dir, "%.*s", n ? (int)n : 1, n ? path : ".");
    check_directory(c, dir, W_OK, key);
}

/* A password without a queue is read by nobody, but its file should be there. */
static void check_queue(struct check *c)
{
    const struct steno_config *conf = c->srv.conf;
    steno_job_queue *queue = NULL;
    steno_err err;
    steno_status st;
    if (!*conf->jobs_queue) {
        check_file(c, conf->jobs_password, "jobs.queue_password");
        return;
    }
    st = steno_job_service_open_shared(&queue, conf, &err);
    if (st)
        add_finding(c, st, &err, "jobs.queue");
    else
        queue->ops->close(queue);
}

static void check_fetcher(struct check *c)
{
    steno_fetcher *f = NULL;
    steno_err err;
    add_finding(c, steno_fetcher_open(&f, c->srv.conf, NULL, &err), &err, "fetch.hosts");
    steno_fetcher_close(f);
}

/* A directory whose path's last part the daemon makes itself. */
static void check_own_directory(struct check *c, const char *dir, const char *key)
{
    if (access(dir, F_OK))
        check_parent(c, dir, key);
    else
        check_directory(c, dir, W_OK, key);
}

static void check_jobs(struct check *c)
{
    const struct steno_config *conf = c->srv.conf;
    if (!*conf->jobs_dir)
        return;
    check_own_directory(c, conf->jobs_dir, "jobs.dir");
    check_queue(c);
}

static void check_speakers(struct check *c)
{
    steno_err err;
    add_finding(c, steno_server_open_speakers(&c->srv, &err), &err, "speakers.model");
    if (*c->srv.conf->speakers_store)
        check_own_directory(c, c->srv.conf->speakers_store, "speakers.store");
}

static void check_vad(struct check *c)
{
    enum steno_vad_choice mode;
    steno_err err;
    if (!steno_vad_choice_parse(c->srv.conf->vad_mode, &mode, NULL)) /* else it was told */
        add_finding(c, steno_server_open_vad(&c->srv, &err), &err, "vad.model");
}

static void check_webhooks(struct check *c)
{
    const struct steno_config *conf = c->srv.conf;
    char *secret = NULL;
    size_t len;
    steno_err err;
    steno_status st;
    check_file(c, conf->callback_ca, "jobs.callback_ca");
    if (!*conf->callback_secret)
        return;
    st = steno_webhooks_read_secret(conf->callback_secret, &secret, &len, &err);
    add_finding(c, st, &err, "jobs.callback_secret");
    if (!st)
        explicit_bzero(secret, len);
    free(secret);
}

static void check_tracing(struct check *c)
{
    struct steno_stats *stats = steno_stats_new();
    struct steno_tracer *tracer = NULL;
    steno_err err;
    if (!stats)
        return;
    add_finding(c, steno_tracer_open(&tracer, c->srv.conf, stats->registry, &err), &err,
                "tracing.endpoint");
    steno_tracer_close(tracer);
    steno_stats_free(stats);
}

static void warn(const char *message)
{
    steno_log(LOG_WARNING, "%s", message);
}

size_t steno_check_start(const struct steno_config *conf, bool good,
                         void (*tell)(const char *message))
{
    struct check c = {.srv = {.conf = conf}, .tell = tell};
    steno_err err;
    steno_key *key;
    add_finding(&c, steno_keys_open(&c.srv.keys, conf->keys, &err), &err, "auth.keys");
    if (c.srv.keys && *conf->wyoming_listen)
        add_finding(&c, steno_keys_named(c.srv.keys, conf->wyoming_key, &key, &err), &err,
                    "wyoming.key");
    if (c.srv.keys)
        add_finding(&c, steno_keys_read_vocabulary(c.srv.keys, conf->vocabulary, &err), &err,
                    "text.vocabulary");
    check_vad(&c);
    check_speakers(&c);
    add_finding(&c, steno_server_open_turn(&c.srv, &err), &err, "turn.model");
    add_finding(&c, steno_server_read_profanity(&c.srv, &err), &err, "text.profanity");
    check_addresses(&c, conf->listen, "server.listen");
    if (*conf->wyoming_listen)
        check_addresses(&c, conf->wyoming_listen, "wyoming.listen");
    if (*conf->tls_certificate)
        check_tls(&c);
    if (*conf->agent_listen)
        check_addresses(&c, conf->agent_listen, "server.agent_listen");
    if (*conf->admin)
        check_parent(&c, conf->admin, "server.admin");
    check_jobs(&c);
    check_webhooks(&c);
    if (*conf->models_dir)
        check_directory(&c, conf->models_dir, R_OK, "models.dir");
    check_tracing(&c);
    check_fetcher(&c);
    if (*conf->state)
        check_directory(&c, conf->state, W_OK, "server.state");
    c.errors += steno_config_misspelt(tell);
    steno_config_idle(conf, warn);
    if (good)
        check_model(&c);
    free(c.srv.profanity);
    steno_vad_close(c.srv.vad_rule);
    steno_vad_close(c.srv.vad_net);
    steno_speakers_close(c.srv.speakers);
    steno_turn_detector_close(c.srv.turn);
    steno_keys_close(c.srv.keys);
    return c.errors;
}
