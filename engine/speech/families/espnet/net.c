#include "speech/families/espnet/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/features/logmel.h"
#include "speech/families/common/piece_features.h"
#include "nn/network/run.h"
#include "speech/families/common/scores.h"
#include "speech/families/espnet/block.h"
#include "speech/families/espnet/ngram.h"
#include "speech/families/espnet/recurrent.h"
#include "speech/families/espnet/runner.h"

#define TRIAL_FRAMES 144 /* feature frames of the trial on silence at load */
#define TRIAL_STEP 96
#define MIN_TABLE 64 /* a shorter constant is not a table of positions */
#define MIN_FRAMES 7 /* convolutional subsampling by 4 makes one encoder frame of 7 */

/* ---- opening ------------------------------------------------------------------------------- */

const char *steno_espnet_path(const struct steno_espnet *e, const struct steno_espnet_file *f)
{
    return e->opt.quantized ? f->quantized : f->full;
}

static steno_status open_part(struct steno_espnet *e, const struct steno_espnet_file *f,
                              const char *role, enum steno_part part, const char *free_batch,
                              steno_network **net, steno_err *err)
{
    /* In int8 the last bit of a sum sometimes decides how an activation is rounded, and over a
     * hundred steps that changes a search. Of the settings that were tried on the recorded
     * searches, without fused attention agrees best with ONNX Runtime
     * (tests/unit/test_espnet_decode.c). */
    bool same_bits = e->opt.as_espnet_onnx && part == STENO_PART_ALL;
    struct steno_network_options o = {.cpu = e->opt.cpu,
                                      .opt_level = e->opt.plain ? 0 : -1,
                                      .part = part,
                                      .any_length = !e->opt.plain,
                                      .free_batch = free_batch,
                                      .precision = e->opt.precision,
                                      .cache_dir = steno_cache_dir(),
                                      .observer = e->opt.observer,
                                      .disable_passes = same_bits ? "attention" : NULL};
    const char *path = steno_espnet_path(e, f);
    if (!path)
        return steno_fail(err, STENO_ERR_IO, "%s: the %s has no %s form", e->conf.path, role,
                          e->opt.quantized ? "quantized" : "full");
    return steno_network_open(net, path, &o, err);
}

steno_status steno_espnet_load(struct steno_espnet *e, const struct steno_espnet_file *f,
                               const char *role, steno_network **net, steno_err *err)
{
    return open_part(e, f, role, STENO_PART_ALL, NULL, net, err);
}

/* Open the encoder. A streaming one gets a batch dimension, unless a node of it mixes the streams
 * of a batch. */
static steno_status load_encoder(struct steno_espnet *e, steno_err *err)
{
    const struct steno_espnet_file *f = &e->conf.encoder;
    steno_err why;
    if (e->conf.streaming && !e->opt.plain && !e->opt.as_espnet_onnx)
        e->batches = !open_part(e, f, "encoder", STENO_PART_ALL, STENO_ESPNET_BLOCK_INPUTS,
                                &e->encoder, &why);
    return e->batches ? STENO_OK : steno_espnet_load(e, f, "encoder", &e->encoder, err);
}

/* Open a decoder or language model, with cache if possible. 8-bit graphs round activations by the
 * range of the whole tensor. The newest token alone has another range than the prefix, so the
 * results of espnet_onnx need whole prefixes. once: open the part that runs before the steps too.
 */
static steno_status open_steps(struct steno_espnet *e, const struct steno_espnet_file *f,
                               const char *role, bool once, steno_network **net,
                               steno_network **before, bool *steps, steno_err *err)
{
    steno_err why;
    steno_status st;
    *steps = !e->opt.plain && !(e->opt.as_espnet_onnx && e->opt.quantized);
    if (*steps) {
        st = open_part(e, f, role, STENO_PART_STEP, NULL, net, &why);
        if (!st && once)
            st = open_part(e, f, role, STENO_PART_ONCE, NULL, before, &why);
        if (st != STENO_ERR_UNSUPPORTED) {
            if (st && err)
                *err = why;
            return st;
        }
        *steps = false;
    }
    return steno_espnet_load(e, f, role, net, err);
}

