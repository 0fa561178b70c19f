#include "speech/families/common/cached_encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

#define MAX_STATES 1024
#define COUNTER "processed_lens"
#define MAX_STATE_BYTES ((size_t)256 << 20)

/* ---- input and output ------------------------------------------------------------------------ */

static bool dim_is(const struct steno_shape *s, int axis, int64_t want)
{
    return s->dim[axis] < 0 || s->dim[axis] == want;
}

static steno_status check_io(const struct steno_cached_encoder *e, const char *file, steno_err *err)
{
    const struct steno_value *x = steno_network_input(e->net, e->x);
    const struct steno_value *y = steno_network_output(e->net, 0);
    const struct steno_cached_encoder_shape *is = &e->shape;
    char shape[96];
    if ((x->dtype != STENO_F32 && x->dtype != STENO_I32) || x->shape.rank != 3 ||
        !dim_is(&x->shape, 0, 1) || !dim_is(&x->shape, 1, is->window) ||
        !dim_is(&x->shape, 2, is->bins))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: input %s is %s %s, expected f32 [N,%d,%d]",
                          file, x->name, steno_dtype_name(x->dtype),
                          steno_shape_str(&x->shape, shape, sizeof shape), (int)is->window,
                          (int)is->bins);
    if (y->dtype != STENO_F32 || (y->shape.rank != STENO_RANK_ANY && y->shape.rank != 3) ||
        (y->shape.rank == 3 &&
         (!dim_is(&y->shape, 1, is->frames) || !dim_is(&y->shape, 2, is->width))))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: output %s is %s %s, expected f32 [N,%d,%d]",
                          file, y->name, steno_dtype_name(y->dtype),
                          steno_shape_str(&y->shape, shape, sizeof shape), (int)is->frames,
                          (int)is->width);
    return STENO_OK;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* The batch dimension divides one stream's share of a batch into blocks. */
static void find_blocks(struct steno_cached_encoder_slot *s, size_t element)
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
static steno_status bind_input(struct steno_cached_encoder *e, struct steno_cached_encoder_slot *s,
                               const char *file, steno_err *err)
{
    const struct steno_value *v = steno_network_input(e->net, s->in);
    char shape[96];
    int symbolic = 0;
    s->one.dtype = v->dtype;
    s->one.shape = v->shape;
    s->axis = -1;
    for (int i = 0; i < v->shape.rank; i++)
        if (v->shape.dim[i] < 0) {
            s->one.shape.dim[i] = 1;
            s->axis = i;
            symbolic++;
        }
    s->offset = e->state_bytes;
    if (v->shape.rank == STENO_RANK_ANY || symbolic > 1 || !steno_dtype_size(v->dtype) ||
        steno_shape_bytes(&s->one.shape, v->dtype, &s->bytes) ||
        !steno_add_size(e->state_bytes, s->bytes, &e->state_bytes) ||
        e->state_bytes > MAX_STATE_BYTES)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: state %s is %s %s, expected known extents except for the batch",
                          file, v->name, steno_dtype_name(v->dtype),
                          steno_shape_str(&v->shape, shape, sizeof shape));
    e->state_bytes = steno_aligned(e->state_bytes);
    find_blocks(s, steno_dtype_size(v->dtype));
    return STENO_OK;
}

static steno_status bind_output(const struct steno_cached_encoder *e,
                                struct steno_cached_encoder_slot *s, const char *file,
                                steno_err *err)
{
    const struct steno_value *v = steno_network_input(e->net, s->in);
    char name[256];
    snprintf(name, sizeof name, "new_%s", v->name);
    s->out = steno_network_find_output(e->net, name);
    if (s->out < 0) {
        char next[256];
        snprintf(next, sizeof next, "%s_next", v->name);
        s->out = steno_network_find_output(e->net, next);
    }
    if (s->out < 0 && !strcmp(v->name, COUNTER) && v->dtype == STENO_I64 && v->shape.rank == 1)
        return STENO_OK;
    if (s->out < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: state %s has no output %s", file, v->name,
                          name);
    if (steno_network_output(e->net, s->out)->dtype != v->dtype)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %s and %s have different types", file,
                          steno_network_output(e->net, s->out)->name, v->name);
    return STENO_OK;
}

static steno_status bind_states(struct steno_cached_encoder *e, const char *file, steno_err *err)
{
    for (int i = 0; i < steno_network_n_inputs(e->net); i++) {
        struct steno_cached_encoder_slot *s = &e->states[e->n_states];
        steno_status st;
        if (i == e->x)
            continue;
        s->in = i;
        st = bind_input(e, s, file, err);
        if (!st)
            st = bind_output(e, s, file, err);
        if (st)
            return st;
        e->batches = e->batches && s->axis >= 0;
        e->n_states++;
    }
    return STENO_OK;
}

steno_status steno_cached_encoder_bind(struct steno_cached_encoder *e, steno_network *net,
                                       const char *x,
                                       const struct steno_cached_encoder_shape *shape,
                                       const char *file, steno_err *err)
{
    int n_in = steno_network_n_inputs(net);
    steno_status st;
    *e = (struct steno_cached_encoder){.net = net, .shape = *shape};
    e->x = steno_network_find_input(net, x);
    if (e->x < 0 || steno_network_n_outputs(net) < 1 || n_in > MAX_STATES)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: %d inputs, %d outputs; expected an input %s, states, and an output",
                          file, n_in, steno_network_n_outputs(net), x);
    st = check_io(e, file, err);
    if (st)
        return st;
    e->states = calloc((size_t)n_in, sizeof *e->states);
    if (!e->states)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", file);
    e->batches = steno_network_input(net, e->x)->shape.dim[0] < 0;
    st = bind_states(e, file, err);
    if (st)
        steno_cached_encoder_unbind(e);
    return st;
}

void steno_cached_encoder_unbind(struct steno_cached_encoder *e)
{
    free(e->states);
    steno_aligned_free(e->begin);
    e->begin = NULL;
    e->states = NULL;
    e->n_states = 0;
}
