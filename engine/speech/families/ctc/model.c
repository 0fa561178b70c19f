/* Family ctc_streaming: opens a directory with a model.conf, one network and a list of tokens
 * (docs/models.md). */
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/common/metadata.h"
#include "speech/families/common/part.h"
#include "speech/families/common/precision.h"
#include "speech/families/ctc/internal.h"
#include "speech/families/entries.h"

#define FAMILY "ctc_streaming"

static bool probe_ctc(const char *dir)
{
    return steno_path_readable(dir, "model.conf");
}

static bool languages(const char *dir, struct steno_model_languages *out)
{
    struct steno_model_conf conf = {0};
    char *path = steno_path_join(dir, "model.conf");
    const bool known = path && !steno_model_conf_open(&conf, path, NULL);
    if (known)
        snprintf(out->languages, sizeof out->languages, "%s", conf.language);
    free(path);
    return known;
}

static steno_status no_memory_ctc(const struct steno_ctc_model *m, steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->base.dir);
}

static steno_status open_conf(struct steno_ctc_model *m, steno_err *err)
{
    char *path = steno_path_join(m->base.dir, "model.conf");
    steno_status st = path ? steno_model_conf_open(&m->conf, path, err) : no_memory_ctc(m, err);
    free(path);
    if (st)
        return st;
    if (strcmp(m->conf.family, FAMILY) != 0)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: family '%s' is unknown; there is: " FAMILY, m->base.dir,
                          m->conf.family);
    if (strcmp(m->conf.feature_type, "kaldi-fbank") != 0)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: feature type '%s' is unknown; there is: kaldi-fbank", m->base.dir,
                          m->conf.feature_type);
    return STENO_OK;
}

static steno_status open_tokens_ctc(struct steno_ctc_model *m, steno_err *err)
{
    const struct steno_model_conf *c = &m->conf;
    steno_status st = steno_shell_open_tokens(&m->base, c->tokens, err);
    if (!st && (st = steno_tokens_drop(m->base.tokens, c->drop, err)))
        st = steno_fail_in(err, st, "%s/%s: drop", m->base.dir, c->tokens);
    if (!st && (m->base.blank = steno_tokens_find(m->base.tokens, c->blank)) < 0)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s/%s: blank '%s' is not in the vocabulary",
                        m->base.dir, c->tokens, c->blank);
    /* the blank has no text, and it must not count as a piece that can continue a word */
    return st ? st : steno_tokens_drop(m->base.tokens, c->blank, err);
}

static steno_status open_features_ctc(struct steno_ctc_model *m, steno_err *err)
{
    struct steno_fbank_options o = steno_fbank_kaldi(m->conf.sample_rate, (size_t)m->conf.mel_bins);
    steno_status st;
    o.low = m->conf.low_freq;
    o.high = m->conf.high_freq;
    o.edges = m->conf.snip_edges ? STENO_EDGES_SNIP : STENO_EDGES_REFLECT;
    o.scale = (float)m->conf.sample_scale;
    st = steno_fbank_open(&m->base.front, &o, err);
    return st ? steno_fail_in(err, st, "%s: [features]", m->base.dir) : STENO_OK;
}

static steno_status load_network(struct steno_ctc_model *m, const struct steno_family_open *o,
                                 steno_err *err)
{
    struct steno_network_options opt = steno_part_options(o);
    char *path = steno_path_join(m->base.dir, m->conf.network);
    steno_status st = path ? steno_choose_precision(o->precision, o->cpu, m->conf.int8,
                                                    m->conf.bf16, &opt.precision, err)
                           : no_memory_ctc(m, err);
    if (!st)
        st = steno_network_open(&m->base.part[0].net, path, &opt, err);
    free(path);
    return st;
}

static steno_status check_metadata(const struct steno_ctc_model *m, steno_err *err)
{
    const struct steno_model_conf *c = &m->conf;
    const struct steno_metadata want[] = {
        {"window_frames", c->window_frames}, {"shift_frames", c->shift_frames},
        {"subsampling", c->subsampling},     {"sample_rate", c->sample_rate},
        {"mel_bins", c->mel_bins},           {"vocab_size", steno_tokens_count(m->base.tokens)},
        {"blank_id", m->base.blank},
    };
    return steno_metadata_check(m->base.part[0].net, c->network, want, sizeof want / sizeof *want,
                                err);
}

