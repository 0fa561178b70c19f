/* Checkpoints of torch.save (tests/data/torch: written by torch 2.13.0), and hostile ones. */

#include "base/file.h"
#include "formats/pickle.h"
#include "formats/torch.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIR "tests/data/torch/"

static const char *const files[] = {DIR "zip.pt", DIR "protocol4.pt", DIR "protocol5.pt",
                                    DIR "deflated.pt", DIR "older.pt"};
#define N_FILES (sizeof files / sizeof *files)

static char *read_all(const char *path, size_t *n)
{
    char *bytes = NULL;
    assert_int_equal(steno_file_read(path, 1 << 20, &bytes, n, NULL), STENO_OK);
    return bytes;
}

static void expect(const steno_torch *t, const char *name, enum steno_torch_type type, int rank,
                   const int64_t *dim, const float *want)
{
    const struct steno_torch_tensor *x = steno_torch_find(t, name);
    float got[32];
    assert_non_null(x);
    assert_int_equal(x->type, type);
    assert_int_equal(x->rank, rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(x->dim[i], dim[i]);
    assert_true(x->count <= 32);
    steno_torch_read(x, 0, x->count, got);
    assert_memory_equal(got, want, x->count * sizeof *got);
    for (size_t i = 0; i < x->count; i++) { /* one at a time gives the same */
        steno_torch_read(x, i, 1, got);
        assert_memory_equal(got, &want[i], sizeof *got);
    }
}

static void tensors_of_every_type_and_stride_come_back(void **state)
{
    (void)state;
    for (size_t f = 0; f < N_FILES; f++) {
        float base[24], turned[24], view[6];
        steno_err err = {0};
        steno_torch *t = NULL;
        int64_t n = 0;
        if (steno_torch_open(&t, files[f], &err))
            fail_msg("%s", err.msg);
        for (int i = 0; i < 24; i++)
            base[i] = (float)i;
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 4; j++)
                turned[4 * i + j] = base[6 * j + i];
        for (int i = 0; i < 6; i++)
            view[i] = base[6 * (1 + i / 3) + 2 + i % 3];
        expect(t, "model.a", STENO_TORCH_F32, 2, (int64_t[]){4, 6}, base);
        expect(t, "model.t", STENO_TORCH_F32, 2, (int64_t[]){6, 4}, turned);
        expect(t, "model.view", STENO_TORCH_F32, 2, (int64_t[]){2, 3}, view);
        expect(t, "model.expanded", STENO_TORCH_F32, 2, (int64_t[]){3, 2},
               (float[]){4, 5, 4, 5, 4, 5});
        expect(t, "model.h", STENO_TORCH_F16, 1, (int64_t[]){4},
               (float[]){1.5f, -2, 65504, 0x1p-24f});
        expect(t, "model.b", STENO_TORCH_BF16, 1, (int64_t[]){2}, (float[]){1.5f, -3});
        expect(t, "model.d", STENO_TORCH_F64, 1, (int64_t[]){2}, (float[]){0.1f, 2});
        expect(t, "model.i64", STENO_TORCH_I64, 1, (int64_t[]){2}, (float[]){1, -0x1p40f});
        expect(t, "model.i32", STENO_TORCH_I32, 1, (int64_t[]){1}, (float[]){5});
        expect(t, "model.i16", STENO_TORCH_I16, 1, (int64_t[]){1}, (float[]){-7});
        expect(t, "model.i8", STENO_TORCH_I8, 1, (int64_t[]){1}, (float[]){-8});
        expect(t, "model.u8", STENO_TORCH_U8, 1, (int64_t[]){1}, (float[]){200});
        expect(t, "model.bool", STENO_TORCH_BOOL, 1, (int64_t[]){2}, (float[]){1, 0});
        expect(t, "model.p", STENO_TORCH_F32, 2, (int64_t[]){2, 2}, (float[]){1, 1, 1, 1});
        expect(t, "model.scalar", STENO_TORCH_F32, 0, NULL, (float[]){3.25f});
        expect(t, "model.empty", STENO_TORCH_F32, 2, (int64_t[]){0, 4}, base);
        expect(t, "list.0", STENO_TORCH_F32, 1, (int64_t[]){1}, (float[]){9});
        assert_int_equal(steno_torch_count(t), 17);
        assert_true(steno_torch_find(t, "model.a")->contiguous);
        assert_false(steno_torch_find(t, "model.t")->contiguous);
        /* views share the elements of their storage */
        assert_ptr_equal(steno_torch_find(t, "model.a")->data,
                         steno_torch_find(t, "model.t")->data);
        assert_true(steno_torch_int(t, "dims.n", 0, 10, &n) && n == 7);
        assert_true(steno_torch_int(t, "dims.yes", 0, 10, &n) && n == 1);
        assert_true(steno_torch_int(t, "list.1.1", 0, 10, &n) && n == 2);
        assert_false(steno_torch_int(t, "dims.n", 0, 6, &n));
        assert_false(steno_torch_int(t, "dims.big", INT64_MIN, INT64_MAX, &n));
        assert_string_equal(steno_torch_str(t, "dims.s"), "text");
        assert_string_equal(steno_torch_str(t, "dims.3"), "three");
        assert_null(steno_torch_str(t, "dims.n"));
        assert_null(steno_torch_find(t, "model.c"));
        steno_torch_close(t);
    }
}

