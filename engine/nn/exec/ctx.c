/* The view of one node during a run: the functions of nn/exec/op.h for operators. */
#include "nn/exec/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct steno_node *steno_op_node(const struct steno_op_ctx *ctx)
{
    return ctx->node;
}

void *steno_op_priv(const struct steno_op_ctx *ctx)
{
    return ctx->node->priv;
}

int steno_op_n_in(const struct steno_op_ctx *ctx)
{
    return ctx->node->n_in;
}

int steno_op_n_out(const struct steno_op_ctx *ctx)
{
    return ctx->node->n_out;
}

const struct steno_tensor *steno_op_in(const struct steno_op_ctx *ctx, int i)
{
    return i >= 0 && i < ctx->node->n_in ? ctx->in[i] : NULL;
}

void *const *steno_op_rows(const struct steno_op_ctx *ctx, int in)
{
    const struct frame *f = ctx->frame;
    if (in != 2 || !f || f->up || !(ctx->node->op->flags & STENO_OP_ROWS2) || !ctx->ws->rows)
        return NULL;
    for (int i = 0; i < f->g->n_inputs; i++)
        if (f->g->inputs[i] == ctx->node->in[in])
            return ctx->ws->rows[i];
    return NULL;
}

const struct steno_kv_binding *steno_op_bound_kv(const struct steno_op_ctx *ctx)
{
    return ctx->ws->kv_binding;
}

bool steno_op_wants(const struct steno_op_ctx *ctx, int i)
{
    return i >= 0 && i < ctx->node->n_out && ctx->out[i];
}

const steno_kernels *steno_op_kernels(const struct steno_op_ctx *ctx)
{
    return ctx->ws->k;
}

int steno_op_threads(const struct steno_op_ctx *ctx)
{
    return steno_team_size(ctx->ws->team);
}

void steno_op_parallel(struct steno_op_ctx *ctx, int n_parts, void (*fn)(void *arg, int part),
                       void *arg)
{
    steno_workspace_parallel(ctx->ws, n_parts, fn, arg);
}

void *steno_op_scratch(struct steno_op_ctx *ctx, size_t n)
{
    return steno_workspace_scratch(ctx->ws, n);
}

static steno_status no_memory_for_output(const struct steno_op_ctx *ctx, steno_err *err, int i)
{
    if (ctx->ws->max_bytes)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "output %d: activations over the limit of %zu "
                          "bytes, or out of memory",
                          i, ctx->ws->max_bytes);
    return steno_fail(err, STENO_ERR_NOMEM, "out of memory for output %d", i);
}

static void *memory_for(struct steno_op_ctx *ctx, struct slot *s, size_t bytes)
{
    if (ctx->eval_arena)
        return steno_arena_alloc_tensor(ctx->eval_arena, bytes);
    if (s->home == HOME_OUT && !s->planned)
        return steno_frame_grow_out(ctx->frame, s->out, bytes);
    steno_workspace_unref(s->block);
    s->block = steno_workspace_acquire(ctx->ws, bytes);
    return s->block ? s->block->data : NULL;
}

/* An output that nobody reads; the operator may still write it. */
static steno_status unread(struct steno_op_ctx *ctx, int i, steno_dtype dtype,
                           const struct steno_shape *shape, size_t bytes, struct steno_tensor **out,
                           steno_err *err)
{
    struct steno_tensor *t = steno_workspace_scratch(ctx->ws, sizeof *t);
    if (!t)
        return no_memory_for_output(ctx, err, i);
    t->dtype = dtype;
    t->shape = *shape;
    t->data = steno_workspace_scratch(ctx->ws, bytes);
    if (!t->data)
        return no_memory_for_output(ctx, err, i);
    *out = t;
    return STENO_OK;
}

