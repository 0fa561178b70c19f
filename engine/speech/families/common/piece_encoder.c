#include "speech/families/common/piece_encoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "speech/families/common/noise.h"
#include "speech/families/common/piece_features.h"
#include "nn/network/run.h"

#define WASTE 0.2    /* most zeros of a run_piece_encoder, relative to its frames */
#define ERROR 1e-3f  /* allowed difference of a frame alone and in a run of two */
#define TRY_FRAMES 4 /* times those of a trial: the test's pieces have a second and more */
#define TRY_PIECES 3 /* of the test: a longer one, and two of one length */

/* A piece whose features are computed. */
struct waiting {
    struct steno_piece p;
    size_t at, n; /* first float of its features in `features`; frames */
    size_t order; /* among pieces of one length */
};

struct steno_piece_runs {
    const struct steno_piece_encoder *e;
    steno_session *session;
    struct waiting wait[STENO_BATCH_MAX];
    size_t n_wait;
    float *features; /* [used] of all waiting pieces */
    size_t used, cap;
    float *x; /* of a run */
    size_t cap_x;
    float *rows; /* of a run_piece_encoder, transposed where dim_first */
    size_t cap_rows;
    int64_t long_lengths[STENO_BATCH_MAX];
    int32_t lengths[STENO_BATCH_MAX];
    int64_t *mask; /* [N, frames] of a run */
    size_t cap_mask;
    int32_t numbers[STENO_PIECE_NUMBERS][STENO_BATCH_MAX];
};

steno_status steno_piece_runs_open(steno_piece_runs **out, const struct steno_piece_encoder *e,
                                   int threads, steno_err *err)
{
    const struct steno_session_options so = {.threads = threads};
    steno_piece_runs *r = calloc(1, sizeof *r);
    steno_status st;
    if (!r)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    r->e = e;
    st = steno_session_open(&r->session, e->net, &so, err);
    if (st)
        steno_piece_runs_close(r);
    else
        *out = r;
    return st;
}

void steno_piece_runs_close(steno_piece_runs *r)
{
    if (!r)
        return;
    steno_session_close(r->session);
    steno_aligned_free(r->features);
    steno_aligned_free(r->x);
    steno_aligned_free(r->rows);
    free(r->mask);
    free(r);
}

/* ---- the input ------------------------------------------------------------------------------- */

/* y [columns, stride], of which `rows` columns are written, = x [rows, columns] transposed. */
static void transpose(const float *x, size_t rows, size_t columns, float *y, size_t stride)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            y[k * stride + i] = x[i * columns + k];
}

/* Put n frames as piece i of a run of `longest` frames. */
static void put_piece_encoder(steno_piece_runs *r, size_t i, const float *frames, size_t n,
                              size_t longest)
{
    const size_t bins = r->e->bins;
    float *x = r->x + i * longest * bins;
    r->long_lengths[i] = (int64_t)n;
    r->lengths[i] = (int32_t)n;
    if (n < longest && r->e->bins_first)
        memset(x, 0, longest * bins * sizeof *x);
    if (r->e->bins_first) {
        transpose(frames, n, bins, x, longest);
        return;
    }
    memcpy(x, frames, n * bins * sizeof *x);
    memset(x + n * bins, 0, (longest - n) * bins * sizeof *x);
}

static void set_mask(steno_piece_runs *r, size_t size, size_t frames, struct steno_run *run)
{
    const int64_t dim[] = {(int64_t)size, (int64_t)frames};
    if (STENO_RESERVE(&r->mask, &r->cap_mask, size * frames)) {
        run->st = steno_fail(run->err, STENO_ERR_NOMEM, "stream: out of memory");
        return;
    }
    for (size_t i = 0; i < size; i++)
        for (size_t t = 0; t < frames; t++)
            r->mask[i * frames + t] = (int64_t)t < r->long_lengths[i];
    steno_run_set(run, r->e->length, STENO_I64, dim, 2, r->mask);
}

