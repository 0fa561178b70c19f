/* steno-decode DEMUXER CPU_SECONDS MEGABYTES [OFFSET SIZE]
 * Decodes descriptor 0 and writes records (audio/decode_wire.h) to descriptor 1. With OFFSET and
 * SIZE descriptor 0 is a file, of which these bytes are the recording; without, bytes are read as
 * they come. Exit status: 0 after an END or ERROR record, 1 when the output cannot be written, 64
 * for wrong arguments. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "tools/decode/av.h"
#include "tools/decode/sandbox.h"

struct input {
    int64_t offset, size, pos; /* size -1: a pipe */
    unsigned channels;
};

static int64_t read_input(void *ctx, unsigned char *buf, size_t n)
{
    struct input *in = ctx;
    ssize_t k;
    if (in->size >= 0 && (int64_t)n > in->size - in->pos)
        n = (size_t)(in->size - in->pos);
    do
        k = !n             ? 0
            : in->size < 0 ? read(STDIN_FILENO, buf, n)
                           : pread(STDIN_FILENO, buf, n, (off_t)(in->offset + in->pos));
    while (k < 0 && errno == EINTR);
    if (k > 0)
        in->pos += k;
    return k;
}

static void seek_input(void *ctx, int64_t to)
{
    ((struct input *)ctx)->pos = to;
}

static steno_status write_all(const void *p, size_t n)
{
    while (n) {
        ssize_t k = write(STDOUT_FILENO, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return STENO_ERR_IO;
        p = (const char *)p + k;
        n -= (size_t)k;
    }
    return STENO_OK;
}

static steno_status put_record(uint32_t kind, const void *body, size_t n)
{
    const struct steno_decode_head h = {kind, (uint32_t)n};
    steno_status st = write_all(&h, sizeof h);
    return st ? st : write_all(body, n);
}

static steno_status put_format(void *ctx, const struct steno_decode_format *f)
{
    ((struct input *)ctx)->channels = f->channels;
    return put_record(STENO_DECODE_FORMAT, f, sizeof *f);
}

static steno_status put_samples(void *ctx, const float *x, size_t frames)
{
    return put_record(STENO_DECODE_SAMPLES, x,
                      frames * ((struct input *)ctx)->channels * sizeof *x);
}

static steno_status put_error(const steno_err *err)
{
    char body[sizeof(uint32_t) + sizeof err->msg];
    const uint32_t code = err->code;
    size_t n = strlen(err->msg);
    memcpy(body, &code, sizeof code);
    memcpy(body + sizeof code, err->msg, n);
    return put_record(STENO_DECODE_ERROR, body, sizeof code + n);
}

static bool read_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && !errno && *out >= 0;
}

int main(int argc, char **argv)
{
    struct input in = {.size = -1};
    struct steno_av_io io = {.ctx = &in,
                             .read = read_input,
                             .seek = seek_input,
                             .format = put_format,
                             .samples = put_samples};
    struct steno_decode_end end = {0};
    int64_t seconds, megabytes;
    steno_err err = {0};
    steno_status st;
    if ((argc != 4 && argc != 6) || !read_number(argv[2], &seconds) ||
        !read_number(argv[3], &megabytes) || megabytes > 1 << 20 ||
        (argc == 6 && (!read_number(argv[4], &in.offset) || !read_number(argv[5], &in.size))))
        return EX_USAGE;
    io.size = in.size;
    st = steno_sandbox_enter((unsigned)seconds, (size_t)megabytes << 20, &err);
    if (!st)
        st = steno_av_decode(&io, argv[1], &end, &err);
    if (st == STENO_ERR_IO && !*err.msg) /* the reader is gone */
        _exit(1);
    st = st ? put_error(&err) : put_record(STENO_DECODE_END, &end, sizeof end);
    _exit(st ? 1 : 0); /* without the libraries' handlers, which the sandbox may stop */
}
