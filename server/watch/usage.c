#include "server/watch/usage.h"

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/threads.h"
#include "server/base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_S 30
#define FILE_MAX (4u << 20)

struct steno_usage_file {
    steno_keys *keys;
    char *path;
    struct steno_buf written; /* of the thread: what the file holds */
    pthread_t thread;
    bool running, failed;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop; /* locked */
};

bool steno_state_directory(const struct steno_config *conf, char *out, size_t size)
{
    const char *own = getenv("STATE_DIRECTORY"); /* systemd.exec(5): several have ':' between */
    const char *p = own ? own : "";
    if (*conf->state)
        return snprintf(out, size, "%s", conf->state) < (int)size;
    for (size_t n = strcspn(p, ":"); n; n = strcspn(p, ":")) {
        const char tail[] = "/steno-state"; /* as the unit names it */
        const bool only = p == own && !p[n];
        if (n < size && (only || (n >= sizeof tail - 1 &&
                                  !memcmp(p + n - (sizeof tail - 1), tail, sizeof tail - 1)))) {
            snprintf(out, size, "%.*s", (int)n, p);
            return true;
        }
        p += n + (p[n] == ':');
    }
    return false;
}

/* Write the file if its text has changed. The first failure of a row is logged. */
static void save(steno_usage_file *u)
{
    struct steno_buf now;
    steno_err err = {STENO_ERR_NOMEM, "out of memory"};
    steno_status st;
    steno_buf_init(&now, FILE_MAX);
    st = steno_keys_write_usage(u->keys, &now);
    if (!st && now.len == u->written.len &&
        !memcmp(now.data, u->written.data ? u->written.data : "", now.len)) {
        steno_buf_free(&now);
        return;
    }
    if (!st)
        st = steno_atomic_file_write(u->path, now.data, now.len, 0600, true, &err);
    if (st && !u->failed)
        steno_log(LOG_ERR, "usage of keys is not saved: %s", err.msg);
    u->failed = st;
    if (st) {
        steno_buf_free(&now);
        return;
    }
    steno_buf_free(&u->written);
    u->written = now;
}

static void *run_usage(void *arg)
{
    steno_usage_file *u = arg;
    bool stop = false;
    while (!stop) {
        const int64_t until = steno_now_ns() + (int64_t)EVERY_S * 1000000000;
        pthread_mutex_lock(&u->lock);
        while (!u->stop && steno_now_ns() < until)
            (void)steno_cond_wait_until(&u->wake, &u->lock, until);
        stop = u->stop;
        pthread_mutex_unlock(&u->lock);
        save(u);
    }
    return NULL;
}

static steno_status load_usage(steno_usage_file *u, steno_err *err)
{
    steno_status st;
    char *text;
    size_t n;
    FILE *f = fopen(u->path, "re");
    if (!f && errno == ENOENT)
        return STENO_OK;
    if (!f)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", u->path, strerror(errno));
    text = malloc(FILE_MAX + 1);
    n = text ? fread(text, 1, FILE_MAX + 1, f) : 0;
    if (!text)
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", u->path);
    else if (ferror(f))
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", u->path, strerror(errno));
    else if (n > FILE_MAX)
        st = steno_fail(err, STENO_ERR_LIMIT, "%s: larger than %u bytes", u->path, FILE_MAX);
    else
        st = steno_keys_read_usage(u->keys, u->path, text, n, err);
    free(text);
    fclose(f);
    return st;
}

steno_status steno_usage_open(steno_usage_file **out, const struct steno_config *conf,
                              steno_keys *keys, steno_err *err)
{
    char dir[PATH_MAX];
    size_t n;
    steno_usage_file *u;
    steno_status st;
    *out = NULL;
    if (!*conf->keys || !steno_state_directory(conf, dir, sizeof dir))
        return STENO_OK;
    u = calloc(1, sizeof *u);
    if (!u)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    u->keys = keys;
    steno_buf_init(&u->written, FILE_MAX);
    pthread_mutex_init(&u->lock, NULL);
    steno_cond_init(&u->wake);
    n = strlen(dir) + sizeof "/usage";
    u->path = malloc(n);
    if (u->path)
        snprintf(u->path, n, "%s/usage", dir);
    st = u->path ? load_usage(u, err) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_thread_start(&u->thread, "usage", run_usage, u, err);
    if (st) {
        steno_usage_close(u);
        return st;
    }
    u->running = true;
    *out = u;
    return STENO_OK;
}

void steno_usage_close(steno_usage_file *u)
{
    if (!u)
        return;
    if (u->running) {
        pthread_mutex_lock(&u->lock);
        u->stop = true;
        pthread_cond_signal(&u->wake);
        pthread_mutex_unlock(&u->lock);
        pthread_join(u->thread, NULL);
    }
    pthread_cond_destroy(&u->wake);
    pthread_mutex_destroy(&u->lock);
    steno_buf_free(&u->written);
    free(u->path);
    free(u);
}
