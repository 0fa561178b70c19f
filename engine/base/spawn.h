/* Start another program. */
#ifndef STENO_BASE_SPAWN_H
#define STENO_BASE_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

/* Start program `path`; search: a name without a slash is looked for in PATH. Its descriptors: 0 is
 * `in` (-1: /dev/null), 1 is `out`, 2 is /dev/null; all others are closed. Signals have their
 * default actions, and none is blocked. argv, env: NULL-terminated. Returns 0 and sets *pid, which
 * the caller must wait for, or returns an errno. Any thread. */
int steno_spawn(pid_t *pid, const char *path, bool search, char *const argv[], char *const env[],
                int in, int out);

#endif
