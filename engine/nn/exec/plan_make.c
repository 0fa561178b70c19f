/* Makes a plan: the chosen nodes (plan_choose.c) become steps, every value that is not known before
 * the run gets a home, and the arena is placed. */
#include "nn/exec/internal.h"

#include "nn/exec/plan.h"

#include <stdlib.h>
#include <string.h>

struct maker {
    struct frame *f;
    struct plan *p;
    struct steno_chosen *chosen; /* [p->n_steps] */
    steno_arena *tmp;            /* lives while the plan is made */
    steno_err *err;
};

static steno_status no_memory_for_plan(struct maker *m)
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
    for (struct plan_rows *r = p->rows; r; r = r->next)
        steno_table_rows_drop(r->rows);
    steno_arena_free(p->mem);
}

/* ---- steps and lifetimes ---- */

struct use {
    struct plan *p;
    int32_t step;
};

static void use_slot(void *arg, int32_t slot)
{
    const struct use *u = arg;
    u->p->slots[slot].last = u->step;
}

static void lifetimes(struct maker *m)
{
    struct plan *p = m->p;
    const struct steno_graph *g = m->f->g;
    for (int32_t k = 0; k < p->n_steps; k++) {
        const struct step *s = &p->steps[k];
        struct use u = {p, k};
        steno_plan_each_read(&m->chosen[k], use_slot, &u);
        for (int i = 0; i < s->node->n_out; i++)
            if (s->out[i] && s->out[i]->last < k)
                s->out[i]->last = k;
    }
    for (int i = 0; i < g->n_outputs; i++)
        steno_plan_slot(m->p, p->top, g->outputs[i])->last = p->n_steps;
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
                return no_memory_for_plan(m);
        }
        st = steno_frame_new(&s->sub[i], m->f->ws, n->attr[i].g, m->f, m->p, s->scope, m->err);
        if (st)
            return st;
    }
    return STENO_OK;
}

static steno_status make_step(struct maker *m, struct step *s, const struct steno_chosen *c)
{
    const struct steno_node *n = c->node;
    s->node = n;
    s->scope = c->scope;
    s->in = steno_arena_calloc(m->p->mem, (size_t)n->n_in + 1, sizeof *s->in);
    s->out = steno_arena_calloc(m->p->mem, (size_t)n->n_out + 1, sizeof *s->out);
    if (!s->in || !s->out)
        return no_memory_for_plan(m);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] != STENO_NONE)
            s->in[i] = &steno_plan_slot(m->p, s->scope, n->in[i])->t;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE && s->scope->g->values[n->out[i]].uses)
            s->out[i] = steno_plan_slot(m->p, s->scope, n->out[i]);
    return body_frames(m, s);
}

static steno_status make_steps(struct maker *m)
{
    struct plan *p = m->p;
    int32_t n = p->n_steps;
    p->steps = steno_arena_calloc(p->mem, (size_t)n + 1, sizeof *p->steps);
    if (!p->steps)
        return no_memory_for_plan(m);
    for (int32_t k = 0; k < n; k++) {
        steno_status st = make_step(m, &p->steps[k], &m->chosen[k]);
        if (st)
            return st;
        p->steps[k].flops = steno_node_flops(p->steps[k].node, p->steps[k].in, p->steps[k].out);
        p->flops += p->steps[k].flops;
    }
    return STENO_OK;
}

