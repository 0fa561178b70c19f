#include "base/list.h"
#include "tools/convert/sources.h"

#include "base/buf.h"
#include "tools/convert/espnet_job.h"
#include "tools/convert/npz.h"
#include "tools/convert/output.h"
#include "formats/npy.h"
#include "formats/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WEIGHTS ((size_t)16 << 30)

/* ---- the configuration --------------------------------------------------------------------- */

/* "16000", "16k". */
static steno_status read_rate(struct steno_espnet_job *j)
{
    const char *v = NULL;
    char *end;
    steno_status st = steno_yaml_str(j->y, "frontend_conf.fs", &v, j->err);
    j->fs = 16000;
    if (st || !v)
        return st;
    j->fs = strtol(v, &end, 10);
    if (!strcmp(end, "k"))
        j->fs *= 1000;
    else if (*end)
        j->fs = 0;
    return j->fs >= 1000 && j->fs <= 192000
               ? STENO_OK
               : steno_conf_unsupported(j->y, "frontend_conf.fs", v, "16000, 16k, ...", j->err);
}

static steno_status read_frontend(struct steno_espnet_job *j)
{
    static const char keys[] =
        "fs, n_fft, win_length, hop_length, window, center, normalized, onesided, n_mels, fmin, "
        "fmax, htk, frontend_conf, apply_stft";
    static const char norm_keys[] = "stats_file, norm_means, norm_vars, eps";
    static const char norms[] = "global_mvn, utterance_mvn";
    const steno_yaml *y = j->y;
    const char *norm = NULL;
    steno_status st = steno_conf_only(y, "frontend", "default", j->err);
    j->n_fft = 512;
    j->hop = 128;
    j->mels = 80;
    READ(steno_conf_keys(y, "frontend_conf", keys, j->err));
    READ(read_rate(j));
    READ(steno_yaml_int(y, "frontend_conf.n_fft", 16, 65536, &j->n_fft, j->err));
    j->win = j->n_fft;
    READ(steno_yaml_int(y, "frontend_conf.win_length", 1, 65536, &j->win, j->err));
    READ(steno_yaml_int(y, "frontend_conf.hop_length", 1, 65536, &j->hop, j->err));
    READ(steno_yaml_int(y, "frontend_conf.n_mels", 1, 1024, &j->mels, j->err));
    j->fmax = (double)j->fs / 2;
    READ(steno_yaml_double(y, "frontend_conf.fmin", 0, 96000, &j->fmin, j->err));
    READ(steno_yaml_double(y, "frontend_conf.fmax", 0, 96000, &j->fmax, j->err));
    READ(steno_conf_only(y, "frontend_conf.window", "hann", j->err));
    READ(steno_conf_only(y, "frontend_conf.center", "true", j->err));
    READ(steno_conf_only(y, "frontend_conf.normalized", "false", j->err));
    READ(steno_conf_only(y, "frontend_conf.htk", "false", j->err));
    READ(steno_conf_only(y, "frontend_conf.onesided", "true", j->err));
    READ(steno_conf_only(y, "frontend_conf.apply_stft", "true", j->err));
    READ(steno_conf_only(y, "frontend_conf.frontend_conf.use_wpe", "false", j->err));
    READ(steno_conf_only(y, "input_size", "null", j->err));
    READ(steno_conf_only(y, "preencoder", "", j->err));
    READ(steno_conf_only(y, "postencoder", "", j->err));
    READ(steno_yaml_str(y, "normalize", &norm, j->err));
    if (!st && norm && !steno_list_holds(norms, norm))
        st =
            steno_conf_unsupported(y, "normalize", norm, "global_mvn, utterance_mvn, null", j->err);
    j->gmvn = norm && !strcmp(norm, "global_mvn");
    j->umvn = norm && !strcmp(norm, "utterance_mvn");
    j->norm_means = true;
    j->norm_vars = j->gmvn;
    READ(steno_conf_keys(y, "normalize_conf", norm_keys, j->err));
    READ(steno_yaml_bool(y, "normalize_conf.norm_means", &j->norm_means, j->err));
    READ(steno_yaml_bool(y, "normalize_conf.norm_vars", &j->norm_vars, j->err));
    return st;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static steno_status token_of_list(struct steno_espnet_job *j)
{
    const struct steno_yaml_node *list = steno_yaml_find(j->y, "token_list");
    j->token = calloc(list->n + 1, sizeof *j->token);
    if (!j->token)
        return steno_fail(j->err, STENO_ERR_NOMEM, "out of memory");
    for (const struct steno_yaml_node *n = list->first; n; n = n->next) {
        if (n->kind != STENO_YAML_SCALAR)
            return steno_fail(j->err, STENO_ERR_FORMAT, "%s: line %zu: token_list: no text",
                              steno_yaml_name(j->y), n->line);
        j->token[j->a.vocab++] = n->text;
    }
    return STENO_OK;
}

/* A token a line, without the white space behind it. */
static steno_status tokens_of_lines(struct steno_espnet_job *j, const struct steno_blob *b)
{
    size_t n = 1;
    char *p = j->token_text = malloc(b->n + 1), *end = p + b->n;
    for (size_t i = 0; i < b->n; i++)
        n += ((const char *)b->p)[i] == '\n';
    j->token = calloc(n + 1, sizeof *j->token);
    if (!p || !j->token)
        return steno_fail(j->err, STENO_ERR_NOMEM, "out of memory");
    memcpy(p, b->p, b->n);
    *end = '\0';
    while (p < end) {
        char *line = p, *last = memchr(p, '\n', (size_t)(end - p));
        last = last ? last : end;
        p = last + 1;
        while (last > line && strchr(" \t\r\f\v", last[-1]))
            last--;
        *last = '\0';
        j->token[j->a.vocab++] = line;
    }
    return STENO_OK;
}

static steno_status tokens_of_file(struct steno_espnet_job *j, const char *name)
{
    struct steno_blob blob;
    steno_status st = steno_bundle_read(j->b, name, STENO_ESPNET_MAX_YAML, &blob, j->err);
    if (st)
        return st;
    st = memchr(blob.p, '\0', blob.n)
             ? steno_fail(j->err, STENO_ERR_FORMAT, "%s: a zero byte: no list of tokens", name)
             : tokens_of_lines(j, &blob);
    steno_blob_close(&blob);
    return st;
}

static steno_status read_espnet_tokens(struct steno_espnet_job *j)
{
    const struct steno_yaml_node *list = steno_yaml_find(j->y, "token_list");
    static const char types[] = "char, bpe, word, phn";
    steno_status st = STENO_OK;
    if (list && list->kind == STENO_YAML_LIST)
        st = token_of_list(j);
    else if (list && list->kind == STENO_YAML_SCALAR && !steno_yaml_null(list))
        st = tokens_of_file(j, list->text);
    if (!st && (j->a.vocab < 2 || j->a.vocab > 1000000))
        st = steno_fail(j->err, STENO_ERR_FORMAT,
                        "%s: token_list has %lld tokens, expected 2 to 1000000, as a list or as "
                        "the name of a file",
                        steno_yaml_name(j->y), (long long)j->a.vocab);
    j->token_type = "bpe";
    READ(steno_yaml_str(j->y, "token_type", &j->token_type, j->err));
    if (!st && !steno_list_holds(types, j->token_type))
        st = steno_conf_unsupported(j->y, "token_type", j->token_type, types, j->err);
    return st;
}

/* The number of the token that model_conf names by `key`. */
static int64_t token_id(const struct steno_espnet_job *j, const char *key, const char *token,
                        int64_t otherwise)
{
    const struct steno_yaml_node *n = steno_yaml_find(j->y, key);
    if (n && n->kind == STENO_YAML_SCALAR)
        token = n->text;
    for (int64_t i = 0; i < j->a.vocab; i++)
        if (!strcmp(j->token[i], token))
            return i;
    return otherwise;
}

/* ---- which files --------------------------------------------------------------------------- */

static steno_status copy_name(struct steno_espnet_job *j, const steno_yaml *y, const char *path,
                              char *out)
{
    const char *v = NULL;
    steno_status st = steno_yaml_str(y, path, &v, j->err);
    if (!st && v && strlen(v) >= STENO_ESPNET_MAX_NAME)
        return steno_fail(j->err, STENO_ERR_LIMIT, "meta.yaml: %s is too long", path);
    if (!st && v)
        snprintf(out, STENO_ESPNET_MAX_NAME, "%s", v);
    return st;
}

static steno_status find_files(struct steno_espnet_job *j)
{
    steno_yaml *meta = NULL;
    steno_status st = STENO_OK;
    if (!steno_bundle_has(j->b, "meta.yaml")) {
        snprintf(j->asr_conf, STENO_ESPNET_MAX_NAME, "config.yaml");
        return steno_bundle_only(j->b, ".pth", j->asr_file, STENO_ESPNET_MAX_NAME, j->err);
    }
    st = steno_conf_open(&meta, j->b, "meta.yaml", STENO_ESPNET_MAX_YAML, j->err);
    READ(copy_name(j, meta, "files.asr_model_file", j->asr_file));
    READ(copy_name(j, meta, "yaml_files.asr_train_config", j->asr_conf));
    READ(copy_name(j, meta, "files.lm_file", j->lm_file));
    READ(copy_name(j, meta, "yaml_files.lm_train_config", j->lm_conf));
    if (!st && (!*j->asr_file || !*j->asr_conf))
        st = steno_fail(j->err, STENO_ERR_FORMAT,
                        "%s: meta.yaml: files.asr_model_file or yaml_files.asr_train_config is "
                        "missing: no speech recognition of ESPnet2 (other tasks, such as s2t, st, "
                        "tts and enh, are not converted)",
                        j->b->path);
    j->has_lm = *j->lm_file && *j->lm_conf;
    steno_yaml_close(meta);
    return st;
}

static bool probe(const struct steno_bundle *b)
{
    char name[STENO_ESPNET_MAX_NAME];
    return steno_bundle_has(b, "meta.yaml") ||
           (steno_bundle_has(b, "config.yaml") &&
            steno_bundle_only(b, ".pth", name, sizeof name, NULL) != STENO_ERR_IO);
}

/* ---- what is written ----------------------------------------------------------------------- */

static steno_status write_bpe(struct steno_espnet_job *j)
{
    const char *name = NULL;
    struct steno_blob blob;
    steno_status st = steno_yaml_str(j->y, "bpemodel", &name, j->err);
    if (st || !name || strcmp(j->token_type, "bpe") || !steno_bundle_has(j->b, name))
        return st;
    st = steno_bundle_read(j->b, name, STENO_ESPNET_MAX_YAML, &blob, j->err);
    if (!st)
        st = steno_output_write(j->out, "bpe.model", blob.p, blob.n, j->err);
    steno_blob_close(&blob);
    j->bpe = !st;
    return st;
}

#define ADD(...) READ(steno_buf_printf(b, __VA_ARGS__))

static steno_status add_token(struct steno_buf *b, const char *token)
{
    steno_status st = steno_buf_puts(b, "  - '");
    for (const char *p = token; *p && !st; p++)
        st = *p == '\'' ? steno_buf_puts(b, "''") : steno_buf_add(b, p, 1);
    return st ? st : steno_buf_puts(b, "'\n");
}

static steno_status add_encoder(struct steno_espnet_job *j, struct steno_buf *b)
{
    const struct steno_espnet_encoder *e = &j->a.e;
    steno_status st = STENO_OK;
    if (!steno_espnet_streams(e)) {
        ADD("encoder:\n  enc_type: DefaultEncoder\n  model_path: full/default_encoder.onnx\n"
            "  is_vggrnn: false\n");
        return st;
    }
    ADD("encoder:\n  enc_type: ContextualXformerEncoder\n"
        "  model_path: full/xformer_encoder.onnx\n  pe_path: pe.npy\n  n_layers: %lld\n"
        "  subsample: %lld\n  block_size: %lld\n  hop_size: %lld\n  look_ahead: %lld\n",
        (long long)e->blocks, (long long)e->subsample, (long long)e->block, (long long)e->hop,
        (long long)e->look_ahead);
    return st;
}

static steno_status add_config(struct steno_espnet_job *j, struct steno_buf *b)
{
    const struct steno_espnet_arch *a = &j->a;
    const int64_t last = a->vocab - 1;
    steno_status st = steno_espnet_add_search(j, b);
    ADD("token:\n  sos: %lld\n  eos: %lld\n  blank: %lld\n  list:\n",
        (long long)token_id(j, "model_conf.sym_sos", "<sos/eos>", last),
        (long long)token_id(j, "model_conf.sym_eos", "<sos/eos>", last),
        (long long)token_id(j, "model_conf.sym_blank", "<blank>", 0));
    for (int64_t i = 0; i < a->vocab && !st; i++)
        st = add_token(b, j->token[i]);
    ADD("tokenizer:\n  token_type: %s\n", j->token_type);
    if (j->bpe)
        ADD("  bpemodel: bpe.model\n");
    READ(add_encoder(j, b));
    ADD("  frontend:\n    frontend_type: default\n    stft:\n"
        "      n_fft: %ld\n      win_length: %ld\n      hop_length: %ld\n      window: hann\n"
        "      center: true\n      onesided: true\n      normalized: false\n    logmel:\n"
        "      sr: %ld\n      n_fft: %ld\n      n_mels: %ld\n      fmin: %g\n      fmax: %g\n"
        "      htk: false\n      log_base: null\n",
        j->n_fft, j->win, j->hop, j->fs, j->n_fft, j->mels, j->fmin, j->fmax);
    ADD("  do_normalize: %s\n  do_postencoder: false\n", j->gmvn || j->umvn ? "true" : "false");
    if (j->gmvn)
        ADD("  normalize:\n    type: gmvn\n    stats_file: feats_stats.npz\n");
    if (j->umvn)
        ADD("  normalize:\n    type: utterance_mvn\n");
    if (j->gmvn || j->umvn)
        ADD("    norm_means: %s\n    norm_vars: %s\n    eps: 1.0e-20\n",
            j->norm_means ? "true" : "false", j->norm_vars ? "true" : "false");
    READ(steno_espnet_add_decoder(j, b));
    if (j->has_ctc)
        ADD("ctc:\n  model_path: full/ctc.onnx\n");
    READ(steno_espnet_add_lm(j, b));
    return st;
}

static steno_status write_config(struct steno_espnet_job *j)
{
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, STENO_ESPNET_MAX_YAML);
    st = add_config(j, &b);
    st = st ? steno_fail(j->err, st, "config.yaml: too large")
            : steno_output_write(j->out, "config.yaml", b.data, b.len, j->err);
    steno_buf_free(&b);
    return st;
}

