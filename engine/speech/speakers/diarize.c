/* A recording comes in pieces. As soon as a window is complete, the segmentation network runs on
 * it, and the embedding network on the clean speech of each of its speakers, the frames in which
 * nobody else talks, unless an earlier window has had it (pieces.h). Only these results stay (a
 * byte for each frame, a vector for each speaker of a window), so an hour of audio takes some
 * megabytes. Clusters and turns are made at the end. */
#include "speech/speakers/diarize.h"

#include <stdlib.h>
#include <string.h>

#include "speech/audio/resample.h"
#include "speech/speakers/cluster.h"
#include "speech/speakers/group.h"
#include "speech/speakers/pieces.h"

#define BLOCK 4096
#define CLEAN_FRAMES 10      /* fewer give no vector */
#define MAX_WINDOWS 1000000u /* 11 days at a hop of 1 s */
#define MAX_SPEAKERS 1000

const struct steno_diarization_rules steno_diarization_own = {
    .hop = 2.5, .threshold = 0.5, .turns = {.least = 0.2, .closest = 0.2}};
const struct steno_diarization_rules steno_diarization_sherpa = {
    .hop = 1, .sherpa = true, .threshold = 0.5, .turns = {.least = 0.3, .closest = 0.5}};

struct steno_diarization {
    const steno_speakers *speakers;
    struct steno_diarization_rules rules;
    struct steno_speaker_options opt;
    steno_resampler *resampler;
    steno_session *session;
    steno_embedder *embedder;
    size_t hop;
    float *window, *clean;   /* [segmentation.window] */
    size_t have;             /* samples in window */
    int64_t samples, pushed; /* of the recording, at the networks' rate and at its own */
    int rate;
    uint8_t *sets; /* [cap_windows, frames] */
    size_t windows, cap_windows;
    struct steno_group_items items;
    size_t cap_items;
    struct steno_pieces pieces; /* of the cells of the window */
    uint8_t *mask;              /* [pieces.frames] */
    float *vector;              /* [items.dim] */
    struct steno_turn *turns, *exclusive;
    size_t n_turns, n_exclusive;
    int found;
    int *number; /* [clusters] the speaker of each; -1: it has no turn */
    size_t clusters;
    bool ended;
};

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

static steno_status set_rules(steno_diarization *d, const struct steno_speaker_options *opt,
                              const struct steno_diarization_rules *rules, steno_err *err)
{
    const struct steno_speaker_options none = {0};
    steno_status st;
    opt = opt ? opt : &none;
    st = check_diarize(opt, err);
    if (st)
        return st;
    d->opt = *opt;
    d->rules = *rules;
    if (opt->threshold > 0)
        d->rules.threshold = opt->threshold;
    return STENO_OK;
}

static steno_status prepare_diarize(steno_diarization *d, int sample_rate, steno_err *err)
{
    const struct steno_segmentation *g = &d->speakers->segmentation;
    steno_status st;
    d->hop = (size_t)(d->rules.hop * g->rate);
    d->rate = sample_rate ? sample_rate : g->rate;
    d->window = malloc(g->window * sizeof *d->window);
    d->clean = malloc((g->window + g->field) * sizeof *d->clean);
    d->pieces = (struct steno_pieces){.dim = d->items.dim, .frames = d->hop / g->shift + 1};
    d->mask = malloc(d->pieces.frames);
    d->vector = malloc(d->items.dim * sizeof *d->vector);
    if (!d->window || !d->clean || !d->mask || !d->vector)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    st = steno_resampler_open(&d->resampler, d->rate, g->rate, err);
    if (!st)
        st = steno_session_open(&d->session, g->net,
                                &(struct steno_session_options){.threads = d->speakers->threads},
                                err);
    return st ? st
              : steno_embedder_open(&d->embedder, &d->speakers->embedding, d->speakers->threads,
                                    err);
}

steno_status steno_diarization_open_rules(steno_diarization **out, const steno_speakers *speakers,
                                          int sample_rate, const struct steno_speaker_options *opt,
                                          const struct steno_diarization_rules *rules,
                                          steno_err *err)
{
    steno_diarization *d;
    steno_status st;
    d = calloc(1, sizeof *d);
    if (!d)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    d->speakers = speakers;
    d->items.dim = speakers->embedding.dim;
    st = set_rules(d, opt, rules, err);
    if (!st)
        st = prepare_diarize(d, sample_rate, err);
    if (st) {
        steno_diarization_close(d);
        return st;
    }
    *out = d;
    return STENO_OK;
}

