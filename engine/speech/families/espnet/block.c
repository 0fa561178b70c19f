#include "speech/families/espnet/block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/npy.h"
#include "speech/families/common/piece_features.h"
#include "nn/network/run.h"
#include "speech/families/family.h"

#define MAX_PE ((size_t)1 << 30)

static const char *const in_names[4] = {"buffer_before_downsampling", "buffer_after_downsampling",
                                        "prev_addin", "past_encoder_ctx"};
static const char *const out_names[4] = {"next_buffer_before_downsampling",
                                         "next_buffer_after_downsampling", "next_addin",
                                         "next_encoder_ctx"};

static const char *file_of(const struct steno_espnet *e)
{
    return steno_espnet_path(e, &e->conf.encoder);
}

/* ---- opening ------------------------------------------------------------------------------- */

static steno_status find_io(const struct steno_espnet *e, const char *name, bool output, int *at,
                            steno_err *err)
{
    *at = output ? steno_network_find_output(e->encoder, name)
                 : steno_network_find_input(e->encoder, name);
    return *at >= 0 ? STENO_OK
                    : steno_fail(err, STENO_ERR_FORMAT, "%s: no %s %s", file_of(e),
                                 output ? "output" : "input", name);
}

static steno_status bind_block(struct steno_espnet_blocks *b, const struct steno_espnet *e,
                               steno_err *err)
{
    const struct {
        const char *name;
        int *at;
    } inputs[] = {{"xs_pad", &b->xs},
                  {"mask", &b->mask},
                  {"pos_enc_xs", &b->pos},
                  {"pos_enc_addin", &b->pos_addin},
                  {"is_first", &b->first}};
    steno_status st = STENO_OK;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs && !st; i++)
        st = find_io(e, inputs[i].name, false, inputs[i].at, err);
    if (!st)
        st = find_io(e, "ys_pad", true, &b->ys, err);
    for (int i = 0; i < 4 && !st; i++) {
        st = find_io(e, in_names[i], false, &b->in[i], err);
        if (!st)
            st = find_io(e, out_names[i], true, &b->out[i], err);
    }
    return st;
}

/* Vaswani et al., "Attention Is All You Need" (2017), section 3.5, in ESPnet's layout: sine at even
 * columns. */
static float position(size_t pos, size_t column, size_t dim)
{
    double rate = exp(-(double)(column & ~(size_t)1) * log(10000.0) / (double)dim);
    double angle = (double)pos * rate;
    return (float)(column & 1 ? cos(angle) : sin(angle));
}

static bool is_sinusoid(const struct steno_espnet_blocks *b, size_t dim)
{
    for (size_t i = 0; i < b->pe_rows; i++)
        for (size_t k = 0; k < dim; k++)
            if (!(fabsf(b->pe[i * dim + k] - position(i, k, dim)) < 1e-3F))
                return false;
    return true;
}

static steno_status open_positions(struct steno_espnet_blocks *b, struct steno_espnet *e,
                                   steno_err *err)
{
    struct steno_npy a = {0};
    steno_status st = steno_npy_read(e->conf.pe, MAX_PE, &a, err);
    if (st)
        return st;
    if (a.kind != 'f' || a.item != 4 || a.rank != 3 || a.dim[0] != 1 || a.dim[1] < e->conf.block ||
        a.dim[2] < 1) {
        steno_aligned_free(a.data);
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected f32 [1,n,d] with n >= %ld",
                          e->conf.pe, e->conf.block);
    }
    b->pe = a.data;
    b->pe_rows = (size_t)a.dim[1];
    e->dim = a.dim[2];
    b->formula = is_sinusoid(b, (size_t)e->dim);
    return STENO_OK;
}

/* Row 0, the context of the block before, attends to nothing. Nothing attends to the last row. */
static steno_status make_mask(struct steno_espnet_blocks *b, const struct steno_espnet *e,
                              steno_err *err)
{
    size_t n = (size_t)e->conf.block + 2;
    b->mask_data = steno_aligned_alloc(n * n * sizeof *b->mask_data);
    if (!b->mask_data)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", file_of(e));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            b->mask_data[i * n + k] = i > 0 && k + 1 < n;
    return STENO_OK;
}

