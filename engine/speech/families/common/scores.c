#include "speech/families/common/scores.h"

#include <math.h>

int32_t steno_scores_likeliest(const float *x, int n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

void steno_log_softmax(const float *x, size_t n, float *out)
{
    double sum = 0;
    float max = x[0];
    for (size_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)(x[i] - max));
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] - max - (float)log(sum);
}

steno_status steno_scores_check(const float *scores, size_t n, const char *file, steno_err *err)
{
    int bad = 0; /* no early exit: the loop is vectorized */
    for (size_t i = 0; i < n; i++)
        bad |= scores[i] != scores[i];
    return bad ? steno_fail(err, STENO_ERR_FORMAT, "%s: gave scores that are not numbers", file)
               : STENO_OK;
}
