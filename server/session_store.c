#define _GNU_SOURCE /* memmem */
/* Keys in Redis, all with the prefix "steno:live:" and the SHA-256 of the session's id in
 * hexadecimal, because who knows an id may take its session: hashes with the fields
 *
 *     token      of the machine that has the session
 *     owner      name of the API key
 *     head       protocol/session_head.h
 *     closed     its client ended it: nothing else is left of it but the token
 *     0, 1, ...  messages by seq, with byte 1 instead of the session's id
 *
 * A key lives for the time of websocket.resume after the connection was lost, or after the last
 * sign of life of its machine and a third of that time more, which is how often there is one. */
#include "server/session_store.h"

#include "base/clock.h"
#include "base/sha256.h"
#include "base/threads.h"
#include "server/history.h"
#include "server/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define SECOND INT64_C(1000000000)
#define BATCH 64 /* commands that are sent at once */
#define BATCH_BYTES (1u << 20)
#define MASK '\1'     /* stands for the id in a stored message; JSON has no such byte */
#define TOKEN_SIZE 40 /* with its NUL */

/* ---- scripts --------------------------------------------------------------------------------- */

/* hash, token, owner, ms to live, all or not, head, lost or "", then seq and text of messages */
static const char script_put[] =
    "local a,k=ARGV,'steno:live:'..ARGV[1]\n"
    "local t=redis.call('HGET',k,'token')\n"
    "if t and t~=a[2] then return 'taken' end\n"
    "if a[5]=='1' then redis.call('DEL',k) elseif not t then return 'gone' end\n"
    "redis.call('HSET',k,'token',a[2],'owner',a[3],'head',a[6])\n"
    "if a[7]~='' then local lost=tonumber(a[7])\n"
    "  for _,f in ipairs(redis.call('HKEYS',k)) do local n=tonumber(f)\n"
    "    if n and n<lost then redis.call('HDEL',k,f) end end end\n"
    "for i=8,#a,2 do redis.call('HSET',k,a[i],a[i+1]) end\n"
    "redis.call('PEXPIRE',k,a[4])\n"
    "return 'ok'\n";

/* hash, token, ms to live */
static const char script_touch[] = "local a,k=ARGV,'steno:live:'..ARGV[1]\n"
                                   "local t=redis.call('HGET',k,'token')\n"
                                   "if not t then return 'gone' end\n"
                                   "if t~=a[2] then return 'taken' end\n"
                                   "redis.call('PEXPIRE',k,a[3])\n"
                                   "return 'ok'\n";

/* hash, token, ms to live. The token stays, so that an earlier holder learns of its loss. */
static const char script_erase[] = "local a,k=ARGV,'steno:live:'..ARGV[1]\n"
                                   "if redis.call('HGET',k,'token')~=a[2] then return 'taken' end\n"
                                   "redis.call('DEL',k)\n"
                                   "redis.call('HSET',k,'token',a[2],'closed',1)\n"
                                   "redis.call('PEXPIRE',k,a[3])\n"
                                   "return 'ok'\n";

/* hash, new token, owner, token of the one that is here or "", ms to live */
static const char script_claim[] = "local a,k=ARGV,'steno:live:'..ARGV[1]\n"
                                   "local t=redis.call('HMGET',k,'token','owner','closed')\n"
                                   "if not t[1] then return {'none'} end\n"
                                   "if t[3] then return {'closed'} end\n"
                                   "if t[2]~=a[3] then return {'none'} end\n"
                                   "redis.call('PEXPIRE',k,a[5])\n"
                                   "if t[1]==a[4] then return {'yours'} end\n"
                                   "redis.call('HSET',k,'token',a[2])\n"
                                   "return {'taken',redis.call('HGETALL',k)}\n";

/* ---- state ----------------------------------------------------------------------------------- */

struct steno_stored_session {
    steno_session_store *store;
    struct steno_stored_session *next, **back; /* store->all */
    struct steno_stored_session *next_due;     /* store->due */
    bool in_due;
    void (*wake)(void *user); /* NULL once the session has left it */
    void *user;
    char id[48], owner[48], hash[STENO_SHA256_HEX], token[TOKEN_SIZE];
    /* what is to be stored */
    char *head; /* NULL: nothing */
    struct steno_buf records;
    uint64_t last, lost;
    bool all, touch, erase;
    /* what is stored */
    uint64_t stored; /* messages below it */
    bool fresh;      /* nothing was put yet */
    bool stale, taken;
    int64_t refused;  /* when Redis refused it, in ns: nothing is put for a second; 0 = never */
    int64_t touched;  /* when it was stored or touched, in ns */
    int64_t waits_ns; /* since when its client is away; 0 = it is not */
};

