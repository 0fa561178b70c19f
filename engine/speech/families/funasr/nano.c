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

#include "base/path.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/precision.h"
#include "speech/families/common/search_options.h"
#include "speech/families/funasr/family.h"
#include "speech/families/funasr/model.h"
#include "speech/families/funasr/nano_prompt.h"
#include "speech/families/llm/decoder.h"

#define FAMILY "funasr_nano"
#define FULL 30.0         /* s: of a chunk, unless the caches have no room for it */
#define SLACK_SECONDS 1.0 /* tokens have no times of their own */
#define SECONDS_MIN 1.0   /* of a chunk: the caches are too short for less */

/* Frozen after open. */
struct model {
    struct steno_funasr_model m; /* its network is the encoder */
    struct steno_llm llm;
    struct steno_llm_vocabulary vocabulary; /* its tokens are m.base's, too */
    int32_t mark[STENO_NANO_MARKS];
    bool itn;
    char languages[128];
};

struct stream {
    struct steno_shell_stream base;
    struct steno_nano_prompt prompt;
};

struct worker {
    struct steno_shell_worker base;
    steno_session *encoder;
    struct steno_funasr_frames frames;
    struct steno_llm_run llm;
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool says(const char *dir, const char *stem, const char *type)
{
    steno_onnx_head *h = steno_network_file_peek(dir, stem);
    const char *said = h ? steno_onnx_head_meta(h, "model_type") : NULL;
    const bool is = said && strstr(said, type);
    steno_onnx_head_close(h);
    return is;
}

static bool probe_nano(const char *dir)
{
    return says(dir, "encoder_adaptor", "encoder_adaptor") || says(dir, "llm", "kv_delta");
}

/* The model of 31 languages says so in its name, or the exporter in the encoder's metadata. */
static bool has_all_languages(const char *name, const char *comment)
{
    return strstr(name, "mlt") || strstr(name, "MLT") || (comment && strstr(comment, "MLT"));
}

static bool languages_nano(const char *dir, struct steno_model_languages *out)
{
    steno_onnx_head *h = steno_network_file_peek(dir, "encoder_adaptor");
    char name[256];
    steno_path_copy_name(name, sizeof name, dir);
    steno_nano_languages(has_all_languages(name, h ? steno_onnx_head_meta(h, "comment") : NULL),
                         out->languages, sizeof out->languages);
    steno_onnx_head_close(h);
    return *dir;
}

static steno_status open_vocabulary(struct model *m, steno_err *err)
{
    char *folder = NULL;
    steno_status st = steno_llm_vocabulary_folder(&folder, m->m.base.dir, err);
    if (!st)
        st = steno_llm_vocabulary_open(&m->vocabulary, m->m.base.dir, folder, err);
    m->m.base.tokens = m->vocabulary.tokens;
    if (!st)
        st = steno_nano_find_marks(m->mark, &m->vocabulary, folder, err);
    m->llm.vocab = st ? 0 : steno_tokens_count(m->m.base.tokens);
    free(folder);
    return st;
}

static steno_status open_networks(struct model *m, const struct steno_family_open *o,
                                  steno_err *err)
{
    struct steno_funasr_source source;
    struct steno_lfr lfr;
    bool int8 = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    if (!st)
        st = steno_part_file_open(&m->m.net, o, "encoder_adaptor", int8, err);
    if (!st)
        st = steno_llm_open(&m->llm, o, "llm", "embedding", int8, err);
    if (st)
        return st;
    source = steno_funasr_source_of(&m->m);
    st = steno_funasr_lfr_meta(&source, &lfr, err);
    return st ? st : steno_funasr_front_make(&m->m.front, &lfr, NULL, NULL, err);
}

static steno_status check_encoder(const struct model *m, steno_err *err)
{
    const steno_network *net = m->m.net.net;
    const int64_t width = (int64_t)(STENO_FUNASR_BINS * m->m.front.lfr.window);
    const struct steno_value *x = steno_network_input(net, 0);
    if (steno_network_n_inputs(net) == 1 && steno_network_n_outputs(net) == 1 &&
        x->dtype == STENO_F32 && x->shape.rank == 3 &&
        (x->shape.dim[2] == width || x->shape.dim[2] < 0))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT,
                      "%s: expected one input, frames f32 [1,T,%lld], and one output",
                      m->m.net.name, (long long)width);
}

/* Cut recordings so that prompt, rows and text fit into the caches. */
static steno_status set_cuts(struct model *m, steno_err *err)
{
    const size_t frame = STENO_FUNASR_HOP * m->m.front.lfr.shift;
    const double rows = (double)STENO_FUNASR_RATE / (double)frame;
    size_t prompt;
    double full;
    steno_status st = steno_nano_prompt_longest(&m->vocabulary, m->mark, &prompt, err);
    if (st)
        return st;
    full = steno_llm_seconds(&m->llm, rows, STENO_LLM_TOKENS_A_SECOND,
                             (double)(prompt + STENO_LLM_TOKENS_BESIDE));
    if (full < SECONDS_MIN)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "%s: %lld positions, which a prompt of %zu tokens and a second of audio "
                          "do not fit into",
                          m->llm.decoder.name, (long long)m->llm.positions, prompt);
    steno_shell_set_cuts(&m->m.base, STENO_FUNASR_RATE, fmin(FULL, full), frame,
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
        st = open_vocabulary(m, err);
    if (!st)
        st = set_cuts(m, err);
    if (st)
        return st;
    steno_nano_languages(
        has_all_languages(m->m.base.name, steno_network_meta(m->m.net.net, "comment")),
        m->languages, sizeof m->languages);
    return steno_shell_try_piece(&m->m.base, err);
}

