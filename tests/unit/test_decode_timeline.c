/* Silence for what a container leaves out. */
/* link: engine/tools/decode/timeline.c */
#include "tools/decode/timeline.h"
#include "tests/support/test.h"

#include <stdlib.h>

#define RATE 1000
#define HOUR ((int64_t)3600 * RATE)

struct step {
    int64_t time, n, silence; /* a frame at `time`, and what is expected before it */
};

static void run(struct steno_timeline t, const struct step *s, size_t n)
{
    int64_t at = 0;
    t.rate = RATE;
    for (size_t i = 0; i < n; i++) {
        const int64_t silence = steno_timeline_take(&t, s[i].time, s[i].n);
        if (silence != s[i].silence)
            fail_msg("step %zu: %lld of silence, expected %lld", i, (long long)silence,
                     (long long)s[i].silence);
        at += silence + s[i].n;
        assert_int_equal(t.at, at);
    }
}

#define RUN(t, ...)                                                                                \
    run(t, (const struct step[]){__VA_ARGS__},                                                     \
        sizeof(const struct step[]){__VA_ARGS__} / sizeof(struct step))

static void a_late_begin_is_silence(void **state)
{
    (void)state;
    RUN((struct steno_timeline){0}, {5000, 20, 5000}, {5020, 20, 0});
    RUN((struct steno_timeline){.joined = true}, {5000, 20, 5000}, {5020, 20, 0});
    RUN((struct steno_timeline){.restarts = true}, {50000, 20, 50000}, {50020, 20, 0});
    RUN((struct steno_timeline){0}, {2 * HOUR, 20, 2 * HOUR}, {2 * HOUR + 20, 20, 0});
    /* rounding, and priming before zero */
    RUN((struct steno_timeline){0}, {7, 20, 0}, {27, 20, 0});
    RUN((struct steno_timeline){0}, {-40, 20, 0}, {-20, 20, 0}, {0, 20, 0}, {20, 20, 0});
}

static void a_stream_that_was_joined_begins_now(void **state)
{
    (void)state;
    RUN((struct steno_timeline){.joined = true}, {HOUR, 20, 0}, {HOUR + 20, 20, 0},
        {HOUR + 540, 20, 500});
}

static void pauses_are_filled_and_jitter_is_not(void **state)
{
    (void)state;
    RUN((struct steno_timeline){0}, {0, 20, 0}, {30, 20, 0}, {35, 20, 0}, {60, 20, 0},
        {380, 20, 300}, {400, 20, 0}, {2 * HOUR, 20, 2 * HOUR - 420});
    /* small ones add up to one that is filled */
    RUN((struct steno_timeline){0}, {0, 20, 0}, {60, 20, 0}, {120, 20, 0}, {180, 20, 120},
        {200, 20, 0});
    /* where times overlap nothing is dropped, and the next pause is shorter */
    RUN((struct steno_timeline){0}, {0, 500, 0}, {200, 500, 0}, {2000, 20, 1000}, {2020, 20, 0});
}

static void a_clock_that_starts_anew_is_no_pause(void **state)
{
    (void)state;
    RUN((struct steno_timeline){.restarts = true}, {0, 20, 0}, {HOUR, 20, 0}, {HOUR + 20, 20, 0},
        {40, 20, 0}, {60, 20, 0}, {1080, 20, 1000});
    RUN((struct steno_timeline){0}, {0, 20, 0}, {30 * HOUR, 20, 0}, {30 * HOUR + 20, 20, 0},
        {0, 20, 0}, {1020, 20, 1000});
    RUN((struct steno_timeline){0}, {INT64_MAX / 4, 20, 0}, {INT64_MIN / 4, 20, 0},
        {INT64_MIN / 4 + 20, 20, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_begin_is_silence),
        cmocka_unit_test(a_stream_that_was_joined_begins_now),
        cmocka_unit_test(pauses_are_filled_and_jitter_is_not),
        cmocka_unit_test(a_clock_that_starts_anew_is_no_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
