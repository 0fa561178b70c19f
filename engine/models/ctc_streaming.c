#include "models/ctc_streaming.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STATES 1024
#define MAX_STATE_BYTES ((size_t)256 << 20)

/* ---- the graph against the configuration --------------------------------------------------- */

static bool dim_is(const struct steno_shape *s, int axis, int64_t want)
{
    return s->dim[axis] < 0 || s->dim[axis] == want;
}

static steno_status check_meta(const steno_network *net, const struct steno_model_conf *c,
                               int32_t vocab, int32_t blank, steno_err *err)
{
    const struct {
        const char *key;
        int64_t want;
    } rows[] = {
        {"window_frames", c->window_frames},
        {"shift_frames", c->shift_frames},
        {"subsampling", c->subsampling},
        {"sample_rate", c->sample_rate},
        {"mel_bins", c->mel_bins},
        {"vocab_size", vocab},
        {"blank_id", blank},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *v = steno_network_meta(net, rows[i].key);
        char want[24];
        snprintf(want, sizeof want, "%lld", (long long)rows[i].want);
        if (v && strcmp(v, want) != 0)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: metadata %s is %.40s, the model directory says %s", c->network,
                              rows[i].key, v, want);
    }
    return STENO_OK;
}

static steno_status check_io(const struct steno_ctcnet *n, const struct steno_model_conf *c,
                             steno_err *err)
{
    const struct steno_value *x = steno_network_input(n->net, n->x);
    const struct steno_value *y = steno_network_output(n->net, 0);
    char shape[96];
    if (x->dtype != STENO_F32 || x->shape.rank != 3 || !dim_is(&x->shape, 0, 1) ||
        !dim_is(&x->shape, 1, n->window) || !dim_is(&x->shape, 2, n->bins))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: input x is %s %s, expected f32 [N,%d,%d]",
                          c->network, steno_dtype_name(x->dtype),
                          steno_shape_str(&x->shape, shape, sizeof shape), (int)n->window,
                          (int)n->bins);
    if (y->dtype != STENO_F32 || (y->shape.rank != STENO_RANK_ANY && y->shape.rank != 3) ||
        (y->shape.rank == 3 && (!dim_is(&y->shape, 1, n->rows) || !dim_is(&y->shape, 2, n->vocab))))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: output %s is %s %s, expected f32 [N,%d,%d]",
                          c->network, y->name, steno_dtype_name(y->dtype),
                          steno_shape_str(&y->shape, shape, sizeof shape), (int)n->rows,
                          (int)n->vocab);
    return STENO_OK;
}

/* One stream's share of a state: the batch dimension (the symbolic one) becomes 1. */
static steno_status bind_state(struct steno_ctcnet *n, struct steno_ctcnet_state *s, int input,
                               const char *file, steno_err *err)
{
    const struct steno_value *v = steno_network_input(n->net, input);
    char out_name[256], shape[96];
    int symbolic = 0;
    size_t bytes;
    s->in = input;
    s->zero.dtype = v->dtype;
    s->zero.shape = v->shape;
    for (int i = 0; i < v->shape.rank; i++)
        if (v->shape.dim[i] < 0) {
            s->zero.shape.dim[i] = 1;
            symbolic++;
        }
    if (v->shape.rank == STENO_RANK_ANY || symbolic > 1 || !steno_dtype_size(v->dtype) ||
        steno_shape_bytes(&s->zero.shape, v->dtype, &bytes) ||
        !steno_add_size(n->state_bytes, bytes, &n->state_bytes) || n->state_bytes > MAX_STATE_BYTES)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: state %s is %s %s, expected known extents but for the batch", file,
                          v->name, steno_dtype_name(v->dtype),
                          steno_shape_str(&v->shape, shape, sizeof shape));
    s->bytes = bytes;
    s->zero.data = steno_aligned_alloc(bytes);
    if (!s->zero.data)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", file);
    memset(s->zero.data, 0, bytes);
    snprintf(out_name, sizeof out_name, "new_%s", v->name);
    s->out = steno_network_find_output(n->net, out_name);
    if (s->out < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: state %s has no output %s", file, v->name,
                          out_name);
    if (steno_network_output(n->net, s->out)->dtype != v->dtype)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %s is not of the type of %s", file, out_name,
                          v->name);
    return STENO_OK;
}

