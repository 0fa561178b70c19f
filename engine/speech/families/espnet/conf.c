/* Reads config.yaml of espnet_onnx into struct steno_espnet_conf. */
#include "speech/families/espnet/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/espnet/files.h"
#include "formats/yaml.h"

#define PATH_MAX_BYTES 4096
#define MAX_VOCAB (1 << 20)

struct reader {
    struct steno_espnet_conf *c;
    steno_yaml *y;
    steno_err *err;
};

/* ---- networks ------------------------------------------------------------------------------ */

/* Find the files of a network by its keys ("encoder.model_path"), then by its role. STENO_ERR_IO:
 * neither form exists. */
static steno_status find_network(struct reader *r, const char *prefix, const char *role,
                                 struct steno_espnet_file *f)
{
    char key[96];
    const char *full = NULL, *quantized = NULL;
    steno_status st;
    snprintf(key, sizeof key, "%s.model_path", prefix);
    st = steno_yaml_str(r->y, key, &full, r->err);
    snprintf(key, sizeof key, "%s.quantized_model_path", prefix);
    if (!st)
        st = steno_yaml_str(r->y, key, &quantized, r->err);
    if (st)
        return st;
    f->full = steno_espnet_find_named(r->c, full);
    f->quantized = steno_espnet_find_named(r->c, quantized);
    if (!f->full && role)
        f->full = steno_espnet_find_role(r->c, "full", role);
    if (!f->quantized && role)
        f->quantized = steno_espnet_find_role(r->c, "quantize", role);
    if (f->full || f->quantized)
        return STENO_OK;
    return steno_fail(r->err, STENO_ERR_IO,
                      "%s: %s.model_path is '%s': no such file, nor one of that name or role below "
                      "%s",
                      r->c->path, prefix, full ? full : "", r->c->dir);
}

/* ---- reading keys -------------------------------------------------------------------------- */

static steno_status need_int(struct reader *r, const char *path, long min, long max, long *out)
{
    if (steno_yaml_null(steno_yaml_find(r->y, path)))
        return steno_yaml_missing(r->y, path, r->err);
    return steno_yaml_int(r->y, path, min, max, out, r->err);
}

static steno_status get_int(struct reader *r, const char *path, long min, long max, long fallback,
                            long *out)
{
    *out = fallback;
    return steno_yaml_int(r->y, path, min, max, out, r->err);
}

static steno_status get_double(struct reader *r, const char *path, double min, double max,
                               double fallback, double *out)
{
    *out = fallback;
    return steno_yaml_double(r->y, path, min, max, out, r->err);
}

static steno_status get_bool(struct reader *r, const char *path, bool fallback, bool *out)
{
    *out = fallback;
    return steno_yaml_bool(r->y, path, out, r->err);
}

static steno_status get_str(struct reader *r, const char *path, const char *fallback,
                            const char **out)
{
    const char *v = fallback;
    steno_status st = steno_yaml_str(r->y, path, &v, r->err);
    if (st || !v) {
        *out = NULL;
        return st;
    }
    *out = steno_arena_strdup(r->c->mem, v);
    return *out ? STENO_OK : steno_fail(r->err, STENO_ERR_NOMEM, "%s: out of memory", r->c->path);
}

static steno_status unsupported(struct reader *r, const char *key, const char *value,
                                const char *there_is)
{
    return steno_fail(r->err, STENO_ERR_UNSUPPORTED, "%s: %s '%s' is not supported; there is: %s",
                      r->c->path, key, value, there_is);
}

/* ---- sections ------------------------------------------------------------------------------ */

static steno_status list_out_of_memory(struct reader *r)
{
    return steno_fail(r->err, STENO_ERR_NOMEM, "%s: out of memory", r->c->path);
}

