/* Family moonshine: an encoder over the samples of a piece of audio, and a decoder that writes one
 * token after the other (Jeffries et al., "Moonshine: Speech Recognition for Live Transcription and
 * Voice Commands", 2024). */
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "formats/onnx_head.h"
#include "speech/families/common/network_file.h"
#include "speech/families/entries.h"
#include "speech/families/moonshine/model.h"
#include "speech/families/moonshine/vocabulary.h"
#include "speech/families/option.h"

#define FAMILY "moonshine"
#define FULL 30.0     /* s: maximum length of a chunk */
#define LONGEST 600.0 /* s: maximum length of an utterance */
#define TOKENS_V1 6   /* maximum of tokens in a second: sherpa-onnx's limits */
#define TOKENS_V2 15
#define SLACK_SECONDS 2.0 /* times of tokens are estimates */

struct worker {
    struct steno_moonshine_runner base;
    struct steno_greedy_text text;
};

/* ---- recognize a directory ------------------------------------------------------------------- */

static bool has_file(const char *dir, const char *stem)
{
    char *name = NULL;
    const bool has = !steno_network_file_find(&name, dir, stem, false, NULL) && name;
    free(name);
    return has;
}

static bool is_v1(const char *dir)
{
    return has_file(dir, "uncached_decode") && has_file(dir, "cached_decode");
}

/* Whisper's exports have files of the same names; their encoder takes features. */
static bool is_v2(const char *dir)
{
    steno_onnx_head *h = has_file(dir, "decoder_model_merged")
                             ? steno_network_file_peek(dir, "encoder_model")
                             : NULL;
    const bool is = h && steno_onnx_head_has_input(h, "input_values");
    steno_onnx_head_close(h);
    return is;
}

/* The same in ONNX Runtime's own format. */
static bool is_ort(const char *dir)
{
    return steno_path_readable(dir, "encoder_model.ort") &&
           steno_path_readable(dir, "decoder_model_merged.ort");
}

static bool probe_moonshine(const char *dir)
{
    return is_v1(dir) || is_v2(dir) || is_ort(dir) || steno_moonshine_file_probe(dir);
}

/* ---- open ------------------------------------------------------------------------------------ */

static steno_status open_v1(struct steno_moonshine *m, const struct steno_family_open *o,
                            bool quantized, steno_err *err)
{
    struct steno_part_file *part = m->base.part;
    steno_status st =
        steno_part_file_open(&part[STENO_MOONSHINE_PREPROCESS], o, "preprocess", quantized, err);
    int in, out;
    if (!st)
        st = steno_part_file_open(&part[STENO_MOONSHINE_ENCODER], o, "encode", quantized, err);
    if (!st)
        st = steno_part_file_open(&part[STENO_MOONSHINE_FIRST], o, "uncached_decode", quantized,
                                  err);
    if (!st)
        st = steno_part_file_open(&part[STENO_MOONSHINE_NEXT], o, "cached_decode", quantized, err);
    if (st)
        return st;
    out = steno_network_n_outputs(part[STENO_MOONSHINE_FIRST].net);
    in = steno_network_n_inputs(part[STENO_MOONSHINE_NEXT].net);
    m->n_states = out - 1;
    if (m->n_states < 4 || m->n_states % 4 ||
        steno_network_n_inputs(part[STENO_MOONSHINE_FIRST].net) != 3)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: %d inputs and %d outputs, expected 3 (token, encoder's frames, "
                          "length) and scores with four states for each layer",
                          part[STENO_MOONSHINE_FIRST].name,
                          steno_network_n_inputs(part[STENO_MOONSHINE_FIRST].net), out);
    if (in != 3 + m->n_states || steno_network_n_outputs(part[STENO_MOONSHINE_NEXT].net) != out)
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "%s: %d inputs and %d outputs, but %s leaves %d states: expected %d and %d",
            part[STENO_MOONSHINE_NEXT].name, in,
            steno_network_n_outputs(part[STENO_MOONSHINE_NEXT].net),
            part[STENO_MOONSHINE_FIRST].name, m->n_states, 3 + m->n_states, out);
    return STENO_OK;
}