static steno_status check_io(const steno_network *net, const char *path, const char *in,
                             const char *out, int64_t width, steno_err *err)
{
    int i = steno_network_find_input(net, in);
    const struct steno_value *v = steno_network_input(net, i);
    if (i < 0 || v->dtype != STENO_F32 || v->shape.rank != 3)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no input %s of f32 [1,T,%lld]", path, in,
                          (long long)width);
    if (v->shape.dim[2] >= 0 && v->shape.dim[2] != width)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: input %s is %lld wide, expected %lld", path,
                          in, (long long)v->shape.dim[2], (long long)width);
    if (steno_network_find_output(net, out) < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no output %s", path, out);
    return STENO_OK;
}

/* Whether all readers of a table of positions can compute the positions after its end. */
static bool is_extended(const struct steno_graph *g, steno_value_id table)
{
    for (int32_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] == table && strcmp(g->nodes[i].op_type, "Positions") != 0)
                return false;
    return true;
}

/* Exported graphs have positions for a fixed number of frames or tokens: that of the smallest table
 * [1, n, dim]. A table of relative positions has 2 n - 1 rows, an odd number. 0: no table. */
static size_t table_rows(const steno_network *net, int64_t dim)
{
    const struct steno_graph *g = steno_network_graph(net);
    size_t least = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const struct steno_tensor *t = g->values[i].constant;
        size_t n;
        if (!t || t->dtype != STENO_F32 || t->shape.rank != 3 || t->shape.dim[0] != 1 ||
            t->shape.dim[2] != dim || t->shape.dim[1] < MIN_TABLE || is_extended(g, i))
            continue;
        n = (size_t)(t->shape.dim[1] % 2 ? (t->shape.dim[1] + 1) / 2 : t->shape.dim[1]);
        least = least && least < n ? least : n;
    }
    return least;
}

static steno_status open_networks_espnet_net(struct steno_espnet *e, steno_err *err)
{
    const struct steno_espnet_conf *c = &e->conf;
    steno_status st = load_encoder(e, err);
    if (!st && c->streaming) {
        e->blocks = calloc(1, sizeof *e->blocks);
        st = e->blocks ? steno_espnet_blocks_open(e->blocks, e, err)
                       : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", c->path);
    } else if (!st) {
        st = check_io(e->encoder, steno_espnet_path(e, &c->encoder), "feats", "encoder_out",
                      c->bins, err);
    }
    if (!st && !steno_espnet_is_transducer(e))
        st = steno_espnet_load(e, &c->ctc, "ctc", &e->ctc, err);
    if (!st)
        st = steno_espnet_rnns_load(e, err);
    if (!st && c->decoder_kind == STENO_ESPNET_XFORMER)
        st = open_steps(e, &c->decoder, "decoder", true, &e->decoder, &e->decoder_once,
                        &e->decoder_cached, err);
    if (!st && c->lm_kind == STENO_ESPNET_LM_XFORMER)
        st = open_steps(e, &c->lm, "lm", e->opt.as_espnet_onnx, &e->lm, &e->lm_once, &e->lm_cached,
                        err);
    if (!st && c->decoder_kind == STENO_ESPNET_XFORMER)
        e->max_tokens = table_rows(e->decoder, c->decoder_dim);
    if (!st && c->lm_kind == STENO_ESPNET_LM_XFORMER) {
        size_t n = table_rows(e->lm, c->lm_dim);
        e->max_tokens = n && (!e->max_tokens || n < e->max_tokens) ? n : e->max_tokens;
    }
    return st;
}

static steno_status check_supported(const struct steno_espnet_conf *c, steno_err *err)
{
    const char *what = NULL;
    if (c->streaming && c->norm == STENO_ESPNET_UTTERANCE_MVN)
        what = "utterance_mvn before a streaming encoder";
    else if (c->decoder_kind == STENO_ESPNET_TRANSDUCER && c->lm_kind == STENO_ESPNET_LM_XFORMER)
        what = "a Transformer language model (TransformerLM) with a transducer";
    else if (c->decoder_kind == STENO_ESPNET_TRANSDUCER && c->blank)
        what = "a transducer whose blank is not token 0";
    return what ? steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: %s is not supported yet", c->path,
                             what)
                : STENO_OK;
}

static steno_status open_features_espnet_net(struct steno_espnet *e, steno_err *err)
{
    const struct steno_espnet_conf *c = &e->conf;
    steno_status st;
    e->fbank = steno_logmel_espnet((int)c->rate, (size_t)c->n_fft, (size_t)c->win_length,
                                   (size_t)c->hop_length, (size_t)c->bins, c->fmin, c->fmax);
    if (!c->center)
        e->fbank.edges = STENO_EDGES_SNIP;
    e->log_scale = c->log_base > 0 ? (float)(1 / log(c->log_base)) : 1;
    st = steno_fbank_open(&e->front, &e->fbank, err);
    return st ? steno_fail_in(err, st, "%s: encoder.frontend", c->path) : STENO_OK;
}