static void set_lengths(steno_piece_runs *r, size_t size, size_t frames, struct steno_run *run)
{
    const struct steno_value *v = steno_network_input(r->e->net, r->e->length);
    const int64_t n = (int64_t)size;
    if (v->shape.rank == 2)
        set_mask(r, size, frames, run);
    else
        steno_run_set(run, r->e->length, v->dtype, &n, 1,
                      v->dtype == STENO_I64 ? (const void *)r->long_lengths
                                            : (const void *)r->lengths);
}

static steno_status run_network(steno_piece_runs *r, size_t size, size_t frames, steno_err *err)
{
    const struct steno_piece_encoder *e = r->e;
    const int64_t n = (int64_t)size;
    const int64_t bins = (int64_t)e->bins, t = (int64_t)frames;
    const int64_t dim[] = {n, e->bins_first ? bins : t, e->bins_first ? t : bins};
    struct steno_run run = steno_run_begin(r->session, e->name, err);
    steno_run_set(&run, e->x, STENO_F32, dim, 3, r->x);
    if (e->length >= 0)
        set_lengths(r, size, frames, &run);
    for (int k = 0; k < e->n_numbers; k++)
        steno_run_set(&run, e->numbers[k], STENO_I32, &n, 1, r->numbers[k]);
    return steno_run_end(&run);
}

/* ---- the output ------------------------------------------------------------------------------ */

static steno_status check_output(const steno_piece_runs *r, size_t size, steno_err *err)
{
    const struct steno_piece_encoder *e = r->e;
    const struct steno_tensor *y = steno_session_get(r->session, e->y);
    char shape[96];
    if (y && y->dtype == STENO_F32 && y->shape.rank == 3 &&
        (size_t)y->shape.dim[e->frames_first] == size &&
        (size_t)y->shape.dim[e->dim_first ? 1 : 2] == e->dim)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: an output of %s%s, expected %zu x frames of %zu",
                      e->name, y ? steno_dtype_name(y->dtype) : "no type",
                      y ? steno_shape_str(&y->shape, shape, sizeof shape) : "", size, e->dim);
}

/* Ones of row i of a mask [size, frames]; frames if it is none. */
static int64_t count_ones(const struct steno_tensor *t, size_t i, size_t frames)
{
    int64_t n = 0;
    for (size_t k = i * frames; k < (i + 1) * frames; k++)
        n += t->dtype == STENO_I64 ? ((const int64_t *)t->data)[k] != 0
                                   : ((const uint8_t *)t->data)[k] != 0;
    return n;
}

/* Encoder frames of piece i of a run of `size`, at most `frames`. */
static size_t count_rows(const steno_piece_runs *r, size_t i, size_t size, size_t frames)
{
    const struct steno_piece_encoder *e = r->e;
    int64_t n = (int64_t)frames;
    if (e->lengths >= 0) {
        const struct steno_tensor *t = steno_session_get(r->session, e->lengths);
        if (t->shape.rank < 2 && steno_numel(t) == size && t->dtype == STENO_I64)
            n = ((const int64_t *)t->data)[i];
        else if (t->shape.rank < 2 && steno_numel(t) == size && t->dtype == STENO_I32)
            n = ((const int32_t *)t->data)[i];
        else if (t->shape.rank == 2 && steno_numel(t) == size * frames &&
                 (t->dtype == STENO_I64 || t->dtype == STENO_BOOL))
            n = count_ones(t, i, frames);
    } else if (e->ahead >= 0) {
        n = r->long_lengths[i] + e->ahead;
    } else if (e->every > 0 && size > 1) { /* alone all frames are the piece's */
        n = (r->long_lengths[i] + e->every - 1) / e->every;
    }
    return n < 0 ? 0 : (size_t)n < frames ? (size_t)n : frames;
}