struct steno_session_store {
    struct steno_redis *redis;
    int64_t resume_ns;
    size_t bytes;
    pthread_t thread;
    bool running;
    int64_t quiet; /* of the thread: it refused something, and no line about that before */
    struct {
        steno_metric *up, *seconds, *writes, *here, *elsewhere, *failures, *unstored;
    } metrics;

    pthread_mutex_t lock; /* guards what follows, and the sessions */
    pthread_cond_t work;
    struct steno_stored_session *all;
    struct steno_stored_session *due, **last_due;
    struct steno_session_claim *claims, **last_claim;
    size_t waiting_bytes; /* of all records */
    int64_t next_touch, next_try;
    bool up, stop;
};

static int64_t to_ms(int64_t ns)
{
    return ns / 1000000;
}

/* How long the key of x is to live, in ms. */
static int64_t life_of(const struct steno_stored_session *x, int64_t now)
{
    const int64_t resume = x->store->resume_ns;
    int64_t left = x->waits_ns ? x->waits_ns + resume - now : resume + resume / 3;
    return left < 1000000 ? 1 : to_ms(left);
}

/* ---- sessions; lock held --------------------------------------------------------------------- */

static void make_due(struct steno_stored_session *x)
{
    steno_session_store *s = x->store;
    if (x->in_due)
        return;
    x->in_due = true;
    x->next_due = NULL;
    *s->last_due = x;
    s->last_due = &x->next_due;
    pthread_cond_signal(&s->work);
}

static void drop_pending(struct steno_stored_session *x)
{
    x->store->waiting_bytes -= x->records.len;
    steno_buf_free(&x->records);
    free(x->head);
    x->head = NULL;
}

static void wake(const struct steno_stored_session *x)
{
    if (x->wake)
        x->wake(x->user);
}

static void make_stale(struct steno_stored_session *x)
{
    drop_pending(x);
    x->stale = true;
    wake(x);
}

static void remove_session(struct steno_stored_session *x)
{
    drop_pending(x);
    *x->back = x->next;
    if (x->next)
        x->next->back = x->back;
    free(x);
}

static void random_token(char out[TOKEN_SIZE])
{
    uint64_t bits[2] = {0, 0};
    (void)!getrandom(bits, sizeof bits, 0);
    snprintf(out, TOKEN_SIZE, "%016llx%016llx", (unsigned long long)bits[0],
             (unsigned long long)bits[1]);
}

static void hash_id(const char *id, char out[STENO_SHA256_HEX])
{
    struct steno_sha256 sum;
    uint8_t digest[STENO_SHA256_BYTES];
    steno_sha256_begin(&sum);
    steno_sha256_add(&sum, id, strlen(id));
    steno_sha256_end(&sum, digest);
    steno_sha256_text(digest, out);
}

static steno_stored_session *new_session(steno_session_store *s, const char *id, const char *owner,
                                         void (*fn)(void *user), void *user)
{
    struct steno_stored_session *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->store = s;
    x->wake = fn;
    x->user = user;
    snprintf(x->id, sizeof x->id, "%s", id);
    snprintf(x->owner, sizeof x->owner, "%s", owner);
    hash_id(id, x->hash);
    steno_buf_init(&x->records, s->bytes);
    x->touched = steno_now_ns();
    return x;
}

static void add_session(struct steno_stored_session *x)
{
    steno_session_store *s = x->store;
    pthread_mutex_lock(&s->lock);
    x->back = &s->all;
    x->next = s->all;
    if (x->next)
        x->next->back = &x->next;
    s->all = x;
    pthread_mutex_unlock(&s->lock);
}

steno_stored_session *steno_stored_session_new(steno_session_store *s, const char *id,
                                               const char *owner, void (*fn)(void *user),
                                               void *user)
{
    struct steno_stored_session *x = new_session(s, id, owner, fn, user);
    if (!x)
        return NULL;
    random_token(x->token);
    x->fresh = true;
    add_session(x);
    return x;
}

