/* Runs one graph: find or make the plan for these shapes, bind pointers, run the steps. */
#include "nn/exec/internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

/* After this many new shapes, a body graph (a loop that grows a tensor) gets one plan without
 * shapes, which serves all later runs. */
#define MAX_BODY_MISSES 16
/* An output that outgrows its buffer by less than this share of it grows with each run, as the
 * caches of a text do. */
#define SLOW_GROWTH 8

static steno_status no_memory_for_frame(const struct workspace *ws, steno_err *err)
{
    if (ws->max_bytes)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "activations over the limit of %zu bytes, or out "
                          "of memory",
                          ws->max_bytes);
    return steno_fail(err, STENO_ERR_NOMEM, "out of memory for activations");
}

steno_status steno_frame_new(struct frame **out, struct workspace *ws, struct steno_graph *g,
                             struct frame *up, struct plan *up_plan, const struct scope *up_scope,
                             steno_err *err)
{
    struct frame *f = calloc(1, sizeof *f);
    if (!f)
        return no_memory_for_frame(ws, err);
    f->ws = ws;
    f->g = g;
    f->up = up;
    f->up_plan = up_plan;
    f->up_scope = up_scope;
    f->outs = calloc((size_t)g->n_outputs + 1, sizeof *f->outs);
    f->out_t = calloc((size_t)g->n_outputs + 1, sizeof *f->out_t);
    for (int32_t i = 0; i < g->n_values; i++)
        f->n_captured += g->values[i].captured_from != STENO_NONE;
    f->captured = calloc((size_t)f->n_captured + 1, sizeof *f->captured);
    if (!f->outs || !f->out_t || !f->captured) {
        steno_frame_free(f);
        return no_memory_for_frame(ws, err);
    }
    for (int32_t i = 0, k = 0; i < g->n_values; i++)
        if (g->values[i].captured_from != STENO_NONE)
            f->captured[k++] = i;
    *out = f;
    return STENO_OK;
}

void steno_frame_trim(struct frame *f, bool all)
{
    for (int i = 0; all && i < STENO_MAX_PLANS; i++) {
        steno_plan_free(f->plans[i]);
        f->plans[i] = NULL;
        f->cur = NULL;
    }
    for (int i = 0; f->outs && i < f->g->n_outputs; i++) {
        struct outbuf *o = &f->outs[i];
        steno_workspace_release(f->ws, o->buf[0], o->cap[0]);
        steno_workspace_release(f->ws, o->buf[1], o->cap[1]);
        *o = (struct outbuf){0};
    }
    ASAN_UNPOISON_MEMORY_REGION(f->arena, f->arena_cap);
    steno_workspace_release(f->ws, f->arena, f->arena_cap);
    f->arena = NULL;
    f->arena_cap = 0;
}

void steno_frame_free(struct frame *f)
{
    if (!f)
        return;
    steno_frame_trim(f, true);
    free(f->outs);
    free(f->out_t);
    free(f->captured);
    free(f);
}

/* ---- finding the plan ---- */

/* Every length of a sequence has the same plan, and so has an optional with and without value. */
static bool fits_value(const struct steno_shape *key, const struct steno_tensor *t)
{
    return steno_dtype_is_block(t->dtype) || steno_shape_equal(key, &t->shape);
}

static bool plan_fits(const struct frame *f, const struct plan *p,
                      const struct steno_tensor *const *in)
{
    for (int i = 0; i < f->g->n_inputs; i++)
        if (!fits_value(&p->key[i], in[i]))
            return false;
    for (int i = 0; i < f->n_captured; i++)
        if (!fits_value(&p->key[f->g->n_inputs + i], &steno_frame_outer(f, f->captured[i])->t))
            return false;
    return true;
}

static struct plan *cached_plan(struct frame *f, const struct steno_tensor *const *in)
{
    if (f->cur && (f->misses > MAX_BODY_MISSES || plan_fits(f, f->cur, in)))
        return f->cur;
    for (int i = 0; i < STENO_MAX_PLANS; i++)
        if (f->plans[i] && plan_fits(f, f->plans[i], in))
            return f->plans[i];
    return NULL;
}