static steno_status token_list(struct reader *r, const struct steno_yaml_node *list)
{
    struct steno_espnet_conf *c = r->c;
    const struct steno_yaml_node *n = list->first;
    if (list->n > MAX_VOCAB)
        return steno_fail(r->err, STENO_ERR_LIMIT, "%s: token.list has %zu entries, at most %d",
                          c->path, list->n, MAX_VOCAB);
    c->vocab = (int32_t)list->n;
    c->tokens = steno_arena_calloc(c->mem, list->n, sizeof *c->tokens);
    if (!c->tokens)
        return list_out_of_memory(r);
    for (size_t i = 0; n; i++, n = n->next) {
        if (n->kind != STENO_YAML_SCALAR)
            return steno_fail(r->err, STENO_ERR_FORMAT, "%s: line %zu: token.list holds no text",
                              c->path, n->line);
        c->tokens[i] = steno_arena_strdup(c->mem, n->text);
        if (!c->tokens[i])
            return list_out_of_memory(r);
    }
    return STENO_OK;
}

/* The token list that ESPnet's recipes make from a BPE model (egs2/TEMPLATE/asr1/asr.sh, stage 5):
 * <blank>, <unk>, its pieces except <unk>, <s> and </s>, then <sos/eos>. */
static steno_status tokens_of_sentencepiece(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    int32_t n = steno_sentencepiece_count(c->sentencepiece);
    c->tokens = steno_arena_calloc(c->mem, (size_t)n + 3, sizeof *c->tokens);
    if (!c->tokens)
        return list_out_of_memory(r);
    c->tokens[c->vocab++] = "<blank>";
    c->tokens[c->vocab++] = "<unk>";
    for (int32_t i = 0; i < n; i++) {
        enum steno_sentencepiece_type type = steno_sentencepiece_type(c->sentencepiece, i);
        if (type != STENO_SENTENCEPIECE_UNKNOWN && type != STENO_SENTENCEPIECE_CONTROL)
            c->tokens[c->vocab++] = steno_sentencepiece_piece(c->sentencepiece, i);
    }
    c->tokens[c->vocab++] = "<sos/eos>";
    c->tokens_from_sentencepiece = true;
    return STENO_OK;
}

static steno_status read_tokens(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const struct steno_yaml_node *list = steno_yaml_find(r->y, "token.list");
    long sos = 0, eos = 0, blank;
    steno_status st;
    if (list && list->kind == STENO_YAML_LIST && list->n)
        st = token_list(r, list);
    else if (c->sentencepiece && steno_yaml_null(list))
        st = tokens_of_sentencepiece(r);
    else
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: token.list is missing or not a list, and there is no BPE model to "
                          "take it from",
                          c->path);
    if (!st && c->tokens_from_sentencepiece)
        st = get_int(r, "token.sos", 0, c->vocab - 1, c->vocab - 1, &sos);
    else if (!st)
        st = need_int(r, "token.sos", 0, c->vocab - 1, &sos);
    if (!st && c->tokens_from_sentencepiece)
        st = get_int(r, "token.eos", 0, c->vocab - 1, c->vocab - 1, &eos);
    else if (!st)
        st = need_int(r, "token.eos", 0, c->vocab - 1, &eos);
    if (!st)
        st = get_int(r, "token.blank", 0, c->vocab - 1, 0, &blank);
    if (st)
        return st;
    c->sos = (int32_t)sos;
    c->eos = (int32_t)eos;
    c->blank = (int32_t)blank;
    for (int32_t i = 0; c->sentencepiece && i < c->vocab; i++)
        c->not_in_sentencepiece += steno_sentencepiece_find(c->sentencepiece, c->tokens[i]) < 0;
    return STENO_OK;
}

/* For exports without tokenizer.token_type: a token with the word mark means BPE. */
static const char *guess_type(const struct steno_espnet_conf *c)
{
    for (int32_t i = 0; i < c->vocab; i++)
        if (strncmp(c->tokens[i], "\xE2\x96\x81", 3) == 0)
            return "bpe";
    return "char";
}

/* Open the BPE model, if there is one: the file that the key names, or the only *.model of the
 * directory. */
