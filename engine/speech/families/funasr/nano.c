/* Family funasr_nano: Fun-ASR-Nano from sherpa-onnx's directories, a piece of audio at once.
 *
 *     encoder_adaptor   frames [1,T,560] -> rows of audio [1,T,D]
 *     embedding, llm    families/llm/decoder.h, with embeddings
 *
 * SenseVoice's encoder and front end, without normalisation; a language model, Qwen3's, reads a
 * prompt and the rows, and writes the text. Greedy, as sherpa-onnx
 * (offline-recognizer-funasr-nano-impl.cc, 1.13.4). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/path.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/precision.h"
#include "speech/families/common/search_options.h"
#include "speech/families/entries.h"
#include "speech/families/funasr/model.h"
#include "speech/families/funasr/nano_prompt.h"
#include "speech/families/llm/model.h"

#define FAMILY "funasr_nano"
#define FULL 30.0         /* s: of a chunk, unless the caches have no room for it */
#define SLACK_SECONDS 1.0 /* tokens have no times of their own */
#define SECONDS_MIN 1.0   /* of a chunk: the caches are too short for less */

static const char *const stems[] = {"encoder_adaptor"};

/* Frozen after open. */
struct model {
    struct steno_llm_model base;
    struct steno_funasr_front front;
    int32_t mark[STENO_NANO_MARKS];
    bool itn;
};

struct worker {
    struct steno_llm_worker base;
    struct steno_funasr_frames frames;
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_adaptor(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    return type && strstr(type, "encoder_adaptor");
}

static bool is_llm(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    return type && strstr(type, "kv_delta");
}

static bool probe_nano(const char *dir)
{
    return steno_network_file_is(dir, stems[0], is_adaptor) ||
           steno_network_file_is(dir, "llm", is_llm);
}

/* The model of 31 languages says so in its name, or the exporter in the encoder's metadata. */
static bool has_all_languages(const char *name, const char *comment)
{
    return strstr(name, "mlt") || strstr(name, "MLT") || (comment && strstr(comment, "MLT"));
}

static bool languages_nano(const char *dir, struct steno_model_languages *out)
{
    steno_onnx_head *h = steno_network_file_peek(dir, stems[0]);
    char name[256];
    steno_path_copy_name(name, sizeof name, dir);
    steno_nano_languages(has_all_languages(name, h ? steno_onnx_head_meta(h, "comment") : NULL),
                         out->languages, sizeof out->languages);
    steno_onnx_head_close(h);
    return *dir;
}

static steno_status open_vocabulary(struct model *m, const char *dir, steno_err *err)
{
    struct steno_llm_vocabulary *v = &m->base.vocabulary;
    char *folder = NULL;
    steno_status st = steno_llm_vocabulary_folder(&folder, dir, err);
    if (!st)
        st = steno_llm_vocabulary_open(v, dir, folder, err);
    if (!st)
        st = steno_nano_find_marks(m->mark, v, folder, err);
    free(folder);
    return steno_llm_model_take(&m->base, st);
}

static steno_status open_networks(struct model *m, const struct steno_family_open *o,
                                  steno_err *err)
{
    struct steno_shell_model *base = &m->base.base;
    struct steno_funasr_source source;
    struct steno_lfr lfr;
    bool int8 = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    if (!st)
        st = steno_shell_open_parts(base, o, stems, 1, err);
    if (!st)
        st = steno_llm_open(&m->base.llm, o, "llm", "embedding", int8, err);
    if (st)
        return st;
    source = steno_funasr_source_of(&base->part[0]);
    st = steno_funasr_lfr_meta(&source, &lfr, err);
    if (!st)
        st = steno_funasr_front_make(&m->front, &lfr, NULL, NULL, err);
    return st ? st : steno_funasr_fbank_open(base, err);
}

static steno_status check_encoder(const struct model *m, steno_err *err)
{
    const struct steno_part_file *p = &m->base.base.part[0];
    const int64_t width = (int64_t)(STENO_FUNASR_BINS * m->front.lfr.window);
    const struct steno_value *x = steno_network_input(p->net, 0);
    if (steno_network_n_inputs(p->net) == 1 && steno_network_n_outputs(p->net) == 1 &&
        x->dtype == STENO_F32 && x->shape.rank == 3 &&
        (x->shape.dim[2] == width || x->shape.dim[2] < 0))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT,
                      "%s: expected one input, frames f32 [1,T,%lld], and one output", p->name,
                      (long long)width);
}

