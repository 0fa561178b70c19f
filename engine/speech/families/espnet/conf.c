/* Reads config.yaml of espnet_onnx into struct steno_espnet_conf. */
#include "speech/families/espnet/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/path.h"
#include "formats/yaml.h"
#include "speech/families/espnet/files.h"

#define PATH_MAX_BYTES 4096
#define MAX_VOCAB (1 << 20)

/* The first failure stays in st, and what follows it reads nothing: outputs stay as they are. */
struct reader {
    struct steno_espnet_conf *c;
    steno_yaml *y;
    steno_err *err;
    steno_status st;
};

/* ---- reading keys -------------------------------------------------------------------------- */

static void need_int(struct reader *r, const char *path, long min, long max, long *out)
{
    if (!r->st && steno_yaml_null(steno_yaml_find(r->y, path)))
        r->st = steno_yaml_missing(r->y, path, r->err);
    if (!r->st)
        r->st = steno_yaml_int(r->y, path, min, max, out, r->err);
}

static void get_int(struct reader *r, const char *path, long min, long max, long fallback,
                    long *out)
{
    if (r->st)
        return;
    *out = fallback;
    r->st = steno_yaml_int(r->y, path, min, max, out, r->err);
}

static void get_double(struct reader *r, const char *path, double min, double max, double fallback,
                       double *out)
{
    if (r->st)
        return;
    *out = fallback;
    r->st = steno_yaml_double(r->y, path, min, max, out, r->err);
}

static void get_bool(struct reader *r, const char *path, bool fallback, bool *out)
{
    if (r->st)
        return;
    *out = fallback;
    r->st = steno_yaml_bool(r->y, path, out, r->err);
}

/* *out: in the file's memory, or NULL where there is neither a value nor a fallback. */
static void get_str(struct reader *r, const char *path, const char *fallback, const char **out)
{
    if (r->st)
        return;
    *out = fallback;
    r->st = steno_yaml_str(r->y, path, out, r->err);
}

static void need_str(struct reader *r, const char *path, const char **out)
{
    get_str(r, path, NULL, out);
    if (!r->st && !*out)
        r->st = steno_yaml_missing(r->y, path, r->err);
}

/* A copy that stays with the configuration. */
static const char *keep(struct reader *r, const char *text)
{
    const char *copy = r->st ? NULL : steno_arena_strdup(r->c->mem, text);
    if (!copy && !r->st)
        r->st = steno_fail(r->err, STENO_ERR_NOMEM, "%s: out of memory", r->c->path);
    return copy;
}

/* The value of a key is none of `known`, "a, b". */
static void refuse(struct reader *r, const char *key, const char *value, const char *known)
{
    r->st = steno_fail(r->err, STENO_ERR_UNSUPPORTED, "%s: %s '%s' is not supported; there is: %s",
                       r->c->path, key, value, known);
}

/* The same where it is so. */
static void check_word(struct reader *r, const char *key, const char *value, const char *known)
{
    if (!r->st && !steno_list_holds(known, value))
        refuse(r, key, value, known);
}

/* ---- networks ------------------------------------------------------------------------------ */

/* Find the files of a network by its keys ("encoder.model_path"), then by its role. STENO_ERR_IO:
 * neither form exists. */
static void find_network(struct reader *r, const char *prefix, const char *role,
                         struct steno_espnet_file *f)
{
    char key[96];
    const char *full = NULL, *quantized = NULL;
    snprintf(key, sizeof key, "%s.model_path", prefix);
    get_str(r, key, NULL, &full);
    snprintf(key, sizeof key, "%s.quantized_model_path", prefix);
    get_str(r, key, NULL, &quantized);
    if (r->st)
        return;
    f->full = steno_espnet_find_named(r->c, full);
    f->quantized = steno_espnet_find_named(r->c, quantized);
    if (!f->full)
        f->full = steno_espnet_find_role(r->c, "full", role);
    if (!f->quantized)
        f->quantized = steno_espnet_find_role(r->c, "quantize", role);
    if (!f->full && !f->quantized)
        r->st = steno_fail(r->err, STENO_ERR_IO,
                           "%s: %s.model_path is '%s': no such file, nor one of that name or role "
                           "below %s",
                           r->c->path, prefix, full ? full : "", r->c->dir);
}