static steno_status open_sentencepiece(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *given = NULL, *type = NULL;
    steno_status st = steno_yaml_str(r->y, "tokenizer.token_type", &type, r->err);
    if (!st)
        st = steno_yaml_str(r->y, "tokenizer.bpemodel", &given, r->err);
    if (st || (type && strcmp(type, "bpe") != 0))
        return st;
    c->bpe_model = steno_espnet_find_named(c, given);
    if (!c->bpe_model)
        c->bpe_model = steno_espnet_find_ending(c, ".model");
    return c->bpe_model ? steno_sentencepiece_open(&c->sentencepiece, c->bpe_model, r->err)
                        : STENO_OK;
}

static steno_status read_tokenizer(struct reader *r)
{
    static const char *const types[] = {"char", "bpe", "word", "phn"};
    struct steno_espnet_conf *c = r->c;
    const char *guess = c->sentencepiece ? "bpe" : guess_type(c);
    steno_status st = get_str(r, "tokenizer.token_type", guess, &c->token_type);
    if (st)
        return st;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(c->token_type, types[i]) == 0)
            return STENO_OK;
    return unsupported(r, "tokenizer.token_type", c->token_type, "char, bpe, word, phn");
}

static steno_status read_stft(struct reader *r)
{
    static const char at[] = "encoder.frontend.stft.";
    struct steno_espnet_conf *c = r->c;
    const char *window = NULL;
    bool onesided = true, normalized = false;
    steno_status st = need_int(r, "encoder.frontend.stft.n_fft", 16, 65536, &c->n_fft);
    if (!st)
        st = get_int(r, "encoder.frontend.stft.win_length", 1, c->n_fft, c->n_fft, &c->win_length);
    if (!st)
        st = get_int(r, "encoder.frontend.stft.hop_length", 1, c->n_fft, c->n_fft / 4,
                     &c->hop_length);
    if (!st)
        st = get_str(r, "encoder.frontend.stft.window", "hann", &window);
    if (!st)
        st = get_bool(r, "encoder.frontend.stft.center", true, &c->center);
    if (!st)
        st = get_bool(r, "encoder.frontend.stft.onesided", true, &onesided);
    if (!st)
        st = get_bool(r, "encoder.frontend.stft.normalized", false, &normalized);
    if (st)
        return st;
    if (strcmp(window, "hann") != 0)
        return unsupported(r, "encoder.frontend.stft.window", window, "hann");
    if (c->win_length != c->n_fft && !c->center)
        return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                          "%s: %swin_length is %ld, n_fft %ld: a window shorter than the transform "
                          "is supported with center: true only",
                          c->path, at, c->win_length, c->n_fft);
    if (!onesided || normalized)
        return unsupported(
            r, onesided ? "encoder.frontend.stft.normalized" : "encoder.frontend.stft.onesided",
            onesided ? "true" : "false", onesided ? "false" : "true");
    return STENO_OK;
}

static steno_status read_frontend(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL;
    long mel_fft = 0;
    steno_status st = get_str(r, "encoder.frontend.frontend_type", "default", &type);
    if (!st && strcmp(type, "default") != 0)
        return unsupported(r, "encoder.frontend.frontend_type", type, "default");
    if (!st)
        st = read_stft(r);
    if (!st)
        st = get_int(r, "encoder.frontend.logmel.sr", 1000, 192000, 16000, &c->rate);
    if (!st)
        st = get_int(r, "encoder.frontend.logmel.n_fft", 16, 65536, c->n_fft, &mel_fft);
    if (!st)
        st = need_int(r, "encoder.frontend.logmel.n_mels", 1, 512, &c->bins);
    if (!st)
        st = get_double(r, "encoder.frontend.logmel.fmin", 0, 96000, 0, &c->fmin);
    if (!st)
        st = get_double(r, "encoder.frontend.logmel.fmax", 1, 96000, 0, &c->fmax);
    if (!st)
        st = get_double(r, "encoder.frontend.logmel.log_base", 1.001, 1e6, 0, &c->log_base);
    if (!st)
        st = get_bool(r, "encoder.frontend.logmel.htk", false, &c->htk);
    if (st)
        return st;
    if (c->htk)
        return unsupported(r, "encoder.frontend.logmel.htk", "true", "false");
    if (mel_fft != c->n_fft)
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: encoder.frontend.logmel.n_fft is %ld, stft.n_fft is %ld", c->path,
                          mel_fft, c->n_fft);
    return STENO_OK;
}