/* List the slots that each step reads for the last time: their pool blocks are released then. */
static steno_status dead_lists(struct maker *m)
{
    struct plan *p = m->p;
    int32_t n = p->n_slots;
    for (int32_t i = 0; i < n; i++)
        if (p->slots[i].last >= 0 && p->slots[i].last < p->n_steps)
            p->steps[p->slots[i].last].n_dead++;
        else
            p->n_to_end += p->slots[i].last >= p->n_steps;
    p->to_end = steno_arena_calloc(p->mem, (size_t)p->n_to_end + 1, sizeof(struct slot *));
    if (!p->to_end)
        return no_memory_for_plan(m);
    p->n_to_end = 0;
    for (int32_t k = 0; k < p->n_steps; k++) {
        struct step *s = &p->steps[k];
        s->dead = steno_arena_calloc(p->mem, (size_t)s->n_dead + 1, sizeof *s->dead);
        if (!s->dead)
            return no_memory_for_plan(m);
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

/* Let slot s share the memory of root r. */
static void join_slots(struct plan *p, struct slot *s, int32_t r)
{
    struct slot *root = &p->slots[r];
    s->root = r;
    if (s->last > root->last)
        root->last = s->last;
    if (s->bytes > root->bytes)
        root->bytes = s->bytes;
}

static struct slot *input_slot(const struct maker *m, const struct step *s, int in)
{
    return in < s->node->n_in && s->node->in[in] != STENO_NONE
               ? steno_plan_slot(m->p, s->scope, s->node->in[in])
               : NULL;
}

/* True when output 0 of step k may overwrite input `in`: the input lies in the arena, no later step
 * reads it, and no other input of the node shares its memory. */
static bool may_overwrite(const struct maker *m, int32_t k, int in)
{
    const struct step *step = &m->p->steps[k];
    const struct slot *o = step->out[0], *s = input_slot(m, step, in);
    if (!s || s->home != HOME_ARENA || m->p->slots[s->root].last > k || s->bytes != o->bytes ||
        steno_dtype_size(s->t.dtype) != steno_dtype_size(o->t.dtype))
        return false;
    for (int i = 0; i < step->node->n_in; i++) {
        const struct slot *other = i != in ? input_slot(m, step, i) : NULL;
        if (other && other->home == HOME_ARENA && other->root == s->root)
            return false;
    }
    return true;
}

/* True when output 0 of a view is certain to be input 0 as planned; the step then has nothing to
 * do. */
static bool planned_view(const struct maker *m, const struct step *step)
{
    const struct slot *x = input_slot(m, step, 0), *o = step->out[0];
    size_t bytes;
    for (int i = 1; i < step->node->n_in; i++) {
        const struct slot *s = input_slot(m, step, i);
        if (s && (s->home != HOME_KNOWN || !s->t.data))
            return false;
    }
    return o->planned && x->planned && x->t.dtype == o->t.dtype && step->node->n_out == 1 &&
           !steno_shape_bytes(&x->t.shape, x->t.dtype, &bytes) && bytes == o->bytes;
}

/* Choose the home of a view's output. True: it shares its input's memory. */
static bool home_of_view(struct maker *m, struct step *step, bool is_out)
{
    struct slot *o = step->out[0];
    const struct slot *x = input_slot(m, step, 0);
    if (!x || x->home == HOME_NONE)
        return false;
    if (x->home == HOME_ARENA && o->planned) {
        o->home = HOME_ARENA;
        join_slots(m->p, o, x->root);
        step->view = planned_view(m, step);
        return true;
    }
    if (is_out || x->home == HOME_ARENA)
        return false;
    o->home = HOME_VIEW;
    /* the input's memory is bound before the run, not during it */
    if (planned_view(m, step) && x->home != HOME_POOL && (x->home != HOME_KNOWN || x->t.data) &&
        (x->home != HOME_VIEW || x->root != (int32_t)(x - m->p->slots))) {
        o->root = x->root;
        step->view = true;
        m->p->n_views++;
    }
    return true;
}

/* True when all readers of output 0 of step k copy it: none hands the memory on. */
static bool read_by_copies(const struct maker *m, int32_t k)
{
    const struct slot *o = m->p->steps[k].out[0];
    int32_t last = k;
    for (int32_t j = k + 1; j < m->p->n_steps; j++) {
        const struct step *s = &m->p->steps[j];
        for (int i = 0; i < s->node->n_in; i++) {
            if (input_slot(m, s, i) != o)
                continue;
            if (s->node->op->flags & (STENO_OP_VIEW | STENO_OP_PART))
                return false;
            last = j;
        }
    }
    return last == o->last;
}

/* Let the output of a Gather lie in its input: one entry, at a known index, where the axes before
 * it are 1. A cache for all layers is such an input. True: it does. */
static bool home_of_part(struct maker *m, int32_t k, bool is_out)
{
    const struct step *step = &m->p->steps[k];
    struct slot *o = step->out[0];
    const struct slot *x = input_slot(m, step, 0), *at = input_slot(m, step, 1);
    int64_t axis = steno_node_int(step->node, "axis", 0), index;
    if (is_out || !x || !at || !o->planned || !x->planned ||
        (x->home != HOME_INPUT && x->home != HOME_ARENA) || at->home != HOME_KNOWN || !at->t.data ||
        steno_numel(&at->t) != 1)
        return false;
    axis += axis < 0 ? x->t.shape.rank : 0;
    for (int64_t i = 0; i < axis; i++)
        if (i >= x->t.shape.rank || x->t.shape.dim[i] != 1)
            return false;
    if (axis < 0 || axis >= x->t.shape.rank)
        return false;
    index = at->t.dtype == STENO_I64 ? *(const int64_t *)at->t.data : *(const int32_t *)at->t.data;
    index += index < 0 ? x->t.shape.dim[axis] : 0;
    if (index < 0 || index >= x->t.shape.dim[axis] || (size_t)index * o->bytes % STENO_ALIGN)
        return false;
    if (x->home == HOME_ARENA) {
        struct slot *root = &m->p->slots[x->root];
        if (!read_by_copies(m, k))
            return false;
        /* one step longer: a last reader of both must not write its result over the input */
        root->last = o->last + 1 > root->last ? o->last + 1 : root->last;
    }
    o->home = HOME_VIEW;
    return true;
}

static void home_of_first(struct maker *m, int32_t k, bool is_out)
{
    struct plan *p = m->p;
    struct step *step = &p->steps[k];
    struct slot *o = step->out[0];
    if ((step->node->op->flags & STENO_OP_VIEW) && home_of_view(m, step, is_out))
        return;
    if ((step->node->op->flags & STENO_OP_PART) && home_of_part(m, k, is_out))
        return;
    o->home = o->planned ? HOME_ARENA : HOME_POOL;
    if (!o->planned)
        return;
    if ((step->node->op->flags & STENO_OP_INPLACE0) && may_overwrite(m, k, 0))
        join_slots(p, o, input_slot(m, step, 0)->root);
    else if ((step->node->op->flags & STENO_OP_INPLACE1) && may_overwrite(m, k, 1))
        join_slots(p, o, input_slot(m, step, 1)->root);
}

static steno_status homes(struct maker *m)
{
    struct plan *p = m->p;
    const struct steno_graph *g = m->f->g;
    bool *is_out = steno_arena_calloc(m->tmp, (size_t)p->n_slots + 1, sizeof *is_out);
    if (!is_out)
        return no_memory_for_plan(m);
    for (int i = 0; i < g->n_outputs; i++)
        is_out[p->top->slot[g->outputs[i]]] = true;
    for (int32_t k = 0; k < p->n_steps; k++)
        for (int i = 0; i < p->steps[k].node->n_out; i++) {
            struct slot *s = p->steps[k].out[i];
            if (s && i == 0)
                home_of_first(m, k, is_out[s - p->slots]);
            else if (s)
                s->home = s->planned ? HOME_ARENA : HOME_POOL;
        }
    /* A group that holds a graph output lies in that output's buffer instead of the arena. */
    for (int i = 0; i < g->n_outputs; i++) {
        struct slot *s = steno_plan_slot(m->p, p->top, g->outputs[i]);
        struct slot *r = &p->slots[s->root];
        if (s->home == HOME_ARENA && r->out < 0)
            r->out = i;
        else if (s->home == HOME_POOL && s->out < 0) {
            s->home = HOME_OUT;
            s->out = i;
        }
    }
    return STENO_OK;
}

static steno_status collect_slots(struct maker *m)
{
    struct plan *p = m->p;
    size_t n = (size_t)p->n_slots + 1;
    p->by_home = steno_arena_calloc(p->mem, n, sizeof(struct slot *));
    p->views = steno_arena_calloc(p->mem, (size_t)p->n_views + 1, sizeof(struct slot *));
    p->busy = steno_arena_calloc(p->mem, (size_t)p->n_steps + 1, sizeof *p->busy);
    p->out_bytes = steno_arena_calloc(p->mem, (size_t)m->f->g->n_outputs + 1, sizeof(size_t));
    if (!p->by_home || !p->views || !p->busy || !p->out_bytes)
        return no_memory_for_plan(m);
    p->n_views = 0;
    for (int32_t k = 0; k < p->n_steps; k++)
        if (!p->steps[k].view)
            p->busy[p->n_busy++] = k;
        else if (p->steps[k].out[0]->home == HOME_VIEW)
            p->views[p->n_views++] = p->steps[k].out[0];
    for (int32_t i = 0; i < p->n_slots; i++) {
        struct slot *s = &p->slots[i], *r = &p->slots[s->root];
        if (s->home == HOME_ARENA && r->out >= 0) {
            s->out = r->out;
            if (r->bytes > p->out_bytes[r->out])
                p->out_bytes[r->out] = r->bytes;
        }
    }
    for (int32_t i = 0; i < p->n_slots; i++) {
        struct slot *s = &p->slots[i];
        if (s->home != HOME_ARENA)
            continue;
        if (s->out >= 0)
            s->home = HOME_OUT;
        p->by_home[p->n_by_home++] = s;
    }
    return STENO_OK;
}

/* The step that writes each slot; -1 for slots that no step writes. */
static void first_step(const struct plan *p, int32_t *first)
{
    for (int32_t i = 0; i < p->n_slots; i++)
        first[i] = -1;
    for (int32_t k = 0; k < p->n_steps; k++)
        for (int i = 0; i < p->steps[k].node->n_out; i++)
            if (p->steps[k].out[i])
                first[p->steps[k].out[i] - p->slots] = k;
}

/* Place everything that lies in the arena: values, and the scratch that steps have used. With
 * scratch the arena takes at most `most` bytes; otherwise nothing changes. */
static steno_status place_in_arena(struct maker *m, size_t most)
{
    struct plan *p = m->p;
    const int32_t n = p->n_slots;
    struct steno_interval *v =
        steno_arena_calloc(m->tmp, (size_t)n + (size_t)p->n_steps + 1, sizeof *v);
    int32_t *first = steno_arena_calloc(m->tmp, (size_t)n + 1, sizeof *first);
    size_t total;
    steno_status st;
    if (!v || !first)
        return no_memory_for_plan(m);
    first_step(p, first);
    for (int32_t i = 0; i < n; i++)
        if (p->slots[i].home == HOME_ARENA && p->slots[i].root == i) {
            /* kernels may read the tail: a separate block where ASan checks it */
#ifdef STENO_SANITIZE
            v[i].bytes = p->slots[i].bytes + STENO_OVERREAD;
#else
            v[i].bytes = p->slots[i].bytes;
#endif
            v[i].first = first[i];
            v[i].last = p->slots[i].last;
        }
    for (int32_t k = 0; k < p->n_steps; k++)
        v[n + k] =
            (struct steno_interval){.bytes = p->steps[k].scratch_needed, .first = k, .last = k};
    st = steno_plan_place(v, (size_t)n + (size_t)p->n_steps, &total);
    if (st)
        return steno_fail(m->err, st,
                          st == STENO_ERR_LIMIT ? "activations of these shapes are too "
                                                  "large"
                                                : "out of memory while planning");
    if (total > most)
        return STENO_OK;
    p->arena_bytes = total;
    for (int32_t i = 0; i < n; i++)
        if (p->slots[i].home == HOME_ARENA)
            p->slots[i].offset = v[p->slots[i].root].offset;
    for (int32_t k = 0; k < p->n_steps; k++) {
        p->steps[k].scratch = p->steps[k].scratch_needed;
        p->steps[k].offset = v[n + k].offset;
    }
    return STENO_OK;
}

steno_status steno_plan_place_scratch(struct plan *p, steno_err *err)
{
    struct maker m = {.p = p, .err = err, .tmp = steno_arena_new(0)};
    size_t apart = 0;
    steno_status st;
    for (int32_t k = 0; k < p->n_steps; k++)
        apart = p->steps[k].scratch_needed > apart ? p->steps[k].scratch_needed : apart;
    st = m.tmp ? place_in_arena(&m, p->arena_bytes + apart) : no_memory_for_plan(&m);
    steno_arena_free(m.tmp);
    p->grown = false;
    return st;
}

/* ---- all of it ---- */

static steno_status make_key(struct maker *m, const struct steno_tensor *const *in)
{
    struct plan *p = m->p;
    const struct frame *f = m->f;
    p->key =
        steno_arena_calloc(p->mem, (size_t)(f->g->n_inputs + f->n_captured) + 1, sizeof *p->key);
    if (!p->key)
        return no_memory_for_plan(m);
    for (int i = 0; i < f->g->n_inputs; i++)
        p->key[p->n_key++] = in[i]->shape;
    for (int i = 0; i < f->n_captured; i++)
        p->key[p->n_key++] = steno_frame_outer(f, f->captured[i])->t.shape;
    return STENO_OK;
}

static steno_status make(struct maker *m, const struct steno_tensor *const *in, bool shapes)
{
    steno_status st = make_key(m, in);
    if (!st)
        st = steno_plan_choose(m->p, m->f, in, shapes, m->tmp, &m->chosen, m->err);
    if (!st)
        st = make_steps(m);
    if (st)
        return st;
    lifetimes(m);
    st = dead_lists(m);
    if (!st)
        st = homes(m);
    if (!st)
        st = collect_slots(m);
    return st ? st : place_in_arena(m, SIZE_MAX);
}

steno_status steno_plan_make(struct plan **out, struct frame *f,
                             const struct steno_tensor *const *in, bool shapes, steno_err *err)
{
    struct maker m = {.f = f, .err = err};
    steno_arena *mem = steno_arena_new(0);
    steno_status st;
    m.tmp = steno_arena_new(0);
    m.p = mem ? steno_arena_alloc(mem, sizeof *m.p) : NULL;
    if (!m.tmp || !m.p) {
        steno_arena_free(mem);
        steno_arena_free(m.tmp);
        return no_memory_for_plan(&m);
    }
    m.p->mem = mem;
    st = make(&m, in, shapes);
    steno_arena_free(m.tmp);
    if (st) {
        steno_plan_free(m.p);
        return st;
    }
    *out = m.p;
    return STENO_OK;
}
