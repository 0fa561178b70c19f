/* The store of jobs in Redis, against a redis-server of its own: changes of state, turns of owners,
 * quotas, recordings and results in blocks, Idempotency-Key, callbacks, and many threads with two
 * stores. Without redis-server the tests are skipped. The clock is the test's own, but leases are
 * on Redis' clock. */
/* link: server/jobs/job_redis.c server/jobs/job_scripts.c server/jobs/job_queue.c */
/* link: server/jobs/redis.c */
/* link: server/jobs/redis_url.c server/jobs/redis_call.c server/base/log.c */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/jobs/job_redis.h"
#include "server/jobs/redis.h"
#include "tests/support/test.h"

#define T INT64_C(1800000000000) /* the time of a test's beginning */
#define KEEP 1000000

static char url[64], folder[] = "/tmp/steno-redis-XXXXXX";
static pid_t server;
static int port;

static steno_job_queue *q;

/* ---- the server ------------------------------------------------------------------------------ */

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static bool answers(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool yes = connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
    close(fd);
    return yes;
}

static int start_server(void **state)
{
    char text[16];
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    port = free_port();
    snprintf(text, sizeof text, "%d", port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/1", port);
    server = fork();
    if (server == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        execlp("redis-server", "redis-server", "--port", text, "--bind", "127.0.0.1", "--save", "",
               "--appendonly", "no", "--dir", folder, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 600 && !answers(); i++) {
        if (waitpid(server, NULL, WNOHANG) == server) {
            server = 0; /* it is not installed */
            return 0;
        }
        usleep(50000);
    }
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    if (server) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    return rmdir(folder);
}

static redisReply *ask(const char *command)
{
    redisContext *c = redisConnect("127.0.0.1", port);
    redisReply *r;
    freeReplyObject(redisCommand(c, "SELECT 1"));
    r = redisCommand(c, command);
    assert_non_null(r);
    redisFree(c);
    return r;
}

static long long ask_number(const char *command)
{
    redisReply *r = ask(command);
    const long long v = r->integer;
    freeReplyObject(r);
    return v;
}

static int begin(void **state)
{
    steno_err err = {STENO_OK, ""};
    (void)state;
    if (!server)
        return 0;
    freeReplyObject(ask("FLUSHDB"));
    if (steno_job_redis_open(&q, url, NULL, 60000, &err))
        fail_msg("%s", err.msg);
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (server)
        q->ops->close(q);
    return 0;
}

#define NEEDS_SERVER()                                                                             \
    do {                                                                                           \
        if (!server)                                                                               \
            skip();                                                                                \
    } while (0)

/* ---- steps ----------------------------------------------------------------------------------- */

static steno_status add_as(const char *owner, const char *id, int64_t expires, const char *callback,
                           const struct steno_job_quota *quota)
{
    const struct steno_job_quota none = {0, 0};
    const struct steno_job_new j = {.id = id,
                                    .owner = owner,
                                    .target = "/v1/transcribe?model=x",
                                    .url = "https://h/a.wav",
                                    .callback = callback,
                                    .method = "POST",
                                    .created = T,
                                    .expires = expires};
    steno_err err;
    return q->ops->submit(q, &j, 1, quota ? quota : &none, NULL, &err);
}

static void add(const char *owner, const char *id)
{
    assert_int_equal(add_as(owner, id, 0, "", NULL), STENO_OK);
}

static void assert_claimed(int64_t now, const char *id, int attempt)
{
    struct steno_job_record r;
    steno_err err = {STENO_OK, ""};
    steno_status st = q->ops->claim(q, "", now, 0, &r, &err);
    if (!id) {
        assert_int_equal(st, STENO_NEED_MORE);
        return;
    }
    if (st)
        fail_msg("%s: %d %s", id, (int)st, err.msg);
    assert_string_equal(r.id, id);
    assert_int_equal(r.attempts, attempt);
    assert_int_equal(r.state, STENO_JOB_RUNNING);
    assert_string_equal(r.target, "/v1/transcribe?model=x");
    steno_job_record_free(&r);
}

static void assert_state(const char *id, enum steno_job_state state, int attempts, const char *code)
{
    struct steno_job_record r;
    steno_err err;
    assert_int_equal(q->ops->get(q, NULL, id, &r, &err), STENO_OK);
    assert_int_equal(r.state, state);
    assert_int_equal(r.attempts, attempts);
    assert_string_equal(r.code, code);
    steno_job_record_free(&r);
}

static steno_status done(const char *id, int attempt, const char *text, size_t n)
{
    const struct steno_job_body bodies[] = {{"json", text, n}, {"text", "", 0}};
    const struct steno_job_end e = {.state = STENO_JOB_DONE,
                                    .reason = "",
                                    .code = "",
                                    .model = "m",
                                    .duration = 2,
                                    .results = bodies,
                                    .n_results = 2};
    steno_err err;
    return q->ops->finish(q, id, attempt, T, &e, &err);
}

static steno_status let_go(const char *id, int attempt, int64_t not_before, bool counted)
{
    bool failed = false;
    steno_err err;
    steno_status st = q->ops->release(
        q, id, attempt, &(struct steno_job_release){T, not_before, counted, "io", "why"}, &failed,
        &err);
    assert_int_equal(failed, !st && counted && attempt >= STENO_JOB_TRIES);
    return st;
}

static void ignore_gone(void *user, const char *id)
{
    (void)id;
    ++*(int *)user;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void owners_with_few_running_jobs_go_first_then_the_oldest_job(void **state)
{
    (void)state;
    NEEDS_SERVER();
    add("a", "job_1");
    add("a", "job_2");
    add("a", "job_3");
    add("b", "job_4");
    add("c", "job_5");
    assert_claimed(T, "job_1", 1);
    assert_claimed(T, "job_4", 1);
    assert_claimed(T, "job_5", 1);
    assert_claimed(T, "job_2", 1);
    assert_int_equal(let_go("job_1", 1, 0, false), STENO_OK); /* keeps its place before job_3 */
    assert_claimed(T, "job_1", 1);
    assert_int_equal(let_go("job_2", 1, T + 10, true), STENO_OK);
    assert_claimed(T, "job_3", 1);
    assert_claimed(T, NULL, 0);
    assert_claimed(T + 10, "job_2", 2);
}

static void a_run_that_lost_its_job_changes_nothing(void **state)
{
    const struct steno_job_segment seg = {0, 1, "one two"};
    steno_err err;
    (void)state;
    NEEDS_SERVER();
    add("", "job_1");
    assert_claimed(T, "job_1", 1);
    assert_int_equal(q->ops->heartbeat(q, "job_1", 1, 0, &err), STENO_OK);
    assert_int_equal(
        q->ops->progress(q, "job_1", 1, &(struct steno_job_progress){1, 2, 0, &seg, 1}, &err),
        STENO_OK);
    assert_int_equal(let_go("job_1", 1, 0, true), STENO_OK);
    for (int i = 0; i < 2; i++) { /* queued, then in its second run */
        assert_int_equal(q->ops->heartbeat(q, "job_1", 1, 0, &err), STENO_ERR_CANCELLED);
        assert_int_equal(
            q->ops->progress(q, "job_1", 1, &(struct steno_job_progress){1, 2, 0, &seg, 1}, &err),
            STENO_ERR_CANCELLED);
        assert_int_equal(done("job_1", 1, "late", 4), STENO_ERR_CANCELLED);
        assert_int_equal(let_go("job_1", 1, 0, true), STENO_ERR_CANCELLED);
        if (!i)
            assert_claimed(T, "job_1", 2);
    }
    assert_int_equal(done("job_1", 2, "{}", 2), STENO_OK);
    assert_int_equal(done("job_1", 2, "{}", 2), STENO_OK); /* its answer was lost */
    assert_state("job_1", STENO_JOB_DONE, 2, "");
    assert_int_equal(ask_number("XLEN steno:runs"), 0);
}

static void the_third_try_is_the_last(void **state)
{
    (void)state;
    NEEDS_SERVER();
    add("", "job_1");
    for (int n = 1; n <= 3; n++) {
        assert_claimed(T, "job_1", n);
        assert_int_equal(let_go("job_1", n, 0, true), STENO_OK);
    }
    assert_state("job_1", STENO_JOB_FAILED, 3, "io");
    assert_claimed(T, NULL, 0);
    assert_int_equal(ask_number("EXISTS steno:open"), 0);
}

static steno_status add_block(void *user, const void *p, size_t n, steno_err *err)
{
    (void)err;
    return steno_buf_add(user, p, n);
}

static void recordings_and_results_are_stored_in_blocks(void **state)
{
    const size_t sizes[] = {1, 1u << 20, (1u << 20) + 1, 3000000};
    const struct steno_job_quota none = {0, 0};
    char *bytes;
    (void)state;
    NEEDS_SERVER();
    bytes = malloc(3000000);
    for (size_t i = 0; i < 3000000; i++)
        bytes[i] = (char)(i * 7 + i / 1000);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        char id[32];
        struct steno_buf out;
        struct steno_job_new j = {
            .id = id, .owner = "", .target = "/v1/transcribe?model=x", .url = "", .created = T};
        FILE *f = tmpfile();
        steno_err err = {STENO_OK, ""};
        snprintf(id, sizeof id, "job_%zu", k);
        j.bytes = (int64_t)sizes[k];
        assert_int_equal(fwrite(bytes, 1, sizes[k], f), sizes[k]);
        rewind(f);
        assert_int_equal(q->ops->submit(q, &j, 1, &none, NULL, &err), STENO_ERR_IO); /* no audio */
        assert_non_null(strstr(err.msg, "recording"));
        assert_int_equal(q->ops->put_audio(q, id, fileno(f), &err), STENO_OK);
        fclose(f);
        assert_int_equal(q->ops->submit(q, &j, 1, &none, NULL, &err), STENO_OK);
        assert_int_equal(q->ops->submit(q, &j, 1, &none, NULL, &err), STENO_OK); /* sent twice */
        assert_claimed(T, id, 1);
        steno_buf_init(&out, 4000000);
        assert_int_equal(q->ops->get_audio(q, id, add_block, &out, &err), STENO_OK);
        assert_int_equal(out.len, sizes[k]);
        assert_memory_equal(out.data, bytes, sizes[k]);
        assert_int_equal(done(id, 1, bytes, sizes[k]), STENO_OK);
        assert_int_equal(q->ops->get_audio(q, id, add_block, &out, &err), STENO_NEED_MORE);
        steno_buf_reset(&out);
        assert_int_equal(q->ops->result(q, id, "json", &out, &err), STENO_OK);
        assert_int_equal(out.len, sizes[k]);
        assert_memory_equal(out.data, bytes, sizes[k]);
        steno_buf_reset(&out);
        assert_int_equal(q->ops->result(q, id, "text", &out, &err), STENO_OK);
        assert_int_equal(out.len, 0);
        assert_int_equal(q->ops->result(q, id, "srt", &out, &err), STENO_NEED_MORE);
        steno_buf_free(&out);
        assert_int_equal(q->ops->remove(q, NULL, id, T, &err), STENO_OK); /* forgotten */
    }
    free(bytes);
    assert_int_equal(ask_number("EVAL \"return #redis.call('KEYS','steno:res:*')\" 0"), 0);
    assert_int_equal(ask_number("EVAL \"return #redis.call('KEYS','steno:job:*')\" 0"), 0);
}

static void quotas_count_what_is_not_over(void **state)
{
    const struct steno_job_quota quota = {3, 2};
    steno_err err;
    (void)state;
    NEEDS_SERVER();
    assert_int_equal(add_as("a", "job_1", 0, "", &quota), STENO_OK);
    assert_int_equal(add_as("a", "job_2", 0, "", &quota), STENO_OK);
    assert_int_equal(add_as("a", "job_3", 0, "", &quota), STENO_ERR_BUSY);
    assert_int_equal(add_as("b", "job_4", 0, "", &quota), STENO_OK);
    assert_int_equal(add_as("b", "job_5", 0, "", &quota), STENO_ERR_LIMIT);
    assert_int_equal(q->ops->remove(q, "b", "job_1", T, &err), STENO_ERR_INVAL);
    assert_int_equal(q->ops->remove(q, "a", "job_1", T, &err), STENO_OK);
    assert_state("job_1", STENO_JOB_CANCELLED, 0, "cancelled");
    assert_int_equal(add_as("a", "job_3", 0, "", &quota), STENO_OK);
}

static void jobs_expire_and_are_forgotten_after_their_time(void **state)
{
    int gone = 0;
    struct steno_job_counts n;
    struct steno_job_record r;
    steno_err err;
    (void)state;
    NEEDS_SERVER();
    assert_int_equal(add_as("", "job_1", T + 10, "", NULL), STENO_OK);
    assert_int_equal(add_as("", "job_2", T + 10, "https://h/", NULL), STENO_OK);
    assert_claimed(T, "job_1", 1);
    assert_int_equal(q->ops->sweep(q, T + 9, KEEP, ignore_gone, &gone, &err), STENO_OK);
    assert_int_equal(gone, 0);
    assert_claimed(T + 10, NULL, 0); /* job_2 expires where it would be claimed */
    assert_state("job_2", STENO_JOB_EXPIRED, 0, "expired");
    assert_int_equal(q->ops->sweep(q, T + 10, KEEP, ignore_gone, &gone, &err), STENO_OK);
    assert_int_equal(gone, 1);
    assert_int_equal(done("job_1", 1, "", 0), STENO_ERR_CANCELLED);
    assert_int_equal(q->ops->count(q, &n, &err), STENO_OK);
    assert_int_equal(n.jobs[STENO_JOB_EXPIRED], 2);
    assert_int_equal(n.callbacks[STENO_CALLBACK_PENDING], 1);
    assert_int_equal(q->ops->sweep(q, T + 10 + KEEP, KEEP, ignore_gone, &gone, &err), STENO_OK);
    assert_int_equal(q->ops->get(q, NULL, "job_1", &r, &err), STENO_ERR_INVAL);
    assert_int_equal(q->ops->get(q, NULL, "job_2", &r, &err), STENO_OK); /* its callback waits */
    steno_job_record_free(&r);
}

static void callbacks_are_counted_before_they_are_sent(void **state)
{
    struct steno_job_record r;
    char event[STENO_JOB_ID];
    steno_err err;
    (void)state;
    NEEDS_SERVER();
    assert_int_equal(add_as("", "job_1", 0, "https://h/", NULL), STENO_OK);
    add("", "job_2");
    assert_int_equal(q->ops->callback(q, T, T + 60, &r, &err), STENO_NEED_MORE);
    assert_claimed(T, "job_1", 1);
    assert_int_equal(done("job_1", 1, "{}", 2), STENO_OK);
    for (int n = 1; n <= 2; n++) { /* the second after the first one's sender has died */
        assert_int_equal(q->ops->callback(q, T + 60 * n, T + 60 * (n + 1), &r, &err), STENO_OK);
        assert_int_equal(r.callback_tries, n);
        assert_int_equal(strlen(r.event), 36);
        if (n > 1)
            assert_string_equal(r.event, event);
        memcpy(event, r.event, sizeof event);
        steno_job_record_free(&r);
        assert_int_equal(q->ops->callback(q, T + 60 * n, T + 999, &r, &err), STENO_NEED_MORE);
    }
    assert_int_equal(q->ops->callback_over(q, "job_1", STENO_CALLBACK_DELIVERED, 0, "", &err),
                     STENO_OK);
    /* the first sender was only slow: what it says comes too late */
    assert_int_equal(q->ops->callback_over(q, "job_1", STENO_CALLBACK_PENDING, T, "late", &err),
                     STENO_OK);
    assert_int_equal(q->ops->callback(q, T + 9999, T + 99999, &r, &err), STENO_NEED_MORE);
    assert_int_equal(q->ops->callback_again(q, NULL, "job_2", T, &err), STENO_NEED_MORE);
    assert_int_equal(q->ops->callback_again(q, NULL, "job_3", T, &err), STENO_ERR_INVAL);
    assert_int_equal(q->ops->callback_again(q, "", "job_1", T, &err), STENO_OK);
    assert_int_equal(q->ops->callback(q, T, T + 60, &r, &err), STENO_OK);
    assert_int_equal(r.callback_tries, 3);
    steno_job_record_free(&r);
}

static steno_status note_id(void *user, const struct steno_job_record *r)
{
    char *text = user;
    strcat(text, r->id + 4);
    return STENO_OK;
}

static void lists_have_pages_and_filters(void **state)
{
    struct steno_job_page page = {
        .owner = "a", .after = "", .limit = 2, .state = -1, .callback_state = -1};
    char got[64] = "";
    bool more;
    steno_err err;
    (void)state;
    NEEDS_SERVER();
    for (int i = 0; i < 6; i++) {
        char id[16];
        snprintf(id, sizeof id, "job_%d", i);
        add(i % 2 ? "b" : "a", id);
    }
    assert_claimed(T, "job_0", 1);
    assert_int_equal(q->ops->list(q, &page, note_id, got, &more, &err), STENO_OK);
    assert_string_equal(got, "42");
    assert_true(more);
    page.after = "job_2";
    assert_int_equal(q->ops->list(q, &page, note_id, got, &more, &err), STENO_OK);
    assert_string_equal(got, "420");
    assert_false(more);
    page.after = "job_1"; /* another owner's */
    assert_int_equal(q->ops->list(q, &page, note_id, got, &more, &err), STENO_ERR_INVAL);
    page = (struct steno_job_page){"", true, "", 10, STENO_JOB_RUNNING, -1};
    *got = '\0';
    assert_int_equal(q->ops->list(q, &page, note_id, got, &more, &err), STENO_OK);
    assert_string_equal(got, "0");
    page.state = STENO_JOB_QUEUED;
    assert_int_equal(q->ops->list(q, &page, note_id, got, &more, &err), STENO_OK);
    assert_string_equal(got, "054321");
}

static void a_store_without_its_group_or_its_data_goes_on(void **state)
{
    steno_err err;
    (void)state;
    NEEDS_SERVER();
    add("", "job_1");
    assert_claimed(T, "job_1", 1);
    freeReplyObject(ask("XGROUP DESTROY steno:runs workers"));
    add("", "job_2");
    assert_claimed(T, "job_2", 1);
    assert_int_equal(q->ops->heartbeat(q, "job_1", 1, 0, &err), STENO_OK); /* pending again */
    assert_int_equal(done("job_1", 1, "{}", 2), STENO_OK);
    freeReplyObject(ask("FLUSHDB"));
    assert_int_equal(done("job_2", 1, "{}", 2), STENO_ERR_CANCELLED);
    add("", "job_3");
    assert_claimed(T, "job_3", 1);
}

/* ---- many at once ---------------------------------------------------------------------------- */

#define THREADS 6
#define JOBS 40

static atomic_int ran[THREADS * JOBS], taken;

struct worker {
    steno_job_queue *q;
    int n;
};

/* Submit and run jobs, whoever's they are. */
static void *work(void *arg)
{
    const struct worker *w = arg;
    const struct steno_job_quota none = {0, 0};
    for (int i = 0; i < JOBS; i++) {
        char id[32], owner[8];
        struct steno_job_new j = {.id = id,
                                  .owner = owner,
                                  .target = "/v1/transcribe?model=x",
                                  .url = "https://h/",
                                  .created = T};
        struct steno_job_record r;
        struct steno_job_counts c;
        steno_err err;
        snprintf(id, sizeof id, "job_%d", w->n * JOBS + i);
        snprintf(owner, sizeof owner, "o%d", i % 5);
        if (w->q->ops->submit(w->q, &j, 1, &none, NULL, &err) ||
            w->q->ops->claim(w->q, "", T, 0, &r, &err))
            return arg;
        if (atomic_fetch_add(&ran[atoi(r.id + 4)], 1) || r.attempts != 1 ||
            w->q->ops->heartbeat(w->q, r.id, 1, 0, &err) ||
            w->q->ops->finish(
                w->q, r.id, 1, T,
                &(struct steno_job_end){
                    .state = STENO_JOB_FAILED, .reason = "r", .code = "c", .model = ""},
                &err) ||
            w->q->ops->count(w->q, &c, &err))
            return arg;
        steno_job_record_free(&r);
        atomic_fetch_add(&taken, 1);
    }
    return NULL;
}

static void two_stores_and_many_threads_run_each_job_once(void **state)
{
    steno_job_queue *other;
    pthread_t t[THREADS];
    struct worker w[THREADS];
    steno_err err;
    (void)state;
    NEEDS_SERVER();
    assert_int_equal(steno_job_redis_open(&other, url, NULL, 60000, &err), STENO_OK);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){i % 2 ? other : q, i};
        assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(t[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(atomic_load(&taken), THREADS * JOBS);
    other->ops->close(other);
    assert_int_equal(ask_number("ZCARD steno:state:3"), THREADS * JOBS);
    assert_int_equal(ask_number("ZCARD steno:state:1"), 0);
    assert_int_equal(ask_number("EXISTS steno:open steno:running steno:turns steno:delayed"), 0);
    assert_int_equal(ask_number("XLEN steno:runs"), 0);
}

static void a_store_that_dies_fails_at_once_and_comes_back(void **state)
{
    struct steno_job_record r;
    struct timespec a, b;
    steno_err err = {STENO_OK, ""};
    (void)state;
    NEEDS_SERVER();
    add("", "job_1");
    freeReplyObject(ask("CLIENT KILL TYPE normal SKIPME yes"));          /* as a restart does */
    assert_int_equal(q->ops->get(q, NULL, "job_1", &r, &err), STENO_OK); /* asked again */
    steno_job_record_free(&r);
    kill(server, SIGSTOP); /* it accepts and is silent */
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(q->ops->get(q, NULL, "job_1", &r, &err), STENO_ERR_IO);
        assert_non_null(strstr(err.msg, "the store of jobs at 127.0.0.1"));
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_in_range(b.tv_sec - a.tv_sec, 1, 20); /* one of the twenty has waited for 2 s, not all */
    kill(server, SIGCONT);
    for (int i = 0; i < 100 && q->ops->heartbeat(q, "none", 1, 0, &err) == STENO_ERR_IO; i++)
        usleep(100000);
    assert_int_equal(q->ops->get(q, NULL, "job_1", &r, &err), STENO_OK);
    steno_job_record_free(&r);
}

static void the_trace_of_a_request_stays_with_its_job(void **state)
{
    static const char parent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const struct steno_job_quota none = {0, 0};
    const struct steno_job_new j[] = {{.id = "job_traced",
                                       .owner = "",
                                       .target = "/v1/jobs",
                                       .url = "https://h/a.wav",
                                       .callback = "https://h/",
                                       .method = "POST",
                                       .created = T,
                                       .traceparent = parent,
                                       .tracestate = "a=1,b=2"},
                                      {.id = "job_plain",
                                       .owner = "",
                                       .target = "/v1/jobs",
                                       .url = "https://h/b.wav",
                                       .callback = "",
                                       .method = "POST",
                                       .created = T}};
    struct steno_job_record r;
    steno_err err;
    (void)state;
    NEEDS_SERVER();
    assert_int_equal(q->ops->submit(q, j, 2, &none, NULL, &err), STENO_OK);
    assert_int_equal(q->ops->claim(q, "", T, 0, &r, &err), STENO_OK);
    assert_string_equal(r.id, "job_traced");
    assert_string_equal(r.traceparent, parent);
    assert_string_equal(r.tracestate, "a=1,b=2");
    steno_job_record_free(&r);
    assert_int_equal(q->ops->get(q, NULL, "job_plain", &r, &err), STENO_OK);
    assert_string_equal(r.traceparent, "");
    assert_string_equal(r.tracestate, "");
    steno_job_record_free(&r);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(owners_with_few_running_jobs_go_first_then_the_oldest_job),
        TEST(a_run_that_lost_its_job_changes_nothing),
        TEST(the_third_try_is_the_last),
        TEST(recordings_and_results_are_stored_in_blocks),
        TEST(quotas_count_what_is_not_over),
        TEST(jobs_expire_and_are_forgotten_after_their_time),
        TEST(callbacks_are_counted_before_they_are_sent),
        TEST(lists_have_pages_and_filters),
        TEST(the_trace_of_a_request_stays_with_its_job),
        TEST(a_store_without_its_group_or_its_data_goes_on),
        TEST(two_stores_and_many_threads_run_each_job_once),
        TEST(a_store_that_dies_fails_at_once_and_comes_back),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
