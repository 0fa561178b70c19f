/* Two connections: one writes, in transactions, and one reads. With a write-ahead log a reader
 * never waits for a writer, so an HTTP thread that asks for a job does not wait for the disk.
 *
 * What something depends on commits with a sync. Heartbeats and progress are relaxed: what a crash
 * of the machine loses of them is made again by the next run. */
#include "server/jobs/job_sqlite.h"

#include "server/jobs/sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The columns of a record, in the order of read_record. */
#define COLUMNS                                                                                    \
    "id, owner, form, target, url, state, attempts, bytes, position, duration, model, created, "   \
    "started, ended, expires, reason, code, callback, method, cb_state, event, cb_tries, "         \
    "cb_next, cb_error, traceparent, tracestate"
/* When a job ends, its callback is due. */
#define QUEUED STENO_STORED(QUEUED)
#define RUNNING STENO_STORED(RUNNING)
#define DONE STENO_STORED(DONE)
#define FAILED STENO_STORED(FAILED)
#define EXPIRED STENO_STORED(EXPIRED)
#define CANCELLED STENO_STORED(CANCELLED)
#define NONE STENO_STORED(NONE)
#define PENDING STENO_STORED(PENDING)
#define CALLBACK_DUE                                                                               \
    "cb_state = CASE WHEN callback <> '' THEN " PENDING " ELSE " NONE " END, cb_next = ?1"

/* Row i makes version i + 1 of version i. Rows are added and never changed. */
static const char *const migrations[] = {
    "CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,"
    " owner TEXT NOT NULL, form INTEGER NOT NULL, target TEXT NOT NULL, url TEXT NOT NULL,"
    " state INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,"
    " worker TEXT NOT NULL DEFAULT '', lease INTEGER NOT NULL DEFAULT 0,"
    " not_before INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL,"
    " position REAL NOT NULL DEFAULT 0, duration REAL NOT NULL DEFAULT 0,"
    " model TEXT NOT NULL DEFAULT '', created INTEGER NOT NULL,"
    " started INTEGER NOT NULL DEFAULT 0, ended INTEGER NOT NULL DEFAULT 0,"
    " expires INTEGER NOT NULL, reason TEXT NOT NULL DEFAULT '', code TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX jobs_by_state ON jobs (state, owner, seq);"
    "CREATE INDEX jobs_by_owner ON jobs (owner, seq);"
    "CREATE TABLE segments (seq INTEGER NOT NULL, n INTEGER NOT NULL, start REAL NOT NULL,"
    " \"end\" REAL NOT NULL, text TEXT NOT NULL, PRIMARY KEY (seq, n)) WITHOUT ROWID;"
    "CREATE TABLE results (seq INTEGER NOT NULL, format TEXT NOT NULL, body BLOB NOT NULL,"
    " UNIQUE (seq, format));",
    "ALTER TABLE jobs ADD COLUMN callback TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE jobs ADD COLUMN method TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE jobs ADD COLUMN event TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE jobs ADD COLUMN cb_state INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN cb_tries INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN cb_next INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN cb_error TEXT NOT NULL DEFAULT '';"
    "CREATE INDEX jobs_by_callback ON jobs (cb_state, cb_next);",
    "ALTER TABLE jobs ADD COLUMN once TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE jobs ADD COLUMN digest TEXT NOT NULL DEFAULT '';"
    "CREATE INDEX jobs_by_once ON jobs (owner, once) WHERE once <> '';",
    "ALTER TABLE jobs ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE jobs ADD COLUMN tracestate TEXT NOT NULL DEFAULT '';",
};
#define VERSION ((int)(sizeof migrations / sizeof *migrations))

enum statement {
    COUNT_OPEN,
    COUNT_OWNER,
    ONCE,
    INSERT,
    CLAIM,
    CLEAR_SEGMENTS,
    HEARTBEAT,
    PROGRESS,
    N_SEGMENTS,
    ADD_SEGMENT,
    FINISH,
    ADD_RESULT,
    RELEASE,
    GIVE_UP,
    GET,
    SEGMENTS,
    RESULT,
    FIND,
    LIST,
    CANCEL,
    DELETE,
    DELETE_SEGMENTS,
    DELETE_RESULTS,
    EXPIRE,
    LEASE_FAILED,
    LEASE_QUEUED,
    OLD,
    DUE_CALLBACK,
    CALLBACK_OVER,
    CALLBACK_AGAIN,
    CALLBACKS_NOW,
    COUNT_STATES,
    COUNT_CALLBACKS,
    OLDEST,
    STATEMENTS
};

