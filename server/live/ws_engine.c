/* How the session of a connection reaches the model: the pool's streams, their notes, the key's
 * quota and the decoder of containers (struct steno_ws_engine). */
#include "server/live/ws_internal.h"
#include "server/live/ws_turn.h"

#include "speech/audio/ogg_opus.h"
#include "base/clock.h"
#include "server/base/log.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct steno_ws_conn conn;

static void observe(conn *c, const struct steno_pool_note *note)
{
    struct steno_stats *st = c->ws->srv->stats;
    const struct steno_event *ev = note->event;
    char trace[33] = "";
    if (note->kind != STENO_POOL_EVENT)
        return;
    if (c->extra)
        (void)steno_trace_id(&c->extra->trace, trace);
    if (ev->kind == STENO_PARTIAL) {
        int64_t first = atomic_load_explicit(&c->first_audio_ns, memory_order_relaxed);
        if (!c->had_partial && first)
            steno_metric_observe_traced(st->first_partial, (double)(steno_now_ns() - first) * 1e-9,
                                        trace);
        c->had_partial = true;
        steno_metric_observe_traced(st->partial_latency, note->latency, trace);
    } else if (ev->kind == STENO_FINAL && ev->n_words) {
        steno_metric_observe_traced(st->final_latency, note->latency + ev->time - ev->end, trace);
    }
}

/* log.transcripts alone. */
static void log_final(const conn *c, unsigned channel, const struct steno_event *ev)
{
    const struct steno_log_field fields[] = {
        {"session_id", c->id, 0},
        {"channel", NULL, channel + 1},
        {"segment", NULL, (double)ev->segment},
        {"start", NULL, ev->start},
        {"end", NULL, ev->end},
        {"text", ev->text, 0},
    };
    steno_log_event(LOG_INFO, "transcript", STENO_LOG_FIELDS(fields), "%s: %s", c->id, ev->text);
}

static void pass_on(conn *c, unsigned channel, const struct steno_pool_note *note,
                    const struct steno_live_voices *voices)
{
    observe(c, note);
    if (c->ws->srv->conf->log_transcripts && note->kind == STENO_POOL_EVENT &&
        note->event->kind == STENO_FINAL)
        log_final(c, channel, note->event);
    if (steno_ws_session_note(c->session, channel, note, voices))
        steno_ws_conn_wake(c);
}

/* Runs on a worker of the pool, or on a thread of the diarizers. */
static void on_diarized(void *user, const struct steno_pool_note *note,
                        const struct steno_live_voices *voices)
{
    pass_on(user, 0, note, voices);
}

/* Words have their times. Runs on a worker of a pool. */
static void on_timed(void *user, unsigned channel, const struct steno_pool_note *note)
{
    conn *c = user;
    if (c->diarizer)
        steno_diarizer_note(c->diarizer, note);
    else
        pass_on(c, channel, note, NULL);
}

/* Runs on a worker of the pool. */
static void on_note(void *user, unsigned channel, const struct steno_pool_note *note)
{
    conn *c = user;
    if (c->words)
        steno_live_words_note(c->words, channel, note);
    else
        on_timed(c, channel, note);
}

static void on_warning(void *user, const char *text)
{
    const conn *c = user;
    steno_log(LOG_WARNING, "%s: %s", c->id, text);
    steno_ws_session_warn(c->session, text);
}

/* What the model takes of the hints. Clients of other dialects send texts to all models. */
static struct steno_hints hints_of(const conn *c, const struct steno_native_start *s,
                                   const struct steno_served *served)
{
    const struct steno_hints h = steno_hints_of(s->hints);
    struct steno_hints taken = steno_hints_taken(&h, &served->info);
    if (s->needs_hotwords)
        taken.hotwords = h.hotwords;
    return c->dialect == &steno_dialect_native ? h : taken;
}

static steno_status check_diarize(const conn *c, const struct steno_native_start *s, steno_err *err)
{
    if (!s->diarize)
        return STENO_OK;
    if (!c->dialect->diarizes)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "diarize: not on this path");
    if (!c->ws->diarizers)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, STENO_VOICES_MISSING);
    if (s->resumable && c->ws->sessions)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "diarize: not with resumable where another machine may go on with the "
                          "session");
    return STENO_OK;
}

