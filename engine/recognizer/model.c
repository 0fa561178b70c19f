/* Opening a model directory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cpu.h"
#include "recognizer/internal.h"

static char *join(const char *dir, const char *file)
{
    size_t n = strlen(dir), size = n + strlen(file) + 2;
    char *p = malloc(size);
    if (p)
        snprintf(p, size, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", file);
    return p;
}

static bool is_missing(const char *path)
{
    return access(path, F_OK) != 0 && errno == ENOENT;
}

static steno_status open_conf(steno_model *m, steno_err *err)
{
    char *path = join(m->dir, "model.conf");
    steno_status st;
    if (!path)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    if (is_missing(path) && !is_missing(m->dir))
        st = steno_fail(err, STENO_ERR_IO,
                        "%s: neither model.conf nor espnet_onnx's config.yaml is in it: not a "
                        "model's directory",
                        m->dir);
    else
        st = steno_model_conf_open(&m->conf, path, err);
    free(path);
    if (st)
        return st;
    if (strcmp(m->conf.family, "ctc_streaming") != 0)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: family '%s' is unknown; there is: ctc_streaming", m->dir,
                          m->conf.family);
    if (strcmp(m->conf.feature_type, "kaldi-fbank") != 0)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: feature type '%s' is unknown; there is: kaldi-fbank", m->dir,
                          m->conf.feature_type);
    return STENO_OK;
}

static steno_status open_tokens(steno_model *m, steno_err *err)
{
    char *path = join(m->dir, m->conf.tokens);
    steno_status st;
    if (!path)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    st = steno_tokens_open(&m->tokens, path, err);
    if (!st && (st = steno_tokens_drop(m->tokens, m->conf.drop, err)))
        st = steno_fail_in(err, st, "%s: drop", path);
    if (!st && (m->blank = steno_tokens_find(m->tokens, m->conf.blank)) < 0)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: blank '%s' is not in the vocabulary", path,
                        m->conf.blank);
    /* the blank is never written, and does not count as a piece that could go on a word */
    if (!st)
        st = steno_tokens_drop(m->tokens, m->conf.blank, err);
    free(path);
    return st;
}

static steno_status open_network(steno_model *m, const struct steno_model_options *mo,
                                 steno_err *err)
{
    struct steno_network_options opt = {.cpu = mo ? mo->cpu : NULL,
                                        .cache_dir = steno_cache_dir(),
                                        .observer = mo ? mo->observer : NULL,
                                        .opt_level = mo && mo->plain ? 0 : -1};
    char *path = join(m->dir, m->conf.network);
    steno_status st = steno_model_precision(mo, &m->conf, &opt.precision, err);
    if (st) {
        free(path);
        return st;
    }
    if (!path)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    st = steno_network_open(&m->net, path, &opt, err);
    free(path);
    if (st)
        return st;
    return steno_ctc_network_bind(&m->ctc, m->net, &m->conf, steno_tokens_count(m->tokens),
                                  m->blank, err);
}

static steno_status open_features(steno_model *m, steno_err *err)
{
    struct steno_fbank_options o = steno_fbank_kaldi(m->conf.sample_rate, (size_t)m->conf.mel_bins);
    steno_status st;
    o.low = m->conf.low_freq;
    o.high = m->conf.high_freq;
    o.edges = m->conf.snip_edges ? STENO_EDGES_SNIP : STENO_EDGES_REFLECT;
    o.scale = (float)m->conf.sample_scale;
    st = steno_fbank_open(&m->front, &o, err);
    if (st)
        return steno_fail_in(err, st, "%s: [features]", m->dir);
    m->hop = steno_fbank_shift(m->front);
    return STENO_OK;
}

steno_status steno_model_precision(const struct steno_model_options *opt,
                                   const struct steno_model_conf *conf, enum steno_precision *out,
                                   steno_err *err)
{
    unsigned cpu;
    steno_status st;
    *out = STENO_FP32;
    if (!opt || !opt->precision)
        return STENO_OK;
    if (!steno_precision_find(opt->precision, out))
        return steno_fail(err, STENO_ERR_INVAL,
                          "precision is '%.40s', expected auto, fp32, bf16, fp16, int8",
                          opt->precision);
    if (opt->compat && *out == STENO_AUTO_WEIGHTS) /* results of another program, to the bit */
        *out = STENO_FP32;
    if (*out != STENO_AUTO_WEIGHTS || !conf || !(conf->int8 || conf->bf16))
        return STENO_OK;
    st = steno_cpu_choose(opt->cpu, &cpu, err);
    if (!st)
        *out = conf->int8 && cpu & STENO_CPU_VNNI   ? STENO_INT8_WEIGHTS
               : conf->bf16 && cpu & STENO_CPU_BF16 ? STENO_BF16_WEIGHTS
                                                    : STENO_FP32;
    return st;
}

