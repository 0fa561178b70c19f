/* Packed caches. The second load maps the file that the first one packed and computes the same
 * bits. A cache with any fault is made anew. Any number of processes may start at once. */

#include "nn/network/network.h"
#include "nn/onnx/load.h"
#include "nn/ops/registry.h"
#include "nn/passes/passes.h"
#include "nn/rare_ops/rare_ops.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { K = 40, N = 32, H = 8 };
#define HEAD_BYTES 112 /* of struct head, nn/network/cache.c */

static float data[K * N * 2];
static char dir[] = "/tmp/steno-cache-XXXXXX", cache[64];

/* MatMul with bias, an If with a product in each branch, a bidirectional GRU. */
static struct mk_graph *make(float change)
{
    struct mk_graph *m = mk_new(13), *a = mk_body(m), *b = mk_body(m);
    static float w[K * N];
    static const int64_t one[1] = {1}, flat[2] = {-1, N / 2};
    float half = 0.5f;
    memcpy(w, data, sizeof w);
    w[5] += change;
    mk_input(m, "x", STENO_F32, "time,40");
    mk_input(m, "c", STENO_BOOL, "");
    mk_f32(m, "w", "40,32", w, (size_t)K * N);
    mk_f32(m, "b", "32", data + 7, N);
    mk_f32(m, "w2", "32,32", data + 100, (size_t)N * N);
    mk_f32(m, "k", "32,1,3", data + 50, (size_t)N * 3);
    mk_f32(m, "half", "", &half, 1);
    mk_f32(m, "gw", "2,24,32", data + 11, (size_t)2 * 3 * H * N);
    mk_f32(m, "gr", "2,24,8", data + 13, (size_t)2 * 3 * H * H);
    mk_i64(m, "one", "1", one, 1);
    mk_i64(m, "flat", "2", flat, 2);
    pc_graph(m, "MatMul x,w p; Add p,b q; Relu q t");
    pc_graph(a, "MatMul t,w2 inner; -> inner");
    pc_graph(b, "Mul t,half inner2; -> inner2");
    mk_if(m, "c", "y", a, b);
    pc_graph(m, "-> y; MatMul t,w2 product; Unsqueeze product,one rows; GRU rows,gw,gr both");
    mk_attr_int(m, "hidden_size", H);
    mk_attr_str(m, "direction", "bidirectional");
    pc_graph(m, "Reshape both,flat flat_both; Concat flat_both,flat_both wide axis=1; "
                "Add product,wide z; -> z");
    return m;
}

static char *write_model(float change)
{
    struct mk_graph *m = make(change);
    char *path = mk_file(m);
    mk_free(m);
    return path;
}

static steno_network *open_cached(const char *path, enum steno_precision precision)
{
    struct steno_network_options opt = {
        .opt_level = -1, .cache_dir = cache, .precision = precision};
    steno_network *n = NULL;
    steno_err err = {0};
    if (steno_network_open(&n, path, &opt, &err))
        fail_msg("%s", err.msg);
    return n;
}

/* Outputs y and z of one run: [2][4 * N]. */
static void run(steno_network *n, float *out)
{
    static float x[4 * K];
    static uint8_t yes = 1;
    struct steno_tensor in[2] = {{STENO_F32, {2, {4, K}}, x}, {STENO_BOOL, {0, {0}}, &yes}};
    steno_session *s = NULL;
    steno_err err = {0};
    for (int i = 0; i < 4 * K; i++)
        x[i] = sinf((float)i);
    if (steno_session_open(&s, n, NULL, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < 2; i++)
        if (steno_session_set(s, i, &in[i], &err))
            fail_msg("%s", err.msg);
    if (steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < 2; i++)
        memcpy(out + i * 4 * N, steno_session_get(s, i)->data, 4 * N * sizeof(float));
    steno_session_close(s);
}

/* The number of files whose names end in `end`. `last` gets the path of the last one. */
static int files_of(const char *end, char *last, size_t size)
{
    DIR *d = opendir(cache);
    struct dirent *e;
    size_t k = strlen(end);
    int n = 0;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && strlen(e->d_name) > k &&
            !strcmp(e->d_name + strlen(e->d_name) - k, end)) {
            snprintf(last, size, "%s/%.200s", cache, e->d_name);
            n++;
        }
    if (d)
        closedir(d);
    return n;
}

