/* Family icefall: opens a directory of networks that icefall's scripts have exported, as
 * sherpa-onnx has them (docs/icefall.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/common/metadata.h"
#include "speech/families/common/precision.h"
#include "speech/families/icefall/internal.h"

#define HIGH_FREQ (-400.0) /* Hz below half the rate: the end of the mel bins */
#define MAX_META 100000    /* a number of the metadata: 1,000 s of feature frames */

static bool has_ctc(enum steno_icefall_role kind)
{
    return kind == STENO_ICEFALL_STREAMING_CTC || kind == STENO_ICEFALL_OFFLINE_CTC;
}

static bool streams(enum steno_icefall_role kind)
{
    return kind == STENO_ICEFALL_STREAMING_ENCODER || kind == STENO_ICEFALL_STREAMING_CTC;
}

/* ---- files ----------------------------------------------------------------------------------- */

static steno_status find_files(struct steno_icefall_model *m, const struct steno_family_open *o,
                               steno_err *err)
{
    bool quantized = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &quantized, err);
    if (!st)
        st = steno_icefall_files_find(&m->files, m->base.dir, quantized, err);
    if (st)
        return st;
    m->ctc = has_ctc(m->files.kind);
    m->streaming = streams(m->files.kind);
    steno_path_copy_name(m->network, sizeof m->network, m->files.encoder);
    return STENO_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static int32_t find_token(const steno_tokens *t, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t id = steno_tokens_find(t, names[i]);
        if (id >= 0)
            return id;
    }
    return -1;
}

/* Marks have no text. */
static steno_status drop_marks(steno_tokens *t, steno_err *err)
{
    static const char *const marks[] = {"<blk>", "<eps>", "<blank>", "<unk>", "<sos/eos>"};
    steno_status st = STENO_OK;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !st; i++)
        if (steno_tokens_find(t, marks[i]) >= 0)
            st = steno_tokens_drop(t, marks[i], err);
    return st;
}

/* A transducer's blank is token 0 (icefall's decoders have it so); that of CTC has a name. */
static steno_status open_tokens_icefall(struct steno_icefall_model *m, steno_err *err)
{
    static const char *const blanks[] = {"<blk>", "<eps>", "<blank>"};
    steno_status st = steno_tokens_open(&m->base.tokens, m->files.tokens, err);
    if (st)
        return st;
    m->unknown = steno_tokens_find(m->base.tokens, "<unk>");
    m->base.blank = m->ctc ? find_token(m->base.tokens, blanks, sizeof blanks / sizeof *blanks) : 0;
    if (m->base.blank < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: there is no blank: <blk>, <eps> or <blank>",
                          m->files.tokens);
    return drop_marks(m->base.tokens, err);
}

/* The list may have more tokens than the network, such as #0 of graphs. */
static steno_status check_vocab(const struct steno_icefall_model *m, steno_err *err)
{
    if (steno_tokens_count(m->base.tokens) >= m->vocab && m->base.blank < m->vocab)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %d tokens, expected the %d of the network",
                      m->files.tokens, (int)steno_tokens_count(m->base.tokens), (int)m->vocab);
}

/* ---- networks -------------------------------------------------------------------------------- */

static steno_status load_network(struct steno_icefall_model *m, int part, const char *path,
                                 const struct steno_family_open *o, steno_err *err)
{
    const struct steno_network_options opt = steno_part_options(o);
    return steno_network_open(&m->base.part[part].net, path, &opt, err);
}

steno_status steno_icefall_meta(const struct steno_icefall_model *m, const char *key, int64_t *out,
                                steno_err *err)
{
    const char *value = steno_network_meta(steno_icefall_encoder(m), key);
    char *end = NULL;
    long long v;
    if (!value)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: there is no metadata %s", m->files.encoder,
                          key);
    v = strtoll(value, &end, 10);
    if (end == value || *end || v < 1 || v > MAX_META)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata %s is '%.40s', expected a number from 1 to %d",
                          m->files.encoder, key, value, MAX_META);
    *out = v;
    return STENO_OK;
}

/* Metadata that contradict the graphs. */
static steno_status check_transducer(const struct steno_icefall_model *m, steno_err *err)
{
    const struct steno_metadata decoder[] = {{"context_size", m->nets.context},
                                             {"vocab_size", m->vocab}};
    const struct steno_metadata joiner[] = {{"joiner_dim", m->nets.width}};
    steno_status st = steno_metadata_check(m->nets.decoder, m->files.decoder, decoder, 2, err);
    return st ? st : steno_metadata_check(m->nets.joiner, m->files.joiner, joiner, 1, err);
}

static steno_status open_transducer_icefall(struct steno_icefall_model *m,
                                            const struct steno_family_open *o, steno_err *err)
{
    steno_status st = load_network(m, STENO_ICEFALL_DECODER_PART, m->files.decoder, o, err);
    if (!st)
        st = load_network(m, STENO_ICEFALL_JOINER_PART, m->files.joiner, o, err);
    if (st)
        return st;
    m->nets = (struct steno_icefall_nets){.decoder = m->base.part[STENO_ICEFALL_DECODER_PART].net,
                                          .joiner = m->base.part[STENO_ICEFALL_JOINER_PART].net,
                                          .decoder_name = m->files.decoder,
                                          .joiner_name = m->files.joiner,
                                          .rounds_together = m->files.decoder_quantized &&
                                                             o->precision == STENO_FP32};
    st = steno_icefall_nets_bind(&m->nets, err);
    m->vocab = (int32_t)m->nets.vocab;
    return st ? st : check_transducer(m, err);
}

