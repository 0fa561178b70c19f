/* feats_stats.npz has sums of features over a corpus; from them come global mean and variance. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "formats/npy.h"
#include "formats/zip.h"
#include "speech/families/espnet/net.h"

#define MAX_STATS ((size_t)16 << 20)

struct stats {
    struct steno_npy count, sum, squares;
};

static bool is_member(const struct steno_zip_member *m, const char *name)
{
    size_t n = strlen(name);
    return m->name_len == n + 4 && memcmp(m->name, name, n) == 0 &&
           memcmp(m->name + n, ".npy", 4) == 0;
}

static steno_status read_member(const char *zip, size_t n, const char *path,
                                const struct steno_zip_member *m, struct steno_npy *out,
                                steno_err *err)
{
    void *bytes;
    steno_status st = steno_zip_read(zip, n, path, m, MAX_STATS, &bytes, err);
    if (st)
        return st;
    steno_aligned_free(out->data);
    out->data = NULL;
    st = steno_npy_parse(bytes, m->size, path, MAX_STATS, out, err);
    free(bytes);
    return st;
}

static steno_status read_members(struct stats *s, const char *zip, size_t n, const char *path,
                                 steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; !st; i++) {
        struct steno_zip_member m;
        st = steno_zip_member(zip, n, path, i, &m, err);
        if (st == STENO_NEED_MORE)
            return STENO_OK;
        if (!st && is_member(&m, "count"))
            st = read_member(zip, n, path, &m, &s->count, err);
        else if (!st && is_member(&m, "sum"))
            st = read_member(zip, n, path, &m, &s->sum, err);
        else if (!st && is_member(&m, "sum_square"))
            st = read_member(zip, n, path, &m, &s->squares, err);
    }
    return st;
}

/* Element i of an array of floats or integers. */
static double element(const struct steno_npy *a, size_t i)
{
    if (a->kind == 'f')
        return a->item == 8 ? ((const double *)a->data)[i] : (double)((const float *)a->data)[i];
    return a->item == 8 ? (double)((const int64_t *)a->data)[i]
                        : (double)((const int32_t *)a->data)[i];
}

static bool numbers(const struct steno_npy *a, size_t n)
{
    bool type = (a->kind == 'f' || a->kind == 'i') && (a->item == 4 || a->item == 8);
    return a->data && type && a->bytes / (size_t)a->item == n;
}

static steno_status make_cmvn(struct steno_espnet *e, const struct stats *s, steno_err *err)
{
    const struct steno_espnet_conf *c = &e->conf;
    size_t n = (size_t)c->bins;
    float mean[512], std[512]; /* conf.c allows at most 512 bins */
    double count;
    if (!numbers(&s->count, 1))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no number count", c->stats);
    if (!numbers(&s->sum, n) || !numbers(&s->squares, n))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: sum and sum_square are not %zu numbers each, as many as mel bins",
                          c->stats, n);
    count = element(&s->count, 0);
    for (size_t i = 0; i < n; i++) {
        double m = element(&s->sum, i) / count;
        double var = element(&s->squares, i) / count - m * m;
        mean[i] = (float)m;
        std[i] = (float)sqrt(fmax(var, 1e-20));
        if (!(count > 0) || !isfinite(mean[i]) || !isfinite(std[i]) || !(std[i] > 0))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: dimension %zu has mean %g and variance %g over %g frames",
                              c->stats, i, m, var, count);
    }
    return steno_cmvn_open(&e->cmvn, c->norm_means ? mean : NULL, c->norm_vars ? std : NULL, n,
                           err);
}

/* Read feats_stats.npz, or the older .npy form: one array [2, bins + 1] with counts in the last
 * column. */
steno_status steno_espnet_open_stats(struct steno_espnet *e, steno_err *err)
{
    struct stats s = {0};
    char *bytes = NULL;
    size_t n;
    steno_status st;
    if (e->conf.norm != STENO_ESPNET_GLOBAL_MVN)
        return STENO_OK;
    st = steno_file_read(e->conf.stats, MAX_STATS, &bytes, &n, err);
    if (!st)
        st = read_members(&s, bytes, n, e->conf.stats, err);
    if (!st)
        st = make_cmvn(e, &s, err);
    free(bytes);
    steno_aligned_free(s.count.data);
    steno_aligned_free(s.sum.data);
    steno_aligned_free(s.squares.data);
    return st;
}
