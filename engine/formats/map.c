#include "formats/map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static steno_status map_fd(struct steno_map *out, int fd, const char *path, steno_err *err)
{
    struct stat s;
    void *p;
    if (fstat(fd, &s))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: not a regular file", path);
    if (!s.st_size) {
        *out = (struct steno_map){0};
        return STENO_OK;
    }
    p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    *out = (struct steno_map){p, (size_t)s.st_size};
    return STENO_OK;
}

steno_status steno_map_open(struct steno_map *out, const char *path, steno_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    steno_status st;
    if (fd < 0)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    st = map_fd(out, fd, path, err);
    close(fd);
    return st;
}

void steno_map_close(struct steno_map *m)
{
    void *p;
    if (m->n) {
        memcpy(&p, &m->p, sizeof p);
        munmap(p, m->n);
    }
    *m = (struct steno_map){0};
}
