#define _GNU_SOURCE /* pthread_setname_np */
/* The queue of notes is not empty while the first one, a final, is being worked on, so later ones
 * wait behind it. A diarizer with something to do is in the list of
 * its threads' work; a thread does a piece of it (half a second of audio, or one final) and puts it
 * back at the end, so that no session keeps others waiting. */
#include "server/live/diarizer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/base/log.h"
#include "server/live/note_queue.h"

#define BUFFER_SECONDS 4
#define NEAR 1.0 /* s: a word in a gap has the speaker of the nearest turn that is not farther */

struct steno_diarizer {
    steno_diarizers *all;
    steno_diarizer_fn *fn;
    void *user;
    int rate;

    /* of the thread that works on it */
    steno_live_speakers *live;
    double begin; /* s of audio before the stream */
    float *piece; /* [rate / 2] */
    bool failed;  /* it tells no more speakers */
    char *people; /* directory of those who are enrolled; NULL: nobody, or it is read */
    steno_enrolled *known;

    /* locked by all->lock */
    steno_diarizer *next;
    bool queued, worked_on, again, orphan;

    /* locked by lock */
    pthread_mutex_t lock;
    pthread_cond_t drained; /* no note waits */
    bool closed, wants_room;
    float *ring;       /* [cap] */
    size_t cap, at, n; /* of it: n samples from `at` on wait */
    int64_t done;      /* samples that left it */
    int64_t stream;    /* where the stream begins */
    struct steno_note_queue waiting;
};

struct steno_diarizers {
    const steno_speakers *speakers;
    struct steno_stats *stats;
    pthread_t *threads;
    int n_threads;
    /* locked by lock */
    pthread_mutex_t lock;
    pthread_cond_t work;
    steno_diarizer *first, **last;
    int open;
    bool stop;
};

/* ---- notes ----------------------------------------------------------------------------------- */

/* Lock held: pass the first note on, with the time that it waited. */
static void deliver_first(steno_diarizer *d, const struct steno_live_voices *voices)
{
    struct steno_waiting_note *w = steno_note_queue_take(&d->waiting);
    if (!d->waiting.first)
        pthread_cond_broadcast(&d->drained);
    if (!d->closed)
        d->fn(d->user, &w->note, voices);
    steno_waiting_note_free(w);
}

/* Lock held: pass on what does not wait for speakers. */
static void deliver_ready(steno_diarizer *d)
{
    while (d->waiting.first && !steno_note_is_event(&d->waiting.first->note, STENO_FINAL))
        deliver_first(d, NULL);
}

/* ---- the work -------------------------------------------------------------------------------- */

static int who_talks(const void *ctx, double seconds)
{
    const steno_diarizer *d = ctx;
    return steno_live_speakers_at(d->live, d->begin + seconds, NEAR);
}

static void fail(steno_diarizer *d, steno_status st, const char *message)
{
    if (st && !d->failed)
        steno_log(LOG_WARNING, "speakers of a live session are not told from here on: %s", message);
    d->failed |= st != STENO_OK;
}

/* Read who is enrolled. What is wrong there costs names alone. */
static void read_people(steno_diarizer *d)
{
    steno_err err;
    if (steno_enrolled_open(&d->known, d->people, d->all->speakers, &err))
        steno_log(LOG_WARNING, "speakers.store: %s", err.msg);
    else
        steno_live_speakers_know(d->live, steno_enrolled_prints(d->known),
                                 steno_enrolled_count(d->known));
    free(d->people);
    d->people = NULL;
}

static void find_names(const steno_diarizer *d, const char *names[STENO_LIVE_SPEAKERS])
{
    struct steno_enrolled_speaker who;
    for (int k = 0; k < STENO_LIVE_SPEAKERS; k++) {
        const int person = steno_live_speakers_person(d->live, k);
        names[k] =
            person >= 0 && steno_enrolled_at(d->known, (size_t)person, &who) ? who.name : NULL;
    }
}

/* Take up to half a second out of the ring into d->piece. Returns the number of samples. */
static size_t take_audio(steno_diarizer *d)
{
    const size_t most = (size_t)d->rate / 2;
    size_t n, first;
    pthread_mutex_lock(&d->lock);
    n = d->n < most ? d->n : most;
    first = n < d->cap - d->at ? n : d->cap - d->at;
    memcpy(d->piece, d->ring + d->at, first * sizeof *d->piece);
    memcpy(d->piece + first, d->ring, (n - first) * sizeof *d->piece);
    d->at = (d->at + n) % d->cap;
    d->n -= n;
    d->done += (int64_t)n;
    if (d->wants_room && d->n < d->cap / 2) {
        d->wants_room = false;
        if (!d->closed)
            d->fn(d->user, &(struct steno_pool_note){.kind = STENO_POOL_ROOM}, NULL);
    }
    pthread_mutex_unlock(&d->lock);
    return n;
}

