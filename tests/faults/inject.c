/* Preloaded into a running stenod by tests/integration/broken.py. The nth call of a kind fails,
 * or the process is killed at it, or a worker of the pool hangs in it. The test and the daemon
 * share a page (the file of $STENO_INJECT). The test writes there which kind fails, and after
 * how many calls.
 *
 * Only calls from our own code fail, since our reaction is tested. Memory and threads: only
 * where the caller is in the program itself. Sockets and files: also where the caller is
 * libmicrohttpd or libwebsockets.
 *
 * In builds with AddressSanitizer or ThreadSanitizer memory does not fail, because their
 * allocators stay in place. The other functions come before the sanitizers' own wrappers, since
 * they must see the caller; so the runtime is not the first library (verify_asan_link_order=0). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum kind { NONE, MEMORY, RECEIVE, SEND, DISK, THREAD, DESCRIPTOR, HANG, SHRINK, KINDS };

struct page {
    _Atomic int64_t kind;   /* the kind that fails */
    _Atomic int64_t left;   /* calls until one fails; it fails once, when this reaches 0 */
    _Atomic int64_t always; /* all calls fail from then on */
    _Atomic int64_t failed; /* number of calls that failed */
    _Atomic int64_t jump;   /* error of the wall clock in s */
    _Atomic int64_t kill;   /* instead of failing, the process ends by SIGKILL before the call */
    _Atomic int64_t asleep; /* s that the monotonic clock advanced while nothing ran */
};

static struct page *page;
static struct {
    uintptr_t from, to;
    bool program;
} code[8];
static int n_code;

static int note_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    bool program = !*info->dlpi_name;
    (void)size;
    (void)unused;
    if (!program && !strstr(info->dlpi_name, "libmicrohttpd") &&
        !strstr(info->dlpi_name, "libwebsockets"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && n_code < 8; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            code[n_code].from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            code[n_code].to = code[n_code].from + info->dlpi_phdr[i].p_memsz;
            code[n_code++].program = program;
        }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("STENO_INJECT");
    int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    void *p;
    if (fd < 0)
        return;
    dl_iterate_phdr(note_object, NULL);
    p = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED)
        page = p;
}

static bool is_ours(const void *caller, bool libraries)
{
    uintptr_t at = (uintptr_t)caller;
    bool ours = false;
    for (int i = 0; i < n_code; i++)
        ours |= at >= code[i].from && at < code[i].to && (libraries || code[i].program);
    return ours;
}

static bool fails(enum kind kind, const void *caller, bool libraries)
{
    if (!page || atomic_load(&page->kind) != kind || !is_ours(caller, libraries))
        return false;
    if (atomic_fetch_sub(&page->left, 1) != 1 &&
        !(atomic_load(&page->always) && atomic_load(&page->left) < 0))
        return false;
    atomic_fetch_add(&page->failed, 1);
    if (atomic_load(&page->kill))
        raise(SIGKILL);
    return true;
}

#define CALLER __builtin_return_address(0)
#define NEXT(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))
/* The next library's function, looked up at the first call. Two threads at once may both look it
 * up. */
#define REAL(name)                                                                                 \
    static _Atomic(__typeof__(&name)) real_;                                                       \
    __typeof__(&name) real = atomic_load_explicit(&real_, memory_order_relaxed);                   \
    if (!real)                                                                                     \
    atomic_store_explicit(&real_, real = NEXT(name), memory_order_relaxed)

#ifndef STENO_INJECT_NO_MEMORY
/* ---- memory ---------------------------------------------------------------------------------- */

/* dlsym itself may request zeroed memory before the first calloc is found. */
static char early[8192];
static size_t early_used;

static bool is_early(const void *p)
{
    return (uintptr_t)p >= (uintptr_t)early && (uintptr_t)p < (uintptr_t)early + sizeof early;
}

void *malloc(size_t n)
{
    REAL(malloc);
    if (fails(MEMORY, CALLER, false)) {
        errno = ENOMEM;
        return NULL;
    }
    return real(n);
}

void *calloc(size_t n, size_t size)
{
    static _Atomic bool looking;
    static _Atomic(__typeof__(&calloc)) found;
    __typeof__(&calloc) real = atomic_load(&found);
    if (!real && atomic_exchange(&looking, true)) {
        size_t bytes = (n * size + 15) & ~(size_t)15;
        void *p = early + early_used;
        if (early_used + bytes > sizeof early)
            return NULL;
        early_used += bytes;
        return p;
    }
    if (!real)
        atomic_store(&found, real = NEXT(calloc));
    if (fails(MEMORY, CALLER, false)) {
        errno = ENOMEM;
        return NULL;
    }
    return real(n, size);
}

