#define _GNU_SOURCE /* pthread_setname_np */
#include "server/core/models.h"

#include "base/clock.h"
#include "base/threads.h"
#include "protocol/word_times.h"
#include "server/base/log.h"
#include "server/core/aligners.h"
#include "speech/itn/itn.h"
#include "speech/punctuation/punctuation.h"
#include "speech/store/catalogue.h"
#include "speech/store/places.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define MAX_NAME 64
#define MAX_LABEL (MAX_NAME + STENO_OPTIONS_LABEL)
#define TOLD 32
#define RETRY_NS (10 * SECOND) /* until loading is tried again after a failure */

struct steno_model_slot {
    struct steno_model_slot *next;
    steno_models *models;
    struct steno_model_slot *of;  /* a variant: the slot whose name it has; NULL = not a variant */
    struct steno_options options; /* of a variant */
    char name[MAX_NAME], label[MAX_LABEL];
    char *dir;
    bool is_default, gone; /* gone: its directory no longer exists */
    bool read;             /* its languages were looked for in the directory */
    bool told;             /* returned by steno_models_next_new */
    struct steno_served *now;
    bool wanted, reload;
    int generation;
    int64_t used_ns, failed_ns;
    steno_err err;                /* why it could not be loaded */
    struct steno_model_view last; /* of the last loaded generation */
};

struct steno_models {
    const struct steno_config *conf;
    struct steno_pool_options pool;
    steno_catalogue *catalogue; /* other names of models; NULL: none was found */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards everything below, and every slot */
    pthread_cond_t work, idle;
    bool stop;
    char told[TOLD][MAX_NAME]; /* the other names that the log has told about */
    int n_told;
    int reloads, reloaded, failed; /* requested and pending; results of the last one */
    struct steno_model_slot *first, **last;
    struct steno_served *old; /* generations that are still used, but no longer served */
};

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_alias(const char *aliases, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = aliases;; p += strcspn(p, ",")) {
        size_t n;
        p += strspn(p, ", \t");
        if (!*p)
            return false;
        n = strcspn(p, ",");
        while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
            n--;
        if (n == len && !memcmp(p, name, n))
            return true;
    }
}

/* Lock held. Tell once that a name of the catalogue means this model. */
static void tell_alias(steno_models *m, const char *name, const struct steno_model_slot *slot)
{
    for (int i = 0; i < m->n_told; i++)
        if (!strncmp(m->told[i], name, MAX_NAME - 1))
            return;
    if (m->n_told == TOLD)
        return;
    snprintf(m->told[m->n_told++], MAX_NAME, "%s", name);
    steno_log(LOG_NOTICE, "requests for the model '%.80s' are served by %s (model.strict = no)",
              name, slot->name);
}

/* Lock held. The model that a name of the catalogue means: the one of this name or alias, else the
 * default. NULL: the catalogue does not have the name. */
static struct steno_model_slot *find_other(steno_models *m, const char *name)
{
    const struct steno_catalogue_model *model = steno_catalogue_find(m->catalogue, name);
    struct steno_model_slot *slot = m->first;
    if (model)
        while (slot &&
               (slot->gone || slot->of || steno_catalogue_find(m->catalogue, slot->name) != model))
            slot = slot->next;
    else if (!steno_catalogue_client(m->catalogue, name))
        return NULL;
    slot = slot ? slot : m->first;
    tell_alias(m, name, slot);
    return slot;
}

/* Lock held. */
static struct steno_model_slot *find_slot(steno_models *m, const char *name)
{
    for (struct steno_model_slot *s = m->first; s; s = s->next)
        if (!s->gone && !s->of && !strcmp(s->name, name))
            return s;
    if (!*name || is_alias(m->conf->aliases, name))
        return m->first;
    return m->conf->strict ? NULL : find_other(m, name);
}

static steno_status unknown(steno_models *m, const char *name, steno_err *err)
{
    char names[sizeof err->msg];
    size_t at = 0;
    for (struct steno_model_slot *s = m->first; s && at < sizeof names; s = s->next)
        if (!s->gone && !s->of)
            at +=
                (size_t)snprintf(names + at, sizeof names - at, "%s'%s'", at ? ", " : "", s->name);
    return steno_fail(err, STENO_ERR_INVAL, "the model '%.80s' does not exist; known: %s", name,
                      names);
}

