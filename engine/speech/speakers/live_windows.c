/* A window of audio ends at every hop, and the segmentation network says who talks in each of its
 * frames; the first windows begin before the first sample. Each window labels one hop of its
 * frames, its cell. The cell ends some time before the window, so that the window contains what
 * follows. What one speaker says alone in a cell is embedded once; his vector in a window is the
 * sum over the cells in it. After each window all vectors are clustered anew, as those of a
 * recording are. A cluster keeps the label that most of its seconds were told with, or gets a new
 * one. A label whose speech falls into the cluster of an earlier label is merged into that one.
 * Memory does not grow: old vectors are averaged in pairs, labels are kept for some minutes. All
 * depends on positions in the audio, not on how it was divided. */
#include "speech/speakers/live_method.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/speakers/pieces.h"

#define NOBODY STENO_LIVE_NOBODY
#define KEPT STENO_LIVE_KEPT /* 276 s */
#define SILENT 1e-4f         /* a cell whose samples are all smaller has no speech */

const struct steno_live_rules steno_live_own = {
    .hop = 2.5,
    .delay = 2.5,
    .labels = {.threshold = 0.5, .apart = 0.6, .first = 1, .merge_after = 8}};

struct live_windows {
    steno_live_speakers base;
    size_t hop;                /* samples, a multiple of the frames' shift */
    size_t cell;               /* frames of a hop */
    size_t first;              /* frame of a window at which its cell begins */
    float *window;             /* [segmentation.window] that ends with the next hop */
    size_t missing;            /* samples of it that are to come */
    float *clean;              /* [hop] */
    uint8_t *sets;             /* [frames] */
    uint8_t *mask;             /* [cell] */
    float *vector;             /* [dim] */
    struct steno_blocks fixed; /* memory of these arrays */
    size_t windows;            /* done */
    uint32_t takes;            /* of items: windows and flushes */
    struct steno_pieces pieces;
    struct steno_stable labels;
};

static struct live_windows *live_windows_of(steno_live_speakers *l)
{
    return (struct live_windows *)l;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Frames of a window that take part: a whole number of shifts before its end. */
static size_t lead(const struct steno_segmentation *g)
{
    return g->window / g->shift * g->shift;
}

static steno_status open_live_windows(steno_live_speakers *base, steno_err *err)
{
    struct live_windows *l = live_windows_of(base);
    const struct steno_segmentation *g = &base->speakers->segmentation;
    const size_t dim = base->speakers->embedding.dim;
    const size_t delay = (size_t)(base->rules.delay * g->rate) / g->shift;
    l->cell = (size_t)(base->rules.hop * g->rate) / g->shift;
    if (!l->cell || l->cell + delay > g->frames || l->cell * g->shift > lead(g))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "speakers: a window of the network is shorter than %g s",
                          base->rules.hop);
    l->hop = l->cell * g->shift;
    l->first = g->frames - l->cell - delay;
    l->missing = l->hop + g->window - lead(g);
    l->pieces = (struct steno_pieces){.dim = dim, .frames = l->cell};
    l->window = steno_blocks_add(&l->fixed, g->window, sizeof *l->window);
    l->clean = steno_blocks_add(&l->fixed, l->hop, sizeof *l->clean);
    l->sets = steno_blocks_add(&l->fixed, g->frames, 1);
    l->mask = steno_blocks_add(&l->fixed, l->cell, 1);
    l->vector = steno_blocks_add(&l->fixed, dim, sizeof *l->vector);
    if (l->fixed.failed)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    base->rules.labels.share = (double)l->hop / (double)g->window;
    base->rules.labels.max_speakers = base->max_speakers;
    base->shift = g->shift;
    base->field = g->field;
    /* the first labelled frame is before the first of the audio: windows end some frames after
     * their cell */
    base->behind = (int64_t)(lead(g) / g->shift) - (int64_t)(l->first + l->cell);
    base->stable = &l->labels;
    return steno_stable_init(&l->labels, dim, &base->rules.labels, err);
}

static void close_live_windows(steno_live_speakers *base)
{
    struct live_windows *l = live_windows_of(base);
    steno_pieces_free(&l->pieces);
    steno_blocks_free(&l->fixed);
    steno_stable_free(&l->labels);
}

/* ---- a window -------------------------------------------------------------------------------- */

/* Frames of a window that are labelled anew: [l->first, l->first + frames), in so many cells. */
struct fresh {
    size_t frames, cells;
};

/* Mark in l->mask where speaker s alone talks, in the cell that begins at frame `first` of the
 * window. Returns the number of frames. */
static size_t mask_of(struct live_windows *l, int s, size_t first)
{
    const size_t left = l->base.speakers->segmentation.frames - first;
    memset(l->mask, 0, l->cell);
    return steno_powerset_alone(l->sets + first, left < l->cell ? left : l->cell, s, l->mask);
}