static steno_status read_normalize(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL, *stats = NULL;
    bool on = false;
    steno_status st = get_bool(r, "encoder.do_normalize", false, &on);
    if (st || !on)
        return st;
    st = get_str(r, "encoder.normalize.type", NULL, &type);
    if (!st)
        st = get_bool(r, "encoder.normalize.norm_means", true, &c->norm_means);
    if (!st)
        st = get_double(r, "encoder.normalize.eps", 0, 1, 1e-20, &c->norm_eps);
    if (st)
        return st;
    if (!type)
        return steno_yaml_missing(r->y, "encoder.normalize.type", r->err);
    if (strcmp(type, "utterance_mvn") == 0) {
        c->norm = STENO_ESPNET_UTTERANCE_MVN;
        return get_bool(r, "encoder.normalize.norm_vars", false, &c->norm_vars);
    }
    if (strcmp(type, "gmvn") != 0)
        return unsupported(r, "encoder.normalize.type", type, "gmvn, utterance_mvn");
    c->norm = STENO_ESPNET_GLOBAL_MVN;
    st = get_bool(r, "encoder.normalize.norm_vars", true, &c->norm_vars);
    if (!st)
        st = get_str(r, "encoder.normalize.stats_file", "feats_stats.npz", &stats);
    if (st)
        return st;
    c->stats = steno_espnet_find_named(c, stats);
    if (!c->stats)
        c->stats = steno_espnet_find_named(c, "feats_stats.npz");
    return c->stats
               ? STENO_OK
               : steno_fail(r->err, STENO_ERR_IO,
                            "%s: encoder.normalize.stats_file '%s' is not there", c->path, stats);
}

static steno_status read_encoder(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL, *pe = NULL;
    bool post = false;
    steno_status st = get_str(r, "encoder.enc_type", NULL, &type);
    if (!st && !type)
        return steno_yaml_missing(r->y, "encoder.enc_type", r->err);
    if (!st)
        st = get_bool(r, "encoder.is_vggrnn", false, &c->vggrnn);
    if (!st)
        st = get_bool(r, "encoder.do_postencoder", false, &post);
    if (!st)
        st = read_frontend(r);
    if (!st)
        st = read_normalize(r);
    if (!st)
        st = find_network(r, "encoder", "encoder", &c->encoder);
    if (st)
        return st;
    if (post)
        return unsupported(r, "encoder.do_postencoder", "true", "false");
    /* the exporter 0.2.1 writes the quantized file of the prediction network as the encoder's */
    if (c->encoder.quantized && strstr(steno_espnet_base_name(c->encoder.quantized), "transducer"))
        c->encoder.quantized = steno_espnet_find_role(c, "quantize", "encoder");
    /* only streaming encoders have a type of their own; all others are "default" for the runtime */
    c->streaming = strcmp(type, "ContextualXformerEncoder") == 0;
    if (!c->streaming)
        return STENO_OK;
    st = need_int(r, "encoder.n_layers", 1, 1024, &c->encoder_layers);
    if (!st)
        st = get_int(r, "encoder.subsample", 1, 64, 4, &c->subsample);
    if (!st)
        st = get_int(r, "encoder.block_size", 2, 4096, 40, &c->block);
    if (!st)
        st = get_int(r, "encoder.hop_size", 1, c->block, 16, &c->hop);
    if (!st)
        st = get_int(r, "encoder.look_ahead", 0, c->block - c->hop, 16, &c->look_ahead);
    if (!st)
        st = get_str(r, "encoder.pe_path", "pe.npy", &pe);
    if (st)
        return st;
    c->pe = steno_espnet_find_named(c, pe);
    if (!c->pe)
        c->pe = steno_espnet_find_named(c, "pe.npy");
    return c->pe ? STENO_OK
                 : steno_fail(r->err, STENO_ERR_IO, "%s: encoder.pe_path '%s' is not there",
                              c->path, pe);
}

