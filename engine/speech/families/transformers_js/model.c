/* Family transformers_js: language models that hear, from the directories that transformers.js
 * (huggingface/transformers.js) reads, a piece of audio at once: Granite Speech 4 and Voxtral.
 *
 *     audio_encoder          input_features f32 [1,T,160] or audio_values f32 [1,128,3000]
 *                            -> audio_features [1,A,D] or [A,D]
 *     embed_tokens, decoder_model_merged   families/llm/decoder.h, by names
 *
 * in the directory or in its folder onnx/. The decoder reads a prompt in which the rows stand in
 * place of a mark's embeddings, and writes the text. Greedy, as transformers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/common/precision.h"
#include "speech/families/llm/decoder.h"
#include "speech/families/transformers_js/family.h"
#include "speech/families/transformers_js/kind.h"
#include "speech/features/logmel.h"

#define RATE 16000
#define HOP 160
#define FULL 30.0 /* s: of a chunk */
#define FULL_SAMPLES ((size_t)480000)
#define FULL_FRAMES ((size_t)3000)
#define SILENCE 400 /* samples behind a piece that reach into its frames */
#define SILENT (-10.0F)
#define GRANITE_BINS 80
#define VOXTRAL_BINS 128
#define ROWS_A_SECOND 12.5
#define FRAME (RATE / 10) /* samples of a frame of scores: texts have no times */
#define SLACK 10
#define SCAFFOLD 32 /* tokens of a prompt without instruction and audio, at most */

/* Frozen after open. */
struct model {
    struct steno_shell_model base;
    struct steno_part_file encoder;
    struct steno_llm llm;
    struct steno_llm_vocabulary vocabulary; /* its tokens are base's, too */
    struct steno_tjs_config config;
};

struct stream {
    struct steno_shell_stream base;
    struct steno_tjs_prompt prompt;
};

struct worker {
    struct steno_shell_worker base;
    steno_session *encoder;
    struct steno_llm_run llm;
    float *pcm, *bands; /* Voxtral's: a piece with silence behind it; [128, 3000] */
    size_t cap_pcm, cap_bands;
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool probe_tjs(const char *dir)
{
    return steno_tjs_kind_of(dir) != NULL;
}

static bool languages_tjs(const char *dir, struct steno_model_languages *out)
{
    const struct steno_tjs_kind *k = steno_tjs_kind_of(dir);
    snprintf(out->languages, sizeof out->languages, "%s", k ? k->languages : "");
    return k != NULL;
}

static steno_status open_networks_tjs(struct model *m, const struct steno_family_open *o,
                                      steno_err *err)
{
    struct steno_family_open in = *o;
    char *below = steno_path_join(o->dir, "onnx");
    bool int8 = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    if (!st && !below)
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    if (!st && steno_path_is_dir(below))
        in.dir = below;
    if (!st)
        st = steno_part_file_open(&m->encoder, &in, "audio_encoder", int8, err);
    if (!st)
        st = steno_llm_open_named(&m->llm, &in, "decoder_model_merged", "embed_tokens",
                                  &m->config.sizes, int8, err);
    free(below);
    return st;
}

static steno_status check_encoder_tjs(const struct model *m, steno_err *err)
{
    const struct steno_tjs_kind *k = m->config.kind;
    const steno_network *net = m->encoder.net;
    const struct steno_value *x = steno_network_input(net, 0);
    const int64_t width = k->pads ? VOXTRAL_BINS : 2 * GRANITE_BINS;
    if (steno_network_n_inputs(net) == 1 && !strcmp(x->name, k->input) && x->dtype == STENO_F32 &&
        x->shape.rank == 3 &&
        (x->shape.dim[k->pads ? 1 : 2] == width || x->shape.dim[k->pads ? 1 : 2] < 0))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: expected one input, %s f32 %s", m->encoder.name,
                      k->input, k->pads ? "[1,128,3000]" : "[1,T,160]");
}

static steno_status open_vocabulary_tjs(struct model *m, const char *dir, steno_err *err)
{
    const steno_status st = steno_llm_vocabulary_open_one(&m->vocabulary, dir, err);
    m->base.tokens = m->vocabulary.tokens;
    m->llm.vocab = st ? 0 : steno_tokens_count(m->base.tokens);
    for (int i = 0; i < m->config.n_ends && !st; i++)
        if (m->config.end[i] >= m->llm.vocab)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: eos_token_id %d of %d tokens", dir,
                              (int)m->config.end[i], m->llm.vocab);
    return st;
}

