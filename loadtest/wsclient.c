/* Streams a recording to a server as a microphone would, prints every answer as it comes, and then
 * the latency of the words.
 *
 *     wsclient --url ws://127.0.0.1:8080/v1/stream [--chunk-ms 100] [--fast] [--raw] FILE.wav
 *
 * A chunk is sent when its last sample would have been recorded. The latency of a word is the time
 * from sending the chunk in which the word ends to the arrival of the first answer that contains
 * the word. That of a final after `end` counts from sending `end`. */
#include <getopt.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "loadtest/support/histogram.h"
#include "loadtest/support/recording.h"
#include "loadtest/support/ws_client.h"

struct client {
    struct load_ws ws;
    struct recording rec;
    int chunk_ms;
    bool fast, raw;
    int64_t t0;             /* ns: start of the recording */
    size_t sent;            /* samples */
    int64_t *chunk_sent_ns; /* when chunk i was sent */
    size_t n_chunks;
    int64_t end_ns;
    size_t known_words; /* of the current segment */
    int64_t segment;
    struct histogram words, finals;
    bool ready, failed;
    int n_partials, n_finals;
};

static double since_start(const struct client *c)
{
    return (double)(steno_now_ns() - c->t0) * 1e-9;
}

static size_t chunk_samples(const struct client *c)
{
    return (size_t)c->rec.rate * (size_t)c->chunk_ms / 1000;
}

/* Record the latency of words that this answer is the first to contain. */
static void measure_words(struct client *c, const json_t *msg)
{
    const json_t *words = json_object_get(msg, "words");
    int64_t segment = json_integer_value(json_object_get(msg, "segment")), now = steno_now_ns();
    size_t n = json_array_size(words);
    if (segment != c->segment) {
        c->segment = segment;
        c->known_words = 0;
    }
    for (size_t i = c->known_words; i < n; i++) {
        double end = json_number_value(json_object_get(json_array_get(words, i), "end"));
        size_t chunk = (size_t)(end * c->rec.rate) / chunk_samples(c);
        if (chunk >= c->n_chunks)
            chunk = c->n_chunks - 1;
        if (c->chunk_sent_ns[chunk])
            histogram_add(&c->words, (double)(now - c->chunk_sent_ns[chunk]) * 1e-6);
    }
    if (n > c->known_words)
        c->known_words = n;
}

static void print_final(const struct client *c, const json_t *msg)
{
    const json_t *words = json_object_get(msg, "words"), *w;
    size_t i;
    printf("%7.2f s  final    %s   (%s, confidence %.2f)\n", since_start(c),
           json_string_value(json_object_get(msg, "text")),
           json_string_value(json_object_get(msg, "reason")),
           json_number_value(json_object_get(msg, "confidence")));
    json_array_foreach (words, i, w)
        printf("%20s%6.2f -%6.2f  %-12s %.2f\n", "", json_number_value(json_object_get(w, "start")),
               json_number_value(json_object_get(w, "end")),
               json_string_value(json_object_get(w, "word")),
               json_number_value(json_object_get(w, "confidence")));
}

static void on_message(void *user, const char *text, size_t n)
{
    struct client *c = user;
    json_t *msg = json_loadb(text, n, 0, NULL);
    const char *type = json_string_value(json_object_get(msg, "type"));
    if (c->raw)
        printf("%s\n", text);
    if (!type) {
        c->failed = true;
    } else if (!strcmp(type, "ready")) {
        c->ready = true;
    } else if (!strcmp(type, "partial")) {
        c->n_partials++;
        measure_words(c, msg);
        if (!c->raw)
            printf("%7.2f s  partial  %s\n", since_start(c),
                   json_string_value(json_object_get(msg, "text")));
    } else if (!strcmp(type, "final")) {
        c->n_finals++;
        measure_words(c, msg);
        if (c->end_ns)
            histogram_add(&c->finals, (double)(steno_now_ns() - c->end_ns) * 1e-6);
        if (!c->raw)
            print_final(c, msg);
    } else if (!strcmp(type, "error")) {
        c->failed = true;
        fprintf(stderr, "wsclient: error %s: %s\n", json_string_value(json_object_get(msg, "code")),
                json_string_value(json_object_get(msg, "message")));
    }
    fflush(stdout);
    json_decref(msg);
}

