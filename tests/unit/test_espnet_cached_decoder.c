/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc */
/* ldflags: -Wl,--wrap=aligned_alloc,--wrap=posix_memalign */
/* Decoders and language models with a key/value cache: the scores equal those of whole prefixes
 * for any order of the beam; no allocation once warm; graphs that cannot be cut are refused by
 * name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/espnet/scorer.h"
#include "speech/families/common/cached_decoder.h"
#include "tests/support/alloc_count.h"
#include "tests/support/pass_check.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define BEAM 5
#define STEPS 40
#define ROWS 150 /* two KV pages of the bf16 cache */

/* The precision of the networks to open, and the allowed distance from scores of whole prefixes
 * (rounding differs). */
static enum steno_precision precision = STENO_FP32;
static float tolerance = 2e-4f;

static uint32_t seed;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static float random_float(void)
{
    return (float)random_below(20001) / 10000.0f - 1;
}

/* One search with random hypotheses and random parents. */
struct beam {
    int32_t tokens[BEAM][STEPS + 1], parent[BEAM];
    const int32_t *prefix[BEAM];
    size_t n, length;
};

static void begin(struct beam *b)
{
    memset(b, 0, sizeof *b);
    b->n = b->length = 1;
    b->tokens[0][0] = 1;
    b->prefix[0] = b->tokens[0];
}

static void advance(struct beam *b, int32_t vocab)
{
    static struct beam old;
    old = *b;
    b->n = 1 + random_below(BEAM);
    for (size_t i = 0; i < b->n; i++) {
        b->parent[i] = (int32_t)random_below((uint32_t)old.n);
        memcpy(b->tokens[i], old.tokens[b->parent[i]], sizeof b->tokens[i]);
        /* 0 too, which is masked */
        b->tokens[i][b->length] = (int32_t)random_below((uint32_t)vocab);
        b->prefix[i] = b->tokens[i];
    }
    b->length++;
}

struct pair {
    steno_network *whole_net, *step_net, *once_net;
    steno_espnet_scorer *whole;
    steno_cached_decoder *step;
    struct steno_cached_decoder_search self; /* the decoder's own state */
    int32_t vocab;
    float rows[ROWS * 64];
    int64_t dim;
};

static void open_pair(struct pair *p, const char *path, enum steno_espnet_scorer_kind kind,
                      int layers, int64_t dim, int32_t vocab, bool first_row)
{
    struct steno_network_options o = {.opt_level = -1, .precision = precision};
    struct steno_espnet_scorer_options w = {.kind = kind,
                                            .threads = 1,
                                            .layers = layers,
                                            .dim = dim,
                                            .vocab = vocab,
                                            .first_row = first_row};
    struct steno_cached_decoder_options s = {.threads = 1, .vocab = vocab, .zero_row = first_row};
    steno_err err;
    *p = (struct pair){.vocab = vocab, .dim = dim};
    if (steno_network_open(&p->whole_net, path, &o, &err) ||
        steno_espnet_scorer_open(&p->whole, p->whole_net, &w, "whole", &err))
        fail_msg("%s", err.msg);
    o.part = STENO_PART_STEP;
    if (steno_network_open(&p->step_net, path, &o, &err))
        fail_msg("%s", err.msg);
    o.part = STENO_PART_ONCE;
    if ((kind == STENO_ESPNET_SCORER_DECODER || first_row) &&
        steno_network_open(&p->once_net, path, &o, &err))
        fail_msg("%s", err.msg);
    if (steno_cached_decoder_open(&p->step, p->step_net, p->once_net, &s, "step", &err))
        fail_msg("%s", err.msg);
    p->self =
        (struct steno_cached_decoder_search){p->step, steno_cached_decoder_own_state(p->step)};
    for (size_t i = 0; i < ROWS * 64; i++)
        p->rows[i] = random_float();
}

static void close_pair(struct pair *p)
{
    steno_espnet_scorer_close(p->whole);
    steno_cached_decoder_close(p->step);
    steno_network_close(p->whole_net);
    steno_network_close(p->step_net);
    steno_network_close(p->once_net);
}