/* Find how many samples an encoder frame stands for: encode with TRIAL_STEP feature frames more and
 * count the additional encoder frames. All rates of subsampling in use divide TRIAL_STEP. */
static steno_status find_rate(struct steno_espnet *e, steno_espnet_runner *r, const float *feats,
                              size_t frames, size_t *n_rows, const float **rows, steno_err *err)
{
    struct steno_espnet_state s = {0};
    size_t more = 0, less = 0;
    steno_status st;
    if (e->blocks) {
        st = steno_espnet_state_reset(&s, e, err);
        if (!st)
            st = steno_espnet_block(r, &(struct steno_espnet_state *){&s}, &feats, 1,
                                    steno_espnet_first_frames(&e->conf), rows, n_rows, err);
        steno_espnet_state_free(&s);
        e->frame_samples = (size_t)(e->conf.subsample * e->conf.hop_length);
        return st;
    }
    st = steno_espnet_encode(r, feats, frames - TRIAL_STEP, rows, &less, err);
    if (!st)
        st = steno_espnet_encode(r, feats, frames, rows, &more, err);
    if (st)
        return st;
    if (!less || more <= less)
        return steno_fail(
            err, STENO_ERR_FORMAT, "%s: %zu feature frames give %zu encoder frames, %zu give %zu",
            steno_espnet_path(e, &e->conf.encoder), frames - TRIAL_STEP, less, frames, more);
    e->max_rows = table_rows(e->encoder, e->dim);
    e->frame_samples = TRIAL_STEP / (more - less) * (size_t)e->conf.hop_length;
    *n_rows = more;
    return STENO_OK;
}

/* Run every network on silence, so that errors that only a run shows come at load. */
static steno_status try_run(struct steno_espnet *e, steno_err *err)
{
    struct steno_espnet_search s = steno_espnet_defaults(e);
    size_t want = e->blocks ? steno_espnet_first_frames(&e->conf) : TRIAL_FRAMES, frames, rows = 0;
    size_t n = want * (size_t)e->conf.hop_length + (size_t)e->conf.n_fft;
    steno_espnet_runner *r = NULL;
    const steno_joint *result;
    steno_transducer *transduced;
    const float *feats, *y = NULL, *ctc = NULL;
    float *pcm = calloc(n, sizeof *pcm);
    steno_status st = pcm ? steno_espnet_acquire(e, &r, err)
                          : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", e->conf.path);
    s.max_len_ratio = -2;
    s.min_len_ratio = 0;
    if (!st)
        st = steno_espnet_features(r, pcm, n, &feats, &frames, err);
    if (!st)
        st = find_rate(e, r, feats, frames, &rows, &y, err);
    if (!st)
        st = steno_espnet_ctc(r, y, rows, &ctc, err);
    if (!st && steno_espnet_is_transducer(e))
        st = steno_espnet_transduce(r, &s, y, rows, true, &transduced, err);
    else if (!st)
        st = steno_espnet_decode(r, &s, y, rows, ctc, &result, err);
    if (!st && r->decoder && !e->opt.as_espnet_onnx) {
        const int32_t two[2] = {e->conf.sos, e->conf.vocab > 1 ? 1 : 0};
        st = steno_espnet_scorer_try_sharing(r->decoder, two, err);
        e->shares_rows = !st && steno_espnet_scorer_shares(r->decoder);
    }
    if (!st)
        e->runner_bytes = steno_session_arena_bytes(r->encoder) +
                          (r->ctc ? steno_session_arena_bytes(r->ctc) : 0) +
                          steno_espnet_rnns_bytes(&r->recurrent) +
                          (r->decoder ? steno_espnet_scorer_bytes(r->decoder) : 0) +
                          (r->lm ? steno_espnet_scorer_bytes(r->lm) : 0) +
                          (r->cached_decoder ? steno_cached_decoder_bytes(r->cached_decoder) : 0) +
                          (r->cached_lm ? steno_cached_decoder_bytes(r->cached_lm) : 0);
    if (r && !e->blocks) { /* plans of lengths that will not come again */
        steno_session_trim(r->encoder, true);
        if (r->ctc)
            steno_session_trim(r->ctc, true);
    }
    if (r)
        steno_espnet_release(e, r);
    free(pcm);
    return st;
}

