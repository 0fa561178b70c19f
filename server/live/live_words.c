/* The first final that waits is the one that is being aligned, by at most one stream at a time. Its
 * notes come on workers of the other pool; everything that they touch is locked. Who ends the
 * alignment takes it out of `now` with the lock held, and closes its stream without: the closing of
 * a session waits there for a note that waits for the lock. */
#include "server/live/live_words.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/word_times.h"
#include "server/live/note_queue.h"

#define KEPT_SECONDS 60 /* of audio; some segments are longer without endpoints */
#define FIRST_SECONDS 8 /* room at first; then it doubles */
#define BEFORE 1.0      /* s of audio before the line: networks begin as in a recording */
#define GRID 0.24       /* s: it begins at a multiple, as the frames of a recording do */

/* The alignment of a final. */
struct finding {
    steno_live_words *words;
    steno_pool_stream *stream;
    float *pcm; /* [n], of it [at] is pushed */
    size_t n, at;
    double begin;     /* s: where pcm begins in the stream of the final */
    bool found, late; /* late: the final went on without it */
    steno_err err;
};

struct steno_live_words {
    struct steno_live_words_options with;
    char language[STENO_LANGUAGE_BYTES];

    /* locked by lock */
    pthread_mutex_t lock;
    bool warned;
    int16_t *ring; /* [cap, channels] */
    size_t cap;    /* frames */
    int64_t total; /* frames so far; the last min(cap, total) are there */
    struct steno_note_queue waiting;
    struct finding *now;          /* of its first */
    struct steno_served *aligner; /* the last that was used */
    struct steno_pool_stream_stats past;
    double last[]; /* [channels] s: the end of the last word with a time of the aligner */
};

/* ---- audio ----------------------------------------------------------------------------------- */

static int16_t sample(float x)
{
    return (int16_t)lrintf(fminf(fmaxf(x * 32768, -32768), 32767));
}

/* Lock held: make room for as many frames as may be needed. Out of memory: the ring stays. */
static void grow(steno_live_words *w, size_t frames)
{
    const size_t most = KEPT_SECONDS * (size_t)w->with.rate, width = w->with.channels;
    size_t cap = w->cap ? w->cap : FIRST_SECONDS * (size_t)w->with.rate;
    int16_t *ring;
    while (cap < most && cap < (size_t)w->total + frames)
        cap *= 2;
    cap = cap < most ? cap : most;
    if (cap <= w->cap || !(ring = malloc(cap * width * sizeof *ring)))
        return;
    for (int64_t i = w->total - (int64_t)w->cap < 0 ? 0 : w->total - (int64_t)w->cap; i < w->total;
         i++)
        memcpy(ring + (size_t)i % cap * width, w->ring + (size_t)i % w->cap * width,
               width * sizeof *ring);
    free(w->ring);
    w->ring = ring;
    w->cap = cap;
}

void steno_live_words_push(steno_live_words *w, const float *pcm, size_t frames)
{
    const size_t width = w->with.channels;
    pthread_mutex_lock(&w->lock);
    grow(w, frames);
    for (size_t i = 0; w->cap && i < frames; i++)
        for (size_t k = 0; k < width; k++)
            w->ring[(size_t)(w->total + (int64_t)i) % w->cap * width + k] =
                sample(pcm[i * width + k]);
    w->total += (int64_t)frames;
    pthread_mutex_unlock(&w->lock);
}

/* Lock held: copy a channel's audio from..to (s). */
static steno_status copy_audio(const steno_live_words *w, struct finding *f, unsigned channel,
                               double from, double to, steno_err *err)
{
    const int rate = w->with.rate;
    const int64_t kept = w->total > (int64_t)w->cap ? w->total - (int64_t)w->cap : 0;
    int64_t first = (int64_t)(floor(fmax(from - BEFORE, 0) / GRID) * GRID * rate + 0.5);
    int64_t end = (int64_t)ceil(to * rate);
    first = first < kept ? kept : first;
    end = end < w->total ? end : w->total;
    if (first > (int64_t)(from * rate) || end <= first)
        return steno_fail(err, STENO_ERR_LIMIT, "a segment is longer than %d s", KEPT_SECONDS - 3);
    f->n = (size_t)(end - first);
    f->begin = (double)first / rate;
    f->pcm = malloc(f->n * sizeof *f->pcm);
    if (!f->pcm)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < f->n; i++)
        f->pcm[i] =
            (float)w->ring[((size_t)first + i) % w->cap * w->with.channels + channel] / 32768;
    return STENO_OK;
}

