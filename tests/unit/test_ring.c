/* The ring of a stream's waiting samples: pieces at its head stay where they are while a worker
 * reads them, also when a push makes the ring grow, and samples come out in the order in which they
 * went in, whatever was pushed and dropped in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "speech/pool/ring.h"

enum { MAX = 10000 };

static float next_in, next_out; /* samples are numbered */

static size_t push(struct steno_ring *r, size_t n)
{
    float x[MAX];
    size_t taken = 0;
    assert_true(n <= MAX);
    for (size_t i = 0; i < n; i++)
        x[i] = next_in + (float)i;
    assert_int_equal(steno_ring_push(r, x, n, &taken), STENO_OK);
    next_in += (float)taken;
    return taken;
}

static void check(const float *piece, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_float_equal(piece[i], next_out + (float)i, 0);
}

static void drop(struct steno_ring *r, size_t n)
{
    steno_ring_drop(r, n);
    next_out += (float)n;
}

static void a_held_piece_stays_while_the_ring_grows(void **state)
{
    struct steno_ring r;
    const float *piece;
    size_t n = 300;
    (void)state;
    next_in = next_out = 0;
    steno_ring_init(&r, MAX);
    assert_int_equal(push(&r, 700), 700);
    piece = steno_ring_hold(&r, &n);
    assert_int_equal(n, 300);
    assert_int_equal(push(&r, 1000), 1000); /* it grows */
    assert_int_equal(push(&r, 6000), 6000); /* and once more */
    check(piece, n);
    drop(&r, 200);
    n = MAX;
    piece = steno_ring_hold(&r, &n);
    assert_int_equal(n, 7500);
    check(piece, n);
    assert_int_equal(push(&r, MAX), MAX - 7500); /* it is full */
    check(piece, n);
    drop(&r, 0);
    steno_ring_free(&r);
}

static void a_held_piece_ends_where_the_ring_does(void **state)
{
    struct steno_ring r;
    const float *piece;
    size_t n = MAX, left = 0;
    (void)state;
    next_in = next_out = 0;
    steno_ring_init(&r, MAX);
    push(&r, 1000);
    drop(&r, 900);
    push(&r, 500); /* over the end of 1024 */
    piece = steno_ring_hold(&r, &n);
    assert_int_equal(n, 124);
    check(piece, n);
    drop(&r, n);
    for (n = MAX; r.len; n = MAX) {
        piece = steno_ring_hold(&r, &n);
        check(piece, n);
        drop(&r, n);
        left += n;
    }
    assert_int_equal(left, 476);
    steno_ring_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_piece_stays_while_the_ring_grows),
        cmocka_unit_test(a_held_piece_ends_where_the_ring_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
