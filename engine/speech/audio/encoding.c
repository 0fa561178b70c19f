/* Names and ranges of the live encodings (steno_audio.h). */
#include "steno_audio.h"

#include <string.h>

static const struct {
    const char *name;
    int rate;
} encodings[STENO_ENCODING_COUNT] = {
    [STENO_ENCODING_S16LE] = {"s16le", 16000},     [STENO_ENCODING_F32LE] = {"f32le", 16000},
    [STENO_ENCODING_MULAW] = {"mulaw", 8000},      [STENO_ENCODING_ALAW] = {"alaw", 8000},
    [STENO_ENCODING_OPUS] = {"opus", 0},           [STENO_ENCODING_WAV] = {"wav", 0},
    [STENO_ENCODING_CONTAINER] = {"container", 0},
};

const char *steno_encoding_name(enum steno_encoding e)
{
    return (unsigned)e < STENO_ENCODING_COUNT ? encodings[e].name : NULL;
}

/* Other names of "container". */
static const char *const containers[] = {"webm", "matroska", "mp4",   "m4a",    "aac",
                                         "flac", "ogg",      "amr",   "amr-nb", "amr-wb",
                                         "ac3",  "speex",    "mpegts"};

steno_status steno_encoding_parse(const char *name, enum steno_encoding *out, steno_err *err)
{
    for (int i = 0; i < STENO_ENCODING_COUNT; i++)
        if (!strcmp(name, encodings[i].name)) {
            *out = (enum steno_encoding)i;
            return STENO_OK;
        }
    for (size_t i = 0; i < sizeof containers / sizeof *containers; i++)
        if (!strcmp(name, containers[i])) {
            *out = STENO_ENCODING_CONTAINER;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_UNSUPPORTED,
                      "encoding: unknown '%.40s', known are s16le, f32le, mulaw, alaw, opus, wav, "
                      "container (webm, mp4, flac, aac, ...)",
                      name);
}

steno_status steno_audio_format_check(struct steno_audio_format *f, steno_err *err)
{
    int rate = f->sample_rate, channels = f->channels ? f->channels : 1;
    if ((unsigned)f->encoding >= STENO_ENCODING_COUNT)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "encoding: unknown number %d",
                          (int)f->encoding);
    if (!rate)
        rate = encodings[f->encoding].rate;
    else if (rate < STENO_AUDIO_MIN_RATE || rate > STENO_AUDIO_MAX_RATE)
        return steno_fail(err, STENO_ERR_INVAL, "sample_rate: %d is outside %d..%d", rate,
                          STENO_AUDIO_MIN_RATE, STENO_AUDIO_MAX_RATE);
    if (channels < 1 || channels > STENO_AUDIO_MAX_CHANNELS)
        return steno_fail(err, STENO_ERR_INVAL, "channels: %d is outside 1..%d", channels,
                          STENO_AUDIO_MAX_CHANNELS);
    if (f->channel < 0 || (f->channel > channels && f->encoding != STENO_ENCODING_WAV &&
                           f->encoding != STENO_ENCODING_CONTAINER))
        return steno_fail(err, STENO_ERR_INVAL, "channel: %d of audio with %d", f->channel,
                          channels);
    f->sample_rate = rate;
    f->channels = channels;
    return STENO_OK;
}
