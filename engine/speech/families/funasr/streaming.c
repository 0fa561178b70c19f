/* Family paraformer_streaming: Paraformer in chunks. A step takes 10 frames of 60 ms. The encoder
 * also sees the 8 frames before them, and gives a weight for each; those of the first 5 belong to
 * the step before, those of the last 3 to the next one, which will have seen more. CIF makes token
 * embeddings of the rest, and the decoder makes tokens of these, with states that carry its
 * convolutions over the chunks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/scores.h"
#include "speech/families/entries.h"
#include "speech/families/funasr/cif.h"
#include "speech/families/funasr/model.h"
#include "speech/families/option.h"

#define FAMILY "paraformer_streaming"
#define LEFT 5                  /* frames of the step before */
#define ROWS 10                 /* new tokens may be in so many frames of a step */
#define RIGHT 3                 /* frames for the next step */
#define CONTEXT (LEFT + RIGHT)  /* frames of the step before in front of the new ones */
#define ALL (CONTEXT + ROWS)    /* frames of the encoder */
#define MOST (ROWS + RIGHT + 1) /* tokens of a step: of the last one and its tail */
#define TOKEN_ROWS 8            /* longest token, for times */
#define SKIPPED 0               /* a token that is not written: <blank> */
#define RESTART_ROWS 1000       /* an endpoint after so many frames begins positions anew */

enum { ENCODER, DECODER, PARTS };

struct model {
    struct steno_funasr_model m; /* its parts: encoder, decoder */
    int vocab, dim, blocks, kernel;
    float scale; /* of the normalised features: sqrt(dim) */
};

/* Tokens that fired in a funasr_streaming_step, and in which of its frames. */
struct fired {
    int32_t token[MOST];
    float peak[MOST];
    int row[MOST];
    size_t n;
};

struct stream {
    struct steno_shell_stream base; /* without a search */
    float *context;                 /* [CONTEXT, width] last input frames, without positions */
    int64_t row;                    /* position of the next input frame */
    struct steno_cif cif;
    float *caches;      /* [blocks, dim, kernel - 1] of the decoder */
    int64_t rows;       /* frames of scores of the run that were consumed */
    int64_t last;       /* frame of the last token; -1: none */
    int64_t tokens_end; /* last frame of the last token, on the run's clock */
    int left;           /* frames of the last step that are not consumed */
    struct fired fired;
    size_t taken;             /* of them */
    struct steno_span *spans; /* [n, cap] of the utterance */
    size_t n, cap;
    double score;
};

struct worker {
    struct steno_shell_worker base;
    float *x;      /* [ALL, width] */
    float *embeds; /* [MOST, dim] */
    float *row;    /* [vocab] */
};

static size_t width_of(const struct model *m)
{
    return STENO_FUNASR_BINS * m->m.front.lfr.window;
}

static size_t cache_size(const struct model *m)
{
    return (size_t)m->dim * (size_t)(m->kernel - 1);
}

/* ---- open ------------------------------------------------------------------------------------ */

static bool probe_funasr_streaming(const char *dir)
{
    steno_onnx_head *e = steno_network_file_peek(dir, "encoder"),
                    *d = steno_network_file_peek(dir, "decoder");
    const bool is = e && d && steno_onnx_head_has_output(e, "alphas") &&
                    steno_onnx_head_has_input(d, "acoustic_embeds");
    steno_onnx_head_close(e);
    steno_onnx_head_close(d);
    return is;
}

static steno_status read_meta(struct model *m, steno_err *err)
{
    const struct steno_funasr_source s = steno_funasr_source_of(&m->m.base.part[ENCODER]);
    steno_status st =
        steno_funasr_number(&s, "vocab_size", 3, STENO_FUNASR_MAX_VOCAB, &m->vocab, err);
    if (!st)
        st = steno_funasr_number(&s, "encoder_output_size", 1, 1 << 16, &m->dim, err);
    if (!st)
        st = steno_funasr_number(&s, "decoder_num_blocks", 1, 256, &m->blocks, err);
    return st ? st : steno_funasr_number(&s, "decoder_kernel_size", 2, 1024, &m->kernel, err);
}

