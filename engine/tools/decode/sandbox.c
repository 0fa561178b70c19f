#define _GNU_SOURCE /* close_range */
#include "tools/decode/sandbox.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifdef STENO_SANITIZE
steno_status steno_sandbox_enter(unsigned cpu_seconds, size_t memory, steno_err *err)
{
    (void)cpu_seconds, (void)memory, (void)err;
    return STENO_OK;
}
#else

static steno_status fail_errno(steno_err *err, const char *what, int e)
{
    return steno_fail(err, STENO_ERR_UNSUPPORTED, "sandbox: %s: %s", what, strerror(e));
}

/* Bytes of address space in use (proc(5), statm); 0 = /proc is not there. */
static size_t mapped(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return 0;
    if (fscanf(f, "%lu", &pages) != 1)
        pages = 0;
    fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static steno_status limit(int what, size_t value, const char *name, steno_err *err)
{
    /* one above, so that SIGXCPU comes before SIGKILL and tells what happened */
    const struct rlimit l = {.rlim_cur = value, .rlim_max = value + (what == RLIMIT_CPU)};
    return setrlimit((__rlimit_resource_t)what, &l) ? fail_errno(err, name, errno) : STENO_OK;
}

static steno_status set_limits(unsigned cpu_seconds, size_t memory, steno_err *err)
{
    const size_t used = mapped();
    steno_status st = limit(RLIMIT_CPU, cpu_seconds, "limit of processor time", err);
    if (!st)
        st = limit(RLIMIT_CORE, 0, "limit of core files", err);
    if (!st)
        st = limit(RLIMIT_FSIZE, 0, "limit of file sizes", err);
    if (!st)
        st = limit(RLIMIT_MEMLOCK, 0, "limit of locked memory", err);
    if (!st)
        st = limit(RLIMIT_NPROC, 0, "limit of processes", err);
    if (!st && used)
        st = limit(RLIMIT_AS, used + memory, "limit of memory", err);
    if (!st && !used)
        st = limit(RLIMIT_DATA, memory, "limit of memory", err);
    return st ? st : limit(RLIMIT_NOFILE, 0, "limit of descriptors", err);
}

/* Calls whatever their arguments: memory, time, the end. */
static const int allowed[] = {
    SCMP_SYS(brk),        SCMP_SYS(munmap),        SCMP_SYS(mremap),         SCMP_SYS(madvise),
    SCMP_SYS(futex),      SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),   SCMP_SYS(exit),
    SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn),  SCMP_SYS(restart_syscall)};
/* Libraries probe with these and do without. */
static const int refused[] = {
    SCMP_SYS(openat),    SCMP_SYS(open),           SCMP_SYS(newfstatat),
    SCMP_SYS(fstat),     SCMP_SYS(ioctl),          SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getrandom), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction),
    SCMP_SYS(readlink),  SCMP_SYS(sysinfo),        SCMP_SYS(prlimit64)};

static int add_rules(scmp_filter_ctx c)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof allowed / sizeof *allowed; i++)
        rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, allowed[i], 0);
    for (size_t i = 0; !rc && i < sizeof refused / sizeof *refused; i++)
        rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EACCES), refused[i], 0);
    if (!rc)
        rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(read), 1, SCMP_A0(SCMP_CMP_EQ, 0));
    if (!rc)
        rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(pread64), 1, SCMP_A0(SCMP_CMP_EQ, 0));
    if (!rc)
        rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(write), 1, SCMP_A0(SCMP_CMP_EQ, 1));
    /* no page is ever executable */
    if (!rc)
        rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (!rc)
        rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    return rc;
}

static steno_status filter_calls(steno_err *err)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int rc;
    if (!c) /* a kernel before 4.14: the one thread there is */
        c = seccomp_init(SCMP_ACT_KILL);
    if (!c)
        return steno_fail(err, STENO_ERR_NOMEM, "sandbox: out of memory");
    rc = add_rules(c);
    if (!rc)
        rc = seccomp_load(c); /* sets PR_SET_NO_NEW_PRIVS */
    seccomp_release(c);
    return rc ? fail_errno(err, "filter of system calls", -rc) : STENO_OK;
}

steno_status steno_sandbox_enter(unsigned cpu_seconds, size_t memory, steno_err *err)
{
    const pid_t parent = getppid();
    steno_status st;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        return fail_errno(err, "end with the parent", errno);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0))
        return fail_errno(err, "no new privileges", errno);
    close_range(2, ~0u, 0);
    /* dates in tags must not look for the time zone's file */
    setenv("TZ", "UTC0", 1);
    tzset();
    st = set_limits(cpu_seconds, memory, err);
    return st ? st : filter_calls(err);
}
#endif