static bool has_conf(const char *dir)
{
    char *path = join(dir, "model.conf");
    bool has = path && access(path, R_OK) == 0;
    free(path);
    return has;
}

static steno_status open_ctc(steno_model *m, const struct steno_model_options *opt, steno_err *err)
{
    steno_status st;
    if (opt && (opt->quantized || opt->compat))
        return steno_fail(err, STENO_ERR_INVAL,
                          "%s: quantized and compat are for directories of espnet_onnx", m->dir);
    st = open_conf(m, err);
    if (!st)
        st = open_tokens(m, err);
    if (!st)
        st = open_features(m, err);
    if (!st)
        st = open_network(m, opt, err);
    return st ? st : steno_stepper_try(m, err);
}

steno_status steno_model_open(steno_model **out, const char *dir,
                              const struct steno_model_options *opt, steno_err *err)
{
    steno_model *m = calloc(1, sizeof *m);
    steno_status st = STENO_ERR_NOMEM;
    if (m)
        m->dir = strdup(dir);
    if (!m || !m->dir) {
        free(m);
        return steno_fail(err, st, "%s: out of memory", dir);
    }
    m->threads = opt && opt->threads > 0 ? opt->threads : 1;
    st = !has_conf(dir) && steno_espnet_is_dir(dir) ? steno_espnet_model_open(m, opt, err)
                                                    : open_ctc(m, opt, err);
    if (st) {
        steno_model_close(m);
        return st;
    }
    *out = m;
    return STENO_OK;
}

void steno_model_close(steno_model *m)
{
    if (!m)
        return;
    steno_espnet_model_close(m);
    steno_ctc_network_unbind(&m->ctc);
    steno_network_close(m->net);
    steno_fbank_close(m->front);
    steno_tokens_close(m->tokens);
    free(m->dir);
    free(m);
}

void steno_model_get_info(const steno_model *m, struct steno_model_info *info)
{
    const struct steno_model_conf *c = &m->conf;
    double frame = (double)m->hop / c->sample_rate;
    size_t weights =
        m->espnet ? steno_espnet_weight_bytes(m->espnet) : steno_network_weight_bytes(m->net);
    *info = (struct steno_model_info){
        .dir = m->dir,
        .name = c->name,
        .version = c->version,
        .family = c->family,
        .language = c->language,
        .license = c->license,
        .network = c->network,
        .sample_rate = c->sample_rate,
        .feature_bins = c->mel_bins,
        .frame_seconds = frame * c->subsampling,
        .chunk_seconds = frame * c->shift_frames,
        .lookahead_seconds = frame * (c->window_frames - c->shift_frames),
        .weight_bytes = weights,
        .stream_bytes = m->stream_bytes,
        .vocab_size = (size_t)steno_tokens_count(m->tokens),
        .endpoint = {c->rule1_silence, c->rule2_silence, c->rule3_length},
    };
}

void steno_model_describe(const steno_model *m, FILE *out)
{
    const struct steno_model_conf *c = &m->conf;
    struct steno_model_info i;
    if (m->espnet) {
        steno_espnet_describe(m, out);
        return;
    }
    steno_model_get_info(m, &i);
    fprintf(out, "model      %s %s, %s, language %s, licence %s\n", i.name, i.version, i.family,
            i.language, i.license);
    fprintf(out, "directory  %s\n", i.dir);
    fprintf(out, "features   %s, %d Hz, %d bins, %g to %g Hz\n", c->feature_type, i.sample_rate,
            i.feature_bins, c->low_freq,
            c->high_freq > 0 ? c->high_freq : i.sample_rate / 2.0 + c->high_freq);
    fprintf(out, "network    %s, %d states\n", i.network, m->ctc.n_states);
    fprintf(out, "steps      %.0f ms and %.0f ms of lookahead, scores every %.0f ms\n",
            i.chunk_seconds * 1e3, i.lookahead_seconds * 1e3, i.frame_seconds * 1e3);
    fprintf(out, "decoder    %zu tokens, blank %s, beam %d\n", i.vocab_size, c->blank, c->beam);
    fprintf(out, "endpoint   %g s of silence, %g s after speech, %g s at most\n",
            i.endpoint.silence_alone, i.endpoint.silence_after, i.endpoint.longest);
    fprintf(out, "memory     weights %.2f MiB shared, %.2f MiB for each stream\n",
            (double)i.weight_bytes / 1048576, (double)i.stream_bytes / 1048576);
}
