#define _GNU_SOURCE /* CPU_COUNT */
#include "base/processors.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 1024 /* maximum counted, as in cpu_set_t */

#if defined(__linux__)
/* False if the kernel has more processors than the C library's type holds: then all are allowed. */
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
    /* the lines of processors come first; the rest is long */
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

/* ---- control groups -------------------------------------------------------------------------- */

static bool read_group_line(const char *dir, const char *name, char *line, size_t size)
{
    char path[2 * PATH_MAX + 32];
    FILE *f;
    bool ok;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "re");
    if (!f)
        return false;
    ok = fgets(line, (int)size, f);
    fclose(f);
    return ok;
}

/* Quota of one group: microseconds in a period; "max" (version 2) or negative (version 1): none. */
static double quota_of(const char *dir, bool unified)
{
    char line[64], period[64];
    double quota, of;
    if (unified) {
        if (!read_group_line(dir, "cpu.max", line, sizeof line) ||
            sscanf(line, "%lf %lf", &quota, &of) != 2)
            return INFINITY;
    } else {
        if (!read_group_line(dir, "cpu.cfs_quota_us", line, sizeof line) ||
            !read_group_line(dir, "cpu.cfs_period_us", period, sizeof period))
            return INFINITY;
        quota = strtod(line, NULL);
        of = strtod(period, NULL);
    }
    return quota > 0 && of > 0 ? quota / of : (double)INFINITY;
}

/* The least quota of the group at `path` below `mount` and of all groups above it. Inside a
 * container the path may not exist; then the upper end of the hierarchy is the container's own
 * group. */
static double least_quota(const char *mount, const char *path, bool unified)
{
    char dir[2 * PATH_MAX];
    size_t root = strlen(mount);
    double least = INFINITY;
    snprintf(dir, sizeof dir, "%s%s", mount, path);
    for (;;) {
        char *slash;
        least = fmin(least, quota_of(dir, unified));
        slash = strrchr(dir, '/');
        if (!slash || strlen(dir) <= root)
            return least;
        *slash = '\0';
    }
}

/* True if "cpu" is one of the controllers, which are separated by commas. */
static bool has_cpu(char *controllers)
{
    char *rest = NULL;
    for (char *c = strtok_r(controllers, ",", &rest); c; c = strtok_r(NULL, ",", &rest))
        if (!strcmp(c, "cpu"))
            return true;
    return false;
}

double steno_cpu_quota_at(const char *groups, const char *mount)
{
    char line[PATH_MAX + 256], cpu[PATH_MAX];
    double least = INFINITY;
    FILE *f = fopen(groups, "re");
    if (!f)
        return INFINITY;
    snprintf(cpu, sizeof cpu, "%s/cpu", mount); /* the place in version 1 */
    while (fgets(line, sizeof line, f)) {       /* hierarchy:controllers:path */
        char *controllers = strchr(line, ':'), *path;
        line[strcspn(line, "\n")] = '\0';
        path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path || path[1] != '/' || strlen(path) >= PATH_MAX)
            continue;
        *path++ = '\0';
        controllers++;
        if (!*controllers)
            least = fmin(least, least_quota(mount, path, true));
        else if (has_cpu(controllers))
            least = fmin(least, least_quota(cpu, path, false));
    }
    fclose(f);
    return least;
}

double steno_cpu_quota(void)
{
    return steno_cpu_quota_at("/proc/self/cgroup", "/sys/fs/cgroup");
}
