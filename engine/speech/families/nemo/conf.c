#include "speech/families/nemo/conf.h"

#include <stdio.h>
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
#define TOKENS_OF_GIGAAM 3 /* of a frame at most, in its authors' loop over ONNX networks */

/* ---- files ----------------------------------------------------------------------------------- */

/* Find the file of a network of GigaAM in onnx-asr's layout: its stem and then `part`. */
static steno_status find_gigaam(char **out, const struct steno_nemo_conf *c, const char *part,
                                bool int8, steno_err *err)
{
    char stem[48];
    snprintf(stem, sizeof stem, "%s%s", c->stem, part);
    return steno_network_file_find(out, c->dir, stem, int8, err);
}

/* The network that has the metadata: the encoder, or the only one. *out NULL: there is none. */
static steno_status find_first(char **out, const struct steno_nemo_conf *c, bool int8,
                               steno_err *err)
{
    static const char *const stems[] = {"encoder", "model", "ctc"};
    steno_status st = STENO_OK;
    *out = NULL;
    if (*c->stem)
        return find_gigaam(out, c, c->kind == STENO_NEMO_CTC ? "" : "_encoder", int8, err);
    for (size_t i = 0; i < sizeof stems / sizeof *stems && !*out && !st; i++)
        st = steno_network_file_find(out, c->dir, stems[i], int8, err);
    return st;
}

/* Parakeet unified's encoder for windows that overlap. */
static bool is_buffered(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "streaming_model_type");
    return type && strcmp(type, "nemo_parakeet_unified_streaming") == 0;
}

static bool is_streaming(const steno_onnx_head *h)
{
    return steno_onnx_head_has_input(h, "cache_last_channel") || is_buffered(h);
}