static void set_name(struct steno_model_slot *s, const char *name)
{
    char suffix[STENO_OPTIONS_LABEL];
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->label, sizeof s->label, "%s%s", s->name, steno_options_label(&s->options, suffix));
}

/* Lock held. NULL when out of memory. */
static struct steno_model_slot *add_slot(steno_models *m, const char *name, const char *dir)
{
    struct steno_model_slot *s = calloc(1, sizeof *s);
    if (s)
        s->dir = strdup(dir);
    if (!s || !s->dir) {
        free(s);
        return NULL;
    }
    set_name(s, name);
    s->last.name = s->label;
    s->models = m;
    *m->last = s;
    m->last = &s->next;
    return s;
}

/* Add slots for the directories of a directory that are neither hidden nor a detector of speech or
 * ends of turns, networks that tell speakers apart or write marks, or a grammar. Lock held. */
static void scan_dir(steno_models *m, const char *dir, DIR *d)
{
    struct dirent *e;
    while ((e = readdir(d))) {
        char path[4096];
        struct steno_model_slot *s = m->first;
        DIR *sub;
        if (*e->d_name == '.' || strlen(e->d_name) >= MAX_NAME ||
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= (int)sizeof path ||
            steno_vad_is_dir(path) || steno_speakers_is_dir(path) || steno_itn_is_dir(path) ||
            steno_punctuator_is_dir(path) || steno_turn_detector_is_dir(path) ||
            !(sub = opendir(path)))
            continue;
        closedir(sub);
        while (s && (s->of || strcmp(s->name, e->d_name)))
            s = s->next;
        if (s)
            s->gone = false;
        else if (!add_slot(m, e->d_name, path))
            break;
    }
}

/* Directory i whose models requests may name; false past the last one. Without a configured model
 * the fetched ones are served, so all of them are. */
static bool models_dir(const steno_models *m, size_t i, char out[STENO_PLACE_MAX])
{
    if (!*m->conf->models_dir)
        return !*m->conf->model && steno_place_models(out, i);
    return i == 0 && snprintf(out, STENO_PLACE_MAX, "%s", m->conf->models_dir) < STENO_PLACE_MAX;
}

/* A model of models.dir whose languages were not looked for yet; lock held. */
static struct steno_model_slot *next_unread(steno_models *m)
{
    struct steno_model_slot *s = m->first->next;
    while (s && (s->of || s->gone || s->read))
        s = s->next;
    return s;
}

/* Clients choose a model by its languages, also one that nobody has used yet. */
static void read_languages(steno_models *m)
{
    struct steno_model_slot *s;
    pthread_mutex_lock(&m->lock);
    while ((s = next_unread(m))) {
        struct steno_model_languages l;
        bool known;
        s->read = true;
        pthread_mutex_unlock(&m->lock);
        known = steno_model_languages(s->dir, &l);
        pthread_mutex_lock(&m->lock);
        if (!known || *s->last.family)
            continue;
        memcpy(s->last.language, l.language, sizeof l.language);
        memcpy(s->last.languages, l.languages, sizeof l.languages);
        s->last.translates = l.translates;
    }
    pthread_mutex_unlock(&m->lock);
}

/* Find the directories that exist now. */
static void scan(steno_models *m)
{
    char dir[STENO_PLACE_MAX];
    if (*m->conf->models_dir && access(m->conf->models_dir, R_OK)) {
        steno_log(LOG_ERR, "models.dir: %s cannot be read", m->conf->models_dir);
        return;
    }
    pthread_mutex_lock(&m->lock);
    for (struct steno_model_slot *s = m->first->next; s; s = s->next)
        s->gone = true;
    for (size_t i = 0; models_dir(m, i, dir); i++) {
        DIR *d = opendir(dir);
        if (!d)
            continue; /* nothing was fetched */
        scan_dir(m, dir, d);
        closedir(d);
    }
    for (struct steno_model_slot *s = m->first; s; s = s->next)
        if (s->of)
            s->gone = s->of->gone;
    pthread_mutex_unlock(&m->lock);
    read_languages(m);
}

/* ---- generations ----------------------------------------------------------------------------- */

static void close_served(struct steno_served *s)
{
    if (!s)
        return;
    steno_pool_close(s->pool);
    steno_model_close(s->model);
    free(s);
}

