/* Making a plan: infer with the concrete input shapes, compute ahead what shapes alone decide, give
 * every other value a home, place the arena. */
#include "exec/internal.h"

#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

/* A value computed with the plan takes memory as long as the plan lives. */
#define AHEAD_MAX_BYTES ((size_t)1 << 20)

struct maker {
    struct frame *f;
    struct plan *p;
    struct steno_known *known; /* by value number */
    struct steno_infer ic;
    int64_t next_dim;
    steno_arena *tmp; /* for the time of planning */
    bool shapes;      /* false: every shape is taken as unknown until the node has run */
    steno_err *err;
};

static steno_status no_memory(struct maker *m)
{
    return steno_fail(m->err, STENO_ERR_NOMEM, "out of memory while planning");
}

void steno_plan_free(struct plan *p)
{
    if (!p)
        return;
    for (int32_t i = 0; p->steps && i < p->n_steps; i++)
        for (int k = 0; p->steps[i].sub && k < p->steps[i].node->n_attr; k++)
            steno_frame_free(p->steps[i].sub[k]);
    steno_arena_free(p->mem);
}

/* ---- what is known beforehand ---- */

static void start_values(struct maker *m, const struct steno_tensor *const *in)
{
    const struct steno_graph *g = m->f->g;
    for (int32_t i = 0; i < g->n_values; i++) {
        const struct steno_value *v = &g->values[i];
        struct slot *s = &m->p->slots[i];
        struct steno_known *k = &m->known[i];
        s->root = i;
        s->last = -1;
        s->out = -1;
        k->dtype = v->dtype;
        k->shape.rank = STENO_RANK_ANY;
        if (v->captured_from != STENO_NONE) {
            const struct slot *o = &m->f->up_plan->slots[v->captured_from];
            s->home = o->home == HOME_KNOWN ? HOME_KNOWN : HOME_CAPTURE;
            s->t = o->t;
            s->planned = true;
            k->dtype = o->t.dtype;
            k->shape = o->t.shape;
            k->value = s->home == HOME_KNOWN && o->t.data ? &s->t : NULL;
        } else if (v->constant || (v->producer == STENO_NONE && !v->is_input)) {
            /* a weight that its node has packed keeps its shape but has no bytes */
            s->home = HOME_KNOWN;
            s->t.dtype = v->dtype;
            s->t.shape = v->shape;
            s->t.data = v->constant ? v->constant->data : NULL;
            s->planned = true;
            k->shape = v->shape;
            k->value = v->constant;
        }
    }
    for (int i = 0; i < g->n_inputs; i++) {
        struct slot *s = &m->p->slots[g->inputs[i]];
        struct steno_known *k = &m->known[g->inputs[i]];
        s->home = HOME_INPUT;
        s->t = *in[i];
        s->planned = true;
        k->dtype = in[i]->dtype;
        k->shape = in[i]->shape;
        k->value = NULL;
    }
}

/* A weight that its node has packed. */
static bool is_packed(const struct maker *m, steno_vid in)
{
    const struct steno_value *v = &m->f->g->values[in];
    return v->producer == STENO_NONE && !v->is_input && v->captured_from == STENO_NONE &&
           !m->known[in].value;
}

static bool by_packed(const struct maker *m, const struct steno_node *n)
{
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] != STENO_NONE && is_packed(m, n->in[i]))
            return true;
    return false;
}

static bool inputs_known(const struct maker *m, const struct steno_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const struct steno_known *k;
        if (n->in[i] == STENO_NONE || (i && is_packed(m, n->in[i])))
            continue;
        k = &m->known[n->in[i]];
        if (i == 0 && (n->op->flags & STENO_OP_SHAPE_ONLY) ? !steno_shape_known(&k->shape)
                                                           : !k->value)
            return false;
    }
    return true;
}

/* All outputs of known type, shape and modest size; false for unknown ones, unless the node is a
 * dynamic one on known inputs. */
