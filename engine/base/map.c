#define _GNU_SOURCE /* MAP_POPULATE, MAP_ANONYMOUS */
#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

steno_status steno_map_take(struct steno_map *out, int fd, bool now, const char *path,
                            steno_err *err)
{
    struct stat s;
    void *p;
    if (fstat(fd, &s))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: not a regular file", path);
    if (!s.st_size) {
        *out = (struct steno_map){0};
        close(fd);
        return STENO_OK;
    }
    p = mmap(NULL, (size_t)s.st_size, PROT_READ, now ? MAP_SHARED | MAP_POPULATE : MAP_PRIVATE, fd,
             0);
    if (p == MAP_FAILED)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    *out = (struct steno_map){p, (size_t)s.st_size, fd, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
    return STENO_OK;
}

steno_status steno_map_open(struct steno_map *out, const char *path, steno_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    steno_status st;
    if (fd < 0)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    st = steno_map_take(out, fd, false, path, err);
    if (st)
        close(fd);
    return st;
}

void steno_map_close(struct steno_map *m)
{
    void *p;
    if (m->n) {
        memcpy(&p, &m->p, sizeof p);
        munmap(p, m->n);
        close(m->fd);
    }
    *m = (struct steno_map){0};
}

bool steno_map_changed(const struct steno_map *m)
{
    struct stat s;
    return m->n && (fstat(m->fd, &s) || (size_t)s.st_size != m->n ||
                    s.st_mtim.tv_sec != m->seconds || s.st_mtim.tv_nsec != m->nanoseconds);
}

steno_status steno_map_check(const struct steno_map *m, const char *path, steno_err *err)
{
    const char *slash = path ? strrchr(path, '/') : NULL; /* clients read this */
    return steno_map_changed(m)
               ? steno_fail(err, STENO_ERR_IO,
                            "%s: the file was overwritten while in use; replace files by rename, "
                            "and load the model again",
                            slash ? slash + 1 : path)
               : STENO_OK;
}

/* ---- SIGBUS ----
 * In a signal handler, so all is done with system calls. /proc/self/maps says what a page is: a
 * table of our mappings would be state that all threads change. */

struct maps {
    int fd;
    ssize_t n, at;
    char text[1024];
};

static int next_mapping(struct maps *m)
{
    if (m->at == m->n) {
        m->n = read(m->fd, m->text, sizeof m->text);
        m->at = 0;
    }
    return m->n > 0 ? (unsigned char)m->text[m->at++] : -1;
}

/* Read a hexadecimal number and the character behind it. */
static uintptr_t read_hexadecimal(struct maps *m, int *behind)
{
    uintptr_t v = 0;
    int c;
    for (;;) {
        c = next_mapping(m);
        if (c >= '0' && c <= '9')
            v = v * 16 + (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v * 16 + (uintptr_t)(c - 'a' + 10);
        else
            break;
    }
    *behind = c;
    return v;
}

/* Find the end of the mapping of address a, if that can only be read; else 0. */
static uintptr_t end_of(uintptr_t a)
{
    struct maps m = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    uintptr_t found = 0;
    int c = m.fd < 0 ? -1 : 0;
    while (c >= 0 && !found) {
        const uintptr_t from = read_hexadecimal(&m, &c), to = read_hexadecimal(&m, &c);
        const bool reads = next_mapping(&m) == 'r', writes = next_mapping(&m) != '-',
                   runs = next_mapping(&m) != '-';
        if (a >= from && a < to) {
            found = reads && !writes && !runs ? to : 0;
            break;
        }
        while (c >= 0 && c != '\n')
            c = next_mapping(&m);
    }
    if (m.fd >= 0)
        close(m.fd);
    return found;
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
    const int saved = errno;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = (uintptr_t)info->si_addr & ~(page - 1);
    const uintptr_t to = info->si_code == BUS_ADRERR ? end_of(from) : 0;
    (void)context;
    if (!to || mmap((void *)from, to - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                    0) == MAP_FAILED)
        signal(sig, SIG_DFL); /* the read faults again, and the process ends */
    errno = saved;
}

void steno_map_guard(void)
{
    struct sigaction a = {.sa_flags = SA_SIGINFO | SA_RESTART};
    a.sa_sigaction = on_bus;
    sigemptyset(&a.sa_mask);
    sigaction(SIGBUS, &a, NULL);
}