steno_status steno_diarization_open(steno_diarization **out, const steno_speakers *speakers,
                                    int sample_rate, const struct steno_speaker_options *opt,
                                    steno_err *err)
{
    return steno_diarization_open_rules(out, speakers, sample_rate, opt, &steno_diarization_own,
                                        err);
}

void steno_diarization_close(steno_diarization *d)
{
    if (!d)
        return;
    steno_resampler_close(d->resampler);
    steno_session_close(d->session);
    steno_embedder_close(d->embedder);
    free(d->window);
    free(d->clean);
    free(d->sets);
    free(d->items.item);
    free(d->items.vector);
    steno_pieces_free(&d->pieces);
    free(d->mask);
    free(d->vector);
    free(d->turns);
    free(d->exclusive);
    free(d->number);
    free(d);
}

/* ---- windows --------------------------------------------------------------------------------- */

static size_t larger(size_t cap)
{
    return cap ? 2 * cap : 64;
}

/* Make an array hold n elements of `size` bytes. Returns it, or NULL, and then it is as it was. */
static void *resize(void *array, size_t n, size_t size)
{
    size_t bytes;
    return steno_mul_size(n, size, &bytes) ? realloc(array, bytes) : NULL;
}

static bool more_windows(steno_diarization *d)
{
    const size_t cap = larger(d->cap_windows);
    uint8_t *sets;
    if (d->windows < d->cap_windows)
        return true;
    sets = resize(d->sets, cap, d->speakers->segmentation.frames);
    if (!sets)
        return false;
    d->sets = sets;
    d->cap_windows = cap;
    return true;
}

static bool more_items(steno_diarization *d)
{
    struct steno_group_items *g = &d->items;
    const size_t cap = larger(d->cap_items);
    struct steno_group_item *item;
    float *vector;
    if (g->n < d->cap_items)
        return true;
    item = resize(g->item, cap, sizeof *item);
    if (item)
        g->item = item;
    vector = item ? resize(g->vector, cap, g->dim * sizeof *vector) : NULL;
    if (!vector)
        return false;
    g->vector = vector;
    d->cap_items = cap;
    return true;
}

/* Copy the samples in which only speaker s of the window talks to d->clean. Returns their number.
 */
static size_t clean_speech(steno_diarization *d, const uint8_t *sets, int s, size_t samples)
{
    const struct steno_segmentation *g = &d->speakers->segmentation;
    size_t n = 0;
    for (size_t f = 0, to; f < g->frames; f = to) {
        to = f + 1;
        if (sets[f] != 1u << s)
            continue;
        while (to < g->frames && sets[to] == 1u << s)
            to++;
        /* as sherpa-onnx, a run up to the last frame ends at its begin */
        const size_t last = to < g->frames ? to : g->frames - 1;
        const size_t a = f * g->window / g->frames, end = last * g->window / g->frames;
        const size_t b = end < samples ? end : samples;
        if (a >= b)
            continue;
        memcpy(d->clean + n, d->window + a, (b - a) * sizeof *d->clean);
        n += b - a;
    }
    return n;
}

/* A speaker of the window. */
struct voice {
    const uint8_t *sets; /* [frames] the window's */
    int s;
    size_t samples; /* of the window that are there */
    float *sum;     /* [dim] of the vectors of its pieces, each times the piece's frames */
    size_t frames;  /* of these pieces */
};

/* Add what the speaker says alone in frames [from, to) of the window, a cell. Too short pieces add
 * nothing. */
static steno_status add_piece_diarize(steno_diarization *d, struct voice *v, size_t cell,
                                      size_t from, size_t to, steno_err *err)
{
    const float *known;
    size_t talks;
    memset(d->mask, 0, d->pieces.frames);
    talks = steno_powerset_alone(v->sets + from, to - from, v->s, d->mask);
    if (talks < STENO_PIECE_FRAMES)
        return STENO_OK;
    known = steno_pieces_find(&d->pieces, cell, d->mask);
    if (!known) {
        const size_t n = steno_segmentation_samples(&d->speakers->segmentation, d->window,
                                                    v->samples, d->mask, to - from, from, d->clean);
        steno_status st = steno_embedder_run(d->embedder, d->clean, n, d->vector, err);
        if (!st)
            st = steno_pieces_add(&d->pieces, cell, d->mask, d->vector, err);
        if (st)
            return st == STENO_NEED_MORE ? STENO_OK : st;
        known = d->pieces.vector + (d->pieces.n - 1) * d->pieces.dim;
    }
    for (size_t k = 0; k < d->pieces.dim; k++)
        v->sum[k] += known[k] * (float)talks;
    v->frames += talks;
    return STENO_OK;
}

