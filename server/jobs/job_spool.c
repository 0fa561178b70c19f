#include "server/jobs/job_spool.h"

#include "base/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NAME 64 /* bytes of a job's id */

struct steno_spool {
    char dir[PATH_MAX - NAME - 8];
    int lock, audio, tmp; /* descriptors; -1 = not open */
};

struct steno_spool_file {
    const steno_spool *s;
    char id[NAME];
    int fd;
    size_t size, max;
};

static steno_status make_folder(const char *dir, const char *name, int *fd, steno_err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s%s", dir, *name ? "/" : "", name);
    if (mkdir(path, 0700) && errno != EEXIST)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno)) : STENO_OK;
}

static steno_status take_lock(steno_spool *s, steno_err *err)
{
    char path[PATH_MAX];
    steno_spool_path(s, "lock", path, sizeof path);
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock < 0)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    if (flock(s->lock, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK
                   ? steno_fail(err, STENO_ERR_BUSY, "%s: another process uses it", s->dir)
                   : steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    return STENO_OK;
}

/* Call fn for every file of a folder. */
static void each_file(int folder, void (*fn)(void *user, const char *name), void *user)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;
    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((e = readdir(d)))
        if (*e->d_name != '.')
            fn(user, e->d_name);
    closedir(d);
}

static void remove_temporary(void *user, const char *name)
{
    (void)unlinkat(((steno_spool *)user)->tmp, name, 0);
}

steno_status steno_spool_open(steno_spool **out, const char *dir, steno_err *err)
{
    steno_spool *s = calloc(1, sizeof *s);
    int top = -1;
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    s->lock = s->audio = s->tmp = -1;
    if (strlen(dir) >= sizeof s->dir)
        st = steno_fail(err, STENO_ERR_INVAL, "the path is longer than %zu bytes",
                        sizeof s->dir - 1);
    else
        st = make_folder(memcpy(s->dir, dir, strlen(dir) + 1), "", &top, err);
    if (!st)
        st = take_lock(s, err);
    if (!st)
        st = make_folder(dir, "audio", &s->audio, err);
    if (!st)
        st = make_folder(dir, "tmp", &s->tmp, err);
    if (!st && fsync(top)) /* the names of the two folders */
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", dir, strerror(errno));
    if (top >= 0)
        close(top);
    if (st) {
        steno_spool_close(s);
        return st;
    }
    each_file(s->tmp, remove_temporary, s);
    *out = s;
    return STENO_OK;
}

void steno_spool_close(steno_spool *s)
{
    if (!s)
        return;
    if (s->tmp >= 0)
        close(s->tmp);
    if (s->audio >= 0)
        close(s->audio);
    if (s->lock >= 0)
        close(s->lock);
    free(s);
}

void steno_spool_path(const steno_spool *s, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", s->dir, name);
}

/* ---- writing --------------------------------------------------------------------------------- */

steno_status steno_spool_check_room(const steno_spool *s, steno_err *err)
{
    struct statvfs v;
    if (fstatvfs(s->audio, &v))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", s->dir, strerror(errno));
    if (v.f_bavail < STENO_SPOOL_RESERVE / (v.f_frsize ? v.f_frsize : 1))
        return steno_fail(err, STENO_ERR_IO,
                          "the recording cannot be stored: the disk has less than %u MiB left",
                          STENO_SPOOL_RESERVE >> 20);
    return STENO_OK;
}

steno_status steno_spool_begin(steno_spool_file **out, const steno_spool *s, const char *id,
                               size_t max, steno_err *err)
{
    steno_spool_file *f = calloc(1, sizeof *f);
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    f->s = s;
    f->max = max;
    snprintf(f->id, sizeof f->id, "%s", id);
    f->fd = openat(s->tmp, f->id, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0) {
        free(f);
        return steno_fail(err, STENO_ERR_IO, "the recording cannot be stored: %s", strerror(errno));
    }
    *out = f;
    return STENO_OK;
}

steno_status steno_spool_write(steno_spool_file *f, const void *p, size_t n, steno_err *err)
{
    if (n > f->max - f->size)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "the recording is larger than jobs.max_bytes (%zu bytes)", f->max);
    if (!steno_write_whole(f->fd, p, n))
        return steno_fail(err, STENO_ERR_IO, "the recording cannot be stored: %s", strerror(errno));
    f->size += n;
    return STENO_OK;
}

size_t steno_spool_size(const steno_spool_file *f)
{
    return f->size;
}

/* The order matters: the bytes, the name, the name on the disk. */
steno_status steno_spool_commit(steno_spool_file *f, steno_err *err)
{
    const steno_spool *s = f->s;
    steno_status st = steno_spool_check_room(s, err);
    int rc;
    if (st) {
        steno_spool_discard(f);
        return st;
    }
    rc = fsync(f->fd) || renameat(s->tmp, f->id, s->audio, f->id) ||
         (fsync(s->audio) && (unlinkat(s->audio, f->id, 0), true));
    if (rc) {
        st = steno_fail(err, STENO_ERR_IO, "the recording cannot be stored: %s", strerror(errno));
        steno_spool_discard(f);
        return st;
    }
    close(f->fd); /* fsync has reported what close could */
    free(f);
    return STENO_OK;
}

void steno_spool_discard(steno_spool_file *f)
{
    if (!f)
        return;
    close(f->fd);
    (void)unlinkat(f->s->tmp, f->id, 0);
    free(f);
}

/* ---- reading --------------------------------------------------------------------------------- */

steno_status steno_spool_read(const steno_spool *s, const char *id, int *fd, steno_err *err)
{
    *fd = openat(s->audio, id, O_RDONLY | O_CLOEXEC);
    return *fd < 0 ? steno_fail(err, STENO_ERR_IO, "the stored recording cannot be read: %s",
                                strerror(errno))
                   : STENO_OK;
}

void steno_spool_remove(const steno_spool *s, const char *id)
{
    (void)unlinkat(s->audio, id, 0);
}

struct cleaning {
    const steno_spool *s;
    bool (*wanted)(void *user, const char *id);
    void *user;
};

static void clean_one(void *user, const char *name)
{
    const struct cleaning *c = user;
    if (!c->wanted(c->user, name))
        (void)unlinkat(c->s->audio, name, 0);
}

void steno_spool_clean(const steno_spool *s, bool (*wanted)(void *user, const char *id), void *user)
{
    struct cleaning c = {s, wanted, user};
    each_file(s->audio, clean_one, &c);
}
