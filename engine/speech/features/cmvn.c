#include "speech/features/cmvn.h"

#include <math.h>
#include <stdlib.h>

struct steno_cmvn {
    size_t dim;
    float *mean, *std;
};

static steno_cmvn *make(size_t dim)
{
    steno_cmvn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->dim = dim;
    c->mean = calloc(dim ? dim : 1, sizeof *c->mean);
    c->std = calloc(dim ? dim : 1, sizeof *c->std);
    if (c->mean && c->std)
        return c;
    steno_cmvn_close(c);
    return NULL;
}

static steno_status check_cmvn(const steno_cmvn *c, steno_err *err)
{
    for (size_t i = 0; i < c->dim; i++) {
        if (!isfinite(c->mean[i]) || !isfinite(c->std[i]) || c->std[i] <= 0)
            return steno_fail(err, STENO_ERR_INVAL, "cmvn: dimension %zu has mean %g, std %g", i,
                              (double)c->mean[i], (double)c->std[i]);
    }
    return STENO_OK;
}

static steno_status finish_statistics(steno_cmvn **out, steno_cmvn *c, steno_err *err)
{
    steno_status st = check_cmvn(c, err);
    if (st)
        steno_cmvn_close(c);
    else
        *out = c;
    return st;
}

steno_status steno_cmvn_open(steno_cmvn **out, const float *mean, const float *std, size_t dim,
                             steno_err *err)
{
    steno_cmvn *c = make(dim);
    if (!c)
        return steno_fail(err, STENO_ERR_NOMEM, "cmvn: out of memory");
    for (size_t i = 0; i < dim; i++) {
        c->mean[i] = mean ? mean[i] : 0;
        c->std[i] = std ? std[i] : 1;
    }
    return finish_statistics(out, c, err);
}

steno_status steno_cmvn_open_inverse(steno_cmvn **out, const float *neg_mean, const float *inv_std,
                                     size_t dim, steno_err *err)
{
    steno_cmvn *c = make(dim);
    if (!c)
        return steno_fail(err, STENO_ERR_NOMEM, "cmvn: out of memory");
    for (size_t i = 0; i < dim; i++) {
        c->mean[i] = -neg_mean[i];
        c->std[i] = 1 / inv_std[i]; /* 0 gives no finite number */
    }
    return finish_statistics(out, c, err);
}

void steno_cmvn_close(steno_cmvn *c)
{
    if (!c)
        return;
    free(c->mean);
    free(c->std);
    free(c);
}

void steno_cmvn_apply(const steno_cmvn *c, float *x, size_t frames)
{
    for (size_t t = 0; t < frames; t++, x += c->dim)
        for (size_t i = 0; i < c->dim; i++)
            x[i] = (x[i] - c->mean[i]) / c->std[i];
}

void steno_cmvn_utterance(float *x, size_t frames, size_t dim, const struct steno_utterance_norm *o)
{
    for (size_t i = 0; i < dim; i++) {
        double sum = 0, square = 0, mean, std;
        size_t t;
        for (t = 0; t < frames; t++)
            sum += (double)x[t * dim + i];
        mean = frames ? sum / (double)frames : 0;
        for (t = 0; t < frames; t++) {
            double d = (double)x[t * dim + i] - mean;
            if (!o->keep_means)
                x[t * dim + i] = (float)d;
            square += d * d;
        }
        if (!o->vars || frames < (size_t)o->ddof + 1)
            continue;
        std = sqrt(square / (double)(frames - o->ddof));
        std = (std > o->least ? std : o->least) + o->eps;
        for (t = 0; t < frames; t++)
            x[t * dim + i] = (float)((double)x[t * dim + i] / std);
    }
}
