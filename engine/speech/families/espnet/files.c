/* The paths in config.yaml come from the machine that exported the model: absolute paths of another
 * computer, or relative to the folder in which the program ran. A file is therefore looked up where
 * the key says, then beside config.yaml under the same relative path or name, and at last by its
 * role: the one ONNX file of full/ (quantize/) with the name that espnet_onnx gives to that role.
 */
#include "speech/families/espnet/files.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

#define PATH_MAX_BYTES 4096

static bool readable(const char *path)
{
    return access(path, R_OK) == 0;
}

static const char *existing(struct steno_espnet_conf *c, const char *dir, const char *rel)
{
    char path[PATH_MAX_BYTES];
    int n = *dir ? snprintf(path, sizeof path, "%s/%s", dir, rel)
                 : snprintf(path, sizeof path, "%s", rel);
    if (n < 0 || (size_t)n >= sizeof path || !readable(path))
        return NULL;
    return steno_arena_strdup(c->mem, path);
}

const char *steno_espnet_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *steno_espnet_find_named(struct steno_espnet_conf *c, const char *given)
{
    const char *found, *base, *up;
    if (!given || !*given)
        return NULL;
    found = existing(c, given[0] == '/' ? "" : c->dir, given);
    base = strrchr(given, '/');
    if (found || !base)
        return found;
    for (up = base; up > given && up[-1] != '/'; up--)
        ;
    found = existing(c, c->dir, up);
    return found ? found : existing(c, c->dir, base + 1);
}

/* Whether a file name has this role. A "predecoder" is not a "decoder". The "transducer_encoder",
 * as espnet_onnx calls the prediction network, is not an "encoder". */
static bool of_role(const char *name, const char *role)
{
    static const char *const others[] = {"predecoder", "transducer"};
    if (!strstr(name, role) || !steno_path_ends(name, ".onnx"))
        return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(role, others[i]) != 0 && strstr(name, others[i]))
            return false;
    return true;
}

/* The only file of a folder whose name `is` says to be what is asked for. NULL: none, or several.
 */
static const char *find_only(struct steno_espnet_conf *c, const char *dir,
                             bool (*is)(const char *name, const char *what), const char *what)
{
    char hit[512] = "";
    int hits = 0;
    DIR *d = opendir(dir);
    struct dirent *e;
    if (!d)
        return NULL;
    while ((e = readdir(d)))
        if (is(e->d_name, what) && strlen(e->d_name) < sizeof hit) {
            hits++;
            snprintf(hit, sizeof hit, "%s", e->d_name);
        }
    closedir(d);
    return hits == 1 ? existing(c, dir, hit) : NULL;
}

const char *steno_espnet_find_role(struct steno_espnet_conf *c, const char *sub, const char *role)
{
    char path[PATH_MAX_BYTES];
    const int n = snprintf(path, sizeof path, "%s/%s", c->dir, sub);
    return n > 0 && (size_t)n < sizeof path ? find_only(c, path, of_role, role) : NULL;
}

const char *steno_espnet_find_ending(struct steno_espnet_conf *c, const char *end)
{
    return find_only(c, c->dir, steno_path_ends, end);
}
