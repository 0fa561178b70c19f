/* Evaluation of nodes outside a run: constants at load, shape arithmetic when a plan is made. */
#include "nn/exec/internal.h"

#include <string.h>

#include "base/cpu.h"

bool steno_can_eval_node(const struct steno_node *n)
{
    if (!n->op || !n->op->run || (n->op->flags & STENO_OP_IMPURE))
        return false;
    for (int i = 0; i < n->n_attr; i++)
        if (n->attr[i].kind == STENO_ATTR_GRAPH)
            return false;
    return true;
}

steno_status steno_eval_node(struct workspace *ws, const struct steno_node *n,
                             const struct steno_tensor **in, struct steno_tensor *out,
                             const bool *wanted, steno_arena *mem, steno_err *err)
{
    struct steno_op_ctx ctx = {.ws = ws, .node = n, .in = in, .eval_arena = mem};
    struct slot *slots = steno_arena_calloc(mem, (size_t)n->n_out + 1, sizeof *slots);
    size_t cur = ws->cur, used = ws->used;
    unsigned fp;
    steno_status st;
    ctx.out = steno_arena_calloc(mem, (size_t)n->n_out + 1, sizeof *ctx.out);
    if (!slots || !ctx.out)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; i < n->n_out; i++)
        ctx.out[i] = wanted[i] ? &slots[i] : NULL;
    fp = steno_cpu_flush_denormals();
    st = n->op->run(&ctx, err);
    steno_cpu_restore_denormals(fp);
    ws->cur = cur;
    ws->used = used;
    if (st)
        return steno_fail_in(err, st, "node '%s' (%s)", n->name, n->op_type);
    for (int i = 0; i < n->n_out; i++) {
        if (wanted[i] && !slots[i].t.data)
            return steno_fail(err, STENO_ERR_INTERNAL, "node '%s' (%s) left output %d unset",
                              n->name, n->op_type, i);
        out[i] = slots[i].t;
    }
    return STENO_OK;
}
