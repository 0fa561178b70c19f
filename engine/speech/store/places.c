#include "speech/store/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

#define OF_SYSTEM "/var/lib/steno"

static bool join_path(char out[STENO_PLACE_MAX], const char *a, const char *b, const char *c)
{
    int n = snprintf(out, STENO_PLACE_MAX, "%s%s%s", a, b, c);
    return n > 0 && n < STENO_PLACE_MAX;
}

/* What ships lies in conf/ of the source that the executable was built in, or with the prefix that
 * it is installed with, whatever prefix it was built for. */
static bool near_executable(char out[STENO_PLACE_MAX], const char *name)
{
    char exe[STENO_PLACE_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *build = NULL, *slash;
    exe[n > 0 ? n : 0] = '\0';
    for (char *p = strstr(exe, "/build/"); p; p = strstr(p + 1, "/build/"))
        build = p;
    if (build) {
        *build = '\0';
        if (join_path(out, exe, "/conf/", name) && !access(out, R_OK))
            return true;
        *build = '/';
    }
    for (int i = 0; i < 2 && (slash = strrchr(exe, '/')); i++)
        *slash = '\0';
    return join_path(out, exe, "/share/steno/", name) && !access(out, R_OK);
}

void steno_place_shipped(char out[STENO_PLACE_MAX], const char *name)
{
    if (!near_executable(out, name))
        snprintf(out, STENO_PLACE_MAX, "%s%s", STENO_DATADIR "/steno/", name);
}

/* The user's own directory. False: no place is known. */
static bool of_user(char out[STENO_PLACE_MAX])
{
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (!geteuid())
        return false;
    if (xdg && *xdg == '/')
        return join_path(out, xdg, "/steno", "/models");
    return home && *home == '/' && join_path(out, home, "/.local/share/steno", "/models");
}

bool steno_place_models(char out[STENO_PLACE_MAX], size_t i)
{
    const char *data = getenv("STENO_DATA");
    if (data && *data)
        return i == 0 && join_path(out, data, "/models", "");
    if (of_user(out)) {
        if (i == 0)
            return true;
        i--;
    }
    return i == 0 && join_path(out, OF_SYSTEM, "/models", "");
}

bool steno_place_voices(char out[STENO_PLACE_MAX])
{
    char models[STENO_PLACE_MAX];
    if (!steno_place_models(models, 0))
        return false;
    *strrchr(models, '/') = '\0';
    return join_path(out, models, "/voices", "");
}

bool steno_place_fetched(char out[STENO_PLACE_MAX], const char *name)
{
    char dir[STENO_PLACE_MAX], path[STENO_PLACE_MAX];
    for (size_t i = 0; steno_place_models(dir, i); i++)
        if (join_path(path, dir, "/", name) && steno_path_is_dir(path)) {
            memcpy(out, path, sizeof path);
            return true;
        }
    return false;
}
