/* The processors that this process may use. */
#ifndef STENO_BASE_PROCESSORS_H
#define STENO_BASE_PROCESSORS_H

/* Their number, >= 1 (sched_setaffinity(2), cpuset(7)); at most 1024. */
int steno_cpu_count(void);
/* Seconds that these processors were free since boot, summed over all of them, from /proc/stat
 * (proc(5)). Free means: idle, waiting for a disk, or running nice threads, which would give way;
 * those of this process as well. Negative if the system does not provide it. Reads one file. */
double steno_cpu_free(void);
/* CPU quota of this process's control group and those above it, in processors: CPUQuota= of a
 * systemd unit, --cpus of a container (cgroups(7): cpu.max, and in version 1 cpu.cfs_quota_us).
 * INFINITY if there is no limit. */
double steno_cpu_quota(void);
/* The same from the file `groups` (/proc/self/cgroup) and the hierarchy at `mount`
 * (/sys/fs/cgroup). */
double steno_cpu_quota_at(const char *groups, const char *mount);

#endif