steno_status steno_espnet_open(struct steno_espnet *e, const char *dir,
                               const struct steno_espnet_options *opt, steno_err *err)
{
    steno_status st;
    *e = (struct steno_espnet){.opt = *opt};
    st = steno_espnet_conf_open(&e->conf, dir, err);
    if (!st && e->opt.without_lm)
        e->conf.lm_kind = STENO_ESPNET_NO_LM;
    if (!st)
        st = check_supported(&e->conf, err);
    if (!st && pthread_mutex_init(&e->lock, NULL))
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: cannot make a mutex", dir);
    if (st)
        return st;
    e->has_lock = true;
    st = open_features_espnet_net(e, err);
    if (!st)
        st = steno_espnet_open_stats(e, err);
    if (!st)
        st = open_networks_espnet_net(e, err);
    if (!st)
        st = steno_espnet_open_ngram(e, err);
    return st ? st : try_run(e, err);
}

static void close_runner(steno_espnet_runner *r)
{
    steno_fbank_close(r->fbank);
    steno_session_close(r->encoder);
    steno_session_close(r->ctc);
    steno_espnet_scorer_close(r->decoder);
    steno_espnet_scorer_close(r->lm);
    steno_cached_decoder_close(r->cached_decoder);
    steno_cached_decoder_close(r->cached_lm);
    steno_espnet_rnns_close(&r->recurrent);
    steno_joint_close(r->joint);
    steno_aligned_free(r->feats);
    steno_aligned_free(r->rows);
    steno_aligned_free(r->scratch);
    free(r);
}

void steno_espnet_close(struct steno_espnet *e)
{
    while (e->idle) {
        steno_espnet_runner *r = e->idle;
        e->idle = r->next;
        close_runner(r);
    }
    if (e->has_lock)
        pthread_mutex_destroy(&e->lock);
    if (e->blocks)
        steno_espnet_blocks_close(e->blocks);
    free(e->blocks);
    steno_network_close(e->encoder);
    steno_network_close(e->ctc);
    steno_network_close(e->decoder);
    steno_network_close(e->decoder_once);
    steno_network_close(e->lm);
    steno_network_close(e->lm_once);
    steno_network_close(e->predecoder);
    steno_network_close(e->joint);
    steno_ngram_map_close(e->ngram_map);
    steno_ngram_close(e->ngram);
    steno_cmvn_close(e->cmvn);
    steno_fbank_close(e->front);
    steno_espnet_conf_close(&e->conf);
}

size_t steno_espnet_weight_bytes(const struct steno_espnet *e)
{
    const steno_network *nets[] = {e->encoder, e->ctc,     e->decoder,    e->decoder_once,
                                   e->lm,      e->lm_once, e->predecoder, e->joint};
    size_t n = 0;
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        n += nets[i] ? steno_network_weight_bytes(nets[i]) : 0;
    return n + (e->ngram ? steno_ngram_bytes(e->ngram) : 0);
}

/* ---- runners ------------------------------------------------------------------------------- */

static steno_status open_decoder(steno_espnet_runner *r, steno_err *err)
{
    struct steno_espnet *e = r->e;
    const struct steno_espnet_conf *c = &e->conf;
    struct steno_cached_decoder_options step = {.threads = e->opt.threads, .vocab = c->vocab};
    struct steno_espnet_scorer_options o = {.kind = STENO_ESPNET_SCORER_DECODER,
                                            .threads = e->opt.threads,
                                            .layers = (int)c->decoder_layers,
                                            .dim = c->decoder_dim,
                                            .vocab = c->vocab};
    const char *name = steno_espnet_path(e, &c->decoder);
    steno_status st;
    if (e->decoder_cached)
        return steno_cached_decoder_open(&r->cached_decoder, e->decoder, e->decoder_once, &step,
                                         name, err);
    st = steno_espnet_scorer_open(&r->decoder, e->decoder, &o, name, err);
    if (!st)
        steno_espnet_scorer_share(r->decoder, e->shares_rows);
    return st;
}