static steno_status open_weights(struct steno_espnet_job *j, const char *name,
                                 struct steno_blob *blob, struct steno_torch **t)
{
    steno_status st = steno_bundle_read(j->b, name, MAX_WEIGHTS, blob, j->err);
    return st ? st : steno_torch_parse(t, blob->p, blob->n, name, MAX_WEIGHTS, j->err);
}

/* Weights may lie below the name that DeepSpeed or DistributedDataParallel ("module.") or a
 * training checkpoint ("model.") gives them. */
static void find_root(struct steno_espnet_job *j, const struct steno_torch *t, const char *part)
{
    static const char *const roots[] = {"", "module.", "model.", "model.module."};
    for (size_t r = 0; r < sizeof roots / sizeof *roots; r++) {
        char start[64];
        const size_t n = (size_t)snprintf(start, sizeof start, "%s%s.", roots[r], part);
        for (size_t i = 0; i < steno_torch_count(t); i++)
            if (!strncmp(steno_torch_get(t, i)->name, start, n)) {
                j->root = roots[r];
                return;
            }
    }
    j->root = "";
}

static const struct steno_torch_tensor *find_weight(const struct steno_espnet_job *j,
                                                    const struct steno_torch *t, const char *name)
{
    char full[120];
    snprintf(full, sizeof full, "%s%s", j->root, name);
    return steno_torch_find(t, full);
}

