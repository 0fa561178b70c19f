/* Keys and values of what was said so far lie in rows that never move: [heads, cap, 2 size] for
 * each layer, a key and its value. Each hypothesis has a list of rows that are its past, and where
 * a beam is reordered the lists are; rows that no list names are written again. The window's keys
 * and values are everybody's, as the products of a whole beam read them (nn/exec/kv_cache.h). */
#include "speech/families/whisper/net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "nn/kernels/kernels.h"
#include "speech/families/whisper/mel.h"

#define FIRST_ROWS 256
/* Rows of a window that become keys and values at a time: whole pages. */
#define CROSS_ROWS (2 * STENO_KV_PAGE_KEYS)

struct kept {
    float *own;   /* [heads, cap, 2 size] */
    void *memory; /* [heads, size, cap], then [heads, cap, size]; or KV pages */
};

struct steno_whisper_state {
    const struct steno_whisper *m;
    size_t layers, heads, size; /* of the decoder */
    struct steno_whisper_pages pages;
    size_t cap, cap_memory, n_memory;
    struct kept *kept;           /* [layers] */
    float *keys;                 /* beside pages, of the heads that follow time: [n, size, cap] */
    struct steno_kv_layer *view; /* [layers] */
    int32_t *list[2];            /* [cap_hyps, text_ctx]: now, and room for the next */
    size_t hyps, cap_hyps, length;
    bool keeps_keys;
    bool *used;    /* [cap] rows that a list names */
    int32_t *slot; /* [cap_hyps or text_ctx] rows of the tokens of a step */
};

struct steno_whisper_runner {
    const struct steno_whisper *m;
    steno_session *encoder, *cross, *step, *scores;
    int rows, hidden, logits, *memory, *fresh, *query; /* outputs */
    float *frames;                                     /* [2 audio_ctx, 3 mels] */
    float *x;                                          /* [cap_entries, d'] */
    float *picked;                                     /* [cap_entries, d'] */
    size_t cap_entries;
    struct steno_kv_view *view;
    size_t cap_views;
    struct steno_kv_binding bound;
    size_t encoded; /* rows of the last window */
};

