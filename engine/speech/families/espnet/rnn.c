/* Networks that read one token per step. Inputs: token [B,1] and states [layers, B, units].
 * Outputs: a row for each token, and the states after it. The states of one prefix are one block of
 * memory, [states, layers, units], so prefixes are selected and reordered by pointer. */
#include "speech/families/espnet/rnn.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "speech/families/common/piece_features.h"
#include "nn/network/run.h"
#include "speech/families/common/scores.h"

struct steno_espnet_rnn {
    struct steno_espnet_rnn_options o;
    const char *name;
    steno_network *net;
    steno_session *session;
    int token, out, in[2], next[2];
    int n_states; /* LSTM: 2, GRU: 1 */
    int64_t *tokens;
    float *states[2]; /* [layers, n, units] */
    size_t cap_tokens, cap_states[2];
    /* as a scorer; st: the states in use */
    struct steno_beam_states own, *st;
    size_t cap_hyps;
    const float **from; /* [cap_hyps] */
    float **to;
    int32_t *last;
};

struct steno_espnet_rnn_options steno_espnet_rnn_lm(int threads, int layers, int64_t units,
                                                    int64_t vocab)
{
    return (struct steno_espnet_rnn_options){.threads = threads,
                                             .token = "x",
                                             .out = "y",
                                             .state = {"in_hidden1", "in_hidden2"},
                                             .next = {"out_hidden1", "out_hidden2"},
                                             .layers = layers,
                                             .units = units,
                                             .width = vocab};
}

struct steno_espnet_rnn_options steno_espnet_rnn_prediction(int threads, int layers, int64_t units)
{
    return (struct steno_espnet_rnn_options){.threads = threads,
                                             .token = "labels",
                                             .out = "sequence",
                                             .state = {"h_cache", "c_cache"},
                                             .next = {"out_h_cache", "out_c_cache_"},
                                             .layers = layers,
                                             .units = units,
                                             .width = -1};
}

/* ---- opening ------------------------------------------------------------------------------- */

static steno_status bind_state(steno_espnet_rnn *r, int i, steno_err *err)
{
    const struct steno_value *v;
    r->in[i] = steno_network_find_input(r->net, r->o.state[i]);
    r->next[i] = steno_network_find_output(r->net, r->o.next[i]);
    if (r->in[i] < 0 && r->next[i] < 0 && i > 0)
        return STENO_OK;
    if (r->in[i] < 0 || r->next[i] < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no %s %s", r->name,
                          r->in[i] < 0 ? "input" : "output",
                          r->in[i] < 0 ? r->o.state[i] : r->o.next[i]);
    v = steno_network_input(r->net, r->in[i]);
    if (v->dtype != STENO_F32 || v->shape.rank != 3 ||
        (v->shape.dim[0] >= 0 && v->shape.dim[0] != r->o.layers) ||
        (v->shape.dim[2] >= 0 && v->shape.dim[2] != r->o.units))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: input %s is not f32 [%d,B,%lld], as the configuration says", r->name,
                          v->name, r->o.layers, (long long)r->o.units);
    r->n_states = i + 1;
    return STENO_OK;
}

static steno_status bind_rnn(steno_espnet_rnn *r, steno_err *err)
{
    steno_status st;
    r->token = steno_network_find_input(r->net, r->o.token);
    r->out = steno_network_find_output(r->net, r->o.out);
    if (r->token < 0 || steno_network_input(r->net, r->token)->dtype != STENO_I64)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no input %s of i64", r->name, r->o.token);
    if (r->out < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no output %s", r->name, r->o.out);
    st = bind_state(r, 0, err);
    return st ? st : bind_state(r, 1, err);
}

steno_status steno_espnet_rnn_open(steno_espnet_rnn **out, steno_network *net,
                                   const struct steno_espnet_rnn_options *opt, const char *name,
                                   steno_err *err)
{
    steno_espnet_rnn *r = calloc(1, sizeof *r);
    steno_status st;
    if (!r)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    r->o = *opt;
    r->net = net;
    r->name = name;
    r->st = &r->own;
    st = bind_rnn(r, err);
    if (!st)
        st = steno_session_open(&r->session, net,
                                &(struct steno_session_options){.threads = opt->threads}, err);
    if (st)
        steno_espnet_rnn_close(r);
    else
        *out = r;
    return st;
}

void steno_espnet_rnn_close(steno_espnet_rnn *r)
{
    if (!r)
        return;
    steno_session_close(r->session);
    free(r->tokens);
    steno_aligned_free(r->states[0]);
    steno_aligned_free(r->states[1]);
    steno_beam_states_free(&r->own);
    free(r->from);
    free(r->to);
    free(r->last);
    free(r);
}

size_t steno_espnet_rnn_state_size(const steno_espnet_rnn *r)
{
    return (size_t)r->n_states * (size_t)r->o.layers * (size_t)r->o.units;
}

/* ---- one step ------------------------------------------------------------------------------ */

static steno_status reserve_rnn(steno_espnet_rnn *r, size_t n, steno_err *err)
{
    const size_t floats = (size_t)r->o.layers * n * (size_t)r->o.units;
    bool room = !STENO_RESERVE(&r->tokens, &r->cap_tokens, n);
    for (int k = 0; k < r->n_states && room; k++)
        room = steno_floats_reserve(&r->states[k], &r->cap_states[k], floats);
    return room ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", r->name);
}

static void set_states_rnn(steno_espnet_rnn *r, const float *const *state, size_t n,
                           struct steno_run *run)
{
    const int64_t dim[] = {r->o.layers, (int64_t)n, r->o.units};
    size_t units = (size_t)r->o.units, layers = (size_t)r->o.layers;
    for (int k = 0; k < r->n_states; k++) {
        for (size_t l = 0; l < layers; l++)
            for (size_t i = 0; i < n; i++) {
                float *to = r->states[k] + (l * n + i) * units;
                if (state[i])
                    memcpy(to, state[i] + ((size_t)k * layers + l) * units, units * sizeof *to);
                else
                    memset(to, 0, units * sizeof *to);
            }
        steno_run_set(run, r->in[k], STENO_F32, dim, 3, r->states[k]);
    }
}

static steno_status get_states(const steno_espnet_rnn *r, size_t n, float *const *next,
                               steno_err *err)
{
    size_t units = (size_t)r->o.units, layers = (size_t)r->o.layers;
    for (int k = 0; k < r->n_states; k++) {
        const struct steno_tensor *t = steno_session_get(r->session, r->next[k]);
        if (t->dtype != STENO_F32 || steno_numel(t) != layers * n * units)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: %s came back with %zu numbers for %zu",
                              r->name, r->o.next[k], steno_numel(t), layers * n * units);
        for (size_t l = 0; l < layers; l++)
            for (size_t i = 0; i < n; i++)
                memcpy(next[i] + ((size_t)k * layers + l) * units,
                       (const float *)t->data + (l * n + i) * units, units * sizeof(float));
    }
    return STENO_OK;
}