static steno_status open_lm(steno_espnet_runner *r, steno_err *err)
{
    struct steno_espnet *e = r->e;
    const struct steno_espnet_conf *c = &e->conf;
    struct steno_cached_decoder_options step = {
        .threads = e->opt.threads, .vocab = c->vocab, .zero_row = e->opt.as_espnet_onnx};
    struct steno_espnet_scorer_options o = {.kind = STENO_ESPNET_SCORER_LM,
                                            .threads = e->opt.threads,
                                            .layers = (int)c->lm_layers,
                                            .dim = c->lm_dim,
                                            .vocab = c->vocab,
                                            .first_row = e->opt.as_espnet_onnx};
    const char *name = steno_espnet_path(e, &c->lm);
    if (!e->lm)
        return STENO_OK;
    if (e->lm_cached)
        return steno_cached_decoder_open(&r->cached_lm, e->lm, e->lm_once, &step, name, err);
    return steno_espnet_scorer_open(&r->lm, e->lm, &o, name, err);
}

static steno_status open_scorers(steno_espnet_runner *r, steno_err *err)
{
    const struct steno_espnet_conf *c = &r->e->conf;
    steno_status st = steno_espnet_rnns_open(&r->recurrent, r->e, err);
    if (!st && c->decoder_kind == STENO_ESPNET_XFORMER)
        st = open_decoder(r, err);
    return st || c->lm_kind != STENO_ESPNET_LM_XFORMER ? st : open_lm(r, err);
}

static steno_status new_runner(struct steno_espnet *e, steno_espnet_runner **out, steno_err *err)
{
    struct steno_session_options o = {.threads = e->opt.threads};
    steno_espnet_runner *r = calloc(1, sizeof *r);
    steno_status st;
    if (!r)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", e->conf.dir);
    r->e = e;
    st = steno_fbank_open_like(&r->fbank, e->front, err);
    if (!st)
        st = steno_session_open(&r->encoder, e->encoder, &o, err);
    if (!st && e->ctc)
        st = steno_session_open(&r->ctc, e->ctc, &o, err);
    if (!st)
        st = open_scorers(r, err);
    if (st)
        close_runner(r);
    else
        *out = r;
    return st;
}

steno_status steno_espnet_acquire(struct steno_espnet *e, steno_espnet_runner **out, steno_err *err)
{
    steno_espnet_runner *r;
    pthread_mutex_lock(&e->lock);
    r = e->idle;
    if (r)
        e->idle = r->next;
    pthread_mutex_unlock(&e->lock);
    if (!r)
        return new_runner(e, out, err);
    *out = r;
    return STENO_OK;
}

void steno_espnet_release(struct steno_espnet *e, steno_espnet_runner *r)
{
    pthread_mutex_lock(&e->lock);
    r->next = e->idle;
    e->idle = r;
    pthread_mutex_unlock(&e->lock);
}