static steno_status no_memory_whisper_net(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

/* ---- states -------------------------------------------------------------------------------- */

steno_status steno_whisper_state_open(steno_whisper_state **out, const struct steno_whisper *m,
                                      steno_err *err)
{
    steno_whisper_state *s = calloc(1, sizeof *s);
    if (!s)
        return no_memory_whisper_net(err);
    s->m = m;
    s->layers = (size_t)m->dims.text_layers;
    s->heads = (size_t)m->dims.text_heads;
    s->size = (size_t)(m->dims.text_state / m->dims.text_heads);
    s->pages = steno_whisper_pages_of(m);
    s->kept = calloc(s->layers, sizeof *s->kept);
    s->view = calloc(s->layers, sizeof *s->view);
    if (!s->kept || !s->view) {
        steno_whisper_state_close(s);
        return no_memory_whisper_net(err);
    }
    *out = s;
    return STENO_OK;
}

void steno_whisper_state_close(steno_whisper_state *s)
{
    if (!s)
        return;
    for (size_t i = 0; s->kept && i < s->layers; i++) {
        steno_aligned_free(s->kept[i].own);
        steno_aligned_free(s->kept[i].memory);
    }
    steno_aligned_free(s->keys);
    free(s->kept);
    free(s->view);
    free(s->list[0]);
    free(s->list[1]);
    free(s->used);
    free(s->slot);
    free(s);
}

void steno_whisper_state_keep_keys(steno_whisper_state *s)
{
    s->keeps_keys = true;
}

void steno_whisper_state_cut(steno_whisper_state *s, size_t n)
{
    s->length = n < s->length ? n : s->length;
}

static void forget_text(steno_whisper_state *s)
{
    s->hyps = s->length = 0;
}

/* Room for `want` rows of tokens; what is there stays. */
static bool grow_rows(steno_whisper_state *s, size_t want)
{
    const size_t pair = 2 * s->size;
    size_t cap = s->cap ? s->cap : FIRST_ROWS;
    bool *used;
    if (want <= s->cap)
        return true;
    while (cap < want)
        cap += cap / 4;
    used = realloc(s->used, cap * sizeof *used);
    if (!used)
        return false;
    s->used = used;
    for (size_t i = 0; i < s->layers; i++) {
        float *p = steno_aligned_zeroed(s->heads * cap * pair * sizeof *p);
        if (!p)
            return false; /* layers before have more room than the state says: no harm */
        for (size_t h = 0; s->cap && h < s->heads; h++)
            memcpy(p + h * cap * pair, s->kept[i].own + h * s->cap * pair,
                   s->cap * pair * sizeof *p);
        steno_aligned_free(s->kept[i].own);
        s->kept[i].own = p;
    }
    s->cap = cap;
    return true;
}

static bool grow_hyps(steno_whisper_state *s, size_t hyps)
{
    const size_t columns = (size_t)s->m->dims.text_ctx, most = hyps > columns ? hyps : columns;
    int32_t *slot;
    if (hyps <= s->cap_hyps)
        return true;
    slot = realloc(s->slot, most * sizeof *slot);
    if (!slot)
        return false;
    s->slot = slot;
    for (int l = 0; l < 2; l++) {
        int32_t *p = realloc(s->list[l], hyps * columns * sizeof *p);
        if (!p)
            return false;
        s->list[l] = p;
    }
    s->cap_hyps = hyps;
    return true;
}

/* Memory of every layer for n rows of a window. */
static bool grow_memory(steno_whisper_state *s, size_t n)
{
    const size_t step = s->pages.rows, cap = (n + step - 1) / step * step;
    if (cap <= s->cap_memory)
        return true;
    steno_aligned_free(s->keys);
    s->keys = NULL;
    for (size_t i = 0; i < s->layers; i++) {
        steno_aligned_free(s->kept[i].memory);
        s->kept[i].memory = steno_aligned_zeroed(steno_whisper_layer_bytes(s->m, cap));
        if (!s->kept[i].memory) {
            s->cap_memory = 0;
            return false;
        }
    }
    s->cap_memory = cap;
    return true;
}

/* ---- the runner ---------------------------------------------------------------------------- */

static steno_status bind_layers(steno_whisper_runner *r, steno_err *err)
{
    const size_t layers = (size_t)r->m->dims.text_layers;
    char name[32];
    r->memory = calloc(3 * layers, sizeof *r->memory);
    if (!r->memory)
        return no_memory_whisper_net(err);
    r->fresh = r->memory + layers;
    r->query = r->fresh + layers;
    for (size_t i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "memory_%zu", i);
        r->memory[i] = steno_network_find_output(r->m->cross, name);
        snprintf(name, sizeof name, "fresh_%zu", i);
        r->fresh[i] = steno_network_find_output(r->m->step, name);
        snprintf(name, sizeof name, "query_%zu", i);
        r->query[i] = steno_network_find_output(r->m->step, name);
        if (r->memory[i] < 0 || r->fresh[i] < 0 || r->query[i] < 0)
            return steno_fail(err, STENO_ERR_INTERNAL, "whisper: layer %zu has no outputs", i);
    }
    r->rows = steno_network_find_output(r->m->encoder, "rows");
    r->hidden = steno_network_find_output(r->m->step, "hidden");
    r->logits = steno_network_find_output(r->m->scores, "logits");
    return STENO_OK;
}

steno_status steno_whisper_runner_open(steno_whisper_runner **out, const struct steno_whisper *m,
                                       steno_err *err)
{
    const struct steno_session_options o = {.threads = m->opt.threads};
    steno_whisper_runner *r = calloc(1, sizeof *r);
    steno_status st;
    if (!r)
        return no_memory_whisper_net(err);
    r->m = m;
    r->frames = steno_aligned_zeroed((size_t)(2 * m->dims.audio_ctx * 3 * m->dims.mels) *
                                     sizeof *r->frames);
    st = r->frames ? bind_layers(r, err) : no_memory_whisper_net(err);
    if (!st)
        st = steno_session_open(&r->encoder, m->encoder, &o, err);
    if (!st)
        st = steno_session_open(&r->cross, m->cross, &o, err);
    if (!st)
        st = steno_session_open(&r->step, m->step, &o, err);
    if (!st)
        st = steno_session_open(&r->scores, m->scores, &o, err);
    if (st)
        steno_whisper_runner_close(r);
    else
        *out = r;
    return st;
}

void steno_whisper_runner_close(steno_whisper_runner *r)
{
    if (!r)
        return;
    steno_session_close(r->encoder);
    steno_session_close(r->cross);
    steno_session_close(r->step);
    steno_session_close(r->scores);
    steno_aligned_free(r->frames);
    steno_aligned_free(r->x);
    steno_aligned_free(r->picked);
    free(r->memory);
    free(r->view);
    free(r);
}