static steno_status open_model_tjs(void *model, const struct steno_family_open *o, steno_err *err)
{
    struct model *m = model;
    struct steno_fbank_options front;
    double full;
    steno_status st = steno_tjs_read(&m->config, o->dir, err);
    if (!st)
        st = open_networks_tjs(m, o, err);
    if (!st)
        st = check_encoder_tjs(m, err);
    if (!st)
        st = open_vocabulary_tjs(m, o->dir, err);
    if (st)
        return st;
    front = m->config.kind->pads ? steno_logmel_whisper(VOXTRAL_BINS) : steno_logmel_granite();
    st = steno_fbank_open(&m->base.front, &front, err);
    if (st)
        return st;
    full = steno_llm_seconds(&m->llm, ROWS_A_SECOND, STENO_LLM_TOKENS_A_SECOND,
                             SCAFFOLD + STENO_LLM_TOKENS_BESIDE);
    if (full < (m->config.kind->pads ? FULL : 1))
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %lld positions are too few for a piece",
                          m->llm.decoder.name, (long long)m->llm.positions);
    steno_shell_set_cuts(&m->base, RATE, fmin(FULL, full), FRAME, SLACK);
    return steno_shell_try_piece(&m->base, err);
}

static void close_model_tjs(void *model)
{
    struct model *m = model;
    steno_part_file_close(&m->encoder);
    steno_llm_close(&m->llm);
    m->vocabulary.tokens = NULL; /* the shell closes them */
    steno_llm_vocabulary_close(&m->vocabulary);
}

static steno_status open_stream_tjs(void *stream, const void *model, struct steno_family_stream *o,
                                    steno_err *err)
{
    const struct model *m = model;
    o->beam = o->n_best = 1;
    return steno_tjs_prompt_make(&((struct stream *)stream)->prompt, m->config.kind, &m->vocabulary,
                                 o, (size_t)m->llm.positions / STENO_LLM_CONTEXT_SHARE,
                                 "tokenizer.json", err);
}

static void close_stream_tjs(void *stream)
{
    steno_tjs_prompt_close(&((struct stream *)stream)->prompt);
}

/* ---- audio ----------------------------------------------------------------------------------- */

/* Two frames of Granite's together are a row of the encoder's input; an odd one at the end is left
 * out. */
static steno_status set_granite(struct worker *w, const struct steno_offline_piece *p,
                                steno_err *err)
{
    struct steno_piece_features *f = &w->base.features;
    int64_t dim[] = {1, 0, 2 * GRANITE_BINS};
    size_t n;
    const steno_status st = steno_piece_features_compute(f, p->pcm, p->n, &n, err);
    if (st)
        return st;
    steno_logmel_whisper_scale(f->frames, n, GRANITE_BINS);
    dim[1] = (int64_t)(n / 2);
    return steno_part_set(w->encoder, 0, STENO_F32, dim, 3, f->frames, err);
}

/* Whisper's frames of the piece and of silence behind it, 30 s in all, by bands. */
static steno_status set_voxtral(struct worker *w, const struct steno_offline_piece *p,
                                steno_err *err)
{
    static const int64_t dim[] = {1, VOXTRAL_BINS, (int64_t)FULL_FRAMES};
    struct steno_piece_features *f = &w->base.features;
    const size_t heard = p->n < FULL_SAMPLES ? p->n : FULL_SAMPLES;
    const size_t all = heard + SILENCE < FULL_SAMPLES ? heard + SILENCE : FULL_SAMPLES;
    size_t n;
    steno_status st;
    if (!steno_floats_reserve(&w->pcm, &w->cap_pcm, all) ||
        !steno_floats_reserve(&w->bands, &w->cap_bands, VOXTRAL_BINS * FULL_FRAMES))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    memcpy(w->pcm, p->pcm, heard * sizeof *w->pcm);
    memset(w->pcm + heard, 0, (all - heard) * sizeof *w->pcm);
    st = steno_piece_features_compute(f, w->pcm, all, &n, err);
    if (st)
        return st;
    n = n < FULL_FRAMES ? n : FULL_FRAMES;
    for (size_t t = 0; t < FULL_FRAMES; t++)
        for (size_t b = 0; b < VOXTRAL_BINS; b++)
            w->bands[b * FULL_FRAMES + t] = t < n ? f->frames[t * VOXTRAL_BINS + b] : SILENT;
    steno_logmel_whisper_scale(w->bands, FULL_FRAMES, VOXTRAL_BINS);
    return steno_part_set(w->encoder, 0, STENO_F32, dim, 3, w->bands, err);
}