/* The file that a key names, or one of its usual name. STENO_ERR_IO: there is none. */
static const char *find_file(struct reader *r, const char *key, const char *usual)
{
    const char *given = NULL, *found;
    get_str(r, key, usual, &given);
    if (r->st)
        return NULL;
    found = steno_espnet_find_named(r->c, given);
    if (!found)
        found = steno_espnet_find_named(r->c, usual);
    if (!found)
        r->st =
            steno_fail(r->err, STENO_ERR_IO, "%s: %s '%s' is not there", r->c->path, key, given);
    return found;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static void token_list(struct reader *r, const struct steno_yaml_node *list)
{
    struct steno_espnet_conf *c = r->c;
    const struct steno_yaml_node *n = list->first;
    if (list->n > MAX_VOCAB) {
        r->st = steno_fail(r->err, STENO_ERR_LIMIT, "%s: token.list has %zu entries, at most %d",
                           c->path, list->n, MAX_VOCAB);
        return;
    }
    c->vocab = (int32_t)list->n;
    c->tokens = steno_arena_calloc(c->mem, list->n, sizeof *c->tokens);
    if (!c->tokens)
        r->st = steno_fail(r->err, STENO_ERR_NOMEM, "%s: out of memory", c->path);
    for (size_t i = 0; n && !r->st; i++, n = n->next)
        if (n->kind != STENO_YAML_SCALAR)
            r->st = steno_fail(r->err, STENO_ERR_FORMAT, "%s: line %zu: token.list holds no text",
                               c->path, n->line);
        else
            c->tokens[i] = keep(r, n->text);
}

/* The token list that ESPnet's recipes make from a BPE model (egs2/TEMPLATE/asr1/asr.sh, stage 5):
 * <blank>, <unk>, its pieces except <unk>, <s> and </s>, then <sos/eos>. */
static void tokens_of_sentencepiece(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    int32_t n = steno_sentencepiece_count(c->sentencepiece);
    c->tokens = steno_arena_calloc(c->mem, (size_t)n + 3, sizeof *c->tokens);
    if (!c->tokens) {
        r->st = steno_fail(r->err, STENO_ERR_NOMEM, "%s: out of memory", c->path);
        return;
    }
    c->tokens[c->vocab++] = "<blank>";
    c->tokens[c->vocab++] = "<unk>";
    for (int32_t i = 0; i < n; i++) {
        enum steno_sentencepiece_type type = steno_sentencepiece_type(c->sentencepiece, i);
        if (type != STENO_SENTENCEPIECE_UNKNOWN && type != STENO_SENTENCEPIECE_CONTROL)
            c->tokens[c->vocab++] = steno_sentencepiece_piece(c->sentencepiece, i);
    }
    c->tokens[c->vocab++] = "<sos/eos>";
    c->tokens_from_sentencepiece = true;
}

/* A mark's number; a list that was made has it as its last. */
static int32_t read_mark(struct reader *r, const char *key)
{
    const struct steno_espnet_conf *c = r->c;
    long id = 0;
    if (c->tokens_from_sentencepiece)
        get_int(r, key, 0, c->vocab - 1, c->vocab - 1, &id);
    else
        need_int(r, key, 0, c->vocab - 1, &id);
    return (int32_t)id;
}

static void read_tokens(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const struct steno_yaml_node *list = steno_yaml_find(r->y, "token.list");
    long blank = 0;
    if (r->st)
        return;
    if (list && list->kind == STENO_YAML_LIST && list->n)
        token_list(r, list);
    else if (c->sentencepiece && steno_yaml_null(list))
        tokens_of_sentencepiece(r);
    else
        r->st = steno_fail(r->err, STENO_ERR_FORMAT,
                           "%s: token.list is missing or not a list, and there is no BPE model to "
                           "take it from",
                           c->path);
    c->sos = read_mark(r, "token.sos");
    c->eos = read_mark(r, "token.eos");
    get_int(r, "token.blank", 0, c->vocab - 1, 0, &blank);
    c->blank = (int32_t)blank;
    for (int32_t i = 0; c->sentencepiece && i < c->vocab && !r->st; i++)
        c->not_in_sentencepiece += steno_sentencepiece_find(c->sentencepiece, c->tokens[i]) < 0;
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
static void open_sentencepiece(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *given = NULL, *type = NULL;
    get_str(r, "tokenizer.token_type", "bpe", &type);
    get_str(r, "tokenizer.bpemodel", NULL, &given);
    if (r->st || strcmp(type, "bpe") != 0)
        return;
    c->bpe_model = steno_espnet_find_named(c, given);
    if (!c->bpe_model)
        c->bpe_model = steno_espnet_find_ending(c, ".model");
    if (c->bpe_model)
        r->st = steno_sentencepiece_open(&c->sentencepiece, c->bpe_model, r->err);
}

static void read_tokenizer(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL;
    if (r->st)
        return;
    get_str(r, "tokenizer.token_type", c->sentencepiece ? "bpe" : guess_type(c), &type);
    check_word(r, "tokenizer.token_type", type, "char, bpe, word, phn");
    c->token_type = keep(r, type);
}

/* ---- sections ------------------------------------------------------------------------------ */

static void read_stft(struct reader *r)
{
    static const char at[] = "encoder.frontend.stft.";
    struct steno_espnet_conf *c = r->c;
    const char *window = NULL;
    bool onesided = true, normalized = false;
    need_int(r, "encoder.frontend.stft.n_fft", 16, 65536, &c->n_fft);
    get_int(r, "encoder.frontend.stft.win_length", 1, c->n_fft, c->n_fft, &c->win_length);
    get_int(r, "encoder.frontend.stft.hop_length", 1, c->n_fft, c->n_fft / 4, &c->hop_length);
    get_str(r, "encoder.frontend.stft.window", "hann", &window);
    get_bool(r, "encoder.frontend.stft.center", true, &c->center);
    get_bool(r, "encoder.frontend.stft.onesided", true, &onesided);
    get_bool(r, "encoder.frontend.stft.normalized", false, &normalized);
    check_word(r, "encoder.frontend.stft.window", window, "hann");
    if (!r->st && c->win_length != c->n_fft && !c->center)
        r->st = steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                           "%s: %swin_length is %ld, n_fft %ld: a window shorter than the "
                           "transform is supported with center: true only",
                           c->path, at, c->win_length, c->n_fft);
    if (!r->st && !onesided)
        refuse(r, "encoder.frontend.stft.onesided", "false", "true");
    if (!r->st && normalized)
        refuse(r, "encoder.frontend.stft.normalized", "true", "false");
}

static void read_frontend(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL;
    long mel_fft = 0;
    get_str(r, "encoder.frontend.frontend_type", "default", &type);
    check_word(r, "encoder.frontend.frontend_type", type, "default");
    read_stft(r);
    get_int(r, "encoder.frontend.logmel.sr", 1000, 192000, 16000, &c->rate);
    get_int(r, "encoder.frontend.logmel.n_fft", 16, 65536, c->n_fft, &mel_fft);
    need_int(r, "encoder.frontend.logmel.n_mels", 1, 512, &c->bins);
    get_double(r, "encoder.frontend.logmel.fmin", 0, 96000, 0, &c->fmin);
    get_double(r, "encoder.frontend.logmel.fmax", 1, 96000, 0, &c->fmax);
    get_double(r, "encoder.frontend.logmel.log_base", 1.001, 1e6, 0, &c->log_base);
    get_bool(r, "encoder.frontend.logmel.htk", false, &c->htk);
    if (!r->st && c->htk)
        refuse(r, "encoder.frontend.logmel.htk", "true", "false");
    if (!r->st && mel_fft != c->n_fft)
        r->st = steno_fail(r->err, STENO_ERR_FORMAT,
                           "%s: encoder.frontend.logmel.n_fft is %ld, stft.n_fft is %ld", c->path,
                           mel_fft, c->n_fft);
}

static void read_normalize(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL;
    bool on = false;
    get_bool(r, "encoder.do_normalize", false, &on);
    if (r->st || !on)
        return;
    get_bool(r, "encoder.normalize.norm_means", true, &c->norm_means);
    get_double(r, "encoder.normalize.eps", 0, 1, 1e-20, &c->norm_eps);
    need_str(r, "encoder.normalize.type", &type);
    check_word(r, "encoder.normalize.type", type, "gmvn, utterance_mvn");
    if (r->st)
        return;
    c->norm = strcmp(type, "gmvn") == 0 ? STENO_ESPNET_GLOBAL_MVN : STENO_ESPNET_UTTERANCE_MVN;
    get_bool(r, "encoder.normalize.norm_vars", c->norm == STENO_ESPNET_GLOBAL_MVN, &c->norm_vars);
    if (c->norm == STENO_ESPNET_GLOBAL_MVN)
        c->stats = find_file(r, "encoder.normalize.stats_file", "feats_stats.npz");
}

/* Contextual blocks. */
static void read_blocks(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    need_int(r, "encoder.n_layers", 1, 1024, &c->encoder_layers);
    get_int(r, "encoder.subsample", 1, 64, 4, &c->subsample);
    get_int(r, "encoder.block_size", 2, 4096, 40, &c->block);
    get_int(r, "encoder.hop_size", 1, c->block, 16, &c->hop);
    get_int(r, "encoder.look_ahead", 0, c->block - c->hop, 16, &c->look_ahead);
    c->pe = find_file(r, "encoder.pe_path", "pe.npy");
}

static void read_encoder(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL;
    bool post = false;
    need_str(r, "encoder.enc_type", &type);
    get_bool(r, "encoder.is_vggrnn", false, &c->vggrnn);
    get_bool(r, "encoder.do_postencoder", false, &post);
    read_frontend(r);
    read_normalize(r);
    find_network(r, "encoder", "encoder", &c->encoder);
    if (r->st)
        return;
    if (post)
        refuse(r, "encoder.do_postencoder", "true", "false");
    /* the exporter 0.2.1 writes the quantized file of the prediction network as the encoder's */
    if (c->encoder.quantized && strstr(steno_espnet_base_name(c->encoder.quantized), "transducer"))
        c->encoder.quantized = steno_espnet_find_role(c, "quantize", "encoder");
    /* only streaming encoders have a type of their own; all others are "default" for the runtime */
    c->streaming = strcmp(type, "ContextualXformerEncoder") == 0;
    if (c->streaming)
        read_blocks(r);
}

/* The one entry of decoder.predecoder. */
static void read_predecoder(struct reader *r, const struct steno_yaml_node *n)
{
    struct steno_espnet_conf *c = r->c;
    if (n->kind != STENO_YAML_MAP) {
        r->st = steno_fail(r->err, STENO_ERR_FORMAT,
                           "%s: line %zu: decoder.predecoder holds no keys", c->path, n->line);
        return;
    }
    for (const struct steno_yaml_node *k = n->first; k; k = k->next) {
        if (k->kind != STENO_YAML_SCALAR)
            continue;
        if (strcmp(k->key, "att_type") == 0)
            c->att_type[0] = keep(r, k->text);
        else if (strcmp(k->key, "model_path") == 0)
            c->predecoder[0].full = steno_espnet_find_named(c, k->text);
        else if (strcmp(k->key, "quantized_model_path") == 0)
            c->predecoder[0].quantized = steno_espnet_find_named(c, k->text);
    }
    c->n_predecoders = 1;
    if (!r->st && !c->att_type[0])
        r->st = steno_yaml_missing(r->y, "decoder.predecoder[0].att_type", r->err);
    if (r->st || strcmp(c->att_type[0], "noatt") == 0)
        return;
    if (!c->predecoder[0].full)
        c->predecoder[0].full = steno_espnet_find_role(c, "full", "predecoder");
    if (!c->predecoder[0].quantized)
        c->predecoder[0].quantized = steno_espnet_find_role(c, "quantize", "predecoder");
    if (strcmp(c->att_type[0], "location2d") == 0)
        refuse(r, "decoder.predecoder[0].att_type", c->att_type[0],
               "noatt, dot, add, location, coverage and the like");
}

static void read_rnn_decoder(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const struct steno_yaml_node *list = steno_yaml_find(r->y, "decoder.predecoder");
    const char *type = NULL;
    need_int(r, "decoder.dlayers", 1, 64, &c->rnn_layers);
    need_int(r, "decoder.dunits", 1, 65536, &c->rnn_units);
    need_int(r, "decoder.decoder_length", 1, 64, &c->rnn_length);
    get_str(r, "decoder.rnn_type", "lstm", &type);
    /* 0.2.1 cannot export a GRU: it names outputs that it lacks. `steno convert` writes it with the
     * inputs and outputs of an LSTM, of which c stays as it is. */
    check_word(r, "decoder.rnn_type", type, "lstm, gru");
    if (r->st)
        return;
    if (!list || list->kind != STENO_YAML_LIST)
        r->st =
            steno_fail(r->err, STENO_ERR_FORMAT, "%s: decoder.predecoder is not a list", c->path);
    else if (list->n != 1)
        r->st = steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                           "%s: decoder.predecoder has %zu entries; one encoder is supported",
                           c->path, list->n);
    else
        read_predecoder(r, list->first);
}