const struct steno_whisper *steno_whisper_runner_model(const steno_whisper_runner *r)
{
    return r->m;
}

/* ---- a window ------------------------------------------------------------------------------ */

/* Columns [first, first + n) of kv [rows, 2 d'], transposed, as rows `at` and on of `to` [n, cap].
 */
static void transpose_columns(const steno_whisper_state *s, float *to, size_t at, const float *kv,
                              size_t rows, size_t first, size_t n)
{
    const size_t d = s->heads * s->size, cap = s->cap_memory;
    for (size_t r0 = 0; r0 < rows; r0 += 16) { /* a cache line of each column at a time */
        const size_t r1 = rows - r0 < 16 ? rows : r0 + 16;
        for (size_t i = 0; i < n; i++)
            for (size_t r = r0; r < r1; r++)
                to[i * cap + at + r] = kv[r * 2 * d + first + i];
    }
}

/* Keys and values as the products read them. */
static void keep_floats(const steno_whisper_state *s, float *to, size_t at, const float *kv,
                        size_t rows)
{
    const size_t d = s->heads * s->size, cap = s->cap_memory;
    float *values = to + d * cap;
    transpose_columns(s, to, at, kv, rows, 0, d);
    for (size_t h = 0; h < s->heads; h++)
        for (size_t r = 0; r < rows; r++)
            memcpy(values + (h * cap + at + r) * s->size, kv + r * 2 * d + d + h * s->size,
                   s->size * sizeof *values);
}

/* The same in KV pages; at: the first row of a page. */
static void keep_pages(const steno_whisper_state *s, char *to, size_t at, const float *kv,
                       size_t rows)
{
    const size_t d = s->heads * s->size, size = s->size;
    const struct steno_whisper_pages *p = &s->pages;
    for (size_t h = 0; h < s->heads; h++)
        for (size_t r = 0; r < rows; r += p->rows) {
            const size_t n = rows - r < p->rows ? rows - r : p->rows;
            const float *k = kv + r * 2 * d + h * size, *v = k + d;
            char *page = to + (h * s->cap_memory + at + r) / p->rows * p->bytes;
            if (p->is_i8)
                p->kernels->kv_pack_i8(page, size, size, n, k, 2 * d, v, 2 * d);
            else
                p->kernels->kv_append_bf16(page, size, size, 0, n, k, 2 * d, v, 2 * d);
        }
}

/* The keys of the layer's heads that follow time. */
static void keep_keys(const steno_whisper_state *s, size_t layer, size_t at, const float *kv,
                      size_t rows)
{
    for (size_t i = 0; i < s->m->n_heads; i++)
        if ((size_t)s->m->heads[i].layer == layer)
            transpose_columns(s, s->keys + i * s->size * s->cap_memory, at, kv, rows,
                              (size_t)s->m->heads[i].head * s->size, s->size);
}

static bool keep_layer(steno_whisper_state *s, size_t layer, size_t at, const float *kv,
                       size_t rows)
{
    if (!s->pages.kernels) {
        keep_floats(s, s->kept[layer].memory, at, kv, rows);
        return true;
    }
    keep_pages(s, s->kept[layer].memory, at, kv, rows);
    if (!s->keeps_keys)
        return true;
    if (!s->keys)
        s->keys = steno_aligned_zeroed(s->m->n_heads * s->size * s->cap_memory * sizeof *s->keys);
    if (s->keys)
        keep_keys(s, layer, at, kv, rows);
    return s->keys != NULL;
}

/* Keys and values of rows [n, d] of the encoder, which are number `at` and on of the window. */
static steno_status keep_rows(steno_whisper_runner *r, steno_whisper_state *s, float *rows,
                              size_t at, size_t n, steno_err *err)
{
    const struct steno_tensor t = {
        .dtype = STENO_F32, .shape = {3, {1, (int64_t)n, r->m->dims.audio_state}}, .data = rows};
    steno_status st = steno_session_set(r->cross, 0, &t, err);
    if (!st)
        st = steno_session_run(r->cross, err);
    for (size_t i = 0; i < s->layers && !st; i++)
        if (!keep_layer(s, i, at, steno_session_get(r->cross, r->memory[i])->data, n))
            st = no_memory_whisper_net(err);
    return st;
}

