#include "tools/cli/voices.h"

#include <stdlib.h>
#include <string.h>
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

static steno_status listen_to_voices(steno_diarization *d, steno_recording *r, steno_err *err)
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
        st = listen_to_voices(d, r, err);
    steno_recording_close(r);
    if (st) {
        steno_diarization_close(d);
        return steno_fail_in(err, st, "%s", path);
    }
    *out = d;
    return STENO_OK;
}

/* ---- known people ---------------------------------------------------------------------------- */

#define KNOWN_SECONDS 60 /* of a recording that are listened to */

static steno_status make_print(const steno_speakers *s, const char *path, float *out,
                               steno_err *err)
{
    struct steno_recording_info info;
    steno_recording *r;
    float *pcm;
    size_t most, have = 0, n = 1;
    steno_status st = steno_recording_open(&r, path, 0, err);
    if (st)
        return st; /* names the path */
    steno_recording_get_info(r, &info);
    most = KNOWN_SECONDS * (size_t)info.sample_rate;
    pcm = malloc(most * sizeof *pcm);
    if (!pcm)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (; !st && n && have < most; have += n)
        st = steno_recording_read(r, pcm + have, most - have, &n, err);
    if (!st)
        st = steno_speaker_print_make(s, info.sample_rate, pcm, have, out, err);
    free(pcm);
    steno_recording_close(r);
    return st ? steno_fail_in(err, st, "%s", path) : STENO_OK;
}

steno_status cli_known_open(struct cli_known *k, const steno_speakers *s, steno_err *err)
{
    const size_t n = (size_t)k->given.n, floats = steno_speaker_print_floats(s);
    steno_status st = STENO_OK;
    k->prints = calloc(n * floats + 1, sizeof *k->prints);
    k->names = calloc(n + 1, sizeof *k->names);
    if (!k->prints || !k->names)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0; !st && i < n; i++) {
        const char *eq = strchr(k->given.v[i], '=');
        if (!eq || eq == k->given.v[i] || !eq[1])
            return steno_fail(err, STENO_ERR_INVAL, "--known: '%.80s' is not NAME=FILE",
                              k->given.v[i]);
        k->names[i] = strndup(k->given.v[i], (size_t)(eq - k->given.v[i]));
        st = k->names[i] ? make_print(s, eq + 1, k->prints + i * floats, err)
                         : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    return st;
}

steno_status cli_known_names(const struct cli_known *k, const steno_speakers *s,
                             const steno_diarization *d, const char ***out, steno_err *err)
{
    const size_t n = (size_t)steno_diarization_speakers(d);
    int *who = malloc((n + 1) * sizeof *who);
    const char **names = calloc(n + 1, sizeof *names);
    steno_status st = who && names ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_diarization_identify(d, s, k->prints, (size_t)k->given.n, 0, who, err);
    for (size_t i = 0; !st && i < n; i++)
        names[i] = who[i] < 0 ? NULL : k->names[who[i]];
    free(who);
    if (st)
        free(names);
    else
        *out = names;
    return st;
}

void cli_known_close(struct cli_known *k)
{
    for (int i = 0; k->names && i < k->given.n; i++)
        free(k->names[i]);
    free(k->names);
    free(k->prints);
    cli_list_free(&k->given);
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
                             int channel, int most, steno_err *err)
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
    if (!st)
        st = hear(&h, r, err);
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
