/* Finds the model that ships with the program. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "steno.h"

#define SHIPPED "models/digits-en"

static bool has_model(const char *dir)
{
    char path[4200];
    int n = snprintf(path, sizeof path, "%s/model.conf", dir);
    return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

/* "TREE/conf/models/digits-en" if the executable is TREE/build/... */
static bool tree_model(char *out, size_t size)
{
    char exe[3800];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *build = NULL;
    if (n <= 0)
        return false;
    exe[n] = '\0';
    for (char *p = strstr(exe, "/build/"); p; p = strstr(p + 1, "/build/"))
        build = p;
    if (!build)
        return false;
    *build = '\0';
    n = snprintf(out, size, "%s/conf/" SHIPPED, exe);
    return n > 0 && (size_t)n < size;
}

steno_status steno_model_find(char **out, const char *given, steno_err *err)
{
    char tree[4096] = "";
    const char *env = getenv("STENO_MODEL"), *found = NULL;
    const char *installed = STENO_DATADIR "/steno/" SHIPPED;
    if (given && *given)
        found = given;
    else if (env && *env)
        found = env;
    else if (tree_model(tree, sizeof tree) && has_model(tree))
        found = tree;
    else if (has_model(installed))
        found = installed;
    if (!found)
        return steno_fail(err, STENO_ERR_IO,
                          "no model: none given, STENO_MODEL not set, nothing in %s%s%s", tree,
                          *tree ? " or " : "", installed);
    *out = strdup(found);
    return *out ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}