/* State k of the merged decoder: its input is `in` + k, and output 1 + k is the next one. */
static steno_status check_state(const struct steno_moonshine *m, int in, int k, steno_err *err)
{
    static const char *const kinds[] = {"decoder.key", "decoder.value", "encoder.key",
                                        "encoder.value"};
    const struct steno_part_file *part = m->base.part;
    const struct steno_value *x = steno_network_input(part[STENO_MOONSHINE_FIRST].net, in + k);
    const struct steno_value *y = steno_network_output(part[STENO_MOONSHINE_FIRST].net, 1 + k);
    char past[64], present[64];
    snprintf(past, sizeof past, "past_key_values.%d.%s", k / 4, kinds[k % 4]);
    snprintf(present, sizeof present, "present.%d.%s", k / 4, kinds[k % 4]);
    if (!x || strcmp(x->name, past) != 0 || !y || strcmp(y->name, present) != 0)
        return steno_fail(
            err, STENO_ERR_FORMAT, "%s: state %d is '%s' and '%s', expected '%s' and '%s'",
            part[STENO_MOONSHINE_FIRST].name, k, x ? x->name : "", y ? y->name : "", past, present);
    if (x->shape.rank != 4 || x->shape.dim[1] <= 0 || x->shape.dim[3] <= 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: '%s' does not have [batch,heads,n,width]",
                          part[STENO_MOONSHINE_FIRST].name, past);
    return STENO_OK;
}

static steno_status bind_v2(struct steno_moonshine *m, steno_err *err)
{
    static const char *const inputs[] = {"input_ids", "encoder_hidden_states", "use_cache_branch",
                                         "past_key_values.0.decoder.key"};
    const struct steno_part_file *part = m->base.part;
    steno_status st = STENO_OK;
    int in;
    if (steno_network_find_input(part[STENO_MOONSHINE_ENCODER].net, "input_values") < 0)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: there is no input 'input_values'",
                        part[STENO_MOONSHINE_ENCODER].name);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs && !st; i++)
        if (steno_network_find_input(part[STENO_MOONSHINE_FIRST].net, inputs[i]) < 0)
            st = steno_fail(err, STENO_ERR_FORMAT, "%s: there is no input '%s'",
                            part[STENO_MOONSHINE_FIRST].name, inputs[i]);
    if (st)
        return st;
    m->n_states = steno_network_n_outputs(part[STENO_MOONSHINE_FIRST].net) - 1;
    in = steno_network_find_input(part[STENO_MOONSHINE_FIRST].net, inputs[3]);
    if (m->n_states < 4 || m->n_states % 4)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: %d outputs, expected scores and four states for each layer",
                          part[STENO_MOONSHINE_FIRST].name, m->n_states + 1);
    for (int k = 0; k < m->n_states && !st; k++)
        st = check_state(m, in, k, err);
    if (!st) {
        const struct steno_value *x = steno_network_input(part[STENO_MOONSHINE_FIRST].net, in);
        m->heads = (size_t)x->shape.dim[1];
        m->head_dim = (size_t)x->shape.dim[3];
    }
    return st;
}

static steno_status open_v2(struct steno_moonshine *m, const struct steno_family_open *o,
                            bool quantized, steno_err *err)
{
    struct steno_part_file *part = m->base.part;
    steno_status st =
        steno_part_file_open(&part[STENO_MOONSHINE_ENCODER], o, "encoder_model", quantized, err);
    if (!st)
        st = steno_part_file_open(&part[STENO_MOONSHINE_FIRST], o, "decoder_model_merged",
                                  quantized, err);
    return st ? st : bind_v2(m, err);
}

/* A network that is made from one file. */
struct made_moonshine {
    const steno_moonshine_file *file;
    bool decoder;
};