static bool is_nemo(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    return (type && strncmp(type, "EncDec", 6) == 0) ||
           steno_onnx_head_has_input(h, "audio_signal") ||
           (steno_onnx_head_has_input(h, "features") &&
            steno_onnx_head_has_input(h, "feature_lengths"));
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

static bool is_version_3(const char *version)
{
    return version[0] == 'v' && version[1] > '2' && version[1] <= '9';
}

/* "gigaam-v3-e2e-ctc" -> the files' stem "v3_e2e_ctc"; a version stands before the kind. */
static bool read_gigaam_type(struct steno_nemo_conf *c, const char *type)
{
    static const char before[] = "gigaam-";
    const char *version, *kind;
    size_t n;
    if (strncmp(type, before, strlen(before)) != 0)
        return false;
    version = type + strlen(before);
    kind = strrchr(version, '-');
    if (!kind || strlen(version) >= sizeof c->stem || strpbrk(version, "/\\") ||
        (strcmp(kind, "-ctc") != 0 && strcmp(kind, "-rnnt") != 0))
        return false;
    c->gigaam = true;
    c->version_3 = is_version_3(version);
    c->kind = strcmp(kind, "-ctc") == 0 ? STENO_NEMO_CTC : STENO_NEMO_TRANSDUCER;
    c->max_tokens = TOKENS_OF_GIGAAM;
    n = strlen(version);
    for (size_t i = 0; i <= n; i++)
        c->stem[i] = (char)(version[i] == '-' ? '_' : version[i]);
    return true;
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
    if (!steno_json_text(n))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: model_type is missing", name);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(n->text, types[i].type) == 0) {
            c->kind = types[i].kind;
            return STENO_OK;
        }
    if (read_gigaam_type(c, n->text)) {
        const char *version = steno_json_text(steno_json_get(root, "version"));
        if (version) /* "multilingual" has none in its type */
            c->version_3 = is_version_3(version);
        return STENO_OK;
    }
    return steno_fail(err, STENO_ERR_UNSUPPORTED,
                      "%s:%zu: model_type is '%.60s', expected nemo-conformer-ctc, "
                      "nemo-conformer-rnnt, nemo-conformer-tdt, nemo-conformer-aed, gigaam-v3-ctc "
                      "or gigaam-v3-rnnt",
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

/* ---- heads ----------------------------------------------------------------------------------- */

/* Set the files' stem of a directory of GigaAM in onnx-asr's layout, if it is one. */
static void find_stem(struct steno_nemo_conf *c, const char *dir)
{
    c->dir = strdup(dir);
    if (c->dir && steno_path_readable(dir, CONFIG) && !steno_path_readable(dir, "tokens.txt") &&
        read_config(c, NULL))
        *c->stem = '\0';
}

steno_onnx_head *steno_nemo_conf_head(const char *dir)
{
    struct steno_nemo_conf c = {0};
    steno_onnx_head *h = NULL;
    char *first = NULL;
    find_stem(&c, dir);
    if (c.dir && !find_first(&first, &c, false, NULL) && first)
        (void)!steno_network_file_head(&h, dir, first, NULL);
    free(first);
    steno_nemo_conf_free(&c);
    return h;
}

bool steno_nemo_conf_probe(const char *dir, bool *streaming)
{
    steno_onnx_head *h = NULL;
    bool nemo;
    if (steno_nemo_file_probe(dir)) {
        *streaming = steno_nemo_file_streams(dir);
        return true;
    }
    if (steno_path_readable(dir, "tokens.txt") || steno_path_readable(dir, "vocab.txt") ||
        steno_path_readable(dir, CONFIG))
        h = steno_nemo_conf_head(dir);
    nemo = h && is_nemo(h);
    if (nemo)
        *streaming = is_streaming(h);
    steno_onnx_head_close(h);
    return nemo;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static steno_status read_normalisation(struct steno_nemo_conf *c, const steno_onnx_head *h,
                                       const char *file, steno_err *err)
{
    const char *type = steno_onnx_head_meta(h, "normalize_type");
    c->per_feature = type ? strcmp(type, "per_feature") == 0 : !c->streaming && !c->gigaam;
    if (type && *type && !c->per_feature && strcmp(type, "NA") != 0)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: metadata normalize_type is '%.40s', expected per_feature, NA or "
                          "nothing",
                          file, type);
    if (c->per_feature && c->streaming && !c->buffered)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: metadata normalize_type is per_feature, which needs whole "
                          "recordings, and the encoder has caches",
                          file);
    return STENO_OK;
}

/* What sherpa-onnx's exporter says of GigaAM's models: `comment` has the version, and CTC's
 * vocab_size counts the blank. */
static void read_gigaam(struct steno_nemo_conf *c, const steno_onnx_head *h)
{
    const char *gigaam = steno_onnx_head_meta(h, "is_giga_am");
    const char *version = steno_onnx_head_meta(h, "comment");
    if (!gigaam || strcmp(gigaam, "0") == 0)
        return;
    c->gigaam = true;
    c->version_3 = version && strstr(version, "v3");
    if (c->kind == STENO_NEMO_CTC && c->vocab > 1)
        c->vocab--;
}

/* A window: frames before a chunk, the chunk, and frames behind it; each a whole number of frames
 * of scores. */
static steno_status read_windows(struct steno_nemo_conf *c, const steno_onnx_head *h,
                                 const char *file, steno_err *err)
{
    int64_t past, chunk, behind, seen = 0;
    const struct steno_metadata_number want[] = {
        {"left_feature_frames", 0, 4096, &c->past, true},
        {"chunk_feature_frames", 1, 4096, &c->shift, true},
        {"right_feature_frames", 0, 4096, &seen, true},
        {"left_encoder_frames", 0, 4096, &past, true},
        {"chunk_encoder_frames", 1, 4096, &chunk, true},
        {"right_encoder_frames", 0, 4096, &behind, true},
    };
    steno_status st = steno_metadata_read(h, want, sizeof want / sizeof *want, file, err);
    c->window = c->past + c->shift + seen;
    if (!st && c->kind != STENO_NEMO_TRANSDUCER)
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: windows that overlap are served for transducers alone", file);
    if (!st && (c->past != past * c->subsampling || c->shift != chunk * c->subsampling ||
                seen != behind * c->subsampling))
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: metadata: windows of %lld, %lld and %lld feature frames are not %lld "
                        "times %lld, %lld and %lld encoder frames",
                        file, (long long)c->past, (long long)c->shift, (long long)seen,
                        (long long)c->subsampling, (long long)past, (long long)chunk,
                        (long long)behind);
    return st;
}