static steno_status read_rnn_decoder(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const struct steno_yaml_node *list = steno_yaml_find(r->y, "decoder.predecoder"), *n;
    const char *type = NULL;
    steno_status st = need_int(r, "decoder.dlayers", 1, 64, &c->rnn_layers);
    if (!st)
        st = need_int(r, "decoder.dunits", 1, 65536, &c->rnn_units);
    if (!st)
        st = need_int(r, "decoder.decoder_length", 1, 64, &c->rnn_length);
    if (!st)
        st = get_str(r, "decoder.rnn_type", "lstm", &type);
    if (st)
        return st;
    /* 0.2.1 cannot export a GRU: it names outputs that it lacks. `steno convert` writes it with the
     * inputs and outputs of an LSTM, of which c stays as it is. */
    if (strcmp(type, "lstm") != 0 && strcmp(type, "gru") != 0)
        return unsupported(r, "decoder.rnn_type", type, "lstm, gru");
    if (!list || list->kind != STENO_YAML_LIST)
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: decoder.predecoder is not a list",
                          c->path);
    if (list->n != 1)
        return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                          "%s: decoder.predecoder has %zu entries; one encoder is supported",
                          c->path, list->n);
    n = list->first;
    if (n->kind != STENO_YAML_MAP)
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: line %zu: decoder.predecoder holds no keys", c->path, n->line);
    for (const struct steno_yaml_node *k = n->first; k; k = k->next) {
        if (k->kind != STENO_YAML_SCALAR)
            continue;
        if (strcmp(k->key, "att_type") == 0)
            c->att_type[0] = steno_arena_strdup(c->mem, k->text);
        else if (strcmp(k->key, "model_path") == 0)
            c->predecoder[0].full = steno_espnet_find_named(c, k->text);
        else if (strcmp(k->key, "quantized_model_path") == 0)
            c->predecoder[0].quantized = steno_espnet_find_named(c, k->text);
    }
    c->n_predecoders = 1;
    if (!c->att_type[0])
        return steno_yaml_missing(r->y, "decoder.predecoder[0].att_type", r->err);
    if (strcmp(c->att_type[0], "noatt") != 0) {
        if (!c->predecoder[0].full)
            c->predecoder[0].full = steno_espnet_find_role(c, "full", "predecoder");
        if (!c->predecoder[0].quantized)
            c->predecoder[0].quantized = steno_espnet_find_role(c, "quantize", "predecoder");
    }
    if (strcmp(c->att_type[0], "location2d") == 0)
        return unsupported(r, "decoder.predecoder[0].att_type", c->att_type[0],
                           "noatt, dot, add, location, coverage and the like");
    return STENO_OK;
}

static steno_status read_decoder(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL, *rnn = NULL;
    steno_status st = get_str(r, "decoder.dec_type", NULL, &type);
    if (st)
        return st;
    if (!type)
        return steno_yaml_missing(r->y, "decoder.dec_type", r->err);
    st = find_network(r, "decoder",
                      strcmp(type, "TransducerDecoder") == 0 ? "transducer" : "decoder",
                      &c->decoder);
    if (st)
        return st;
    if (strcmp(type, "RNNDecoder") == 0) {
        c->decoder_kind = STENO_ESPNET_RNN;
        return read_rnn_decoder(r);
    }
    st = need_int(r, "decoder.n_layers", 1, 1024, &c->decoder_layers);
    if (!st)
        st = need_int(r, "decoder.odim", 1, 65536, &c->decoder_dim);
    if (st)
        return st;
    if (strcmp(type, "TransducerDecoder") == 0) {
        c->decoder_kind = STENO_ESPNET_TRANSDUCER;
        st = get_str(r, "decoder.dtype", "lstm", &rnn);
        c->rnn_lstm = rnn && strcmp(rnn, "lstm") == 0;
        return st ? st : find_network(r, "joint_network", "joint", &c->joint);
    }
    if (strcmp(type, "XformerDecoder") != 0)
        return unsupported(r, "decoder.dec_type", type,
                           "XformerDecoder, RNNDecoder, TransducerDecoder");
    c->decoder_kind = STENO_ESPNET_XFORMER;
    return STENO_OK;
}