static int files(char *last, size_t size)
{
    return files_of(".stenopack", last, size);
}

static void clear(void)
{
    char name[300];
    while (files_of("", name, sizeof name))
        if (unlink(name))
            fail_msg("%s stays", name);
}

/* Open the network and compare its outputs with `want`. Returns whether the cache was mapped. */
static bool check(const char *path, const float *want, enum steno_precision precision)
{
    float got[8 * N];
    steno_network *n = open_cached(path, precision);
    bool mapped = steno_network_is_mapped(n);
    run(n, got);
    assert_memory_equal(got, want, sizeof got);
    steno_network_close(n);
    return mapped;
}

static void the_second_load_maps_and_has_the_same_bits(void **state)
{
    static const enum steno_precision precisions[] = {STENO_FP32, STENO_BF16_WEIGHTS,
                                                      STENO_INT8_WEIGHTS};
    char *path = write_model(0), name[300];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        float want[8 * N];
        steno_network *n = open_cached(path, precisions[i]), *again;
        assert_false(steno_network_is_mapped(n));
        run(n, want);
        again = open_cached(path, precisions[i]);
        assert_true(steno_network_is_mapped(again));
        assert_int_equal(steno_network_weight_bytes(again), steno_network_weight_bytes(n));
        assert_int_equal(steno_network_nodes_in_file(again), steno_network_nodes_in_file(n));
        assert_int_equal(steno_graph_count_nodes(steno_network_graph(again)),
                         steno_graph_count_nodes(steno_network_graph(n)));
        assert_memory_equal(steno_network_passes(again), steno_network_passes(n),
                            sizeof(struct steno_pass_counts));
        assert_int_equal(steno_network_info(again)->opset[0].version, 13);
        assert_true(steno_network_input(again, 0)->shape.dim[0] < STENO_DIM_ANY);
        steno_network_close(n);
        steno_network_close(again);
        assert_true(check(path, want, precisions[i]));
    }
    assert_int_equal(files(name, sizeof name), 3); /* each precision has its own cache */
    clear();
    mk_unlink(path);
}

/* A whole model with nested layers; skipped where it is not installed. */
static void layers_come_back(void **state)
{
    static const char *const path = "conf/models/digits-en/encoder.onnx";
    char name[300];
    (void)state;
    if (access(path, R_OK))
        skip();
    for (int i = 0; i < 2; i++) {
        steno_network *n = open_cached(path, STENO_FP32);
        const struct steno_graph *g = steno_network_graph(n);
        static int32_t regions;
        static size_t top;
        assert_int_equal(steno_network_is_mapped(n), i);
        if (i) {
            assert_int_equal(g->n_regions, regions);
            assert_int_equal(steno_graph_count_top(g), top);
        }
        regions = g->n_regions;
        top = steno_graph_count_top(g);
        assert_true(regions > 0);
        steno_network_close(n);
    }
    assert_int_equal(files(name, sizeof name), 1);
    clear();
}

static void flip(const char *name, long at)
{
    FILE *f = fopen(name, "r+b");
    int c;
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 0x10, f);
    fclose(f);
}

static void a_damaged_cache_is_made_anew(void **state)
{
    char *path = write_model(0), name[300];
    float want[8 * N];
    struct stat sb;
    steno_network *n;
    (void)state;
    n = open_cached(path, STENO_FP32);
    run(n, want);
    steno_network_close(n);
    assert_int_equal(files(name, sizeof name), 1);
    assert_int_equal(stat(name, &sb), 0);
    for (long at = 0; at < sb.st_size; at += at < 128 ? 1 : 509) {
        if (at >= HEAD_BYTES && at < 4096)
            continue; /* the rest of the header's page is unused */
        flip(name, at);
        assert_false(check(path, want, STENO_FP32));
        assert_true(check(path, want, STENO_FP32));
    }
    for (off_t size = 0; size < sb.st_size; size += sb.st_size / 7) {
        assert_int_equal(truncate(name, size), 0);
        assert_false(check(path, want, STENO_FP32));
        assert_true(check(path, want, STENO_FP32));
    }
    clear();
    mk_unlink(path);
}

