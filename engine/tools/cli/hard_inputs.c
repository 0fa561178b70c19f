#include "tools/cli/hard_inputs.h"

#include <math.h>
#include <string.h>

static const char *const names[HARD_KINDS] = {
    [HARD_LARGE] = "numbers of 1e30",       [HARD_HUNDRED] = "numbers of 100",
    [HARD_SMALL] = "numbers of 1e-30",      [HARD_ZEROS] = "zeros",
    [HARD_OUTLIER] = "one outlier of 1000", [HARD_EQUAL] = "rows of equal numbers",
    [HARD_OFFSET] = "numbers of about 50",  [HARD_NAN] = "one NaN",
    [HARD_INFINITY] = "one infinity",
};

const char *hard_inputs_name(enum hard_kind kind)
{
    return names[kind];
}

static bool takes_hard_values(const struct steno_tensor *t)
{
    return t->dtype == STENO_F32 || t->dtype == STENO_F64;
}

static double get(const struct steno_tensor *t, size_t i)
{
    return t->dtype == STENO_F32 ? (double)((const float *)t->data)[i]
                                 : ((const double *)t->data)[i];
}

static void put_element(struct steno_tensor *t, size_t i, double v)
{
    if (t->dtype == STENO_F32)
        ((float *)t->data)[i] = (float)v;
    else
        ((double *)t->data)[i] = v;
}

static double changed(const struct steno_tensor *t, size_t i, size_t row, enum hard_kind kind)
{
    const size_t at = steno_numel(t) / 3; /* of the single number */
    const double v = get(t, i);
    switch (kind) {
    case HARD_LARGE:
        return v * 1e30;
    case HARD_HUNDRED:
        return v * 100;
    case HARD_SMALL:
        return v * 1e-30;
    case HARD_ZEROS:
        return 0;
    case HARD_OUTLIER:
        return i == at ? 1000 : v;
    case HARD_EQUAL:
        return get(t, i / row * row);
    case HARD_OFFSET:
        return v + 50;
    case HARD_NAN:
        return i == at ? (double)NAN : v;
    default:
        return i == at ? (double)INFINITY : v;
    }
}

int hard_inputs_make(struct cli_inputs *in, const steno_network *n,
                     const struct cli_inputs_options *o, enum hard_kind kind)
{
    int count = 0;
    for (int k = 0; k < in->n; k++) {
        struct steno_tensor *t = &in->t[k];
        const size_t elements = steno_numel(t);
        const int rank = t->shape.rank;
        const size_t row = rank && elements ? (size_t)t->shape.dim[rank - 1] : 1;
        if (!takes_hard_values(t) || cli_inputs_given(&o->values, steno_network_input(n, k)->name))
            continue;
        for (size_t i = 0; i < elements; i++)
            put_element(t, i, changed(t, i, row, kind));
        count++;
    }
    return count;
}

void hard_inputs_disturb(struct cli_inputs *in, uint64_t seed, double by)
{
    for (int k = 0; k < in->n; k++)
        for (size_t i = 0; takes_hard_values(&in->t[k]) && i < steno_numel(&in->t[k]); i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u; /* as in inputs.c */
            put_element(&in->t[k], i,
                        get(&in->t[k], i) *
                            (1 + 2 * by * ((double)(seed >> 40) / (double)(1 << 24) - 0.5)));
        }
}