steno_status steno_op_out(struct steno_op_ctx *ctx, int i, steno_dtype dtype,
                          const struct steno_shape *shape, struct steno_tensor **out,
                          steno_err *err)
{
    struct slot *s;
    size_t bytes;
    void *data;
    steno_status st;
    if (i < 0 || i >= ctx->node->n_out)
        return steno_fail(err, STENO_ERR_FORMAT, "output %d is required, the node has %d", i,
                          ctx->node->n_out);
    s = ctx->out[i];
    if (s && s->planned && s->home != HOME_VIEW && !ctx->eval_arena && s->t.dtype == dtype &&
        steno_shape_equal(&s->t.shape, shape)) {
        *out = &s->t;
        return STENO_OK;
    }
    st = steno_shape_bytes(shape, dtype, &bytes);
    if (st)
        return steno_fail(err, st, "output %d: shape is %s", i,
                          st == STENO_ERR_LIMIT ? "too large" : "not known");
    if (!s)
        return unread(ctx, i, dtype, shape, bytes, out, err);
    if (s->planned && !ctx->eval_arena) {
        /* Inference was wrong about this value: from now on its memory is allocated during the
         * run. */
        ctx->ws->misplans++;
        ctx->plan->misplanned = true;
        s->planned = false;
        if (s->home == HOME_ARENA)
            s->home = HOME_POOL;
    }
    data = memory_for(ctx, s, bytes);
    if (!data)
        return no_memory_for_output(ctx, err, i);
    s->t.dtype = dtype;
    s->t.shape = *shape;
    s->t.data = data;
    *out = &s->t;
    return STENO_OK;
}

/* The tensor that a step reads is the first member of its slot. A view of a pool block holds a
 * reference to the block. */
static void share_block(struct slot *s, const struct steno_tensor *x)
{
    const struct slot *from = (const struct slot *)(const void *)x;
    steno_workspace_unref(s->block);
    s->block = from->block;
    if (s->block)
        s->block->refs++;
}

bool steno_op_part(struct steno_op_ctx *ctx, const struct steno_shape *shape, size_t offset)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct slot *s = ctx->out[0];
    if (!s || s->home != HOME_VIEW || ctx->eval_arena)
        return false;
    s->t.dtype = x->dtype;
    s->t.shape = *shape;
    s->t.data = (char *)x->data + offset;
    share_block(s, x);
    return true;
}

steno_status steno_op_view(struct steno_op_ctx *ctx, int i, int in, const struct steno_shape *shape,
                           steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, in);
    struct slot *s = i >= 0 && i < ctx->node->n_out ? ctx->out[i] : NULL;
    struct steno_tensor *y;
    size_t have, want;
    steno_status st;
    if (!s)
        return STENO_OK;
    if (!x || steno_shape_count(&x->shape, &have) || steno_shape_count(shape, &want) ||
        have != want)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "output %d is a view of its input, but has another size", i);
    if (ctx->eval_arena || s->home == HOME_VIEW) {
        s->t.dtype = x->dtype;
        s->t.shape = *shape;
        s->t.data = x->data;
        if (!ctx->eval_arena)
            share_block(s, x);
        return STENO_OK;
    }
    st = steno_op_out(ctx, i, x->dtype, shape, &y, err);
    if (!st && y->data != x->data && have)
        memcpy(y->data, x->data, have * steno_dtype_size(x->dtype));
    return st;
}

steno_status steno_op_subgraph(struct steno_op_ctx *ctx, const char *attr,
                               const struct steno_tensor *const *in, int n_in,
                               const struct steno_tensor **out, int n_out, steno_err *err)
{
    const struct steno_attr *a = steno_node_attr(ctx->node, attr);
    struct frame *f = NULL;
    steno_status st;
    if (a && a->kind == STENO_ATTR_GRAPH && ctx->step && ctx->step->sub)
        f = ctx->step->sub[a - ctx->node->attr];
    if (!f)
        return steno_fail(err, STENO_ERR_FORMAT, "it has no body graph '%s'", attr);
    if (n_in != f->g->n_inputs || n_out != f->g->n_outputs)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "body graph '%s' has %d inputs and %d outputs, "
                          "expected %d and %d",
                          attr, f->g->n_inputs, f->g->n_outputs, n_in, n_out);
    st = steno_frame_run(f, in, err);
    if (st)
        return st;
    ctx->frame->flops += f->flops;
    for (int i = 0; i < n_out; i++)
        out[i] = &f->out_t[i];
    return STENO_OK;
}

steno_status steno_op_fail(const struct steno_op_ctx *ctx, steno_err *err, steno_status st,
                           const char *fmt, ...)
{
    char msg[sizeof err->msg];
    va_list ap;
    (void)ctx; /* the caller puts the node's name in front */
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    return steno_fail(err, st, "%s", msg);
}
