/* Opens a directory with a model of NeMo: configuration, tokens, networks, features. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/part.h"
#include "speech/families/common/precision.h"
#include "speech/families/nemo/internal.h"
#include "speech/families/option.h"
#include "speech/features/logmel.h"

#define BLANK "<blk>"
#define UNKNOWN "<unk>"
#define POSITIONS 5000 /* encoder frames for which NeMo's exports have positions */

static const char *const ending_pieces[STENO_NEMO_ENDINGS] = {"<EOU>", "<EOB>"};

static steno_status no_memory_nemo(const struct steno_nemo_model *m, steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->conf.dir);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static steno_status check_vocabulary(struct steno_nemo_model *m, steno_err *err)
{
    const struct steno_nemo_conf *c = &m->conf;
    const int32_t n = steno_tokens_count(m->base.tokens);
    const int32_t blanks = c->kind != STENO_NEMO_CANARY;
    m->unknown = steno_tokens_find(m->base.tokens, UNKNOWN);
    m->base.blank = steno_tokens_find(m->base.tokens, BLANK);
    for (int i = 0; i < STENO_NEMO_ENDINGS; i++)
        m->endings[i] = steno_tokens_find(m->base.tokens, ending_pieces[i]);
    if (blanks && m->base.blank != n - 1)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s/%s: the last of %d tokens is '%.40s', expected " BLANK, c->dir,
                          c->tokens, (int)n, steno_tokens_piece(m->base.tokens, n - 1));
    if (c->vocab && c->vocab + blanks != n)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s/%s: %d tokens, expected %lld: metadata vocab_size of %s%s", c->dir,
                          c->tokens, (int)n, (long long)c->vocab + blanks, c->encoder,
                          blanks ? ", and " BLANK : "");
    return STENO_OK;
}

/* Marks of Canary, <|...|>, have no text. */
static steno_status drop_marks(struct steno_nemo_model *m, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int32_t i = 0; i < steno_tokens_count(m->base.tokens) && !st; i++) {
        const char *piece = steno_tokens_piece(m->base.tokens, i);
        const size_t n = strlen(piece);
        if ((n > 4 && strncmp(piece, "<|", 2) == 0 && strcmp(piece + n - 2, "|>") == 0 &&
             !strpbrk(piece, " \t")) ||
            strcmp(piece, "<pad>") == 0)
            st = steno_tokens_drop(m->base.tokens, piece, err);
    }
    return st;
}

static steno_status open_tokens_nemo(struct steno_nemo_model *m, steno_err *err)
{
    const struct steno_nemo_file_info *i = m->file ? steno_nemo_file_info(m->file) : NULL;
    char *path = steno_path_join(m->conf.dir, m->conf.tokens);
    steno_status st = !path ? no_memory_nemo(m, err)
                      : i   ? steno_tokens_parse(&m->base.tokens, i->tokens, i->n_tokens, path, err)
                            : steno_tokens_open(&m->base.tokens, path, err);
    free(path);
    if (!st)
        st = check_vocabulary(m, err);
    if (!st && m->conf.kind == STENO_NEMO_CANARY)
        st = drop_marks(m, err);
    else if (!st)
        st = steno_tokens_drop(m->base.tokens, BLANK, err);
    if (!st && m->unknown >= 0)
        st = steno_tokens_drop(m->base.tokens, UNKNOWN, err);
    for (int k = 0; k < STENO_NEMO_ENDINGS && !st; k++)
        if (m->endings[k] >= 0)
            steno_tokens_hide(m->base.tokens, &m->endings[k], 1);
    return st;
}

/* The languages of an encoder with a prompt, whose marks are not written. */
static steno_status open_prompts(struct steno_nemo_model *m, steno_err *err)
{
    const struct steno_nemo_file_info *f = m->file ? steno_nemo_file_info(m->file) : NULL;
    steno_onnx_head *h = NULL;
    steno_status st =
        f ? steno_nemo_prompts_parse(&m->prompts, f->prompts, f->automatic, m->conf.encoder, err)
          : steno_network_file_head(&h, m->conf.dir, m->conf.encoder, err);
    if (!st && !f)
        st = steno_nemo_prompts_read(&m->prompts, h, m->conf.encoder, err);
    steno_onnx_head_close(h);
    for (int32_t i = 0; i < steno_tokens_count(m->base.tokens) && !st; i++)
        if (steno_nemo_prompts_is_mark(steno_tokens_piece(m->base.tokens, i)))
            steno_tokens_hide(m->base.tokens, &i, 1);
    return st ? steno_fail_in(err, st, "%s", m->conf.dir) : STENO_OK;
}

/* ---- networks -------------------------------------------------------------------------------- */