static void close_model_nano(void *model)
{
    struct model *m = model;
    steno_funasr_model_close(&m->m);
    steno_llm_close(&m->llm);
    m->vocabulary.tokens = NULL; /* the shell closes them */
    steno_llm_vocabulary_close(&m->vocabulary);
}

static steno_status open_stream_nano(void *stream, const void *model, struct steno_family_stream *o,
                                     steno_err *err)
{
    const struct model *m = model;
    bool itn = m->itn;
    o->beam = o->n_best = 1;
    (void)steno_option_get_flag(o->options, o->n_options, STENO_OPTION_ITN, &itn);
    return steno_nano_prompt_make(&((struct stream *)stream)->prompt, &m->vocabulary, m->mark, o,
                                  itn, (size_t)m->llm.positions / STENO_LLM_CONTEXT_SHARE, err);
}

static void close_stream_nano(void *stream)
{
    steno_nano_prompt_close(&((struct stream *)stream)->prompt);
}

/* ---- a piece --------------------------------------------------------------------------------- */

/* Encode n frames: the rows *y, of the session. */
static steno_status encode_nano(struct worker *w, size_t n, const struct steno_tensor **y,
                                steno_err *err)
{
    const struct model *m = w->base.model;
    const int64_t dim[] = {1, (int64_t)n, (int64_t)(STENO_FUNASR_BINS * m->m.front.lfr.window)};
    steno_status st = steno_part_set(w->encoder, 0, STENO_F32, dim, 3, w->frames.rows, err);
    if (!st)
        st = steno_session_run(w->encoder, err);
    if (st)
        return steno_fail_in(err, st, "%s", m->m.net.name);
    *y = steno_session_get(w->encoder, 0);
    return steno_funasr_check_output(&m->m.net, *y, (*y)->shape.dim[2], err);
}

static steno_status recognize_nano(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    const struct model *m = w->base.model;
    const struct steno_nano_prompt *prompt = &((const struct stream *)p->settings)->prompt;
    struct steno_llm_limits limits = {
        .end = {m->mark[STENO_NANO_END], m->mark[STENO_NANO_END_OF_TEXT]}, .n_ends = 2};
    const struct steno_tensor *y = NULL;
    size_t n, rows;
    steno_status st = steno_funasr_frames_of(&w->frames, p->pcm, p->n, &n, p->err);
    if (st || !n)
        return st;
    st = encode_nano(w, n, &y, p->err);
    if (st)
        return st;
    rows = (size_t)y->shape.dim[1];
    limits.seconds = (double)p->n / STENO_FUNASR_RATE;
    st = steno_llm_write(&w->llm, &prompt->text, y, rows, &limits, p->err);
    if (st)
        return st;
    p->language = prompt->language;
    p->language_probability = prompt->language ? 1 : 0;
    steno_greedy_text_share(&w->llm.text, n);
    return steno_greedy_text_list(&w->llm.text, p);
}

static steno_status open_worker_nano(void *worker, const void *model, int max, steno_err *err)
{
    const struct model *m = model;
    struct worker *w = worker;
    steno_status st = steno_shell_session_open(&w->encoder, &m->m.base, m->m.net.net, err);
    (void)max;
    if (!st)
        st = steno_funasr_frames_open(&w->frames, &m->m.front, err);
    return st ? st : steno_llm_run_open(&w->llm, &m->llm, &m->m.base, err);
}

static void close_worker_nano(void *worker)
{
    struct worker *w = worker;
    steno_llm_run_close(&w->llm);
    steno_session_close(w->encoder);
    steno_funasr_frames_close(&w->frames);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_nano(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    steno_funasr_info(&m->m, out);
    out->network = m->llm.decoder.name;
    out->languages = m->languages;
    out->detects_language = out->takes_prompt = out->takes_hotwords = out->writes = true;
    out->weight_bytes += steno_llm_weight_bytes(&m->llm);
}

static void describe_nano(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    fprintf(out, "model      %s, %s, language model with audio, Fun-ASR-Nano\n", i->name,
            i->family);
    fprintf(out, "directory  %s\n", i->dir);
    fprintf(out, "languages  %s\n", i->languages);
    steno_funasr_describe_front(&m->m, i, out);
    fprintf(out, "networks   %s, %s, %s%s\n", m->m.net.name, m->llm.embedding.name,
            m->llm.decoder.name, m->llm.decoder.quantized ? ", 8 bits" : "");
    steno_llm_describe(&m->llm, i, out);
    steno_offline_describe(&m->m.base.offline, i, out);
    steno_llm_describe_caches(&m->llm, out);
}

static const struct steno_option_info options[] = {STENO_ITN_OPTION(FAMILY)};

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .open = open_model_nano,
                                         .close = close_model_nano,
                                         .info = get_info_nano,
                                         .describe = describe_nano,
                                         .stream_open = open_stream_nano,
                                         .stream_close = close_stream_nano,
                                         .worker_open = open_worker_nano,
                                         .worker_close = close_worker_nano,
                                         .recognize = recognize_nano};

const struct steno_family steno_family_funasr_nano = {.name = FAMILY,
                                                      .options = options,
                                                      .n_options = sizeof options / sizeof *options,
                                                      .probe = probe_nano,
                                                      .languages = languages_nano,
                                                      .shell = &shell,
                                                      STENO_OFFLINE_SHELL};
