#include "speech/store/hub_listing.h"

#include "base/buf.h"
#include "formats/json.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define MAX_BYTES ((int64_t)1 << 40) /* of a file */

static const struct steno_catalogue_file *
find_catalogue_file(const struct steno_catalogue_file *files, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(files[i].name, name))
            return &files[i];
    return NULL;
}

static steno_status add_file_of_hub(struct steno_chosen *io, const char *name, int64_t bytes,
                                    const uint8_t *sha256, steno_err *err)
{
    struct steno_catalogue_file *f = &io->files[io->n];
    if (io->n == STENO_CATALOGUE_FILES)
        return steno_fail(err, STENO_ERR_LIMIT, "more than %d files", STENO_CATALOGUE_FILES);
    snprintf(io->names[io->n], sizeof io->names[io->n], "%s", name);
    *f = (struct steno_catalogue_file){
        .name = io->names[io->n], .bytes = bytes, .unsummed = !sha256};
    if (sha256)
        memcpy(f->sha256, sha256, sizeof f->sha256);
    io->n++;
    return STENO_OK;
}

steno_status steno_choose(struct steno_chosen *io, const struct steno_catalogue_model *m,
                          const char *name, int64_t bytes, const uint8_t *sha256, steno_err *err)
{
    const struct steno_catalogue_file *known;
    bool wanted = false;
    if (!steno_catalogue_harmless_path(name) || !strcmp(name, STENO_RECORD) || bytes < 1 ||
        bytes > MAX_BYTES)
        return STENO_OK;
    for (size_t i = 0; i < m->n_picks; i++)
        if (!fnmatch(m->picks[i], name, FNM_PATHNAME))
            io->picked[i] = wanted = true;
    if (!wanted || find_catalogue_file(io->files, io->n, name))
        return STENO_OK;
    known = find_catalogue_file(m->files, m->n_files, name);
    return add_file_of_hub(io, name, bytes, known ? known->sha256 : sha256, err);
}

bool steno_chooses_below_folders(const struct steno_catalogue_model *m)
{
    for (size_t i = 0; i < m->n_picks; i++)
        if (strchr(m->picks[i], '/'))
            return true;
    return false;
}

steno_status steno_choose_end(const struct steno_chosen *c, const struct steno_catalogue_model *m,
                              const char *where, steno_err *err)
{
    for (size_t i = 0; i < m->n_picks; i++)
        if (!c->picked[i])
            return steno_fail(err, STENO_ERR_FORMAT, "%s has no file %s", where, m->picks[i]);
    return STENO_OK;
}

/* {"type":"file","path":"a.onnx","size":1,"oid":"...","lfs":{"oid":"SHA-256","size":1}} */
static steno_status choose_entry(struct steno_chosen *io, const struct steno_catalogue_model *m,
                                 const struct steno_json_node *entry, steno_err *err)
{
    const char *type = steno_json_text(steno_json_get(entry, "type"));
    const char *path = steno_json_text(steno_json_get(entry, "path"));
    const char *sum = steno_json_text(steno_json_get(steno_json_get(entry, "lfs"), "oid"));
    uint8_t sha256[STENO_SHA256_BYTES];
    bool summed = sum && steno_sha256_parse(sum, sha256);
    int64_t bytes;
    if (!type || strcmp(type, "file") || !path ||
        !steno_json_int(steno_json_get(entry, "size"), 1, MAX_BYTES, &bytes))
        return STENO_OK;
    return steno_choose(io, m, path, bytes, summed ? sha256 : NULL, err);
}

steno_status steno_choose_listed(struct steno_chosen *io, const struct steno_catalogue_model *m,
                                 const void *bytes, size_t n, steno_err *err)
{
    steno_json *json = NULL;
    steno_status st = steno_json_parse(&json, bytes, n, "the hub's list of files", err);
    const struct steno_json_node *root = st ? NULL : steno_json_root(json);
    if (!st && root->kind != STENO_JSON_LIST)
        st = steno_fail(err, STENO_ERR_FORMAT, "the hub's list of files is no list");
    for (const struct steno_json_node *e = st ? NULL : root->first; e && !st; e = e->next)
        st = choose_entry(io, m, e, err);
    steno_json_close(json);
    return st;
}

/* ---- what was fetched ------------------------------------------------------------------------ */

steno_status steno_record_write(struct steno_buf *out, const struct steno_catalogue_file *files,
                                size_t n)
{
    steno_status st = steno_buf_puts(out, "{\n");
    for (size_t i = 0; !st && i < n; i++) {
        char sum[STENO_SHA256_HEX];
        steno_sha256_text(files[i].sha256, sum);
        /* names have no character that JSON escapes */
        st = steno_buf_printf(out, "  \"%s\": {\"bytes\": %lld, \"sha256\": \"%s\"}%s\n",
                              files[i].name, (long long)files[i].bytes, sum, i + 1 < n ? "," : "");
    }
    return st ? st : steno_buf_puts(out, "}\n");
}

steno_status steno_record_read(struct steno_chosen *out, const void *bytes, size_t n,
                               const char *name, steno_err *err)
{
    steno_json *json = NULL;
    steno_status st = steno_json_parse(&json, bytes, n, name, err);
    const struct steno_json_node *root = st ? NULL : steno_json_root(json);
    memset(out, 0, sizeof *out);
    if (!st && root->kind != STENO_JSON_OBJECT)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: must be an object", name);
    for (const struct steno_json_node *f = st ? NULL : root->first; f && !st; f = f->next) {
        const char *sum = steno_json_text(steno_json_get(f, "sha256"));
        uint8_t sha256[STENO_SHA256_BYTES];
        int64_t size;
        if (!steno_catalogue_harmless_path(f->key) || !sum || !steno_sha256_parse(sum, sha256) ||
            !steno_json_int(steno_json_get(f, "bytes"), 1, MAX_BYTES, &size))
            st = steno_fail(err, STENO_ERR_FORMAT,
                            "%s: line %zu: a file needs a harmless name, bytes and sha256", name,
                            f->line);
        else
            st = add_file_of_hub(out, f->key, size, sha256, err);
    }
    steno_json_close(json);
    return st;
}
