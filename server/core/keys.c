#include "server/core/keys.h"

#include "server/core/word_list.h"
#include "server/port/retry_spreader.h"

#include "base/clock.h"
#include "base/hash.h"

#include <errno.h>
#include <ini.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define MAX_FILE (4u << 20)
#define VOCABULARY_MAX ((size_t)1 << 16) /* bytes */

/* A token bucket: the amount of one minute, and what is left of it. */
struct bucket {
    double per_minute; /* 0 = no limit */
    double level;      /* may be negative: audio is counted only after it came */
    int64_t at_ns;
};

struct steno_key {
    struct steno_key *next;
    char name[STENO_KEY_NAME];
    char secret[STENO_KEY_MAX + 1];
    int max_sessions;
    char *vocabulary_file, *vocabulary; /* NULL: none; what it has, read at the same time */
    unsigned given;                     /* settings of its section, bits, while they are read */
    bool gone;                          /* no longer in the file */
    unsigned version;                   /* of the secret */
    int ephemeral;                      /* keys of it in the table */
    int sessions;
    struct bucket requests, audio;
    struct steno_retry_spreader spreader;
    uint64_t n_requests, n_refused;
    double audio_seconds;
    int64_t since;            /* s of 1970: the counts begin */
    struct steno_keys *table; /* that it is in */
};

/* A secret with an end, which has the rights of a key. */
struct ephemeral {
    char secret[48]; /* "": free */
    struct steno_key *key;
    unsigned version; /* of its secret */
    int64_t until_ns;
    char *session;
};

struct steno_keys {
    pthread_mutex_t lock; /* guards everything below */
    struct steno_key *first;
    struct ephemeral *ephemeral; /* [STENO_EPHEMERAL_KEYS]; NULL before the first one */
    bool asked;                  /* keys are required */
    char *vocabulary;            /* of all keys; NULL: none */
    size_t told;                 /* keys that steno_keys_next_new has returned */
};

/* ---- buckets --------------------------------------------------------------------------------- */

static void refill(struct bucket *b, int64_t now)
{
    if (!b->at_ns)
        b->level = b->per_minute;
    else if (now > b->at_ns)
        b->level =
            fmin(b->per_minute, b->level + b->per_minute * (double)(now - b->at_ns) * 1e-9 / 60);
    b->at_ns = now;
}

/* s until the bucket has `amount`. */
static double wait_for(const struct bucket *b, double amount)
{
    return (amount - b->level) * 60 / b->per_minute;
}

/* ---- the file -------------------------------------------------------------------------------- */

struct reading {
    const char *name;
    struct steno_key *first, **last;
    int n;
    steno_status status;
    steno_err *err;
};

static int wrong_section(struct reading *r, const char *section, const char *what)
{
    if (!r->status)
        r->status = steno_fail(r->err, STENO_ERR_INVAL, "%s: [%.48s] %s", r->name, section, what);
    return 0;
}

static bool is_name(const char *name)
{
    return *name && strlen(name) < STENO_KEY_NAME &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
               strlen(name);
}

static struct steno_key *key_of_section(struct reading *r, const char *section)
{
    struct steno_key *k;
    for (k = r->first; k; k = k->next)
        if (!strcmp(k->name, section))
            return k;
    if (!is_name(section)) {
        wrong_section(r, section,
                      "is not a valid key name: at most 47 of letters, digits, '-', '_', '.'");
        return NULL;
    }
    k = ++r->n > STENO_KEYS_MAX ? NULL : calloc(1, sizeof *k);
    if (!k) {
        r->status =
            steno_fail(r->err, r->n > STENO_KEYS_MAX ? STENO_ERR_LIMIT : STENO_ERR_NOMEM, "%s: %s",
                       r->name, r->n > STENO_KEYS_MAX ? "more than 10000 keys" : "out of memory");
        return NULL;
    }
    memcpy(k->name, section, strlen(section) + 1);
    *r->last = k;
    r->last = &k->next;
    return k;
}

