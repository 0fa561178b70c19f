/* Descriptors: the process has its input as 0 and a pipe for records as 1, nothing else. A
 * recording in memory is copied to an anonymous file (memfd_create), because formats such as MP4
 * need to seek. A live stream comes by a pipe.
 *
 * The kernel ends the process when the thread that started it ends (PR_SET_PDEATHSIG): the
 * recording must not outlive that thread.
 *
 * The limit on processor time follows from the limit on audio: real files take less than a
 * hundredth of their length. */
#define _GNU_SOURCE /* memfd_create, pipe2 */
#include "speech/audio/container.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "speech/audio/decode_wire.h"
#include "speech/audio/pcm.h"
#include "base/spawn.h"

#define PROGRAM "steno-decode"
#define PATH_BYTES 4096
#define CPU_SECONDS 20        /* and a hundredth of the longest audio */
#define LONGEST_SECONDS 86400 /* where there is no limit */
#define MEGABYTES "256"       /* of memory for the process, besides its program */

struct steno_decoders {
    int max;
    atomic_int running; /* relaxed: a count alone */
};

struct steno_container {
    steno_decoders *decoders; /* NULL: not counted */
    pid_t pid;                /* 0 = none */
    int in, out;              /* in -1: nothing more is pushed */
    struct steno_container_info info;
    bool over;
    steno_err failed; /* why it is; code 0 = it came to its end */
    size_t have;      /* bytes of the next record */
    unsigned char record[sizeof(struct steno_decode_head) + STENO_DECODE_BODY_MAX];
    float samples[STENO_DECODE_BODY_MAX / sizeof(float)];
};

/* ---- how many -------------------------------------------------------------------------------- */

steno_status steno_decoders_open(steno_decoders **out, int max, steno_err *err)
{
    steno_decoders *d = calloc(1, sizeof *d);
    if (!d)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    d->max = max;
    *out = d;
    return STENO_OK;
}

void steno_decoders_close(steno_decoders *d)
{
    free(d);
}

int steno_decoders_running(const steno_decoders *d)
{
    return atomic_load_explicit(&d->running, memory_order_relaxed);
}

static steno_status take_place(steno_decoders *d, steno_err *err)
{
    if (!d)
        return STENO_OK;
    if (!d->max)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "this format needs " PROGRAM ", and audio.helpers allows none");
    if (atomic_fetch_add_explicit(&d->running, 1, memory_order_relaxed) < d->max)
        return STENO_OK;
    atomic_fetch_sub_explicit(&d->running, 1, memory_order_relaxed);
    return steno_fail(
        err, STENO_ERR_BUSY,
        "%d recordings are being decoded by " PROGRAM ", as many as audio.helpers allows", d->max);
}

static void give_place_back(steno_decoders *d)
{
    if (d)
        atomic_fetch_sub_explicit(&d->running, 1, memory_order_relaxed);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Where the program may be, from the folder of this one: beside it; where both are installed; above
 * the tests of a build folder. */
static const char *const places[] = {"/" PROGRAM, "/../libexec/steno/" PROGRAM, "/../../" PROGRAM,
                                     "/../../../" PROGRAM};

static bool find_program(char path[PATH_BYTES])
{
    const char *given = getenv("STENO_DECODE");
    char dir[PATH_BYTES];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    char *slash;
    if (given && *given)
        return snprintf(path, PATH_BYTES, "%s", given) < PATH_BYTES && !access(path, X_OK);
    dir[n > 0 ? n : 0] = '\0';
    slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; slash && i < (strstr(dir, "/build/") ? 4 : 2); i++)
        if (snprintf(path, PATH_BYTES, "%s%s", dir, places[i]) < PATH_BYTES && !access(path, X_OK))
            return true;
    return snprintf(path, PATH_BYTES, "%s", STENO_LIBEXECDIR "/steno/" PROGRAM) < PATH_BYTES &&
           !access(path, X_OK);
}

bool steno_decoders_installed(void)
{
    char path[PATH_BYTES];
    return find_program(path);
}

static steno_status fail_errno(steno_err *err, const char *what, int e)
{
    return steno_fail(err, e == ENOMEM || e == EAGAIN ? STENO_ERR_NOMEM : STENO_ERR_INTERNAL,
                      PROGRAM ": %s: %s", what, strerror(e));
}