static const char *const sql[STATEMENTS] = {
    [COUNT_OPEN] = "SELECT count(*) FROM jobs WHERE state < " DONE,
    [COUNT_OWNER] =
        "SELECT count(*) FROM jobs WHERE state IN (" QUEUED ", " RUNNING ") AND owner = ?1",
    [ONCE] = "SELECT digest, id FROM jobs WHERE owner = ?1 AND once = ?2 AND once <> ''"
             " ORDER BY seq",
    [INSERT] = "INSERT INTO jobs (id, owner, form, target, url, bytes, created, expires, callback,"
               " method, once, digest, traceparent, tracestate, event) VALUES (?1, ?2, ?3, ?4, ?5,"
               " ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 'evt_' || lower(hex(randomblob(16))))",
    [CLAIM] =
        "UPDATE jobs SET state = " RUNNING ", attempts = attempts + 1, worker = ?2, lease = ?3,"
        " started = ?1, position = 0 WHERE seq = (SELECT q.s FROM"
        " (SELECT owner, min(seq) AS s FROM jobs WHERE state = " QUEUED " AND not_before <= ?1"
        " AND (expires = 0 OR expires > ?1) GROUP BY owner) q ORDER BY"
        " (SELECT count(*) FROM jobs r WHERE r.state = " RUNNING
        " AND r.owner = q.owner), q.s LIMIT 1)"
        " RETURNING " COLUMNS,
    [CLEAR_SEGMENTS] = "DELETE FROM segments WHERE seq = (SELECT seq FROM jobs WHERE id = ?1)",
    [HEARTBEAT] =
        "UPDATE jobs SET lease = ?3 WHERE id = ?1 AND state = " RUNNING " AND attempts = ?2",
    [PROGRESS] = "UPDATE jobs SET position = ?3, duration = max(duration, ?4),"
                 " bytes = CASE WHEN ?5 > 0 THEN ?5 ELSE bytes END"
                 " WHERE id = ?1 AND state = " RUNNING " AND attempts = ?2 RETURNING seq",
    [N_SEGMENTS] = "SELECT ifnull(max(n) + 1, 0) FROM segments WHERE seq = ?1",
    [ADD_SEGMENT] =
        "INSERT INTO segments (seq, n, start, \"end\", text) VALUES (?1, ?2, ?3, ?4, ?5)",
    [FINISH] = "UPDATE jobs SET state = ?4, ended = ?1, reason = ?5, code = ?6, model = ?7,"
               " duration = CASE WHEN ?8 > 0 THEN ?8 ELSE duration END,"
               " position = CASE WHEN ?4 = " DONE " THEN ?8 ELSE position END, " CALLBACK_DUE
               " WHERE id = ?2 AND state = " RUNNING " AND attempts = ?3 RETURNING seq",
    [ADD_RESULT] = "INSERT OR REPLACE INTO results (seq, format, body) VALUES (?1, ?2, ?3)",
    [RELEASE] = "UPDATE jobs SET state = " QUEUED ", attempts = attempts - ?4, not_before = ?3,"
                " code = ?5, reason = ?6 WHERE id = ?1 AND state = " RUNNING " AND attempts = ?2",
    [GIVE_UP] =
        "UPDATE jobs SET state = " FAILED ", ended = ?1, code = ?4, reason = ?5, " CALLBACK_DUE
        " WHERE id = ?2 AND state = " RUNNING " AND attempts = ?3",
    [GET] = "SELECT " COLUMNS " FROM jobs WHERE id = ?1 AND (?2 OR owner = ?3)",
    [SEGMENTS] = "SELECT start, \"end\", text FROM segments WHERE seq ="
                 " (SELECT seq FROM jobs WHERE id = ?1) AND n >= ?2 ORDER BY n LIMIT ?3",
    [RESULT] = "SELECT body FROM results WHERE seq = (SELECT seq FROM jobs WHERE id = ?1)"
               " AND format = ?2",
    [FIND] = "SELECT seq FROM jobs WHERE id = ?1 AND (?2 OR owner = ?3)",
    [LIST] = "SELECT " COLUMNS " FROM jobs WHERE seq < ?1 AND (?2 OR owner = ?3)"
             " AND (?4 < 0 OR state = ?4) AND (?5 < 0 OR cb_state = ?5)"
             " ORDER BY seq DESC LIMIT ?6",
    [CANCEL] = "UPDATE jobs SET state = " CANCELLED ", ended = ?2, reason = 'removed by its owner',"
               " code = 'cancelled' WHERE seq = ?1 AND state < " DONE,
    [DELETE] = "DELETE FROM jobs WHERE seq = ?1",
    [DELETE_SEGMENTS] = "DELETE FROM segments WHERE seq = ?1",
    [DELETE_RESULTS] = "DELETE FROM results WHERE seq = ?1",
    [EXPIRE] = "UPDATE jobs SET state = " EXPIRED ", ended = ?1, code = 'expired',"
               " reason = 'it was not done before it expired', " CALLBACK_DUE " WHERE state < " DONE
               " AND expires > 0 AND expires <= ?1 RETURNING id",
    [LEASE_FAILED] = "UPDATE jobs SET state = " FAILED ", ended = ?1, code = 'gave_up',"
                     " reason = 'given up after ' || attempts || ' tries: each time the server '"
                     " || 'ended or hung while it ran', " CALLBACK_DUE " WHERE state = " RUNNING
                     " AND lease < ?2 AND attempts >= ?3 RETURNING id",
    [LEASE_QUEUED] = "UPDATE jobs SET state = " QUEUED ", not_before = 0, code = 'interrupted',"
                     " reason = 'the server ended or hung while it ran'"
                     " WHERE state = " RUNNING " AND lease < ?1",
    [OLD] = "SELECT seq FROM jobs WHERE state >= " DONE " AND ended <= ?1 AND cb_state <> " PENDING
            " LIMIT 1000",
    [DUE_CALLBACK] = "UPDATE jobs SET cb_tries = cb_tries + 1, cb_next = ?2 WHERE seq ="
                     " (SELECT seq FROM jobs WHERE cb_state = " PENDING " AND cb_next <= ?1"
                     " ORDER BY cb_next LIMIT 1) RETURNING " COLUMNS,
    [CALLBACK_OVER] = "UPDATE jobs SET cb_state = ?2, cb_next = ?3, cb_error = ?4 WHERE id = ?1",
    [CALLBACK_AGAIN] = "UPDATE jobs SET cb_state = " PENDING
                       ", cb_next = ?2 WHERE seq = ?1 AND cb_state > " PENDING,
    [CALLBACKS_NOW] = "UPDATE jobs SET cb_next = ?1 WHERE cb_state = " PENDING,
    [COUNT_STATES] = "SELECT state, count(*) FROM jobs GROUP BY state",
    [COUNT_CALLBACKS] = "SELECT cb_state, count(*) FROM jobs GROUP BY cb_state",
    [OLDEST] = "SELECT ifnull(min(created), 0) FROM jobs WHERE state = " QUEUED,
};