static steno_status check_networks(const struct model *m, steno_err *err)
{
    const int in = steno_network_n_inputs(m->m.base.part[DECODER].net);
    const int out = steno_network_n_outputs(m->m.base.part[DECODER].net);
    if (steno_network_n_inputs(m->m.base.part[ENCODER].net) != 2 ||
        steno_network_n_outputs(m->m.base.part[ENCODER].net) < 3)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: %d inputs and %d outputs, expected 2 (frames, their number) and 3 "
                          "(frames, their number, weights)",
                          m->m.base.part[ENCODER].name,
                          steno_network_n_inputs(m->m.base.part[ENCODER].net),
                          steno_network_n_outputs(m->m.base.part[ENCODER].net));
    if (in != 4 + m->blocks || out < 2 + m->blocks)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: %d inputs and %d outputs, but decoder_num_blocks of %s is %d: "
                          "expected %d and %d",
                          m->m.base.part[DECODER].name, in, out, m->m.base.part[ENCODER].name,
                          m->blocks, 4 + m->blocks, 2 + m->blocks);
    return STENO_OK;
}

static steno_status open_model_funasr_streaming(void *model, const struct steno_family_open *o,
                                                steno_err *err)
{
    struct model *m = model;
    steno_status st = steno_funasr_model_open(&m->m, o, "encoder", err);
    if (!st)
        st = steno_part_file_open(&m->m.base.part[DECODER], o, "decoder", m->m.quantized, err);
    if (!st && (st = read_meta(m, err)))
        st = steno_fail_in(err, st, "%s", m->m.base.dir);
    if (!st && (st = check_networks(m, err)))
        st = steno_fail_in(err, st, "%s", m->m.base.dir);
    if (!st)
        st = steno_funasr_tokens_open(&m->m, m->vocab, err);
    if (st)
        return st;
    m->m.front.lfr.centred = false;
    m->scale = sqrtf((float)m->dim);
    steno_tokens_set_joining(m->m.base.tokens);
    return STENO_OK;
}

static size_t stream_bytes(const struct model *m)
{
    return (CONTEXT * width_of(m) + (size_t)m->blocks * cache_size(m) + (size_t)m->dim) *
           sizeof(float);
}

static void get_info_funasr_streaming(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    const size_t shift = m->m.front.lfr.shift;
    const double row = (double)(shift * STENO_FUNASR_HOP) / STENO_FUNASR_RATE;
    out->sample_rate = STENO_FUNASR_RATE;
    out->frame_samples = shift * STENO_FUNASR_HOP;
    out->chunk_seconds = ROWS * row;
    out->lookahead_seconds = RIGHT * row;
    out->stream_bytes = stream_bytes(m);
    out->endpoint = (struct steno_endpoint_rules){5, 0.8, 30};
    out->untimed = true;
    out->feeding = STENO_FEED_WINDOWS;
    out->windows = (struct steno_windows_info){
        .front = m->m.base.front,
        .frames = (ROWS - 1) * shift + m->m.front.lfr.window,
        .shift = ROWS * shift,
        .right_padding = ROWS * shift, /* the last frames, and silence that ends the last token */
        .rows = ROWS};
}