void *realloc(void *p, size_t n)
{
    REAL(realloc);
    if (fails(MEMORY, CALLER, false)) {
        errno = ENOMEM;
        return NULL;
    }
    return real(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    REAL(aligned_alloc);
    if (fails(MEMORY, CALLER, false)) {
        errno = ENOMEM;
        return NULL;
    }
    return real(align, n);
}

void free(void *p)
{
    REAL(free);
    if (p && !is_early(p))
        real(p);
}

#endif

/* ---- sockets --------------------------------------------------------------------------------- */

ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    REAL(recv);
    if (fails(RECEIVE, CALLER, true)) {
        errno = ECONNRESET;
        return -1;
    }
    return real(fd, buf, n, flags);
}

ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    REAL(send);
    if (fails(SEND, CALLER, true)) {
        errno = EPIPE;
        return -1;
    }
    return real(fd, buf, n, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    REAL(sendmsg);
    if (fails(SEND, CALLER, true)) {
        errno = EPIPE;
        return -1;
    }
    return real(fd, m, flags);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    REAL(accept4);
    if (fails(DESCRIPTOR, CALLER, true)) {
        errno = EMFILE;
        return -1;
    }
    return real(fd, addr, len, flags);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool is_file(int fd)
{
    struct stat s;
    return !fstat(fd, &s) && S_ISREG(s.st_mode);
}

ssize_t write(int fd, const void *buf, size_t n)
{
    REAL(write);
    if (is_file(fd) && fails(DISK, CALLER, false)) {
        errno = ENOSPC;
        return -1;
    }
    return real(fd, buf, n);
}

ssize_t read(int fd, void *buf, size_t n)
{
    REAL(read);
    if (fails(is_file(fd) ? DISK : RECEIVE, CALLER, true)) {
        errno = EIO;
        return -1;
    }
    return real(fd, buf, n);
}

size_t fwrite(const void *p, size_t size, size_t n, FILE *f)
{
    REAL(fwrite);
    if (is_file(fileno(f)) && fails(DISK, CALLER, false)) {
        errno = ENOSPC;
        return 0;
    }
    return real(p, size, n, f);
}

int fflush(FILE *f)
{
    REAL(fflush);
    if (f && is_file(fileno(f)) && fails(DISK, CALLER, false)) {
        errno = ENOSPC;
        return EOF;
    }
    return real(f);
}

/* A file in the page's folder is truncated once it is mapped. */
static bool may_shrink(int fd, char *link, size_t size)
{
    const char *name = getenv("STENO_INJECT"), *slash = name ? strrchr(name, '/') : NULL;
    char where[4096];
    ssize_t n;
    snprintf(link, size, "/proc/self/fd/%d", fd);
    n = slash && fd >= 0 ? readlink(link, where, sizeof where) : -1;
    return n > slash - name && !memcmp(where, name, (size_t)(slash - name) + 1);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    REAL(mmap);
    void *p = real(at, n, prot, flags, fd, offset);
    char link[32];
    if (p != MAP_FAILED && prot == PROT_READ && may_shrink(fd, link, sizeof link) &&
        fails(SHRINK, CALLER, false) && truncate(link, (off_t)n / 2))
        abort(); /* the test would show nothing */
    return p;
}

int fsync(int fd)
{
    REAL(fsync);
    if (fails(DISK, CALLER, false)) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}

int ftruncate(int fd, off_t size)
{
    REAL(ftruncate);
    if (fails(DISK, CALLER, false)) {
        errno = EIO;
        return -1;
    }
    return real(fd, size);
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    if (fails(DISK, CALLER, false)) {
        errno = ENOSPC;
        return -1;
    }
    return real(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    if (fails(DISK, CALLER, false)) {
        errno = ENOSPC;
        return -1;
    }
    return real(path, mode);
}

int open(const char *path, int flags, ...)
{
    __typeof__(&open) real = NEXT(open);
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list ap;
        va_start(ap, flags);
        mode = (mode_t)va_arg(ap, unsigned);
        va_end(ap);
    }
    if (fails(DESCRIPTOR, CALLER, false)) {
        errno = EMFILE;
        return -1;
    }
    return real(path, flags, mode);
}

/* Where a library's flags ask for 64-bit offsets, the calls have other names. */
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int ftruncate64(int fd, off64_t size) __attribute__((alias("ftruncate")));
void *mmap64(void *, size_t, int, int, int, off64_t) __attribute__((alias("mmap")));

/* ---- threads, clock -------------------------------------------------------------------------- */

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    REAL(pthread_create);
    return fails(THREAD, CALLER, true) ? EAGAIN : real(t, attr, fn, arg);
}

static _Thread_local int held,
    looks; /* locks of ours that are held; clock readings since the last lock */

int pthread_mutex_lock(pthread_mutex_t *m)
{
    REAL(pthread_mutex_lock);
    int rc = real(m);
    held += !rc && is_ours(CALLER, false);
    return rc;
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
    REAL(pthread_mutex_unlock);
    held -= is_ours(CALLER, false);
    looks = 0;
    return real(m);
}

/* Where a worker of the pool runs the network, it reads the clock four times without a lock
 * (pool/worker.c, recognizer/batcher.c). There it hangs, as in an endless loop, with the streams
 * of its round, until no fault is set any more. */
static void hang(const void *caller)
{
    char name[16] = "";
    if (!page || atomic_load(&page->kind) != HANG || held || looks < 4 ||
        prctl(PR_GET_NAME, name) || strncmp(name, "worker-", 7) != 0 || !fails(HANG, caller, false))
        return;
    while (atomic_load(&page->kind) == HANG)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    REAL(clock_gettime);
    int rc = real(clock, ts);
    looks++;
    if (clock == CLOCK_MONOTONIC)
        hang(CALLER);
    if (!rc && page && clock == CLOCK_REALTIME)
        ts->tv_sec += (time_t)atomic_load(&page->jump);
    else if (!rc && page && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE))
        ts->tv_sec += (time_t)atomic_load(&page->asleep);
    return rc;
}

/* The kernel's clock has not advanced. All our conditions use the monotonic clock. */
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
    REAL(pthread_cond_timedwait);
    struct timespec at = *until;
    if (page && is_ours(CALLER, false))
        at.tv_sec -= (time_t)atomic_load(&page->asleep);
    return real(c, m, &at);
}

time_t time(time_t *out)
{
    struct timespec ts;
    time_t t = clock_gettime(CLOCK_REALTIME, &ts) ? (time_t)-1 : ts.tv_sec;
    if (out)
        *out = t;
    return t;
}