/* Embed what speaker s says alone in a fresh cell, unless a flush has. */
static steno_status embed(struct live_windows *l, steno_live_networks *w, int s, size_t cell,
                          steno_err *err)
{
    const struct steno_segmentation *g = &l->base.speakers->segmentation;
    const size_t first = l->first + cell * l->cell, id = l->windows + 1 + cell;
    steno_status st;
    size_t n;
    if (mask_of(l, s, first) < STENO_PIECE_FRAMES || steno_pieces_find(&l->pieces, id, l->mask))
        return STENO_OK;
    n = steno_segmentation_samples(g, l->window, g->window, l->mask, l->cell, first, l->clean);
    st = steno_embedder_run(w->embedder, l->clean, n, l->vector, err);
    if (!st)
        st = steno_pieces_add(&l->pieces, id, l->mask, l->vector, err);
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

/* Make an item of speaker s of the window, of his pieces in its cells, if there are any. */
static void add_item(struct live_windows *l, const struct fresh *f, struct steno_stable_voice *v,
                     int s)
{
    const size_t newest = l->first + (f->cells - 1) * l->cell, id = l->windows + f->cells;
    const struct steno_segmentation *g = &l->base.speakers->segmentation;
    struct steno_group_items *t = &l->labels.items;
    float *sum = t->vector + t->n * t->dim;
    memset(sum, 0, t->dim * sizeof *sum);
    for (size_t back = 0; back * l->cell <= newest && back <= id; back++) {
        const size_t talks = mask_of(l, s, newest - back * l->cell);
        const float *x =
            talks < STENO_PIECE_FRAMES ? NULL : steno_pieces_find(&l->pieces, id - back, l->mask);
        for (size_t k = 0; x && k < t->dim; k++)
            sum[k] += x[k] * (float)talks;
        v->seconds += x ? (double)(talks * g->shift) / g->rate : 0;
    }
    if (v->seconds > 0)
        t->item[t->n++] = (struct steno_group_item){
            .window = l->takes, .seconds = (float)v->seconds, .speaker = (uint8_t)s};
}

/* Count in which frames speaker s of the window talks. */
static void count_frames(const struct live_windows *l, const struct fresh *fresh,
                         struct steno_stable_voice *v, int s)
{
    const int64_t origin = l->base.labelled - (int64_t)l->first; /* of the window's first frame */
    const size_t end =
        (size_t)(steno_live_labelled(&l->base) - origin) < l->base.speakers->segmentation.frames
            ? (size_t)(steno_live_labelled(&l->base) - origin)
            : l->base.speakers->segmentation.frames;
    *v = (struct steno_stable_voice){.label = -1};
    for (size_t f = origin < 0 ? (size_t)-origin : 0; f < end; f++) {
        const uint8_t label = l->base.label[(origin + (int64_t)f) % KEPT];
        if (l->sets[f] >> s & 1 && label != NOBODY)
            v->had[steno_stable_resolve(&l->labels, label)]++;
    }
    for (size_t f = l->first; f < l->first + fresh->frames; f++)
        v->fresh += l->sets[f] >> s & 1;
}

/* The label of a frame: of those who talk, the one who talked last. */
static uint8_t label_of(const struct steno_stable_voice *v, int n, uint8_t set, uint8_t last)
{
    uint8_t label = NOBODY;
    for (int s = n; s-- > 0;)
        if (set >> s & 1 && v[s].label >= 0 && (label == NOBODY || label != last))
            label = (uint8_t)v[s].label;
    return label;
}

/* v NULL: nobody talks. What a flush has told stays. */
static void put_labels(struct live_windows *l, const struct fresh *fresh,
                       const struct steno_stable_voice *v)
{
    uint8_t last = NOBODY;
    for (size_t f = 0; f < fresh->frames; f++) {
        const int64_t at = l->base.labelled + (int64_t)f;
        uint8_t label =
            v ? label_of(v, l->base.speakers->segmentation.speakers, l->sets[l->first + f], last)
              : NOBODY;
        label = steno_live_put(&l->base, at, label);
        last = label == NOBODY ? last : label;
    }
}

static bool is_silent(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(x[i] < SILENT && x[i] > -SILENT))
            return false;
    return true;
}

/* Who talks in the window, and with which label. */
static steno_status find_voices(struct live_windows *l, steno_live_networks *w,
                                const struct fresh *f, struct steno_stable_voice *v, steno_err *err)
{
    const struct steno_segmentation *g = &l->base.speakers->segmentation;
    const size_t items = l->labels.items.n;
    steno_status st = steno_segmentation_run(g, w->session, l->window, l->sets, err);
    for (int s = 0; !st && s < g->speakers; s++)
        for (size_t k = 0; !st && k < f->cells; k++)
            st = embed(l, w, s, k, err);
    if (st)
        return st;
    l->takes++;
    for (int s = 0; s < g->speakers; s++) {
        count_frames(l, f, &v[s], s);
        add_item(l, f, &v[s], s);
    }
    st = steno_stable_take(&l->labels, v, items, err);
    for (int s = 0; !st && s < g->speakers; s++)
        if (v[s].label < 0 && v[s].fresh && !(v[s].seconds > 0))
            v[s].label =
                steno_stable_before(&l->labels, &v[s], (const bool[STENO_LIVE_SPEAKERS]){false});
    return st;
}

