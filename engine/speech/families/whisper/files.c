/* From a path to a model's weights: which files there are, what format they have. */
#include "speech/families/whisper/weights_internal.h"

#include "speech/families/common/ggml_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PATH 3072
#define MAX_UNPACKED ((size_t)64 << 20) /* torch.save packs nothing */

struct place {
    char dir[4096]; /* where the other files are */
    char file[4096];
    bool is_onnx;
    struct steno_whisper_onnx_files onnx;
};

static bool is_dir(const char *path)
{
    char dot[4096];
    return steno_whisper_beside(path, ".", dot);
}

static const char *const weight_files[] = {
    "model.bin", "model.safetensors", "model.safetensors.index.json", "ggml-model.bin", "model.pt"};

static bool find_onnx(const char *path, struct place *p)
{
    p->is_onnx = steno_whisper_find_onnx(path, &p->onnx);
    if (p->is_onnx) {
        memcpy(p->dir, p->onnx.other, sizeof p->dir);
        memcpy(p->file, p->onnx.encoder, sizeof p->file);
    }
    return p->is_onnx;
}

static steno_status find_place(const char *path, struct place *p, steno_err *err)
{
    const char *slash = strrchr(path, '/');
    size_t n = strlen(path);
    p->is_onnx = false;
    if (n >= MAX_PATH)
        return steno_fail(err, STENO_ERR_INVAL, "%.80s...: a path of %zu bytes", path, n);
    if (!is_dir(path)) {
        if (find_onnx(path, p))
            return STENO_OK;
        n = slash ? (size_t)(slash - path) : 0;
        snprintf(p->dir, sizeof p->dir, "%.*s", slash ? (int)(n ? n : 1) : 1, slash ? path : ".");
        snprintf(p->file, sizeof p->file, "%s", path);
        return STENO_OK;
    }
    snprintf(p->dir, sizeof p->dir, "%s", path);
    for (size_t i = 0; i < sizeof weight_files / sizeof *weight_files; i++)
        if (steno_whisper_beside(path, weight_files[i], p->file))
            return STENO_OK;
    if (find_onnx(path, p))
        return STENO_OK;
    return steno_fail(
        err, STENO_ERR_IO,
        "%s: none of model.bin, model.safetensors, model.safetensors.index.json, "
        "ggml-model.bin, model.pt is there, nor Whisper's encoder and decoder as .onnx",
        path);
}

/* ---- what lies beside the weights ---------------------------------------------------------- */

/* The ranks that the package openai-whisper has in its folder of assets: lines like those of
 * sherpa. English models have GPT-2's. */
static bool find_ranks(const steno_whisper_weights *w, const char *dir, char path[4096])
{
    int64_t vocab = 0;
    return steno_torch_int(w->torch, "dims.n_vocab", 0, INT64_MAX, &vocab) &&
           steno_whisper_beside(dir, vocab >= 51865 ? "multilingual.tiktoken" : "gpt2.tiktoken",
                                path);
}

static steno_status read_vocabulary(steno_whisper_weights *w, const struct place *p, steno_err *err)
{
    static const char *const names[] = {"vocabulary.txt", "vocabulary.json", "tokenizer.json",
                                        "vocab.json"};
    const char *dir = p->dir;
    char path[4096];
    if (p->is_onnx && steno_whisper_find_tokens(&p->onnx, path))
        return steno_whisper_read_tokens(w, path, err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (steno_whisper_beside(dir, names[i], path))
            return steno_bpe_open(&w->bpe, path, err);
    if (!strcmp(w->format, "openai") && find_ranks(w, dir, path))
        return steno_whisper_read_tokens(w, path, err);
    return steno_fail(err, STENO_ERR_IO,
                      "%s: no vocabulary: none of vocabulary.txt, vocabulary.json, tokenizer.json, "
                      "vocab.json%s is there",
                      dir,
                      p->is_onnx                     ? ", tokens.txt"
                      : !strcmp(w->format, "openai") ? ", gpt2.tiktoken, multilingual.tiktoken"
                                                     : "");
}

static steno_status read_settings(steno_whisper_weights *w, const char *dir, steno_err *err)
{
    static const char *const names[] = {"config.json", "generation_config.json"};
    char path[4096];
    steno_status st = STENO_OK;
    for (size_t i = 0; i < 2 && !st; i++) {
        const struct steno_json_node *root;
        steno_json *j;
        if (!steno_whisper_beside(dir, names[i], path))
            continue;
        st = steno_json_open(&j, path, err);
        if (st)
            return st;
        root = steno_json_root(j);
        if (i == 0 && strcmp(w->format, "ctranslate2") && strcmp(w->format, "openai"))
            st = steno_whisper_read_config(w, root, path, err);
        if (!st)
            st = steno_whisper_read_heads(w, steno_json_get(root, "alignment_heads"), path, err);
        steno_json_close(j);
    }
    return st;
}

/* ---- safetensors --------------------------------------------------------------------------- */

static steno_status add_shard(steno_whisper_weights *w, const char *path, steno_err *err)
{
    const char *name = steno_arena_strdup(w->mem, path);
    steno_status st;
    if (!name)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    if (w->n_shards == STENO_WHISPER_MAX_FILES)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %d files of weights", path,
                          STENO_WHISPER_MAX_FILES);
    st = steno_safetensors_open(&w->shard[w->n_shards], name, err);
    if (st)
        return st;
    return steno_whisper_read_shard(w, w->shard[w->n_shards++], name, err);
}

