/* Many streams at the pace of real time, one thread, and how late the server's answers are.
 *
 *     wsload --url ws://127.0.0.1:8080/v1/stream --streams 64 --repeat 5 --expect "one two" \
 *            --pid $(pidof stenod) --json out.json FILE.wav
 *
 * Each stream says the recording --repeat times with --gap-ms of silence between, starting at its
 * own moment (--ramp-ms apart), in chunks of --chunk-ms, each sent when its last sample would have
 * been recorded. What is measured, in ms:
 * - word: from sending the chunk in which a word ends to the first answer that has the word
 * - answer: from sending the chunk that a partial's or final's audio_ms lies in to its arrival: the
 *   time audio spends in the server, whatever was said
 * - final: from sending `end` to the last final
 * A chunk that leaves late (this program was not scheduled) counts from when it really left, and
 * the worst lateness is reported. */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "loadtest/support/process.h"
#include "loadtest/support/recording.h"
#include "loadtest/support/samples.h"
#include "loadtest/support/ws_client.h"

#define TICK_MS 2

struct load;

struct stream {
    struct load *load;
    struct load_ws ws;
    bool ready, ended, over, error;
    int64_t open_ns, t0, end_ns;
    size_t sent, chunk; /* samples, chunks */
    int64_t *sent_ns;   /* per chunk */
    int64_t segment;
    size_t known_words;
    struct steno_buf said;
};

struct load {
    const char *url_text, *expect, *json, *start_extra;
    struct load_url url;
    struct recording rec; /* with its gap, once */
    int streams, repeat, chunk_ms, gap_ms, ramp_ms, pid;
    size_t total, step, n_chunks;
    struct stream *s;
    int epoll;
    struct samples word, answer, final, late;
    int done, errors, wrong, refused;
    double audio_seconds;
};

static double ms_since(int64_t ns)
{
    return (double)(steno_now_ns() - ns) * 1e-6;
}

/* When the chunk with this moment of the stream left; 0 = it has not. */
static int64_t sent_at(const struct stream *s, double seconds)
{
    size_t i = (size_t)(seconds * s->load->rec.rate) / s->load->step;
    return s->sent_ns[i < s->load->n_chunks ? i : s->load->n_chunks - 1];
}

static void measure(struct stream *s, const json_t *msg)
{
    const json_t *words = json_object_get(msg, "words");
    int64_t segment = json_integer_value(json_object_get(msg, "segment")), at;
    size_t n = json_array_size(words);
    if (segment != s->segment) {
        s->segment = segment;
        s->known_words = 0;
    }
    for (size_t i = s->known_words; i < n; i++) {
        at = sent_at(s, json_number_value(json_object_get(json_array_get(words, i), "end")));
        if (at)
            samples_add(&s->load->word, ms_since(at));
    }
    if (n > s->known_words)
        s->known_words = n;
    at = sent_at(s, ((double)json_integer_value(json_object_get(msg, "audio_ms")) - 1) * 1e-3);
    if (at)
        samples_add(&s->load->answer, ms_since(at));
}

static void on_final(struct stream *s, const json_t *msg)
{
    const char *text = json_string_value(json_object_get(msg, "text"));
    if (s->end_ns)
        samples_add(&s->load->final, ms_since(s->end_ns));
    if (text && *text &&
        steno_buf_printf(&s->said, "%s%s", s->said.len ? " " : "", text) != STENO_OK)
        s->error = true;
}

static void on_message(void *user, const char *text, size_t n)
{
    struct stream *s = user;
    json_t *msg = json_loadb(text, n, 0, NULL);
    const char *type = json_string_value(json_object_get(msg, "type"));
    if (!type) {
        s->error = true;
    } else if (!strcmp(type, "ready")) {
        s->ready = true;
        s->t0 = steno_now_ns();
    } else if (!strcmp(type, "partial")) {
        measure(s, msg);
    } else if (!strcmp(type, "final")) {
        measure(s, msg);
        on_final(s, msg);
    } else if (!strcmp(type, "error")) {
        s->error = true;
        fprintf(stderr, "wsload: %s\n", text);
    }
    json_decref(msg);
}

