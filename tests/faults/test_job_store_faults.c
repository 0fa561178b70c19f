/* The store of jobs while its disk fails: the nth write, sync, read or truncation of SQLite's files
 * is an I/O error, or the disk is full. SQLite reaches its files through a table of functions (a
 * VFS); the test puts one of its own before the default one.
 *
 * Whatever fails, what was acknowledged is there after the next start, an error is an error of I/O
 * that names the store, and the store works again as soon as the disk does. */
/* link: server/jobs/job_sqlite.c server/jobs/sqlite.c server/jobs/job_queue.c */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/jobs/job_sqlite.h"
#include "tests/support/test.h"

#define T INT64_C(1000000)

/* ---- the disk -------------------------------------------------------------------------------- */

enum call { WRITE, SYNC, READ, TRUNCATE, CALLS };
static enum call failing; /* which calls */
static int left;          /* until one fails; 0: none does */
static int code;          /* SQLITE_IOERR, SQLITE_FULL */
static bool lasting;      /* all later ones fail too */

struct file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
};

static sqlite3_file *real_of(sqlite3_file *f)
{
    return ((struct file *)f)->real;
}

static bool fails(enum call c)
{
    if (c != failing || left == 0)
        return false;
    if (left > 1) {
        left--;
        return false;
    }
    left = lasting ? 1 : 0;
    return true;
}

static int on_close(sqlite3_file *f)
{
    return real_of(f)->pMethods->xClose(real_of(f));
}

static int on_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    return fails(READ) ? SQLITE_IOERR_READ : real_of(f)->pMethods->xRead(real_of(f), p, n, at);
}

static int on_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    return fails(WRITE) ? code : real_of(f)->pMethods->xWrite(real_of(f), p, n, at);
}

static int on_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    return fails(TRUNCATE) ? SQLITE_IOERR_TRUNCATE : real_of(f)->pMethods->xTruncate(real_of(f), n);
}

static int on_sync(sqlite3_file *f, int flags)
{
    return fails(SYNC) ? SQLITE_IOERR_FSYNC : real_of(f)->pMethods->xSync(real_of(f), flags);
}

static int on_size(sqlite3_file *f, sqlite3_int64 *n)
{
    return real_of(f)->pMethods->xFileSize(real_of(f), n);
}

static int on_lock(sqlite3_file *f, int l)
{
    return real_of(f)->pMethods->xLock(real_of(f), l);
}

static int on_unlock(sqlite3_file *f, int l)
{
    return real_of(f)->pMethods->xUnlock(real_of(f), l);
}

static int on_check(sqlite3_file *f, int *out)
{
    return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
}

