#include "speech/families/nemo/file_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/ggml_kind.h"

#define BLANK "<blk>"
#define MAX_POSITIONS (1 << 25) /* times columns */
#define MATRIX "encoder.layers.0.feed_forward1.linear1."
#define LSTM_BIAS ".bias_ih_l"

/* ---- completing ---------------------------------------------------------------------------- */

/* An LSTM with one bias gets zeros as the other one, bias_hh. */
static steno_status add_biases(steno_nemo_file *f, steno_err *err)
{
    const size_t n = f->base.n;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++) {
        struct steno_ggml_tensor zeros = f->base.tensor[i];
        const char *bias = strstr(zeros.t.name, LSTM_BIAS);
        char other[STENO_GGUF_MAX_NAME + 64];
        if (!bias)
            continue;
        snprintf(other, sizeof other, "%.*s.bias_hh_l%s", (int)(bias - zeros.t.name), zeros.t.name,
                 bias + strlen(LSTM_BIAS));
        zeros.data = NULL;
        st = steno_ggml_file_add(&f->base, other, &zeros, err);
    }
    return st;
}

static steno_status end_tokens(steno_nemo_file *f, steno_err *err)
{
    steno_status st = STENO_OK;
    f->info.arch.vocab = f->base.pieces;
    if (!f->info.arch.aed.layers) /* an attention decoder has no blank */
        st = steno_ggml_file_piece(&f->base, BLANK, strlen(BLANK), err);
    f->info.tokens = f->base.tokens.data;
    f->info.n_tokens = f->base.tokens.len;
    return st;
}

/* ---- opening ------------------------------------------------------------------------------- */

bool steno_nemo_file_probe(const char *path)
{
    return steno_ggml_kind_of_file(path) == STENO_GGML_PARAKEET;
}

/* What all these models have; and limits, since tables are made of a file's numbers alone. */
static steno_status complete_arch(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    a->bias = steno_ggml_file_extent(&f->base, MATRIX "bias", 0) > 0;
    a->subsampling = a->rotary ? STENO_NEMO_STRIDING_1D : STENO_NEMO_DW_STRIDING;
    a->rel = !a->rotary;
    a->normalize = f->info.per_feature ? "per_feature" : "NA";
    if (a->d % a->heads || a->d % 2 || (a->rotary && a->d / a->heads % 2) ||
        a->factor & (a->factor - 1) || a->positions > MAX_POSITIONS / a->d)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: %lld columns in %lld heads, %lld positions, subsampling by %lld",
                          f->base.name, (long long)a->d, (long long)a->heads,
                          (long long)a->positions, (long long)a->factor);
    return STENO_OK;
}

static steno_status read_all(steno_nemo_file *f, steno_err *err)
{
    steno_status st;
    steno_buf_init(&f->prompts, STENO_NEMO_MAX_PROMPTS);
    f->info.languages = f->languages;
    st = f->base.gguf ? steno_nemo_read_gguf(f, err) : steno_nemo_read_ggml(f, err);
    if (!st)
        st = end_tokens(f, err);
    if (!st)
        st = complete_arch(f, err);
    if (!st && f->one_bias)
        st = add_biases(f, err);
    if (!st)
        st = steno_ggml_file_sort(&f->base, err);
    f->info.blocks = !st && steno_ggml_file_in_blocks(&f->base, MATRIX "weight");
    return st;
}

steno_status steno_nemo_file_open(steno_nemo_file **out, const char *path, const void *bytes,
                                  size_t n, steno_err *err)
{
    steno_nemo_file *f = calloc(1, sizeof *f);
    steno_status st = f ? steno_ggml_file_open(&f->base, path, bytes, n, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    if (!st)
        st = read_all(f, err);
    if (st)
        steno_nemo_file_close(f);
    else
        *out = f;
    return st;
}

void steno_nemo_file_close(steno_nemo_file *f)
{
    if (!f)
        return;
    steno_ggml_file_close(&f->base);
    steno_buf_free(&f->prompts);
    free(f);
}

bool steno_nemo_file_streams(const char *path)
{
    steno_nemo_file *f;
    bool yes;
    if (!steno_nemo_file_probe(path) || steno_nemo_file_open(&f, path, NULL, 0, NULL))
        return false;
    yes = f->info.arch.streaming;
    steno_nemo_file_close(f);
    return yes;
}

steno_status steno_nemo_file_look(steno_nemo_file *f, int64_t frames, steno_err *err)
{
    char known[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < f->n_contexts; i++) {
        if (f->context[i][1] == frames) {
            f->info.arch.left = f->context[i][0];
            f->info.arch.right = frames;
            return STENO_OK;
        }
        if (n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%lld", i ? ", " : "",
                                  (long long)f->context[i][1]);
    }
    return steno_fail(err, STENO_ERR_INVAL, "%s: lookahead %lld: the file has %s", f->base.name,
                      (long long)frames, *known ? known : "none to choose");
}

steno_status steno_nemo_file_check(const steno_nemo_file *f, steno_err *err)
{
    return steno_map_check(&f->base.map, f->base.name, err);
}

const struct steno_nemo_file_info *steno_nemo_file_info(const steno_nemo_file *f)
{
    return &f->info;
}

steno_status steno_nemo_file_build(const steno_nemo_file *f, enum steno_nemo_part part,
                                   struct steno_graph **out, steno_err *err)
{
    const struct steno_nemo_arch *a = &f->info.arch;
    const bool aed = a->aed.layers > 0;
    if (aed && part == STENO_NEMO_JOINER)
        return steno_fail(err, STENO_ERR_INVAL, "%s: Canary has no joiner", f->base.name);
    if (aed)
        return part == STENO_NEMO_ENCODER
                   ? steno_nemo_build_aed_encoder(a, &f->base.weights, out, err)
                   : steno_nemo_build_aed_decoder(a, &f->base.weights, out, err);
    if (f->info.ctc && part != STENO_NEMO_ENCODER)
        return steno_fail(err, STENO_ERR_INVAL, "%s: the encoder has the scores", f->base.name);
    switch (part) {
    case STENO_NEMO_DECODER:
        return steno_nemo_build_decoder(a, &f->base.weights, out, err);
    case STENO_NEMO_JOINER:
        return steno_nemo_build_joiner(a, &f->base.weights, out, err);
    default:
        return steno_nemo_build_encoder(a, &f->base.weights, f->info.ctc ? "decoder." : NULL, out,
                                        err);
    }
}
