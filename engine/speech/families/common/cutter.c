/* The open chunk grows by what is pushed. Of a silence its first and last PAD stay: once it is
 * longer than SHORTEN, samples in the middle are dropped as new ones come (unless keep_silence).
 * When the chunk is full it ends in the longest of its late pauses; the samples after that begin
 * the next chunk, so every sample that somebody speaks in is in a chunk. Without a pause it ends
 * where it is quietest. */
#include "speech/families/common/cutter.h"

#include <stdlib.h>
#include <string.h>

#define PAD 0.4     /* s of silence that stay around speech */
#define SHORTEN 1.0 /* s: a longer silence is shortened to 2 PAD */
#define PAUSE 0.1   /* s: a shorter silence is no pause */
#define LONG 0.6    /* s: pauses as long as this are equals */
#define QUIET 0.05  /* s: the span whose energy decides where it is quietest */
#define FIRST_ROOM 16384

struct pause {
    size_t from, at, length; /* begin; the place to cut; the length before it was shortened */
};

struct steno_cutter {
    /* options in samples */
    size_t full, late, earliest, quiet_from, overlap, grain;
    size_t pad, shorten, shortest, longest, quiet;
    bool keep;
    float *pcm; /* [cap] */
    size_t n, cap;
    int64_t taken; /* samples of the recording that were pushed */
    struct steno_cutter_piece piece[STENO_CUTTER_MAX_PIECES];
    size_t n_pieces;
    struct pause *pause; /* [max_pauses] */
    size_t n_pauses, max_pauses;
    size_t silence; /* samples of silence at the end, dropped ones too */
    size_t spoken;  /* end of the last speech in pcm; 0: none */
    size_t before;  /* overlap at the begin of pcm */
    size_t cut;     /* end of the complete chunk without overlap; 0: none */
    size_t after;   /* overlap behind the cut */
    size_t cut_pieces;
    bool first; /* the chunk begins where the recording begins */
    bool ended;
};

static size_t to_samples(const struct steno_cutter_options *o, double seconds)
{
    return (size_t)(seconds * o->rate);
}

