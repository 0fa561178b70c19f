#include "tools/convert/icefall.h"

#include "base/buf.h"
#include "base/path.h"
#include "tools/convert/icefall_arch.h"
#include "tools/convert/output.h"
#include "tools/convert/sources.h"
#include "speech/text/sentencepiece.h"
#include "speech/text/tokens.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_PATH 4096
#define MAX_TEXT ((size_t)64 << 20)

const struct steno_icefall_option steno_icefall_options[STENO_ICEFALL_OPTIONS] = {
    {"--tokens", "FILE",
     "tokens.txt or bpe.model of the checkpoint, where it is not beside it or in\n"
     "../data/lang*"},
    {"--num-heads", "LIST",
     "attention heads of each stack; needed where heads do not have icefall's\n"
     "default sizes"},
    {"--query-head-dim", "LIST", "the same by the columns of a head's query,"},
    {"--value-head-dim", "LIST", "by those of its value,"},
    {"--pos-head-dim", "LIST", "or by those of its positions"},
    {"--left-context-frames", "N", "frames before a chunk that it sees (128)"},
    {"--use-transducer", "0|1", "write the transducer (if the checkpoint has one)"},
    {"--use-ctc", "0|1", "write the CTC network, with --use-transducer 0"},
    {"--use-averaged-model", "0|1", "take the weights averaged in training, of epoch-N.pt (0)"},
    {"--causal", "0|1", "what follows is read from the checkpoint; given, it is compared"},
    {"--num-encoder-layers", "LIST", "layers of each stack"},
    {"--downsampling-factor", "LIST", "by which each stack has fewer frames"},
    {"--encoder-dim", "LIST", "columns"},
    {"--feedforward-dim", "LIST", "hidden columns"},
    {"--cnn-module-kernel", "LIST", "taps of convolutions"},
    {"--encoder-unmasked-dim", "LIST", "concerns the training alone"},
    {"--pos-dim", "N", "columns of positions"},
    {"--decoder-dim", "N", "columns of the prediction network"},
    {"--joiner-dim", "N", "columns of the joiner"},
    {"--context-size", "N", "tokens that the prediction network sees"},
    {"--causal-convolution", "0|1",
     "Conformers and the Zipformer of pruned_transducer_stateless7: trained\n"
     "with causal convolutions, which no shape tells (0)"},
    {"--decode-chunk-size", "N",
     "of such a Conformer transducer: frames of 40 ms of a chunk (16); -1:\n"
     "whole recordings"},
    {"--left-context", "N", "frames before a chunk that it sees (64)"},
    {"--right-context", "N", "frames after a chunk that it sees (0)"},
    {"--decode-chunk-len", "N", "of such a Zipformer: feature frames of a chunk (32)"},
    {"--num-left-chunks", "N", "chunks before a chunk that it sees (4)"},
};

struct job {
    const struct steno_convert_options *o;
    const char *out;
    char file[MAX_PATH]; /* the checkpoint */
    struct steno_map map;
    steno_torch *torch;
    bool *read; /* for each tensor: something has asked for it */
    struct steno_make_weights w;
    struct steno_icefall_arch a;
    steno_err *err;
};

/* ---- files --------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    return !access(path, R_OK);
}

/* The only file of a pattern below dir, or the one named `first` there. */
static bool one_of(const char *dir, const char *first, const char *pattern, char out[MAX_PATH])
{
    char full[MAX_PATH];
    glob_t g;
    bool found;
    if (first && snprintf(out, MAX_PATH, "%s/%s", dir, first) < MAX_PATH && exists(out))
        return true;
    if (snprintf(full, sizeof full, "%s/%s", dir, pattern) >= MAX_PATH || glob(full, 0, NULL, &g))
        return false;
    found = g.gl_pathc == 1 && snprintf(out, MAX_PATH, "%s", g.gl_pathv[0]) < MAX_PATH;
    globfree(&g);
    return found;
}

static bool find_checkpoint(const char *path, char out[MAX_PATH])
{
    struct stat sb;
    if (stat(path, &sb))
        return false;
    if (S_ISDIR(sb.st_mode))
        return one_of(path, "pretrained.pt", "*.pt", out) ||
               one_of(path, "exp/pretrained.pt", "exp/*.pt", out);
    return snprintf(out, MAX_PATH, "%s", path) < MAX_PATH;
}