struct store {
    struct steno_job_queue queue;
    struct steno_sqlite write, read;
};

static struct store *store_of(steno_job_queue *q)
{
    return (struct store *)q;
}

static steno_status lost_run(const char *id, steno_err *err)
{
    return steno_fail(err, STENO_ERR_CANCELLED, "job %s is no longer in this run", id);
}

static steno_status unknown_job(steno_err *err)
{
    return steno_fail(err, STENO_ERR_INVAL, "there is no such job");
}

/* owner NULL: of anyone. STENO_ERR_INVAL: there is no such job. */
static steno_status find_job(struct steno_sqlite *c, const char *owner, const char *id,
                             int64_t *seq, steno_err *err)
{
    steno_status st;
    *seq = 0;
    st = steno_sqlite_run(c, FIND, seq, NULL, err, "tit", id, (int64_t)!owner, owner);
    return !st && !*seq ? unknown_job(err) : st;
}

/* ---- records --------------------------------------------------------------------------------- */

/* Read COLUMNS. */
static steno_status read_row(sqlite3_stmt *s, struct steno_job_record *r, steno_err *err)
{
    *r = (struct steno_job_record){.form = (enum steno_job_form)sqlite3_column_int(s, 2),
                                   .target = steno_sqlite_dup(s, 3),
                                   .url = steno_sqlite_dup(s, 4),
                                   .state = (enum steno_job_state)sqlite3_column_int(s, 5),
                                   .attempts = sqlite3_column_int(s, 6),
                                   .bytes = sqlite3_column_int64(s, 7),
                                   .position = sqlite3_column_double(s, 8),
                                   .duration = sqlite3_column_double(s, 9),
                                   .model = steno_sqlite_dup(s, 10),
                                   .created = sqlite3_column_int64(s, 11),
                                   .started = sqlite3_column_int64(s, 12),
                                   .ended = sqlite3_column_int64(s, 13),
                                   .expires = sqlite3_column_int64(s, 14),
                                   .reason = steno_sqlite_dup(s, 15),
                                   .code = steno_sqlite_dup(s, 16),
                                   .callback = steno_sqlite_dup(s, 17),
                                   .method = steno_sqlite_dup(s, 18),
                                   .callback_state =
                                       (enum steno_callback_state)sqlite3_column_int(s, 19),
                                   .callback_tries = sqlite3_column_int(s, 21),
                                   .callback_next = sqlite3_column_int64(s, 22),
                                   .callback_error = steno_sqlite_dup(s, 23),
                                   .traceparent = steno_sqlite_dup(s, 24),
                                   .tracestate = steno_sqlite_dup(s, 25)};
    steno_sqlite_copy(s, 0, r->id, sizeof r->id);
    steno_sqlite_copy(s, 1, r->owner, sizeof r->owner);
    steno_sqlite_copy(s, 20, r->event, sizeof r->event);
    if (r->target && r->url && r->model && r->reason && r->code && r->callback && r->method &&
        r->callback_error && r->traceparent && r->tracestate &&
        (unsigned)r->state < STENO_JOB_STATES &&
        (unsigned)r->callback_state < STENO_CALLBACK_STATES)
        return STENO_OK;
    steno_job_record_free(r);
    return steno_fail(err, STENO_ERR_NOMEM, "out of memory, or a job with an unknown state");
}