static int oldest(const struct frame *f)
{
    int at = 0;
    for (int i = 0; i < STENO_MAX_PLANS; i++) {
        if (!f->plans[i])
            return i;
        if (f->plans[i]->used_at < f->plans[at]->used_at)
            at = i;
    }
    return at;
}

static void forget_plan(struct frame *f, int i)
{
    if (f->cur == f->plans[i])
        f->cur = NULL;
    steno_plan_free(f->plans[i]);
    f->plans[i] = NULL;
}

/* Drop the plans that refer to table rows which plan `at` has replaced by more rows: they would
 * keep the old rows alive. */
static void drop_outgrown(struct frame *f, int at)
{
    for (int i = 0; i < STENO_MAX_PLANS; i++) {
        const struct plan_rows *r = i != at && f->plans[i] ? f->plans[i]->rows : NULL;
        while (r && steno_table_rows_newest(r->rows))
            r = r->next;
        if (r)
            forget_plan(f, i);
    }
}

/* Drop the least recently used plans until the plan constants, those of plan `at` included, fit. */
static void limit_plan_constants(struct frame *f, int at)
{
    for (;;) {
        size_t sum = 0;
        int last = -1;
        for (int i = 0; i < STENO_MAX_PLANS; i++) {
            const struct plan *p = f->plans[i];
            sum += p ? p->constant_bytes : 0;
            if (i != at && p && p->constant_bytes &&
                (last < 0 || p->used_at < f->plans[last]->used_at))
                last = i;
        }
        if (sum <= STENO_MAX_PLAN_CONSTANTS || last < 0)
            return;
        forget_plan(f, last);
    }
}

static steno_status choose_plan(struct frame *f, const struct steno_tensor *const *in,
                                steno_err *err)
{
    struct plan *p = cached_plan(f, in);
    if (!p) {
        int at = oldest(f);
        bool shapes = !f->up || ++f->misses <= MAX_BODY_MISSES;
        steno_status st = steno_plan_make(&p, f, in, shapes, err);
        if (st)
            return st;
        forget_plan(f, at);
        f->plans[at] = p;
        limit_plan_constants(f, at);
        if (p->rows)
            drop_outgrown(f, at);
    }
    p->used_at = ++f->tick;
    f->cur = p;
    return STENO_OK;
}

/* ---- memory of a run ---- */

static steno_status size_arena(struct frame *f, const struct plan *p, steno_err *err)
{
    if (f->arena && f->arena_cap >= p->arena_bytes)
        return STENO_OK;
    ASAN_UNPOISON_MEMORY_REGION(f->arena, f->arena_cap);
    return steno_workspace_regrow(f->ws, &f->arena, &f->arena_cap, p->arena_bytes)
               ? STENO_OK
               : no_memory_for_frame(f->ws, err);
}

static bool reads(const struct frame *f, const struct steno_tensor *const *in, const void *buf,
                  size_t cap)
{
    const char *lo = buf;
    for (int i = 0; buf && i < f->g->n_inputs; i++) {
        const char *p = in[i]->data;
        if (p >= lo && p < lo + cap)
            return true;
    }
    return false;
}

void *steno_frame_grow_out(struct frame *f, int out, size_t bytes)
{
    struct outbuf *o = &f->outs[out];
    void **buf = &o->buf[o->sel];
    size_t *cap = &o->cap[o->sel], room = bytes;
    if (*buf && *cap >= bytes)
        return *buf;
    if (*buf && (f->up || bytes - *cap <= *cap / SLOW_GROWTH) &&
        !steno_add_size(bytes, bytes / 2, &room))
        room = bytes;
    if (!steno_workspace_regrow(f->ws, buf, cap, room) && room > bytes)
        (void)steno_workspace_regrow(f->ws, buf, cap, bytes);
    return *buf;
}

/* An output of the last run may be an input of this one: then this run writes to the other
 * buffer. */
