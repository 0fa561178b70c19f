/* Family wav2vec2: a network over the samples of a piece of audio, with CTC over characters.
 *
 *     input_values [1, samples] f32, attention_mask [1, samples] i64 (not in every export)
 *         -> logits [1, frames, vocab] f32
 *     x [1, samples] f32 -> logits, of Omnilingual in sherpa-onnx's layout
 *
 * Pieces run one by one: without a mask, zeros behind a shorter piece would change its frames. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/path.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/part.h"
#include "speech/families/common/precision.h"
#include "speech/families/common/scores.h"
#include "speech/families/common/search_options.h"
#include "speech/families/common/shell.h"
#include "speech/families/entries.h"
#include "speech/families/option.h"
#include "speech/families/wav2vec2/conf.h"

#define FAMILY "wav2vec2"
#define STEM "model"
#define FULL 30.0 /* s: of a chunk; an utterance is not longer unless a stream says so */
#define SLACK 4   /* frames: how far the time of a token may differ between two chunks */

/* Frozen after open. */
struct model {
    struct steno_shell_model base;
    int x, mask; /* inputs; mask -1: there is none */
    struct steno_wav2vec2_conf conf;
    bool omnilingual; /* sherpa-onnx's layout, with tokens.txt */
};

struct worker {
    struct steno_shell_worker base;
    float *x, *scores; /* samples and scores of a piece */
    size_t cap_x, cap_scores;
    struct steno_ones ones;
    struct steno_span *spans; /* [cap_spans] */
    size_t cap_spans;
};

static const struct model *model_of_wav2vec2(const struct worker *w)
{
    return w->base.model;
}

/* ---- a piece --------------------------------------------------------------------------------- */

/* To mean 0 and variance 1 (transformers, Wav2Vec2FeatureExtractor; fairseq2, layer_norm). */
static void normalize(const float *pcm, size_t n, double eps, float *out)
{
    double mean = 0, square = 0, by;
    for (size_t i = 0; i < n; i++)
        mean += (double)pcm[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++)
        square += ((double)pcm[i] - mean) * ((double)pcm[i] - mean);
    by = 1 / sqrt(square / (double)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(((double)pcm[i] - mean) * by);
}

static steno_status run_wav2vec2(struct worker *w, const float *x, size_t n, steno_err *err)
{
    const struct model *m = w->base.model;
    const int64_t dim[] = {1, (int64_t)n};
    struct steno_run r = steno_shell_run(w, 0, err);
    steno_run_set(&r, m->x, STENO_F32, dim, 2, x);
    steno_run_set_ones(&r, m->mask, STENO_I64, n, &w->ones);
    return steno_run_end(&r);
}

/* The network's output as log-probabilities: w->scores [*frames, vocab]. */
static steno_status get_scores(struct worker *w, size_t *frames, steno_err *err)
{
    const struct model *m = model_of_wav2vec2(w);
    const struct steno_tensor *y = steno_session_get(w->base.session[0], 0);
    const size_t vocab = (size_t)steno_tokens_count(m->base.tokens);
    const float *rows;
    char shape[96];
    if (!y || y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[0] != 1 ||
        (size_t)y->shape.dim[2] != vocab)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: the output is %s%s, expected f32 [1,frames,%zu] for %s",
                          m->base.part[0].name, y ? steno_dtype_name(y->dtype) : "missing",
                          y ? steno_shape_str(&y->shape, shape, sizeof shape) : "", vocab,
                          m->omnilingual ? "tokens.txt" : "vocab.json");
    *frames = (size_t)y->shape.dim[1];
    rows = y->data;
    if (!steno_floats_reserve(&w->scores, &w->cap_scores, *frames * vocab))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    for (size_t i = 0; i < *frames; i++)
        steno_log_softmax(rows + i * vocab, vocab, w->scores + i * vocab);
    return STENO_OK;
}

static steno_status wav2vec2_score(struct worker *w, const float *pcm, size_t n, size_t *frames,
                                   steno_err *err)
{
    steno_status st;
    *frames = 0;
    if (n < model_of_wav2vec2(w)->conf.least)
        return STENO_OK;
    if (model_of_wav2vec2(w)->conf.normalize) {
        if (!steno_floats_reserve(&w->x, &w->cap_x, n))
            return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
        normalize(pcm, n, model_of_wav2vec2(w)->conf.eps, w->x);
        pcm = w->x;
    }
    st = run_wav2vec2(w, pcm, n, err);
    return st ? st : get_scores(w, frames, err);
}

