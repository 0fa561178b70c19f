#define _GNU_SOURCE /* CPU_COUNT */
#include "base/processors.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define MOST 1024 /* that are counted, as in cpu_set_t */

#if defined(__linux__)
/* The set is all of them where the kernel has more than the C library's type holds. */
static bool allowed(cpu_set_t *set)
{
    CPU_ZERO(set);
    return !sched_getaffinity(0, sizeof *set, set);
}
#endif

int steno_cpu_count(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
    cpu_set_t may;
    if (allowed(&may))
        n = CPU_COUNT(&may);
#endif
    return n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

double steno_cpu_free(void)
{
    double ticks = -1;
#if defined(__linux__)
    cpu_set_t may;
    bool some = allowed(&may);
    char line[256];
    FILE *f = fopen("/proc/stat", "re");
    if (!f)
        return -1;
    /* the processors come first; what follows is long */
    while (fgets(line, sizeof line, f) && line[0] == 'c') {
        unsigned cpu;
        double nice, idle, wait;
        if (sscanf(line, "cpu%u %*f %lf %*f %lf %lf", &cpu, &nice, &idle, &wait) == 4 &&
            (!some || (cpu < MOST && CPU_ISSET(cpu, &may))))
            ticks = (ticks < 0 ? 0 : ticks) + nice + idle + wait;
    }
    fclose(f);
#endif
    return ticks < 0 ? -1 : ticks / (double)sysconf(_SC_CLK_TCK);
}