/* A network that is made from one file. */
struct made_nemo {
    const steno_nemo_file *file;
    enum steno_nemo_part part;
};

static steno_status make_network(void *arg, struct steno_graph **out, steno_err *err)
{
    const struct made_nemo *made = arg;
    return steno_nemo_file_build(made->file, made->part, out, err);
}

/* name: of its file, or of the part of one file. */
static steno_status open_network_nemo(struct steno_nemo_model *m, enum steno_nemo_part part,
                                      const char *name, const struct steno_family_open *o,
                                      steno_err *err)
{
    steno_network **out = &m->base.part[part].net;
    struct made_nemo made = {m->file, part};
    const struct steno_graph_source source = {make_network, &made, name};
    struct steno_network_options opt = steno_part_options(o);
    char *path;
    steno_status st;
    if (m->file)
        return steno_part_made_open(out, o, &source, steno_nemo_file_info(m->file)->blocks, err);
    path = steno_path_join(m->conf.dir, name);
    st = steno_choose_precision(o->precision, o->cpu, false, false, &opt.precision, err);
    if (!st)
        st = path ? steno_network_open(out, path, &opt, err) : no_memory_nemo(m, err);
    free(path);
    return st;
}

static steno_status open_networks_nemo(struct steno_nemo_model *m,
                                       const struct steno_family_open *o, steno_err *err)
{
    const struct steno_nemo_conf *c = &m->conf;
    steno_status st = open_network_nemo(m, STENO_NEMO_ENCODER, c->encoder, o, err);
    if (!st && c->decoder)
        st = open_network_nemo(m, STENO_NEMO_DECODER, c->decoder, o, err);
    if (!st && c->joiner)
        st = open_network_nemo(m, STENO_NEMO_JOINER, c->joiner, o, err);
    m->encoder = m->base.part[STENO_NEMO_ENCODER].net;
    m->decoder = m->base.part[STENO_NEMO_DECODER].net;
    m->joiner = m->base.part[STENO_NEMO_JOINER].net;
    if (m->file && steno_nemo_file_check(m->file, err))
        st = STENO_ERR_IO;
    /* in f32 activations are rounded over the range of a whole batch, as the file says */
    m->alone = c->quantized && o->precision == STENO_FP32;
    return st;
}

static bool is_length(const struct steno_value *v)
{
    return (v->dtype == STENO_I64 || v->dtype == STENO_I32) && v->shape.rank == 1;
}

/* Canary's encoder takes frames of bins; the others, bins of frames. */
static steno_status bind_encoder(struct steno_nemo_model *m, steno_err *err)
{
    const struct steno_nemo_conf *c = &m->conf;
    const bool canary = c->kind == STENO_NEMO_CANARY;
    const bool rows = canary && !c->onnx_asr; /* frames before bins */
    const char *audio = rows ? "x" : "audio_signal";
    const char *length = rows ? "x_len" : "length";
    const char *outputs = rows     ? ", outputs enc_states, enc_len and enc_mask"
                          : canary ? ", outputs encoder_embeddings and encoder_mask"
                                   : "";
    const struct steno_value *x;
    int64_t bins;
    m->audio = steno_network_find_input(m->encoder, audio);
    m->length = steno_network_find_input(m->encoder, length);
    if (c->gigaam && m->audio < 0) {
        m->audio = steno_network_find_input(m->encoder, "features");
        m->length = steno_network_find_input(m->encoder, "feature_lengths");
    }
    m->prompt = steno_network_find_input(m->encoder, "prompt_index");
    m->scores = 0;
    m->lengths = steno_network_n_outputs(m->encoder) > 1 && /* a mask for onnx-asr's Canary */
                         (steno_network_output(m->encoder, 1)->dtype == STENO_I64 ||
                          steno_network_output(m->encoder, 1)->dtype == STENO_I32)
                     ? 1
                     : -1;
    if (m->audio < 0 || m->length < 0 ||
        steno_network_n_outputs(m->encoder) < (rows     ? 3
                                               : canary ? 2
                                                        : 1) ||
        !is_length(steno_network_input(m->encoder, m->length)))
        return steno_fail(err, STENO_ERR_FORMAT, "%s/%s: expected inputs %s [N,%s] and %s [N]%s",
                          c->dir, c->encoder, audio, rows ? "frames,bins" : "bins,frames", length,
                          outputs);
    x = steno_network_input(m->encoder, m->audio);
    bins = x->shape.rank == 3 ? x->shape.dim[rows ? 2 : 1] : -1;
    if (x->dtype != STENO_F32 || x->shape.rank != 3 || (bins < 0 && !c->bins) ||
        (c->bins && bins >= 0 && bins != c->bins))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s/%s: %s has %lld bins, expected the %lld of its metadata", c->dir,
                          c->encoder, audio, (long long)bins, (long long)c->bins);
    m->conf.bins = c->bins ? c->bins : bins;
    return STENO_OK;
}

