#include "tools/convert/hf.h"

#include "tools/convert/output.h"
#include "tools/convert/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG "config.json"
#define MAX_FILE ((size_t)64 << 20)

/* ---- config.json ----------------------------------------------------------------------------- */

static const struct steno_json_node *get_key(struct steno_hf_conf *c, const char *key)
{
    const struct steno_json_node *n = c->st ? NULL : steno_json_get(c->root, key);
    return n && n->kind != STENO_JSON_NULL ? n : NULL;
}

static void expected(struct steno_hf_conf *c, const struct steno_json_node *n, const char *key,
                     const char *what)
{
    if (!c->st)
        c->st = steno_fail(c->err, STENO_ERR_FORMAT, "%s: line %zu: %s is not %s", c->file, n->line,
                           key, what);
}

void steno_hf_int(struct steno_hf_conf *c, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const struct steno_json_node *n = get_key(c, key);
    char range[64];
    snprintf(range, sizeof range, "a whole number in %lld..%lld", (long long)min, (long long)max);
    if (n && !steno_json_int(n, min, max, out))
        expected(c, n, key, range);
}

void steno_hf_ints(struct steno_hf_conf *c, const char *key, int64_t min, int64_t max, int max_n,
                   int64_t *out, int *count)
{
    const struct steno_json_node *n = get_key(c, key);
    int k = 0;
    if (!n)
        return;
    if (n->kind != STENO_JSON_LIST || !n->n || n->n > (size_t)max_n) {
        expected(c, n, key, "a list of whole numbers, or has too many");
        return;
    }
    for (const struct steno_json_node *e = n->first; e; e = e->next)
        if (!steno_json_int(e, min, max, &out[k++])) {
            expected(c, n, key, "a list of whole numbers in the range of its network");
            return;
        }
    *count = k;
}

void steno_hf_flag(struct steno_hf_conf *c, const char *key, bool *out)
{
    const struct steno_json_node *n = get_key(c, key);
    if (n && !steno_json_bool(n, out))
        expected(c, n, key, "true or false");
}

void steno_hf_text(struct steno_hf_conf *c, const char *key, const char **out)
{
    const struct steno_json_node *n = get_key(c, key);
    if (steno_json_text(n))
        *out = n->text;
    else if (n)
        expected(c, n, key, "a text");
}

void steno_hf_number(struct steno_hf_conf *c, const char *key, double min, double max, double *out)
{
    const struct steno_json_node *n = get_key(c, key);
    double v = n && n->kind == STENO_JSON_NUMBER ? strtod(n->text, NULL) : min - 1;
    if (!n)
        return;
    if (v >= min && v <= max)
        *out = v;
    else
        expected(c, n, key, "a number in its range");
}

void steno_hf_refuse(struct steno_hf_conf *c, const char *key, const char *value, const char *known)
{
    if (!c->st)
        c->st = steno_fail(c->err, STENO_ERR_UNSUPPORTED, "%s: %s: %.100s; known: %s", c->file, key,
                           value, known);
}

void steno_hf_only(struct steno_hf_conf *c, const char *key, const char *only)
{
    const struct steno_json_node *n = get_key(c, key);
    if (n && (!n->text || strcmp(n->text, only)))
        steno_hf_refuse(c, key, n->text ? n->text : "a list or object", only);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Networks may be written beside the checkpoint. */
static bool is_in_place(const struct steno_hf_job *j)
{
    struct stat a, b;
    return !j->b->archive && !stat(j->b->path, &a) && !stat(j->out, &b) && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

steno_status steno_hf_write(const struct steno_hf_job *j, const char *name, const void *p, size_t n)
{
    return steno_output_write(j->out, name, p, n, j->err);
}

steno_status steno_hf_copy(struct steno_hf_job *j, const char *name, bool needed)
{
    struct steno_blob blob = {0};
    steno_status st;
    if (!needed && !steno_bundle_has(j->b, name))
        return STENO_OK;
    st = steno_bundle_read(j->b, name, MAX_FILE, &blob, j->err);
    if (!st && !is_in_place(j))
        st = steno_hf_write(j, name, blob.p, blob.n);
    steno_blob_close(&blob);
    return st;
}

/* ---- the kinds of network -------------------------------------------------------------------- */

static const struct kind {
    const char *type;
    steno_status (*convert)(struct steno_hf_job *j);
} kinds[] = {
    {"wav2vec2", steno_hf_convert_ctc},        {"hubert", steno_hf_convert_ctc},
    {"wavlm", steno_hf_convert_ctc},           {"data2vec-audio", steno_hf_convert_ctc},
    {"moonshine", steno_hf_convert_moonshine},
};

static const struct kind *model_kind(struct steno_hf_conf *c)
{
    const char *type = NULL;
    char known[400] = "";
    steno_hf_text(c, "model_type", &type);
    if (c->st)
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(known);
        if (type && !strcmp(type, kinds[i].type))
            return &kinds[i];
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", kinds[i].type);
    }
    steno_hf_refuse(c, "model_type", type ? type : "missing", known);
    return NULL;
}

static bool probe(const struct steno_bundle *b)
{
    return steno_bundle_has(b, CONFIG) && steno_hf_weights_present(b);
}

static steno_status convert(const struct steno_bundle *b, const char *out,
                            const struct steno_convert_options *o, steno_err *err)
{
    struct steno_hf_conf conf = {.file = CONFIG, .err = err};
    struct steno_hf_job j = {.b = b, .out = out, .conf = &conf, .err = err};
    struct steno_blob blob = {0};
    steno_json *json = NULL;
    const struct kind *kind = NULL;
    steno_status st = steno_bundle_read(b, CONFIG, MAX_FILE, &blob, err);
    (void)o;
    if (!st)
        st = steno_json_parse(&json, blob.p, blob.n, CONFIG, err);
    if (!st) {
        conf.root = steno_json_root(json);
        kind = model_kind(&conf);
        st = conf.st;
    }
    if (!st)
        st = steno_hf_weights_open(&j.weights, b, err);
    if (!st)
        st = steno_output_make(out, err);
    if (!st)
        st = kind->convert(&j);
    if (!st)
        st = steno_hf_copy(&j, CONFIG, true); /* last: the directory is complete */
    steno_hf_weights_close(j.weights);
    steno_json_close(json);
    steno_blob_close(&blob);
    return st;
}

const struct steno_convert_source steno_source_hf = {
    "Hugging Face", probe, NULL, convert,
    "Hugging Face models of wav2vec2, hubert, wavlm, data2vec-audio, moonshine (a directory "
    "with config.json, model.safetensors or pytorch_model.bin)"};
