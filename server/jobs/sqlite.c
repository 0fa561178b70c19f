#include "server/jobs/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUSY_MS 5000

enum own { BEGIN, COMMIT, ROLLBACK, SYNC_FULL, SYNC_NORMAL };
static const char *const own_sql[] = {"BEGIN IMMEDIATE", "COMMIT", "ROLLBACK",
                                      "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"};

/* ---- statements ------------------------------------------------------------------------------ */

static steno_status failed(struct steno_sqlite *c, steno_err *err)
{
    const int rc = sqlite3_errcode(c->db);
    return steno_fail(err, rc == SQLITE_NOMEM ? STENO_ERR_NOMEM : STENO_ERR_IO, "%s: %s", c->what,
                      sqlite3_errmsg(c->db));
}

static bool bind_all(sqlite3_stmt *s, const char *letters, va_list ap)
{
    int rc = SQLITE_OK;
    for (int i = 1; *letters && rc == SQLITE_OK; letters++, i++) {
        const char *p;
        if (*letters == 'i') {
            rc = sqlite3_bind_int64(s, i, va_arg(ap, int64_t));
        } else if (*letters == 'd') {
            rc = sqlite3_bind_double(s, i, va_arg(ap, double));
        } else if (*letters == 't') {
            p = va_arg(ap, const char *);
            rc = sqlite3_bind_text(s, i, p ? p : "", -1, SQLITE_STATIC);
        } else {
            p = va_arg(ap, const char *);
            rc = sqlite3_bind_blob64(s, i, p ? p : "", va_arg(ap, size_t), SQLITE_STATIC);
        }
    }
    return rc == SQLITE_OK;
}

static steno_status prepare_statement(struct steno_sqlite *c, const char *text, sqlite3_stmt **s,
                                      steno_err *err)
{
    if (!*s && sqlite3_prepare_v3(c->db, text, -1, SQLITE_PREPARE_PERSISTENT, s, NULL) != SQLITE_OK)
        return failed(c, err);
    return STENO_OK;
}

static steno_status begin_statement(struct steno_sqlite *c, int which, sqlite3_stmt **s,
                                    steno_err *err, const char *letters, va_list ap)
{
    steno_status st = prepare_statement(c, c->sql[which], &c->st[which], err);
    if (st)
        return st;
    *s = c->st[which];
    return bind_all(*s, letters, ap) ? STENO_OK : failed(c, err);
}

steno_status steno_sqlite_start(struct steno_sqlite *c, int which, sqlite3_stmt **s, steno_err *err,
                                const char *letters, ...)
{
    steno_status st;
    va_list ap;
    va_start(ap, letters);
    st = begin_statement(c, which, s, err, letters, ap);
    va_end(ap);
    return st;
}

steno_status steno_sqlite_next(struct steno_sqlite *c, sqlite3_stmt *s, steno_err *err)
{
    const int rc = sqlite3_step(s);
    return rc == SQLITE_ROW ? STENO_OK : rc == SQLITE_DONE ? STENO_NEED_MORE : failed(c, err);
}

