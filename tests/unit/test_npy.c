#include "base/arena.h"
#include "formats/npy.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/steno-npy-XXXXXX";

static int setup(void **state)
{
    int fd = mkstemp(path);
    (void)state;
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void put(const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* A file of version 1 with this header text and body. */
static void put_npy(const char *header, const void *body, size_t n)
{
    unsigned char buf[4096] = "\x93NUMPY\x01";
    size_t h = strlen(header);
    buf[8] = (unsigned char)h;
    buf[9] = (unsigned char)(h >> 8);
    memcpy(buf + 10, header, h);
    if (n)
        memcpy(buf + 10 + h, body, n);
    put(buf, 10 + h + n);
}

static void every_rank_and_type_comes_back(void **state)
{
    static const struct {
        char kind;
        int item, rank;
        int64_t dim[3];
    } cases[] = {{'f', 4, 3, {2, 3, 4}}, {'i', 8, 1, {5}},       {'b', 1, 2, {3, 3}},
                 {'f', 8, 0, {0}},       {'u', 2, 2, {0, 7}},    {'i', 1, 1, {1}},
                 {'u', 4, 3, {1, 1, 1}}, {'f', 2, 2, {100, 17}}, {'u', 8, 1, {9}}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct steno_npy a = {.kind = cases[c].kind, .item = cases[c].item, .rank = cases[c].rank};
        struct steno_npy b;
        unsigned char data[4000];
        a.bytes = (size_t)a.item;
        for (int i = 0; i < a.rank; i++)
            a.bytes *= (size_t)(a.dim[i] = cases[c].dim[i]);
        for (size_t i = 0; i < a.bytes; i++)
            data[i] = (unsigned char)(i * 7 + c);
        a.data = data;
        assert_int_equal(steno_npy_write(path, &a, NULL), STENO_OK);
        assert_int_equal(steno_npy_read(path, 1 << 20, &b, NULL), STENO_OK);
        assert_int_equal(b.kind, a.kind);
        assert_int_equal(b.item, a.item);
        assert_int_equal(b.rank, a.rank);
        assert_memory_equal(b.dim, a.dim, sizeof(int64_t) * (size_t)a.rank);
        assert_int_equal(b.bytes, a.bytes);
        if (a.bytes)
            assert_memory_equal(b.data, data, a.bytes);
        steno_aligned_free(b.data);
    }
}

static void the_data_starts_at_a_multiple_of_64(void **state)
{
    struct steno_npy a = {.kind = 'f', .item = 4, .rank = 1, .dim = {1}, .bytes = 4};
    float x = 1;
    FILE *f;
    (void)state;
    a.data = &x;
    assert_int_equal(steno_npy_write(path, &a, NULL), STENO_OK);
    f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    assert_int_equal((ftell(f) - 4) % 64, 0);
    fclose(f);
}

static void fortran_order_becomes_c_order(void **state)
{
    /* numpy.asfortranarray([[1, 2, 3], [4, 5, 6]]) is stored as 1 4 2 5 3 6 */
    static const int32_t lies[] = {1, 4, 2, 5, 3, 6};
    struct steno_npy a;
    (void)state;
    put_npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n", lies, sizeof lies);
    assert_int_equal(steno_npy_read(path, 1 << 20, &a, NULL), STENO_OK);
    for (int i = 0; i < 6; i++)
        assert_int_equal(((int32_t *)a.data)[i], i + 1);
    steno_aligned_free(a.data);
}

static void broken_files_are_named(void **state)
{
    static const struct {
        const char *header;
        steno_status st;
    } cases[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", STENO_ERR_UNSUPPORTED},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", STENO_ERR_UNSUPPORTED},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", STENO_ERR_UNSUPPORTED},
        {"{'fortran_order': False, 'shape': (1,), }", STENO_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", STENO_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1", STENO_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1), }",
         STENO_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
         STENO_ERR_LIMIT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }", STENO_ERR_LIMIT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", STENO_ERR_FORMAT},
    };
    float x = 1;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct steno_npy a = {.rank = 77};
        steno_err err = {0};
        put_npy(cases[i].header, &x, sizeof x);
        assert_int_equal(steno_npy_read(path, 1 << 20, &a, &err), cases[i].st);
        assert_non_null(strstr(err.msg, path)); /* the message names the file */
        assert_int_equal(a.rank, 77);
    }
}

static void every_truncation_is_an_error(void **state)
{
    unsigned char whole[256];
    struct steno_npy a = {.kind = 'i', .item = 8, .rank = 1, .dim = {3}, .bytes = 24};
    int64_t data[3] = {1, 2, 3};
    size_t n;
    FILE *f;
    (void)state;
    a.data = data;
    assert_int_equal(steno_npy_write(path, &a, NULL), STENO_OK);
    f = fopen(path, "rb");
    assert_non_null(f);
    n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    for (size_t cut = 0; cut < n; cut++) {
        put(whole, cut);
        assert_int_not_equal(steno_npy_read(path, 1 << 20, &a, NULL), STENO_OK);
    }
    assert_int_equal(steno_npy_read("/nonexistent/x.npy", 1, &a, NULL), STENO_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_and_type_comes_back),
        cmocka_unit_test(the_data_starts_at_a_multiple_of_64),
        cmocka_unit_test(fortran_order_becomes_c_order),
        cmocka_unit_test(broken_files_are_named),
        cmocka_unit_test(every_truncation_is_an_error),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
