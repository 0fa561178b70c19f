/* ONNX models as they lie in folders: which file is the encoder, which the decoder, which sherpa's
 * list of tokens.
 *
 *     sherpa-onnx   NAME-encoder.onnx NAME-decoder.onnx NAME-tokens.txt
 *     optimum       encoder_model.onnx decoder_model.onnx or decoder_model_merged.onnx, in the
 *                   folder itself or in onnx/ below it; config.json and a tokenizer
 *
 * The names may have an ending (.int8, _quantized, _fp16, _q4). What is most exact is taken. A
 * Whisper encoder has the outputs n_layer_cross_k and n_layer_cross_v, or the input input_features
 * and a config.json that says whisper. */
#include "speech/families/whisper/weights_internal.h"
#include "formats/onnx_head.h"
#include "nn/onnx/load.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"

#define MAX_NAME 256
#define MAX_CANDIDATES 64

/* ---- a look into a file -------------------------------------------------------------------- */

/* 's' sherpa's encoder, 'o' optimum's, 0 neither. */
static char kind_of_file(const char *path)
{
    steno_onnx_head *h = NULL;
    char kind = 0;
    if (steno_onnx_head_open(&h, path, NULL))
        return 0;
    if (steno_onnx_head_has_output(h, "n_layer_cross_k") &&
        steno_onnx_head_has_output(h, "n_layer_cross_v"))
        kind = 's';
    else if (steno_onnx_head_has_input(h, "input_features"))
        kind = 'o';
    steno_onnx_head_close(h);
    return kind;
}

/* ---- names --------------------------------------------------------------------------------- */

/* `name` with its last `from` replaced by `to`. False: it has none, or is too long. */
static bool renamed(const char *name, const char *from, const char *to, char out[MAX_NAME])
{
    const char *at = NULL;
    int n;
    for (const char *p = name; (p = strstr(p, from)); p++)
        at = p;
    n = at ? snprintf(out, MAX_NAME, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from)) : 0;
    return n > 0 && n < MAX_NAME;
}

static bool find_decoder(const char *dir, const char *encoder, char out[4096])
{
    char name[MAX_NAME];
    return (renamed(encoder, "encoder", "decoder", name) && steno_whisper_beside(dir, name, out)) ||
           (renamed(encoder, "encoder_model", "decoder_model_merged", name) &&
            steno_whisper_beside(dir, name, out));
}

/* The folder of an optimum model's config.json. */
static bool find_config(const char *dir, char out[4096])
{
    char path[4096];
    const int n = snprintf(out, 4096, "%s", dir);
    if (n < 0 || n > 4000)
        return false;
    if (steno_whisper_beside(out, "config.json", path))
        return true;
    snprintf(out + n, 4096 - (size_t)n, "/..");
    return steno_whisper_beside(out, "config.json", path);
}

/* The pair that this encoder belongs to. */
static bool take_pair(const char *dir, const char *encoder, struct steno_whisper_onnx_files *f)
{
    char kind;
    if (!steno_whisper_beside(dir, encoder, f->encoder) || !find_decoder(dir, encoder, f->decoder))
        return false;
    kind = kind_of_file(f->encoder);
    if (kind == 'o')
        return find_config(dir, f->other) && steno_whisper_says_whisper(f->other);
    return kind == 's' && snprintf(f->other, sizeof f->other, "%s", dir) < (int)sizeof f->other;
}

/* Small for exact weights. */
static int rank_of(const char *name)
{
    static const struct {
        const char *part;
        int rank;
    } ranks[] = {{"q4", 3}, {"bnb4", 4}, {"int8", 2}, {"quantized", 2}, {"fp16", 1}};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (strstr(name, ranks[i].part))
            return ranks[i].rank;
    return 0;
}

static int by_rank(const void *a, const void *b)
{
    const int d = rank_of(a) - rank_of(b);
    return d ? d : strcmp(a, b);
}

static bool find_in(const char *dir, struct steno_whisper_onnx_files *f)
{
    char(*name)[MAX_NAME] = malloc(MAX_CANDIDATES * sizeof *name);
    DIR *d = name ? opendir(dir) : NULL;
    const struct dirent *e;
    size_t n = 0;
    bool found = false;
    while (d && n < MAX_CANDIDATES && (e = readdir(d)))
        if (strstr(e->d_name, "encoder") && steno_path_ends(e->d_name, ".onnx") &&
            snprintf(name[n], MAX_NAME, "%s", e->d_name) < MAX_NAME)
            n++;
    if (d)
        closedir(d);
    if (n)
        qsort(name, n, sizeof *name, by_rank);
    for (size_t i = 0; i < n && !found; i++)
        found = take_pair(dir, name[i], f);
    free(name);
    return found;
}