steno_status steno_espnet_blocks_open(struct steno_espnet_blocks *b, struct steno_espnet *e,
                                      steno_err *err)
{
    steno_status st = bind_block(b, e, err);
    if (!st)
        st = open_positions(b, e, err);
    if (!st)
        st = make_mask(b, e, err);
    b->width[0] = e->conf.bins;
    b->width[1] = b->width[2] = b->width[3] = e->dim;
    return st;
}

void steno_espnet_blocks_close(struct steno_espnet_blocks *b)
{
    steno_aligned_free(b->mask_data);
    steno_aligned_free(b->pe);
}

/* Subsampling by convolution needs the feature frames of two more encoder frames. */
size_t steno_espnet_first_frames(const struct steno_espnet_conf *c)
{
    return (size_t)(c->subsample * (c->block + 2));
}

size_t steno_espnet_next_frames(const struct steno_espnet_conf *c)
{
    return (size_t)(c->subsample * c->hop);
}

/* ---- one stream's state -------------------------------------------------------------------- */

static steno_status reserve_block(struct steno_espnet_state *s, int i, size_t n, steno_err *err)
{
    float *p;
    if (n <= s->cap[i])
        return STENO_OK;
    p = steno_aligned_alloc(n * sizeof *p);
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (s->cap[i])
        memcpy(p, s->part[i], s->cap[i] * sizeof *p);
    steno_aligned_free(s->part[i]);
    s->part[i] = p;
    s->cap[i] = n;
    return STENO_OK;
}

steno_status steno_espnet_state_reset(struct steno_espnet_state *s, const struct steno_espnet *e,
                                      steno_err *err)
{
    const struct steno_espnet_conf *c = &e->conf;
    const size_t rows[4] = {(size_t)c->subsample * 2, (size_t)(c->block - c->hop), 1,
                            (size_t)c->encoder_layers};
    s->block = 0;
    for (int i = 0; i < 4; i++) {
        size_t n = rows[i] * (size_t)(i ? e->dim : c->bins);
        steno_status st = reserve_block(s, i, n, err);
        if (st)
            return st;
        memset(s->part[i], 0, n * sizeof *s->part[i]);
        s->rows[i] = rows[i];
    }
    return STENO_OK;
}

void steno_espnet_state_free(struct steno_espnet_state *s)
{
    for (int i = 0; i < 4; i++)
        steno_aligned_free(s->part[i]);
    *s = (struct steno_espnet_state){0};
}

/* ---- one block ----------------------------------------------------------------------------- */

static void set3(struct steno_run *run, int input, const float *x, size_t n, int64_t rows,
                 int64_t width)
{
    steno_run_set(run, input, STENO_F32, (const int64_t[]){(int64_t)n, rows, width}, 3, x);
}

/* Write positions [from, from + n) to `to`. */
static steno_status positions(const struct steno_espnet *e, size_t from, size_t n, float *to,
                              steno_err *err)
{
    const struct steno_espnet_blocks *b = e->blocks;
    size_t dim = (size_t)e->dim;
    if (from + n > b->pe_rows && !b->formula)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "%s: %zu positions, no known formula, and the stream needs %zu",
                          e->conf.pe, b->pe_rows, from + n);
    for (size_t i = 0; i < n; i++) {
        if (from + i < b->pe_rows)
            memcpy(to + i * dim, b->pe + (from + i) * dim, dim * sizeof *to);
        else
            for (size_t k = 0; k < dim; k++)
                to[i * dim + k] = position(from + i, k, dim);
    }
    return STENO_OK;
}

bool steno_espnet_same_form(const struct steno_espnet_state *a, const struct steno_espnet_state *b)
{
    return (a->block == 0) == (b->block == 0) &&
           (!a->block || !memcmp(a->rows, b->rows, sizeof a->rows));
}

/* The streams of a batch, and the memory in which their inputs are gathered. */
struct batch {
    struct steno_espnet_state *const *s;
    const float *const *feats;
    size_t n;
    float *mem;
};

static float *place_block(struct batch *b, size_t floats)
{
    float *p = b->mem;
    size_t line = STENO_ALIGN / sizeof *p;
    b->mem += (floats + line - 1) / line * line;
    return p;
}