static steno_status keep_memory(steno_whisper_runner *r, steno_whisper_state *s, size_t rows,
                                steno_err *err)
{
    float *x = steno_session_get(r->encoder, r->rows)->data;
    steno_status st = STENO_OK;
    s->n_memory = 0;
    if (!grow_memory(s, rows))
        return no_memory_whisper_net(err);
    for (size_t at = 0, n; at < rows && !st; at += n) {
        n = rows - at < CROSS_ROWS ? rows - at : CROSS_ROWS;
        st = keep_rows(r, s, x + at * (size_t)r->m->dims.audio_state, at, n, err);
    }
    s->n_memory = st ? 0 : rows;
    return st;
}

steno_status steno_whisper_encode(steno_whisper_runner *r, steno_whisper_state *s,
                                  const struct steno_whisper_window *w, steno_err *err)
{
    const struct steno_whisper_dims *d = &r->m->dims;
    struct steno_tensor frames = {.dtype = STENO_F32, .shape = {.rank = 3}, .data = r->frames};
    struct steno_tensor positions = {
        .dtype = STENO_F32, .shape = {.rank = 3}, .data = r->m->audio_positions};
    steno_status st;
    if (!w->rows || w->rows > (size_t)d->audio_ctx)
        return steno_fail(err, STENO_ERR_INVAL, "a window of %zu rows, 1 to %lld expected", w->rows,
                          (long long)d->audio_ctx);
    steno_whisper_frames(w->mel, w->n, w->floor, (size_t)d->mels, 2 * w->rows, r->frames);
    memcpy(frames.shape.dim, (int64_t[]){1, 2 * (int64_t)w->rows, 3 * d->mels},
           3 * sizeof(int64_t));
    memcpy(positions.shape.dim, (int64_t[]){1, (int64_t)w->rows, d->audio_state},
           3 * sizeof(int64_t));
    forget_text(s);
    st = steno_session_set(r->encoder, 0, &frames, err);
    if (!st)
        st = steno_session_set(r->encoder, 1, &positions, err);
    if (!st)
        st = steno_session_run(r->encoder, err);
    r->encoded = st ? 0 : w->rows;
    return st ? st : keep_memory(r, s, w->rows, err);
}

const float *steno_whisper_encoded(const steno_whisper_runner *r, size_t *rows)
{
    *rows = r->encoded;
    return r->encoded ? steno_session_get(r->encoder, r->rows)->data : NULL;
}

/* ---- a step -------------------------------------------------------------------------------- */

static size_t entries_of(const struct steno_whisper_ask *a, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i].n;
    return sum;
}

static bool grow_inputs(steno_whisper_runner *r, size_t entries, size_t asks)
{
    if (entries > r->cap_entries) {
        const size_t bytes = entries * (size_t)r->m->dims.text_state * sizeof(float);
        float *x = steno_aligned_zeroed(bytes), *picked = steno_aligned_zeroed(bytes);
        if (!x || !picked) {
            steno_aligned_free(x);
            steno_aligned_free(picked);
            return false;
        }
        steno_aligned_free(r->x);
        steno_aligned_free(r->picked);
        r->x = x;
        r->picked = picked;
        r->cap_entries = entries;
    }
    return !STENO_RESERVE(&r->view, &r->cap_views, asks);
}

/* Lists of the hypotheses that go on: list[0] becomes that of their parents. */
static void inherit(steno_whisper_state *s, const struct steno_whisper_ask *a)
{
    const size_t columns = (size_t)s->m->dims.text_ctx;
    int32_t *swap = s->list[0];
    for (size_t i = 0; i < a->n; i++)
        memcpy(s->list[1] + i * columns, s->list[0] + a->parent[i] * columns,
               s->length * sizeof *swap);
    s->list[0] = s->list[1];
    s->list[1] = swap;
    s->hyps = a->n;
}

/* Rows that no list names, for the n tokens of the step. Hypotheses share most of their past, so
 * there is room for what is used, not for a past of each. */