static void read_decoder(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL, *rnn = NULL;
    bool transducer;
    need_str(r, "decoder.dec_type", &type);
    transducer = !r->st && strcmp(type, "TransducerDecoder") == 0;
    find_network(r, "decoder", transducer ? "transducer" : "decoder", &c->decoder);
    if (!r->st && strcmp(type, "RNNDecoder") == 0) {
        c->decoder_kind = STENO_ESPNET_RNN;
        read_rnn_decoder(r);
        return;
    }
    need_int(r, "decoder.n_layers", 1, 1024, &c->decoder_layers);
    need_int(r, "decoder.odim", 1, 65536, &c->decoder_dim);
    check_word(r, "decoder.dec_type", type, "XformerDecoder, RNNDecoder, TransducerDecoder");
    c->decoder_kind = transducer ? STENO_ESPNET_TRANSDUCER : STENO_ESPNET_XFORMER;
    if (!transducer)
        return;
    get_str(r, "decoder.dtype", "lstm", &rnn);
    c->rnn_lstm = rnn && strcmp(rnn, "lstm") == 0;
    find_network(r, "joint_network", "joint", &c->joint);
}

static void read_lm(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *type = NULL, *rnn = NULL;
    bool on = false;
    get_bool(r, "lm.use_lm", false, &on);
    if (r->st || !on)
        return;
    need_str(r, "lm.lm_type", &type);
    find_network(r, "lm", "lm", &c->lm);
    need_int(r, "lm.nlayers", 1, 1024, &c->lm_layers);
    check_word(r, "lm.lm_type", type, "TransformerLM, SequentialRNNLM");
    if (r->st)
        return;
    c->lm_kind = strcmp(type, "TransformerLM") == 0 ? STENO_ESPNET_LM_XFORMER : STENO_ESPNET_LM_RNN;
    if (c->lm_kind == STENO_ESPNET_LM_RNN)
        get_str(r, "lm.rnn_type", "LSTM", &rnn);
    c->lm_lstm = rnn && strcmp(rnn, "LSTM") == 0;
    need_int(r, rnn ? "lm.nhid" : "lm.odim", 1, 65536, &c->lm_dim);
}

