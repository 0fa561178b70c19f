#include "speech/families/funasr/model.h"

#include <stdlib.h>

#include "base/path.h"
#include "speech/families/option.h"

static const char *get_meta(const void *arg, const char *key)
{
    return steno_network_meta(arg, key);
}

struct steno_funasr_source steno_funasr_source_of(const struct steno_funasr_model *m)
{
    return (struct steno_funasr_source){get_meta, m->net.net, m->net.name};
}

steno_status steno_funasr_model_open(struct steno_funasr_model *m,
                                     const struct steno_family_open *o, const char *stem,
                                     steno_err *err)
{
    struct steno_funasr_source source;
    steno_status st;
    (void)steno_option_get_flag(o->options, o->n_options, "quantized", &m->quantized);
    st = steno_part_file_open(&m->net, o, stem, m->quantized, err);
    if (st)
        return st;
    source = steno_funasr_source_of(m);
    st = steno_funasr_front_open(&m->front, &source, err);
    return st ? steno_fail_in(err, st, "%s", o->dir) : STENO_OK;
}

void steno_funasr_model_close(void *model)
{
    struct steno_funasr_model *m = model;
    steno_part_file_close(&m->net);
    steno_funasr_front_close(&m->front);
}

steno_status steno_funasr_tokens_open(struct steno_funasr_model *m, int vocab, steno_err *err)
{
    char *path = steno_path_join(m->base.dir, "tokens.txt");
    steno_status st = path ? steno_tokens_open(&m->base.tokens, path, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->base.dir);
    if (!st && steno_tokens_count(m->base.tokens) != vocab)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: %d pieces, but vocab_size of %s is %d", path,
                        (int)steno_tokens_count(m->base.tokens), m->net.name, vocab);
    free(path);
    return st;
}

void steno_funasr_info(const struct steno_funasr_model *m, struct steno_family_info *out)
{
    out->network = m->net.name;
    out->sample_rate = STENO_FUNASR_RATE;
    out->hop = STENO_FUNASR_HOP;
    out->feature_bins = (int)STENO_FUNASR_BINS;
    out->weight_bytes = steno_network_weight_bytes(m->net.net);
}

void steno_funasr_describe_front(const struct steno_funasr_model *m,
                                 const struct steno_model_info *i, FILE *out)
{
    fprintf(out, "features   fbank, %d Hz, %d bins, %zu frames side by side every %.0f ms\n",
            i->sample_rate, i->feature_bins, m->front.lfr.window,
            (double)(m->front.lfr.shift * STENO_FUNASR_HOP) * 1e3 / STENO_FUNASR_RATE);
}

void steno_funasr_describe(const struct steno_funasr_model *m, const struct steno_model_info *i,
                           FILE *out)
{
    fprintf(out, "model      %s, %s\n", i->name, i->family);
    fprintf(out, "directory  %s\n", i->dir);
    fprintf(out, "network    %s, %zu pieces\n", i->network, i->vocab_size);
    steno_funasr_describe_front(m, i, out);
}

steno_status steno_funasr_check_output(const struct steno_part_file *p,
                                       const struct steno_tensor *y, int64_t width, steno_err *err)
{
    char shape[64];
    if (y && y->dtype == STENO_F32 && y->shape.rank == 3 && y->shape.dim[0] == 1 &&
        y->shape.dim[2] == width)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: the output is %s%s, expected f32 [1,T,%lld]",
                      p->name, y ? steno_dtype_name(y->dtype) : "missing",
                      y ? steno_shape_str(&y->shape, shape, sizeof shape) : "", (long long)width);
}
