/* ways WAY FILE [RATE]: the samples of a recording by one of the ways it may come (README.md). */
#include "speech/audio/detect.h"
#include "speech/audio/feed.h"
#include "speech/audio/file.h"
#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 1000
#define BLOCK 8192

static steno_status put(const float *x, size_t n, steno_err *err)
{
    return fwrite(x, sizeof *x, n, stdout) == n ? STENO_OK
                                                : steno_fail(err, STENO_ERR_IO, "standard output");
}

static steno_status read_all(steno_audio *a, steno_err *err)
{
    float x[BLOCK];
    struct steno_audio_info info;
    size_t n = 1;
    steno_status st = STENO_OK;
    steno_audio_get_info(a, &info);
    fprintf(stderr, "%d %u %s %s\n", info.sample_rate, info.channels, info.format, info.codec);
    while (!st && n) {
        st = steno_audio_read(a, x, BLOCK, &n, err);
        if (!st)
            st = put(x, n, err);
    }
    return st;
}

static steno_status by_descriptor(int fd, steno_err *err)
{
    steno_audio *a = NULL;
    steno_status st = fd < 0 ? steno_fail(err, STENO_ERR_IO, "no such file")
                             : steno_audio_open_fd(&a, fd, NULL, err);
    if (!st)
        st = read_all(a, err);
    steno_audio_close(a);
    return st;
}

static steno_status by_upload(const char *data, size_t n, steno_err *err)
{
    steno_audio *a = NULL;
    steno_status st = steno_audio_open_mem(&a, data, n, NULL, err);
    if (!st)
        st = read_all(a, err);
    steno_audio_close(a);
    return st;
}

static void wait_for(const steno_feed *f)
{
    struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLOUT}};
    steno_feed_descriptors(f, &p[0].fd, &p[1].fd);
    (void)!poll(p, 2, 60000);
}

/* The encoding that the server takes a stream for, by its first bytes. */
static const char *encoding_of(const char *data, size_t n)
{
    enum steno_audio_kind k = steno_audio_sniff((const unsigned char *)data, n);
    return k == STENO_AUDIO_WAV ? "wav" : k == STENO_AUDIO_OPUS ? "ogg-opus" : "container";
}

static steno_status by_stream(const char *data, size_t n, int rate, steno_err *err)
{
    const struct steno_audio_container *is =
        steno_audio_container_of((const unsigned char *)data, n, true);
    const char *encoding = encoding_of(data, n);
    const struct steno_container_options c = {.demuxer = is ? is->demuxer : NULL};
    const struct steno_feed_options o = {.encoding = encoding,
                                         .sample_rate = strcmp(encoding, "wav") ? rate : 0};
    float x[BLOCK];
    bool ended = false, truncated;
    steno_feed *f = NULL;
    steno_status st = strcmp(encoding, "container") ? steno_feed_open(&f, &o, err)
                                                    : steno_feed_open_container(&f, &c, 0, err);
    for (size_t at = 0; !st && (at < n || steno_feed_decodes(f));) {
        size_t k = n - at < PIECE ? n - at : PIECE, used = 0, made = 0;
        st = steno_feed_push(f, data + at, k, &used, x, BLOCK, &made, err);
        if (st == STENO_NEED_MORE)
            st = STENO_OK;
        at += used;
        if (!st)
            st = put(x, made, err);
        if (!st && at == n && !ended) {
            ended = true;
            st = steno_feed_end(f, &truncated, err);
        }
        if (!st && !used && !made && steno_feed_decodes(f))
            wait_for(f);
    }
    if (!st)
        fprintf(stderr, "%d\n", steno_feed_rate(f));
    steno_feed_close(f);
    return st;
}

int main(int argc, char **argv)
{
    const char *way = argc == 3 || argc == 4 ? argv[1] : "";
    char *data = NULL;
    size_t n = 0;
    steno_err err = {0};
    steno_status st;
    signal(SIGPIPE, SIG_IGN);
    if (!strcmp(way, "file") || !strcmp(way, "pipe")) {
        int fd = !strcmp(way, "pipe") ? STDIN_FILENO : open(argv[2], O_RDONLY | O_CLOEXEC);
        st = by_descriptor(fd, &err);
    } else if (!strcmp(way, "upload") || !strcmp(way, "live")) {
        st = steno_file_read(argv[2], (size_t)1 << 30, &data, &n, &err);
        if (!st)
            st = *way == 'u'
                     ? by_upload(data, n, &err)
                     : by_stream(data, n, argc == 4 ? (int)strtol(argv[3], NULL, 10) : 0, &err);
    } else {
        fputs("usage: ways file|pipe|upload|live FILE [RATE]\n", stderr);
        return 64;
    }
    free(data);
    if (st)
        fprintf(stderr, "%s\n", err.msg);
    return st || fflush(stdout) ? 1 : 0;
}