/* espnet_onnx writes use_ngram and the weight, but no file. The file is the one that model_path
 * names, or the only *.arpa of the directory. Without a file it is an error: to leave out an n-gram
 * model with a weight would change every score. */
static void read_ngram(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *given = NULL, *scorer = NULL;
    bool on = false;
    get_bool(r, "ngram.use_ngram", false, &on);
    get_double(r, "weights.ngram", 0, 100, 0, &c->weight_ngram);
    get_str(r, "ngram.model_path", NULL, &given);
    get_str(r, "ngram.scorer", "full", &scorer);
    if (r->st || !on || c->weight_ngram == 0)
        return;
    check_word(r, "ngram.scorer", scorer, "full, part");
    c->ngram_partial = strcmp(scorer, "part") == 0;
    c->ngram = steno_espnet_find_named(c, given);
    if (!c->ngram)
        c->ngram = steno_espnet_find_ending(c, ".arpa");
    if (!c->ngram)
        c->ngram = steno_espnet_find_ending(c, "gram.bin"); /* 4gram.bin of ESPnet's recipes */
    if (!r->st && !c->ngram)
        r->st = steno_fail(r->err, STENO_ERR_IO,
                           "%s: ngram.use_ngram is true and weights.ngram %g, but there is no "
                           "model: espnet_onnx exports none; put the ARPA file or KenLM binary "
                           "beside the configuration (or set weights.ngram to 0)",
                           c->path, c->weight_ngram);
}