/* The sum over the speaker's pieces; its length does not matter. STENO_NEED_MORE: all are too
 * short. */
static steno_status sum_pieces(steno_diarization *d, struct voice *v, steno_err *err)
{
    const struct steno_segmentation *g = &d->speakers->segmentation;
    const size_t first = steno_turns_first_frame(d->hop, g->shift, d->windows);
    memset(v->sum, 0, d->pieces.dim * sizeof *v->sum);
    for (size_t cell = d->windows, from = 0; from < g->frames; cell++) {
        size_t to = steno_turns_first_frame(d->hop, g->shift, cell + 1) - first;
        steno_status st;
        to = to < g->frames ? to : g->frames;
        st = add_piece_diarize(d, v, cell, from, to, err);
        if (st)
            return st;
        from = to;
    }
    return v->frames ? STENO_OK : STENO_NEED_MORE;
}

static steno_status add_speaker(steno_diarization *d, const uint8_t *sets, int s, size_t samples,
                                steno_err *err)
{
    struct steno_group_items *g = &d->items;
    size_t frames = 0;
    steno_status st = STENO_NEED_MORE;
    float *out;
    for (size_t f = 0; f < d->speakers->segmentation.frames; f++)
        frames += sets[f] == 1u << s;
    if (frames < CLEAN_FRAMES)
        return STENO_OK;
    if (!more_items(d))
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    out = g->vector + g->n * g->dim;
    if (!d->rules.sherpa)
        st = sum_pieces(d, &(struct voice){sets, s, samples, out, 0}, err);
    if (st == STENO_NEED_MORE) {
        const size_t n = clean_speech(d, sets, s, samples);
        st = steno_embedder_run(d->embedder, d->clean, n, out, err);
    }
    if (st)
        return st == STENO_NEED_MORE ? STENO_OK : st;
    g->item[g->n++] = (struct steno_group_item){
        .window = (uint32_t)d->windows,
        .speaker = (uint8_t)s,
        .seconds = (float)((double)(frames * d->speakers->segmentation.shift) /
                           d->speakers->segmentation.rate)};
    return STENO_OK;
}

/* Take the window that is complete, or the last one, of which only `samples` are real. */
static steno_status take_window(steno_diarization *d, size_t samples, steno_err *err)
{
    const struct steno_segmentation *g = &d->speakers->segmentation;
    steno_status st = STENO_OK;
    uint8_t *sets;
    if (d->windows >= MAX_WINDOWS)
        return steno_fail(err, STENO_ERR_LIMIT, "speakers: the recording is too long");
    if (!more_windows(d))
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    sets = d->sets + d->windows * g->frames;
    st = steno_segmentation_run(g, d->session, d->window, sets, err);
    for (int s = 0; !st && s < g->speakers; s++)
        st = add_speaker(d, sets, s, samples, err);
    if (st)
        return st;
    steno_pieces_forget(&d->pieces, ++d->windows);
    return STENO_OK;
}

static steno_status take_samples_diarize(steno_diarization *d, const float *x, size_t n,
                                         steno_err *err)
{
    const size_t window = d->speakers->segmentation.window;
    d->samples += (int64_t)n;
    while (n) {
        size_t k;
        if (d->have == window) { /* there is more to come: move on */
            memmove(d->window, d->window + d->hop, (window - d->hop) * sizeof *d->window);
            d->have -= d->hop;
        }
        k = n < window - d->have ? n : window - d->have;
        memcpy(d->window + d->have, x, k * sizeof *x);
        d->have += k;
        x += k;
        n -= k;
        if (d->have == window) {
            steno_status st = take_window(d, window, err);
            if (st)
                return st;
        }
    }
    return STENO_OK;
}