/* The file of this entry of weight_map, unless an entry before has named it. */
static bool is_new(const struct steno_json_node *first, const struct steno_json_node *entry)
{
    for (const struct steno_json_node *n = first; n != entry; n = n->next)
        if (n->text && !strcmp(n->text, entry->text))
            return false;
    return true;
}

static steno_status add_shards(steno_whisper_weights *w, const struct place *p, steno_err *err)
{
    const struct steno_json_node *map;
    steno_json *j;
    char path[4096];
    steno_status st = steno_json_open(&j, p->file, err);
    if (st)
        return st;
    map = steno_json_get(steno_json_root(j), "weight_map");
    if (!map || map->kind != STENO_JSON_OBJECT || map->n > STENO_WHISPER_MAX_TENSORS)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: no weight_map of at most %d tensors", p->file,
                        STENO_WHISPER_MAX_TENSORS);
    for (const struct steno_json_node *n = map ? map->first : NULL; n && !st; n = n->next) {
        if (n->kind != STENO_JSON_STRING || strchr(n->text, '/'))
            st = steno_fail(err, STENO_ERR_FORMAT,
                            "%s: line %zu: '%.80s' has no file of this directory", p->file, n->line,
                            n->key);
        else if (is_new(map->first, n) && !steno_whisper_beside(p->dir, n->text, path))
            st = steno_fail(err, STENO_ERR_IO, "%s: %.200s is missing", p->file, n->text);
        else if (is_new(map->first, n))
            st = add_shard(w, path, err);
    }
    steno_json_close(j);
    return st;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* 'c' CTranslate2, 'f' GGUF, 'g' ggml, 'p' PyTorch, 's' safetensors, 'i' an index of those, 0 none.
 */
static char format_of(const unsigned char *p, size_t n)
{
    if (n >= 18 && !memcmp(p + 6, "WhisperSpec", 12))
        return 'c';
    if (n >= 4 && !memcmp(p, "lmgg", 4))
        return 'g';
    if (steno_gguf_probe(p, n))
        return 'f';
    if (steno_torch_probe(p, n))
        return 'p';
    if (n >= 9 && p[8] == '{' && !p[7] && !p[6] && !p[5])
        return 's';
    return n && *p == '{' ? 'i' : 0;
}

/* Other projects' checkpoints, and archives of whatever, begin alike. */
static bool is_openai(const char *path)
{
    struct steno_map map;
    steno_torch *t = NULL;
    bool yes = false;
    if (steno_map_open(&map, path, NULL))
        return false;
    if (!steno_torch_parse(&t, map.p, map.n, path, MAX_UNPACKED, NULL))
        yes = steno_whisper_is_openai(t);
    steno_torch_close(t);
    steno_map_close(&map);
    return yes;
}

bool steno_whisper_weights_probe(const char *path)
{
    unsigned char head[18] = {0};
    struct place *p = malloc(sizeof *p);
    FILE *f = NULL;
    size_t n = 0;
    char format;
    bool yes;
    if (p && !find_place(path, p, NULL))
        f = fopen(p->file, "rbe");
    if (f) {
        n = fread(head, 1, sizeof head, f);
        fclose(f);
    }
    format = format_of(head, n);
    yes = (p && f && p->is_onnx) || format == 'c' ||
          ((format == 'f' || format == 'g') &&
           steno_ggml_kind_of_file(p->file) < STENO_GGML_PARAKEET) ||
          (format == 'p' && is_openai(p->file)) ||
          (f && format != 'p' && steno_whisper_says_whisper(p->dir)) ||
          /* not Whisper's weights, but its configuration: the error names the file */
          (f && !format && steno_whisper_says_ctranslate2(p->dir));
    free(p);
    return yes;
}

/* Git LFS leaves such a text where it did not fetch the file. */
static bool is_pointer(const unsigned char *p, size_t n)
{
    static const char start[] = "version https://git-lfs";
    return n >= sizeof start - 1 && !memcmp(p, start, sizeof start - 1);
}

