/* First half of making a plan: infer with the concrete input shapes, evaluate the nodes that shapes
 * alone decide, and choose the nodes to run. If the shapes decide the condition of an If, the nodes
 * of its branch become part of the plan, and the branch's outputs are the If's. */
#include "nn/exec/internal.h"

#include <string.h>

/* A value that is computed with the plan takes memory as long as the plan lives. */
#define EVAL_MAX_BYTES ((size_t)1 << 20)

struct chooser {
    struct frame *f;
    struct plan *p;
    struct steno_chosen *chosen; /* [p->n_steps] */
    int32_t next_slot;
    int64_t next_dim;
    steno_arena *tmp;
    struct steno_table_part table;
    struct idle *idle;
    bool shapes;
    steno_err *err;
};

/* A node that takes rows from a table. If nothing else reads it, it need not run. */
struct idle {
    struct idle *next;
    const struct steno_node *node;
};

/* The frame's graph, or a branch, while its nodes are chosen. */
struct part {
    struct scope *scope;
    struct steno_infer ic;
};

struct reads {
    const struct scope *scope;
    void (*fn)(void *arg, int32_t slot);
    void *arg;
};

static int each_captured(struct steno_graph *body, void *arg)
{
    const struct reads *r = arg;
    for (int32_t i = 0; i < body->n_values; i++)
        if (body->values[i].captured_from != STENO_NONE)
            r->fn(r->arg, r->scope->slot[body->values[i].captured_from]);
    return 0;
}

void steno_plan_each_read(const struct steno_chosen *c, void (*fn)(void *arg, int32_t slot),
                          void *arg)
{
    struct reads r = {c->scope, fn, arg};
    for (int i = 0; i < c->node->n_in; i++)
        if (c->node->in[i] != STENO_NONE)
            fn(arg, c->scope->slot[c->node->in[i]]);
    steno_node_each_graph(c->node, each_captured, &r);
}

static steno_status no_memory_to_choose(const struct chooser *m)
{
    return steno_fail(m->err, STENO_ERR_NOMEM, "out of memory while planning");
}

/* Count the values and nodes of g, with the larger branch of each If. */
static void count_room(const struct steno_graph *g, size_t *values, size_t *nodes)
{
    *values = (size_t)g->n_values;
    *nodes = (size_t)g->n_nodes;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        size_t most_values = 0, most_nodes = 0;
        for (int k = 0; !n->dead && !strcmp(n->op_type, "If") && k < n->n_attr; k++) {
            size_t v, m;
            if (n->attr[k].kind != STENO_ATTR_GRAPH)
                continue;
            count_room(n->attr[k].g, &v, &m);
            most_values = v > most_values ? v : most_values;
            most_nodes = m > most_nodes ? m : most_nodes;
        }
        *values += most_values;
        *nodes += most_nodes;
    }
}

static steno_status make_room(struct chooser *m)
{
    struct plan *p = m->p;
    size_t values, nodes;
    count_room(m->f->g, &values, &nodes);
    if (values > INT32_MAX || nodes > INT32_MAX)
        return steno_fail(m->err, STENO_ERR_LIMIT, "the graph has too many values to be planned");
    p->n_slots = (int32_t)values;
    p->slots = steno_arena_calloc(p->mem, values + 1, sizeof *p->slots);
    m->chosen = steno_arena_calloc(m->tmp, nodes + 1, sizeof *m->chosen);
    if (!p->slots || !m->chosen)
        return no_memory_to_choose(m);
    for (int32_t i = 0; i < p->n_slots; i++) {
        p->slots[i].root = i;
        p->slots[i].last = -1;
        p->slots[i].out = -1;
    }
    return STENO_OK;
}

static steno_status part_new(struct chooser *m, struct part *part, struct steno_graph *g)
{
    size_t n = (size_t)g->n_values + 1;
    struct scope *s = steno_arena_alloc(m->p->mem, sizeof *s);
    *part = (struct part){.scope = s, .ic = {.g = g, .next_dim = &m->next_dim, .mem = m->tmp}};
    part->ic.known = steno_arena_calloc(m->tmp, n, sizeof *part->ic.known);
    if (!s || !part->ic.known)
        return no_memory_to_choose(m);
    s->g = g;
    s->slot = steno_arena_calloc(m->p->mem, n, sizeof *s->slot);
    return s->slot ? STENO_OK : no_memory_to_choose(m);
}

