/* Steps of an encoder for several streams at once. One pass over the weights then serves all of
 * them, and the matrix products have enough rows to reach the speed of the multipliers.
 *
 * Each stream keeps all its states in one block of memory. A batch gathers them into the inputs,
 * state by state in the order of the streams, and scatters the outputs back. A batch of one reads
 * the stream's memory in place. docs/pool.md says what the copies cost. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "speech/families/common/cached_encoder.h"

struct steno_cached_encoder_batch {
    const struct steno_cached_encoder *e;
    steno_session *session;
    int max;
    size_t window_bytes;
    char *x;        /* [max, window, bins] f32 */
    char *states;   /* shares of max streams, state by state */
    int32_t *whole; /* [max, window, bins]: x where the network takes whole numbers; or NULL */
    char *begin;    /* [state_bytes]: states of a recording that begins */
    void **rows;    /* [n_states, max]: memory of states that the network changes in place */
    bool *in_place; /* [n_states] */
};

void steno_cached_encoder_state_free(struct steno_cached_encoder_state *s)
{
    steno_aligned_free(s->data);
    s->data = NULL;
}

static steno_status no_memory_cached_encoder_batch(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a batch of the encoder");
}

/* Zeroed, because a run reads the whole batch, also the places that no stream filled. */
static char *zeroed(size_t count, size_t size)
{
    size_t bytes;
    return steno_mul_size(count, size, &bytes) ? steno_aligned_zeroed(bytes) : NULL;
}

static steno_status open_session(steno_cached_encoder_batch *b, int threads, steno_err *err)
{
    const struct steno_cached_encoder *e = b->e;
    size_t states = (size_t)e->n_states + 1;
    steno_status st = steno_session_open(&b->session, e->net,
                                         &(struct steno_session_options){.threads = threads}, err);
    if (st)
        return st;
    b->rows = calloc(states * (size_t)b->max, sizeof *b->rows);
    b->in_place = calloc(states, sizeof *b->in_place);
    if (!b->rows || !b->in_place)
        return no_memory_cached_encoder_batch(err);
    for (int k = 0; k < e->n_states; k++)
        b->in_place[k] = e->states[k].axis == 0 && e->states[k].out >= 0 &&
                         steno_session_in_place(b->session, e->states[k].in) == e->states[k].out;
    return STENO_OK;
}

steno_status steno_cached_encoder_batch_open(steno_cached_encoder_batch **out,
                                             const struct steno_cached_encoder *e, int max,
                                             int threads, steno_err *err)
{
    steno_cached_encoder_batch *b = calloc(1, sizeof *b);
    steno_status st;
    if (!b)
        return no_memory_cached_encoder_batch(err);
    b->e = e;
    b->max = e->batches ? max : 1;
    b->window_bytes = steno_cached_encoder_window(e) * sizeof(float);
    b->x = zeroed((size_t)b->max, b->window_bytes);
    b->begin = zeroed(1, e->state_bytes);
    b->states = b->max > 1 ? zeroed((size_t)b->max, e->state_bytes) : b->begin;
    if (steno_network_input(e->net, e->x)->dtype == STENO_I32)
        b->whole = calloc((size_t)b->max, b->window_bytes);
    if (b->begin && e->begin)
        memcpy(b->begin, e->begin, e->state_bytes);
    if (b->x && b->begin && b->states &&
        (b->whole || steno_network_input(e->net, e->x)->dtype != STENO_I32))
        st = open_session(b, threads, err);
    else
        st = no_memory_cached_encoder_batch(err);
    if (st) {
        steno_cached_encoder_batch_close(b);
        return st;
    }
    *out = b;
    return STENO_OK;
}

void steno_cached_encoder_batch_close(steno_cached_encoder_batch *b)
{
    if (!b)
        return;
    steno_session_close(b->session);
    if (b->states != b->begin)
        steno_aligned_free(b->states);
    steno_aligned_free(b->begin);
    steno_aligned_free(b->x);
    free(b->whole);
    free(b->rows);
    free(b->in_place);
    free(b);
}