static steno_status parse(const void *bytes, size_t n, size_t max, steno_err *err)
{
    steno_torch *t = NULL;
    unsigned char *exact = malloc(n ? n : 1); /* sanitizers see what is read past the end */
    steno_status st;
    assert_non_null(exact);
    if (n)
        memcpy(exact, bytes, n);
    st = steno_torch_parse(&t, exact, n, "x.pt", max, err);
    if (!st)
        steno_torch_close(t);
    free(exact);
    return st;
}

static void a_file_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    for (size_t f = 0; f < N_FILES; f++) {
        size_t n;
        char *bytes = read_all(files[f], &n);
        assert_int_equal(parse(bytes, n, 1 << 20, NULL), STENO_OK);
        for (size_t cut = 0; cut < n; cut++) {
            steno_err err = {0};
            steno_status st = parse(bytes, cut, 1 << 20, &err);
            if (st != STENO_ERR_FORMAT)
                fail_msg("%s at %zu of %zu: %d %s", files[f], cut, n, st, err.msg);
            assert_memory_equal(err.msg, "x.pt", 4);
        }
        free(bytes);
    }
}

static void packed_members_stay_within_the_limit(void **state)
{
    size_t n;
    char *bytes = read_all(DIR "deflated.pt", &n);
    steno_err err = {0};
    (void)state;
    assert_int_equal(parse(bytes, n, 100, &err), STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "data.pkl"));
    free(bytes);
}

/* ---- pickles alone ---- */

static bool allow_torch(const char *global)
{
    return !strcmp(global, "torch._utils._rebuild_tensor_v2");
}

static steno_status pickle(const char *text, size_t n, steno_err *err)
{
    steno_pickle *p = NULL;
    steno_status st = steno_pickle_parse(&p, text, n, "x.pkl", allow_torch, NULL, err);
    steno_pickle_close(st ? NULL : p);
    return st;
}

#define EXPECT(TEXT, STATUS, PART)                                                                 \
    do {                                                                                           \
        steno_err err_ = {0};                                                                      \
        assert_int_equal(pickle(TEXT, sizeof(TEXT) - 1, &err_), STATUS);                           \
        if (!strstr(err_.msg, PART))                                                               \
            fail_msg("'%s' without '%s'", err_.msg, PART);                                         \
    } while (0)