/* Set rows and n of the pieces of a run. */
static steno_status take_rows(steno_piece_runs *r, struct steno_piece *p, size_t size,
                              steno_err *err)
{
    const struct steno_piece_encoder *e = r->e;
    const struct steno_tensor *y = steno_session_get(r->session, e->y);
    const size_t frames = (size_t)y->shape.dim[e->dim_first      ? 2
                                               : e->frames_first ? 0
                                                                 : 1],
                 each = frames * e->dim;
    const float *data = y->data;
    if (e->dim_first && !steno_floats_reserve(&r->rows, &r->cap_rows, size * each))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    for (size_t i = 0; i < size; i++) {
        p[i].n = count_rows(r, i, size, frames);
        p[i].rows = e->dim_first ? r->rows + i * each : data + i * each;
        if (e->dim_first)
            transpose(data + i * each, e->dim, frames, r->rows + i * each, e->dim);
    }
    return STENO_OK;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Run n waiting pieces, the longest first. */
static steno_status run_piece_encoder(steno_piece_runs *r, const struct waiting *w, size_t n,
                                      struct steno_piece *p, steno_err *err)
{
    const size_t longest = w[0].n;
    steno_status st;
    for (size_t i = 0; i < n; i++)
        p[i] = w[i].p;
    if (!steno_floats_reserve(&r->x, &r->cap_x, n * longest * r->e->bins))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    for (size_t i = 0; i < n; i++) {
        put_piece_encoder(r, i, r->features + w[i].at, w[i].n, longest);
        for (int k = 0; k < r->e->n_numbers; k++)
            r->numbers[k][i] = w[i].p.numbers[k];
    }
    st = run_network(r, n, longest, err);
    if (!st)
        st = check_output(r, n, err);
    return st ? st : take_rows(r, p, n, err);
}

static steno_status add_piece_encoder(steno_piece_runs *r, const struct steno_piece *p,
                                      const float *x, size_t n)
{
    const size_t floats = n * r->e->bins;
    if (!steno_floats_extend(&r->features, &r->cap, r->used + floats, r->used))
        return steno_fail(p->of->err, STENO_ERR_NOMEM, "stream: out of memory");
    memcpy(r->features + r->used, x, floats * sizeof *x);
    r->wait[r->n_wait] = (struct waiting){.p = *p, .at = r->used, .n = n, .order = r->n_wait};
    r->n_wait++;
    r->used += floats;
    return STENO_OK;
}

static int longest_first(const void *a, const void *b)
{
    const struct waiting *x = a, *y = b;
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* How many of the n sorted pieces the next run takes. */
static size_t next_run(const steno_piece_runs *r, const struct waiting *w, size_t n)
{
    size_t k = 1, sum = w[0].n;
    while (r->e->batches && k < n && (r->e->pads || w[k].n == w[0].n) &&
           (double)(sum + w[k].n) >= (1 - WASTE) * (double)((k + 1) * w[0].n))
        sum += w[k++].n;
    return k;
}

static void fail_pieces(const struct steno_piece *p, size_t n, steno_status st,
                        const steno_err *why)
{
    for (size_t i = 0; i < n; i++) {
        p[i].of->st = st;
        if (p[i].of->err)
            *p[i].of->err = *why;
    }
}

static void collect(steno_piece_runs *r, const struct steno_piece_functions *f, void *worker,
                    struct steno_offline_piece *p, size_t n)
{
    r->n_wait = r->used = 0;
    for (size_t i = 0; i < n; i++) {
        struct steno_piece one = {.of = &p[i]};
        float *x = NULL;
        size_t frames = 0;
        p[i].st = f->features(worker, &one, &x, &frames);
        if (p[i].st)
            continue;
        if (frames < r->e->least)
            f->search(worker, &one, 1);
        else
            p[i].st = add_piece_encoder(r, &one, x, frames);
    }
    qsort(r->wait, r->n_wait, sizeof *r->wait, longest_first);
}

void steno_piece_runs_recognize(steno_piece_runs *r, const struct steno_piece_functions *f,
                                void *worker, struct steno_offline_piece *p, size_t n)
{
    struct steno_piece of_run[STENO_BATCH_MAX];
    collect(r, f, worker, p, n);
    for (size_t at = 0, k; at < r->n_wait; at += k) {
        steno_err why = {0};
        steno_status st;
        k = next_run(r, r->wait + at, r->n_wait - at);
        st = run_piece_encoder(r, r->wait + at, k, of_run, &why);
        if (st)
            fail_pieces(of_run, k, st, &why);
        else
            f->search(worker, of_run, k);
    }
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* Let pieces of noise wait instead of a step's. */
static steno_status add_noise(steno_piece_runs *r, size_t n, uint32_t seed, steno_err *err)
{
    struct steno_offline_piece of = {.err = err};
    float *noise = malloc(n * r->e->bins * sizeof *noise);
    steno_status st = noise ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st) {
        steno_noise_fill(noise, n * r->e->bins, seed);
        st = add_piece_encoder(r, &(struct steno_piece){.of = &of}, noise, n);
    }
    free(noise);
    return st;
}

static bool agree(const struct steno_piece *p, const float *alone, size_t n, size_t dim, bool exact)
{
    if (p->n != n)
        return false;
    for (size_t i = 0; i < n * dim; i++) {
        const float error = exact ? 0 : ERROR * (1 + fabsf(alone[i]));
        if (!(fabsf(p->rows[i] - alone[i]) <= error) &&
            memcmp(&p->rows[i], &alone[i], sizeof *alone) != 0)
            return false;
    }
    return true;
}

/* The frames of a piece alone. */
struct alone {
    float *rows; /* the caller frees them */
    size_t n;
};

static steno_status run_alone(steno_piece_runs *r, const struct waiting *w, struct alone *out,
                              steno_err *err)
{
    struct steno_piece p;
    steno_status st = run_piece_encoder(r, w, 1, &p, err);
    if (st)
        return st;
    out->n = p.n;
    out->rows = malloc((p.n * r->e->dim + 1) * sizeof *out->rows);
    if (!out->rows)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (p.n)
        memcpy(out->rows, p.rows, p.n * r->e->dim * sizeof *p.rows);
    return STENO_OK;
}

/* Whether two waiting pieces have the same frames in one run as alone. */
static bool same_together(steno_piece_runs *r, const struct waiting *w, const struct alone *a,
                          bool exact)
{
    struct steno_piece p[2];
    return !run_piece_encoder(r, w, 2, p, NULL) &&
           agree(&p[0], a[0].rows, a[0].n, r->e->dim, exact) &&
           agree(&p[1], a[1].rows, a[1].n, r->e->dim, exact);
}

steno_status steno_piece_encoder_try(struct steno_piece_encoder *e, int threads, bool exact,
                                     steno_err *err)
{
    const size_t shorter = TRY_FRAMES * e->trial_frames, longer = shorter + shorter / 2 + 1;
    const size_t frames[TRY_PIECES] = {longer, shorter, shorter};
    struct alone alone[TRY_PIECES] = {{NULL}};
    steno_piece_runs *r = NULL;
    steno_status st = steno_piece_runs_open(&r, e, threads, err);
    e->batches = e->pads = false;
    for (uint32_t i = 0; i < TRY_PIECES && !st; i++) {
        st = add_noise(r, frames[i], i, err);
        if (!st)
            st = run_alone(r, &r->wait[i], &alone[i], err);
        if (!st && e->every > 0 &&
            alone[i].n != (frames[i] + (size_t)e->every - 1) / (size_t)e->every)
            e->every = 0;
    }
    if (!st && e->length >= 0 && steno_network_input(e->net, e->x)->shape.dim[0] < 0) {
        e->batches = same_together(r, r->wait + 1, alone + 1, exact);
        e->pads = e->batches && (e->lengths >= 0 || e->ahead >= 0 || e->every > 0) &&
                  same_together(r, r->wait, alone, exact);
    }
    for (int i = 0; i < TRY_PIECES; i++)
        free(alone[i].rows);
    steno_piece_runs_close(r);
    return st;
}

steno_status steno_piece_trial_open(void **trial, steno_piece_runs *r, steno_err *err)
{
    steno_status st = STENO_OK;
    *trial = NULL;
    if (!r->e->batches)
        return STENO_OK;
    r->n_wait = r->used = 0;
    for (uint32_t i = 0; i < STENO_BATCH_MAX && !st; i++)
        st = add_noise(r, r->e->trial_frames, i, err);
    if (!st)
        *trial = r;
    return st;
}

steno_status steno_piece_trial_run(void *trial, int size, steno_err *err)
{
    steno_piece_runs *r = trial;
    struct steno_piece p[STENO_BATCH_MAX];
    return run_piece_encoder(r, r->wait, (size_t)size, p, err);
}

void steno_piece_trial_close(void *trial)
{
    (void)trial; /* the worker's runs */
}