/* Say once, when the cost of a live stream is known, that nobody can use the model live here. */
static void warn_if_slow(const char *model, double each)
{
    if (each > 1)
        steno_log(LOG_WARNING,
                  "model %s is too slow for live use on this machine: a second of audio takes "
                  "%.1f s of a processor, so live results fall behind; uploads and jobs only take "
                  "longer",
                  model, each);
}

/* On any thread of the pool. */
static void on_measured(void *user, const struct steno_pool_costs *costs, bool quiet, double each)
{
    const struct steno_served *s = user;
    steno_err why;
    if (!costs) {
        steno_log(LOG_WARNING, "model %s: the cost of a stream could not be measured", s->info.dir);
        return;
    }
    if (each > 0) /* measured while it serves: replaces what was logged before */
        steno_log(LOG_NOTICE, "model %s: a live stream takes %.2f %% of a processor", s->info.dir,
                  100 * each);
    warn_if_slow(s->info.dir, each);
    if (steno_costs_store(&s->costs, costs, quiet, &why))
        steno_log(LOG_INFO, "pool.calibration: %s; the next start measures again", why.msg);
}

/* How the model is loaded and searched: what its costs depend on besides its files. */
static void describe_settings(const struct steno_config *conf, const struct steno_options *variant,
                              char *out, size_t size)
{
    char suffix[STENO_OPTIONS_LABEL];
    struct steno_option_list list;
    size_t at;
    steno_options_list(&conf->options, STENO_OPTION_OF_STREAM, &list);
    snprintf(out, size, "%s%s %s", conf->precision, steno_options_label(variant, suffix),
             conf->search ? conf->search : "");
    for (size_t i = 0; i < list.n && (at = strlen(out)) < size; i++)
        snprintf(out + at, size - at, " %s=%s", list.v[i].name, list.v[i].value);
}

/* Open the pool with the costs of an earlier start, if those were of the same model, machine and
 * search. */
static steno_status open_pool(steno_models *m, const char *dir, struct steno_served *s,
                              steno_err *err)
{
    struct steno_pool_options opt = m->pool;
    struct steno_pool_costs costs;
    struct steno_options options = {0};
    char how[2048];
    steno_status st = steno_config_search(m->conf, s->family, &options, &opt.trial, err);
    if (st)
        return st;
    steno_options_list(&options, STENO_OPTION_OF_STREAM, &s->trial_options);
    opt.trial.options = s->trial_options.v;
    opt.trial.n_options = s->trial_options.n;
    describe_settings(m->conf, &s->options, how, sizeof how);
    steno_costs_identify(&s->costs, m->conf->calibration, dir, how, opt.batch);
    if (steno_costs_load(&s->costs, &costs))
        opt.costs = &costs;
    opt.on_measured = on_measured;
    opt.measured_user = s;
    return steno_pool_open(&s->pool, s->model, &opt, err);
}

/* The configuration's options for a directory, without those that its family does not have. */
static struct steno_options configured(const struct steno_config *conf, const char *dir)
{
    struct steno_options o = conf->options;
    steno_options_keep(&o, STENO_OPTION_OF_MODEL, steno_model_family(dir));
    return steno_options_variant(&o);
}

/* Make the message name the model: requests know its name, not its directory, which the message may
 * begin with. */
static void name_model(steno_err *err, const char *dir, const char *name)
{
    char old[sizeof((steno_err *)0)->msg];
    const char *at;
    if (!err)
        return;
    memcpy(old, err->msg, sizeof old);
    at = strstr(old, dir);
    if (at)
        snprintf(err->msg, sizeof err->msg, "%.*sthe model '%s'%s", (int)(at - old), old, name,
                 at + strlen(dir));
    else
        snprintf(err->msg, sizeof err->msg, "%.900s (the model '%s')", old, name);
}

/* Find the variant of a directory that a request means; *io: the configuration's. STENO_ERR_INVAL:
 * the directory does not have what the request asks for. */
static steno_status resolve_variant(const char *name, const char *dir,
                                    const struct steno_options *want, struct steno_options *io,
                                    steno_err *err)
{
    struct steno_option_list list;
    struct steno_options all = *want;
    steno_status st;
    steno_options_complete(&all, io);
    all = steno_options_variant(&all);
    steno_options_list(&all, STENO_OPTION_OF_MODEL, &list);
    st = steno_model_check(dir, list.v, list.n, err);
    if (st == STENO_ERR_INVAL) {
        name_model(err, dir, name);
        return st;
    }
    *io = all; /* other errors of the directory are reported when it is loaded */
    return STENO_OK;
}

