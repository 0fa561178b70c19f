/* Status table, arena, bounded buffer and the other helpers of the lowest layer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/pages.h"
#include "base/path.h"
#include "tests/support/test.h"

static void every_status_has_a_row(void **state)
{
    (void)state;
    for (int s = 0; s < STENO_STATUS_COUNT; s++) {
        const struct steno_status_map *m = steno_status_info((steno_status)s);
        assert_non_null(m->name);
        assert_in_range(m->http, 200, 599);
        assert_in_range(m->ws_close, 1000, 4999);
        assert_in_range(m->log_level, 0, 7);
        for (int t = 0; t < s; t++)
            assert_string_not_equal(m->name, steno_status_info((steno_status)t)->name);
    }
    assert_ptr_equal(steno_status_info((steno_status)-1), steno_status_info(STENO_ERR_INTERNAL));
    assert_ptr_equal(steno_status_info((steno_status)99), steno_status_info(STENO_ERR_INTERNAL));
}

static void fail_fills_the_message_and_returns_the_code(void **state)
{
    steno_err err;
    (void)state;
    assert_int_equal(steno_fail(&err, STENO_ERR_FORMAT, "%s has %d", "pads", 3), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "pads has 3");
    assert_int_equal(steno_fail_in(&err, STENO_ERR_FORMAT, "a.onnx"), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "a.onnx: pads has 3");
    assert_int_equal(steno_fail(NULL, STENO_ERR_IO, "nobody listens"), STENO_ERR_IO);
}

static void long_messages_are_cut_and_terminated(void **state)
{
    char big[4096];
    steno_err err;
    (void)state;
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = '\0';
    assert_int_equal(steno_fail(&err, STENO_ERR_IO, "%s", big), STENO_ERR_IO);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_int_equal(steno_fail_in(&err, STENO_ERR_IO, "%s", big), STENO_ERR_IO);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
}

/* If the message is too long, the first place and the reason stay; the middle is cut. */
static void long_messages_keep_place_and_reason(void **state)
{
    steno_err err;
    (void)state;
    assert_int_equal(steno_fail(&err, STENO_ERR_LIMIT, "the reason"), STENO_ERR_LIMIT);
    for (int i = 0; i < 200; i++)
        assert_int_equal(steno_fail_in(&err, STENO_ERR_LIMIT, "in function %d", i),
                         STENO_ERR_LIMIT);
    assert_int_equal(steno_fail_in(&err, STENO_ERR_LIMIT, "a.onnx"), STENO_ERR_LIMIT);
    assert_memory_equal(err.msg, "a.onnx: ...", 11);
    assert_non_null(strstr(err.msg, "in function 0: the reason"));
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
}

static void size_arithmetic_reports_overflow(void **state)
{
    size_t r = 7;
    (void)state;
    assert_false(steno_mul_size(SIZE_MAX, 2, &r));
    assert_false(steno_add_size(SIZE_MAX, 1, &r));
    assert_int_equal(r, 7);
    assert_true(steno_mul_size(6, 7, &r));
    assert_int_equal(r, 42);
}

static void arena_blocks_are_aligned_zeroed_and_apart(void **state)
{
    steno_arena *a = steno_arena_new(0);
    unsigned char *last = NULL;
    (void)state;
    assert_non_null(a);
    for (size_t n = 1; n < 200000; n = n * 3 + 1) {
        unsigned char *p = steno_arena_alloc_tensor(a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % STENO_ALIGN, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xee, n);
        if (last)
            assert_int_equal(*last, 0xee);
        last = p;
    }
    assert_string_equal(steno_arena_strdup(a, "name"), "name");
    assert_string_equal(steno_arena_strndup(a, "name", 2), "na");
    assert_string_equal(steno_arena_printf(a, "%.*s-%d", 2, "name", 12), "na-12");
    assert_string_equal(steno_arena_printf(a, "%s", ""), "");
    steno_arena_free(a);
    steno_arena_free(NULL);
}

static void large_pages_are_aligned_zeroed_and_whole(void **state)
{
    const size_t sizes[] = {1, STENO_PAGE_LARGE - 1, STENO_PAGE_LARGE, STENO_PAGE_LARGE + 1};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = steno_pages_new(sizes[i]), *q = steno_pages_new(sizes[i]);
        assert_non_null(p);
        assert_non_null(q);
        assert_int_equal((uintptr_t)p % STENO_PAGE_LARGE, 0);
        assert_int_equal(p[0] | p[sizes[i] - 1], 0);
        memset(p, 0xff, sizes[i]);
        assert_int_equal(q[0] | q[sizes[i] - 1], 0);
        steno_pages_free(p, sizes[i]);
        q[sizes[i] - 1] = 1; /* still mapped */
        steno_pages_free(q, sizes[i]);
    }
    assert_null(steno_pages_new(0));
    assert_null(steno_pages_new(SIZE_MAX));
    assert_null(steno_pages_new(SIZE_MAX - 2 * STENO_PAGE_LARGE));
    steno_pages_free(NULL, 1);
}