/* Find the key that came in a message, where the handshake had none. */
static steno_status take_late_key(conn *c, struct steno_dialect_session *d, steno_err *err)
{
    struct steno_server *srv = c->ws->srv;
    steno_key *key;
    steno_status st;
    if (!c->late_key)
        return STENO_OK;
    st = steno_keys_find(srv->keys, *d->secret ? d->secret : NULL, &key, err);
    explicit_bzero(d->secret, strlen(d->secret));
    if (st) {
        steno_metric_add(srv->stats->sessions_rejected[STENO_REJECT_KEY], 1);
        steno_ws_session_reject(c->session, st, 1008, "invalid_api_key", err->msg);
        return st;
    }
    st = steno_key_enter(srv->keys, key, steno_now_ns(), &c->quota_wait, err);
    if (st) {
        steno_metric_add(srv->stats->sessions_rejected[STENO_REJECT_QUOTA], 1);
        steno_ws_session_reject(c->session, st, 1013, "quota_exceeded", err->msg);
        return st;
    }
    c->key = key;
    c->late_key = false;
    return STENO_OK;
}

/* The session's client may use the server, and it is known where its messages go. */
static steno_status admit_call(conn *c, struct steno_dialect_session *d, steno_err *err)
{
    steno_status st = take_late_key(c, d, err);
    if (!st && d->posted && !c->call)
        st = steno_call_hook_begin(&c->call, c->ws->calls, c->id, d->callback, err);
    return st;
}

/* What is spoken, as far as it is known before. */
static const char *language_of(const conn *c, const struct steno_native_start *s)
{
    const char *asked = hints_of(c, s, c->served).language;
    return asked && *asked ? asked : c->served->info.language;
}

static steno_status engine_resolve(void *ctx, struct steno_dialect_session *d, steno_err *err)
{
    conn *c = ctx;
    struct steno_native_start *s = &d->start;
    struct steno_hints hints;
    steno_status st = admit_call(c, d, err);
    if (!st)
        st = check_diarize(c, s, err);
    if (st)
        return st;
    st = steno_models_acquire(c->ws->srv->models, s->model, &s->options, &c->served, err);
    if (st == STENO_ERR_BUSY && !c->dialect->waits)
        steno_metric_add(c->ws->srv->stats->sessions_rejected[STENO_REJECT_LOADING], 1);
    if (st)
        return steno_fail_in(err, st, "model");
    hints = hints_of(c, s, c->served);
    st = steno_hint_check(s->hints, &hints, &c->served->info, err);
    if (!st && s->aligned && !c->aligner)
        st = steno_models_acquire_aligner(c->ws->srv->models, language_of(c, s), &c->aligner, err);
    if (st)
        return st;
    snprintf(s->model, sizeof s->model, "%s", c->served->name);
    steno_options_set_variant(&s->options, &c->served->options);
    s->resume_seconds = c->ws->srv->conf->ws_resume;
    d->model_version = c->served->info.version;
    d->model_family = c->served->info.family;
    d->judges_turns = c->ws->srv->turn != NULL;
    d->model_language = c->served->info.language;
    if (s->audio.encoding == STENO_ENCODING_OPUS && !s->audio.sample_rate)
        s->audio.sample_rate = steno_opus_rate_for(c->served->info.sample_rate);
    return STENO_OK;
}

/* It stays for further streams of the session, so that speakers keep their numbers. */
static steno_status open_diarizer(conn *c, const struct steno_native_start *s, int rate,
                                  steno_err *err)
{
    const struct steno_server *srv = c->ws->srv;
    char people[PATH_MAX];
    steno_status st;
    if (!s->diarize)
        return STENO_OK;
    if (c->diarizer) {
        steno_diarizer_restart(c->diarizer);
        return STENO_OK;
    }
    st = steno_server_enrolled_dir(srv, c->key, people, err);
    return st ? st
              : steno_diarizer_open(&c->diarizer, c->ws->diarizers, rate, s->max_speakers,
                                    *srv->conf->speakers_store ? people : NULL, on_diarized, c,
                                    err);
}