static bool worth_ahead(struct maker *m, const struct steno_node *n)
{
    const bool product = by_packed(m, n);
    size_t all = 0;
    for (int i = 0; i < n->n_out; i++) {
        const struct steno_known *k = n->out[i] != STENO_NONE ? &m->known[n->out[i]] : NULL;
        size_t bytes;
        if (!k || (n->op->flags & STENO_OP_DYNAMIC))
            continue;
        if (!k->dtype || steno_shape_bytes(&k->shape, k->dtype, &bytes) || bytes > AHEAD_MAX_BYTES)
            return false;
        all += bytes;
    }
    if (product && (n->op->flags & STENO_OP_DYNAMIC || all > STENO_MAX_AHEAD - m->p->ahead_bytes))
        return false;
    m->p->ahead_bytes += product ? all : 0;
    return true;
}

static steno_status run_ahead(struct maker *m, const struct steno_node *n)
{
    size_t outs = (size_t)n->n_out + 1;
    const struct steno_tensor **in = steno_arena_calloc(m->tmp, (size_t)n->n_in + 1, sizeof *in);
    struct steno_tensor *out = steno_arena_calloc(m->tmp, outs, sizeof *out);
    bool *wanted = steno_arena_calloc(m->tmp, outs, sizeof *wanted);
    steno_status st;
    if (!in || !out || !wanted)
        return no_memory(m);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] != STENO_NONE)
            in[i] = m->known[n->in[i]].value ? m->known[n->in[i]].value : &m->p->slots[n->in[i]].t;
    for (int i = 0; i < n->n_out; i++)
        wanted[i] = n->out[i] != STENO_NONE && m->f->g->values[n->out[i]].uses;
    st = steno_run_ahead(m->f->ws, n, in, out, wanted, m->p->mem, m->err);
    if (st)
        return st;
    for (int i = 0; i < n->n_out; i++) {
        struct slot *s;
        if (!wanted[i])
            continue;
        s = &m->p->slots[n->out[i]];
        s->t = out[i];
        s->home = HOME_KNOWN;
        s->planned = true;
        m->known[n->out[i]].dtype = out[i].dtype;
        m->known[n->out[i]].shape = out[i].shape;
        m->known[n->out[i]].value = &s->t;
    }
    return STENO_OK;
}

/* Types and shapes of what a step will write. A node with a shape-only input needs the slot's shape
 * even though its data does not exist yet, so slots are filled as inference goes. */
static void note_outputs(struct maker *m, const struct steno_node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        struct slot *s;
        const struct steno_known *k;
        if (n->out[i] == STENO_NONE)
            continue;
        s = &m->p->slots[n->out[i]];
        k = &m->known[n->out[i]];
        s->home = HOME_POOL;
        s->t.dtype = k->dtype;
        s->t.shape = k->shape;
        s->planned = m->shapes && k->dtype && steno_shape_known(&k->shape) &&
                     !steno_shape_bytes(&k->shape, k->dtype, &s->bytes);
    }
}

static steno_status infer_and_select(struct maker *m, int32_t *nodes)
{
    const struct steno_graph *g = m->f->g;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        steno_status st;
        if (n->dead)
            continue;
        st = steno_infer_one(&m->ic, n, m->err);
        if (st)
            return st;
        if (m->shapes && steno_may_run_ahead(n) && inputs_known(m, n) && worth_ahead(m, n)) {
            st = run_ahead(m, n);
            if (st)
                return st;
            continue;
        }
        note_outputs(m, n);
        nodes[m->p->n_steps++] = i;
    }
    return STENO_OK;
}

/* ---- steps and lifetimes ---- */

struct capture_use {
    struct plan *p;
    int32_t step;
};

static int use_captures(struct steno_graph *body, void *arg)
{
    const struct capture_use *u = arg;
    for (int32_t i = 0; i < body->n_values; i++)
        if (body->values[i].captured_from != STENO_NONE)
            u->p->slots[body->values[i].captured_from].last = u->step;
    return 0;
}

static void lifetimes(struct maker *m)
{
    struct plan *p = m->p;
    const struct steno_graph *g = m->f->g;
    for (int32_t k = 0; k < p->n_steps; k++) {
        const struct steno_node *n = p->steps[k].node;
        struct capture_use u = {p, k};
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] != STENO_NONE)
                p->slots[n->in[i]].last = k;
        steno_node_each_graph(n, use_captures, &u);
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] != STENO_NONE && g->values[n->out[i]].uses &&
                p->slots[n->out[i]].last < k)
                p->slots[n->out[i]].last = k;
    }
    for (int i = 0; i < g->n_outputs; i++)
        p->slots[g->outputs[i]].last = p->n_steps;
}

