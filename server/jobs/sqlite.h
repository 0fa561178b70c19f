/* One connection to a SQLite database: its statements, each prepared at its first use, and its
 * transactions. Locked: begin takes the lock and end gives it back; what is called between them, or
 * with the lock taken by the caller, says so.
 *
 * A transaction commits with synchronous=FULL: the write-ahead log is synced before end returns.
 * A relaxed one commits with NORMAL, without a sync; a crash of the machine may lose it. */
#ifndef STENO_SERVER_JOBS_SQLITE_H
#define STENO_SERVER_JOBS_SQLITE_H

#include "base/buf.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct steno_sqlite {
    sqlite3 *db;
    const char *const *sql; /* [n] texts of the statements; borrowed */
    int n;
    sqlite3_stmt **st;    /* [n], NULL before the first use */
    sqlite3_stmt *own[5]; /* of begin and end */
    bool relaxed;         /* synchronous = NORMAL */
    const char *what;     /* begins messages: "the store of jobs" */
    pthread_mutex_t lock;
};

/* Open or make a database, with a write-ahead log. c is zeroed before; it is closed by the caller
 * also on failure. sql, what: borrowed. STENO_ERR_IO, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_sqlite_open(struct steno_sqlite *c, const char *path,
                                          const char *const *sql, int n, const char *what,
                                          steno_err *err);
void steno_sqlite_close(struct steno_sqlite *c); /* a half-open or zeroed one is fine */

/* Bring the schema to version n: migrations[i] makes version i + 1 of version i. Each step is a
 * transaction, so a process that dies within it leaves the version before. STENO_ERR_UNSUPPORTED:
 * a later program wrote it. */
STENO_MUST steno_status steno_sqlite_migrate(struct steno_sqlite *c, const char *const *migrations,
                                             int n, steno_err *err);

/* Take the lock and begin a transaction. On failure the lock is not held. */
STENO_MUST steno_status steno_sqlite_begin(struct steno_sqlite *c, bool relaxed, steno_err *err);
/* Commit, or undo when st is an error, and give the lock back. Returns st, or why it was not
 * committed. */
STENO_MUST steno_status steno_sqlite_end(struct steno_sqlite *c, steno_status st, steno_err *err);

/* Run statement `which`. The arguments are bound by letters: i int64_t, d double, t text (NULL as
 * ""), b bytes and their size_t. first: its first column of the first row; unchanged without a
 * row. changes: rows that it changed. Both may be NULL. Lock held. */
STENO_MUST steno_status steno_sqlite_run(struct steno_sqlite *c, int which, int64_t *first,
                                         int *changes, steno_err *err, const char *letters, ...);
/* Begin statement `which`. *s is to be stepped (steno_sqlite_next) and then reset. Lock held. */
STENO_MUST steno_status steno_sqlite_start(struct steno_sqlite *c, int which, sqlite3_stmt **s,
                                           steno_err *err, const char *letters, ...);
/* STENO_NEED_MORE: no row, or no further one. Lock held. */
STENO_MUST steno_status steno_sqlite_next(struct steno_sqlite *c, sqlite3_stmt *s, steno_err *err);
/* Append the texts of the first column of all rows to out, each with its NUL, and reset s. Lock
 * held. */
STENO_MUST steno_status steno_sqlite_texts(struct steno_sqlite *c, sqlite3_stmt *s,
                                           struct steno_buf *out, steno_err *err);

/* A text column; "" for NULL. dup: from malloc, NULL without memory. */
char *steno_sqlite_dup(sqlite3_stmt *s, int column);
void steno_sqlite_copy(sqlite3_stmt *s, int column, char *out, size_t size);

#endif
