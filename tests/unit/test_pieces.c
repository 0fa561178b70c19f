/* Pieces of clean speech: which of them are one, and which are kept. */
#include <string.h>

#include "speech/speakers/pieces.h"
#include "tests/support/test.h"

#define FRAMES 10

static void nearly_the_same_frames_are_one_piece(void **state)
{
    struct steno_pieces p = {.dim = 2, .frames = FRAMES};
    uint8_t mask[FRAMES] = {1, 1, 1, 1, 1};
    const float *v;
    (void)state;
    assert_null(steno_pieces_find(&p, 3, mask));
    assert_int_equal(steno_pieces_add(&p, 3, mask, (const float[]){3, 4}, NULL), STENO_OK);
    v = steno_pieces_find(&p, 3, mask);
    assert_non_null(v);
    assert_true(v[0] > 0.599F && v[0] < 0.601F && v[1] > 0.799F && v[1] < 0.801F);
    mask[0] = 0; /* 4 of 5 in common */
    assert_ptr_equal(steno_pieces_find(&p, 3, mask), v);
    assert_null(steno_pieces_find(&p, 4, mask)); /* another cell */
    mask[9] = 1;                                 /* 4 of 6 */
    assert_null(steno_pieces_find(&p, 3, mask));
    steno_pieces_free(&p);
}

static void pieces_of_cells_that_have_passed_are_dropped(void **state)
{
    struct steno_pieces p = {.dim = 1, .frames = FRAMES};
    uint8_t mask[FRAMES] = {0};
    (void)state;
    for (size_t i = 0; i < 100; i++) {
        memset(mask, 0, sizeof mask);
        mask[i % FRAMES] = 1;
        assert_int_equal(steno_pieces_add(&p, i, mask, (const float[]){i % 2 ? 1 : -1}, NULL), 0);
    }
    steno_pieces_forget(&p, 97);
    assert_int_equal(p.n, 3);
    memset(mask, 0, sizeof mask);
    mask[98 % FRAMES] = 1;
    assert_true(*steno_pieces_find(&p, 98, mask) < 0);
    steno_pieces_forget(&p, 1000);
    assert_int_equal(p.n, 0);
    steno_pieces_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearly_the_same_frames_are_one_piece),
        cmocka_unit_test(pieces_of_cells_that_have_passed_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