/* Write the version of the format into a cache, with a checksum that is right. */
static void change_version(const char *name, char version)
{
    char head[HEAD_BYTES];
    uint64_t sum;
    FILE *f = fopen(name, "r+b");
    assert_non_null(f);
    assert_int_equal(fread(head, sizeof head, 1, f), 1);
    assert_memory_equal(head, "stnpak", 6);
    head[6] = version;
    sum = XXH3_64bits(head, sizeof head - sizeof sum);
    memcpy(head + sizeof head - sizeof sum, &sum, sizeof sum);
    rewind(f);
    assert_int_equal(fwrite(head, sizeof head, 1, f), 1);
    fclose(f);
}

/* The table of version 3 did not say which blocks are in f32. */
static void a_cache_of_another_version_is_made_anew(void **state)
{
    char *path = write_model(0), name[300];
    float want[8 * N];
    steno_network *n = open_cached(path, STENO_FP32);
    (void)state;
    run(n, want);
    steno_network_close(n);
    assert_int_equal(files(name, sizeof name), 1);
    change_version(name, '4');
    assert_true(check(path, want, STENO_FP32));
    for (char version = '3'; version < '6'; version += 2) {
        change_version(name, version);
        assert_false(check(path, want, STENO_FP32));
        assert_true(check(path, want, STENO_FP32));
    }
    clear();
    mk_unlink(path);
}

static void a_replaced_model_takes_the_place_of_the_old_cache(void **state)
{
    char *path = write_model(0), *other = write_model(1), name[300];
    float old[8 * N], fresh[8 * N];
    steno_network *n = open_cached(path, STENO_FP32);
    (void)state;
    run(n, old);
    steno_network_close(n);
    assert_int_equal(rename(other, path), 0);
    n = open_cached(path, STENO_FP32);
    assert_false(steno_network_is_mapped(n));
    run(n, fresh);
    steno_network_close(n);
    assert_memory_not_equal(old, fresh, sizeof old);
    assert_true(check(path, fresh, STENO_FP32));
    assert_int_equal(files(name, sizeof name), 1);
    clear();
    mk_unlink(path);
    *strrchr(other, '/') = '\0';
    rmdir(other);
    free(other);
}

static char *copy_of(const char *path)
{
    char *other = write_model(2), command[700];
    snprintf(command, sizeof command, "cp '%s' '%s'", path, other);
    assert_int_equal(system(command), 0);
    return other;
}

static void a_copy_and_a_touched_file_find_the_cache_by_their_content(void **state)
{
    static const struct timespec then[2] = {{1000000000, 0}, {1000000000, 0}};
    char *path = write_model(0), *other = copy_of(path), name[300];
    float want[8 * N];
    steno_network *n = open_cached(path, STENO_FP32);
    (void)state;
    run(n, want);
    steno_network_close(n);
    assert_true(check(other, want, STENO_FP32));
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
    assert_true(check(path, want, STENO_FP32));
    assert_int_equal(files(name, sizeof name), 1);
    assert_int_equal(files_of(".stenokey", name, sizeof name), 2);
    clear();
    mk_unlink(path);
    mk_unlink(other);
}

/* Two paths hold the same model. One gets a new model: the old cache stays for the other path,
 * and is deleted when that path changes too. */
static void a_cache_goes_when_no_path_holds_its_model(void **state)
{
    char *path = write_model(0), *other = copy_of(path), *fresh = write_model(1), name[300],
         command[700];
    (void)state;
    for (int i = 0; i < 2; i++)
        steno_network_close(open_cached(i ? other : path, STENO_FP32));
    assert_int_equal(files(name, sizeof name), 1);
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "cp '%s' '%s'", fresh, i ? other : path);
        assert_int_equal(system(command), 0);
        steno_network_close(open_cached(i ? other : path, STENO_FP32));
        assert_int_equal(files(name, sizeof name), i ? 1 : 2);
    }
    clear();
    mk_unlink(path);
    mk_unlink(other);
    mk_unlink(fresh);
}

