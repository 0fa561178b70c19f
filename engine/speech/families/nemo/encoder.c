/* Steps of a streaming encoder. All caches have the streams as their first dimension, so a stream's
 * share of each is one block; the outputs are in the order of the inputs.
 *
 * Parakeet unified has no caches: each window is encoded whole, and the frames of its chunk are
 * taken. As in NeMo, a window has no more frames before its chunk than the recording, and is
 * normalised by itself; sherpa-onnx puts zeros there, which count in the statistics. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "speech/families/common/noise.h"
#include "speech/families/common/scores.h"
#include "speech/families/nemo/internal.h"

/* Allowed difference of an encoder frame x alone and in a batch, relative to 1 + |x|. */
#define BATCH_ERROR 1e-4f

enum { CHANNEL, TIME, CHANNEL_LEN, CACHES };

static const char *const names[CACHES] = {"cache_last_channel", "cache_last_time",
                                          "cache_last_channel_len"};
static const char *const nexts[CACHES] = {"cache_last_channel_next", "cache_last_time_next",
                                          "cache_last_channel_next_len"};

struct cache {
    int in, out;
    struct steno_tensor one; /* type and shape with one stream; no elements */
    size_t bytes, offset;    /* of one stream's share, and its place in the stream's caches */
};

struct steno_nemo_encoder {
    const struct steno_nemo_model *m;
    steno_session *session;
    struct cache cache[CACHES];
    int max;
    float *x;         /* [max, bins, window] */
    float *windows;   /* buffered: [max, window, bins], as they came; and one to normalise */
    int64_t *lengths; /* [max] */
    int64_t prompts[STENO_BATCH_MAX];
    char *caches;  /* shares of max streams, cache by cache */
    float *rows;   /* [max, frames, dim] */
    size_t stride; /* bytes of one stream's caches */
};

static size_t frames_of(const struct steno_nemo_model *m)
{
    return (size_t)(m->conf.shift / m->conf.subsampling);
}

static size_t window_of(const struct steno_nemo_model *m)
{
    return (size_t)(m->conf.window * m->conf.bins);
}

static steno_status bind_nemo_encoder(steno_nemo_encoder *e, steno_err *err)
{
    const struct steno_nemo_conf *c = &e->m->conf;
    const struct steno_shape shapes[CACHES] = {
        {.rank = 4, .dim = {1, c->channel[0], c->channel[1], c->channel[2]}},
        {.rank = 4, .dim = {1, c->time[0], c->time[1], c->time[2]}},
        {.rank = 1, .dim = {1}}};
    e->stride = 0;
    for (int k = 0; k < CACHES && !c->buffered; k++) {
        struct cache *a = &e->cache[k];
        a->in = steno_network_find_input(e->m->encoder, names[k]);
        a->out = steno_network_find_output(e->m->encoder, nexts[k]);
        if (a->in < 0 || a->out < 0)
            return steno_fail(err, STENO_ERR_FORMAT, "%s/%s: expected an input %s and an output %s",
                              c->dir, c->encoder, names[k], nexts[k]);
        a->one = (struct steno_tensor){.dtype = k == CHANNEL_LEN ? STENO_I64 : STENO_F32,
                                       .shape = shapes[k]};
        a->offset = e->stride;
        if (steno_shape_bytes(&a->one.shape, a->one.dtype, &a->bytes) ||
            !steno_add_size(e->stride, steno_aligned(a->bytes), &e->stride) ||
            e->stride > ((size_t)256 << 20))
            return steno_fail(err, STENO_ERR_LIMIT, "%s/%s: %s takes more than 256 MiB", c->dir,
                              c->encoder, names[k]);
    }
    return STENO_OK;
}

static steno_status allocate(steno_nemo_encoder *e, steno_err *err)
{
    const struct steno_nemo_model *m = e->m;
    const size_t max = (size_t)e->max;
    e->x = steno_aligned_zeroed(max * window_of(m) * sizeof *e->x);
    e->caches = steno_aligned_zeroed(max * e->stride);
    e->rows = steno_aligned_zeroed(max * frames_of(m) * m->dim * sizeof *e->rows);
    if (m->conf.buffered)
        e->windows = steno_aligned_zeroed((max + 1) * window_of(m) * sizeof *e->windows);
    e->lengths = steno_aligned_zeroed(max * sizeof *e->lengths);
    if (!e->x || !e->caches || !e->rows || !e->lengths || (m->conf.buffered && !e->windows))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a batch of the encoder");
    for (size_t i = 0; i < max; i++)
        e->lengths[i] = m->conf.window;
    return STENO_OK;
}