steno_status steno_nemo_conf_metadata(struct steno_nemo_conf *c, const steno_onnx_head *h,
                                      const char *file, steno_err *err)
{
    const bool caches = c->streaming && !c->buffered;
    const struct steno_metadata_number want[] = {
        {"vocab_size", 1, 1 << 20, &c->vocab, !c->onnx_asr},
        {"subsampling_factor", 1, 64, &c->subsampling, !c->onnx_asr},
        {"feat_dim", 1, 512, &c->bins, false},
        {"window_size", 1, 4096, &c->window, caches},
        {"chunk_shift", 1, 4096, &c->shift, caches},
        {"cache_last_channel_dim1", 1, 4096, &c->channel[0], caches},
        {"cache_last_channel_dim2", 1, 65536, &c->channel[1], caches},
        {"cache_last_channel_dim3", 1, 65536, &c->channel[2], caches},
        {"cache_last_time_dim1", 1, 4096, &c->time[0], caches},
        {"cache_last_time_dim2", 1, 65536, &c->time[1], caches},
        {"cache_last_time_dim3", 1, 65536, &c->time[2], caches},
        {"num_decoder_layers", 1, 256, &c->decoder_layers, false},
        {"decoder_hidden_size", 1, 65536, &c->decoder_hidden, false},
    };
    steno_status st = steno_metadata_read(h, want, sizeof want / sizeof *want, file, err);
    if (!st && c->buffered)
        st = read_windows(c, h, file, err);
    if (!st)
        read_gigaam(c, h);
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
    if (*c->stem && c->kind == STENO_NEMO_TRANSDUCER) {
        st = find_gigaam(&c->decoder, c, "_decoder", int8, err);
        if (!st)
            st = find_gigaam(&c->joiner, c, "_joint", int8, err);
        if (!st && !(c->decoder && c->joiner))
            st = steno_fail(err, STENO_ERR_IO,
                            "%s: %s is there, but no %s_decoder*.onnx or no "
                            "%s_joint*.onnx",
                            c->dir, c->encoder, c->stem, c->stem);
        return st;
    }
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

/* tokens.txt; onnx-asr's vocab.txt; GigaAM's there, "v3_e2e_ctc_vocab.txt" or "v3_vocab.txt". */
static steno_status find_tokens(struct steno_nemo_conf *c, steno_err *err)
{
    char name[48];
    if (steno_path_readable(c->dir, "tokens.txt")) {
        c->tokens = strdup("tokens.txt");
    } else if (!*c->stem) {
        c->tokens = strdup("vocab.txt");
    } else {
        snprintf(name, sizeof name, "%s_vocab.txt", c->stem);
        if (!steno_path_readable(c->dir, name))
            snprintf(name, sizeof name, "%.*s_vocab.txt", (int)(strrchr(c->stem, '_') - c->stem),
                     c->stem);
        c->tokens = strdup(name);
    }
    return c->tokens ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", c->dir);
}

static steno_status open_parts(struct steno_nemo_conf *c, bool int8, steno_err *err)
{
    char *file = NULL;
    enum steno_nemo_kind kind = STENO_NEMO_CTC;
    int64_t bins = 0;
    steno_onnx_head *h = NULL;
    steno_status st = STENO_OK;
    c->onnx_asr = !steno_path_readable(c->dir, "tokens.txt") && steno_path_readable(c->dir, CONFIG);
    if (c->onnx_asr)
        st = read_config(c, err);
    kind = c->kind;
    bins = c->bins;
    if (!st)
        st = find_first(&c->encoder, c, int8, err);
    if (!st && !c->encoder && *c->stem)
        st = steno_fail(err, STENO_ERR_IO, "%s: there is no %s%s*.onnx", c->dir, c->stem,
                        c->kind == STENO_NEMO_CTC ? "" : "_encoder");
    if (!st && !c->encoder)
        st = steno_fail(err, STENO_ERR_IO, "%s: there is no encoder*.onnx or model*.onnx", c->dir);
    if (!st)
        st = find_parts(c, int8, err);
    if (!st)
        st = steno_network_file_head(&h, c->dir, c->encoder, err);
    if (st)
        return st;
    file = steno_path_join(c->dir, c->encoder);
    c->streaming = is_streaming(h);
    c->buffered = is_buffered(h);
    c->quantized = steno_onnx_head_quantized(h);
    st = file ? find_tokens(c, err) : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", c->dir);
    if (!st && c->onnx_asr && c->kind != kind)
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

steno_status steno_nemo_conf_of_file(struct steno_nemo_conf *c, const char *path,
                                     const struct steno_nemo_file_info *i, steno_err *err)
{
    const struct steno_nemo_arch *a = &i->arch;
    const bool aed = a->aed.layers > 0, joins = !i->ctc && !aed;
    *c = (struct steno_nemo_conf){.dir = strdup(path),
                                  .kind = aed      ? STENO_NEMO_CANARY
                                          : i->ctc ? STENO_NEMO_CTC
                                                   : STENO_NEMO_TRANSDUCER,
                                  .encoder = strdup("encoder"),
                                  .decoder = joins || aed ? strdup("decoder") : NULL,
                                  .joiner = joins ? strdup("joiner") : NULL,
                                  .tokens = strdup("vocabulary"),
                                  .gigaam = i->gigaam,
                                  .leads = i->leads,
                                  .decoder_layers = aed ? steno_nemo_memories(&a->aed) : 0,
                                  .decoder_hidden = a->aed.d,
                                  .version_3 = i->gigaam,
                                  .exact = !i->rounded,
                                  .per_feature = i->per_feature,
                                  .vocab = a->vocab,
                                  .bins = a->in,
                                  .subsampling = a->factor,
                                  .max_tokens = i->max_tokens,
                                  .streaming = a->streaming,
                                  .window = steno_nemo_window(a),
                                  .shift = steno_nemo_shift(a),
                                  .channel = {a->layers, a->left, a->d},
                                  .time = {a->layers, a->d, a->before},
                                  .format = i->format};
    if (c->dir && c->encoder && c->tokens && (i->ctc || c->decoder) && (!joins || c->joiner))
        return STENO_OK;
    steno_nemo_conf_free(c);
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
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