enum key_setting { KEY_SECRET, KEY_SESSIONS, KEY_AUDIO, KEY_REQUESTS, KEY_VOCABULARY };
static const char *const key_settings[] = {"key", "sessions", "audio_per_minute",
                                           "requests_per_minute", "vocabulary"};
#define KEY_SETTINGS (sizeof key_settings / sizeof *key_settings)

/* Read a quota: 0 for none, or enough that the key is of use. Bad values are not whole where only
 * whole ones count, or less than one request. */
static bool read_amount(const char *text, enum key_setting setting, double *out)
{
    const size_t n = strspn(text, "0123456789.");
    char *end;
    if (!n)
        return false;
    *out = strtod(text, &end);
    if (end != text + n)
        return false;
    if (setting == KEY_AUDIO && *end == 's')
        end++;
    return !*end && *out <= 1e9 && (setting != KEY_SESSIONS || floor(*out) == *out) &&
           (setting != KEY_REQUESTS || *out == 0 || *out >= 1);
}

static int read_quota(struct reading *r, struct steno_key *k, enum key_setting setting,
                      const char *value)
{
    static const char *const hints[] = {[KEY_SESSIONS] = "a whole number",
                                        [KEY_AUDIO] = "a number of seconds such as 1800s",
                                        [KEY_REQUESTS] = "0, or a number from 1 on"};
    char what[96]; /* without the value: it may be a secret on the wrong line */
    double v;
    if (!read_amount(value, setting, &v)) {
        snprintf(what, sizeof what, "%s: is not %s", key_settings[setting], hints[setting]);
        return wrong_section(r, k->name, what);
    }
    if (setting == KEY_SESSIONS)
        k->max_sessions = (int)v;
    else if (setting == KEY_AUDIO)
        k->audio.per_minute = v;
    else
        k->requests.per_minute = v;
    return 1;
}

static int on_value(void *user, const char *section, const char *key, const char *value)
{
    struct reading *r = user;
    struct steno_key *k = r->status ? NULL : key_of_section(r, section);
    const size_t n = strlen(value);
    size_t setting = 0;
    char twice[64];
    if (!k)
        return 0;
    while (setting < KEY_SETTINGS && strcmp(key, key_settings[setting]))
        setting++;
    if (setting == KEY_SETTINGS)
        return wrong_section(r, section,
                             "has an unknown setting; known are key, sessions, audio_per_minute, "
                             "requests_per_minute, vocabulary");
    snprintf(twice, sizeof twice, "%s is given twice", key);
    if (k->given & 1u << setting)
        return wrong_section(r, section, twice);
    k->given |= 1u << setting;
    if (setting == KEY_VOCABULARY) {
        k->vocabulary_file = strdup(value);
        return k->vocabulary_file ? 1 : wrong_section(r, section, "out of memory");
    }
    if (setting != KEY_SECRET)
        return read_quota(r, k, (enum key_setting)setting, value);
    if (n < STENO_KEY_MIN || n > STENO_KEY_MAX)
        return wrong_section(r, section, "key: must have 16 to 256 characters");
    memcpy(k->secret, value, n + 1);
    return 1;
}

static void free_list(struct steno_key *k)
{
    while (k) {
        struct steno_key *next = k->next;
        explicit_bzero(k->secret, sizeof k->secret);
        free(k->vocabulary_file);
        free(k->vocabulary);
        free(k);
        k = next;
    }
}

static steno_status check_list(struct reading *r)
{
    for (struct steno_key *k = r->first; k; k = k->next) {
        if (!*k->secret)
            wrong_section(r, k->name, "has no key");
        for (struct steno_key *o = r->first; o != k; o = o->next)
            if (!strcmp(o->secret, k->secret))
                wrong_section(r, k->name, "has the key of another section");
    }
    return r->status;
}