static steno_status open_words(conn *c, const struct steno_native_start *s, steno_err *err)
{
    const struct steno_live_words_options o = {.srv = c->ws->srv,
                                               .served = c->served,
                                               .language = language_of(c, s),
                                               .owner = steno_key_owner(c->key),
                                               .rate = c->rate,
                                               .channels = c->channels,
                                               .fn = on_timed,
                                               .warn = on_warning,
                                               .user = c};
    struct steno_served *aligner = c->aligner;
    c->aligner = NULL;
    return s->aligned ? steno_live_words_open(&c->words, &o, aligner, err) : STENO_OK;
}

static steno_status engine_open(void *ctx, const struct steno_native_start *s, int rate,
                                steno_err *err)
{
    conn *c = ctx;
    struct steno_pool_stream_options opt = {
        .stream = {.sample_rate = rate,
                   .no_endpointing = !s->endpointing,
                   .no_partials = !s->interim,
                   .no_tail = s->no_tail,
                   .beam = s->beam,
                   .n_best = s->alternatives,
                   .hints = hints_of(c, s, c->served),
                   .no_word_times = !s->words && !s->diarize,
                   .turn_vad = c->ws->srv->vad_net,
                   .utterance_end = s->utterance_end,
                   .endpoint = s->endpoint},
        .priority = STENO_POOL_LIVE,
        .owner = steno_key_owner(c->key),
        .progress = s->progress,
        .filters = steno_hint_filters(s->hints),
    };
    struct steno_options options = s->options;
    struct steno_option_list list;
    char *vocabulary;
    steno_status st =
        steno_config_search(c->ws->srv->conf, c->served->family, &options, &opt.stream, err);
    steno_options_list(&options, STENO_OPTION_OF_STREAM, &list);
    opt.stream.options = list.v;
    opt.stream.n_options = list.n;
    if (!st)
        st = steno_server_vad(c->ws->srv, s->vad, &opt.stream.vad, err);
    if (!st)
        st = steno_ws_turn(c->ws->srv, s, &opt, err);
    if (st)
        return st;
    c->rate = rate;
    c->channels = s->multichannel ? (unsigned)s->audio.channels : 1;
    st = open_diarizer(c, s, rate, err);
    if (!st)
        st = open_words(c, s, err);
    if (!st)
        st = steno_keys_vocabulary(c->ws->srv->keys, c->key, &vocabulary, err);
    if (st)
        return st;
    opt.vocabulary = vocabulary;
    st = steno_channels_open(&c->stream, c->served->pool, &opt, c->channels, on_note, c, err);
    free(vocabulary);
    if (st == STENO_ERR_BUSY)
        steno_metric_add(c->ws->srv->stats->sessions_rejected[STENO_REJECT_CAPACITY], 1);
    return st;
}

static steno_status engine_room(void *ctx, size_t least, size_t most, float **to, size_t *room,
                                steno_err *err)
{
    conn *c = ctx;
    *room = 0;
    if (c->diarizer)
        most = steno_diarizer_room(c->diarizer, most);
    return most < least ? STENO_OK : steno_channels_room(c->stream, least, most, to, room, err);
}

static steno_status engine_add(void *ctx, const float *pcm, size_t n, steno_err *err)
{
    conn *c = ctx;
    if (n && !atomic_load_explicit(&c->first_audio_ns, memory_order_relaxed))
        atomic_store_explicit(&c->first_audio_ns, steno_now_ns(), memory_order_relaxed);
    if (c->words)
        steno_live_words_push(c->words, pcm, n);
    if (c->diarizer)
        steno_diarizer_push(c->diarizer, pcm, n);
    steno_channels_add(c->stream, n);
    return steno_key_audio(c->ws->srv->keys, c->key, steno_now_ns(),
                           (double)n * c->channels / c->rate, &c->quota_wait, err);
}

static steno_status engine_finalize(void *ctx, steno_err *err)
{
    return steno_channels_finalize(((conn *)ctx)->stream, err);
}