steno_stored_session *steno_stored_session_adopt(steno_session_store *s,
                                                 const struct steno_session_claim *c,
                                                 void (*fn)(void *user), void *user)
{
    struct steno_stored_session *x = new_session(s, c->id, c->owner, fn, user);
    if (!x)
        return NULL;
    memcpy(x->token, c->token, sizeof x->token);
    x->waits_ns = x->touched;
    add_session(x);
    return x;
}

void steno_stored_session_token(steno_stored_session *x, char *out)
{
    memcpy(out, x->token, sizeof x->token);
}

void steno_stored_session_expire(steno_stored_session *x)
{
    pthread_mutex_lock(&x->store->lock);
    make_stale(x);
    pthread_mutex_unlock(&x->store->lock);
}

/* ---- what a session does with its place ------------------------------------------------------ */

/* Append the messages with MASK instead of the id. */
static steno_status add_records(struct steno_stored_session *x, const struct steno_buf *from)
{
    const size_t len = strlen(x->id);
    const char *text;
    size_t at = 0, n;
    uint64_t seq;
    steno_status st = STENO_OK;
    while (!st && steno_record_next(from, &at, &seq, &text, &n)) {
        const char *id = memmem(text, n, x->id, len);
        const size_t before = id ? (size_t)(id - text) : n;
        struct steno_buf masked;
        steno_buf_init(&masked, n + 1);
        st = steno_buf_add(&masked, text, before);
        if (!st && id)
            st = steno_buf_add(&masked, (char[]){MASK}, 1);
        if (!st && id)
            st = steno_buf_add(&masked, id + len, n - before - len);
        if (!st)
            st = steno_record_add(&x->records, seq, masked.data, masked.len);
        steno_buf_free(&masked);
    }
    return st;
}

static bool put(void *place, const char *head, const struct steno_buf *records, uint64_t last,
                uint64_t lost, bool all)
{
    struct steno_stored_session *x = place;
    steno_session_store *s = x->store;
    char *copy = strdup(head);
    size_t had;
    bool good = false;
    pthread_mutex_lock(&s->lock);
    if (all)
        drop_pending(x);
    had = x->records.len;
    if (s->up && copy && (!x->refused || steno_now_ns() - x->refused > SECOND) &&
        s->waiting_bytes + records->len <= STENO_SESSION_STORE_BYTES && !add_records(x, records)) {
        good = true;
        s->waiting_bytes += x->records.len - had;
        free(x->head);
        x->head = copy;
        copy = NULL;
        x->all |= all || x->fresh;
        x->fresh = x->stale = false;
        x->last = last;
        x->lost = lost;
        make_due(x);
    } else {
        steno_buf_cut(&x->records, had);
        drop_pending(x);
        x->stale = true;
    }
    pthread_mutex_unlock(&s->lock);
    free(copy);
    return good;
}

static void get_state(void *place, struct steno_ws_storage_state *out)
{
    struct steno_stored_session *x = place;
    pthread_mutex_lock(&x->store->lock);
    *out = (struct steno_ws_storage_state){x->store->up, x->stale, x->taken, x->stored};
    pthread_mutex_unlock(&x->store->lock);
}

static void set_waiting(void *place, bool waiting)
{
    struct steno_stored_session *x = place;
    pthread_mutex_lock(&x->store->lock);
    x->waits_ns = waiting ? steno_now_ns() : 0;
    x->touch = true;
    make_due(x);
    pthread_mutex_unlock(&x->store->lock);
}

static void leave(void *place, bool erase)
{
    struct steno_stored_session *x = place;
    steno_session_store *s = x->store;
    pthread_mutex_lock(&s->lock);
    x->wake = NULL;
    if (!x->waits_ns)
        x->waits_ns = steno_now_ns();
    x->touch = !x->taken;
    x->erase = erase;
    if (erase)
        drop_pending(x);
    if (s->running)
        make_due(x); /* the thread frees it */
    else
        remove_session(x);
    pthread_mutex_unlock(&s->lock);
}

const struct steno_ws_storage steno_session_storage = {
    .put = put, .get_state = get_state, .set_waiting = set_waiting, .leave = leave};

/* ---- commands -------------------------------------------------------------------------------- */

