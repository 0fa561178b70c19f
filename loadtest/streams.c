/* Measures how many real-time streams one thread carries, by processor time: as if it had the core
 * to itself.
 *
 *   streams --model DIR [OPTION]... FILE
 *
 * Streams repeat FILE, 0.1 s at a time, each from another starting point. The clock is simulated.
 * It moves by the processor time of each round of the one worker, and if no stream waits, to the
 * next audio. As in the pool, a round takes the streams that have waited longest, up to a batch and
 * as far as their parts of a step allow, feeds each until a window of its network is full, and runs
 * them together. So the latencies are those of an otherwise idle machine, whatever else runs. They
 * do not include sockets and the daemon's other threads (steno-load measures those). Results of a
 * stream's end do not count. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "speech/audio/file.h"
#include "speech/recognizer/stream.h"
#include "steno.h"

#define CHUNK 0.1  /* s */
#define BLOCK 4096 /* samples fed at once, as by the pool */
#define RAMP 10.0  /* s from the first stream's start to the last one's */

struct user {
    steno_stream *stream;
    double start;
    size_t from;       /* first sample of the recording */
    size_t fed, total; /* samples */
    double served_at;  /* end of its last round; it is in the queue since then */
    double place;      /* in the queue: when its work became due */
    double queued;     /* s in the queue */
    bool goes_on;      /* the result needs another step */
    double share;      /* of its next step */
    bool early;        /* its result is not needed yet */
    bool anew;         /* it is looked at anew: what is not needed yet goes behind the others */
    bool over;
    /* of the running utterance: when its speech began, in s of the stream, and when finals were
     * begun before their endpoint, the last of them first begun and done; NAN: none was */
    double speech, begun, done;
    int n_begun;
};

struct figures {
    double *v;
    size_t n, cap;
};

#define MAX_OPTIONS 8

struct options {
    const char *dir, *file;
    struct steno_model_options model;
    struct steno_stream_options stream;
    /* options of families, and those of streams */
    struct steno_option given[MAX_OPTIONS], streams[MAX_OPTIONS];
    int n, batch;
    double seconds;
    bool no_early, list;
};

struct sim {
    const struct options *o;
    steno_batcher *batcher;
    struct user *users;
    float *pcm;
    size_t n_pcm, chunk;
    int rate;
    double now, busy;
    struct figures partial, final;
    size_t steps, rounds;
};

static void die(const char *what)
{
    fprintf(stderr, "streams: %s\n", what);
    exit(1);
}

