/* ldflags: -Wl,--wrap=clock_gettime */
/* A live stream in the pool, with a family whose steps begin and end when the test says so and a
 * clock that stands still: whatever comes first of a partial, an early final and its steps, sound,
 * the endpoint, a finalize and the end, and however the audio is cut, all audio is taken, the
 * stream ends well, and its finals are those of a stream that no pool has. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/pool/internal.h"
#include "speech/recognizer/stream_internal.h"
#include "tests/support/test.h"

enum { RATE = 16000, HOP = 160, PARTS = 3, LONGEST = 4 * RATE };

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

/* No time passes: what a stream does depends on its samples, and on what waits. */
int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
    (void)id;
    *ts = (struct timespec){.tv_sec = 1000};
    return 0;
}

/* ---- what happened, in order ----------------------------------------------------------------- */

/* A partial is due, an early final begins, its first step runs, sound drops it, the endpoint; a
 * finalize and the end are asked for. */
static const char kinds[] = "PBRSXFE";
/* How much of a block the stream took last: a part, since a step must come first; all, and then a
 * step was due; all, and none was. */
static const char blocks[] = ">=<";
enum { KINDS = sizeof kinds - 1, BLOCKS = sizeof blocks - 1 };

static size_t seen[KINDS][KINDS][BLOCKS];
static struct {
    char text[400]; /* of kinds */
    size_t len, counted;
    char block; /* of blocks: what the last feed was */
    bool begun; /* the early final that is there was noted */
} story;

static void note(char kind)
{
    if (story.len + 1 < sizeof story.text)
        story.text[story.len++] = kind;
}

/* What was noted since the last call happened with the last block. */
static void count(void)
{
    const char *t = story.text;
    for (; story.counted < story.len; story.counted++) {
        const size_t i = story.counted;
        if (i && story.block)
            seen[strchr(kinds, t[i - 1]) - kinds][strchr(kinds, t[i]) - kinds]
                [strchr(blocks, story.block) - blocks]++;
    }
}

static void note_begin(void)
{
    if (!story.begun)
        note('B');
    story.begun = true;
}

static char fault[300]; /* the first one; the main thread fails with it */

static void expect(bool holds, const char *what)
{
    if (!holds && !fault[0])
        snprintf(fault, sizeof fault, "%s", what);
}

/* ---- a family that hears everything ---------------------------------------------------------- */

/* Its text is the number of samples and their hash, so one that is lost or comes twice is seen. */
struct heard {
    float pcm[LONGEST];
    size_t accepted, result; /* result: samples of the final that is begun or done */
    int parts;               /* steps of it so far */
    char text[40];
};

static steno_status heard_new(void **state, void *model, struct steno_family_stream *o,
                              steno_err *err)
{
    (void)model;
    (void)err;
    o->beam = o->n_best = 1;
    *state = calloc(1, sizeof(struct heard));
    return *state ? STENO_OK : STENO_ERR_NOMEM;
}

static bool pooled; /* the stream is in a pool, so what happens is noted */

static steno_status heard_reset(void *state, enum steno_reset what, steno_err *err)
{
    struct heard *h = state;
    (void)err;
    h->parts = 0;
    h->result = 0;
    if (what == STENO_RESET_RESUMED && pooled) {
        note_begin();
        note('S');
        story.begun = false;
    }
    if (what != STENO_RESET_RESUMED && what != STENO_RESET_PAUSE) {
        h->accepted = 0;
        h->text[0] = '\0';
    }
    return STENO_OK;
}

static steno_status heard_accept(void *state, const float *pcm, size_t dropped, size_t end,
                                 bool *due)
{
    struct heard *h = state;
    *due = false;
    expect(end <= LONGEST, "segments end before their limit");
    if (end > h->accepted) {
        expect(!h->parts, "no audio comes between the steps of a final");
        memcpy(h->pcm + h->accepted, pcm + (h->accepted - dropped),
               (end - h->accepted) * sizeof *pcm);
        h->accepted = end;
    }
    return STENO_OK;
}

static size_t heard_accepted(const void *state)
{
    return ((const struct heard *)state)->accepted;
}

static size_t heard_missing(const void *state)
{
    (void)state;
    return RATE;
}

static steno_status heard_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                     size_t *n, size_t *stable)
{
    struct heard *h = state;
    (void)max;
    *stable = 0;
    *n = 1;
    *out = (struct steno_hypothesis){.text = h->text};
    return STENO_OK;
}

