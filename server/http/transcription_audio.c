/* The recording of a transcription, decoded block by block. */
#include "server/http/transcriber_internal.h"

#include <stdio.h>
#include <string.h>

steno_status steno_transcription_open_audio(steno_transcription *work,
                                            struct steno_audio_info *info, steno_err *err)
{
    const struct steno_server *srv = work->transcriber->srv;
    const struct steno_audio_options opt = {.channel = work->req.multichannel ? work->channel + 1
                                                                              : work->req.channel,
                                            .max_seconds = srv->conf->audio_seconds,
                                            .decoders = srv->decoders,
                                            .raw = work->req.raw,
                                            .dont_wait = true};
    steno_status st = STENO_OK;
    if (!work->audio) {
        st = work->req.audio
                 ? steno_audio_open_mem(&work->audio, work->req.audio, work->req.len, &opt, err)
                 : steno_audio_open_fd(&work->audio, work->req.fd, &opt, err);
        if (!st && steno_audio_descriptor(work->audio) >= 0) {
            work->watch = steno_waker_watch(srv->waker, steno_audio_descriptor(work->audio), -1,
                                            work->wake, work);
            if (!work->watch)
                st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
        }
    }
    if (!st)
        st = steno_audio_ready(work->audio, err);
    if (st)
        return st;
    steno_audio_get_info(work->audio, info);
    snprintf(work->result.format, sizeof work->result.format, "%s/%s", info->format, info->codec);
    if (work->channel && info->channels != work->result.channels) /* damage, differently decoded */
        return steno_fail(err, STENO_ERR_FORMAT, "the recording cannot be decoded twice");
    work->result.channels = info->channels;
    if (work->req.multichannel && info->channels > STENO_TRANSCRIPTION_CHANNELS)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "multichannel: the recording has %u channels, at most %d are possible",
                          info->channels, STENO_TRANSCRIPTION_CHANNELS);
    return STENO_OK;
}

void steno_transcription_close_audio(steno_transcription *work)
{
    steno_waker_forget(work->transcriber->srv->waker, work->watch);
    work->watch = 0;
    steno_audio_close(work->audio);
    work->audio = NULL;
}

size_t steno_transcription_wanted(const steno_transcription *work)
{
    const double left = work->req.seconds * work->rate - (double)(work->decoded - work->before);
    return !(work->req.seconds > 0) || left >= STENO_TRANSCRIPTION_BLOCK ? STENO_TRANSCRIPTION_BLOCK
           : left > 0                                                    ? (size_t)left
                                                                         : 0;
}

steno_status steno_transcription_decode(steno_transcription *work, float *to, size_t max, size_t *n,
                                        steno_err *err)
{
    steno_status st = STENO_OK;
    *n = 0;
    if (max)
        st = steno_audio_read(work->audio, to, max, n, err);
    if (st)
        *n = 0;
    work->decoded += (int64_t)*n;
    return st;
}

void steno_transcription_warn(steno_transcription *work, const char *message)
{
    char *text = work->result.warning;
    const size_t n = strlen(text), room = sizeof work->result.warning - n;
    snprintf(text + n, room, "%s%s", n ? "; " : "", message);
}