/* Like `score` of a struct steno_joint_scorer. */
static steno_status score_one(struct steno_cached_decoder_search *self,
                              const int32_t *const *prefix, size_t length, const int32_t *parent,
                              size_t n, float *out, steno_err *err)
{
    struct steno_score_request a = {self, prefix, length, parent, n, out, STENO_OK, err};
    steno_cached_decoder_score_each(&a, 1);
    return a.st;
}

static void start(struct pair *p)
{
    steno_err err;
    steno_espnet_scorer_set_memory(p->whole, p->rows, ROWS, p->dim);
    if (steno_cached_decoder_start(p->step, p->self.state, p->rows, ROWS, p->dim, BEAM, &err))
        fail_msg("%s", err.msg);
}

static void compare(struct pair *p, const struct beam *b)
{
    static float want[BEAM * 64], got[BEAM * 64];
    steno_err err;
    assert_true(p->vocab <= 64);
    if (steno_espnet_scorer_score(p->whole, b->prefix, b->length, b->parent, b->n, want, &err) ||
        score_one(&p->self, b->prefix, b->length, b->parent, b->n, got, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < b->n * (size_t)p->vocab; i++)
        if (!(fabsf(want[i] - got[i]) <= tolerance))
            fail_msg("length %zu, number %zu: %g, whole prefix %g", b->length, i, (double)got[i],
                     (double)want[i]);
}

static void same_scores(struct pair *p, int utterances)
{
    struct beam b;
    for (int u = 0; u < utterances; u++) {
        begin(&b);
        start(p);
        compare(p, &b);
        for (size_t i = 1; i < STEPS; i++) {
            advance(&b, p->vocab);
            compare(p, &b);
        }
    }
}

/* ---- exported graphs ----------------------------------------------------------------------- */

static const char *shared_file(char *out, size_t size, const char *rel)
{
    const char *root = getenv("STENO_SHARED");
    size_t n;
    char *bytes = steno_test_shared(rel, &n);
    if (!bytes)
        return NULL;
    free(bytes);
    snprintf(out, size, "%s/%s", root ? root : "../shared", rel);
    return out;
}

#define ZOO "zoo/tiny/espnet-conformer-op13/full/"

static void exported_decoder_scores_as_from_whole_prefixes(void **state)
{
    char path[512];
    struct pair p;
    (void)state;
    if (!shared_file(path, sizeof path, ZOO "xformer_decoder.onnx"))
        skip();
    open_pair(&p, path, STENO_ESPNET_SCORER_DECODER, 2, 32, 31, false);
    same_scores(&p, 3);
    close_pair(&p);
}

static void exported_lm_scores_as_from_whole_prefixes(void **state)
{
    char path[512];
    (void)state;
    if (!shared_file(path, sizeof path, ZOO "transformer_lm.onnx"))
        skip();
    for (int first_row = 0; first_row < 2; first_row++) {
        struct pair p;
        open_pair(&p, path, STENO_ESPNET_SCORER_LM, 2, 32, 31, first_row);
        same_scores(&p, 3);
        close_pair(&p);
    }
}

/* ---- graphs made by the test --------------------------------------------------------------- */

enum fault { NONE, MASK_OF_OTHERS, MIXES_POSITIONS, MASK_OF_TOKEN_4, MASK_OF_PLACE_20 };

static void weights(struct mk_graph *m, const char *name, const char *dims, size_t n)
{
    float *w = malloc(n * sizeof *w);
    for (size_t i = 0; i < n; i++)
        w[i] = random_float();
    mk_f32(m, name, dims, w, n);
    free(w);
}

/* `names` with the layer's number in place of #. */
static void number(char *out, size_t size, const char *names, int layer)
{
    size_t n = 0;
    for (; *names && n + 1 < size; names++)
        out[n++] = *names == '#' ? (char)('0' + layer) : *names;
    out[n] = 0;
}

static void node(struct mk_graph *m, const char *op, int layer, const char *in, const char *out)
{
    char a[128], b[64];
    number(a, sizeof a, in, layer);
    number(b, sizeof b, out, layer);
    mk_node(m, op, a, b);
}

static void heads(struct mk_graph *m, int layer, const char *x, bool transposed)
{
    static const int64_t apart[4] = {0, 2, 1, 3}, turn[4] = {0, 2, 3, 1};
    char in[32], split[32], out[32];
    snprintf(in, sizeof in, "%s#,heads", x);
    snprintf(split, sizeof split, "%s4#", x);
    snprintf(out, sizeof out, "%st#", x);
    node(m, "Reshape", layer, in, split);
    node(m, "Transpose", layer, split, out);
    mk_attr_ints(m, "perm", transposed ? turn : apart, 4);
}

static void layer(struct mk_graph *m, int i)
{
    static const int64_t apart[4] = {0, 2, 1, 3};
    char name[4][16];
    for (int k = 0; k < 4; k++) {
        snprintf(name[k], sizeof name[k], "w%c%d", "qkvo"[k], i);
        weights(m, name[k], "4,4", 16);
    }
    node(m, "Slice", i, "x#,last,end,one,one", "l#");
    node(m, "MatMul", i, "l#,wq#", "q#");
    node(m, "MatMul", i, "x#,wk#", "k#");
    node(m, "MatMul", i, "x#,wv#", "v#");
    heads(m, i, "q", false);
    heads(m, i, "k", true);
    heads(m, i, "v", false);
    node(m, "MatMul", i, "qt#,kt#", "s#");
    node(m, "Mul", i, "s#,scale", "c#");
    node(m, "Add", i, "c#,mask", "d#");
    node(m, "Softmax", i, "d#", "p#");
    mk_attr_int(m, "axis", -1);
    node(m, "MatMul", i, "p#,vt#", "a#");
    node(m, "Transpose", i, "a#", "b#");
    mk_attr_ints(m, "perm", apart, 4);
    node(m, "Reshape", i, "b#,joined", "j#");
    node(m, "MatMul", i, "j#,wo#", "o#");
    node(m, "Add", i, "l#,o#", "n#");
    node(m, "Concat", i, "cache_#,n#", "out_cache_#");
    mk_attr_int(m, "axis", 1);
    snprintf(name[0], sizeof name[0], "x%d", i + 1);
    node(m, "Identity", i, "out_cache_#", name[0]);
}

static void mask(struct mk_graph *m, enum fault fault)
{
    static const float far = -10000;
    static const int64_t ids[] = {0, 4, 20};
    mk_f32(m, "far", "", &far, 1);
    mk_i64(m, "none", "", &ids[fault == MASK_OF_TOKEN_4], 1);
    if (fault == MASK_OF_OTHERS)
        mk_node(m, "CumSum", "tgt,one_number", "seen");
    if (fault == MASK_OF_PLACE_20) { /* hides what comes after */
        mk_i64(m, "many", "", &ids[2], 1);
        pc_graph(m, "GreaterOrEqual tgt,none here; Cast here ones");
        mk_attr_int(m, "to", STENO_I64);
        pc_graph(m, "CumSum ones,one_number place; Greater place,many equal");
    } else {
        mk_node(m, "Equal", fault == MASK_OF_OTHERS ? "seen,none" : "tgt,none", "equal");
    }
    mk_node(m, "Cast", "equal", "flags");
    mk_attr_int(m, "to", STENO_F32);
    pc_graph(m, "Mul flags,far flat; Unsqueeze flat,axes mask");
}

/* A language model of two layers, width 4, two heads, five tokens, as espnet_onnx writes them. */
static char *made_lm(enum fault fault)
{
    static const int64_t heads_of[4] = {0, 0, 2, 2}, joined[3] = {0, 0, 4}, axes[2] = {1, 2};
    static const int64_t one = 1, last = -1, end = INT64_MAX;
    static const float scale = 0.7f;
    struct mk_graph *m = mk_new(13);
    char *path;
    mk_input(m, "tgt", STENO_I64, "B,L");
    mk_input(m, "cache_0", STENO_F32, "B,C,4");
    mk_input(m, "cache_1", STENO_F32, "B,C,4");
    mk_i64(m, "heads", "4", heads_of, 4);
    mk_i64(m, "joined", "3", joined, 3);
    mk_i64(m, "axes", "2", axes, 2);
    mk_i64(m, "one", "1", &one, 1);
    mk_i64(m, "one_number", "", &one, 1);
    mk_i64(m, "last", "1", &last, 1);
    mk_i64(m, "last_number", "", &last, 1);
    mk_i64(m, "end", "1", &end, 1);
    mk_f32(m, "scale", "", &scale, 1);
    weights(m, "embed", "5,4", 20);
    weights(m, "wy", "4,5", 20);
    mask(m, fault);
    mk_node(m, "Gather", "embed,tgt", fault == MIXES_POSITIONS ? "e" : "x0");
    if (fault == MIXES_POSITIONS)
        mk_node(m, "CumSum", "e,one_number", "x0");
    layer(m, 0);
    layer(m, 1);
    pc_graph(m, "Gather x2,last_number newest axis=1; MatMul newest,wy y");
    mk_output(m, "y", STENO_F32, "B,5");
    mk_output(m, "out_cache_0", STENO_F32, "B,D,4");
    mk_output(m, "out_cache_1", STENO_F32, "B,D,4");
    path = mk_file(m);
    mk_free(m);
    return path;
}

static void made_lm_scores_as_from_whole_prefixes(void **state)
{
    char *path = made_lm(NONE);
    struct pair p;
    (void)state;
    open_pair(&p, path, STENO_ESPNET_SCORER_LM, 2, 4, 5, false);
    assert_true(steno_network_find_output(p.step_net, "new_bias") > 0); /* token 0 is masked */
    same_scores(&p, 4);
    close_pair(&p);
    mk_unlink(path);
}

/* The trial of a mask reaches every token that its constants name. */
static void a_mask_of_any_token_is_kept(void **state)
{
    char *path = made_lm(MASK_OF_TOKEN_4);
    struct pair p;
    (void)state;
    open_pair(&p, path, STENO_ESPNET_SCORER_LM, 2, 4, 5, false);
    assert_true(steno_network_find_output(p.step_net, "new_bias") > 0);
    same_scores(&p, 4);
    close_pair(&p);
    mk_unlink(path);
}

static void refused(enum fault fault, const char *why)
{
    char *path = made_lm(fault);
    struct steno_network_options o = {.opt_level = -1, .part = STENO_PART_STEP};
    steno_network *n = NULL;
    steno_err err = {0};
    assert_int_equal(steno_network_open(&n, path, &o, &err), STENO_ERR_UNSUPPORTED);
    if (!strstr(err.msg, why))
        fail_msg("'%s' has nothing of '%s'", err.msg, why);
    o.part = STENO_PART_ALL;
    assert_int_equal(steno_network_open(&n, path, &o, &err), STENO_OK);
    steno_network_close(n);
    mk_unlink(path);
}

/* The operator reads a cache that the session binds. A file cannot supply one. */
static void a_file_with_the_operator_has_nothing_to_read(void **state)
{
    static float q[4];
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 3, .dim = {1, 1, 4}}, .data = q};
    struct mk_graph *m = mk_new(13);
    steno_network *n = NULL;
    steno_session *run = NULL;
    steno_err err = {0};
    char *path;
    (void)state;
    mk_import(m, "ai.steno.run", 1);
    mk_input(m, "q", STENO_F32, "1,1,4");
    mk_node(m, "ai.steno.run:CachedAttention", "q", "y");
    mk_attr_int(m, "heads", 1);
    mk_attr_int(m, "size", 4);
    mk_attr_int(m, "v_size", 4);
    mk_output(m, "y", STENO_F32, "1,1,4");
    path = mk_file(m);
    assert_int_equal(steno_network_open(&n, path, NULL, &err), STENO_OK);
    assert_int_equal(steno_session_open(&run, n, NULL, &err), STENO_OK);
    assert_int_equal(steno_session_set(run, 0, &t, &err), STENO_OK);
    assert_int_equal(steno_session_run(run, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "no key/value cache is bound"));
    steno_session_close(run);
    steno_network_close(n);
    mk_unlink(path);
    mk_free(m);
}