static bool choose_rows(steno_whisper_state *s, size_t n)
{
    const size_t columns = (size_t)s->m->dims.text_ctx;
    size_t found = 0;
    if (!s->cap && !grow_rows(s, n))
        return false;
    memset(s->used, 0, s->cap * sizeof *s->used);
    for (size_t i = 0; i < s->hyps; i++)
        for (size_t t = 0; t < s->length; t++)
            s->used[s->list[0][i * columns + t]] = true;
    for (size_t at = 0; at < s->cap && found < n; at++)
        if (!s->used[at])
            s->slot[found++] = (int32_t)at;
    if (found == n)
        return true;
    for (size_t at = s->cap; found < n; at++)
        s->slot[found++] = (int32_t)at;
    return grow_rows(s, (size_t)s->slot[n - 1] + 1);
}

static steno_status prepare_whisper_net(struct steno_whisper_ask *a, steno_err *err)
{
    steno_whisper_state *s = a->state;
    const size_t ctx = (size_t)s->m->dims.text_ctx;
    if (!a->parent)
        forget_text(s);
    if (!a->n || s->length + (a->parent ? 1 : a->n) > ctx)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "%zu tokens behind %zu, the decoder has %zu positions",
                          a->parent ? (size_t)1 : a->n, s->length, ctx);
    if (!grow_hyps(s, a->parent ? a->n : 1))
        return no_memory_whisper_net(err);
    if (a->parent)
        inherit(s, a);
    return choose_rows(s, a->n) ? STENO_OK : no_memory_whisper_net(err);
}

/* Embedding and position of each entry. */
static void embed(steno_whisper_runner *r, const struct steno_whisper_ask *a, size_t at)
{
    const size_t d = (size_t)r->m->dims.text_state;
    const struct steno_whisper_tensor *table =
        steno_whisper_weights_find(r->m->weights, "decoder.token_embedding.weight");
    for (size_t i = 0; i < a->n; i++) {
        const float *p = r->m->text_positions + (a->state->length + (a->parent ? 0 : i)) * d;
        float *x = r->x + (at + i) * d;
        steno_whisper_rows(table, (size_t)a->token[i], 1, x);
        for (size_t c = 0; c < d; c++)
            x[c] += p[c];
    }
}

static struct steno_kv_view view_of(const struct steno_whisper_ask *a)
{
    steno_whisper_state *s = a->state;
    const bool pages = s->pages.kernels != NULL;
    for (size_t l = 0; l < s->layers; l++)
        s->view[l] = (struct steno_kv_layer){
            .own = {s->kept[l].own, s->cap, s->length},
            .memory = {pages ? NULL : s->kept[l].memory, s->cap_memory, s->n_memory},
            .pages = pages ? s->kept[l].memory : NULL,
            .is_i8 = s->pages.is_i8};
    return (struct steno_kv_view){.hyps = a->n,
                                  .index = s->list[0],
                                  .index_row = (size_t)s->m->dims.text_ctx,
                                  .layer = s->view,
                                  .n_layers = s->layers,
                                  .is_text = !a->parent};
}

/* Inputs of the run. */
static void fill_whisper_net(steno_whisper_runner *r, struct steno_whisper_ask *ask, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; at += ask[i++].n) {
        const struct steno_whisper_ask *a = &ask[i];
        ask[i].entry = at;
        embed(r, a, at);
        r->view[i] = view_of(a);
    }
    r->bound = (struct steno_kv_binding){r->view, n};
    steno_session_bind_kv(r->step, &r->bound);
}

/* Run a network with one input, x [n, d']. */
static steno_status run_whisper_net(const steno_whisper_runner *r, steno_session *network, float *x,
                                    size_t n, steno_err *err)
{
    const struct steno_tensor t = {
        .dtype = STENO_F32, .shape = {3, {(int64_t)n, 1, r->m->dims.text_state}}, .data = x};
    const steno_status st = steno_session_set(network, 0, &t, err);
    return st ? st : steno_session_run(network, err);
}

/* New keys and values of entries `at` and on into the rows chosen for them, and these into the
 * lists. */
static void keep(steno_whisper_runner *r, const struct steno_whisper_ask *a, size_t at)
{
    steno_whisper_state *s = a->state;
    const size_t d = s->heads * s->size, columns = (size_t)s->m->dims.text_ctx;
    for (size_t l = 0; l < s->layers; l++) {
        const float *fresh = steno_session_get(r->step, r->fresh[l])->data;
        for (size_t i = 0; i < a->n; i++)
            for (size_t h = 0; h < s->heads; h++) {
                const float *k = fresh + (at + i) * 3 * d + d + h * s->size;
                float *to = s->kept[l].own + (h * s->cap + (size_t)s->slot[i]) * 2 * s->size;
                memcpy(to, k, s->size * sizeof *to);
                memcpy(to + s->size, k + d, s->size * sizeof *to);
            }
    }
    for (size_t i = 0; i < a->n; i++)
        s->list[0][a->parent ? i * columns + s->length : i] = s->slot[i];
    s->length += a->parent ? 1 : a->n;
    s->hyps = a->parent ? a->n : 1;
}

