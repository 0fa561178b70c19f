/* A user who streams the recording over a WebSocket, in real time or as fast as the server
 * reads. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "loadtest/support/load.h"

#define AHEAD (256 << 10) /* --fast: bytes that may wait to be sent */
#define RETRY_NS 5000000

static double ms_since(int64_t ns)
{
    return (double)(steno_now_ns() - ns) * 1e-6;
}

static size_t chunk_samples(const struct load_user *u)
{
    return clip_chunk(u->clip, u->run->plan->chunk_ms);
}

/* When the chunk with this time of the stream was sent; 0: not yet. */
static int64_t sent_at(const struct load_user *u, double seconds)
{
    double sample = seconds * u->clip->rate;
    size_t i = sample > 0 ? (size_t)sample : 0;
    if (i >= u->clip->samples)
        i = u->clip->samples - 1;
    return i < u->sent ? u->sent_ns[i / chunk_samples(u)] : 0;
}

/* ---- receiving ---------------------------------------------------------------------------- */

/* Check that the text of a result begins with what the segment's last partial declared stable.
 * Then keep what this one declares; a final declares nothing. */
static void check_stable(struct load_user *u, const json_t *msg)
{
    const char *text = json_string_value(json_object_get(msg, "text"));
    const char *stable = json_string_value(json_object_get(msg, "stable"));
    int64_t segment = json_integer_value(json_object_get(msg, "segment"));
    size_t n = u->stable.len;
    if (segment == u->stable_segment && n && (!text || strncmp(text, u->stable.data, n) != 0)) {
        u->error = true;
        load_complain(u, "stable text was taken back:");
        load_complain(u, u->stable.data);
        load_complain(u, text ? text : "no text");
    }
    steno_buf_reset(&u->stable);
    u->stable_segment = segment;
    if (stable && steno_buf_printf(&u->stable, "%s", stable) != STENO_OK)
        u->error = true;
}

static void measure_words(struct load_user *u, const json_t *msg)
{
    const json_t *words = json_object_get(msg, "words");
    int64_t segment = json_integer_value(json_object_get(msg, "segment"));
    size_t n = json_array_size(words);
    if (segment != u->segment) {
        u->segment = segment;
        u->known_words = 0;
    }
    for (size_t i = u->known_words; i < n; i++) {
        int64_t at =
            sent_at(u, json_number_value(json_object_get(json_array_get(words, i), "end")));
        if (at)
            histogram_add(&u->run->word, ms_since(at));
    }
    if (n > u->known_words)
        u->known_words = n;
}

static void on_partial(struct load_user *u, const json_t *msg)
{
    double processed = ((double)json_integer_value(json_object_get(msg, "audio_ms")) - 1) * 1e-3;
    int64_t at = sent_at(u, processed);
    if (u->run->plan->fast)
        return;
    if (!u->had_partial)
        histogram_add(&u->run->first, ms_since(u->t0_ns));
    u->had_partial = true;
    if (at)
        histogram_add(&u->run->partial, ms_since(at));
    measure_words(u, msg);
}

static void on_final(struct load_user *u, const json_t *msg)
{
    const char *text = json_string_value(json_object_get(msg, "text"));
    double processed = ((double)json_integer_value(json_object_get(msg, "audio_ms")) - 1) * 1e-3;
    int64_t at = u->end_ns ? u->end_ns : sent_at(u, processed);
    if (at && !u->run->plan->fast) {
        histogram_add(&u->run->final, ms_since(at));
        measure_words(u, msg);
    }
    if (text && *text &&
        steno_buf_printf(&u->said, "%s%s", u->said.len ? " " : "", text) != STENO_OK)
        u->error = true;
}

static void on_message(void *user, const char *text, size_t n)
{
    struct load_user *u = user;
    json_t *msg = json_loadb(text, n, 0, NULL);
    const char *type = json_string_value(json_object_get(msg, "type"));
    if (!type) {
        u->error = true;
    } else if (!strcmp(type, "partial")) {
        check_stable(u, msg);
        on_partial(u, msg);
    } else if (!strcmp(type, "final")) {
        check_stable(u, msg);
        on_final(u, msg);
    } else if (!strcmp(type, "ready")) {
        u->ready = true;
        u->t0_ns = steno_now_ns();
        load_at(u, u->t0_ns);
    } else if (!strcmp(type, "error")) {
        u->error = true;
        u->retry_after = (int)json_integer_value(json_object_get(msg, "retry_after"));
        load_complain(u, text);
    }
    json_decref(msg);
}

/* ---- sending ------------------------------------------------------------------------------ */

