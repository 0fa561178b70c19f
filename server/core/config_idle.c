/* Settings that do nothing, because others are as they are. */
#include "server/core/config.h"

#include <stdio.h>
#include <string.h>

#include "server/base/log.h"

/* A row of keys that wait for a text setting (or for one of two), which is empty. */
struct need {
    const char *section, *keys; /* separated by blanks */
    size_t fields[2];
    const char *names;
};

#define FIELD(name) offsetof(struct steno_config, name)

static const struct need needs[] = {
    {"server", "state", {FIELD(keys), FIELD(keys)}, "auth.keys"},
    {"metrics", "keys", {FIELD(keys), FIELD(keys)}, "auth.keys"},
    {"wyoming", "key", {FIELD(keys), FIELD(keys)}, "auth.keys"},
    {"wyoming", "key", {FIELD(wyoming_listen), FIELD(wyoming_listen)}, "wyoming.listen"},
    {"fetch", "private timeout", {FIELD(fetch_hosts), FIELD(fetch_hosts)}, "fetch.hosts"},
    {"jobs",
     "workers max_bytes max per_key keep timeout lease",
     {FIELD(jobs_dir), FIELD(jobs_dir)},
     "jobs.dir"},
    {"jobs", "per_key", {FIELD(keys), FIELD(keys)}, "auth.keys"},
    {"jobs",
     "callback_private callback_http",
     {FIELD(callback_hosts), FIELD(callback_hosts)},
     "jobs.callback_hosts"},
    {"jobs",
     "callback_secret callback_ca callback_retry callback_give_up",
     {FIELD(callback_hosts), FIELD(calls_callback)},
     "jobs.callback_hosts or calls.callback"},
};

static bool is_empty(const struct steno_config *c, size_t field)
{
    return !**(char *const *)(const void *)((const char *)c + field);
}

static void tell_needs(const struct steno_config *c, const struct need *need,
                       void (*tell)(const char *message))
{
    char key[32], message[256];
    int n = 0;
    for (const char *at = need->keys; sscanf(at, "%31s%n", key, &n) == 1; at += n)
        if (steno_config_differs(c, need->section, key)) {
            snprintf(message, sizeof message, "%s.%s does nothing: it needs %s", need->section, key,
                     need->names);
            tell(message);
        }
}

void steno_config_idle(const struct steno_config *c, void (*tell)(const char *message))
{
    char message[256];
    int level = LOG_INFO;
    for (const struct need *n = needs; n < needs + sizeof needs / sizeof *needs; n++)
        if (is_empty(c, n->fields[0]) && is_empty(c, n->fields[1]))
            tell_needs(c, n, tell);
    if (c->ws_resume <= 0 && steno_config_differs(c, "websocket", "resume_memory"))
        tell("websocket.resume_memory does nothing: websocket.resume is 0");
    if (c->log_transcripts && !steno_log_level(c->log_level, &level, NULL) && level < LOG_INFO) {
        snprintf(message, sizeof message, "log.transcripts does nothing: log.level is %s",
                 c->log_level);
        tell(message);
    }
    if (c->sessions > c->connections) {
        snprintf(message, sizeof message,
                 "limits.sessions: no more than limits.connections (%d) are ever open",
                 c->connections);
        tell(message);
    }
    if (c->callback_retry > c->callback_give_up) {
        snprintf(message, sizeof message,
                 "jobs.callback_retry: a callback is given up after %g s "
                 "(jobs.callback_give_up), before its second try",
                 c->callback_give_up);
        tell(message);
    }
}
