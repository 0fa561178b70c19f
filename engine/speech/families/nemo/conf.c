#include "speech/families/nemo/conf.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "speech/families/common/metadata.h"
#include "speech/families/common/network_file.h"
#include "base/path.h"
#include "formats/json.h"

#define CONFIG "config.json"
#define MAX_CONFIG ((size_t)1 << 20)
#define DEFAULT_SUBSAMPLING 8

/* ---- files ----------------------------------------------------------------------------------- */

/* The network that has the metadata: the encoder, or the only one. *out NULL: there is none. */
static steno_status find_first(char **out, const char *dir, bool int8, steno_err *err)
{
    static const char *const stems[] = {"encoder", "model", "ctc"};
    steno_status st = STENO_OK;
    *out = NULL;
    for (size_t i = 0; i < sizeof stems / sizeof *stems && !*out && !st; i++)
        st = steno_network_file_find(out, dir, stems[i], int8, err);
    return st;
}

static bool is_nemo(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    return (type && strncmp(type, "EncDec", 6) == 0) ||
           steno_onnx_head_has_input(h, "audio_signal");
}

steno_onnx_head *steno_nemo_conf_head(const char *dir)
{
    steno_onnx_head *h = NULL;
    char *first = NULL;
    if (!find_first(&first, dir, false, NULL) && first)
        (void)!steno_network_file_head(&h, dir, first, NULL);
    free(first);
    return h;
}

bool steno_nemo_conf_probe(const char *dir, bool *streaming)
{
    steno_onnx_head *h = NULL;
    bool nemo;
    if (steno_path_readable(dir, "tokens.txt") || steno_path_readable(dir, "vocab.txt"))
        h = steno_nemo_conf_head(dir);
    nemo = h && is_nemo(h);
    if (nemo)
        *streaming = steno_onnx_head_has_input(h, "cache_last_channel");
    steno_onnx_head_close(h);
    return nemo;
}

/* ---- config.json of onnx-asr ----------------------------------------------------------------- */

static steno_status read_integer(const struct steno_json_node *root, const char *key, int64_t max,
                                 int64_t *out, const char *name, steno_err *err)
{
    const struct steno_json_node *n = steno_json_get(root, key);
    if (n && !steno_json_int(n, 1, max, out))
        return steno_fail(err, STENO_ERR_FORMAT, "%s:%zu: %s is '%s', expected 1 to %lld", name,
                          n->line, key, n->text ? n->text : "", (long long)max);
    return STENO_OK;
}

static steno_status read_type(struct steno_nemo_conf *c, const struct steno_json_node *root,
                              const char *name, steno_err *err)
{
    static const struct {
        const char *type;
        enum steno_nemo_kind kind;
    } types[] = {{"nemo-conformer-ctc", STENO_NEMO_CTC},
                 {"nemo-conformer-rnnt", STENO_NEMO_TRANSDUCER},
                 {"nemo-conformer-tdt", STENO_NEMO_TRANSDUCER},
                 {"nemo-conformer-aed", STENO_NEMO_CANARY}};
    const struct steno_json_node *n = steno_json_get(root, "model_type");
    if (!n || n->kind != STENO_JSON_STRING)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: model_type is missing", name);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(n->text, types[i].type) == 0) {
            c->kind = types[i].kind;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_UNSUPPORTED,
                      "%s:%zu: model_type is '%.60s', expected nemo-conformer-ctc, "
                      "nemo-conformer-rnnt, nemo-conformer-tdt or nemo-conformer-aed",
                      name, n->line, n->text);
}

steno_status steno_nemo_conf_parse(struct steno_nemo_conf *c, const void *bytes, size_t n,
                                   const char *name, steno_err *err)
{
    const struct steno_json_node *root;
    steno_json *j;
    steno_status st = steno_json_parse(&j, bytes, n, name, err);
    if (st)
        return st;
    root = steno_json_root(j);
    st = read_type(c, root, name, err);
    if (!st)
        st = read_integer(root, "features_size", 512, &c->bins, name, err);
    if (!st)
        st = read_integer(root, "subsampling_factor", 64, &c->subsampling, name, err);
    if (!st)
        st = read_integer(root, "max_tokens_per_step", 1000, &c->max_tokens, name, err);
    steno_json_close(j);
    return st;
}