steno_status steno_nemo_encoder_open(steno_nemo_encoder **out, const struct steno_nemo_model *m,
                                     int max, steno_err *err)
{
    const struct steno_session_options so = {.threads = m->base.threads};
    steno_nemo_encoder *e = calloc(1, sizeof *e);
    steno_status st;
    if (!e)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    e->m = m;
    e->max = m->alone ? 1 : max;
    st = bind_nemo_encoder(e, err);
    if (!st)
        st = allocate(e, err);
    if (!st)
        st = steno_session_open(&e->session, m->encoder, &so, err);
    if (st)
        steno_nemo_encoder_close(e);
    else
        *out = e;
    return st;
}

void steno_nemo_encoder_close(steno_nemo_encoder *e)
{
    if (!e)
        return;
    steno_session_close(e->session);
    steno_aligned_free(e->x);
    steno_aligned_free(e->windows);
    steno_aligned_free(e->lengths);
    steno_aligned_free(e->caches);
    steno_aligned_free(e->rows);
    free(e);
}

/* [frames, bins] to [bins, frames]. */
static void turn_window(const float *window, size_t frames, size_t bins, float *x)
{
    for (size_t t = 0; t < frames; t++)
        for (size_t b = 0; b < bins; b++)
            x[b * frames + t] = window[t * bins + b];
}

void steno_nemo_encoder_put(steno_nemo_encoder *e, int i, const float *window)
{
    const size_t each = window_of(e->m);
    if (e->m->conf.buffered)
        memcpy(e->windows + (size_t)i * each, window, each * sizeof *window);
    else
        turn_window(window, (size_t)e->m->conf.window, (size_t)e->m->conf.bins,
                    e->x + (size_t)i * each);
}

static struct steno_tensor tensor_of(const struct cache *a, int size, void *data)
{
    struct steno_tensor t = a->one;
    t.shape.dim[0] = size;
    t.data = data;
    return t;
}

static steno_status run_batch(steno_nemo_encoder *e, struct steno_nemo_caches *const *c, int n,
                              int size, steno_err *err)
{
    const struct steno_nemo_model *m = e->m;
    const int64_t x[] = {size, m->conf.bins, m->conf.window};
    struct steno_run r = steno_run_begin(e->session, m->conf.encoder, err);
    for (int i = 0; i < size; i++)
        e->prompts[i] = c[i < n ? i : 0]->prompt;
    steno_run_set(&r, m->audio, STENO_F32, x, 3, e->x);
    steno_run_set(&r, m->length, STENO_I64, x, 1, e->lengths);
    steno_run_set(&r, m->prompt, STENO_I64, x, 1, e->prompts);
    for (int k = 0; k < CACHES; k++) {
        const struct cache *a = &e->cache[k];
        char *at = e->caches + a->offset * (size_t)e->max;
        const struct steno_tensor t = tensor_of(a, size, at);
        for (int i = 0; i < n; i++, at += a->bytes)
            if (c[i]->fresh)
                memset(at, 0, a->bytes);
            else
                memcpy(at, c[i]->data + a->offset, a->bytes);
        steno_run_set_tensor(&r, a->in, &t);
    }
    return steno_run_end(&r);
}

/* Check all outputs before the caches change. */
static steno_status check_outputs(const steno_nemo_encoder *e, int size, steno_err *err)
{
    const struct steno_nemo_model *m = e->m;
    const struct steno_tensor *y = steno_session_get(e->session, m->scores);
    const int frames_at = steno_nemo_is_transducer(m) ? 2 : 1;
    char got[96], want[96];
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[0] != size ||
        (size_t)y->shape.dim[frames_at] != frames_of(m) ||
        (size_t)y->shape.dim[3 - frames_at] != m->dim)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: an output of %s, expected %d x %zu frames of %zu", m->conf.encoder,
                          steno_shape_str(&y->shape, got, sizeof got), size, frames_of(m), m->dim);
    for (int k = 0; k < CACHES; k++) {
        const struct steno_tensor *t = steno_session_get(e->session, e->cache[k].out);
        const struct steno_tensor expected = tensor_of(&e->cache[k], size, NULL);
        if (t->dtype != expected.dtype || !steno_shape_equal(&t->shape, &expected.shape))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: %s is %s, expected %s as in the metadata",
                              m->conf.encoder, nexts[k],
                              steno_shape_str(&t->shape, got, sizeof got),
                              steno_shape_str(&expected.shape, want, sizeof want));
    }
    return STENO_OK;
}