/* The words of one EVAL. The first failure sticks. */
struct words {
    struct steno_buf bytes, ends; /* ends: size_t */
    const char **v;
    size_t *len;
    bool failed;
};

static void add_word(struct words *w, const char *p, size_t n)
{
    size_t end;
    w->failed |= n && steno_buf_add(&w->bytes, p, n);
    end = w->bytes.len;
    w->failed |= steno_buf_add(&w->ends, &end, sizeof end) != STENO_OK;
}

static void add_text(struct words *w, const char *p)
{
    add_word(w, p, strlen(p));
}

static void add_number(struct words *w, uint64_t v)
{
    char t[24];
    snprintf(t, sizeof t, "%llu", (unsigned long long)v);
    add_text(w, t);
}

static void begin_words(struct words *w, const char *script)
{
    *w = (struct words){0};
    steno_buf_init(&w->bytes, 64u << 20);
    steno_buf_init(&w->ends, 4u << 20);
    add_text(w, "EVAL");
    add_text(w, script);
    add_text(w, "0");
}

static void free_words(struct words *w)
{
    steno_buf_free(&w->bytes);
    steno_buf_free(&w->ends);
    free(w->v);
    free(w->len);
}

/* False: out of memory. */
static bool finish_words(struct words *w, struct steno_redis_words *out)
{
    const size_t n = w->ends.len / sizeof(size_t);
    size_t at = 0;
    w->v = calloc(n, sizeof *w->v);
    w->len = calloc(n, sizeof *w->len);
    if (w->failed || !w->v || !w->len)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t end;
        memcpy(&end, w->ends.data + i * sizeof end, sizeof end);
        w->v[i] = w->bytes.data + at;
        w->len[i] = end - at;
        at = end;
    }
    *out = (struct steno_redis_words){(int)n, w->v, w->len};
    return true;
}

/* ---- storing --------------------------------------------------------------------------------- */

struct task {
    struct steno_stored_session *x;
    struct words words;
    bool puts, ends;
    uint64_t last;
};

static void write_put(struct steno_stored_session *x, struct words *w, int64_t now)
{
    const char *text;
    size_t at = 0, n;
    uint64_t seq;
    begin_words(w, script_put);
    add_text(w, x->hash);
    add_text(w, x->token);
    add_text(w, x->owner);
    add_number(w, (uint64_t)life_of(x, now));
    add_text(w, x->all ? "1" : "0");
    add_text(w, x->head);
    if (x->lost)
        add_number(w, x->lost);
    else
        add_text(w, "");
    while (steno_record_next(&x->records, &at, &seq, &text, &n)) {
        add_number(w, seq);
        add_word(w, text, n);
    }
}

static void write_short(const struct steno_stored_session *x, struct words *w, const char *script,
                        int64_t now)
{
    begin_words(w, script);
    add_text(w, x->hash);
    add_text(w, x->token);
    add_number(w, (uint64_t)life_of(x, now));
}

/* Make the next command of x. Lock held. False: nothing is to be sent. */
static bool make_task(struct steno_stored_session *x, struct task *t, int64_t now)
{
    *t = (struct task){.x = x};
    if (x->taken || x->fresh) {
        drop_pending(x);
        x->touch = x->erase = false;
        return false;
    }
    if (x->head) {
        write_put(x, &t->words, now);
        t->puts = true;
        t->last = x->last;
        drop_pending(x);
        x->all = x->touch = false;
    } else if (x->erase || x->touch) {
        write_short(x, &t->words, x->erase ? script_erase : script_touch, now);
        x->touch = x->erase = false;
    } else
        return false;
    x->touched = now;
    return true;
}

static bool has_work(const struct steno_stored_session *x)
{
    return x->head || x->touch || x->erase;
}

/* Take sessions off the due list. Lock held. */
static size_t take_tasks(steno_session_store *s, struct task *tasks, int64_t now)
{
    size_t n = 0, bytes = 0;
    while (s->due && n < BATCH && bytes < BATCH_BYTES) {
        struct steno_stored_session *x = s->due;
        s->due = x->next_due;
        if (!s->due)
            s->last_due = &s->due;
        x->in_due = false;
        if (make_task(x, &tasks[n], now))
            bytes += tasks[n++].words.bytes.len;
        else if (!x->wake)
            remove_session(x);
    }
    return n;
}

