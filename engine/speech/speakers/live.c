/* What the ways of telling speakers live have in common: samples at the networks' rate, labels of
 * frames, people. */
#include "speech/speakers/live_method.h"

#include <stdlib.h>
#include <string.h>

#include "speech/speakers/known.h"

#define NEAR 60.0 /* s: the farthest that a label is looked for */

/* ---- the networks ---------------------------------------------------------------------------- */

steno_status steno_live_networks_open(steno_live_networks **out, const steno_speakers *speakers,
                                      steno_err *err)
{
    steno_live_networks *w = calloc(1, sizeof *w);
    steno_status st;
    if (!w)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    st = steno_session_open(&w->session,
                            speakers->sortformer.net ? speakers->sortformer.net
                                                     : speakers->segmentation.net,
                            &(struct steno_session_options){.threads = speakers->threads}, err);
    if (!st && speakers->embedding.net)
        st = steno_embedder_open(&w->embedder, &speakers->embedding, speakers->threads, err);
    if (st) {
        steno_live_networks_close(w);
        return st;
    }
    *out = w;
    return STENO_OK;
}

void steno_live_networks_close(steno_live_networks *w)
{
    if (!w)
        return;
    steno_session_close(w->session);
    steno_embedder_close(w->embedder);
    free(w);
}

/* ---- opening --------------------------------------------------------------------------------- */

steno_status steno_live_speakers_open_rules(steno_live_speakers **out,
                                            const steno_speakers *speakers, int sample_rate,
                                            int max_speakers, const struct steno_live_rules *rules,
                                            steno_err *err)
{
    const struct steno_live_method *m =
        speakers->sortformer.net ? &steno_live_by_sortformer : &steno_live_by_windows;
    steno_live_speakers *l;
    steno_status st;
    if (max_speakers < 0 || max_speakers > STENO_LIVE_SPEAKERS)
        return steno_fail(err, STENO_ERR_INVAL, "max_speakers: not within 1..%d",
                          STENO_LIVE_SPEAKERS);
    l = calloc(1, m->size);
    if (!l)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    l->method = m;
    l->speakers = speakers;
    l->rules = *rules;
    l->max_speakers = max_speakers ? max_speakers : STENO_LIVE_SPEAKERS;
    for (int k = 0; k < STENO_LIVE_SPEAKERS; k++)
        l->person[k] = -1;
    st = m->open(l, err);
    if (!st)
        st = steno_resampler_open(&l->resampler, sample_rate ? sample_rate : speakers->rate,
                                  speakers->rate, err);
    if (st) {
        steno_live_speakers_close(l);
        return st;
    }
    *out = l;
    return STENO_OK;
}

steno_status steno_live_speakers_open(steno_live_speakers **out, const steno_speakers *speakers,
                                      int sample_rate, int max_speakers, steno_err *err)
{
    return steno_live_speakers_open_rules(out, speakers, sample_rate, max_speakers, &steno_live_own,
                                          err);
}

void steno_live_speakers_close(steno_live_speakers *l)
{
    if (!l)
        return;
    l->method->close(l);
    steno_resampler_close(l->resampler);
    free(l);
}

/* ---- labels ---------------------------------------------------------------------------------- */

int steno_live_resolve(const steno_live_speakers *l, int label)
{
    return l->stable ? steno_stable_resolve(l->stable, label) : label;
}

static int count_labels(const steno_live_speakers *l)
{
    return l->stable ? l->stable->n : l->n_labels;
}

int64_t steno_live_labelled(const steno_live_speakers *l)
{
    return l->flushed > l->labelled ? l->flushed : l->labelled;
}

uint8_t steno_live_put(steno_live_speakers *l, int64_t frame, uint8_t label)
{
    uint8_t *to = &l->label[frame % STENO_LIVE_KEPT];
    if (frame >= l->flushed || *to == STENO_LIVE_NOBODY)
        *to = label;
    return *to;
}

/* ---- people ---------------------------------------------------------------------------------- */

/* What merged speakers were known as, the one that stays is. */
static void merge_people(steno_live_speakers *l)
{
    for (int k = 0; k < count_labels(l); k++) {
        const int is = steno_live_resolve(l, k);
        if (is != k && l->person[is] < 0)
            l->person[is] = l->person[k];
    }
}

static bool is_taken(const steno_live_speakers *l, int person)
{
    for (int k = 0; k < count_labels(l); k++)
        if (steno_live_resolve(l, k) == k && l->person[k] == person)
            return true;
    return false;
}