static void swap_texts(char **a, char **b)
{
    char *const was = *a;
    *a = *b;
    *b = was;
}

/* Replace the old list by the one that was read. Lock held. A key keeps the use counted under its
 * name. Removed keys stay for their sessions. */
static void replace_keys(steno_keys *ks, struct steno_key *fresh)
{
    const int64_t now = (int64_t)time(NULL);
    for (struct steno_key *k = ks->first; k; k = k->next) {
        k->version += k->gone;
        k->gone = true;
    }
    while (fresh) {
        struct steno_key *next = fresh->next, *k = ks->first, **end = &ks->first;
        for (; k && strcmp(k->name, fresh->name); k = k->next)
            end = &k->next;
        if (k) {
            k->version += strcmp(k->secret, fresh->secret) != 0;
            memcpy(k->secret, fresh->secret, sizeof k->secret);
            k->max_sessions = fresh->max_sessions;
            k->requests.per_minute = fresh->requests.per_minute;
            k->audio.per_minute = fresh->audio.per_minute;
            k->gone = false;
            swap_texts(&k->vocabulary, &fresh->vocabulary);
            fresh->next = NULL;
            free_list(fresh);
        } else {
            fresh->next = NULL;
            fresh->since = now;
            fresh->table = ks;
            *end = fresh;
        }
        fresh = next;
    }
    ks->asked = true;
}

static steno_status read_vocabularies(struct reading *r)
{
    for (struct steno_key *k = r->first; k && !r->status; k = k->next) {
        if (!k->vocabulary_file || !*k->vocabulary_file)
            continue;
        r->status =
            steno_word_list_read(&k->vocabulary, k->vocabulary_file, VOCABULARY_MAX, r->err);
        if (r->status)
            (void)steno_fail_in(r->err, r->status, "%s", k->name);
    }
    return r->status;
}

static steno_status read_keys(steno_keys *k, const char *name, const char *text, size_t len,
                              bool files, steno_err *err)
{
    struct reading r = {.name = name, .err = err};
    char *copy = malloc(len + 1);
    int rc;
    r.last = &r.first;
    if (!copy)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    memcpy(copy, text, len);
    copy[len] = '\0';
    rc = memchr(text, '\0', len) ? 1 : ini_parse_string(copy, on_value, &r);
    explicit_bzero(copy, len);
    free(copy);
    if (rc && !r.status)
        r.status = steno_fail(err, rc > 0 ? STENO_ERR_INVAL : STENO_ERR_NOMEM,
                              "%s:%d: neither [section], KEY = VALUE nor comment", name, rc);
    if (r.status || check_list(&r) || (files && read_vocabularies(&r))) {
        free_list(r.first);
        return r.status;
    }
    pthread_mutex_lock(&k->lock);
    replace_keys(k, r.first);
    pthread_mutex_unlock(&k->lock);
    return STENO_OK;
}

steno_status steno_keys_read_text(steno_keys *k, const char *name, const char *text, size_t len,
                                  steno_err *err)
{
    return read_keys(k, name, text, len, false, err);
}

steno_status steno_keys_read_vocabulary(steno_keys *k, const char *path, steno_err *err)
{
    char *fresh = NULL;
    steno_status st = *path ? steno_word_list_read(&fresh, path, VOCABULARY_MAX, err) : STENO_OK;
    if (st)
        return st;
    pthread_mutex_lock(&k->lock);
    swap_texts(&k->vocabulary, &fresh);
    pthread_mutex_unlock(&k->lock);
    free(fresh);
    return STENO_OK;
}

steno_status steno_keys_vocabulary(steno_keys *k, const steno_key *key, char **out, steno_err *err)
{
    const char *own, *all;
    bool any;
    *out = NULL;
    pthread_mutex_lock(&k->lock);
    own = key && key->vocabulary ? key->vocabulary : "";
    all = k->vocabulary ? k->vocabulary : "";
    any = *own || *all;
    if (any && (*out = malloc(strlen(own) + strlen(all) + 2)))
        stpcpy(stpcpy(stpcpy(*out, own), "\n"), all);
    pthread_mutex_unlock(&k->lock);
    return any && !*out ? steno_fail(err, STENO_ERR_NOMEM, "vocabulary: out of memory") : STENO_OK;
}