steno_status steno_cutter_open(steno_cutter **out, const struct steno_cutter_options *o,
                               steno_err *err)
{
    steno_cutter *c = calloc(1, sizeof *c);
    if (!c)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    c->full = to_samples(o, o->full);
    c->late = to_samples(o, o->late);
    c->earliest = to_samples(o, o->earliest);
    c->quiet_from = to_samples(o, o->quiet_from);
    c->keep = o->keep_silence;
    c->overlap = c->keep ? to_samples(o, o->overlap) : 0;
    c->grain = c->keep && o->grain ? o->grain : 1;
    c->overlap -= c->overlap % c->grain;
    c->pad = to_samples(o, PAD);
    c->shorten = to_samples(o, SHORTEN);
    c->shortest = to_samples(o, PAUSE);
    c->longest = to_samples(o, LONG);
    c->quiet = to_samples(o, QUIET);
    c->max_pauses = c->full / c->shortest + 1;
    c->pause = malloc(c->max_pauses * sizeof *c->pause);
    if (!c->pause) {
        steno_cutter_close(c);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    c->n_pieces = 1;
    c->first = true;
    *out = c;
    return STENO_OK;
}

void steno_cutter_close(steno_cutter *c)
{
    if (!c)
        return;
    free(c->pause);
    free(c->pcm);
    free(c);
}

/* ---- silence ------------------------------------------------------------------------------- */

/* Nobody has spoken in the chunk yet: it begins PAD before its end, at a multiple of the grain. */
static void forget_silence(steno_cutter *c)
{
    size_t stays = c->pad;
    if (c->n <= c->pad + c->grain)
        return;
    stays += (size_t)((c->taken - (int64_t)stays) % (int64_t)c->grain);
    memmove(c->pcm, c->pcm + (c->n - stays), stays * sizeof *c->pcm);
    c->n = stays;
    c->n_pieces = 1;
    c->piece[0] = (struct steno_cutter_piece){.from = c->taken - (int64_t)stays};
    c->before = 0;
    c->first = false;
}

/* Drop the middle of the silence at the end. The last piece begins there. */
static void shorten_silence(steno_cutter *c)
{
    const size_t keep = c->spoken + c->pad;
    if (c->n < keep + c->pad)
        return;
    memmove(c->pcm + keep, c->pcm + (c->n - c->pad), c->pad * sizeof *c->pcm);
    c->n = keep + c->pad;
    if (c->piece[c->n_pieces - 1].at != keep && c->n_pieces < STENO_CUTTER_MAX_PIECES)
        c->n_pieces++;
    c->piece[c->n_pieces - 1] =
        (struct steno_cutter_piece){.at = keep, .from = c->taken - (int64_t)c->pad};
}

/* The silence that ends now, or is cut now, is a place to cut. */
static void note_pause(steno_cutter *c)
{
    if (c->silence < c->shortest || !c->spoken || c->n_pauses == c->max_pauses)
        return;
    c->pause[c->n_pauses++] =
        (struct pause){.from = c->spoken,
                       .at = (c->spoken + c->n) / 2,
                       .length = c->silence < c->longest ? c->silence : c->longest};
}

/* ---- cuts ---------------------------------------------------------------------------------- */

/* Middle of the quietest span. */
static size_t quietest(const steno_cutter *c)
{
    const size_t end = c->n - c->overlap;
    double least = 0;
    size_t best = end;
    for (size_t at = c->quiet_from; at + c->quiet <= end; at += c->quiet / 4) {
        double sum = 0;
        for (size_t i = at; i < at + c->quiet; i++)
            sum += (double)c->pcm[i] * (double)c->pcm[i];
        if (best == end || sum < least) {
            least = sum;
            best = at + c->quiet / 2;
        }
    }
    return best;
}

static void complete(steno_cutter *c, size_t at, size_t overlap)
{
    c->cut = at;
    c->after = overlap;
    c->cut_pieces = 0;
    while (c->cut_pieces < c->n_pieces && c->piece[c->cut_pieces].at < at)
        c->cut_pieces++;
}

/* The longest late pause, the latest of equals; else the latest pause. */
static void cut_full(steno_cutter *c)
{
    const struct pause *best = NULL;
    size_t at;
    for (size_t i = 0; i < c->n_pauses; i++) {
        const struct pause *p = &c->pause[i];
        if (p->at < c->earliest)
            continue;
        if (!best || best->at < c->late || p->length >= best->length)
            best = p;
    }
    at = best ? best->at : quietest(c);
    complete(c, at - at % c->grain, best ? 0 : c->overlap);
}

static steno_status reserve_cutter(steno_cutter *c, size_t n)
{
    size_t cap = c->cap ? c->cap : FIRST_ROOM;
    float *p;
    if (n <= c->cap)
        return STENO_OK;
    while (cap < n)
        cap *= 2;
    if (cap > c->full)
        cap = c->full;
    p = realloc(c->pcm, cap * sizeof *p);
    if (!p)
        return STENO_ERR_NOMEM;
    c->pcm = p;
    c->cap = cap;
    return STENO_OK;
}

/* Speech or silence has been appended. */
static void apply(steno_cutter *c, size_t n, bool speech)
{
    if (speech) {
        c->spoken = c->n;
        return;
    }
    c->silence += n;
    if (c->keep)
        return;
    if (!c->spoken)
        forget_silence(c);
    else if (c->silence > c->shorten)
        shorten_silence(c);
}

steno_status steno_cutter_push(steno_cutter *c, const float *pcm, size_t n, bool speech,
                               size_t *used)
{
    *used = 0;
    if (c->cut)
        return STENO_OK;
    if (c->n + n > c->full)
        n = c->full - c->n;
    if (reserve_cutter(c, c->n + n))
        return STENO_ERR_NOMEM;
    if (speech && n) {
        note_pause(c);
        c->silence = 0;
    }
    if (n)
        memcpy(c->pcm + c->n, pcm, n * sizeof *pcm);
    c->n += n;
    c->taken += (int64_t)n;
    *used = n;
    apply(c, n, speech);
    if (c->n < c->full)
        return STENO_OK;
    note_pause(c);
    if (c->spoken)
        cut_full(c);
    else
        forget_silence(c);
    return STENO_OK;
}

void steno_cutter_end(steno_cutter *c)
{
    c->ended = true;
}

/* End of the last speech before the cut, which lies in a pause. */
static size_t spoken_before(const steno_cutter *c)
{
    for (size_t i = c->n_pauses; i-- > 0;)
        if (c->pause[i].at - c->pause[i].at % c->grain == c->cut)
            return c->pause[i].from;
    return c->spoken < c->cut ? c->spoken : c->cut;
}

/* Whether the rest of the recording is a chunk. */
static bool is_worth_it(const steno_cutter *c)
{
    return c->spoken || (c->keep && c->first && c->n);
}

bool steno_cutter_peek(steno_cutter *c, struct steno_cutter_chunk *out)
{
    if (!c->cut && c->ended && is_worth_it(c))
        complete(c, c->n, 0);
    if (!c->cut)
        return false;
    *out = (struct steno_cutter_chunk){.pcm = c->pcm,
                                       .n = c->cut + c->after,
                                       .spoken = spoken_before(c),
                                       .before = c->before,
                                       .after = c->after,
                                       .pieces = c->piece,
                                       .n_pieces = c->cut_pieces};
    return true;
}

void steno_cutter_so_far(const steno_cutter *c, struct steno_cutter_chunk *out)
{
    *out = (struct steno_cutter_chunk){.pcm = c->pcm,
                                       .n = c->n,
                                       .spoken = c->spoken,
                                       .before = c->before,
                                       .pieces = c->piece,
                                       .n_pieces = c->n_pieces};
}

/* The piece that the next chunk begins in, `gone` samples after this one's begin, goes on in it. */
static void drop_pieces(steno_cutter *c, size_t gone)
{
    struct steno_cutter_piece first = c->piece[c->cut_pieces - 1];
    const size_t left = c->n_pieces - c->cut_pieces;
    const bool begins = left && c->piece[c->cut_pieces].at == gone;
    struct steno_cutter_piece *to = c->piece + !begins;
    first.from += (int64_t)gone - (int64_t)first.at;
    first.at = 0;
    memmove(to, c->piece + c->cut_pieces, left * sizeof *to);
    for (size_t i = 0; i < left; i++)
        to[i].at -= gone;
    if (!begins)
        c->piece[0] = first;
    c->n_pieces = left + !begins;
}

void steno_cutter_drop(steno_cutter *c)
{
    const size_t gone = c->cut - c->after; /* as much overlap before the cut as after it */
    size_t kept = 0;
    drop_pieces(c, gone);
    for (size_t i = 0; i < c->n_pauses; i++)
        if (c->pause[i].at > gone) {
            c->pause[kept] = c->pause[i];
            c->pause[kept].from -= gone < c->pause[kept].from ? gone : c->pause[kept].from;
            c->pause[kept++].at -= gone;
        }
    c->n_pauses = kept;
    c->n -= gone;
    memmove(c->pcm, c->pcm + gone, c->n * sizeof *c->pcm);
    c->spoken = c->spoken > gone ? c->spoken - gone : 0;
    c->before = c->after;
    c->cut = c->after = 0;
    c->first = false;
    if (!c->spoken) {
        c->n_pauses = 0;
        forget_silence(c);
    }
}

int64_t steno_cutter_time(const struct steno_cutter_piece *p, size_t n, size_t at, bool end)
{
    size_t i = 0;
    while (i + 1 < n && (end ? p[i + 1].at < at : p[i + 1].at <= at))
        i++;
    return p[i].from + (int64_t)at - (int64_t)p[i].at;
}
