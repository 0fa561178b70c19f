/* Transducers of OpenFst, as files, and their best paths for a text. Reference: a plain reading of
 * the method (all pairs of place and state, depth-first, in memory). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/itn/rewrite.h"
#include "tests/support/fst_make.h"
#include "tests/support/test.h"

#define MAX_TEXT 32768

static uint32_t seed;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* ---- files ----------------------------------------------------------------------------------- */

static steno_status parse(struct steno_fst_list *l, const struct fst_make *m,
                          enum fst_make_form form, steno_err *err)
{
    size_t n;
    unsigned char *p = fst_make_bytes(m, form, &n);
    steno_status st = steno_fst_parse(l, p, n, "t.fst", err);
    free(p);
    return st;
}

static void check_rewrite(const struct steno_fst *f, const char *text, const char *want,
                          float weight)
{
    steno_rewrite *w = steno_rewrite_new();
    struct steno_rewrite_path p;
    char got[256];
    size_t n = 0;
    assert_non_null(w);
    assert_int_equal(steno_rewrite_run(w, f, text, strlen(text), &p), STENO_OK);
    assert_int_equal(p.found, want != NULL);
    for (size_t i = 0; want && i < p.n; i++)
        if (p.step[i].out)
            got[n++] = (char)p.step[i].out;
    got[n] = '\0';
    if (want) {
        assert_string_equal(got, want);
        assert_true(p.weight == weight);
    }
    steno_rewrite_free(w);
}

static void every_form_of_file_is_read(void **state)
{
    struct fst_make m;
    (void)state;
    fst_make_small(&m);
    for (int form = FST_MAKE_VECTOR; form <= FST_MAKE_ALIGNED; form++) {
        struct steno_fst_list l = {0};
        assert_int_equal(parse(&l, &m, (enum fst_make_form)form, NULL), STENO_OK);
        assert_int_equal(l.n, 1);
        check_rewrite(&l.fst[0], "ab", "x", 1.25f);
        check_rewrite(&l.fst[0], "a", "y", 2.25f);
        check_rewrite(&l.fst[0], "b", NULL, 0);
        check_rewrite(&l.fst[0], "", NULL, 0);
        steno_fst_list_free(&l);
    }
}

