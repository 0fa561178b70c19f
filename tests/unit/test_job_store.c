/* The store of jobs and their spool: every change of state, what is left of a process that was
 * killed, quotas, a disk that is full. The clock is the test's own. */
/* link: server/jobs/job_sqlite.c server/jobs/sqlite.c server/jobs/job_queue.c */
/* link: server/jobs/job_spool.c */
/* ldflags: -Wl,--wrap=write,--wrap=fsync */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/jobs/job_spool.h"
#include "server/jobs/job_sqlite.h"
#include "tests/support/test.h"

#define T INT64_C(1000000) /* the time of a test's beginning */
#define LEASE 1000

/* The nth of these calls fails with ENOSPC; 0 = none. */
static int write_fails, fsync_fails;
ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

static bool fails(int *left)
{
    if (*left == 0 || --*left > 0)
        return false;
    errno = ENOSPC;
    return true;
}

ssize_t __wrap_write(int fd, const void *p, size_t n)
{
    return fails(&write_fails) ? -1 : __real_write(fd, p, n);
}

int __wrap_fsync(int fd)
{
    return fails(&fsync_fails) ? -1 : __real_fsync(fd);
}

struct place {
    char dir[64], db[96];
    steno_job_queue *q;
};

static void open_store(struct place *p, int64_t now)
{
    steno_err err = {STENO_OK, ""};
    if (steno_job_sqlite_open(&p->q, p->db, now, &err))
        fail_msg("%s", err.msg);
}

static void reopen(struct place *p, int64_t now)
{
    p->q->ops->close(p->q);
    open_store(p, now);
}

static int begin(void **state)
{
    static struct place p;
    snprintf(p.dir, sizeof p.dir, "/tmp/steno-jobs-XXXXXX");
    assert_non_null(mkdtemp(p.dir));
    snprintf(p.db, sizeof p.db, "%s/jobs.db", p.dir);
    write_fails = fsync_fails = 0;
    open_store(&p, T);
    *state = &p;
    return 0;
}

static int finish_test(void **state)
{
    struct place *p = *state;
    char command[128];
    if (p->q)
        p->q->ops->close(p->q);
    snprintf(command, sizeof command, "rm -rf %s", p->dir);
    return system(command);
}

static steno_status add_as(struct place *p, const char *owner, const char *id, int64_t expires,
                           const char *callback, const struct steno_job_quota *quota)
{
    const struct steno_job_quota none = {0, 0};
    const struct steno_job_new j = {.id = id,
                                    .owner = owner,
                                    .target = "/v1/transcribe?model=x",
                                    .url = "",
                                    .callback = callback,
                                    .method = "POST",
                                    .bytes = 100,
                                    .created = T,
                                    .expires = expires};
    steno_err err;
    return p->q->ops->submit(p->q, &j, 1, quota ? quota : &none, NULL, &err);
}

static void add(struct place *p, const char *id)
{
    assert_int_equal(add_as(p, "", id, 0, "", NULL), STENO_OK);
}

static unsigned mode_of(const char *path, const char *more)
{
    char name[160];
    struct stat sb;
    snprintf(name, sizeof name, "%s%s", path, more);
    assert_int_equal(stat(name, &sb), 0);
    return sb.st_mode & 0777;
}

/* Also of a store that an earlier version has made. */
static void the_files_are_readable_by_their_owner_alone(void **state)
{
    static const char *const more[] = {"", "-wal", "-shm"};
    struct place *p = *state;
    const mode_t before = umask(0);
    add(p, "job_a");
    for (int i = 0; i < 3; i++)
        assert_int_equal(mode_of(p->db, more[i]), 0600);
    assert_int_equal(chmod(p->db, 0644), 0);
    reopen(p, T);
    add(p, "job_b");
    for (int i = 0; i < 3; i++)
        assert_int_equal(mode_of(p->db, more[i]), 0600);
    umask(before);
}

/* Claim at a time; the id is "" when none is due. */
static int claim(struct place *p, int64_t now, char id[STENO_JOB_ID])
{
    struct steno_job_record r;
    int attempt;
    steno_err err;
    steno_status st = p->q->ops->claim(p->q, "test", now, now + LEASE, &r, &err);
    *id = '\0';
    if (st == STENO_NEED_MORE)
        return 0;
    assert_int_equal(st, STENO_OK);
    assert_int_equal(r.state, STENO_JOB_RUNNING);
    assert_string_equal(r.target, "/v1/transcribe?model=x");
    snprintf(id, STENO_JOB_ID, "%s", r.id);
    attempt = r.attempts;
    steno_job_record_free(&r);
    return attempt;
}

static void assert_claimed(struct place *p, int64_t now, const char *id, int attempt)
{
    char got[STENO_JOB_ID];
    assert_int_equal(claim(p, now, got), attempt);
    assert_string_equal(got, id);
}