static bool takes(const char *flag)
{
    bool known = !strcmp(flag, "chunk-size");
    for (int k = 0; k < STENO_ICEFALL_OPTIONS; k++)
        known |= !strcmp(flag, steno_icefall_options[k].name + 2);
    return known;
}

static bool probe(const struct steno_bundle *b)
{
    char file[MAX_PATH];
    struct steno_map map;
    bool is = false;
    if (!find_checkpoint(b->path, file) || steno_map_open(&map, file, NULL))
        return false;
    /* a ZIP archive may be anything: one of torch.save has this member */
    if (map.n && steno_torch_probe(map.p, map.n)) {
        struct steno_zip_member *member = NULL;
        size_t n = 0;
        is = memcmp(map.p, "PK", 2) != 0;
        if (!is && !steno_zip_list(map.p, map.n, file, &member, &n, NULL))
            for (size_t i = 0; i < n; i++)
                is |= member[i].name_len >= 9 &&
                      !memcmp(member[i].name + member[i].name_len - 9, "/data.pkl", 9);
        free(member);
    }
    steno_map_close(&map);
    return is;
}

/* ---- tokens -------------------------------------------------------------------------------- */

struct text_files {
    char tokens[MAX_PATH], model[MAX_PATH]; /* "": there is none */
};

static bool is_model(const char *path)
{
    return steno_path_ends(path, ".model");
}

static void directory_of(const char *path, char out[MAX_PATH])
{
    const char *slash = strrchr(path, '/');
    snprintf(out, MAX_PATH, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
}

/* tokens.txt and bpe.model: of --tokens and beside it, or beside the checkpoint, or in
 * ../data/lang*, where icefall's repositories have them. */
static steno_status find_text(struct job *j, struct text_files *f)
{
    const char *given = steno_convert_flag(j->o, "tokens");
    char dir[MAX_PATH];
    f->tokens[0] = f->model[0] = '\0';
    if (given) {
        if (snprintf(is_model(given) ? f->model : f->tokens, MAX_PATH, "%s", given) >= MAX_PATH ||
            !exists(given))
            return steno_fail(j->err, STENO_ERR_IO, "--tokens: %.300s: %s", given, strerror(errno));
        directory_of(given, dir);
        if (!*f->model && !one_of(dir, "bpe.model", "bpe.model", f->model))
            f->model[0] = '\0';
        return STENO_OK;
    }
    directory_of(j->file, dir);
    if (!one_of(dir, "tokens.txt", "../data/lang*/tokens.txt", f->tokens))
        f->tokens[0] = '\0';
    if (!one_of(dir, "bpe.model", "../data/lang*/bpe.model", f->model))
        f->model[0] = '\0';
    if (*f->tokens || *f->model)
        return STENO_OK;
    return steno_fail(j->err, STENO_ERR_IO,
                      "%s: no tokens.txt or bpe.model beside it, and not exactly one in "
                      "../data/lang*: give --tokens FILE",
                      j->file);
}

static steno_status wrong_count(const struct job *j, const char *path, int32_t n)
{
    return steno_fail(j->err, STENO_ERR_FORMAT, "%s: %d tokens, but %s has %lld", path, (int)n,
                      j->w.file, (long long)j->a.vocab);
}

/* Lines "piece id" of a vocabulary, without what only serves graphs ("#0"). */
static steno_status copy_tokens(struct job *j, const char *path, struct steno_buf *text)
{
    steno_tokens *t = NULL;
    steno_status st = steno_tokens_open(&t, path, j->err);
    int32_t n = 0;
    if (!st)
        n = steno_tokens_count(t);
    if (!st && n < j->a.vocab)
        st = wrong_count(j, path, n);
    for (int32_t i = (int32_t)j->a.vocab; i < n && !st; i++)
        if (*steno_tokens_piece(t, i) != '#')
            st = wrong_count(j, path, n);
    for (int32_t i = 0; i < j->a.vocab && !st; i++)
        st = steno_buf_printf(text, "%s %d\n", steno_tokens_piece(t, i), (int)i);
    steno_tokens_close(t);
    return st;
}

/* tokens.txt and bpe.vocab of a SentencePiece model. text: NULL if there is a tokens.txt, beside
 * which a model of another vocabulary may lie; it is passed over. */
static steno_status list_pieces(struct job *j, const char *path, struct steno_buf *text,
                                struct steno_buf *vocab)
{
    steno_sentencepiece *s = NULL;
    steno_status st = steno_sentencepiece_open(&s, path, j->err);
    if (!st && steno_sentencepiece_count(s) != j->a.vocab) {
        if (text)
            st = wrong_count(j, path, steno_sentencepiece_count(s));
        steno_sentencepiece_close(s);
        return st;
    }
    for (int32_t i = 0; i < j->a.vocab && !st; i++) {
        const char *piece = steno_sentencepiece_piece(s, i);
        st = steno_buf_printf(vocab, "%s\t%g\n", piece, (double)steno_sentencepiece_score(s, i));
        if (!st && text)
            st = steno_buf_printf(text, "%s %d\n", piece, (int)i);
    }
    steno_sentencepiece_close(s);
    return st;
}

static steno_status write_text(struct job *j, const struct text_files *f)
{
    struct steno_buf text, vocab;
    steno_status st = STENO_OK;
    steno_buf_init(&text, MAX_TEXT);
    steno_buf_init(&vocab, MAX_TEXT);
    if (*f->tokens)
        st = copy_tokens(j, f->tokens, &text);
    if (!st && *f->model)
        st = list_pieces(j, f->model, *f->tokens ? NULL : &text, &vocab);
    if (!st && vocab.len)
        st = steno_output_write(j->out, "bpe.vocab", vocab.data, vocab.len, j->err);
    if (!st)
        st = steno_output_write(j->out, "tokens.txt", text.data, text.len, j->err);
    steno_buf_free(&text);
    steno_buf_free(&vocab);
    return st;
}

/* ---- weights ------------------------------------------------------------------------------- */

/* Is the state dictionary of a Zipformer or a Conformer below root? */
static bool below(const steno_torch *t, const char *root)
{
    static const char *const weights[] = {"encoder_embed.conv.0.weight",
                                          "encoder.encoder_embed.conv.0.weight"};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", root, weights[i]);
        if (steno_torch_find(t, name))
            return true;
    }
    return false;
}

