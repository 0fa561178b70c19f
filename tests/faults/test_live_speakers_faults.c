/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc */
/* The 1st, 2nd, ... nth allocation of our own code fails while labels are found. Each time there is
 * an error, and nothing is lost or freed twice (AddressSanitizer's build checks). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/speakers/stable.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/test.h"

/* Three windows of two voices. */
static steno_status label(steno_err *err)
{
    static const struct steno_stable_rules rules = {
        .threshold = 0.5, .apart = 0.5, .first = 1, .merge_after = 5, .max_speakers = 4};
    struct steno_stable l = {0};
    steno_status st = steno_stable_init(&l, 2, &rules, err);
    for (uint32_t w = 0; !st && w < 3; w++) {
        struct steno_stable_voice v[2] = {{.seconds = 2, .fresh = 9, .label = -1},
                                          {.seconds = 2, .fresh = 9, .label = -1}};
        const size_t first = l.items.n;
        for (uint8_t s = 0; s < 2; s++) {
            memset(l.items.vector + 2 * l.items.n, 0, 2 * sizeof(float));
            l.items.vector[2 * l.items.n + s] = 1;
            l.items.item[l.items.n++] =
                (struct steno_group_item){.window = w, .seconds = 2, .speaker = s};
        }
        st = steno_stable_take(&l, v, first, err);
        assert_true(st ? l.items.n == first : v[0].label == 0 && v[1].label == 1);
    }
    steno_stable_free(&l);
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
        st = label(&err);
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