static steno_status make_network_moonshine(void *arg, struct steno_graph **out, steno_err *err)
{
    const struct made_moonshine *made = arg;
    return steno_moonshine_file_build(made->file, made->decoder, out, err);
}

static steno_status open_made(struct steno_part_file *p, const struct steno_moonshine *m,
                              bool decoder, const struct steno_family_open *o, steno_err *err)
{
    struct made_moonshine made = {m->file, decoder};
    const struct steno_graph_source source = {make_network_moonshine, &made,
                                              decoder ? "decoder" : "encoder"};
    p->name = strdup(source.variant);
    if (!p->name)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    return steno_part_made_open(&p->net, o, &source, steno_moonshine_file_info(m->file)->blocks,
                                err);
}

static steno_status open_one_file(struct steno_moonshine *m, const struct steno_family_open *o,
                                  steno_err *err)
{
    struct steno_part_file *part = m->base.part;
    steno_status st = steno_moonshine_file_open(&m->file, o->dir, NULL, 0, err);
    if (!st)
        st = open_made(&part[STENO_MOONSHINE_ENCODER], m, false, o, err);
    if (!st)
        st = open_made(&part[STENO_MOONSHINE_FIRST], m, true, o, err);
    if (!st)
        st = steno_moonshine_file_check(m->file, err);
    if (!st)
        st = bind_v2(m, err);
    if (!st)
        st = steno_moonshine_file_tokens(m->file, &m->base.tokens, err);
    if (!st)
        m->vocab = steno_tokens_count(m->base.tokens);
    return st;
}

static steno_status open_tokens_moonshine(struct steno_moonshine *m, steno_err *err)
{
    char *path = steno_path_join(m->base.dir, "tokens.txt");
    steno_status st = path ? steno_moonshine_tokens_open(&m->base.tokens, path, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->base.dir);
    if (!st && (m->vocab = steno_tokens_count(m->base.tokens)) <= STENO_MOONSHINE_END)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: %d pieces, expected <unk>, <s>, </s> and more",
                        path, m->vocab);
    free(path);
    return st;
}

static steno_status open_model_moonshine(void *model, const struct steno_family_open *o,
                                         steno_err *err)
{
    struct steno_moonshine *m = model;
    bool quantized = false;
    steno_status st;
    (void)steno_option_get_flag(o->options, o->n_options, "quantized", &quantized);
    m->merged = !is_v1(o->dir);
    if (steno_moonshine_file_probe(o->dir)) {
        st = open_one_file(m, o, err);
    } else {
        st = m->merged ? open_v2(m, o, quantized, err) : open_v1(m, o, quantized, err);
        if (st)
            return steno_fail_in(err, st, "%s", o->dir);
        st = open_tokens_moonshine(m, err);
    }
    steno_shell_set_cuts(&m->base, STENO_MOONSHINE_RATE, FULL, STENO_MOONSHINE_FRAME,
                         (int64_t)(SLACK_SECONDS * STENO_MOONSHINE_RATE / STENO_MOONSHINE_FRAME));
    return st;
}

static void close_model_moonshine(void *model)
{
    steno_moonshine_file_close(((struct steno_moonshine *)model)->file);
}

static void get_info_moonshine(const void *model, struct steno_family_info *out)
{
    const struct steno_moonshine *m = model;
    if (m->file)
        out->language = out->languages = steno_moonshine_file_info(m->file)->languages;
    out->hop = STENO_MOONSHINE_RATE / 100;
    out->chunk_seconds = FULL;
    out->endpoint.longest = LONGEST;
}