static steno_status read_config(struct steno_nemo_conf *c, steno_err *err)
{
    char *path = steno_path_join(c->dir, CONFIG), *bytes = NULL;
    size_t n = 0;
    steno_status st = path ? steno_file_read(path, MAX_CONFIG, &bytes, &n, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", c->dir);
    if (!st)
        st = steno_nemo_conf_parse(c, bytes, n, path, err);
    free(bytes);
    free(path);
    return st;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static steno_status read_normalisation(struct steno_nemo_conf *c, const steno_onnx_head *h,
                                       const char *file, steno_err *err)
{
    const char *type = steno_onnx_head_meta(h, "normalize_type");
    c->per_feature = type ? strcmp(type, "per_feature") == 0 : !c->streaming;
    if (type && *type && !c->per_feature && strcmp(type, "NA") != 0)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: metadata normalize_type is '%.40s', expected per_feature, NA or "
                          "nothing",
                          file, type);
    if (c->per_feature && c->streaming)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: metadata normalize_type is per_feature, which needs whole "
                          "recordings, and the encoder has caches",
                          file);
    return STENO_OK;
}

steno_status steno_nemo_conf_metadata(struct steno_nemo_conf *c, const steno_onnx_head *h,
                                      const char *file, steno_err *err)
{
    const struct steno_metadata_number want[] = {
        {"vocab_size", 1, 1 << 20, &c->vocab, !c->onnx_asr},
        {"subsampling_factor", 1, 64, &c->subsampling, !c->onnx_asr},
        {"feat_dim", 1, 512, &c->bins, false},
        {"window_size", 1, 4096, &c->window, c->streaming},
        {"chunk_shift", 1, 4096, &c->shift, c->streaming},
        {"cache_last_channel_dim1", 1, 4096, &c->channel[0], c->streaming},
        {"cache_last_channel_dim2", 1, 65536, &c->channel[1], c->streaming},
        {"cache_last_channel_dim3", 1, 65536, &c->channel[2], c->streaming},
        {"cache_last_time_dim1", 1, 4096, &c->time[0], c->streaming},
        {"cache_last_time_dim2", 1, 65536, &c->time[1], c->streaming},
        {"cache_last_time_dim3", 1, 65536, &c->time[2], c->streaming},
        {"num_decoder_layers", 1, 256, &c->decoder_layers, false},
        {"decoder_hidden_size", 1, 65536, &c->decoder_hidden, false},
    };
    const char *gigaam = steno_onnx_head_meta(h, "is_giga_am");
    steno_status st = steno_metadata_read(h, want, sizeof want / sizeof *want, file, err);
    if (!st && gigaam && strcmp(gigaam, "0") != 0)
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: metadata is_giga_am is %.10s: features of GigaAM are not known", file,
                        gigaam);
    if (!st && c->streaming && c->shift > c->window)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: metadata chunk_shift is %lld, more than window_size, %lld", file,
                        (long long)c->shift, (long long)c->window);
    if (!st && c->streaming && c->shift % c->subsampling)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: metadata chunk_shift is %lld, no multiple of subsampling_factor, "
                        "%lld",
                        file, (long long)c->shift, (long long)c->subsampling);
    return st ? st : read_normalisation(c, h, file, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status find_parts(struct steno_nemo_conf *c, bool int8, steno_err *err)
{
    const bool first_is_encoder = strncmp(c->encoder, "encoder", 7) == 0;
    steno_status st = STENO_OK;
    if (!first_is_encoder) {
        c->kind = STENO_NEMO_CTC;
        return STENO_OK;
    }
    st = steno_network_file_find(&c->decoder, c->dir, "decoder_joint", int8, err);
    if (st || c->decoder) {
        c->kind = STENO_NEMO_TRANSDUCER;
        return st;
    }
    st = steno_network_file_find(&c->decoder, c->dir, "decoder", int8, err);
    if (!st && !c->decoder)
        return steno_fail(err, STENO_ERR_IO, "%s: %s is there, but no decoder*.onnx", c->dir,
                          c->encoder);
    if (!st)
        st = steno_network_file_find(&c->joiner, c->dir, "joiner", int8, err);
    c->kind = c->joiner ? STENO_NEMO_TRANSDUCER : STENO_NEMO_CANARY;
    return st;
}

static steno_status check_kind(const struct steno_nemo_conf *c, const steno_onnx_head *h,
                               steno_err *err)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    const bool canary = type && strcmp(type, "EncDecMultiTaskModel") == 0;
    if (c->kind == STENO_NEMO_CANARY && type && !canary)
        return steno_fail(err, STENO_ERR_IO, "%s: %s is of a %.60s, but there is no joiner*.onnx",
                          c->dir, c->encoder, type);
    if (c->kind != STENO_NEMO_CANARY && canary)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: %s is of a %.60s, which has no joiner, but there is %s", c->dir,
                          c->encoder, type, c->joiner ? c->joiner : "no encoder");
    return STENO_OK;
}