steno_status steno_keys_reload(steno_keys *k, const char *path, steno_err *err)
{
    steno_status st;
    size_t n;
    char *text;
    FILE *f;
    if (!path || !*path)
        return STENO_OK;
    f = fopen(path, "re");
    if (!f)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    text = malloc(MAX_FILE + 1);
    n = text ? fread(text, 1, MAX_FILE + 1, f) : 0;
    if (!text)
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    else if (ferror(f))
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    else if (n > MAX_FILE)
        st = steno_fail(err, STENO_ERR_LIMIT, "%s: larger than %u bytes", path, MAX_FILE);
    else
        st = read_keys(k, path, text, n, true, err);
    if (text)
        explicit_bzero(text, n);
    free(text);
    fclose(f);
    return st;
}

steno_status steno_keys_open(steno_keys **out, const char *path, steno_err *err)
{
    steno_status st;
    steno_keys *k = calloc(1, sizeof *k);
    if (!k)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    pthread_mutex_init(&k->lock, NULL);
    st = steno_keys_reload(k, path, err);
    if (st) {
        steno_keys_close(k);
        return st;
    }
    *out = k;
    return STENO_OK;
}

static void free_ephemeral(struct ephemeral *l)
{
    if (l->key)
        l->key->ephemeral--;
    free(l->session);
    explicit_bzero(l, sizeof *l);
}

