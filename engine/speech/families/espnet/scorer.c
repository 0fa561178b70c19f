/* The exported graphs take tokens [B, L] and, for every layer, a cache of that layer's earlier
 * output rows, which they return with the newest row appended. The decoder also takes the encoder
 * frames, once per hypothesis. Decoder: for a prefix of L tokens a cache has L rows; row 0 is zero,
 * and the graph cuts it off. LM: a cache has L - 1 rows, so none in the first step. espnet_onnx
 * passes a zero row there too, and all layers but the first attend to it (first_row). Between steps
 * the caches are reordered: hypothesis i continues hypothesis parent[i]. */
#include "speech/families/espnet/scorer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "speech/families/common/piece_features.h"
#include "nn/network/run.h"

#define SHARING_ERROR 1e-4F /* of log-probabilities: matrix products may sum in another order */

struct floats { /* aligned, growing */
    float *p;
    size_t cap;
};

struct steno_espnet_scorer {
    struct steno_espnet_scorer_options o;
    const char *name;
    steno_network *net;
    steno_session *session;
    int tgt, memory, y;
    int *in, *out;         /* [layers] */
    struct floats *caches; /* [layers] inputs of the next run */
    int64_t *tokens;       /* [B, L] */
    size_t cap_tokens;
    struct floats memories; /* [B, rows, dim] */
    const float *rows;
    bool shared;           /* one copy of the encoder frames for all hypotheses */
    size_t n_rows, copies; /* encoder frames; copies of them in memories */
    int64_t row_dim;
};

/* ---- binding ------------------------------------------------------------------------------- */

static steno_status missing(const steno_espnet_scorer *s, const char *what, steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: no %s", s->name, what);
}

static steno_status bind_caches(steno_espnet_scorer *s, steno_err *err)
{
    int n_in = steno_network_n_inputs(s->net), n_out = steno_network_n_outputs(s->net), n = 0,
        m = 0;
    for (int i = 0; i < n_in; i++)
        if (strstr(steno_network_input(s->net, i)->name, "cache")) {
            if (n < s->o.layers)
                s->in[n] = i;
            n++;
        }
    for (int i = 0; i < n_out; i++)
        if (strstr(steno_network_output(s->net, i)->name, "cache")) {
            if (m < s->o.layers)
                s->out[m] = i;
            m++;
        }
    if (n != s->o.layers || m != s->o.layers)
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "%s: %d cache inputs and %d cache outputs, the configuration says %d layers", s->name,
            n, m, s->o.layers);
    for (int i = 0; i < n; i++) {
        const struct steno_value *v = steno_network_input(s->net, s->in[i]);
        if (v->dtype != STENO_F32 || v->shape.rank != 3 ||
            (v->shape.dim[2] >= 0 && v->shape.dim[2] != s->o.dim))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: %s has rows of another width than the configuration's %lld",
                              s->name, v->name, (long long)s->o.dim);
    }
    return STENO_OK;
}

static steno_status bind_scorer(steno_espnet_scorer *s, steno_err *err)
{
    s->tgt = steno_network_find_input(s->net, "tgt");
    s->memory = steno_network_find_input(s->net, "memory");
    s->y = steno_network_find_output(s->net, "y");
    if (s->tgt < 0 || steno_network_input(s->net, s->tgt)->dtype != STENO_I64)
        return missing(s, "input tgt of i64", err);
    if (s->y < 0)
        return missing(s, "output y", err);
    if (s->memory < 0 && s->o.kind == STENO_ESPNET_SCORER_DECODER)
        return missing(s, "input memory", err);
    return bind_caches(s, err);
}

