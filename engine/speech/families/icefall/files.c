#include "speech/families/icefall/files.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "formats/onnx_head.h"

#define MAX_FILES 64 /* ONNX files of a directory that are looked at */

/* A network of the directory. */
struct network {
    char *path;
    enum steno_icefall_role role;
    bool quantized, half; /* half: its name says that its weights have 16 bits */
};

struct listing {
    struct network networks[MAX_FILES]; /* [n], by name */
    size_t n;
    char *tokens;
};

static const char *const roles[STENO_ICEFALL_ROLES] = {"",
                                                       "encoder of a streaming transducer",
                                                       "encoder of an offline transducer",
                                                       "streaming CTC network",
                                                       "offline CTC network",
                                                       "decoder (prediction network)",
                                                       "joiner"};

/* ---- what a network is ----------------------------------------------------------------------- */

/* Networks with an input x [N, T, bins] of feature frames. */
static enum steno_icefall_role of_frames(const steno_onnx_head *h)
{
    bool encoder = steno_onnx_head_has_output(h, "encoder_out");
    if (!encoder && !steno_onnx_head_has_output(h, "log_probs"))
        return STENO_ICEFALL_NONE;
    if (steno_onnx_head_has_input(h, "x_lens"))
        return encoder ? STENO_ICEFALL_OFFLINE_ENCODER : STENO_ICEFALL_OFFLINE_CTC;
    if (!steno_onnx_head_meta(h, "decode_chunk_len"))
        return STENO_ICEFALL_NONE;
    return encoder ? STENO_ICEFALL_STREAMING_ENCODER : STENO_ICEFALL_STREAMING_CTC;
}

static enum steno_icefall_role role_of(const steno_onnx_head *h)
{
    if (steno_onnx_head_has_input(h, "x"))
        return of_frames(h);
    if (steno_onnx_head_has_input(h, "y") && steno_onnx_head_has_output(h, "decoder_out"))
        return STENO_ICEFALL_DECODER;
    if (steno_onnx_head_has_input(h, "encoder_out") &&
        steno_onnx_head_has_input(h, "decoder_out") && steno_onnx_head_has_output(h, "logit"))
        return STENO_ICEFALL_JOINER;
    return STENO_ICEFALL_NONE;
}

/* ---- the directory --------------------------------------------------------------------------- */

static void free_listing(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->networks[i].path);
    free(l->tokens);
}

static int rank_tokens(const char *name, const void *arg)
{
    (void)arg;
    return !strcmp(name, "tokens.txt") || steno_path_ends(name, "tokens.txt");
}

/* A file that is no network of this family has role NONE. */
static void add_network(struct listing *l, const char *dir, const char *name)
{
    struct network n = {.path = steno_path_join(dir, name)};
    steno_onnx_head *h = NULL;
    size_t at = l->n;
    if (!n.path || l->n == MAX_FILES || steno_onnx_head_open(&h, n.path, NULL)) {
        free(n.path);
        return;
    }
    n.role = role_of(h);
    n.quantized = steno_onnx_head_quantized(h);
    n.half = strstr(name, "fp16") != NULL;
    steno_onnx_head_close(h);
    for (; at > 0 && strcmp(l->networks[at - 1].path, n.path) > 0; at--)
        l->networks[at] = l->networks[at - 1];
    l->networks[at] = n;
    l->n++;
}

static bool list_files(struct listing *l, const char *dir)
{
    char *tokens;
    DIR *d;
    struct dirent *e;
    *l = (struct listing){0};
    if (!steno_path_find(&tokens, dir, rank_tokens, NULL, NULL, NULL) && tokens)
        l->tokens = steno_path_join(dir, tokens);
    free(tokens);
    d = l->tokens ? opendir(dir) : NULL; /* no tokens: the networks are not this family's */
    while (d && (e = readdir(d)))
        if (steno_path_ends(e->d_name, ".onnx"))
            add_network(l, dir, e->d_name);
    if (d)
        closedir(d);
    return l->tokens != NULL;
}