/* Run a statement that gives one record. */
static steno_status one_record(struct steno_sqlite *c, sqlite3_stmt *s,
                               struct steno_job_record *out, steno_err *err)
{
    steno_status st = steno_sqlite_next(c, s, err);
    if (!st)
        st = read_row(s, out, err);
    sqlite3_reset(s);
    return st;
}

/* ---- a job's life ---------------------------------------------------------------------------- */

static steno_status check_quota(struct steno_sqlite *c, const struct steno_job_new *jobs, size_t n,
                                const struct steno_job_quota *quota, steno_err *err)
{
    int64_t all = 0, own = 0;
    steno_status st = steno_sqlite_run(c, COUNT_OPEN, &all, NULL, err, "");
    if (!st)
        st = steno_sqlite_run(c, COUNT_OWNER, &own, NULL, err, "t", jobs->owner);
    if (st)
        return st;
    if (quota->per_key && own + (int64_t)n > quota->per_key)
        return steno_fail(err, STENO_ERR_BUSY,
                          "%lld jobs of this key are not over, at most %d are possible "
                          "(jobs.per_key)",
                          (long long)own, quota->per_key);
    if (quota->max && all + (int64_t)n > quota->max)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "%lld jobs are not over, at most %d are possible (jobs.max)",
                          (long long)all, quota->max);
    return STENO_OK;
}

