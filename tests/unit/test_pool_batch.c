/* Which streams share a batch, the order of the queue, and admission. The recognizers are fakes
 * whose steps are held at a barrier while the queue fills (tests/unit/pool_fake.h). */
/* link: tests/unit/pool_fake.c */
#include <math.h>
#include <string.h>

#include "tests/unit/pool_fake.h"
#include "tests/support/test.h"

enum { STREAMS = 16 };

static struct steno_pool_stream_options named(char name, enum steno_pool_class class,
                                              uint64_t owner)
{
    return (struct steno_pool_stream_options){
        .stream = {.endpoint = {.longest = name}}, .priority = class, .owner = owner};
}

/* A stream with one window that is ready to be stepped. */
static void ready(struct client *c, steno_pool *p, char name, enum steno_pool_class class,
                  uint64_t owner)
{
    struct steno_pool_stream_options o = named(name, class, owner);
    client_open(c, p, &o);
    client_push(c, WINDOW, WINDOW);
}

static void close_all(struct client *c, int n, steno_pool *p)
{
    for (int i = 0; i < n; i++)
        client_close(&c[i]);
    steno_pool_close(p);
    assert_int_equal(open_fakes, 0);
    assert_int_equal(open_batchers, 0);
}

/* One worker, held in a step of stream '0'. */
static steno_pool *held_up(const struct steno_pool_options *o, struct client *c)
{
    steno_pool *p = fake_pool(o);
    fake_log_reset();
    fake_barrier(false);
    ready(c, p, '0', STENO_POOL_LIVE, 0);
    fake_wait_batches(1);
    return p;
}

static void waiting_streams_share_a_batch(void **state)
{
    (void)state;
    static struct client c[STREAMS];
    struct steno_pool_stats st;
    steno_pool *p = held_up(&(struct steno_pool_options){.workers = 1}, &c[0]);
    for (int i = 1; i < 12; i++)
        ready(&c[i], p, (char)('a' + i - 1), STENO_POOL_LIVE, 0);
    fake_barrier(true);
    fake_wait_batches(3);
    steno_pool_close(p); /* joins the workers: the counts are complete */
    assert_string_equal(fake_log(), "0 abcdefgh ijk ");
    for (int i = 0; i < 12; i++)
        client_close(&c[i]);
    p = pool_open(1, 1, 1);
    steno_pool_get_stats(p, &st);
    assert_int_equal(st.batch_max, 8); /* the cheapest size by the fake's costs */
    close_all(c, 0, p);
}

static void batches_are_counted_and_reported(void **state)
{
    (void)state;
    static struct client c[4];
    struct steno_pool_stats st;
    steno_pool *p = held_up(&(struct steno_pool_options){.workers = 1}, &c[0]);
    for (int i = 1; i < 4; i++)
        ready(&c[i], p, 'x', STENO_POOL_LIVE, 0);
    fake_barrier(true);
    for (int i = 0; i < 4; i++) {
        steno_pool_stream_end(c[i].ps);
        client_wait_done(&c[i]);
    }
    for (int i = 0; i < 4; i++)
        client_close(&c[i]); /* waits until the worker has put it back */
    do {
        steno_pool_get_stats(p, &st);
    } while (st.batched < 8 || st.busy);
    /* for each stream one window and one step of the final flush */
    assert_int_equal(st.batched, 8);
    assert_true(st.batches[0] >= 1 && st.batches[2] >= 1 && st.batches[2] <= 2);
    close_all(c, 0, p);
}

static void batching_can_be_switched_off(void **state)
{
    (void)state;
    static struct client c[4];
    steno_pool *p = held_up(&(struct steno_pool_options){.workers = 1, .batch = 1}, &c[0]);
    for (int i = 1; i < 4; i++)
        ready(&c[i], p, (char)('a' + i - 1), STENO_POOL_LIVE, 0);
    fake_barrier(true);
    fake_wait_batches(4);
    assert_string_equal(fake_log(), "0 a b c ");
    close_all(c, 4, p);
}

/* Steps that claim to take long, so that the wait for a batch does not depend on the clock. */
static const struct steno_pool_costs slow = {.step = {10, (double)INFINITY, (double)INFINITY,
                                                      (double)INFINITY, (double)INFINITY,
                                                      (double)INFINITY}};