steno_status steno_diarization_push(steno_diarization *d, const float *pcm, size_t n,
                                    steno_err *err)
{
    float out[BLOCK];
    size_t used, made;
    if (d->ended)
        return steno_fail(err, STENO_ERR_INVAL, "speakers: the recording has ended");
    d->pushed += (int64_t)n;
    while (n) {
        steno_status st = steno_resampler_push(d->resampler, pcm, n, &used, out, BLOCK, &made, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        st = take_samples_diarize(d, out, made, err);
        if (st)
            return st;
        pcm += used;
        n -= used;
    }
    return STENO_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Samples after the last whole window, or a recording that has none. */
static steno_status flush(steno_diarization *d, steno_err *err)
{
    const size_t window = d->speakers->segmentation.window;
    float out[BLOCK];
    size_t made = 1;
    steno_status st = STENO_OK;
    while (!st && made) {
        st = steno_resampler_flush(d->resampler, out, BLOCK, &made, err);
        if (!st)
            st = take_samples_diarize(d, out, made, err);
    }
    if (st || !d->have || d->have == window)
        return st;
    memset(d->window + d->have, 0, (window - d->have) * sizeof *d->window);
    return take_window(d, d->have, err);
}

/* The cluster of each speaker of each window. */
static steno_status find_clusters(steno_diarization *d, int32_t *cluster, steno_err *err)
{
    const struct steno_segmentation *g = &d->speakers->segmentation;
    const struct steno_group_rules rules = {.sherpa = d->rules.sherpa,
                                            .threshold = d->rules.threshold,
                                            .share = (double)d->hop / (double)g->window,
                                            .speakers = d->opt.speakers,
                                            .min_speakers = d->opt.min_speakers,
                                            .max_speakers = d->opt.max_speakers};
    steno_status st;
    const int most = d->opt.speakers ? d->opt.speakers : d->opt.max_speakers;
    if (d->windows == 1 && (d->rules.sherpa || !most || d->items.n <= (size_t)most)) {
        /* as it is, without vectors */
        for (int s = 0; s < g->speakers; s++)
            cluster[s] = s;
        d->found = g->speakers;
        steno_cluster_unit(d->items.vector, d->items.n, d->items.dim);
        for (size_t i = 0; i < d->items.n; i++)
            d->items.item[i].cluster = d->items.item[i].speaker;
        return STENO_OK;
    }
    for (size_t i = 0; i < d->windows * (size_t)g->speakers; i++)
        cluster[i] = STENO_NO_CLUSTER;
    st = steno_group(&d->items, &rules, &d->found, err);
    for (size_t i = 0; !st && i < d->items.n; i++)
        cluster[d->items.item[i].window * (size_t)g->speakers + d->items.item[i].speaker] =
            d->items.item[i].cluster;
    return st;
}

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
    free(d->number);
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

static steno_status make_turns(steno_diarization *d, const int32_t *cluster, steno_err *err)
{
    const struct steno_segmentation *g = &d->speakers->segmentation;
    const struct steno_windows w = {.n = d->windows,
                                    .frames = g->frames,
                                    .speakers = g->speakers,
                                    .sets = d->sets,
                                    .cluster = cluster,
                                    .clusters = d->found,
                                    .window = g->window,
                                    .hop = d->hop,
                                    .shift = g->shift,
                                    .field = g->field,
                                    .samples = d->samples,
                                    .rate = g->rate};
    const struct steno_turn_rules alone = {.exclusive = true};
    steno_status st = steno_turns_make(&w, &d->rules.turns, &d->turns, &d->n_turns, err);
    if (!st)
        st = steno_turns_make(&w, &alone, &d->exclusive, &d->n_exclusive, err);
    return st ? st : renumber(d, err);
}

static steno_status finish_diarize(steno_diarization *d, steno_err *err)
{
    const size_t n = (d->windows + 1) * (size_t)d->speakers->segmentation.speakers;
    int32_t *cluster = malloc(n * sizeof *cluster);
    steno_status st = cluster ? find_clusters(d, cluster, err)
                              : steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    if (!st && d->found)
        st = make_turns(d, cluster, err);
    free(cluster);
    return st;
}

steno_status steno_diarization_end(steno_diarization *d, steno_err *err)
{
    steno_status st = d->ended ? STENO_OK : flush(d, err);
    if (!st && !d->ended)
        st = finish_diarize(d, err);
    d->ended |= !st;
    return st;
}

steno_status steno_diarization_again(steno_diarization *d, const struct steno_speaker_options *opt,
                                     const struct steno_diarization_rules *rules, steno_err *err)
{
    steno_status st = set_rules(d, opt, rules, err);
    free(d->turns);
    free(d->exclusive);
    d->turns = d->exclusive = NULL;
    d->n_turns = d->n_exclusive = 0;
    return st ? st : finish_diarize(d, err);
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
    const struct steno_group_items *g = &d->items;
    float seconds = 0;
    memset(out, 0, g->dim * sizeof *out);
    for (size_t i = 0; i < g->n && d->number; i++) {
        const int32_t c = g->item[i].cluster;
        if (c < 0 || (size_t)c >= d->clusters || d->number[c] != speaker)
            continue;
        for (size_t k = 0; k < g->dim; k++)
            out[k] += g->vector[i * g->dim + k] * g->item[i].seconds;
        seconds += g->item[i].seconds;
    }
    steno_cluster_unit(out, 1, g->dim);
    return seconds;
}

double steno_diarization_seconds(const steno_diarization *d)
{
    return (double)d->pushed / d->rate;
}
