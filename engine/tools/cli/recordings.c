#include "tools/cli/recordings.h"

#include "speech/audio/file.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define BLOCK 8000 /* samples pushed at a time */

static steno_status take_finals(steno_stream *s, struct steno_buf *text, steno_err *err)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev))
        if (text && ev.kind == STENO_FINAL && *ev.text &&
            steno_buf_printf(text, "%s%s", text->len ? " " : "", ev.text))
            return steno_fail(err, STENO_ERR_LIMIT, "the text is too long");
    return STENO_OK;
}

static steno_status listen_to_stream(steno_stream *s, steno_audio *a, struct steno_buf *text,
                                     steno_err *err)
{
    float pcm[BLOCK];
    size_t n = 1;
    steno_status st = STENO_OK;
    while (!st && n) {
        n = 0;
        st = steno_audio_read(a, pcm, BLOCK, &n, err);
        if (!st && n)
            st = steno_stream_push(s, pcm, n, err);
        if (!st)
            st = take_finals(s, text, err);
    }
    if (!st)
        st = steno_stream_end(s, err);
    return st ? st : take_finals(s, text, err);
}

steno_status recordings_transcribe(steno_model *m, const char *path, struct steno_buf *text,
                                   steno_err *err)
{
    struct steno_audio_info info;
    struct steno_stream_options so = {.no_partials = true};
    steno_audio *a = NULL;
    steno_stream *s = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    steno_status st = fd < 0 ? steno_fail(err, STENO_ERR_IO, "%s", strerror(errno))
                             : steno_audio_open_fd(&a, fd, &(struct steno_audio_options){0}, err);
    if (!st) {
        steno_audio_get_info(a, &info);
        so.sample_rate = info.sample_rate;
        st = steno_stream_open(&s, m, &so, err);
    }
    if (!st) {
        steno_stream_set_early(s, false);
        st = listen_to_stream(s, a, text, err);
    }
    steno_stream_close(s);
    steno_audio_close(a);
    if (fd >= 0)
        close(fd);
    return st ? steno_fail_in(err, st, "%s", path) : STENO_OK;
}

static bool is_recording(const char *name)
{
    static const char *const ends[] = {".wav", ".flac", ".ogg", ".opus", ".mp3"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof ends[0]; i++)
        if (!strcasecmp(dot, ends[i]))
            return true;
    return false;
}

static steno_status folder(const char *path, recordings_fn *fn, void *arg, steno_err *err)
{
    struct dirent **list = NULL;
    steno_status st = STENO_OK;
    const char *slash = *path && path[strlen(path) - 1] == '/' ? "" : "/";
    int n = scandir(path, &list, NULL, alphasort);
    if (n < 0)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char file[4096];
        if (!st && is_recording(list[i]->d_name) &&
            snprintf(file, sizeof file, "%s%s%s", path, slash, list[i]->d_name) < (int)sizeof file)
            st = fn(arg, file, err);
        free(list[i]);
    }
    free(list);
    return st;
}

bool recordings_are(const char *path)
{
    struct dirent **list = NULL;
    int n;
    bool found = false;
    if (!steno_path_is_dir(path))
        return is_recording(path);
    n = scandir(path, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        found = found || is_recording(list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return found;
}

steno_status recordings_each(const struct cli_list *paths, recordings_fn *fn, void *arg,
                             steno_err *err)
{
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < paths->n; i++) {
        if (steno_path_is_dir(paths->v[i]))
            st = folder(paths->v[i], fn, arg, err);
        else
            st = fn(arg, paths->v[i], err);
    }
    return st;
}

steno_status recordings_push_into(steno_recording *r, recordings_push_fn *push, void *to,
                                  steno_err *err)
{
    float pcm[BLOCK];
    size_t n = 1;
    steno_status st = STENO_OK;
    while (!st && n) {
        st = steno_recording_read(r, pcm, BLOCK, &n, err);
        if (!st && n)
            st = push(to, pcm, n, err);
    }
    return st;
}

static steno_status push_stream(void *stream, const float *pcm, size_t n, steno_err *err)
{
    return steno_stream_push(stream, pcm, n, err);
}

steno_status recordings_push(steno_recording *r, steno_stream *s, steno_err *err)
{
    const steno_status st = recordings_push_into(r, push_stream, s, err);
    return st ? st : steno_stream_end(s, err);
}
