#include "speech/families/icefall/nets.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "nn/network/run.h"

#define CACHED 1024 /* contexts whose output is kept; a power of two */

struct steno_icefall_scorer {
    const struct steno_icefall_nets *nets;
    steno_session *decoder, *joiner;
    int64_t *y;       /* [ROWS, context] */
    float *enc, *dec; /* [ROWS, width] */
    float *logits;    /* [ROWS, vocab] */
    /* The output of a context is at its hash, and a later context of the same hash replaces it. */
    float *rows;       /* [CACHED, width] */
    int32_t *contexts; /* [CACHED, context]; its first token is UNUSED while there is none */
};

#define UNUSED INT32_MIN

/* ---- binding --------------------------------------------------------------------------------- */

static bool is_matrix(const struct steno_value *v, steno_dtype type)
{
    return v->dtype == type && v->shape.rank == 2 && v->shape.dim[0] < 0;
}

static steno_status fail_shape(const struct steno_value *v, const char *file, const char *want,
                               steno_err *err)
{
    char shape[96];
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %s is %s %s, expected %s", file, v->name,
                      steno_dtype_name(v->dtype), steno_shape_str(&v->shape, shape, sizeof shape),
                      want);
}

static steno_status bind_decoder_icefall_nets(struct steno_icefall_nets *n, steno_err *err)
{
    const struct steno_value *y;
    n->y = steno_network_find_input(n->decoder, "y");
    n->decoder_out = steno_network_find_output(n->decoder, "decoder_out");
    if (n->y < 0 || n->decoder_out < 0 || steno_network_n_inputs(n->decoder) != 1)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected one input y and an output decoder_out", n->decoder_name);
    y = steno_network_input(n->decoder, n->y);
    if (!is_matrix(y, STENO_I64) || y->shape.dim[1] < 1 ||
        y->shape.dim[1] > STENO_STATELESS_CONTEXT)
        return fail_shape(y, n->decoder_name, "i64 [N,1 to 8]", err);
    n->context = (int)y->shape.dim[1];
    return STENO_OK;
}

static steno_status bind_joiner(struct steno_icefall_nets *n, steno_err *err)
{
    const struct steno_value *enc, *dec, *logit;
    n->enc = steno_network_find_input(n->joiner, "encoder_out");
    n->dec = steno_network_find_input(n->joiner, "decoder_out");
    n->logit = steno_network_find_output(n->joiner, "logit");
    if (n->enc < 0 || n->dec < 0 || n->logit < 0 || steno_network_n_inputs(n->joiner) != 2)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected inputs encoder_out and decoder_out, and an output logit",
                          n->joiner_name);
    enc = steno_network_input(n->joiner, n->enc);
    dec = steno_network_input(n->joiner, n->dec);
    logit = steno_network_output(n->joiner, n->logit);
    if (!is_matrix(enc, STENO_F32) || enc->shape.dim[1] < 1)
        return fail_shape(enc, n->joiner_name, "f32 [N,width]", err);
    if (!is_matrix(dec, STENO_F32) || dec->shape.dim[1] != enc->shape.dim[1])
        return fail_shape(dec, n->joiner_name, "the shape of encoder_out", err);
    if (logit->dtype != STENO_F32 || logit->shape.rank != 2 || logit->shape.dim[1] < 2)
        return fail_shape(logit, n->joiner_name, "f32 [N,vocabulary]", err);
    n->width = enc->shape.dim[1];
    n->vocab = logit->shape.dim[1];
    return STENO_OK;
}

