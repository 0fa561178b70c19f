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
#include "speech/families/entries.h"
#include "speech/families/llm/model.h"
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
    struct steno_llm_model base; /* part[0]: the encoder */
    struct steno_tjs_config config;
};

struct worker {
    struct steno_llm_worker base;
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
        st = steno_part_file_open(&m->base.base.part[0], &in, "audio_encoder", int8, err);
    if (!st)
        st = steno_llm_open_named(&m->base.llm, &in, "decoder_model_merged", "embed_tokens",
                                  &m->config.sizes, int8, err);
    free(below);
    return st;
}

static steno_status check_encoder_tjs(const struct model *m, steno_err *err)
{
    const struct steno_tjs_kind *k = m->config.kind;
    const struct steno_part_file *encoder = &m->base.base.part[0];
    const steno_network *net = encoder->net;
    const struct steno_value *x = steno_network_input(net, 0);
    const int64_t width = k->pads ? VOXTRAL_BINS : 2 * GRANITE_BINS;
    if (steno_network_n_inputs(net) == 1 && !strcmp(x->name, k->input) && x->dtype == STENO_F32 &&
        x->shape.rank == 3 &&
        (x->shape.dim[k->pads ? 1 : 2] == width || x->shape.dim[k->pads ? 1 : 2] < 0))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: expected one input, %s f32 %s", encoder->name,
                      k->input, k->pads ? "[1,128,3000]" : "[1,T,160]");
}

static steno_status open_vocabulary_tjs(struct model *m, const char *dir, steno_err *err)
{
    const steno_status st = steno_llm_model_take(
        &m->base, steno_llm_vocabulary_open_one(&m->base.vocabulary, dir, err));
    for (int i = 0; i < m->config.n_ends && !st; i++)
        if (m->config.end[i] >= m->base.llm.vocab)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: eos_token_id %d of %d tokens", dir,
                              (int)m->config.end[i], m->base.llm.vocab);
    return st;
}

static steno_status open_model_tjs(void *model, const struct steno_family_open *o, steno_err *err)
{
    struct steno_shell_model *base = model;
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
    st = steno_fbank_open(&base->front, &front, err);
    if (st)
        return st;
    snprintf(m->base.languages, sizeof m->base.languages, "%s", m->config.kind->languages);
    full = steno_llm_seconds(&m->base.llm, ROWS_A_SECOND, STENO_LLM_TOKENS_A_SECOND,
                             SCAFFOLD + STENO_LLM_TOKENS_BESIDE);
    if (full < (m->config.kind->pads ? FULL : 1))
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %lld positions are too few for a piece",
                          m->base.llm.decoder.name, (long long)m->base.llm.positions);
    steno_shell_set_cuts(base, RATE, fmin(FULL, full), FRAME, SLACK);
    return steno_shell_try_piece(base, err);
}

static steno_status open_stream_tjs(void *stream, const void *model, struct steno_family_stream *o,
                                    steno_err *err)
{
    const struct model *m = model;
    o->beam = o->n_best = 1;
    return steno_tjs_prompt_make(&((struct steno_llm_stream *)stream)->prompt, m->config.kind,
                                 &m->base.vocabulary, o, steno_llm_context(&m->base),
                                 "tokenizer.json", err);
}

/* ---- audio ----------------------------------------------------------------------------------- */

/* Two frames of Granite's together are a row of the encoder's input; an odd one at the end is left
 * out. */
static steno_status set_granite(struct worker *w, const struct steno_offline_piece *p,
                                struct steno_run *r)
{
    struct steno_piece_features *f = &w->base.base.features;
    int64_t dim[] = {1, 0, 2 * GRANITE_BINS};
    size_t n;
    const steno_status st = steno_piece_features_compute(f, p->pcm, p->n, &n, r->err);
    if (st)
        return st;
    steno_logmel_whisper_scale(f->frames, n, GRANITE_BINS);
    dim[1] = (int64_t)(n / 2);
    steno_run_set(r, 0, STENO_F32, dim, 3, f->frames);
    return STENO_OK;
}