static void owners_are_served_round_robin(void **state)
{
    (void)state;
    static struct client c[8];
    struct steno_pool_options o = {.workers = 1, .costs = &slow, .capacity = -1};
    steno_pool *p = held_up(&o, &c[0]);
    for (int i = 1; i < 5; i++)
        ready(&c[i], p, (char)('a' + i - 1), STENO_POOL_UPLOAD, 7);
    ready(&c[5], p, 'X', STENO_POOL_UPLOAD, 8);
    ready(&c[6], p, 'Y', STENO_POOL_UPLOAD, 8);
    ready(&c[7], p, 'Z', STENO_POOL_UPLOAD, 9);
    fake_barrier(true);
    fake_wait_batches(8);
    assert_string_equal(fake_log(), "0 a X Z b Y c d ");
    close_all(c, 8, p);
}

static void streams_without_an_owner_go_as_they_come(void **state)
{
    (void)state;
    static struct client c[5];
    struct steno_pool_options o = {.workers = 1, .costs = &slow, .capacity = -1};
    steno_pool *p = held_up(&o, &c[0]);
    for (int i = 1; i < 5; i++)
        ready(&c[i], p, (char)('a' + i - 1), STENO_POOL_UPLOAD, 0);
    fake_barrier(true);
    fake_wait_batches(5);
    assert_string_equal(fake_log(), "0 a b c d ");
    close_all(c, 5, p);
}

/* Two streams of each class come in turn while the worker is held. Returns the seconds from the
 * first to the last of them: a live stream that comes a second after an upload is behind it in
 * the queue. */
static double order_of_classes(struct client *c, char *log, size_t size)
{
    static const struct {
        char name;
        enum steno_pool_class class;
    } come[] = {{'j', STENO_POOL_JOB}, {'u', STENO_POOL_UPLOAD}, {'l', STENO_POOL_LIVE},
                {'k', STENO_POOL_JOB}, {'v', STENO_POOL_UPLOAD}, {'m', STENO_POOL_LIVE}};
    enum { N = sizeof come / sizeof *come };
    struct steno_pool_options o = {.workers = 1, .batch = 1, .capacity = -1};
    steno_pool *p = held_up(&o, &c[0]);
    int64_t begin = steno_now_ns(), end;
    for (int i = 0; i < N; i++)
        ready(&c[i + 1], p, come[i].name, come[i].class, 0);
    end = steno_now_ns();
    fake_barrier(true);
    fake_wait_batches(N + 1);
    assert_true(strlen(fake_log()) < size);
    memcpy(log, fake_log(), strlen(fake_log()) + 1);
    close_all(c, N + 1, p);
    return (double)(end - begin) * 1e-9;
}

static void live_goes_before_uploads_and_uploads_before_jobs(void **state)
{
    (void)state;
    static struct client c[7];
    char log[64];
    for (int i = 0; i < 20; i++)
        if (order_of_classes(c, log, sizeof log) < 0.9) {
            assert_string_equal(log, "0 l m u v j k ");
            return;
        }
    skip(); /* on this machine no attempt took less than 0.9 s */
}

/* Streams of four windows, one worker, no batches: round robin. */
static void streams_of_a_class_are_served_round_robin(void **state)
{
    (void)state;
    static struct client c[4];
    struct steno_pool_options o = {.workers = 1, .batch = 1, .buffer_seconds = 60};
    steno_pool *p = held_up(&o, &c[0]);
    for (int i = 1; i < 4; i++) {
        struct steno_pool_stream_options so = named((char)('a' + i - 1), STENO_POOL_LIVE, 0);
        client_open(&c[i], p, &so);
        client_push(&c[i], 4 * WINDOW, 4 * WINDOW);
    }
    fake_barrier(true);
    fake_wait_batches(13);
    assert_string_equal(fake_log(), "0 a b c a b c a b c a b c ");
    close_all(c, 4, p);
}

/* Hold up a worker, before which two live streams wait with results of three steps each, the first
 * one with this slack. */
static steno_pool *two_with_results(struct client *c, int windows, double slack)
{
    struct steno_pool_options o = {.workers = 1, .batch = 1, .buffer_seconds = 60};
    steno_pool *p = held_up(&o, &c[0]);
    for (int i = 1; i < 3; i++) {
        struct steno_pool_stream_options so = named((char)('a' + i - 1), STENO_POOL_LIVE, 0);
        so.stream.endpoint.silence_after = 3;
        so.stream.utterance_end = i == 1 ? slack : 0;
        client_open(&c[i], p, &so);
        client_push(&c[i], windows * WINDOW, (size_t)windows * WINDOW);
    }
    return p;
}

