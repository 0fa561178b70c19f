/* Paths in config.yaml are what the exporting machine wrote: absolute ones of another computer, or
 * relative to wherever the program was started. So a file is looked for where the key says, then
 * beside config.yaml under the same relative path or name, and last by its role: the one ONNX file
 * of full/ (quantize/) whose name begins or ends as espnet_onnx names that role. */
#include "families/espnet/files.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_MAX_BYTES 4096

static bool readable(const char *path)
{
    return access(path, R_OK) == 0;
}

static const char *keep(struct steno_espnet_conf *c, const char *dir, const char *rel)
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

/* A file that a key names: as it stands, below dir, then its last folder and name below dir, then
 * its name alone. */
const char *steno_espnet_find_named(struct steno_espnet_conf *c, const char *given)
{
    const char *found, *base, *up;
    if (!given || !*given)
        return NULL;
    found = keep(c, given[0] == '/' ? "" : c->dir, given);
    base = strrchr(given, '/');
    if (found || !base)
        return found;
    for (up = base; up > given && up[-1] != '/'; up--)
        ;
    found = keep(c, c->dir, up);
    return found ? found : keep(c, c->dir, base + 1);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* "encoder" is no "predecoder", a "decoder" no "encoder", and a "transducer_encoder", as
 * espnet_onnx calls the prediction network, neither. */
static bool of_role(const char *name, const char *role)
{
    static const char *const others[] = {"predecoder", "transducer"};
    if (!strstr(name, role) || !ends_with(name, ".onnx"))
        return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(role, others[i]) != 0 && strstr(name, others[i]))
            return false;
    return true;
}

/* The ONNX file of dir/sub whose name holds `role`; NULL for none or several. */
const char *steno_espnet_find_role(struct steno_espnet_conf *c, const char *sub, const char *role)
{
    char path[PATH_MAX_BYTES], hit[512] = "";
    int n = snprintf(path, sizeof path, "%s/%s", c->dir, sub), hits = 0;
    DIR *d = n > 0 && (size_t)n < sizeof path ? opendir(path) : NULL;
    struct dirent *e;
    if (!d)
        return NULL;
    while ((e = readdir(d))) {
        if (!of_role(e->d_name, role) || strlen(e->d_name) >= sizeof hit)
            continue;
        hits++;
        snprintf(hit, sizeof hit, "%s", e->d_name);
    }
    closedir(d);
    return hits == 1 ? keep(c, path, hit) : NULL;
}

/* The one file of the directory that ends so; NULL for none or several. */
const char *steno_espnet_find_ending(struct steno_espnet_conf *c, const char *end)
{
    char hit[512] = "";
    int hits = 0;
    DIR *d = opendir(c->dir);
    struct dirent *e;
    if (!d)
        return NULL;
    while ((e = readdir(d)))
        if (ends_with(e->d_name, end) && strlen(e->d_name) < sizeof hit) {
            hits++;
            snprintf(hit, sizeof hit, "%s", e->d_name);
        }
    closedir(d);
    return hits == 1 ? keep(c, c->dir, hit) : NULL;
}
