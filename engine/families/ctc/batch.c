/* Steps of a ctc_streaming network for several streams at once. Weights are read from memory once
 * for all of them, and products get enough rows to run at the speed of the multipliers.
 *
 * A stream's states lie in its own memory, one block; a batch gathers them into the inputs, state
 * by state in the order of the streams, and scatters the outputs. A batch of one reads the stream's
 * memory in place. docs/pool.md has what the copies cost. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "families/ctc/network.h"

struct steno_ctc_batch {
    const struct steno_ctc_network *n;
    steno_session *session;
    int max;
    size_t window_bytes;
    char *x;        /* [max, window, bins] f32 */
    char *states;   /* [max] shares, state by state */
    char *zeros;    /* [state_bytes]: where every recording begins */
    void **rows;    /* [n_states][max]: memory of a state that the network changes in place */
    bool *in_place; /* [n_states] */
};

void steno_ctc_state_free(struct steno_ctc_state *s)
{
    steno_aligned_free(s->data);
    s->data = NULL;
}

static steno_status no_memory(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a batch of the network");
}

/* Zeroed: a batch is read whole, what no stream has filled included. */
static char *zeroed(size_t count, size_t size)
{
    size_t bytes;
    char *p = steno_mul_size(count, size, &bytes) ? steno_aligned_alloc(bytes) : NULL;
    if (p)
        memset(p, 0, bytes);
    return p;
}

static steno_status open_session(steno_ctc_batch *b, int threads, steno_err *err)
{
    const struct steno_ctc_network *n = b->n;
    size_t states = (size_t)n->n_states + 1;
    steno_status st = steno_session_open(&b->session, n->net,
                                         &(struct steno_session_options){.threads = threads}, err);
    if (st)
        return st;
    b->rows = calloc(states * (size_t)b->max, sizeof *b->rows);
    b->in_place = calloc(states, sizeof *b->in_place);
    if (!b->rows || !b->in_place)
        return no_memory(err);
    for (int k = 0; k < n->n_states; k++)
        b->in_place[k] = n->states[k].axis == 0 &&
                         steno_session_in_place(b->session, n->states[k].in) == n->states[k].out;
    return STENO_OK;
}

steno_status steno_ctc_batch_open(steno_ctc_batch **out, const struct steno_ctc_network *n, int max,
                                  int threads, steno_err *err)
{
    steno_ctc_batch *b = calloc(1, sizeof *b);
    steno_status st;
    if (!b)
        return no_memory(err);
    b->n = n;
    b->max = n->batches ? max : 1;
    b->window_bytes = (size_t)(n->window * n->bins) * sizeof(float);
    b->x = zeroed((size_t)b->max, b->window_bytes);
    b->zeros = zeroed(1, n->state_bytes);
    b->states = b->max > 1 ? zeroed((size_t)b->max, n->state_bytes) : b->zeros;
    if (b->x && b->zeros && b->states)
        st = open_session(b, threads, err);
    else
        st = no_memory(err);
    if (st) {
        steno_ctc_batch_close(b);
        return st;
    }
    *out = b;
    return STENO_OK;
}

void steno_ctc_batch_close(steno_ctc_batch *b)
{
    if (!b)
        return;
    steno_session_close(b->session);
    if (b->states != b->zeros)
        steno_aligned_free(b->states);
    steno_aligned_free(b->zeros);
    steno_aligned_free(b->x);
    free(b->rows);
    free(b->in_place);
    free(b);
}

float *steno_ctc_batch_x(steno_ctc_batch *b, int i)
{
    return (float *)(void *)(b->x + (size_t)i * b->window_bytes);
}

/* ---- states -------------------------------------------------------------------------------- */

static struct steno_tensor tensor_of(const struct steno_ctc_network_state *s, int size, char *data)
{
    struct steno_tensor t = s->one;
    if (s->axis >= 0)
        t.shape.dim[s->axis] = size;
    t.data = data;
    return t;
}

/* Stream i's share of a state, in a batch of `size`, from (or to) its own memory. */
static void gather(const struct steno_ctc_network_state *s, char *batch, int size, int i,
                   const char *own)
{
    for (size_t k = 0; k < s->blocks; k++)
        memcpy(batch + (k * (size_t)size + (size_t)i) * s->block, own + k * s->block, s->block);
}

static void scatter(const struct steno_ctc_network_state *s, const char *batch, int size, int i,
                    char *own)
{
    for (size_t k = 0; k < s->blocks; k++)
        memcpy(own + k * s->block, batch + (k * (size_t)size + (size_t)i) * s->block, s->block);
}

/* State k where it lies in each stream's memory. Places of the batch that no stream has get
 * memory of ours. */