static steno_status read_lm(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL, *rnn = NULL;
    bool on = false;
    steno_status st = get_bool(r, "lm.use_lm", false, &on);
    if (st || !on)
        return st;
    st = get_str(r, "lm.lm_type", NULL, &type);
    if (!st && !type)
        return steno_yaml_missing(r->y, "lm.lm_type", r->err);
    if (!st)
        st = find_network(r, "lm", "lm", &c->lm);
    if (!st)
        st = need_int(r, "lm.nlayers", 1, 1024, &c->lm_layers);
    if (st)
        return st;
    if (strcmp(type, "TransformerLM") == 0) {
        c->lm_kind = STENO_ESPNET_LM_XFORMER;
        return need_int(r, "lm.odim", 1, 65536, &c->lm_dim);
    }
    if (strcmp(type, "SequentialRNNLM") != 0)
        return unsupported(r, "lm.lm_type", type, "TransformerLM, SequentialRNNLM");
    c->lm_kind = STENO_ESPNET_LM_RNN;
    st = get_str(r, "lm.rnn_type", "LSTM", &rnn);
    c->lm_lstm = rnn && strcmp(rnn, "LSTM") == 0;
    return st ? st : need_int(r, "lm.nhid", 1, 65536, &c->lm_dim);
}

/* espnet_onnx writes use_ngram and the weight, but no file. The file is the one that model_path
 * names, or the only *.arpa of the directory. Without a file it is an error: to leave out an n-gram
 * model with a weight would change every score. */
static steno_status read_ngram(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *given = NULL, *scorer = NULL;
    bool on = false;
    steno_status st = get_bool(r, "ngram.use_ngram", false, &on);
    if (!st)
        st = get_double(r, "weights.ngram", 0, 100, 0, &c->weight_ngram);
    if (!st)
        st = steno_yaml_str(r->y, "ngram.model_path", &given, r->err);
    if (!st)
        st = get_str(r, "ngram.scorer", "full", &scorer);
    if (st || !on || c->weight_ngram == 0)
        return st;
    if (strcmp(scorer, "full") != 0 && strcmp(scorer, "part") != 0)
        return unsupported(r, "ngram.scorer", scorer, "full, part");
    c->ngram_partial = strcmp(scorer, "part") == 0;
    c->ngram = steno_espnet_find_named(c, given);
    if (!c->ngram)
        c->ngram = steno_espnet_find_ending(c, ".arpa");
    if (!c->ngram)
        c->ngram = steno_espnet_find_ending(c, "gram.bin"); /* 4gram.bin of ESPnet's recipes */
    return c->ngram
               ? STENO_OK
               : steno_fail(r->err, STENO_ERR_IO,
                            "%s: ngram.use_ngram is true and weights.ngram %g, but there is no "
                            "model: espnet_onnx exports none; put the ARPA file or KenLM binary "
                            "beside the configuration (or set weights.ngram to 0)",
                            c->path, c->weight_ngram);
}