static struct steno_job_record look(struct place *p, const char *id)
{
    struct steno_job_record r;
    steno_err err;
    assert_int_equal(p->q->ops->get(p->q, NULL, id, &r, &err), STENO_OK);
    return r;
}

static void assert_state(struct place *p, const char *id, enum steno_job_state state, int attempts,
                         const char *code)
{
    struct steno_job_record r = look(p, id);
    assert_string_equal(steno_job_state_name(r.state), steno_job_state_name(state));
    assert_int_equal(r.attempts, attempts);
    assert_string_equal(r.code, code);
    steno_job_record_free(&r);
}

static steno_status done(struct place *p, const char *id, int attempt, int64_t now)
{
    const struct steno_job_body bodies[] = {{"json", "{}", 2}, {"text", "one two\n", 8}};
    const struct steno_job_end end = {.state = STENO_JOB_DONE,
                                      .reason = "",
                                      .code = "",
                                      .model = "digits",
                                      .duration = 4.5,
                                      .results = bodies,
                                      .n_results = 2};
    steno_err err;
    return p->q->ops->finish(p->q, id, attempt, now, &end, &err);
}

static int n_gone;
static char last_gone[STENO_JOB_ID];
static void gone(void *user, const char *id)
{
    (void)user;
    n_gone++;
    snprintf(last_gone, sizeof last_gone, "%s", id);
}

static void sweep(struct place *p, int64_t now, int64_t keep)
{
    steno_err err;
    n_gone = 0;
    assert_int_equal(p->q->ops->sweep(p->q, now, keep, gone, NULL, &err), STENO_OK);
}

static void a_job_is_queued_runs_and_is_done(void **state)
{
    struct place *p = *state;
    struct steno_job_record r;
    struct steno_buf b;
    steno_err err;
    char id[STENO_JOB_ID];
    add(p, "job_a");
    assert_state(p, "job_a", STENO_JOB_QUEUED, 0, "");
    assert_claimed(p, T + 5, "job_a", 1);
    assert_int_equal(claim(p, T + 6, id), 0);
    assert_int_equal(done(p, "job_a", 1, T + 9), STENO_OK);
    r = look(p, "job_a");
    assert_int_equal(r.state, STENO_JOB_DONE);
    assert_int_equal(r.started, T + 5);
    assert_int_equal(r.ended, T + 9);
    assert_string_equal(r.model, "digits");
    assert_true(r.duration == 4.5 && r.position == 4.5);
    steno_job_record_free(&r);
    steno_buf_init(&b, 100);
    assert_int_equal(p->q->ops->result(p->q, "job_a", "text", &b, &err), STENO_OK);
    assert_string_equal(b.data, "one two\n");
    assert_int_equal(p->q->ops->result(p->q, "job_a", "srt", &b, &err), STENO_NEED_MORE);
    steno_buf_free(&b);
}

static void a_result_is_stored_once_whoever_comes_late(void **state)
{
    struct place *p = *state;
    bool failed;
    steno_err err;
    add(p, "job_a");
    assert_claimed(p, T, "job_a", 1);
    sweep(p, T + LEASE + 1, 1000000); /* the lease ended */
    assert_state(p, "job_a", STENO_JOB_QUEUED, 1, "interrupted");
    assert_claimed(p, T + LEASE + 2, "job_a", 2);
    assert_int_equal(done(p, "job_a", 1, T + 9), STENO_ERR_CANCELLED);
    assert_int_equal(p->q->ops->heartbeat(p->q, "job_a", 1, T + 9, &err), STENO_ERR_CANCELLED);
    assert_int_equal(
        p->q->ops->progress(p->q, "job_a", 1, &(struct steno_job_progress){1, 2, 0, NULL, 0}, &err),
        STENO_ERR_CANCELLED);
    assert_int_equal(p->q->ops->release(p->q, "job_a", 1,
                                        &(struct steno_job_release){T, T, true, "x", "y"}, &failed,
                                        &err),
                     STENO_ERR_CANCELLED);
    assert_int_equal(done(p, "job_a", 2, T + 2000), STENO_OK);
    assert_int_equal(done(p, "job_a", 2, T + 2001), STENO_ERR_CANCELLED);
}

static void a_heartbeat_extends_the_lease(void **state)
{
    struct place *p = *state;
    steno_err err;
    add(p, "job_a");
    assert_claimed(p, T, "job_a", 1);
    assert_int_equal(p->q->ops->heartbeat(p->q, "job_a", 1, T + 5000, &err), STENO_OK);
    sweep(p, T + 4999, 1000000);
    assert_state(p, "job_a", STENO_JOB_RUNNING, 1, "");
    sweep(p, T + 5001, 1000000);
    assert_state(p, "job_a", STENO_JOB_QUEUED, 1, "interrupted");
}

