#include "loadtest/support/recording.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/audio/wav.h"
#include "base/buf.h"

#define MAX_BYTES ((size_t)1 << 30)
#define FLOATS 16384

static steno_status keep(struct steno_buf *out, float *pcm, size_t frames, unsigned channels)
{
    int16_t s;
    steno_status st = steno_buf_reserve(out, frames * sizeof s);
    steno_pcm_mix(pcm, frames, channels, 0, pcm);
    for (size_t i = 0; !st && i < frames; i++) {
        long v = lrintf(pcm[i] * 32768.0F);
        s = (int16_t)(v > 32767 ? 32767 : v < -32768 ? -32768 : v);
        st = steno_buf_add(out, &s, sizeof s);
    }
    return st;
}

static steno_status decode(steno_wav *w, const char *p, size_t n, struct steno_buf *out,
                           steno_err *err)
{
    float pcm[FLOATS];
    while (n) {
        size_t used = 0, frames = 0;
        steno_status st = steno_wav_push(w, p, n, &used, pcm, FLOATS, &frames, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        if (frames && keep(out, pcm, frames, steno_wav_info(w)->channels))
            return steno_fail(err, STENO_ERR_LIMIT, "too long");
        p += used;
        n -= used;
    }
    return STENO_OK;
}

steno_status recording_read(struct recording *r, const char *path, steno_err *err)
{
    struct steno_buf out;
    char buf[65536];
    steno_wav *w = steno_wav_new();
    FILE *f = fopen(path, "rb");
    steno_status st = STENO_OK;
    bool truncated;
    size_t n;
    steno_buf_init(&out, MAX_BYTES);
    if (!w || !f)
        st = steno_fail(err, STENO_ERR_IO, "%s", strerror(errno));
    while (!st && (n = fread(buf, 1, sizeof buf, f)) > 0)
        st = decode(w, buf, n, &out, err);
    if (!st)
        st = steno_wav_end(w, &truncated, err);
    if (st) {
        steno_fail_in(err, st, "%s", path);
        steno_buf_free(&out);
    } else {
        r->rate = steno_wav_info(w)->sample_rate;
        r->n = out.len / sizeof *r->pcm;
        r->pcm = (int16_t *)(void *)steno_buf_take(&out, NULL);
    }
    if (f)
        fclose(f);
    steno_wav_free(w);
    return st;
}

void recording_free(struct recording *r)
{
    free(r->pcm);
    r->pcm = NULL;
}
