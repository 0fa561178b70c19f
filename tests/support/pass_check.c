#include "nn/passes/passes.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pc_data pc;

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        if (pc.context)                                                                            \
            fprintf(stderr, "%s\n", pc.context);                                                   \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

struct mk_graph *pc_start(int opset, const char *dims)
{
    struct mk_graph *m = mk_new(opset);
    for (int i = 0; i < 4096; i++) {
        pc.x[i] = (float)(i * 37 % 101) / 40 - 1.2f;
        pc.mask[i] = i * 7 % 3 == 0;
        pc.index[i] = i % 3;
    }
    for (int i = 0; i < 1024; i++)
        pc.w[i] = (float)(i * 23 % 31) / 40 - 0.3f;
    mk_input(m, "x", STENO_F32, dims);
    return m;
}

/* ---- graphs from text ---- */

static size_t integers(const char *s, int64_t *out, size_t max)
{
    size_t n = 0;
    char *end;
    for (s += *s == '['; *s && *s != ']'; s = end + (*end == ',')) {
        assert_true(n < max);
        out[n++] = strtoll(s, &end, 10);
        if (end == s)
            fail_msg("no list of integers: %s", s);
    }
    return n;
}

static void constant(struct mk_graph *m, const char *name, const char *value)
{
    int64_t v[64];
    char dims[16];
    float f;
    size_t n;
    if (*value != '[') {
        f = strtof(value, NULL);
        mk_f32(m, name, "", &f, 1);
        return;
    }
    n = integers(value, v, 64);
    snprintf(dims, sizeof dims, "%zu", n);
    mk_i64(m, name, dims, v, n);
}

static void weights(struct mk_graph *m, const char *name, const char *dims)
{
    int64_t d[8];
    size_t n = integers(dims, d, 8), count = 1, at = 0;
    for (size_t i = 0; i < n; i++)
        count *= (size_t)d[i];
    for (const char *p = name; *p; p++)
        at = (at * 31 + (unsigned char)*p) % 97;
    assert_true(at + count <= sizeof pc.w / sizeof *pc.w);
    mk_f32(m, name, dims, pc.w + at, count);
}

static void attribute(struct mk_graph *m, char *text)
{
    char *value = strchr(text, '=');
    int64_t v[16];
    if (!value)
        fail_msg("no attribute: %s", text);
    *value++ = '\0';
    if (*value == '[') {
        size_t n = integers(value, v, 16);
        mk_attr_ints(m, text, v, n);
    } else if (*value == '\'') {
        value[strlen(value) - 1] = '\0';
        mk_attr_str(m, text, value + 1);
    } else if (strchr(value, '.')) {
        mk_attr_float(m, text, strtof(value, NULL));
    } else {
        mk_attr_int(m, text, strtoll(value, NULL, 10));
    }
}

static void statement(struct mk_graph *m, char *text)
{
    char *save = NULL, *word[16];
    int n = 0;
    for (char *w = strtok_r(text, " \n", &save); w && n < 16; w = strtok_r(NULL, " \n", &save))
        word[n++] = w;
    if (!n)
        return;
    if (n == 2 && !strcmp(word[0], "->")) {
        mk_output(m, word[1], STENO_F32, NULL);
    } else if (n == 3 && !strcmp(word[1], "=")) {
        constant(m, word[0], word[2]);
    } else if (n == 3 && !strcmp(word[1], ":")) {
        weights(m, word[0], word[2]);
    } else if (n >= 3) {
        mk_node(m, word[0], word[1], word[2]);
        for (int i = 3; i < n; i++)
            attribute(m, word[i]);
    } else {
        fail_msg("no statement: %s", text);
    }
}

void pc_graph(struct mk_graph *m, const char *text)
{
    char *copy = strdup(text), *save = NULL;
    assert_non_null(copy);
    for (char *s = strtok_r(copy, ";", &save); s; s = strtok_r(NULL, ";", &save))
        statement(m, s);
    free(copy);
}

/* ---- runs ---- */

steno_network *pc_open(const uint8_t *file, size_t size, int level, const char *disabled,
                       const char *only)
{
    struct steno_network_options opt = {
        .borrow_from = 1, .opt_level = level, .disable_passes = disabled, .only_passes = only};
    steno_network *n = NULL;
    steno_err err = {0};
    if (steno_network_open_memory(&n, file, size, "test", &opt, &err))
        FAIL("%s", err.msg);
    return n;
}

static void *numbers(steno_dtype t)
{
    switch (t) {
    case STENO_F32:
        return pc.x;
    case STENO_I64:
        return pc.index;
    case STENO_BOOL:
        return pc.mask;
    default:
        FAIL("no numbers for an input of type %d", (int)t);
        return NULL;
    }
}