static steno_status read_search(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *key = NULL;
    steno_status st = get_int(r, "beam_search.beam_size", 1, 1000, 10, &c->beam);
    if (!st)
        st = get_double(r, "beam_search.pre_beam_ratio", 0, 1000, 1.5, &c->pre_beam_ratio);
    if (!st)
        st = get_str(r, "beam_search.pre_beam_score_key", NULL, &key);
    if (!st)
        st = get_double(r, "beam_search.maxlenratio", -1e6, 1e6, 0, &c->max_len_ratio);
    if (!st)
        st = get_double(r, "beam_search.minlenratio", -1e6, 1e6, 0, &c->min_len_ratio);
    if (!st)
        st = get_bool(r, "beam_search.disable_repetition_detection", false, &c->no_repetition);
    if (!st)
        st = get_double(r, "weights.ctc", 0, 1, 0.3, &c->weight_ctc);
    if (!st)
        st = get_double(r, "weights.decoder", 0, 1, 1 - c->weight_ctc, &c->weight_decoder);
    if (!st)
        st = get_double(r, "weights.length_bonus", -100, 100, 0, &c->weight_length);
    if (!st)
        st = get_double(r, "weights.lm", 0, 100, 0, &c->weight_lm);
    if (!st)
        st = read_ngram(r);
    if (st)
        return st;
    c->pre_beam = key != NULL;
    c->pre_beam_full = key && strcmp(key, "full") == 0;
    if (key && !c->pre_beam_full && strcmp(key, "decoder") != 0)
        return unsupported(r, "beam_search.pre_beam_score_key", key, "full, decoder, null");
    return STENO_OK;
}

static steno_status read_transducer(struct reader *r)
{
    static const char *const known[] = {"greedy", "default", "tsd", "alsd", "nsc", "maes"};
    struct steno_espnet_conf *c = r->c;
    bool is_known = false;
    steno_status st = get_str(r, "beam_search.search_type", "default", &c->search);
    for (size_t i = 0; i < sizeof known / sizeof *known && !st; i++)
        is_known = is_known || strcmp(c->search, known[i]) == 0;
    if (!st && !is_known)
        return unsupported(r, "beam_search.search_type", c->search,
                           "greedy, default, tsd, alsd, nsc, maes");
    if (!st)
        st = get_bool(r, "beam_search.score_norm", true, &c->score_norm);
    if (!st)
        st = get_int(r, "beam_search.search_args.max_sym_exp", 1, 100, 2, &c->max_sym_exp);
    if (!st)
        st = get_double(r, "beam_search.search_args.u_max", 1, 1e6, 50, &c->u_max);
    if (!st)
        st = get_int(r, "beam_search.search_args.nstep", 1, 100, 1, &c->n_step);
    if (!st)
        st = get_int(r, "beam_search.search_args.prefix_alpha", 0, 100, 1, &c->prefix_alpha);
    if (!st)
        st = get_double(r, "beam_search.search_args.expansion_gamma", 0, 100, 2.3,
                        &c->expansion_gamma);
    if (!st)
        st = get_int(r, "beam_search.search_args.expansion_beta", 0, 100, 2, &c->expansion_beta);
    return st;
}

static steno_status read_all(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    bool transducer = false;
    steno_status st;
    if (steno_yaml_root(r->y)->kind != STENO_YAML_MAP)
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: not a mapping of keys", c->path);
    if (!steno_yaml_find(r->y, "encoder") || !steno_yaml_find(r->y, "token"))
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: no %s section: not a speech recognition model of espnet_onnx",
                          c->path, steno_yaml_find(r->y, "encoder") ? "token" : "encoder");
    st = open_sentencepiece(r);
    if (!st)
        st = read_tokens(r);
    if (!st)
        st = read_tokenizer(r);
    if (!st)
        st = read_encoder(r);
    if (!st)
        st = get_bool(r, "transducer.use_transducer_decoder", false, &transducer);
    if (!st && (transducer || steno_yaml_find(r->y, "decoder")))
        st = read_decoder(r);
    if (!st && !transducer)
        st = find_network(r, "ctc", "ctc", &c->ctc);
    if (!st)
        st = read_lm(r);
    if (!st)
        st = read_search(r);
    if (!st && transducer)
        st = read_transducer(r);
    if (!st && transducer != (c->decoder_kind == STENO_ESPNET_TRANSDUCER))
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: transducer.use_transducer_decoder and decoder.dec_type disagree",
                          c->path);
    return st;
}