/* Label `frames` of the window, from l->first on. */
static steno_status take_window(struct live_windows *l, steno_live_networks *w, size_t frames,
                                steno_err *err)
{
    const size_t from = l->first * l->base.speakers->segmentation.shift;
    const struct fresh f = {frames, (frames + l->cell - 1) / l->cell};
    const size_t left = l->base.speakers->segmentation.window - from;
    struct steno_stable_voice v[STENO_POWERSET_SPEAKERS];
    steno_status st = STENO_OK;
    const bool silent =
        is_silent(l->window + from, f.cells * l->hop < left ? f.cells * l->hop : left);
    if (!silent)
        st = find_voices(l, w, &f, v, err);
    if (!st && !silent && l->base.n_prints)
        st = steno_live_find_people(&l->base, err);
    if (!st)
        put_labels(l, &f, silent ? NULL : v);
    return st;
}

/* The window is complete: label a cell, of which so many frames are real, and move on. */
static steno_status next_window(struct live_windows *l, steno_live_networks *w, size_t frames,
                                steno_err *err)
{
    const size_t window = l->base.speakers->segmentation.window;
    const size_t kept = l->base.speakers->segmentation.frames / l->cell;
    const steno_status st = take_window(l, w, frames, err);
    if (!st)
        l->base.labelled += (int64_t)frames;
    l->windows++;
    steno_pieces_forget(&l->pieces, l->windows > kept ? l->windows - kept : 0);
    memmove(l->window, l->window + l->hop, (window - l->hop) * sizeof *l->window);
    l->missing = l->hop;
    return st;
}

/* ---- audio ----------------------------------------------------------------------------------- */

static steno_status take_live_windows(steno_live_speakers *base, steno_live_networks *w,
                                      const float *x, size_t n, steno_err *err)
{
    struct live_windows *l = live_windows_of(base);
    const size_t window = base->speakers->segmentation.window;
    steno_status st = STENO_OK;
    while (n && !st) {
        const size_t k = n < l->missing ? n : l->missing;
        memcpy(l->window + window - l->missing, x, k * sizeof *x);
        l->missing -= k;
        x += k;
        n -= k;
        if (l->missing)
            break;
        st = next_window(l, w, l->cell, err);
    }
    return st;
}

/* Frames of the audio so far. */
static int64_t all_frames(const struct live_windows *l)
{
    return l->base.samples / (int64_t)l->base.speakers->segmentation.shift + l->base.behind;
}

/* Silence stands for what is to come. */
static void fill_window(struct live_windows *l)
{
    memset(l->window + l->base.speakers->segmentation.window - l->missing, 0,
           l->missing * sizeof *l->window);
}

static steno_status flush_live_windows(steno_live_speakers *base, steno_live_networks *w,
                                       steno_err *err)
{
    struct live_windows *l = live_windows_of(base);
    const size_t most = l->base.speakers->segmentation.frames - l->first;
    const int64_t left = all_frames(l) - l->base.labelled;
    const size_t frames = left < (int64_t)most ? (size_t)left : most;
    steno_status st;
    if (left <= 0 || l->base.labelled + (int64_t)frames <= l->base.flushed)
        return STENO_OK;
    fill_window(l);
    st = take_window(l, w, frames, err);
    if (!st)
        l->base.flushed = l->base.labelled + (int64_t)frames;
    return st;
}

static steno_status end_live_windows(steno_live_speakers *base, steno_live_networks *w,
                                     steno_err *err)
{
    struct live_windows *l = live_windows_of(base);
    const int64_t total = all_frames(l);
    steno_status st = STENO_OK;
    while (!st && base->labelled < total) { /* nothing comes after the end */
        const int64_t left = total - base->labelled;
        fill_window(l);
        st = next_window(l, w, left < (int64_t)l->cell ? (size_t)left : l->cell, err);
    }
    return st;
}

static double voice_live_windows(const steno_live_speakers *base, int label, float *out)
{
    return steno_stable_voice(base->stable, label, out);
}

const struct steno_live_method steno_live_by_windows = {.size = sizeof(struct live_windows),
                                                        .open = open_live_windows,
                                                        .close = close_live_windows,
                                                        .take = take_live_windows,
                                                        .flush = flush_live_windows,
                                                        .end = end_live_windows,
                                                        .voice = voice_live_windows};
