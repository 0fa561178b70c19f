/* espnet_onnx's RNN decoder: batch 1, so one run for each hypothesis. Its state is z and c of every
 * layer and what the attention remembers: the weights of the step before, or with coverage the sum
 * of those of all steps (the graph adds up the rows it is given, and has declared one row). Inputs
 * that an attention does not need are missing from the graph. Outputs count by position: logp, c
 * and z of the layers, the attention's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "models/espnet_rnn.h"

#define MAX_LAYERS 64

struct memory {   /* of one hypothesis */
    float *cells; /* [2, layers, units]: z, then c */
    float *att;   /* the attention's tensor */
    size_t cap_att;
};

struct steno_erdec {
    struct steno_erdec_options o;
    const char *name;
    steno_network *net, *before_net;
    steno_session *session, *before;
    int vy, z[MAX_LAYERS], c[MAX_LAYERS], a, pceh, enc, mask; /* inputs; -1 = not there */
    int out_c, out_z, out_a;                                  /* first output of each kind */
    struct memory *now, *then;
    size_t cap; /* hypotheses that both hold */
    float *zeros, *keys;
    size_t cap_zeros, cap_keys, rows;
    int64_t token;
};

/* ---- opening ------------------------------------------------------------------------------- */

static int input(const steno_erdec *d, const char *base, int i)
{
    char name[32];
    snprintf(name, sizeof name, "%s_%d", base, i);
    return steno_network_find_input(d->net, name);
}

static steno_status bind(steno_erdec *d, steno_err *err)
{
    int layers = d->o.layers, n_out = steno_network_n_outputs(d->net);
    d->vy = steno_network_find_input(d->net, "vy");
    if (d->vy < 0 || steno_network_input(d->net, d->vy)->dtype != STENO_I64)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no input vy of i64", d->name);
    for (int i = 0; i < layers; i++) {
        d->z[i] = input(d, "z_prev", i);
        d->c[i] = input(d, "c_prev", i);
        if (d->z[i] < 0 || d->c[i] < 0)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: no input %s_prev_%d", d->name,
                              d->z[i] < 0 ? "z" : "c", i);
    }
    d->a = input(d, "a_prev", 0);
    d->pceh = input(d, "pceh", 0);
    d->enc = input(d, "enc_h", 0);
    d->mask = input(d, "mask", 0);
    if (d->pceh >= 0 && !d->before_net)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: input pceh_0, but no predecoder", d->name);
    if (n_out != 2 * layers + 2)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %d outputs, expected %d for %d layers",
                          d->name, n_out, 2 * layers + 2, layers);
    d->out_c = 1;
    d->out_z = 1 + layers;
    d->out_a = 1 + 2 * layers;
    return STENO_OK;
}

steno_status steno_erdec_open(steno_erdec **out, steno_network *decoder, steno_network *before,
                              const struct steno_erdec_options *opt, const char *name,
                              steno_err *err)
{
    struct steno_session_options so = {.threads = opt->threads};
    steno_erdec *d;
    steno_status st;
    if (opt->layers > MAX_LAYERS)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %d layers, at most %d", name, opt->layers,
                          MAX_LAYERS);
    d = calloc(1, sizeof *d);
    if (!d)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    d->o = *opt;
    d->name = name;
    d->net = decoder;
    d->before_net = before;
    st = bind(d, err);
    if (!st)
        st = steno_session_open(&d->session, decoder, &so, err);
    if (!st && before)
        st = steno_session_open(&d->before, before, &so, err);
    if (st)
        steno_erdec_close(d);
    else
        *out = d;
    return st;
}

static void free_memories(struct memory *m, size_t n)
{
    for (size_t i = 0; m && i < n; i++) {
        steno_aligned_free(m[i].cells);
        steno_aligned_free(m[i].att);
    }
    free(m);
}

void steno_erdec_close(steno_erdec *d)
{
    if (!d)
        return;
    steno_session_close(d->session);
    steno_session_close(d->before);
    free_memories(d->now, d->cap);
    free_memories(d->then, d->cap);
    steno_aligned_free(d->zeros);
    steno_aligned_free(d->keys);
    free(d);
}

/* ---- an utterance -------------------------------------------------------------------------- */

static steno_status oom(const steno_erdec *d, steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", d->name);
}

