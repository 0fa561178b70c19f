/* espnet_onnx's RNN decoder has batch 1, so it runs once per hypothesis. The state of a hypothesis
 * is z and c of every layer and the attention's weights of the step before. With coverage it is the
 * sum of the weights of all steps: the graph adds the rows of its input and declares one row.
 * location2d and multi_head_* have several rows, as output att_w declares: steps before, or heads.
 * Inputs that an attention does not need are missing from the graph. Outputs are found by position:
 * logp, c and z of the layers, then those of the attention. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "speech/families/common/piece_features.h"
#include "nn/network/run.h"
#include "speech/families/espnet/rnn.h"

#define MAX_LAYERS 64
#define MAX_ROWS 64

/* The state of a hypothesis in hyps: z and c [2, layers, units], then the attention's weights of
 * each encoder frame [frames, att_rows]; zero for frames that came later. */
struct steno_espnet_rnn_decoder_state {
    struct steno_beam_states hyps;
    float *keys;             /* [n_keys, key_width] the predecoder's output */
    size_t cap_keys, n_keys; /* floats; encoder frames */
    int64_t key_width;
};

struct steno_espnet_rnn_decoder {
    struct steno_espnet_rnn_decoder_options o;
    const char *name;
    steno_network *net, *predecoder_net;
    steno_session *session, *predecoder;
    int vy, z[MAX_LAYERS], c[MAX_LAYERS], a, pceh, enc, mask; /* inputs; -1: missing */
    int out_c, out_z, out_a;                                  /* first output of each kind */
    steno_espnet_rnn_decoder_state own, *st;                  /* st: the state in use */
    float *zeros;
    size_t cap_zeros, rows;
    int64_t att_rows; /* rows of the attention's weights that go on to the next step */
    float *att;       /* [att_rows, rows] if these are several */
    size_t cap_att;
    int64_t token;
};

/* ---- opening ------------------------------------------------------------------------------- */

static int rnn_decoder_input(const steno_espnet_rnn_decoder *d, const char *base, int i)
{
    char name[32];
    snprintf(name, sizeof name, "%s_%d", base, i);
    return steno_network_find_input(d->net, name);
}

/* One row, unless the last output says that there are several. */
static steno_status bind_rows(steno_espnet_rnn_decoder *d, steno_err *err)
{
    const struct steno_shape *s = &steno_network_output(d->net, d->out_a)->shape;
    d->att_rows = d->a >= 0 && s->rank == 2 && s->dim[0] > 1 ? s->dim[0] : 1;
    return d->att_rows <= MAX_ROWS
               ? STENO_OK
               : steno_fail(err, STENO_ERR_LIMIT, "%s: %lld rows of attention weights, at most %d",
                            d->name, (long long)d->att_rows, MAX_ROWS);
}

static steno_status bind_rnn_decoder(steno_espnet_rnn_decoder *d, steno_err *err)
{
    int layers = d->o.layers, n_out = steno_network_n_outputs(d->net);
    d->vy = steno_network_find_input(d->net, "vy");
    if (d->vy < 0 || steno_network_input(d->net, d->vy)->dtype != STENO_I64)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no input vy of i64", d->name);
    for (int i = 0; i < layers; i++) {
        d->z[i] = rnn_decoder_input(d, "z_prev", i);
        d->c[i] = rnn_decoder_input(d, "c_prev", i);
        if (d->z[i] < 0 || d->c[i] < 0)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: no input %s_prev_%d", d->name,
                              d->z[i] < 0 ? "z" : "c", i);
    }
    d->a = rnn_decoder_input(d, "a_prev", 0);
    d->pceh = rnn_decoder_input(d, "pceh", 0);
    d->enc = rnn_decoder_input(d, "enc_h", 0);
    d->mask = rnn_decoder_input(d, "mask", 0);
    if (d->pceh >= 0 && !d->predecoder_net)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: input pceh_0, but no predecoder", d->name);
    if (n_out != 2 * layers + 2)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %d outputs, expected %d for %d layers",
                          d->name, n_out, 2 * layers + 2, layers);
    d->out_c = 1;
    d->out_z = 1 + layers;
    d->out_a = 1 + 2 * layers;
    return bind_rows(d, err);
}