typedef steno_status writer(const struct steno_espnet_arch *a, const struct steno_make_weights *w,
                            const char *path, steno_err *err);

static steno_status write_network(struct steno_espnet_job *j, const struct steno_torch *t,
                                  const struct steno_blob *blob, const char *file, const char *name,
                                  writer *write)
{
    const struct steno_make_weights w = {
        .file = file, .torch = t, .map = j->b->archive ? &j->b->map : &blob->map, .root = j->root};
    char path[STENO_OUTPUT_PATH];
    snprintf(path, sizeof path, "%s/full/%s.onnx", j->out, name);
    return write(&j->a, &w, path, j->err);
}

static steno_status write_decoder(struct steno_espnet_job *j, const struct steno_torch *t,
                                  const struct steno_blob *blob)
{
    static const struct {
        enum steno_espnet_decoder decoder;
        const char *name;
        writer *write;
    } networks[] = {
        {STENO_DECODER_XFORMER, "xformer_decoder", steno_espnet_write_decoder},
        {STENO_DECODER_RNN, "rnn_decoder", steno_espnet_write_rnn_decoder},
        {STENO_DECODER_RNN, "predecoder_0", steno_espnet_write_predecoder},
        {STENO_DECODER_TRANSDUCER, "transducer_encoder", steno_espnet_write_prediction},
        {STENO_DECODER_TRANSDUCER, "joint_network", steno_espnet_write_joint},
    };
    steno_status st = STENO_OK;
    for (size_t i = 0; i < sizeof networks / sizeof *networks && !st; i++) {
        const bool not_needed = networks[i].write == steno_espnet_write_predecoder &&
                                j->a.attention.kind == STENO_ATTENTION_NONE;
        if (networks[i].decoder == j->a.decoder && !not_needed)
            st = write_network(j, t, blob, j->asr_file, networks[i].name, networks[i].write);
    }
    return st;
}

