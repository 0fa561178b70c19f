/* Uploads from several connections, one thread each, and how long the answers take.
 *
 *     httpload --url http://127.0.0.1:8080/v1/transcribe --connections 2 --requests 50 \
 *              --expect "one two" --pid $(pidof stenod) --json out.json FILE
 *
 * The body is the file (Content-Length form, as curl --data-binary sends it); a connection is kept
 * for its share of the requests. Latency: from the first byte of the request to the last of the
 * answer. --repeat N sends a WAV N times in a row as one long recording. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "loadtest/support/process.h"
#include "loadtest/support/recording.h"
#include "loadtest/support/samples.h"

#define MAX_BODY ((size_t)1 << 31)

struct plan {
    char host[128], port[8], path[512];
    struct sockaddr_storage addr;
    socklen_t addr_len;
    int connections, requests, pid, repeat;
    const char *expect, *json;
    struct steno_buf body;
    double audio_seconds; /* of one body; 0 = unknown */
};

struct worker {
    pthread_t thread;
    const struct plan *plan;
    int requests, errors, refused, wrong;
    struct samples ms;
    struct steno_buf answer;
};

static steno_status parse_url(struct plan *p, const char *text, steno_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    int rc;
    if (sscanf(text, "http://%127[^:/]:%7[0-9]%511s", p->host, p->port, p->path) != 3)
        return steno_fail(err, STENO_ERR_INVAL, "url: '%s' is not http://HOST:PORT/PATH", text);
    rc = getaddrinfo(p->host, p->port, &hints, &list);
    if (rc)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", p->host, gai_strerror(rc));
    memcpy(&p->addr, list->ai_addr, list->ai_addrlen);
    p->addr_len = list->ai_addrlen;
    freeaddrinfo(list);
    return STENO_OK;
}

static bool send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static long content_length(const char *head)
{
    for (const char *p = head; (p = strstr(p, "\r\n")); p += 2)
        if (!strncasecmp(p + 2, "content-length:", 15))
            return strtol(p + 17, NULL, 10);
    return -1;
}

