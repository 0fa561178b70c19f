#define _GNU_SOURCE /* nftw */
#include "tools/cli/tree.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

#define OPEN_FOLDERS 16 /* descriptors that nftw may hold */

static int remove_entry(const char *path, const struct stat *sb, int type, struct FTW *at)
{
    (void)sb;
    (void)type;
    (void)at;
    return remove(path);
}

steno_status tree_remove(const char *path, steno_err *err)
{
    if (nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    return STENO_OK;
}

static int remove_empty_folder(const char *path, const struct stat *sb, int type, struct FTW *at)
{
    (void)sb;
    (void)at;
    if (type == FTW_DP)
        (void)rmdir(path);
    return 0;
}

void tree_remove_empty(const char *path)
{
    (void)nftw(path, remove_empty_folder, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

static int open_entry(const char *path, const struct stat *sb, int type, struct FTW *at)
{
    (void)sb;
    (void)at;
    return chmod(path, type == FTW_D ? 0755 : 0644);
}

steno_status tree_open(const char *path, steno_err *err)
{
    if (nftw(path, open_entry, OPEN_FOLDERS, FTW_PHYS))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    return STENO_OK;
}

static steno_status make_folder(const char *path, steno_err *err)
{
    struct stat sb;
    if (mkdir(path, 0755) && errno != EEXIST)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    if (lstat(path, &sb) || !S_ISDIR(sb.st_mode))
        return steno_fail(err, STENO_ERR_IO, "%s: is no folder", path);
    (void)chmod(path, 0755);
    return STENO_OK;
}

steno_status tree_make_folders(char *path, size_t n, steno_err *err)
{
    steno_status st = STENO_OK;
    for (char *slash = strchr(path + n + 1, '/'); !st && slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        st = make_folder(path, err);
        *slash = '/';
    }
    return st;
}