bool steno_icefall_probe(const char *dir, bool *streaming)
{
    struct listing l;
    bool known = false, offline = false;
    *streaming = false;
    if (list_files(&l, dir))
        for (size_t i = 0; i < l.n; i++) {
            enum steno_icefall_role r = l.networks[i].role;
            known |= r != STENO_ICEFALL_NONE;
            *streaming |= r == STENO_ICEFALL_STREAMING_ENCODER || r == STENO_ICEFALL_STREAMING_CTC;
            offline |= r == STENO_ICEFALL_OFFLINE_ENCODER || r == STENO_ICEFALL_OFFLINE_CTC;
        }
    *streaming |= !offline;
    free_listing(&l);
    return known;
}

/* ---- the files of a model -------------------------------------------------------------------- */

/* The preferred network of a role; NULL: there is none. */
static const struct network *choose_icefall_files(const struct listing *l,
                                                  enum steno_icefall_role role, bool quantized)
{
    const struct network *best = NULL;
    int best_rank = -1;
    for (size_t i = 0; i < l->n; i++) {
        const struct network *n = &l->networks[i];
        int rank = 2 * (n->quantized == quantized) + !n->half;
        if (n->role != role || rank <= best_rank)
            continue;
        best = n;
        best_rank = rank;
    }
    return best;
}

static steno_status take_icefall_files(const struct listing *l, enum steno_icefall_role role,
                                       bool quantized, struct steno_icefall_files *f, char **out,
                                       steno_err *err)
{
    const struct network *n = choose_icefall_files(l, role, quantized);
    if (!n)
        return steno_fail(err, STENO_ERR_FORMAT, "there is no %s (an .onnx file)", roles[role]);
    *(role == STENO_ICEFALL_DECODER ? &f->decoder_quantized : &f->quantized) |= n->quantized;
    *out = strdup(n->path);
    return *out ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

/* The one kind of model whose networks are there. */
static steno_status find_kind(const struct listing *l, enum steno_icefall_role *out, steno_err *err)
{
    enum steno_icefall_role kind = STENO_ICEFALL_NONE;
    for (size_t i = 0; i < l->n; i++) {
        enum steno_icefall_role r = l->networks[i].role;
        if (r == STENO_ICEFALL_NONE || r > STENO_ICEFALL_OFFLINE_CTC || r == kind)
            continue;
        if (kind)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "there are networks of two models, a %s and a %s; expected one model "
                              "in a directory",
                              roles[kind], roles[r]);
        kind = r;
    }
    *out = kind;
    return kind
               ? STENO_OK
               : steno_fail(err, STENO_ERR_FORMAT,
                            "there is a decoder or a joiner, but no encoder (an .onnx file with an "
                            "input x and an output encoder_out; a streaming one has metadata "
                            "decode_chunk_len and T)");
}

static steno_status find_parts(const struct listing *l, struct steno_icefall_files *f,
                               bool quantized, steno_err *err)
{
    steno_status st = find_kind(l, &f->kind, err);
    if (!st)
        st = take_icefall_files(l, f->kind, quantized, f, &f->encoder, err);
    if (st || f->kind == STENO_ICEFALL_STREAMING_CTC || f->kind == STENO_ICEFALL_OFFLINE_CTC)
        return st;
    st = take_icefall_files(l, STENO_ICEFALL_DECODER, false, f, &f->decoder, err);
    return st ? st : take_icefall_files(l, STENO_ICEFALL_JOINER, quantized, f, &f->joiner, err);
}

steno_status steno_icefall_files_find(struct steno_icefall_files *out, const char *dir,
                                      bool quantized, steno_err *err)
{
    struct steno_icefall_files f = {0};
    struct listing l;
    steno_status st;
    if (list_files(&l, dir))
        st = find_parts(&l, &f, quantized, err);
    else
        st = steno_fail(err, STENO_ERR_IO, "there is no tokens.txt");
    f.tokens = l.tokens;
    l.tokens = NULL;
    free_listing(&l);
    if (st) {
        steno_icefall_files_free(&f);
        return steno_fail_in(err, st, "%s", dir);
    }
    *out = f;
    return STENO_OK;
}

void steno_icefall_files_free(struct steno_icefall_files *f)
{
    free(f->encoder);
    free(f->decoder);
    free(f->joiner);
    free(f->tokens);
    *f = (struct steno_icefall_files){0};
}