/* Width of an encoder frame: the encoder says it, or the network that reads it. */
static steno_status find_width(struct steno_nemo_model *m, steno_err *err)
{
    const struct steno_shape *y = &steno_network_output(m->encoder, m->scores)->shape;
    const struct steno_network *reader = m->joiner ? m->joiner : m->decoder;
    int64_t dim = y->rank == 3 ? y->dim[1] : -1;
    if (dim < 0)
        dim = steno_network_input(reader, 0)->shape.dim[1];
    if (dim < 1 || dim > 65536)
        return steno_fail(err, STENO_ERR_FORMAT, "%s/%s: the width of the output is not known",
                          m->conf.dir, m->conf.encoder);
    m->dim = (size_t)dim;
    return STENO_OK;
}

static steno_status bind_transducer(struct steno_nemo_model *m, steno_err *err)
{
    struct steno_nemo_transducer *t = &m->transducer;
    const size_t vocab = (size_t)steno_tokens_count(m->base.tokens);
    steno_status st = find_width(m, err);
    if (st)
        return st;
    *t = (struct steno_nemo_transducer){.decoder = m->decoder,
                                        .joiner = m->joiner,
                                        .decoder_name = m->conf.decoder,
                                        .joiner_name = m->conf.joiner,
                                        .alone = m->alone,
                                        .one_state = m->conf.quantized};
    st = steno_nemo_transducer_bind(t, m->dim, err);
    if (st)
        return steno_fail_in(err, st, "%s", m->conf.dir);
    if (t->outputs < vocab || t->outputs > vocab + 1024)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s/%s: %zu scores of a frame, expected the %zu tokens of %s and scores "
                          "of durations",
                          m->conf.dir, m->conf.joiner ? m->conf.joiner : m->conf.decoder,
                          t->outputs, vocab, m->conf.tokens);
    return STENO_OK;
}

static steno_status bind_canary(struct steno_nemo_model *m, steno_err *err)
{
    const struct steno_nemo_conf *c = &m->conf;
    const struct steno_shape *y = &steno_network_output(m->encoder, m->scores)->shape;
    int64_t width;
    steno_status st = steno_canary_bind(&m->canary, m->decoder, c->decoder, m->base.tokens,
                                        c->decoder_layers, c->decoder_hidden, err);
    if (st)
        return steno_fail_in(err, st, "%s", c->dir);
    if (c->leads)
        steno_canary_lead(&m->canary, m->base.tokens);
    width = m->canary.width > 0 || y->rank != 3 ? m->canary.width : y->dim[2];
    if (width < 1 || width > 65536)
        return steno_fail(err, STENO_ERR_FORMAT, "%s/%s: the width of the output is not known",
                          c->dir, c->encoder);
    m->dim = (size_t)width;
    if (*m->target && steno_language_mark(m->base.tokens, m->target) < 0)
        return steno_fail(err, STENO_ERR_INVAL, "target_language: %s writes %s, not %s", c->dir,
                          m->canary.languages, m->target);
    return STENO_OK;
}

/* The encoder adds positions of a table [1, 2 n - 1, D], so that n frames are the most. */
static void find_limit(struct steno_nemo_model *m)
{
    const struct steno_graph *g = steno_network_graph(m->encoder);
    int64_t frames = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const struct steno_tensor *t = g->values[i].constant;
        if (t && t->shape.rank == 3 && t->shape.dim[0] == 1 && t->shape.dim[1] % 2 == 1 &&
            t->shape.dim[1] > 100 && t->shape.dim[2] > 1 && t->shape.dim[1] > 2 * frames)
            frames = (t->shape.dim[1] + 1) / 2;
    }
    if (!frames)
        frames = POSITIONS;
    m->limit = (double)frames * (double)steno_nemo_frame(m) / STENO_NEMO_RATE;
}

/* ---- features -------------------------------------------------------------------------------- */

/* What sherpa-onnx 2.0.1 computes, which differs from kind to kind. */
static struct steno_fbank_options sherpa_features(const struct steno_nemo_model *m)
{
    struct steno_fbank_options o = steno_fbank_nemo(STENO_NEMO_RATE, (size_t)m->conf.bins);
    if (m->conf.streaming)
        return o;
    if (m->conf.gigaam) {
        o.mel = STENO_MEL_KALDI;
        return o;
    }
    if (steno_nemo_is_transducer(m))
        o.window = STENO_WINDOW_POVEY;
    if (m->conf.kind != STENO_NEMO_CTC)
        o.high = -400;
    if (m->conf.per_feature) {
        o.floor = 0;
        o.offset = 0x1p-24F;
    }
    return o;
}