steno_status steno_espnet_scorer_open(steno_espnet_scorer **out, steno_network *net,
                                      const struct steno_espnet_scorer_options *opt,
                                      const char *name, steno_err *err)
{
    steno_espnet_scorer *s = calloc(1, sizeof *s);
    steno_status st = STENO_OK;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    s->o = *opt;
    s->net = net;
    s->name = name;
    s->in = calloc((size_t)opt->layers, sizeof *s->in);
    s->out = calloc((size_t)opt->layers, sizeof *s->out);
    s->caches = calloc((size_t)opt->layers, sizeof *s->caches);
    if (!s->in || !s->out || !s->caches)
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    if (!st)
        st = bind_scorer(s, err);
    if (!st)
        st = steno_session_open(&s->session, net,
                                &(struct steno_session_options){.threads = opt->threads}, err);
    if (st)
        steno_espnet_scorer_close(s);
    else
        *out = s;
    return st;
}

void steno_espnet_scorer_close(steno_espnet_scorer *s)
{
    if (!s)
        return;
    steno_session_close(s->session);
    for (int i = 0; s->caches && i < s->o.layers; i++)
        steno_aligned_free(s->caches[i].p);
    free(s->tokens);
    steno_aligned_free(s->memories.p);
    free(s->caches);
    free(s->in);
    free(s->out);
    free(s);
}

void steno_espnet_scorer_set_memory(steno_espnet_scorer *s, const float *rows, size_t n,
                                    int64_t dim)
{
    s->rows = rows;
    s->n_rows = n;
    s->row_dim = dim;
    s->copies = 0;
}

/* ---- one step ------------------------------------------------------------------------------ */

static void no_memory_scorer(struct steno_run *run)
{
    run->st = steno_fail(run->err, STENO_ERR_NOMEM, "out of memory");
}

static void set_tokens(steno_espnet_scorer *s, const int32_t *const *prefix, size_t length,
                       size_t n, struct steno_run *run)
{
    const int64_t dim[] = {(int64_t)n, (int64_t)length};
    if (STENO_RESERVE(&s->tokens, &s->cap_tokens, n * length)) {
        no_memory_scorer(run);
        return;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < length; k++)
            s->tokens[i * length + k] = prefix[i][k];
    steno_run_set(run, s->tgt, STENO_I64, dim, 2, s->tokens);
}

static void set_memory(steno_espnet_scorer *s, size_t n, struct steno_run *run)
{
    const size_t one = s->n_rows * (size_t)s->row_dim, copies = s->shared ? 1 : n;
    const int64_t dim[] = {(int64_t)copies, (int64_t)s->n_rows, s->row_dim};
    const float *before = s->memories.p;
    if (s->memory < 0 || run->st)
        return;
    if (!steno_floats_reserve(&s->memories.p, &s->memories.cap, copies * one)) {
        no_memory_scorer(run);
        return;
    }
    if (s->memories.p != before)
        s->copies = 0;
    for (; s->copies < copies; s->copies++)
        memcpy(s->memories.p + s->copies * one, s->rows, one * sizeof *s->rows);
    steno_run_set(run, s->memory, STENO_F32, dim, 3, s->memories.p);
}

/* Set layer i's cache: the output of the last run from row `skip` on, with hypotheses reordered. In
 * the first step it is zero. */
static void set_cache(steno_espnet_scorer *s, int i, size_t rows, size_t skip,
                      const int32_t *parent, size_t n, bool first, struct steno_run *run)
{
    const size_t row = (size_t)s->o.dim, floats = rows * row;
    const int64_t dim[] = {(int64_t)n, (int64_t)rows, s->o.dim};
    const struct steno_tensor *o = first ? NULL : steno_session_get(s->session, s->out[i]);
    struct floats *c = &s->caches[i];
    if (!steno_floats_reserve(&c->p, &c->cap, n * floats + 1)) {
        no_memory_scorer(run);
        return;
    }
    if (first) {
        memset(c->p, 0, n * floats * sizeof *c->p);
    } else if (o->dtype != STENO_F32 || o->shape.rank != 3 || o->shape.dim[2] != s->o.dim ||
               o->shape.dim[1] != (int64_t)(rows + skip)) {
        run->st = steno_fail(run->err, STENO_ERR_FORMAT,
                             "cache %d came back with %lld rows, expected %zu", i,
                             o->shape.rank == 3 ? (long long)o->shape.dim[1] : -1LL, rows + skip);
    } else {
        for (size_t h = 0; h < n; h++)
            memcpy(c->p + h * floats,
                   (const float *)o->data + ((size_t)parent[h] * (rows + skip) + skip) * row,
                   floats * sizeof *c->p);
    }
    steno_run_set(run, s->in[i], STENO_F32, dim, 3, c->p);
}