static steno_status set_rows(steno_ctc_batch *b, int k, struct steno_ctc_state *const *s, int n,
                             int size, steno_err *err)
{
    const struct steno_ctc_network_state *d = &b->n->states[k];
    void **row = b->rows + (size_t)k * (size_t)b->max;
    struct steno_tensor t = tensor_of(d, size, NULL);
    for (int i = 0; i < size; i++)
        row[i] = i < n ? s[i]->data + d->offset
                       : b->states + d->offset * (size_t)b->max + (size_t)i * d->block;
    for (int i = 0; i < n; i++)
        if (s[i]->fresh)
            memset(row[i], 0, d->bytes);
    return steno_session_set_rows(b->session, d->in, &t, row, err);
}

static steno_status set_states(steno_ctc_batch *b, struct steno_ctc_state *const *s, int n,
                               int size, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int k = 0; k < b->n->n_states && !st; k++) {
        const struct steno_ctc_network_state *d = &b->n->states[k];
        char *at = b->states + d->offset * (size_t)b->max;
        struct steno_tensor t;
        if (b->in_place[k]) {
            st = set_rows(b, k, s, n, size, err);
            continue;
        }
        if (size == 1) {
            at = (s[0]->fresh ? b->zeros : s[0]->data) + d->offset;
        } else {
            for (int i = 0; i < n; i++)
                gather(d, at, size, i, (s[i]->fresh ? b->zeros : s[i]->data) + d->offset);
        }
        t = tensor_of(d, size, at);
        st = steno_session_set(b->session, d->in, &t, err);
    }
    return st;
}

static steno_status check_state(const steno_ctc_batch *b, const struct steno_ctc_network_state *d,
                                int size, steno_err *err)
{
    const struct steno_tensor *t = steno_session_get(b->session, d->out);
    const struct steno_tensor want = tensor_of(d, size, NULL);
    char got[96], expected[96];
    if (t->dtype == want.dtype && steno_shape_equal(&t->shape, &want.shape))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "network gave state %s as %s, expected %s",
                      steno_network_output(b->n->net, d->out)->name,
                      steno_shape_str(&t->shape, got, sizeof got),
                      steno_shape_str(&want.shape, expected, sizeof expected));
}

static steno_status check_scores(const steno_ctc_batch *b, int size, steno_err *err)
{
    const struct steno_tensor *y = steno_session_get(b->session, 0);
    char shape[96];
    if (y->dtype == STENO_F32 && y->shape.rank == 3 && y->shape.dim[0] == size &&
        y->shape.dim[1] == b->n->rows && y->shape.dim[2] == b->n->vocab)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT,
                      "network gave scores of %s %s, expected f32 [%d,%d,%d]",
                      steno_dtype_name(y->dtype), steno_shape_str(&y->shape, shape, sizeof shape),
                      size, (int)b->n->rows, (int)b->n->vocab);
}

/* All is checked before any stream's state is touched, but for those that have changed in place: a
 * stream whose step fails has failed. */
static steno_status take_states(steno_ctc_batch *b, struct steno_ctc_state *const *s, int n,
                                int size, steno_err *err)
{
    steno_status st = check_scores(b, size, err);
    for (int k = 0; k < b->n->n_states && !st; k++)
        st = check_state(b, &b->n->states[k], size, err);
    if (st)
        return st;
    for (int k = 0; k < b->n->n_states; k++) {
        const struct steno_ctc_network_state *d = &b->n->states[k];
        const char *from = steno_session_get(b->session, d->out)->data;
        if (b->in_place[k])
            continue;
        for (int i = 0; i < n; i++)
            scatter(d, from, size, i, s[i]->data + d->offset);
    }
    for (int i = 0; i < n; i++)
        s[i]->fresh = false;
    return STENO_OK;
}

/* ---- step ---------------------------------------------------------------------------------- */

steno_status steno_ctc_batch_step(steno_ctc_batch *b, struct steno_ctc_state *const *s, int n,
                                  int size, const float **scores, steno_err *err)
{
    const struct steno_tensor in = {.dtype = STENO_F32,
                                    .shape = {.rank = 3, .dim = {size, b->n->window, b->n->bins}},
                                    .data = b->x};
    steno_status st;
    for (int i = 0; i < n; i++)
        if (!s[i]->data && !(s[i]->data = zeroed(1, b->n->state_bytes)))
            return no_memory(err);
    st = steno_session_set(b->session, b->n->x, &in, err);
    if (!st)
        st = set_states(b, s, n, size, err);
    if (!st)
        st = steno_session_run(b->session, err);
    if (!st)
        st = take_states(b, s, n, size, err);
    if (!st)
        *scores = steno_session_get(b->session, 0)->data;
    return st;
}

size_t steno_ctc_batch_bytes(const steno_ctc_batch *b)
{
    size_t states = b->max > 1 ? (size_t)b->max * b->n->state_bytes : 0;
    return steno_session_arena_bytes(b->session) + (size_t)b->max * b->window_bytes + states +
           b->n->state_bytes;
}