static void store_caches(steno_nemo_encoder *e, struct steno_nemo_caches *const *c, int n)
{
    for (int k = 0; k < CACHES; k++) {
        const struct cache *a = &e->cache[k];
        const char *from = steno_session_get(e->session, a->out)->data;
        for (int i = 0; i < n; i++, from += a->bytes)
            memcpy(c[i]->data + a->offset, from, a->bytes);
    }
    for (int i = 0; i < n; i++)
        c[i]->fresh = false;
}

/* A transducer's output has the frames last. */
static const float *take_rows(steno_nemo_encoder *e, int n)
{
    const size_t frames = frames_of(e->m), dim = e->m->dim;
    const float *y = steno_session_get(e->session, e->m->scores)->data;
    if (!steno_nemo_is_transducer(e->m))
        return y;
    for (size_t i = 0; i < (size_t)n; i++)
        for (size_t t = 0; t < frames; t++)
            for (size_t d = 0; d < dim; d++)
                e->rows[(i * frames + t) * dim + d] = y[(i * dim + d) * frames + t];
    return e->rows;
}

/* ---- windows that overlap -------------------------------------------------------------------- */

/* Frames of a window that are used: zeros before a recording are none of it. */
static size_t used_frames(const struct steno_nemo_model *m, int64_t past)
{
    return (size_t)(m->sherpa ? m->conf.window : m->conf.window - m->conf.past + past);
}

static void fill_window(steno_nemo_encoder *e, int i, size_t used, float *x)
{
    const struct steno_nemo_model *m = e->m;
    const size_t bins = (size_t)m->conf.bins, each = window_of(m);
    float *copy = e->windows + (size_t)e->max * each;
    memcpy(copy, e->windows + (size_t)(i + 1) * each - used * bins, used * bins * sizeof *copy);
    if (m->conf.per_feature)
        steno_cmvn_utterance(copy, used, bins, &m->norm);
    turn_window(copy, used, bins, x);
}

static steno_status run_windows(steno_nemo_encoder *e, int64_t used, int n, steno_err *err)
{
    const struct steno_nemo_model *m = e->m;
    const int64_t x[] = {n, m->conf.bins, used};
    struct steno_run r = steno_run_begin(e->session, m->conf.encoder, err);
    const struct steno_tensor *y;
    steno_status st;
    char got[96];
    for (int i = 0; i < n; i++)
        e->lengths[i] = used;
    steno_run_set(&r, m->audio, STENO_F32, x, 3, e->x);
    steno_run_set(&r, m->length, STENO_I64, x, 1, e->lengths);
    st = steno_run_end(&r);
    if (st)
        return st;
    y = steno_session_get(e->session, m->scores);
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[0] != n ||
        (size_t)y->shape.dim[1] != m->dim || y->shape.dim[2] != used / m->conf.subsampling)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: an output of %s, expected %d x %zu x %lld frames", m->conf.encoder,
                          steno_shape_str(&y->shape, got, sizeof got), n, m->dim,
                          (long long)(used / m->conf.subsampling));
    return STENO_OK;
}

/* Rows of the chunk of stream i, out of place k of a run over `used` frames. */
static void take_chunk(steno_nemo_encoder *e, int i, int k, size_t used)
{
    const struct steno_nemo_model *m = e->m;
    const size_t frames = frames_of(m), dim = m->dim, all = used / (size_t)m->conf.subsampling;
    const size_t first = all - (size_t)((m->conf.window - m->conf.past) / m->conf.subsampling);
    const float *y = (const float *)steno_session_get(e->session, m->scores)->data;
    for (size_t t = 0; t < frames; t++)
        for (size_t d = 0; d < dim; d++)
            e->rows[((size_t)i * frames + t) * dim + d] =
                y[((size_t)k * dim + d) * all + first + t];
}

void steno_nemo_encoder_pass(const struct steno_nemo_model *m, struct steno_nemo_caches *c)
{
    c->past = c->fresh ? m->conf.shift : c->past + m->conf.shift;
    c->past = c->past < m->conf.past ? c->past : m->conf.past;
    c->fresh = c->fresh && !m->conf.buffered;
}

