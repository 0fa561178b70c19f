#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Check that the open file still has its name (the process that held the lock before may have
 * renamed it), and that it is a regular file that we own, that others cannot write, with a single
 * link. */
static steno_status check_file(const struct steno_atomic_file *f, steno_err *err)
{
    struct stat mine, named;
    if (fstat(f->fd, &mine))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", f->temp, strerror(errno));
    if (lstat(f->temp, &named) || mine.st_ino != named.st_ino || mine.st_dev != named.st_dev)
        return steno_fail(err, STENO_ERR_BUSY, "%s: another process has just written it", f->path);
    if (!S_ISREG(mine.st_mode) || mine.st_uid != geteuid() || mine.st_nlink != 1 ||
        mine.st_mode & (S_IWGRP | S_IWOTH))
        return steno_fail(err, STENO_ERR_IO, "%s: exists and is not a regular file of ours alone",
                          f->temp);
    return STENO_OK;
}

steno_status steno_atomic_file_open(struct steno_atomic_file *f, const char *path, steno_err *err)
{
    steno_status st = STENO_OK;
    f->fd = -1;
    if (snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path)
        return steno_fail(err, STENO_ERR_INVAL, "%.100s...: the path is too long", path);
    snprintf(f->temp, sizeof f->temp, "%s.new", f->path);
    f->fd = open(f->temp, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (f->fd < 0)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", f->temp, strerror(errno));
    if (flock(f->fd, LOCK_EX | LOCK_NB))
        st = errno == EWOULDBLOCK
                 ? steno_fail(err, STENO_ERR_BUSY, "%s: another process is writing it", f->path)
                 : steno_fail(err, STENO_ERR_IO, "%s: %s", f->temp, strerror(errno));
    if (!st)
        st = check_file(f, err);
    if (!st && ftruncate(f->fd, 0)) {
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", f->temp, strerror(errno));
        unlink(f->temp); /* it is ours, and perhaps new */
    }
    if (st) {
        close(f->fd);
        f->fd = -1;
    }
    return st;
}

steno_status steno_atomic_file_commit(struct steno_atomic_file *f, bool sync, steno_err *err)
{
    /* the rename comes before the close: the lock is held until then */
    bool ok = (!sync || !fsync(f->fd)) && !rename(f->temp, f->path);
    int why = errno;
    if (!ok) {
        steno_atomic_file_discard(f);
        return steno_fail(err, STENO_ERR_IO, "%s: %s", f->path, strerror(why));
    }
    close(f->fd);
    f->fd = -1;
    return STENO_OK;
}

void steno_atomic_file_discard(struct steno_atomic_file *f)
{
    if (f->fd < 0)
        return;
    unlink(f->temp);
    close(f->fd);
    f->fd = -1;
}

steno_status steno_atomic_file_write(const char *path, const void *bytes, size_t n, mode_t mode,
                                     bool sync, steno_err *err)
{
    struct steno_atomic_file f;
    steno_status st = steno_atomic_file_open(&f, path, err);
    if (!st && (!steno_write_whole(f.fd, bytes, n) || (mode != 0600 && fchmod(f.fd, mode))))
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    if (!st)
        return steno_atomic_file_commit(&f, sync, err);
    steno_atomic_file_discard(&f);
    return st;
}

bool steno_write_whole(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}