static void watch(struct stream *s)
{
    struct epoll_event e = {.events = EPOLLIN | (s->ws.out.len ? EPOLLOUT : 0u), .data.ptr = s};
    epoll_ctl(s->load->epoll, EPOLL_CTL_MOD, s->ws.fd, &e);
}

/* True when all that was expected was said. */
static bool right(const struct stream *s)
{
    const char *p = s->said.data ? s->said.data : "", *want = s->load->expect;
    size_t n = want ? strlen(want) : 0;
    if (!want)
        return true;
    for (int i = 0; i < s->load->repeat; i++) {
        if (strncmp(p, want, n) != 0 || (p[n] && p[n] != ' '))
            return false;
        p += n + (p[n] == ' ');
    }
    return !*p;
}

static void finish(struct stream *s)
{
    struct load *l = s->load;
    s->over = true;
    l->done++;
    if (s->ws.http_status && s->ws.http_status != 101)
        l->refused++;
    else if (s->error || s->ws.close_code != 1000)
        l->errors++;
    else if (!right(s)) {
        l->wrong++;
        if (l->wrong <= 3)
            fprintf(stderr, "wsload: wrong transcript: %s\n", s->said.data ? s->said.data : "");
    }
    l->audio_seconds += (double)s->sent / l->rec.rate;
    load_ws_close(&s->ws);
}

static void pump(struct stream *s)
{
    load_ws_pump(&s->ws, on_message, s);
    if (s->ws.phase == LOAD_WS_CLOSED)
        finish(s);
    else
        watch(s);
}

static void begin(struct stream *s)
{
    struct load *l = s->load;
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = s};
    char start[512];
    steno_err err;
    snprintf(start, sizeof start,
             "{\"type\":\"start\",\"encoding\":\"s16le\",\"sample_rate\":%d%s}", l->rec.rate,
             l->start_extra);
    s->open_ns = steno_now_ns();
    s->segment = -1;
    steno_buf_init(&s->said, 1 << 20);
    if (load_ws_open(&s->ws, &l->url, &err) || load_ws_send_text(&s->ws, start) ||
        epoll_ctl(l->epoll, EPOLL_CTL_ADD, s->ws.fd, &e)) {
        fprintf(stderr, "wsload: %s\n", err.msg);
        s->over = s->error = true;
        l->done++;
        l->errors++;
    }
}

static void send_due(struct stream *s, int64_t now)
{
    struct load *l = s->load;
    while (s->sent < l->total) {
        size_t at = s->sent % l->rec.n,
               n = l->total - s->sent < l->step ? l->total - s->sent : l->step;
        int64_t due;
        if (n > l->rec.n - at) /* chunks don't cross the end of the recording */
            n = l->rec.n - at;
        due = s->t0 + (int64_t)(s->sent + n) * 1000000000 / l->rec.rate;
        if (due > now)
            return;
        samples_add(&l->late, (double)(now - due) * 1e-6);
        if (load_ws_send_binary(&s->ws, l->rec.pcm + at, n * sizeof *l->rec.pcm))
            s->error = true;
        for (size_t i = s->sent / l->step; i <= (s->sent + n - 1) / l->step; i++)
            s->sent_ns[i] = steno_now_ns();
        s->sent += n;
    }
    if (!s->end_ns) {
        s->end_ns = steno_now_ns();
        if (load_ws_send_text(&s->ws, "{\"type\":\"end\"}"))
            s->error = true;
    }
}

static void loop(struct load *l)
{
    int64_t t0 = steno_now_ns();
    int opened = 0;
    while (l->done < l->streams) {
        struct epoll_event ev[256];
        int n = epoll_wait(l->epoll, ev, 256, TICK_MS);
        int64_t now = steno_now_ns();
        for (int i = 0; i < n; i++)
            if (!((struct stream *)ev[i].data.ptr)->over)
                pump(ev[i].data.ptr);
        while (opened < l->streams && now >= t0 + (int64_t)opened * l->ramp_ms * 1000000)
            begin(&l->s[opened++]);
        for (int i = 0; i < opened; i++)
            if (l->s[i].ready && !l->s[i].over && !l->s[i].end_ns) {
                size_t before = l->s[i].sent;
                send_due(&l->s[i], now);
                if (l->s[i].sent != before || l->s[i].end_ns)
                    pump(&l->s[i]);
            }
    }
}

