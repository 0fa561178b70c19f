#include "families/wenet/model.h"

#include <stdlib.h>
#include <string.h>

#include "families/common/metadata.h"
#include "families/common/network_file.h"
#include "families/common/path.h"
#include "families/common/precision.h"
#include "families/common/search_options.h"
#include "families/option.h"

#define BLANK "<blank>"
#define STEM "model"
#define CHUNK 16 /* frames; what sherpa-onnx takes where nothing is said, as for the next */
#define LEFT 4   /* chunks */

const struct steno_option_info steno_wenet_options[STENO_WENET_OPTIONS] = {
    STENO_FRONTEND_OPTION("wenet"), STENO_SEARCH_OPTIONS("wenet")};
const struct steno_option_info steno_wenet_streaming_options[STENO_WENET_OPTIONS] = {
    STENO_FRONTEND_OPTION("wenet_streaming"), STENO_SEARCH_OPTIONS("wenet_streaming")};

/* ---- head of the network --------------------------------------------------------------------- */

static bool is_wenet(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    return type && strncmp(type, "wenet", 5) == 0;
}

static const char *tokens_file(const char *dir)
{
    return steno_path_readable(dir, "tokens.txt")  ? "tokens.txt"
           : steno_path_readable(dir, "units.txt") ? "units.txt"
                                                   : NULL;
}

bool steno_wenet_probe(const char *dir, bool *streaming)
{
    steno_onnx_head *h = tokens_file(dir) ? steno_network_file_peek(dir, STEM) : NULL;
    const bool is = h && is_wenet(h);
    if (is)
        *streaming = steno_onnx_head_has_input(h, "attn_cache");
    steno_onnx_head_close(h);
    return is;
}

steno_status steno_wenet_meta_read(struct steno_wenet_meta *out, const steno_onnx_head *h,
                                   bool streaming, const char *file, steno_err *err)
{
    struct steno_wenet_meta m = {.chunk = CHUNK, .left = LEFT};
    const struct steno_metadata_number want[] = {
        {"vocab_size", 1, 1 << 20, &m.vocab, true},
        {"subsampling_factor", 1, 64, &m.subsampling, true},
        {"head", 1, 1024, &m.head, streaming},
        {"num_blocks", 1, 1024, &m.blocks, streaming},
        {"output_size", 1, 65536, &m.width, streaming},
        {"cnn_module_kernel", 1, 1024, &m.kernel, streaming},
        {"right_context", 1, 1024, &m.right_context, streaming},
        {"chunk_size", 1, 1024, &m.chunk, false},
        {"left_chunks", 1, 1024, &m.left, false}};
    steno_status st = steno_metadata_read(h, want, sizeof want / sizeof *want, file, err);
    if (st)
        return st;
    if (streaming && m.width % m.head)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata output_size is %lld, no multiple of head, %lld", file,
                          (long long)m.width, (long long)m.head);
    *out = m;
    return STENO_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status open_tokens(struct steno_wenet_model *m, steno_err *err)
{
    static const char *const marks[] = {BLANK, "<unk>", "<sos/eos>"};
    const char *file = tokens_file(m->dir);
    char *path = file ? steno_path_join(m->dir, file) : NULL;
    steno_status st = path ? steno_tokens_open(&m->tokens, path, err)
                           : steno_fail(err, STENO_ERR_IO, "%s: there is no tokens.txt", m->dir);
    if (!st && steno_tokens_count(m->tokens) != m->meta.vocab)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: %d tokens, expected %lld: metadata vocab_size of %s", path,
                        (int)steno_tokens_count(m->tokens), (long long)m->meta.vocab, m->net.name);
    if (!st && (m->blank = steno_tokens_find(m->tokens, BLANK)) < 0)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: there is no " BLANK, path);
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !st; i++)
        if (steno_tokens_find(m->tokens, marks[i]) >= 0)
            st = steno_tokens_drop(m->tokens, marks[i], err);
    free(path);
    return st;
}

/* torchaudio's Kaldi features of samples in the range of 16 bits (wenet/dataset/processor.py,
 * compute_fbank), or what sherpa-onnx computes: centred frames, filters up to 7600 Hz. The global
 * normalisation is in the network. */
static steno_status open_features(struct steno_wenet_model *m, steno_err *err)
{
    struct steno_fbank_options o = steno_fbank_kaldi(STENO_WENET_RATE, STENO_WENET_BINS);
    steno_status st;
    o.scale = 32768;
    if (m->sherpa) {
        o.edges = STENO_EDGES_REFLECT;
        o.high = -400;
    }
    st = steno_fbank_open(&m->front, &o, err);
    return st ? steno_fail_in(err, st, "%s", m->dir) : STENO_OK;
}

static void read_settings(struct steno_wenet_settings *s, const struct steno_option *o, size_t n)
{
    (void)steno_option_get_number(o, n, "blank_penalty", &s->blank_penalty);
    (void)steno_option_get_number(o, n, "hotwords_score", &s->hotwords_score);
    (void)steno_option_get_number(o, n, "lm_weight", &s->lm_weight);
}

