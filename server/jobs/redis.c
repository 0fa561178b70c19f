#include "server/jobs/redis.h"

#include "base/clock.h"
#include "server/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

static const int timeouts[STENO_REDIS_LINKS] = {2, 10, 5, 2}; /* s */

struct link {
    pthread_mutex_t lock; /* guards the rest; held during a command */
    redisContext *c;      /* NULL: not connected */
    int64_t next;         /* no attempt to connect before, in ns */
    int64_t since;        /* when it was connected, in ns */
};

struct steno_redis {
    struct steno_redis_url url;
    /* Some link but LIVE has failed since RUN had its last answer. Relaxed: it orders nothing. */
    atomic_bool down;
    struct link links[STENO_REDIS_LINKS];
};

static steno_status redis_fail(const steno_redis *r, const char *why, steno_err *err)
{
    return steno_fail(err, STENO_ERR_IO, "the store of jobs at %s:%d: %.120s", r->url.host,
                      r->url.port, why);
}

/* Close a link that failed. */
static steno_status lose(steno_redis *r, struct link *l, steno_err *err)
{
    const char *why = !l->c                                          ? "out of memory"
                      : l->c->err == REDIS_ERR_IO && errno == EAGAIN ? "no answer in time"
                                                                     : l->c->errstr;
    const steno_status st = redis_fail(r, why, err);
    if (l != &r->links[STENO_REDIS_LIVE])
        atomic_store_explicit(&r->down, true, memory_order_relaxed);
    if (l->c)
        redisFree(l->c);
    l->c = NULL;
    l->next = steno_now_ns() + SECOND;
    return st;
}

/* Send AUTH or SELECT on a new connection. The server's refusal becomes the link's error. */
static bool greet(struct link *l, int n, const char **v)
{
    redisReply *reply = redisCommandArgv(l->c, n, v, NULL);
    const bool good = reply && reply->type != REDIS_REPLY_ERROR;
    if (reply && !good)
        snprintf(l->c->errstr, sizeof l->c->errstr, "%.120s", reply->str);
    if (reply)
        freeReplyObject(reply);
    return good;
}

/* Lock of the link held. */
static steno_status connect_link(steno_redis *r, enum steno_redis_link which, steno_err *err)
{
    const struct timeval t = {timeouts[which], 0};
    struct link *l = &r->links[which];
    char number[16];
    const char *select[] = {"SELECT", number};
    const char *auth[] = {"AUTH", r->url.user, r->url.password};
    bool good = true;
    if (l->c)
        return STENO_OK;
    if (which >= STENO_REDIS_RUN ? steno_now_ns() < l->next
                                 : atomic_load_explicit(&r->down, memory_order_relaxed))
        return redis_fail(r, "it cannot be reached", err);
    errno = 0;
    l->c = redisConnectWithTimeout(r->url.host, r->url.port, t);
    if (!l->c || l->c->err || redisSetTimeout(l->c, t) != REDIS_OK)
        return lose(r, l, err);
    (void)redisEnableKeepAlive(l->c);
    if (*r->url.user)
        good = greet(l, 3, auth);
    else if (*r->url.password) {
        auth[1] = r->url.password;
        good = greet(l, 2, auth);
    }
    snprintf(number, sizeof number, "%d", r->url.database);
    if (!good || (r->url.database && !greet(l, 2, select)))
        return lose(r, l, err);
    l->since = steno_now_ns();
    return STENO_OK;
}

/* Whether the connection had ended, as it has after a restart of the server, rather than being
 * silent. Then the command is worth another attempt. */
static bool had_ended(const redisContext *c)
{
    return c->err == REDIS_ERR_EOF ||
           (c->err == REDIS_ERR_IO && (errno == ECONNRESET || errno == EPIPE));
}

steno_status steno_redis_command(steno_redis *r, enum steno_redis_link link, bool again, int n,
                                 const char **v, const size_t *len, redisReply **out,
                                 steno_err *err)
{
    struct link *l = &r->links[link];
    redisReply *reply = NULL;
    steno_status st = STENO_OK;
    pthread_mutex_lock(&l->lock);
    for (int attempt = 0; attempt < 2 && !reply; attempt++) {
        const bool old = l->c;
        st = connect_link(r, link, err);
        if (st)
            break;
        errno = 0;
        reply = redisCommandArgv(l->c, n, v, len);
        if (reply)
            break;
        again = again && old && had_ended(l->c);
        if (!again) {
            st = lose(r, l, err);
            break;
        }
        redisFree(l->c);
        l->c = NULL;
        l->next = 0;
    }
    if (reply && link == STENO_REDIS_RUN)
        atomic_store_explicit(&r->down, false, memory_order_relaxed);
    pthread_mutex_unlock(&l->lock);
    if (st)
        return st;
    if (reply->type == REDIS_REPLY_ERROR) {
        st = redis_fail(r, reply->str, err);
        freeReplyObject(reply);
        return st;
    }
    *out = reply;
    return STENO_OK;
}

