#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *steno_path_join(const char *dir, const char *file)
{
    size_t n = strlen(dir), size = n + strlen(file) + 2;
    char *p = malloc(size);
    if (p)
        snprintf(p, size, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", file);
    return p;
}

char *steno_path_beside(const char *path, const char *file)
{
    int n;
    const int dir = (int)(steno_path_name(path, &n) - path); /* with its slash */
    const size_t size = (size_t)dir + strlen(file) + 1;
    char *p = malloc(size);
    if (p)
        snprintf(p, size, "%.*s%s", dir, path, file);
    return p;
}

bool steno_path_readable(const char *dir, const char *file)
{
    char *path = steno_path_join(dir, file);
    bool readable = path && access(path, R_OK) == 0;
    free(path);
    return readable;
}

steno_status steno_path_make_dirs(const char *path, mode_t mode, steno_err *err)
{
    char part[PATH_MAX];
    const size_t n = strlen(path);
    if (n >= sizeof part)
        return steno_fail(err, STENO_ERR_INVAL, "%s: the path is too long", path);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] && path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (!mkdir(part, mode)) {
            if (!geteuid()) /* the daemon of another user may read it */
                (void)chmod(part, mode);
        } else if (errno != EEXIST) {
            return steno_fail(err, STENO_ERR_IO, "%s: %s", part, strerror(errno));
        }
    }
    return STENO_OK;
}

bool steno_path_ends(const char *name, const char *ending)
{
    const size_t n = strlen(name), k = strlen(ending);
    return n > k && !strcmp(name + n - k, ending);
}

bool steno_path_is_dir(const char *path)
{
    struct stat sb;
    return !stat(path, &sb) && S_ISDIR(sb.st_mode);
}

steno_status steno_path_find(char **out, const char *dir, steno_path_rank *rank, const void *arg,
                             size_t *n, steno_err *err)
{
    DIR *d = opendir(dir);
    int highest = 0;
    size_t count = 0;
    steno_status st = STENO_OK;
    *out = NULL;
    if (!d)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", dir, strerror(errno));
    for (const struct dirent *e; !st && (e = readdir(d));) {
        const int r = rank(e->d_name, arg);
        count += r > 0;
        if (r <= 0 || r < highest || (r == highest && strcmp(e->d_name, *out) > 0))
            continue;
        highest = r;
        free(*out);
        *out = strdup(e->d_name);
        if (!*out)
            st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    }
    closedir(d);
    if (n)
        *n = count;
    return st;
}

const char *steno_path_name(const char *path, int *n)
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    *n = (int)(end - begin);
    return path + begin;
}

void steno_path_copy_name(char *out, size_t size, const char *path)
{
    int n;
    const char *name = steno_path_name(path, &n);
    snprintf(out, size, "%.*s", n, name);
}