static void read_search(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *key = NULL;
    get_int(r, "beam_search.beam_size", 1, 1000, 10, &c->beam);
    get_double(r, "beam_search.pre_beam_ratio", 0, 1000, 1.5, &c->pre_beam_ratio);
    get_str(r, "beam_search.pre_beam_score_key", NULL, &key);
    get_double(r, "beam_search.maxlenratio", -1e6, 1e6, 0, &c->max_len_ratio);
    get_double(r, "beam_search.minlenratio", -1e6, 1e6, 0, &c->min_len_ratio);
    get_bool(r, "beam_search.disable_repetition_detection", false, &c->no_repetition);
    get_double(r, "weights.ctc", 0, 1, 0.3, &c->weight_ctc);
    get_double(r, "weights.decoder", 0, 1, 1 - c->weight_ctc, &c->weight_decoder);
    get_double(r, "weights.length_bonus", -100, 100, 0, &c->weight_length);
    get_double(r, "weights.lm", 0, 100, 0, &c->weight_lm);
    read_ngram(r);
    c->pre_beam = key != NULL;
    c->pre_beam_full = key && strcmp(key, "full") == 0;
    if (key && !c->pre_beam_full && strcmp(key, "decoder") != 0 && !r->st)
        refuse(r, "beam_search.pre_beam_score_key", key, "full, decoder, null");
}