static void spell(struct heard *h)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < h->result; i++)
        hash = (hash ^ (uint32_t)(int32_t)(h->pcm[i] * 0x1p30f)) * 16777619u;
    snprintf(h->text, sizeof h->text, "%zu %08x", h->result, hash);
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool inside, early, go; /* a step has begun, one of an early final; it may end */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void pass_gate(bool early)
{
    pthread_mutex_lock(&gate.lock);
    gate.inside = true;
    gate.early = early;
    pthread_cond_broadcast(&gate.changed);
    while (!gate.go)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.go = gate.inside = false;
    pthread_mutex_unlock(&gate.lock);
}

static void heard_step(void *worker, struct steno_step_item *items, size_t n, int size,
                       struct steno_network_time *spent)
{
    struct heard *h = items->state;
    const bool early = items->goal == STENO_STEP_EARLY;
    (void)worker;
    (void)size;
    (void)spent;
    expect(n == 1, "one stream steps");
    if (pooled && early && !h->parts) {
        note_begin();
        note('R');
        count();
    }
    if (pooled)
        pass_gate(early);
    items->st = STENO_OK;
    items->more = false;
    if (items->goal != STENO_STEP_FINAL && !early)
        return;
    expect(!h->parts || h->result == items->n, "the end stays where it was");
    if (items->n > h->accepted)
        (void)heard_accept(h, items->pcm, items->dropped, items->n, &(bool){false});
    h->result = items->n;
    h->parts += h->parts < PARTS;
    items->more = h->parts < PARTS;
    spell(h);
}

static steno_status no_worker(void **worker, void *model, int max, steno_err *err)
{
    (void)model;
    (void)max;
    (void)err;
    *worker = NULL;
    return STENO_OK;
}

static void close_nothing(void *worker)
{
    (void)worker;
}

static const struct steno_family hearing = {.name = "hearing",
                                            .state_new = heard_new,
                                            .state_free = free,
                                            .reset = heard_reset,
                                            .worker_open = no_worker,
                                            .worker_close = close_nothing,
                                            .step = heard_step,
                                            .hypotheses = heard_hypotheses,
                                            .accept = heard_accept,
                                            .accepted = heard_accepted,
                                            .missing = heard_missing};

static steno_model model = {
    .family = &hearing,
    .threads = 1,
    .info = {.name = "hearing",
             .language = "en",
             .sample_rate = RATE,
             .hop = HOP,
             .frame_samples = HOP,
             .chunk_seconds = 1,
             .endpoint = {.silence_alone = 1, .silence_after = 0.4, .longest = 6},
             .feeding = STENO_FEED_SEGMENTS,
             .segments = {.incremental = true, .early = true}}};

/* ---- the pool's calls, with what they promise checked ---------------------------------------- */

static double queued; /* s that the stream has waited for a worker, as far as it is told */

static void note_after_feed(const steno_stream *s, bool was_due)
{
    const struct steno_segments *g = &s->in.g;
    if (g->early == STENO_EARLY_RUNS)
        note_begin();
    if (!g->due || was_due)
        return;
    if (g->final && g->early != STENO_EARLY_NONE)
        note_begin();
    if (g->final)
        note('X');
    else if (g->early == STENO_EARLY_NONE)
        note('P');
}

static bool must_step(const steno_stream *s)
{
    return steno_stream_ready(s) && !(steno_stream_slack(s) > 0);
}

static steno_status feed(steno_stream *s, const float *pcm, size_t n, size_t *used, steno_err *err)
{
    const bool was_due = must_step(s);
    const steno_status st = steno_stream_feed(s, pcm, n, used, err);
    expect(!was_due, "no audio comes while a step is due");
    expect(*used == n || must_step(s), "a step must come before samples that are not taken");
    expect(steno_stream_missing(s) > 0 || steno_stream_ready(s), "samples are missing, or a step");
    story.block = *used < n ? '>' : must_step(s) ? '=' : '<';
    note_after_feed(s, was_due);
    count();
    return st;
}

static steno_status flush(steno_stream *s, bool end, bool *done, steno_err *err)
{
    const bool closing = s->in.g.closing;
    const steno_status st = steno_stream_flush(s, end, done, err);
    if (!closing && (s->in.g.closing || *done))
        note(end ? 'E' : 'F');
    count();
    return st;
}

static void set_queued(steno_stream *s, double seconds)
{
    (void)seconds;
    steno_stream_set_queued(s, queued);
}

static int rate_of(const steno_model *m)
{
    (void)m;
    return RATE;
}

static double chunk_of(const steno_model *m)
{
    (void)m;
    return 1;
}

