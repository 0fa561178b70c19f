#include "speech/speakers/sortformer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/path.h"
#include "nn/network/run.h"

#define MOST_FRAMES 10000 /* of a chunk, a queue or a cache */
#define PREFIX "vernacula.diar."
#define CONFIG "config.json"

/* What NVIDIA documents for streaming Sortformers, by latency, the first being the most accurate;
 * the period belongs to chunk and queue. */
static const struct setting {
    double latency;
    size_t chunk, right, queue, period;
} settings[] = {{30.4, 340, 40, 40, 300},
                {10, 124, 1, 124, 124},
                {1.04, 6, 7, 188, 144},
                {0.32, 3, 1, 188, 144}};
#define SETTINGS (sizeof settings / sizeof *settings)
#define RECORDING 0
#define LIVE 1

#define LEFT 1 /* frames before a chunk, NeMo's default */
#define CACHE 188
#define RESTS 3

bool steno_sortformer_is(const steno_onnx_head *h)
{
    return steno_onnx_head_has_input(h, "chunk") && steno_onnx_head_has_input(h, "spkcache") &&
           steno_onnx_head_has_input(h, "fifo") &&
           steno_onnx_head_has_output(h, "spkcache_fifo_chunk_preds") &&
           steno_onnx_head_has_output(h, "chunk_pre_encode_embs");
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Where numbers are looked for. */
struct source {
    const steno_network *net;
    const struct steno_json_node *config; /* or NULL */
};

/* A number of the metadata, under one of two names, or else of config.json; -1 if there is none.
 * STENO_ERR_FORMAT names it if it is not within 0..most. */
static steno_status read_number(const struct source *from, const char *name, const char *other,
                                long *out, steno_err *err)
{
    char key[64];
    const char *text;
    const struct steno_json_node *node = steno_json_get(from->config, name);
    char *end;
    snprintf(key, sizeof key, PREFIX "%s", name);
    text = steno_network_meta(from->net, key);
    if (!text)
        text = steno_network_meta(from->net, name);
    if (!text)
        text = steno_network_meta(from->net, other);
    if (!text && node)
        text = node->text ? node->text : "";
    *out = text ? strtol(text, &end, 10) : -1;
    return !text || (end != text && !*end && *out >= 0 && *out <= MOST_FRAMES)
               ? STENO_OK
               : steno_fail(err, STENO_ERR_FORMAT, "%s is '%.40s', expected 0 to %d", name, text,
                            MOST_FRAMES);
}

/* What the file says; -1: nothing. */
struct said {
    long chunk, left, right, queue, cache, period, rests;
};

static steno_status read_said(const struct source *from, struct said *to, steno_err *err)
{
    const struct {
        const char *name, *other;
        long *to;
    } all[] = {{"chunk_len", "chunk_length", &to->chunk},
               {"chunk_left_context", "left_context", &to->left},
               {"chunk_right_context", "right_context", &to->right},
               {"fifo_len", "fifo_length", &to->queue},
               {"spkcache_len", "spkcache_length", &to->cache},
               {"spkcache_update_period", "update_period", &to->period},
               {"spkcache_sil_frames_per_spk", "sil_frames_per_spk", &to->rests}};
    steno_status st = STENO_OK;
    for (size_t i = 0; !st && i < sizeof all / sizeof *all; i++)
        st = read_number(from, all[i].name, all[i].other, all[i].to, err);
    return st;
}

/* The period that is documented for a chunk and a queue, or one like it. */
static size_t usual_period(size_t chunk, size_t queue)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (settings[i].chunk == chunk && settings[i].queue == queue)
            return settings[i].period;
    return chunk > queue * 3 / 4 ? chunk : queue * 3 / 4;
}

static size_t known_or(long said, size_t other)
{
    return said >= 0 ? (size_t)said : other;
}