/* Tell the speakers of a final of which all audio has come. */
static void tell_final(steno_diarizer *d, steno_live_networks *networks,
                       const struct steno_event *ev)
{
    struct steno_live_merge merge[STENO_LIVE_SPEAKERS];
    struct steno_voiced *parts = NULL;
    const char *names[STENO_LIVE_SPEAKERS];
    struct steno_live_voices voices = {.merge = merge};
    steno_err err = {0};
    steno_status st = STENO_OK;
    if (!d->failed && d->begin + ev->end > steno_live_speakers_known(d->live))
        st = steno_live_speakers_flush(d->live, networks, &err);
    if (!st && !d->failed)
        st = steno_voices_divide(ev, who_talks, d, &parts, &voices.n_parts);
    fail(d, st, st == STENO_ERR_NOMEM ? "out of memory" : err.msg);
    while (!d->failed && voices.n_merges < STENO_LIVE_SPEAKERS &&
           steno_live_speakers_merge(d->live, &merge[voices.n_merges]))
        voices.n_merges++;
    voices.part = parts;
    if (d->known) {
        find_names(d, names);
        voices.names = names;
    }
    pthread_mutex_lock(&d->lock);
    deliver_first(d, d->failed ? NULL : &voices);
    deliver_ready(d);
    pthread_mutex_unlock(&d->lock);
    free(parts);
}

/* Do a piece of the work. False: there is none left. */
static bool work_on(steno_diarizer *d, steno_live_networks *networks)
{
    const struct steno_waiting_note *final;
    bool whole, more;
    steno_err err = {0};
    const size_t n = take_audio(d);
    if (d->people)
        read_people(d);
    if (n && !d->failed && networks)
        fail(d, steno_live_speakers_push(d->live, networks, d->piece, n, &err), err.msg);
    pthread_mutex_lock(&d->lock);
    final = d->waiting.first;
    whole = final && (!d->n || (double)(d->done - d->stream) / d->rate >= final->event.time);
    d->begin = (double)d->stream / d->rate;
    pthread_mutex_unlock(&d->lock);
    if (whole) /* a final that waits stays the first until this thread delivers it */
        tell_final(d, networks, &final->event);
    pthread_mutex_lock(&d->lock);
    more = d->waiting.first || d->n >= (size_t)d->rate / 2;
    pthread_mutex_unlock(&d->lock);
    return more;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* The lock of all is held. */
static void enqueue(steno_diarizer *d)
{
    steno_diarizers *all = d->all;
    d->again = d->worked_on;
    if (d->queued || d->worked_on)
        return;
    d->queued = true;
    d->next = NULL;
    *all->last = d;
    all->last = &d->next;
    pthread_cond_signal(&all->work);
}

static void wake(steno_diarizer *d)
{
    pthread_mutex_lock(&d->all->lock);
    enqueue(d);
    pthread_mutex_unlock(&d->all->lock);
}

static void free_diarizer(steno_diarizer *d)
{
    steno_note_queue_clear(&d->waiting);
    steno_live_speakers_close(d->live);
    steno_enrolled_close(d->known);
    free(d->people);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->drained);
    free(d->ring);
    free(d->piece);
    free(d);
}

/* The lock of all is held, but not during the work. */
static void serve_one(steno_diarizers *all, steno_live_networks **networks)
{
    steno_diarizer *d = all->first;
    const int64_t begun = steno_thread_ns();
    bool more;
    all->first = d->next;
    if (!all->first)
        all->last = &all->first;
    d->queued = false;
    d->worked_on = true;
    pthread_mutex_unlock(&all->lock);
    if (!*networks && !d->failed) {
        steno_err err = {0};
        fail(d, steno_live_networks_open(networks, all->speakers, &err), err.msg);
    }
    more = work_on(d, *networks);
    steno_metric_add(all->stats->speakers_cpu, (double)(steno_thread_ns() - begun) * 1e-9);
    pthread_mutex_lock(&all->lock);
    more |= d->again;
    d->worked_on = d->again = false;
    if (d->orphan)
        free_diarizer(d);
    else if (more)
        enqueue(d);
}

static void *serve(void *arg)
{
    steno_diarizers *all = arg;
    steno_live_networks *networks = NULL;
    pthread_setname_np(pthread_self(), "diarizer");
    pthread_mutex_lock(&all->lock);
    while (!all->stop || all->first) {
        if (all->first)
            serve_one(all, &networks);
        else
            pthread_cond_wait(&all->work, &all->lock);
    }
    pthread_mutex_unlock(&all->lock);
    steno_live_networks_close(networks);
    return NULL;
}

steno_status steno_diarizers_open(steno_diarizers **out, const steno_speakers *speakers,
                                  int threads, struct steno_stats *stats, steno_err *err)
{
    steno_diarizers *all = calloc(1, sizeof *all);
    if (!all)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    all->speakers = speakers;
    all->stats = stats;
    all->last = &all->first;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->work, NULL);
    all->threads = calloc((size_t)threads, sizeof *all->threads);
    for (; all->threads && all->n_threads < threads; all->n_threads++)
        if (pthread_create(&all->threads[all->n_threads], NULL, serve, all))
            break;
    if (all->n_threads < threads) {
        steno_diarizers_close(all);
        return steno_fail(err, STENO_ERR_INTERNAL, "speakers: cannot make a thread");
    }
    *out = all;
    return STENO_OK;
}

