/* The decoder computes [hypotheses, tokens, vocab] at once, as in WeNet's runtime
 * (runtime/core/decoder/onnx_asr_model.cc, asr_decoder.cc). Its attention over the encoder's output
 * takes hypotheses x tokens x rows numbers for each head, so long utterances go in several runs,
 * which changes nothing: the hypotheses do not see each other. */
#include "speech/families/wenet/rescoring.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "nn/network/run.h"
#include "speech/families/common/scores.h"

#define STEM "decoder"
#define POSITIONS 5000             /* where the table is not found: what WeNet's exports have */
#define TOGETHER ((size_t)1 << 20) /* hypotheses x tokens x rows of a run */
#define LARGEST ((size_t)1 << 22)  /* tokens x rows: 1000 tokens in 160 s */
#define TRIAL_ROWS 4

enum input { HYPS, LENGTHS, MEMORY, INPUTS };
static const char *const inputs[INPUTS] = {"hyps", "hyps_lens", "encoder_out"};

/* What one thread needs to run the decoder. */
struct runner {
    struct runner *next;
    steno_session *session;
    int64_t *ids; /* [cap] */
    size_t cap;
};

struct steno_wenet_rescorer {
    struct steno_part_file net;
    struct steno_wenet_decoder d;
    int in[INPUTS], threads;
    size_t positions; /* tokens for which the decoder has positions */
    pthread_mutex_t lock;
    bool has_lock;
    struct runner *idle; /* guarded by lock */
};

/* ---- runners --------------------------------------------------------------------------------- */

static void close_runner(struct runner *r)
{
    if (!r)
        return;
    steno_session_close(r->session);
    free(r->ids);
    free(r);
}

static steno_status acquire(steno_wenet_rescorer *s, struct runner **out, steno_err *err)
{
    const struct steno_session_options so = {.threads = s->threads};
    struct runner *r;
    steno_status st;
    pthread_mutex_lock(&s->lock);
    r = s->idle;
    if (r)
        s->idle = r->next;
    pthread_mutex_unlock(&s->lock);
    if (!r) {
        r = calloc(1, sizeof *r);
        st = r ? steno_session_open(&r->session, s->net.net, &so, err)
               : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
        if (st) {
            close_runner(r);
            return st;
        }
    }
    *out = r;
    return STENO_OK;
}

static void release_rescoring(steno_wenet_rescorer *s, struct runner *r)
{
    pthread_mutex_lock(&s->lock);
    r->next = s->idle;
    s->idle = r;
    pthread_mutex_unlock(&s->lock);
}

/* ---- scores ---------------------------------------------------------------------------------- */

static steno_status check_rescoring(const steno_wenet_rescorer *s, const struct steno_tensor *y,
                                    int i, size_t n, size_t length, steno_err *err)
{
    char shape[96];
    if (y->dtype == STENO_F32 && steno_numel(y) == n * length * (size_t)s->d.vocab)
        return steno_scores_check(y->data, steno_numel(y), s->net.name, err);
    return steno_fail(err, STENO_ERR_FORMAT, "%s: output %s is %s, expected [%zu,%zu,%lld] f32",
                      s->net.name, steno_network_output(s->net.net, i)->name,
                      steno_shape_str(&y->shape, shape, sizeof shape), n, length,
                      (long long)s->d.vocab);
}

/* sum of the scores of the tokens, in this order or reversed, and of the end behind them */
static double sum(const struct steno_wenet_decoder *d, const float *scores,
                  const struct steno_hypothesis *h, bool reversed)
{
    double total = 0;
    for (size_t j = 0; j < h->n; j++) {
        const int32_t token = h->spans[reversed ? h->n - 1 - j : j].token;
        total += (double)scores[j * (size_t)d->vocab + (size_t)token];
    }
    return total + (double)scores[h->n * (size_t)d->vocab + (size_t)d->eos];
}

static steno_status fill_rescoring(const steno_wenet_rescorer *s, struct runner *r,
                                   const struct steno_hypothesis *h, size_t n, size_t length,
                                   steno_err *err)
{
    if (STENO_RESERVE(&r->ids, &r->cap, n * (length + 1)))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    memset(r->ids, 0, n * (length + 1) * sizeof *r->ids);
    for (size_t i = 0; i < n; i++) {
        r->ids[i * length] = s->d.sos;
        for (size_t j = 0; j < h[i].n; j++)
            r->ids[i * length + 1 + j] = h[i].spans[j].token;
        r->ids[n * length + i] = (int64_t)h[i].n + 1;
    }
    return STENO_OK;
}