static steno_status body_frames(struct maker *m, struct step *s)
{
    const struct steno_node *n = s->node;
    for (int i = 0; i < n->n_attr; i++) {
        steno_status st;
        if (n->attr[i].kind != STENO_ATTR_GRAPH)
            continue;
        if (!s->sub) {
            s->sub = steno_arena_calloc(m->p->mem, (size_t)n->n_attr, sizeof *s->sub);
            if (!s->sub)
                return no_memory(m);
        }
        st = steno_frame_new(&s->sub[i], m->f->ws, n->attr[i].g, m->f, m->p, m->err);
        if (st)
            return st;
    }
    return STENO_OK;
}

static steno_status make_step(struct maker *m, struct step *s, const struct steno_node *n)
{
    s->node = n;
    s->in = steno_arena_calloc(m->p->mem, (size_t)n->n_in + 1, sizeof *s->in);
    s->out = steno_arena_calloc(m->p->mem, (size_t)n->n_out + 1, sizeof *s->out);
    if (!s->in || !s->out)
        return no_memory(m);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] != STENO_NONE)
            s->in[i] = &m->p->slots[n->in[i]].t;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE && m->f->g->values[n->out[i]].uses)
            s->out[i] = &m->p->slots[n->out[i]];
    return body_frames(m, s);
}

static steno_status make_steps(struct maker *m, const int32_t *nodes)
{
    struct plan *p = m->p;
    int32_t n = p->n_steps;
    p->steps = steno_arena_calloc(p->mem, (size_t)n + 1, sizeof *p->steps);
    if (!p->steps)
        return no_memory(m);
    for (int32_t k = 0; k < n; k++) {
        steno_status st = make_step(m, &p->steps[k], &m->f->g->nodes[nodes[k]]);
        if (st)
            return st;
        p->steps[k].flops = steno_node_flops(p->steps[k].node, p->steps[k].in, p->steps[k].out);
        p->flops += p->steps[k].flops;
    }
    return STENO_OK;
}

/* Slots read for the last time at each step: pool blocks go back then. */
static steno_status dead_lists(struct maker *m)
{
    struct plan *p = m->p;
    int32_t n = m->f->g->n_values;
    for (int32_t i = 0; i < n; i++)
        if (p->slots[i].last >= 0 && p->slots[i].last < p->n_steps)
            p->steps[p->slots[i].last].n_dead++;
        else
            p->n_to_end += p->slots[i].last >= p->n_steps;
    p->to_end = steno_arena_calloc(p->mem, (size_t)p->n_to_end + 1, sizeof(struct slot *));
    if (!p->to_end)
        return no_memory(m);
    p->n_to_end = 0;
    for (int32_t k = 0; k < p->n_steps; k++) {
        struct step *s = &p->steps[k];
        s->dead = steno_arena_calloc(p->mem, (size_t)s->n_dead + 1, sizeof *s->dead);
        if (!s->dead)
            return no_memory(m);
        s->n_dead = 0;
    }
    for (int32_t i = 0; i < n; i++)
        if (p->slots[i].last >= 0 && p->slots[i].last < p->n_steps) {
            struct step *s = &p->steps[p->slots[i].last];
            s->dead[s->n_dead++] = &p->slots[i];
        } else if (p->slots[i].last >= p->n_steps) {
            p->to_end[p->n_to_end++] = &p->slots[i];
        }
    return STENO_OK;
}

/* ---- homes ---- */

static int output_number(const struct steno_graph *g, steno_vid v)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == v)
            return i;
    return -1;
}

/* Slot s joins the memory of root r. */
static void join(struct plan *p, struct slot *s, int32_t r)
{
    struct slot *root = &p->slots[r];
    s->root = r;
    if (s->last > root->last)
        root->last = s->last;
    if (s->bytes > root->bytes)
        root->bytes = s->bytes;
}

/* May output 0 of step k overwrite input `in`: its memory is the arena's, nobody reads it later,
 * and no other input of the node lies there too. */