/* A damaged note is ignored. A note that other users may write is not trusted. */
static void notes_are_checked(void **state)
{
    char *path = write_model(0), name[300];
    float want[8 * N];
    steno_network *n = open_cached(path, STENO_FP32);
    (void)state;
    run(n, want);
    steno_network_close(n);
    assert_int_equal(files_of(".stenokey", name, sizeof name), 1);
    for (long at = 0; at < 80; at += 7) {
        flip(name, at);
        assert_true(check(path, want, STENO_FP32));
    }
    assert_int_equal(truncate(name, 11), 0);
    assert_true(check(path, want, STENO_FP32));
    assert_int_equal(chmod(name, 0666), 0);
    assert_true(check(path, want, STENO_FP32));
    clear();
    mk_unlink(path);
}

static void a_cache_that_others_may_write_is_not_read(void **state)
{
    char *path = write_model(0), name[300];
    float want[8 * N];
    steno_network *n = open_cached(path, STENO_FP32);
    (void)state;
    run(n, want);
    steno_network_close(n);
    assert_int_equal(files(name, sizeof name), 1);
    assert_int_equal(chmod(name, 0666), 0);
    assert_false(check(path, want, STENO_FP32));
    assert_true(check(path, want, STENO_FP32)); /* made anew with its own mode */
    clear();
    mk_unlink(path);
}

/* A network with an operator of nn/rare_ops, of the input or of a constant. */
static char *write_rare(bool folds)
{
    struct mk_graph *m = mk_new(13);
    char *path;
    mk_input(m, "x", STENO_F32, "2,2");
    mk_f32(m, "c", "2,2", data + 3, 4);
    mk_node(m, "Det", folds ? "c" : "x", "d");
    pc_graph(m, "Mul x,d y; -> y");
    path = mk_file(m);
    mk_free(m);
    return path;
}

static void not_without_rare_operators(const char *path)
{
    static const struct steno_op *const none = NULL;
    struct steno_network_options opt = {.opt_level = -1, .cache_dir = cache};
    steno_network *n = NULL;
    steno_err err = {0};
    steno_op_add_rare(&none);
    assert_int_equal(steno_network_open(&n, path, &opt, &err), STENO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "1 operator is not supported: Det@13 ('steno run' has it)"));
    steno_rare_ops_add();
}

/* The daemon refuses a model that it lacks operators for, though the command has cached it. */
static void a_cache_made_with_rare_operators_is_for_those_who_have_them(void **state)
{
    (void)state;
    for (int folds = 0; folds < 2; folds++) {
        char *path = write_rare(folds);
        not_without_rare_operators(path);
        for (int i = 0; i < 3; i++) {
            steno_network *n = open_cached(path, STENO_FP32);
            assert_int_equal(steno_network_is_mapped(n), i > 0);
            assert_int_equal(steno_graph_count_nodes(steno_network_graph(n)), folds ? 1 : 2);
            steno_network_close(n);
            not_without_rare_operators(path);
        }
        clear();
        mk_unlink(path);
    }
}

static void rare_operators_are_those_that_are_added(void **state)
{
    static const struct steno_op *const none = NULL;
    int common = 0, rare = 0;
    (void)state;
    steno_op_add_rare(&none);
    for (const struct steno_op *op = steno_op_next(NULL); op; op = steno_op_next(op), common++)
        assert_false(steno_op_is_rare(op->domain, op->type));
    steno_rare_ops_add();
    for (const struct steno_op *op = steno_op_next(NULL); op; op = steno_op_next(op))
        rare += steno_op_is_rare(op->domain, op->type);
    for (const struct steno_op *op = steno_op_next(NULL); op; op = steno_op_next(op), common--)
        ;
    assert_true(rare > 0 && common == -rare);
}

static void many_processes_start_at_once(void **state)
{
    char *path = write_model(0), name[300];
    float want[8 * N];
    struct steno_network_options plain = {.opt_level = -1};
    steno_network *n = NULL;
    steno_err err = {0};
    int good = 0;
    (void)state;
    assert_int_equal(steno_network_open(&n, path, &plain, &err), STENO_OK);
    run(n, want);
    steno_network_close(n);
    for (int i = 0; i < 8; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            struct steno_network_options opt = {.opt_level = -1, .cache_dir = cache};
            float got[8 * N];
            if (steno_network_open(&n, path, &opt, &err))
                _exit(1);
            run(n, got);
            _exit(memcmp(got, want, sizeof got) ? 1 : 0);
        }
    }
    for (int i = 0; i < 8; i++) {
        int status;
        assert_true(wait(&status) > 0);
        good += WIFEXITED(status) && !WEXITSTATUS(status);
    }
    assert_int_equal(good, 8);
    assert_int_equal(files(name, sizeof name), 1);
    assert_true(check(path, want, STENO_FP32));
    clear();
    mk_unlink(path);
}