static const struct steno_torch_tensor *find_weight(const void *of, const char *name)
{
    const struct job *j = of;
    const struct steno_torch_tensor *t = steno_torch_find(j->torch, name);
    if (t)
        j->read[t - steno_torch_get(j->torch, 0)] = true;
    return t;
}

static bool begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

/* Of a layer, left from an earlier version of Zipformer: nothing computes with it. */
static bool is_left(const char *name)
{
    static const char end[] = ".bypass_scale";
    const size_t n = strlen(name), k = sizeof end - 1;
    return n > k && !strcmp(name + n - k, end) && strspn(name + n - k - 1, "0123456789") == 1;
}

/* A weight of the networks for which nothing has asked belongs to an architecture that is not
 * known.
 */
static steno_status check_all_read(const struct job *j)
{
    static const char *const
        transducer[] = {"encoder.", "encoder_embed.", "decoder.", "joiner.", NULL},
        *const ctc[] = {"encoder.",        "encoder_embed.", "ctc_output", "encoder_output_layer.",
                        "feat_batchnorm.", "after_norm.",    NULL};
    const char *const *parts = j->a.ctc ? ctc : transducer;
    const size_t root = strlen(j->w.root);
    for (size_t i = 0; i < steno_torch_count(j->torch); i++) {
        const struct steno_torch_tensor *t = steno_torch_get(j->torch, i);
        const char *name = t->name;
        if (j->read[i] || !begins(name, j->w.root) || is_left(name) || t->type == STENO_TORCH_I64)
            continue; /* i64: counts of the training */
        for (size_t k = 0; parts[k]; k++)
            if (begins(name + root, parts[k]))
                return steno_fail(j->err, STENO_ERR_UNSUPPORTED,
                                  "%s: '%s' is no weight of a %s as it is known here: a layer "
                                  "that is not whole, or another architecture",
                                  j->w.file, name,
                                  j->a.conformer ? "Conformer"
                                  : j->a.lstm    ? "LSTM transducer"
                                                 : "Zipformer");
    }
    return STENO_OK;
}