static void graphs_that_cannot_be_cut_are_refused(void **state)
{
    struct steno_network_options o = {.opt_level = -1, .part = STENO_PART_STEP};
    steno_network *n = NULL;
    steno_err err = {0};
    char *path;
    struct mk_graph *m = mk_new(13);
    (void)state;
    refused(MASK_OF_OTHERS, "a mask that does not depend on each token alone at mask");
    refused(MASK_OF_PLACE_20, "a mask that does not depend on each token alone at mask");
    refused(MIXES_POSITIONS, "several positions");
    mk_input(m, "x", STENO_F32, "2");
    mk_node(m, "Relu", "x", "y");
    mk_output(m, "y", STENO_F32, "2");
    path = mk_file(m);
    assert_int_equal(steno_network_open(&n, path, &o, &err), STENO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "input of unknown use at x"));
    mk_unlink(path);
    mk_free(m);
}

/* The first utterance makes plans and buffers, the second one reuses them. */
static void steps_allocate_nothing_once_warm(void **state)
{
    char *path = made_lm(NONE);
    static float y[BEAM * 5];
    struct pair p;
    struct beam b;
    size_t before = 0, sizes = 0;
    (void)state;
    open_pair(&p, path, STENO_ESPNET_SCORER_LM, 2, 4, 5, false);
    for (int u = 0; u < 4; u++) {
        if (u == 3)
            before = allocations;
        begin(&b);
        assert_int_equal(steno_cached_decoder_start(p.step, p.self.state, NULL, 0, 0, BEAM, NULL),
                         STENO_OK);
        for (size_t i = 0; i < STEPS; i++) {
            assert_int_equal(score_one(&p.self, b.prefix, b.length, b.parent, b.n, y, NULL),
                             STENO_OK);
            sizes |= (size_t)1 << b.n;
            advance(&b, p.vocab);
        }
    }
    assert_int_equal(sizes, 62); /* beams of 1 to 5 occurred */
    assert_int_equal(allocations, before);
    close_pair(&p);
    mk_unlink(path);
}

