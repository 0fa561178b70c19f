/* A window of audio ends at every hop, and the segmentation network says who talks in each of its
 * frames; the first windows begin before the first sample. Each window labels one hop of its
 * frames, its cell. The cell ends some time before the window, so that the window contains what
 * follows. What one speaker says alone in a cell is embedded once; his vector in a window is the
 * sum over the cells in it. After each window all vectors are clustered anew, as those of a
 * recording are. A cluster keeps the label that most of its seconds were told with, or gets a new
 * one. A label whose speech falls into the cluster of an earlier label is merged into that one.
 * Memory does not grow: old vectors are averaged in pairs, labels are kept for some minutes. All
 * depends on positions in the audio, not on how it was divided. */
#include "speech/speakers/live.h"
#include "speech/speakers/known.h"

#include <stdlib.h>
#include <string.h>

#include "speech/audio/resample.h"
#include "speech/speakers/networks.h"
#include "speech/speakers/pieces.h"

#define BLOCK 4096
#define NOBODY 0xFF
#define KEPT 16384   /* frames whose labels are known: 276 s */
#define SILENT 1e-4f /* a cell whose samples are all smaller has no speech */
#define NEAR 60.0    /* s: the farthest that a label is looked for */

const struct steno_live_rules steno_live_own = {
    .hop = 2.5,
    .delay = 2.5,
    .labels = {.threshold = 0.5, .apart = 0.6, .first = 1, .merge_after = 8}};

struct steno_live_networks {
    steno_session *session;
    steno_embedder *embedder;
};

struct steno_live_speakers {
    const steno_speakers *speakers;
    struct steno_live_rules rules;
    steno_resampler *resampler;
    size_t hop;      /* samples, a multiple of the frames' shift */
    size_t cell;     /* frames of a hop */
    size_t first;    /* frame of a window at which its cell begins */
    int64_t samples; /* at the networks' rate */
    float *window;   /* [segmentation.window] that ends with the next hop */
    size_t missing;  /* samples of it that are to come */
    float *clean;    /* [hop] */
    uint8_t *sets;   /* [frames] */
    uint8_t *mask;   /* [cell] */
    float *vector;   /* [dim] */
    size_t windows;  /* done */
    uint32_t takes;  /* of items: windows and flushes */
    struct steno_pieces pieces;
    struct steno_stable labels;
    uint8_t label[KEPT]; /* of frame f at f % KEPT */
    int64_t labelled;    /* frames that have one, from 0 on */
    int64_t flushed;     /* the same with those of the last flush */
    int told;            /* merges */
    const float *prints; /* [n_prints, dim] of known voices, borrowed */
    size_t n_prints;
    int person[STENO_LIVE_SPEAKERS]; /* which of them a label is; -1: none yet */
    bool ended;
};

/* ---- the networks ---------------------------------------------------------------------------- */

steno_status steno_live_networks_open(steno_live_networks **out, const steno_speakers *speakers,
                                      steno_err *err)
{
    steno_live_networks *w = calloc(1, sizeof *w);
    steno_status st;
    if (!w)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    st = steno_session_open(&w->session, speakers->segmentation.net,
                            &(struct steno_session_options){.threads = speakers->threads}, err);
    if (!st)
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

/* Frames of a window that take part: a whole number of shifts before its end. */
static size_t lead(const struct steno_segmentation *g)
{
    return g->window / g->shift * g->shift;
}

static steno_status prepare_speaker_live(steno_live_speakers *l, int sample_rate, steno_err *err)
{
    const struct steno_segmentation *g = &l->speakers->segmentation;
    const size_t dim = l->speakers->embedding.dim;
    steno_status st;
    l->cell = (size_t)(l->rules.hop * g->rate) / g->shift;
    const size_t delay = (size_t)(l->rules.delay * g->rate) / g->shift;
    if (!l->cell || l->cell + delay > g->frames || l->cell * g->shift > lead(g))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "speakers: a window of the network is shorter than %g s", l->rules.hop);
    l->hop = l->cell * g->shift;
    l->first = g->frames - l->cell - delay;
    l->missing = l->hop + g->window - lead(g);
    l->window = calloc(g->window, sizeof *l->window);
    l->clean = malloc(l->hop * sizeof *l->clean);
    l->sets = malloc(g->frames);
    l->mask = malloc(l->cell);
    l->vector = malloc(dim * sizeof *l->vector);
    l->pieces = (struct steno_pieces){.dim = dim, .frames = l->cell};
    if (!l->window || !l->clean || !l->sets || !l->mask || !l->vector)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    l->rules.labels.share = (double)l->hop / (double)g->window;
    st = steno_stable_init(&l->labels, dim, &l->rules.labels, err);
    if (st)
        return st;
    return steno_resampler_open(&l->resampler, sample_rate ? sample_rate : g->rate, g->rate, err);
}