/* pretrained.pt has {"model": weights}, epoch-N.pt also model_avg and what only the training needs;
 * some files have the weights alone. */
static steno_status open_weights(struct job *j)
{
    static const char *const roots[] = {"model.", ""};
    bool averaged = false;
    steno_status st = steno_icefall_flag(j->o, "use-averaged-model", &averaged, j->err);
    if (!st)
        st = steno_map_open(&j->map, j->file, j->err);
    if (!st)
        st = steno_torch_parse(&j->torch, j->map.p, j->map.n, j->file, STENO_TORCH_MAX_UNPACKED,
                               j->err);
    if (st)
        return st;
    j->read = calloc(steno_torch_count(j->torch) + 1, sizeof *j->read);
    if (!j->read)
        return steno_fail(j->err, STENO_ERR_NOMEM, "out of memory");
    j->w = (struct steno_make_weights){
        .file = j->file, .torch = j->torch, .find = find_weight, .of = j, .map = &j->map};
    if (averaged) {
        j->w.root = "model_avg.";
        return below(j->torch, j->w.root)
                   ? STENO_OK
                   : steno_fail(j->err, STENO_ERR_INVAL,
                                "--use-averaged-model 1: %s has no 'model_avg'", j->file);
    }
    for (size_t i = 0; i < sizeof roots / sizeof *roots && !j->w.root; i++)
        if (below(j->torch, roots[i]))
            j->w.root = roots[i];
    return j->w.root ? STENO_OK
                     : steno_fail(j->err, STENO_ERR_UNSUPPORTED,
                                  "%s: no 'model.encoder_embed.conv.0.weight' and no "
                                  "'model.encoder.encoder_embed.conv.0.weight', so this is no "
                                  "Zipformer and no Conformer of icefall; of files of torch.save "
                                  "alone, no others can be converted",
                                  j->file);
}

/* ---- the whole ----------------------------------------------------------------------------- */

typedef steno_status writer(const struct steno_icefall_arch *a, const struct steno_make_weights *w,
                            const char *path, steno_err *err);

static steno_status write_network(struct job *j, const char *name, writer *write)
{
    char path[STENO_OUTPUT_PATH];
    return write(&j->a, &j->w, steno_output_network(path, j->out, name), j->err);
}

static steno_status write_networks(struct job *j)
{
    writer *const encoder = j->a.conformer ? steno_icefall_write_conformer
                            : j->a.lstm    ? steno_icefall_write_lstm
                            : j->a.first   ? steno_icefall_write_zipformer1
                                           : steno_icefall_write_encoder;
    steno_status st;
    if (j->a.ctc)
        return write_network(j, "model", encoder);
    st = write_network(j, "encoder", encoder);
    if (!st)
        st = write_network(j, "decoder", steno_icefall_write_decoder);
    return st ? st : write_network(j, "joiner", steno_icefall_write_joiner);
}

static steno_status convert_checkpoint(struct job *j, const char *in)
{
    struct text_files text;
    steno_status st;
    if (!find_checkpoint(in, j->file))
        return steno_fail(j->err, STENO_ERR_IO, "%.300s: there is no *.pt", in);
    st = open_weights(j);
    if (!st)
        st = steno_icefall_read_arch(&j->w, j->o, &j->a, j->err);
    j->w.scaled = !st && (j->a.lstm || (j->a.conformer && !j->a.plain));
    if (!st)
        st = find_text(j, &text);
    if (!st)
        st = steno_output_make(j->out, j->err);
    if (!st)
        st = write_networks(j);
    if (!st)
        st = check_all_read(j);
    return st ? st : write_text(j, &text);
}

static steno_status convert(const struct steno_bundle *b, const char *out,
                            const struct steno_convert_options *o, steno_err *err)
{
    struct job *j = calloc(1, sizeof *j);
    steno_status st;
    if (!j)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    j->o = o;
    j->out = out;
    j->err = err;
    st = convert_checkpoint(j, b->path);
    steno_torch_close(j->torch);
    steno_map_close(&j->map);
    free(j->read);
    free(j);
    return st;
}

const struct steno_convert_source steno_source_icefall = {
    "icefall", probe, takes, convert,
    "icefall's Zipformer, Conformer and LSTM (pretrained.pt or epoch-N.pt, or a directory with "
    "one)"};
