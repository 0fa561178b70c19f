/* Family espnet: opens a directory that espnet_onnx wrote. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/path.h"
#include "speech/families/entries.h"
#include "speech/families/espnet/block.h"
#include "speech/families/espnet/internal.h"
#include "speech/families/espnet/recurrent.h"
#include "speech/families/espnet/stream.h"
#include "speech/families/option.h"

#define MARK "\xE2\x96\x81" /* U+2581 begins a word */
#define MAX_VOCAB_TEXT ((size_t)64 << 20)
#define FAMILY "espnet"
#define COMPAT "espnet-onnx"
#define LONGEST 20.0 /* s: maximum length of an utterance, unless a stream sets another */
#define CHUNK 0.8    /* s of audio per step where the encoder takes whole utterances */

/* Write token.list in the form of tokens.txt: <space> becomes the word mark, and every entry of a
 * word vocabulary gets one. */
static steno_status list_tokens(const struct steno_espnet_conf *c, struct steno_buf *b)
{
    bool words = strcmp(c->token_type, "word") == 0, chars = strcmp(c->token_type, "char") == 0;
    steno_status st = STENO_OK;
    for (int32_t i = 0; i < c->vocab && !st; i++) {
        const char *t = c->tokens[i];
        if (chars && strcmp(t, "<space>") == 0)
            t = MARK;
        st = steno_buf_printf(b, "%s%s %d\n", words ? MARK : "", t, (int)i);
    }
    return st;
}

/* Drop tokens that have no text: blank, <unk>, and the marks of beginning and end. */
static steno_status drop_marks(struct steno_espnet_model *m, const struct steno_espnet_conf *c,
                               steno_err *err)
{
    const int32_t marks[] = {c->blank, c->sos, c->eos, -1};
    bool words = strcmp(c->token_type, "word") == 0;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !st; i++) {
        char name[STENO_TOKENS_MAX_PIECE + 8];
        const char *t = marks[i] < 0 ? "<unk>" : c->tokens[marks[i]];
        snprintf(name, sizeof name, "%s%s", words ? MARK : "", t);
        if (steno_tokens_find(m->tokens, name) < 0 || strpbrk(name, " \t"))
            continue; /* no <unk> in this vocabulary */
        st = steno_tokens_drop(m->tokens, name, err);
    }
    return st;
}

/* Drop control pieces of the BPE model (<s>, </s>, <pad>, ...), which have no text. */
static steno_status drop_controls(struct steno_espnet_model *m, const struct steno_espnet_conf *c,
                                  steno_err *err)
{
    steno_status st = STENO_OK;
    for (int32_t i = 0; c->sentencepiece && i < c->vocab && !st; i++) {
        int32_t id = steno_sentencepiece_find(c->sentencepiece, c->tokens[i]);
        if (id >= 0 &&
            steno_sentencepiece_type(c->sentencepiece, id) == STENO_SENTENCEPIECE_CONTROL &&
            !strpbrk(c->tokens[i], " \t"))
            st = steno_tokens_drop(m->tokens, c->tokens[i], err);
    }
    return st;
}

static steno_status open_tokens_espnet(struct steno_espnet_model *m, steno_err *err)
{
    const struct steno_espnet_conf *c = &m->net.conf;
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, MAX_VOCAB_TEXT);
    st = list_tokens(c, &b);
    if (st)
        st = steno_fail(err, st, "%s: token.list is too long", c->path);
    else
        st = steno_tokens_parse(&m->tokens, b.data, b.len, c->path, err);
    steno_buf_free(&b);
    if (!st)
        st = drop_marks(m, c, err);
    return st ? st : drop_controls(m, c, err);
}

/* Bytes that a stream holds for a segment: its samples; with a streaming encoder its encoder
 * frames, their scores, and the decoder's keys and values; of a transducer what its search keeps.
 */