steno_status steno_espnet_rnn_decoder_open(steno_espnet_rnn_decoder **out, steno_network *decoder,
                                           steno_network *predecoder,
                                           const struct steno_espnet_rnn_decoder_options *opt,
                                           const char *name, steno_err *err)
{
    struct steno_session_options so = {.threads = opt->threads};
    steno_espnet_rnn_decoder *d;
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
    d->predecoder_net = predecoder;
    d->st = &d->own;
    st = bind_rnn_decoder(d, err);
    if (!st)
        st = steno_session_open(&d->session, decoder, &so, err);
    if (!st && predecoder)
        st = steno_session_open(&d->predecoder, predecoder, &so, err);
    if (st)
        steno_espnet_rnn_decoder_close(d);
    else
        *out = d;
    return st;
}

static void clear_state(steno_espnet_rnn_decoder_state *k)
{
    steno_beam_states_free(&k->hyps);
    steno_aligned_free(k->keys);
}

void steno_espnet_rnn_decoder_close(steno_espnet_rnn_decoder *d)
{
    if (!d)
        return;
    steno_session_close(d->session);
    steno_session_close(d->predecoder);
    clear_state(&d->own);
    steno_aligned_free(d->zeros);
    steno_aligned_free(d->att);
    free(d);
}

steno_espnet_rnn_decoder_state *steno_espnet_rnn_decoder_state_new(void)
{
    return calloc(1, sizeof(steno_espnet_rnn_decoder_state));
}

void steno_espnet_rnn_decoder_state_free(steno_espnet_rnn_decoder_state *k)
{
    if (k)
        clear_state(k);
    free(k);
}

size_t steno_espnet_rnn_decoder_state_bytes(const steno_espnet_rnn_decoder_state *k)
{
    return steno_beam_states_bytes(&k->hyps) + k->cap_keys * sizeof *k->keys;
}

void steno_espnet_rnn_decoder_use(steno_espnet_rnn_decoder *d, steno_espnet_rnn_decoder_state *k)
{
    d->st = k ? k : &d->own;
}

/* ---- an utterance -------------------------------------------------------------------------- */

static steno_status no_memory_rnn_decoder(const steno_espnet_rnn_decoder *d, steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", d->name);
}

/* Run the predecoder on n more encoder frames; its output of a frame depends on that frame alone.
 */
static steno_status add_keys(steno_espnet_rnn_decoder *d, const float *rows, size_t n, int64_t dim,
                             steno_err *err)
{
    steno_espnet_rnn_decoder_state *k = d->st;
    const struct steno_tensor *y;
    int in = steno_network_find_input(d->predecoder_net, "enc_h");
    int out = steno_network_find_output(d->predecoder_net, "pre_compute_enc_h");
    struct steno_run run;
    size_t had;
    if (in < 0 || out < 0)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "its predecoder has no enc_h and pre_compute_enc_h");
    run = steno_run_begin(d->predecoder, "predecoder", err);
    steno_run_set(&run, in, STENO_F32, (const int64_t[]){1, (int64_t)n, dim}, 3, rows);
    if (steno_run_end(&run))
        return run.st;
    y = steno_session_get(d->predecoder, out);
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[1] != (int64_t)n ||
        (k->n_keys && y->shape.dim[2] != k->key_width))
        return steno_fail(err, STENO_ERR_FORMAT, "pre_compute_enc_h is not f32 [1,%zu,d]", n);
    k->key_width = y->shape.dim[2];
    had = k->n_keys * (size_t)k->key_width;
    if (!steno_floats_extend(&k->keys, &k->cap_keys, had + steno_numel(y), had))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    memcpy(k->keys + had, y->data, steno_numel(y) * sizeof(float));
    k->n_keys += n;
    return STENO_OK;
}

