/* People enrolled in a directory: a file for each (voiceprint.h). Whoever may read the directory
 * has the voices, so it must be ours alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/path.h"
#include "speech/speakers/networks.h"
#include "speech/speakers/voiceprint.h"

struct person {
    char name[STENO_SPEAKER_NAME];
    double seconds;
    int64_t since;
    bool known; /* it has a print of our network */
};

struct steno_enrolled {
    struct person person[STENO_ENROLLED_MAX];
    size_t n;
    size_t floats;
    float *prints; /* [STENO_ENROLLED_MAX, floats]; NULL: no networks */
};

/* ---- the directory --------------------------------------------------------------------------- */

/* STENO_ERR_IO: it is not ours alone. *there: it exists. */
static steno_status check_directory(const char *dir, bool *there, steno_err *err)
{
    struct stat sb;
    *there = !stat(dir, &sb);
    if (!*there)
        return errno == ENOENT ? STENO_OK
                               : steno_fail(err, STENO_ERR_IO, "%.300s: %s", dir, strerror(errno));
    if (!S_ISDIR(sb.st_mode))
        return steno_fail(err, STENO_ERR_IO, "%.300s: is not a directory", dir);
    if (sb.st_uid != geteuid())
        return steno_fail(err, STENO_ERR_IO,
                          "%.300s: belongs to another user, and voice prints are for us alone",
                          dir);
    return sb.st_mode & 077
               ? steno_fail(err, STENO_ERR_IO,
                            "%.300s: others may use it (mode %03o), and voice prints are for us "
                            "alone: chmod 700",
                            dir, (unsigned)(sb.st_mode & 0777))
               : STENO_OK;
}

static steno_status make_directory(const char *dir, steno_err *err)
{
    bool there;
    const steno_status st = steno_path_make_dirs(dir, 0700, err);
    return st ? st : check_directory(dir, &there, err);
}

static steno_status sync_directory(const char *dir, steno_err *err)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool ok = fd >= 0 && !fsync(fd);
    const int why = errno;
    if (fd >= 0)
        close(fd);
    return ok ? STENO_OK : steno_fail(err, STENO_ERR_IO, "%.300s: %s", dir, strerror(why));
}

steno_status steno_speaker_name_check(const char *name, steno_err *err)
{
    return steno_voiceprint_name_ok(name)
               ? STENO_OK
               : steno_fail(err, STENO_ERR_INVAL,
                            "name: 1 to %d bytes of UTF-8 without control characters and without "
                            "blanks at its ends",
                            STENO_SPEAKER_NAME - 1);
}