/* Every third of the time for which clients may be away: each key's time begins anew, and who has
 * lost a session learns it. Lock held. */
static void touch_all(steno_session_store *s, int64_t now)
{
    const int64_t every = s->resume_ns / 3;
    if (now < s->next_touch)
        return;
    for (struct steno_stored_session *x = s->all; x; x = x->next)
        if (!x->taken && !x->stale && now - x->touched >= every) {
            x->touch = true;
            make_due(x);
        }
    s->next_touch = now + every / 4;
}

static void set_up(steno_session_store *s, bool up, const steno_err *err)
{
    if (up == s->up)
        return;
    s->up = up;
    steno_metric_set(s->metrics.up, up);
    if (up)
        steno_log(LOG_NOTICE, "live sessions are stored in Redis again");
    else
        steno_log(LOG_WARNING,
                  "%s: live sessions are not stored, and clients come back to this machine alone",
                  err->msg);
}

/* Redis is away: nothing of what is due can be stored. Lock held. */
static void give_up(steno_session_store *s)
{
    while (s->due) {
        struct steno_stored_session *x = s->due;
        s->due = x->next_due;
        x->in_due = false;
        if (x->head || !x->wake)
            make_stale(x);
        x->touch = x->erase = false;
        if (!x->wake)
            remove_session(x);
    }
    s->last_due = &s->due;
}

/* Lock held. */
static void take_answer(const struct task *t, const redisReply *r)
{
    struct steno_stored_session *x = t->x;
    const char *word = r && r->type == REDIS_REPLY_STRING ? r->str : "";
    if (!strcmp(word, "ok")) {
        if (t->puts)
            x->stored = t->last + 1;
        if (t->puts)
            wake(x);
    } else if (!strcmp(word, "taken")) {
        x->taken = true;
        wake(x);
    } else { /* gone, or an error such as that Redis has no memory left */
        if (strcmp(word, "gone") != 0)
            x->refused = steno_now_ns();
        make_stale(x);
    }
    if (has_work(x) || !x->wake)
        make_due(x);
}

static void store_batch(steno_session_store *s, struct task *tasks, size_t n)
{
    struct steno_redis_words words[BATCH];
    redisReply *replies[BATCH] = {NULL};
    const int64_t began = steno_now_ns();
    steno_err err;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++)
        if (!finish_words(&tasks[i].words, &words[i]))
            st = steno_fail(&err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_redis_pipeline(s->redis, STENO_REDIS_LIVE, n, words, replies, &err);
    if (!st) {
        steno_metric_observe(s->metrics.seconds, (double)(steno_now_ns() - began) * 1e-9);
        steno_metric_add(s->metrics.writes, (double)n);
    } else
        steno_metric_add(s->metrics.failures, 1);
    for (size_t i = 0; i < n && !st; i++)
        if (replies[i]->type == REDIS_REPLY_ERROR) {
            steno_metric_add(s->metrics.failures, 1);
            if (began > s->quiet) {
                steno_log(LOG_WARNING, "live sessions are not stored: %s", replies[i]->str);
                s->quiet = began + 60 * SECOND;
            }
            break;
        }
    pthread_mutex_lock(&s->lock);
    if (st) {
        set_up(s, false, &err);
        s->next_try = steno_now_ns() + SECOND;
    }
    for (size_t i = 0; i < n; i++)
        take_answer(&tasks[i], st ? NULL : replies[i]);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        if (replies[i])
            freeReplyObject(replies[i]);
        free_words(&tasks[i].words);
    }
}

/* ---- claims ---------------------------------------------------------------------------------- */

static steno_status unmask(const char *text, size_t n, const char *id, uint64_t seq,
                           struct steno_buf *out)
{
    const char *mask = memchr(text, MASK, n);
    const size_t before = mask ? (size_t)(mask - text) : n;
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, n + strlen(id));
    st = steno_buf_add(&b, text, before);
    if (!st && mask)
        st = steno_buf_puts(&b, id);
    if (!st && mask)
        st = steno_buf_add(&b, mask + 1, n - before - 1);
    if (!st)
        st = steno_record_add(out, seq, b.data, b.len);
    steno_buf_free(&b);
    return st;
}

struct found {
    uint64_t seq;
    const redisReply *text;
};

