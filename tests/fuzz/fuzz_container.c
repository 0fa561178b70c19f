/* The records of steno-decode, as a program that a hostile file took over might write them. Each
 * read gives finite samples of the stated channels, the end or an error, which then stays. */
/* covers: engine/speech/audio/container.c */
#include "speech/audio/container.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/audio/pcm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define PIPE_BYTES 65536 /* of Linux, by default: written before anyone reads */

static void check(const steno_container *c, const float *x, size_t frames)
{
    struct steno_container_info info;
    steno_container_get_info(c, &info);
    if (info.sample_rate < STENO_RATE_MIN || info.sample_rate > STENO_RATE_MAX ||
        info.channels < 1 || info.channels > STENO_CHANNELS_MAX ||
        !memchr(info.format, 0, sizeof info.format) || !memchr(info.codec, 0, sizeof info.codec))
        abort();
    for (size_t i = 0; i < frames * info.channels; i++)
        if (!isfinite(x[i]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_container *c;
    const float *x = NULL;
    size_t frames = 1, again = 1;
    steno_err err = {0}, same = {0};
    steno_status st = STENO_OK;
    int fd[2];
    if (n > PIPE_BYTES || pipe(fd))
        return 0;
    if (n && write(fd[1], data, n) != (ssize_t)n)
        abort();
    close(fd[1]);
    if (steno_container_open_records(&c, fd[0], NULL)) {
        close(fd[0]);
        return 0;
    }
    while (!st && frames) {
        st = steno_container_read(c, n & 1, &x, &frames, &err);
        if (!st && frames)
            check(c, x, frames);
    }
    if (st == STENO_NEED_MORE || steno_container_read(c, false, &x, &again, &same) != st || again ||
        strcmp(err.msg, same.msg) || (st && !*err.msg))
        abort();
    steno_container_close(c);
    return 0;
}