static void start_constant(struct chooser *m, struct part *part, steno_value_id i)
{
    const struct steno_value *v = &part->ic.g->values[i];
    struct slot *s = steno_plan_slot(m->p, part->scope, i);
    struct steno_known *k = &part->ic.known[i];
    k->dtype = v->dtype;
    k->shape.rank = STENO_RANK_ANY;
    if (!v->constant && (v->producer != STENO_NONE || v->is_input))
        return;
    /* a weight that its node has packed has a shape but no bytes */
    s->home = HOME_KNOWN;
    s->t.dtype = v->dtype;
    s->t.shape = v->shape;
    s->t.data = v->constant ? v->constant->data : NULL;
    s->planned = true;
    k->shape = v->shape;
    k->value = v->constant;
}

/* A plan serves every length of a sequence. */
static struct steno_shape plan_shape(const struct steno_tensor *t)
{
    struct steno_shape s = t->shape;
    if (steno_dtype_is_block(t->dtype))
        s.rank = STENO_RANK_ANY;
    return s;
}

static void start_captured(struct chooser *m, struct part *part, steno_value_id i)
{
    struct slot *s = steno_plan_slot(m->p, part->scope, i);
    const struct slot *o = steno_frame_outer(m->f, i);
    struct steno_known *k = &part->ic.known[i];
    s->home = o->home == HOME_KNOWN ? HOME_KNOWN : HOME_CAPTURE;
    s->t = o->t;
    s->planned = true;
    k->dtype = o->t.dtype;
    k->shape = plan_shape(&o->t);
    k->value = s->home == HOME_KNOWN && o->t.data ? &s->t : NULL;
}

static void start_values(struct chooser *m, struct part *part, const struct steno_tensor *const *in)
{
    const struct steno_graph *g = m->f->g;
    m->next_slot = g->n_values;
    for (int32_t i = 0; i < g->n_values; i++) {
        part->scope->slot[i] = i;
        if (g->values[i].captured_from != STENO_NONE)
            start_captured(m, part, i);
        else
            start_constant(m, part, i);
    }
    for (int i = 0; i < g->n_inputs; i++) {
        struct slot *s = steno_plan_slot(m->p, part->scope, g->inputs[i]);
        struct steno_known *k = &part->ic.known[g->inputs[i]];
        s->home = HOME_INPUT;
        s->t = *in[i];
        s->planned = true;
        k->dtype = in[i]->dtype;
        k->shape = plan_shape(in[i]);
        k->value = NULL;
    }
}

/* Values of a branch: its own get new slots, captured ones use the slots that exist. */
static void start_branch(struct chooser *m, struct part *part, const struct part *up)
{
    const struct steno_graph *g = part->ic.g;
    for (int32_t i = 0; i < g->n_values; i++) {
        steno_value_id from = g->values[i].captured_from;
        if (from != STENO_NONE) {
            part->scope->slot[i] = up->scope->slot[from];
            part->ic.known[i] = up->ic.known[from];
        } else {
            part->scope->slot[i] = m->next_slot++;
            start_constant(m, part, i);
        }
    }
}

/* True for a weight that its node has packed. */
static bool is_packed(const struct part *part, steno_value_id in)
{
    const struct steno_value *v = &part->ic.g->values[in];
    return v->producer == STENO_NONE && !v->is_input && v->captured_from == STENO_NONE &&
           !part->ic.known[in].value;
}

static bool by_packed(const struct part *part, const struct steno_node *n)
{
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] != STENO_NONE && is_packed(part, n->in[i]))
            return true;
    return false;
}

static bool inputs_known(const struct part *part, const struct steno_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const struct steno_known *k;
        if (n->in[i] == STENO_NONE || (i && is_packed(part, n->in[i])))
            continue;
        k = &part->ic.known[n->in[i]];
        if (i == 0 && (n->op->flags & STENO_OP_SHAPE_ONLY) ? !steno_shape_known(&k->shape)
                                                           : !k->value)
            return false;
    }
    return true;
}

/* True when all outputs have a known type, a known shape and a modest size. The outputs of a node
 * with STENO_OP_DYNAMIC need not be known. Products with packed weights must not be dynamic, and
 * have a limit in total. */
static bool worth_eval(struct chooser *m, const struct part *part, const struct steno_node *n)
{
    const bool product = by_packed(part, n);
    size_t all = 0;
    for (int i = 0; i < n->n_out; i++) {
        const struct steno_known *k = n->out[i] != STENO_NONE ? &part->ic.known[n->out[i]] : NULL;
        size_t bytes;
        if (!k || (n->op->flags & STENO_OP_DYNAMIC))
            continue;
        if (!k->dtype || steno_shape_bytes(&k->shape, k->dtype, &bytes) || bytes > EVAL_MAX_BYTES)
            return false;
        all += bytes;
    }
    if (product &&
        (n->op->flags & STENO_OP_DYNAMIC || all > STENO_MAX_PLAN_CONSTANTS - m->p->constant_bytes))
        return false;
    m->p->constant_bytes += product ? all : 0;
    return true;
}