/* ---- which directory ----------------------------------------------------------------------- */

static const char *const names[] = {"config.yaml", "config.yml", "config.json"};

/* Models of Hugging Face and faster-whisper have a config.json of another kind. */
static bool has_other_weights(const char *dir)
{
    return steno_path_readable(dir, "model.safetensors") ||
           steno_path_readable(dir, "model.safetensors.index.json") ||
           steno_path_readable(dir, "pytorch_model.bin") || steno_path_readable(dir, "model.bin");
}

static const char *config_in(const char *dir)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (steno_path_readable(dir, names[i]))
            return strcmp(names[i], "config.json") || !has_other_weights(dir) ? names[i] : NULL;
    return NULL;
}

bool steno_espnet_is_dir(const char *dir)
{
    return config_in(dir) || steno_path_readable(dir, "tag_config.yaml");
}

static steno_status list_tags(const struct steno_yaml_node *map, const char *path, steno_err *err)
{
    char list[512] = "";
    size_t at = 0;
    for (const struct steno_yaml_node *n = map->first; n && at < sizeof list; n = n->next)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", n->key, n->next ? ", " : "");
    return steno_fail(err, STENO_ERR_INVAL,
                      "%s names %zu models: give the directory of one of them (%s)", path, map->n,
                      list);
}

/* tag_config.yaml has one tag and the path of its directory. The directory is found by that path,
 * else by the name of the tag. */
static steno_status follow_tag(struct steno_espnet_conf *c, steno_err *err)
{
    char path[PATH_MAX_BYTES];
    const struct steno_yaml_node *root;
    steno_yaml *y = NULL;
    const char *to;
    steno_status st;
    snprintf(path, sizeof path, "%s/tag_config.yaml", c->dir);
    st = steno_yaml_open(&y, path, err);
    if (st)
        return st;
    root = steno_yaml_root(y);
    if (root->kind != STENO_YAML_MAP || !root->n)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: no tag: directory pairs", path);
    else if (root->n > 1)
        st = list_tags(root, path, err);
    else if (root->first->kind != STENO_YAML_SCALAR)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: tag %s has no directory", path,
                        root->first->key);
    else if (!(to = steno_espnet_find_named(c, root->first->text)) &&
             !(to = steno_espnet_find_named(c, root->first->key)))
        st = steno_fail(err, STENO_ERR_IO, "%s: tag %s: no directory %s", path, root->first->key,
                        root->first->text);
    else
        c->dir = to;
    steno_yaml_close(y);
    return st;
}

steno_status steno_espnet_conf_open(struct steno_espnet_conf *c, const char *dir, steno_err *err)
{
    struct reader r = {.c = c, .err = err};
    char path[PATH_MAX_BYTES];
    const char *file;
    steno_status st = STENO_OK;
    *c = (struct steno_espnet_conf){.mem = steno_arena_new(0)};
    if (c->mem)
        c->dir = steno_arena_strdup(c->mem, dir);
    if (!c->dir)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    if (strlen(dir) > PATH_MAX_BYTES / 2)
        return steno_fail(err, STENO_ERR_LIMIT, "the directory's name has %zu bytes", strlen(dir));
    if (!config_in(c->dir))
        st = follow_tag(c, err);
    if (st)
        return st;
    file = config_in(c->dir);
    if (!file)
        return steno_fail(err, STENO_ERR_IO, "%s: no config.yaml", c->dir);
    snprintf(path, sizeof path, "%s/%s", c->dir, file);
    c->path = steno_arena_strdup(c->mem, path);
    if (!c->path)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    st = steno_yaml_open(&r.y, path, err);
    if (!st)
        st = read_all(&r);
    steno_yaml_close(r.y);
    return st;
}

void steno_espnet_conf_close(struct steno_espnet_conf *c)
{
    steno_sentencepiece_close(c->sentencepiece);
    steno_arena_free(c->mem);
    *c = (struct steno_espnet_conf){0};
}