static const struct steno_pool_ops ops = {.open = steno_stream_open_knowing,
                                          .rate = rate_of,
                                          .close = steno_stream_close,
                                          .feed = feed,
                                          .slack = steno_stream_slack,
                                          .set_early = steno_stream_set_early,
                                          .set_waiting = steno_stream_set_waiting,
                                          .set_queued = set_queued,
                                          .ready = steno_stream_ready,
                                          .missing = steno_stream_missing,
                                          .share = steno_stream_share,
                                          .flush = flush,
                                          .next = steno_stream_next,
                                          .batcher_open = steno_batcher_open,
                                          .batcher_close = steno_batcher_close,
                                          .batcher_max = steno_batcher_max,
                                          .batcher_shares = steno_batcher_shares,
                                          .set_costs = steno_batcher_set_costs,
                                          .step = steno_streams_step,
                                          .measure = steno_batcher_measure,
                                          .network_ns = steno_batcher_network_ns,
                                          .network_cpu = steno_batcher_network_cpu,
                                          .chunk_seconds = chunk_of};

/* ---- one stream ------------------------------------------------------------------------------ */

struct order {
    int rate;       /* Hz of the audio */
    int pause, end; /* hops of silence between the two sounds, and behind the second */
    double every;   /* s between partials */
    size_t block;   /* samples of a push; 0: all there is; SIZE_MAX: what the stream needs */
    int steps;      /* of an early final that run between two pushes */
    double longest; /* s of a segment; 0: more than there is */
    double wait;    /* s that its work waits for a worker, each time */
    bool no_partials, no_tail;
    char request; /* F, E or 0 */
    int at;       /* hops behind the first sound at which it comes */
};

struct result {
    char finals[600];
    int finalized, done;
    steno_status st;
    char msg[200];
};

static struct result got;

static void add_final(struct result *r, const struct steno_event *ev)
{
    const size_t n = strlen(r->finals);
    snprintf(r->finals + n, sizeof r->finals - n, "%s %d %.3f %.3f\n", ev->text, ev->reason,
             ev->start, ev->time);
}

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *n)
{
    struct result *r = user;
    (void)ps;
    pthread_mutex_lock(&gate.lock);
    if (n->kind == STENO_POOL_EVENT && n->event->kind == STENO_FINAL) {
        add_final(r, n->event);
        story.begun = false;
    }
    r->finalized += n->kind == STENO_POOL_FINALIZED;
    if (n->kind == STENO_POOL_DONE) {
        r->st = n->status;
        if (n->err)
            snprintf(r->msg, sizeof r->msg, "%.150s", n->err->msg);
        r->done = 1;
    }
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

/* A second of sound, a pause, a third of a second of sound, silence. */
static size_t make_audio(const struct order *o, float *pcm, size_t *first_end)
{
    const size_t hop = (size_t)(o->rate / 100),
                 parts[] = {10, 100, (size_t)o->pause, 60, (size_t)o->end};
    uint32_t seed = 1;
    size_t n = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (size_t k = 0; k < parts[i] * hop; k++) {
            seed = seed * 1664525u + 1013904223u;
            pcm[n++] = (float)(int32_t)seed * 0x1p-31f * (i % 2 ? 0.3f : 1e-5f);
        }
        if (i == 1)
            *first_end = n;
    }
    return n;
}

/* Whether no worker has the stream, or a step has begun that waits for the test. Waits until then.
 */
static bool in_step(steno_pool_stream *ps)
{
    for (;;) {
        bool inside, held;
        pthread_mutex_lock(&gate.lock);
        inside = gate.inside && !gate.go;
        pthread_mutex_unlock(&gate.lock);
        if (inside)
            return true;
        pthread_mutex_lock(&ps->lock);
        held = ps->held;
        pthread_mutex_unlock(&ps->lock);
        if (!held)
            return false;
        sched_yield();
    }
}

/* Run what is due, but of an early final only so many steps. Return whether one waits. */
static bool run_steps(steno_pool_stream *ps, const struct order *o, int early)
{
    while (in_step(ps)) {
        if (gate.early && early-- <= 0)
            return true;
        pthread_mutex_lock(&gate.lock);
        gate.go = true;
        queued += o->wait;
        pthread_cond_broadcast(&gate.changed);
        pthread_mutex_unlock(&gate.lock);
    }
    return false;
}

static size_t next_block(const steno_pool_stream *ps, const struct order *o, size_t left,
                         bool waits)
{
    size_t n = o->block ? o->block : left;
    if (n == SIZE_MAX)
        n = waits ? HOP : steno_stream_missing(ps->rec);
    return n < left ? n : left;
}

static void request(steno_pool_stream *ps, char kind)
{
    if (kind == 'F')
        assert_int_equal(steno_pool_stream_finalize(ps, NULL), STENO_OK);
    else
        steno_pool_stream_end(ps);
}