/* ---- an alignment; lock held ------------------------------------------------------------------
 */

static void free_finding(struct finding *f)
{
    steno_pool_stream_close(f->stream);
    free(f->pcm);
    free(f);
}

/* Once for a session: it would be said of each final. */
static void warn(steno_live_words *w, const char *why)
{
    char text[192];
    if (w->warned)
        return;
    w->warned = true;
    snprintf(text, sizeof text, STENO_WORD_TIMES ": words have the times of %.40s: %.90s",
             w->with.served->name, why);
    w->with.warn(w->with.user, text);
}

static void feed(struct finding *f)
{
    while (f->at < f->n) {
        size_t taken;
        if (steno_pool_stream_push(f->stream, f->pcm + f->at, f->n - f->at, &taken, &f->err))
            return; /* a DONE note says why */
        f->at += taken;
        if (f->at < f->n)
            return; /* a ROOM note follows */
    }
    steno_pool_stream_end(f->stream);
}

/* Use the model for what is spoken in a final. */
static steno_status choose(steno_live_words *w, const struct steno_event *ev, steno_err *err)
{
    struct steno_served *aligner;
    steno_status st = steno_models_acquire_aligner(
        w->with.srv->models, *ev->language ? ev->language : w->with.language, &aligner, err);
    if (!st && !aligner)
        st = steno_fail(err, STENO_ERR_INVAL, STENO_NO_ALIGNER);
    if (st)
        return st;
    steno_models_release(w->with.srv->models, w->aligner);
    w->aligner = aligner;
    return STENO_OK;
}

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *note);

/* Open the stream that finds the words of a final in its audio, and push that. */
static steno_status begin(steno_live_words *w, const struct steno_waiting_note *final,
                          steno_err *err)
{
    struct steno_pool_stream_options so = {
        .stream = {.sample_rate = w->with.rate, .no_partials = true},
        .priority = STENO_POOL_LIVE,
        .always = true, /* it is short, and its session has a place */
        .owner = w->with.owner};
    const struct steno_event *ev = &final->event;
    struct steno_text_lines lines = {0};
    struct finding *f = calloc(1, sizeof *f);
    steno_status st = f ? choose(w, ev, err) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_word_times_line(&lines, ev, w->last[final->channel], err);
    if (!st && !lines.n)
        st = steno_fail(err, STENO_ERR_INVAL, "no word is spoken");
    if (!st)
        st = copy_audio(w, f, final->channel, lines.lines->from,
                        fmin(lines.lines->to, fmax(ev->time, ev->end)), err);
    if (!st) {
        steno_fail(&f->err, STENO_ERR_INTERNAL, "the model that aligns found nothing");
        f->words = w;
        lines.lines->from -= f->begin;
        lines.lines->to -= f->begin;
        so.lines = lines.lines;
        so.n_lines = lines.n;
        st = steno_pool_stream_open(&f->stream, w->aligner->pool, &so, on_note, f, err);
    }
    steno_text_lines_free(&lines);
    if (st) {
        if (f)
            free_finding(f);
        return st;
    }
    w->now = f;
    feed(f);
    return STENO_OK;
}

/* ---- notes; lock held --------------------------------------------------------------------------
 */

static bool has_words(const struct steno_pool_note *note)
{
    return steno_note_is_event(note, STENO_FINAL) && note->event->n_words;
}

static void pass_first(steno_live_words *w)
{
    struct steno_waiting_note *first = steno_note_queue_take(&w->waiting);
    w->with.fn(w->with.user, first->channel, &first->note);
    steno_waiting_note_free(first);
}

/* Pass on what does not wait for an alignment, and begin that of the final after it. */
static void pass_ready(steno_live_words *w)
{
    while (!w->now && w->waiting.first) {
        steno_err err;
        if (has_words(&w->waiting.first->note)) {
            if (!begin(w, w->waiting.first, &err))
                return;
            warn(w, err.msg);
        }
        pass_first(w);
    }
}