/* Steps of a network whose chunk has any length. setting: what is not said. */
static struct steno_sortformer_steps free_steps(const struct steno_sortformer *s,
                                                const struct said *w, const struct setting *setting)
{
    struct steno_sortformer_steps t = {
        .chunk = known_or(w->chunk, setting->chunk),
        .left = known_or(w->left, LEFT),
        .right = known_or(w->right, setting->right),
        .queue = s->fixed_queue ? s->fixed_queue : known_or(w->queue, setting->queue),
        .cache = s->fixed_cache ? s->fixed_cache : known_or(w->cache, CACHE)};
    t.period = known_or(w->period, usual_period(t.chunk, t.queue));
    return t;
}

/* Steps of a network whose chunk has a fixed length: what is said, or the documented setting that
 * fits it. */
static steno_status fixed_steps(const struct steno_sortformer *s, const struct said *w,
                                struct steno_sortformer_steps *t, steno_err *err)
{
    const struct setting *fits = NULL;
    for (size_t i = 0; i < SETTINGS; i++) {
        const size_t whole = settings[i].chunk + settings[i].right;
        if (s->fixed_chunk == whole + known_or(w->left, LEFT) || s->fixed_chunk == whole)
            fits = &settings[i];
    }
    if (w->chunk < 0 && !fits)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "chunk is always %zu mel frames: chunk_len and chunk_right_context must "
                          "be in the metadata or in config.json",
                          s->fixed_chunk * STENO_SORTFORMER_MELS);
    *t = free_steps(s, w, fits ? fits : &(struct setting){.queue = CACHE});
    if (t->chunk + t->right > s->fixed_chunk)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "chunk_len %zu and chunk_right_context %zu are more than the %zu mel "
                          "frames of the input chunk",
                          t->chunk, t->right, s->fixed_chunk * STENO_SORTFORMER_MELS);
    t->left = s->fixed_chunk - t->chunk - t->right;
    return STENO_OK;
}

/* The embedding of silence that a network of newer Sortformers has learned. */
static steno_status read_silence(struct steno_sortformer *s, steno_err *err)
{
    const char *text = steno_network_meta(s->net, PREFIX "learnable_sil_emb_f32le_b64");
    const size_t n = text ? strlen(text) : 0, bytes = s->dim * sizeof *s->silence;
    unsigned char *raw;
    size_t len = 0;
    if (!text)
        return STENO_OK;
    raw = malloc(STENO_BASE64_DECODED(n));
    s->silence = malloc(bytes);
    if (!raw || !s->silence) {
        free(raw);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    const bool whole = steno_base64_decode(text, n, raw, &len) == n && len == bytes;
    if (whole)
        memcpy(s->silence, raw, bytes); /* little-endian, as this machine is */
    free(raw);
    for (size_t k = 0; whole && k < s->dim; k++)
        if (!isfinite(s->silence[k]))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "learnable_sil_emb_f32le_b64: number %zu is not finite", k);
    return whole ? STENO_OK
                 : steno_fail(err, STENO_ERR_FORMAT,
                              "learnable_sil_emb_f32le_b64 is not %zu numbers in base64", s->dim);
}

/* Open config.json in the directory of `path`, if there is one. */
static steno_status open_config(steno_json **out, const char *path, steno_err *err)
{
    char *config = steno_path_beside(path, CONFIG);
    steno_status st = STENO_OK;
    if (!config)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!access(config, F_OK))
        st = steno_json_open(out, config, err);
    free(config);
    return st;
}

