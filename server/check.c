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
#include <unistd.h>

struct check {
    struct steno_server srv;
    void (*tell)(const char *message);
    size_t errors;
};

/* key: the setting; it is put before the message unless that begins with it. */
static void add_finding(struct check *c, steno_status st, const steno_err *err, const char *key)
{
    char place[512], line[sizeof err->msg + sizeof place + 40];
    const bool named = st && !strncmp(err->msg, key, strlen(key));
    if (!st)
        return;
    steno_config_place(c->srv.conf, key, place, sizeof place);
    snprintf(line, sizeof line, "%s%s%s%s", place, named ? "" : key, named ? "" : ": ", err->msg);
    c->tell(line);
    c->errors++;
}

static void check_model(struct check *c)
{
    /* a capacity is given, so that nothing is measured */
    const struct steno_pool_options opt = {.workers = 1, .max_streams = 1, .capacity = 1};
    steno_err err;
    add_finding(c, steno_models_open(&c->srv.models, c->srv.conf, &opt, &err), &err, "model.dir");
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
    steno_err err;
    if (*path && access(path, R_OK))
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
        add_finding(c, st, &err,
                    strncmp(err.msg, "jobs.queue_password", 19) ? "jobs.queue"
                                                                : "jobs.queue_password");
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

/* Jobs: a start makes the last directory of the path itself. */
static void check_jobs(struct check *c)
{
    const struct steno_config *conf = c->srv.conf;
    if (!*conf->jobs_dir)
        return;
    if (access(conf->jobs_dir, F_OK))
        check_parent(c, conf->jobs_dir, "jobs.dir");
    else
        check_directory(c, conf->jobs_dir, W_OK, "jobs.dir");
    check_queue(c);
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
    add_finding(&c, steno_server_open_vad(&c.srv, &err), &err, "vad.model");
    add_finding(&c, steno_server_open_speakers(&c.srv, &err), &err, "speakers.model");
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
