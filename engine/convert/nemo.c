#include "convert/nemo.h"

#include "convert/nemo_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG "model_config.yaml"
#define WEIGHTS "model_weights.ckpt"
#define MAX_WEIGHTS ((size_t)64 << 30)
#define MAX_PATH 4200

bool steno_convert_nemo_probe(const struct steno_bundle *b)
{
    return steno_bundle_has(b, CONFIG);
}

static steno_status read_config(struct steno_nemo_job *j)
{
    struct steno_blob blob;
    steno_status st = steno_bundle_read(j->b, CONFIG, STENO_NEMO_MAX_TEXT, &blob, j->err);
    if (!st)
        st = steno_yaml_parse(&j->y, blob.p, blob.n, CONFIG, j->err);
    steno_blob_close(&blob);
    return st;
}

static steno_status write_file(const char *dir, const char *name, const struct steno_buf *b,
                               steno_err *err)
{
    char path[MAX_PATH];
    FILE *f;
    bool bad;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wbe");
    bad = !f || fwrite(b->data, 1, b->len, f) != b->len;
    if (f && fclose(f))
        bad = true;
    return bad ? steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno)) : STENO_OK;
}

static const char *in_dir(char out[MAX_PATH], const char *dir, const char *name)
{
    snprintf(out, MAX_PATH, "%s/%s", dir, name);
    return out;
}

static steno_status write_networks(struct steno_nemo_job *j, const struct steno_make_weights *w,
                                   const char *out)
{
    char path[MAX_PATH];
    steno_status st;
    if (j->ctc)
        return steno_nemo_write_encoder(&j->a, w, j->ctc, in_dir(path, out, "model.onnx"), j->err);
    st = steno_nemo_write_encoder(&j->a, w, NULL, in_dir(path, out, "encoder.onnx"), j->err);
    if (!st)
        st = steno_nemo_write_decoder(&j->a, w, in_dir(path, out, "decoder.onnx"), j->err);
    if (!st)
        st = steno_nemo_write_joiner(&j->a, w, in_dir(path, out, "joiner.onnx"), j->err);
    return st;
}

static steno_status write_all(struct steno_nemo_job *j, const char *out)
{
    struct steno_blob blob;
    struct steno_torch *t = NULL;
    steno_status st = steno_bundle_read(j->b, WEIGHTS, MAX_WEIGHTS, &blob, j->err);
    if (!st)
        st = steno_torch_parse(&t, blob.p, blob.n, WEIGHTS, MAX_WEIGHTS, j->err);
    if (!st && mkdir(out, 0777) && errno != EEXIST)
        st = steno_fail(j->err, STENO_ERR_IO, "%s: %s", out, strerror(errno));
    if (!st) {
        const struct steno_make_weights w = {
            .file = WEIGHTS, .torch = t, .map = j->b->archive ? &j->b->map : &blob.map, .root = ""};
        st = write_networks(j, &w, out);
    }
    steno_torch_close(t);
    steno_blob_close(&blob);
    if (!st && j->bpe.len)
        st = write_file(out, "bpe.vocab", &j->bpe, j->err);
    return st ? st : write_file(out, "tokens.txt", &j->tokens, j->err);
}

steno_status steno_convert_nemo(const struct steno_bundle *b, const char *out,
                                const struct steno_convert_options *o, steno_err *err)
{
    struct steno_nemo_job j = {.b = b, .o = o, .err = err};
    steno_status st;
    if (strlen(out) > 4000)
        return steno_fail(err, STENO_ERR_INVAL, "a path of %zu bytes", strlen(out));
    steno_buf_init(&j.tokens, STENO_NEMO_MAX_TEXT);
    steno_buf_init(&j.bpe, STENO_NEMO_MAX_TEXT);
    st = read_config(&j);
    if (!st)
        st = steno_nemo_read_conf(&j);
    if (!st)
        st = steno_nemo_read_tokens(&j);
    if (!st)
        st = write_all(&j, out);
    steno_buf_free(&j.tokens);
    steno_buf_free(&j.bpe);
    steno_yaml_close(j.y);
    return st;
}