steno_status steno_live_speakers_open_rules(steno_live_speakers **out,
                                            const steno_speakers *speakers, int sample_rate,
                                            int max_speakers, const struct steno_live_rules *rules,
                                            steno_err *err)
{
    steno_live_speakers *l;
    steno_status st;
    if (max_speakers < 0 || max_speakers > STENO_LIVE_SPEAKERS)
        return steno_fail(err, STENO_ERR_INVAL, "max_speakers: not within 1..%d",
                          STENO_LIVE_SPEAKERS);
    l = calloc(1, sizeof *l);
    if (!l)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    l->speakers = speakers;
    l->rules = *rules;
    for (int k = 0; k < STENO_LIVE_SPEAKERS; k++)
        l->person[k] = -1;
    l->rules.labels.max_speakers = max_speakers ? max_speakers : STENO_LIVE_SPEAKERS;
    st = prepare_speaker_live(l, sample_rate, err);
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
    steno_resampler_close(l->resampler);
    steno_pieces_free(&l->pieces);
    free(l->window);
    free(l->clean);
    free(l->sets);
    free(l->mask);
    free(l->vector);
    steno_stable_free(&l->labels);
    free(l);
}

/* ---- a window -------------------------------------------------------------------------------- */

/* Frames of a window that are labelled anew: [l->first, l->first + frames), in so many cells. */
struct fresh {
    size_t frames, cells;
};

/* Mark in l->mask where speaker s alone talks, in the cell that begins at frame `first` of the
 * window. Returns the number of frames. */
static size_t mask_of(steno_live_speakers *l, int s, size_t first)
{
    const size_t left = l->speakers->segmentation.frames - first;
    memset(l->mask, 0, l->cell);
    return steno_powerset_alone(l->sets + first, left < l->cell ? left : l->cell, s, l->mask);
}