/* Streams of two windows, three steps each: a result is finished before the next one begins. */
static void a_live_result_keeps_its_place_until_its_last_step(void **state)
{
    (void)state;
    static struct client c[3];
    steno_pool *p = two_with_results(c, 2, 0);
    fake_barrier(true);
    fake_wait_batches(13);
    assert_string_equal(fake_log(), "0 a a a b b b a a a b b b ");
    close_all(c, 3, p);
}

/* What is begun early goes behind work that is due, once, and then keeps its place. */
static void a_result_with_slack_lets_others_go_first(void **state)
{
    (void)state;
    static struct client c[3];
    steno_pool *p = two_with_results(c, 1, 600);
    fake_barrier(true);
    fake_wait_batches(7);
    assert_string_equal(fake_log(), "0 a b b b a a ");
    close_all(c, 3, p);
}

/* The window is full, but what its result needs is there before its first step. */
static void work_that_is_due_goes_before_a_result_that_begins_early(void **state)
{
    (void)state;
    static struct client c[3];
    steno_pool *p = two_with_results(c, 1, -600);
    fake_barrier(true);
    fake_wait_batches(7);
    assert_string_equal(fake_log(), "0 b b b a a a ");
    close_all(c, 3, p);
}

/* Samples that come between the steps of a result with slack are heard before the next step. */
static void samples_drop_a_result_with_slack(void **state)
{
    (void)state;
    static struct client c[3];
    steno_pool *p = two_with_results(c, 1, 600);
    fake_run_to(3);
    client_push(&c[1], WINDOW / 2, WINDOW);
    fake_run_to(5);
    client_push(&c[1], WINDOW / 2, WINDOW);
    fake_barrier(true);
    fake_wait_batches(8);
    assert_string_equal(fake_log(), "0 a b b b a a a ");
    steno_pool_stream_end(c[1].ps);
    client_wait_done(&c[1]);
    assert_int_equal(c[1].partials, 1);
    close_all(c, 3, p);
}

/* They are heard as soon as those of other streams, not when the result is needed. */
static void samples_bring_a_result_with_slack_forward(void **state)
{
    (void)state;
    static struct client c[4];
    steno_pool *p = two_with_results(c, 1, 600);
    fake_run_to(3);
    client_push(&c[1], WINDOW, WINDOW);
    ready(&c[3], p, 'x', STENO_POOL_LIVE, 0);
    fake_barrier(true);
    fake_wait_batches(9);
    assert_string_equal(fake_log(), "0 a b b b a x a a ");
    close_all(c, 4, p);
}

/* What a client asks for is needed now, whether it waits or a worker has it. */
static void a_request_takes_the_slack_away(void **state)
{
    static const struct {
        int held; /* the step during which it is asked for */
        bool end;
        const char *log;
    } cases[] = {{3, false, "0 a b b b a a x "},
                 {3, true, "0 a b b b a a x "},
                 {2, false, "0 a a a b b b x "},
                 {2, true, "0 a a a b b b x "}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct client c[4];
        steno_pool *p = two_with_results(c, 1, 600);
        fake_run_to(cases[i].held);
        if (cases[i].end)
            steno_pool_stream_end(c[1].ps);
        else
            assert_int_equal(steno_pool_stream_finalize(c[1].ps, NULL), STENO_OK);
        ready(&c[3], p, 'x', STENO_POOL_LIVE, 0);
        fake_barrier(true);
        fake_wait_batches(8);
        assert_string_equal(fake_log(), cases[i].log);
        steno_pool_stream_end(c[1].ps);
        client_wait_done(&c[1]);
        assert_int_equal(c[1].finals, cases[i].end ? 1 : 2);
        close_all(c, 4, p);
    }
}

/* ---- parts of a step ------------------------------------------------------------------------- */

/* A stream with one window of so many steps, of which it takes this part. */
static void ready_part(struct client *c, steno_pool *p, char name, enum steno_pool_class class,
                       int steps, double share)
{
    struct steno_pool_stream_options o = named(name, class, 0);
    o.stream.endpoint.silence_after = steps;
    o.stream.endpoint.silence_alone = share;
    client_open(c, p, &o);
    client_push(c, WINDOW, WINDOW);
}