void steno_diarizers_close(steno_diarizers *all)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    all->stop = true;
    pthread_cond_broadcast(&all->work);
    pthread_mutex_unlock(&all->lock);
    for (int i = 0; i < all->n_threads; i++)
        pthread_join(all->threads[i], NULL);
    free(all->threads);
    pthread_cond_destroy(&all->work);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* ---- one session ----------------------------------------------------------------------------- */

static bool take_place(steno_diarizers *all)
{
    bool free_place;
    pthread_mutex_lock(&all->lock);
    free_place = all->open < all->n_threads * STENO_DIARIZERS_PER_THREAD;
    all->open += free_place;
    pthread_mutex_unlock(&all->lock);
    return free_place;
}

static void give_place_back(steno_diarizers *all)
{
    pthread_mutex_lock(&all->lock);
    all->open--;
    pthread_mutex_unlock(&all->lock);
}

steno_status steno_diarizer_open(steno_diarizer **out, steno_diarizers *all, int rate,
                                 int max_speakers, const char *people, steno_diarizer_fn *fn,
                                 void *user, steno_err *err)
{
    steno_diarizer *d;
    steno_status st;
    if (!take_place(all))
        return steno_fail(err, STENO_ERR_BUSY,
                          "diarize: all places of speakers.threads are taken (%d for each)",
                          STENO_DIARIZERS_PER_THREAD);
    d = calloc(1, sizeof *d);
    if (d) {
        *d = (steno_diarizer){.all = all, .fn = fn, .user = user, .rate = rate};
        d->people = people ? strdup(people) : NULL;
        d->cap = BUFFER_SECONDS * (size_t)rate;
        d->ring = malloc(d->cap * sizeof *d->ring);
        d->piece = malloc((size_t)rate / 2 * sizeof *d->piece);
        pthread_mutex_init(&d->lock, NULL);
        pthread_cond_init(&d->drained, NULL);
    }
    st = d && d->ring && d->piece && (d->people || !people)
             ? steno_live_speakers_open(&d->live, all->speakers, rate, max_speakers, err)
             : steno_fail(err, STENO_ERR_NOMEM, "diarize: out of memory");
    if (st) {
        give_place_back(all);
        if (d)
            free_diarizer(d);
        return st;
    }
    steno_metric_add(all->stats->speakers_running, 1);
    *out = d;
    return STENO_OK;
}

void steno_diarizer_close(steno_diarizer *d)
{
    steno_diarizers *all;
    bool busy;
    if (!d)
        return;
    all = d->all;
    pthread_mutex_lock(&d->lock);
    d->closed = true;
    steno_metric_add(all->stats->speakers_audio, (double)d->done / d->rate);
    pthread_mutex_unlock(&d->lock);
    steno_metric_add(all->stats->speakers_running, -1);
    pthread_mutex_lock(&all->lock);
    for (steno_diarizer **p = &all->first; *p; p = &(*p)->next)
        if (*p == d) {
            *p = d->next;
            if (!*p)
                all->last = p;
            break;
        }
    busy = d->orphan = d->worked_on;
    all->open--;
    pthread_mutex_unlock(&all->lock);
    if (!busy)
        free_diarizer(d);
}

size_t steno_diarizer_room(steno_diarizer *d, size_t wanted)
{
    size_t room;
    pthread_mutex_lock(&d->lock);
    room = d->cap - d->n;
    d->wants_room |= room < wanted;
    pthread_mutex_unlock(&d->lock);
    return room < wanted ? room : wanted;
}

void steno_diarizer_push(steno_diarizer *d, const float *pcm, size_t n)
{
    bool due;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < n; i++)
        d->ring[(d->at + d->n + i) % d->cap] = pcm[i];
    d->n += n;
    due = d->n >= (size_t)d->rate / 2 || d->waiting.first;
    pthread_mutex_unlock(&d->lock);
    if (due)
        wake(d);
}

void steno_diarizer_restart(steno_diarizer *d)
{
    pthread_mutex_lock(&d->lock);
    d->stream = d->done + (int64_t)d->n;
    pthread_mutex_unlock(&d->lock);
}

void steno_diarizer_note(steno_diarizer *d, const struct steno_pool_note *note)
{
    const bool passes = note->kind == STENO_POOL_ROOM;
    bool queued = false;
    pthread_mutex_lock(&d->lock);
    if (!passes &&
        (d->waiting.first || (steno_note_is_event(note, STENO_FINAL) && *note->event->text)))
        queued = steno_note_queue_add(&d->waiting, 0, note);
    while (!queued && !passes && d->waiting.first) /* out of memory */
        pthread_cond_wait(&d->drained, &d->lock);
    if (!queued && !d->closed)
        d->fn(d->user, note, NULL);
    pthread_mutex_unlock(&d->lock);
    if (queued)
        wake(d);
}
