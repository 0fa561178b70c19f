#include "speech/audio/source.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOLD_BYTES 65536

void steno_source_of_memory(struct steno_source *s, const void *data, size_t n)
{
    memset(s, 0, sizeof *s);
    s->data = data;
    s->fd = -1;
    s->size = (int64_t)n;
}

steno_status steno_source_of_fd(struct steno_source *s, int fd, size_t max_kept, steno_err *err)
{
    struct stat sb;
    memset(s, 0, sizeof *s);
    s->fd = fd;
    if (fstat(fd, &sb))
        return steno_source_error(s, errno, err);
    if (S_ISDIR(sb.st_mode))
        return steno_source_error(s, EISDIR, err);
    if (S_ISREG(sb.st_mode)) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        s->base = at > 0 ? at : 0;
        s->size = sb.st_size > s->base ? sb.st_size - s->base : 0;
        return STENO_OK;
    }
    s->pipe = s->keep = true;
    s->size = -1;
    s->max_kept = max_kept;
    steno_buf_init(&s->kept, max_kept);
    return STENO_OK;
}

void steno_source_free(struct steno_source *s)
{
    if (s->max_kept)
        steno_buf_free(&s->kept);
}

static ssize_t read_pipe(struct steno_source *s, void *buf, size_t n)
{
    ssize_t k;
    if ((uint64_t)s->pos < s->kept.len) {
        k = (ssize_t)(s->kept.len - (size_t)s->pos);
        if ((size_t)k > n)
            k = (ssize_t)n;
        memcpy(buf, s->kept.data + s->pos, (size_t)k);
        return k;
    }
    if (!s->keep)
        steno_buf_free(&s->kept);
    do
        k = read(s->fd, buf, n);
    while (k < 0 && errno == EINTR);
    if (k > 0 && s->keep) {
        steno_status st = steno_buf_add(&s->kept, buf, (size_t)k);
        if (st) {
            errno = st == STENO_ERR_LIMIT ? EFBIG : ENOMEM;
            return -1;
        }
    }
    return k;
}

ssize_t steno_source_read(struct steno_source *s, void *buf, size_t n)
{
    int64_t left = s->size > s->pos ? s->size - s->pos : 0;
    ssize_t k;
    if (!s->pipe && (uint64_t)left < n)
        n = (size_t)left;
    if (!n)
        return 0;
    if (s->pipe) {
        k = read_pipe(s, buf, n);
    } else if (s->data) {
        memcpy(buf, s->data + s->base + s->pos, n);
        k = (ssize_t)n;
    } else {
        do
            k = pread(s->fd, buf, n, s->base + s->pos);
        while (k < 0 && errno == EINTR);
    }
    if (k > 0)
        s->pos += k;
    return k;
}

ssize_t steno_source_next(struct steno_source *s, void *buf, size_t n, const unsigned char **at)
{
    const int64_t pos = s->pos, left = s->size > pos ? s->size - pos : 0;
    *at = buf;
    if (s->pipe || !s->data)
        return steno_source_read(s, buf, n);
    *at = s->data + s->base + pos;
    n = (uint64_t)left < n ? (size_t)left : n;
    s->pos += (int64_t)n;
    return (ssize_t)n;
}

/* Read on until a pipe has `end` bytes kept, or ends. */
static bool fill_kept(struct steno_source *s, int64_t end)
{
    unsigned char piece[4096];
    while ((int64_t)s->kept.len < end) {
        int64_t want = end - (int64_t)s->kept.len;
        ssize_t k;
        s->pos = (int64_t)s->kept.len;
        k = read_pipe(s, piece, want < (int64_t)sizeof piece ? (size_t)want : sizeof piece);
        if (k <= 0)
            return !k;
    }
    return true;
}

ssize_t steno_source_peek(struct steno_source *s, int64_t at, void *buf, size_t n)
{
    int64_t pos = s->pos;
    size_t got = 0;
    ssize_t k = 0;
    if (s->pipe && !fill_kept(s, at + (int64_t)n)) {
        s->pos = pos;
        return -1;
    }
    s->pos = at;
    if (s->pipe)
        n = at >= (int64_t)s->kept.len     ? 0
            : s->kept.len - (size_t)at < n ? s->kept.len - (size_t)at
                                           : n;
    while (got < n && (k = steno_source_read(s, (char *)buf + got, n - got)) > 0)
        got += (size_t)k;
    s->pos = pos;
    return k < 0 ? -1 : (ssize_t)got;
}

void steno_source_skip(struct steno_source *s, int64_t n)
{
    s->pos = 0;
    if (s->pipe) {
        steno_buf_drop(&s->kept, (uint64_t)n < s->kept.len ? (size_t)n : s->kept.len);
        return;
    }
    n = n < s->size ? n : s->size;
    s->base += n;
    s->size -= n;
}

steno_status steno_source_hold(struct steno_source *s, steno_err *err)
{
    unsigned char piece[HOLD_BYTES];
    ssize_t k;
    if (!s->pipe)
        return STENO_OK;
    s->pos = (int64_t)s->kept.len;
    while ((k = steno_source_read(s, piece, sizeof piece)) > 0)
        ;
    if (k < 0)
        return steno_source_error(s, errno, err);
    s->data = (const unsigned char *)s->kept.data;
    s->size = (int64_t)s->kept.len;
    s->pos = 0;
    s->pipe = s->keep = false;
    return STENO_OK;
}

void steno_source_stream(struct steno_source *s)
{
    s->keep = false;
}

steno_status steno_source_error(const struct steno_source *s, int e, steno_err *err)
{
    if (e == EFBIG && s->pipe)
        return steno_fail(err, STENO_ERR_LIMIT, "the input is longer than %zu bytes", s->max_kept);
    if (e == ENOMEM)
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    return steno_fail(err, STENO_ERR_IO, "reading the audio: %s", strerror(e));
}