static void pages_that_were_cut_keep_their_beginning(void **state)
{
    const size_t n = 3 * STENO_PAGE_LARGE, keep = STENO_PAGE_LARGE + 5;
    unsigned char *p = steno_pages_new(n);
    (void)state;
    assert_non_null(p);
    memset(p, 0x5a, n);
    steno_pages_cut(p, n, n); /* nothing to free */
    assert_int_equal(p[n - 1], 0x5a);
    steno_pages_cut(p, n, keep);
    for (size_t i = 0; i < keep; i++)
        assert_int_equal(p[i], 0x5a);
    /* no longer mapped */
    assert_int_equal(msync(p + 2 * STENO_PAGE_LARGE, STENO_PAGE_LARGE, MS_ASYNC), -1);
    assert_int_equal(errno, ENOMEM);
    steno_pages_free(p, keep);
    assert_int_equal(msync(p, STENO_PAGE_LARGE, MS_ASYNC), -1);
}

static void large_blocks_are_zero_past_their_end(void **state)
{
    size_t n = ((size_t)5 << 20) + 3;
    unsigned char *p = steno_aligned_alloc(n), *z;
    (void)state;
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % STENO_PAGE_LARGE, 0);
    for (size_t i = n; i < n + STENO_OVERREAD; i++)
        assert_int_equal(p[i], 0);
    memset(p, 1, n);
    steno_aligned_free(p);
    z = steno_aligned_zeroed(n);
    assert_non_null(z);
    for (size_t i = 0; i < n + STENO_OVERREAD; i++)
        assert_int_equal(z[i], 0);
    steno_aligned_free(z);
    assert_null(steno_aligned_alloc(SIZE_MAX - STENO_OVERREAD - STENO_ALIGN));
    assert_null(steno_aligned_zeroed(SIZE_MAX - STENO_OVERREAD - STENO_ALIGN));
}

static void arena_refuses_more_than_its_limit(void **state)
{
    steno_arena *a = steno_arena_new(1000);
    (void)state;
    assert_non_null(steno_arena_alloc(a, 900));
    assert_null(steno_arena_alloc(a, 101));
    assert_non_null(steno_arena_alloc(a, 100));
    assert_null(steno_arena_calloc(a, SIZE_MAX / 2, 3));
    steno_arena_reset(a);
    assert_int_equal(steno_arena_used(a), 0);
    assert_non_null(steno_arena_alloc(a, 1000));
    steno_arena_free(a);
}

static void arena_reset_gives_zeroed_memory_again(void **state)
{
    steno_arena *a = steno_arena_new(0);
    (void)state;
    memset(steno_arena_alloc(a, 5000), 0xff, 5000);
    steno_arena_reset(a);
    const unsigned char *p = steno_arena_alloc(a, 5000);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(p[i], 0);
    steno_arena_free(a);
}

static void a_renewed_arena_is_the_same_one(void **state)
{
    steno_arena *a = NULL, *first;
    (void)state;
    assert_non_null(steno_arena_renew(&a));
    first = a;
    memset(steno_arena_alloc(a, 5000), 0xff, 5000);
    assert_ptr_equal(steno_arena_renew(&a), first);
    assert_int_equal(*(const unsigned char *)steno_arena_alloc(a, 5000), 0);
    steno_arena_free(a);
}

static void a_file_beside_another_is_in_its_folder(void **state)
{
    static const char *const cases[][2] = {{"/m/a.gguf", "/m/am.mvn"},
                                           {"m/x/a.gguf", "m/x/am.mvn"},
                                           {"/a.gguf", "/am.mvn"},
                                           {"a.gguf", "am.mvn"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *p = steno_path_beside(cases[i][0], "am.mvn");
        assert_string_equal(p, cases[i][1]);
        free(p);
    }
}

static void buffer_never_outgrows_its_maximum(void **state)
{
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 10);
    assert_int_equal(steno_buf_puts(&b, "0123456789"), STENO_OK);
    assert_int_equal(steno_buf_add(&b, "x", 1), STENO_ERR_LIMIT);
    assert_int_equal(steno_buf_printf(&b, "%d", 5), STENO_ERR_LIMIT);
    assert_string_equal(b.data, "0123456789");
    steno_buf_drop(&b, 4);
    assert_string_equal(b.data, "456789");
    assert_int_equal(steno_buf_printf(&b, "%s-%d", "ab", 7), STENO_OK);
    assert_string_equal(b.data, "456789ab-7");
    steno_buf_drop(&b, 100);
    assert_int_equal(b.len, 0);
    steno_buf_free(&b);
}

