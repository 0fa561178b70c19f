#include "speech/families/wenet/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/common/metadata.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/precision.h"
#include "speech/families/common/search_options.h"
#include "speech/families/option.h"

#define BLANK "<blank>"
#define STEM "model"
#define ENCODER "encoder"
#define CTC "ctc"
#define DECODER "decoder"
#define BEAM 10  /* of a search whose hypotheses are rescored; WeNet's nbest */
#define CHUNK 16 /* frames; what sherpa-onnx takes where nothing is said, as for the next */
#define LEFT 4   /* chunks */

/* clang-format off */
#define RESCORING_OPTIONS(family) \
    {family, "ctc_weight", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, 0, 1, NULL, "", \
     "weight of CTC's score beside the attention decoder's, 0.5"}, \
    {family, "rescoring_weight", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, 0, 1, NULL, "1", \
     "weight of the attention decoder's score; 0: no rescoring"}, \
    {family, "reverse_weight", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, 0, 1, NULL, "", \
     "share of right to left in the attention decoder's score"}
/* clang-format on */

const struct steno_option_info steno_wenet_options[STENO_WENET_OPTIONS] = {
    STENO_FRONTEND_OPTION("wenet"), STENO_SEARCH_OPTIONS("wenet"), RESCORING_OPTIONS("wenet")};
const struct steno_option_info steno_wenet_streaming_options[STENO_WENET_OPTIONS] = {
    STENO_FRONTEND_OPTION("wenet_streaming"), STENO_SEARCH_OPTIONS("wenet_streaming"),
    RESCORING_OPTIONS("wenet_streaming")};

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

static bool is_runtime(const steno_onnx_head *h)
{
    return steno_onnx_head_has_input(h, "chunk") && steno_onnx_head_has_input(h, "att_cache") &&
           steno_onnx_head_meta(h, "subsampling_rate");
}

static bool probe_runtime(const char *dir, bool *streaming)
{
    steno_onnx_head *h = steno_network_file_peek(dir, ENCODER), *ctc = NULL;
    const bool is = h && is_runtime(h) && (ctc = steno_network_file_peek(dir, CTC));
    const char *chunk = is ? steno_onnx_head_meta(h, "chunk_size") : NULL;
    if (is)
        *streaming = !chunk || *chunk != '-';
    steno_onnx_head_close(ctc);
    steno_onnx_head_close(h);
    return is;
}

bool steno_wenet_probe(const char *dir, bool *streaming)
{
    steno_onnx_head *h = tokens_file(dir) ? steno_network_file_peek(dir, STEM) : NULL;
    const bool is = h && is_wenet(h);
    if (is)
        *streaming = steno_onnx_head_has_input(h, "attn_cache");
    steno_onnx_head_close(h);
    return is || (tokens_file(dir) && probe_runtime(dir, streaming));
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

static steno_status check_runtime(const struct steno_wenet_meta *m, const char *file,
                                  steno_err *err)
{
    if (m->width % m->head || m->sos >= m->vocab || m->eos >= m->vocab)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata output_size %lld, head %lld, vocab_size %lld, sos_symbol "
                          "%lld, eos_symbol %lld do not fit together",
                          file, (long long)m->width, (long long)m->head, (long long)m->vocab,
                          (long long)m->sos, (long long)m->eos);
    if (!m->chunk || (m->chunk < 0 && m->left >= 0))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata chunk_size %lld with left_chunks %lld", file,
                          (long long)m->chunk, (long long)m->left);
    return STENO_OK;
}

