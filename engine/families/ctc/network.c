#include "families/ctc/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

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

static steno_status check_io(const struct steno_ctc_network *n, const struct steno_model_conf *c,
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

/* Where one stream's share lies in a batch: the batch dimension cuts the state into blocks. */
static void cut_state(struct steno_ctc_network_state *s, size_t element)
{
    const struct steno_shape *shape = &s->one.shape;
    s->blocks = 1;
    s->block = element;
    for (int i = 0; i < shape->rank; i++)
        if (i < s->axis)
            s->blocks *= (size_t)shape->dim[i];
        else
            s->block *= (size_t)shape->dim[i];
}

/* One stream's share of a state: the batch dimension (the symbolic one) becomes 1. */
static steno_status bind_state(struct steno_ctc_network *n, struct steno_ctc_network_state *s,
                               int input, const char *file, steno_err *err)
{
    const struct steno_value *v = steno_network_input(n->net, input);
    char out_name[256], shape[96];
    int symbolic = 0;
    s->in = input;
    s->one.dtype = v->dtype;
    s->one.shape = v->shape;
    s->axis = -1;
    for (int i = 0; i < v->shape.rank; i++)
        if (v->shape.dim[i] < 0) {
            s->one.shape.dim[i] = 1;
            s->axis = i;
            symbolic++;
        }
    s->offset = n->state_bytes;
    if (v->shape.rank == STENO_RANK_ANY || symbolic > 1 || !steno_dtype_size(v->dtype) ||
        steno_shape_bytes(&s->one.shape, v->dtype, &s->bytes) ||
        !steno_add_size(n->state_bytes, s->bytes, &n->state_bytes) ||
        n->state_bytes > MAX_STATE_BYTES)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: state %s is %s %s, expected known extents but for the batch", file,
                          v->name, steno_dtype_name(v->dtype),
                          steno_shape_str(&v->shape, shape, sizeof shape));
    n->state_bytes = steno_aligned(n->state_bytes);
    cut_state(s, steno_dtype_size(v->dtype));
    snprintf(out_name, sizeof out_name, "new_%s", v->name);
    s->out = steno_network_find_output(n->net, out_name);
    if (s->out < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: state %s has no output %s", file, v->name,
                          out_name);
    if (steno_network_output(n->net, s->out)->dtype != v->dtype)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %s is not of the type of %s", file, out_name,
                          v->name);
    n->batches = n->batches && s->axis >= 0;
    return STENO_OK;
}

steno_status steno_ctc_network_bind(struct steno_ctc_network *n, steno_network *net,
                                    const struct steno_model_conf *conf, int32_t vocab,
                                    int32_t blank, steno_err *err)
{
    int n_in = steno_network_n_inputs(net);
    steno_status st;
    *n = (struct steno_ctc_network){.net = net,
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
    n->batches = steno_network_input(net, n->x)->shape.dim[0] < 0;
    for (int i = 0; i < n_in && !st; i++)
        if (i != n->x)
            st = bind_state(n, &n->states[n->n_states++], i, conf->network, err);
    if (st)
        steno_ctc_network_unbind(n);
    return st;
}

void steno_ctc_network_unbind(struct steno_ctc_network *n)
{
    free(n->states);
    n->states = NULL;
    n->n_states = 0;
}