/* Start the program on `in`; range: the bytes of a file that are the recording, NULL = a pipe. */
static steno_status start_decoder(steno_container *c, const struct steno_container_options *opt,
                                  int in, const struct steno_source *range, steno_err *err)
{
    const double longest = opt->max_seconds > 0 && opt->max_seconds < LONGEST_SECONDS
                               ? opt->max_seconds
                               : LONGEST_SECONDS;
    char path[PATH_BYTES], seconds[24], offset[24] = "", size[24] = "";
    char program[] = PROGRAM, megabytes[] = MEGABYTES, demuxer[32];
    char *argv[] = {program, demuxer, seconds, megabytes, range ? offset : NULL, size, NULL};
    char *const env[] = {NULL};
    int pipe[2], rc;
    snprintf(demuxer, sizeof demuxer, "%s", opt->demuxer ? opt->demuxer : "");
    snprintf(seconds, sizeof seconds, "%d", CPU_SECONDS + (int)(longest / 100));
    if (range) {
        snprintf(offset, sizeof offset, "%" PRId64, range->base);
        snprintf(size, sizeof size, "%" PRId64, range->size);
    }
    if (!find_program(path))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "this format needs the program " PROGRAM
                          ", which is not installed beside this one or in libexec/steno");
    if (pipe2(pipe, O_CLOEXEC))
        return fail_errno(err, "pipe", errno);
    rc = steno_spawn(&c->pid, path, false, argv, env, in, pipe[1]);
    close(pipe[1]);
    c->out = pipe[0];
    (void)fcntl(c->out, F_SETFL, O_NONBLOCK);
    return rc ? fail_errno(err, "start", rc) : STENO_OK;
}

static steno_status new_container(steno_container **out, const struct steno_container_options *opt,
                                  steno_err *err)
{
    steno_container *c;
    steno_status st = take_place(opt->decoders, err);
    if (st)
        return st;
    c = calloc(1, sizeof *c);
    if (!c) {
        give_place_back(opt->decoders);
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    }
    c->decoders = opt->decoders;
    c->in = c->out = -1;
    c->info.frames = -1;
    *out = c;
    return STENO_OK;
}

/* The bytes of a recording in memory as a file without a name. */
static int file_of_memory(const struct steno_source *src, steno_err *err)
{
    int fd = memfd_create("recording", MFD_CLOEXEC);
    const unsigned char *p = src->data + src->base;
    int64_t left = src->size;
    while (fd >= 0 && left > 0) {
        ssize_t k = write(fd, p, (size_t)left);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            int e = k ? errno : ENOSPC;
            close(fd);
            errno = e;
            fd = -1;
            break;
        }
        p += k;
        left -= k;
    }
    if (fd < 0)
        (void)fail_errno(err, "a copy of the recording", errno);
    return fd;
}

steno_status steno_container_open(steno_container **out, const struct steno_source *src,
                                  const struct steno_container_options *opt, steno_err *err)
{
    struct steno_source range = *src;
    steno_container *c;
    int fd = src->fd;
    steno_status st = new_container(&c, opt, err);
    if (st)
        return st;
    if (src->data) {
        fd = file_of_memory(src, err);
        range.base = 0;
        st = fd < 0 ? STENO_ERR_NOMEM : STENO_OK;
    }
    if (!st)
        st = start_decoder(c, opt, fd, &range, err);
    if (src->data && fd >= 0)
        close(fd);
    if (st)
        steno_container_close(c);
    else
        *out = c;
    return st;
}

steno_status steno_container_open_live(steno_container **out,
                                       const struct steno_container_options *opt, steno_err *err)
{
    int pipe[2];
    steno_container *c;
    steno_status st = new_container(&c, opt, err);
    if (st)
        return st;
    if (pipe2(pipe, O_CLOEXEC)) {
        st = fail_errno(err, "pipe", errno);
    } else {
        st = start_decoder(c, opt, pipe[0], NULL, err);
        close(pipe[0]);
        c->in = pipe[1];
        (void)fcntl(c->in, F_SETFL, O_NONBLOCK);
    }
    if (st)
        steno_container_close(c);
    else
        *out = c;
    return st;
}

steno_status steno_container_open_records(steno_container **out, int fd, steno_err *err)
{
    const struct steno_container_options opt = {0};
    steno_status st = new_container(out, &opt, err);
    if (!st)
        (*out)->out = fd;
    return st;
}