/* Cut recordings so that prompt, rows and text fit into the caches. */
static steno_status set_cuts(struct model *m, steno_err *err)
{
    const size_t frame = STENO_FUNASR_HOP * m->front.lfr.shift;
    const double rows = (double)STENO_FUNASR_RATE / (double)frame;
    size_t prompt;
    double full;
    steno_status st = steno_nano_prompt_longest(&m->base.vocabulary, m->mark, &prompt, err);
    if (st)
        return st;
    full = steno_llm_seconds(&m->base.llm, rows, STENO_LLM_TOKENS_A_SECOND,
                             (double)(prompt + STENO_LLM_TOKENS_BESIDE));
    if (full < SECONDS_MIN)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "%s: %lld positions, which a prompt of %zu tokens and a second of audio "
                          "do not fit into",
                          m->base.llm.decoder.name, (long long)m->base.llm.positions, prompt);
    steno_shell_set_cuts(&m->base.base, STENO_FUNASR_RATE, fmin(FULL, full), frame,
                         (int64_t)(SLACK_SECONDS * rows));
    return STENO_OK;
}

static steno_status open_model_nano(void *model, const struct steno_family_open *o, steno_err *err)
{
    struct model *m = model;
    steno_status st = open_networks(m, o, err);
    m->itn = true;
    (void)steno_option_get_flag(o->options, o->n_options, STENO_OPTION_ITN, &m->itn);
    if (!st)
        st = check_encoder(m, err);
    if (!st)
        st = open_vocabulary(m, o->dir, err);
    if (!st)
        st = set_cuts(m, err);
    if (st)
        return st;
    steno_nano_languages(has_all_languages(m->base.base.name,
                                           steno_network_meta(m->base.base.part[0].net, "comment")),
                         m->base.languages, sizeof m->base.languages);
    return steno_shell_try_piece(&m->base.base, err);
}

static steno_status open_stream_nano(void *stream, const void *model, struct steno_family_stream *o,
                                     steno_err *err)
{
    const struct model *m = model;
    bool itn = m->itn;
    o->beam = o->n_best = 1;
    (void)steno_option_get_flag(o->options, o->n_options, STENO_OPTION_ITN, &itn);
    return steno_nano_prompt_make(&((struct steno_llm_stream *)stream)->prompt, &m->base.vocabulary,
                                  m->mark, o, itn, steno_llm_context(&m->base), err);
}

/* ---- a piece --------------------------------------------------------------------------------- */

/* Encode n frames: the rows *y, of the session. */
static steno_status encode_nano(struct worker *w, size_t n, const struct steno_tensor **y,
                                steno_err *err)
{
    const struct model *m = w->base.base.model;
    const int64_t dim[] = {1, (int64_t)n, (int64_t)(STENO_FUNASR_BINS * m->front.lfr.window)};
    struct steno_run r = steno_shell_run(w, 0, err);
    steno_status st;
    steno_run_set(&r, 0, STENO_F32, dim, 3, w->frames.rows);
    st = steno_run_end(&r);
    if (st)
        return st;
    *y = steno_session_get(r.session, 0);
    return steno_funasr_check_output(&m->base.base.part[0], *y, (*y)->shape.dim[2], err);
}

static steno_status recognize_nano(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    const struct model *m = w->base.base.model;
    struct steno_llm_limits limits = {
        .end = {m->mark[STENO_NANO_END], m->mark[STENO_NANO_END_OF_TEXT]}, .n_ends = 2};
    const struct steno_tensor *y = NULL;
    size_t n;
    steno_status st = steno_funasr_frames_of(&w->frames, &m->front, &w->base.base.features, p->pcm,
                                             p->n, &n, p->err);
    if (st || !n)
        return st;
    st = encode_nano(w, n, &y, p->err);
    if (st)
        return st;
    limits.seconds = (double)p->n / STENO_FUNASR_RATE;
    st = steno_llm_write(&w->base.run, steno_llm_prompt_of(p), y, (size_t)y->shape.dim[1], &limits,
                         p->err);
    return st ? st : steno_llm_list(&w->base, p, n);
}

static void close_worker_nano(void *worker)
{
    steno_llm_worker_close(worker);
    steno_aligned_free(((struct worker *)worker)->frames.rows);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_nano(const void *model, struct steno_family_info *out)
{
    steno_llm_model_info(model, out);
    out->takes_prompt = out->takes_hotwords = true;
}

static void describe_nano(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    steno_shell_describe_head(i, "language model with audio, Fun-ASR-Nano", out);
    steno_funasr_describe_front(&m->front, i, out);
    steno_llm_model_describe(&m->base, i, out);
}

static const struct steno_option_info options[] = {STENO_ITN_OPTION(FAMILY)};

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct steno_llm_stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .sessions = 1,
                                         .open = open_model_nano,
                                         .close = steno_llm_model_close,
                                         .info = get_info_nano,
                                         .describe = describe_nano,
                                         .stream_open = open_stream_nano,
                                         .stream_close = steno_llm_stream_close,
                                         .worker_open = steno_llm_worker_open,
                                         .worker_close = close_worker_nano,
                                         .recognize = recognize_nano};

const struct steno_family steno_family_funasr_nano = {.name = FAMILY,
                                                      .options = options,
                                                      .n_options = sizeof options / sizeof *options,
                                                      .probe = probe_nano,
                                                      .languages = languages_nano,
                                                      .shell = &shell,
                                                      STENO_OFFLINE_SHELL};
