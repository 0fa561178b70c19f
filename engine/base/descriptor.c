#define _GNU_SOURCE /* F_DUPFD_CLOEXEC */
#include "base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#include <sys/syscall.h>

int steno_fd_copy(int fd)
{
    int copy = dup(fd); /* seen; a program started between the two calls inherits it */
    if (copy >= 0)
        (void)fcntl(copy, F_SETFD, FD_CLOEXEC);
    return copy;
}

int steno_fd_open_at(int folder, const char *name, int flags, mode_t mode)
{
    int unseen = openat(folder, name, flags | O_CLOEXEC, mode), fd;
    if (unseen < 0)
        return -1;
    fd = steno_fd_copy(unseen);
    (void)syscall(SYS_close, unseen);
    return fd;
}
#else
int steno_fd_copy(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int steno_fd_open_at(int folder, const char *name, int flags, mode_t mode)
{
    return openat(folder, name, flags | O_CLOEXEC, mode);
}
#endif
