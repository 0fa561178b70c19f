/* The recordings of jobs, each in a file until its job is over: DIR/audio/ID. A recording is
 * written to DIR/tmp/ID and renamed when it is on the disk, so audio/ has whole ones only. Files in
 * tmp/ are of requests that did not end; the next start removes them. One process at a time uses a
 * directory (DIR/lock). Locked: every function may be called by any thread; a file is confined. */
#ifndef STENO_SERVER_JOBS_JOB_SPOOL_H
#define STENO_SERVER_JOBS_JOB_SPOOL_H

#include "base/status.h"

typedef struct steno_spool steno_spool;
typedef struct steno_spool_file steno_spool_file;

/* Open a directory, which is made if its parent exists. STENO_ERR_BUSY: another process uses it;
 * STENO_ERR_IO names what cannot be made. */
STENO_MUST steno_status steno_spool_open(steno_spool **out, const char *dir, steno_err *err);
void steno_spool_close(steno_spool *s); /* accepts NULL */
/* Write the path of a file of the directory to out [size]. */
void steno_spool_path(const steno_spool *s, const char *name, char *out, size_t size);

/* STENO_ERR_IO unless the disk has room for STENO_SPOOL_RESERVE: what is stored already needs it
 * for its results, and without them nothing would ever be removed. */
#define STENO_SPOOL_RESERVE (16u << 20)
STENO_MUST steno_status steno_spool_check_room(const steno_spool *s, steno_err *err);

/* Begin the recording of a job. id: letters, digits and '_'. max: of its bytes. */
STENO_MUST steno_status steno_spool_begin(steno_spool_file **out, const steno_spool *s,
                                          const char *id, size_t max, steno_err *err);
/* STENO_ERR_LIMIT: longer than max; STENO_ERR_IO: the disk is full, or another reason. */
STENO_MUST steno_status steno_spool_write(steno_spool_file *f, const void *p, size_t n,
                                          steno_err *err);
size_t steno_spool_size(const steno_spool_file *f);
/* Check the room, give the file its place and return when the disk has it and its name. Waits for
 * the disk. f is closed in any case; on failure nothing is left. STENO_ERR_IO. */
STENO_MUST steno_status steno_spool_commit(steno_spool_file *f, steno_err *err);
void steno_spool_discard(steno_spool_file *f); /* close and remove; accepts NULL */

/* Open a recording for reading; the descriptor is the caller's. STENO_ERR_IO: it is lost. */
STENO_MUST steno_status steno_spool_read(const steno_spool *s, const char *id, int *fd,
                                         steno_err *err);
/* Remove a recording; none is fine. */
void steno_spool_remove(const steno_spool *s, const char *id);
/* Remove each recording of which `wanted` says no. */
void steno_spool_clean(const steno_spool *s, bool (*wanted)(void *user, const char *id),
                       void *user);

#endif