steno_status steno_sqlite_run(struct steno_sqlite *c, int which, int64_t *first, int *changes,
                              steno_err *err, const char *letters, ...)
{
    sqlite3_stmt *s;
    steno_status st;
    va_list ap;
    va_start(ap, letters);
    st = begin_statement(c, which, &s, err, letters, ap);
    va_end(ap);
    if (st)
        return st;
    st = steno_sqlite_next(c, s, err);
    if (!st && first)
        *first = sqlite3_column_int64(s, 0);
    while (!st)
        st = steno_sqlite_next(c, s, err);
    if (changes)
        *changes = sqlite3_changes(c->db);
    sqlite3_reset(s);
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

steno_status steno_sqlite_texts(struct steno_sqlite *c, sqlite3_stmt *s, struct steno_buf *out,
                                steno_err *err)
{
    steno_status st;
    while (!(st = steno_sqlite_next(c, s, err))) {
        const char *text = (const char *)sqlite3_column_text(s, 0);
        if (!text || steno_buf_add(out, text, strlen(text) + 1)) {
            st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
            break;
        }
    }
    sqlite3_reset(s);
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

char *steno_sqlite_dup(sqlite3_stmt *s, int column)
{
    const char *t = (const char *)sqlite3_column_text(s, column);
    return strdup(t ? t : "");
}

void steno_sqlite_copy(sqlite3_stmt *s, int column, char *out, size_t size)
{
    const char *t = (const char *)sqlite3_column_text(s, column);
    snprintf(out, size, "%s", t ? t : "");
}

/* ---- transactions ---------------------------------------------------------------------------- */

static steno_status run_own(struct steno_sqlite *c, enum own which, steno_err *err)
{
    steno_status st = prepare_statement(c, own_sql[which], &c->own[which], err);
    if (st)
        return st;
    while (!(st = steno_sqlite_next(c, c->own[which], err)))
        ;
    sqlite3_reset(c->own[which]);
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

steno_status steno_sqlite_begin(struct steno_sqlite *c, bool relaxed, steno_err *err)
{
    steno_status st = STENO_OK;
    pthread_mutex_lock(&c->lock);
    if (c->relaxed != relaxed) {
        st = run_own(c, relaxed ? SYNC_NORMAL : SYNC_FULL, err);
        if (!st)
            c->relaxed = relaxed;
    }
    if (!st)
        st = run_own(c, BEGIN, err);
    if (st)
        pthread_mutex_unlock(&c->lock);
    return st;
}

steno_status steno_sqlite_end(struct steno_sqlite *c, steno_status st, steno_err *err)
{
    if (!st)
        st = run_own(c, COMMIT, err);
    if (st && !sqlite3_get_autocommit(c->db)) {
        steno_err ignored;
        (void)!run_own(c, ROLLBACK, &ignored);
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status execute(struct steno_sqlite *c, const char *text, steno_err *err)
{
    return sqlite3_exec(c->db, text, NULL, NULL, NULL) == SQLITE_OK ? STENO_OK : failed(c, err);
}

/* Transcripts are read by nobody else, whatever the umask and whoever made the file. SQLite gives
 * the files beside it the mode of the database; those of an earlier version are narrowed too. */
static steno_status make_private(const char *path, steno_err *err)
{
    static const char *const beside[] = {"-wal", "-shm"};
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    const bool good = fd >= 0 && !fchmod(fd, 0600);
    const int why = errno;
    char name[PATH_MAX];
    if (fd >= 0)
        close(fd);
    if (!good)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(why));
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (snprintf(name, sizeof name, "%s%s", path, beside[i]) < (int)sizeof name)
            (void)chmod(name, 0600);
    return STENO_OK;
}

steno_status steno_sqlite_open(struct steno_sqlite *c, const char *path, const char *const *sql,
                               int n, const char *what, steno_err *err)
{
    steno_status st;
    pthread_mutex_init(&c->lock, NULL);
    c->sql = sql;
    c->what = what;
    c->st = calloc((size_t)n, sizeof(sqlite3_stmt *));
    if (!c->st)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    c->n = n;
    st = make_private(path, err);
    if (st)
        return st;
    if (sqlite3_open_v2(path, &c->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                            SQLITE_OPEN_NOFOLLOW,
                        NULL) != SQLITE_OK)
        return c->db ? failed(c, err) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    sqlite3_busy_timeout(c->db, BUSY_MS);
    st = execute(c, "PRAGMA journal_mode = WAL", err);
    if (!st)
        st = execute(c, own_sql[SYNC_FULL], err);
    if (!st)
        st = execute(c, "PRAGMA journal_size_limit = 4194304", err);
    return st;
}

void steno_sqlite_close(struct steno_sqlite *c)
{
    for (int i = 0; i < c->n; i++)
        sqlite3_finalize(c->st[i]);
    for (size_t i = 0; i < sizeof c->own / sizeof *c->own; i++)
        sqlite3_finalize(c->own[i]);
    free(c->st);
    sqlite3_close(c->db);
    if (c->what)
        pthread_mutex_destroy(&c->lock);
    memset(c, 0, sizeof *c);
}

static steno_status read_version(struct steno_sqlite *c, int *version, steno_err *err)
{
    sqlite3_stmt *s = NULL;
    *version = -1;
    if (sqlite3_prepare_v2(c->db, "PRAGMA user_version", -1, &s, NULL) == SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        *version = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    return *version < 0 ? failed(c, err) : STENO_OK;
}

steno_status steno_sqlite_migrate(struct steno_sqlite *c, const char *const *migrations, int n,
                                  steno_err *err)
{
    int version;
    steno_status st = read_version(c, &version, err);
    if (!st && version > n)
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "the store has version %d, this program knows up to %d", version, n);
    for (; !st && version < n; version++) {
        char mark[64];
        snprintf(mark, sizeof mark, "PRAGMA user_version = %d", version + 1);
        st = steno_sqlite_begin(c, false, err);
        if (st)
            break;
        st = execute(c, migrations[version], err);
        if (!st)
            st = execute(c, mark, err);
        st = steno_sqlite_end(c, st, err);
    }
    return st;
}