static steno_status open_features_nemo(struct steno_nemo_model *m, steno_err *err)
{
    const struct steno_nemo_conf *c = &m->conf;
    struct steno_fbank_options o =
        m->sherpa   ? sherpa_features(m)
        : c->gigaam ? steno_logmel_gigaam(STENO_NEMO_RATE, (size_t)c->bins, c->version_3)
                    : steno_logmel_nemo(STENO_NEMO_RATE, (size_t)c->bins);
    steno_status st;
    o.bf16 = o.bf16 && !c->exact;
    m->norm = STENO_NORM_NEMO;
    if (m->sherpa)
        m->norm.ddof = 0;
    st = steno_fbank_open(&m->base.front, &o, err);
    return st ? steno_fail_in(err, st, "%s", m->conf.dir) : STENO_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void read_options(struct steno_nemo_model *m, const struct steno_family_open *o)
{
    const char *front = steno_option_value(o->options, o->n_options, "frontend");
    const char *target = steno_option_value(o->options, o->n_options, "target_language");
    m->sherpa = front && strcmp(front, "sherpa") == 0;
    (void)steno_option_get_flag(o->options, o->n_options, "modified_beam", &m->modified);
    if (target && strcmp(target, "same") != 0)
        snprintf(m->target, sizeof m->target, "%s", target);
}

/* One of several chunks; networks that are files have one alone. */
static steno_status choose_chunk(const struct steno_nemo_model *m,
                                 const struct steno_family_open *o, steno_err *err)
{
    double frames;
    if (!steno_option_get_number(o->options, o->n_options, "lookahead", &frames))
        return STENO_OK;
    if (m->file)
        return steno_nemo_file_look(m->file, (int64_t)frames, err);
    return steno_fail(err, STENO_ERR_INVAL,
                      "%s: lookahead: the networks are files, made for one chunk", o->dir);
}

static steno_status open_conf_nemo(struct steno_nemo_model *m, const struct steno_family_open *o,
                                   steno_err *err)
{
    bool int8 = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    if (!st && steno_nemo_file_probe(o->dir))
        st = steno_nemo_file_open(&m->file, o->dir, NULL, 0, err);
    if (!st)
        st = choose_chunk(m, o, err);
    if (!st && !m->file)
        return steno_nemo_conf_open(&m->conf, o->dir, int8, err);
    return st ? st : steno_nemo_conf_of_file(&m->conf, o->dir, steno_nemo_file_info(m->file), err);
}

steno_status steno_nemo_open(struct steno_nemo_model *m, const struct steno_family_open *o,
                             bool streaming, steno_err *err)
{
    steno_status st = open_conf_nemo(m, o, err);
    read_options(m, o);
    if (!st && m->conf.streaming != streaming)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: %s has %s caches", o->dir, m->conf.encoder,
                        streaming ? "no" : "");
    if (!st)
        st = open_tokens_nemo(m, err);
    if (!st)
        st = open_networks_nemo(m, o, err);
    if (!st)
        st = bind_encoder(m, err);
    if (!st && m->prompt >= 0)
        st = open_prompts(m, err);
    if (!st && steno_nemo_is_transducer(m))
        st = bind_transducer(m, err);
    else if (!st && m->conf.kind == STENO_NEMO_CANARY)
        st = bind_canary(m, err);
    else if (!st)
        m->dim = (size_t)steno_tokens_count(m->base.tokens);
    if (!st && m->conf.kind != STENO_NEMO_CANARY)
        st = steno_search_hints_open(&m->base.hints, o, m->base.tokens,
                                     steno_tokens_count(m->base.tokens), err);
    if (!st)
        st = open_features_nemo(m, err);
    if (!st)
        find_limit(m);
    return st || !streaming ? st : steno_nemo_encoder_try(m, err);
}

void steno_nemo_close(void *model)
{
    struct steno_nemo_model *m = model;
    steno_nemo_prompts_free(&m->prompts);
    steno_nemo_conf_free(&m->conf);
    steno_nemo_file_close(m->file);
}

steno_status steno_nemo_worker_open(void *worker, const void *model, int max, steno_err *err)
{
    const struct steno_nemo_model *m = model;
    struct steno_nemo_worker *w = worker;
    steno_status st;
    (void)max;
    if (!steno_nemo_is_transducer(m))
        return STENO_OK;
    st = steno_nemo_joint_open(&w->joint, &m->transducer, m->base.threads, err);
    return st ? st : steno_tdt_work_open(&w->work, m->transducer.outputs, err);
}

void steno_nemo_worker_close(void *worker)
{
    struct steno_nemo_worker *w = worker;
    steno_nemo_joint_close(w->joint);
    steno_tdt_work_close(w->work);
}
