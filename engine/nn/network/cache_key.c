#include "nn/network/cache_key.h"

#include "base/path.h"

#include "base/buf.h"
#include "base/atomic_file.h"
#include "base/file.h"
#include "nn/network/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <source_id.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAX_KEY ((size_t)64 << 10)

struct note {
    char magic[8];
    struct steno_stamp stamp;
    struct steno_content model;
    uint64_t sum; /* of all fields above */
};

static const char magic[8] = "stnkey1";

const char *steno_cache_dir(void)
{
    const char *dir = getenv("STENO_CACHE");
    if (!dir)
        dir = getenv("CACHE_DIRECTORY");
    /* if it is a list of folders, the choice is not ours */
    return dir && *dir && !strchr(dir, ':') ? dir : NULL;
}

bool steno_content_equal(const struct steno_content *a, const struct steno_content *b)
{
    return a->v[0] == b->v[0] && a->v[1] == b->v[1];
}

bool steno_cache_trusted(const struct stat *sb)
{
    return S_ISREG(sb->st_mode) && (sb->st_uid == geteuid() || sb->st_uid == 0) &&
           !(sb->st_mode & (S_IWGRP | S_IWOTH));
}

/* ---- files ---- */

static bool stamp_of(const char *path, struct steno_stamp *s)
{
    struct stat sb;
    if (stat(path, &sb))
        return false;
    *s = (struct steno_stamp){{(uint64_t)sb.st_dev, sb.st_ino, (uint64_t)sb.st_size,
                               (uint64_t)sb.st_mtim.tv_sec, (uint64_t)sb.st_mtim.tv_nsec,
                               (uint64_t)sb.st_ctim.tv_sec, (uint64_t)sb.st_ctim.tv_nsec}};
    return true;
}

static struct steno_content hashed(const void *p, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(p, n);
    return (struct steno_content){{h.low64, h.high64}};
}

/* ---- notes ---- */

static uint64_t sum_of(const struct note *n)
{
    return XXH3_64bits(n, offsetof(struct note, sum));
}

static bool read_note(const char *path, struct note *n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat sb;
    bool ok = fd >= 0 && !fstat(fd, &sb) && steno_cache_trusted(&sb) &&
              read(fd, n, sizeof *n) == (ssize_t)sizeof *n &&
              !memcmp(n->magic, magic, sizeof magic) && n->sum == sum_of(n);
    if (fd >= 0)
        close(fd);
    return ok;
}

static void write_note(const struct steno_cache_id *id)
{
    struct note n;
    memset(&n, 0, sizeof n);
    memcpy(n.magic, magic, sizeof magic);
    n.stamp = id->stamp;
    n.model = id->model;
    n.sum = sum_of(&n);
    /* without a note the model is hashed again */
    (void)!steno_atomic_file_write(id->note, &n, sizeof n, 0600, false, NULL);
}

/* Content of the path: from the note, or hashed now. */
static bool know_model(struct steno_cache_id *id, const char *real)
{
    struct note n;
    struct steno_stamp after;
    if (!stamp_of(real, &id->stamp))
        return false;
    if (read_note(id->note, &n)) {
        id->before = n.model;
        if (!memcmp(&n.stamp, &id->stamp, sizeof n.stamp)) {
            id->model = n.model;
            id->noted = true;
            return true;
        }
    }
    return !steno_file_hash(real, id->model.v, NULL) && stamp_of(real, &after) &&
           !memcmp(&after, &id->stamp, sizeof after);
}