static void streams_share_a_step_until_their_parts_fill_it(void **state)
{
    static const double share[] = {0.375, 0.375, 0.375, 1, 0.25, 0.25};
    static struct client c[7];
    steno_pool *p = held_up(&(struct steno_pool_options){.workers = 1}, &c[0]);
    (void)state;
    for (int i = 0; i < 6; i++)
        ready_part(&c[i + 1], p, (char)('a' + i), STENO_POOL_LIVE, 1, share[i]);
    fake_barrier(true);
    fake_wait_batches(4);
    assert_string_equal(fake_log(), "0 abe cf d ");
    close_all(c, 7, p);
}

/* A job waits as long as its class may: it joins no step of a live stream, which would take
 * longer for it. */
static void a_stream_that_may_wait_joins_no_step_of_one_that_may_not(void **state)
{
    static struct client c[5];
    steno_pool *p = held_up(&(struct steno_pool_options){.workers = 1}, &c[0]);
    (void)state;
    ready_part(&c[1], p, 'u', STENO_POOL_JOB, 1, 0.25);
    ready_part(&c[2], p, 'a', STENO_POOL_LIVE, 1, 0.25);
    ready_part(&c[3], p, 'v', STENO_POOL_JOB, 1, 0.25);
    ready_part(&c[4], p, 'b', STENO_POOL_LIVE, 1, 0.25);
    fake_barrier(true);
    fake_wait_batches(3);
    assert_string_equal(fake_log(), "0 ab uv ");
    close_all(c, 5, p);
}

/* Results of three steps, of which the first one is not shared: those that wait have it before the
 * others go on, and all go on together. Without batches results are finished one by one. */
static void live_results_go_on_together_after_their_first_steps(void **state)
{
    static struct client c[3];
    (void)state;
    for (int batch = 0; batch < 2; batch++) {
        steno_pool *p = held_up(&(struct steno_pool_options){.workers = 1, .batch = batch}, &c[0]);
        ready_part(&c[1], p, 'a', STENO_POOL_LIVE, 3, -0.5);
        ready_part(&c[2], p, 'b', STENO_POOL_LIVE, 3, -0.5);
        fake_barrier(true);
        fake_wait_batches(batch ? 7 : 5);
        assert_string_equal(fake_log(), batch ? "0 a a a b b b " : "0 a b ab ab ");
        close_all(c, 3, p);
    }
}