static void describe_funasr_streaming(const void *model, const struct steno_model_info *i,
                                      FILE *out)
{
    const struct model *m = model;
    steno_funasr_describe(&m->m, i, out);
    fprintf(out, "languages  not named in the directory\n");
    fprintf(out, "search     the likeliest token, no hot words\n");
    fprintf(out, "decoder    %s, %d blocks\n", m->m.base.part[DECODER].name, m->blocks);
    fprintf(out, "streaming  yes: %.0f ms and %.0f ms of lookahead\n", i->chunk_seconds * 1e3,
            i->lookahead_seconds * 1e3);
    steno_shell_describe_limits(i, out);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void restart_networks(struct stream *s)
{
    const struct model *m = s->base.model;
    memset(s->context, 0, CONTEXT * width_of(m) * sizeof *s->context);
    memset(s->caches, 0, (size_t)m->blocks * cache_size(m) * sizeof *s->caches);
    steno_cif_reset(&s->cif);
    s->row = 0;
}

static steno_status reset_funasr_streaming(void *state, enum steno_reset what, steno_err *err)
{
    struct stream *s = state;
    (void)err;
    s->n = 0;
    s->score = 0;
    if (what == STENO_RESET_RECORDING) {
        restart_networks(s);
        s->rows = 0;
        s->last = s->tokens_end = -1;
        s->left = 0;
        s->fired.n = s->taken = 0;
    } else if (s->row > RESTART_ROWS) {
        s->row = CONTEXT; /* the frames of the context have positions from 0 on */
    }
    return STENO_OK;
}

static void close_stream_funasr_streaming(void *stream)
{
    struct stream *s = stream;
    steno_cif_close(&s->cif);
    free(s->context);
    free(s->caches);
    free(s->spans);
}

static steno_status open_stream_funasr_streaming(void *stream, const void *model,
                                                 struct steno_family_stream *o, steno_err *err)
{
    const struct model *m = model;
    struct stream *s = stream;
    s->context = malloc(CONTEXT * width_of(m) * sizeof *s->context);
    s->caches = malloc((size_t)m->blocks * cache_size(m) * sizeof *s->caches);
    if (!s->context || !s->caches || !steno_cif_open(&s->cif, (size_t)m->dim))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    o->beam = o->n_best = 1; /* there is one hypothesis */
    return reset_funasr_streaming(s, STENO_RESET_RECORDING, err);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void close_worker_funasr_streaming(void *worker)
{
    struct worker *w = worker;
    steno_aligned_free(w->x);
    steno_aligned_free(w->embeds);
    free(w->row);
}

static steno_status open_worker_funasr_streaming(void *worker, const void *model, int max,
                                                 steno_err *err)
{
    const struct model *m = model;
    struct worker *w = worker;
    (void)max;
    w->x = steno_aligned_alloc(ALL * width_of(m) * sizeof *w->x);
    w->embeds = steno_aligned_alloc(MOST * (size_t)m->dim * sizeof *w->embeds);
    w->row = malloc((size_t)m->vocab * sizeof *w->row);
    return w->x && w->embeds && w->row ? STENO_OK
                                       : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Add the sinusoids of position `at` + 1 (FunASR's StreamSinusoidalPositionEncoder). */
static void add_position(float *x, size_t width, int64_t at)
{
    const size_t half = width / 2;
    const float scale = (float)(log(10000) / (double)(half - 1));
    for (size_t i = 0; i < half; i++) {
        const float angle = (float)(at + 1) * expf(-scale * (float)i);
        x[i] += sinf(angle);
        x[half + i] += cosf(angle);
    }
}

/* The encoder's input: the context, and the frames of the window. The context of the next step is
 * kept. Frames before the recording stay zeros, without a position. */
static void fill_input(struct worker *w, struct stream *s, const float *window)
{
    const struct model *m = w->base.model;
    const size_t width = width_of(m);
    const size_t frames = (ROWS - 1) * m->m.front.lfr.shift + m->m.front.lfr.window;
    float *fresh = w->x + CONTEXT * width;
    memcpy(w->x, s->context, CONTEXT * width * sizeof *w->x);
    steno_lfr_apply(&m->m.front.lfr, window, frames, STENO_FUNASR_BINS, fresh);
    steno_cmvn_apply(m->m.front.cmvn, fresh, ROWS);
    for (size_t i = 0; i < ROWS * width; i++)
        fresh[i] *= m->scale;
    memcpy(s->context, w->x + ROWS * width, CONTEXT * width * sizeof *w->x);
    for (int64_t i = 0; i < ALL; i++)
        if (s->row + i >= CONTEXT)
            add_position(w->x + (size_t)i * width, width, s->row + i - CONTEXT);
    s->row += ROWS;
}

static steno_status wrong_output(const struct steno_part_file *p, const char *what,
                                 const struct steno_tensor *t, steno_err *err)
{
    char shape[64];
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %s is %s%s", p->name, what,
                      t ? steno_dtype_name(t->dtype) : "missing",
                      t ? steno_shape_str(&t->shape, shape, sizeof shape) : "");
}

static steno_status encode_funasr_streaming(struct worker *w, const struct steno_tensor **enc,
                                            const float **alphas, steno_err *err)
{
    const struct model *m = w->base.model;
    const int32_t n = ALL;
    const int64_t one = 1, x[] = {1, ALL, (int64_t)width_of(m)};
    const struct steno_tensor *a;
    struct steno_run r = steno_shell_run(w, ENCODER, err);
    steno_status st;
    steno_run_set(&r, 0, STENO_F32, x, 3, w->x);
    steno_run_set(&r, 1, STENO_I32, &one, 1, &n);
    st = steno_run_end(&r);
    if (st)
        return st;
    *enc = steno_session_get(r.session, 0);
    st = steno_funasr_check_output(&m->m.base.part[ENCODER], *enc, m->dim, err);
    a = steno_session_get(r.session, 2);
    if (!st &&
        (!a || a->dtype != STENO_F32 || steno_numel(a) != ALL || (*enc)->shape.dim[1] != ALL))
        st = wrong_output(&m->m.base.part[ENCODER], "weights", a, err);
    if (!st)
        st = steno_scores_check(a->data, ALL, m->m.base.part[ENCODER].name, err);
    if (!st)
        *alphas = a->data;
    return st;
}

/* The embeddings of tokens that fire, and their frames, counted from the first one of the step.
 * last: no step follows, so the last frames count too, and the open token may fire. */
static size_t integrate(struct worker *w, struct stream *s, const float *enc, const float *alphas,
                        bool last)
{
    const size_t dim = (size_t)((const struct model *)w->base.model)->dim;
    const int end = last ? ALL : ALL - RIGHT;
    size_t n = 0;
    for (int i = LEFT; i < end; i++)
        if (steno_cif_push(&s->cif, enc + (size_t)i * dim, alphas[i], w->embeds + n * dim))
            s->fired.row[n++] = i - LEFT < ROWS ? i - LEFT : ROWS - 1;
    if (last && steno_cif_flush(&s->cif, w->embeds + n * dim))
        s->fired.row[n++] = ROWS - 1;
    return n;
}

static steno_status run_decoder(struct worker *w, const struct stream *s,
                                const struct steno_tensor *enc, size_t n, steno_err *err)
{
    const struct model *m = w->base.model;
    const int32_t lengths[] = {ALL, (int32_t)n};
    const int64_t one = 1, e[] = {1, (int64_t)n, m->dim}, c[] = {1, m->dim, m->kernel - 1};
    struct steno_run r = steno_shell_run(w, DECODER, err);
    steno_run_set_tensor(&r, 0, enc);
    steno_run_set(&r, 1, STENO_I32, &one, 1, &lengths[0]);
    steno_run_set(&r, 2, STENO_F32, e, 3, w->embeds);
    steno_run_set(&r, 3, STENO_I32, &one, 1, &lengths[1]);
    for (int i = 0; i < m->blocks; i++)
        steno_run_set(&r, 4 + i, STENO_F32, c, 3, s->caches + (size_t)i * cache_size(m));
    return steno_run_end(&r);
}

static steno_status take_caches(struct worker *w, struct stream *s, steno_err *err)
{
    const struct model *m = w->base.model;
    const size_t n = cache_size(m);
    for (int i = 0; i < m->blocks; i++) {
        const struct steno_tensor *t = steno_session_get(w->base.session[DECODER], 2 + i);
        if (!t || t->dtype != STENO_F32 || steno_numel(t) != n)
            return wrong_output(&m->m.base.part[DECODER], "a state", t, err);
        memcpy(s->caches + (size_t)i * n, t->data, n * sizeof *s->caches);
    }
    return STENO_OK;
}

/* The tokens of n embeddings. */
static steno_status decode_funasr_streaming(struct worker *w, struct stream *s,
                                            const struct steno_tensor *enc, size_t n,
                                            steno_err *err)
{
    const struct model *m = w->base.model;
    const struct steno_tensor *y;
    steno_status st = run_decoder(w, s, enc, n, err);
    if (st)
        return st;
    y = steno_session_get(w->base.session[DECODER], 0);
    st = steno_funasr_check_output(&m->m.base.part[DECODER], y, m->vocab, err);
    if (!st && y->shape.dim[1] != (int64_t)n)
        st = wrong_output(&m->m.base.part[DECODER], "scores", y, err);
    if (!st)
        st = steno_scores_check(y->data, steno_numel(y), m->m.base.part[DECODER].name, err);
    for (size_t i = 0; i < n && !st; i++) {
        const float *scores = (const float *)y->data + i * (size_t)m->vocab;
        s->fired.token[i] = steno_scores_likeliest(scores, m->vocab);
        steno_log_softmax(scores, (size_t)m->vocab, w->row);
        s->fired.peak[i] = w->row[s->fired.token[i]];
    }
    return st ? st : take_caches(w, s, err);
}

static steno_status step_one(struct worker *w, struct steno_step_item *item)
{
    struct stream *s = item->state;
    const struct steno_tensor *enc = NULL;
    const float *alphas = NULL;
    size_t n;
    steno_status st;
    fill_input(w, s, item->window);
    s->left = ROWS;
    s->fired.n = s->taken = 0;
    st = encode_funasr_streaming(w, &enc, &alphas, item->err);
    if (st)
        return st;
    n = integrate(w, s, enc->data, alphas, item->goal == STENO_STEP_FINAL);
    st = n ? decode_funasr_streaming(w, s, enc, n, item->err) : STENO_OK;
    if (!st)
        s->fired.n = n;
    return st;
}

static void funasr_streaming_step(void *worker, struct steno_step_item *items, size_t n, int size,
                                  struct steno_network_time *spent)
{
    (void)size;
    (void)spent; /* there is no trial */
    for (size_t i = 0; i < n; i++)
        items[i].st = step_one(worker, &items[i]);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Add a token that fired in frame `row` of the step. The frames of a step lie RIGHT before those of
 * its window. */
static bool add_token(struct stream *s, size_t i)
{
    const int64_t at = s->rows - RIGHT > 0 ? s->rows - RIGHT : 0;
    const int64_t first =
        s->tokens_end + 1 > at - TOKEN_ROWS + 1 ? s->tokens_end + 1 : at - TOKEN_ROWS + 1;
    if (s->fired.token[i] == SKIPPED)
        return true;
    if (STENO_RESERVE(&s->spans, &s->cap, s->n + 1))
        return false;
    s->spans[s->n++] = (struct steno_span){.token = s->fired.token[i],
                                           .peak = s->fired.peak[i],
                                           .first = first < 0    ? 0
                                                    : first < at ? first
                                                                 : at,
                                           .last = at};
    s->score += (double)s->fired.peak[i];
    s->tokens_end = at;
    s->last = s->rows;
    return true;
}

static steno_status consume(void *state, bool *left)
{
    struct stream *s = state;
    const int row = ROWS - s->left;
    *left = s->left > 0;
    if (!*left)
        return STENO_OK;
    for (; s->taken < s->fired.n && s->fired.row[s->taken] == row; s->taken++)
        if (!add_token(s, s->taken))
            return STENO_ERR_NOMEM;
    s->left--;
    s->rows++;
    return STENO_OK;
}

/* Nobody speaks in the window: it is silence for the networks, which begin anew after it. */
static steno_status skip_funasr_streaming(void *state)
{
    struct stream *s = state;
    restart_networks(s);
    s->left = ROWS;
    s->fired.n = s->taken = 0;
    return STENO_OK;
}

static int64_t frames(const void *state)
{
    return ((const struct stream *)state)->rows;
}

static int64_t last_sound(const void *state)
{
    return ((const struct stream *)state)->last;
}

static size_t n_tokens(const void *state)
{
    return ((const struct stream *)state)->n;
}

static steno_status hypotheses(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                               size_t *stable)
{
    struct stream *s = state;
    *n = max > 0;
    *stable = s->n; /* more tokens may follow */
    if (*n)
        out[0] = (struct steno_hypothesis){.spans = s->spans, .n = s->n, .score = s->score};
    return STENO_OK;
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .sessions = PARTS,
                                         .open = open_model_funasr_streaming,
                                         .close = steno_funasr_model_close,
                                         .info = get_info_funasr_streaming,
                                         .describe = describe_funasr_streaming,
                                         .stream_open = open_stream_funasr_streaming,
                                         .stream_close = close_stream_funasr_streaming,
                                         .worker_open = open_worker_funasr_streaming,
                                         .worker_close = close_worker_funasr_streaming};

static const struct steno_option_info options[] = {
    {FAMILY, "quantized", STENO_OPTION_FLAG, STENO_OPTION_OF_MODEL, 0, 0, NULL, "no",
     "use the int8 files where the others are there too"},
};

const struct steno_family steno_family_paraformer_streaming = {
    .name = FAMILY,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .probe = probe_funasr_streaming,
    .shell = &shell,
    STENO_WINDOWED_STATE,
    STENO_SHELL_TRIALS, /* none: how often the decoder runs depends on what is said */
    .reset = reset_funasr_streaming,
    .step = funasr_streaming_step,
    .hypotheses = hypotheses,
    .consume = consume,
    .skip = skip_funasr_streaming,
    .frames = frames,
    .last_sound = last_sound,
    .n_tokens = n_tokens};