/* The path of a person's file, which the caller frees. STENO_ERR_INVAL: there is no such name. */
static steno_status path_of_enrolled(const char *dir, const char *name, char **path, steno_err *err)
{
    char file[STENO_VOICEPRINT_FILE];
    if (steno_speaker_name_check(name, err))
        return STENO_ERR_INVAL;
    steno_voiceprint_file(file, name);
    *path = steno_path_join(dir, file);
    return *path ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Read a person's file; one that is damaged, gone or of another network leaves no print. */
static steno_status read_person(steno_enrolled *e, const char *dir, const char *file,
                                const steno_speakers *s, steno_err *err)
{
    struct person *p = &e->person[e->n];
    struct steno_voiceprint v = {0};
    char *path, *text = NULL;
    size_t n;
    steno_status st;
    if (!steno_voiceprint_person(p->name, file))
        return STENO_OK;
    path = steno_path_join(dir, file);
    st = path ? steno_file_read(path, STENO_VOICEPRINT_MAX, &text, &n, err)
              : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_voiceprint_parse(&v, text, n, err);
    free(text);
    free(path);
    p->seconds = v.seconds;
    p->since = v.since;
    p->known = !st && s && v.network == s->embedding.tag && v.n == e->floats;
    if (p->known)
        memcpy(e->prints + e->n * e->floats, v.print, e->floats * sizeof *v.print);
    free(v.print);
    e->n++;
    return st == STENO_ERR_NOMEM ? st : STENO_OK;
}

static int is_voice(const struct dirent *e)
{
    char name[STENO_SPEAKER_NAME];
    return steno_voiceprint_person(name, e->d_name);
}

static int by_name_enrolled(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static steno_status read_directory(steno_enrolled *e, const char *dir, const steno_speakers *s,
                                   steno_err *err)
{
    struct dirent **list = NULL;
    const int n = scandir(dir, &list, is_voice, by_name_enrolled);
    steno_status st =
        n < 0 ? steno_fail(err, STENO_ERR_IO, "%.300s: %s", dir, strerror(errno)) : STENO_OK;
    for (int i = 0; i < n; i++) {
        if (!st && e->n < STENO_ENROLLED_MAX)
            st = read_person(e, dir, list[i]->d_name, s, err);
        free(list[i]);
    }
    free(list);
    return st;
}

steno_status steno_enrolled_open(steno_enrolled **out, const char *dir, const steno_speakers *s,
                                 steno_err *err)
{
    steno_enrolled *e = calloc(1, sizeof *e);
    bool there = false;
    steno_status st =
        e ? check_directory(dir, &there, err) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st && s) {
        e->floats = s->embedding.dim;
        e->prints = calloc(STENO_ENROLLED_MAX * e->floats + 1, sizeof *e->prints);
        if (!e->prints)
            st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    if (!st && there)
        st = read_directory(e, dir, s, err);
    if (st) {
        steno_enrolled_close(e);
        return st;
    }
    *out = e;
    return STENO_OK;
}

void steno_enrolled_close(steno_enrolled *e)
{
    if (!e)
        return;
    free(e->prints);
    free(e);
}

bool steno_enrolled_at(const steno_enrolled *e, size_t i, struct steno_enrolled_speaker *out)
{
    if (i >= e->n)
        return false;
    *out = (struct steno_enrolled_speaker){.name = e->person[i].name,
                                           .seconds = e->person[i].seconds,
                                           .since = e->person[i].since,
                                           .known = e->person[i].known};
    return true;
}

size_t steno_enrolled_count(const steno_enrolled *e)
{
    return e->n;
}

const float *steno_enrolled_prints(const steno_enrolled *e)
{
    return e->prints;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Check that there is room for one more, unless the person has a file. */
static steno_status check_room(const char *dir, const char *path, steno_err *err)
{
    steno_enrolled *e;
    size_t n;
    steno_status st =
        access(path, F_OK) ? steno_enrolled_open(&e, dir, NULL, err) : STENO_NEED_MORE;
    if (st)
        return st == STENO_NEED_MORE ? STENO_OK : st;
    n = e->n;
    steno_enrolled_close(e);
    return n < STENO_ENROLLED_MAX
               ? STENO_OK
               : steno_fail(err, STENO_ERR_LIMIT, "%d speakers are enrolled, which is the most",
                            STENO_ENROLLED_MAX);
}

static steno_status write_file_enrolled(const char *path, const struct steno_voiceprint *v,
                                        steno_err *err)
{
    struct steno_buf text;
    steno_status st;
    steno_buf_init(&text, STENO_VOICEPRINT_MAX);
    st = steno_voiceprint_write(&text, v);
    st = st ? steno_fail(err, st, "out of memory")
            : steno_atomic_file_write(path, text.data, text.len, 0600, true, err);
    steno_buf_free(&text);
    return st;
}

steno_status steno_enroll(const char *dir, const char *name, const steno_speakers *s,
                          const float *print, double seconds, steno_err *err)
{
    struct steno_voiceprint v = {.network = s->embedding.tag,
                                 .seconds = seconds,
                                 .since = (int64_t)time(NULL),
                                 .n = s->embedding.dim};
    char *path = NULL;
    steno_status st = path_of_enrolled(dir, name, &path, err);
    if (!st)
        st = make_directory(dir, err);
    if (!st)
        st = check_room(dir, path, err);
    v.print = malloc(v.n * sizeof *v.print);
    if (!st && !v.print)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st) {
        memcpy(v.print, print, v.n * sizeof *v.print);
        st = write_file_enrolled(path, &v, err);
    }
    free(v.print);
    free(path);
    return st ? st : sync_directory(dir, err);
}

steno_status steno_enrolled_delete(const char *dir, const char *name, steno_err *err)
{
    char *path;
    bool there;
    steno_status st = check_directory(dir, &there, err);
    if (!st)
        st = path_of_enrolled(dir, name, &path, err);
    if (st)
        return st;
    if (unlink(path))
        st = errno == ENOENT || errno == ENOTDIR
                 ? steno_fail(err, STENO_ERR_INVAL, "nobody of this name is enrolled")
                 : steno_fail(err, STENO_ERR_IO, "%.300s: %s", path, strerror(errno));
    free(path);
    return st ? st : sync_directory(dir, err);
}