/* The scores of n hypotheses of less than `length` tokens. */
static steno_status run_rescoring(const steno_wenet_rescorer *s, struct runner *r,
                                  const struct steno_hypothesis *h, size_t n, size_t length,
                                  const float *memory, size_t rows, double reverse, double *score,
                                  steno_err *err)
{
    const int64_t hyps[] = {(int64_t)n, (int64_t)length}, lengths[] = {(int64_t)n},
                  out[] = {1, (int64_t)rows, s->d.width};
    const bool both = s->d.both && reverse > 0;
    const struct steno_tensor *left, *right = NULL;
    struct steno_run run = steno_run_begin(r->session, s->net.name, err);
    steno_status st = fill_rescoring(s, r, h, n, length, err);
    if (st)
        return steno_fail_in(err, st, "%s", s->net.name);
    steno_run_set(&run, s->in[HYPS], STENO_I64, hyps, 2, r->ids);
    steno_run_set(&run, s->in[LENGTHS], STENO_I64, lengths, 1, r->ids + n * length);
    steno_run_set(&run, s->in[MEMORY], STENO_F32, out, 3, memory);
    st = steno_run_end(&run);
    if (st)
        return st;
    left = steno_session_get(r->session, 0);
    st = check_rescoring(s, left, 0, n, length, err);
    if (!st && both) {
        right = steno_session_get(r->session, 1);
        st = check_rescoring(s, right, 1, n, length, err);
    }
    for (size_t i = 0; i < n && !st; i++) {
        const size_t at = i * length * (size_t)s->d.vocab;
        score[i] = sum(&s->d, (const float *)left->data + at, &h[i], false);
        if (both)
            score[i] = (1 - reverse) * score[i] +
                       reverse * sum(&s->d, (const float *)right->data + at, &h[i], true);
    }
    return st;
}

/* Tokens of the longest hypothesis, and the begin. */
static size_t longest(const struct steno_hypothesis *h, size_t n)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = h[i].n > most ? h[i].n : most;
    return most + 1;
}

/* *done false: the utterance is too long. */
static steno_status score_all(steno_wenet_rescorer *s, const struct steno_hypothesis *h, size_t n,
                              const float *memory, size_t rows, double reverse, double *score,
                              bool *done, steno_err *err)
{
    const size_t length = longest(h, n), one = length * rows;
    const size_t together = one < TOGETHER ? TOGETHER / one : 1;
    struct runner *r = NULL;
    steno_status st = STENO_OK;
    *done = length <= s->positions && one <= LARGEST;
    if (*done)
        st = acquire(s, &r, err);
    for (size_t at = 0; *done && at < n && !st; at += together) {
        const size_t k = n - at < together ? n - at : together;
        st = run_rescoring(s, r, h + at, k, length, memory, rows, reverse, score + at, err);
    }
    if (r)
        release_rescoring(s, r);
    return st;
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status bind_rescoring(steno_wenet_rescorer *s, steno_err *err)
{
    for (int i = 0; i < INPUTS; i++) {
        s->in[i] = steno_network_find_input(s->net.net, inputs[i]);
        if (s->in[i] < 0)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: expected an input %s", s->net.name,
                              inputs[i]);
    }
    if (steno_network_n_outputs(s->net.net) < (s->d.both ? 2 : 1))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %d outputs, expected score and r_score",
                          s->net.name, steno_network_n_outputs(s->net.net));
    return STENO_OK;
}

/* The decoder reads positions of a table [1, n, width]. */
static void find_positions(steno_wenet_rescorer *s)
{
    const struct steno_graph *g = steno_network_graph(s->net.net);
    for (int32_t i = 0; i < g->n_values; i++) {
        const struct steno_tensor *t = g->values[i].constant;
        if (t && t->shape.rank == 3 && t->shape.dim[0] == 1 && t->shape.dim[2] == s->d.width &&
            t->shape.dim[1] > (int64_t)s->positions)
            s->positions = (size_t)t->shape.dim[1];
    }
    s->positions = s->positions ? s->positions : POSITIONS;
}