/* The statistics that the model computes with are in the checkpoint: mean and deviation. */
static steno_status write_stats(struct steno_espnet_job *j, const struct steno_torch *t)
{
    const struct steno_torch_tensor *mean = find_weight(j, t, "normalize.mean"),
                                    *std = find_weight(j, t, "normalize.std");
    const size_t n = (size_t)j->mels;
    double *sum = NULL, *square = NULL;
    const double one = 1;
    float m, s;
    char path[STENO_OUTPUT_PATH];
    steno_status st;
    if (!mean || !std || mean->count != n || std->count != n)
        return steno_fail(j->err, STENO_ERR_FORMAT,
                          "%s: 'normalize.mean' and 'normalize.std' [%zu] are missing: normalize: "
                          "global_mvn and frontend_conf.n_mels ask for them",
                          j->asr_file, n);
    sum = malloc(n * sizeof *sum);
    square = malloc(n * sizeof *square);
    for (size_t i = 0; sum && square && i < n; i++) {
        steno_torch_read(mean, i, 1, &m);
        steno_torch_read(std, i, 1, &s);
        sum[i] = (double)m;
        square[i] = (double)s * (double)s + (double)m * (double)m;
    }
    snprintf(path, sizeof path, "%s/feats_stats.npz", j->out);
    st = sum && square
             ? steno_npz_write(path,
                               (struct steno_npz_array[]){
                                   {"count", &one, 0}, {"sum", sum, n}, {"sum_square", square, n}},
                               3, j->err)
             : steno_fail(j->err, STENO_ERR_NOMEM, "out of memory");
    free(sum);
    free(square);
    return st;
}