steno_status steno_live_find_people(steno_live_speakers *l, steno_err *err)
{
    const size_t n = (size_t)count_labels(l), dim = l->speakers->embedding.dim;
    double *like = malloc((l->n_prints * n + 1) * sizeof *like);
    float *voice = malloc(dim * sizeof *voice);
    steno_status st =
        like && voice ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    merge_people(l);
    for (int k = 0; !st && k < count_labels(l); k++) {
        const bool open = steno_live_resolve(l, k) == k && l->person[k] < 0 &&
                          l->method->voice(l, k, voice) >= (double)STENO_KNOWN_SECONDS;
        for (size_t i = 0; i < l->n_prints; i++)
            like[i * n + (size_t)k] = open && !is_taken(l, (int)i)
                                          ? steno_known_cosine(voice, l->prints + i * dim, dim)
                                          : -2;
    }
    if (!st)
        steno_known_match(like, l->n_prints, n, STENO_KNOWN_COSINE, l->person);
    free(like);
    free(voice);
    return st;
}

/* ---- audio ----------------------------------------------------------------------------------- */

/* Where samples go that come out of the resampler. */
struct sink {
    steno_live_speakers *l;
    steno_live_networks *w;
};

static steno_status take_samples_live(void *ctx, const float *x, size_t n, steno_err *err)
{
    const struct sink *to = ctx;
    to->l->samples += (int64_t)n;
    return to->l->method->take(to->l, to->w, x, n, err);
}

steno_status steno_live_speakers_push(steno_live_speakers *l, steno_live_networks *w,
                                      const float *pcm, size_t n, steno_err *err)
{
    struct sink to = {l, w};
    if (l->ended)
        return steno_fail(err, STENO_ERR_INVAL, "speakers: the audio has ended");
    return n ? steno_resampler_pass(l->resampler, pcm, n, take_samples_live, &to, err) : STENO_OK;
}

steno_status steno_live_speakers_flush(steno_live_speakers *l, steno_live_networks *w,
                                       steno_err *err)
{
    return l->ended ? STENO_OK : l->method->flush(l, w, err);
}

steno_status steno_live_speakers_end(steno_live_speakers *l, steno_live_networks *w, steno_err *err)
{
    struct sink to = {l, w};
    steno_status st;
    if (l->ended)
        return STENO_OK;
    st = steno_resampler_pass(l->resampler, NULL, 0, take_samples_live, &to, err);
    if (st)
        return st;
    l->ended = true;
    return l->method->end(l, w, err);
}

/* ---- answers --------------------------------------------------------------------------------- */

double steno_live_speakers_known(const steno_live_speakers *l)
{
    const int64_t n = (steno_live_labelled(l) - l->behind) * (int64_t)l->shift;
    return n > 0 ? (double)(n < l->samples ? n : l->samples) / l->speakers->rate : 0;
}

int steno_live_speakers_at(const steno_live_speakers *l, double seconds, double within)
{
    const int64_t near = (int64_t)(within * l->speakers->rate) / (int64_t)l->shift;
    const int64_t least =
        steno_live_labelled(l) > STENO_LIVE_KEPT ? steno_live_labelled(l) - STENO_LIVE_KEPT : 0;
    int64_t at;
    if (!(seconds >= 0 && seconds < steno_live_speakers_known(l) + (l->ended ? within : 0)) ||
        !(within >= 0 && within <= NEAR))
        return -1;
    at = (int64_t)(seconds * l->speakers->rate - (double)l->field / 2) / (int64_t)l->shift +
         l->behind;
    for (int64_t off = 0; off <= near; off++)
        for (int side = -1; side <= 1; side += 2) {
            const int64_t f = at + side * off;
            if (f >= least && f < steno_live_labelled(l) &&
                l->label[f % STENO_LIVE_KEPT] != STENO_LIVE_NOBODY)
                return steno_live_resolve(l, l->label[f % STENO_LIVE_KEPT]);
        }
    return -1;
}

void steno_live_speakers_know(steno_live_speakers *l, const float *prints, size_t n)
{
    l->prints = prints;
    l->n_prints = n;
}

int steno_live_speakers_person(const steno_live_speakers *l, int speaker)
{
    return speaker >= 0 && speaker < count_labels(l) ? l->person[steno_live_resolve(l, speaker)]
                                                     : -1;
}

bool steno_live_speakers_merge(steno_live_speakers *l, struct steno_live_merge *out)
{
    if (!l->stable || l->told == l->stable->n_merges)
        return false;
    *out = l->stable->merges[l->told++];
    return true;
}