static void buffer_hands_over_its_memory(void **state)
{
    struct steno_buf b;
    size_t n;
    char *p;
    (void)state;
    steno_buf_init(&b, 1 << 20);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(steno_buf_printf(&b, "%04d", i), STENO_OK);
    p = steno_buf_take(&b, &n);
    assert_int_equal(n, 4000);
    assert_memory_equal(p + 3996, "0999", 5);
    assert_null(b.data);
    free(p);
    steno_buf_free(&b);
}

static void a_message_that_is_cut_says_so(void **state)
{
    static char text[2000];
    steno_err err;
    (void)state;
    memset(text, 'x', sizeof text - 1);
    assert_int_equal(steno_fail(&err, STENO_ERR_IO, "%s", text), STENO_ERR_IO);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_string_equal(err.msg + sizeof err.msg - 6, "xx...");
    text[sizeof err.msg - 1] = '\0';
    assert_int_equal(steno_fail(&err, STENO_ERR_IO, "%s", text), STENO_ERR_IO);
    assert_string_equal(err.msg, text);
}

static void arrays_grow_to_twice_their_room(void **state)
{
    int32_t *a = NULL;
    size_t cap = 0, moves = 0;
    (void)state;
    assert_int_equal(STENO_RESERVE(&a, &cap, 0), STENO_OK);
    assert_null(a);
    for (size_t n = 0; n < 10000; n++) {
        const size_t had = cap;
        assert_int_equal(STENO_RESERVE(&a, &cap, n + 1), STENO_OK);
        moves += cap != had;
        a[n] = (int32_t)n;
    }
    assert_in_range(moves, 1, 14);
    assert_int_equal(a[9999], 9999);
    assert_int_equal(STENO_RESERVE(&a, &cap, 1000000), STENO_OK);
    assert_int_equal(cap, 1000000);
    assert_int_equal(a[0], 0);
    assert_int_equal(STENO_RESERVE(&a, &cap, SIZE_MAX / 2), STENO_ERR_NOMEM);
    assert_int_equal(cap, 1000000);
    assert_int_equal(a[9999], 9999);
    free(a);
}

static void blocks_are_zeroed_aligned_and_freed_together(void **state)
{
    struct steno_blocks b = {0};
    (void)state;
    for (size_t n = 0; n < 100; n++) {
        unsigned char *p = steno_blocks_add(&b, n, 3);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < 3 * n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 1, 3 * n);
    }
    assert_false(b.failed);
    assert_null(steno_blocks_add(&b, SIZE_MAX / 2, 3));
    assert_null(steno_blocks_add(&b, SIZE_MAX - 1, 1));
    assert_non_null(steno_blocks_add(&b, 1, 1));
    assert_true(b.failed);
    steno_blocks_free(&b);
    assert_false(b.failed);
    assert_null(b.newest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_is_cut_says_so),
        cmocka_unit_test(every_status_has_a_row),
        cmocka_unit_test(fail_fills_the_message_and_returns_the_code),
        cmocka_unit_test(long_messages_are_cut_and_terminated),
        cmocka_unit_test(long_messages_keep_place_and_reason),
        cmocka_unit_test(size_arithmetic_reports_overflow),
        cmocka_unit_test(arena_blocks_are_aligned_zeroed_and_apart),
        cmocka_unit_test(large_pages_are_aligned_zeroed_and_whole),
        cmocka_unit_test(pages_that_were_cut_keep_their_beginning),
        cmocka_unit_test(large_blocks_are_zero_past_their_end),
        cmocka_unit_test(arena_refuses_more_than_its_limit),
        cmocka_unit_test(arena_reset_gives_zeroed_memory_again),
        cmocka_unit_test(a_renewed_arena_is_the_same_one),
        cmocka_unit_test(arrays_grow_to_twice_their_room),
        cmocka_unit_test(blocks_are_zeroed_aligned_and_freed_together),
        cmocka_unit_test(a_file_beside_another_is_in_its_folder),
        cmocka_unit_test(buffer_never_outgrows_its_maximum),
        cmocka_unit_test(buffer_hands_over_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