/* The times of the first final's words are found, from the beginning of its audio on. */
static void take_words(steno_live_words *w, struct finding *f, const struct steno_event *found)
{
    struct steno_waiting_note *final = w->waiting.first;
    struct steno_word *x;
    if (f->late)
        return;
    x = steno_arena_calloc(final->arena, found->n_words + 1, sizeof *x);
    for (size_t i = 0; x && i < found->n_words; i++) {
        x[i] = found->words[i];
        x[i].start += f->begin;
        x[i].end += f->begin;
    }
    f->found =
        x && !steno_word_times_place(&final->event, final->arena, x, found->n_words, &f->err);
    w->last[final->channel] = final->event.end;
}

/* An alignment is over: what waited goes on. */
static void end_finding(steno_live_words *w, struct finding *f, const struct steno_pool_note *note)
{
    struct steno_pool_stream_stats stats = note->stats;
    stats.audio_seconds = 0; /* it counts already */
    steno_pool_stream_stats_add(&w->past, &stats);
    w->now = NULL;
    if (!f->late) {
        if (!f->found)
            warn(w, note->err ? note->err->msg : f->err.msg);
        pass_first(w);
    }
    pass_ready(w);
}

/* Runs on a worker of the aligner's pool. The lock is not held. */
static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *note)
{
    struct finding *f = user;
    steno_live_words *w = f->words;
    bool over = false;
    (void)ps;
    pthread_mutex_lock(&w->lock);
    if (w->now == f) { /* else the session is closed, and waits for this call */
        if (note->kind == STENO_POOL_ROOM)
            feed(f);
        else if (steno_note_is_event(note, STENO_FINAL))
            take_words(w, f, note->event);
        over = note->kind == STENO_POOL_DONE;
        if (over)
            end_finding(w, f, note);
    }
    pthread_mutex_unlock(&w->lock);
    if (over)
        free_finding(f); /* from here on w may be gone */
}

/* Out of memory for a note that should wait: what waits goes on as it is. */
static void give_up(steno_live_words *w)
{
    if (w->now)
        w->now->late = true;
    while (w->waiting.first)
        pass_first(w);
}

void steno_live_words_note(steno_live_words *w, unsigned channel,
                           const struct steno_pool_note *note)
{
    pthread_mutex_lock(&w->lock);
    if (note->kind == STENO_POOL_ROOM || (!w->waiting.first && !has_words(note))) {
        w->with.fn(w->with.user, channel, note);
    } else if (steno_note_queue_add(&w->waiting, channel, note)) {
        pass_ready(w);
    } else {
        give_up(w);
        w->with.fn(w->with.user, channel, note);
    }
    pthread_mutex_unlock(&w->lock);
}

/* ---- one session ----------------------------------------------------------------------------- */

steno_status steno_live_words_open(steno_live_words **out,
                                   const struct steno_live_words_options *options,
                                   struct steno_served *aligner, steno_err *err)
{
    steno_live_words *w = calloc(1, sizeof *w + options->channels * sizeof w->last[0]);
    if (!w) {
        steno_models_release(options->srv->models, aligner);
        return steno_fail(err, STENO_ERR_NOMEM, STENO_WORD_TIMES ": out of memory");
    }
    w->with = *options;
    snprintf(w->language, sizeof w->language, "%s", options->language ? options->language : "");
    w->with.language = w->language;
    w->aligner = aligner;
    pthread_mutex_init(&w->lock, NULL);
    *out = w;
    return STENO_OK;
}

void steno_live_words_close(steno_live_words *w, struct steno_pool_stream_stats *past)
{
    struct finding *f;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    f = w->now;
    w->now = NULL;
    pthread_mutex_unlock(&w->lock);
    if (f)
        free_finding(f);
    steno_pool_stream_stats_add(past, &w->past);
    steno_note_queue_clear(&w->waiting);
    steno_models_release(w->with.srv->models, w->aligner);
    pthread_mutex_destroy(&w->lock);
    free(w->ring);
    free(w);
}