/* The rows of a piece: *y [1,A,D], of the encoder's session. */
static steno_status encode_tjs(struct worker *w, const struct steno_offline_piece *p,
                               struct steno_tensor *y, steno_err *err)
{
    const struct model *m = w->base.model;
    steno_status st = m->config.kind->pads ? set_voxtral(w, p, err) : set_granite(w, p, err);
    if (!st)
        st = steno_session_run(w->encoder, err);
    if (st)
        return steno_fail_in(err, st, "%s", m->encoder.name);
    *y = *steno_session_get(w->encoder, 0);
    if (y->shape.rank == 2)
        y->shape = (struct steno_shape){.rank = 3, .dim = {1, y->shape.dim[0], y->shape.dim[1]}};
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[0] != 1 || y->shape.dim[1] < 1)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected audio_features f32 [1,A,D]",
                          m->encoder.name);
    return STENO_OK;
}

static steno_status recognize_tjs(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    const struct model *m = w->base.model;
    const struct steno_tjs_prompt *prompt = &((const struct stream *)p->settings)->prompt;
    struct steno_llm_limits limits = {.end = {m->config.end[0], m->config.end[1]},
                                      .n_ends = m->config.n_ends};
    struct steno_tensor y;
    size_t rows;
    steno_status st;
    if (p->n < 2 * HOP)
        return STENO_OK;
    st = encode_tjs(w, p, &y, p->err);
    if (st)
        return st;
    rows = (size_t)y.shape.dim[1];
    limits.seconds = (double)p->n / RATE;
    st = steno_llm_write(&w->llm, &prompt->text, &y, rows, &limits, p->err);
    if (st)
        return st;
    p->language = prompt->language;
    p->language_probability = prompt->language ? 1 : 0;
    steno_greedy_text_share(&w->llm.text, (p->n + FRAME - 1) / FRAME);
    return steno_greedy_text_list(&w->llm.text, p);
}

static steno_status open_worker_tjs(void *worker, const void *model, int max, steno_err *err)
{
    const struct model *m = model;
    struct worker *w = worker;
    const steno_status st = steno_shell_session_open(&w->encoder, &m->base, m->encoder.net, err);
    (void)max;
    return st ? st : steno_llm_run_open(&w->llm, &m->llm, &m->base, err);
}

static void close_worker_tjs(void *worker)
{
    struct worker *w = worker;
    steno_llm_run_close(&w->llm);
    steno_session_close(w->encoder);
    steno_aligned_free(w->pcm);
    steno_aligned_free(w->bands);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_tjs(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    out->network = m->llm.decoder.name;
    out->languages = m->config.kind->languages;
    out->detects_language = out->writes = true;
    out->takes_prompt = out->takes_hotwords = m->config.kind->speaks;
    out->weight_bytes =
        steno_network_weight_bytes(m->encoder.net) + steno_llm_weight_bytes(&m->llm);
}

static void describe_tjs(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    fprintf(out, "model      %s, %s, language model with audio, %s\n", i->name, i->family,
            m->config.kind->title);
    fprintf(out, "directory  %s\n", m->base.dir);
    fprintf(out, "languages  %s\n", i->languages);
    fprintf(out, "features   %d mel bins, %d Hz\n", i->feature_bins, i->sample_rate);
    fprintf(out, "networks   %s, %s, %s\n", m->encoder.name, m->llm.embedding.name,
            m->llm.decoder.name);
    steno_llm_describe(&m->llm, i, out);
    steno_offline_describe(&m->base.offline, i, out);
    steno_llm_describe_caches(&m->llm, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .open = open_model_tjs,
                                         .close = close_model_tjs,
                                         .info = get_info_tjs,
                                         .describe = describe_tjs,
                                         .stream_open = open_stream_tjs,
                                         .stream_close = close_stream_tjs,
                                         .worker_open = open_worker_tjs,
                                         .worker_close = close_worker_tjs,
                                         .recognize = recognize_tjs};

const struct steno_family steno_family_transformers_js = {.name = "transformers_js",
                                                          .probe = probe_tjs,
                                                          .languages = languages_tjs,
                                                          .shell = &shell,
                                                          STENO_OFFLINE_SHELL};
