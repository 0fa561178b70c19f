/* Names in written files: of values, of nodes, and of constants that body graphs share. */
#include "nn/onnx/write.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *claim(struct writer *w, const char *name)
{
    if (steno_names_put(&w->used, name, 1)) {
        (void)steno_fail(w->err, STENO_ERR_NOMEM, "out of memory");
        return NULL;
    }
    return name;
}

const char *steno_write_name(struct writer *w, const char *stem)
{
    char buf[320];
    char *copy;
    if (*stem && steno_names_find(&w->used, stem) == STENO_NONE)
        return claim(w, stem);
    do
        snprintf(buf, sizeof buf, "%.290s_%zu", *stem ? stem : "v", ++w->made);
    while (steno_names_find(&w->used, buf) != STENO_NONE);
    copy = steno_write_dup(w, buf);
    return copy ? claim(w, copy) : NULL;
}

char *steno_write_read(struct writer *w, const char *name)
{
    char *copy = steno_write_dup(w, name);
    if (copy && *copy && steno_names_find(&w->read, copy) == STENO_NONE &&
        steno_names_put(&w->read, copy, 1)) {
        (void)steno_fail(w->err, STENO_ERR_NOMEM, "out of memory");
        return NULL;
    }
    return copy;
}

char *steno_write_node_name(struct writer *w, const char *name)
{
    char buf[320], *copy;
    size_t n = 1;
    snprintf(buf, sizeof buf, "%.290s", name);
    while (*buf && steno_names_find(&w->nodes, buf) != STENO_NONE)
        snprintf(buf, sizeof buf, "%.290s_%zu", name, ++n);
    copy = steno_write_dup(w, buf);
    if (copy && *copy && steno_names_put(&w->nodes, copy, 1)) {
        (void)steno_fail(w->err, STENO_ERR_NOMEM, "out of memory");
        return NULL;
    }
    return copy;
}

const char *steno_write_outer_constant(const struct writer *w, const struct write_scope *s,
                                       const struct steno_tensor *t)
{
    for (const struct write_scope *up = w->form->private_copy ? NULL : s->up; up; up = up->up)
        for (int32_t i = 0; i < up->g->n_values; i++)
            if (up->g->values[i].constant == t && up->name[i])
                return up->name[i];
    for (const struct write_shared *c = w->shared; s->up && c; c = c->next)
        if (c->value->constant == t)
            return c->name;
    return NULL;
}

static steno_status keep_name(struct writer *w, struct write_scope *s, steno_value_id v)
{
    const char *name = s->g->values[v].name;
    if (s->name[v])
        return STENO_OK;
    if (s->exact && *name) {
        s->name[v] = name;
        return claim(w, name) ? STENO_OK : STENO_ERR_NOMEM;
    }
    if (!s->up && *name)
        s->name[v] = steno_names_find(&w->used, name) == STENO_NONE ? claim(w, name) : NULL;
    else
        s->name[v] = steno_write_name(w, name);
    if (!s->name[v])
        return steno_fail(w->err, STENO_ERR_FORMAT, "two inputs or outputs have the name '%s'",
                          name);
    return STENO_OK;
}

/* ---- constants that branches share ---- */

/* A constant of a body graph: the first value that has it. */
struct body_constant {
    const struct steno_value *value;
    const struct steno_graph *g;
    size_t order;
};

struct body_constants {
    struct writer *w;
    struct body_constant *v;
    size_t n, cap;
};

static int collect_names(struct steno_graph *g, void *arg)
{
    struct body_constants *l = arg;
    for (int32_t i = 0; i < g->n_values; i++) {
        const struct steno_value *v = &g->values[i];
        if (!v->constant || !v->uses)
            continue;
        if (l->n == l->cap) {
            size_t cap = l->cap ? 2 * l->cap : 256;
            struct body_constant *more = steno_write_alloc(l->w, cap, sizeof *more);
            if (!more)
                return 1;
            if (l->n)
                memcpy(more, l->v, l->n * sizeof *more);
            l->v = more;
            l->cap = cap;
        }
        l->v[l->n] = (struct body_constant){.value = v, .g = g, .order = l->n};
        l->n++;
    }
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead && steno_node_each_graph(&g->nodes[i], collect_names, l))
            return 1;
    return 0;
}

static int by_constant(const void *a, const void *b)
{
    const struct body_constant *x = a, *y = b;
    const uintptr_t p = (uintptr_t)x->value->constant, q = (uintptr_t)y->value->constant;
    if (p != q)
        return p < q ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static int by_order(const void *a, const void *b)
{
    const struct body_constant *x = a, *y = b;
    return x->order < y->order ? -1 : 1;
}

/* Name the constants of more than one body graph that no graph around these has: the main graph
 * gets them, so that the file has them once. */
static steno_status name_shared(struct writer *w, struct write_scope *top)
{
    struct body_constants l = {.w = w};
    struct write_shared **last = &w->shared;
    size_t n = 0;
    for (int32_t i = 0; i < top->g->n_nodes; i++)
        if (!top->g->nodes[i].dead && steno_node_each_graph(&top->g->nodes[i], collect_names, &l))
            return STENO_ERR_NOMEM;
    if (!l.n)
        return STENO_OK; /* qsort takes no NULL */
    qsort(l.v, l.n, sizeof *l.v, by_constant);
    for (size_t i = 0, first = 0; i < l.n; i++) {
        if (!i || l.v[i].value->constant != l.v[first].value->constant)
            first = i;
        else if (l.v[i].g != l.v[first].g && (!n || l.v[n - 1].value != l.v[first].value) &&
                 !steno_write_outer_constant(w, &(struct write_scope){.up = top},
                                             l.v[first].value->constant))
            l.v[n++] = l.v[first];
    }
    qsort(l.v, n, sizeof *l.v, by_order);
    for (size_t i = 0; i < n; i++) {
        struct write_shared *c = steno_write_alloc(w, 1, sizeof *c);
        if (!c)
            return STENO_ERR_NOMEM;
        *c = (struct write_shared){.value = l.v[i].value,
                                   .name = steno_write_name(w, l.v[i].value->name)};
        if (!c->name)
            return STENO_ERR_NOMEM;
        *last = c;
        last = &c->next;
    }
    w->n_shared = n;
    return STENO_OK;
}

steno_status steno_write_make_names(struct writer *w, struct write_scope *s)
{
    const struct steno_graph *g = s->g;
    s->name = steno_write_alloc(w, (size_t)g->n_values + 1, sizeof *s->name);
    if (!s->name)
        return STENO_ERR_NOMEM;
    for (int32_t i = 0; s->up && i < g->n_values; i++) {
        const struct steno_value *v = &g->values[i];
        if (v->captured_from != STENO_NONE)
            s->name[i] = s->up->name[v->captured_from];
        else if (v->constant)
            s->name[i] = steno_write_outer_constant(w, s, v->constant);
    }
    for (int i = 0; i < g->n_inputs; i++)
        if (keep_name(w, s, g->inputs[i]))
            return STENO_ERR_FORMAT;
    for (int i = 0; i < g->n_outputs; i++)
        if (keep_name(w, s, g->outputs[i]))
            return STENO_ERR_FORMAT;
    for (int32_t i = 0; i < g->n_values; i++) {
        const struct steno_value *v = &g->values[i];
        if (s->name[i] || !(v->uses || v->producer != STENO_NONE))
            continue;
        if (!(s->name[i] = steno_write_name(w, v->name)))
            return STENO_ERR_NOMEM;
    }
    return s->up || w->form->private_copy ? STENO_OK : name_shared(w, s);
}
