/* The order of a plan's nodes. A node that reads only weights and values that shapes decide could
 * run at any time. The graph has it where its exporter placed it: for example, the projected
 * positions of all layers come before the first layer. Such a node is deferred until just before
 * the first node that reads its result, so that one place in the arena serves all layers. */
#include "nn/exec/internal.h"

#define MAX_DEPTH 16 /* of deferred nodes that read one another */

struct orderer {
    const struct plan *p;
    const struct steno_chosen *from; /* [p->n_steps] */
    struct steno_chosen *to;         /* [p->n_steps] */
    int32_t n;                       /* nodes placed so far */
    int32_t *maker;                  /* by slot: 1 + the deferred node that writes it, 0: none */
    /* by node: depth of a deferred node that still waits; 0: not deferred, run, or about to run */
    uint8_t *depth;
};

static size_t bytes_out(const struct orderer *o, const struct steno_chosen *c, bool *planned)
{
    size_t sum = 0;
    *planned = true;
    for (int i = 0; i < c->node->n_out; i++)
        if (c->node->out[i] != STENO_NONE) {
            const struct slot *s = steno_plan_slot(o->p, c->scope, c->node->out[i]);
            *planned = *planned && s->planned;
            sum += s->bytes;
        }
    return sum;
}

/* Depth of node c if it is deferred; 0: it runs where it stands. A deferred node that reads the
 * result of another keeps that result alive until it runs, so its own result must not be
 * smaller. */
static int depth_of_chosen(const struct orderer *o, const struct steno_chosen *c)
{
    int depth = 1;
    size_t read = 0;
    bool planned;
    const size_t written = bytes_out(o, c, &planned);
    if (!planned || !steno_can_eval_node(c->node))
        return 0;
    for (int i = 0; i < c->node->n_in; i++) {
        const struct slot *s =
            c->node->in[i] != STENO_NONE ? steno_plan_slot(o->p, c->scope, c->node->in[i]) : NULL;
        const int32_t k = s ? o->maker[s - o->p->slots] - 1 : -1;
        if (!s || s->home == HOME_KNOWN)
            continue;
        if (k < 0)
            return 0;
        read += s->bytes;
        depth = o->depth[k] >= depth ? o->depth[k] + 1 : depth;
    }
    return written >= read && depth <= MAX_DEPTH ? depth : 0;
}

static void append_chosen(struct orderer *o, int32_t k);

/* Run the deferred node that writes slot s, if it still waits. */
static void bring(void *arg, int32_t s)
{
    struct orderer *o = arg;
    const int32_t k = o->maker[s] - 1;
    if (k < 0 || !o->depth[k])
        return;
    o->depth[k] = 0;
    append_chosen(o, k);
}

static void append_chosen(struct orderer *o, int32_t k)
{
    steno_plan_each_read(&o->from[k], bring, o);
    o->to[o->n++] = o->from[k];
}

static void hold(struct orderer *o, int32_t k, int depth)
{
    const struct steno_chosen *c = &o->from[k];
    o->depth[k] = (uint8_t)depth;
    for (int i = 0; i < c->node->n_out; i++)
        if (c->node->out[i] != STENO_NONE)
            o->maker[c->scope->slot[c->node->out[i]]] = k + 1;
}

steno_status steno_plan_order(const struct plan *p, struct steno_chosen **chosen, steno_arena *tmp,
                              steno_err *err)
{
    const size_t n = (size_t)p->n_steps + 1;
    struct orderer o = {.p = p, .from = *chosen};
    o.to = steno_arena_calloc(tmp, n, sizeof *o.to);
    o.maker = steno_arena_calloc(tmp, (size_t)p->n_slots + 1, sizeof *o.maker);
    o.depth = steno_arena_calloc(tmp, n, sizeof *o.depth);
    if (!o.to || !o.maker || !o.depth)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory while planning");
    for (int32_t k = 0; k < p->n_steps; k++) {
        const int depth = depth_of_chosen(&o, &o.from[k]);
        if (depth)
            hold(&o, k, depth);
        else
            append_chosen(&o, k);
    }
    for (int32_t s = 0; s < p->n_slots; s++) /* results that only the caller reads */
        bring(&o, s);
    *chosen = o.to;
    return STENO_OK;
}
