#include "tools/cli/voices.h"

#include <sysexits.h>

#define BLOCK 8000 /* samples at a time */

int cli_voices_open(steno_speakers **out, const char *dir, const struct cli_voice_options *o)
{
    char *found = NULL;
    steno_err err = {0};
    steno_status st = steno_speakers_find(&found, dir, &err);
    if (!st)
        st = steno_speakers_open(out, found, (int)o->threads, &err);
    steno_free(found);
    return st ? cli_fail(&err) : EX_OK;
}

static steno_status listen(steno_diarization *d, steno_recording *r, steno_err *err)
{
    float pcm[BLOCK];
    size_t n = 1;
    steno_status st = STENO_OK;
    while (!st && n) {
        st = steno_recording_read(r, pcm, BLOCK, &n, err);
        if (!st && n)
            st = steno_diarization_push(d, pcm, n, err);
    }
    return st ? st : steno_diarization_end(d, err);
}

steno_status cli_voices_begin(steno_diarization **out, const steno_speakers *s, int sample_rate,
                              const struct cli_voice_options *o, steno_err *err)
{
    const struct steno_speaker_options opt = {.speakers = (int)o->speakers,
                                              .min_speakers = (int)o->min,
                                              .max_speakers = (int)o->max,
                                              .threshold = o->threshold};
    return steno_diarization_open(out, s, sample_rate, &opt, err);
}

steno_status cli_voices_of(steno_diarization **out, const steno_speakers *s, const char *path,
                           int channel, const struct cli_voice_options *o, steno_err *err)
{
    struct steno_recording_info info;
    steno_recording *r = NULL;
    steno_diarization *d = NULL;
    steno_status st = steno_recording_open(&r, path, channel, err);
    if (st)
        return st; /* names the path */
    steno_recording_get_info(r, &info);
    st = cli_voices_begin(&d, s, info.sample_rate, o, err);
    if (!st)
        st = listen(d, r, err);
    steno_recording_close(r);
    if (st) {
        steno_diarization_close(d);
        return steno_fail_in(err, st, "%s", path);
    }
    *out = d;
    return STENO_OK;
}