/* Score the beam's prefixes from their beginning, in the state of s. */
static void score_anew(struct steno_cached_decoder_search *s, const float *rows, int64_t dim,
                       const struct beam *b, float *out)
{
    static const int32_t same[BEAM] = {0, 1, 2, 3, 4}, none[BEAM] = {0};
    assert_int_equal(
        steno_cached_decoder_start(s->decoder, s->state, rows, rows ? ROWS : 0, dim, BEAM, NULL),
        STENO_OK);
    for (size_t length = 1; length <= b->length; length++)
        assert_int_equal(
            score_one(s, b->prefix, length, length == 1 ? none : same, b->n, out, NULL), STENO_OK);
}

/* One step, compared with the same prefixes scored from their beginning. */
static void compare_anew(struct pair *p, steno_cached_decoder_state *k, const float *rows,
                         const struct beam *b)
{
    static float want[BEAM * 64], got[BEAM * 64];
    struct steno_cached_decoder_search x = {p->step, k};
    assert_int_equal(score_one(&x, b->prefix, b->length, b->parent, b->n, got, NULL), STENO_OK);
    score_anew(&p->self, rows, p->dim, b, want);
    for (size_t i = 0; i < b->n * (size_t)p->vocab; i++)
        if (!(fabsf(want[i] - got[i]) <= tolerance))
            fail_msg("length %zu, number %zu: %g, anew %g", b->length, i, (double)got[i],
                     (double)want[i]);
}