/* Embed what speaker s says alone in a fresh cell, unless a flush has. */
static steno_status embed(steno_live_speakers *l, steno_live_networks *w, int s, size_t cell,
                          steno_err *err)
{
    const struct steno_segmentation *g = &l->speakers->segmentation;
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
static void add_item(steno_live_speakers *l, const struct fresh *f, struct steno_stable_voice *v,
                     int s)
{
    const size_t newest = l->first + (f->cells - 1) * l->cell, id = l->windows + f->cells;
    const struct steno_segmentation *g = &l->speakers->segmentation;
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

/* Frames from 0 on that have a label. */
static int64_t labelled_frames(const steno_live_speakers *l)
{
    return l->flushed > l->labelled ? l->flushed : l->labelled;
}

/* Count in which frames speaker s of the window talks. */
static void count_frames(const steno_live_speakers *l, const struct fresh *fresh,
                         struct steno_stable_voice *v, int s)
{
    const int64_t origin = l->labelled - (int64_t)l->first; /* of the window's first frame */
    const size_t end = (size_t)(labelled_frames(l) - origin) < l->speakers->segmentation.frames
                           ? (size_t)(labelled_frames(l) - origin)
                           : l->speakers->segmentation.frames;
    *v = (struct steno_stable_voice){.label = -1};
    for (size_t f = origin < 0 ? (size_t)-origin : 0; f < end; f++) {
        const uint8_t label = l->label[(origin + (int64_t)f) % KEPT];
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
static void put_labels(steno_live_speakers *l, const struct fresh *fresh,
                       const struct steno_stable_voice *v)
{
    uint8_t last = NOBODY;
    for (size_t f = 0; f < fresh->frames; f++) {
        const int64_t at = l->labelled + (int64_t)f;
        uint8_t label =
            v ? label_of(v, l->speakers->segmentation.speakers, l->sets[l->first + f], last)
              : NOBODY;
        if (at < l->flushed && l->label[at % KEPT] != NOBODY)
            label = l->label[at % KEPT];
        l->label[at % KEPT] = label;
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
static steno_status find_voices(steno_live_speakers *l, steno_live_networks *w,
                                const struct fresh *f, struct steno_stable_voice *v, steno_err *err)
{
    const struct steno_segmentation *g = &l->speakers->segmentation;
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

/* What merged speakers were known as, the one that stays is. */
static void merge_people(steno_live_speakers *l)
{
    for (int k = 0; k < l->labels.n; k++) {
        const int is = steno_stable_resolve(&l->labels, k);
        if (is != k && l->person[is] < 0)
            l->person[is] = l->person[k];
    }
}

static bool is_taken(const steno_live_speakers *l, int person)
{
    for (int k = 0; k < l->labels.n; k++)
        if (steno_stable_resolve(&l->labels, k) == k && l->person[k] == person)
            return true;
    return false;
}

/* Find out which speakers are known. What was found stays. */
static steno_status find_people(steno_live_speakers *l, steno_err *err)
{
    const size_t n = (size_t)l->labels.n, dim = l->labels.items.dim;
    double *like = malloc((l->n_prints * n + 1) * sizeof *like);
    float *voice = malloc(dim * sizeof *voice);
    steno_status st =
        like && voice ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    merge_people(l);
    for (int k = 0; !st && k < l->labels.n; k++) {
        const bool open = steno_stable_resolve(&l->labels, k) == k && l->person[k] < 0 &&
                          steno_stable_voice(&l->labels, k, voice) >= (double)STENO_KNOWN_SECONDS;
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

/* Label `frames` of the window, from l->first on. */
static steno_status take_window(steno_live_speakers *l, steno_live_networks *w, size_t frames,
                                steno_err *err)
{
    const size_t from = l->first * l->speakers->segmentation.shift;
    const struct fresh f = {frames, (frames + l->cell - 1) / l->cell};
    const size_t left = l->speakers->segmentation.window - from;
    struct steno_stable_voice v[STENO_POWERSET_SPEAKERS];
    steno_status st = STENO_OK;
    const bool silent =
        is_silent(l->window + from, f.cells * l->hop < left ? f.cells * l->hop : left);
    if (!silent)
        st = find_voices(l, w, &f, v, err);
    if (!st && !silent && l->n_prints)
        st = find_people(l, err);
    if (!st)
        put_labels(l, &f, silent ? NULL : v);
    return st;
}

/* The window is complete: label a cell, of which so many frames are real, and move on. */
static steno_status next_window(steno_live_speakers *l, steno_live_networks *w, size_t frames,
                                steno_err *err)
{
    const size_t window = l->speakers->segmentation.window;
    const size_t kept = l->speakers->segmentation.frames / l->cell;
    const steno_status st = take_window(l, w, frames, err);
    if (!st)
        l->labelled += (int64_t)frames;
    l->windows++;
    steno_pieces_forget(&l->pieces, l->windows > kept ? l->windows - kept : 0);
    memmove(l->window, l->window + l->hop, (window - l->hop) * sizeof *l->window);
    l->missing = l->hop;
    return st;
}

/* The first labelled frame is so many before the first of the audio: windows end some frames after
 * their cell. */
static int64_t behind(const steno_live_speakers *l)
{
    const struct steno_segmentation *g = &l->speakers->segmentation;
    return (int64_t)(lead(g) / g->shift) - (int64_t)(l->first + l->cell);
}

/* ---- audio ----------------------------------------------------------------------------------- */

static steno_status take_samples_speaker_live(steno_live_speakers *l, steno_live_networks *w,
                                              const float *x, size_t n, steno_err *err)
{
    const size_t window = l->speakers->segmentation.window;
    steno_status st = STENO_OK;
    l->samples += (int64_t)n;
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

steno_status steno_live_speakers_push(steno_live_speakers *l, steno_live_networks *w,
                                      const float *pcm, size_t n, steno_err *err)
{
    float out[BLOCK];
    size_t used, made;
    if (l->ended)
        return steno_fail(err, STENO_ERR_INVAL, "speakers: the audio has ended");
    while (n) {
        steno_status st = steno_resampler_push(l->resampler, pcm, n, &used, out, BLOCK, &made, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        st = take_samples_speaker_live(l, w, out, made, err);
        if (st)
            return st;
        pcm += used;
        n -= used;
    }
    return STENO_OK;
}

/* Frames of the audio so far. */
static int64_t all_frames(const steno_live_speakers *l)
{
    return l->samples / (int64_t)l->speakers->segmentation.shift + behind(l);
}

/* Silence stands for what is to come. */
static void fill_window(steno_live_speakers *l)
{
    memset(l->window + l->speakers->segmentation.window - l->missing, 0,
           l->missing * sizeof *l->window);
}

steno_status steno_live_speakers_flush(steno_live_speakers *l, steno_live_networks *w,
                                       steno_err *err)
{
    const size_t most = l->speakers->segmentation.frames - l->first;
    const int64_t left = all_frames(l) - l->labelled;
    const size_t frames = left < (int64_t)most ? (size_t)left : most;
    steno_status st;
    if (l->ended || left <= 0 || l->labelled + (int64_t)frames <= l->flushed)
        return STENO_OK;
    fill_window(l);
    st = take_window(l, w, frames, err);
    if (!st)
        l->flushed = l->labelled + (int64_t)frames;
    return st;
}

steno_status steno_live_speakers_end(steno_live_speakers *l, steno_live_networks *w, steno_err *err)
{
    float out[BLOCK];
    size_t made = 1;
    int64_t total;
    steno_status st = STENO_OK;
    while (!l->ended && !st && made) {
        st = steno_resampler_flush(l->resampler, out, BLOCK, &made, err);
        if (!st)
            st = take_samples_speaker_live(l, w, out, made, err);
    }
    if (l->ended || st)
        return st;
    l->ended = true;
    total = all_frames(l);
    while (!st && l->labelled < total) { /* nothing comes after the end */
        const int64_t left = total - l->labelled;
        fill_window(l);
        st = next_window(l, w, left < (int64_t)l->cell ? (size_t)left : l->cell, err);
    }
    return st;
}

/* ---- answers --------------------------------------------------------------------------------- */

double steno_live_speakers_known(const steno_live_speakers *l)
{
    const struct steno_segmentation *g = &l->speakers->segmentation;
    const int64_t frames = labelled_frames(l) - behind(l);
    return frames > 0 ? (double)(frames * (int64_t)g->shift) / g->rate : 0;
}

int steno_live_speakers_at(const steno_live_speakers *l, double seconds, double within)
{
    const struct steno_segmentation *g = &l->speakers->segmentation;
    const int64_t near = (int64_t)(within * g->rate) / (int64_t)g->shift;
    const int64_t least = labelled_frames(l) > KEPT ? labelled_frames(l) - KEPT : 0;
    int64_t at;
    if (!(seconds >= 0 && seconds < steno_live_speakers_known(l) + (l->ended ? within : 0)) ||
        !(within >= 0 && within <= NEAR))
        return -1;
    at = (int64_t)(seconds * g->rate - (double)g->field / 2) / (int64_t)g->shift + behind(l);
    for (int64_t off = 0; off <= near; off++)
        for (int side = -1; side <= 1; side += 2) {
            const int64_t f = at + side * off;
            if (f >= least && f < labelled_frames(l) && l->label[f % KEPT] != NOBODY)
                return steno_stable_resolve(&l->labels, l->label[f % KEPT]);
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
    return speaker >= 0 && speaker < l->labels.n
               ? l->person[steno_stable_resolve(&l->labels, speaker)]
               : -1;
}

bool steno_live_speakers_merge(steno_live_speakers *l, struct steno_live_merge *out)
{
    if (l->told == l->labels.n_merges)
        return false;
    *out = l->labels.merges[l->told++];
    return true;
}
