/* What the readers of GGUF share: names, numbers, durations. */
#include "speech/families/nemo/file_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        struct steno_nemo_tensor t = {
            .type = from->type, .data = from->data, .both = names->n_lstm > 3};
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