static steno_status name_setting(steno_status st, const char *key, steno_err *err)
{
    return st ? steno_fail_in(err, st, "%s", key) : STENO_OK;
}

/* slot: NULL while the default model has none. */
static steno_status load_dir(steno_models *m, const struct steno_model_slot *slot, const char *dir,
                             struct steno_served **out, steno_err *err)
{
    struct steno_served *s = calloc(1, sizeof *s);
    struct steno_model_options o = steno_model_options_default();
    struct steno_option_list list;
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    s->family = steno_model_family(dir);
    s->options = slot && slot->of ? slot->options : configured(m->conf, dir);
    steno_options_list(&s->options, STENO_OPTION_OF_MODEL, &list);
    o.options = list.v;
    o.n_options = list.n;
    (void)steno_precision_find(m->conf->precision, &o.precision); /* config.c has checked it */
    st = steno_model_open(&s->model, dir, &o, err);
    if (!st && *m->conf->grammars)
        st = name_setting(steno_model_use_grammars(s->model, m->conf->grammars, err),
                          "text.grammars", err);
    if (!st && *m->conf->punctuators)
        st = name_setting(steno_model_use_punctuators(s->model, m->conf->punctuators, err),
                          "text.punctuators", err);
    if (!st) {
        steno_model_get_info(s->model, &s->info);
        st = open_pool(m, dir, s, err);
    }
    if (st) {
        close_served(s);
        return st;
    }
    *out = s;
    return STENO_OK;
}

/* Lock held. Serve this generation from now on. The caller's next round closes the old one when
 * nobody uses it. */
static void publish(struct steno_model_slot *slot, struct steno_served *fresh)
{
    struct steno_models *m = slot->models;
    struct steno_pool_stats ps;
    if (slot->now) {
        slot->now->next = m->old;
        m->old = slot->now;
    }
    if (slot->is_default && !*slot->name)
        set_name(slot, fresh->info.name);
    fresh->name = slot->name;
    fresh->label = slot->label;
    fresh->slot = slot;
    slot->now = fresh;
    slot->generation++;
    slot->used_ns = steno_now_ns();
    slot->failed_ns = 0;
    slot->last.bytes = fresh->info.weight_bytes;
    snprintf(slot->last.family, sizeof slot->last.family, "%s", fresh->info.family);
    snprintf(slot->last.language, sizeof slot->last.language, "%s", fresh->info.language);
    snprintf(slot->last.languages, sizeof slot->last.languages, "%s", fresh->info.languages);
    slot->last.translates = fresh->info.translates;
    snprintf(slot->last.version, sizeof slot->last.version, "%s", fresh->info.version);
    snprintf(slot->last.license, sizeof slot->last.license, "%s", fresh->info.license);
    steno_pool_get_stats(fresh->pool, &ps);
    steno_log(LOG_NOTICE,
              "model %s%s%s (%s%s%s) from %s, generation %d: %d threads, batches of up to %d, %s%d "
              "streams at the pace of real time%s",
              slot->label, *fresh->info.version ? " " : "", fresh->info.version, fresh->info.family,
              *fresh->info.language ? ", " : "", fresh->info.language, slot->dir, slot->generation,
              ps.workers, ps.batch_max, ps.measuring ? "" : "about ", ps.capacity,
              ps.measuring ? " until the cost of one is measured" : "");
    warn_if_slow(slot->label, ps.each);
}

/* Lock held. Bytes of the weights of all loaded models. */
static size_t loaded_bytes(const steno_models *m)
{
    size_t sum = 0;
    for (const struct steno_model_slot *s = m->first; s; s = s->next)
        sum += s->now ? s->now->info.weight_bytes : 0;
    return sum;
}

/* Lock held. Stop serving the slot's generation. */
static void retire(steno_models *m, struct steno_model_slot *slot, const char *why)
{
    steno_log(LOG_NOTICE, "model %s unloaded: %s", slot->label, why);
    slot->now->next = m->old;
    m->old = slot->now;
    slot->now = NULL;
}