steno_status steno_wenet_runtime_meta_read(struct steno_wenet_meta *out, const steno_onnx_head *h,
                                           const char *file, steno_err *err)
{
    struct steno_wenet_meta m = {0};
    int64_t bins = STENO_WENET_BINS;
    const char *reverse = steno_onnx_head_meta(h, "reverse_weight");
    const struct steno_metadata_number want[] = {
        {"vocab_size", 1, 1 << 20, &m.vocab, true},
        {"subsampling_rate", 1, 64, &m.subsampling, true},
        {"head", 1, 1024, &m.head, true},
        {"num_blocks", 1, 1024, &m.blocks, true},
        {"output_size", 1, 65536, &m.width, true},
        {"cnn_module_kernel", 1, 1024, &m.kernel, true},
        {"right_context", 0, 1024, &m.right_context, true},
        {"chunk_size", -1, 1024, &m.chunk, true},
        {"left_chunks", -1, 1024, &m.left, true},
        {"sos_symbol", 0, 1 << 20, &m.sos, true},
        {"eos_symbol", 0, 1 << 20, &m.eos, true},
        {"is_bidirectional_decoder", 0, 1, &m.both, false},
        {"feature_size", STENO_WENET_BINS, STENO_WENET_BINS, &bins, false}};
    steno_status st = steno_metadata_read(h, want, sizeof want / sizeof *want, file, err);
    if (!st)
        st = check_runtime(&m, file, err);
    if (st)
        return st;
    /* An export with weight 0 leaves the decoder from right to left out. */
    if (!m.both || !reverse || !steno_option_read_number(reverse, &m.reverse) || m.reverse < 0 ||
        m.reverse > 1)
        m.reverse = 0;
    *out = m;
    return STENO_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status open_tokens_wenet(struct steno_wenet_model *m, steno_err *err)
{
    static const char *const marks[] = {BLANK, "<unk>", "<sos/eos>"};
    const char *file = tokens_file(m->base.dir);
    steno_status st =
        file ? steno_shell_open_tokens(&m->base, file, err)
             : steno_fail(err, STENO_ERR_IO, "%s: there is no tokens.txt", m->base.dir);
    steno_tokens *t = m->base.tokens;
    if (!st && steno_tokens_count(t) != m->meta.vocab)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s/%s: %d tokens, expected %lld: metadata vocab_size of %s", m->base.dir,
                        file, (int)steno_tokens_count(t), (long long)m->meta.vocab, m->net->name);
    if (!st && (m->base.blank = steno_tokens_find(t, BLANK)) < 0)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s/%s: there is no " BLANK, m->base.dir, file);
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !st; i++)
        if (steno_tokens_find(t, marks[i]) >= 0)
            st = steno_tokens_drop(t, marks[i], err);
    return st;
}

/* torchaudio's Kaldi features of samples in the range of 16 bits (wenet/dataset/processor.py,
 * compute_fbank), or what sherpa-onnx computes: centred frames, filters up to 7600 Hz. The global
 * normalisation is in the network. */
static steno_status open_features_wenet(struct steno_wenet_model *m, steno_err *err)
{
    struct steno_fbank_options o = steno_fbank_kaldi(STENO_WENET_RATE, STENO_WENET_BINS);
    steno_status st;
    o.scale = 32768;
    if (m->sherpa) {
        o.edges = STENO_EDGES_REFLECT;
        o.high = -400;
    }
    st = steno_fbank_open(&m->base.front, &o, err);
    return st ? steno_fail_in(err, st, "%s", m->base.dir) : STENO_OK;
}

static void read_weights(struct steno_wenet_weights *w, const struct steno_option *o, size_t n)
{
    (void)steno_option_get_number(o, n, "ctc_weight", &w->ctc);
    (void)steno_option_get_number(o, n, "rescoring_weight", &w->attention);
    (void)steno_option_get_number(o, n, "reverse_weight", &w->reverse);
}

static steno_status open_networks_wenet(struct steno_wenet_model *m,
                                        const struct steno_family_open *o, bool streaming,
                                        bool int8, steno_err *err)
{
    steno_onnx_head *h = NULL;
    steno_status st =
        steno_part_file_open(&m->base.part[0], o, m->runtime ? ENCODER : STEM, int8, err);
    m->net = &m->base.part[0];
    m->ctc = &m->base.part[1];
    if (!st)
        st = steno_network_file_head(&h, m->base.dir, m->net->name, err);
    if (!st)
        st = m->runtime ? steno_wenet_runtime_meta_read(&m->meta, h, m->net->name, err)
                        : steno_wenet_meta_read(&m->meta, h, streaming, m->net->name, err);
    steno_onnx_head_close(h);
    return st || !m->runtime ? st : steno_part_file_open(&m->base.part[1], o, CTC, int8, err);
}

/* After the tokens, whose number it is checked with. */
static steno_status open_rescorer(struct steno_wenet_model *m, const struct steno_family_open *o,
                                  bool int8, steno_err *err)
{
    const struct steno_wenet_decoder d = {.vocab = m->meta.vocab,
                                          .width = m->meta.width,
                                          .sos = m->meta.sos,
                                          .eos = m->meta.eos,
                                          .both = m->meta.reverse > 0};
    char *file = NULL;
    steno_status st = STENO_OK;
    if (m->runtime)
        st = steno_network_file_find(&file, m->base.dir, DECODER, int8, err);
    if (!st && file)
        st = steno_wenet_rescorer_open(&m->rescorer, o, int8, &d, err);
    free(file);
    return st;
}

