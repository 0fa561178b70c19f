/* Keys, all with the prefix "steno:"
 *
 *     job:ID           hash: the record
 *     seg:ID           list: segments so far, "START END TEXT"
 *     audio:ID         list: blocks of the recording
 *     part:ID:TRY:F    list: blocks of a result in format F that is being stored by a run
 *     res:ID:F         list: likewise when the job is done
 *     seq              counter: the number of the newest job; scores of what follows are numbers
 *     all, own:OWNER, state:S, cb:C    zsets: jobs; of an owner; in a state; by callback state
 *     wait:OWNER       zset: queued jobs that are due
 *     turns            zset: owners with such jobs, by running jobs * 2^40 + oldest number
 *     delayed, expires, ended, callbacks    zsets of jobs by time
 *     running, open    hashes OWNER -> jobs that run; that are not over
 *     once:OWNER:KEY   list: the digest of a request with an Idempotency-Key, and its jobs
 *     runs             stream with the group "workers": an entry is a run, pending at its worker.
 *                      Its idle time is the time since the last heartbeat, on Redis' clock
 *
 * Every change is one script, whole or not at all (job_scripts.c). When an answer is lost, it is
 * open whether the change was made; so scripts may run twice, except those of claims, progress,
 * callbacks and blocks, whose repetition costs a try or a block and which are not sent again.
 * Recordings and results are stored in blocks beforehand and become visible by one change. */
#include "server/jobs/job_redis.h"

#include "server/jobs/job_scripts.h"
#include "server/jobs/redis.h"
#include "server/jobs/redis_call.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define BLOCK (1u << 20)
#define AUDIO_S "3600" /* a recording whose job is not stored by then is removed */
#define PART_S "600"   /* likewise a result whose run is not over by then */
/* After a restart of Redis the workers that live have so long to say so, before their runs count
 * as dead. */
#define GRACE_MS 6000
#define PROGRESS 500 /* segments of one call */

struct store {
    struct steno_job_queue queue;
    steno_redis *redis;
    char worker[80], lease[24];
};