/* Floats for all inputs that set_inputs gathers. */
static size_t batch_floats(const struct steno_espnet *e, const struct batch *b, size_t frames)
{
    const struct steno_espnet_blocks *w = e->blocks;
    size_t each = frames * (size_t)e->conf.bins + (size_t)((e->conf.block + 1) * e->dim);
    for (int i = 0; i < 4; i++)
        each += b->s[0]->rows[i] * (size_t)w->width[i];
    return b->n * each + 8 * STENO_ALIGN;
}

static void set_positions(const struct steno_espnet *e, struct steno_run *run, struct batch *b)
{
    const struct steno_espnet_conf *c = &e->conf;
    size_t each = (size_t)(c->block * e->dim), dim = (size_t)e->dim;
    float *pos = place_block(b, b->n * each), *addin = place_block(b, b->n * dim);
    for (size_t i = 0; i < b->n && !run->st; i++) {
        int64_t block = b->s[i]->block;
        run->st =
            positions(e, (size_t)(c->hop * block), (size_t)c->block, pos + i * each, run->err);
        if (!run->st)
            run->st = positions(e, (size_t)block, 1, addin + i * dim, run->err);
    }
    set3(run, e->blocks->pos, pos, b->n, c->block, e->dim);
    set3(run, e->blocks->pos_addin, addin, b->n, 1, e->dim);
}

/* Set an input to x [n], each [rows, width]. The input of a single stream is not copied. */
static void set_each(struct steno_run *run, struct batch *b, int input, const float *const *x,
                     size_t rows, int64_t width)
{
    size_t each = rows * (size_t)width;
    float *all;
    if (b->n == 1) {
        set3(run, input, x[0], 1, (int64_t)rows, width);
        return;
    }
    all = place_block(b, b->n * each);
    for (size_t k = 0; k < b->n; k++)
        memcpy(all + k * each, x[k], each * sizeof *all);
    set3(run, input, all, b->n, (int64_t)rows, width);
}

static void set_streams(const struct steno_espnet *e, struct steno_run *run, struct batch *b,
                        size_t frames)
{
    const struct steno_espnet_blocks *w = e->blocks;
    const float *part[STENO_BATCH_MAX];
    set_each(run, b, w->xs, b->feats, frames, e->conf.bins);
    for (int i = 0; i < 4; i++) {
        for (size_t k = 0; k < b->n; k++)
            part[k] = b->s[k]->part[i];
        set_each(run, b, w->in[i], part, b->s[0]->rows[i], w->width[i]);
    }
}

static void set_inputs_block(const struct steno_espnet *e, struct steno_run *run, struct batch *b,
                             size_t frames)
{
    const struct steno_espnet_blocks *w = e->blocks;
    const int64_t one = 1, side = e->conf.block + 2;
    int64_t *is_first = (int64_t *)(void *)place_block(b, sizeof *is_first / sizeof(float));
    *is_first = b->s[0]->block == 0;
    steno_run_set(run, w->mask, STENO_F32, (const int64_t[]){1, 1, side, side}, 4, w->mask_data);
    steno_run_set(run, w->first, STENO_I64, &one, 1, is_first);
    set_positions(e, run, b);
    set_streams(e, run, b, frames);
}

/* Check the new state i and make room for it in all streams. */
static steno_status prepare_state(const struct steno_espnet *e, const struct steno_tensor *t, int i,
                                  const struct batch *b, steno_err *err)
{
    steno_status st = STENO_OK;
    if (t->dtype != STENO_F32 || t->shape.rank != 3 || t->shape.dim[0] != (int64_t)b->n ||
        t->shape.dim[2] != e->blocks->width[i])
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %s has another shape than %s", file_of(e),
                          out_names[i], in_names[i]);
    for (size_t k = 0; k < b->n && !st; k++)
        st = reserve_block(b->s[k], i, steno_numel(t) / b->n, err);
    return st;
}

/* Store the new states of all streams, or on failure none. */
static steno_status store_states(const struct steno_espnet *e, steno_session *session,
                                 const struct batch *b, steno_err *err)
{
    const struct steno_tensor *t[4];
    for (int i = 0; i < 4; i++) {
        steno_status st;
        t[i] = steno_session_get(session, e->blocks->out[i]);
        st = prepare_state(e, t[i], i, b, err);
        if (st)
            return st;
    }
    for (size_t k = 0; k < b->n; k++) {
        for (int i = 0; i < 4; i++) {
            size_t each = steno_numel(t[i]) / b->n;
            memcpy(b->s[k]->part[i], (const float *)t[i]->data + k * each, each * sizeof(float));
            b->s[k]->rows[i] = (size_t)t[i]->shape.dim[1];
        }
        b->s[k]->block++;
    }
    return STENO_OK;
}