/* Make value v a plan constant. */
static void set_plan_constant(struct chooser *m, struct part *part, steno_value_id v,
                              const struct steno_tensor *t)
{
    struct slot *s = steno_plan_slot(m->p, part->scope, v);
    struct steno_known *k = &part->ic.known[v];
    s->t = *t;
    s->home = HOME_KNOWN;
    s->planned = true;
    k->dtype = t->dtype;
    k->shape = t->shape;
    k->value = &s->t;
}

static steno_status eval_for_plan(struct chooser *m, struct part *part, const struct steno_node *n)
{
    struct steno_known *known = part->ic.known;
    size_t outs = (size_t)n->n_out + 1;
    const struct steno_tensor **in = steno_arena_calloc(m->tmp, (size_t)n->n_in + 1, sizeof *in);
    struct steno_tensor *out = steno_arena_calloc(m->tmp, outs, sizeof *out);
    bool *wanted = steno_arena_calloc(m->tmp, outs, sizeof *wanted);
    steno_status st;
    if (!in || !out || !wanted)
        return no_memory_to_choose(m);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] != STENO_NONE)
            in[i] = known[n->in[i]].value ? known[n->in[i]].value
                                          : &steno_plan_slot(m->p, part->scope, n->in[i])->t;
    for (int i = 0; i < n->n_out; i++)
        wanted[i] = n->out[i] != STENO_NONE && part->ic.g->values[n->out[i]].uses;
    st = steno_eval_node(m->f->ws, n, in, out, wanted, m->p->mem, m->err);
    if (st)
        return st;
    for (int i = 0; i < n->n_out; i++)
        if (wanted[i])
            set_plan_constant(m, part, n->out[i], &out[i]);
    return STENO_OK;
}

/* If n is a product of table rows, let its output refer to the rows that the network holds. */
static steno_status show_rows(struct chooser *m, struct part *part, const struct steno_node *n,
                              bool *shown)
{
    struct steno_row_range range;
    const struct steno_known *k;
    struct plan_rows *r;
    struct idle *src;
    steno_status st;
    if (!steno_table_rows_find(&part->ic, n, &range))
        return STENO_OK;
    r = steno_arena_alloc(m->p->mem, sizeof *r);
    src = steno_arena_alloc(m->tmp, sizeof *src);
    if (!r || !src)
        return no_memory_to_choose(m);
    st = steno_table_rows_take(m->f->ws, &part->ic, n, &range, &m->table, &r->rows, m->err);
    if (st || !r->rows)
        return st;
    *shown = true;
    r->next = m->p->rows;
    m->p->rows = r;
    *src = (struct idle){m->idle, range.src};
    m->idle = src;
    k = &part->ic.known[n->out[0]];
    set_plan_constant(m, part, n->out[0],
                      &(struct steno_tensor){
                          .dtype = k->dtype,
                          .shape = k->shape,
                          .data = (void *)(uintptr_t)steno_table_rows_data(r->rows, range.lo)});
    return STENO_OK;
}

static bool is_idle(const struct chooser *m, const struct steno_node *n)
{
    const struct idle *i = m->idle;
    while (i && i->node != n)
        i = i->next;
    return i;
}

static void mark_slot(void *arg, int32_t slot)
{
    bool *read = arg;
    read[slot] = true;
}

/* Remove nodes that take rows from a table if nothing reads them any more. */
static steno_status drop_idle(struct chooser *m, const struct part *part)
{
    const struct steno_graph *g = part->ic.g;
    const int32_t *slot = part->scope->slot;
    bool *read = steno_arena_calloc(m->tmp, (size_t)m->p->n_slots + 1, sizeof *read);
    int32_t n = 0;
    if (!read)
        return no_memory_to_choose(m);
    for (int i = 0; i < g->n_outputs; i++)
        read[slot[g->outputs[i]]] = true;
    for (int32_t i = 0; i < m->p->n_steps; i++)
        steno_plan_each_read(&m->chosen[i], mark_slot, read);
    for (int32_t i = 0; i < m->p->n_steps; i++) {
        const struct steno_chosen *c = &m->chosen[i];
        if (c->scope != part->scope || !is_idle(m, c->node) || read[slot[c->node->out[0]]])
            m->chosen[n++] = *c;
        else
            m->p->slots[slot[c->node->out[0]]].home = HOME_NONE;
    }
    m->p->n_steps = n;
    return STENO_OK;
}