static steno_status grow(float **p, size_t *cap, size_t n)
{
    float *q;
    if (n <= *cap)
        return STENO_OK;
    q = steno_aligned_alloc(2 * n * sizeof *q);
    if (!q)
        return STENO_ERR_NOMEM;
    steno_aligned_free(*p);
    *p = q;
    *cap = 2 * n;
    return STENO_OK;
}

static steno_status set3(steno_session *s, int in, const float *x, int64_t n, int64_t width,
                         steno_err *err)
{
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 3, .dim = {1, n, width}}};
    memcpy(&t.data, &x, sizeof t.data); /* inputs are only read */
    return steno_session_set(s, in, &t, err);
}

/* What the attention makes of the rows once. */
static steno_status prepare_keys(steno_erdec *d, const float *rows, size_t n, int64_t dim,
                                 steno_err *err)
{
    const struct steno_tensor *y;
    int in, out;
    steno_status st;
    if (d->pceh < 0)
        return STENO_OK;
    in = steno_network_find_input(d->before_net, "enc_h");
    out = steno_network_find_output(d->before_net, "pre_compute_enc_h");
    if (in < 0 || out < 0)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: its predecoder has no enc_h and pre_compute_enc_h", d->name);
    st = set3(d->before, in, rows, (int64_t)n, dim, err);
    if (!st)
        st = steno_session_run(d->before, err);
    if (st)
        return steno_fail_in(err, st, "%s: predecoder", d->name);
    y = steno_session_get(d->before, out);
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[1] != (int64_t)n)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: pre_compute_enc_h is not f32 [1,%zu,d]",
                          d->name, n);
    if (grow(&d->keys, &d->cap_keys, steno_numel(y)))
        return oom(d, err);
    memcpy(d->keys, y->data, steno_numel(y) * sizeof(float));
    return set3(d->session, d->pceh, d->keys, (int64_t)n, y->shape.dim[2], err);
}

steno_status steno_erdec_start(steno_erdec *d, const float *rows, size_t n, int64_t dim,
                               steno_err *err)
{
    struct steno_tensor mask = {.dtype = STENO_F32, .shape = {.rank = 2, .dim = {1, (int64_t)n}}};
    steno_status st;
    if (grow(&d->zeros, &d->cap_zeros, n))
        return oom(d, err);
    memset(d->zeros, 0, n * sizeof *d->zeros);
    mask.data = d->zeros;
    d->rows = n;
    st = prepare_keys(d, rows, n, dim, err);
    if (!st && d->enc >= 0)
        st = set3(d->session, d->enc, rows, (int64_t)n, dim, err);
    if (!st && d->mask >= 0)
        st = steno_session_set(d->session, d->mask, &mask, err);
    return st ? steno_fail_in(err, st, "%s", d->name) : STENO_OK;
}

/* ---- one step ------------------------------------------------------------------------------ */

static size_t cells_of(const steno_erdec *d)
{
    return 2 * (size_t)d->o.layers * (size_t)d->o.units;
}

static struct memory *more(struct memory *m, size_t had, size_t n, size_t cells)
{
    struct memory *p = realloc(m, n * sizeof *p);
    if (!p)
        return NULL;
    memset(p + had, 0, (n - had) * sizeof *p);
    for (size_t i = had; i < n; i++)
        p[i].cells = steno_aligned_alloc(cells * sizeof(float));
    return p;
}

static steno_status reserve(steno_erdec *d, size_t n, steno_err *err)
{
    struct memory *p;
    bool all = true;
    if (n <= d->cap)
        return STENO_OK;
    p = more(d->now, d->cap, n, cells_of(d));
    if (!p)
        return oom(d, err);
    d->now = p;
    p = more(d->then, d->cap, n, cells_of(d));
    if (!p) {
        for (size_t i = d->cap; i < n; i++)
            steno_aligned_free(d->now[i].cells);
        return oom(d, err);
    }
    d->then = p;
    for (size_t i = d->cap; i < n; i++)
        all = all && d->now[i].cells && d->then[i].cells;
    d->cap = n;
    return all ? STENO_OK : oom(d, err);
}

/* Zeros, and attention spread over all rows. */
static steno_status begin(steno_erdec *d, struct memory *m, steno_err *err)
{
    if (!m->cells)
        return oom(d, err);
    memset(m->cells, 0, cells_of(d) * sizeof *m->cells);
    if (grow(&m->att, &m->cap_att, d->rows))
        return oom(d, err);
    for (size_t i = 0; i < d->rows; i++)
        m->att[i] = 1.0F / (float)d->rows;
    return STENO_OK;
}