static void *must(void *p)
{
    if (!p)
        die("out of memory");
    return p;
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note(struct figures *f, double v)
{
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 1024;
        f->v = must(realloc(f->v, f->cap * sizeof *f->v));
    }
    f->v[f->n++] = v;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(struct figures *f, double q)
{
    if (!f->n)
        return NAN;
    qsort(f->v, f->n, sizeof *f->v, ascending);
    return f->v[(size_t)ceil(q * (double)f->n) - (q > 0)];
}

/* The time when sample `at` arrives: with its chunk. */
static double arrival(const struct sim *s, const struct user *u, size_t at)
{
    size_t end = (at + s->chunk - 1) / s->chunk * s->chunk;
    return u->start + (double)(end < u->total ? end : u->total) / s->rate;
}

/* The earliest time at which the user's next round could begin. */
static double ready_at(const struct sim *s, const struct user *u)
{
    size_t at = u->fed + steno_stream_missing(u->stream);
    if (u->over)
        return HUGE_VAL;
    return u->goes_on ? u->served_at
                      : fmax(u->served_at, arrival(s, u, at < u->total ? at : u->total));
}

/* Audio has come for a result that is not needed yet: a sound may drop it. */
static bool listens(const struct sim *s, const struct user *u)
{
    return u->early && arrival(s, u, u->fed + 1) <= s->now;
}

/* Its place in the queue. A result that takes several steps keeps it, as in the pool; once its
 * steps can be shared, it is behind those that wait already. */
static double due(const struct sim *s, const struct user *u)
{
    if (listens(s, u))
        return fmin(u->place, fmax(u->served_at, arrival(s, u, u->fed + 1)));
    return u->goes_on ? u->place : ready_at(s, u);
}

static void begin_utterance(struct user *u, double speech)
{
    u->speech = speech;
    u->begun = u->done = NAN;
    u->n_begun = 0;
}

/* Times are those of the simulated clock. Those of the early final count from the arrival of the
 * chunk that has the endpoint. */
static void list_final(const struct sim *s, const struct user *u, const struct steno_event *ev,
                       double arrived)
{
    fprintf(stderr,
            "stream %d: %.2f to %.2f s, %s, arrived at %.3f, given %+.3f; begun early %d times, "
            "last at %+.3f to %+.3f\n",
            (int)(u - s->users), u->speech, ev->time,
            ev->reason == STENO_FINAL_ENDPOINT ? "endpoint" : "length", arrived, s->now - arrived,
            u->n_begun, u->begun - arrived, u->done - arrived);
}

static void take_results(struct sim *s, struct user *u)
{
    struct steno_event ev;
    while (steno_stream_next(u->stream, &ev)) {
        if (u->fed == u->total)
            continue; /* all streams end within a few seconds, which real ones do not */
        double at = floor(ev.time * s->rate + 0.5);
        double arrived = arrival(s, u, at > 0 ? (size_t)at : 0), waited = s->now - arrived;
        if (ev.kind == STENO_SPEECH_START)
            begin_utterance(u, ev.start);
        if (ev.kind == STENO_FINAL && s->o->list)
            list_final(s, u, &ev, arrived);
        if (ev.kind == STENO_PARTIAL)
            note(&s->partial, waited);
        else if (ev.kind == STENO_FINAL)
            note(&s->final, waited);
    }
}

static bool has_slack(const struct user *u)
{
    return !u->over && steno_stream_slack(u->stream) > 0;
}

/* Feed audio that has arrived until a window is full; flush at the end of all audio. */
static void feed(struct sim *s, struct user *u)
{
    steno_err err;
    while (!steno_stream_ready(u->stream) || has_slack(u)) {
        size_t at = (u->from + u->fed) % s->n_pcm, n = s->n_pcm - at, used;
        size_t arrived = s->now < u->start ? 0 : (size_t)((s->now - u->start) * s->rate + 0.5);
        arrived = arrived < u->total ? arrived / s->chunk * s->chunk : u->total;
        if (u->fed == u->total) {
            if (steno_stream_flush(u->stream, true, &u->over, &err))
                die(err.msg);
            return;
        }
        n = n < arrived - u->fed ? n : arrived - u->fed;
        n = n < BLOCK ? n : BLOCK;
        if (arrived <= u->fed || !n)
            return;
        steno_stream_set_waiting(u->stream, arrived - u->fed - n);
        if (steno_stream_feed(u->stream, s->pcm + at, n, &used, &err))
            die(err.msg);
        u->fed += used;
    }
}

static void note_early(const struct sim *s, struct user *u, bool early)
{
    if (early && !u->early) {
        u->begun = s->now;
        u->done = NAN;
        u->n_begun++;
    } else if (u->early && !early) {
        u->done = s->now;
    }
    u->early = early;
}

static void run_batch(struct sim *s, struct user **batch, size_t n)
{
    steno_stream *ready[STENO_BATCH_MAX];
    steno_status st[STENO_BATCH_MAX];
    steno_err err[STENO_BATCH_MAX];
    double t = processor_seconds();
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        struct user *u = batch[i];
        u->place = due(s, u);
        u->queued += s->now - ready_at(s, u);
        steno_stream_set_queued(u->stream, u->queued);
        u->anew = !u->early || listens(s, u);
        feed(s, u);
        if (!u->over && steno_stream_ready(u->stream) && !(u->anew && has_slack(u)))
            ready[k++] = u->stream;
    }
    if (k)
        steno_streams_step(s->batcher, ready, k, st, err);
    t = processor_seconds() - t;
    for (size_t i = 0; i < k; i++)
        if (st[i])
            die(err[i].msg);
    s->busy += t;
    s->now += t;
    s->steps += k;
    s->rounds += k > 0;
    for (size_t i = 0; i < n; i++) {
        struct user *u = batch[i];
        const bool was_alone = u->share >= 1;
        const bool early = has_slack(u);
        u->served_at = s->now;
        u->goes_on = !u->over && steno_stream_ready(u->stream);
        u->share = u->over ? 0 : steno_stream_share(u->stream);
        if (early ? u->anew : u->early || (s->o->batch > 1 && was_alone && u->share < 1))
            u->place = s->now + (early ? steno_stream_slack(u->stream) : 0);
        note_early(s, u, early);
        take_results(s, u);
    }
}