/* Send what is due; returns ms until the next chunk is due. */
static int send_due(struct client *c)
{
    size_t step = chunk_samples(c);
    while (c->sent < c->rec.n) {
        size_t n = c->rec.n - c->sent < step ? c->rec.n - c->sent : step;
        int64_t due = c->t0 + (int64_t)(c->sent + n) * 1000000000 / c->rec.rate,
                now = steno_now_ns();
        if (!c->fast && due > now)
            return (int)((due - now) / 1000000) + 1;
        if (c->ws.out.len > 1 << 20) /* as fast as the server reads */
            return 1000;
        c->chunk_sent_ns[c->sent / step] = now;
        if (load_ws_send_binary(&c->ws, c->rec.pcm + c->sent, n * sizeof *c->rec.pcm))
            c->failed = true;
        c->sent += n;
    }
    if (!c->end_ns) {
        c->end_ns = steno_now_ns();
        if (load_ws_send_text(&c->ws, "{\"type\":\"end\"}"))
            c->failed = true;
    }
    return 1000;
}

static void summary(struct client *c)
{
    printf("\n%.2f s of audio in chunks of %d ms%s: %d partials, %d finals\n",
           recording_seconds(&c->rec), c->chunk_ms, c->fast ? ", as fast as it goes" : "",
           c->n_partials, c->n_finals);
    if (c->words.n && !c->fast)
        printf("latency of partials (end of a word's chunk sent -> word shown): "
               "p50 %.0f ms, p95 %.0f ms, max %.0f ms, %zu words\n",
               histogram_quantile(&c->words, 0.5), histogram_quantile(&c->words, 0.95),
               histogram_quantile(&c->words, 1.0), c->words.n);
    if (c->finals.n)
        printf("latency of the last final (end sent -> final): %.0f ms\n",
               histogram_quantile(&c->finals, 1.0));
}

static int run(struct client *c, const struct load_url *u)
{
    steno_err err;
    char start[128];
    if (load_ws_open(&c->ws, u, "", &err)) {
        fprintf(stderr, "wsclient: %s\n", err.msg);
        return EX_UNAVAILABLE;
    }
    snprintf(start, sizeof start, "{\"type\":\"start\",\"encoding\":\"s16le\",\"sample_rate\":%d}",
             c->rec.rate);
    if (load_ws_send_text(&c->ws, start))
        return EX_OSERR;
    while (c->ws.phase != LOAD_WS_CLOSED) {
        struct pollfd p = {c->ws.fd, load_ws_events(&c->ws), 0};
        int wait = 1000;
        if (c->ready) {
            if (!c->t0)
                c->t0 = steno_now_ns();
            wait = send_due(c);
            p.events = load_ws_events(&c->ws);
        }
        poll(&p, 1, wait);
        load_ws_pump(&c->ws, on_message, c);
    }
    if (c->ws.close_code != 1000) {
        fprintf(stderr, "wsclient: closed with %d %s%s\n", c->ws.close_code, c->ws.close_reason,
                c->ws.phase == LOAD_WS_CLOSED && !c->ready ? " (before ready)" : "");
        return EX_UNAVAILABLE;
    }
    summary(c);
    return c->failed ? EX_UNAVAILABLE : 0;
}

static void usage(FILE *out)
{
    fputs(
        "usage: wsclient --url ws://HOST:PORT/v1/stream [--chunk-ms N] [--fast] [--raw] FILE.wav\n"
        "  --chunk-ms N  audio per message, default 100\n"
        "  --fast        do not wait for real time\n"
        "  --raw         print the server's messages as they are\n",
        out);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"url", 1, 0, 'u'},  {"chunk-ms", 1, 0, 'c'},
                                            {"fast", 0, 0, 'f'}, {"raw", 0, 0, 'r'},
                                            {"help", 0, 0, 'h'}, {0, 0, 0, 0}};
    static struct client c = {.chunk_ms = 100, .segment = -1};
    const char *url = NULL;
    struct load_url u;
    steno_err err;
    int opt, rc;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (opt) {
        case 'u':
            url = optarg;
            break;
        case 'c':
            c.chunk_ms = (int)strtol(optarg, NULL, 10);
            break;
        case 'f':
            c.fast = true;
            break;
        case 'r':
            c.raw = true;
            break;
        case 'h':
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return EX_USAGE;
        }
    if (!url || optind != argc - 1 || c.chunk_ms < 1 || c.chunk_ms > 60000) {
        usage(stderr);
        return EX_USAGE;
    }
    if (load_url_parse(&u, url, &err) || recording_read(&c.rec, argv[optind], &err)) {
        fprintf(stderr, "wsclient: %s\n", err.msg);
        return EX_NOINPUT;
    }
    c.n_chunks = c.rec.n / chunk_samples(&c) + 1;
    c.chunk_sent_ns = calloc(c.n_chunks, sizeof *c.chunk_sent_ns);
    if (!c.chunk_sent_ns)
        return EX_OSERR;
    rc = run(&c, &u);
    load_ws_close(&c.ws);
    free(c.chunk_sent_ns);
    recording_free(&c.rec);
    return rc;
}