/* Randomly repeat the last step, or the last two steps. */
static void goes_back(struct pair *p, const float *rows)
{
    static struct beam now, before;
    steno_cached_decoder_state *k = steno_cached_decoder_state_new(p->step);
    struct steno_cached_decoder_search x = {p->step, k};
    bool have_before = false;
    int backs = 0;
    assert_non_null(k);
    begin(&now);
    assert_int_equal(
        steno_cached_decoder_start(p->step, k, rows, rows ? ROWS / 2 : 0, p->dim, BEAM, NULL),
        STENO_OK);
    if (rows) /* in two parts */
        assert_int_equal(steno_cached_decoder_extend(p->step, k, rows + ROWS / 2 * p->dim,
                                                     ROWS - ROWS / 2, p->dim, NULL),
                         STENO_OK);
    compare_anew(p, k, rows, &now);
    while (now.length < STEPS) {
        uint32_t what = random_below(4);
        if (what == 0 || (what == 1 && have_before && before.length > 1)) {
            if (what == 1) {
                now = before;
                for (size_t i = 0; i < now.n; i++)
                    now.prefix[i] = now.tokens[i];
            }
            steno_cached_decoder_rewind(&x, (int)what);
            have_before = false;
            backs++;
        } else {
            before = now;
            have_before = true;
            advance(&now, p->vocab);
        }
        compare_anew(p, k, rows, &now);
    }
    assert_true(backs > 5);
    steno_cached_decoder_state_free(k);
}

