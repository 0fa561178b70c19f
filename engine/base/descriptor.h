/* Descriptors from system calls that ThreadSanitizer does not see. It knows a descriptor by its
 * number: if another thread closed an earlier one of that number, the next read or close is
 * reported as a race. In builds with it these functions make one that it sees. */
#ifndef STENO_BASE_DESCRIPTOR_H
#define STENO_BASE_DESCRIPTOR_H

#include <sys/types.h>

/* A second descriptor of an open file, closed by exec. -1: errno says why. */
int steno_fd_copy(int fd);
/* openat(2), closed by exec. -1: errno says why. */
int steno_fd_open_at(int folder, const char *name, int flags, mode_t mode);

#endif