static void over(struct load_user *u, bool dropped)
{
    const struct load_ws *w = &u->ws;
    enum load_outcome how = LOAD_FAILED;
    char what[160];
    if (dropped)
        how = LOAD_DROPPED;
    else if (w->http_status == 503 || w->http_status == 429 || w->close_code == 1013)
        how = LOAD_REFUSED;
    else if (!u->error && w->close_code == 1000)
        how = LOAD_OK;
    if (how == LOAD_FAILED) {
        snprintf(what, sizeof what, "ended: handshake %d, close %d %.100s", w->http_status,
                 w->close_code, w->close_reason);
        load_complain(u, what);
    }
    if (how == LOAD_OK && !u->run->plan->fast)
        histogram_add(&u->run->answer, u->end_ns ? ms_since(u->end_ns) : 0);
    if (u->ready)
        u->run->audio_seconds += (double)u->sent / u->clip->rate;
    u->run->refused_late += how == LOAD_REFUSED && w->close_code == 1013;
    if (w->retry_after)
        u->retry_after = w->retry_after;
    load_ws_close(&u->ws);
    load_session_over(u, how);
}

static void pump(struct load_user *u)
{
    load_ws_pump(&u->ws, on_message, u);
    if (u->ws.phase == LOAD_WS_CLOSED)
        over(u, false);
    else
        load_watch(u, u->ws.fd, u->watched, load_ws_wants_out(&u->ws));
}

static void begin(struct load_user *u)
{
    const struct load_plan *p = u->run->plan;
    char start[1024], head[512] = "";
    steno_err err = {0};
    u->ready = u->error = u->had_partial = false;
    u->sent = u->known_words = 0;
    u->retry_after = 0;
    u->segment = u->stable_segment = -1;
    steno_buf_reset(&u->stable);
    u->end_ns = u->dropped_at = 0;
    if (p->drop_percent && rand() % 100 < p->drop_percent)
        u->dropped_at = 1 + (int64_t)((size_t)rand() % u->clip->samples);
    if (p->key)
        snprintf(head, sizeof head, "Authorization: Bearer %s\r\n", p->key);
    snprintf(start, sizeof start, "{\"type\":\"start\",\"encoding\":\"%s\",\"sample_rate\":%d%s%s}",
             u->clip->encoding, u->clip->rate, *p->start ? "," : "", p->start);
    if (load_ws_open(&u->ws, &p->url, head, &err) || load_ws_send_text(&u->ws, start)) {
        load_complain(u, err.msg);
        u->ws.close_code = 1006;
        over(u, false);
        return;
    }
    u->watched = 0;
    pump(u); /* the request goes out with the first packet after the SYN, as a browser's does */
}

/* Opus: each packet is a message. */
static void send_packets(struct load_user *u, size_t n)
{
    const struct clip *c = u->clip;
    for (size_t i = u->sent / c->packet_samples; i < (u->sent + n) / c->packet_samples; i++)
        if (load_ws_send_binary(&u->ws, c->data.data + c->packets[i],
                                c->packets[i + 1] - c->packets[i]))
            u->error = true;
}

/* Send one chunk; the first includes the header of a WAV. */
static void send_chunk(struct load_user *u, size_t n)
{
    const struct clip *c = u->clip;
    size_t from = u->sent ? c->header + u->sent * c->frame : 0;
    size_t to = c->header + (u->sent + n) * c->frame;
    if (c->packets)
        send_packets(u, n);
    else if (load_ws_send_binary(&u->ws, c->data.data + from, to - from))
        u->error = true;
    u->sent_ns[u->sent / chunk_samples(u)] = steno_now_ns();
    u->sent += n;
}

/* Send what is due; false if this user hangs up. */
static bool send_due(struct load_user *u, int64_t now)
{
    const struct clip *c = u->clip;
    size_t step = chunk_samples(u);
    while (u->sent < c->samples) {
        size_t n = c->samples - u->sent < step ? c->samples - u->sent : step;
        int64_t due = u->t0_ns + (int64_t)(u->sent + n) * 1000000000 / c->rate;
        if (u->dropped_at && (int64_t)u->sent >= u->dropped_at)
            return false;
        if (u->run->plan->fast && u->ws.out.len > AHEAD) {
            load_at(u, now + RETRY_NS);
            return true;
        }
        if (!u->run->plan->fast && due > now) {
            load_at(u, due);
            return true;
        }
        if (!u->run->plan->fast)
            histogram_add(&u->run->late, (double)(now - due) * 1e-6);
        send_chunk(u, n);
    }
    if (!u->end_ns) {
        u->end_ns = steno_now_ns();
        if (load_ws_send_text(&u->ws, "{\"type\":\"end\"}"))
            u->error = true;
    }
    return true;
}

static void due(struct load_user *u, int64_t now)
{
    if (!u->ready)
        return;
    if (send_due(u, now))
        pump(u);
    else
        over(u, true);
}

static void idle(struct load_user *u)
{
    (void)u; /* its socket is closed */
}

static void cut(struct load_user *u)
{
    over(u, true);
}

static void release(struct load_user *u)
{
    if (u->ws.fd >= 0)
        load_ws_close(&u->ws);
}

const struct load_kind load_streams = {begin, due, pump, idle, cut, release};