static steno_status size_outputs(struct frame *f, const struct plan *p,
                                 const struct steno_tensor *const *in, steno_err *err)
{
    for (int i = 0; i < f->g->n_outputs; i++) {
        struct outbuf *o = &f->outs[i];
        if (reads(f, in, o->buf[o->sel], o->cap[o->sel] + !o->cap[o->sel]))
            o->sel = !o->sel;
        if (!steno_frame_grow_out(f, i, p->out_bytes[i]))
            return no_memory_for_frame(f->ws, err);
    }
    return STENO_OK;
}

static void bind_inputs(struct frame *f, struct plan *p, const struct steno_tensor *const *in)
{
    for (int i = 0; i < f->g->n_inputs; i++)
        p->slots[f->g->inputs[i]].t = *in[i];
    for (int i = 0; i < f->n_captured; i++) {
        struct slot *s = &p->slots[f->captured[i]];
        if (s->home == HOME_CAPTURE)
            s->t = steno_frame_outer(f, f->captured[i])->t;
    }
    for (int32_t i = 0; i < p->n_views; i++)
        p->views[i]->t.data = p->slots[p->views[i]->root].t.data;
    for (int32_t i = 0; i < p->n_by_home; i++) {
        struct slot *s = p->by_home[i];
        if (!s->planned)
            continue;
        if (s->home == HOME_ARENA)
            s->t.data = (char *)f->arena + s->offset;
        else
            s->t.data = f->outs[s->out].buf[f->outs[s->out].sel];
    }
}

/* ---- steps ---- */

static void release_slots(struct slot *const *dead, int n)
{
    for (int i = 0; i < n; i++) {
        steno_workspace_unref(dead[i]->block);
        dead[i]->block = NULL;
    }
}

static void unpoison(const struct step *s)
{
    for (int i = 0; i < s->node->n_out; i++)
        if (s->out[i] && s->out[i]->home == HOME_ARENA && s->out[i]->planned)
            ASAN_UNPOISON_MEMORY_REGION(s->out[i]->t.data, s->out[i]->bytes + STENO_OVERREAD);
}

static void poison(const struct frame *f, const struct plan *p, const struct step *s, int32_t k)
{
#if defined(__SANITIZE_ADDRESS__)
    for (int i = 0; i < s->n_dead; i++) {
        const struct slot *r = &p->slots[s->dead[i]->root];
        if (s->dead[i]->home == HOME_ARENA && r->last == k)
            ASAN_POISON_MEMORY_REGION((char *)f->arena + r->offset, r->bytes + STENO_OVERREAD);
    }
#else
    (void)f;
    (void)p;
    (void)s;
    (void)k;
#endif
}

/* For the profile: processor time if one thread does all the work, else wall-clock time. */
static int64_t time_now(const struct workspace *ws)
{
    return steno_team_size(ws->team) > 1 ? steno_now_ns() : steno_thread_ns();
}

/* True for a step of the main graph without bodies (steps of bodies request scratch themselves).
 * The scratch that such a step used in an earlier run has a place in the arena. */
static bool keeps_scratch(const struct frame *f, const struct step *s)
{
    return !f->up && !s->sub;
}

static void bind_scratch(struct frame *f, const struct step *s)
{
    struct workspace *ws = f->ws;
    const bool here = keeps_scratch(f, s) && s->scratch;
    ws->arena_scratch = here ? (char *)f->arena + s->offset : NULL;
    ws->arena_scratch_cap = here ? s->scratch : 0;
    ws->arena_scratch_used = ws->scratch_needed = 0;
    if (here)
        ASAN_UNPOISON_MEMORY_REGION(ws->arena_scratch, ws->arena_scratch_cap);
}

static void unbind_scratch(struct frame *f, struct plan *p, struct step *s)
{
    struct workspace *ws = f->ws;
    if (ws->arena_scratch)
        ASAN_POISON_MEMORY_REGION(ws->arena_scratch, ws->arena_scratch_cap);
    if (keeps_scratch(f, s) && ws->scratch_needed > s->scratch_needed) {
        s->scratch_needed = ws->scratch_needed;
        p->grown = true;
    }
    ws->arena_scratch = NULL;
    ws->arena_scratch_cap = ws->arena_scratch_used = 0;
}