/* A piece begins a word: what was cut in a pause has no delimiter before it. */
static steno_status add_wav2vec2(struct worker *w, struct steno_hypothesis_list *list,
                                 const struct steno_hypothesis *h)
{
    const int32_t delimiter = steno_tokens_delimiter(model_of_wav2vec2(w)->base.tokens);
    const bool more = delimiter >= 0 && h->n && h->spans[0].token != delimiter;
    if (STENO_RESERVE(&w->spans, &w->cap_spans, h->n + 1))
        return STENO_ERR_NOMEM;
    if (more)
        w->spans[0] = (struct steno_span){
            .token = delimiter, .first = h->spans[0].first, .last = h->spans[0].first};
    if (h->n)
        memcpy(w->spans + more, h->spans, h->n * sizeof *h->spans);
    return steno_hypothesis_list_add(list, w->spans, h->n + more, NULL, 0, h->score);
}

static steno_status recognize_wav2vec2(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    struct steno_token_search *s = &((struct steno_shell_stream *)p->settings)->search;
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t frames, n = 0, stable;
    steno_status st = wav2vec2_score(w, p->pcm, p->n, &frames, p->err);
    if (!st)
        st = steno_shell_search_scores(p, w->scores, frames,
                                       model_of_wav2vec2(w)->base.part[0].name);
    if (st)
        return st;
    st = steno_token_search_list(s, h, p->partial ? 1 : s->n_best, &n, &stable);
    for (size_t i = 0; i < n && !st; i++)
        st = add_wav2vec2(w, p->out, &h[i]);
    return st ? steno_fail(p->err, st, "stream: out of memory") : STENO_OK;
}

static void close_worker_wav2vec2(void *worker)
{
    struct worker *w = worker;
    steno_aligned_free(w->x);
    steno_aligned_free(w->scores);
    free(w->ones.data);
    free(w->spans);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Where the networks are: the directory itself, or its onnx/ as in exports for browsers. *out is
 * NULL if there is no such network. */
static steno_onnx_head *peek(const char *dir, char **out)
{
    steno_onnx_head *h = steno_network_file_peek(dir, STEM);
    char *inner = NULL;
    *out = NULL;
    if (!h && (inner = steno_path_join(dir, "onnx")))
        h = steno_network_file_peek(inner, STEM);
    if (h)
        *out = inner ? inner : strdup(dir);
    else
        free(inner);
    return h;
}

static steno_status open_json(steno_json **out, const char *dir, const char *file, bool needed,
                              steno_err *err);

/* A directory as it is published, which `steno convert` makes a model of. */
static bool is_checkpoint(const char *dir)
{
    static const char *const types[] = {"wav2vec2", "hubert", "wavlm", "data2vec-audio"};
    const struct steno_json_node *type = NULL;
    steno_json *j = NULL;
    bool is = false;
    if (!steno_path_readable(dir, "model.safetensors") &&
        !steno_path_readable(dir, "pytorch_model.bin"))
        return false;
    if (!open_json(&j, dir, "config.json", true, NULL))
        type = steno_json_get(steno_json_root(j), "model_type");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        is = is || (type && type->text && !strcmp(type->text, types[i]));
    steno_json_close(j);
    return is;
}

/* sherpa-onnx's export of Omnilingual. */
static bool is_of_omnilingual(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    return type && strcmp(type, "omnilingual-asr") == 0;
}

static bool is_omnilingual(const char *dir)
{
    return steno_path_readable(dir, "tokens.txt") &&
           steno_network_file_is(dir, STEM, is_of_omnilingual);
}

static bool probe_wav2vec2(const char *dir)
{
    char *where = NULL;
    steno_onnx_head *h =
        steno_path_readable(dir, "config.json") && steno_path_readable(dir, "vocab.json")
            ? peek(dir, &where)
            : NULL;
    const bool is = h && steno_onnx_head_has_input(h, "input_values") &&
                    !steno_onnx_head_has_input(h, "decoder_input_ids");
    steno_onnx_head_close(h);
    free(where);
    return is || is_omnilingual(dir) || is_checkpoint(dir); /* the last to say what to do */
}

static steno_status open_json(steno_json **out, const char *dir, const char *file, bool needed,
                              steno_err *err)
{
    char *path;
    steno_status st;
    if (!needed && !steno_path_readable(dir, file))
        return STENO_OK;
    path = steno_path_join(dir, file);
    st = path ? steno_json_open(out, path, err)
              : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    free(path);
    return st;
}

static const struct steno_json_node *root(const steno_json *j)
{
    return j ? steno_json_root(j) : NULL;
}

/* The last extent of the output tells how many scores there are, where it is a number. */
static int64_t output_width(const struct model *m)
{
    const struct steno_value *y = steno_network_output(m->base.part[0].net, 0);
    return y && y->shape.rank == 3 && y->shape.dim[2] > 0 ? y->shape.dim[2] : 0;
}

static steno_status open_conf(struct model *m, steno_err *err)
{
    enum { CONFIG, PREPROCESSOR, VOCAB, TOKENIZER, ADDED, N };
    static const char *const files[N] = {"config.json", "preprocessor_config.json", "vocab.json",
                                         "tokenizer_config.json", "added_tokens.json"};
    steno_json *j[N] = {NULL};
    steno_status st = STENO_OK;
    for (int i = 0; i < N && !st; i++)
        st = open_json(&j[i], m->base.dir, files[i], i == CONFIG || i == VOCAB, err);
    if (!st)
        st = steno_wav2vec2_conf_read(&m->conf, root(j[CONFIG]), root(j[PREPROCESSOR]), err);
    if (!st && output_width(m))
        m->conf.vocab = output_width(m);
    if (!st)
        st = steno_wav2vec2_tokens(&m->base.tokens, &m->base.blank, &m->conf, root(j[VOCAB]),
                                   root(j[TOKENIZER]), root(j[ADDED]), err);
    for (int i = 0; i < N; i++)
        steno_json_close(j[i]);
    return st ? steno_fail_in(err, st, "%s", m->base.dir) : STENO_OK;
}

static steno_status open_network_wav2vec2(struct model *m, const struct steno_family_open *o,
                                          steno_err *err)
{
    struct steno_family_open inner = *o;
    bool int8 = false;
    char *where = NULL;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    steno_onnx_head_close(peek(o->dir, &where));
    if (!st && !where && is_checkpoint(o->dir))
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: a checkpoint without networks: 'steno convert %s -o DIR' makes a "
                        "model of it",
                        o->dir, o->dir);
    if (!st && !where)
        st = steno_fail(err, STENO_ERR_IO, "%s: there is no %s*.onnx", o->dir, STEM);
    inner.dir = where;
    if (!st)
        st = steno_part_file_open(&m->base.part[0], &inner, STEM, int8, err);
    free(where);
    if (st)
        return st;
    m->x = m->omnilingual ? 0 : steno_network_find_input(m->base.part[0].net, "input_values");
    m->mask = steno_network_find_input(m->base.part[0].net, "attention_mask");
    if (m->x < 0 || steno_network_n_inputs(m->base.part[0].net) != 1 + (m->mask >= 0))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s/%s: expected inputs input_values [N,samples] and, if at all, "
                          "attention_mask",
                          m->base.dir, m->base.part[0].name);
    return STENO_OK;
}

