/* wenet/utils/cmvn.py: sums, sums of squares and the number of frames. */
#include "tools/convert/wenet_conf.h"

#include "formats/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_VARIANCE 1e-20

static steno_status finish_cmvn(const char *name, size_t bands, const double *sum,
                                const double *square, double count, float *mean, float *istd,
                                steno_err *err)
{
    for (size_t i = 0; i < bands; i++) {
        const double m = sum[i] / count, v = square[i] / count - m * m;
        mean[i] = (float)m;
        istd[i] = (float)(1 / sqrt(v < LEAST_VARIANCE ? LEAST_VARIANCE : v));
        if (!(count > 0) || !isfinite(mean[i]) || !isfinite(istd[i]) || !(istd[i] > 0))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: the statistics of band %zu are no numbers", name, i);
    }
    return STENO_OK;
}

static bool parse_number(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return *text && !*end && isfinite(*out);
}

static steno_status json_list(const steno_json *j, const char *key, const char *name, size_t bands,
                              double *out, steno_err *err)
{
    const struct steno_json_node *list = steno_json_get(steno_json_root(j), key);
    size_t i = 0;
    if (!list || list->kind != STENO_JSON_LIST || list->n != bands)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %s is no list of %zu numbers", name, key,
                          bands);
    for (const struct steno_json_node *n = list->first; n; n = n->next, i++)
        if (n->kind != STENO_JSON_NUMBER || !parse_number(n->text, &out[i]))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: line %zu: %s[%zu] is no number", name,
                              n->line, key, i);
    return STENO_OK;
}

static steno_status parse_json(const void *bytes, size_t n, const char *name, size_t bands,
                               double *sum, double *square, double *count, steno_err *err)
{
    steno_json *j = NULL;
    const struct steno_json_node *frames;
    steno_status st = steno_json_parse(&j, bytes, n, name, err);
    if (!st)
        st = json_list(j, "mean_stat", name, bands, sum, err);
    if (!st)
        st = json_list(j, "var_stat", name, bands, square, err);
    frames = st ? NULL : steno_json_get(steno_json_root(j), "frame_num");
    if (!st && (!frames || frames->kind != STENO_JSON_NUMBER || !parse_number(frames->text, count)))
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: frame_num is no number", name);
    steno_json_close(j);
    return st;
}

/* "[ sums count", "squares 0 ]", separated by blanks or lines. */
static steno_status parse_kaldi(char *text, const char *name, size_t bands, double *sum,
                                double *square, double *count, steno_err *err)
{
    const size_t want = 2 * bands + 2;
    char *save = NULL, *word = strtok_r(text, " \t\r\n", &save);
    if (!word || strcmp(word, "["))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: neither JSON nor the text of Kaldi's statistics: it does not begin "
                          "with { or [ (write them with compute-cmvn-stats --binary=false)",
                          name);
    for (size_t i = 0; i < want; i++) {
        double v = 0;
        word = strtok_r(NULL, " \t\r\n", &save);
        if (!word || !parse_number(word, &v))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: entry %zu is '%.20s', expected a number",
                              name, i, word ? word : "missing");
        if (i < bands)
            sum[i] = v;
        else if (i == bands)
            *count = v;
        else if (i <= 2 * bands)
            square[i - bands - 1] = v;
    }
    word = strtok_r(NULL, " \t\r\n", &save);
    if (!word || strcmp(word, "]"))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected %zu numbers and ]", name, want);
    return STENO_OK;
}

steno_status steno_wenet_cmvn_parse(const void *bytes, size_t n, const char *name, size_t bands,
                                    float *mean, float *istd, steno_err *err)
{
    double *x = calloc(2 * bands, sizeof *x), count = 0;
    char *text = malloc(n + 1);
    steno_status st;
    size_t at = 0;
    if (!x || !text) {
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    } else {
        memcpy(text, bytes, n);
        text[n] = '\0';
        at = strspn(text, " \t\r\n");
        st = text[at] == '{' ? parse_json(bytes, n, name, bands, x, x + bands, &count, err)
                             : parse_kaldi(text, name, bands, x, x + bands, &count, err);
    }
    if (!st)
        st = finish_cmvn(name, bands, x, x + bands, count, mean, istd, err);
    free(text);
    free(x);
    return st;
}