static void pickles_that_call_code_are_refused_by_name(void **state)
{
    (void)state;
    /* os.system("true"), as GLOBAL, as STACK_GLOBAL, as NEWOBJ, and only named */
    EXPECT("\x80\2cos\nsystem\nX\4\0\0\0true\x85R.", STENO_ERR_UNSUPPORTED, "os.system");
    EXPECT("\x80\4\x8c\2os\x8c\6system\x93\x8c\4true\x85R.", STENO_ERR_UNSUPPORTED, "os.system");
    EXPECT("\x80\2cposix\nsystem\n)\x81.", STENO_ERR_UNSUPPORTED, "posix.system");
    EXPECT("\x80\2c__builtin__\neval\n.", STENO_ERR_UNSUPPORTED, "__builtin__.eval");
    EXPECT("\x80\2cbuiltins\ngetattr\n.", STENO_ERR_UNSUPPORTED, "builtins.getattr");
    /* INST and OBJ, which call too, extension registry, protocol 0 */
    EXPECT("\x80\2(ios\nsystem\n.", STENO_ERR_UNSUPPORTED, "opcode 0x69");
    EXPECT("\x80\2(N o.", STENO_ERR_UNSUPPORTED, "opcode 0x20");
    EXPECT("\x80\2\x82\1.", STENO_ERR_UNSUPPORTED, "opcode 0x82");
    EXPECT("(dp0\n.", STENO_ERR_FORMAT, "not a pickle of protocol 2");
    EXPECT("\x80\6N.", STENO_ERR_UNSUPPORTED, "protocol 6");
}

static void broken_pickles_are_refused(void **state)
{
    (void)state;
    EXPECT("\x80\2N", STENO_ERR_FORMAT, "cut short");
    EXPECT("\x80\2.", STENO_ERR_FORMAT, "the end with another number");
    EXPECT("\x80\2NN.", STENO_ERR_FORMAT, "the end with another number");
    EXPECT("\x80\2(.", STENO_ERR_FORMAT, "the end with another number");
    EXPECT("\x80\2Nt.", STENO_ERR_FORMAT, "no mark");
    EXPECT("\x80\2N(\x85.", STENO_ERR_FORMAT, "too few values");
    EXPECT("\x80\2]s.", STENO_ERR_FORMAT, "too few values");
    EXPECT("\x80\2N(Ne.", STENO_ERR_FORMAT, "no list");
    EXPECT("\x80\2}(Nu.", STENO_ERR_FORMAT, "a key without a value");
    EXPECT("\x80\2h\5.", STENO_ERR_FORMAT, "memo");
    EXPECT("\x80\2q\5.", STENO_ERR_FORMAT, "nothing to remember");
    EXPECT("\x80\2Nr\xff\xff\xff\xff.", STENO_ERR_LIMIT, "memo");
    EXPECT("\x80\2X\xff\xff\xff\x7f.", STENO_ERR_FORMAT, "cut short");
    EXPECT("\x80\2\x8b\xff\xff\xff\xff.", STENO_ERR_FORMAT, "cut short");
    EXPECT("\x80\2NNR.", STENO_ERR_FORMAT, "no function's name");
    EXPECT("\x80\2ctorch._utils\n_rebuild_tensor_v2\nNR.", STENO_ERR_FORMAT, "no function's name");
}

static void a_list_within_itself_is_no_endless_walk(void **state)
{
    /* data.pkl's content is flattened: l = []; l.append(l) */
    static const char text[] = "\x80\2]q\0h\0a.";
    steno_pickle *p = NULL;
    const struct steno_pickle_node *root;
    (void)state;
    assert_int_equal(steno_pickle_parse(&p, text, sizeof text - 1, "x", NULL, NULL, NULL), 0);
    root = steno_pickle_root(p);
    assert_int_equal(root->n, 1);
    assert_ptr_equal(root->item[0], root);
    steno_pickle_close(p);
}

static bool allow_path(const char *global)
{
    return !strcmp(global, "pathlib.PurePosixPath");
}

/* argparse.Namespace(layers=3, inner=argparse.Namespace(name="x"), path=PurePosixPath("/a/b")) by
 * Python 3.11, protocols 2 and 4. */