steno_status steno_wenet_open(struct steno_wenet_model *m, const struct steno_family_open *o,
                              bool streaming, steno_err *err)
{
    const char *front = steno_option_value(o->options, o->n_options, "frontend");
    bool int8 = false, unused;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    m->sherpa = front && strcmp(front, "sherpa") == 0;
    m->runtime = probe_runtime(m->base.dir, &unused);
    if (!st)
        st = open_networks_wenet(m, o, streaming, int8, err);
    m->weights = (struct steno_wenet_weights){1, 0.5, m->meta.reverse};
    read_weights(&m->weights, o->options, o->n_options);
    if (!st)
        st = open_tokens_wenet(m, err);
    if (!st)
        st = open_rescorer(m, o, int8, err);
    if (!st)
        st =
            steno_search_hints_open(&m->base.hints, o, m->base.tokens, (int32_t)m->meta.vocab, err);
    return st ? st : open_features_wenet(m, err);
}

void steno_wenet_close(void *model)
{
    steno_wenet_rescorer_close(((struct steno_wenet_model *)model)->rescorer);
}

/* ---- information ----------------------------------------------------------------------------- */

void steno_wenet_info(const struct steno_wenet_model *m, struct steno_family_info *out)
{
    out->results_of = m->sherpa ? "sherpa-onnx" : "";
    out->sample_rate = STENO_WENET_RATE;
    out->frame_samples = STENO_WENET_HOP * (size_t)m->meta.subsampling;
    if (m->rescorer)
        out->weight_bytes += steno_wenet_rescorer_bytes(m->rescorer);
}

void steno_wenet_describe(const struct steno_wenet_model *m, const struct steno_model_info *i,
                          FILE *out)
{
    steno_shell_describe_head(i, m->rescorer ? "CTC and attention rescoring" : "CTC", out);
    fprintf(out, "features   %d mel bins, %d Hz, as %s\n", i->feature_bins, i->sample_rate,
            m->sherpa ? "sherpa-onnx computes them" : "in training");
    fprintf(out, "network    %s\n", i->network);
    if (m->rescorer)
        fprintf(out,
                "rescoring  %s: %s, weights %g of attention, %g of CTC, %g from right to left\n",
                steno_wenet_rescorer_file(m->rescorer),
                m->meta.reverse > 0 ? "left to right and right to left" : "left to right",
                m->weights.attention, m->weights.ctc, m->weights.reverse);
    steno_shell_describe_search(&m->base, i, BLANK, out);
    steno_shell_describe_limits(i, out);
}

/* A search for finals that are rescored keeps as many hypotheses as its beam, and extends them by
 * as many tokens, as WeNet's does. */
static void choose_beam(struct steno_family_stream *o)
{
    if (o->beam == 0)
        o->beam = o->n_best > BEAM ? o->n_best : BEAM;
}

steno_status steno_wenet_stream_open(void *stream, const void *model, struct steno_family_stream *o,
                                     steno_err *err)
{
    const struct steno_wenet_model *m = model;
    struct steno_token_search *s = &((struct steno_wenet_stream *)stream)->base.search;
    struct steno_wenet_finals *f = &((struct steno_wenet_stream *)stream)->finals;
    struct steno_wenet_weights weights = m->weights;
    struct steno_search_settings set;
    struct steno_ctc_options c;
    bool rescores;
    steno_status st;
    read_weights(&weights, o->options, o->n_options);
    rescores = m->rescorer && weights.attention > 0;
    if (rescores)
        choose_beam(o);
    st = steno_beam_choose_hotwords(o, err);
    rescores = rescores && o->beam > 1;
    s->n_best = rescores ? (size_t)o->beam : 0;
    if (!st)
        st = steno_token_search_begin(s, &m->base.hints, o, &set, err);
    if (st)
        return st;
    c = steno_ctc_options_of(s, &m->base.hints, &set, o, steno_tokens_count(m->base.tokens),
                             m->base.blank);
    if (rescores) {
        f->rescorer = m->rescorer;
        f->weights = weights;
        c.top_k = o->beam;
    }
    return steno_token_search_open(s, &c, err);
}

void steno_wenet_stream_close(void *stream)
{
    steno_wenet_finals_free(&((struct steno_wenet_stream *)stream)->finals);
}

steno_status steno_wenet_rescore(struct steno_wenet_stream *s, size_t ahead, steno_err *err)
{
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t n = 0, stable;
    steno_status st;
    s->finals.n = 0;
    if (!s->finals.rescorer)
        return STENO_OK;
    st = steno_token_search_list(&s->base.search, h, s->base.search.n_best, &n, &stable);
    return st ? steno_fail(err, st, "stream: out of memory")
              : steno_wenet_finals_rescore(&s->finals, h, n, ahead, err);
}