/* Find the jobs of a request that came before. */
static steno_status find_once(struct steno_sqlite *c, const char *owner,
                              struct steno_job_once *once, steno_err *err)
{
    sqlite3_stmt *s;
    steno_status st = steno_sqlite_start(c, ONCE, &s, err, "tt", owner, once->key);
    if (st)
        return st;
    while (!st && !(st = steno_sqlite_next(c, s, err))) {
        char digest[80], id[STENO_JOB_ID];
        steno_sqlite_copy(s, 0, digest, sizeof digest);
        steno_sqlite_copy(s, 1, id, sizeof id);
        st = steno_job_once_check(once, digest, err);
        if (!st)
            st = steno_job_once_add(once, id, err);
    }
    sqlite3_reset(s);
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

static steno_status sqlite_submit(steno_job_queue *q, const struct steno_job_new *jobs, size_t n,
                                  const struct steno_job_quota *quota, struct steno_job_once *once,
                                  steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    steno_status st = steno_sqlite_begin(c, false, err);
    if (st)
        return st;
    if (once)
        st = find_once(c, jobs->owner, once, err);
    if (once && once->repeated)
        n = 0;
    if (!st && n)
        st = check_quota(c, jobs, n, quota, err);
    for (size_t i = 0; i < n && !st; i++)
        st = steno_sqlite_run(c, INSERT, NULL, NULL, err, "ttittiiitttttt", jobs[i].id,
                              jobs[i].owner, (int64_t)jobs[i].form, jobs[i].target, jobs[i].url,
                              jobs[i].bytes, jobs[i].created, jobs[i].expires, jobs[i].callback,
                              jobs[i].method, once ? once->key : "", once ? once->digest : "",
                              jobs[i].traceparent ? jobs[i].traceparent : "",
                              jobs[i].tracestate ? jobs[i].tracestate : "");
    return steno_sqlite_end(c, st, err);
}

static steno_status sqlite_claim(steno_job_queue *q, const char *worker, int64_t now, int64_t lease,
                                 struct steno_job_record *out, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    struct steno_job_record r = {0};
    sqlite3_stmt *s;
    steno_status st = steno_sqlite_begin(c, false, err);
    if (st)
        return st;
    st = steno_sqlite_start(c, CLAIM, &s, err, "iti", now, worker, lease);
    if (!st)
        st = one_record(c, s, &r, err);
    if (st == STENO_NEED_MORE) { /* nothing to commit, and nothing to wait for the disk for */
        (void)!steno_sqlite_end(c, STENO_NEED_MORE, err);
        return STENO_NEED_MORE;
    }
    if (!st)
        st = steno_sqlite_run(c, CLEAR_SEGMENTS, NULL, NULL, err, "t", r.id);
    st = steno_sqlite_end(c, st, err);
    if (st)
        steno_job_record_free(&r);
    else
        *out = r;
    return st;
}

static steno_status sqlite_heartbeat(steno_job_queue *q, const char *id, int attempt, int64_t lease,
                                     steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    int changes = 0;
    steno_status st = steno_sqlite_begin(c, true, err);
    if (st)
        return st;
    st = steno_sqlite_run(c, HEARTBEAT, NULL, &changes, err, "tii", id, (int64_t)attempt, lease);
    st = steno_sqlite_end(c, st, err);
    return !st && !changes ? lost_run(id, err) : st;
}

static steno_status sqlite_progress(steno_job_queue *q, const char *id, int attempt,
                                    const struct steno_job_progress *p, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    int64_t seq = 0, at = 0;
    steno_status st = steno_sqlite_begin(c, true, err);
    if (st)
        return st;
    st = steno_sqlite_run(c, PROGRESS, &seq, NULL, err, "tiddi", id, (int64_t)attempt, p->position,
                          p->duration, p->bytes);
    if (!st && !seq)
        st = lost_run(id, err);
    if (!st && p->n)
        st = steno_sqlite_run(c, N_SEGMENTS, &at, NULL, err, "i", seq);
    for (size_t i = 0; i < p->n && !st; i++)
        st = steno_sqlite_run(c, ADD_SEGMENT, NULL, NULL, err, "iiddt", seq, at + (int64_t)i,
                              p->segments[i].start, p->segments[i].end, p->segments[i].text);
    return steno_sqlite_end(c, st, err);
}

static steno_status sqlite_finish(steno_job_queue *q, const char *id, int attempt, int64_t now,
                                  const struct steno_job_end *e, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    int64_t seq = 0;
    steno_status st = steno_sqlite_begin(c, false, err);
    if (st)
        return st;
    st = steno_sqlite_run(c, FINISH, &seq, NULL, err, "itiitttd", now, id, (int64_t)attempt,
                          (int64_t)e->state, e->reason, e->code, e->model, e->duration);
    if (!st && !seq)
        st = lost_run(id, err);
    for (size_t i = 0; i < e->n_results && !st; i++)
        st = steno_sqlite_run(c, ADD_RESULT, NULL, NULL, err, "itb", seq, e->results[i].format,
                              e->results[i].text, e->results[i].len);
    return steno_sqlite_end(c, st, err);
}

static steno_status sqlite_release(steno_job_queue *q, const char *id, int attempt,
                                   const struct steno_job_release *r, bool *failed, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    const bool last = r->counted && attempt >= STENO_JOB_TRIES;
    char reason[1100];
    int changes = 0;
    steno_status st = steno_sqlite_begin(c, false, err);
    if (st)
        return st;
    snprintf(reason, sizeof reason, "given up after %d tries: %s", attempt, r->reason);
    if (last)
        st = steno_sqlite_run(c, GIVE_UP, NULL, &changes, err, "ititt", r->now, id,
                              (int64_t)attempt, r->code, reason);
    else
        st = steno_sqlite_run(c, RELEASE, NULL, &changes, err, "tiiitt", id, (int64_t)attempt,
                              r->not_before, (int64_t)(r->counted ? 0 : 1), r->code, r->reason);
    st = steno_sqlite_end(c, st, err);
    if (!st && !changes)
        st = lost_run(id, err);
    if (!st)
        *failed = last;
    return st;
}

static steno_status delete_job(struct steno_sqlite *c, int64_t seq, steno_err *err)
{
    steno_status st = steno_sqlite_run(c, DELETE_SEGMENTS, NULL, NULL, err, "i", seq);
    if (!st)
        st = steno_sqlite_run(c, DELETE_RESULTS, NULL, NULL, err, "i", seq);
    return st ? st : steno_sqlite_run(c, DELETE, NULL, NULL, err, "i", seq);
}

static steno_status sqlite_remove(steno_job_queue *q, const char *owner, const char *id,
                                  int64_t now, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    int64_t seq;
    int changes = 0;
    steno_status st = steno_sqlite_begin(c, false, err);
    if (st)
        return st;
    st = find_job(c, owner, id, &seq, err);
    if (!st)
        st = steno_sqlite_run(c, CANCEL, NULL, &changes, err, "ii", seq, now);
    if (!st && !changes)
        st = delete_job(c, seq, err);
    return steno_sqlite_end(c, st, err);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Put back the runs whose lease ended before `lease`. */
static steno_status end_leases(struct steno_sqlite *c, int64_t now, int64_t lease,
                               struct steno_buf *ids, steno_err *err)
{
    sqlite3_stmt *s;
    steno_status st =
        steno_sqlite_start(c, LEASE_FAILED, &s, err, "iii", now, lease, (int64_t)STENO_JOB_TRIES);
    if (!st)
        st = steno_sqlite_texts(c, s, ids, err);
    return st ? st : steno_sqlite_run(c, LEASE_QUEUED, NULL, NULL, err, "i", lease);
}

/* Forget old jobs. Their recordings went when they were over. */
static steno_status forget_jobs(struct steno_sqlite *c, int64_t before, steno_err *err)
{
    for (;;) {
        int64_t seq = 0;
        steno_status st = steno_sqlite_run(c, OLD, &seq, NULL, err, "i", before);
        if (st || !seq)
            return st;
        st = delete_job(c, seq, err);
        if (st)
            return st;
    }
}

static steno_status sqlite_sweep(steno_job_queue *q, int64_t now, int64_t keep,
                                 void (*gone)(void *user, const char *id), void *user,
                                 steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    struct steno_buf ids;
    sqlite3_stmt *s;
    steno_status st = steno_sqlite_begin(c, false, err);
    if (st)
        return st;
    steno_buf_init(&ids, 64u << 20);
    st = steno_sqlite_start(c, EXPIRE, &s, err, "i", now);
    if (!st)
        st = steno_sqlite_texts(c, s, &ids, err);
    if (!st)
        st = end_leases(c, now, now, &ids, err);
    if (!st)
        st = forget_jobs(c, now - keep, err);
    st = steno_sqlite_end(c, st, err);
    for (size_t i = 0; i < ids.len && !st; i += strlen(ids.data + i) + 1)
        gone(user, ids.data + i);
    steno_buf_free(&ids);
    return st;
}

static steno_status sqlite_callback(steno_job_queue *q, int64_t now, int64_t next,
                                    struct steno_job_record *out, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    struct steno_job_record r = {0};
    sqlite3_stmt *s;
    steno_status st = steno_sqlite_begin(c, false, err);
    if (st)
        return st;
    st = steno_sqlite_start(c, DUE_CALLBACK, &s, err, "ii", now, next);
    if (!st)
        st = one_record(c, s, &r, err);
    st = steno_sqlite_end(c, st, err);
    if (st)
        steno_job_record_free(&r);
    else
        *out = r;
    return st;
}

static steno_status sqlite_callback_over(steno_job_queue *q, const char *id,
                                         enum steno_callback_state state, int64_t next,
                                         const char *error, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    steno_status st = steno_sqlite_begin(c, false, err);
    if (st)
        return st;
    st = steno_sqlite_run(c, CALLBACK_OVER, NULL, NULL, err, "tiit", id, (int64_t)state, next,
                          error);
    return steno_sqlite_end(c, st, err);
}

static steno_status sqlite_callback_again(steno_job_queue *q, const char *owner, const char *id,
                                          int64_t now, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->write;
    int64_t seq;
    int changes = 0;
    steno_status st = steno_sqlite_begin(c, false, err);
    if (st)
        return st;
    st = find_job(c, owner, id, &seq, err);
    if (!st)
        st = steno_sqlite_run(c, CALLBACK_AGAIN, NULL, &changes, err, "ii", seq, now);
    if (!st && !changes)
        st = STENO_NEED_MORE;
    return steno_sqlite_end(c, st, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

static steno_status sqlite_get(steno_job_queue *q, const char *owner, const char *id,
                               struct steno_job_record *out, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->read;
    sqlite3_stmt *s;
    steno_status st;
    pthread_mutex_lock(&c->lock);
    st = steno_sqlite_start(c, GET, &s, err, "tit", id, (int64_t)!owner, owner);
    if (!st)
        st = one_record(c, s, out, err);
    pthread_mutex_unlock(&c->lock);
    return st == STENO_NEED_MORE ? unknown_job(err) : st;
}

static steno_status sqlite_segments(steno_job_queue *q, const char *id, int64_t from, int limit,
                                    steno_status (*fn)(void *user,
                                                       const struct steno_job_segment *s),
                                    void *user, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->read;
    sqlite3_stmt *s;
    steno_status st;
    pthread_mutex_lock(&c->lock);
    st = steno_sqlite_start(c, SEGMENTS, &s, err, "tii", id, from, (int64_t)limit);
    while (!st && !(st = steno_sqlite_next(c, s, err))) {
        const char *text = (const char *)sqlite3_column_text(s, 2);
        const struct steno_job_segment seg = {sqlite3_column_double(s, 0),
                                              sqlite3_column_double(s, 1), text ? text : ""};
        st = fn(user, &seg);
        if (st)
            (void)steno_fail(err, st, "the list of segments is too large");
    }
    if (c->st[SEGMENTS])
        sqlite3_reset(c->st[SEGMENTS]);
    pthread_mutex_unlock(&c->lock);
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

static steno_status sqlite_result(steno_job_queue *q, const char *id, const char *format,
                                  struct steno_buf *out, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->read;
    sqlite3_stmt *s;
    steno_status st;
    pthread_mutex_lock(&c->lock);
    st = steno_sqlite_start(c, RESULT, &s, err, "tt", id, format);
    if (!st)
        st = steno_sqlite_next(c, s, err);
    if (!st) {
        const void *p = sqlite3_column_blob(s, 0);
        st = steno_buf_add(out, p ? p : "", (size_t)sqlite3_column_bytes(s, 0));
        if (st)
            (void)steno_fail(err, st, "the result is too large");
    }
    if (c->st[RESULT])
        sqlite3_reset(c->st[RESULT]);
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* Pass on the rows of LIST. Lock held. */
static steno_status pass_records(struct steno_sqlite *c, sqlite3_stmt *s, int limit,
                                 steno_status (*fn)(void *user, const struct steno_job_record *r),
                                 void *user, bool *more, steno_err *err)
{
    steno_status st;
    for (int i = 0; !(st = steno_sqlite_next(c, s, err)); i++) {
        struct steno_job_record r;
        *more = i == limit;
        if (*more)
            return STENO_OK;
        st = read_row(s, &r, err);
        if (st)
            return st;
        st = fn(user, &r);
        steno_job_record_free(&r);
        if (st)
            return steno_fail(err, st, "the list of jobs is too large");
    }
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

static steno_status sqlite_list(steno_job_queue *q, const struct steno_job_page *page,
                                steno_status (*fn)(void *user, const struct steno_job_record *r),
                                void *user, bool *more, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->read;
    int64_t before = INT64_MAX;
    sqlite3_stmt *s;
    steno_status st = STENO_OK;
    *more = false;
    pthread_mutex_lock(&c->lock);
    if (*page->after) {
        before = 0;
        st = steno_sqlite_run(c, FIND, &before, NULL, err, "tit", page->after, (int64_t)page->all,
                              page->owner);
        if (!st && !before)
            st = steno_fail(err, STENO_ERR_INVAL, "after: there is no such job");
    }
    if (!st)
        st = steno_sqlite_start(c, LIST, &s, err, "iitiii", before, (int64_t)page->all, page->owner,
                                (int64_t)page->state, (int64_t)page->callback_state,
                                (int64_t)page->limit + 1);
    if (!st) {
        st = pass_records(c, s, page->limit, fn, user, more, err);
        sqlite3_reset(s);
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

static steno_status count_by(struct steno_sqlite *c, enum statement which, int64_t *out, int n,
                             steno_err *err)
{
    sqlite3_stmt *s;
    steno_status st = steno_sqlite_start(c, which, &s, err, "");
    if (st)
        return st;
    while (!(st = steno_sqlite_next(c, s, err))) {
        const int k = sqlite3_column_int(s, 0);
        if (k >= 0 && k < n)
            out[k] = sqlite3_column_int64(s, 1);
    }
    sqlite3_reset(s);
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

static steno_status sqlite_count(steno_job_queue *q, struct steno_job_counts *out, steno_err *err)
{
    struct steno_sqlite *c = &store_of(q)->read;
    steno_status st;
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&c->lock);
    st = count_by(c, COUNT_STATES, out->jobs, STENO_JOB_STATES, err);
    if (!st)
        st = count_by(c, COUNT_CALLBACKS, out->callbacks, STENO_CALLBACK_STATES, err);
    if (!st)
        st = steno_sqlite_run(c, OLDEST, &out->oldest, NULL, err, "");
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void sqlite_close(steno_job_queue *q)
{
    struct store *s = store_of(q);
    steno_sqlite_close(&s->read);
    steno_sqlite_close(&s->write); /* the last one to close writes WAL back */
    free(s);
}

static steno_status recover(struct steno_sqlite *c, int64_t now, steno_err *err)
{
    struct steno_buf ids;
    steno_status st = steno_sqlite_begin(c, false, err);
    if (st)
        return st;
    steno_buf_init(&ids, 64u << 20);
    st = end_leases(c, now, INT64_MAX, &ids, err);
    steno_buf_free(&ids); /* the spool is cleaned of all that is over */
    if (!st)              /* some may have been on their way */
        st = steno_sqlite_run(c, CALLBACKS_NOW, NULL, NULL, err, "i", now);
    return steno_sqlite_end(c, st, err);
}

static const struct steno_job_queue_ops ops = {
    .submit = sqlite_submit,
    .claim = sqlite_claim,
    .heartbeat = sqlite_heartbeat,
    .progress = sqlite_progress,
    .finish = sqlite_finish,
    .release = sqlite_release,
    .get = sqlite_get,
    .segments = sqlite_segments,
    .result = sqlite_result,
    .list = sqlite_list,
    .remove = sqlite_remove,
    .sweep = sqlite_sweep,
    .callback = sqlite_callback,
    .callback_over = sqlite_callback_over,
    .callback_again = sqlite_callback_again,
    .count = sqlite_count,
    .close = sqlite_close,
};

steno_status steno_job_sqlite_open(steno_job_queue **out, const char *path, int64_t now,
                                   steno_err *err)
{
    static const char what[] = "the store of jobs";
    struct store *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    s->queue.ops = &ops;
    st = steno_sqlite_open(&s->write, path, sql, STATEMENTS, what, err);
    if (!st)
        st = steno_sqlite_migrate(&s->write, migrations, VERSION, err);
    if (!st)
        st = recover(&s->write, now, err);
    if (!st)
        st = steno_sqlite_open(&s->read, path, sql, STATEMENTS, what, err);
    if (st) {
        sqlite_close(&s->queue);
        return steno_fail_in(err, st, "%s", path);
    }
    *out = &s->queue;
    return STENO_OK;
}