static steno_status read_steps(struct steno_sortformer *s, const char *path, steno_err *err)
{
    steno_json *j = NULL;
    struct said w;
    steno_status st = open_config(&j, path, err);
    if (!st)
        st = read_said(&(struct source){s->net, j ? steno_json_root(j) : NULL}, &w, err);
    steno_json_close(j);
    if (st)
        return st;
    s->rests = known_or(w.rests, RESTS);
    if (s->fixed_chunk) {
        st = fixed_steps(s, &w, &s->recording, err);
        s->live = s->recording;
        return st;
    }
    s->live = free_steps(s, &w, &settings[LIVE]);
    w.chunk = w.right = w.queue = w.period = -1; /* the most accurate, whatever the file is for */
    s->recording = free_steps(s, &w, &settings[RECORDING]);
    return STENO_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Find an input [N, T, width]; its lengths, or 0 where they are any. */
static steno_status find_rows(const struct steno_sortformer *s, const char *name, int *input,
                              size_t *rows, size_t *width, steno_err *err)
{
    char shape[64];
    *input = steno_network_find_input(s->net, name);
    const struct steno_value *v = *input < 0 ? NULL : steno_network_input(s->net, *input);
    if (!v || v->dtype != STENO_F32 || v->shape.rank != 3 || v->shape.dim[0] > 1 ||
        v->shape.dim[2] < 1)
        return steno_fail(err, STENO_ERR_FORMAT, "input %s is %s %s, expected f32 [1,T,N]", name,
                          v ? steno_dtype_name(v->dtype) : "missing",
                          v ? steno_shape_str(&v->shape, shape, sizeof shape) : "");
    *rows = v->shape.dim[1] > 0 ? (size_t)v->shape.dim[1] : 0;
    *width = (size_t)v->shape.dim[2];
    return STENO_OK;
}

static steno_status check_widths(struct steno_sortformer *s, size_t queue_dim, steno_err *err)
{
    if (s->bins != 128 && s->bins != 80)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "input chunk has %zu mel bins, expected 128 or 80", s->bins);
    if (queue_dim != s->dim)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "embeddings of %zu numbers in spkcache, of %zu in fifo", s->dim,
                          queue_dim);
    if (s->fixed_chunk % STENO_SORTFORMER_MELS)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "input chunk has %zu mel frames, not a multiple of %d", s->fixed_chunk,
                          STENO_SORTFORMER_MELS);
    s->fixed_chunk /= STENO_SORTFORMER_MELS;
    if (s->fixed_chunk > MOST_FRAMES || s->fixed_cache > MOST_FRAMES ||
        s->fixed_queue > MOST_FRAMES)
        return steno_fail(err, STENO_ERR_LIMIT, "an input of more than %d frames", MOST_FRAMES);
    if ((s->fixed_cache && s->cache_length < 0) || (s->fixed_queue && s->queue_length < 0))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "spkcache or fifo always have %zu and %zu frames, and there is no "
                          "input of how many are filled (spkcache_lengths, fifo_lengths)",
                          s->fixed_cache, s->fixed_queue);
    return STENO_OK;
}

static steno_status find_values(struct steno_sortformer *s, steno_err *err)
{
    size_t queue_dim;
    steno_status st = find_rows(s, "chunk", &s->chunk, &s->fixed_chunk, &s->bins, err);
    if (!st)
        st = find_rows(s, "spkcache", &s->cache, &s->fixed_cache, &s->dim, err);
    if (!st)
        st = find_rows(s, "fifo", &s->queue, &s->fixed_queue, &queue_dim, err);
    if (st)
        return st;
    s->chunk_length = steno_network_find_input(s->net, "chunk_lengths");
    s->cache_length = steno_network_find_input(s->net, "spkcache_lengths");
    s->queue_length = steno_network_find_input(s->net, "fifo_lengths");
    s->probs = steno_network_find_output(s->net, "spkcache_fifo_chunk_preds");
    s->embeddings = steno_network_find_output(s->net, "chunk_pre_encode_embs");
    s->fine = steno_network_find_output(s->net, "spkcache_fifo_chunk_preds_hr");
    const int named = 3 + (s->chunk_length >= 0) + (s->cache_length >= 0) + (s->queue_length >= 0);
    if (s->probs < 0 || s->embeddings < 0 || steno_network_n_inputs(s->net) != named)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "inputs or outputs are not those of a streaming Sortformer");
    return check_widths(s, queue_dim, err);
}

