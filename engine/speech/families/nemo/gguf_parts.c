/* What the readers of GGUF share: names, numbers, durations, chunks, prompts. */
#include "speech/families/nemo/file_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCALE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
#define CODE 16           /* bytes of a language with its region */
#define MAX_CONTEXT 65536 /* encoder frames */
#define MAX_CHUNK 2048    /* feature frames */

static const struct steno_nemo_rename *find_rename(const struct steno_nemo_rename *table, size_t n,
                                                   const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(table[i].from, name, strlen(table[i].from)) == 0)
            return &table[i];
    return NULL;
}

/* The part of a name behind `begin` and "NUMBER."; NULL: it is none. */
static const char *behind_number(const char *name, const char *begin, unsigned *number)
{
    int used = 0;
    if (strncmp(name, begin, strlen(begin)) != 0)
        return NULL;
    name += strlen(begin);
    return sscanf(name, "%4u.%n", number, &used) == 1 && used ? name + used : NULL;
}

/* NeMo's name, cut to `size`; false: none that the networks need. */
static bool nemo_name(const struct steno_nemo_names *names, const char *name, char *out,
                      size_t size)
{
    const struct steno_nemo_rename *r = find_rename(names->of_model, names->n_model, name);
    unsigned layer;
    const char *rest;
    if (r) {
        snprintf(out, size, "%s%s", r->to, name + strlen(r->from));
        return true;
    }
    rest = behind_number(name, names->layers, &layer);
    if (rest) {
        r = find_rename(names->of_layer, names->n_layer, rest);
        if (r)
            snprintf(out, size, "encoder.layers.%u.%s%s", layer, r->to, rest + strlen(r->from));
        return r != NULL;
    }
    rest = behind_number(name, names->lstm, &layer);
    r = rest ? find_rename(names->of_lstm, names->n_lstm, rest) : NULL;
    if (r)
        snprintf(out, size, "decoder.prediction.dec_rnn.lstm.%s%u", r->to, layer);
    return r != NULL;
}

steno_status steno_nemo_gguf_tensors(steno_nemo_file *f, const struct steno_nemo_names *names,
                                     steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < steno_gguf_count(f->gguf) && !st; i++) {
        const struct steno_gguf_tensor *from = steno_gguf_get(f->gguf, i);
        struct steno_nemo_tensor t = {.type = from->type, .data = from->data, .both = names->both};
        char name[STENO_GGUF_MAX_NAME + 32];
        if (!nemo_name(names, from->name, name, sizeof name))
            continue;
        if (!from->type)
            return steno_fail(err, STENO_ERR_UNSUPPORTED,
                              "%s: tensor '%s' has type %u, " STENO_GGML_TYPES " are read", f->name,
                              from->name, (unsigned)from->number);
        t.t.rank = from->rank;
        memcpy(t.t.dim, from->dim, (size_t)from->rank * sizeof *from->dim);
        st = steno_nemo_file_add(f, name, &t, err);
    }
    return st;
}

steno_status steno_nemo_gguf_numbers(const steno_nemo_file *f, const struct steno_nemo_wanted *w,
                                     size_t n, steno_err *err)
{
    double any;
    for (size_t i = 0; i < n; i++) {
        if (steno_gguf_int(f->gguf, w[i].key, w[i].min, w[i].max, w[i].to))
            continue;
        if (w[i].fallback < w[i].min || steno_gguf_number(f->gguf, w[i].key, &any))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: key '%s' is missing or no number from %lld to %lld", f->name,
                              w[i].key, (long long)w[i].min, (long long)w[i].max);
        *w[i].to = w[i].fallback;
    }
    return STENO_OK;
}

/* The search counts frames by the numbers of durations. */
steno_status steno_nemo_gguf_durations(const steno_nemo_file *f, const char *key, steno_err *err)
{
    struct steno_gguf_list l = {0};
    int64_t i = 0, v;
    const bool list = steno_gguf_list(f->gguf, key, &l);
    for (; list && steno_gguf_next_int(&l, &v) && v == i; i++)
        continue;
    if (!list || l.left || i != f->info.arch.durations)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: key '%s': known: 0, 1, 2, .. in this order, as many as there are "
                          "scores of durations",
                          f->name, key);
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
            f->name, MAX_CONTEXT, MAX_CHUNK);
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
    if (!steno_gguf_list(f->gguf, locales, &names) ||
        !steno_gguf_list(f->gguf, indices, &numbers) || names.left != numbers.left)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: keys '%s' and '%s' are no lists of one length", f->name, locales,
                          indices);
    while (good && names.left)
        good = steno_gguf_next_text(&names, &p, &n) && steno_gguf_next_int(&numbers, &v) &&
               is_locale(p, n) && v >= 0 && v < f->info.arch.prompts &&
               !steno_buf_printf(&f->prompts, "%c\"%.*s\":%lld", f->prompts.len ? ',' : '{', (int)n,
                                 p, (long long)v);
    if (!good)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: key '%s': a name that is no language, or a number that is none of "
                          "%lld prompts",
                          f->name, locales, (long long)f->info.arch.prompts);
    if (steno_buf_puts(&f->prompts, f->prompts.len ? "}" : "{}"))
        return steno_fail(err, STENO_ERR_LIMIT, "%s: too many prompts", f->name);
    f->info.prompts = f->prompts.data;
    return STENO_OK;
}

steno_status steno_nemo_gguf_pieces(steno_nemo_file *f, const char *key, const char *blank_key,
                                    steno_err *err)
{
    struct steno_gguf_list l;
    int64_t all, blank;
    const char *p;
    size_t n;
    steno_status st = STENO_OK;
    if (!steno_gguf_list(f->gguf, key, &l) || !l.left)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: key '%s' is missing", f->name, key);
    all = (int64_t)l.left;
    if (!steno_gguf_int(f->gguf, blank_key, all, all, &blank))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %s is not %lld, the pieces", f->name,
                          blank_key, (long long)all);
    while (!st && steno_gguf_next_text(&l, &p, &n))
        st = steno_nemo_file_piece(f, p, n, err);
    if (!st && l.left)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: key '%s' has no texts", f->name, key);
    return st;
}