/* End the process. Its status; -1 if there is none. */
static int stop(steno_container *c)
{
    int status = -1;
    if (!c->pid)
        return -1;
    kill(c->pid, SIGKILL); /* one that is ending by itself keeps its own reason */
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    c->pid = 0;
    give_place_back(c->decoders);
    c->decoders = NULL;
    return status;
}

void steno_container_close(steno_container *c)
{
    if (!c)
        return;
    (void)stop(c);
    give_place_back(c->decoders);
    steno_container_end(c);
    if (c->out >= 0)
        close(c->out);
    free(c);
}

/* ---- input ----------------------------------------------------------------------------------- */

steno_status steno_container_push(steno_container *c, const void *data, size_t n, size_t *used,
                                  steno_err *err)
{
    ssize_t k;
    *used = n;
    if (c->in < 0 || c->over)
        return STENO_OK;
    do
        k = write(c->in, data, n);
    while (k < 0 && errno == EINTR);
    if (k < 0 && errno == EPIPE) /* it has ended: its last record says why */
        return STENO_OK;
    if (k < 0 && errno != EAGAIN)
        return fail_errno(err, "write", errno);
    *used = k > 0 ? (size_t)k : 0;
    return STENO_OK;
}

void steno_container_end(steno_container *c)
{
    if (c->in >= 0)
        close(c->in);
    c->in = -1;
}

/* ---- records --------------------------------------------------------------------------------- */

/* It ended without a last record. */
static steno_status fail_crash(int status, steno_err *err)
{
    const int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (status == -1 || (WIFEXITED(status) && WEXITSTATUS(status) == 127))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          PROGRAM " does not start: are its libraries installed (libavformat, "
                                  "libavcodec, libswresample, libseccomp)?");
    if (sig == SIGXCPU)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "the file takes too long to decode: it is damaged or made to do so");
    if (sig == SIGSYS)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "the file made its decoder do what it may not, and was stopped");
    if (sig)
        return steno_fail(err, STENO_ERR_FORMAT, "the file crashed its decoder (signal %d)", sig);
    return steno_fail(err, STENO_ERR_FORMAT, "the file's decoder ended early (status %d)",
                      WIFEXITED(status) ? WEXITSTATUS(status) : status);
}

static steno_status fail_lie(steno_container *c, const char *what, steno_err *err)
{
    (void)stop(c);
    return steno_fail(err, STENO_ERR_FORMAT, "the file's decoder went wrong: %s", what);
}

static steno_status take_format(steno_container *c, const unsigned char *body, size_t n,
                                steno_err *err)
{
    struct steno_decode_format f;
    if (n != sizeof f || c->info.sample_rate)
        return fail_lie(c, "a format record", err);
    memcpy(&f, body, sizeof f);
    if (f.sample_rate < STENO_RATE_MIN || f.sample_rate > STENO_RATE_MAX)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "sample rate %" PRIu32 " Hz is outside %d to %d", f.sample_rate,
                          STENO_RATE_MIN, STENO_RATE_MAX);
    if (f.channels < 1 || f.channels > STENO_CHANNELS_MAX)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%" PRIu32 " channels (1 to %d are possible)",
                          f.channels, STENO_CHANNELS_MAX);
    c->info.sample_rate = (int)f.sample_rate;
    c->info.channels = f.channels;
    c->info.frames = f.frames >= 0 && f.frames < INT64_MAX / 1000000 ? f.frames : -1;
    for (size_t i = 0; i < sizeof f.container; i++) {
        c->info.format[i] = f.container[i] >= ' ' && f.container[i] < 0x7F ? f.container[i] : '\0';
        c->info.codec[i] = f.codec[i] >= ' ' && f.codec[i] < 0x7F ? f.codec[i] : '\0';
    }
    c->info.format[sizeof f.container - 1] = c->info.codec[sizeof f.codec - 1] = '\0';
    return STENO_OK;
}

static steno_status take_container_samples(steno_container *c, const unsigned char *body, size_t n,
                                           const float **samples, size_t *frames, steno_err *err)
{
    const size_t bytes = c->info.channels * sizeof(float);
    if (!bytes || !n || n % bytes)
        return fail_lie(c, "a record of samples", err);
    memcpy(c->samples, body, n);
    steno_pcm_clean(c->samples, n / sizeof(float), c->samples);
    *samples = c->samples;
    *frames = n / bytes;
    return STENO_OK;
}