/* Find out the numbers of speakers and of fine rows, from the shortest chunk. */
static steno_status try_chunk(struct steno_sortformer *s, steno_err *err)
{
    const struct steno_arrival_rules rules = {.cache = s->recording.cache,
                                              .queue = s->recording.queue,
                                              .chunk = 1,
                                              .period = 1,
                                              .speakers = 1,
                                              .dim = s->dim};
    const struct steno_sortformer_steps one = {.chunk = 1};
    const size_t rows = steno_sortformer_most(s, &one) * STENO_SORTFORMER_MELS;
    struct steno_sortformer_answer answer;
    struct steno_arrival a = {0};
    steno_session *session = NULL;
    float *mel = calloc(rows * s->bins, sizeof *mel);
    steno_status st = mel ? steno_arrival_init(&a, &rules, err)
                          : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_session_open(&session, s->net, NULL, err);
    if (!st)
        st = steno_sortformer_run(s, session, mel, STENO_SORTFORMER_MELS, &a, &answer, err);
    if (!st) {
        const struct steno_tensor *p = steno_session_get(session, s->probs);
        const struct steno_tensor *fine = steno_session_get(session, s->fine);
        s->speakers = (size_t)p->shape.dim[2];
        s->parts = s->fine < 0 ? 1 : (size_t)(fine->shape.dim[1] / p->shape.dim[1]);
        if (s->parts > STENO_SORTFORMER_MELS || STENO_SORTFORMER_MELS % s->parts)
            st = steno_fail(err, STENO_ERR_UNSUPPORTED, "%zu fine rows for each frame", s->parts);
    }
    steno_session_close(session);
    steno_arrival_free(&a);
    free(mel);
    return st;
}

/* Errors of the rules come at open. */
static steno_status try_rules(const struct steno_sortformer *s,
                              const struct steno_sortformer_steps *t, steno_err *err)
{
    struct steno_arrival a;
    const steno_status st =
        steno_arrival_init(&a,
                           &(struct steno_arrival_rules){.cache = t->cache,
                                                         .queue = t->queue,
                                                         .chunk = t->chunk,
                                                         .period = t->period,
                                                         .speakers = s->speakers,
                                                         .dim = s->dim,
                                                         .rests = s->rests},
                           err);
    if (!st)
        steno_arrival_free(&a);
    return st == STENO_ERR_INVAL ? STENO_ERR_FORMAT : st;
}

steno_status steno_sortformer_open(struct steno_sortformer *s, const char *path, steno_err *err)
{
    const struct steno_network_options o = {.opt_level = -1, .cache_dir = steno_cache_dir()};
    steno_status st = steno_network_open(&s->net, path, &o, err);
    if (st)
        return st;
    st = find_values(s, err);
    if (!st)
        st = read_steps(s, path, err);
    if (!st)
        st = read_silence(s, err);
    if (!st)
        st = try_chunk(s, err);
    if (!st)
        st = try_rules(s, &s->recording, err);
    if (!st)
        st = try_rules(s, &s->live, err);
    if (st) {
        steno_sortformer_close(s);
        return steno_fail_in(err, st, "%.200s", path);
    }
    return STENO_OK;
}

void steno_sortformer_close(struct steno_sortformer *s)
{
    steno_network_close(s->net);
    free(s->silence);
    *s = (struct steno_sortformer){0};
}

steno_status steno_sortformer_set_latency(struct steno_sortformer *s, double seconds,
                                          steno_err *err)
{
    const struct said kept = {-1, (long)s->live.left, -1, -1, (long)s->live.cache, -1, -1};
    for (size_t i = 0; i < SETTINGS; i++)
        if (fabs(settings[i].latency - seconds) < 1e-6) {
            if (s->fixed_chunk || s->fixed_queue)
                return steno_fail(err, STENO_ERR_UNSUPPORTED,
                                  "the latency of this Sortformer is fixed: %.2f s",
                                  (double)(s->live.chunk + s->live.right) * 0.08);
            s->live = free_steps(s, &kept, &settings[i]);
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL, "latency %g is not 0.32, 1.04, 10 or 30.4 s", seconds);
}