static steno_status set_memory(steno_erdec *d, const struct memory *m, steno_err *err)
{
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 2, .dim = {1, d->o.units}}};
    size_t units = (size_t)d->o.units, layers = (size_t)d->o.layers;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < layers && !st; i++) {
        t.data = m->cells + i * units;
        st = steno_session_set(d->session, d->z[i], &t, err);
        t.data = m->cells + (layers + i) * units;
        if (!st)
            st = steno_session_set(d->session, d->c[i], &t, err);
    }
    if (!st && d->a >= 0) {
        bool rows = steno_network_input(d->net, d->a)->shape.rank == 3;
        t.shape = (struct steno_shape){.rank = rows ? 3 : 2,
                                       .dim = {1, rows ? 1 : (int64_t)d->rows, (int64_t)d->rows}};
        t.data = m->att;
        st = steno_session_set(d->session, d->a, &t, err);
    }
    return st;
}

static steno_status get_cells(const steno_erdec *d, int first, float *to, steno_err *err)
{
    size_t units = (size_t)d->o.units;
    for (int i = 0; i < d->o.layers; i++) {
        const struct steno_tensor *t = steno_session_get(d->session, first + i);
        if (t->dtype != STENO_F32 || steno_numel(t) != units)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: state of layer %d came back with %zu numbers, expected %zu",
                              d->name, i, steno_numel(t), units);
        memcpy(to + (size_t)i * units, t->data, units * sizeof *to);
    }
    return STENO_OK;
}

static steno_status get_memory(const steno_erdec *d, struct memory *m, steno_err *err)
{
    const struct steno_tensor *a = steno_session_get(d->session, d->out_a);
    size_t half = (size_t)d->o.layers * (size_t)d->o.units;
    steno_status st;
    if (!m->cells)
        return oom(d, err);
    st = get_cells(d, d->out_z, m->cells, err);
    if (!st)
        st = get_cells(d, d->out_c, m->cells + half, err);
    if (st || d->a < 0)
        return st;
    if (a->dtype != STENO_F32 || !steno_numel(a) || steno_numel(a) % d->rows)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: attention weights are not f32 [..,%zu]",
                          d->name, d->rows);
    if (grow(&m->att, &m->cap_att, d->rows))
        return oom(d, err);
    memcpy(m->att, a->data, d->rows * sizeof *m->att);
    for (size_t i = d->rows; i < steno_numel(a); i++)
        m->att[i % d->rows] += ((const float *)a->data)[i];
    return STENO_OK;
}

static steno_status score_one(steno_erdec *d, int32_t token, const struct memory *from,
                              struct memory *to, float *out, steno_err *err)
{
    struct steno_tensor vy = {
        .dtype = STENO_I64, .shape = {.rank = 1, .dim = {1}}, .data = &d->token};
    const struct steno_tensor *y;
    steno_status st;
    d->token = token;
    st = steno_session_set(d->session, d->vy, &vy, err);
    if (!st)
        st = set_memory(d, from, err);
    if (!st)
        st = steno_session_run(d->session, err);
    if (st)
        return steno_fail_in(err, st, "%s", d->name);
    y = steno_session_get(d->session, 0);
    if (y->dtype != STENO_F32 || steno_numel(y) != (size_t)d->o.vocab)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: logp has %zu scores, the token list has %d entries", d->name,
                          steno_numel(y), (int)d->o.vocab);
    memcpy(out, y->data, (size_t)d->o.vocab * sizeof *out);
    return get_memory(d, to, err);
}

steno_status steno_erdec_score(void *self, const int32_t *const *prefix, size_t length,
                               const int32_t *parent, size_t n, float *out, steno_err *err)
{
    steno_erdec *d = self;
    struct memory *swap;
    steno_status st = reserve(d, n, err);
    if (!st && length == 1)
        st = begin(d, &d->now[0], err);
    for (size_t i = 0; i < n && !st; i++)
        st = score_one(d, prefix[i][length - 1], &d->now[length > 1 ? parent[i] : 0], &d->then[i],
                       out + i * (size_t)d->o.vocab, err);
    swap = d->now;
    d->now = d->then;
    d->then = swap;
    return st;
}

size_t steno_erdec_bytes(const steno_erdec *d)
{
    return steno_session_arena_bytes(d->session) +
           (d->before ? steno_session_arena_bytes(d->before) : 0) +
           2 * d->cap * cells_of(d) * sizeof(float) + (d->cap_keys + d->cap_zeros) * sizeof(float);
}