steno_status steno_espnet_rnn_step(steno_espnet_rnn *r, const float *const *state,
                                   const int32_t *token, size_t n, float *const *next,
                                   const float **out, size_t *width, steno_err *err)
{
    struct steno_run run = steno_run_begin(r->session, r->name, err);
    const struct steno_tensor *y;
    steno_status st = reserve_rnn(r, n, err);
    if (st)
        return st;
    for (size_t i = 0; i < n; i++)
        r->tokens[i] = token[i];
    steno_run_set(&run, r->token, STENO_I64, (const int64_t[]){(int64_t)n, 1}, 2, r->tokens);
    set_states_rnn(r, state, n, &run);
    st = steno_run_end(&run);
    if (st)
        return st;
    y = steno_session_get(r->session, r->out);
    if (y->dtype != STENO_F32 || !steno_numel(y) || steno_numel(y) % n ||
        (r->o.width >= 0 && steno_numel(y) / n != (size_t)r->o.width))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: %s has %zu numbers for %zu prefixes, expected rows of %lld", r->name,
                          r->o.out, steno_numel(y), n, (long long)r->o.width);
    *out = y->data;
    *width = steno_numel(y) / n;
    return get_states(r, n, next, err);
}

/* ---- as a scorer --------------------------------------------------------------------------- */

static steno_status reserve_hyps(steno_espnet_rnn *r, size_t n, steno_err *err)
{
    if (!steno_beam_states_reserve(r->st, n, steno_espnet_rnn_state_size(r)))
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", r->name);
    if (n <= r->cap_hyps)
        return STENO_OK;
    free(r->from);
    free(r->to);
    free(r->last);
    r->from = malloc(n * sizeof *r->from);
    r->to = malloc(n * sizeof *r->to);
    r->last = malloc(n * sizeof *r->last);
    r->cap_hyps = r->from && r->to && r->last ? n : 0;
    return r->cap_hyps ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", r->name);
}

void steno_espnet_rnn_use(steno_espnet_rnn *r, struct steno_beam_states *states)
{
    r->st = states ? states : &r->own;
}

void steno_espnet_rnn_rewind(void *self, int calls)
{
    steno_beam_states_rewind(((steno_espnet_rnn *)self)->st, calls);
}

steno_status steno_espnet_rnn_score(void *self, const int32_t *const *prefix, size_t length,
                                    const int32_t *parent, size_t n, float *out, steno_err *err)
{
    steno_espnet_rnn *r = self;
    size_t width;
    const float *y;
    steno_status st = reserve_hyps(r, n, err);
    if (st)
        return st;
    steno_beam_states_step(r->st, length > 1 ? parent : NULL, n);
    for (size_t i = 0; i < n; i++) {
        r->from[i] = steno_beam_state(r->st, STENO_BEAM_IN, i);
        r->to[i] = steno_beam_state(r->st, STENO_BEAM_OUT, i);
        r->last[i] = prefix[i][length - 1];
    }
    st = steno_espnet_rnn_step(r, r->from, r->last, n, r->to, &y, &width, err);
    for (size_t i = 0; i < n && !st; i++)
        steno_log_softmax(y + i * width, width, out + i * width);
    return st;
}

size_t steno_espnet_rnn_bytes(const steno_espnet_rnn *r)
{
    return steno_session_arena_bytes(r->session) + steno_beam_states_bytes(&r->own) +
           (r->cap_states[0] + r->cap_states[1]) * sizeof(float);
}
