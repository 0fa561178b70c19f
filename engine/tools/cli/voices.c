#include "tools/cli/voices.h"

#include "tools/cli/recordings.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define BLOCK 8000 /* samples at a time */

int cli_voices_open(steno_speakers **out, const char *dir, const struct cli_voice_options *o)
{
    char *found = NULL;
    steno_err err = {0};
    steno_status st;
    int rc = EX_OK;
    *out = NULL;
    if (o->speakers && (o->min || o->max))
        return cli_usage("--speakers excludes --min and --max");
    if (cli_given("--threshold") && !(o->threshold > 0))
        return cli_usage("--threshold: it has to be above 0");
    st = steno_speakers_find(&found, dir, &err);
    if (!st)
        rc = cli_readable(found);
    if (!st && rc == EX_OK)
        st = steno_speakers_open(out, found, (int)o->threads, &err);
    if (!st && rc == EX_OK && o->latency > 0)
        st = steno_speakers_set_latency(*out, o->latency, &err);
    steno_free(found);
    if (st) {
        steno_speakers_close(*out);
        *out = NULL;
    }
    return st ? cli_fail(&err) : rc;
}

static steno_status push_voices(void *diarization, const float *pcm, size_t n, steno_err *err)
{
    return steno_diarization_push(diarization, pcm, n, err);
}

static steno_status listen_to_voices(steno_diarization *d, steno_recording *r, steno_err *err)
{
    const steno_status st = recordings_push_into(r, push_voices, d, err);
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
        st = listen_to_voices(d, r, err);
    steno_recording_close(r);
    if (st) {
        steno_diarization_close(d);
        return steno_fail_in(err, st, "%s", path);
    }
    *out = d;
    return STENO_OK;
}

/* ---- live ------------------------------------------------------------------------------------ */

#define STEP 0.01 /* s: where the speaker is asked for */

struct heard {
    steno_live_networks *networks;
    steno_live_speakers *live;
    struct cli_live_turns told;
    size_t cap;
    size_t steps; /* asked for so far */
    int64_t samples;
};

static steno_status add_turn(struct heard *h, double start, int speaker, steno_err *err)
{
    struct cli_live_turns *t = &h->told;
    if (t->n == h->cap) {
        const size_t cap = h->cap ? 2 * h->cap : 64;
        struct steno_turn *turn = realloc(t->turn, cap * sizeof *turn);
        if (!turn)
            return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
        t->turn = turn;
        h->cap = cap;
    }
    t->turn[t->n++] = (struct steno_turn){.start = start, .speaker = speaker};
    t->speakers = speaker >= t->speakers ? speaker + 1 : t->speakers;
    return STENO_OK;
}

/* Ask for the speakers that are known since the last time. */
static steno_status ask(struct heard *h, steno_err *err)
{
    const double known = steno_live_speakers_known(h->live);
    struct cli_live_turns *t = &h->told;
    steno_status st = STENO_OK;
    for (; !st && ((double)h->steps + 0.5) * STEP < known; h->steps++) {
        const double start = (double)h->steps * STEP;
        const int speaker = steno_live_speakers_at(h->live, start + STEP / 2, 0);
        const struct steno_turn *last = t->n ? &t->turn[t->n - 1] : NULL;
        const bool goes_on = last && last->end >= start - STEP / 2 && last->speaker == speaker;
        if (speaker < 0)
            continue;
        if (!goes_on)
            st = add_turn(h, start, speaker, err);
        if (!st)
            t->turn[t->n - 1].end = start + STEP;
    }
    return st;
}

static steno_status hear(struct heard *h, steno_recording *r, steno_err *err)
{
    float pcm[BLOCK];
    size_t n = 1;
    steno_status st = STENO_OK;
    while (!st && n) {
        st = steno_recording_read(r, pcm, BLOCK, &n, err);
        h->samples += (int64_t)n;
        if (!st)
            st = n ? steno_live_speakers_push(h->live, h->networks, pcm, n, err)
                   : steno_live_speakers_end(h->live, h->networks, err);
        if (!st)
            st = ask(h, err);
    }
    return st;
}

steno_status cli_voices_live(struct cli_live_turns *out, const steno_speakers *s, const char *path,
                             int channel, int most, const float *prints, size_t n, steno_err *err)
{
    struct steno_recording_info info;
    struct heard h = {0};
    steno_recording *r = NULL;
    steno_status st = steno_recording_open(&r, path, channel, err);
    if (st)
        return st; /* names the path */
    steno_recording_get_info(r, &info);
    st = steno_live_networks_open(&h.networks, s, err);
    if (!st)
        st = steno_live_speakers_open(&h.live, s, info.sample_rate, most, err);
    if (!st) {
        steno_live_speakers_know(h.live, prints, n);
        st = hear(&h, r, err);
    }
    for (int k = 0; !st && k < STENO_LIVE_SPEAKERS; k++)
        h.told.person[k] = steno_live_speakers_person(h.live, k);
    steno_live_speakers_close(h.live);
    steno_live_networks_close(h.networks);
    steno_recording_close(r);
    if (st) {
        free(h.told.turn);
        return steno_fail_in(err, st, "%s", path);
    }
    h.told.seconds = (double)h.samples / info.sample_rate;
    *out = h.told;
    return STENO_OK;
}
