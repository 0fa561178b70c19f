#include "speech/families/common/fusion.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"

#define LN10 2.302585092994046

/* ---- opening --------------------------------------------------------------------------------- */

steno_status steno_fusion_open(struct steno_fusion *f, const char *path, const steno_tokens *tokens,
                               int32_t vocab, steno_err *err)
{
    const size_t n = (size_t)vocab;
    const char **pieces;
    steno_status st;
    *f = (struct steno_fusion){.vocab = vocab};
    if (!path)
        return STENO_OK;
    st = steno_ngram_open(&f->ngram, path, err);
    if (st)
        return st;
    pieces = malloc(n * sizeof *pieces);
    f->words = malloc(n * sizeof *f->words);
    if (!pieces || !f->words) {
        free(pieces);
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    }
    for (size_t i = 0; i < n; i++) {
        pieces[i] = steno_tokens_piece(tokens, (int32_t)i);
        f->words[i] = steno_ngram_word(f->ngram, pieces[i]);
    }
    st = steno_ngram_map_open(&f->map, f->ngram, pieces, n, err);
    free(pieces);
    return st;
}

void steno_fusion_close(struct steno_fusion *f)
{
    steno_ngram_map_close(f->map);
    steno_ngram_close(f->ngram);
    free(f->words);
    *f = (struct steno_fusion){0};
}

static int rank_ngram(const char *name, const void *arg)
{
    (void)arg;
    return steno_path_ends(name, ".arpa") || steno_path_ends(name, ".klm");
}

/* *path: NULL if there is none; the caller frees it. */
static steno_status find_file(char **path, const char *dir, steno_err *err)
{
    char *name = NULL;
    steno_status st = STENO_OK;
    *path = NULL;
    if (steno_path_is_dir(dir)) /* else the model is one file */
        st = steno_path_find(&name, dir, rank_ngram, NULL, NULL, err);
    if (!st && name && !(*path = steno_path_join(dir, name)))
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    free(name);
    return st;
}

steno_status steno_fusion_open_in(struct steno_fusion *f, const char *dir,
                                  const steno_tokens *tokens, int32_t vocab, steno_err *err)
{
    char *path = NULL;
    steno_status st = find_file(&path, dir, err);
    if (!st)
        st = steno_fusion_open(f, path, tokens, vocab, err);
    free(path);
    return st;
}

/* ---- scores ---------------------------------------------------------------------------------- */

static void score_all(const void *self, const int32_t *tokens, size_t n, float *out)
{
    const struct steno_fusion *f = self;
    steno_ngram_map_score(f->map, tokens, n, out);
    for (int32_t v = 0; v < f->vocab; v++)
        out[v] *= (float)LN10;
}

static double score_one(const void *self, const int32_t *tokens, size_t n, int32_t token)
{
    const struct steno_fusion *f = self;
    int32_t words[STENO_TOKEN_LM_HISTORY + 1];
    size_t k = 0;
    if ((int)n < steno_ngram_order(f->ngram) - 1)
        words[k++] = steno_ngram_word(f->ngram, "<s>");
    for (size_t i = 0; i < n; i++)
        words[k++] = f->words[tokens[i]];
    return LN10 * steno_ngram_score(f->ngram, words, k, f->words[token]);
}

struct steno_token_lm steno_fusion_lm(const struct steno_fusion *f, double weight)
{
    const int order = f->ngram ? steno_ngram_order(f->ngram) : 0;
    if (!f->ngram || weight <= 0)
        return (struct steno_token_lm){0};
    return (struct steno_token_lm){.self = f,
                                   .all = score_all,
                                   .one = score_one,
                                   .history = order > 1 ? (size_t)order - 1 : 0,
                                   .weight = weight};
}
