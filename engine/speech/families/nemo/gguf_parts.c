/* What the readers of GGUF share: durations, chunks, prompts. */
#include "speech/families/nemo/file_internal.h"

#include <string.h>

#define LOCALE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
#define TOKENS "tokenizer.ggml.tokens"
#define CODE 16           /* bytes of a language with its region */
#define MAX_CONTEXT 65536 /* encoder frames */
#define MAX_CHUNK 2048    /* feature frames */

/* The search counts frames by the numbers of durations. */
steno_status steno_nemo_gguf_durations(const steno_nemo_file *f, const char *key, steno_err *err)
{
    struct steno_gguf_list l = {0};
    int64_t i = 0, v;
    const bool list = steno_gguf_list(f->base.gguf, key, &l);
    for (; list && steno_gguf_next_int(&l, &v) && v == i; i++)
        continue;
    if (!list || l.left || i != f->info.arch.durations)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: key '%s': known: 0, 1, 2, .. in this order, as many as there are "
                          "scores of durations",
                          f->base.name, key);
    return STENO_OK;
}

steno_status steno_nemo_gguf_contexts(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    bool good = f->n_contexts > 0;
    for (size_t i = 0; i < f->n_contexts && good; i++) {
        const int64_t left = f->context[i][0], right = f->context[i][1];
        good = left >= 1 && left <= MAX_CONTEXT && right >= 0 && right < MAX_CHUNK &&
               a->factor * (right + 1) <= MAX_CHUNK && left % (right + 1) == 0;
    }
    if (!good)
        return steno_fail(
            err, STENO_ERR_UNSUPPORTED,
            "%s: att_context_*: known: pairs of at most %d frames before, in whole "
            "chunks, and those of a chunk behind its first, %d feature frames at most",
            f->base.name, MAX_CONTEXT, MAX_CHUNK);
    a->left = f->context[0][0];
    a->right = f->context[0][1];
    return STENO_OK;
}

static bool is_locale(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!p[i] || !strchr(LOCALE, p[i]))
            return false;
    return n > 0 && n < CODE;
}

steno_status steno_nemo_gguf_dictionary(steno_nemo_file *f, const char *locales,
                                        const char *indices, steno_err *err)
{
    struct steno_gguf_list names, numbers;
    bool good = true;
    const char *p;
    int64_t v;
    size_t n;
    if (!steno_gguf_list(f->base.gguf, locales, &names) ||
        !steno_gguf_list(f->base.gguf, indices, &numbers) || names.left != numbers.left)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: keys '%s' and '%s' are no lists of one length", f->base.name,
                          locales, indices);
    while (good && names.left)
        good = steno_gguf_next_text(&names, &p, &n) && steno_gguf_next_int(&numbers, &v) &&
               is_locale(p, n) && v >= 0 && v < f->info.arch.prompts &&
               !steno_buf_printf(&f->prompts, "%c\"%.*s\":%lld", f->prompts.len ? ',' : '{', (int)n,
                                 p, (long long)v);
    if (!good)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: key '%s': a name that is no language, or a number that is none of "
                          "%lld prompts",
                          f->base.name, locales, (long long)f->info.arch.prompts);
    if (steno_buf_puts(&f->prompts, f->prompts.len ? "}" : "{}"))
        return steno_fail(err, STENO_ERR_LIMIT, "%s: too many prompts", f->base.name);
    f->info.prompts = f->prompts.data;
    return STENO_OK;
}

steno_status steno_nemo_gguf_pieces(steno_nemo_file *f, const char *key, const char *blank_key,
                                    steno_err *err)
{
    int64_t blank;
    steno_status st = steno_ggml_file_pieces(&f->base, key, 0, err);
    if (!st && !steno_gguf_int(f->base.gguf, blank_key, f->base.pieces, f->base.pieces, &blank))
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: %s is not %lld, the pieces", f->base.name,
                        blank_key, (long long)f->base.pieces);
    return st;
}

steno_status steno_nemo_gguf_all_pieces(steno_nemo_file *f, steno_err *err)
{
    int64_t blank;
    steno_status st = steno_ggml_file_pieces(&f->base, TOKENS, 1, err);
    if (!st && !steno_gguf_int(f->base.gguf, "tokenizer.ggml.blank_token_id", f->base.pieces,
                               f->base.pieces, &blank))
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: tokenizer.ggml.blank_token_id is not that of the last of %lld pieces",
                        f->base.name, (long long)f->base.pieces + 1);
    return st;
}
