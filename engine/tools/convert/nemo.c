#include "tools/convert/sources.h"

#include "tools/convert/conf.h"
#include "tools/convert/nemo_job.h"
#include "base/list.h"
#include "tools/convert/output.h"

#include <stdlib.h>
#include <string.h>

#define CONFIG "model_config.yaml"
#define WEIGHTS "model_weights.ckpt"
#define MAX_WEIGHTS ((size_t)64 << 30)

static bool probe(const struct steno_bundle *b)
{
    return steno_bundle_has(b, CONFIG);
}

static steno_status write_networks(struct steno_nemo_job *j, const struct steno_make_weights *w,
                                   const char *out)
{
    char path[STENO_OUTPUT_PATH];
    steno_status st;
    if (j->a.sortformer.layers)
        return steno_nemo_write_sortformer(&j->a, w, steno_output_network(path, out, "sortformer"),
                                           j->err);
    if (j->ctc)
        return steno_nemo_write_encoder(&j->a, w, j->ctc, steno_output_network(path, out, "model"),
                                        j->err);
    if (j->a.aed.layers) {
        st = steno_nemo_write(steno_nemo_build_aed_encoder, &j->a, w,
                              steno_output_network(path, out, "encoder"), j->err);
        return st ? st
                  : steno_nemo_write(steno_nemo_build_aed_decoder, &j->a, w,
                                     steno_output_network(path, out, "decoder"), j->err);
    }
    st = steno_nemo_write_encoder(&j->a, w, NULL, steno_output_network(path, out, "encoder"),
                                  j->err);
    if (!st)
        st = steno_nemo_write(steno_nemo_build_decoder, &j->a, w,
                              steno_output_network(path, out, "decoder"), j->err);
    if (!st)
        st = steno_nemo_write(steno_nemo_build_joiner, &j->a, w,
                              steno_output_network(path, out, "joiner"), j->err);
    return st;
}

static steno_status write_all(struct steno_nemo_job *j, const char *out)
{
    struct steno_blob blob;
    struct steno_torch *t = NULL;
    steno_status st = steno_bundle_read(j->b, WEIGHTS, MAX_WEIGHTS, &blob, j->err);
    if (!st)
        st = steno_torch_parse(&t, blob.p, blob.n, WEIGHTS, MAX_WEIGHTS, j->err);
    if (!st)
        st = steno_output_make(out, j->err);
    if (!st) {
        const struct steno_make_weights w = {
            .file = WEIGHTS, .torch = t, .map = j->b->archive ? &j->b->map : &blob.map, .root = ""};
        st = write_networks(j, &w, out);
    }
    steno_torch_close(t);
    steno_blob_close(&blob);
    if (!st && j->bpe.len)
        st = steno_output_write(out, "bpe.vocab", j->bpe.data, j->bpe.len, j->err);
    return st || j->a.sortformer.layers
               ? st
               : steno_output_write(out, "tokens.txt", j->tokens.data, j->tokens.len, j->err);
}

static bool takes(const char *flag)
{
    return steno_list_holds("decoder, streaming, lookahead, local-attention", flag);
}

static steno_status convert(const struct steno_bundle *b, const char *out,
                            const struct steno_convert_options *o, steno_err *err)
{
    struct steno_nemo_job j = {.b = b, .o = o, .err = err};
    steno_status st;
    steno_buf_init(&j.tokens, STENO_NEMO_MAX_TEXT);
    steno_buf_init(&j.bpe, STENO_NEMO_MAX_TEXT);
    st = steno_conf_open(&j.y, j.b, CONFIG, STENO_NEMO_MAX_TEXT, j.err);
    if (!st)
        st = steno_nemo_read_conf(&j);
    if (!st && !j.a.sortformer.layers)
        st = steno_nemo_read_tokens(&j);
    if (!st)
        st = write_all(&j, out);
    steno_buf_free(&j.tokens);
    steno_buf_free(&j.bpe);
    steno_yaml_close(j.y);
    return st;
}

const struct steno_convert_source steno_source_nemo = {
    "NeMo", probe, takes, convert,
    "NeMo models (a .nemo archive, or a directory with model_config.yaml and "
    "model_weights.ckpt)"};