static void run_pooled(steno_pool *p, const struct order *o, const float *pcm, size_t n, size_t at)
{
    const struct steno_pool_stream_options so = {.stream = {.sample_rate = o->rate,
                                                            .no_partials = o->no_partials,
                                                            .no_tail = o->no_tail,
                                                            .endpoint = {.longest = o->longest}}};
    steno_pool_stream *ps;
    bool waits = false;
    memset(&got, 0, sizeof got);
    memset(&story, 0, sizeof story);
    queued = 0;
    pooled = true;
    assert_int_equal(steno_pool_stream_open(&ps, p, &so, on_note, &got, NULL), STENO_OK);
    for (size_t i = 0; i < n && !(o->request == 'E' && i == at);) {
        size_t k = next_block(ps, o, i < at ? at - i : n - i, waits), taken;
        assert_int_equal(steno_pool_stream_push(ps, pcm + i, k, &taken, NULL), STENO_OK);
        assert_int_equal(taken, k);
        i += k;
        if (i == at && o->request == 'F')
            request(ps, 'F');
        waits = run_steps(ps, o, o->steps);
        if (got.done)
            break;
    }
    request(ps, 'E');
    (void)run_steps(ps, o, 1000);
    steno_pool_stream_close(ps);
    pooled = false;
}

/* The same audio and requests, in one piece. */
static void run_alone(const struct order *o, const float *pcm, size_t n, size_t at,
                      struct result *r)
{
    const struct steno_stream_options so = {.sample_rate = o->rate,
                                            .endpoint = {.longest = o->longest}};
    struct steno_event ev;
    steno_stream *s;
    memset(r, 0, sizeof *r);
    assert_int_equal(steno_stream_open(&s, &model, &so, NULL), STENO_OK);
    steno_stream_set_early(s, false);
    assert_int_equal(steno_stream_push(s, pcm, o->request ? at : n, NULL), STENO_OK);
    if (o->request == 'F') {
        assert_int_equal(steno_stream_finalize(s, NULL), STENO_OK);
        assert_int_equal(steno_stream_push(s, pcm + at, n - at, NULL), STENO_OK);
    }
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    while (steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL)
            add_final(r, &ev);
    steno_stream_close(s);
}

static void check(steno_pool *p, const struct order *o)
{
    static float pcm[LONGEST];
    static struct result want;
    size_t end = 0, n = make_audio(o, pcm, &end), at = n;
    if (o->request)
        at = end + (size_t)(o->at * o->rate / 100);
    model.info.segments.partial_every = o->every;
    run_alone(o, pcm, n, at, &want);
    run_pooled(p, o, pcm, n, at);
    if (o->no_partials || o->no_tail)
        expect(!strchr(story.text, 'P'), "no work is done for partials that nobody wants");
    if (!fault[0] && got.done && !got.st && got.finalized == (o->request == 'F') &&
        !strcmp(got.finals, want.finals))
        return;
    fail_msg("rate %d, pause of %d hops, %d at the end, partials every %.2f s, blocks of %zu, %d "
             "steps, %c at hop %d: %s; %s%s; finals\n%sexpected\n%s",
             o->rate, o->pause, o->end, o->every, o->block, o->steps, o->request ? o->request : '-',
             o->at, story.text, fault, got.msg, got.finals, want.finals);
}