/* The positions that a runtime gives to contextual blocks. */
static steno_status write_positions(struct steno_espnet_job *j)
{
    enum { ROWS = 5000 }; /* as ESPnet */
    const int64_t d = j->a.d;
    float *x = malloc((size_t)(ROWS * d) * sizeof *x);
    struct steno_npy array;
    char path[STENO_OUTPUT_PATH];
    steno_status st;
    if (!x)
        return steno_fail(j->err, STENO_ERR_NOMEM, "out of memory");
    steno_make_sinusoid_table(x, ROWS, d, 0, 1);
    snprintf(path, sizeof path, "%s/pe.npy", j->out);
    array = (struct steno_npy){.kind = 'f',
                               .item = sizeof *x,
                               .rank = 3,
                               .dim = {1, ROWS, d},
                               .bytes = (size_t)(ROWS * d) * sizeof *x,
                               .data = x};
    st = steno_npy_write(path, &array, j->err);
    free(x);
    return st;
}

static steno_status write_asr(struct steno_espnet_job *j)
{
    const char *encoder = steno_espnet_streams(&j->a.e) ? "xformer_encoder" : "default_encoder";
    struct steno_blob blob = {0};
    struct steno_torch *t = NULL;
    steno_status st = open_weights(j, j->asr_file, &blob, &t);
    if (!st)
        find_root(j, t, "encoder");
    j->has_ctc = !st && find_weight(j, t, "ctc.ctc_lo.weight");
    if (!st && !j->has_ctc && !j->a.decoder)
        st = steno_fail(j->err, STENO_ERR_FORMAT,
                        "%s: neither 'ctc.ctc_lo.weight' nor a decoder: no speech recognition",
                        j->asr_file);
    READ(write_network(j, t, &blob, j->asr_file, encoder, steno_espnet_write_encoder));
    if (!st && steno_espnet_streams(&j->a.e))
        st = write_positions(j);
    if (!st && j->has_ctc)
        st = write_network(j, t, &blob, j->asr_file, "ctc", steno_espnet_write_ctc);
    READ(write_decoder(j, t, &blob));
    if (!st && j->gmvn)
        st = write_stats(j, t);
    steno_torch_close(t);
    steno_blob_close(&blob);
    return st;
}