static int by_seq(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Read the fields of a hash. False: it is not whole, or out of memory. */
static bool read_fields(struct steno_session_claim *c, const redisReply *r, size_t bytes)
{
    struct found *found = calloc(r->elements / 2 + 1, sizeof *found);
    size_t n = 0;
    bool good = found;
    steno_buf_init(&c->messages, 4 * bytes);
    for (size_t i = 0; good && i + 1 < r->elements; i += 2) {
        const redisReply *name = r->element[i], *value = r->element[i + 1];
        if (name->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING)
            good = false;
        else if (name->str[0] >= '0' && name->str[0] <= '9')
            found[n++] = (struct found){strtoull(name->str, NULL, 10), value};
        else if (!strcmp(name->str, "head"))
            c->head = strdup(value->str);
    }
    if (good)
        qsort(found, n, sizeof *found, by_seq);
    for (size_t i = 0; good && i < n; i++)
        good = !unmask(found[i].text->str, found[i].text->len, c->id, found[i].seq, &c->messages);
    free(found);
    return good && c->head;
}

static void read_claim(struct steno_session_claim *c, const redisReply *r, size_t bytes)
{
    const char *word =
        r->type == REDIS_REPLY_ARRAY && r->elements && r->element[0]->type == REDIS_REPLY_STRING
            ? r->element[0]->str
            : "";
    if (!strcmp(word, "none"))
        c->result = STENO_CLAIM_NONE;
    else if (!strcmp(word, "closed"))
        c->result = STENO_CLAIM_CLOSED;
    else if (!strcmp(word, "yours"))
        c->result = STENO_CLAIM_YOURS;
    else if (!strcmp(word, "taken") && r->elements == 2 &&
             r->element[1]->type == REDIS_REPLY_ARRAY && read_fields(c, r->element[1], bytes))
        c->result = STENO_CLAIM_TAKEN;
    if (c->result != STENO_CLAIM_TAKEN) {
        free(c->head);
        c->head = NULL;
        steno_buf_free(&c->messages);
    }
}

static void claim(steno_session_store *s, struct steno_session_claim *c)
{
    char hash[STENO_SHA256_HEX];
    struct steno_redis_words words;
    struct words w;
    redisReply *r = NULL;
    steno_err err = {0};
    steno_status st = STENO_OK;
    hash_id(c->id, hash);
    random_token(c->token);
    c->result = STENO_CLAIM_AWAY;
    begin_words(&w, script_claim);
    add_text(&w, hash);
    add_text(&w, c->token);
    add_text(&w, c->owner);
    add_text(&w, c->local);
    add_number(&w, (uint64_t)to_ms(s->resume_ns + s->resume_ns / 3) + 1);
    if (!finish_words(&w, &words))
        st = steno_fail(&err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_redis_pipeline(s->redis, STENO_REDIS_LIVE, 1, &words, &r, &err);
    free_words(&w);
    if (st) {
        steno_metric_add(s->metrics.failures, 1);
        pthread_mutex_lock(&s->lock);
        set_up(s, false, &err);
        s->next_try = steno_now_ns() + SECOND;
        pthread_mutex_unlock(&s->lock);
    } else {
        read_claim(c, r, s->bytes);
        freeReplyObject(r);
    }
    c->done(c);
}

bool steno_session_store_up(steno_session_store *s)
{
    bool up;
    pthread_mutex_lock(&s->lock);
    up = s->up && !s->stop;
    pthread_mutex_unlock(&s->lock);
    return up;
}

void steno_session_store_claim(steno_session_store *s, struct steno_session_claim *c)
{
    pthread_mutex_lock(&s->lock);
    c->next = NULL;
    *s->last_claim = c;
    s->last_claim = &c->next;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

void steno_session_store_count_unstored(steno_session_store *s, uint64_t n)
{
    if (n)
        steno_metric_add(s->metrics.unstored, (double)n);
}

void steno_session_store_count_moved(steno_session_store *s, bool here)
{
    steno_metric_add(here ? s->metrics.here : s->metrics.elsewhere, 1);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Ask Redis for a sign of life. */
static void try_again(steno_session_store *s)
{
    const char *v[] = {"PING"};
    const size_t len[] = {4};
    const struct steno_redis_words words = {1, v, len};
    redisReply *r = NULL;
    steno_err err;
    const bool good = !steno_redis_pipeline(s->redis, STENO_REDIS_LIVE, 1, &words, &r, &err);
    if (good)
        freeReplyObject(r);
    pthread_mutex_lock(&s->lock);
    if (good)
        set_up(s, true, NULL);
    s->next_try = steno_now_ns() + SECOND;
    pthread_mutex_unlock(&s->lock);
}

/* Lock held. */
static void sleep_until(steno_session_store *s, int64_t until)
{
    const struct timespec at = {(time_t)(until / SECOND), (long)(until % SECOND)};
    (void)pthread_cond_timedwait(&s->work, &s->lock, &at);
}

static void *work(void *arg)
{
    steno_session_store *s = arg;
    struct task tasks[BATCH];
    pthread_mutex_lock(&s->lock);
    for (;;) {
        const int64_t now = steno_now_ns();
        struct steno_session_claim *c = s->claims;
        if (c) {
            s->claims = c->next;
            if (!s->claims)
                s->last_claim = &s->claims;
            pthread_mutex_unlock(&s->lock);
            claim(s, c);
            pthread_mutex_lock(&s->lock);
            continue;
        }
        if (!s->up) {
            give_up(s);
            if (s->stop)
                break;
            if (now >= s->next_try) {
                pthread_mutex_unlock(&s->lock);
                try_again(s);
                pthread_mutex_lock(&s->lock);
            } else
                sleep_until(s, s->next_try);
            continue;
        }
        if (!s->stop)
            touch_all(s, now);
        if (s->due) {
            const size_t n = take_tasks(s, tasks, now);
            if (!n)
                continue;
            pthread_mutex_unlock(&s->lock);
            store_batch(s, tasks, n);
            pthread_mutex_lock(&s->lock);
        } else if (s->stop)
            break;
        else
            sleep_until(s, s->next_touch);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void register_metrics(steno_session_store *s, steno_metrics *m)
{
    static const double bounds[] = {.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 2};
    s->metrics.up = steno_metrics_gauge(m, "steno_session_store_up",
                                        "1: live sessions are stored in Redis.", "");
    s->metrics.writes =
        steno_metrics_counter(m, "steno_session_store_writes_total",
                              "Changes of live sessions that were sent to Redis.", "");
    s->metrics.failures = steno_metrics_counter(
        m, "steno_session_store_failures_total",
        "Times that Redis did not answer, or refused, to store or to give live sessions.", "");
    s->metrics.unstored = steno_metrics_counter(
        m, "steno_session_store_unstored_total",
        "Results that were delivered before they were stored, because Redis was away or slow.", "");
    s->metrics.seconds =
        steno_metrics_histogram(m, "steno_session_store_seconds",
                                "Time until changes of live sessions, sent together, were stored.",
                                "", bounds, sizeof bounds / sizeof *bounds);
    s->metrics.here =
        steno_metrics_counter(m, "steno_ws_sessions_moved_total",
                              "Live sessions that went on on another machine.", "to=\"here\"");
    s->metrics.elsewhere =
        steno_metrics_counter(m, "steno_ws_sessions_moved_total", "", "to=\"elsewhere\"");
    steno_metric_set(s->metrics.up, 1);
}

steno_status steno_session_store_open(steno_session_store **out, struct steno_redis *redis,
                                      double resume, size_t bytes, steno_metrics *registry,
                                      steno_err *err)
{
    steno_session_store *s = calloc(1, sizeof *s);
    pthread_condattr_t monotonic;
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    s->redis = redis;
    s->resume_ns = (int64_t)(resume * 1e9);
    s->bytes = bytes;
    s->up = true; /* the store of jobs has just been opened */
    s->last_due = &s->due;
    s->last_claim = &s->claims;
    s->next_touch = steno_now_ns();
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    register_metrics(s, registry);
    s->running = true;
    st = steno_thread_start(&s->thread, "session-store", work, s, err);
    if (st) {
        s->running = false;
        steno_session_store_close(s);
        return st;
    }
    *out = s;
    return STENO_OK;
}

void steno_session_store_stop(steno_session_store *s)
{
    if (!s || !s->running)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&s->lock);
    s->running = s->up = false;
    pthread_mutex_unlock(&s->lock);
}

void steno_session_store_close(steno_session_store *s)
{
    if (!s)
        return;
    steno_session_store_stop(s);
    while (s->all)
        remove_session(s->all);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
