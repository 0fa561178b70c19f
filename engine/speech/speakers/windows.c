/* A recording comes in pieces. As soon as a window is complete, the segmentation network runs on
 * it, and the embedding network on the clean speech of each of its speakers, the frames in which
 * nobody else talks, unless an earlier window has had it (pieces.h). Only these results stay (a
 * byte for each frame, a vector for each speaker of a window), so an hour of audio takes some
 * megabytes. Clusters and turns are made at the end. */
#include "speech/speakers/diarize_method.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/speakers/cluster.h"
#include "speech/speakers/group.h"
#include "speech/speakers/pieces.h"

#define CLEAN_FRAMES 10      /* fewer give no vector */
#define MAX_WINDOWS 1000000u /* 28 days */
#define HOP 2.5              /* s between windows */
#define THRESHOLD 0.5        /* cosine distance up to which clusters are merged */

struct windows {
    steno_diarization base;
    steno_session *session;
    steno_embedder *embedder;
    size_t hop;
    float *window, *clean; /* [segmentation.window] */
    size_t have;           /* samples in window */
    uint8_t *sets;         /* [cap_windows, frames] */
    size_t windows, cap_windows;
    struct steno_group_items items;
    size_t cap_items, cap_vectors;
    struct steno_pieces pieces; /* of the cells of the window */
    uint8_t *mask;              /* [pieces.frames] */
    float *vector;              /* [items.dim] */
    struct steno_blocks fixed;  /* window, clean, mask, vector */
};

static struct windows *windows_of(steno_diarization *d)
{
    return (struct windows *)d;
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status open_windows(steno_diarization *base, steno_err *err)
{
    struct windows *d = windows_of(base);
    const steno_speakers *speakers = base->speakers;
    const struct steno_segmentation *g = &speakers->segmentation;
    steno_status st;
    d->items.dim = speakers->embedding.dim;
    d->hop = (size_t)(HOP * g->rate);
    if (d->hop > g->window || d->hop / g->shift >= g->frames)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "speakers: a window of the network is shorter than %g s", HOP);
    d->pieces = (struct steno_pieces){.dim = d->items.dim, .frames = d->hop / g->shift + 1};
    d->window = steno_blocks_add(&d->fixed, g->window, sizeof *d->window);
    d->clean = steno_blocks_add(&d->fixed, g->window + g->field, sizeof *d->clean);
    d->mask = steno_blocks_add(&d->fixed, d->pieces.frames, 1);
    d->vector = steno_blocks_add(&d->fixed, d->items.dim, sizeof *d->vector);
    if (d->fixed.failed)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    st = steno_session_open(&d->session, g->net,
                            &(struct steno_session_options){.threads = speakers->threads}, err);
    return st ? st
              : steno_embedder_open(&d->embedder, &speakers->embedding, speakers->threads, err);
}