static size_t segment_bytes(const struct steno_espnet *e, size_t samples)
{
    const struct steno_espnet_conf *c = &e->conf;
    size_t row = ((size_t)e->dim + (size_t)c->vocab) * sizeof(float);
    if (!e->blocks || !e->frame_samples)
        return samples * sizeof(float);
    if (steno_espnet_is_transducer(e))
        return STENO_TRANSDUCER_ROW_BYTES;
    if (e->decoder_cached)
        row += 2 * (size_t)c->decoder_layers * (size_t)c->decoder_dim *
               (steno_network_kv_bf16(e->decoder) ? sizeof(uint16_t) : sizeof(float));
    return samples / e->frame_samples * row;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The model has the name of its directory. */
static void set_names(struct steno_espnet_model *m)
{
    const struct steno_espnet *e = &m->net;
    int n;
    const char *name = steno_path_name(e->conf.dir, &n);
    snprintf(m->name, sizeof m->name, "%.*s", n, name);
    name = steno_path_name(e->opt.quantized ? e->conf.encoder.quantized : e->conf.encoder.full, &n);
    snprintf(m->network, sizeof m->network, "%.*s", n, name);
}

static struct steno_espnet_options read_options(const struct steno_family_open *o)
{
    const char *compat = steno_option_value(o->options, o->n_options, "compat");
    double lm = 1;
    struct steno_espnet_options e = {.threads = o->threads,
                                     .cpu = o->cpu,
                                     .precision = o->precision,
                                     .plain = o->plain,
                                     .observer = o->observer};
    (void)steno_option_get_flag(o->options, o->n_options, "quantized", &e.quantized);
    e.as_espnet_onnx = compat && strcmp(compat, COMPAT) == 0;
    if (e.as_espnet_onnx && e.precision == STENO_AUTO_WEIGHTS)
        e.precision = STENO_FP32; /* for the same results as another program */
    e.without_lm = steno_option_get_number(o->options, o->n_options, "lm_weight", &lm) && lm == 0;
    return e;
}

static void close_model_espnet(void *model)
{
    struct steno_espnet_model *m = model;
    if (!m)
        return;
    if (m->opened)
        steno_espnet_close(&m->net);
    steno_tokens_close(m->tokens);
    free(m);
}

static steno_status open_model_espnet(void **model, const struct steno_family_open *o,
                                      steno_err *err)
{
    const struct steno_espnet_options e = read_options(o);
    struct steno_espnet_model *m = calloc(1, sizeof *m);
    steno_status st;
    if (!m)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    m->opened = true;
    st = steno_espnet_open(&m->net, o->dir, &e, err);
    if (!st)
        st = open_tokens_espnet(m, err);
    if (st) {
        close_model_espnet(m);
        return st;
    }
    set_names(m);
    m->defaults = steno_espnet_defaults(&m->net);
    steno_espnet_apply_options(&m->defaults, o->options, o->n_options);
    *model = m;
    return STENO_OK;
}

static bool probe_espnet(const char *dir)
{
    return steno_espnet_is_dir(dir);
}

static steno_status check_espnet(const char *dir, const struct steno_option *options, size_t n,
                                 steno_err *err)
{
    bool quantized = false;
    if (steno_option_get_flag(options, n, "quantized", &quantized) && quantized &&
        !steno_path_readable(dir, "quantize"))
        return steno_fail(err, STENO_ERR_INVAL, "quantized: %s has no folder quantize/", dir);
    return STENO_OK;
}

static void get_info_espnet(const void *model, struct steno_family_info *out)
{
    const struct steno_espnet_model *m = model;
    const struct steno_espnet *e = &m->net;
    const struct steno_espnet_conf *c = &e->conf;
    double rate = (double)c->rate, longest = LONGEST;
    /* a step is a block, or the first partial of an utterance */
    double hop = (double)c->hop_length / rate;
    double chunk = hop * (e->blocks ? (double)steno_espnet_next_frames(c) : floor(CHUNK / hop));
    if (e->max_rows)
        longest = fmin(longest, (double)(e->max_rows * e->frame_samples) / rate);
    *out =
        (struct steno_family_info){.name = m->name,
                                   .version = "",
                                   .language = "",
                                   .license = "",
                                   .network = m->network,
                                   .results_of = e->opt.as_espnet_onnx ? COMPAT : "",
                                   .tokens = m->tokens,
                                   .sample_rate = (int)c->rate,
                                   .hop = (size_t)c->hop_length,
                                   .feature_bins = (int)c->bins,
                                   .frame_samples = e->frame_samples,
                                   .chunk_seconds = chunk,
                                   .weight_bytes = steno_espnet_weight_bytes(e),
                                   .stream_bytes = segment_bytes(e, (size_t)(longest * rate)),
                                   .endpoint = {5, 0.8, longest},
                                   .limit = e->max_rows ? longest : 0,
                                   .batches = e->batches,
                                   .untimed = true,
                                   .feeding = STENO_FEED_SEGMENTS,
                                   .segments = {.whole = e->opt.as_espnet_onnx,
                                                .incremental = steno_espnet_by_blocks(e),
                                                .no_partials = e->blocks && e->opt.as_espnet_onnx}};
}

/* ---- for people ---------------------------------------------------------------------------- */

static void describe_network(FILE *out, const struct steno_espnet *e, const char *role,
                             const struct steno_espnet_file *f, const steno_network *net)
{
    const char *path = e->opt.quantized ? f->quantized : f->full;
    if (!net)
        return;
    fprintf(out, "%-10s %s, %.2f MiB%s\n", role, path,
            (double)steno_network_weight_bytes(net) / 1048576,
            f->full && f->quantized
                ? (e->opt.quantized ? " (full is there too)" : " (quantized is there too)")
                : "");
}

static void describe_spm(FILE *out, const struct steno_espnet_conf *c)
{
    if (!c->sentencepiece)
        return;
    fprintf(out, "pieces     %s, %s, %d pieces; %s", c->bpe_model,
            steno_sentencepiece_model_type(c->sentencepiece),
            (int)steno_sentencepiece_count(c->sentencepiece),
            c->tokens_from_sentencepiece ? "the token list is made of them\n" : "");
    if (!c->tokens_from_sentencepiece)
        fprintf(out, "%d tokens of the list are none of them\n", (int)c->not_in_sentencepiece);
}

static void describe_espnet(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct steno_espnet *e = &((const struct steno_espnet_model *)model)->net;
    static const char *const norms[] = {"none", "global mean and variance",
                                        "mean and variance of the utterance"};
    const struct steno_espnet_conf *c = &e->conf;
    fprintf(out, "model      %s, %s%s\n", i->name, i->family,
            e->opt.as_espnet_onnx ? ", as espnet_onnx 0.2.1" : "");
    fprintf(out, "directory  %s\n", c->dir);
    fprintf(out, "config     %s\n", c->path);
    fprintf(out, "features   STFT %ld, window %ld, hop %ld%s, %ld mel bins, %g to %g Hz, %ld Hz\n",
            c->n_fft, c->win_length, c->hop_length, c->center ? ", centred" : "", c->bins, c->fmin,
            c->fmax > 0 ? c->fmax : (double)c->rate / 2, c->rate);
    fprintf(out, "normalise  %s%s%s\n", norms[c->norm], c->stats ? ", " : "",
            c->stats ? c->stats : "");
    describe_network(out, e, "encoder", &c->encoder, e->encoder);
    describe_network(out, e, "ctc", &c->ctc, e->ctc);
    describe_network(out, e, "decoder", &c->decoder, e->decoder);
    describe_network(out, e, "predecoder", &c->predecoder[0], e->predecoder);
    describe_network(out, e, "joint", &c->joint, e->joint);
    describe_network(out, e, "lm", &c->lm, e->lm);
    if (c->decoder_kind == STENO_ESPNET_XFORMER)
        fprintf(out, "steps      decoder %s%s%s\n",
                e->decoder_cached ? "one token" : "whole prefixes", e->lm ? ", lm " : "",
                e->lm ? (e->lm_cached ? "one token" : "whole prefixes") : "");
    if (e->blocks)
        fprintf(out, "blocks     %s\n",
                e->batches ? "of several streams at once" : "one stream at a time");
    fprintf(out, "rows       %lld wide, every %.0f ms\n", (long long)e->dim,
            i->frame_seconds * 1e3);
    if (e->max_rows)
        fprintf(out, "positions  %zu encoder frames: at most %.1f s of audio in one utterance\n",
                e->max_rows, (double)(e->max_rows * e->frame_samples) / (double)c->rate);
    fprintf(out, "tokens     %zu, %s, blank %s, sos %s, eos %s\n", i->vocab_size, c->token_type,
            c->tokens[c->blank], c->tokens[c->sos], c->tokens[c->eos]);
    describe_spm(out, c);
    if (e->ngram)
        fprintf(out,
                "n-gram     %s, order %d, %lld words, weight %g, %s; %zu tokens unknown to it\n",
                c->ngram, steno_ngram_order(e->ngram), (long long)steno_ngram_count(e->ngram, 1),
                c->weight_ngram, c->ngram_partial ? "partial" : "full",
                steno_ngram_map_unknown(e->ngram_map));
    if (steno_espnet_is_transducer(e)) {
        fprintf(out, "search     transducer, %s, beam %ld, lm %g%s\n",
                c->beam == 1 ? "greedy" : c->search, c->beam, e->lm ? c->weight_lm : 0,
                c->score_norm ? ", sorted by score per token" : "");
    } else
        fprintf(out,
                "search     beam %ld, ctc %g, decoder %g, lm %g, length bonus %g, pre-beam x %g, "
                "maxlenratio %g, minlenratio %g\n",
                c->beam, c->weight_ctc, c->weight_decoder, e->lm ? c->weight_lm : 0,
                c->weight_length, c->pre_beam_ratio, c->max_len_ratio, c->min_len_ratio);
    fprintf(out,
            "memory     weights %.2f MiB shared, %.2f MiB for each worker, "
            "%.2f MiB a stream\n",
            (double)i->weight_bytes / 1048576, (double)e->runner_bytes / 1048576,
            (double)i->stream_bytes / 1048576);
}

static const struct steno_option_info options[] = {
    {FAMILY, "quantized", STENO_OPTION_FLAG, STENO_OPTION_OF_MODEL, 0, 0, NULL, "no",
     "use the networks of quantize/"},
    {FAMILY, "compat", STENO_OPTION_CHOICE, STENO_OPTION_OF_MODEL, 0, 0, COMPAT "|none", "none",
     "give the results of espnet_onnx 0.2.1, its faults included"},
    {FAMILY, "ctc_weight", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, 0, 1, NULL, "",
     "share of CTC in the joint search; the decoder has the rest; 1 without lm_weight: CTC alone"},
    {FAMILY, "lm_weight", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, 0, 100, NULL, "",
     "weight of the language model; with 0 it is not loaded"},
    {FAMILY, "penalty", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, -100, 100, NULL, "",
     "bonus for each token"},
    {FAMILY, "maxlenratio", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, -1e6, 100, NULL, "",
     "maximum length: 0 = end detection, above 0 a share of the frames, below 0 a number of "
     "tokens"},
    {FAMILY, "minlenratio", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, -1e6, 100, NULL, "",
     "minimum length: 0 = none, above 0 a share of the frames, below 0 a number of tokens"},
    {FAMILY, "pre_beam", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, 0, 1000, NULL, "",
     "tokens that CTC scores, as a multiple of the beam"},
};

const struct steno_family steno_family_espnet = {.name = FAMILY,
                                                 .options = options,
                                                 .n_options = sizeof options / sizeof *options,
                                                 .probe = probe_espnet,
                                                 .check = check_espnet,
                                                 .open = open_model_espnet,
                                                 .close = close_model_espnet,
                                                 .info = get_info_espnet,
                                                 .describe = describe_espnet,
                                                 .state_new = steno_espnet_state_new,
                                                 .state_free = steno_espnet_stream_free,
                                                 .reset = steno_espnet_reset,
                                                 .worker_open = steno_espnet_worker_open,
                                                 .worker_close = steno_espnet_worker_close,
                                                 .step = steno_espnet_step,
                                                 .hypotheses = steno_espnet_hypotheses,
                                                 .trial_open = steno_espnet_trial_open,
                                                 .trial_run = steno_espnet_trial_run,
                                                 .trial_close = steno_espnet_trial_close,
                                                 .accept = steno_espnet_accept,
                                                 .accepted = steno_espnet_accepted,
                                                 .missing = steno_espnet_missing};