const struct steno_cached_encoder *
steno_cached_encoder_batch_encoder(const steno_cached_encoder_batch *b)
{
    return b->e;
}

int steno_cached_encoder_batch_max(const steno_cached_encoder_batch *b)
{
    return b->max;
}

float *steno_cached_encoder_batch_x(steno_cached_encoder_batch *b, int i)
{
    return (float *)(void *)(b->x + (size_t)i * b->window_bytes);
}

/* ---- states -------------------------------------------------------------------------------- */

static struct steno_tensor tensor_of(const struct steno_cached_encoder_slot *s, int size,
                                     char *data)
{
    struct steno_tensor t = s->one;
    if (s->axis >= 0)
        t.shape.dim[s->axis] = size;
    t.data = data;
    return t;
}

/* Copy stream i's share of a state from its own memory into a batch of `size`, or back. */
static void gather_cached_encoder_batch(const struct steno_cached_encoder_slot *s, char *batch,
                                        int size, int i, const char *own)
{
    for (size_t k = 0; k < s->blocks; k++)
        memcpy(batch + (k * (size_t)size + (size_t)i) * s->block, own + k * s->block, s->block);
}

static void scatter(const struct steno_cached_encoder_slot *s, const char *batch, int size, int i,
                    char *own)
{
    for (size_t k = 0; k < s->blocks; k++)
        memcpy(own + k * s->block, batch + (k * (size_t)size + (size_t)i) * s->block, s->block);
}

/* Give the session state k in each stream's own memory. Places of the batch without a stream get
 * memory of the batch. */
static steno_status set_rows(steno_cached_encoder_batch *b, int k,
                             struct steno_cached_encoder_state *const *s, int n, int size,
                             steno_err *err)
{
    const struct steno_cached_encoder_slot *d = &b->e->states[k];
    void **row = b->rows + (size_t)k * (size_t)b->max;
    struct steno_tensor t = tensor_of(d, size, NULL);
    for (int i = 0; i < size; i++)
        row[i] = i < n ? s[i]->data + d->offset
                       : b->states + d->offset * (size_t)b->max + (size_t)i * d->block;
    for (int i = 0; i < n; i++)
        if (s[i]->fresh)
            memcpy(row[i], b->begin + d->offset, d->bytes);
    return steno_session_set_rows(b->session, d->in, &t, row, err);
}

static steno_status set_states_cached_encoder_batch(steno_cached_encoder_batch *b,
                                                    struct steno_cached_encoder_state *const *s,
                                                    int n, int size, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int k = 0; k < b->e->n_states && !st; k++) {
        const struct steno_cached_encoder_slot *d = &b->e->states[k];
        char *at = b->states + d->offset * (size_t)b->max;
        struct steno_tensor t;
        if (b->in_place[k]) {
            st = set_rows(b, k, s, n, size, err);
            continue;
        }
        if (size == 1) {
            at = (s[0]->fresh ? b->begin : s[0]->data) + d->offset;
        } else {
            for (int i = 0; i < n; i++)
                gather_cached_encoder_batch(d, at, size, i,
                                            (s[i]->fresh ? b->begin : s[i]->data) + d->offset);
        }
        t = tensor_of(d, size, at);
        st = steno_session_set(b->session, d->in, &t, err);
    }
    return st;
}

static steno_status check_state(const steno_cached_encoder_batch *b,
                                const struct steno_cached_encoder_slot *d, int size, steno_err *err)
{
    const struct steno_tensor *t = steno_session_get(b->session, d->out);
    const struct steno_tensor want = tensor_of(d, size, NULL);
    char got[96], expected[96];
    if (d->out < 0)
        return STENO_OK;
    if (t->dtype == want.dtype && steno_shape_equal(&t->shape, &want.shape))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "encoder gave state %s as %s, expected %s",
                      steno_network_output(b->e->net, d->out)->name,
                      steno_shape_str(&t->shape, got, sizeof got),
                      steno_shape_str(&want.shape, expected, sizeof expected));
}

