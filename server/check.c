#include "server/check.h"

#include "server/listeners.h"
#include "server/log.h"
#include "server/server.h"
#include "server/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct check {
    struct steno_server srv;
    void (*tell)(const char *message);
    size_t errors;
};

static void add(struct check *c, steno_status st, const steno_err *err, const char *key)
{
    char line[sizeof err->msg + 40];
    if (!st)
        return;
    snprintf(line, sizeof line, "%s%s%s", key, *key ? ": " : "", err->msg);
    c->tell(line);
    c->errors++;
}

static void check_model(struct check *c)
{
    /* a capacity is given, so that nothing is measured */
    const struct steno_pool_options opt = {.workers = 1, .max_streams = 1, .capacity = 1};
    steno_err err;
    add(c, steno_models_open(&c->srv.models, c->srv.conf, &opt, &err), &err, "");
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
            add(c, st, &err, key);
    }
}

/* The socket's directory must be there and writable. */
static void check_admin(struct check *c)
{
    char dir[4096];
    const char *slash = strrchr(c->srv.conf->admin, '/');
    steno_err err;
    if (!*c->srv.conf->admin)
        return;
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - c->srv.conf->admin) + 1 : 1,
             slash ? c->srv.conf->admin : ".");
    if (access(dir, W_OK | X_OK))
        add(c, steno_fail(&err, STENO_ERR_IO, "%s: %s", dir, strerror(errno)), &err,
            "server.admin");
}

size_t steno_check_start(const struct steno_config *conf, bool good,
                         void (*tell)(const char *message))
{
    struct check c = {.srv = {.conf = conf}, .tell = tell};
    steno_err err;
    steno_key *key;
    add(&c, steno_keys_open(&c.srv.keys, conf->keys, &err), &err, "auth.keys");
    if (c.srv.keys && *conf->wyoming_listen)
        add(&c, steno_keys_named(c.srv.keys, conf->wyoming_key, &key, &err), &err, "wyoming.key");
    add(&c, steno_server_open_vad(&c.srv, &err), &err, "");
    check_addresses(&c, conf->listen, "server.listen");
    if (*conf->wyoming_listen)
        check_addresses(&c, conf->wyoming_listen, "wyoming.listen");
    if (*conf->tls_certificate)
        add(&c, steno_tls_check(conf->tls_certificate, conf->tls_key, &err), &err, "tls");
    check_admin(&c);
    if (good)
        check_model(&c);
    steno_vad_close(c.srv.vad_rule);
    steno_vad_close(c.srv.vad_net);
    steno_keys_close(c.srv.keys);
    return c.errors;
}