static void steps_can_be_taken_back(void **state)
{
    char *made = made_lm(NONE), path[512];
    struct pair p;
    (void)state;
    open_pair(&p, made, STENO_ESPNET_SCORER_LM, 2, 4, 5, false);
    goes_back(&p, NULL);
    close_pair(&p);
    mk_unlink(made);
    if (!shared_file(path, sizeof path, ZOO "xformer_decoder.onnx"))
        return; /* the reason was printed */
    open_pair(&p, path, STENO_ESPNET_SCORER_DECODER, 2, 32, 31, false);
    goes_back(&p, p.rows);
    close_pair(&p);
}

/* Several searches of one network, each with its own encoder frames and its own length, scored
 * randomly alone and together. */
enum { SEARCHES = 30 };

struct several {
    struct pair *p;
    struct beam b[SEARCHES];
    struct steno_cached_decoder_search alone[SEARCHES], together[SEARCHES];
    float want[SEARCHES][BEAM * 64], got[SEARCHES][BEAM * 64];
    steno_err err[SEARCHES];
};

static void begin_several(struct several *s, bool rows)
{
    for (size_t i = 0; i < SEARCHES; i++) {
        struct steno_cached_decoder_search *of[2] = {&s->alone[i], &s->together[i]};
        begin(&s->b[i]);
        for (int k = 0; k < 2; k++) {
            *of[k] = (struct steno_cached_decoder_search){
                s->p->step, steno_cached_decoder_state_new(s->p->step)};
            assert_non_null(of[k]->state);
            assert_int_equal(
                steno_cached_decoder_start(s->p->step, of[k]->state, rows ? s->p->rows : NULL,
                                           rows ? 1 + 7 * i % ROWS : 0, s->p->dim, BEAM, NULL),
                STENO_OK);
        }
    }
}

static void end_several(struct several *s)
{
    for (size_t i = 0; i < SEARCHES; i++) {
        steno_cached_decoder_state_free(s->alone[i].state);
        steno_cached_decoder_state_free(s->together[i].state);
    }
}

/* The searches in `who` take one step. Search `bad` requests a token that does not exist. */
static void step_several(struct several *s, const size_t *who, size_t n, size_t bad)
{
    struct steno_score_request a[SEARCHES];
    int32_t none = 1 << 20;
    const int32_t *wrong[BEAM];
    for (size_t i = 0; i < n; i++) {
        struct beam *b = &s->b[who[i]];
        a[i] = (struct steno_score_request){
            &s->together[who[i]], b->prefix, b->length, b->parent, b->n, s->got[i],
            STENO_ERR_INTERNAL,   &s->err[i]};
        for (size_t h = 0; h < BEAM; h++)
            wrong[h] = &none - (b->length - 1);
        if (who[i] == bad)
            a[i].prefix = wrong;
    }
    steno_cached_decoder_score_each(a, n);
    for (size_t i = 0; i < n; i++) {
        struct beam *b = &s->b[who[i]];
        if (who[i] == bad) {
            assert_int_not_equal(a[i].st, STENO_OK);
            continue;
        }
        assert_int_equal(a[i].st, STENO_OK);
        assert_int_equal(
            score_one(&s->alone[who[i]], b->prefix, b->length, b->parent, b->n, s->want[i], NULL),
            STENO_OK);
        assert_memory_equal(s->got[i], s->want[i], b->n * (size_t)s->p->vocab * sizeof(float));
    }
}

static void several_states(struct pair *p, bool rows)
{
    static struct several s;
    size_t who[SEARCHES];
    s.p = p;
    begin_several(&s, rows);
    for (size_t turn = 0; turn < 3 * STEPS; turn++) {
        size_t n = 0;
        for (size_t i = 0; i < SEARCHES; i++)
            if (s.b[i].length < STEPS && (turn % 8 == 0 || random_below(3) == 0))
                who[n++] = i;
        if (n)
            step_several(&s, who, n, SIZE_MAX);
        for (size_t k = 0; k < n; k++) { /* the next step, or the same one again */
            bool again = random_below(4) == 0;
            if (!again)
                advance(&s.b[who[k]], p->vocab);
            for (int t = 0; again && t < 2; t++)
                steno_cached_decoder_rewind(t ? &s.together[who[k]] : &s.alone[who[k]], 0);
        }
    }
    end_several(&s);
    begin_several(&s, rows);
    for (size_t i = 0; i < 3; i++)
        who[i] = i;
    step_several(&s, who, 3, 1);
    end_several(&s);
}