steno_status steno_icefall_nets_bind(struct steno_icefall_nets *n, steno_err *err)
{
    steno_status st = bind_decoder_icefall_nets(n, err);
    return st ? st : bind_joiner(n, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Zeroed: a run reads places that no pair has filled. */
static void *zeroed(size_t count, int64_t each, size_t size)
{
    size_t n, bytes;
    return steno_mul_size(count, (size_t)each, &n) && steno_mul_size(n, size, &bytes)
               ? steno_aligned_zeroed(bytes)
               : NULL;
}

static steno_status open_buffers(steno_icefall_scorer *s, steno_err *err)
{
    const struct steno_icefall_nets *n = s->nets;
    s->y = zeroed(STENO_ICEFALL_ROWS, n->context, sizeof *s->y);
    s->enc = zeroed(STENO_ICEFALL_ROWS, n->width, sizeof *s->enc);
    s->dec = zeroed(STENO_ICEFALL_ROWS, n->width, sizeof *s->dec);
    s->logits = zeroed(STENO_ICEFALL_ROWS, n->vocab, sizeof *s->logits);
    s->rows = zeroed(CACHED, n->width, sizeof *s->rows);
    s->contexts = zeroed(CACHED, n->context, sizeof *s->contexts);
    if (!s->y || !s->enc || !s->dec || !s->logits || !s->rows || !s->contexts)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for the joiner");
    for (size_t i = 0; i < CACHED; i++)
        s->contexts[i * (size_t)n->context] = UNUSED;
    return STENO_OK;
}

steno_status steno_icefall_scorer_open(steno_icefall_scorer **out,
                                       const struct steno_icefall_nets *nets, int threads,
                                       steno_err *err)
{
    const struct steno_session_options o = {.threads = threads};
    steno_icefall_scorer *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for the joiner");
    s->nets = nets;
    st = open_buffers(s, err);
    if (!st)
        st = steno_session_open(&s->decoder, nets->decoder, &o, err);
    if (!st)
        st = steno_session_open(&s->joiner, nets->joiner, &o, err);
    if (st)
        steno_icefall_scorer_close(s);
    else
        *out = s;
    return st;
}

void steno_icefall_scorer_close(steno_icefall_scorer *s)
{
    if (!s)
        return;
    steno_session_close(s->decoder);
    steno_session_close(s->joiner);
    steno_aligned_free(s->y);
    steno_aligned_free(s->enc);
    steno_aligned_free(s->dec);
    steno_aligned_free(s->logits);
    steno_aligned_free(s->rows);
    steno_aligned_free(s->contexts);
    free(s);
}

/* ---- the prediction network ------------------------------------------------------------------ */

static size_t place_of(const steno_icefall_scorer *s, const int32_t *context)
{
    uint64_t h = STENO_HASH;
    for (int i = 0; i < s->nets->context; i++)
        h = steno_hash_add(h, (uint32_t)context[i]);
    return (size_t)((h ^ h >> 32) & (CACHED - 1));
}

static bool is_cached(const steno_icefall_scorer *s, const int32_t *context, size_t place)
{
    return !memcmp(s->contexts + place * (size_t)s->nets->context, context,
                   (size_t)s->nets->context * sizeof *context);
}

/* A session holds plans for 8 input shapes, so batches are powers of two up to 128. Repeat row 0 in
 * the places after the first n rows of `bytes`: it does not widen the range over which a quantized
 * network rounds. */
static int64_t fill_batch(void *rows, size_t n, size_t bytes)
{
    size_t size = 1;
    while (size < n)
        size *= 2;
    for (size_t i = n; i < size; i++)
        memcpy((char *)rows + i * bytes, rows, bytes);
    return (int64_t)size;
}

/* Run the prediction network on the first n contexts of s->y. */
static steno_status run_decoder(steno_icefall_scorer *s, size_t n, const float **rows,
                                steno_err *err)
{
    const struct steno_icefall_nets *nets = s->nets;
    const int64_t in[] = {fill_batch(s->y, n, (size_t)nets->context * sizeof *s->y), nets->context};
    struct steno_run r = steno_run_begin(s->decoder, nets->decoder_name, err);
    const struct steno_tensor *out;
    steno_status st;
    steno_run_set(&r, nets->y, STENO_I64, in, 2, s->y);
    st = steno_run_end(&r);
    if (st)
        return st;
    out = steno_session_get(s->decoder, nets->decoder_out);
    if (out->dtype != STENO_F32 || out->shape.rank != 2 || out->shape.dim[0] != in[0] ||
        out->shape.dim[1] != nets->width)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: decoder_out has another shape than f32 [%d,%d], which %s takes",
                          nets->decoder_name, (int)in[0], (int)nets->width, nets->joiner_name);
    *rows = out->data;
    return STENO_OK;
}

/* Fill s->dec with the prediction network's output of each context. */
static steno_status predict(steno_icefall_scorer *s, const int32_t *const *context, size_t n,
                            steno_err *err)
{
    size_t width = (size_t)s->nets->width, k = (size_t)s->nets->context, misses = 0;
    size_t miss[STENO_ICEFALL_ROWS];
    const float *rows = NULL;
    steno_status st;
    for (size_t i = 0; i < n; i++) {
        size_t place = place_of(s, context[i]);
        if (!s->nets->rounds_together && is_cached(s, context[i], place)) {
            memcpy(s->dec + i * width, s->rows + place * width, width * sizeof *s->dec);
            continue;
        }
        for (size_t j = 0; j < k; j++)
            s->y[misses * k + j] = context[i][j];
        miss[misses++] = i;
    }
    if (!misses)
        return STENO_OK;
    st = run_decoder(s, misses, &rows, err);
    for (size_t m = 0; m < misses && !st; m++) {
        size_t i = miss[m], place = place_of(s, context[i]);
        memcpy(s->dec + i * width, rows + m * width, width * sizeof *rows);
        memcpy(s->rows + place * width, rows + m * width, width * sizeof *rows);
        memcpy(s->contexts + place * k, context[i], k * sizeof **context);
    }
    return st;
}

/* ---- the joiner ------------------------------------------------------------------------------ */

static steno_status run_joiner(steno_icefall_scorer *s, size_t n, steno_err *err)
{
    const struct steno_icefall_nets *nets = s->nets;
    const size_t bytes = (size_t)nets->width * sizeof(float);
    const int64_t in[] = {fill_batch(s->enc, n, bytes), nets->width};
    struct steno_run r = steno_run_begin(s->joiner, nets->joiner_name, err);
    const struct steno_tensor *out;
    steno_status st;
    (void)fill_batch(s->dec, n, bytes);
    steno_run_set(&r, nets->enc, STENO_F32, in, 2, s->enc);
    steno_run_set(&r, nets->dec, STENO_F32, in, 2, s->dec);
    st = steno_run_end(&r);
    if (st)
        return st;
    out = steno_session_get(s->joiner, nets->logit);
    if (out->dtype != STENO_F32 || out->shape.rank != 2 || out->shape.dim[0] != in[0] ||
        out->shape.dim[1] != nets->vocab)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: logit has another shape than f32 [%d,%d]",
                          nets->joiner_name, (int)in[0], (int)nets->vocab);
    memcpy(s->logits, out->data, n * (size_t)nets->vocab * sizeof *s->logits);
    return STENO_OK;
}

steno_status steno_icefall_score(steno_icefall_scorer *s, const float *const *enc,
                                 const int32_t *const *context, size_t n, float **logits,
                                 steno_err *err)
{
    size_t width = (size_t)s->nets->width;
    steno_status st = predict(s, context, n, err);
    for (size_t i = 0; i < n && !st; i++)
        memcpy(s->enc + i * width, enc[i], width * sizeof *s->enc);
    if (!st)
        st = run_joiner(s, n, err);
    *logits = s->logits;
    return st;
}
