/* The open chunk grows by what is pushed. Of a silence its first and last PAD stay: once it is
 * longer than SHORTEN, samples in the middle are dropped as new ones come. When the chunk is full
 * it ends in the longest of its late pauses; what comes after that begins the next chunk, so that
 * every sample that somebody speaks in is in one chunk. Without a pause it ends where it is
 * quietest. */
#include "families/whisper/cutter.h"

#include <stdlib.h>
#include <string.h>

#include "families/whisper/model.h"

#define FULL STENO_WHISPER_WINDOW
#define PAD ((size_t)STENO_WHISPER_RATE * 2 / 5)  /* silence that stays around speech */
#define SHORTEN STENO_WHISPER_RATE                /* a longer silence is shortened to 2 PAD */
#define PAUSE ((size_t)STENO_WHISPER_RATE / 10)   /* a shorter silence is no pause */
#define LONG ((size_t)STENO_WHISPER_RATE * 3 / 5) /* pauses as long as this are equals */
#define LATE ((size_t)22 * STENO_WHISPER_RATE)    /* where the late pauses of a chunk begin */
#define EARLIEST                                                                                   \
    ((size_t)10 * STENO_WHISPER_RATE)                /* a chunk that is full is at least that long \
                                                      */
#define QUIET_FROM ((size_t)20 * STENO_WHISPER_RATE) /* without a pause: where to look */
#define QUIET_SPAN ((size_t)STENO_WHISPER_RATE / 20)
#define MAX_PAUSES 320 /* FULL / PAUSE */

struct pause {
    size_t from, at, length; /* begin; the place to cut; the length before it was shortened */
};

struct steno_whisper_cutter {
    float *pcm; /* [FULL] */
    size_t n;
    int64_t taken; /* samples of the recording that were pushed */
    struct steno_whisper_piece piece[STENO_WHISPER_MAX_PIECES];
    size_t n_pieces;
    struct pause pause[MAX_PAUSES];
    size_t n_pauses;
    size_t silence; /* samples of silence at the end, dropped ones too */
    size_t spoken;  /* end of the last speech in pcm; 0: none */
    size_t cut;     /* end of the complete chunk; 0: none */
    size_t cut_pieces;
    bool ended;
};