static bool may_overwrite(const struct plan *p, const struct steno_node *n, int32_t k, int in)
{
    const struct slot *s, *o = &p->slots[n->out[0]];
    int32_t r;
    if (in >= n->n_in || n->in[in] == STENO_NONE)
        return false;
    s = &p->slots[n->in[in]];
    r = s->root;
    if (s->home != HOME_ARENA || p->slots[r].last > k || s->bytes != o->bytes ||
        steno_dtype_size(s->t.dtype) != steno_dtype_size(o->t.dtype))
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (i != in && n->in[i] != STENO_NONE && p->slots[n->in[i]].home == HOME_ARENA &&
            p->slots[n->in[i]].root == r)
            return false;
    return true;
}

static void home_of_first(struct maker *m, const struct steno_node *n, int32_t k)
{
    struct plan *p = m->p;
    struct slot *o = &p->slots[n->out[0]];
    const struct slot *x = n->n_in && n->in[0] != STENO_NONE ? &p->slots[n->in[0]] : NULL;
    bool is_out = m->f->g->values[n->out[0]].is_output;
    if ((n->op->flags & STENO_OP_VIEW) && x && x->home != HOME_NONE) {
        if (x->home == HOME_ARENA && o->planned) {
            o->home = HOME_ARENA;
            join(p, o, x->root);
            return;
        }
        if (!is_out && x->home != HOME_ARENA) {
            o->home = HOME_VIEW;
            return;
        }
    }
    o->home = o->planned ? HOME_ARENA : HOME_POOL;
    if (!o->planned)
        return;
    if ((n->op->flags & STENO_OP_INPLACE0) && may_overwrite(p, n, k, 0))
        join(p, o, p->slots[n->in[0]].root);
    else if ((n->op->flags & STENO_OP_INPLACE1) && may_overwrite(p, n, k, 1))
        join(p, o, p->slots[n->in[1]].root);
}

static void homes(struct maker *m)
{
    struct plan *p = m->p;
    for (int32_t k = 0; k < p->n_steps; k++) {
        const struct steno_node *n = p->steps[k].node;
        for (int i = 0; i < n->n_out; i++) {
            struct slot *s = p->steps[k].out[i];
            if (!s)
                continue;
            if (i == 0)
                home_of_first(m, n, k);
            else
                s->home = s->planned ? HOME_ARENA : HOME_POOL;
        }
    }
    /* A group that holds a graph output lives in that output's buffer instead of the arena. */
    for (int i = 0; i < m->f->g->n_outputs; i++) {
        struct slot *s = &p->slots[m->f->g->outputs[i]];
        struct slot *r = &p->slots[s->root];
        if (s->home == HOME_ARENA && r->out < 0)
            r->out = i;
        else if (s->home == HOME_POOL && s->out < 0) {
            s->home = HOME_OUT;
            s->out = output_number(m->f->g, m->f->g->outputs[i]);
        }
    }
}