static steno_status write_lm(struct steno_espnet_job *j)
{
    struct steno_blob blob = {0};
    struct steno_torch *t = NULL;
    steno_status st;
    if (!j->has_lm)
        return STENO_OK;
    st = open_weights(j, j->lm_file, &blob, &t);
    if (!st)
        find_root(j, t, "lm");
    if (j->a.lm_rnn.layers)
        READ(write_network(j, t, &blob, j->lm_file, "seq_rnnlm", steno_espnet_write_rnn_lm));
    else
        READ(write_network(j, t, &blob, j->lm_file, "transformer_lm", steno_espnet_write_lm));
    steno_torch_close(t);
    steno_blob_close(&blob);
    return st;
}

static steno_status convert_archive(struct steno_espnet_job *j)
{
    char full[4200];
    steno_status st = find_files(j);
    READ(steno_conf_open(&j->y, j->b, j->asr_conf, STENO_ESPNET_MAX_YAML, j->err));
    READ(steno_conf_only(j->y, "model", "espnet", j->err));
    READ(steno_conf_only(j->y, "use_adapter", "false", j->err));
    READ(read_espnet_tokens(j));
    READ(read_frontend(j));
    READ(steno_espnet_read_encoder(j));
    READ(steno_espnet_read_decoder(j));
    READ(steno_espnet_read_lm(j));
    if (st)
        return st;
    if (strlen(j->out) > 4000)
        return steno_fail(j->err, STENO_ERR_INVAL, "a path of %zu bytes", strlen(j->out));
    snprintf(full, sizeof full, "%s/full", j->out);
    st = steno_output_make(j->out, j->err);
    READ(steno_output_make(full, j->err));
    READ(write_asr(j));
    READ(write_lm(j));
    READ(write_bpe(j));
    READ(write_config(j));
    return st;
}

static steno_status convert(const struct steno_bundle *b, const char *out,
                            const struct steno_convert_options *o, steno_err *err)
{
    struct steno_espnet_job j = {.b = b, .out = out, .err = err};
    steno_status st = convert_archive(&j);
    (void)o;
    free(j.token);
    free(j.token_text);
    steno_yaml_close(j.y);
    steno_yaml_close(j.lm);
    return st;
}

const struct steno_convert_source steno_source_espnet = {
    "ESPnet2", probe, NULL, convert,
    "ESPnet2 models (a ZIP archive or directory with meta.yaml, or with config.yaml and one "
    "*.pth)"};