static void several_searches_score_as_each_alone(void **state)
{
    char *made = made_lm(NONE), path[512];
    struct pair p;
    (void)state;
    open_pair(&p, made, STENO_ESPNET_SCORER_LM, 2, 4, 5, true);
    several_states(&p, false);
    close_pair(&p);
    mk_unlink(made);
    if (!shared_file(path, sizeof path, ZOO "xformer_decoder.onnx"))
        return; /* the reason was printed */
    open_pair(&p, path, STENO_ESPNET_SCORER_DECODER, 2, 32, 31, false);
    several_states(&p, true);
    close_pair(&p);
}

static void bf16_networks_score_alike(void **state)
{
    static const enum steno_precision narrow[] = {STENO_BF16_WEIGHTS, STENO_INT8_WEIGHTS};
    char path[512];
    struct pair p;
    (void)state;
    if (!shared_file(path, sizeof path, ZOO "xformer_decoder.onnx"))
        return; /* the reason was printed */
    for (size_t i = 0; i < 2; i++) {
        precision = narrow[i];
        tolerance = i ? 0.2f : 0.1f;
        open_pair(&p, path, STENO_ESPNET_SCORER_DECODER, 2, 32, 31, false);
        same_scores(&p, 3);
        goes_back(&p, p.rows);
        several_states(&p, true);
        close_pair(&p);
    }
    precision = STENO_FP32;
    tolerance = 2e-4f;
}

enum { LONG = 900 }; /* steps; cached rows are most of the memory */

/* The bytes after LONG steps of `most` hypotheses, of which only one survives each step. */
static size_t bytes_of(const char *path, size_t most)
{
    static int32_t tokens[2][1000];
    const int32_t *prefix[2] = {tokens[0], tokens[0]}, first[2] = {0, 0};
    const int32_t parent[2] = {(int32_t)most - 1, (int32_t)most - 1};
    float y[2 * 5];
    struct pair p;
    size_t bytes;
    open_pair(&p, path, STENO_ESPNET_SCORER_LM, 2, 4, 5, false);
    assert_int_equal(steno_cached_decoder_start(p.step, p.self.state, NULL, 0, 0, 2, NULL),
                     STENO_OK);
    for (size_t i = 1; i <= LONG; i++)
        assert_int_equal(
            score_one(&p.self, prefix, i, i == 2 ? first : parent, i == 1 ? 1 : most, y, NULL),
            STENO_OK);
    bytes = steno_cached_decoder_bytes(p.step);
    close_pair(&p);
    return bytes;
}

/* Cache rows that no hypothesis uses are reused: 900 rows live, although 1,800 were written. */
static void memory_does_not_grow_with_dead_hypotheses(void **state)
{
    char *path = made_lm(NONE);
    size_t alone = bytes_of(path, 1), together = bytes_of(path, 2);
    (void)state;
    assert_true(together <= alone + alone / 4);
    mk_unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exported_decoder_scores_as_from_whole_prefixes),
        cmocka_unit_test(exported_lm_scores_as_from_whole_prefixes),
        cmocka_unit_test(made_lm_scores_as_from_whole_prefixes),
        cmocka_unit_test(a_mask_of_any_token_is_kept),
        cmocka_unit_test(graphs_that_cannot_be_cut_are_refused),
        cmocka_unit_test(a_file_with_the_operator_has_nothing_to_read),
        cmocka_unit_test(steps_allocate_nothing_once_warm),
        cmocka_unit_test(steps_can_be_taken_back),
        cmocka_unit_test(several_searches_score_as_each_alone),
        cmocka_unit_test(bf16_networks_score_alike),
        cmocka_unit_test(memory_does_not_grow_with_dead_hypotheses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