steno_status steno_whisper_cutter_open(steno_whisper_cutter **out, steno_err *err)
{
    steno_whisper_cutter *c = calloc(1, sizeof *c);
    if (c)
        c->pcm = malloc(FULL * sizeof *c->pcm);
    if (!c || !c->pcm) {
        steno_whisper_cutter_close(c);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    c->n_pieces = 1;
    *out = c;
    return STENO_OK;
}

void steno_whisper_cutter_close(steno_whisper_cutter *c)
{
    if (!c)
        return;
    free(c->pcm);
    free(c);
}

/* ---- silence ------------------------------------------------------------------------------- */

/* Nobody has spoken in the chunk yet: it begins PAD before its end. */
static void forget_silence(steno_whisper_cutter *c)
{
    if (c->n <= PAD)
        return;
    memmove(c->pcm, c->pcm + (c->n - PAD), PAD * sizeof *c->pcm);
    c->n = PAD;
    c->n_pieces = 1;
    c->piece[0] = (struct steno_whisper_piece){.from = c->taken - (int64_t)PAD};
}

/* Drop the middle of the silence at the end. The last piece begins there. */
static void shorten_silence(steno_whisper_cutter *c)
{
    const size_t keep = c->spoken + PAD;
    if (c->n < keep + PAD)
        return;
    memmove(c->pcm + keep, c->pcm + (c->n - PAD), PAD * sizeof *c->pcm);
    c->n = keep + PAD;
    if (c->piece[c->n_pieces - 1].at != keep && c->n_pieces < STENO_WHISPER_MAX_PIECES)
        c->n_pieces++;
    c->piece[c->n_pieces - 1] =
        (struct steno_whisper_piece){.at = keep, .from = c->taken - (int64_t)PAD};
}

/* The silence that ends now, or is cut now, is a place to cut. */
static void note_pause(steno_whisper_cutter *c)
{
    if (c->silence < PAUSE || !c->spoken || c->n_pauses == MAX_PAUSES)
        return;
    c->pause[c->n_pauses++] = (struct pause){.from = c->spoken,
                                             .at = (c->spoken + c->n) / 2,
                                             .length = c->silence < LONG ? c->silence : LONG};
}

/* ---- cuts ---------------------------------------------------------------------------------- */

/* Middle of the quietest QUIET_SPAN. */
static size_t quietest(const steno_whisper_cutter *c)
{
    double least = 0;
    size_t best = c->n;
    for (size_t at = QUIET_FROM; at + QUIET_SPAN <= c->n; at += QUIET_SPAN / 4) {
        double sum = 0;
        for (size_t i = at; i < at + QUIET_SPAN; i++)
            sum += (double)c->pcm[i] * (double)c->pcm[i];
        if (best == c->n || sum < least) {
            least = sum;
            best = at + QUIET_SPAN / 2;
        }
    }
    return best;
}

/* The longest late pause, the latest of equals; else the latest pause. */
static size_t choose_cut(const steno_whisper_cutter *c)
{
    const struct pause *best = NULL;
    for (size_t i = 0; i < c->n_pauses; i++) {
        const struct pause *p = &c->pause[i];
        if (p->at < EARLIEST)
            continue;
        if (!best || best->at < LATE || p->length >= best->length)
            best = p;
    }
    return best ? best->at : quietest(c);
}

static void complete(steno_whisper_cutter *c, size_t at)
{
    c->cut = at;
    c->cut_pieces = 0;
    while (c->cut_pieces < c->n_pieces && c->piece[c->cut_pieces].at < at)
        c->cut_pieces++;
}

size_t steno_whisper_cutter_push(steno_whisper_cutter *c, const float *pcm, size_t n, bool speech)
{
    if (c->cut)
        return 0;
    if (c->n + n > FULL)
        n = FULL - c->n;
    if (speech && n) {
        note_pause(c);
        c->silence = 0;
    }
    memcpy(c->pcm + c->n, pcm, n * sizeof *pcm);
    c->n += n;
    c->taken += (int64_t)n;
    if (speech) {
        c->spoken = c->n;
    } else {
        c->silence += n;
        if (!c->spoken)
            forget_silence(c);
        else if (c->silence > SHORTEN)
            shorten_silence(c);
    }
    if (c->n == FULL) {
        note_pause(c);
        complete(c, choose_cut(c));
    }
    return n;
}

void steno_whisper_cutter_end(steno_whisper_cutter *c)
{
    c->ended = true;
}

/* End of the last speech before the cut, which lies in a pause. */
static size_t spoken_before(const steno_whisper_cutter *c)
{
    for (size_t i = c->n_pauses; i-- > 0;)
        if (c->pause[i].at == c->cut)
            return c->pause[i].from;
    return c->spoken < c->cut ? c->spoken : c->cut;
}

bool steno_whisper_cutter_peek(steno_whisper_cutter *c, struct steno_whisper_chunk *out)
{
    if (!c->cut && c->ended && c->spoken)
        complete(c, c->n);
    if (!c->cut)
        return false;
    *out = (struct steno_whisper_chunk){c->pcm, c->cut, spoken_before(c), c->piece, c->cut_pieces};
    return true;
}

/* The piece that the cut goes through goes on in the next chunk. */
static void drop_pieces(steno_whisper_cutter *c)
{
    struct steno_whisper_piece first = c->piece[c->cut_pieces - 1];
    const size_t left = c->n_pieces - c->cut_pieces;
    const bool begins = left && c->piece[c->cut_pieces].at == c->cut;
    struct steno_whisper_piece *to = c->piece + !begins;
    first.from += (int64_t)(c->cut - first.at);
    first.at = 0;
    memmove(to, c->piece + c->cut_pieces, left * sizeof *to);
    for (size_t i = 0; i < left; i++)
        to[i].at -= c->cut;
    if (!begins)
        c->piece[0] = first;
    c->n_pieces = left + !begins;
}

void steno_whisper_cutter_drop(steno_whisper_cutter *c)
{
    size_t kept = 0;
    drop_pieces(c);
    for (size_t i = 0; i < c->n_pauses; i++)
        if (c->pause[i].at > c->cut) {
            c->pause[kept] = c->pause[i];
            c->pause[kept].from -= c->cut < c->pause[kept].from ? c->cut : c->pause[kept].from;
            c->pause[kept++].at -= c->cut;
        }
    c->n_pauses = kept;
    c->n -= c->cut;
    memmove(c->pcm, c->pcm + c->cut, c->n * sizeof *c->pcm);
    c->spoken = c->spoken > c->cut ? c->spoken - c->cut : 0;
    c->cut = 0;
    if (!c->spoken) {
        c->n_pauses = 0;
        forget_silence(c);
    }
}

int64_t steno_whisper_piece_time(const struct steno_whisper_piece *p, size_t n, size_t at, bool end)
{
    size_t i = 0;
    while (i + 1 < n && (end ? p[i + 1].at < at : p[i + 1].at <= at))
        i++;
    return p[i].from + (int64_t)at - (int64_t)p[i].at;
}
