/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc */
/* The 1st, 2nd, ... nth allocation of our own code fails while samples are kept and features are
 * made. Each time there is an error, and nothing is lost (AddressSanitizer's build checks). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/turn/features.h"
#include "speech/turn/recent.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/test.h"

static float out[STENO_TURN_BINS * STENO_TURN_FRAMES];
static float pcm[40000]; /* the memory for samples grows twice */

static steno_status hear(steno_err *err)
{
    steno_turn_recent *r = NULL;
    steno_turn_features *f = NULL;
    size_t n;
    const float *kept;
    steno_status st = steno_turn_recent_open(&r, STENO_TURN_RATE, err);
    if (!st)
        st = steno_turn_recent_push(r, pcm, sizeof pcm / sizeof *pcm, err);
    if (!st)
        st = steno_turn_features_open(&f, err);
    if (!st) {
        kept = steno_turn_recent_samples(r, &n);
        st = steno_turn_features_make(f, kept, n, out, err);
    }
    steno_turn_features_close(f);
    steno_turn_recent_close(r);
    return st;
}

static void each_allocation_that_fails_is_an_error(void **state)
{
    steno_status st = STENO_ERR_NOMEM;
    long n = 0;
    (void)state;
    for (; st && n < 1000; n++) {
        steno_err err = {0};
        alloc_left = n;
        st = hear(&err);
        alloc_left = -1;
        assert_true(!st || (st == STENO_ERR_NOMEM && *err.msg));
    }
    assert_int_equal(st, STENO_OK);
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_that_fails_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