static void read_transducer(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    const char *search = NULL;
    get_str(r, "beam_search.search_type", "default", &search);
    check_word(r, "beam_search.search_type", search, "greedy, default, tsd, alsd, nsc, maes");
    c->search = keep(r, search);
    get_bool(r, "beam_search.score_norm", true, &c->score_norm);
    get_int(r, "beam_search.search_args.max_sym_exp", 1, 100, 2, &c->max_sym_exp);
    get_double(r, "beam_search.search_args.u_max", 1, 1e6, 50, &c->u_max);
    get_int(r, "beam_search.search_args.nstep", 1, 100, 1, &c->n_step);
    get_int(r, "beam_search.search_args.prefix_alpha", 0, 100, 1, &c->prefix_alpha);
    get_double(r, "beam_search.search_args.expansion_gamma", 0, 100, 2.3, &c->expansion_gamma);
    get_int(r, "beam_search.search_args.expansion_beta", 0, 100, 2, &c->expansion_beta);
}

static steno_status read_all(struct reader *r)
{
    struct steno_espnet_conf *c = r->c;
    bool transducer = false;
    if (steno_yaml_root(r->y)->kind != STENO_YAML_MAP)
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: not a mapping of keys", c->path);
    if (!steno_yaml_find(r->y, "encoder") || !steno_yaml_find(r->y, "token"))
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: no %s section: not a speech recognition model of espnet_onnx",
                          c->path, steno_yaml_find(r->y, "encoder") ? "token" : "encoder");
    open_sentencepiece(r);
    read_tokens(r);
    read_tokenizer(r);
    read_encoder(r);
    get_bool(r, "transducer.use_transducer_decoder", false, &transducer);
    if (transducer || steno_yaml_find(r->y, "decoder"))
        read_decoder(r);
    if (!transducer)
        find_network(r, "ctc", "ctc", &c->ctc);
    read_lm(r);
    read_search(r);
    if (transducer)
        read_transducer(r);
    if (!r->st && transducer != (c->decoder_kind == STENO_ESPNET_TRANSDUCER))
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: transducer.use_transducer_decoder and decoder.dec_type disagree",
                          c->path);
    return r->st;
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