/* Note types and shapes of what a step will write. A node with a shape-only input needs the slot's
 * shape before its data exists, so slots are filled during inference. */
static void note_outputs(struct chooser *m, struct part *part, const struct steno_node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        struct slot *s;
        const struct steno_known *k;
        if (n->out[i] == STENO_NONE)
            continue;
        s = steno_plan_slot(m->p, part->scope, n->out[i]);
        k = &part->ic.known[n->out[i]];
        s->home = HOME_POOL;
        s->t.dtype = k->dtype;
        s->t.shape = k->shape;
        s->planned = m->shapes && k->dtype && steno_shape_known(&k->shape) &&
                     !steno_shape_bytes(&k->shape, k->dtype, &s->bytes);
    }
}

/* The branch that an If with a known condition takes; NULL: the If must be run. */
static struct steno_graph *branch_taken(const struct chooser *m, const struct part *part,
                                        const struct steno_node *n)
{
    const struct steno_tensor *cond;
    const struct steno_attr *a;
    if (!m->shapes || strcmp(n->op_type, "If") || *n->domain || n->n_in != 1 ||
        n->in[0] == STENO_NONE)
        return NULL;
    cond = part->ic.known[n->in[0]].value;
    if (!cond || cond->dtype != STENO_BOOL || steno_numel(cond) != 1)
        return NULL;
    a = steno_node_attr(n, *(const uint8_t *)cond->data ? "then_branch" : "else_branch");
    return a && a->kind == STENO_ATTR_GRAPH && !a->g->n_inputs && a->g->n_outputs == n->n_out
               ? a->g
               : NULL;
}

static steno_status choose_nodes(struct chooser *m, struct part *part);

static steno_status choose_branch(struct chooser *m, struct part *up, const struct steno_node *n,
                                  struct steno_graph *g)
{
    struct part part;
    steno_status st = part_new(m, &part, g);
    if (st)
        return st;
    start_branch(m, &part, up);
    st = choose_nodes(m, &part);
    if (st)
        return steno_fail_in(m->err, st, "node '%s' (%s)", n->name, n->op_type);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE) {
            up->scope->slot[n->out[i]] = part.scope->slot[g->outputs[i]];
            up->ic.known[n->out[i]] = part.ic.known[g->outputs[i]];
        }
    return STENO_OK;
}

static steno_status choose_node(struct chooser *m, struct part *part, const struct steno_node *n)
{
    struct steno_graph *branch = branch_taken(m, part, n);
    bool shown = false;
    steno_status st;
    if (branch)
        return choose_branch(m, part, n, branch);
    st = steno_infer_one(&part->ic, n, m->err);
    if (!st && m->shapes && m->f->ws->row_store && !m->f->up && part->scope == m->p->top)
        st = show_rows(m, part, n, &shown);
    if (st || shown)
        return st;
    if (m->shapes && steno_can_eval_node(n) && inputs_known(part, n) && worth_eval(m, part, n))
        return eval_for_plan(m, part, n);
    note_outputs(m, part, n);
    m->chosen[m->p->n_steps++] = (struct steno_chosen){n, part->scope};
    return STENO_OK;
}

static steno_status choose_nodes(struct chooser *m, struct part *part)
{
    for (int32_t i = 0; i < part->ic.g->n_nodes; i++) {
        const struct steno_node *n = &part->ic.g->nodes[i];
        steno_status st = n->dead ? STENO_OK : choose_node(m, part, n);
        if (st)
            return st;
    }
    return STENO_OK;
}

steno_status steno_plan_choose(struct plan *p, struct frame *f,
                               const struct steno_tensor *const *in, bool shapes, steno_arena *tmp,
                               struct steno_chosen **out, steno_err *err)
{
    /* new symbols for unknown dimensions start above all symbols of the graph */
    struct chooser m = {
        .f = f, .p = p, .next_dim = 1 << 20, .tmp = tmp, .shapes = shapes, .err = err};
    struct part part;
    steno_status st = make_room(&m);
    if (!st)
        st = part_new(&m, &part, f->g);
    if (st)
        return st;
    p->top = part.scope;
    start_values(&m, &part, in);
    *out = m.chosen;
    st = choose_nodes(&m, &part);
    steno_arena_free(m.table.mem);
    if (!st && m.idle)
        st = drop_idle(&m, &part);
    return st ? st : steno_plan_order(p, out, tmp, err);
}