/* Values of a feature frame: the last extent of input x. */
static steno_status find_bins(struct steno_icefall_model *m, steno_err *err)
{
    int x = steno_network_find_input(steno_icefall_encoder(m), "x");
    const struct steno_shape *s =
        x < 0 ? NULL : &steno_network_input(steno_icefall_encoder(m), x)->shape;
    const char *feature = steno_network_meta(steno_icefall_encoder(m), "feature");
    if (feature && strcmp(feature, "whisper") == 0)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: metadata feature is whisper; expected networks on Kaldi's features",
                          m->files.encoder);
    if (!s || s->rank != 3 || s->dim[2] < 1 || s->dim[2] > 512)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: input x is not [N,T,bins]", m->files.encoder);
    m->bins = s->dim[2];
    return STENO_OK;
}

/* CTC scores have the vocabulary as their last extent, where the graph tells; else it is that of
 * tokens.txt. */
static steno_status find_vocab(struct steno_icefall_model *m, steno_err *err)
{
    int out = steno_network_find_output(steno_icefall_encoder(m), "log_probs");
    const struct steno_shape *s =
        out < 0 ? NULL : &steno_network_output(steno_icefall_encoder(m), out)->shape;
    int64_t n = s && s->rank == 3 && s->dim[2] > 0 ? s->dim[2] : steno_tokens_count(m->base.tokens);
    if (n > STENO_TOKENS_MAX)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: log_probs of %lld tokens, at most %d",
                          m->files.encoder, (long long)n, STENO_TOKENS_MAX);
    m->vocab = (int32_t)n;
    return STENO_OK;
}

static steno_status open_networks_icefall(struct steno_icefall_model *m,
                                          const struct steno_family_open *o, steno_err *err)
{
    const char *type;
    steno_status st = load_network(m, STENO_ICEFALL_ENCODER_PART, m->files.encoder, o, err);
    if (st)
        return st;
    type = steno_network_meta(steno_icefall_encoder(m), "model_type");
    snprintf(m->type, sizeof m->type, "%s", type ? type : "?");
    if (m->ctc)
        st = find_vocab(m, err);
    else
        st = open_transducer_icefall(m, o, err);
    m->width = m->ctc ? m->vocab : m->nets.width;
    if (!st)
        st = check_vocab(m, err);
    return st ? st : find_bins(m, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status open_features_icefall(struct steno_icefall_model *m, steno_err *err)
{
    struct steno_fbank_options o = steno_fbank_kaldi(STENO_ICEFALL_RATE, (size_t)m->bins);
    steno_status st;
    o.high = HIGH_FREQ;
    o.edges = STENO_EDGES_REFLECT;
    st = steno_fbank_open(&m->base.front, &o, err);
    if (!st)
        m->hop = steno_fbank_shift(m->base.front);
    return st;
}

void steno_icefall_close(void *model)
{
    steno_icefall_files_free(&((struct steno_icefall_model *)model)->files);
}

steno_status steno_icefall_open(struct steno_icefall_model *m, const struct steno_family_open *o,
                                steno_err *err)
{
    steno_status st = find_files(m, o, err);
    if (!st)
        st = open_tokens_icefall(m, err);
    if (!st)
        st = open_networks_icefall(m, o, err);
    if (!st)
        st = open_features_icefall(m, err);
    return st ? st : steno_search_hints_open(&m->base.hints, o, m->base.tokens, m->vocab, err);
}

/* ---- description ----------------------------------------------------------------------------- */

void steno_icefall_info(const void *model, struct steno_family_info *out)
{
    const struct steno_icefall_model *m = model;
    out->network = m->network;
    out->results_of = "sherpa-onnx";
}

void steno_icefall_describe(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct steno_icefall_model *m = model;
    char kind[64];
    snprintf(kind, sizeof kind, "%s %s %s", m->streaming ? "streaming" : "offline", m->type,
             m->ctc ? "CTC" : "transducer");
    steno_shell_describe_head(i, kind, out);
    fprintf(out, "features   kaldi-fbank, %d Hz, %d bins, 20 to %g Hz\n", i->sample_rate,
            i->feature_bins, i->sample_rate / 2.0 + HIGH_FREQ);
    fprintf(out, "network    %s, %d states\n", i->network, m->base.encoder.n_states);
    if (m->streaming)
        fprintf(out, "steps      %.0f ms and %.0f ms of lookahead, scores every %.0f ms\n",
                i->chunk_seconds * 1e3, i->lookahead_seconds * 1e3, i->frame_seconds * 1e3);
    else
        fprintf(out, "steps      whole segments of at most %g s, scores every %.0f ms\n",
                m->base.offline.cuts.full, i->frame_seconds * 1e3);
    fprintf(out, "decoder    %zu tokens", i->vocab_size);
    if (!m->ctc)
        fprintf(out, ", the prediction network sees %d", m->nets.context);
    if (m->base.hints.lm.ngram)
        fprintf(out, ", n-gram model of order %d", steno_ngram_order(m->base.hints.lm.ngram));
    fprintf(out, ", hotwords by %s and characters", steno_phrases_source(&m->base.hints.phrases));
    fprintf(out, "\n");
    steno_shell_describe_limits(i, out);
}

steno_status steno_icefall_worker_open(void *worker, const void *model, int max, steno_err *err)
{
    const struct steno_icefall_model *m = model;
    struct steno_icefall_worker *w = worker;
    (void)max;
    return m->ctc ? STENO_OK
                  : steno_icefall_scorer_open(&w->scorer, &m->nets, m->base.threads, err);
}

void steno_icefall_worker_close(void *worker)
{
    steno_icefall_scorer_close(((struct steno_icefall_worker *)worker)->scorer);
}