static steno_status open_parts(struct steno_nemo_conf *c, bool int8, steno_err *err)
{
    const bool tokens = steno_path_readable(c->dir, "tokens.txt");
    char *file = NULL;
    enum steno_nemo_kind kind;
    int64_t bins;
    steno_onnx_head *h = NULL;
    steno_status st = find_first(&c->encoder, c->dir, int8, err);
    if (!st && !c->encoder)
        st = steno_fail(err, STENO_ERR_IO, "%s: there is no encoder*.onnx or model*.onnx", c->dir);
    if (!st)
        st = find_parts(c, int8, err);
    if (!st)
        st = steno_network_file_head(&h, c->dir, c->encoder, err);
    if (st)
        return st;
    kind = c->kind;
    file = steno_path_join(c->dir, c->encoder);
    c->tokens = strdup(tokens ? "tokens.txt" : "vocab.txt");
    c->onnx_asr = !tokens && steno_path_readable(c->dir, CONFIG);
    c->streaming = steno_onnx_head_has_input(h, "cache_last_channel");
    c->quantized = steno_onnx_head_quantized(h);
    if (!c->tokens || !file)
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", c->dir);
    if (!st && c->onnx_asr)
        st = read_config(c, err);
    bins = c->bins;
    if (!st && c->kind != kind)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: model_type in " CONFIG " does not fit %s",
                        c->dir, c->decoder ? c->decoder : c->encoder);
    if (!st)
        st = check_kind(c, h, err);
    if (!st)
        st = steno_nemo_conf_metadata(c, h, file, err);
    if (!st && bins && bins != c->bins)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: features_size is %lld in " CONFIG ", feat_dim is %lld in %s", c->dir,
                        (long long)bins, (long long)c->bins, c->encoder);
    steno_onnx_head_close(h);
    free(file);
    return st;
}

steno_status steno_nemo_conf_open(struct steno_nemo_conf *c, const char *dir, bool int8,
                                  steno_err *err)
{
    steno_status st;
    *c = (struct steno_nemo_conf){.dir = strdup(dir), .subsampling = DEFAULT_SUBSAMPLING};
    st = c->dir ? open_parts(c, int8, err)
                : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    if (st)
        steno_nemo_conf_free(c);
    return st;
}

void steno_nemo_conf_free(struct steno_nemo_conf *c)
{
    free(c->dir);
    free(c->encoder);
    free(c->decoder);
    free(c->joiner);
    free(c->tokens);
    *c = (struct steno_nemo_conf){0};
}