/* Lock of the link held, which is connected. False: it failed. */
static bool run_all(struct link *l, size_t n, const struct steno_redis_words *c, redisReply **out)
{
    size_t got = 0;
    bool good = true;
    errno = 0;
    for (size_t i = 0; i < n && good; i++)
        good = redisAppendCommandArgv(l->c, c[i].n, c[i].v, c[i].len) == REDIS_OK;
    while (good && got < n) {
        void *reply = NULL;
        good = redisGetReply(l->c, &reply) == REDIS_OK;
        if (good)
            out[got++] = reply;
    }
    while (!good && got)
        freeReplyObject(out[--got]);
    return good;
}

steno_status steno_redis_pipeline(steno_redis *r, enum steno_redis_link link, size_t n,
                                  const struct steno_redis_words *c, redisReply **out,
                                  steno_err *err)
{
    struct link *l = &r->links[link];
    steno_status st = STENO_OK;
    bool done = false;
    pthread_mutex_lock(&l->lock);
    for (int attempt = 0; attempt < 2 && !done && !st; attempt++) {
        const bool old = l->c;
        st = connect_link(r, link, err);
        if (st)
            break;
        done = run_all(l, n, c, out);
        if (done)
            break;
        if (attempt || !old || !had_ended(l->c)) {
            st = lose(r, l, err);
            break;
        }
        redisFree(l->c);
        l->c = NULL;
        l->next = 0;
    }
    pthread_mutex_unlock(&l->lock);
    return st;
}

int64_t steno_redis_connected(steno_redis *r)
{
    struct link *l = &r->links[STENO_REDIS_RUN];
    int64_t ms;
    pthread_mutex_lock(&l->lock);
    ms = l->c ? (steno_now_ns() - l->since) / 1000000 : 0;
    pthread_mutex_unlock(&l->lock);
    return ms;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Find "NAME:value" in the answer of INFO. */
static bool info(const redisReply *reply, const char *name, char *out, size_t size)
{
    const char *p = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, name) : NULL;
    if (!p)
        return false;
    p += strlen(name);
    snprintf(out, size, "%.*s", (int)strcspn(p, "\r\n"), p);
    return true;
}

static steno_status check_version(steno_redis *r, steno_err *err)
{
    const char *v[] = {"INFO"};
    char version[32] = "?", aof[8] = "", policy[32] = "", limit[24] = "0";
    redisReply *reply;
    steno_status st = steno_redis_command(r, STENO_REDIS_RUN, true, 1, v, NULL, &reply, err);
    if (st)
        return st;
    (void)info(reply, "redis_version:", version, sizeof version);
    (void)info(reply, "aof_enabled:", aof, sizeof aof);
    (void)info(reply, "maxmemory:", limit, sizeof limit);
    (void)info(reply, "maxmemory_policy:", policy, sizeof policy);
    freeReplyObject(reply);
    if (strtol(version, NULL, 10) < 7)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "the store of jobs at %s:%d has version %s, needed is Redis 7 or Valkey",
                          r->url.host, r->url.port, version);
    if (strcmp(aof, "1"))
        steno_log(LOG_WARNING, "jobs.queue: without appendonly yes a restart of the store loses "
                               "jobs that were acknowledged");
    if (*policy && strcmp(policy, "noeviction") && strcmp(limit, "0"))
        steno_log(LOG_WARNING,
                  "jobs.queue: with maxmemory-policy %s the store may drop jobs; set noeviction",
                  policy);
    return STENO_OK;
}

/* A server may forbid CONFIG; then nothing is known. */
static void check_sync(steno_redis *r)
{
    const char *v[] = {"CONFIG", "GET", "appendfsync"};
    redisReply *reply;
    steno_err err;
    if (steno_redis_command(r, STENO_REDIS_RUN, true, 3, v, NULL, &reply, &err))
        return;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[1]->type == REDIS_REPLY_STRING && strcmp(reply->element[1]->str, "always"))
        steno_log(LOG_WARNING,
                  "jobs.queue: with appendfsync %s a crash of the store's machine may lose jobs "
                  "that were acknowledged just before",
                  reply->element[1]->str);
    freeReplyObject(reply);
}

steno_status steno_redis_open(steno_redis **out, const struct steno_redis_url *url, steno_err *err)
{
    steno_redis *r = calloc(1, sizeof *r);
    steno_status st;
    if (!r)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    r->url = *url;
    for (int i = 0; i < STENO_REDIS_LINKS; i++)
        pthread_mutex_init(&r->links[i].lock, NULL);
    st = check_version(r, err);
    if (st) {
        steno_redis_close(r);
        return st;
    }
    check_sync(r);
    *out = r;
    return STENO_OK;
}

void steno_redis_close(steno_redis *r)
{
    if (!r)
        return;
    for (int i = 0; i < STENO_REDIS_LINKS; i++) {
        if (r->links[i].c)
            redisFree(r->links[i].c);
        pthread_mutex_destroy(&r->links[i].lock);
    }
    explicit_bzero(r->url.password, sizeof r->url.password);
    free(r);
}