static size_t scores_of(const struct steno_whisper_ask *a)
{
    return a->parent ? a->n : a->n_pick;
}

/* The rows of picks [from, from + n) of `a`. */
static void gather_whisper_net(const steno_whisper_runner *r, const struct steno_whisper_ask *a,
                               size_t from, size_t n, float *to)
{
    const size_t d = (size_t)r->m->dims.text_state;
    const float *x = (const float *)steno_session_get(r->step, r->hidden)->data + a->entry * d;
    for (size_t i = from; i < from + n; i++, to += d)
        memcpy(to, x + (a->parent ? i : a->pick[i]) * d, d * sizeof *to);
}

/* Scores that are wanted with the step. */
static steno_status whisper_net_score(steno_whisper_runner *r, struct steno_whisper_ask *ask,
                                      size_t n, steno_err *err)
{
    const float *y;
    size_t rows = 0;
    steno_status st;
    for (size_t i = 0; i < n; i++) {
        if (ask[i].later)
            continue;
        gather_whisper_net(r, &ask[i], 0, scores_of(&ask[i]),
                           r->picked + rows * (size_t)r->m->dims.text_state);
        rows += scores_of(&ask[i]);
    }
    if (!rows)
        return STENO_OK;
    st = run_whisper_net(r, r->scores, r->picked, rows, err);
    if (st)
        return st;
    y = steno_session_get(r->scores, r->logits)->data;
    for (size_t i = 0; i < n; i++) {
        if (ask[i].later)
            continue;
        ask[i].logits = y;
        y += scores_of(&ask[i]) * (size_t)r->m->dims.vocab;
    }
    return STENO_OK;
}

steno_status steno_whisper_scores(steno_whisper_runner *r, const struct steno_whisper_ask *a,
                                  size_t from, size_t n, const float **logits, steno_err *err)
{
    steno_status st;
    gather_whisper_net(r, a, from, n, r->picked);
    st = run_whisper_net(r, r->scores, r->picked, n, err);
    if (!st)
        *logits = steno_session_get(r->scores, r->logits)->data;
    return st;
}

steno_status steno_whisper_step(steno_whisper_runner *r, struct steno_whisper_ask *ask, size_t n,
                                steno_err *err)
{
    const size_t entries = entries_of(ask, n);
    size_t at = 0;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++)
        st = prepare_whisper_net(&ask[i], err);
    if (!st && !grow_inputs(r, entries, n))
        st = no_memory_whisper_net(err);
    if (!st) {
        fill_whisper_net(r, ask, n);
        st = steno_whisper_weights_check(r->m->weights, err);
    }
    if (!st)
        st = run_whisper_net(r, r->step, r->x, entries, err);
    if (!st)
        st = whisper_net_score(r, ask, n, err);
    for (size_t i = 0; i < n; at += ask[i++].n)
        if (st)
            forget_text(ask[i].state);
        else
            keep(r, &ask[i], at);
    return st;
}

/* ---- cross attention ----------------------------------------------------------------------- */

void steno_whisper_cross_scores(const steno_whisper_runner *r, const struct steno_whisper_ask *a,
                                size_t number, size_t keys, float *out)
{
    const steno_whisper_state *s = a->state;
    const struct steno_whisper_head head = s->m->heads[number];
    const size_t d = s->heads * s->size, h = (size_t)head.head;
    const float *q = (const float *)steno_session_get(r->step, r->query[head.layer])->data;
    const float *k = s->pages.kernels
                         ? s->keys + number * s->size * s->cap_memory
                         : (const float *)s->kept[head.layer].memory + h * s->size * s->cap_memory;
    const float scale = 1 / sqrtf((float)s->size);
    memset(out, 0, a->n * keys * sizeof *out);
    for (size_t i = 0; i < a->n; i++)
        for (size_t c = 0; c < s->size; c++)
            s->m->kernels.axpy_f32(out + i * keys, k + c * s->cap_memory, keys,
                                   q[(a->entry + i) * d + h * s->size + c] * scale);
}