void steno_keys_close(steno_keys *k)
{
    if (!k)
        return;
    for (size_t i = 0; k->ephemeral && i < STENO_EPHEMERAL_KEYS; i++)
        free_ephemeral(&k->ephemeral[i]);
    free(k->ephemeral);
    free_list(k->first);
    free(k->vocabulary);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

/* ---- sessions and quotas --------------------------------------------------------------------- */

const char *steno_key_of_authorization(const char *value)
{
    if (!value)
        return NULL;
    if (!strncasecmp(value, "Bearer ", 7))
        return value + 7 + strspn(value + 7, " ");
    if (!strncasecmp(value, "Token ", 6))
        return value + 6 + strspn(value + 6, " ");
    return NULL;
}

/* Compare every byte, whatever the first ones are. `secret` is a whole array. */
static bool same_secret(const char *secret, const char *given, size_t n)
{
    unsigned diff = strlen(secret) != n;
    for (size_t i = 0; i < n && i < STENO_KEY_MAX; i++)
        diff |= (unsigned char)secret[i] ^ (unsigned char)given[i];
    return !diff;
}

/* Lock held. Whether it has not ended, nor its key's secret. */
static bool lives(const struct ephemeral *l, int64_t now)
{
    return *l->secret && l->until_ns > now &&
           !(l->key && (l->key->gone || l->key->version != l->version));
}

/* Lock held. The secret in the table that lives. */
static struct ephemeral *find_ephemeral(steno_keys *k, const char *secret)
{
    const size_t n = strlen(secret);
    const int64_t now = steno_now_ns();
    struct ephemeral *found = NULL;
    for (size_t i = 0; k->ephemeral && n && i < STENO_EPHEMERAL_KEYS; i++) {
        struct ephemeral *l = &k->ephemeral[i];
        if (lives(l, now) && same_secret(l->secret, secret, n))
            found = l;
    }
    return found;
}

static int number_of(const struct ephemeral *l)
{
    return l->key ? l->key->ephemeral : 0;
}

/* Lock held. The place for a new one: a free one, or one of the keys that have most. */
static struct ephemeral *make_place(steno_keys *k)
{
    const int64_t now = steno_now_ns();
    struct ephemeral *to = k->ephemeral;
    for (size_t i = 0; i < STENO_EPHEMERAL_KEYS; i++) {
        struct ephemeral *l = &k->ephemeral[i];
        const int more = number_of(l) - number_of(to);
        if (!lives(l, now))
            return l;
        if (more > 0 || (!more && l->until_ns < to->until_ns))
            to = l;
    }
    return to;
}

steno_status steno_keys_add_ephemeral(steno_keys *k, steno_key *key, const char *secret,
                                      int64_t until_ns, const char *session)
{
    char *copy = strdup(session);
    struct ephemeral *to;
    pthread_mutex_lock(&k->lock);
    if (!k->ephemeral)
        k->ephemeral = calloc(STENO_EPHEMERAL_KEYS, sizeof *k->ephemeral);
    to = k->ephemeral ? make_place(k) : NULL;
    if (to && copy) {
        free_ephemeral(to);
        snprintf(to->secret, sizeof to->secret, "%s", secret);
        to->key = key;
        to->version = key ? key->version : 0;
        if (key)
            key->ephemeral++;
        to->until_ns = until_ns;
        to->session = copy;
    }
    pthread_mutex_unlock(&k->lock);
    if (to && copy)
        return STENO_OK;
    free(copy);
    return STENO_ERR_NOMEM;
}

char *steno_keys_session(steno_keys *k, const char *secret)
{
    struct ephemeral *l;
    char *copy;
    pthread_mutex_lock(&k->lock);
    l = find_ephemeral(k, secret);
    copy = l ? strdup(l->session) : NULL;
    pthread_mutex_unlock(&k->lock);
    return copy;
}

bool steno_keys_required(steno_keys *k)
{
    bool asked;
    pthread_mutex_lock(&k->lock);
    asked = k->asked;
    pthread_mutex_unlock(&k->lock);
    return asked;
}

steno_status steno_keys_find(steno_keys *k, const char *secret, steno_key **out, steno_err *err)
{
    size_t n = secret ? strlen(secret) : 0;
    steno_key *found = NULL;
    struct ephemeral *ephemeral;
    bool asked;
    pthread_mutex_lock(&k->lock);
    asked = k->asked;
    for (steno_key *i = k->first; i && n && n <= STENO_KEY_MAX; i = i->next)
        if (!i->gone && same_secret(i->secret, secret, n))
            found = i;
    ephemeral = find_ephemeral(k, n ? secret : "");
    if (ephemeral)
        found = ephemeral->key;
    pthread_mutex_unlock(&k->lock);
    if (asked && !found && !ephemeral)
        return steno_fail(err, STENO_ERR_INVAL,
                          n ? "unknown API key"
                            : "an API key is required: Authorization: Bearer KEY");
    *out = found;
    return STENO_OK;
}

steno_status steno_keys_named(steno_keys *k, const char *name, steno_key **out, steno_err *err)
{
    steno_key *found = NULL;
    bool asked;
    pthread_mutex_lock(&k->lock);
    asked = k->asked;
    for (steno_key *i = k->first; i; i = i->next)
        if (!i->gone && !strcmp(i->name, name))
            found = i;
    pthread_mutex_unlock(&k->lock);
    if (asked && !found)
        return steno_fail(err, STENO_ERR_INVAL, "no API key is named '%s'", name);
    *out = found;
    return STENO_OK;
}

const char *steno_key_name(const steno_key *key)
{
    return key ? key->name : "";
}

uint64_t steno_key_owner(const steno_key *key)
{
    return key ? steno_hash_text(STENO_HASH, steno_key_name(key)) | 1 : 0;
}

/* Lock held. The quota that is used up; NULL when there is none. */
static const char *over_quota(const steno_key *key, int places, double *wait)
{
    *wait = 1;
    if (places && key->max_sessions && key->sessions >= key->max_sessions)
        return "its limit of concurrent sessions is reached";
    if (key->requests.per_minute > 0 && key->requests.level < 1) {
        *wait = wait_for(&key->requests, 1);
        return "its requests per minute are used up";
    }
    if (places && key->audio.per_minute > 0 && key->audio.level <= 0) {
        *wait = wait_for(&key->audio, 1);
        return "its audio per minute is used up";
    }
    return NULL;
}

/* Count a request that takes so many places. */
static steno_status key_take(steno_keys *k, steno_key *key, int places, int64_t now_ns,
                             double *retry_after, steno_err *err)
{
    const char *why;
    double wait;
    if (!key)
        return STENO_OK;
    pthread_mutex_lock(&k->lock);
    refill(&key->requests, now_ns);
    refill(&key->audio, now_ns);
    why = over_quota(key, places, &wait);
    if (why) {
        *retry_after = steno_retry_spreader_next(&key->spreader, now_ns, wait);
        key->n_refused++;
    } else {
        key->sessions += places;
        key->n_requests++;
        key->requests.level -= 1;
    }
    pthread_mutex_unlock(&k->lock);
    return why ? steno_fail(err, STENO_ERR_BUSY, "the key '%s': %s", key->name, why) : STENO_OK;
}

steno_status steno_key_enter(steno_keys *k, steno_key *key, int64_t now_ns, double *retry_after,
                             steno_err *err)
{
    return key_take(k, key, 1, now_ns, retry_after, err);
}

steno_status steno_key_request(steno_keys *k, steno_key *key, int64_t now_ns, double *retry_after,
                               steno_err *err)
{
    return key_take(k, key, 0, now_ns, retry_after, err);
}

void steno_key_leave(steno_keys *k, steno_key *key)
{
    if (!key)
        return;
    pthread_mutex_lock(&k->lock);
    key->sessions--;
    pthread_mutex_unlock(&k->lock);
}

steno_status steno_key_audio(steno_keys *k, steno_key *key, int64_t now_ns, double seconds,
                             double *retry_after, steno_err *err)
{
    bool over;
    if (!key)
        return STENO_OK;
    pthread_mutex_lock(&k->lock);
    refill(&key->audio, now_ns);
    over = key->audio.per_minute > 0 && key->audio.level <= 0;
    if (over && retry_after)
        *retry_after = steno_retry_spreader_next(&key->spreader, now_ns, wait_for(&key->audio, 1));
    if (!over)
        key->audio.level -= seconds;
    key->audio_seconds += seconds;
    pthread_mutex_unlock(&k->lock);
    return over ? steno_fail(err, STENO_ERR_BUSY, "the key '%s': its audio per minute is used up",
                             key->name)
                : STENO_OK;
}

/* Lock held. */
static struct steno_key_use use_of(const steno_key *key)
{
    return (struct steno_key_use){.name = key->name,
                                  .sessions = key->sessions,
                                  .requests = key->n_requests,
                                  .refused = key->n_refused,
                                  .audio_seconds = key->audio_seconds,
                                  .since = key->since,
                                  .max_sessions = key->max_sessions,
                                  .requests_per_minute = key->requests.per_minute,
                                  .audio_per_minute = key->audio.per_minute};
}

void steno_key_get_use(steno_key *key, struct steno_key_use *out)
{
    pthread_mutex_lock(&key->table->lock);
    *out = use_of(key);
    pthread_mutex_unlock(&key->table->lock);
}

steno_key *steno_keys_next_new(steno_keys *k)
{
    steno_key *key;
    size_t i;
    pthread_mutex_lock(&k->lock);
    i = k->told;
    for (key = k->first; key && i; key = key->next)
        i--;
    if (key)
        k->told++;
    pthread_mutex_unlock(&k->lock);
    return key;
}

/* ---- usage that outlives the process --------------------------------------------------------- */

#define USAGE_HEAD "steno usage 1"

steno_status steno_keys_write_usage(steno_keys *k, struct steno_buf *out)
{
    steno_status st = steno_buf_puts(out, USAGE_HEAD "\n");
    pthread_mutex_lock(&k->lock);
    for (const steno_key *i = k->first; i && !st; i = i->next)
        if (i->n_requests || i->n_refused || i->audio_seconds > 0)
            st = steno_buf_printf(out, "%s %lld %llu %llu %.3f\n", i->name, (long long)i->since,
                                  (unsigned long long)i->n_requests,
                                  (unsigned long long)i->n_refused, i->audio_seconds);
    pthread_mutex_unlock(&k->lock);
    return st;
}

struct usage {
    char name[STENO_KEY_NAME];
    int64_t since;
    uint64_t requests, refused;
    double audio_seconds;
};

/* A number of digits alone: sscanf would take signs and wrap. */
static bool read_digits(const char *text, size_t digits, uint64_t *out)
{
    const size_t n = strlen(text);
    *out = strtoull(text, NULL, 10);
    return n && n <= digits && strspn(text, "0123456789") == n;
}

/* Read "NAME SINCE REQUESTS REFUSED SECONDS". line is changed. */
static bool read_usage_line(char *line, struct usage *u)
{
    char *rest = line, *name = strsep(&rest, " "), *since = strsep(&rest, " "),
         *requests = strsep(&rest, " "), *refused = strsep(&rest, " ");
    uint64_t from;
    if (!rest || !is_name(name) || !read_digits(since, 15, &from) ||
        !read_digits(requests, 18, &u->requests) || !read_digits(refused, 18, &u->refused) ||
        !*rest || strlen(rest) > 24 || strspn(rest, "0123456789.") != strlen(rest))
        return false;
    u->since = (int64_t)from;
    u->audio_seconds = strtod(rest, &rest);
    memcpy(u->name, name, strlen(name) + 1);
    return !*rest;
}

/* Lock held. The key of that name; one that is not in the file is made. */
static steno_key *key_to_restore(steno_keys *ks, const char *name)
{
    steno_key **end = &ks->first;
    for (; *end; end = &(*end)->next)
        if (!strcmp((*end)->name, name))
            return *end;
    *end = calloc(1, sizeof **end);
    if (*end) {
        snprintf((*end)->name, sizeof(*end)->name, "%s", name);
        (*end)->gone = true;
        (*end)->table = ks;
    }
    return *end;
}

/* Read every line of text, which is changed; with add: add them. */
static steno_status each_usage(steno_keys *k, const char *name, char *text, bool add,
                               steno_err *err)
{
    char *line;
    struct usage u;
    int n = 1;
    line = strsep(&text, "\n");
    if (strcmp(line, USAGE_HEAD))
        return steno_fail(err, STENO_ERR_FORMAT, "%s:1: not '" USAGE_HEAD "'", name);
    while ((line = strsep(&text, "\n"))) {
        steno_key *key;
        n++;
        if (!*line && !text)
            break;
        if (!read_usage_line(line, &u))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s:%d: not NAME SINCE REQUESTS REFUSED SECONDS", name, n);
        key = add ? key_to_restore(k, u.name) : NULL;
        if (add && !key)
            return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
        if (!key)
            continue;
        if (!key->since || u.since < key->since)
            key->since = u.since;
        key->n_requests += u.requests;
        key->n_refused += u.refused;
        key->audio_seconds += u.audio_seconds;
    }
    return STENO_OK;
}

steno_status steno_keys_read_usage(steno_keys *k, const char *name, const char *text, size_t len,
                                   steno_err *err)
{
    steno_status st = STENO_OK;
    for (int pass = 0; pass < 2 && !st; pass++) {
        char *copy = malloc(len + 1);
        if (!copy)
            return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
        if (len)
            memcpy(copy, text, len);
        copy[len] = '\0';
        pthread_mutex_lock(&k->lock);
        st = each_usage(k, name, copy, pass == 1, err);
        pthread_mutex_unlock(&k->lock);
        free(copy);
    }
    return st;
}