/* Two hypotheses over zeros: a network that fails does so at load. */
static steno_status try(steno_wenet_rescorer *s, steno_err *err)
{
    const struct steno_span token = {.token = 0};
    const struct steno_hypothesis h[] = {{.spans = &token, .n = 1}, {.spans = &token}};
    float *memory = calloc(TRIAL_ROWS * (size_t)s->d.width, sizeof *memory);
    double score[2];
    bool done;
    steno_status st = memory ? score_all(s, h, 2, memory, TRIAL_ROWS, 0.5, score, &done, err)
                             : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    free(memory);
    return st;
}

steno_status steno_wenet_rescorer_open(steno_wenet_rescorer **out,
                                       const struct steno_family_open *o, bool int8,
                                       const struct steno_wenet_decoder *d, steno_err *err)
{
    steno_wenet_rescorer *s = calloc(1, sizeof *s);
    steno_status st = STENO_OK;
    if (!s || pthread_mutex_init(&s->lock, NULL)) {
        free(s);
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    }
    s->has_lock = true;
    s->d = *d;
    s->threads = o->threads;
    st = steno_part_file_open(&s->net, o, STEM, int8, err);
    if (!st)
        st = bind_rescoring(s, err);
    if (!st)
        find_positions(s);
    if (!st)
        st = try(s, err);
    if (st)
        steno_wenet_rescorer_close(s);
    else
        *out = s;
    return st;
}

void steno_wenet_rescorer_close(steno_wenet_rescorer *s)
{
    if (!s)
        return;
    while (s->idle) {
        struct runner *r = s->idle;
        s->idle = r->next;
        close_runner(r);
    }
    if (s->has_lock)
        pthread_mutex_destroy(&s->lock);
    steno_part_file_close(&s->net);
    free(s);
}

const char *steno_wenet_rescorer_file(const steno_wenet_rescorer *s)
{
    return s->net.name;
}

size_t steno_wenet_rescorer_bytes(const steno_wenet_rescorer *s)
{
    return steno_network_weight_bytes(s->net.net);
}

/* ---- finals of a stream ---------------------------------------------------------------------- */

steno_status steno_wenet_finals_add(struct steno_wenet_finals *f, const float *rows, size_t n)
{
    const size_t width = f->rescorer ? (size_t)f->rescorer->d.width : 0;
    f->n = 0;
    if (!width || f->rows > LARGEST)
        return STENO_OK;
    if (steno_array_reserve(&f->memory, &f->cap, f->rows + n, width * sizeof *f->memory))
        return STENO_ERR_NOMEM;
    memcpy(f->memory + f->rows * width, rows, n * width * sizeof *rows);
    f->rows += n;
    return STENO_OK;
}

/* Best first; equal ones stay in the order of the CTC search. */
static void order(struct steno_hypothesis *h, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const struct steno_hypothesis x = h[i];
        size_t j = i;
        for (; j > 0 && h[j - 1].score < x.score; j--)
            h[j] = h[j - 1];
        h[j] = x;
    }
}

steno_status steno_wenet_finals_rescore(struct steno_wenet_finals *f,
                                        const struct steno_hypothesis *h, size_t n, size_t ahead,
                                        steno_err *err)
{
    const struct steno_wenet_weights *w = &f->weights;
    double score[STENO_MAX_BEAM];
    bool done = false;
    steno_status st;
    f->n = 0;
    if (!f->rescorer || !n || n > STENO_MAX_BEAM || f->rows <= ahead)
        return STENO_OK;
    st = score_all(f->rescorer, h, n, f->memory, f->rows - ahead, w->reverse, score, &done, err);
    if (st || !done)
        return st;
    for (size_t i = 0; i < n; i++) {
        f->h[i] = h[i];
        f->h[i].score = w->attention * score[i] + w->ctc * h[i].score;
    }
    f->n = n;
    order(f->h, n);
    return STENO_OK;
}

void steno_wenet_finals_next(struct steno_wenet_finals *f, size_t ahead)
{
    const size_t width = f->rescorer ? (size_t)f->rescorer->d.width : 0;
    ahead = ahead < f->rows ? ahead : f->rows;
    if (width && ahead)
        memmove(f->memory, f->memory + (f->rows - ahead) * width, ahead * width * sizeof(float));
    f->rows = ahead;
    f->n = 0;
}

void steno_wenet_finals_free(struct steno_wenet_finals *f)
{
    free(f->memory);
    f->memory = NULL;
}