static void archives_are_read(void **state)
{
    struct fst_make m;
    unsigned char *file[2], *far;
    size_t size[2], n;
    struct steno_fst_list l = {0};
    steno_err err;
    (void)state;
    fst_make_small(&m);
    file[0] = fst_make_bytes(&m, FST_MAKE_VECTOR, &size[0]);
    file[1] = fst_make_bytes(&m, FST_MAKE_SYMBOLS, &size[1]);
    far = fst_make_archive(file, size, 2, &n);
    assert_int_equal(steno_fst_parse(&l, far, n, "t.far", NULL), STENO_OK);
    assert_int_equal(l.n, 2);
    check_rewrite(&l.fst[1], "ab", "x", 1.25f);
    steno_fst_list_free(&l);
    far[14] ^= 1; /* the magic number of the first entry */
    assert_int_equal(steno_fst_parse(&l, far, n, "t.far", &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "entry \"r0\": t.far: not an OpenFst file");
    steno_fst_list_free(&l);
    free(file[0]);
    free(file[1]);
    free(far);
}

static void files_that_are_cut_short_are_refused(void **state)
{
    struct fst_make m;
    (void)state;
    fst_make_small(&m);
    for (int form = FST_MAKE_VECTOR; form <= FST_MAKE_ALIGNED; form++) {
        size_t n;
        unsigned char *p = fst_make_bytes(&m, (enum fst_make_form)form, &n);
        for (size_t k = 0; k < n; k++) {
            struct steno_fst_list l = {0};
            unsigned char *part = malloc(k + 1); /* so that reads past its end are seen */
            assert_non_null(part);
            memcpy(part, p, k);
            if (steno_fst_parse(&l, part, k, "t", NULL) != STENO_ERR_FORMAT)
                fail_msg("form %d: %zu of %zu bytes are read", form, k, n);
            free(part);
        }
        free(p);
    }
}

static void what_is_wrong_with_a_file_is_said(void **state)
{
    static const struct {
        int32_t in, out, to;
        float weight;
        steno_status st;
        const char *msg;
    } rows[] = {
        {97, 98, 7, 0, STENO_ERR_FORMAT, "t.fst: an arc leads to state 7 of 1"},
        {97, 98, -1, 0, STENO_ERR_FORMAT, "t.fst: state 0: an arc is damaged"},
        {97, 98, 0, NAN, STENO_ERR_FORMAT, "t.fst: state 0: an arc is damaged"},
        {97, 300, 0, 0, STENO_ERR_UNSUPPORTED,
         "t.fst: state 0 writes label 300, which is not a byte"},
        {0, 98, 0, 0, STENO_ERR_UNSUPPORTED, "t.fst: it has a cycle of arcs that read nothing"},
        {300, 98, 0, 0, STENO_OK, ""},      /* no byte is read by it */
        {0, 98, 0, INFINITY, STENO_OK, ""}, /* never taken */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fst_make m;
        struct steno_fst_list l = {0};
        steno_err err = {0};
        fst_make_start(&m);
        fst_make_add(&m, 0, rows[i].in, rows[i].out, rows[i].weight, rows[i].to);
        assert_int_equal(parse(&l, &m, FST_MAKE_VECTOR, &err), rows[i].st);
        assert_string_equal(err.msg, rows[i].msg);
        steno_fst_list_free(&l);
    }
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* The method without blocks, chains or a look ahead. */
struct plain {
    const struct fst_make *m;
    const char *text;
    size_t n, n_order;
    bool *seen;
    uint32_t *order, *from;
    int *arc;
    float *distance;
};

static bool takes(const struct plain *p, size_t at, size_t arc, int state, bool reads)
{
    const struct fst_make_arc *a = &p->m->arc[arc];
    return a->from == state &&
           (reads ? a->in && at < p->n && a->in == (unsigned char)p->text[at] : !a->in);
}

static void visit(struct plain *p, size_t at, int state)
{
    const size_t key = at * p->m->n_states + (size_t)state;
    if (p->seen[key])
        return;
    p->seen[key] = true;
    for (int reads = 0; reads < 2; reads++)
        for (size_t a = 0; a < p->m->n_arcs; a++)
            if (takes(p, at, a, state, reads))
                visit(p, at + (size_t)reads, p->m->arc[a].to);
    p->order[p->n_order++] = (uint32_t)key;
}

static void measure(struct plain *p)
{
    const size_t k = p->m->n_states;
    for (size_t i = 0; i < (p->n + 1) * k; i++)
        p->distance[i] = INFINITY;
    p->distance[0] = 0;
    for (size_t i = p->n_order; i-- > 0;) {
        const size_t key = p->order[i], at = key / k;
        for (int reads = 0; reads < 2; reads++)
            for (size_t a = 0; a < p->m->n_arcs; a++) {
                const struct fst_make_arc *arc = &p->m->arc[a];
                const size_t to = (at + (size_t)reads) * k + (size_t)arc->to;
                if (!takes(p, at, a, (int)(key % k), reads) ||
                    !(p->distance[key] + arc->weight < p->distance[to]))
                    continue;
                p->distance[to] = p->distance[key] + arc->weight;
                p->from[to] = (uint32_t)key;
                p->arc[to] = (int)a;
            }
    }
}

/* The text that is written, backwards in the buffer's end; NULL: none. */
static const char *write_plain(const struct plain *p, char *buffer, size_t size, float *weight)
{
    size_t best = SIZE_MAX;
    char *out = buffer + size - 1;
    *weight = INFINITY;
    for (size_t i = p->n_order; i-- > 0;) {
        const size_t key = p->order[i], s = key % p->m->n_states;
        const float w = p->distance[key] + p->m->final[s];
        if (key / p->m->n_states == p->n && w < *weight) {
            *weight = w;
            best = key;
        }
    }
    *out = '\0';
    for (size_t key = best; best != SIZE_MAX && key; key = p->from[key])
        if (p->m->arc[p->arc[key]].out)
            *--out = (char)p->m->arc[p->arc[key]].out;
    return best == SIZE_MAX ? NULL : out;
}

static const char *rewrite_plainly(const struct fst_make *m, const char *text, char *buffer,
                                   size_t size, float *weight)
{
    const size_t n = strlen(text), keys = (n + 1) * m->n_states;
    struct plain p = {.m = m, .text = text, .n = n};
    const char *out;
    p.seen = calloc(keys, sizeof *p.seen);
    p.order = calloc(keys, sizeof *p.order);
    p.from = calloc(keys, sizeof *p.from);
    p.arc = calloc(keys, sizeof *p.arc);
    p.distance = calloc(keys, sizeof *p.distance);
    assert_true(p.seen && p.order && p.from && p.arc && p.distance);
    visit(&p, 0, 0);
    measure(&p);
    out = write_plain(&p, buffer, size, weight);
    free(p.seen);
    free(p.order);
    free(p.from);
    free(p.arc);
    free(p.distance);
    return out;
}

/* Few letters and few weights, so that many paths weigh the same. Arcs that read nothing lead to
 * later states. Some states are in chains. */
static void make_random(struct fst_make *m)
{
    static const float weights[] = {0, 0, 0, 1, 1, 0.1f, 0.3f, -0.5f};
    const uint32_t states = 2 + draw(12), arcs = states + draw(4 * states);
    fst_make_start(m);
    while (m->n_states < states)
        (void)fst_make_state(m, draw(3) ? INFINITY : weights[draw(8)]);
    m->final[states - 1] = 0;
    for (uint32_t s = 0; s + 1 < states && draw(8); s++)
        fst_make_add(m, (int32_t)s, draw(2) ? 0 : (int)('a' + draw(2)), (int)('A' + draw(3)),
                     weights[draw(8)], (int32_t)s + 1);
    for (uint32_t i = 0; i < arcs; i++) {
        const uint32_t from = draw(states);
        const int in = draw(3) && from + 1 < states ? 0 : (int)('a' + draw(2));
        const uint32_t to = in ? draw(states) : from + 1 + draw(states - from - 1);
        fst_make_add(m, (int32_t)from, in, draw(3) ? (int)('A' + draw(4)) : 0, weights[draw(8)],
                     (int32_t)to);
    }
}

/* Compare a random text; longer ones than a block of the text too. True if it can be read. */
static bool compare_random(const struct fst_make *m, const struct steno_fst *f, steno_rewrite *w,
                           uint32_t length)
{
    static char text[MAX_TEXT], want[2 * MAX_TEXT], got[2 * MAX_TEXT];
    struct steno_rewrite_path p;
    const char *plain;
    float weight;
    size_t n = 0;
    for (uint32_t i = 0; i < length; i++)
        text[i] = (char)('a' + draw(2));
    text[length] = '\0';
    plain = rewrite_plainly(m, text, want, sizeof want, &weight);
    assert_int_equal(steno_rewrite_run(w, f, text, length, &p), STENO_OK);
    assert_int_equal(p.found, plain != NULL);
    for (size_t i = 0; p.found && i < p.n; i++)
        if (p.step[i].out)
            got[n++] = (char)p.step[i].out;
    got[n] = '\0';
    if (plain) {
        assert_string_equal(got, plain);
        assert_true(p.weight == weight);
    }
    return plain != NULL;
}

static void paths_are_those_of_the_plain_method(void **state)
{
    steno_rewrite *w = steno_rewrite_new();
    int read = 0;
    (void)state;
    assert_non_null(w);
    for (seed = 1; seed < 4000; seed += 2) {
        const uint32_t first = seed;
        struct fst_make m;
        struct steno_fst_list l = {0};
        make_random(&m);
        assert_int_equal(parse(&l, &m, FST_MAKE_VECTOR, NULL), STENO_OK);
        for (int i = 0; i < 6; i++)
            read += compare_random(&m, &l.fst[0], w, draw(14));
        if (first % 100 == 1)
            read += compare_random(&m, &l.fst[0], w, 7000 + draw(6000));
        steno_fst_list_free(&l);
        seed = first;
    }
    assert_in_range(read, 3000, 12000);
    steno_rewrite_free(w);
}

/* a...ab is B...BB, a...ac is C...CC, with some arcs for each letter. Rewrites a text with c at its
 * end. */
static steno_status rewrite_open(int arcs, steno_rewrite *w, struct steno_rewrite_path *p)
{
    static char text[MAX_TEXT];
    struct fst_make m;
    struct steno_fst_list l = {0};
    steno_status st;
    fst_make_start(&m);
    for (int32_t s = 1; s < 3; s++) {
        const int out = s == 1 ? 'B' : 'C', end = s == 1 ? 'b' : 'c';
        (void)fst_make_state(&m, INFINITY);
        fst_make_add(&m, 0, 'a', out, 0, s);
        fst_make_add(&m, s, end, out, 0, 3);
        for (int i = 0; i < arcs; i++)
            fst_make_add(&m, s, 'a', out, 0, s);
    }
    (void)fst_make_state(&m, 0);
    assert_int_equal(parse(&l, &m, FST_MAKE_VECTOR, NULL), STENO_OK);
    memset(text, 'a', sizeof text - 2);
    text[sizeof text - 2] = 'c';
    st = steno_rewrite_run(w, &l.fst[0], text, sizeof text - 1, p);
    steno_fst_list_free(&l);
    return st;
}

/* Only the end of the text decides: blocks grow until they hold all of it. */
static void a_choice_may_stay_open_to_the_end(void **state)
{
    steno_rewrite *w = steno_rewrite_new();
    struct steno_rewrite_path p;
    (void)state;
    assert_int_equal(rewrite_open(1, w, &p), STENO_OK);
    assert_true(p.found);
    assert_int_equal(p.n, MAX_TEXT - 1);
    for (size_t i = 0; i < p.n; i++)
        assert_int_equal(p.step[i].out, 'C');
    steno_rewrite_free(w);
}

static void the_work_for_a_text_has_a_bound(void **state)
{
    steno_rewrite *w = steno_rewrite_new();
    struct steno_rewrite_path p;
    (void)state;
    assert_int_equal(rewrite_open(200, w, &p), STENO_ERR_LIMIT);
    assert_false(p.found);
    assert_int_equal(rewrite_open(1, w, &p), STENO_OK);
    steno_rewrite_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_file_is_read),
        cmocka_unit_test(archives_are_read),
        cmocka_unit_test(files_that_are_cut_short_are_refused),
        cmocka_unit_test(what_is_wrong_with_a_file_is_said),
        cmocka_unit_test(paths_are_those_of_the_plain_method),
        cmocka_unit_test(a_choice_may_stay_open_to_the_end),
        cmocka_unit_test(the_work_for_a_text_has_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