/* Streams whose windows have as many frames share a run. */
static steno_status step_windows(steno_nemo_encoder *e, struct steno_nemo_caches *const *c, int n,
                                 const float **rows, steno_err *err)
{
    const struct steno_nemo_model *m = e->m;
    size_t used[STENO_BATCH_MAX];
    int of[STENO_BATCH_MAX];
    for (int i = 0; i < n; i++)
        used[i] = used_frames(m, c[i]->fresh ? 0 : c[i]->past);
    for (int i = 0; i < n; i++) {
        const size_t frames = used[i];
        int k = 0;
        steno_status st;
        for (int j = i; j < n && frames; j++) {
            if (used[j] != frames)
                continue;
            fill_window(e, j, frames, e->x + (size_t)k * frames * (size_t)m->conf.bins);
            of[k++] = j;
            used[j] = 0;
        }
        st = k ? run_windows(e, (int64_t)frames, k, err) : STENO_OK;
        if (st)
            return st;
        while (k-- > 0)
            take_chunk(e, of[k], k, frames);
    }
    for (int i = 0; i < n; i++)
        steno_nemo_encoder_pass(m, c[i]);
    *rows = e->rows;
    return STENO_OK;
}

steno_status steno_nemo_encoder_step(steno_nemo_encoder *e, struct steno_nemo_caches *const *c,
                                     int n, int size, const float **rows, steno_err *err)
{
    steno_status st;
    if (e->m->conf.buffered)
        return step_windows(e, c, n, rows, err);
    for (int i = 0; i < n; i++)
        if (!c[i]->data && !(c[i]->data = steno_aligned_zeroed(e->stride)))
            return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    st = run_batch(e, c, n, size, err);
    if (!st)
        st = check_outputs(e, size, err);
    if (st)
        return st;
    store_caches(e, c, n);
    *rows = take_rows(e, n);
    return STENO_OK;
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* Run a step of two streams that begin, alone or together, on noise. rows: [2, frames, dim]. */
static steno_status run_two(steno_nemo_encoder *e, bool together, float *rows, steno_err *err)
{
    const size_t each = frames_of(e->m) * e->m->dim;
    const int size = together ? 2 : 1;
    struct steno_nemo_caches caches[2] = {{.fresh = true}, {.fresh = true}},
                             *c[2] = {&caches[0], &caches[1]};
    float *noise = malloc(window_of(e->m) * sizeof *noise);
    const float *y;
    steno_status st = noise ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; i < 2 && !st; i += size) {
        for (int k = 0; k < size; k++) {
            steno_noise_fill(noise, window_of(e->m), (uint32_t)(i + k));
            steno_nemo_encoder_put(e, k, noise);
        }
        st = steno_nemo_encoder_step(e, c + i, size, size, &y, err);
        if (!st)
            memcpy(rows + (size_t)i * each, y, (size_t)size * each * sizeof *y);
    }
    for (int i = 0; i < 2; i++)
        steno_aligned_free(caches[i].data);
    free(noise);
    return st;
}

/* A network in 8 bits may round activations over the range of a whole batch: then streams run
 * alone.
 */
static steno_status try_batch(struct steno_nemo_model *m, steno_err *err)
{
    const size_t n = 2 * frames_of(m) * m->dim;
    float *rows = malloc(2 * n * sizeof *rows);
    steno_nemo_encoder *e = NULL;
    steno_status st = rows ? steno_nemo_encoder_open(&e, m, 2, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = run_two(e, false, rows, err);
    if (!st)
        m->alone = run_two(e, true, rows + n, NULL) != STENO_OK;
    for (size_t i = 0; i < n && !st && !m->alone; i++)
        m->alone = !(fabsf(rows[i] - rows[n + i]) <= BATCH_ERROR * (1 + fabsf(rows[i])));
    steno_nemo_encoder_close(e);
    free(rows);
    return st;
}

steno_status steno_nemo_encoder_try(struct steno_nemo_model *m, steno_err *err)
{
    struct steno_nemo_caches caches = {.fresh = true, .prompt = m->prompts.automatic}, *c = &caches;
    steno_nemo_encoder *e = NULL;
    const float *rows;
    steno_status st = steno_nemo_encoder_open(&e, m, 1, err);
    for (int i = 0; i < 2 && !st; i++) { /* the second step reads the caches of the first */
        st = steno_nemo_encoder_step(e, &c, 1, 1, &rows, err);
        caches.prompt = m->prompts.highest;
    }
    if (!st)
        m->cache_bytes = e->stride;
    steno_nemo_encoder_close(e);
    steno_aligned_free(caches.data);
    if (!st && m->conf.quantized && !m->alone)
        st = try_batch(m, err);
    return st ? steno_fail_in(err, st, "%s", m->conf.dir) : STENO_OK;
}