static steno_status check_output(const steno_cached_encoder_batch *b, int size, steno_err *err)
{
    const struct steno_tensor *y = steno_session_get(b->session, 0);
    char shape[96];
    if (y->dtype == STENO_F32 && y->shape.rank == 3 && y->shape.dim[0] == size &&
        y->shape.dim[1] == b->e->shape.frames && y->shape.dim[2] == b->e->shape.width)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT,
                      "encoder gave an output of %s %s, expected f32 [%d,%d,%d]",
                      steno_dtype_name(y->dtype), steno_shape_str(&y->shape, shape, sizeof shape),
                      size, (int)b->e->shape.frames, (int)b->e->shape.width);
}

/* Count the output frames of this step. */
static void count_frames(const steno_cached_encoder_batch *b,
                         const struct steno_cached_encoder_slot *d,
                         struct steno_cached_encoder_state *s)
{
    int64_t n = 0;
    if (!s->fresh)
        memcpy(&n, s->data + d->offset, sizeof n);
    n += b->e->shape.frames;
    memcpy(s->data + d->offset, &n, sizeof n);
}

/* Check all outputs, then change the streams' states. States that the network changes in place have
 * changed already: a stream whose step fails has failed. */
static steno_status store_states(steno_cached_encoder_batch *b,
                                 struct steno_cached_encoder_state *const *s, int n, int size,
                                 steno_err *err)
{
    steno_status st = check_output(b, size, err);
    for (int k = 0; k < b->e->n_states && !st; k++)
        st = check_state(b, &b->e->states[k], size, err);
    if (st)
        return st;
    for (int k = 0; k < b->e->n_states; k++) {
        const struct steno_cached_encoder_slot *d = &b->e->states[k];
        if (b->in_place[k])
            continue;
        for (int i = 0; i < n; i++)
            if (d->out < 0)
                count_frames(b, d, s[i]);
            else
                scatter(d, steno_session_get(b->session, d->out)->data, size, i,
                        s[i]->data + d->offset);
    }
    for (int i = 0; i < n; i++)
        s[i]->fresh = false;
    return STENO_OK;
}

/* ---- step ---------------------------------------------------------------------------------- */

static void cut_samples(steno_cached_encoder_batch *b, size_t size)
{
    const float *x = (const float *)(const void *)b->x;
    for (size_t i = 0; i < size * steno_cached_encoder_window(b->e); i++)
        b->whole[i] = (int32_t)(32767 * fminf(fmaxf(x[i], -1), 1));
}

steno_status steno_cached_encoder_batch_step(steno_cached_encoder_batch *b,
                                             struct steno_cached_encoder_state *const *s, int n,
                                             int size, const float **y, steno_err *err)
{
    const struct steno_tensor in = {
        .dtype = b->whole ? STENO_I32 : STENO_F32,
        .shape = {.rank = 3, .dim = {size, b->e->shape.window, b->e->shape.bins}},
        .data = b->whole ? (void *)b->whole : b->x};
    steno_status st;
    if (b->whole)
        cut_samples(b, (size_t)size);
    for (int i = 0; i < n; i++)
        if (!s[i]->data && !(s[i]->data = zeroed(1, b->e->state_bytes)))
            return no_memory_cached_encoder_batch(err);
    st = steno_session_set(b->session, b->e->x, &in, err);
    if (!st)
        st = set_states_cached_encoder_batch(b, s, n, size, err);
    if (!st)
        st = steno_session_run(b->session, err);
    if (!st)
        st = store_states(b, s, n, size, err);
    if (!st)
        *y = steno_session_get(b->session, 0)->data;
    return st;
}

steno_status steno_cached_encoder_lead_in(struct steno_cached_encoder *e,
                                          steno_cached_encoder_batch *b, steno_err *err)
{
    struct steno_cached_encoder_state s = {.fresh = true}, *one = &s;
    const float *y;
    steno_status st;
    memset(b->x, 0, b->window_bytes);
    st = steno_cached_encoder_batch_step(b, &one, 1, 1, &y, err);
    if (st)
        steno_cached_encoder_state_free(&s);
    else
        e->begin = s.data;
    return st;
}
