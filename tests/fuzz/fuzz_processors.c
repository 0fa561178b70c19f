/* The limits of a control group: /proc/self/cgroup, cpu.max and its two predecessors, as a
 * container may fake them. Any bytes give a positive number of processors or no limit. A zero
 * byte separates the files. */
/* covers: engine/base/processors.c */
#include <math.h>

#include "base/processors.h"
#include "tests/fuzz/folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const names[] = {"cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us",
                                        "groups"};
    char path[128], groups[128];
    double quota;
    folder_make();
    if (symlink(".", folder_path(path, "cpu")) && access(path, F_OK)) /* version 1 is in cpu/ */
        exit(70);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint8_t *end = n ? memchr(data, '\0', n) : NULL;
        size_t len = i < 3 && end ? (size_t)(end - data) : n;
        folder_write(names[i], data, len);
        len += len < n;
        data += len;
        n -= len;
    }
    quota = steno_cpu_quota_at(folder_path(groups, "groups"), folder);
    if (!(quota > 0))
        abort();
    return 0;
}