/* Hot words by bpe.vocab, and an n-gram model over the tokens, where the directory has them. */
static steno_status open_hints(struct steno_wenet_model *m, steno_err *err)
{
    steno_status st = steno_phrases_open_in(&m->phrases, m->tokens, m->dir, err);
    return st ? st : steno_fusion_open_in(&m->lm, m->dir, m->tokens, (int32_t)m->meta.vocab, err);
}

static steno_status open_parts(struct steno_wenet_model *m, const struct steno_family_open *o,
                               bool streaming, steno_err *err)
{
    const char *front = steno_option_value(o->options, o->n_options, "frontend");
    steno_onnx_head *h = NULL;
    bool int8 = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    m->sherpa = front && strcmp(front, "sherpa") == 0;
    m->defaults =
        (struct steno_wenet_settings){.hotwords_score = 1.5, .lm_weight = STENO_FUSION_WEIGHT};
    read_settings(&m->defaults, o->options, o->n_options);
    if (!st)
        st = steno_part_file_open(&m->net, o, STEM, int8, err);
    if (!st)
        st = steno_network_file_head(&h, m->dir, m->net.name, err);
    if (!st)
        st = steno_wenet_meta_read(&m->meta, h, streaming, m->net.name, err);
    steno_onnx_head_close(h);
    if (!st)
        st = open_tokens(m, err);
    if (!st)
        st = open_hints(m, err);
    return st ? st : open_features(m, err);
}

steno_status steno_wenet_open(struct steno_wenet_model *m, const struct steno_family_open *o,
                              bool streaming, steno_err *err)
{
    m->dir = strdup(o->dir);
    m->threads = o->threads;
    if (!m->dir)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    steno_path_copy_name(m->name, sizeof m->name, m->dir);
    return open_parts(m, o, streaming, err);
}

void steno_wenet_close(struct steno_wenet_model *m)
{
    steno_part_file_close(&m->net);
    steno_fbank_close(m->front);
    steno_fusion_close(&m->lm);
    steno_phrases_close(&m->phrases);
    steno_tokens_close(m->tokens);
    free(m->dir);
}

/* ---- information ----------------------------------------------------------------------------- */

struct steno_family_info steno_wenet_info(const struct steno_wenet_model *m)
{
    return (struct steno_family_info){.name = m->name,
                                      .version = "",
                                      .language = "",
                                      .license = "",
                                      .network = m->net.name,
                                      .results_of = m->sherpa ? "sherpa-onnx" : "",
                                      .tokens = m->tokens,
                                      .sample_rate = STENO_WENET_RATE,
                                      .hop = STENO_WENET_HOP,
                                      .feature_bins = STENO_WENET_BINS,
                                      .frame_samples =
                                          STENO_WENET_HOP * (size_t)m->meta.subsampling,
                                      .weight_bytes = steno_network_weight_bytes(m->net.net),
                                      .takes_hotwords = true};
}

void steno_wenet_describe(const struct steno_wenet_model *m, const struct steno_model_info *i,
                          FILE *out)
{
    fprintf(out, "model      %s, %s, CTC\n", i->name, i->family);
    fprintf(out, "directory  %s\n", m->dir);
    fprintf(out, "languages  not named in the directory\n");
    fprintf(out, "features   %d mel bins, %d Hz, as %s\n", i->feature_bins, i->sample_rate,
            m->sherpa ? "sherpa-onnx computes them" : "in training");
    fprintf(out, "network    %s\n", i->network);
    fprintf(out, "decoder    %zu tokens, blank %s%s, hotwords by %s\n", i->vocab_size, BLANK,
            m->lm.ngram ? ", an n-gram model" : "",
            m->phrases.bpe ? "bpe.vocab and characters" : "whole words and characters");
    fprintf(out, "endpoint   %g s of silence, %g s after speech, %g s at most\n",
            i->endpoint.silence_alone, i->endpoint.silence_after, i->endpoint.longest);
    fprintf(out, "memory     weights %.2f MiB shared, %.2f MiB for each stream\n",
            (double)i->weight_bytes / 1048576, (double)i->stream_bytes / 1048576);
}

steno_status steno_wenet_search(struct steno_ctc_search *s, const struct steno_wenet_model *m,
                                struct steno_family_stream *o, steno_err *err)
{
    struct steno_wenet_settings set = m->defaults;
    struct steno_ctc_options c = {.vocab = steno_tokens_count(m->tokens),
                                  .blank = m->blank,
                                  .top_k = STENO_CTC_TOP_K,
                                  .margin = STENO_CTC_MARGIN};
    steno_status st = steno_beam_choose_hotwords(o, err);
    if (st)
        return st;
    read_settings(&set, o->options, o->n_options);
    if (o->hints.hotwords && *o->hints.hotwords)
        st = steno_phrases_build(&s->hotwords, &m->phrases, o->hints.hotwords,
                                 (float)set.hotwords_score, err);
    if (st)
        return st;
    c.blank_penalty = (float)set.blank_penalty;
    c.beam = o->beam;
    c.hotwords = s->hotwords;
    c.lm = steno_fusion_lm(&m->lm, set.lm_weight);
    return steno_ctc_search_open(s, &c, o->n_best, err);
}