void steno_espnet_rnn_decoder_start(steno_espnet_rnn_decoder *d)
{
    d->st->n_keys = 0;
    d->st->hyps.again = false;
}

steno_status steno_espnet_rnn_decoder_extend(steno_espnet_rnn_decoder *d, const float *rows,
                                             size_t n, int64_t dim, steno_err *err)
{
    const int64_t frames = (int64_t)n;
    struct steno_run run = steno_run_begin(d->session, d->name, err);
    steno_espnet_rnn_decoder_state *k = d->st;
    if (!steno_floats_reserve(&d->zeros, &d->cap_zeros, n) ||
        (d->att_rows > 1 && !steno_floats_reserve(&d->att, &d->cap_att, n * (size_t)d->att_rows)))
        return no_memory_rnn_decoder(d, err);
    memset(d->zeros, 0, n * sizeof *d->zeros);
    d->rows = n;
    if (d->pceh >= 0 && n > k->n_keys)
        run.st = add_keys(d, rows + k->n_keys * (size_t)dim, n - k->n_keys, dim, err);
    steno_run_set(&run, d->pceh, STENO_F32, (const int64_t[]){1, frames, k->key_width}, 3, k->keys);
    steno_run_set(&run, d->enc, STENO_F32, (const int64_t[]){1, frames, dim}, 3, rows);
    steno_run_set(&run, d->mask, STENO_F32, (const int64_t[]){1, frames}, 2, d->zeros);
    return run.st ? steno_fail_in(err, run.st, "%s", d->name) : STENO_OK;
}

/* ---- one step ------------------------------------------------------------------------------ */

static size_t cells_of(const steno_espnet_rnn_decoder *d)
{
    return 2 * (size_t)d->o.layers * (size_t)d->o.units;
}

/* m: the attention's weights of the step before. */
static void set_attention(steno_espnet_rnn_decoder *d, const float *m, struct steno_run *run)
{
    const bool rows = steno_network_input(d->net, d->a)->shape.rank == 3;
    const size_t n = (size_t)d->att_rows;
    const int64_t frames = (int64_t)d->rows, dim[] = {d->att_rows, rows ? 1 : frames, frames};
    if (n > 1)
        for (size_t i = 0; i < n * d->rows; i++)
            d->att[i % n * d->rows + i / n] = m[i];
    steno_run_set(run, d->a, STENO_F32, dim, rows ? 3 : 2, n > 1 ? d->att : m);
}

static void set_memory(steno_espnet_rnn_decoder *d, const float *m, struct steno_run *run)
{
    const int64_t dim[] = {1, d->o.units};
    const int layers = d->o.layers;
    for (int i = 0; i < 2 * layers; i++, m += d->o.units)
        steno_run_set(run, i < layers ? d->z[i] : d->c[i - layers], STENO_F32, dim, 2, m);
    if (d->a >= 0)
        set_attention(d, m, run);
}

static steno_status get_cells(const steno_espnet_rnn_decoder *d, int first, float *to,
                              steno_err *err)
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