static struct store *store_of(steno_job_queue *q)
{
    return (struct store *)q;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void arg_seconds(struct steno_redis_call *c, double v)
{
    char t[400];
    snprintf(t, sizeof t, "%.3f", v);
    steno_redis_call_text(c, t);
}

/* Make the call c, which is freed. *out: an array, freed by the caller. */
static steno_status evaluate(struct store *s, enum steno_redis_link link, bool again,
                             struct steno_redis_call *c, redisReply **out, steno_err *err)
{
    struct steno_redis_words w;
    steno_status st = steno_redis_call_words(c, &w)
                          ? steno_redis_command(s->redis, link, again, w.n, w.v, w.len, out, err)
                          : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    steno_redis_call_free(c);
    if (!st && (*out)->type != REDIS_REPLY_ARRAY) {
        freeReplyObject(*out);
        st = steno_fail(err, STENO_ERR_IO, "the store of jobs: unexpected answer");
    }
    return st;
}

/* Whether the first word of an answer is this. */
static bool says(const redisReply *r, const char *word)
{
    return r->elements && r->element[0]->type == REDIS_REPLY_STRING &&
           !strcmp(r->element[0]->str, word);
}

/* Run a script that answers with one word: ok, or a failure. *failed (may be NULL): "failed". */
static steno_status change(struct store *s, enum steno_redis_link link, bool again,
                           struct steno_redis_call *c, const char *id, bool *failed, steno_err *err)
{
    redisReply *r;
    steno_status st = evaluate(s, link, again, c, &r, err);
    if (st)
        return st;
    if (says(r, "lost"))
        st = steno_fail(err, STENO_ERR_CANCELLED, "job %s is no longer in this run", id);
    else if (says(r, "unknown"))
        st = steno_fail(err, STENO_ERR_INVAL, "there is no such job");
    else if (says(r, "parts"))
        st = steno_fail(err, STENO_ERR_IO, "the store of jobs has lost a part of a result");
    else if (failed)
        *failed = says(r, "failed");
    freeReplyObject(r);
    return st;
}

/* ---- records --------------------------------------------------------------------------------- */

static const char *reply_field(const redisReply *r, const char *name)
{
    for (size_t i = 0; i + 1 < r->elements; i += 2)
        if (r->element[i]->type == REDIS_REPLY_STRING && !strcmp(r->element[i]->str, name))
            return r->element[i + 1]->str ? r->element[i + 1]->str : "";
    return "";
}

static int64_t reply_number(const redisReply *r, const char *name)
{
    return strtoll(reply_field(r, name), NULL, 10);
}

static steno_status read_reply(const redisReply *r, struct steno_job_record *out, steno_err *err)
{
    struct steno_job_record x = {.form = (enum steno_job_form)reply_number(r, "form"),
                                 .target = strdup(reply_field(r, "target")),
                                 .url = strdup(reply_field(r, "url")),
                                 .state = (enum steno_job_state)reply_number(r, "state"),
                                 .attempts = (int)reply_number(r, "attempts"),
                                 .bytes = reply_number(r, "bytes"),
                                 .position = strtod(reply_field(r, "position"), NULL),
                                 .duration = strtod(reply_field(r, "duration"), NULL),
                                 .model = strdup(reply_field(r, "model")),
                                 .created = reply_number(r, "created"),
                                 .started = reply_number(r, "started"),
                                 .ended = reply_number(r, "ended"),
                                 .expires = reply_number(r, "expires"),
                                 .reason = strdup(reply_field(r, "reason")),
                                 .code = strdup(reply_field(r, "code")),
                                 .callback = strdup(reply_field(r, "callback")),
                                 .method = strdup(reply_field(r, "method")),
                                 .callback_state =
                                     (enum steno_callback_state)reply_number(r, "cb_state"),
                                 .callback_tries = (int)reply_number(r, "cb_tries"),
                                 .callback_next = reply_number(r, "cb_next"),
                                 .callback_error = strdup(reply_field(r, "cb_error")),
                                 .traceparent = strdup(reply_field(r, "traceparent")),
                                 .tracestate = strdup(reply_field(r, "tracestate"))};
    snprintf(x.id, sizeof x.id, "%s", reply_field(r, "id"));
    snprintf(x.owner, sizeof x.owner, "%s", reply_field(r, "owner"));
    snprintf(x.event, sizeof x.event, "%s", reply_field(r, "event"));
    if (!x.target || !x.url || !x.model || !x.reason || !x.code || !x.callback || !x.method ||
        !x.callback_error || !x.traceparent || !x.tracestate ||
        (unsigned)x.state >= STENO_JOB_STATES ||
        (unsigned)x.callback_state >= STENO_CALLBACK_STATES) {
        steno_job_record_free(&x);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory, or a job with an unknown state");
    }
    *out = x;
    return STENO_OK;
}

/* Run a script that answers with a record, or with nothing (STENO_NEED_MORE). */
static steno_status one_record(struct store *s, enum steno_redis_link link, bool again,
                               struct steno_redis_call *c, struct steno_job_record *out,
                               steno_err *err)
{
    redisReply *r;
    steno_status st = evaluate(s, link, again, c, &r, err);
    if (st)
        return st;
    st = r->elements ? read_reply(r, out, err) : STENO_NEED_MORE;
    freeReplyObject(r);
    return st;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Run NAME on steno:LIST with one or two arguments. */
static steno_status ask_block(struct store *s, enum steno_redis_link link, const char *name,
                              const char *list, const char *a, const char *b, redisReply **out,
                              steno_err *err)
{
    char key[160];
    const char *v[] = {name, key, a, b};
    snprintf(key, sizeof key, "steno:%s", list);
    return steno_redis_command(s->redis, link, true, b ? 4 : a ? 3 : 2, v, NULL, out, err);
}

static steno_status clear_list(struct store *s, enum steno_redis_link link, const char *list,
                               steno_err *err)
{
    redisReply *r;
    steno_status st = ask_block(s, link, "UNLINK", list, NULL, NULL, &r, err);
    if (!st)
        freeReplyObject(r);
    return st;
}

static steno_status put_block(struct store *s, enum steno_redis_link link, const char *script,
                              const char *list, const char *p, size_t n, const char *seconds,
                              steno_err *err)
{
    struct steno_redis_call c;
    steno_redis_call_begin(&c, script);
    steno_redis_call_text(&c, list);
    steno_redis_call_bytes(&c, p, n);
    steno_redis_call_text(&c, seconds);
    return change(s, link, false, &c, "", NULL, err);
}

/* Pass the blocks of a list on. STENO_NEED_MORE: it has none. */
static steno_status get_blocks(struct store *s, enum steno_redis_link link, const char *list,
                               steno_status (*fn)(void *user, const void *p, size_t n,
                                                  steno_err *err),
                               void *user, steno_err *err)
{
    char at[24];
    for (int64_t i = 0;; i++) {
        redisReply *r;
        steno_status st;
        snprintf(at, sizeof at, "%lld", (long long)i);
        st = ask_block(s, link, "LINDEX", list, at, NULL, &r, err);
        if (st)
            return st;
        if (r->type != REDIS_REPLY_STRING) {
            freeReplyObject(r);
            return i ? STENO_OK : STENO_NEED_MORE;
        }
        st = fn(user, r->str, r->len, err);
        freeReplyObject(r);
        if (st)
            return st;
    }
}

static int64_t blocks_of(int64_t bytes)
{
    return (bytes + BLOCK - 1) / BLOCK;
}

/* ---- a job's life ---------------------------------------------------------------------------- */

static void add_new(struct steno_redis_call *c, const struct steno_job_new *j)
{
    char event[STENO_JOB_ID];
    uint64_t bits[2] = {0};
    c->failed |= getrandom(bits, sizeof bits, 0) != sizeof bits;
    snprintf(event, sizeof event, "evt_%016llx%016llx", (unsigned long long)bits[0],
             (unsigned long long)bits[1]);
    steno_redis_call_text(c, j->id);
    steno_redis_call_int(c, j->form);
    steno_redis_call_text(c, j->target);
    steno_redis_call_text(c, j->url);
    steno_redis_call_int(c, j->bytes);
    steno_redis_call_int(c, j->created);
    steno_redis_call_int(c, j->expires);
    steno_redis_call_text(c, j->callback);
    steno_redis_call_text(c, j->method);
    steno_redis_call_text(c, event);
    steno_redis_call_text(c, j->traceparent);
    steno_redis_call_text(c, j->tracestate);
    steno_redis_call_int(c, *j->url ? 0 : blocks_of(j->bytes));
}

/* Read "once", the digest and the jobs of a request that came before. */
static steno_status read_once(const redisReply *r, struct steno_job_once *once, steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t i = 1; i < r->elements && !st; i++) {
        const char *text = r->element[i]->type == REDIS_REPLY_STRING ? r->element[i]->str : "";
        st = i == 1 ? steno_job_once_check(once, text, err) : steno_job_once_add(once, text, err);
    }
    return st;
}

static steno_status redis_submit(steno_job_queue *q, const struct steno_job_new *jobs, size_t n,
                                 const struct steno_job_quota *quota, struct steno_job_once *once,
                                 steno_err *err)
{
    struct steno_redis_call c;
    redisReply *r;
    steno_status st;
    steno_redis_call_begin(&c, steno_script_submit);
    steno_redis_call_text(&c, jobs->owner);
    steno_redis_call_int(&c, quota->max);
    steno_redis_call_int(&c, quota->per_key);
    steno_redis_call_int(&c, (int64_t)n);
    steno_redis_call_text(&c, once ? once->key : "");
    steno_redis_call_text(&c, once ? once->digest : "");
    for (size_t i = 0; i < n; i++)
        add_new(&c, &jobs[i]);
    st = evaluate(store_of(q), STENO_REDIS_STORE, true, &c, &r, err);
    if (st)
        return st;
    if (says(r, "own"))
        st = steno_fail(err, STENO_ERR_BUSY,
                        "%lld jobs of this key are not over, at most %d are possible "
                        "(jobs.per_key)",
                        r->element[1]->integer, quota->per_key);
    else if (says(r, "all"))
        st = steno_fail(err, STENO_ERR_LIMIT,
                        "%lld jobs are not over, at most %d are possible (jobs.max)",
                        r->element[1]->integer, quota->max);
    else if (says(r, "audio"))
        st = steno_fail(err, STENO_ERR_IO, "the store of jobs has lost a part of the recording");
    else if (says(r, "once") && once)
        st = read_once(r, once, err);
    freeReplyObject(r);
    return st;
}

/* worker and lease are the store's own: its consumer, and the idle time of an entry. */
static steno_status redis_claim(steno_job_queue *q, const char *worker, int64_t now, int64_t lease,
                                struct steno_job_record *out, steno_err *err)
{
    struct store *s = store_of(q);
    struct steno_redis_call c;
    (void)worker, (void)lease;
    steno_redis_call_begin(&c, steno_script_claim);
    steno_redis_call_int(&c, now);
    steno_redis_call_text(&c, s->worker);
    steno_redis_call_text(&c, s->lease);
    steno_redis_call_int(&c, steno_redis_connected(s->redis) >= GRACE_MS);
    return one_record(s, STENO_REDIS_RUN, false, &c, out, err);
}

static steno_status redis_heartbeat(steno_job_queue *q, const char *id, int attempt, int64_t lease,
                                    steno_err *err)
{
    struct store *s = store_of(q);
    struct steno_redis_call c;
    (void)lease;
    steno_redis_call_begin(&c, steno_script_heartbeat);
    steno_redis_call_text(&c, id);
    steno_redis_call_int(&c, attempt);
    steno_redis_call_text(&c, s->worker);
    return change(s, STENO_REDIS_RUN, true, &c, id, NULL, err);
}

static steno_status redis_progress(steno_job_queue *q, const char *id, int attempt,
                                   const struct steno_job_progress *p, steno_err *err)
{
    const struct steno_job_segment *seg = p->segments;
    size_t n = p->n;
    steno_status st;
    do {
        const size_t part = n < PROGRESS ? n : PROGRESS;
        struct steno_redis_call c;
        steno_redis_call_begin(&c, steno_script_progress);
        steno_redis_call_text(&c, id);
        steno_redis_call_int(&c, attempt);
        arg_seconds(&c, p->position);
        arg_seconds(&c, p->duration);
        steno_redis_call_int(&c, p->bytes);
        for (size_t i = 0; i < part; i++) {
            arg_seconds(&c, seg[i].start);
            arg_seconds(&c, seg[i].end);
            steno_redis_call_text(&c, seg[i].text);
        }
        st = change(store_of(q), STENO_REDIS_RUN, false, &c, id, NULL, err);
        if (part)
            seg += part;
        n -= part;
    } while (n && !st);
    return st;
}

/* Store a result where finish finds it. An earlier attempt to store it is replaced. */
static steno_status put_result(struct store *s, const char *id, int attempt,
                               const struct steno_job_body *b, steno_err *err)
{
    char list[96];
    size_t at = 0;
    steno_status st;
    snprintf(list, sizeof list, "part:%s:%d:%s", id, attempt, b->format);
    st = clear_list(s, STENO_REDIS_RUN, list, err);
    while (!st) {
        const size_t n = b->len - at < BLOCK ? b->len - at : BLOCK;
        st = put_block(s, STENO_REDIS_RUN, steno_script_put, list, b->text + at, n, PART_S, err);
        at += n;
        if (at == b->len)
            break;
    }
    return st;
}

static steno_status redis_finish(steno_job_queue *q, const char *id, int attempt, int64_t now,
                                 const struct steno_job_end *e, steno_err *err)
{
    struct store *s = store_of(q);
    struct steno_redis_call c;
    for (size_t i = 0; i < e->n_results; i++) {
        steno_status st = put_result(s, id, attempt, &e->results[i], err);
        if (st)
            return st;
    }
    steno_redis_call_begin(&c, steno_script_finish);
    steno_redis_call_text(&c, id);
    steno_redis_call_int(&c, attempt);
    steno_redis_call_int(&c, now);
    steno_redis_call_int(&c, e->state);
    steno_redis_call_text(&c, e->reason);
    steno_redis_call_text(&c, e->code);
    steno_redis_call_text(&c, e->model);
    arg_seconds(&c, e->duration);
    for (size_t i = 0; i < e->n_results; i++)
        steno_redis_call_text(&c, e->results[i].format);
    return change(s, STENO_REDIS_RUN, true, &c, id, NULL, err);
}

static steno_status redis_release(steno_job_queue *q, const char *id, int attempt,
                                  const struct steno_job_release *r, bool *failed, steno_err *err)
{
    struct steno_redis_call c;
    steno_redis_call_begin(&c, steno_script_release);
    steno_redis_call_text(&c, id);
    steno_redis_call_int(&c, attempt);
    steno_redis_call_int(&c, r->now);
    steno_redis_call_int(&c, r->not_before);
    steno_redis_call_int(&c, r->counted);
    steno_redis_call_text(&c, r->code);
    steno_redis_call_text(&c, r->reason);
    return change(store_of(q), STENO_REDIS_RUN, true, &c, id, failed, err);
}

static steno_status redis_remove(steno_job_queue *q, const char *owner, const char *id, int64_t now,
                                 steno_err *err)
{
    struct steno_redis_call c;
    steno_redis_call_begin(&c, steno_script_remove);
    steno_redis_call_text(&c, id);
    steno_redis_call_text(&c, owner);
    steno_redis_call_int(&c, !owner);
    steno_redis_call_int(&c, now);
    return change(store_of(q), STENO_REDIS_FRONT, false, &c, id, NULL, err);
}

static steno_status redis_sweep(steno_job_queue *q, int64_t now, int64_t keep,
                                void (*gone)(void *user, const char *id), void *user,
                                steno_err *err)
{
    struct steno_redis_call c;
    redisReply *r;
    steno_status st;
    steno_redis_call_begin(&c, steno_script_sweep);
    steno_redis_call_int(&c, now);
    steno_redis_call_int(&c, keep);
    st = evaluate(store_of(q), STENO_REDIS_RUN, true, &c, &r, err);
    if (st)
        return st;
    for (size_t i = 0; i < r->elements; i++)
        if (r->element[i]->type == REDIS_REPLY_STRING)
            gone(user, r->element[i]->str);
    freeReplyObject(r);
    return STENO_OK;
}

static steno_status redis_callback(steno_job_queue *q, int64_t now, int64_t next,
                                   struct steno_job_record *out, steno_err *err)
{
    struct steno_redis_call c;
    steno_redis_call_begin(&c, steno_script_callback);
    steno_redis_call_int(&c, now);
    steno_redis_call_int(&c, next);
    return one_record(store_of(q), STENO_REDIS_STORE, false, &c, out, err);
}

static steno_status redis_callback_over(steno_job_queue *q, const char *id,
                                        enum steno_callback_state state, int64_t next,
                                        const char *error, steno_err *err)
{
    struct steno_redis_call c;
    steno_redis_call_begin(&c, steno_script_callback_over);
    steno_redis_call_text(&c, id);
    steno_redis_call_int(&c, state);
    steno_redis_call_int(&c, next);
    steno_redis_call_text(&c, error);
    return change(store_of(q), STENO_REDIS_STORE, true, &c, id, NULL, err);
}

static steno_status redis_callback_again(steno_job_queue *q, const char *owner, const char *id,
                                         int64_t now, steno_err *err)
{
    struct steno_redis_call c;
    bool none = false;
    steno_status st;
    steno_redis_call_begin(&c, steno_script_callback_again);
    steno_redis_call_text(&c, id);
    steno_redis_call_text(&c, owner);
    steno_redis_call_int(&c, !owner);
    steno_redis_call_int(&c, now);
    st = change(store_of(q), STENO_REDIS_FRONT, false, &c, id, &none, err);
    return !st && none ? STENO_NEED_MORE : st;
}

/* ---- reading --------------------------------------------------------------------------------- */

static steno_status redis_get(steno_job_queue *q, const char *owner, const char *id,
                              struct steno_job_record *out, steno_err *err)
{
    struct steno_redis_call c;
    steno_status st;
    steno_redis_call_begin(&c, steno_script_get);
    steno_redis_call_text(&c, id);
    steno_redis_call_text(&c, owner);
    steno_redis_call_int(&c, !owner);
    st = one_record(store_of(q), STENO_REDIS_FRONT, true, &c, out, err);
    return st == STENO_NEED_MORE ? steno_fail(err, STENO_ERR_INVAL, "there is no such job") : st;
}

static steno_status redis_segments(steno_job_queue *q, const char *id, int64_t from, int limit,
                                   steno_status (*fn)(void *user,
                                                      const struct steno_job_segment *s),
                                   void *user, steno_err *err)
{
    char list[64], first[24], last[24];
    redisReply *r;
    steno_status st;
    snprintf(list, sizeof list, "seg:%s", id);
    snprintf(first, sizeof first, "%lld", (long long)from);
    snprintf(last, sizeof last, "%lld", (long long)from + limit - 1);
    st = ask_block(store_of(q), STENO_REDIS_FRONT, "LRANGE", list, first, last, &r, err);
    if (st)
        return st;
    for (size_t i = 0; i < r->elements && !st; i++) {
        struct steno_job_segment seg = {0, 0, ""};
        char *end;
        if (r->element[i]->type != REDIS_REPLY_STRING)
            continue;
        seg.start = strtod(r->element[i]->str, &end);
        seg.end = strtod(end, &end);
        seg.text = *end ? end + 1 : "";
        st = fn(user, &seg);
        if (st)
            (void)steno_fail(err, st, "the list of segments is too large");
    }
    freeReplyObject(r);
    return st;
}

static steno_status add_to_result(void *user, const void *p, size_t n, steno_err *err)
{
    steno_status st = steno_buf_add(user, p, n);
    return st ? steno_fail(err, st, "the result is too large") : STENO_OK;
}

static steno_status redis_result(steno_job_queue *q, const char *id, const char *format,
                                 struct steno_buf *out, steno_err *err)
{
    char list[96];
    snprintf(list, sizeof list, "res:%s:%s", id, format);
    return get_blocks(store_of(q), STENO_REDIS_FRONT, list, add_to_result, out, err);
}

static steno_status redis_list(steno_job_queue *q, const struct steno_job_page *page,
                               steno_status (*fn)(void *user, const struct steno_job_record *r),
                               void *user, bool *more, steno_err *err)
{
    struct steno_redis_call c;
    redisReply *r;
    steno_status st;
    *more = false;
    steno_redis_call_begin(&c, steno_script_list);
    steno_redis_call_text(&c, page->owner);
    steno_redis_call_int(&c, page->all);
    steno_redis_call_text(&c, page->after);
    steno_redis_call_int(&c, page->limit + 1);
    steno_redis_call_int(&c, page->state);
    steno_redis_call_int(&c, page->callback_state);
    st = evaluate(store_of(q), STENO_REDIS_FRONT, true, &c, &r, err);
    if (st)
        return st;
    if (says(r, "unknown"))
        st = steno_fail(err, STENO_ERR_INVAL, "after: there is no such job");
    *more = !st && r->elements > (size_t)page->limit;
    for (size_t i = 0; i < r->elements && i < (size_t)page->limit && !st; i++) {
        struct steno_job_record x;
        st = read_reply(r->element[i], &x, err);
        if (st)
            break;
        st = fn(user, &x);
        steno_job_record_free(&x);
        if (st)
            (void)steno_fail(err, st, "the list of jobs is too large");
    }
    freeReplyObject(r);
    return st;
}

static steno_status redis_count(steno_job_queue *q, struct steno_job_counts *out, steno_err *err)
{
    struct steno_redis_call c;
    redisReply *r;
    steno_status st;
    memset(out, 0, sizeof *out);
    steno_redis_call_begin(&c, steno_script_count);
    st = evaluate(store_of(q), STENO_REDIS_FRONT, true, &c, &r, err);
    if (st)
        return st;
    for (size_t i = 0; i < r->elements; i++) {
        const char *t = r->element[i]->str;
        const int64_t v = t ? strtoll(t, NULL, 10) : 0;
        if (i == 0)
            out->oldest = v;
        else if (i <= STENO_JOB_STATES)
            out->jobs[i - 1] = v;
        else if (i <= STENO_JOB_STATES + STENO_CALLBACK_STATES)
            out->callbacks[i - 1 - STENO_JOB_STATES] = v;
    }
    freeReplyObject(r);
    return STENO_OK;
}

/* ---- recordings ------------------------------------------------------------------------------ */

/* Read until the block is full or the file ends. -1: an error. */
static ssize_t read_block(int fd, char *block)
{
    size_t have = 0;
    while (have < BLOCK) {
        const ssize_t n = read(fd, block + have, BLOCK - have);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

static steno_status redis_put_audio(steno_job_queue *q, const char *id, int fd, steno_err *err)
{
    struct store *s = store_of(q);
    char *block = malloc(BLOCK), list[64];
    steno_status st;
    ssize_t n = 0;
    if (!block)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    snprintf(list, sizeof list, "audio:%s", id);
    st = clear_list(s, STENO_REDIS_STORE, list, err);
    while (!st && (n = read_block(fd, block)) > 0)
        st = put_block(s, STENO_REDIS_STORE, steno_script_put_new, list, block, (size_t)n, AUDIO_S,
                       err);
    if (!st && n < 0)
        st = steno_fail(err, STENO_ERR_IO, "the recording cannot be read");
    free(block);
    return st;
}

static steno_status redis_get_audio(steno_job_queue *q, const char *id,
                                    steno_status (*fn)(void *user, const void *p, size_t n,
                                                       steno_err *err),
                                    void *user, steno_err *err)
{
    char list[64];
    snprintf(list, sizeof list, "audio:%s", id);
    return get_blocks(store_of(q), STENO_REDIS_RUN, list, fn, user, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void redis_close(steno_job_queue *q)
{
    struct store *s = store_of(q);
    steno_redis_close(s->redis);
    free(s);
}

static const struct steno_job_queue_ops ops = {
    .submit = redis_submit,
    .claim = redis_claim,
    .heartbeat = redis_heartbeat,
    .progress = redis_progress,
    .finish = redis_finish,
    .release = redis_release,
    .get = redis_get,
    .segments = redis_segments,
    .result = redis_result,
    .list = redis_list,
    .remove = redis_remove,
    .sweep = redis_sweep,
    .callback = redis_callback,
    .callback_over = redis_callback_over,
    .callback_again = redis_callback_again,
    .count = redis_count,
    .put_audio = redis_put_audio,
    .get_audio = redis_get_audio,
    .close = redis_close,
};

/* A name that no other process has, now or later. */
static void name_worker(struct store *s)
{
    char host[40] = "";
    uint32_t bits = 0;
    (void)gethostname(host, sizeof host - 1);
    (void)!getrandom(&bits, sizeof bits, 0);
    snprintf(s->worker, sizeof s->worker, "%s:%ld:%08x", host, (long)getpid(), (unsigned)bits);
}

steno_status steno_job_redis_open(steno_job_queue **out, const char *url, const char *password,
                                  int64_t lease, steno_err *err)
{
    struct store *s = calloc(1, sizeof *s);
    struct steno_redis_url u;
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    s->queue.ops = &ops;
    name_worker(s);
    snprintf(s->lease, sizeof s->lease, "%lld", (long long)lease);
    st = steno_redis_url_read(url, &u, err);
    if (!st && password && strlen(password) >= sizeof u.password)
        st = steno_fail(err, STENO_ERR_INVAL, "the password is too long");
    if (!st) {
        if (password)
            memcpy(u.password, password, strlen(password) + 1);
        st = steno_redis_open(&s->redis, &u, err);
        explicit_bzero(u.password, sizeof u.password);
    }
    if (st) {
        redis_close(&s->queue);
        return st;
    }
    *out = &s->queue;
    return STENO_OK;
}

struct steno_redis *steno_job_redis_links(steno_job_queue *q)
{
    return q->ops == &ops ? store_of(q)->redis : NULL;
}