/* Lock held. While the loaded models exceed the limit, unload the one that was used longest ago. */
static void keep_budget(steno_models *m, const struct steno_model_slot *keep)
{
    size_t most = m->conf->models_memory;
    while (most && loaded_bytes(m) > most) {
        struct steno_model_slot *oldest = NULL;
        for (struct steno_model_slot *s = m->first; s; s = s->next)
            if (s->now && !s->is_default && s != keep && !s->now->users &&
                (!oldest || s->used_ns < oldest->used_ns))
                oldest = s;
        if (!oldest)
            return;
        retire(m, oldest, "models.memory");
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Lock held, released while loading. */
static void load_slot(steno_models *m, struct steno_model_slot *slot)
{
    struct steno_served *fresh = NULL;
    bool again = slot->reload;
    steno_err err;
    steno_status st;
    slot->wanted = slot->reload = false;
    pthread_mutex_unlock(&m->lock);
    st = load_dir(m, slot, slot->dir, &fresh, &err);
    pthread_mutex_lock(&m->lock);
    slot->wanted = false; /* requests that came meanwhile wanted the same */
    if (!st && !again && m->conf->models_memory) {
        publish(slot, fresh);
        keep_budget(m, slot);
        if (loaded_bytes(m) > m->conf->models_memory) {
            st = steno_fail(&err, STENO_ERR_BUSY,
                            "the model '%s' (%zu bytes) does not fit models.memory beside those in "
                            "use",
                            slot->label, fresh->info.weight_bytes);
            retire(m, slot, "it does not fit models.memory");
        }
    } else if (!st) {
        publish(slot, fresh);
    }
    m->reloaded += again && !st;
    m->failed += again && st;
    if (!st)
        return;
    slot->failed_ns = steno_now_ns();
    slot->err = err;
    steno_log(LOG_ERR, "model %s: %s%s", slot->label, err.msg,
              again ? "; the old one serves on" : "");
}

/* Lock held, released while closing. True when a generation was closed. */
static bool reap(steno_models *m)
{
    for (struct steno_served **p = &m->old; *p; p = &(*p)->next)
        if (!(*p)->users) {
            struct steno_served *dead = *p;
            *p = dead->next;
            pthread_mutex_unlock(&m->lock);
            close_served(dead);
            pthread_mutex_lock(&m->lock);
            return true;
        }
    return false;
}

static void unload_idle(steno_models *m, int64_t now)
{
    double most = m->conf->models_idle;
    for (struct steno_model_slot *s = m->first; s; s = s->next)
        if (s->now && !s->is_default && !s->now->users && most > 0 &&
            (double)(now - s->used_ns) * 1e-9 > most)
            retire(m, s, "models.idle_unload");
}

static struct steno_model_slot *next_to_load(steno_models *m)
{
    for (struct steno_model_slot *s = m->first; s; s = s->next)
        if (s->wanted || s->reload)
            return s;
    return NULL;
}

static void *run_loader(void *arg)
{
    steno_models *m = arg;
    pthread_setname_np(pthread_self(), "models");
    pthread_mutex_lock(&m->lock);
    while (!m->stop) {
        struct steno_model_slot *slot = next_to_load(m);
        int64_t until = steno_now_ns() + SECOND;
        if (slot) {
            load_slot(m, slot);
            continue;
        }
        if (m->reloads) {
            m->reloads = 0;
            pthread_cond_broadcast(&m->idle);
        }
        unload_idle(m, steno_now_ns());
        if (!reap(m))
            (void)steno_cond_wait_until(&m->work, &m->lock, until);
    }
    m->reloads = 0;
    pthread_cond_broadcast(&m->idle);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- interface ------------------------------------------------------------------------------- */

static steno_status open_default(steno_models *m, steno_err *err)
{
    struct steno_served *s = NULL;
    struct steno_model_slot *slot = NULL;
    char *dir = NULL;
    steno_status st = steno_model_find(&dir, m->conf->model, err);
    if (!st)
        st = load_dir(m, NULL, dir, &s, err);
    if (!st && !(slot = add_slot(m, "", dir)))
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    free(dir);
    if (st) {
        char place[sizeof err->msg];
        close_served(s);
        return steno_config_place(m->conf, err->msg, place, sizeof place)
                   ? st /* it names its own setting */
                   : name_setting(st, "model.dir", err);
    }
    slot->is_default = true;
    publish(slot, s);
    return STENO_OK;
}

steno_status steno_models_open(steno_models **out, const struct steno_config *conf,
                               const struct steno_pool_options *pool, steno_err *err)
{
    steno_err why;
    steno_models *m = calloc(1, sizeof *m);
    steno_status st;
    if (!m)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    m->conf = conf;
    m->pool = *pool;
    m->last = &m->first;
    pthread_mutex_init(&m->lock, NULL);
    steno_cond_init(&m->work);
    pthread_cond_init(&m->idle, NULL);
    if (steno_catalogue_open(&m->catalogue, NULL, &why))
        steno_log(LOG_WARNING, "no other names of models: %s", why.msg);
    st = open_default(m, err);
    if (!st) {
        scan(m);
        m->running = !pthread_create(&m->thread, NULL, run_loader, m);
        if (!m->running)
            st = steno_fail(err, STENO_ERR_INTERNAL, "models: cannot make a thread");
    }
    if (st) {
        steno_models_close(m);
        return st;
    }
    *out = m;
    return STENO_OK;
}

void steno_models_close(steno_models *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_broadcast(&m->work);
    pthread_mutex_unlock(&m->lock);
    if (m->running)
        pthread_join(m->thread, NULL);
    while (m->old) {
        struct steno_served *next = m->old->next;
        close_served(m->old);
        m->old = next;
    }
    while (m->first) {
        struct steno_model_slot *next = m->first->next;
        close_served(m->first->now);
        free(m->first->dir);
        free(m->first);
        m->first = next;
    }
    pthread_cond_destroy(&m->work);
    pthread_cond_destroy(&m->idle);
    pthread_mutex_destroy(&m->lock);
    steno_catalogue_close(m->catalogue);
    free(m);
}

/* Lock held. */
static steno_status not_loaded(struct steno_model_slot *slot, int64_t now, steno_err *err)
{
    bool failed = slot->failed_ns && now - slot->failed_ns < RETRY_NS;
    if (failed && slot->err.code == STENO_ERR_BUSY)
        return steno_fail(err, STENO_ERR_BUSY, "%s", slot->err.msg);
    if (failed) /* the reason names files of the server, which are no client's business */
        return steno_fail(err, STENO_ERR_INTERNAL,
                          "the model '%s' could not be loaded; the server's log says why",
                          slot->label);
    slot->wanted = true;
    pthread_cond_signal(&slot->models->work);
    return steno_fail(err, STENO_ERR_BUSY, "the model '%s' is being loaded", slot->label);
}

/* Lock held. The slot of a variant, made if needed. NULL when out of memory. */
static struct steno_model_slot *variant_of(struct steno_model_slot *base,
                                           const struct steno_options *options)
{
    struct steno_model_slot *s;
    for (s = base->next; s; s = s->next)
        if (s->of == base && steno_options_equal(&s->options, options))
            return s;
    s = add_slot(base->models, base->name, base->dir);
    if (!s)
        return NULL;
    s->of = base;
    s->options = *options;
    s->gone = base->gone;
    set_name(s, base->name);
    return s;
}

/* Lock held. The slot that serves what is wanted. Directories are checked, but no file is read. */
static steno_status find_wanted(steno_models *m, const char *name, const struct steno_options *want,
                                struct steno_model_slot **out, steno_err *err)
{
    struct steno_model_slot *slot = find_slot(m, name);
    struct steno_options own, options;
    steno_status st;
    if (!slot)
        return unknown(m, name, err);
    *out = slot;
    if (!want || !want->n)
        return STENO_OK;
    own = options = configured(m->conf, slot->dir);
    st = resolve_variant(slot->name, slot->dir, want, &options, err);
    if (st || steno_options_equal(&options, &own))
        return st;
    *out = variant_of(slot, &options);
    return *out ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

steno_status steno_models_acquire(steno_models *m, const char *name,
                                  const struct steno_options *want, struct steno_served **out,
                                  steno_err *err)
{
    struct steno_model_slot *slot = NULL;
    steno_status st;
    pthread_mutex_lock(&m->lock);
    st = find_wanted(m, name ? name : "", want, &slot, err);
    if (!st && !slot->now) {
        st = not_loaded(slot, steno_now_ns(), err);
    } else if (!st) {
        slot->now->users++;
        slot->used_ns = steno_now_ns();
        *out = slot->now;
    }
    pthread_mutex_unlock(&m->lock);
    return st;
}

steno_status steno_models_acquire_aligner(steno_models *m, const char *language,
                                          struct steno_served **out, steno_err *err)
{
    const char *list = m->conf->align_model;
    char name[STENO_ALIGNER_NAME];
    *out = NULL;
    if (!*list)
        return steno_fail(err, STENO_ERR_INVAL,
                          STENO_WORD_TIMES ": aligned needs a model that aligns, and the server "
                                           "has none (align.model)");
    return steno_aligners_find(list, language, name) ? steno_models_acquire(m, name, NULL, out, err)
                                                     : STENO_OK;
}

void steno_models_release(steno_models *m, struct steno_served *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&m->lock);
    s->slot->used_ns = steno_now_ns();
    if (!--s->users)
        pthread_cond_signal(&m->work);
    pthread_mutex_unlock(&m->lock);
}

steno_status steno_models_check(steno_models *m, const char *name, steno_err *err)
{
    steno_status st = STENO_OK;
    pthread_mutex_lock(&m->lock);
    if (!find_slot(m, name ? name : ""))
        st = unknown(m, name, err);
    pthread_mutex_unlock(&m->lock);
    return st;
}

struct steno_model_slot *steno_models_named(steno_models *m, const char *name)
{
    struct steno_model_slot *slot;
    pthread_mutex_lock(&m->lock);
    slot = find_slot(m, name);
    pthread_mutex_unlock(&m->lock);
    return slot;
}

void steno_models_reload(steno_models *m, int *reloaded, int *failed)
{
    scan(m);
    pthread_mutex_lock(&m->lock);
    m->reloaded = m->failed = 0;
    for (struct steno_model_slot *s = m->first; s; s = s->next)
        s->reload = s->now && !s->gone;
    m->reloads++;
    pthread_cond_signal(&m->work);
    while (m->reloads && !m->stop)
        pthread_cond_wait(&m->idle, &m->lock);
    *reloaded = m->reloaded;
    *failed = m->failed;
    pthread_mutex_unlock(&m->lock);
}

struct steno_model_slot *steno_models_slot(steno_models *m, size_t i)
{
    struct steno_model_slot *s;
    pthread_mutex_lock(&m->lock);
    for (s = m->first; s && i; s = s->next)
        i--;
    pthread_mutex_unlock(&m->lock);
    return s;
}

struct steno_model_slot *steno_models_next_new(steno_models *m)
{
    struct steno_model_slot *s;
    pthread_mutex_lock(&m->lock);
    for (s = m->first; s && (s->told || (s->of && !s->generation)); s = s->next)
        ;
    if (s)
        s->told = true;
    pthread_mutex_unlock(&m->lock);
    return s;
}

void steno_model_slot_view(struct steno_model_slot *slot, struct steno_model_view *out)
{
    pthread_mutex_lock(&slot->models->lock);
    *out = slot->last;
    out->is_default = slot->is_default;
    out->is_variant = slot->of != NULL;
    out->generation = slot->generation;
    out->loaded = slot->now != NULL;
    if (slot->now) {
        out->users = slot->now->users;
        steno_pool_get_stats(slot->now->pool, &out->pool);
    }
    pthread_mutex_unlock(&slot->models->lock);
}

static bool stuck_in(steno_pool *pool, int workers, int64_t since_ns, int *worker, int64_t *at_ns)
{
    for (int i = 0; i < workers; i++) {
        struct steno_pool_heartbeat b = steno_pool_worker_heartbeat(pool, i);
        if (b.busy && b.since_ns < since_ns) {
            *worker = i;
            *at_ns = b.since_ns;
            return true;
        }
    }
    return false;
}

bool steno_models_find_stuck(steno_models *m, int64_t since_ns, int *worker, int64_t *at_ns)
{
    bool found = false;
    pthread_mutex_lock(&m->lock);
    for (struct steno_model_slot *s = m->first; s && !found; s = s->next) {
        struct steno_pool_stats ps;
        if (!s->now)
            continue;
        steno_pool_get_stats(s->now->pool, &ps);
        found = stuck_in(s->now->pool, ps.workers, since_ns, worker, at_ns);
    }
    pthread_mutex_unlock(&m->lock);
    return found;
}