static steno_status grow_espnet_net(float **p, size_t *cap, size_t n, steno_err *err)
{
    return steno_floats_reserve(p, cap, n) ? STENO_OK
                                           : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

struct steno_espnet *steno_espnet_runner_model(steno_espnet_runner *r)
{
    return r->e;
}

struct steno_espnet_rnns *steno_espnet_recurrent(steno_espnet_runner *r)
{
    return &r->recurrent;
}

steno_session *steno_espnet_encoder(steno_espnet_runner *r)
{
    return r->encoder;
}

steno_status steno_espnet_scratch(steno_espnet_runner *r, size_t n, float **out, steno_err *err)
{
    steno_status st = grow_espnet_net(&r->scratch, &r->cap_scratch, n, err);
    if (!st)
        *out = r->scratch;
    return st;
}

/* ---- stages -------------------------------------------------------------------------------- */

void steno_espnet_normalize_logs(const struct steno_espnet *e, float *x, size_t frames)
{
    if (e->cmvn)
        steno_cmvn_apply(e->cmvn, x, frames);
}

void steno_espnet_normalize(const struct steno_espnet *e, float *x, size_t frames)
{
    if (e->log_scale != 1)
        for (size_t i = 0; i < frames * (size_t)e->conf.bins; i++)
            x[i] *= e->log_scale;
    steno_espnet_normalize_logs(e, x, frames);
}

steno_status steno_espnet_features(steno_espnet_runner *r, const float *pcm, size_t n,
                                   const float **feats, size_t *frames, steno_err *err)
{
    const struct steno_espnet *e = r->e;
    size_t bins = (size_t)e->conf.bins, max = (size_t)steno_fbank_count(&e->fbank, (int64_t)n);
    steno_status st;
    *frames = 0;
    *feats = r->feats;
    /* a centred transform mirrors half a window at each end; a shorter signal cannot be mirrored */
    if (e->conf.center && n <= (size_t)e->conf.n_fft / 2)
        return STENO_OK;
    st = grow_espnet_net(&r->feats, &r->cap_feats, max * bins + 1, err);
    if (st)
        return st;
    *feats = r->feats;
    st = steno_fbank_whole(r->fbank, pcm, n, r->feats, max, frames);
    if (st)
        return steno_fail(err, st, "features: %s", steno_status_info(st)->name);
    steno_espnet_normalize(e, r->feats, *frames);
    if (e->conf.norm == STENO_ESPNET_UTTERANCE_MVN)
        steno_cmvn_utterance(r->feats, *frames, bins,
                             &(struct steno_utterance_norm){.keep_means = !e->conf.norm_means,
                                                            .vars = e->conf.norm_vars,
                                                            .least = e->conf.norm_eps});
    return STENO_OK;
}

/* Run a network of one input and one output. file: for messages. */
static steno_status run_one(steno_session *s, const steno_network *net, const char *file,
                            const char *in, const char *out, const float *x, size_t n,
                            int64_t width, const struct steno_tensor **y, steno_err *err)
{
    const int64_t dim[] = {1, (int64_t)n, width};
    struct steno_run run = steno_run_begin(s, file, err);
    steno_run_set(&run, steno_network_find_input(net, in), STENO_F32, dim, 3, x);
    if (!steno_run_end(&run))
        *y = steno_session_get(s, steno_network_find_output(net, out));
    return run.st;
}

steno_status steno_espnet_encode(steno_espnet_runner *r, const float *feats, size_t frames,
                                 const float **rows, size_t *n_rows, steno_err *err)
{
    struct steno_espnet *e = r->e;
    const struct steno_tensor *y = NULL;
    const char *file = steno_espnet_path(e, &e->conf.encoder);
    size_t n;
    steno_status st;
    *n_rows = 0;
    if (frames < MIN_FRAMES)
        return STENO_OK;
    if (e->max_rows && e->frame_samples &&
        frames * (size_t)e->conf.hop_length > (e->max_rows + 1) * e->frame_samples)
        return steno_fail(
            err, STENO_ERR_LIMIT,
            "%s: exported with positions for %zu encoder frames, %.1f s of audio; this utterance "
            "has %.1f s (endpointing cuts in time)",
            file, e->max_rows, (double)(e->max_rows * e->frame_samples) / (double)e->conf.rate,
            (double)(frames * (size_t)e->conf.hop_length) / (double)e->conf.rate);
    st = run_one(r->encoder, e->encoder, file, "feats", "encoder_out", feats, frames, e->conf.bins,
                 &y, err);
    if (st)
        return st;
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[0] != 1)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: encoder_out is not f32 [1,T,d]", file);
    /* copied, because the next run of the session overwrites its output */
    n = steno_numel(y);
    st = grow_espnet_net(&r->rows, &r->cap_rows, n + 1, err);
    if (st)
        return st;
    memcpy(r->rows, y->data, n * sizeof *r->rows);
    *rows = r->rows;
    *n_rows = (size_t)y->shape.dim[1];
    if (!e->dim)
        e->dim = y->shape.dim[2];
    return STENO_OK;
}

steno_status steno_espnet_ctc(steno_espnet_runner *r, const float *rows, size_t n_rows,
                              const float **scores, steno_err *err)
{
    struct steno_espnet *e = r->e;
    const struct steno_tensor *y = NULL;
    const char *file = steno_espnet_path(e, &e->conf.ctc);
    steno_status st;
    *scores = NULL;
    if (!r->ctc)
        return STENO_OK;
    st = run_one(r->ctc, e->ctc, file, "x", "ctc_out", rows, n_rows, e->dim, &y, err);
    if (st)
        return st;
    if (y->dtype != STENO_F32 || y->shape.rank != 3 || (size_t)y->shape.dim[1] != n_rows ||
        y->shape.dim[2] != e->conf.vocab)
        return steno_fail(
            err, STENO_ERR_FORMAT, "%s: ctc_out is %lld wide, the token list has %d entries", file,
            y->shape.rank == 3 ? (long long)y->shape.dim[2] : -1LL, (int)e->conf.vocab);
    st = steno_scores_check(y->data, steno_numel(y), file, err);
    if (!st)
        *scores = y->data;
    return st;
}
