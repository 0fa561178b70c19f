/* The processors that this process may run on. */
#ifndef STENO_BASE_PROCESSORS_H
#define STENO_BASE_PROCESSORS_H

/* How many, >= 1 (sched_setaffinity(2), cpuset(7)); 1024 at most. */
int steno_cpu_count(void);
/* Seconds that they were free since the machine came up, all of them together, by /proc/stat
 * (proc(5)): idle, waiting for a disk, or at work for what is nice, would make room and is not of
 * this process. Negative where the system does not say. Reads a file and one a thread: a tenth of a
 * millisecond on a small machine, on one of hundreds of processors milliseconds. */
double steno_cpu_free(void);
/* Processors' worth of time that the control group of this process may take, and those above it:
 * CPUQuota= of a systemd unit, --cpus of a container (cgroups(7): cpu.max, and in version 1
 * cpu.cfs_quota_us). INFINITY where there is no limit. */
double steno_cpu_quota(void);
/* The same by the file `groups` (/proc/self/cgroup) and the hierarchy at `mount` (/sys/fs/cgroup).
 */
double steno_cpu_quota_at(const char *groups, const char *mount);

#endif