static steno_pool *open_pool(void)
{
    static const struct steno_pool_costs costs = {.step = {0.01, 0.02, 0.04, 0.08, 0.16, 0.32}};
    steno_pool *p = NULL;
    assert_int_equal(steno_pool_open_with(
                         &p, &ops, &model,
                         &(struct steno_pool_options){
                             .workers = 1, .max_streams = 1, .buffer_seconds = 10, .costs = &costs},
                         NULL),
                     STENO_OK);
    return p;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const size_t sizes[] = {0, SIZE_MAX, 1600, 480, 37 * 7};
static const int steps[] = {0, 1, 1000};
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* A partial is due in the middle of a block of the resampler; what is behind it begins a final. */
static void a_partial_leaves_samples_that_begin_a_final(void **state)
{
    steno_pool *p = open_pool();
    (void)state;
    for (int every = 10; every < 40; every++) {
        struct order o = {.rate = RATE, .pause = 60, .end = 60, .every = every / 100.0};
        for (size_t b = 0; b < COUNT(sizes); b++) {
            o.block = sizes[b];
            check(p, &o);
        }
    }
    steno_pool_close(p);
}

/* Sounds of 0.33 s with 0.12 s between them, for 30 s. */
static void a_segment_that_is_too_long_ends_between_sounds(void **state)
{
    enum { SOUND = 33 * HOP, PERIOD = 45 * HOP, ALL = 30 * RATE };
    static float pcm[ALL];
    const struct steno_stream_options so = {.no_partials = true};
    struct steno_event ev;
    steno_stream *s;
    uint32_t seed = 1;
    double last = 0;
    int n = 0;
    (void)state;
    for (int i = 0; i < ALL; i++) {
        seed = seed * 1664525u + 1013904223u;
        pcm[i] = (float)(int32_t)seed * 0x1p-31f * (i % PERIOD < SOUND ? 0.3f : 1e-5f);
    }
    model.info.endpoint.longest = 3;
    assert_int_equal(steno_stream_open(&s, &model, &so, NULL), STENO_OK);
    assert_int_equal(steno_stream_push(s, pcm, ALL, NULL), STENO_OK);
    while (steno_stream_next(s, &ev)) {
        if (ev.kind != STENO_FINAL)
            continue;
        assert_int_equal(ev.reason, STENO_FINAL_LENGTH);
        assert_true(ev.time - last <= 3.001);
        if ((int64_t)(ev.time * RATE + 0.5) % PERIOD < SOUND)
            fail_msg("the final at %.3f s ends within a sound", ev.time);
        last = ev.time;
        n++;
    }
    assert_true(n >= 10 && last > 26);
    model.info.endpoint.longest = 6;
    steno_stream_close(s);
}

static steno_tokens *tokens;

static size_t dice(size_t n)
{
    static uint32_t seed = 4;
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* All that can follow each other, and how much of the block the stream took meanwhile. Only what
 * has begun can run or be dropped, a final drops what is left of an utterance, and a request comes
 * when all audio before it is taken. */
static const char *const orders[] = {"PP>=", "PB>=<", "PX>=", "PF=<",  "PE=<",  "BR<",  "BS>=<",
                                     "BX>=", "BF<",   "BE<",  "RS>=<", "RX>=",  "RF<",  "RE<",
                                     "SP>=", "SB>=<", "SX>=", "SF<",   "SE<",   "XP>=", "XB>=<",
                                     "XX>=", "XF=<",  "XE=<", "FP>=",  "FB>=<", "FX>=", "FE<"};

static void check_seen(void)
{
    size_t n = 0;
    for (size_t i = 0; i < COUNT(orders); i++)
        for (const char *b = orders[i] + 2; *b; b++) {
            const size_t k = seen[strchr(kinds, orders[i][0]) - kinds]
                                 [strchr(kinds, orders[i][1]) - kinds][strchr(blocks, *b) - blocks];
            if (!k)
                fail_msg("%.2s with block %c never came", orders[i], *b);
            n++;
        }
    print_message("%zu pairs of order and block\n", n);
}

static void every_order_ends_well(void **state)
{
    static const double every[] = {0.1, 0.23, 0.31, 0.35, 0.5, 2};
    static const int rates[] = {RATE, RATE, 8000};
    static const double waits[] = {0, 0, 0, 0.03, 0.03, 0.03, 0.03, 0.5};
    steno_pool *p = open_pool();
    (void)state;
    for (int i = 0; i < 2000; i++) {
        const struct order o = {.rate = rates[dice(COUNT(rates))],
                                .pause = (int)(dice(3) ? 28 + dice(16) : dice(70)),
                                .end = (int)(28 + dice(30)),
                                .every = every[dice(COUNT(every))],
                                .block = sizes[dice(COUNT(sizes))],
                                .steps = steps[dice(COUNT(steps))],
                                .longest = dice(4) ? 0 : 1.5 + (double)dice(10) / 10,
                                .wait = waits[dice(COUNT(waits))],
                                .no_partials = !dice(8),
                                .no_tail = !dice(8),
                                .request = "FE"[dice(3)],
                                .at = (int)(dice(4) ? 25 + dice(20) : dice(70))};
        check(p, &o);
    }
    check_seen();
    steno_pool_close(p);
}

static int open_tokens(void **state)
{
    const steno_status st = steno_tokens_parse(&tokens, "a 0\n", 4, "tokens", NULL);
    (void)state;
    model.info.tokens = tokens;
    return st ? -1 : 0;
}

static int close_tokens(void **state)
{
    (void)state;
    steno_tokens_close(tokens);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partial_leaves_samples_that_begin_a_final),
        cmocka_unit_test(a_segment_that_is_too_long_ends_between_sounds),
        cmocka_unit_test(every_order_ends_well)};
    return cmocka_run_group_tests(tests, open_tokens, close_tokens);
}