steno_session *pc_run(steno_network *n)
{
    steno_session *s = NULL;
    steno_err err = {0};
    if (steno_session_open(&s, n, NULL, &err))
        FAIL("%s", err.msg);
    for (int i = 0; i < steno_network_n_inputs(n); i++) {
        const struct steno_value *v = steno_network_input(n, i);
        struct steno_tensor t = {.dtype = v->dtype, .shape = v->shape, .data = numbers(v->dtype)};
        for (int d = 0; d < t.shape.rank; d++)
            if (t.shape.dim[d] < 0)
                t.shape.dim[d] = PC_N;
        assert_true(steno_numel(&t) <= 4096);
        if (steno_session_set(s, i, &t, &err))
            FAIL("%s", err.msg);
    }
    for (int i = 0; i < 2; i++)
        if (steno_session_run(s, &err))
            FAIL("%s", err.msg);
    if (steno_session_misplans(s))
        FAIL("%zu values were planned wrongly", (size_t)steno_session_misplans(s));
    return s;
}

static bool close_to(float a, float b, float tolerance)
{
    return !memcmp(&a, &b, sizeof a) || fabsf(a - b) <= tolerance * (1 + fabsf(a));
}

static void same_output(const struct steno_tensor *p, const struct steno_tensor *q,
                        const char *name, float tolerance)
{
    size_t bytes;
    if (p->dtype != q->dtype || !steno_shape_equal(&p->shape, &q->shape))
        FAIL("output %s has another type or shape", name);
    assert_int_equal(steno_shape_bytes(&p->shape, p->dtype, &bytes), STENO_OK);
    if (p->dtype != STENO_F32) {
        assert_memory_equal(p->data, q->data, bytes);
        return;
    }
    for (size_t k = 0; k < steno_numel(p); k++) {
        float a = ((float *)p->data)[k], b = ((float *)q->data)[k];
        if (!close_to(a, b, tolerance))
            FAIL("output %s element %zu: %.9g, %.9g", name, k, (double)a, (double)b);
    }
}

void pc_same(steno_network *a, steno_network *b, float tolerance)
{
    steno_session *sa = pc_run(a), *sb = pc_run(b);
    assert_int_equal(steno_network_n_outputs(a), steno_network_n_outputs(b));
    for (int i = 0; i < steno_network_n_outputs(a); i++) {
        const char *name = steno_network_output(a, i)->name;
        assert_string_equal(name, steno_network_output(b, i)->name);
        same_output(steno_session_get(sa, i), steno_session_get(sb, i), name, tolerance);
    }
    steno_session_close(sa);
    steno_session_close(sb);
}

int pc_count(const steno_network *n, const char *type)
{
    const struct steno_graph *g = steno_network_graph(n);
    int found = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        found += !g->nodes[i].dead && !strcmp(g->nodes[i].op_type, type);
    return found;
}

int pc_found(const steno_network *n, const char *pass)
{
    int sum = 0;
    for (int i = 0; steno_passes[i].name; i++)
        if (!strcmp(steno_passes[i].name, pass))
            sum += steno_network_passes(n)->changed[i];
    return sum;
}

static size_t nodes(const steno_network *n)
{
    return steno_graph_count_nodes(steno_network_graph(n));
}

static void check_without(const uint8_t *file, size_t size, const char *pass, steno_network *plain,
                          size_t with, float tolerance)
{
    steno_network *n = pc_open(file, size, 3, pass, NULL);
    pc_same(plain, n, tolerance);
    assert_int_equal(pc_found(n, pass), 0);
    if (with > nodes(n))
        FAIL("%zu nodes with pass %s, %zu without", with, pass, nodes(n));
    steno_network_close(n);
}

static void check_alone(const uint8_t *file, size_t size, const char *pass, steno_network *plain,
                        float tolerance)
{
    char only[64];
    steno_network *n;
    snprintf(only, sizeof only, "dead,fold,%s", pass);
    n = pc_open(file, size, 3, NULL, only);
    pc_same(plain, n, tolerance);
    for (int i = 0; steno_passes[i].name; i++)
        if (strcmp(steno_passes[i].name, "dead") && strcmp(steno_passes[i].name, "fold") &&
            strcmp(steno_passes[i].name, pass))
            assert_int_equal(steno_network_passes(n)->changed[i], 0);
    steno_network_close(n);
}

void pc_check(struct mk_graph *m, const char *pass, bool hits, int left, float tolerance)
{
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *plain = pc_open(file, size, 0, NULL, NULL), *n = NULL;
    mk_free(m);
    for (int level = 1; level <= 3; level++) {
        steno_network_close(n);
        n = pc_open(file, size, level, NULL, NULL);
        pc_same(plain, n, tolerance);
    }
    if ((pc_found(n, pass) > 0) != hits)
        FAIL("pass %s found %d", pass, pc_found(n, pass));
    if (left >= 0 && nodes(n) != (size_t)left)
        FAIL("%zu nodes are left, not %d", nodes(n), left);
    check_without(file, size, pass, plain, left < 0 ? 0 : nodes(n), tolerance);
    check_alone(file, size, pass, plain, tolerance);
    steno_network_close(n);
    steno_network_close(plain);
    free(file);
}