static steno_status run_step(struct frame *f, struct plan *p, struct step *s, steno_err *err)
{
    struct workspace *ws = f->ws;
    struct steno_op_ctx ctx = {
        .ws = ws, .node = s->node, .in = s->in, .out = s->out, .step = s, .frame = f, .plan = p};
    size_t cur = ws->cur, used = ws->used;
    steno_status st;
    steno_thread_beat();
    if (ws->max_steps && ++ws->steps > ws->max_steps)
        return steno_fail(err, STENO_ERR_LIMIT, "node '%s' (%s): more than %llu steps in one run",
                          s->node->name, s->node->op_type, (unsigned long long)ws->max_steps);
    bind_scratch(f, s);
    unpoison(s);
    for (int i = 0; i < s->node->n_out; i++)
        if (s->out[i] && (s->out[i]->home == HOME_POOL || s->out[i]->home == HOME_VIEW))
            s->out[i]->t.data = NULL;
    if (ws->profile) {
        int64_t t = time_now(ws);
        st = s->node->op->run(&ctx, err);
        s->ns += time_now(ws) - t;
        s->runs++;
    } else {
        st = s->node->op->run(&ctx, err);
    }
    ws->cur = cur;
    ws->used = used;
    unbind_scratch(f, p, s);
    for (int i = 0; !st && i < s->node->n_out; i++)
        if (s->out[i] && !s->out[i]->t.data)
            st = steno_fail(err, STENO_ERR_INTERNAL, "output %d was left unset", i);
    return st ? steno_fail_in(err, st, "node '%s' (%s)", s->node->name, s->node->op_type)
              : STENO_OK;
}

/* Copy graph outputs that are not in their buffer: inputs, constants, views, duplicates. */
static steno_status finish_outputs(struct frame *f, struct plan *p, steno_err *err)
{
    for (int i = 0; i < f->g->n_outputs; i++) {
        const struct slot *s = &p->slots[p->top->slot[f->g->outputs[i]]];
        struct outbuf *o = &f->outs[i];
        size_t bytes;
        if (s->home == HOME_OUT && s->out == i && s->t.data == o->buf[o->sel]) {
            f->out_t[i] = s->t;
            continue;
        }
        if (steno_shape_bytes(&s->t.shape, s->t.dtype, &bytes))
            return steno_fail(err, STENO_ERR_INTERNAL, "graph output %d has no shape", i);
        if (!steno_frame_grow_out(f, i, bytes))
            return no_memory_for_frame(f->ws, err);
        f->out_t[i] = s->t;
        f->out_t[i].data = o->buf[o->sel];
        if (bytes && s->t.data != o->buf[o->sel])
            memcpy(o->buf[o->sel], s->t.data, bytes);
    }
    return STENO_OK;
}

steno_status steno_frame_run(struct frame *f, const struct steno_tensor *const *in, steno_err *err)
{
    struct plan *p;
    steno_status st = choose_plan(f, in, err);
    if (st)
        return st;
    p = f->cur;
    if (p->grown) {
        st = steno_plan_place_scratch(p, err);
        steno_workspace_drop_scratch(f->ws);
    }
    if (!st)
        st = size_arena(f, p, err);
    if (!st)
        st = size_outputs(f, p, in, err);
    if (st)
        return st;
    bind_inputs(f, p, in);
    f->flops = p->flops;
    ASAN_POISON_MEMORY_REGION(f->arena, f->arena_cap);
    for (int32_t k = 0; !st && k < p->n_steps; k++) {
        if (p->steps[k].view && !p->misplanned)
            continue;
        st = run_step(f, p, &p->steps[k], err);
        release_slots(p->steps[k].dead, p->steps[k].n_dead);
        poison(f, p, &p->steps[k], k);
    }
    if (!st)
        st = finish_outputs(f, p, err);
    /* graph outputs are released after the run; after a failure everything is */
    release_slots(p->to_end, p->n_to_end);
    for (int32_t i = 0; st && i < p->n_slots; i++)
        if (p->slots[i].block) {
            steno_workspace_unref(p->slots[i].block);
            p->slots[i].block = NULL;
        }
    return st;
}