static int on_control(sqlite3_file *f, int op, void *arg)
{
    return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int on_sector(sqlite3_file *f)
{
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int on_device(sqlite3_file *f)
{
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

static int on_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
    return real_of(f)->pMethods->xShmMap(real_of(f), page, size, extend, out);
}

static int on_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return real_of(f)->pMethods->xShmLock(real_of(f), offset, n, flags);
}

static void on_shm_barrier(sqlite3_file *f)
{
    real_of(f)->pMethods->xShmBarrier(real_of(f));
}

static int on_shm_unmap(sqlite3_file *f, int remove)
{
    return real_of(f)->pMethods->xShmUnmap(real_of(f), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_check,
    .xFileControl = on_control,
    .xSectorSize = on_sector,
    .xDeviceCharacteristics = on_device,
    .xShmMap = on_shm_map,
    .xShmLock = on_shm_lock,
    .xShmBarrier = on_shm_barrier,
    .xShmUnmap = on_shm_unmap,
};

static sqlite3_vfs *real_vfs, disk;

static int on_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct file *x = (struct file *)f;
    int rc;
    (void)v;
    x->real = (sqlite3_file *)(x + 1);
    x->base.pMethods = NULL;
    rc = real_vfs->xOpen(real_vfs, name, x->real, flags, out);
    if (x->real->pMethods)
        x->base.pMethods = &methods;
    return rc;
}

static int put_disk_before(void **state)
{
    (void)state;
    real_vfs = sqlite3_vfs_find(NULL);
    disk = *real_vfs;
    disk.zName = "disk-that-fails";
    disk.szOsFile = (int)sizeof(struct file) + real_vfs->szOsFile;
    disk.xOpen = on_open;
    return sqlite3_vfs_register(&disk, 1);
}

/* ---- the story of a job ---------------------------------------------------------------------- */

struct place {
    char dir[64], db[96];
    steno_job_queue *q;
};

static void open_store(struct place *p)
{
    steno_err err = {STENO_OK, ""};
    if (steno_job_sqlite_open(&p->q, p->db, T, &err))
        fail_msg("%s", err.msg);
}

static void begin(struct place *p)
{
    snprintf(p->dir, sizeof p->dir, "/tmp/steno-jobs-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->db, sizeof p->db, "%s/jobs.db", p->dir);
    left = 0;
    open_store(p);
}

static void end(struct place *p)
{
    char command[128];
    p->q->ops->close(p->q);
    snprintf(command, sizeof command, "rm -rf %s", p->dir);
    assert_int_equal(system(command), 0);
}

/* What was acknowledged. */
struct story {
    bool submitted, claimed, finished, called, delivered;
    int failures;
};

/* Note a status. A failure names the store. */
static bool went(struct story *s, steno_status st, const steno_err *err)
{
    if (!st)
        return true;
    s->failures++;
    if (st != STENO_ERR_IO || !strstr(err->msg, "the store of jobs"))
        fail_msg("status %d: %s", (int)st, err->msg);
    return false;
}

static bool submit(struct place *p, struct story *s, const char *id)
{
    const struct steno_job_quota none = {0, 0};
    const struct steno_job_new j = {.id = id,
                                    .owner = "",
                                    .target = "/v1/transcribe",
                                    .url = "",
                                    .callback = "https://h/",
                                    .method = "POST",
                                    .created = T};
    steno_err err;
    return went(s, p->q->ops->submit(p->q, &j, 1, &none, NULL, &err), &err);
}

static void tell(struct place *p, struct story *s)
{
    static char text[20000];
    const struct steno_job_body body = {"json", text, sizeof text};
    const struct steno_job_end done = {.state = STENO_JOB_DONE,
                                       .reason = "",
                                       .code = "",
                                       .model = "m",
                                       .duration = 1,
                                       .results = &body,
                                       .n_results = 1};
    const struct steno_job_segment seg = {0, 1, "one"};
    struct steno_job_record r;
    steno_err err;
    steno_status st;
    memset(text, 'x', sizeof text);
    s->submitted = submit(p, s, "job_1");
    st = p->q->ops->claim(p->q, "test", T, T + 1000, &r, &err);
    if (st == STENO_NEED_MORE)
        return;
    s->claimed = went(s, st, &err);
    if (!s->claimed)
        return;
    steno_job_record_free(&r);
    (void)went(
        s,
        p->q->ops->progress(p->q, "job_1", 1, &(struct steno_job_progress){1, 1, 0, &seg, 1}, &err),
        &err);
    s->finished = went(s, p->q->ops->finish(p->q, "job_1", 1, T, &done, &err), &err);
    st = p->q->ops->callback(p->q, T, T + 1000, &r, &err);
    if (st == STENO_NEED_MORE)
        return;
    s->called = went(s, st, &err);
    if (!s->called)
        return;
    steno_job_record_free(&r);
    s->delivered = went(
        s, p->q->ops->callback_over(p->q, "job_1", STENO_CALLBACK_DELIVERED, 0, "", &err), &err);
}

/* Check, after a start with a disk that works, that what was acknowledged is there. */
static void check(struct place *p, const struct story *s)
{
    struct steno_job_record r;
    struct steno_buf out;
    steno_err err;
    steno_status st = p->q->ops->get(p->q, NULL, "job_1", &r, &err);
    if (st) {
        assert_int_equal(st, STENO_ERR_INVAL);
        assert_false(s->submitted);
        return;
    }
    if (s->finished) {
        assert_int_equal(r.state, STENO_JOB_DONE);
        steno_buf_init(&out, 1u << 20);
        assert_int_equal(p->q->ops->result(p->q, "job_1", "json", &out, &err), STENO_OK);
        assert_int_equal(out.len, 20000);
        steno_buf_free(&out);
    }
    if (s->called)
        assert_true(r.callback_tries >= 1); /* so the next one is marked as another try */
    if (s->delivered)
        assert_int_equal(r.callback_state, STENO_CALLBACK_DELIVERED);
    steno_job_record_free(&r);
}

static int fail_each(enum call c, int rc)
{
    int failures = 0;
    for (int n = 1;; n++) {
        struct place p;
        struct story s = {0}, after = {0};
        bool was_reached;
        begin(&p);
        failing = c;
        code = rc;
        left = n;
        tell(&p, &s);
        was_reached = left == 0;
        left = 0;
        failures += s.failures;
        assert_true(submit(&p, &after, "job_2")); /* the disk works, and so does the store */
        p.q->ops->close(p.q);
        open_store(&p);
        check(&p, &s);
        end(&p);
        if (!was_reached)
            return failures;
        assert_true(n < 1000);
    }
}

static void each_call_of_the_disk_that_fails_loses_nothing_acknowledged(void **state)
{
    (void)state;
    assert_true(fail_each(WRITE, SQLITE_IOERR_WRITE) > 5);
    assert_true(fail_each(WRITE, SQLITE_FULL) > 5);
    assert_true(fail_each(SYNC, 0) > 2);
    (void)fail_each(READ, 0);
    (void)fail_each(TRUNCATE, 0);
}

static void a_disk_that_stays_full_refuses_every_job_until_there_is_room(void **state)
{
    struct place p;
    struct story s = {0}, later = {0};
    struct steno_job_record r;
    steno_err err;
    (void)state;
    begin(&p);
    assert_true(submit(&p, &s, "job_1"));
    failing = WRITE;
    code = SQLITE_FULL;
    left = 1;
    lasting = true;
    for (int i = 0; i < 20; i++) {
        char id[32];
        snprintf(id, sizeof id, "job_full_%d", i);
        assert_false(submit(&p, &s, id));
        assert_int_equal(p.q->ops->get(p.q, NULL, id, &r, &err), STENO_ERR_INVAL);
    }
    assert_int_equal(p.q->ops->get(p.q, NULL, "job_1", &r, &err), STENO_OK); /* reading goes on */
    steno_job_record_free(&r);
    lasting = false;
    left = 0;
    assert_true(submit(&p, &later, "job_2"));
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_of_the_disk_that_fails_loses_nothing_acknowledged),
        cmocka_unit_test(a_disk_that_stays_full_refuses_every_job_until_there_is_room),
    };
    return cmocka_run_group_tests(tests, put_disk_before, NULL);
}