static steno_status open_tokens_txt(struct model *m, steno_err *err)
{
    char *path = steno_path_join(m->base.dir, "tokens.txt");
    steno_status st = path ? steno_wav2vec2_tokens_txt(&m->base.tokens, &m->base.blank, path, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->base.dir);
    m->conf = steno_wav2vec2_conf_omnilingual();
    free(path);
    return st;
}

static steno_status open_model_wav2vec2(void *model, const struct steno_family_open *o,
                                        steno_err *err)
{
    struct model *m = model;
    steno_status st;
    m->omnilingual = is_omnilingual(o->dir);
    st = open_network_wav2vec2(m, o, err);
    if (!st)
        st = m->omnilingual ? open_tokens_txt(m, err) : open_conf(m, err);
    if (!st)
        st = steno_search_hints_open(&m->base.hints, o, m->base.tokens,
                                     steno_tokens_count(m->base.tokens), err);
    if (st)
        return st;
    steno_shell_set_cuts(&m->base, (int)m->conf.rate, FULL, m->conf.frame_samples, SLACK);
    return steno_shell_try_piece(&m->base, err);
}

/* ---- information, streams -------------------------------------------------------------------- */

static void get_info_wav2vec2(const void *model, struct steno_family_info *out)
{
    out->hop = ((const struct model *)model)->conf.frame_samples;
}

static void describe_wav2vec2(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    steno_shell_describe_head(i, m->omnilingual ? "CTC, Omnilingual" : "CTC", out);
    fprintf(out, "features   samples at %d Hz, %s\n", i->sample_rate,
            m->conf.normalize ? "normalized to mean 0 and variance 1" : "as they are");
    fprintf(out, "network    %s\n", i->network);
    steno_shell_describe_search(&m->base, i, steno_tokens_piece(m->base.tokens, m->base.blank),
                                out);
    fprintf(out, "steps      whole segments of at most %.0f s, scores every %.0f ms\n", FULL,
            i->frame_seconds * 1e3);
    steno_offline_describe(&m->base.offline, i, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct steno_shell_stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .open = open_model_wav2vec2,
                                         .sessions = 1,
                                         .info = get_info_wav2vec2,
                                         .describe = describe_wav2vec2,
                                         .stream_open = steno_shell_open_ctc_stream,
                                         .worker_close = close_worker_wav2vec2,
                                         .recognize = recognize_wav2vec2};

static const struct steno_option_info options[] = {STENO_SEARCH_OPTIONS(FAMILY)};

const struct steno_family steno_family_wav2vec2 = {.name = FAMILY,
                                                   .options = options,
                                                   .n_options = sizeof options / sizeof *options,
                                                   .probe = probe_wav2vec2,
                                                   .shell = &shell,
                                                   STENO_OFFLINE_SHELL};