static void wait_partials(struct client *c, int n)
{
    pthread_mutex_lock(&c->lock);
    while (c->partials < n)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

/* Uploads of an hour are in the middle; then one of two seconds comes. All of it runs before the
 * long ones continue. */
static void a_short_upload_goes_before_long_ones(void **state)
{
    (void)state;
    enum { LONG = 4, CLIP = 2 * RATE / WINDOW };
    static struct client c[LONG + 2];
    struct steno_pool_options o = {.workers = 1, .batch = 1, .buffer_seconds = 60};
    struct steno_pool_stream_options clip = named('X', STENO_POOL_UPLOAD, 0);
    char want[128] = "0 ";
    steno_pool *p = fake_pool(&o);
    fake_log_reset();
    for (int i = 0; i < LONG; i++) {
        struct steno_pool_stream_options so = named((char)('a' + i), STENO_POOL_UPLOAD, 0);
        client_open(&c[i], p, &so);
        client_push(&c[i], 40 * RATE, 4 * WINDOW);
    }
    for (int i = 0; i < LONG; i++)
        wait_partials(&c[i], 40 * RATE / WINDOW);
    fake_barrier(false);
    fake_log_reset();
    ready(&c[LONG], p, '0', STENO_POOL_LIVE, 0);
    fake_wait_batches(1);
    for (int i = 0; i < LONG; i++)
        client_push(&c[i], 2 * WINDOW, 2 * WINDOW);
    client_open(&c[LONG + 1], p, &clip);
    client_push(&c[LONG + 1], 2 * RATE, 4 * WINDOW);
    for (int i = 0; i < CLIP; i++)
        strcat(want, "X ");
    strcat(want, "a b c d a b c d ");
    fake_barrier(true);
    fake_wait_batches(1 + CLIP + 2 * LONG);
    assert_string_equal(fake_log(), want);
    close_all(c, LONG + 2, p);
}

/* ---- batch wait ------------------------------------------------------------------------------ */

/* A pool that takes itself for busy, and keeps doing so. */
static steno_pool *crowded(double wait)
{
    struct steno_pool_options o = {.workers = 1, .batch_wait = wait};
    steno_pool *p = fake_pool(&o);
    pthread_mutex_lock(&p->lock);
    p->load.demand = 10;
    p->load.capacity.at_ns = INT64_MAX / 2; /* the load is not measured any more */
    pthread_mutex_unlock(&p->lock);
    fake_log_reset();
    fake_barrier(true);
    return p;
}

static void a_crowd_waits_for_a_full_batch(void **state)
{
    (void)state;
    static struct client c[8];
    steno_pool *p = crowded(10);
    for (int i = 0; i < 8; i++)
        ready(&c[i], p, (char)('a' + i), STENO_POOL_LIVE, 0);
    fake_wait_batches(1);
    assert_string_equal(fake_log(), "abcdefgh ");
    close_all(c, 8, p);
}

static void an_upload_is_not_made_to_wait(void **state)
{
    (void)state;
    static struct client c[3];
    steno_pool *p = crowded(10);
    ready(&c[0], p, 'a', STENO_POOL_LIVE, 0);
    ready(&c[1], p, 'b', STENO_POOL_LIVE, 0);
    ready(&c[2], p, 'u', STENO_POOL_UPLOAD, 0);
    fake_wait_batches(1);
    assert_string_equal(fake_log(), "abu ");
    close_all(c, 3, p);
}

static void no_stream_waits_longer_than_the_batch_wait(void **state)
{
    (void)state;
    static struct client c;
    steno_pool *p = crowded(0.03);
    int64_t t = steno_now_ns();
    ready(&c, p, 'a', STENO_POOL_LIVE, 0);
    fake_wait_batches(1);
    assert_true(steno_now_ns() - t >= 29000000);
    assert_string_equal(fake_log(), "a ");
    close_all(&c, 1, p);
    p = crowded(-1); /* no batch wait */
    ready(&c, p, 'a', STENO_POOL_LIVE, 0);
    fake_wait_batches(1);
    close_all(&c, 1, p);
}

static void closing_ends_the_wait(void **state)
{
    (void)state;
    static struct client c;
    steno_pool *p = crowded(10);
    ready(&c, p, 'a', STENO_POOL_LIVE, 0);
    steno_pool_close(p);
    assert_string_equal(fake_log(), ""); /* closed before its first step */
    assert_int_equal(c.status, STENO_ERR_CANCELLED);
    client_close(&c);
}

/* ---- admission ------------------------------------------------------------------------------- */

static void live_streams_above_the_capacity_are_refused(void **state)
{
    (void)state;
    struct steno_pool_options o = {.workers = 1, .capacity = 2, .max_streams = 5};
    steno_pool *p = fake_pool(&o);
    steno_pool_stream *ps = NULL;
    static struct client c[5];
    struct steno_pool_stream_options live = named('l', STENO_POOL_LIVE, 0),
                                     upload = named('u', STENO_POOL_UPLOAD, 0), canary = live;
    struct steno_pool_stats st;
    steno_err err;
    canary.always = true;
    client_open(&c[0], p, &live);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, NULL), STENO_OK);
    client_open(&c[1], p, &live);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, &err), STENO_ERR_BUSY);
    assert_non_null(strstr(err.msg, "2 live streams"));
    assert_int_equal(steno_pool_stream_open(&ps, p, &live, NULL, NULL, NULL), STENO_ERR_BUSY);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_UPLOAD, NULL), STENO_OK);
    client_open(&c[2], p, &upload);
    client_open(&c[3], p, &canary);
    client_open(&c[4], p, &canary);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_UPLOAD, &err), STENO_ERR_BUSY); /* 5 places */
    steno_pool_get_stats(p, &st);
    assert_int_equal(st.live, 2);
    assert_int_equal(st.active, 5);
    assert_int_equal(st.refused, 3);
    assert_int_equal(st.capacity, 2);
    client_close(&c[0]);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, NULL), STENO_OK);
    close_all(c + 1, 4, p);
}

