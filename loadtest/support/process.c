#include "loadtest/support/process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool read_stat(struct process_usage *u, int pid)
{
    char path[64], line[1024], *p;
    unsigned long user, sys;
    FILE *f;
    bool ok;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    f = fopen(path, "r");
    if (!f)
        return false;
    ok = fgets(line, sizeof line, f) && (p = strrchr(line, ')')) &&
         sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) == 2;
    fclose(f);
    if (ok)
        u->cpu_seconds = (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
    return ok;
}

static void read_status(struct process_usage *u, int pid)
{
    char path[64], line[256];
    long kb;
    FILE *f;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    f = fopen(path, "r");
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmRSS: %ld", &kb) == 1)
            u->rss_mib = (double)kb / 1024;
        if (sscanf(line, "VmHWM: %ld", &kb) == 1)
            u->peak_rss_mib = (double)kb / 1024;
        if (sscanf(line, "Threads: %ld", &kb) == 1)
            u->threads = (int)kb;
    }
    fclose(f);
}

static void count_descriptors(struct process_usage *u, int pid)
{
    char path[64];
    DIR *d;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    d = opendir(path);
    if (!d)
        return;
    for (const struct dirent *e; (e = readdir(d));)
        u->descriptors += e->d_name[0] != '.';
    closedir(d);
}

bool process_usage_read(struct process_usage *u, int pid)
{
    memset(u, 0, sizeof *u);
    if (!read_stat(u, pid))
        return false;
    read_status(u, pid);
    count_descriptors(u, pid);
    return true;
}