static void set_caches(steno_espnet_scorer *s, size_t length, const int32_t *parent, size_t n,
                       struct steno_run *run)
{
    bool lm = s->o.kind == STENO_ESPNET_SCORER_LM, first = length == 1;
    size_t rows = lm ? (first ? (size_t)s->o.first_row : length - 1) : length;
    /* a first step with a zero row returned it too; it is dropped */
    size_t skip = lm && length == 2 && s->o.first_row ? 1 : 0;
    for (int i = 0; i < s->o.layers && !run->st; i++)
        set_cache(s, i, rows, skip, parent, n, first, run);
}

/* The LM's output is logits. Its rounding differs from steno_log_softmax, and recorded searches
 * need these bits. */
static void log_softmax(float *x, size_t n)
{
    double sum = 0;
    float max = x[0];
    for (size_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)(x[i] - max));
    for (size_t i = 0; i < n; i++)
        x[i] -= max + (float)log(sum);
}

steno_status steno_espnet_scorer_score(void *self, const int32_t *const *prefix, size_t length,
                                       const int32_t *parent, size_t n, float *out, steno_err *err)
{
    steno_espnet_scorer *s = self;
    const struct steno_tensor *y;
    struct steno_run run = steno_run_begin(s->session, s->name, err);
    set_tokens(s, prefix, length, n, &run);
    set_memory(s, n, &run);
    set_caches(s, length, parent, n, &run);
    if (steno_run_end(&run))
        return run.st;
    y = steno_session_get(s->session, s->y);
    if (y->dtype != STENO_F32 || steno_numel(y) != n * (size_t)s->o.vocab)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: y has %zu scores for %zu prefixes, the token list has %d entries",
                          s->name, steno_numel(y), n, (int)s->o.vocab);
    memcpy(out, y->data, n * (size_t)s->o.vocab * sizeof *out);
    for (size_t i = 0; i < n && s->o.kind == STENO_ESPNET_SCORER_LM; i++)
        log_softmax(out + i * (size_t)s->o.vocab, (size_t)s->o.vocab);
    return STENO_OK;
}

bool steno_espnet_scorer_shares(const steno_espnet_scorer *s)
{
    return s->shared;
}

void steno_espnet_scorer_share(steno_espnet_scorer *s, bool on)
{
    s->shared = on;
}

steno_status steno_espnet_scorer_try_sharing(steno_espnet_scorer *s, const int32_t tokens[2],
                                             steno_err *err)
{
    const int32_t *prefix[2] = {&tokens[0], &tokens[1]}, parent[2] = {0, 0};
    size_t n = 2 * (size_t)s->o.vocab;
    float *apart = malloc(n * sizeof *apart), *shared = malloc(n * sizeof *shared);
    steno_status st = apart && shared
                          ? steno_espnet_scorer_score(s, prefix, 1, parent, 2, apart, err)
                          : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", s->name);
    if (!st) {
        s->shared = true;
        s->shared = steno_espnet_scorer_score(s, prefix, 1, parent, 2, shared, NULL) == STENO_OK;
        for (size_t i = 0; i < n && s->shared; i++)
            s->shared = fabsf(apart[i] - shared[i]) <= SHARING_ERROR * (1 + fabsf(apart[i]));
        s->copies = 0;
    }
    free(apart);
    free(shared);
    return st;
}

size_t steno_espnet_scorer_bytes(const steno_espnet_scorer *s)
{
    size_t floats = s->memories.cap;
    for (int i = 0; i < s->o.layers; i++)
        floats += s->caches[i].cap;
    return steno_session_arena_bytes(s->session) + s->cap_tokens * sizeof *s->tokens +
           floats * sizeof(float);
}