/* Whisper's frames of the piece and of silence behind it, 30 s in all, by bands. */
static steno_status set_voxtral(struct worker *w, const struct steno_offline_piece *p,
                                struct steno_run *r)
{
    static const int64_t dim[] = {1, VOXTRAL_BINS, (int64_t)FULL_FRAMES};
    struct steno_piece_features *f = &w->base.base.features;
    const size_t heard = p->n < FULL_SAMPLES ? p->n : FULL_SAMPLES;
    const size_t all = heard + SILENCE < FULL_SAMPLES ? heard + SILENCE : FULL_SAMPLES;
    size_t n;
    steno_status st;
    if (!steno_floats_reserve(&w->pcm, &w->cap_pcm, all) ||
        !steno_floats_reserve(&w->bands, &w->cap_bands, VOXTRAL_BINS * FULL_FRAMES))
        return steno_fail(r->err, STENO_ERR_NOMEM, "stream: out of memory");
    memcpy(w->pcm, p->pcm, heard * sizeof *w->pcm);
    memset(w->pcm + heard, 0, (all - heard) * sizeof *w->pcm);
    st = steno_piece_features_compute(f, w->pcm, all, &n, r->err);
    if (st)
        return st;
    n = n < FULL_FRAMES ? n : FULL_FRAMES;
    for (size_t t = 0; t < FULL_FRAMES; t++)
        for (size_t b = 0; b < VOXTRAL_BINS; b++)
            w->bands[b * FULL_FRAMES + t] = t < n ? f->frames[t * VOXTRAL_BINS + b] : SILENT;
    steno_logmel_whisper_scale(w->bands, FULL_FRAMES, VOXTRAL_BINS);
    steno_run_set(r, 0, STENO_F32, dim, 3, w->bands);
    return STENO_OK;
}

/* The rows of a piece: *y [1,A,D], of the encoder's session. */
static steno_status encode_tjs(struct worker *w, const struct steno_offline_piece *p,
                               struct steno_tensor *y, steno_err *err)
{
    const struct model *m = w->base.base.model;
    struct steno_run r = steno_shell_run(w, 0, err);
    steno_status st = m->config.kind->pads ? set_voxtral(w, p, &r) : set_granite(w, p, &r);
    if (st)
        return steno_fail_in(err, st, "%s", r.name);
    st = steno_run_end(&r);
    if (st)
        return st;
    *y = *steno_session_get(r.session, 0);
    if (y->shape.rank == 2)
        y->shape = (struct steno_shape){.rank = 3, .dim = {1, y->shape.dim[0], y->shape.dim[1]}};
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[0] != 1 || y->shape.dim[1] < 1)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected audio_features f32 [1,A,D]", r.name);
    return STENO_OK;
}

static steno_status recognize_tjs(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    const struct model *m = w->base.base.model;
    struct steno_llm_limits limits = {.end = {m->config.end[0], m->config.end[1]},
                                      .n_ends = m->config.n_ends};
    struct steno_tensor y;
    steno_status st;
    if (p->n < 2 * HOP)
        return STENO_OK;
    st = encode_tjs(w, p, &y, p->err);
    if (st)
        return st;
    limits.seconds = (double)p->n / RATE;
    st = steno_llm_write(&w->base.run, steno_llm_prompt_of(p), &y, (size_t)y.shape.dim[1], &limits,
                         p->err);
    return st ? st : steno_llm_list(&w->base, p, (p->n + FRAME - 1) / FRAME);
}

static void close_worker_tjs(void *worker)
{
    struct worker *w = worker;
    steno_llm_worker_close(worker);
    steno_aligned_free(w->pcm);
    steno_aligned_free(w->bands);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_tjs(const void *model, struct steno_family_info *out)
{
    steno_llm_model_info(model, out);
    out->takes_prompt = out->takes_hotwords = ((const struct model *)model)->config.kind->speaks;
}

static void describe_tjs(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    char kind[64];
    snprintf(kind, sizeof kind, "language model with audio, %s", m->config.kind->title);
    steno_shell_describe_head(i, kind, out);
    fprintf(out, "features   %d mel bins, %d Hz\n", i->feature_bins, i->sample_rate);
    steno_llm_model_describe(&m->base, i, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct steno_llm_stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .sessions = 1,
                                         .open = open_model_tjs,
                                         .close = steno_llm_model_close,
                                         .info = get_info_tjs,
                                         .describe = describe_tjs,
                                         .stream_open = open_stream_tjs,
                                         .stream_close = steno_llm_stream_close,
                                         .worker_open = steno_llm_worker_open,
                                         .worker_close = close_worker_tjs,
                                         .recognize = recognize_tjs};

const struct steno_family steno_family_transformers_js = {.name = "transformers_js",
                                                          .probe = probe_tjs,
                                                          .languages = languages_tjs,
                                                          .shell = &shell,
                                                          STENO_OFFLINE_SHELL};