/* Wait until a user could begin a round; false: all streams are over. */
static bool wait_for_one(struct sim *s)
{
    double first = HUGE_VAL;
    for (int i = 0; i < s->o->n; i++)
        first = fmin(first, ready_at(s, &s->users[i]));
    s->now = first < HUGE_VAL ? fmax(s->now, first) : s->now;
    return first < HUGE_VAL;
}

/* Run one round of the users whose work is due first; false when all streams are over. */
static bool run_round(struct sim *s)
{
    struct user *batch[STENO_BATCH_MAX];
    double taken = 0;
    size_t n = 0;
    if (!wait_for_one(s))
        return false;
    while (n < (size_t)s->o->batch && taken < 1) {
        struct user *next = NULL;
        for (int i = 0; i < s->o->n; i++) {
            struct user *u = &s->users[i];
            bool passed = ready_at(s, u) > s->now;
            for (size_t k = 0; k < n; k++)
                passed = passed || batch[k] == u;
            if (!passed && taken + u->share * (n > 0) <= 1 && (!next || due(s, u) < due(s, next)))
                next = u;
        }
        if (!next)
            break;
        taken += next->share;
        batch[n++] = next;
    }
    if (n)
        run_batch(s, batch, n);
    return n > 0;
}

static void read_file(struct sim *s, const char *path)
{
    steno_err err;
    struct steno_audio_info info;
    steno_audio *a = NULL;
    FILE *f = fopen(path, "rb");
    size_t cap = 1 << 20, n = 1;
    if (!f)
        die("cannot open the recording");
    if (steno_audio_open_fd(&a, fileno(f), NULL, &err))
        die(err.msg);
    steno_audio_get_info(a, &info);
    s->rate = info.sample_rate;
    s->pcm = must(malloc(cap * sizeof *s->pcm));
    for (; n; s->n_pcm += n) {
        if (s->n_pcm == cap)
            s->pcm = must(realloc(s->pcm, (cap *= 2) * sizeof *s->pcm));
        if (steno_audio_read(a, s->pcm + s->n_pcm, cap - s->n_pcm, &n, &err))
            die(err.msg);
    }
    steno_audio_close(a);
    fclose(f);
    if (!s->n_pcm)
        die("the recording is empty");
}

static void run(const struct options *o, steno_model *m, struct sim s)
{
    struct steno_stream_options so = o->stream;
    steno_err err;
    so.sample_rate = s.rate;
    if (steno_batcher_open(&s.batcher, m, o->batch, &err))
        die(err.msg);
    s.users = must(calloc((size_t)o->n, sizeof *s.users));
    for (int i = 0; i < o->n; i++) {
        struct user *u = &s.users[i];
        double part = (double)i / o->n; /* they start at different words */
        *u = (struct user){.start = RAMP * part,
                           .from = (size_t)(part * (double)s.n_pcm),
                           .total = (size_t)(o->seconds * s.rate)};
        if (steno_stream_open(&u->stream, m, &so, &err))
            die(err.msg);
        steno_stream_set_early(u->stream, !o->no_early);
        u->share = steno_stream_share(u->stream);
    }
    while (run_round(&s))
        ;
    printf("| %d | %d | %.1f | %.2f | %.1f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.2f "
           "|\n",
           o->n, steno_batcher_max(s.batcher), 100 * s.busy / o->seconds,
           100 * s.busy / (o->seconds * o->n), (double)s.steps / (double)s.rounds,
           1e3 * quantile(&s.partial, 0.5), 1e3 * quantile(&s.partial, 0.95),
           1e3 * quantile(&s.partial, 0.99), 1e3 * quantile(&s.partial, 1),
           1e3 * quantile(&s.final, 0.5), 1e3 * quantile(&s.final, 0.95),
           1e3 * quantile(&s.final, 0.99), (double)s.partial.n / (o->seconds * o->n));
    fflush(stdout);
    for (int i = 0; i < o->n; i++)
        steno_stream_close(s.users[i].stream);
    steno_batcher_close(s.batcher);
    free(s.partial.v);
    free(s.final.v);
    free(s.users);
}