steno_status steno_ctcnet_bind(struct steno_ctcnet *n, steno_network *net,
                               const struct steno_model_conf *conf, int32_t vocab, int32_t blank,
                               steno_err *err)
{
    int n_in = steno_network_n_inputs(net);
    steno_status st;
    *n = (struct steno_ctcnet){.net = net,
                               .window = conf->window_frames,
                               .shift = conf->shift_frames,
                               .bins = conf->mel_bins,
                               .rows = conf->shift_frames / conf->subsampling,
                               .vocab = vocab};
    n->x = steno_network_find_input(net, "x");
    if (n->x < 0 || steno_network_n_outputs(net) < 1 || n_in > MAX_STATES)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: %d inputs, %d outputs; expected an input x, states, and an output",
                          conf->network, n_in, steno_network_n_outputs(net));
    st = check_meta(net, conf, vocab, blank, err);
    if (!st)
        st = check_io(n, conf, err);
    if (st)
        return st;
    n->states = calloc((size_t)n_in, sizeof *n->states);
    if (!n->states)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", conf->network);
    for (int i = 0; i < n_in && !st; i++)
        if (i != n->x)
            st = bind_state(n, &n->states[n->n_states++], i, conf->network, err);
    if (st)
        steno_ctcnet_unbind(n);
    return st;
}

void steno_ctcnet_unbind(struct steno_ctcnet *n)
{
    for (int i = 0; i < n->n_states; i++)
        steno_aligned_free(n->states[i].zero.data);
    free(n->states);
    n->states = NULL;
    n->n_states = 0;
}

/* ---- one stream's run ---------------------------------------------------------------------- */

struct steno_ctcrun {
    const struct steno_ctcnet *n;
    steno_session *session;
    bool fresh; /* the states are still the zeros */
};

steno_status steno_ctcrun_open(steno_ctcrun **out, const struct steno_ctcnet *n, int threads,
                               steno_err *err)
{
    steno_ctcrun *r = calloc(1, sizeof *r);
    steno_status st;
    if (!r)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    r->n = n;
    r->fresh = true;
    st = steno_session_open(&r->session, n->net,
                            &(struct steno_session_options){.threads = threads}, err);
    if (st) {
        free(r);
        return st;
    }
    *out = r;
    return STENO_OK;
}

void steno_ctcrun_close(steno_ctcrun *r)
{
    if (!r)
        return;
    steno_session_close(r->session);
    free(r);
}

void steno_ctcrun_reset(steno_ctcrun *r)
{
    r->fresh = true;
}

static steno_status check_scores(const steno_ctcrun *r, const struct steno_tensor *y,
                                 steno_err *err)
{
    const struct steno_ctcnet *n = r->n;
    char shape[96];
    if (y->dtype == STENO_F32 && y->shape.rank == 3 && y->shape.dim[0] == 1 &&
        y->shape.dim[1] == n->rows && y->shape.dim[2] == n->vocab)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "network gave scores of %s %s, expected f32 [1,%d,%d]",
                      steno_dtype_name(y->dtype), steno_shape_str(&y->shape, shape, sizeof shape),
                      (int)n->rows, (int)n->vocab);
}

/* The new state as the session holds it; it changes buffers by itself, nothing is copied. */
static steno_status new_state(const steno_ctcrun *r, const struct steno_ctcnet_state *s,
                              const struct steno_tensor **t, steno_err *err)
{
    char got[96], want[96];
    *t = steno_session_get(r->session, s->out);
    if ((*t)->dtype == s->zero.dtype && steno_shape_equal(&(*t)->shape, &s->zero.shape))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "network gave state %s as %s, expected %s",
                      steno_network_output(r->n->net, s->out)->name,
                      steno_shape_str(&(*t)->shape, got, sizeof got),
                      steno_shape_str(&s->zero.shape, want, sizeof want));
}

static steno_status set_states(steno_ctcrun *r, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int i = 0; i < r->n->n_states && !st; i++) {
        const struct steno_ctcnet_state *s = &r->n->states[i];
        const struct steno_tensor *t = &s->zero;
        if (!r->fresh)
            st = new_state(r, s, &t, err);
        if (!st)
            st = steno_session_set(r->session, s->in, t, err);
    }
    return st;
}

steno_status steno_ctcrun_step(steno_ctcrun *r, float *x, const float **scores, steno_err *err)
{
    const struct steno_tensor in = {
        .dtype = STENO_F32, .shape = {.rank = 3, .dim = {1, r->n->window, r->n->bins}}, .data = x};
    const struct steno_tensor *y;
    steno_status st = steno_session_set(r->session, r->n->x, &in, err);
    if (!st)
        st = set_states(r, err);
    if (!st)
        st = steno_session_run(r->session, err);
    if (st)
        return st;
    r->fresh = false;
    y = steno_session_get(r->session, 0);
    st = check_scores(r, y, err);
    if (!st)
        *scores = y->data;
    return st;
}

size_t steno_ctcrun_bytes(const steno_ctcrun *r)
{
    return steno_session_arena_bytes(r->session);
}
