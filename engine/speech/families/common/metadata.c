#include "speech/families/common/metadata.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

steno_status steno_metadata_check(const steno_network *net, const char *file,
                                  const struct steno_metadata *want, size_t n, steno_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *is = steno_network_meta(net, want[i].key);
        char value[24];
        snprintf(value, sizeof value, "%lld", (long long)want[i].value);
        if (is && strcmp(is, value) != 0)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: metadata %s is %.40s, the model directory says %s", file,
                              want[i].key, is, value);
    }
    return STENO_OK;
}

steno_status steno_metadata_read(const steno_onnx_head *h, const struct steno_metadata_number *want,
                                 size_t n, const char *file, steno_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = steno_onnx_head_meta(h, want[i].key);
        char *end;
        long long v;
        if (!text && !want[i].needed)
            continue;
        if (!text)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: metadata %s is missing", file,
                              want[i].key);
        v = strtoll(text, &end, 10);
        if (end == text || *end || v < want[i].min || v > want[i].max)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: metadata %s is '%.40s', expected %lld to %lld", file,
                              want[i].key, text, (long long)want[i].min, (long long)want[i].max);
        *want[i].to = v;
    }
    return STENO_OK;
}

steno_status steno_metadata_list(const char *text, const char *key, const char *file, float *out,
                                 size_t n, steno_err *err)
{
    const char *p = text;
    size_t k = 0;
    if (!text)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata: %s is missing, expected %zu numbers", file, key, n);
    while (*p && k <= n) {
        char *end;
        const float v = strtof(p, &end);
        if (end == p || !isfinite(v) || (*end && *end != ','))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: metadata: %s: entry %zu is '%.20s', expected a number", file,
                              key, k, p);
        if (k < n)
            out[k] = v;
        k++;
        p = end + (*end == ',');
    }
    if (k != n)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: metadata: %s has %s%zu numbers, expected %zu",
                          file, key, k > n ? "more than " : "", k > n ? n : k, n);
    return STENO_OK;
}

steno_status steno_metadata_cmvn(const steno_onnx_head *h, const char *mean, const char *factor,
                                 const char *file, size_t bins, steno_cmvn **out, steno_err *err)
{
    float neg[STENO_METADATA_BINS], by[STENO_METADATA_BINS];
    steno_status st =
        steno_metadata_list(steno_onnx_head_meta(h, mean), mean, file, neg, bins, err);
    if (!st)
        st = steno_metadata_list(steno_onnx_head_meta(h, factor), factor, file, by, bins, err);
    if (st)
        return st;
    for (size_t i = 0; i < bins; i++)
        neg[i] = -neg[i];
    st = steno_cmvn_open_inverse(out, neg, by, bins, err);
    return st ? steno_fail_in(err, st == STENO_ERR_INVAL ? STENO_ERR_FORMAT : st,
                              "%s: metadata %s, %s", file, mean, factor)
              : STENO_OK;
}