/* ---- report ------------------------------------------------------------------------------ */

static void print_row(const char *name, struct samples *s)
{
    printf("  %-34s p50 %7.1f  p95 %7.1f  p99 %7.1f  max %7.1f ms  (%zu)\n", name,
           samples_quantile(s, 0.5), samples_quantile(s, 0.95), samples_quantile(s, 0.99),
           samples_quantile(s, 1), s->n);
}

static json_t *json_row(struct samples *s)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:I}", "p50", samples_quantile(s, 0.5), "p95",
                     samples_quantile(s, 0.95), "p99", samples_quantile(s, 0.99), "max",
                     samples_quantile(s, 1), "n", (json_int_t)s->n);
}

static int report(struct load *l, const struct process_usage *before,
                  const struct process_usage *after, double seconds)
{
    double cpu = after->cpu_seconds - before->cpu_seconds;
    json_t *j;
    printf("%d streams, %.0f s of audio in %.1f s; %d errors, %d refused, %d wrong transcripts\n",
           l->streams, l->audio_seconds, seconds, l->errors, l->refused, l->wrong);
    print_row("word (its end sent -> shown)", &l->word);
    print_row("answer (its audio sent -> shown)", &l->answer);
    print_row("last final (end sent -> shown)", &l->final);
    print_row("this program late by", &l->late);
    if (l->pid)
        printf("  server: %.2f CPU s = %.1f %% of one core = %.2f %% per stream; "
               "resident %.1f MiB (peak %.1f, before %.1f), %d threads, %d descriptors\n",
               cpu, 100 * cpu / seconds, 100 * cpu / l->audio_seconds, after->rss_mib,
               after->peak_rss_mib, before->rss_mib, after->threads, after->descriptors);
    if (l->json) {
        j = json_pack("{s:i,s:f,s:f,s:i,s:i,s:i,s:o,s:o,s:o,s:o,s:f,s:f,s:f}", "streams",
                      l->streams, "seconds", seconds, "audio_seconds", l->audio_seconds, "errors",
                      l->errors, "refused", l->refused, "wrong", l->wrong, "word_ms",
                      json_row(&l->word), "answer_ms", json_row(&l->answer), "final_ms",
                      json_row(&l->final), "client_late_ms", json_row(&l->late),
                      "server_cpu_seconds", cpu, "server_rss_mib", after->rss_mib,
                      "server_peak_rss_mib", after->peak_rss_mib);
        if (!j || json_dump_file(j, l->json, JSON_INDENT(2) | JSON_REAL_PRECISION(6))) {
            fprintf(stderr, "wsload: cannot write %s\n", l->json);
            return EX_CANTCREAT;
        }
        json_decref(j);
    }
    return l->errors || l->wrong || l->refused ? EX_UNAVAILABLE : 0;
}

/* The recording followed by its gap. */
static steno_status add_gap(struct load *l)
{
    size_t gap = (size_t)l->rec.rate * (size_t)l->gap_ms / 1000;
    int16_t *p = realloc(l->rec.pcm, (l->rec.n + gap) * sizeof *p);
    if (!p)
        return STENO_ERR_NOMEM;
    memset(p + l->rec.n, 0, gap * sizeof *p);
    l->rec.pcm = p;
    l->rec.n += gap;
    return STENO_OK;
}

static steno_status prepare(struct load *l)
{
    if (l->gap_ms && add_gap(l))
        return STENO_ERR_NOMEM;
    l->total = l->rec.n * (size_t)l->repeat;
    l->step = (size_t)l->rec.rate * (size_t)l->chunk_ms / 1000;
    l->n_chunks = l->total / l->step + 1;
    l->s = calloc((size_t)l->streams, sizeof *l->s);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; l->s && i < l->streams; i++) {
        l->s[i].load = l;
        l->s[i].sent_ns = calloc(l->n_chunks, sizeof *l->s[i].sent_ns);
        if (!l->s[i].sent_ns)
            return STENO_ERR_NOMEM;
    }
    return l->s && l->epoll >= 0 ? STENO_OK : STENO_ERR_NOMEM;
}