size_t steno_sortformer_most(const struct steno_sortformer *s,
                             const struct steno_sortformer_steps *steps)
{
    return s->fixed_chunk ? s->fixed_chunk : steps->left + steps->chunk + steps->right;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Set rows [1, rows, width], the first n of which are filled, and how many these are. */
static void set_rows(struct steno_run *r, int input, int length, float *x, size_t n, size_t rows,
                     size_t width, const int64_t *count)
{
    memset(x + n * width, 0, (rows - n) * width * sizeof *x);
    steno_run_set(r, input, STENO_F32, (const int64_t[]){1, (int64_t)rows, (int64_t)width}, 3, x);
    steno_run_set(r, length, STENO_I64, (const int64_t[]){1}, 1, count);
}

static bool are_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* An output [1, at least rows, width], all finite; width 0: any. */
static steno_status take_output(const struct steno_sortformer *s, steno_session *session, int i,
                                size_t rows, size_t width, const float **out, steno_err *err)
{
    const struct steno_tensor *t = steno_session_get(session, i);
    const char *name = steno_network_output(s->net, i)->name;
    char shape[64];
    if (t->dtype != STENO_F32 || t->shape.rank != 3 || t->shape.dim[0] != 1 ||
        t->shape.dim[1] < (int64_t)rows || t->shape.dim[1] < 1 || t->shape.dim[2] < 1 ||
        (width && t->shape.dim[2] != (int64_t)width))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "the network gave %s %s, expected %zu frames of %zu numbers", name,
                          steno_shape_str(&t->shape, shape, sizeof shape), rows, width);
    if (!are_finite(t->data, rows * (size_t)t->shape.dim[2]))
        return steno_fail(err, STENO_ERR_FORMAT, "the network gave %s with numbers that are none",
                          name);
    *out = t->data;
    return STENO_OK;
}

steno_status steno_sortformer_run(const struct steno_sortformer *s, steno_session *session,
                                  float *mel, size_t mels, struct steno_arrival *a,
                                  struct steno_sortformer_answer *out, steno_err *err)
{
    const size_t frames = (mels + STENO_SORTFORMER_MELS - 1) / STENO_SORTFORMER_MELS;
    const size_t whole = (s->fixed_chunk ? s->fixed_chunk : frames) * STENO_SORTFORMER_MELS;
    const size_t before = a->n_cache + a->n_queue, parts = s->parts ? s->parts : 1;
    const int64_t n[3] = {(int64_t)mels, (int64_t)a->n_cache, (int64_t)a->n_queue};
    struct steno_run r = steno_run_begin(session, NULL, err);
    steno_status st;
    set_rows(&r, s->chunk, s->chunk_length, mel, mels, whole, s->bins, &n[0]);
    set_rows(&r, s->cache, s->cache_length, a->cache, a->n_cache,
             s->fixed_cache ? s->fixed_cache : a->n_cache, s->dim, &n[1]);
    set_rows(&r, s->queue, s->queue_length, a->queue, a->n_queue,
             s->fixed_queue ? s->fixed_queue : a->n_queue, s->dim, &n[2]);
    st = steno_run_end(&r);
    if (!st)
        st = take_output(s, session, s->probs, before + frames, s->speakers, &out->memory, err);
    if (!st)
        st = take_output(s, session, s->embeddings, frames, s->dim, &out->embeddings, err);
    if (st)
        return st;
    out->probs = out->memory + before * s->speakers;
    out->told = out->probs;
    out->frames = frames;
    if (s->fine < 0)
        return STENO_OK;
    st = take_output(s, session, s->fine, (before + frames) * parts, s->speakers, &out->told, err);
    out->told += before * parts * s->speakers;
    return st;
}
