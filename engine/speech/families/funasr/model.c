#include "speech/families/funasr/model.h"

#include "speech/families/option.h"

static const char *get_meta(const void *arg, const char *key)
{
    return steno_network_meta(arg, key);
}

struct steno_funasr_source steno_funasr_source_of(const struct steno_part_file *p)
{
    return (struct steno_funasr_source){get_meta, p->net, p->name};
}

steno_status steno_funasr_fbank_open(struct steno_shell_model *m, steno_err *err)
{
    const struct steno_fbank_options o = steno_fbank_funasr();
    return steno_fbank_open(&m->front, &o, err);
}

steno_status steno_funasr_model_open(struct steno_funasr_model *m,
                                     const struct steno_family_open *o, const char *stem,
                                     steno_err *err)
{
    struct steno_funasr_source source;
    steno_status st;
    (void)steno_option_get_flag(o->options, o->n_options, "quantized", &m->quantized);
    st = steno_part_file_open(&m->base.part[0], o, stem, m->quantized, err);
    if (st)
        return st;
    source = steno_funasr_source_of(&m->base.part[0]);
    st = steno_funasr_front_meta(&source, STENO_FUNASR_BINS, &m->front.lfr, &m->front.cmvn, err);
    if (!st)
        st = steno_funasr_fbank_open(&m->base, err);
    return st ? steno_fail_in(err, st, "%s", o->dir) : STENO_OK;
}

void steno_funasr_model_close(void *model)
{
    steno_cmvn_close(((struct steno_funasr_model *)model)->front.cmvn);
}

steno_status steno_funasr_tokens_open(struct steno_funasr_model *m, int vocab, steno_err *err)
{
    steno_status st = steno_shell_open_tokens(&m->base, "tokens.txt", err);
    if (!st && steno_tokens_count(m->base.tokens) != vocab)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s/tokens.txt: %d pieces, but vocab_size of %s is %d", m->base.dir,
                        (int)steno_tokens_count(m->base.tokens), m->base.part[0].name, vocab);
    return st;
}

void steno_funasr_describe_front(const struct steno_funasr_front *f,
                                 const struct steno_model_info *i, FILE *out)
{
    fprintf(out, "features   fbank, %d Hz, %d bins, %zu frames side by side every %.0f ms\n",
            i->sample_rate, i->feature_bins, f->lfr.window,
            (double)(f->lfr.shift * STENO_FUNASR_HOP) * 1e3 / STENO_FUNASR_RATE);
}

void steno_funasr_describe(const struct steno_funasr_model *m, const struct steno_model_info *i,
                           FILE *out)
{
    fprintf(out, "model      %s, %s\n", i->name, i->family);
    fprintf(out, "directory  %s\n", i->dir);
    fprintf(out, "network    %s, %zu pieces\n", i->network, i->vocab_size);
    steno_funasr_describe_front(&m->front, i, out);
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
