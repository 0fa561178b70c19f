/* What the ways of diarizing have in common: rules, samples at the networks' rate, numbers of
 * speakers. */
#include "speech/speakers/diarize_method.h"

#include <stdlib.h>
#include <string.h>

#include "speech/speakers/cluster.h"

#define MAX_SPEAKERS 1000

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status check_diarize(const struct steno_speaker_options *o, steno_err *err)
{
    const int most = o->max_speakers ? o->max_speakers : MAX_SPEAKERS;
    if (o->speakers < 0 || o->speakers > MAX_SPEAKERS || o->min_speakers < 0 ||
        o->min_speakers > MAX_SPEAKERS || o->max_speakers < 0 || o->max_speakers > MAX_SPEAKERS)
        return steno_fail(err, STENO_ERR_INVAL,
                          "speakers: a number of speakers is not within 1..%d", MAX_SPEAKERS);
    if (o->min_speakers > most)
        return steno_fail(err, STENO_ERR_INVAL, "speakers: at least %d and at most %d",
                          o->min_speakers, most);
    if (!(o->threshold >= 0 && o->threshold <= 2))
        return steno_fail(err, STENO_ERR_INVAL, "speakers: threshold %g is not within 0..2",
                          o->threshold);
    return STENO_OK;
}

steno_status steno_diarization_open(steno_diarization **out, const steno_speakers *speakers,
                                    int sample_rate, const struct steno_speaker_options *opt,
                                    steno_err *err)
{
    const struct steno_speaker_options none = {0};
    const struct steno_diarization_method *m =
        speakers->sortformer.net ? &steno_diarization_sortformer : &steno_diarization_windows;
    steno_diarization *d = calloc(1, m->size);
    steno_status st;
    if (!d)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    d->method = m;
    d->speakers = speakers;
    d->rate = sample_rate ? sample_rate : speakers->rate;
    d->opt = opt ? *opt : none;
    st = check_diarize(&d->opt, err);
    if (!st)
        st = steno_resampler_open(&d->resampler, d->rate, speakers->rate, err);
    if (!st)
        st = m->open(d, err);
    if (st) {
        steno_diarization_close(d);
        return st;
    }
    *out = d;
    return STENO_OK;
}

void steno_diarization_close(steno_diarization *d)
{
    if (!d)
        return;
    d->method->close(d);
    steno_resampler_close(d->resampler);
    free(d->turns);
    free(d->exclusive);
    free(d->number);
    free(d);
}

/* ---- samples --------------------------------------------------------------------------------- */

static steno_status take_samples_diarize(void *ctx, const float *x, size_t n, steno_err *err)
{
    steno_diarization *d = ctx;
    d->samples += (int64_t)n;
    return d->method->take(d, x, n, err);
}

steno_status steno_diarization_push(steno_diarization *d, const float *pcm, size_t n,
                                    steno_err *err)
{
    if (d->ended)
        return steno_fail(err, STENO_ERR_INVAL, "speakers: the recording has ended");
    d->pushed += (int64_t)n;
    return n ? steno_resampler_pass(d->resampler, pcm, n, take_samples_diarize, d, err) : STENO_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* number: of each cluster, -1 = not yet met; next: the first that is free. */
static void number_turns(struct steno_turn *turn, size_t n, int *number, int *next)
{
    for (size_t i = 0; i < n; i++) {
        int *to = &number[turn[i].speaker];
        if (*to < 0)
            *to = (*next)++;
        turn[i].speaker = *to;
    }
}

/* Number speakers by their first turn. */
static steno_status renumber(steno_diarization *d, steno_err *err)
{
    const size_t n = d->found > 0 ? (size_t)d->found : 1;
    int *number = malloc(n * sizeof *number), next = 0;
    d->number = number;
    d->clusters = n;
    if (!number)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    for (size_t k = 0; k < n; k++)
        number[k] = -1;
    number_turns(d->turns, d->n_turns, number, &next);
    number_turns(d->exclusive, d->n_exclusive, number, &next);
    d->found = next;
    return STENO_OK;
}

steno_status steno_diarization_end(steno_diarization *d, steno_err *err)
{
    steno_status st;
    if (d->ended)
        return STENO_OK;
    st = steno_resampler_pass(d->resampler, NULL, 0, take_samples_diarize, d, err);
    if (!st)
        st = d->method->end(d, err);
    if (!st)
        st = d->method->find(d, err);
    if (!st && d->found)
        st = renumber(d, err);
    d->ended = !st;
    return st;
}

const struct steno_turn *steno_diarization_turns(const steno_diarization *d, size_t *n)
{
    *n = d->n_turns;
    return d->turns;
}

const struct steno_turn *steno_diarization_exclusive(const steno_diarization *d, size_t *n)
{
    *n = d->n_exclusive;
    return d->exclusive;
}

int steno_diarization_speakers(const steno_diarization *d)
{
    return d->found;
}

float steno_diarization_voice(const steno_diarization *d, int speaker, float *out)
{
    const size_t dim = d->speakers->embedding.dim;
    float seconds = 0;
    memset(out, 0, dim * sizeof *out);
    for (size_t c = 0; c < d->clusters; c++)
        if (d->number[c] == speaker)
            seconds = d->method->voice(d, (int)c, out);
    steno_cluster_unit(out, 1, dim);
    return seconds;
}

double steno_diarization_seconds(const steno_diarization *d)
{
    return (double)d->pushed / d->rate;
}