static steno_status collect(struct maker *m)
{
    struct plan *p = m->p;
    int32_t n = m->f->g->n_values;
    p->by_home = steno_arena_calloc(p->mem, (size_t)n + 1, sizeof(struct slot *));
    p->out_bytes = steno_arena_calloc(p->mem, (size_t)m->f->g->n_outputs + 1, sizeof(size_t));
    if (!p->by_home || !p->out_bytes)
        return no_memory(m);
    for (int32_t i = 0; i < n; i++) {
        struct slot *s = &p->slots[i], *r = &p->slots[s->root];
        if (s->home == HOME_ARENA && r->out >= 0) {
            s->out = r->out;
            if (r->bytes > p->out_bytes[r->out])
                p->out_bytes[r->out] = r->bytes;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        struct slot *s = &p->slots[i];
        if (s->home != HOME_ARENA)
            continue;
        if (s->out >= 0)
            s->home = HOME_OUT;
        p->by_home[p->n_by_home++] = s;
    }
    return STENO_OK;
}

/* Step that writes each value, -1 for the others. */
static void first_step(const struct plan *p, int32_t *first, int32_t n_values)
{
    for (int32_t i = 0; i < n_values; i++)
        first[i] = -1;
    for (int32_t k = 0; k < p->n_steps; k++)
        for (int i = 0; i < p->steps[k].node->n_out; i++)
            if (p->steps[k].out[i])
                first[p->steps[k].node->out[i]] = k;
}

static steno_status place(struct maker *m)
{
    struct plan *p = m->p;
    int32_t n = m->f->g->n_values;
    struct steno_interval *v = steno_arena_calloc(m->tmp, (size_t)n + 1, sizeof *v);
    int32_t *first = steno_arena_calloc(m->tmp, (size_t)n + 1, sizeof *first);
    steno_status st;
    if (!v || !first)
        return no_memory(m);
    first_step(p, first, n);
    for (int32_t i = 0; i < n; i++)
        if (p->slots[i].home == HOME_ARENA && p->slots[i].root == i) {
            /* the tail may be read by kernels: a block of its own where it is checked (ASan) */
#ifdef STENO_SANITIZE
            v[i].bytes = p->slots[i].bytes + STENO_OVERREAD;
#else
            v[i].bytes = p->slots[i].bytes;
#endif
            v[i].first = first[i];
            v[i].last = p->slots[i].last;
        }
    st = steno_plan_place(v, (size_t)n, &p->arena_bytes);
    if (st)
        return steno_fail(m->err, st,
                          st == STENO_ERR_LIMIT ? "activations of these shapes are too "
                                                  "large"
                                                : "out of memory while planning");
    for (int32_t i = 0; i < n; i++)
        if (p->slots[i].home == HOME_ARENA)
            p->slots[i].offset = v[p->slots[i].root].offset;
    return STENO_OK;
}

/* ---- all of it ---- */

static steno_status make_key(struct maker *m, const struct steno_tensor *const *in)
{
    struct plan *p = m->p;
    const struct frame *f = m->f;
    p->key =
        steno_arena_calloc(p->mem, (size_t)(f->g->n_inputs + f->n_captured) + 1, sizeof *p->key);
    if (!p->key)
        return no_memory(m);
    for (int i = 0; i < f->g->n_inputs; i++)
        p->key[p->n_key++] = in[i]->shape;
    for (int i = 0; i < f->n_captured; i++)
        p->key[p->n_key++] = f->up_plan->slots[f->g->values[f->captured[i]].captured_from].t.shape;
    return STENO_OK;
}

static steno_status make(struct maker *m, const struct steno_tensor *const *in)
{
    size_t n = (size_t)m->f->g->n_values + 1;
    int32_t *nodes = steno_arena_calloc(m->tmp, (size_t)m->f->g->n_nodes + 1, sizeof *nodes);
    steno_status st;
    m->known = steno_arena_calloc(m->tmp, n, sizeof *m->known);
    m->p->slots = steno_arena_calloc(m->p->mem, n, sizeof *m->p->slots);
    if (!nodes || !m->known || !m->p->slots)
        return no_memory(m);
    m->next_dim = 1 << 20; /* above any symbol of the graph's own */
    m->ic.g = m->f->g;
    m->ic.known = m->known;
    m->ic.next_dim = &m->next_dim;
    m->ic.mem = m->tmp;
    st = make_key(m, in);
    start_values(m, in);
    if (!st)
        st = infer_and_select(m, nodes);
    if (!st)
        st = make_steps(m, nodes);
    if (st)
        return st;
    lifetimes(m);
    st = dead_lists(m);
    if (st)
        return st;
    homes(m);
    st = collect(m);
    return st ? st : place(m);
}

steno_status steno_plan_make(struct plan **out, struct frame *f,
                             const struct steno_tensor *const *in, bool shapes, steno_err *err)
{
    struct maker m = {.f = f, .shapes = shapes, .err = err};
    steno_arena *mem = steno_arena_new(0);
    steno_status st;
    m.tmp = steno_arena_new(0);
    m.p = mem ? steno_arena_alloc(mem, sizeof *m.p) : NULL;
    if (!m.tmp || !m.p) {
        steno_arena_free(mem);
        steno_arena_free(m.tmp);
        return no_memory(&m);
    }
    m.p->mem = mem;
    st = make(&m, in);
    steno_arena_free(m.tmp);
    if (st) {
        steno_plan_free(m.p);
        return st;
    }
    *out = m.p;
    return STENO_OK;
}
