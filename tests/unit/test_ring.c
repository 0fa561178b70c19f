/* The ring of a stream's waiting samples: pieces at its head stay where they are while a worker
 * reads them, also when a push makes the ring grow, and samples come out in the order in which they
 * went in, whatever was pushed and dropped in between. */
#include <stdlib.h>

#include "speech/pool/ring.h"
#include "tests/support/test.h"

enum { MAX = 10000 };

static size_t next_in, next_out; /* samples are numbered, as far as a float counts */

static float sample(size_t number)
{
    return (float)(number % 0x1000000);
}

static void fill(float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = sample(next_in + i);
}

static void add(struct steno_ring *r, size_t n)
{
    steno_ring_add(r, n);
    next_in += n;
}

static size_t push(struct steno_ring *r, size_t n)
{
    float *to;
    size_t taken = 0, room;
    while (taken < n) {
        assert_int_equal(steno_ring_room(r, 1, n - taken, &to, &room), STENO_OK);
        assert_true(room <= n - taken);
        if (!room)
            break;
        fill(to, room);
        add(r, room);
        taken += room;
    }
    return taken;
}

static void check(const float *piece, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_float_equal(piece[i], sample(next_out + i), 0);
}

static void drop(struct steno_ring *r, size_t n)
{
    steno_ring_drop(r, n);
    next_out += n;
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

/* A worker reads and drops while samples are written, as often as chance has it. */
static void read_some(struct steno_ring *r, unsigned chance)
{
    const float *piece;
    size_t n = 1 + chance % 3000;
    if (!r->len)
        return;
    piece = steno_ring_hold(r, &n);
    assert_true(n > 0);
    check(piece, n);
    if (chance % 5)
        drop(r, chance % 3 ? n : n / 2);
    else
        drop(r, 0);
}

static unsigned next_chance(unsigned *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

static void reserved_room_is_in_one_piece(void **state)
{
    const size_t least[] = {1, 64, 320, 1920, 5760};
    unsigned x = 7;
    struct steno_ring r;
    (void)state;
    for (size_t k = 0; k < sizeof least / sizeof *least; k++) {
        next_in = next_out = 0;
        steno_ring_init(&r, MAX);
        for (int i = 0; i < 20000; i++) {
            const size_t most = least[k] + next_chance(&x) % 2000;
            float *to;
            size_t room;
            assert_int_equal(steno_ring_room(&r, least[k], most, &to, &room), STENO_OK);
            assert_true(room <= most && (room >= least[k] || (!room && r.len > MAX / 2)));
            if (room)
                fill(to, room);
            if (next_chance(&x) % 2) /* before the writer is done */
                read_some(&r, next_chance(&x));
            if (room)
                add(&r, next_chance(&x) % 4 ? room : next_chance(&x) % (room + 1));
            assert_true(r.len <= MAX + least[k]);
            while (next_chance(&x) % 3)
                read_some(&r, next_chance(&x));
        }
        while (r.len)
            read_some(&r, next_chance(&x));
        assert_int_equal(next_in, next_out);
        steno_ring_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_piece_stays_while_the_ring_grows),
        cmocka_unit_test(a_held_piece_ends_where_the_ring_does),
        cmocka_unit_test(reserved_room_is_in_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