static void engine_end(void *ctx)
{
    steno_channels_end(((conn *)ctx)->stream);
}

static double engine_come_back(void *ctx)
{
    const conn *c = ctx;
    return c->quota_wait > 0 ? c->quota_wait
                             : steno_limits_come_back(c->ws->srv->limits, steno_now_ns());
}

static steno_status
engine_each_model(void *ctx, steno_status (*see)(void *user, const struct steno_dialect_model *m),
                  void *user)
{
    struct steno_model_slot *slot;
    steno_status st = STENO_OK;
    for (size_t i = 0; !st && (slot = steno_models_slot(((conn *)ctx)->ws->srv->models, i)); i++) {
        struct steno_model_view v;
        steno_model_slot_view(slot, &v);
        if (!v.is_variant)
            st = see(user, &(struct steno_dialect_model){v.name, v.family, v.version, v.license,
                                                         *v.languages ? v.languages : v.language});
    }
    return st;
}

static steno_status engine_check(void *ctx, const struct steno_native_start *s, char *model,
                                 steno_err *err)
{
    conn *c = ctx;
    struct steno_served *served;
    struct steno_hints hints;
    steno_status st = steno_models_acquire(c->ws->srv->models, s->model, &s->options, &served, err);
    if (st)
        return steno_fail_in(err, st, "model");
    snprintf(model, STENO_NATIVE_MODEL_BYTES, "%s", served->name);
    hints = hints_of(c, s, served);
    st = steno_hint_check(s->hints, &hints, &served->info, err);
    steno_models_release(c->ws->srv->models, served);
    return st;
}

static void engine_cancel(void *ctx)
{
    steno_channels_cancel(((conn *)ctx)->stream);
}

void steno_ws_close_stream(conn *c)
{
    struct steno_pool_stream_stats s;
    steno_channels_get_stats(c->stream, &s);
    if (c->stream)
        steno_pool_stream_stats_add(&c->past, &s);
    steno_channels_close(c->stream);
    c->stream = NULL;
    steno_live_words_close(c->words, &c->past);
    c->words = NULL;
    steno_models_release(c->ws->srv->models, c->aligner);
    c->aligner = NULL;
}

static void engine_close(void *ctx)
{
    conn *c = ctx;
    steno_ws_close_stream(c);
    steno_models_release(c->ws->srv->models, c->served);
    c->served = NULL;
}

/* Runs on the waker's thread. */
static void on_decoded(void *user)
{
    conn *c = user;
    steno_ws_session_decoded(c->session);
    steno_ws_conn_wake(c);
}

static steno_status engine_decode(void *ctx, const struct steno_container_options *o,
                                  unsigned channel, steno_feed **out, steno_err *err)
{
    conn *c = ctx;
    struct steno_container_options own = *o;
    int readable, writable;
    steno_feed *feed = NULL;
    steno_status st;
    own.decoders = c->ws->srv->decoders;
    st = steno_feed_open_container(&feed, &own, channel, err);
    if (st)
        return st;
    steno_feed_descriptors(feed, &readable, &writable);
    c->decoding = steno_waker_watch(c->ws->srv->waker, readable, writable, on_decoded, c);
    if (!c->decoding) {
        steno_feed_close(feed);
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    }
    *out = feed;
    return STENO_OK;
}

static const struct steno_ws_storage *engine_store(void *ctx, void **place)
{
    conn *c = ctx;
    if (!c->ws->sessions)
        return NULL;
    *place = steno_stored_session_new(c->ws->sessions, c->id, steno_key_name(c->key),
                                      steno_ws_conn_wake, c);
    return *place ? &steno_session_storage : NULL;
}

const struct steno_ws_engine steno_ws_engine = {.resolve = engine_resolve,
                                                .open = engine_open,
                                                .room = engine_room,
                                                .add = engine_add,
                                                .finalize = engine_finalize,
                                                .end = engine_end,
                                                .come_back = engine_come_back,
                                                .each_model = engine_each_model,
                                                .check = engine_check,
                                                .cancel = engine_cancel,
                                                .close = engine_close,
                                                .decode = engine_decode,
                                                .store = engine_store};