static void close_windows(steno_diarization *base)
{
    struct windows *d = windows_of(base);
    steno_session_close(d->session);
    steno_embedder_close(d->embedder);
    steno_blocks_free(&d->fixed);
    free(d->sets);
    free(d->items.item);
    free(d->items.vector);
    steno_pieces_free(&d->pieces);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Room for another item. */
static steno_status reserve_items(struct windows *d, steno_err *err)
{
    struct steno_group_items *g = &d->items;
    return STENO_RESERVE(&g->item, &d->cap_items, g->n + 1) ||
                   STENO_RESERVE(&g->vector, &d->cap_vectors, (g->n + 1) * g->dim)
               ? steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory")
               : STENO_OK;
}

/* Copy the samples in which only speaker s of the window talks to d->clean. Returns their number.
 */
static size_t clean_speech(struct windows *d, const uint8_t *sets, int s, size_t samples)
{
    const struct steno_segmentation *g = &d->base.speakers->segmentation;
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
static steno_status add_piece_diarize(struct windows *d, struct voice *v, size_t cell, size_t from,
                                      size_t to, steno_err *err)
{
    const float *known;
    size_t talks;
    memset(d->mask, 0, d->pieces.frames);
    talks = steno_powerset_alone(v->sets + from, to - from, v->s, d->mask);
    if (talks < STENO_PIECE_FRAMES)
        return STENO_OK;
    known = steno_pieces_find(&d->pieces, cell, d->mask);
    if (!known) {
        const size_t n = steno_segmentation_samples(&d->base.speakers->segmentation, d->window,
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
static steno_status sum_pieces(struct windows *d, struct voice *v, steno_err *err)
{
    const struct steno_segmentation *g = &d->base.speakers->segmentation;
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

/* Frames [from, to) in which the speaker talks alone. */
static size_t alone_frames(const uint8_t *sets, int s, size_t from, size_t to)
{
    size_t frames = 0;
    for (size_t f = from; f < to; f++)
        frames += sets[f] == 1u << s;
    return frames;
}

static float frame_seconds(const struct steno_segmentation *g, size_t frames)
{
    return (float)((double)(frames * g->shift) / g->rate);
}

/* The first frame of the current window that no earlier one has. */
static size_t first_new_frame(const struct windows *d)
{
    const struct steno_segmentation *g = &d->base.speakers->segmentation;
    return d->windows ? g->frames - (steno_turns_first_frame(d->hop, g->shift, d->windows) -
                                     steno_turns_first_frame(d->hop, g->shift, d->windows - 1))
                      : 0;
}

static steno_status add_speaker(struct windows *d, const uint8_t *sets, int s, size_t samples,
                                steno_err *err)
{
    const struct steno_segmentation *net = &d->base.speakers->segmentation;
    struct steno_group_items *g = &d->items;
    const size_t frames = alone_frames(sets, s, 0, net->frames);
    steno_status st;
    float *out;
    if (frames < CLEAN_FRAMES)
        return STENO_OK;
    if (reserve_items(d, err))
        return STENO_ERR_NOMEM;
    out = g->vector + g->n * g->dim;
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
        .seconds = frame_seconds(net, frames),
        .new_seconds = frame_seconds(net, alone_frames(sets, s, first_new_frame(d), net->frames))};
    return STENO_OK;
}

/* Take the window that is complete, or the last one, of which only `samples` are real. */
static steno_status take_window(struct windows *d, size_t samples, steno_err *err)
{
    const struct steno_segmentation *g = &d->base.speakers->segmentation;
    steno_status st = STENO_OK;
    uint8_t *sets;
    if (d->windows >= MAX_WINDOWS)
        return steno_fail(err, STENO_ERR_LIMIT, "speakers: the recording is too long");
    if (steno_array_reserve(&d->sets, &d->cap_windows, d->windows + 1, g->frames))
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

static steno_status take_samples_windows(steno_diarization *base, const float *x, size_t n,
                                         steno_err *err)
{
    struct windows *d = windows_of(base);
    const size_t window = base->speakers->segmentation.window;
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

/* ---- the end --------------------------------------------------------------------------------- */

/* Samples after the last whole window, or a recording that has none. */
static steno_status end_windows(steno_diarization *base, steno_err *err)
{
    struct windows *d = windows_of(base);
    const size_t window = base->speakers->segmentation.window;
    if (!d->have || d->have == window)
        return STENO_OK;
    memset(d->window + d->have, 0, (window - d->have) * sizeof *d->window);
    return take_window(d, d->have, err);
}

/* The cluster of each speaker of each window. */
static steno_status find_clusters(struct windows *d, int32_t *cluster, steno_err *err)
{
    const struct steno_segmentation *g = &d->base.speakers->segmentation;
    const double threshold = d->base.opt.threshold;
    const struct steno_group_rules rules = {.threshold = threshold > 0 ? threshold : THRESHOLD,
                                            .share = (double)d->hop / (double)g->window,
                                            .speakers = d->base.opt.speakers,
                                            .min_speakers = d->base.opt.min_speakers,
                                            .max_speakers = d->base.opt.max_speakers};
    steno_status st;
    const int most = d->base.opt.speakers ? d->base.opt.speakers : d->base.opt.max_speakers;
    if (d->windows == 1 && (!most || d->items.n <= (size_t)most)) {
        /* as it is, without vectors */
        for (int s = 0; s < g->speakers; s++)
            cluster[s] = s;
        d->base.found = g->speakers;
        steno_cluster_unit(d->items.vector, d->items.n, d->items.dim);
        for (size_t i = 0; i < d->items.n; i++)
            d->items.item[i].cluster = d->items.item[i].speaker;
        return STENO_OK;
    }
    for (size_t i = 0; i < d->windows * (size_t)g->speakers; i++)
        cluster[i] = STENO_NO_CLUSTER;
    st = steno_group(&d->items, &rules, &d->base.found, err);
    for (size_t i = 0; !st && i < d->items.n; i++)
        cluster[d->items.item[i].window * (size_t)g->speakers + d->items.item[i].speaker] =
            d->items.item[i].cluster;
    return st;
}

static steno_status make_turns(struct windows *d, const int32_t *cluster, steno_err *err)
{
    const struct steno_segmentation *g = &d->base.speakers->segmentation;
    const struct steno_windows w = {.n = d->windows,
                                    .frames = g->frames,
                                    .speakers = g->speakers,
                                    .sets = d->sets,
                                    .cluster = cluster,
                                    .clusters = d->base.found,
                                    .window = g->window,
                                    .hop = d->hop,
                                    .shift = g->shift,
                                    .field = g->field,
                                    .samples = d->base.samples,
                                    .rate = g->rate};
    const struct steno_turn_rules rules = {.least = 0.2, .closest = 0.2};
    const struct steno_turn_rules alone = {.exclusive = true};
    steno_status st = steno_turns_make(&w, &rules, &d->base.turns, &d->base.n_turns, err);
    if (!st)
        st = steno_turns_make(&w, &alone, &d->base.exclusive, &d->base.n_exclusive, err);
    return st;
}

static steno_status find_windows(steno_diarization *base, steno_err *err)
{
    struct windows *d = windows_of(base);
    const size_t n = (d->windows + 1) * (size_t)base->speakers->segmentation.speakers;
    int32_t *cluster = malloc(n * sizeof *cluster);
    steno_status st = cluster ? find_clusters(d, cluster, err)
                              : steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    if (!st && base->found)
        st = make_turns(d, cluster, err);
    free(cluster);
    return st;
}

static float voice_windows(const steno_diarization *base, int found, float *out)
{
    const struct windows *d = (const struct windows *)base;
    const struct steno_group_items *g = &d->items;
    float seconds = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (g->item[i].cluster != found)
            continue;
        for (size_t k = 0; k < g->dim; k++)
            out[k] += g->vector[i * g->dim + k] * g->item[i].seconds;
        seconds += g->item[i].new_seconds;
    }
    return seconds;
}

const struct steno_diarization_method steno_diarization_windows = {.size = sizeof(struct windows),
                                                                   .open = open_windows,
                                                                   .close = close_windows,
                                                                   .take = take_samples_windows,
                                                                   .end = end_windows,
                                                                   .find = find_windows,
                                                                   .voice = voice_windows};