/* Many clients ask at once and open a little later. The pool promises no more places than it
 * has. */
static void a_promised_place_is_kept_for_a_moment(void **state)
{
    (void)state;
    struct steno_pool_options o = {.workers = 1, .capacity = 2};
    steno_pool *p = fake_pool(&o);
    static struct client c[2];
    struct steno_pool_stream_options live = named('l', STENO_POOL_LIVE, 0);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, NULL), STENO_OK);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, NULL), STENO_OK);
    pthread_mutex_lock(&p->lock);
    assert_int_equal(p->promised + p->promised_before, 2);
    p->promised_ns = steno_now_ns(); /* other tests may delay this thread; restart the period */
    pthread_mutex_unlock(&p->lock);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, NULL), STENO_ERR_BUSY);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_UPLOAD, NULL), STENO_OK);
    client_open(&c[0], p, &live);
    pthread_mutex_lock(&p->lock);
    assert_int_equal(p->promised + p->promised_before, 1); /* c[0] has used its own promise */
    /* unused promises expire: still valid after one period, gone after the next */
    p->promised_ns = steno_now_ns() - 1500000000;
    pthread_mutex_unlock(&p->lock);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, NULL), STENO_ERR_BUSY);
    pthread_mutex_lock(&p->lock);
    p->promised_ns = steno_now_ns() - 1500000000;
    pthread_mutex_unlock(&p->lock);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, NULL), STENO_OK);
    client_open(&c[1], p, &live);
    close_all(c, 2, p);
}

/* The capacity falls between the promise and the opening: the promise still holds. */
static void a_promised_place_outlives_the_capacity(void **state)
{
    (void)state;
    struct steno_pool_options o = {.workers = 1, .capacity = 2};
    steno_pool *p = fake_pool(&o);
    steno_pool_stream *ps = NULL;
    static struct client c[1];
    struct steno_pool_stream_options live = named('l', STENO_POOL_LIVE, 0);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, NULL), STENO_OK);
    pthread_mutex_lock(&p->lock);
    p->opt.capacity = 0;
    p->load.capacity.spent *= 1e9; /* capacity for one stream */
    p->stats.live++;
    pthread_mutex_unlock(&p->lock);
    client_open(&c[0], p, &live);
    assert_int_equal(steno_pool_stream_open(&ps, p, &live, NULL, NULL, NULL), STENO_ERR_BUSY);
    pthread_mutex_lock(&p->lock);
    p->stats.live--;
    pthread_mutex_unlock(&p->lock);
    close_all(c, 1, p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_streams_share_a_batch),
        cmocka_unit_test(batches_are_counted_and_reported),
        cmocka_unit_test(batching_can_be_switched_off),
        cmocka_unit_test(live_goes_before_uploads_and_uploads_before_jobs),
        cmocka_unit_test(streams_of_a_class_are_served_round_robin),
        cmocka_unit_test(a_live_result_keeps_its_place_until_its_last_step),
        cmocka_unit_test(a_result_with_slack_lets_others_go_first),
        cmocka_unit_test(work_that_is_due_goes_before_a_result_that_begins_early),
        cmocka_unit_test(samples_drop_a_result_with_slack),
        cmocka_unit_test(samples_bring_a_result_with_slack_forward),
        cmocka_unit_test(a_request_takes_the_slack_away),
        cmocka_unit_test(streams_share_a_step_until_their_parts_fill_it),
        cmocka_unit_test(a_stream_that_may_wait_joins_no_step_of_one_that_may_not),
        cmocka_unit_test(live_results_go_on_together_after_their_first_steps),
        cmocka_unit_test(a_short_upload_goes_before_long_ones),
        cmocka_unit_test(owners_are_served_round_robin),
        cmocka_unit_test(streams_without_an_owner_go_as_they_come),
        cmocka_unit_test(a_crowd_waits_for_a_full_batch),
        cmocka_unit_test(an_upload_is_not_made_to_wait),
        cmocka_unit_test(no_stream_waits_longer_than_the_batch_wait),
        cmocka_unit_test(closing_ends_the_wait),
        cmocka_unit_test(live_streams_above_the_capacity_are_refused),
        cmocka_unit_test(a_promised_place_is_kept_for_a_moment),
        cmocka_unit_test(a_promised_place_outlives_the_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
