/* A directory of espnet_onnx as a steno_model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "families/espnet/block.h"
#include "families/espnet/recurrent.h"
#include "recognizer/internal.h"

#define MARK "\xE2\x96\x81" /* U+2581 begins a word */
#define MAX_VOCAB_TEXT ((size_t)64 << 20)

/* token.list as the text of tokens.txt: <space> is the word mark, a word vocabulary has it at every
 * entry. */
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

/* What is heard but not written: blank, <unk>, and the marks of beginning and end. */
static steno_status drop_marks(steno_model *m, const struct steno_espnet_conf *c, steno_err *err)
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

/* Control pieces of the BPE model (<s>, </s>, <pad>, ...) are no text. */
static steno_status drop_controls(steno_model *m, const struct steno_espnet_conf *c, steno_err *err)
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

static steno_status open_tokens(steno_model *m, steno_err *err)
{
    const struct steno_espnet_conf *c = &m->espnet->conf;
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

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%.*s", (int)size - 1, from);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The name of the model is that of its directory. */
static void set_name(steno_model *m, const char *dir)
{
    size_t end = strlen(dir), begin;
    while (end > 1 && dir[end - 1] == '/')
        end--;
    begin = end;
    while (begin > 0 && dir[begin - 1] != '/')
        begin--;
    snprintf(m->conf.name, sizeof m->conf.name, "%.*s", (int)(end - begin), dir + begin);
}

/* What a stream holds of a segment of so many samples: these; of a streaming encoder the rows,
 * their scores, and the decoder's keys and values of them, or what a transducer's search keeps. */
static size_t segment_bytes(const struct steno_espnet *e, size_t samples)
{
    const struct steno_espnet_conf *c = &e->conf;
    size_t row = ((size_t)e->dim + (size_t)c->vocab) * sizeof(float);
    if (!e->blocks || !e->frame_samples)
        return samples * sizeof(float);
    if (steno_espnet_is_transducer(e))
        return STENO_TRANSDUCER_ROW_BYTES;
    if (e->decoder_steps)
        row += 2 * (size_t)c->decoder_layers * (size_t)c->decoder_dim *
               (steno_network_kv_bf16(e->decoder) ? sizeof(uint16_t) : sizeof(float));
    return samples / e->frame_samples * row;
}

static void fill_conf(steno_model *m)
{
    const struct steno_espnet *e = m->espnet;
    struct steno_model_conf *c = &m->conf;
    set_name(m, e->conf.dir);
    copy_text(c->family, sizeof c->family, "espnet");
    copy_text(c->feature_type, sizeof c->feature_type, "espnet-logmel");
    copy_text(c->network, sizeof c->network,
              base_name(e->opt.quantized ? e->conf.encoder.quantized : e->conf.encoder.full));
    c->sample_rate = (int)e->conf.rate;
    c->mel_bins = (int)e->conf.bins;
    c->subsampling = (int)(e->frame_samples / (size_t)e->conf.hop_length);
    c->beam = (int)steno_espnet_defaults(e).beam;
    /* "a step": a block, or the first partial of an utterance */
    c->window_frames = c->shift_frames =
        e->blocks ? (int)steno_espnet_next_frames(&e->conf)
                  : (int)(0.8 * (double)c->sample_rate / (double)e->conf.hop_length);
    c->rule1_silence = 5;
    c->rule2_silence = 0.8;
    c->rule3_length = 20;
    if (e->max_rows) {
        double most = (double)(e->max_rows * e->frame_samples) / (double)e->conf.rate;
        c->rule3_length = most < c->rule3_length ? most : c->rule3_length;
    }
    m->blank = e->conf.blank;
    m->hop = (size_t)e->conf.hop_length;
    m->stream_bytes = segment_bytes(e, (size_t)(c->rule3_length * c->sample_rate));
}

steno_status steno_espnet_model_open(steno_model *m, const struct steno_model_options *opt,
                                     steno_err *err)
{
    struct steno_espnet_options o = {.threads = m->threads};
    steno_status st;
    if (opt) {
        o.cpu = opt->cpu;
        st = steno_model_precision(opt, NULL, &o.precision, err);
        if (st)
            return st;
        o.quantized = opt->quantized;
        o.plain = opt->plain;
        o.observer = opt->observer;
        o.without_lm = opt->without_lm;
        o.as_espnet_onnx = opt->compat != NULL;
        if (opt->compat && strcmp(opt->compat, "espnet-onnx") != 0)
            return steno_fail(err, STENO_ERR_INVAL, "compat is '%.40s'; there is: espnet-onnx",
                              opt->compat);
    }
    m->espnet = calloc(1, sizeof *m->espnet);
    if (!m->espnet)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    st = steno_espnet_open(m->espnet, m->dir, &o, err);
    if (!st)
        st = open_tokens(m, err);
    if (!st)
        fill_conf(m);
    return st;
}

void steno_espnet_model_close(steno_model *m)
{
    if (!m->espnet)
        return;
    steno_espnet_close(m->espnet);
    free(m->espnet);
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
            c->tokens_from_spm ? "the token list is made of them\n" : "");
    if (!c->tokens_from_spm)
        fprintf(out, "%d tokens of the list are none of them\n", (int)c->not_in_sentencepiece);
}

void steno_espnet_describe(const steno_model *m, FILE *out)
{
    static const char *const norms[] = {"none", "global mean and variance",
                                        "mean and variance of the utterance"};
    const struct steno_espnet *e = m->espnet;
    const struct steno_espnet_conf *c = &e->conf;
    struct steno_model_info i;
    steno_model_get_info(m, &i);
    fprintf(out, "model      %s, %s%s\n", i.name, i.family,
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
    describe_network(out, e, "predecoder", &c->predecoder[0], e->before);
    describe_network(out, e, "joint", &c->joint, e->joint);
    describe_network(out, e, "lm", &c->lm, e->lm);
    if (c->decoder_kind == STENO_ESPNET_XFORMER)
        fprintf(out, "steps      decoder %s%s%s\n",
                e->decoder_steps ? "one token" : "whole prefixes", e->lm ? ", lm " : "",
                e->lm ? (e->lm_steps ? "one token" : "whole prefixes") : "");
    if (e->blocks)
        fprintf(out, "blocks     %s\n",
                e->batches ? "of several streams at once" : "one stream at a time");
    fprintf(out, "rows       %lld wide, every %.0f ms\n", (long long)e->dim, i.frame_seconds * 1e3);
    if (e->max_rows)
        fprintf(out, "positions  %zu rows, so %.1f s of audio at most in one utterance\n",
                e->max_rows, (double)(e->max_rows * e->frame_samples) / (double)c->rate);
    fprintf(out, "tokens     %zu, %s, blank %s, sos %s, eos %s\n", i.vocab_size, c->token_type,
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
            (double)i.weight_bytes / 1048576, (double)e->runner_bytes / 1048576,
            (double)i.stream_bytes / 1048576);
}
