#define _GNU_SOURCE /* posix_spawn_file_actions_addclosefrom_np */
#include "base/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

static int set_descriptors(posix_spawn_file_actions_t *act, int in, int out)
{
    int rc = in < 0 ? posix_spawn_file_actions_addopen(act, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
                    : posix_spawn_file_actions_adddup2(act, in, STDIN_FILENO);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(act, out, STDOUT_FILENO);
    if (!rc)
        rc = posix_spawn_file_actions_addopen(act, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    return rc ? rc : posix_spawn_file_actions_addclosefrom_np(act, STDERR_FILENO + 1);
}

/* Signals as a new program expects them: those of this thread may be blocked or ignored. */
static int default_signals(posix_spawnattr_t *attr)
{
    sigset_t none, all;
    int rc;
    sigemptyset(&none);
    sigfillset(&all);
    rc = posix_spawnattr_setsigmask(attr, &none);
    if (!rc)
        rc = posix_spawnattr_setsigdefault(attr, &all);
    return rc ? rc : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

int steno_spawn(pid_t *pid, const char *path, bool search, char *const argv[], char *const env[],
                int in, int out)
{
    posix_spawn_file_actions_t act;
    posix_spawnattr_t attr;
    int rc = posix_spawn_file_actions_init(&act);
    if (rc)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc) {
        posix_spawn_file_actions_destroy(&act);
        return rc;
    }
    rc = set_descriptors(&act, in, out);
    if (!rc)
        rc = default_signals(&attr);
    if (!rc)
        rc = search ? posix_spawnp(pid, path, &act, &attr, argv, env)
                    : posix_spawn(pid, path, &act, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&act);
    return rc;
}