static void describe_moonshine(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct steno_moonshine *m = model;
    const struct steno_part_file *part = m->base.part;
    fprintf(out, "model      %s, %s v%d\n", i->name, i->family, m->merged ? 2 : 1);
    fprintf(out, "directory  %s\n", i->dir);
    if (m->file)
        fprintf(out, "file       GGUF of %s\n", steno_moonshine_file_info(m->file)->program);
    fprintf(out, "languages  %s\n", *i->languages ? i->languages : "not named in the directory");
    if (!m->merged)
        fprintf(out, "preprocess %s\n", part[STENO_MOONSHINE_PREPROCESS].name);
    fprintf(out, "encoder    %s\n", part[STENO_MOONSHINE_ENCODER].name);
    fprintf(out, "decoder    %s%s%s, %d layers, %d pieces\n", part[STENO_MOONSHINE_FIRST].name,
            m->merged ? "" : " and ", m->merged ? "" : part[STENO_MOONSHINE_NEXT].name,
            m->n_states / 4, m->vocab);
    fprintf(out, "search     the likeliest token, no hot words\n");
    fprintf(out, "times      estimates: the networks give none\n");
    steno_offline_describe(&m->base.offline, i, out);
}

/* ---- workers --------------------------------------------------------------------------------- */

static steno_status open_worker_moonshine(void *worker, const void *model, int max, steno_err *err)
{
    const struct steno_moonshine *m = model;
    struct worker *w = worker;
    steno_status st = steno_greedy_text_open(&w->text, m->vocab, err);
    (void)max;
    if (!st && m->merged)
        st = steno_shell_session_open(&w->base.next, &m->base,
                                      m->base.part[STENO_MOONSHINE_FIRST].net, err);
    return st;
}

static void close_worker_moonshine(void *worker)
{
    struct worker *w = worker;
    steno_session_close(w->base.next);
    free(w->base.ones.data);
    steno_greedy_text_close(&w->text);
}

/* ---- a chunk --------------------------------------------------------------------------------- */

static size_t most_tokens(const struct steno_moonshine *m, size_t frames)
{
    const double seconds = (double)(frames * STENO_MOONSHINE_FRAME) / STENO_MOONSHINE_RATE;
    return (size_t)(seconds * (m->merged ? TOKENS_V2 : TOKENS_V1));
}

/* Write tokens until the end of the text. */
static steno_status write_tokens(struct worker *w, size_t most, steno_err *err)
{
    int32_t token = STENO_MOONSHINE_BEGIN;
    steno_status st = steno_greedy_text_begin(&w->text, most, err);
    for (size_t i = 0; !st && i < most && token != STENO_MOONSHINE_END; i++) {
        const float *scores;
        st = steno_moonshine_decode(&w->base, i, token, &scores, err);
        if (!st)
            token = steno_greedy_text_add(&w->text, scores, STENO_MOONSHINE_END);
    }
    return st;
}

/* The network takes one piece at a time: it has no mask. */
static steno_status recognize_moonshine(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    size_t frames;
    steno_status st = steno_moonshine_encode(&w->base, p->pcm, p->n, &frames, p->err);
    if (!st)
        st = write_tokens(w, most_tokens(w->base.base.model, frames), p->err);
    if (st)
        return st;
    steno_greedy_text_share(&w->text, frames);
    return steno_greedy_text_list(&w->text, p);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct steno_moonshine),
                                         .worker_bytes = sizeof(struct worker),
                                         .sessions = STENO_MOONSHINE_PARTS,
                                         .open = open_model_moonshine,
                                         .close = close_model_moonshine,
                                         .info = get_info_moonshine,
                                         .describe = describe_moonshine,
                                         .worker_open = open_worker_moonshine,
                                         .worker_close = close_worker_moonshine,
                                         .recognize = recognize_moonshine};

static const struct steno_option_info options[] = {
    {FAMILY, "quantized", STENO_OPTION_FLAG, STENO_OPTION_OF_MODEL, 0, 0, NULL, "no",
     "use the int8 files where the others are there too"},
};

const struct steno_family steno_family_moonshine = {.name = FAMILY,
                                                    .options = options,
                                                    .n_options = sizeof options / sizeof *options,
                                                    .probe = probe_moonshine,
                                                    .shell = &shell,
                                                    STENO_OFFLINE_SHELL};