steno_status steno_espnet_block(steno_espnet_runner *r, struct steno_espnet_state *const *s,
                                const float *const *feats, size_t n, size_t frames,
                                const float **rows, size_t *n_rows, steno_err *err)
{
    struct steno_espnet *e = steno_espnet_runner_model(r);
    steno_session *session = steno_espnet_encoder(r);
    struct batch b = {s, feats, n, NULL};
    const struct steno_tensor *y;
    struct steno_run run = steno_run_begin(session, file_of(e), err);
    run.st = steno_espnet_scratch(r, batch_floats(e, &b, frames), &b.mem, err);
    if (!run.st)
        set_inputs_block(e, &run, &b, frames);
    if (!run.st)
        run.st = steno_session_run(session, err);
    if (run.st)
        return steno_fail_in(err, run.st, "%s: block %lld", file_of(e), (long long)s[0]->block);
    y = steno_session_get(session, e->blocks->ys);
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[0] != (int64_t)n ||
        y->shape.dim[2] != e->dim)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: ys_pad is not f32 [%zu,n,%lld]", file_of(e),
                          n, (long long)e->dim);
    *rows = y->data;
    *n_rows = (size_t)y->shape.dim[1];
    return store_states(e, session, &b, err);
}

/* ---- as espnet_onnx 0.2.1 ------------------------------------------------------------------ */

struct rows {
    float *x;
    size_t n, cap; /* cap: floats */
};

static steno_status append_block(struct rows *to, const float *x, size_t n, size_t dim,
                                 steno_err *err)
{
    if (!steno_floats_extend(&to->x, &to->cap, (to->n + n) * dim, to->n * dim))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    memcpy(to->x + to->n * dim, x, n * dim * sizeof *x);
    to->n += n;
    return STENO_OK;
}

/* Encode pcm [n], padded with zeros to `size` samples, and append its encoder frames. */
static steno_status one_piece(steno_espnet_runner *r, struct steno_espnet_state *s,
                              const float *pcm, size_t n, float *piece, size_t size,
                              struct rows *to, steno_err *err)
{
    const float *feats, *y;
    size_t frames, k = n < size ? n : size, n_rows;
    steno_status st;
    memcpy(piece, pcm, k * sizeof *piece);
    memset(piece + k, 0, (size - k) * sizeof *piece);
    st = steno_espnet_features(r, piece, size, &feats, &frames, err);
    if (!st)
        st = steno_espnet_block(r, &s, &feats, 1, frames - 1, &y, &n_rows, err);
    return st ? st : append_block(to, y, n_rows, (size_t)steno_espnet_runner_model(r)->dim, err);
}

steno_status steno_espnet_onnx_rows(steno_espnet_runner *r, const float *pcm, size_t n,
                                    float **rows, size_t *n_rows, steno_err *err)
{
    const struct steno_espnet *e = steno_espnet_runner_model(r);
    const struct steno_espnet_conf *c = &e->conf;
    size_t edge = (size_t)(c->n_fft / c->hop_length * c->hop_length);
    size_t hop = (size_t)c->hop_length, at = 0;
    size_t first = hop * steno_espnet_first_frames(c) + edge;
    size_t next = hop * steno_espnet_next_frames(c) + edge;
    size_t pieces = n >= first ? (n - first) / next + 2 : 1;
    struct steno_espnet_state s = {0};
    struct rows to = {0};
    float *piece = malloc(first * sizeof *piece);
    steno_status st = piece ? steno_espnet_state_reset(&s, e, err)
                            : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    for (size_t i = 0; i < pieces && !st; i++) {
        size_t size = i ? next : first;
        st = one_piece(r, &s, pcm + at, n - at, piece, size, &to, err);
        at = at + size < n ? at + size : n;
    }
    steno_espnet_state_free(&s);
    free(piece);
    if (st) {
        steno_aligned_free(to.x);
        return st;
    }
    *rows = to.x;
    *n_rows = to.n;
    return STENO_OK;
}