static steno_status take_end(steno_container *c, const unsigned char *body, size_t n,
                             size_t *frames, steno_err *err)
{
    struct steno_decode_end e;
    if (n != sizeof e || !c->info.sample_rate)
        return fail_lie(c, "an end record", err);
    memcpy(&e, body, sizeof e);
    c->info.truncated = e.truncated != 0;
    c->info.damaged = e.damaged;
    c->over = true;
    (void)stop(c);
    *frames = 0;
    return STENO_OK;
}

static steno_status take_error(steno_container *c, const unsigned char *body, size_t n,
                               steno_err *err)
{
    char text[256];
    uint32_t code;
    size_t k = 0;
    if (n < sizeof code)
        return fail_lie(c, "an error record", err);
    memcpy(&code, body, sizeof code);
    for (size_t i = sizeof code; i < n && k < sizeof text - 1; i++)
        text[k++] = body[i] >= ' ' && body[i] < 0x7F ? (char)body[i] : '?';
    text[k] = '\0';
    (void)stop(c);
    switch (code) {
    case STENO_ERR_NOMEM:
    case STENO_ERR_IO:
    case STENO_ERR_UNSUPPORTED:
    case STENO_ERR_LIMIT:
        break;
    default:
        code = STENO_ERR_FORMAT;
    }
    return steno_fail(err, (steno_status)code, "%s", *text ? text : "no reason was given");
}

/* Read a whole record into c->record. STENO_NEED_MORE: it has not arrived. */
static steno_status read_record(steno_container *c, bool wait, struct steno_decode_head *h,
                                steno_err *err)
{
    for (;;) {
        size_t want = sizeof *h;
        ssize_t k;
        if (c->have >= sizeof *h) {
            memcpy(h, c->record, sizeof *h);
            if (h->bytes > STENO_DECODE_BODY_MAX)
                return fail_lie(c, "a record too long", err);
            want += h->bytes;
            if (c->have == want)
                return STENO_OK;
        }
        k = read(c->out, c->record + c->have, want - c->have);
        if (k > 0) {
            c->have += (size_t)k;
        } else if (!k) {
            return fail_crash(stop(c), err);
        } else if (errno == EAGAIN) {
            struct pollfd p = {.fd = c->out, .events = POLLIN};
            if (!wait)
                return STENO_NEED_MORE;
            (void)!poll(&p, 1, -1);
        } else if (errno != EINTR) {
            return fail_errno(err, "read", errno);
        }
    }
}

/* Take the next record, and the format before it. */
static steno_status take_record(steno_container *c, bool wait, const float **samples,
                                size_t *frames, steno_err *err)
{
    struct steno_decode_head h;
    const unsigned char *body = c->record + sizeof h;
    steno_status st = read_record(c, wait, &h, err);
    if (st)
        return st;
    c->have = 0;
    switch (h.kind) {
    case STENO_DECODE_FORMAT:
        st = take_format(c, body, h.bytes, err);
        return st ? st : take_record(c, wait, samples, frames, err); /* a second one fails */
    case STENO_DECODE_SAMPLES:
        return take_container_samples(c, body, h.bytes, samples, frames, err);
    case STENO_DECODE_END:
        return take_end(c, body, h.bytes, frames, err);
    case STENO_DECODE_ERROR:
        return take_error(c, body, h.bytes, err);
    default:
        return fail_lie(c, "an unknown record", err);
    }
}

steno_status steno_container_read(steno_container *c, bool wait, const float **samples,
                                  size_t *frames, steno_err *err)
{
    steno_status st = STENO_OK;
    *frames = 0;
    if (!c->over) {
        st = take_record(c, wait, samples, frames, &c->failed);
        c->over |= st && st != STENO_NEED_MORE;
    } else {
        st = c->failed.code;
    }
    if (st && st != STENO_NEED_MORE && err)
        *err = c->failed;
    return st;
}

void steno_container_get_info(const steno_container *c, struct steno_container_info *info)
{
    *info = c->info;
}

void steno_container_descriptors(const steno_container *c, int *readable, int *writable)
{
    *readable = c->out;
    *writable = c->in;
}