static const char usage[] =
    "Usage: streams --model DIR [OPTION]... FILE\n"
    "How many real-time streams one thread carries, by processor time (loadtest/streams.c).\n\n"
    "  --streams LIST      numbers of streams, one run each; default 1\n"
    "  --seconds S         length of each stream; default 30\n"
    "  --batch N           largest batch of streams; default 1\n"
    "  --no-early          finals are not begun before their endpoint\n"
    "  --finals            list them on standard error\n"
    "  --precision NAME, --quantized, --beam N, --ctc-weight W, --lm-weight W,\n"
    "  --maxlenratio R     as of `steno transcribe`\n";

/* Those of streams are given to the model, too: a language model of weight 0 is not loaded. */
static void set_option(struct options *o, const char *name, const char *value)
{
    const struct steno_option_info *info = steno_option_find(name);
    struct steno_option given = {name, value};
    if (!info || o->model.n_options == MAX_OPTIONS)
        die("an option that no model family has, or too many of them");
    o->given[o->model.n_options++] = given;
    if (info->scope == STENO_OPTION_OF_STREAM)
        o->streams[o->stream.n_options++] = given;
    o->model.options = o->given;
    o->stream.options = o->streams;
}

static const char *parse(struct options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"model", 1, NULL, 'm'},     {"streams", 1, NULL, 'n'},
        {"seconds", 1, NULL, 's'},   {"batch", 1, NULL, 'b'},
        {"precision", 1, NULL, 'p'}, {"quantized", 0, NULL, 'q'},
        {"beam", 1, NULL, 'w'},      {"ctc-weight", 1, NULL, 'c'},
        {"lm-weight", 1, NULL, 'l'}, {"maxlenratio", 1, NULL, 'x'},
        {"no-early", 0, NULL, 'e'},  {"finals", 0, NULL, 'f'},
        {"help", 0, NULL, 'h'},      {0}};
    const char *list = "1";
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
        switch (c) {
        case 'm':
            o->dir = optarg;
            break;
        case 'n':
            list = optarg;
            break;
        case 's':
            o->seconds = strtod(optarg, NULL);
            break;
        case 'b':
            o->batch = (int)strtol(optarg, NULL, 10);
            break;
        case 'p':
            if (!steno_precision_find(optarg, &o->model.precision))
                die("--precision is none of fp32, bf16, int8, fp16, auto");
            break;
        case 'q':
            set_option(o, "quantized", "yes");
            break;
        case 'e':
            o->no_early = true;
            break;
        case 'f':
            o->list = true;
            break;
        case 'w':
            o->stream.beam = (int)strtol(optarg, NULL, 10);
            break;
        case 'c':
            set_option(o, "ctc_weight", optarg);
            break;
        case 'l':
            set_option(o, "lm_weight", optarg);
            break;
        case 'x':
            set_option(o, "maxlenratio", optarg);
            break;
        default:
            fputs(usage, c == 'h' ? stdout : stderr);
            exit(c == 'h' ? 0 : 64);
        }
    o->file = optind < argc ? argv[optind] : NULL;
    if (!o->dir || !o->file || o->batch < 1 || o->batch > STENO_BATCH_MAX || !(o->seconds > 0)) {
        fputs(usage, stderr);
        exit(64);
    }
    return list;
}

int main(int argc, char **argv)
{
    struct options o = {
        .model = {.threads = 1, .precision = STENO_AUTO_WEIGHTS}, .batch = 1, .seconds = 30};
    struct sim s = {.o = &o};
    const char *at = parse(&o, argc, argv);
    steno_model *m = NULL;
    steno_err err;
    read_file(&s, o.file);
    s.chunk = (size_t)(CHUNK * s.rate);
    if (steno_model_open(&m, o.dir, &o.model, &err))
        die(err.msg);
    puts("| streams | batch | load, % of a core | a stream, % of a core | mean batch | "
         "partial p50 ms | p95 | p99 | max | final p50 | p95 | p99 | partials a second |\n"
         "|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (char *end; *at; at = *end ? end + 1 : end) {
        o.n = (int)strtol(at, &end, 10);
        if (o.n < 1 || o.n > 100000)
            die("--streams takes numbers, comma separated");
        run(&o, m, s);
    }
    steno_model_close(m);
    free(s.pcm);
    return 0;
}