bool steno_cache_identify(struct steno_cache_id *id, const char *path, unsigned cpu,
                          const struct steno_network_options *o)
{
    char real[PATH_MAX];
    struct steno_buf b;
    bool ok;
    memset(id, 0, sizeof *id);
    if (!realpath(path, real))
        return false;
    snprintf(id->base, sizeof id->base, "%.100s", strrchr(real, '/') + 1);
    if (snprintf(id->note, sizeof id->note, "%s/%s-%016llx.stenokey", o->cache_dir, id->base,
                 (unsigned long long)XXH3_64bits(real, strlen(real))) >= (int)sizeof id->note ||
        !know_model(id, real))
        return false;
    steno_buf_init(&b, MAX_KEY);
    ok = !steno_buf_printf(
             &b, "%s|%s|%u|%d|%d|%d|%d|%d|%d|%d|%s|%s|%s|%zu|%s|", STENO_VERSION, STENO_SOURCE_ID,
             cpu, o->opt_level, (int)o->precision, (int)o->part, o->any_length, o->num_heads,
             o->hidden_size, o->last_row, o->disable_passes ? o->disable_passes : "",
             o->only_passes ? o->only_passes : "*", o->free_batch ? o->free_batch : "",
             o->max_bytes, o->source ? o->source->variant : "") &&
         !steno_buf_add(&b, &id->model, sizeof id->model);
    if (ok)
        id->key = hashed(b.data, b.len);
    steno_buf_free(&b);
    ok = ok && snprintf(id->file, sizeof id->file, "%s/%s-%016llx.stenopack", o->cache_dir,
                        id->base, (unsigned long long)id->key.v[0]) < (int)sizeof id->file;
    if (!ok)
        *id->file = '\0';
    return ok;
}

bool steno_cache_current(const struct steno_cache_id *id, const char *path)
{
    struct steno_stamp now;
    return *id->file && stamp_of(path, &now) && !memcmp(&now, &id->stamp, sizeof now);
}

/* ---- caches that are no longer used ---- */

/* True when a note in the folder says that some path has this model. */
static bool held(const char *dir, const struct steno_content *model)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    char path[PATH_MAX];
    struct note n;
    bool found = false;
    while (d && !found && (e = readdir(d)))
        found = steno_path_ends(e->d_name, ".stenokey") &&
                snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < (int)sizeof path &&
                read_note(path, &n) && steno_content_equal(&n.model, model);
    if (d)
        closedir(d);
    return found;
}

static void sweep(const struct steno_cache_id *id, const char *dir)
{
    DIR *d = held(dir, &id->before) ? NULL : opendir(dir);
    struct dirent *e;
    char path[PATH_MAX];
    struct steno_content model;
    while (d && (e = readdir(d)))
        if (steno_path_ends(e->d_name, ".stenopack") &&
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < (int)sizeof path &&
            steno_cache_model(path, &model) && steno_content_equal(&model, &id->before))
            unlink(path);
    if (d)
        closedir(d);
}

void steno_cache_remember(const struct steno_cache_id *id, const char *dir)
{
    const struct steno_content nothing = {{0, 0}};
    if (id->noted)
        return;
    write_note(id);
    if (!steno_content_equal(&id->before, &nothing) &&
        !steno_content_equal(&id->before, &id->model))
        sweep(id, dir);
}

/* ---- external data ---- */

static bool external_path(const char *model, const char *name, char *out, size_t size)
{
    const char *slash = strrchr(model, '/');
    int n = slash ? (int)(slash - model + 1) : 0;
    return snprintf(out, size, "%.*s%s", n, model, name) < (int)size;
}

bool steno_cache_external(const char *model, const struct steno_onnx_info *info,
                          struct steno_stamp *stamps, struct steno_content *out)
{
    char path[PATH_MAX];
    if (info->n_external > 4 || info->n_external < 0)
        return false;
    for (int i = 0; i < info->n_external; i++)
        if (!external_path(model, info->external[i], path, sizeof path) ||
            !stamp_of(path, &stamps[i]) || steno_file_hash(path, out[i].v, NULL))
            return false;
    return true;
}

bool steno_cache_external_same(const char *model, const struct steno_onnx_info *info,
                               const struct steno_stamp *stamps, const struct steno_content *then)
{
    char path[PATH_MAX];
    struct steno_stamp now;
    struct steno_content c;
    if (info->n_external > 4 || info->n_external < 0)
        return false;
    for (int i = 0; i < info->n_external; i++)
        if (!external_path(model, info->external[i], path, sizeof path) || !stamp_of(path, &now) ||
            (memcmp(&now, &stamps[i], sizeof now) &&
             (steno_file_hash(path, c.v, NULL) || !steno_content_equal(&c, &then[i]))))
            return false;
    return true;
}