static void without_a_writable_folder_models_still_load(void **state)
{
    char *path = write_model(0);
    struct steno_network_options opt = {.opt_level = -1, .cache_dir = "/proc/nowhere"};
    float out[8 * N];
    steno_network *n = NULL;
    steno_err err = {0};
    (void)state;
    if (steno_network_open(&n, path, &opt, &err))
        fail_msg("%s", err.msg);
    assert_false(steno_network_is_mapped(n));
    run(n, out);
    steno_network_close(n);
    mk_unlink(path);
}

static void count_reading(void *arg, const struct steno_graph *g)
{
    (void)g;
    ++*(int *)arg;
}

/* Ask for the step part of a model that has none. Returns whether the model was read; *err gets
 * the message. */
static int ask_for_a_step(const char *path, steno_err *err)
{
    int read = 0;
    struct steno_network_options opt = {.opt_level = -1,
                                        .cache_dir = cache,
                                        .part = STENO_PART_STEP,
                                        .loaded = count_reading,
                                        .loaded_arg = &read};
    steno_network *n = NULL;
    assert_int_equal(steno_network_open(&n, path, &opt, err), STENO_ERR_UNSUPPORTED);
    assert_null(n);
    return read;
}

static void a_refused_part_is_remembered_with_its_reason(void **state)
{
    char *path = write_model(0), *other = write_model(1), name[300];
    struct stat sb;
    steno_err first = {0}, again = {0};
    (void)state;
    assert_int_equal(ask_for_a_step(path, &first), 1);
    assert_int_equal(ask_for_a_step(path, &again), 0);
    assert_true(strlen(first.msg) > strlen(path));
    assert_string_equal(first.msg, again.msg);
    assert_int_equal(files(name, sizeof name), 1);
    assert_int_equal(stat(name, &sb), 0);
    for (long at = 0; at < sb.st_size; at += at < 64 ? 1 : 97) {
        flip(name, at);
        assert_int_equal(ask_for_a_step(path, &again), 1);
        assert_int_equal(ask_for_a_step(path, &again), 0);
    }
    assert_int_equal(truncate(name, sb.st_size / 2), 0);
    assert_int_equal(ask_for_a_step(path, &again), 1);
    steno_network_close(open_cached(path, STENO_FP32)); /* the whole model still opens */
    assert_int_equal(rename(other, path), 0);
    /* a new graph: the old graph's files are gone */
    assert_int_equal(ask_for_a_step(path, &again), 1);
    assert_int_equal(files(name, sizeof name), 1);
    clear();
    *strrchr(other, '/') = '\0';
    rmdir(other);
    free(other);
    mk_unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_load_maps_and_has_the_same_bits),
        cmocka_unit_test(layers_come_back),
        cmocka_unit_test(a_damaged_cache_is_made_anew),
        cmocka_unit_test(a_cache_of_another_version_is_made_anew),
        cmocka_unit_test(a_replaced_model_takes_the_place_of_the_old_cache),
        cmocka_unit_test(a_copy_and_a_touched_file_find_the_cache_by_their_content),
        cmocka_unit_test(a_cache_goes_when_no_path_holds_its_model),
        cmocka_unit_test(notes_are_checked),
        cmocka_unit_test(a_cache_that_others_may_write_is_not_read),
        cmocka_unit_test(a_cache_made_with_rare_operators_is_for_those_who_have_them),
        cmocka_unit_test(rare_operators_are_those_that_are_added),
        cmocka_unit_test(many_processes_start_at_once),
        cmocka_unit_test(without_a_writable_folder_models_still_load),
        cmocka_unit_test(a_refused_part_is_remembered_with_its_reason),
    };
    int failed;
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++)
        data[i] = sinf((float)i * 1.3f);
    if (!mkdtemp(dir))
        return 70;
    snprintf(cache, sizeof cache, "%s/packed", dir);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(cache);
    rmdir(dir);
    return failed;
}