/* One answer into w->answer, its body after *body; HTTP status, 0 when the connection failed. */
static int read_answer(struct worker *w, int fd, size_t *body)
{
    char buf[65536], *end = NULL;
    long length = 0;
    int status;
    steno_buf_reset(&w->answer);
    while (!end || w->answer.len < *body + (size_t)length) {
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        if (n <= 0 || steno_buf_add(&w->answer, buf, (size_t)n))
            return 0;
        if (!end && (end = strstr(w->answer.data, "\r\n\r\n"))) {
            *body = (size_t)(end + 4 - w->answer.data);
            length = content_length(w->answer.data);
            if (length < 0)
                return 0;
        }
    }
    return sscanf(w->answer.data, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

static bool right(const struct worker *w, size_t body)
{
    const char *want = w->plan->expect;
    json_t *root;
    const char *text;
    bool ok;
    if (!want)
        return true;
    root = json_loads(w->answer.data + body, 0, NULL);
    text = json_string_value(json_object_get(root, "text"));
    ok = text && !strcmp(text, want);
    json_decref(root);
    return ok;
}

static int open_connection(const struct plan *p)
{
    int fd = socket(p->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&p->addr, p->addr_len)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    const struct plan *p = w->plan;
    char head[1024];
    int fd = -1, n = snprintf(head, sizeof head,
                              "POST %s HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: audio/wav\r\n"
                              "Content-Length: %zu\r\n\r\n",
                              p->path, p->host, p->port, p->body.len);
    for (int i = 0; i < w->requests; i++) {
        int64_t t0 = steno_now_ns();
        size_t body = 0;
        int status = 0;
        if (fd < 0)
            fd = open_connection(p);
        if (fd >= 0 && send_all(fd, head, (size_t)n) && send_all(fd, p->body.data, p->body.len))
            status = read_answer(w, fd, &body);
        if (status == 200) {
            samples_add(&w->ms, (double)(steno_now_ns() - t0) * 1e-6);
            w->wrong += !right(w, body);
            continue;
        }
        w->refused += status == 503 || status == 429;
        w->errors += status != 503 && status != 429;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* The file as it is, or a WAV of it said `repeat` times. */
static steno_status read_body(struct plan *p, const char *path, steno_err *err)
{
    struct recording r;
    unsigned char h[44];
    uint32_t bytes;
    steno_status st = recording_read(&r, path, err);
    if (st)
        return st;
    bytes = (uint32_t)(r.n * 2 * (size_t)p->repeat);
    /* RIFF header of 16-bit mono PCM */
    memcpy(h, "RIFF....WAVEfmt \20\0\0\0\1\0\1\0........\2\0\20\0data....", 44);
    for (int i = 0; i < 4; i++) {
        h[4 + i] = (unsigned char)((bytes + 36) >> 8 * i);
        h[24 + i] = (unsigned char)((uint32_t)r.rate >> 8 * i);
        h[28 + i] = (unsigned char)((uint32_t)r.rate * 2 >> 8 * i);
        h[40 + i] = (unsigned char)(bytes >> 8 * i);
    }
    st = steno_buf_add(&p->body, h, sizeof h);
    for (int i = 0; !st && i < p->repeat; i++)
        st = steno_buf_add(&p->body, r.pcm, r.n * 2);
    p->audio_seconds = recording_seconds(&r) * p->repeat;
    recording_free(&r);
    return st ? steno_fail(err, st, "%s: too long", path) : STENO_OK;
}

static int report(const struct plan *p, struct worker *w, double seconds, double cpu,
                  const struct process_usage *u)
{
    struct samples all = {0};
    int errors = 0, refused = 0, wrong = 0;
    double audio;
    for (int i = 0; i < p->connections; i++) {
        for (size_t k = 0; k < w[i].ms.n; k++)
            samples_add(&all, w[i].ms.v[k]);
        errors += w[i].errors;
        refused += w[i].refused;
        wrong += w[i].wrong;
        samples_free(&w[i].ms);
        steno_buf_free(&w[i].answer);
    }
    audio = p->audio_seconds * (double)all.n;
    printf("%zu answers in %.2f s (%.1f/s), %d errors, %d refused, %d wrong transcripts\n", all.n,
           seconds, (double)all.n / seconds, errors, refused, wrong);
    printf("  answer  p50 %.1f  p95 %.1f  p99 %.1f  max %.1f ms\n", samples_quantile(&all, 0.5),
           samples_quantile(&all, 0.95), samples_quantile(&all, 0.99), samples_quantile(&all, 1));
    printf("  %.1f s of audio each, %.0f s of audio per second\n", p->audio_seconds,
           audio / seconds);
    if (p->pid)
        printf("  server: %.2f CPU s = real-time factor %.5f; resident %.1f MiB, peak %.1f\n", cpu,
               cpu / audio, u->rss_mib, u->peak_rss_mib);
    if (p->json) {
        json_t *j = json_pack(
            "{s:I,s:f,s:i,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "answers", (json_int_t)all.n,
            "seconds", seconds, "errors", errors, "refused", refused, "wrong", wrong, "p50_ms",
            samples_quantile(&all, 0.5), "p95_ms", samples_quantile(&all, 0.95), "p99_ms",
            samples_quantile(&all, 0.99), "audio_seconds", audio, "server_cpu_seconds", cpu,
            "server_rss_mib", u->rss_mib, "server_peak_rss_mib", u->peak_rss_mib);
        if (!j || json_dump_file(j, p->json, JSON_INDENT(2) | JSON_REAL_PRECISION(6)))
            fprintf(stderr, "httpload: cannot write %s\n", p->json);
        json_decref(j);
    }
    samples_free(&all);
    return errors || refused || wrong ? EX_UNAVAILABLE : 0;
}

static int run(struct plan *p)
{
    struct worker *w = calloc((size_t)p->connections, sizeof *w);
    struct process_usage before = {0}, after = {0};
    int64_t t0 = steno_now_ns();
    double seconds;
    int rc;
    if (!w)
        return EX_OSERR;
    if (p->pid && !process_usage_read(&before, p->pid)) {
        fprintf(stderr, "httpload: no process %d\n", p->pid);
        free(w);
        return EX_NOINPUT;
    }
    for (int i = 0; i < p->connections; i++) {
        w[i].plan = p;
        w[i].requests = (p->requests + i) / p->connections;
        steno_buf_init(&w[i].answer, 64 << 20);
        if (pthread_create(&w[i].thread, NULL, work, &w[i]))
            return EX_OSERR;
    }
    for (int i = 0; i < p->connections; i++)
        pthread_join(w[i].thread, NULL);
    seconds = (double)(steno_now_ns() - t0) * 1e-9;
    if (p->pid)
        (void)process_usage_read(&after, p->pid);
    rc = report(p, w, seconds, after.cpu_seconds - before.cpu_seconds, &after);
    free(w);
    return rc;
}

static const char usage_text[] =
    "usage: httpload --url http://HOST:PORT/v1/transcribe [options] FILE.wav\n"
    "  --connections N  default 1\n"
    "  --requests N     all together, default 20\n"
    "  --repeat N       send the recording N times in a row as one, default 1\n"
    "  --expect TEXT    other transcripts are counted as wrong\n"
    "  --pid PID        measure this process (the server)\n"
    "  --json FILE      write the figures\n";

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"url", 1, 0, 'u'},    {"connections", 1, 0, 'c'}, {"requests", 1, 0, 'n'},
        {"repeat", 1, 0, 'r'}, {"expect", 1, 0, 'e'},      {"pid", 1, 0, 'p'},
        {"json", 1, 0, 'j'},   {"help", 0, 0, 'h'},        {0, 0, 0, 0}};
    static struct plan p = {.connections = 1, .requests = 20, .repeat = 1};
    const char *url = NULL;
    steno_err err;
    int opt, rc;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (opt) {
        case 'u':
            url = optarg;
            break;
        case 'c':
            p.connections = (int)strtol(optarg, NULL, 10);
            break;
        case 'n':
            p.requests = (int)strtol(optarg, NULL, 10);
            break;
        case 'r':
            p.repeat = (int)strtol(optarg, NULL, 10);
            break;
        case 'e':
            p.expect = optarg;
            break;
        case 'p':
            p.pid = (int)strtol(optarg, NULL, 10);
            break;
        case 'j':
            p.json = optarg;
            break;
        default:
            fputs(usage_text, opt == 'h' ? stdout : stderr);
            return opt == 'h' ? 0 : EX_USAGE;
        }
    if (!url || optind != argc - 1 || p.connections < 1 || p.requests < 1 || p.repeat < 1) {
        fputs(usage_text, stderr);
        return EX_USAGE;
    }
    steno_buf_init(&p.body, MAX_BODY);
    if (parse_url(&p, url, &err) || read_body(&p, argv[optind], &err)) {
        fprintf(stderr, "httpload: %s\n", err.msg);
        return EX_NOINPUT;
    }
    rc = run(&p);
    steno_buf_free(&p.body);
    return rc;
}
