#include "nn/exec/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"

#define SCRATCH_MIN ((size_t)64 << 10)

steno_status steno_workspace_init(struct workspace *ws, const steno_kernels *k, int threads,
                                  steno_err *err)
{
    memset(ws, 0, sizeof *ws);
    ws->k = k;
    return threads > 1 ? steno_team_new(&ws->team, threads, err) : STENO_OK;
}

void *steno_workspace_alloc(struct workspace *ws, size_t n)
{
    size_t total;
    void *p;
    if (!steno_add_size(ws->bytes, n, &total) || (ws->max_bytes && total > ws->max_bytes))
        return NULL;
    p = steno_aligned_alloc(n);
    if (p)
        ws->bytes = total;
    return p;
}

void steno_workspace_release(struct workspace *ws, void *p, size_t n)
{
    if (p)
        ws->bytes -= n;
    steno_aligned_free(p);
}

bool steno_workspace_regrow(struct workspace *ws, void **p, size_t *cap, size_t n)
{
    steno_workspace_release(ws, *p, *cap);
    *p = steno_workspace_alloc(ws, n);
    *cap = *p ? n : 0;
    return *p != NULL;
}

void steno_workspace_drop_scratch(struct workspace *ws)
{
    for (size_t i = 0; i < ws->n_scratch; i++)
        steno_workspace_release(ws, ws->scratch[i].data, ws->scratch[i].cap);
    ws->n_scratch = ws->cur = ws->used = 0;
}

void steno_workspace_trim(struct workspace *ws)
{
    struct pool_block **at = &ws->pool;
    steno_workspace_drop_scratch(ws);
    while (*at) {
        struct pool_block *b = *at;
        if (b->refs) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        steno_workspace_release(ws, b->data, b->cap);
        free(b);
    }
}

void steno_workspace_free(struct workspace *ws)
{
    steno_workspace_drop_scratch(ws);
    free(ws->scratch);
    while (ws->pool) {
        struct pool_block *b = ws->pool;
        ws->pool = b->next;
        steno_aligned_free(b->data);
        free(b);
    }
    steno_team_free(ws->team);
    memset(ws, 0, sizeof *ws);
}

static bool scratch_add(struct workspace *ws, size_t cap)
{
    struct scratch_block *p = realloc(ws->scratch, (ws->n_scratch + 1) * sizeof *p);
    void *data;
    if (!p)
        return false;
    ws->scratch = p;
    data = steno_workspace_alloc(ws, cap);
    if (!data)
        return false;
    p[ws->n_scratch].data = data;
    p[ws->n_scratch++].cap = cap;
    return true;
}

void steno_workspace_merge_scratch(struct workspace *ws)
{
    size_t total = 0;
    if (!ws->spilled)
        steno_workspace_drop_scratch(ws);
    ws->cur = ws->used = 0;
    ws->spilled = false;
    if (ws->n_scratch <= 1)
        return;
    for (size_t i = 0; i < ws->n_scratch; i++)
        total += ws->scratch[i].cap;
    steno_workspace_drop_scratch(ws);
    /* on failure the next request tries again and reports the error */
    (void)scratch_add(ws, total);
}

void *steno_workspace_scratch(struct workspace *ws, size_t n)
{
    size_t need;
    void *p;
    if (!steno_add_size(n, STENO_OVERREAD + STENO_ALIGN - 1, &need))
        return NULL;
    need &= ~(size_t)(STENO_ALIGN - 1);
    ws->scratch_needed += need;
    if (ws->arena_scratch && need <= ws->arena_scratch_cap - ws->arena_scratch_used) {
        p = ws->arena_scratch + ws->arena_scratch_used;
        ws->arena_scratch_used += need;
        return p;
    }
    ws->spilled = true;
    while (ws->cur < ws->n_scratch && need > ws->scratch[ws->cur].cap - ws->used) {
        ws->cur++;
        ws->used = 0;
    }
    if (ws->cur == ws->n_scratch && !scratch_add(ws, need > SCRATCH_MIN ? need : SCRATCH_MIN))
        return NULL;
    p = (char *)ws->scratch[ws->cur].data + ws->used;
    ws->used += need;
    return p;
}

struct pool_block *steno_workspace_acquire(struct workspace *ws, size_t n)
{
    struct pool_block *best = NULL, *b;
    for (b = ws->pool; b; b = b->next)
        if (!b->refs && b->cap >= n && (!best || b->cap < best->cap))
            best = b;
    if (!best) {
        best = calloc(1, sizeof *best);
        if (!best)
            return NULL;
        best->data = steno_workspace_alloc(ws, n);
        if (!best->data) {
            free(best);
            return NULL;
        }
        best->cap = n;
        best->next = ws->pool;
        ws->pool = best;
    }
    best->refs = 1;
    return best;
}

void steno_workspace_unref(struct pool_block *b)
{
    if (b)
        b->refs--;
}

/* ---- threads ---- */

struct job {
    void (*fn)(void *, int);
    void *arg;
};

static void flushed(void *arg, int part)
{
    const struct job *j = arg;
    unsigned saved = steno_cpu_flush_denormals();
    j->fn(j->arg, part);
    steno_cpu_restore_denormals(saved);
}

void steno_workspace_parallel(struct workspace *ws, int n_parts, void (*fn)(void *, int), void *arg)
{
    struct job j = {fn, arg};
    steno_team_run(ws->team, n_parts, flushed, &j);
}
