#include "tools/convert/bundle.h"

#include "base/path.h"
#include "formats/gzip.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_GROWTH 32 /* of gzip; weights hardly shrink */
#define MAX_SMALL ((size_t)64 << 20)

/* The tar in gzip takes the place of the mapped file. */
static steno_status unpack(struct steno_bundle *b, steno_err *err)
{
    const size_t max =
        b->map.n > SIZE_MAX / 2 / MAX_GROWTH ? SIZE_MAX / 2 : MAX_SMALL + b->map.n * MAX_GROWTH;
    size_t n = 0;
    steno_status st = steno_gzip_unpack(b->map.p, b->map.n, b->path, max, &b->unpacked, &n, err);
    if (st)
        return st;
    steno_map_close(&b->map);
    b->bytes = b->unpacked;
    b->n_bytes = n;
    return STENO_OK;
}

static steno_status list_tar(struct steno_bundle *b, steno_err *err)
{
    steno_status st = steno_tar_list(b->bytes, b->n_bytes, b->path, &b->tar, err);
    if (st)
        return st;
    b->member = calloc(b->tar.n + 1, sizeof *b->member);
    if (!b->member)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", b->path);
    for (size_t i = 0; i < b->tar.n; i++) {
        const struct steno_tar_member *m = &b->tar.member[i];
        b->member[i] = (struct steno_zip_member){.name = m->name,
                                                 .name_len = m->name_len,
                                                 .size = m->size,
                                                 .packed = m->size,
                                                 .at = m->at};
    }
    b->n = b->tar.n;
    return STENO_OK;
}

static steno_status list_archive(struct steno_bundle *b, steno_err *err)
{
    const bool gzip = steno_gzip_probe(b->map.p, b->map.n);
    steno_status st = STENO_OK;
    b->bytes = b->map.p;
    b->n_bytes = b->map.n;
    if (gzip)
        st = unpack(b, err);
    if (!st && (gzip || steno_tar_probe(b->bytes, b->n_bytes)))
        return list_tar(b, err);
    return st ? st : steno_zip_list(b->bytes, b->n_bytes, b->path, &b->member, &b->n, err);
}

steno_status steno_bundle_open(struct steno_bundle *b, const char *path, steno_err *err)
{
    steno_status st;
    *b = (struct steno_bundle){.path = path};
    if (steno_path_is_dir(path))
        return STENO_OK;
    st = steno_map_open(&b->map, path, err);
    if (!st)
        st = list_archive(b, err);
    b->archive = true;
    if (st)
        steno_bundle_close(b);
    return st;
}

void steno_bundle_close(struct steno_bundle *b)
{
    free(b->member);
    b->member = NULL;
    b->n = 0;
    steno_tar_close(&b->tar);
    free(b->unpacked);
    b->unpacked = NULL;
    steno_map_close(&b->map);
}

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static bool climbs(const char *name)
{
    return *name == '/' || !strncmp(name, "../", 3) || strstr(name, "/../");
}

static bool name_ends_with(const char *name, size_t n, const char *end)
{
    const size_t k = strlen(end);
    return n >= k && !memcmp(name + n - k, end, k);
}

/* Every model has a config.yaml: one of another folder is another one. */
static bool may_move(const char *name)
{
    return !strchr(name, '/') || !name_ends_with(name, strlen(name), ".yaml");
}

static const struct steno_zip_member *find_member(const struct steno_bundle *b, const char *name)
{
    const struct steno_zip_member *m = steno_zip_find(b->member, b->n, name), *only = NULL;
    const char *last = last_part(name);
    const size_t k = strlen(last);
    for (size_t i = 0; !m && may_move(name) && i < b->n; i++) {
        const struct steno_zip_member *x = &b->member[i];
        if (!name_ends_with(x->name, x->name_len, last) ||
            (x->name_len > k && x->name[x->name_len - k - 1] != '/'))
            continue;
        if (only)
            return NULL;
        only = x;
    }
    return m ? m : only;
}

static bool find_in_directory(const struct steno_bundle *b, const char *name, char out[4096])
{
    int n = climbs(name) ? -1 : snprintf(out, 4096, "%s/%s", b->path, name);
    if (n > 0 && n < 4096 && !access(out, R_OK))
        return true;
    if (!may_move(name))
        return false;
    n = snprintf(out, 4096, "%s/%s", b->path, last_part(name));
    return n > 0 && n < 4096 && !access(out, R_OK);
}

bool steno_bundle_has(const struct steno_bundle *b, const char *name)
{
    char path[4096];
    return b->archive ? find_member(b, name) != NULL : find_in_directory(b, name, path);
}

steno_status steno_bundle_read(const struct steno_bundle *b, const char *name, size_t max,
                               struct steno_blob *out, steno_err *err)
{
    const struct steno_zip_member *m;
    char path[4096];
    steno_status st;
    *out = (struct steno_blob){0};
    if (!b->archive) {
        if (!find_in_directory(b, name, path))
            return steno_fail(err, STENO_ERR_IO, "%s: %.300s is missing", b->path, name);
        st = steno_map_open(&out->map, path, err);
        out->p = out->map.p;
        out->n = out->map.n;
        return st;
    }
    m = find_member(b, name);
    if (!m)
        return steno_fail(err, STENO_ERR_IO, "%s: %.300s is missing", b->path, name);
    out->n = m->size;
    out->p = steno_zip_stored(b->bytes, m);
    if (out->p)
        return STENO_OK;
    st = steno_zip_read(b->bytes, b->n_bytes, b->path, m, max, &out->owned, err);
    out->p = out->owned;
    return st;
}

void steno_blob_close(struct steno_blob *b)
{
    free(b->owned);
    steno_map_close(&b->map);
    *b = (struct steno_blob){0};
}

struct search {
    const char *ending;
    char *out;
    size_t size;
    int hits;
};

static void consider(struct search *s, const char *name, size_t n)
{
    if (!name_ends_with(name, n, s->ending) || n >= s->size)
        return;
    s->hits++;
    snprintf(s->out, s->size, "%.*s", (int)n, name);
}

steno_status steno_bundle_only(const struct steno_bundle *b, const char *ending, char *out,
                               size_t size, steno_err *err)
{
    struct search s = {.ending = ending, .out = out, .size = size};
    for (size_t i = 0; i < b->n; i++)
        consider(&s, b->member[i].name, b->member[i].name_len);
    if (!b->archive) {
        DIR *d = opendir(b->path);
        const struct dirent *e;
        while (d && (e = readdir(d)))
            consider(&s, e->d_name, strlen(e->d_name));
        if (d)
            closedir(d);
    }
    if (!s.hits)
        return steno_fail(err, STENO_ERR_IO, "%s: no file *%s is there", b->path, ending);
    if (s.hits > 1)
        return steno_fail(err, STENO_ERR_INVAL,
                          "%s: %d files *%s are there (%s is one): keep the one to convert",
                          b->path, s.hits, ending, out);
    return STENO_OK;
}
