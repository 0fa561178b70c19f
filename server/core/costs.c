#include "server/core/costs.h"

#include "base/atomic_file.h"
#include "base/cpu.h"
#include "base/map.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FORMAT 2
#define MAX_DEPTH 4 /* of directories in a model directory */
#define MAX_FILE 65536

/* ---- identity ------------------------------------------------------------------------------ */

static bool hash_file(XXH3_state_t *h, const char *path)
{
    struct steno_map map;
    if (steno_map_open(&map, path, NULL))
        return false;
    XXH3_128bits_update(h, map.p, map.n);
    steno_map_close(&map);
    return true;
}

static bool hash_tree(XXH3_state_t *h, const char *path, int depth);

static bool hash_entry(XXH3_state_t *h, const char *dir, const char *name, int depth)
{
    char path[4096];
    struct stat sb;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path || stat(path, &sb))
        return false;
    XXH3_128bits_update(h, name, strlen(name) + 1);
    XXH3_128bits_update(h, &sb.st_size, sizeof sb.st_size);
    if (S_ISDIR(sb.st_mode))
        return depth >= MAX_DEPTH || hash_tree(h, path, depth + 1);
    return !S_ISREG(sb.st_mode) || hash_file(h, path);
}

static int visible(const struct dirent *e)
{
    return *e->d_name != '.';
}

static bool hash_tree(XXH3_state_t *h, const char *path, int depth)
{
    struct dirent **list;
    int n = scandir(path, &list, visible, alphasort);
    bool ok = n >= 0;
    for (int i = 0; i < n; i++) {
        ok = ok && hash_entry(h, path, list[i]->d_name, depth);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    return ok;
}

static bool hash_machine(XXH3_state_t *h, int batch)
{
    char name[128], level[96], text[512];
    unsigned mask = 0;
    struct stat sb = {0};
    int n;
    if (steno_cpu_choose(NULL, &mask, NULL) || stat("/proc/self/exe", &sb))
        return false;
    n = snprintf(text, sizeof text, "%d|%s|%s|%s|%d|%lld|%lld|%lld", FORMAT, STENO_VERSION,
                 steno_cpu_name(name, sizeof name), steno_cpu_str(mask, level, sizeof level), batch,
                 (long long)sb.st_size, (long long)sb.st_mtim.tv_sec,
                 (long long)sb.st_mtim.tv_nsec);
    XXH3_128bits_update(h, text, (size_t)n < sizeof text ? (size_t)n : sizeof text);
    return true;
}

/* The cache directory; false when there is none. */
static bool cache_dir(const char *dir, char *out, size_t size)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"CACHE_DIRECTORY", ""}, {"XDG_CACHE_HOME", "/steno"}, {"HOME", "/.cache/steno"}};
    if (*dir)
        return strcmp(dir, "none") && snprintf(out, size, "%s", dir) < (int)size;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *v = getenv(places[i].variable);
        if (v && *v == '/')
            return snprintf(out, size, "%s%s", v, places[i].below) < (int)size;
    }
    return false;
}

void steno_costs_identify(struct steno_costs_id *id, const char *dir, const char *model_dir,
                          const char *how, int batch)
{
    XXH3_state_t *h = XXH3_createState();
    char place[3072];
    XXH128_hash_t sum;
    id->file[0] = '\0';
    if (h && cache_dir(dir, place, sizeof place)) {
        XXH3_128bits_reset(h);
        XXH3_128bits_update(h, how, strlen(how) + 1);
        if (hash_machine(h, batch) && hash_tree(h, model_dir, 0)) {
            sum = XXH3_128bits_digest(h);
            snprintf(id->file, sizeof id->file, "%s/calibration-%016llx%016llx.json", place,
                     (unsigned long long)sum.high64, (unsigned long long)sum.low64);
        }
    }
    XXH3_freeState(h);
}

/* ---- reading and writing ------------------------------------------------------------------- */

/* Whether s is a plausible duration: more than nothing, less than an hour. */
static bool plausible(double s, bool zero)
{
    return (s > 0 || (zero && s == 0)) && s < 3600;
}

/* Read {"step": [s or null ...], "host": s, "quiet": true}. */
static bool read_costs(const json_t *root, struct steno_pool_costs *c)
{
    const json_t *step = json_object_get(root, "step"), *host = json_object_get(root, "host");
    if (json_array_size(step) != STENO_POOL_BATCH_SIZES || !json_is_number(host) ||
        !json_is_true(json_object_get(root, "quiet")))
        return false;
    c->host = json_number_value(host);
    for (size_t i = 0; i < STENO_POOL_BATCH_SIZES; i++) {
        const json_t *v = json_array_get(step, i);
        c->step[i] = json_is_null(v) ? (double)INFINITY : json_number_value(v);
        if (i ? !json_is_null(v) && !plausible(c->step[i], false) : !plausible(c->step[i], true))
            return false;
    }
    return plausible(c->host, true);
}

bool steno_costs_load(const struct steno_costs_id *id, struct steno_pool_costs *out)
{
    char text[MAX_FILE];
    struct steno_pool_costs c;
    json_t *root;
    ssize_t n;
    bool ok;
    int fd = *id->file ? open(id->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof text);
    close(fd);
    root = n > 0 ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
    ok = root && read_costs(root, &c);
    json_decref(root);
    if (ok)
        *out = c;
    return ok;
}

static json_t *write_costs(const struct steno_pool_costs *c, bool quiet)
{
    json_t *step = json_array();
    for (size_t i = 0; i < STENO_POOL_BATCH_SIZES; i++)
        json_array_append_new(step, isfinite(c->step[i]) ? json_real(c->step[i]) : json_null());
    return json_pack("{s:o, s:f, s:b}", "step", step, "host", c->host, "quiet", quiet);
}

/* Make the last two directories of the file's path. */
static void make_dirs(const char *file)
{
    char path[4096];
    char *end, *before;
    snprintf(path, sizeof path, "%s", file);
    end = strrchr(path, '/');
    if (!end)
        return;
    *end = '\0';
    before = strrchr(path, '/');
    if (before && before != path) {
        *before = '\0';
        (void)!mkdir(path, 0700);
        *before = '/';
    }
    (void)!mkdir(path, 0700);
}

steno_status steno_costs_store(const struct steno_costs_id *id, const struct steno_pool_costs *c,
                               bool quiet, steno_err *err)
{
    steno_status st;
    json_t *root;
    char *text;
    if (!*id->file)
        return STENO_OK;
    root = write_costs(c, quiet);
    text = root ? json_dumps(root, JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (!text)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    make_dirs(id->file);
    st = steno_atomic_file_write(id->file, text, strlen(text), 0600, false, err);
    free(text);
    return st == STENO_ERR_BUSY ? STENO_OK : st; /* another process stores its own measurement */
}