static void a_namespace_is_a_dictionary(void **state)
{
    static const char *const pickles[] = {"tests/fuzz/pickle/namespace2",
                                          "tests/fuzz/pickle/namespace4"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        size_t n;
        char *bytes = read_all(pickles[i], &n);
        steno_pickle *p = NULL;
        const struct steno_pickle_node *root;
        assert_int_equal(steno_pickle_parse(&p, bytes, n, "x", allow_path, NULL, NULL), 0);
        root = steno_pickle_root(p);
        assert_int_equal(root->kind, STENO_PICKLE_DICT);
        assert_int_equal(steno_pickle_get(root, "layers")->i, 3);
        assert_string_equal(steno_pickle_get(steno_pickle_get(root, "inner"), "name")->text, "x");
        assert_int_equal(steno_pickle_get(root, "path")->kind, STENO_PICKLE_CALL);
        steno_pickle_close(p);
        free(bytes);
    }
    EXPECT("\x80\2cargparse\nNamespace\nN\x85R.", STENO_ERR_FORMAT, "values without names");
    EXPECT("\x80\2cargparse\nNamespace\n)\x81Nb.", STENO_ERR_FORMAT, "are no dictionary");
    EXPECT("\x80\2cpyannote.audio.core.task\nSpecifications\n)\x81Nb.", STENO_ERR_FORMAT,
           "are no dictionary");
    EXPECT("\x80\2cargparse\nNamespace\n)\x81h\0b.", STENO_ERR_FORMAT, "memo");
}

/* a = Namespace(); b = Namespace(); then a takes b's items and b takes a's, a hundred times. */
static void namespaces_that_fill_each_other_are_bounded(void **state)
{
    static const char begin[] =
        "\x80\2cargparse\nNamespace\n)\x81q\0}q\2NNsbcargparse\nNamespace\n)"
        "\x81q\1h\2b";
    static const char round[] = "h\0h\1b0h\1h\0b0";
    char text[sizeof begin + 100 * sizeof round + 2];
    size_t n = sizeof begin - 1;
    steno_err err_ = {0};
    (void)state;
    memcpy(text, begin, n);
    for (int i = 0; i < 100; i++, n += sizeof round - 1)
        memcpy(text + n, round, sizeof round - 1);
    memcpy(text + n, "00.", 3);
    assert_int_equal(pickle(text, n + 3, &err_), STENO_ERR_LIMIT);
}

/* Change bytes of an older checkpoint: the pickle has the sizes in plain bytes. */
static void sizes_that_lie_are_refused(void **state)
{
    static const struct {
        const char *find, *put;
        size_t n, change; /* bytes of find, place of the change */
        const char *part;
    } cases[] = {
        /* model.a: storage of 24, offset 0, (4, 6), strides (6, 1) */
        {"QK\0K\4K\6\x86", "K\5", 7, 3, "30 elements from number 0 on, its storage has 24"},
        {"QK\0K\4K\6\x86", "K\1", 7, 1, "24 elements from number 1 on"},
        {"QK\0K\4K\6\x86", "N ", 7, 1, "opcode 0x20"},
        {"torch\nHalfStorage", "XalfStorage", 17, 6, "torch.XalfStorage"},
        {"torch\nHalfStorage", "ByteStorage", 17, 6, "4 elements from number 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n;
        char *bytes = read_all(DIR "older.pt", &n), *at = NULL;
        steno_err err = {0};
        for (size_t k = 0; k + cases[i].n <= n && !at; k++)
            if (!memcmp(bytes + k, cases[i].find, cases[i].n))
                at = bytes + k;
        assert_non_null(at);
        memcpy(at + cases[i].change, cases[i].put, strlen(cases[i].put));
        assert_int_not_equal(parse(bytes, n, 1 << 20, &err), STENO_OK);
        if (i < 4 && !strstr(err.msg, cases[i].part))
            fail_msg("case %zu: '%s' without '%s'", i, err.msg, cases[i].part);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_every_type_and_stride_come_back),
        cmocka_unit_test(a_file_cut_at_any_byte_is_refused),
        cmocka_unit_test(packed_members_stay_within_the_limit),
        cmocka_unit_test(pickles_that_call_code_are_refused_by_name),
        cmocka_unit_test(broken_pickles_are_refused),
        cmocka_unit_test(a_list_within_itself_is_no_endless_walk),
        cmocka_unit_test(a_namespace_is_a_dictionary),
        cmocka_unit_test(namespaces_that_fill_each_other_are_bounded),
        cmocka_unit_test(sizes_that_lie_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