static steno_status unknown_format(const steno_whisper_weights *w, const void *bytes, size_t n,
                                   steno_err *err)
{
    if (is_pointer(bytes, n))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: a pointer of Git LFS instead of the weights (try git lfs pull)",
                          w->file);
    return steno_fail(err, STENO_ERR_FORMAT,
                      "%s: neither CTranslate2's, ggml's, GGUF's nor OpenAI's Whisper format, nor "
                      "safetensors, nor an ONNX "
                      "encoder with its decoder",
                      w->file);
}

/* CTranslate2 or ggml. */
static steno_status read_binary(steno_whisper_weights *w, char format, const void *bytes, size_t n,
                                steno_err *err)
{
    w->format = format == 'c' ? "ctranslate2" : "ggml";
    return format == 'c' ? steno_whisper_read_ctranslate2(w, bytes, n, w->file, err)
                         : steno_whisper_read_ggml(w, bytes, n, w->file, err);
}

static steno_status read_torch(steno_whisper_weights *w, const void *bytes, size_t n,
                               steno_err *err)
{
    steno_status st = steno_torch_parse(&w->torch, bytes, n, w->file, MAX_UNPACKED, err);
    w->format = "openai";
    return st ? st : steno_whisper_read_openai(w, w->torch, w->file, err);
}

static steno_status read_gguf(steno_whisper_weights *w, const void *bytes, size_t n, steno_err *err)
{
    steno_status st = steno_gguf_parse(&w->gguf, bytes, n, w->file, err);
    w->format = "gguf";
    return st ? st : steno_whisper_read_gguf(w, w->gguf, w->file, err);
}

static steno_status read_weights(steno_whisper_weights *w, const struct place *p, steno_err *err)
{
    char format;
    if (p->is_onnx)
        return steno_whisper_open_onnx(w, &p->onnx, err);
    format = format_of(w->map.p, w->map.n);
    if (format == 'c' || format == 'g')
        return read_binary(w, format, w->map.p, w->map.n, err);
    if (format == 'p')
        return read_torch(w, w->map.p, w->map.n, err);
    if (format == 'f')
        return read_gguf(w, w->map.p, w->map.n, err);
    if (!format)
        return unknown_format(w, w->map.p, w->map.n, err);
    steno_map_close(&w->map);
    w->format = "huggingface";
    return format == 's' ? add_shard(w, w->file, err) : add_shards(w, p, err);
}

static steno_status open_all(steno_whisper_weights *w, const char *path, steno_err *err)
{
    struct place *p = steno_arena_alloc(w->mem, sizeof *p);
    steno_status st;
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    st = find_place(path, p, err);
    w->file = p->file;
    if (!st && !p->is_onnx)
        st = steno_map_open(&w->map, p->file, err);
    if (!st)
        st = read_weights(w, p, err);
    if (!st && !w->bpe)
        st = read_vocabulary(w, p, err);
    if (!st && strcmp(w->format, "ggml") && strcmp(w->format, "gguf")) /* they have all in one */
        st = read_settings(w, p->dir, err);
    return st ? st : steno_whisper_check(w, err);
}

static steno_status parse_all(steno_whisper_weights *w, const void *bytes, size_t n, steno_err *err)
{
    const char format = format_of(bytes, n);
    steno_status st;
    if (format == 'c' || format == 'g') {
        st = read_binary(w, format, bytes, n, err);
    } else if (format == 'f') {
        st = read_gguf(w, bytes, n, err);
    } else if (format == 'p') {
        st = read_torch(w, bytes, n, err);
    } else if (format == 's') {
        w->format = "huggingface";
        st = steno_safetensors_parse(&w->shard[0], bytes, n, w->file, err);
        w->n_shards = !st;
        if (!st)
            st = steno_whisper_read_shard(w, w->shard[0], w->file, err);
    } else {
        st = unknown_format(w, bytes, n, err);
    }
    return st ? st : steno_whisper_check(w, err);
}

steno_status steno_whisper_weights_parse(steno_whisper_weights **out, const void *bytes, size_t n,
                                         const char *name, steno_err *err)
{
    steno_whisper_weights *w = steno_whisper_weights_new(name, err);
    if (!w)
        return STENO_ERR_NOMEM;
    w->file = name;
    return steno_whisper_weights_hand(out, w, parse_all(w, bytes, n, err));
}

steno_status steno_whisper_weights_open(steno_whisper_weights **out, const char *path,
                                        steno_err *err)
{
    steno_whisper_weights *w = steno_whisper_weights_new(path, err);
    steno_status st;
    if (!w)
        return STENO_ERR_NOMEM;
    st = open_all(w, path, err);
    if (st && steno_whisper_weights_check(w, err)) /* the reason */
        st = STENO_ERR_IO;
    return steno_whisper_weights_hand(out, w, st);
}