/* The output is log-probabilities, a frame for each `subsampling` frames of features. */
static steno_status open_network_ctc(struct steno_ctc_model *m, const struct steno_family_open *o,
                                     steno_err *err)
{
    const struct steno_model_conf *c = &m->conf;
    const struct steno_cached_encoder_shape shape = {.window = c->window_frames,
                                                     .bins = c->mel_bins,
                                                     .frames = c->shift_frames / c->subsampling,
                                                     .width = steno_tokens_count(m->base.tokens)};
    steno_status st = load_network(m, o, err);
    if (!st)
        st = check_metadata(m, err);
    return st ? st
              : steno_cached_encoder_bind(&m->base.encoder, m->base.part[0].net, "x", &shape,
                                          c->network, err);
}

static steno_status open_model_ctc(void *model, const struct steno_family_open *o, steno_err *err)
{
    const struct steno_cached_encoder_reader all = {.read = NULL};
    struct steno_ctc_model *m = model;
    steno_status st = open_conf(m, err);
    if (!st)
        st = open_tokens_ctc(m, err);
    if (!st)
        st = open_features_ctc(m, err);
    if (!st)
        st = open_network_ctc(m, o, err);
    if (!st)
        st = steno_shell_try_encoder(&m->base, &all, false, m->conf.network, err);
    return st ? st
              : steno_shell_make_quiet(&m->base, m->base.encoder.shape.frames,
                                       steno_tokens_count(m->base.tokens), err);
}

static void get_info_ctc(const void *model, struct steno_family_info *out)
{
    const struct steno_ctc_model *m = model;
    const struct steno_model_conf *c = &m->conf;
    const double frame = (double)out->hop / c->sample_rate;
    out->name = c->name;
    out->version = c->version;
    out->language = c->language;
    out->closed = true;
    out->license = c->license;
    out->network = c->network;
    out->sample_rate = c->sample_rate;
    out->frame_samples = out->hop * (size_t)c->subsampling;
    out->chunk_seconds = frame * c->shift_frames;
    out->lookahead_seconds = frame * (c->window_frames - c->shift_frames);
    out->endpoint =
        (struct steno_endpoint_rules){c->rule1_silence, c->rule2_silence, c->rule3_length};
    out->word_before = c->word_before;
    out->word_after = c->word_after;
    out->windows.shift = (size_t)c->shift_frames;
    out->windows.left_padding = (size_t)c->lead_frames;
    out->windows.right_padding = (size_t)c->tail_frames;
}

static void describe_ctc(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct steno_ctc_model *m = model;
    const struct steno_model_conf *c = &m->conf;
    fprintf(out, "model      %s %s, %s, language %s, licence %s\n", i->name, i->version, i->family,
            i->language, i->license);
    fprintf(out, "directory  %s\n", i->dir);
    fprintf(out, "features   %s, %d Hz, %d bins, %g to %g Hz\n", c->feature_type, i->sample_rate,
            i->feature_bins, c->low_freq,
            c->high_freq > 0 ? c->high_freq : i->sample_rate / 2.0 + c->high_freq);
    fprintf(out, "network    %s, %d states\n", i->network, m->base.encoder.n_states);
    fprintf(out, "steps      %.0f ms and %.0f ms of lookahead, scores every %.0f ms\n",
            i->chunk_seconds * 1e3, i->lookahead_seconds * 1e3, i->frame_seconds * 1e3);
    fprintf(out, "decoder    %zu tokens, blank %s, beam %d\n", i->vocab_size, c->blank, c->beam);
    steno_shell_describe_limits(i, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct steno_ctc_model),
                                         .stream_bytes = sizeof(struct steno_shell_stream),
                                         .worker_bytes = sizeof(struct steno_shell_worker),
                                         .open = open_model_ctc,
                                         .info = get_info_ctc,
                                         .describe = describe_ctc,
                                         .stream_open = steno_ctc_stream_open};

const struct steno_family steno_family_ctc = {.name = FAMILY,
                                              .probe = probe_ctc,
                                              .languages = languages,
                                              .shell = &shell,
                                              STENO_WINDOWED_CTC};
