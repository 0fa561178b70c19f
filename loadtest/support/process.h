/* CPU time and memory of another process, from /proc (proc(5)). */
#ifndef STENO_LOADTEST_PROCESS_H
#define STENO_LOADTEST_PROCESS_H

#include <stdbool.h>

struct process_usage {
    double cpu_seconds; /* user and system, all threads */
    double rss_mib, peak_rss_mib;
    int threads, descriptors;
};

/* False if the process does not exist. */
bool process_usage_read(struct process_usage *u, int pid);

#endif