static void release(struct load *l)
{
    for (int i = 0; l->s && i < l->streams; i++) {
        free(l->s[i].sent_ns);
        steno_buf_free(&l->s[i].said);
    }
    free(l->s);
    samples_free(&l->word);
    samples_free(&l->answer);
    samples_free(&l->final);
    samples_free(&l->late);
    recording_free(&l->rec);
}

static int run(struct load *l)
{
    struct process_usage before = {0}, after = {0};
    int64_t t0;
    double seconds;
    if (prepare(l)) {
        fputs("wsload: out of memory\n", stderr);
        return EX_OSERR;
    }
    if (l->pid && !process_usage_read(&before, l->pid)) {
        fprintf(stderr, "wsload: no process %d\n", l->pid);
        return EX_NOINPUT;
    }
    t0 = steno_now_ns();
    loop(l);
    seconds = ms_since(t0) * 1e-3;
    if (l->pid && !process_usage_read(&after, l->pid))
        fprintf(stderr, "wsload: process %d is gone\n", l->pid);
    return report(l, &before, &after, seconds);
}

static const char usage_text[] =
    "usage: wsload --url ws://HOST:PORT/v1/stream [options] FILE.wav\n"
    "  --streams N     at once, default 64\n"
    "  --repeat N      times each stream says the recording, default 1\n"
    "  --gap-ms N      silence after each time, default 1500\n"
    "  --chunk-ms N    audio per message, default 100\n"
    "  --ramp-ms N     between the streams' beginnings, default 20\n"
    "  --expect TEXT   transcript of the recording: others are counted as wrong\n"
    "  --start JSON    more members of the start message: '\"beam\":4,\"words\":false'\n"
    "  --pid PID       measure this process (the server)\n"
    "  --json FILE     write the figures\n";

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"url", 1, 0, 'u'},    {"streams", 1, 0, 'n'},  {"repeat", 1, 0, 'r'},
        {"gap-ms", 1, 0, 'g'}, {"chunk-ms", 1, 0, 'c'}, {"ramp-ms", 1, 0, 'm'},
        {"expect", 1, 0, 'e'}, {"pid", 1, 0, 'p'},      {"json", 1, 0, 'j'},
        {"start", 1, 0, 's'},  {"help", 0, 0, 'h'},     {0, 0, 0, 0}};
    static struct load l = {.streams = 64,
                            .repeat = 1,
                            .gap_ms = 1500,
                            .chunk_ms = 100,
                            .ramp_ms = 20,
                            .start_extra = ""};
    static char extra[256];
    steno_err err;
    int opt, rc, *number;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        number = NULL;
        switch (opt) {
        case 'u':
            l.url_text = optarg;
            break;
        case 'e':
            l.expect = optarg;
            break;
        case 'j':
            l.json = optarg;
            break;
        case 's':
            snprintf(extra, sizeof extra, ",%s", optarg);
            l.start_extra = extra;
            break;
        case 'n':
            number = &l.streams;
            break;
        case 'r':
            number = &l.repeat;
            break;
        case 'g':
            number = &l.gap_ms;
            break;
        case 'c':
            number = &l.chunk_ms;
            break;
        case 'm':
            number = &l.ramp_ms;
            break;
        case 'p':
            number = &l.pid;
            break;
        default:
            fputs(usage_text, opt == 'h' ? stdout : stderr);
            return opt == 'h' ? 0 : EX_USAGE;
        }
        if (number)
            *number = (int)strtol(optarg, NULL, 10);
    }
    if (!l.url_text || optind != argc - 1 || l.streams < 1 || l.repeat < 1 || l.chunk_ms < 1 ||
        l.gap_ms < 0 || l.ramp_ms < 0) {
        fputs(usage_text, stderr);
        return EX_USAGE;
    }
    if (load_url_parse(&l.url, l.url_text, &err) || recording_read(&l.rec, argv[optind], &err)) {
        fprintf(stderr, "wsload: %s\n", err.msg);
        return EX_NOINPUT;
    }
    rc = run(&l);
    release(&l);
    return rc;
}