static bool find_for_file(const char *path, struct steno_whisper_onnx_files *f)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char dir[4096], encoder[MAX_NAME];
    const int n = slash ? (int)(slash - path) : 1;
    if (snprintf(dir, sizeof dir, "%.*s", n ? n : 1, slash ? path : ".") >= (int)sizeof dir)
        return false;
    if (strstr(name, "encoder"))
        return take_pair(dir, name, f);
    if (renamed(name, "decoder_with_past", "encoder", encoder))
        return take_pair(dir, encoder, f);
    return (renamed(name, "decoder_model_merged", "encoder_model", encoder) ||
            renamed(name, "decoder", "encoder", encoder)) &&
           take_pair(dir, encoder, f) &&
           snprintf(f->decoder, sizeof f->decoder, "%s", path) < (int)sizeof f->decoder;
}

bool steno_whisper_find_onnx(const char *path, struct steno_whisper_onnx_files *out)
{
    char below[4096];
    struct stat sb;
    if (stat(path, &sb))
        return false;
    if (!S_ISDIR(sb.st_mode))
        return steno_path_ends(path, ".onnx") && find_for_file(path, out);
    return find_in(path, out) || (steno_whisper_beside(path, "onnx", below) && find_in(below, out));
}

bool steno_whisper_find_tokens(const struct steno_whisper_onnx_files *f, char out[4096])
{
    const char *slash = strrchr(f->encoder, '/'), *name = slash ? slash + 1 : f->encoder;
    char prefix[MAX_NAME], tokens[MAX_NAME];
    char *at;
    if (!renamed(name, "encoder", "\n", prefix))
        return false;
    at = strchr(prefix, '\n');
    *at = '\0';
    return (snprintf(tokens, sizeof tokens, "%stokens.txt", prefix) < (int)sizeof tokens &&
            steno_whisper_beside(f->other, tokens, out)) ||
           steno_whisper_beside(f->other, "tokens.txt", out);
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Weights that lie in other files than the network's. */
static void note_external(steno_whisper_weights *w, const char *path,
                          const struct steno_onnx_info *info)
{
    const char *slash = strrchr(path, '/');
    for (int i = 0; i < info->n_external && i < 4; i++) {
        const size_t at = strlen(w->variant);
        char file[4096];
        struct stat sb;
        const int n = snprintf(file, sizeof file, "%.*s/%s", slash ? (int)(slash - path) : 1,
                               slash ? path : ".", info->external[i]);
        if (n > 0 && n < (int)sizeof file && !stat(file, &sb))
            snprintf(w->variant + at, sizeof w->variant - at, " %lld.%lld.%ld",
                     (long long)sb.st_size, (long long)sb.st_mtim.tv_sec, sb.st_mtim.tv_nsec);
    }
}

steno_status steno_whisper_open_onnx(steno_whisper_weights *w,
                                     const struct steno_whisper_onnx_files *files, steno_err *err)
{
    const char *const file[2] = {files->encoder, files->decoder};
    const struct steno_onnx_options o = {0};
    w->format = "onnx";
    for (int i = 0; i < 2; i++) {
        struct steno_onnx_info info = {0};
        const steno_status st = steno_onnx_load(&w->graph[i], file[i], &o, &info, err);
        if (st)
            return st;
        note_external(w, file[i], &info);
    }
    return steno_whisper_read_onnx(w, file, err);
}

static steno_status parse_both(steno_whisper_weights *w, const void *const p[2], const size_t n[2],
                               steno_err *err)
{
    const char *const file[2] = {w->file, w->file};
    const struct steno_onnx_options o = {0};
    steno_status st;
    w->format = "onnx";
    for (int i = 0; i < 2; i++) {
        st = steno_onnx_parse(&w->graph[i], p[i], n[i], NULL, &o, NULL, err);
        if (st)
            return steno_fail_in(err, st, "%s", w->file);
    }
    st = steno_whisper_read_onnx(w, file, err);
    return st ? st : steno_whisper_check(w, err);
}

steno_status steno_whisper_parse_onnx(steno_whisper_weights **out, const void *const p[2],
                                      const size_t n[2], const char *name, steno_err *err)
{
    steno_whisper_weights *w = steno_whisper_weights_new(name, err);
    if (!w)
        return STENO_ERR_NOMEM;
    w->file = name;
    return steno_whisper_weights_hand(out, w, parse_both(w, p, n, err));
}
