/* Recordings for users of the library: audio/file.h by path, with the options that they need. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/audio/file.h"
#include "base/status.h"
#include "steno.h"

struct steno_recording {
    steno_audio *audio;
    int fd; /* -1: the recording lies in memory */
};

static steno_status start(steno_recording **out, steno_err *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    (*out)->fd = -1;
    return STENO_OK;
}

static steno_status check_channel(int channel, steno_err *err)
{
    if (channel < 0)
        return steno_fail(err, STENO_ERR_INVAL, "channel: %d is less than 0", channel);
    return STENO_OK;
}

steno_status steno_recording_open(steno_recording **out, const char *path, int channel,
                                  steno_err *err)
{
    struct steno_audio_options opt = {.channel = (unsigned)channel};
    steno_recording *r = NULL;
    steno_status st = check_channel(channel, err);
    if (!st)
        st = start(&r, err);
    if (st)
        return st;
    r->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0) {
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
        goto fail;
    }
    st = steno_audio_open_fd(&r->audio, r->fd, &opt, err);
    if (st) {
        st = steno_fail_in(err, st, "%s", path);
        goto fail;
    }
    *out = r;
    return STENO_OK;
fail:
    steno_recording_close(r);
    return st;
}

steno_status steno_recording_open_memory(steno_recording **out, const void *data, size_t n,
                                         int channel, steno_err *err)
{
    struct steno_audio_options opt = {.channel = (unsigned)channel};
    steno_recording *r = NULL;
    steno_status st = check_channel(channel, err);
    if (!st)
        st = start(&r, err);
    if (!st)
        st = steno_audio_open_mem(&r->audio, data, n, &opt, err);
    if (st)
        steno_recording_close(r);
    else
        *out = r;
    return st;
}

void steno_recording_close(steno_recording *r)
{
    if (!r)
        return;
    steno_audio_close(r->audio);
    if (r->fd >= 0)
        close(r->fd);
    free(r);
}

void steno_recording_get_info(const steno_recording *r, struct steno_recording_info *info)
{
    struct steno_audio_info a;
    steno_audio_get_info(r->audio, &a);
    info->sample_rate = a.sample_rate;
    info->channels = (int)a.channels;
    info->frames = a.frames;
    info->format = a.format;
    info->codec = a.codec;
    info->truncated = a.truncated;
}

steno_status steno_recording_read(steno_recording *r, float *mono, size_t max, size_t *n,
                                  steno_err *err)
{
    return steno_audio_read(r->audio, mono, max, n, err);
}