static void
what_was_running_when_a_process_was_killed_runs_again_and_ends_after_three_tries(void **state)
{
    struct place *p = *state;
    int64_t now = T;
    add(p, "job_a");
    p->q->ops->close(p->q);
    p->q = NULL;
    for (int try = 1; try <= STENO_JOB_TRIES; try++, now += 10) {
        int status;
        pid_t child = fork();
        if (!child) {
            steno_job_queue *q;
            struct steno_job_record r;
            if (steno_job_sqlite_open(&q, p->db, now, NULL) ||
                q->ops->claim(q, "child", now, now + LEASE, &r, NULL) || r.attempts != try)
                _exit(1);
            kill(getpid(), SIGKILL);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
    }
    open_store(p, now);
    assert_state(p, "job_a", STENO_JOB_FAILED, STENO_JOB_TRIES, "gave_up");
    reopen(p, now + 10);
    assert_state(p, "job_a", STENO_JOB_FAILED, STENO_JOB_TRIES, "gave_up");
}

static void a_commit_survives_a_kill_and_an_open_transaction_does_not(void **state)
{
    struct place *p = *state;
    int status;
    pid_t child;
    p->q->ops->close(p->q);
    child = fork();
    if (!child) {
        struct place mine = *p;
        sqlite3 *db;
        open_store(&mine, T);
        add(&mine, "job_kept");
        if (sqlite3_open(mine.db, &db) ||
            sqlite3_exec(db,
                         "BEGIN IMMEDIATE; INSERT INTO jobs (id, owner, form, target, url, bytes, "
                         "created, expires) VALUES ('job_open', '', 0, '', '', 0, 0, 0)",
                         NULL, NULL, NULL))
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    open_store(p, T);
    assert_state(p, "job_kept", STENO_JOB_QUEUED, 0, "");
    assert_int_equal(p->q->ops->get(p->q, NULL, "job_open", &(struct steno_job_record){0}, NULL),
                     STENO_ERR_INVAL);
}

static void a_failed_try_waits_and_the_third_one_is_the_last(void **state)
{
    struct place *p = *state;
    bool failed = true;
    char id[STENO_JOB_ID];
    struct steno_job_record r;
    steno_err err;
    add(p, "job_a");
    for (int try = 1; try <= 3; try++) {
        int64_t now = T + try * 1000;
        assert_claimed(p, now, "job_a", try);
        assert_int_equal(
            p->q->ops->release(p->q, "job_a", try,
                               &(struct steno_job_release){now + 1, now + 500, true,
                                                           "internal_error", "the network broke"},
                               &failed, &err),
            STENO_OK);
        assert_int_equal(failed, try == 3);
        assert_int_equal(claim(p, now + 499, id), 0);
    }
    r = look(p, "job_a");
    assert_int_equal(r.state, STENO_JOB_FAILED);
    assert_string_equal(r.code, "internal_error");
    assert_string_equal(r.reason, "given up after 3 tries: the network broke");
    steno_job_record_free(&r);
}

static void a_run_that_a_shutdown_ends_is_no_try(void **state)
{
    struct place *p = *state;
    bool failed;
    steno_err err;
    add(p, "job_a");
    for (int i = 0; i < 5; i++) {
        assert_claimed(p, T + i, "job_a", 1);
        assert_int_equal(
            p->q->ops->release(p->q, "job_a", 1,
                               &(struct steno_job_release){T + i, 0, false, "interrupted",
                                                           "the server was stopped"},
                               &failed, &err),
            STENO_OK);
        assert_false(failed);
    }
    assert_state(p, "job_a", STENO_JOB_QUEUED, 0, "interrupted");
}

static steno_status note_segment(void *user, const struct steno_job_segment *s)
{
    struct steno_buf *b = user;
    return steno_buf_printf(b, "%g-%g %s;", s->start, s->end, s->text);
}

static void progress_is_kept_and_a_new_run_begins_without_segments(void **state)
{
    struct place *p = *state;
    const struct steno_job_segment seg[] = {{0, 1, "one"}, {1, 2.5, "two"}};
    struct steno_job_record r;
    struct steno_buf b;
    steno_err err;
    steno_buf_init(&b, 200);
    add(p, "job_a");
    assert_claimed(p, T, "job_a", 1);
    assert_int_equal(p->q->ops->progress(p->q, "job_a", 1,
                                         &(struct steno_job_progress){1, 10, 55, seg, 1}, &err),
                     STENO_OK);
    assert_int_equal(p->q->ops->progress(p->q, "job_a", 1,
                                         &(struct steno_job_progress){2.5, 10, 0, seg + 1, 1},
                                         &err),
                     STENO_OK);
    r = look(p, "job_a");
    assert_true(r.position == 2.5 && r.duration == 10 && r.bytes == 55);
    steno_job_record_free(&r);
    assert_int_equal(p->q->ops->segments(p->q, "job_a", 0, 10, note_segment, &b, &err), STENO_OK);
    assert_string_equal(b.data, "0-1 one;1-2.5 two;");
    steno_buf_reset(&b);
    assert_int_equal(p->q->ops->segments(p->q, "job_a", 1, 10, note_segment, &b, &err), STENO_OK);
    assert_string_equal(b.data, "1-2.5 two;");
    reopen(p, T + 10);
    assert_claimed(p, T + 20, "job_a", 2);
    steno_buf_reset(&b);
    assert_int_equal(p->q->ops->segments(p->q, "job_a", 0, 10, note_segment, &b, &err), STENO_OK);
    assert_int_equal(b.len, 0);
    steno_buf_free(&b);
}

static void owners_take_turns_and_see_their_own_jobs_alone(void **state)
{
    struct place *p = *state;
    struct steno_job_record r;
    add_as(p, "a", "job_a1", 0, "", NULL);
    add_as(p, "a", "job_a2", 0, "", NULL);
    add_as(p, "a", "job_a3", 0, "", NULL);
    add_as(p, "b", "job_b1", 0, "", NULL);
    assert_claimed(p, T, "job_a1", 1);
    assert_claimed(p, T, "job_b1", 1); /* a has one that runs */
    assert_claimed(p, T, "job_a2", 1);
    assert_int_equal(p->q->ops->get(p->q, "b", "job_a1", &r, NULL), STENO_ERR_INVAL);
    assert_int_equal(p->q->ops->remove(p->q, "b", "job_a3", T, NULL), STENO_ERR_INVAL);
    assert_state(p, "job_a3", STENO_JOB_QUEUED, 0, "");
    assert_int_equal(p->q->ops->get(p->q, "a", "job_a1", &r, NULL), STENO_OK);
    steno_job_record_free(&r);
}

/* Submit a job with an Idempotency-Key. out: the id of the job that the client is told. */
static steno_status add_once(struct place *p, const char *owner, const char *id, const char *key,
                             const char *digest, char out[STENO_JOB_ID])
{
    const struct steno_job_quota one = {2, 0};
    const struct steno_job_new j = {
        .id = id, .owner = owner, .target = "/v1/transcribe?model=x", .url = "", .created = T};
    char ids[1][STENO_JOB_ID];
    struct steno_job_once once = {.key = key, .digest = digest, .ids = ids, .room = 1};
    steno_err err;
    steno_status st = p->q->ops->submit(p->q, &j, 1, &one, &once, &err);
    snprintf(out, STENO_JOB_ID, "%s", once.repeated ? ids[0] : id);
    return st;
}

static void a_request_that_comes_again_gets_its_job(void **state)
{
    struct place *p = *state;
    char id[STENO_JOB_ID];
    steno_err err;
    assert_int_equal(add_once(p, "a", "job_1", "k", "aa", id), STENO_OK);
    assert_string_equal(id, "job_1");
    assert_int_equal(add_once(p, "a", "job_2", "k", "bb", id), STENO_ERR_INVAL);
    assert_int_equal(add_once(p, "b", "job_3", "k", "bb", id), STENO_OK); /* another owner's */
    assert_string_equal(id, "job_3");
    reopen(p, T);
    assert_int_equal(add_once(p, "a", "job_4", "k", "aa", id), STENO_OK); /* max is reached */
    assert_string_equal(id, "job_1");
    assert_int_equal(p->q->ops->get(p->q, NULL, "job_4", &(struct steno_job_record){0}, &err),
                     STENO_ERR_INVAL);
    for (int i = 0; i < 2; i++) /* cancelled, then forgotten */
        assert_int_equal(p->q->ops->remove(p->q, "a", "job_1", T, &err), STENO_OK);
    assert_int_equal(add_once(p, "a", "job_5", "k", "bb", id), STENO_OK);
    assert_string_equal(id, "job_5");
}

static void quotas_count_what_is_not_over(void **state)
{
    struct place *p = *state;
    const struct steno_job_quota quota = {3, 2};
    const struct steno_job_new two[] = {
        {.id = "job_x", .owner = "c", .target = "", .url = "u", .callback = "", .method = ""},
        {.id = "job_y", .owner = "c", .target = "", .url = "u", .callback = "", .method = ""}};
    assert_int_equal(add_as(p, "a", "job_1", 0, "", &quota), STENO_OK);
    assert_int_equal(add_as(p, "a", "job_2", 0, "", &quota), STENO_OK);
    assert_int_equal(add_as(p, "a", "job_3", 0, "", &quota), STENO_ERR_BUSY);
    assert_int_equal(p->q->ops->submit(p->q, two, 2, &quota, NULL, NULL), STENO_ERR_LIMIT);
    assert_int_equal(p->q->ops->get(p->q, NULL, "job_x", &(struct steno_job_record){0}, NULL),
                     STENO_ERR_INVAL); /* all or none */
    assert_int_equal(add_as(p, "b", "job_4", 0, "", &quota), STENO_OK);
    assert_int_equal(add_as(p, "b", "job_5", 0, "", &quota), STENO_ERR_LIMIT);
    assert_claimed(p, T, "job_1", 1);
    assert_int_equal(add_as(p, "a", "job_3", 0, "", &quota), STENO_ERR_BUSY);
    assert_int_equal(done(p, "job_1", 1, T), STENO_OK);
    assert_int_equal(add_as(p, "a", "job_3", 0, "", &quota), STENO_OK);
}

static void removing_cancels_a_job_and_then_forgets_it(void **state)
{
    struct place *p = *state;
    steno_err err;
    add(p, "job_a");
    assert_claimed(p, T, "job_a", 1);
    assert_int_equal(p->q->ops->remove(p->q, NULL, "job_a", T + 1, &err), STENO_OK);
    assert_state(p, "job_a", STENO_JOB_CANCELLED, 1, "cancelled");
    assert_int_equal(done(p, "job_a", 1, T + 2), STENO_ERR_CANCELLED);
    assert_int_equal(p->q->ops->remove(p->q, NULL, "job_a", T + 3, &err), STENO_OK);
    assert_int_equal(p->q->ops->remove(p->q, NULL, "job_a", T + 4, &err), STENO_ERR_INVAL);
}

static void jobs_expire_queued_and_running(void **state)
{
    struct place *p = *state;
    char id[STENO_JOB_ID];
    assert_int_equal(add_as(p, "", "job_a", T + 100, "", NULL), STENO_OK);
    assert_int_equal(add_as(p, "", "job_b", T + 200, "", NULL), STENO_OK);
    assert_claimed(p, T, "job_a", 1);
    sweep(p, T + 99, 100000);
    assert_int_equal(n_gone, 0);
    sweep(p, T + 100, 100000);
    assert_int_equal(n_gone, 1);
    assert_string_equal(last_gone, "job_a");
    assert_state(p, "job_a", STENO_JOB_EXPIRED, 1, "expired");
    assert_int_equal(done(p, "job_a", 1, T + 101), STENO_ERR_CANCELLED);
    assert_int_equal(claim(p, T + 200, id), 0); /* even before the sweep */
    sweep(p, T + 250, 100000);
    assert_state(p, "job_b", STENO_JOB_EXPIRED, 0, "expired");
}

static void what_is_over_is_kept_for_its_time_unless_a_callback_waits(void **state)
{
    struct place *p = *state;
    struct steno_job_record r;
    steno_err err;
    add(p, "job_a");
    assert_int_equal(add_as(p, "", "job_b", 0, "https://h/", NULL), STENO_OK);
    assert_claimed(p, T, "job_a", 1);
    assert_claimed(p, T, "job_b", 1);
    assert_int_equal(done(p, "job_a", 1, T), STENO_OK);
    assert_int_equal(done(p, "job_b", 1, T), STENO_OK);
    sweep(p, T + 999, 1000);
    assert_state(p, "job_a", STENO_JOB_DONE, 1, "");
    sweep(p, T + 1000, 1000);
    assert_int_equal(p->q->ops->get(p->q, NULL, "job_a", &r, &err), STENO_ERR_INVAL);
    assert_state(p, "job_b", STENO_JOB_DONE, 1, "");
    assert_int_equal(p->q->ops->callback_over(p->q, "job_b", STENO_CALLBACK_DELIVERED, 0, "", &err),
                     STENO_OK);
    sweep(p, T + 1001, 1000);
    assert_int_equal(p->q->ops->get(p->q, NULL, "job_b", &r, &err), STENO_ERR_INVAL);
}

static void a_callback_is_due_when_its_job_ends_and_keeps_its_event(void **state)
{
    struct place *p = *state;
    struct steno_job_record r;
    char event[STENO_JOB_ID];
    steno_err err;
    assert_int_equal(add_as(p, "", "job_a", 0, "https://h/x", NULL), STENO_OK);
    add(p, "job_b"); /* without one */
    assert_int_equal(p->q->ops->callback(p->q, T, T + 60, &r, &err), STENO_NEED_MORE);
    assert_claimed(p, T, "job_a", 1);
    assert_claimed(p, T, "job_b", 1);
    assert_int_equal(done(p, "job_a", 1, T + 10), STENO_OK);
    assert_int_equal(done(p, "job_b", 1, T + 10), STENO_OK);
    assert_int_equal(p->q->ops->callback(p->q, T + 10, T + 70, &r, &err), STENO_OK);
    assert_string_equal(r.id, "job_a");
    assert_string_equal(r.callback, "https://h/x");
    assert_int_equal(r.callback_tries, 1);
    assert_int_equal(strlen(r.event), 36);
    memcpy(event, r.event, sizeof event);
    steno_job_record_free(&r);
    assert_int_equal(p->q->ops->callback(p->q, T + 20, T + 80, &r, &err), STENO_NEED_MORE);
    reopen(p, T + 30); /* killed while it was sent: it is sent again, as a second try */
    assert_int_equal(p->q->ops->callback(p->q, T + 30, T + 130, &r, &err), STENO_OK);
    assert_int_equal(r.callback_tries, 2);
    assert_string_equal(r.event, event);
    steno_job_record_free(&r);
    assert_int_equal(p->q->ops->callback_over(p->q, "job_a", STENO_CALLBACK_PENDING, T + 500,
                                              "answered 503", &err),
                     STENO_OK);
    assert_int_equal(p->q->ops->callback(p->q, T + 499, T + 600, &r, &err), STENO_NEED_MORE);
    assert_int_equal(p->q->ops->callback(p->q, T + 500, T + 600, &r, &err), STENO_OK);
    assert_int_equal(r.callback_tries, 3);
    assert_string_equal(r.callback_error, "answered 503");
    steno_job_record_free(&r);
    assert_int_equal(
        p->q->ops->callback_over(p->q, "job_a", STENO_CALLBACK_DEAD, 0, "answered 503", &err),
        STENO_OK);
    assert_int_equal(p->q->ops->callback(p->q, T + 9999, T + 99999, &r, &err), STENO_NEED_MORE);
    /* once more: the number of tries goes on */
    assert_int_equal(p->q->ops->callback_again(p->q, NULL, "job_c", T, &err), STENO_ERR_INVAL);
    assert_int_equal(p->q->ops->callback_again(p->q, "other", "job_a", T, &err), STENO_ERR_INVAL);
    assert_int_equal(p->q->ops->callback_again(p->q, NULL, "job_b", T, &err), STENO_NEED_MORE);
    assert_int_equal(p->q->ops->callback_again(p->q, "", "job_a", T + 9999, &err), STENO_OK);
    assert_int_equal(p->q->ops->callback_again(p->q, "", "job_a", T, &err), STENO_NEED_MORE);
    assert_int_equal(p->q->ops->callback(p->q, T + 9999, T + 99999, &r, &err), STENO_OK);
    assert_string_equal(r.id, "job_a");
    assert_string_equal(r.event, event);
    assert_int_equal(r.callback_tries, 4);
    steno_job_record_free(&r);
}

static steno_status note_id(void *user, const struct steno_job_record *r)
{
    return steno_buf_printf(user, "%s ", r->id);
}

static void assert_list(struct place *p, const struct steno_job_page *page, const char *ids,
                        bool want_more)
{
    struct steno_buf b;
    bool more;
    steno_err err;
    steno_buf_init(&b, 1000);
    assert_int_equal(steno_buf_puts(&b, ""), STENO_OK);
    assert_int_equal(p->q->ops->list(p->q, page, note_id, &b, &more, &err), STENO_OK);
    assert_string_equal(b.data ? b.data : "", ids);
    assert_int_equal(more, want_more);
    steno_buf_free(&b);
}

static void lists_have_pages_and_filters(void **state)
{
    struct place *p = *state;
    struct steno_job_page page = {
        .owner = "a", .after = "", .limit = 2, .state = -1, .callback_state = -1};
    bool more;
    steno_err err;
    add_as(p, "a", "job_1", 0, "", NULL);
    add_as(p, "b", "job_2", 0, "", NULL);
    add_as(p, "a", "job_3", 0, "", NULL);
    add_as(p, "a", "job_4", 0, "https://h/", NULL);
    assert_list(p, &page, "job_4 job_3 ", true);
    page.after = "job_3";
    assert_list(p, &page, "job_1 ", false);
    page.after = "job_1";
    assert_list(p, &page, "", false);
    page.after = "job_2"; /* another owner's */
    assert_int_equal(p->q->ops->list(p->q, &page, note_id, NULL, &more, &err), STENO_ERR_INVAL);
    page.all = true;
    assert_list(p, &page, "job_1 ", false);
    page = (struct steno_job_page){
        .owner = "", .all = true, .after = "", .limit = 4, .state = -1, .callback_state = -1};
    assert_list(p, &page, "job_4 job_3 job_2 job_1 ", false);
    assert_claimed(p, T, "job_1", 1);
    page.state = STENO_JOB_RUNNING;
    assert_list(p, &page, "job_1 ", false);
    page.state = -1;
    page.callback_state = STENO_CALLBACK_DEAD;
    assert_list(p, &page, "", false);
    assert_int_equal(p->q->ops->callback_over(p->q, "job_4", STENO_CALLBACK_DEAD, 0, "x", &err),
                     STENO_OK);
    assert_list(p, &page, "job_4 ", false);
}

static void jobs_are_counted_by_state(void **state)
{
    struct place *p = *state;
    struct steno_job_counts n;
    steno_err err;
    add(p, "job_a");
    add(p, "job_b");
    add(p, "job_c");
    assert_claimed(p, T, "job_a", 1);
    assert_claimed(p, T, "job_b", 1);
    assert_int_equal(done(p, "job_a", 1, T), STENO_OK);
    assert_int_equal(p->q->ops->count(p->q, &n, &err), STENO_OK);
    assert_int_equal(n.jobs[STENO_JOB_QUEUED], 1);
    assert_int_equal(n.jobs[STENO_JOB_RUNNING], 1);
    assert_int_equal(n.jobs[STENO_JOB_DONE], 1);
    assert_int_equal(n.oldest, T);
}

static void execute(struct place *p, const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(p->db, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void an_older_store_is_migrated_and_a_newer_one_refused(void **state)
{
    struct place *p = *state;
    steno_err err;
    add(p, "job_old");
    p->q->ops->close(p->q);
    p->q = NULL;
    /* what version 1 was */
    execute(p, "ALTER TABLE jobs DROP COLUMN traceparent; ALTER TABLE jobs DROP COLUMN tracestate;"
               "DROP INDEX jobs_by_once; ALTER TABLE jobs DROP COLUMN once;"
               "ALTER TABLE jobs DROP COLUMN digest;"
               "DROP INDEX jobs_by_callback; ALTER TABLE jobs DROP COLUMN callback;"
               "ALTER TABLE jobs DROP COLUMN method; ALTER TABLE jobs DROP COLUMN event;"
               "ALTER TABLE jobs DROP COLUMN cb_state; ALTER TABLE jobs DROP COLUMN cb_tries;"
               "ALTER TABLE jobs DROP COLUMN cb_next; ALTER TABLE jobs DROP COLUMN cb_error;"
               "PRAGMA user_version = 1");
    open_store(p, T);
    assert_claimed(p, T, "job_old", 1);
    assert_int_equal(add_as(p, "", "job_new", 0, "https://h/", NULL), STENO_OK);
    p->q->ops->close(p->q);
    p->q = NULL;
    execute(p, "PRAGMA user_version = 99");
    assert_int_equal(steno_job_sqlite_open(&p->q, p->db, T, &err), STENO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "version 99"));
}

static void the_trace_of_a_request_stays_with_its_job(void **state)
{
    static const char parent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const struct steno_job_quota none = {0, 0};
    const struct steno_job_new j = {.id = "job_traced",
                                    .owner = "",
                                    .target = "/v1/jobs",
                                    .url = "",
                                    .callback = "https://h/",
                                    .method = "POST",
                                    .created = T,
                                    .traceparent = parent,
                                    .tracestate = "a=1,b=2"};
    struct place *p = *state;
    struct steno_job_record r;
    steno_err err;
    assert_int_equal(p->q->ops->submit(p->q, &j, 1, &none, NULL, &err), STENO_OK);
    reopen(p, T);
    assert_int_equal(p->q->ops->claim(p->q, "test", T, T + LEASE, &r, &err), STENO_OK);
    assert_string_equal(r.traceparent, parent);
    assert_string_equal(r.tracestate, "a=1,b=2");
    steno_job_record_free(&r);
    add(p, "job_plain");
    assert_int_equal(p->q->ops->get(p->q, NULL, "job_plain", &r, &err), STENO_OK);
    assert_string_equal(r.traceparent, "");
    assert_string_equal(r.tracestate, "");
    steno_job_record_free(&r);
}

static void a_store_that_cannot_grow_refuses_and_keeps_what_it_has(void **state)
{
    struct place *p = *state;
    const struct rlimit small = {256 << 10, RLIM_INFINITY};
    struct rlimit before;
    steno_status st = STENO_OK;
    char id[STENO_JOB_ID];
    int stored = 0;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 2000 && !st; i++) {
        snprintf(id, sizeof id, "job_%d", i);
        st = add_as(p, "", id, 0, "", NULL);
        stored += !st;
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(st, STENO_ERR_IO);
    assert_true(stored > 0);
    reopen(p, T);
    for (int i = 0; i < stored; i++) {
        snprintf(id, sizeof id, "job_%d", i);
        assert_state(p, id, STENO_JOB_QUEUED, 0, "");
    }
    snprintf(id, sizeof id, "job_%d", stored);
    assert_int_equal(p->q->ops->get(p->q, NULL, id, &(struct steno_job_record){0}, NULL),
                     STENO_ERR_INVAL);
    add(p, id);
}

/* ---- the spool ------------------------------------------------------------------------------- */

static steno_spool *open_spool(struct place *p)
{
    steno_spool *s;
    assert_int_equal(steno_spool_open(&s, p->dir, NULL), STENO_OK);
    return s;
}

static bool exists(struct place *p, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    return access(path, F_OK) == 0;
}

static void a_recording_has_its_name_once_it_is_whole(void **state)
{
    struct place *p = *state;
    steno_spool *s = open_spool(p);
    steno_spool_file *f;
    char text[8] = "";
    int fd;
    assert_int_equal(steno_spool_begin(&f, s, "job_1", 10, NULL), STENO_OK);
    assert_int_equal(steno_spool_write(f, "abc", 3, NULL), STENO_OK);
    assert_int_equal(steno_spool_write(f, "def", 3, NULL), STENO_OK);
    assert_int_equal(steno_spool_write(f, "12345", 5, NULL), STENO_ERR_LIMIT);
    assert_true(exists(p, "tmp/job_1") && !exists(p, "audio/job_1"));
    assert_int_equal(steno_spool_commit(f, NULL), STENO_OK);
    assert_true(!exists(p, "tmp/job_1") && exists(p, "audio/job_1"));
    assert_int_equal(steno_spool_read(s, "job_1", &fd, NULL), STENO_OK);
    assert_int_equal(read(fd, text, sizeof text), 6);
    assert_string_equal(text, "abcdef");
    close(fd);
    steno_spool_remove(s, "job_1");
    assert_int_equal(steno_spool_read(s, "job_1", &fd, NULL), STENO_ERR_IO);
    steno_spool_close(s);
}

static void a_full_disk_leaves_nothing_behind(void **state)
{
    struct place *p = *state;
    steno_spool *s = open_spool(p);
    steno_spool_file *f;
    steno_err err;
    assert_int_equal(steno_spool_begin(&f, s, "job_1", 10, NULL), STENO_OK);
    write_fails = 1;
    assert_int_equal(steno_spool_write(f, "abc", 3, &err), STENO_ERR_IO);
    assert_string_equal(err.msg, "the recording cannot be stored: No space left on device");
    steno_spool_discard(f);
    for (int nth = 1; nth <= 2; nth++) { /* of the file, and of the folder */
        assert_int_equal(steno_spool_begin(&f, s, "job_1", 10, NULL), STENO_OK);
        assert_int_equal(steno_spool_write(f, "abc", 3, &err), STENO_OK);
        fsync_fails = nth;
        assert_int_equal(steno_spool_commit(f, &err), STENO_ERR_IO);
        assert_false(exists(p, "tmp/job_1") || exists(p, "audio/job_1"));
    }
    steno_spool_close(s);
}

static bool is_wanted(void *user, const char *id)
{
    return !strcmp(id, user);
}

static void a_start_removes_what_no_job_needs(void **state)
{
    struct place *p = *state;
    steno_spool *s = open_spool(p), *other;
    steno_spool_file *f;
    const char *const ids[] = {"job_1", "job_2"};
    char wanted[] = "job_2", path[128];
    assert_int_equal(steno_spool_open(&other, p->dir, NULL), STENO_ERR_BUSY);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(steno_spool_begin(&f, s, ids[i], 10, NULL), STENO_OK);
        assert_int_equal(steno_spool_commit(f, NULL), STENO_OK);
    }
    assert_int_equal(steno_spool_begin(&f, s, "job_3", 10, NULL), STENO_OK);
    steno_spool_clean(s, is_wanted, wanted);
    assert_true(!exists(p, "audio/job_1") && exists(p, "audio/job_2") && exists(p, "tmp/job_3"));
    steno_spool_discard(f);
    steno_spool_close(s);
    snprintf(path, sizeof path, "%s/tmp/job_4",
             p->dir); /* as a process that was killed leaves it */
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_true(exists(p, "tmp/job_4"));
    s = open_spool(p);
    assert_false(exists(p, "tmp/job_4"));
    steno_spool_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_files_are_readable_by_their_owner_alone),
        TEST(a_job_is_queued_runs_and_is_done),
        TEST(a_result_is_stored_once_whoever_comes_late),
        TEST(a_heartbeat_extends_the_lease),
        TEST(what_was_running_when_a_process_was_killed_runs_again_and_ends_after_three_tries),
        TEST(a_commit_survives_a_kill_and_an_open_transaction_does_not),
        TEST(a_failed_try_waits_and_the_third_one_is_the_last),
        TEST(a_run_that_a_shutdown_ends_is_no_try),
        TEST(progress_is_kept_and_a_new_run_begins_without_segments),
        TEST(owners_take_turns_and_see_their_own_jobs_alone),
        TEST(quotas_count_what_is_not_over),
        TEST(a_request_that_comes_again_gets_its_job),
        TEST(removing_cancels_a_job_and_then_forgets_it),
        TEST(jobs_expire_queued_and_running),
        TEST(what_is_over_is_kept_for_its_time_unless_a_callback_waits),
        TEST(a_callback_is_due_when_its_job_ends_and_keeps_its_event),
        TEST(lists_have_pages_and_filters),
        TEST(jobs_are_counted_by_state),
        TEST(an_older_store_is_migrated_and_a_newer_one_refused),
        TEST(the_trace_of_a_request_stays_with_its_job),
        TEST(a_store_that_cannot_grow_refuses_and_keeps_what_it_has),
        TEST(a_recording_has_its_name_once_it_is_whole),
        TEST(a_full_disk_leaves_nothing_behind),
        TEST(a_start_removes_what_no_job_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