static steno_status get_memory(const steno_espnet_rnn_decoder *d, float *m, steno_err *err)
{
    const struct steno_tensor *a = steno_session_get(d->session, d->out_a);
    size_t half = (size_t)d->o.layers * (size_t)d->o.units;
    float *att = m + 2 * half;
    steno_status st = get_cells(d, d->out_z, m, err);
    if (!st)
        st = get_cells(d, d->out_c, m + half, err);
    if (st || d->a < 0)
        return st;
    if (a->dtype != STENO_F32 || !steno_numel(a) || steno_numel(a) % d->rows)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: attention weights are not f32 [..,%zu]",
                          d->name, d->rows);
    /* several rows are steps of a coverage, or the declared shape is wrong */
    if (steno_numel(a) != (size_t)d->att_rows * d->rows &&
        steno_network_input(d->net, d->a)->shape.rank != 3)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: %zu attention weights of %zu frames, expected %lld rows", d->name,
                          steno_numel(a), d->rows, (long long)d->att_rows);
    memset(att, 0, (d->st->hyps.stride - 2 * half) * sizeof *att);
    if (d->att_rows > 1) {
        const size_t n = (size_t)d->att_rows;
        for (size_t i = 0; i < n * d->rows; i++)
            att[i] = ((const float *)a->data)[i % n * d->rows + i / n];
        return STENO_OK;
    }
    for (size_t i = 0; i < steno_numel(a); i++)
        att[i % d->rows] += ((const float *)a->data)[i];
    return STENO_OK;
}

static steno_status score_one(steno_espnet_rnn_decoder *d, int32_t token, const float *from,
                              float *to, float *out, steno_err *err)
{
    struct steno_run run = steno_run_begin(d->session, d->name, err);
    const struct steno_tensor *y;
    d->token = token;
    steno_run_set(&run, d->vy, STENO_I64, (const int64_t[]){1}, 1, &d->token);
    set_memory(d, from, &run);
    if (steno_run_end(&run))
        return run.st;
    y = steno_session_get(d->session, 0);
    if (y->dtype != STENO_F32 || steno_numel(y) != (size_t)d->o.vocab)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: logp has %zu scores, the token list has %d entries", d->name,
                          steno_numel(y), (int)d->o.vocab);
    memcpy(out, y->data, (size_t)d->o.vocab * sizeof *out);
    return get_memory(d, to, err);
}

void steno_espnet_rnn_decoder_rewind(void *self, int calls)
{
    steno_beam_states_rewind(&((steno_espnet_rnn_decoder *)self)->st->hyps, calls);
}

/* States get room for half as many frames again, so that they seldom move. */
static bool reserve_rnn_decoder(const steno_espnet_rnn_decoder *d, size_t n)
{
    struct steno_beam_states *b = &d->st->hyps;
    size_t frames = (size_t)d->att_rows * d->rows;
    size_t want = cells_of(d) + (d->a >= 0 ? frames : 0);
    return steno_beam_states_reserve(b, n, want <= b->stride ? b->stride : want + frames / 2);
}

steno_status steno_espnet_rnn_decoder_score(void *self, const int32_t *const *prefix, size_t length,
                                            const int32_t *parent, size_t n, float *out,
                                            steno_err *err)
{
    steno_espnet_rnn_decoder *d = self;
    struct steno_beam_states *b = &d->st->hyps;
    steno_status st = reserve_rnn_decoder(d, n) ? STENO_OK : no_memory_rnn_decoder(d, err);
    if (st)
        return st;
    steno_beam_states_step(b, length > 1 ? parent : NULL, n);
    if (length == 1 && d->a >= 0) /* equal weights for all frames */
        for (size_t i = 0; i < (size_t)d->att_rows * d->rows; i++)
            steno_beam_state(b, STENO_BEAM_IN, 0)[cells_of(d) + i] = 1.0F / (float)d->rows;
    for (size_t i = 0; i < n && !st; i++)
        st = score_one(d, prefix[i][length - 1], steno_beam_state(b, STENO_BEAM_IN, i),
                       steno_beam_state(b, STENO_BEAM_OUT, i), out + i * (size_t)d->o.vocab, err);
    return st;
}

size_t steno_espnet_rnn_decoder_bytes(const steno_espnet_rnn_decoder *d)
{
    return steno_session_arena_bytes(d->session) +
           (d->predecoder ? steno_session_arena_bytes(d->predecoder) : 0) +
           steno_espnet_rnn_decoder_state_bytes(&d->own) +
           (d->cap_zeros + d->cap_att) * sizeof(float);
}
