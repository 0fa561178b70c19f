/* Family fire_red: FireRedASR's encoder and attention decoder, a piece of audio at once.
 *
 *     encoder   x [1,T,80], x_lens [1] -> cross keys and values [L,1,T',d]
 *     decoder   tokens [1,1] i64, self keys and values [L,1,C,heads,d/heads], cross keys and
 * values, offset [1] i64 -> logits [1,1,vocab], self keys and values
 *
 * Greedy, as sherpa-onnx 2.0.1: at most 8 tokens a second, and half of the decoder's positions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/common/full_cache.h"
#include "speech/families/common/metadata.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/part.h"
#include "speech/families/common/precision.h"
#include "speech/families/common/shell.h"
#include "speech/families/fire_red/family.h"
#include "speech/features/cmvn.h"

#define FAMILY "fire_red"
#define RATE 16000
#define BINS 80
#define FRAME_SAMPLES 640 /* of an encoder frame */
#define FULL 30.0         /* s: of a chunk; an utterance is not longer unless a stream says so */
#define SLACK 50          /* frames: tokens have no times of their own */
#define TOKENS_A_SECOND 8
#define SPARE                                                                                      \
    4 /* positions of a cache beyond the tokens, where the file leaves their number open */
#define LEAST_FRAMES 8 /* feature frames that the convolutions need */

/* Frozen after open. */
struct model {
    struct steno_shell_model base;
    struct steno_part_file encoder, decoder;
    steno_cmvn *cmvn;
    struct steno_full_cache cache;
    int64_t layers, heads, width;  /* width: of a head */
    int64_t begin, end, positions; /* positions: of the decoder */
};

struct worker {
    struct steno_shell_worker base;
    struct steno_full_cache_run nets;
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool probe_fire_red(const char *dir)
{
    steno_onnx_head *h =
        steno_path_readable(dir, "tokens.txt") ? steno_network_file_peek(dir, "encoder") : NULL;
    const char *type = h ? steno_onnx_head_meta(h, "model_type") : NULL;
    const bool is = type && strcmp(type, "fire-red-asr") == 0;
    steno_onnx_head_close(h);
    return is;
}

static bool languages(const char *dir, struct steno_model_languages *out)
{
    snprintf(out->languages, sizeof out->languages, "zh en");
    return *dir;
}

static steno_status read_metadata(struct model *m, const steno_onnx_head *h, steno_err *err)
{
    const struct steno_metadata_number want[] = {
        {"num_decoder_layers", 1, 256, &m->layers, true},
        {"num_head", 1, 1024, &m->heads, true},
        {"head_dim", 1, 4096, &m->width, true},
        {"sos", 0, STENO_TOKENS_MAX, &m->begin, true},
        {"eos", 0, STENO_TOKENS_MAX, &m->end, true},
        {"max_len", 2, STENO_FULL_CACHE_POSITIONS, &m->positions, true},
    };
    steno_status st =
        steno_metadata_read(h, want, sizeof want / sizeof *want, m->encoder.name, err);
    return st ? st
              : steno_metadata_cmvn(h, "cmvn_mean", "cmvn_inv_stddev", m->encoder.name, BINS,
                                    &m->cmvn, err);
}

/* The caches are [layers,1,positions,heads,width]. */
static steno_status bind_decoder_fire_red(struct model *m, steno_err *err)
{
    const int64_t *dim = m->cache.dim;
    steno_status st = steno_full_cache_bind(&m->cache, m->decoder.net, m->decoder.name, 2,
                                            steno_tokens_count(m->base.tokens), err);
    if (!st && (steno_network_n_outputs(m->encoder.net) != 2 || dim[0] != m->layers ||
                dim[3] != m->heads || dim[4] != m->width))
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: expected caches [%lld,1,C,%lld,%lld] as the metadata of %s says",
                        m->decoder.name, (long long)m->layers, (long long)m->heads,
                        (long long)m->width, m->encoder.name);
    return st;
}

static steno_status open_networks_fire_red(struct model *m, const struct steno_family_open *o,
                                           steno_err *err)
{
    steno_onnx_head *h = NULL;
    bool int8 = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    if (!st)
        st = steno_part_file_open(&m->encoder, o, "encoder", int8, err);
    if (!st)
        st = steno_part_file_open(&m->decoder, o, "decoder", int8, err);
    if (!st)
        st = steno_network_file_head(&h, o->dir, m->encoder.name, err);
    if (!st)
        st = read_metadata(m, h, err);
    steno_onnx_head_close(h);
    return st;
}

static steno_status open_tokens_fire_red(struct model *m, steno_err *err)
{
    static const char *const marks[] = {"<pad>", "<unk>", "<sos>", "<eos>"};
    char *path = steno_path_join(m->base.dir, "tokens.txt");
    steno_status st = path ? steno_tokens_open(&m->base.tokens, path, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    const int32_t n = st ? 0 : steno_tokens_count(m->base.tokens);
    if (!st && (m->begin >= n || m->end >= n))
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "tokens.txt: %d tokens, and sos is %lld, eos %lld in %s", (int)n,
                        (long long)m->begin, (long long)m->end, m->encoder.name);
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !st; i++)
        if (steno_tokens_find(m->base.tokens, marks[i]) >= 0)
            st = steno_tokens_drop(m->base.tokens, marks[i], err);
    free(path);
    return st;
}

static steno_status open_model_fire_red(void *model, const struct steno_family_open *o,
                                        steno_err *err)
{
    struct steno_fbank_options front = steno_fbank_kaldi(RATE, BINS);
    struct model *m = model;
    steno_status st = open_networks_fire_red(m, o, err);
    front.scale = 32768;
    if (!st)
        st = open_tokens_fire_red(m, err);
    if (!st)
        st = bind_decoder_fire_red(m, err);
    if (!st)
        st = steno_fbank_open(&m->base.front, &front, err);
    if (st)
        return steno_fail_in(err, st, "%s", o->dir);
    steno_shell_set_cuts(&m->base, RATE, FULL, FRAME_SAMPLES, SLACK);
    return steno_shell_try_piece(&m->base, err);
}

static void close_model_fire_red(void *model)
{
    struct model *m = model;
    steno_part_file_close(&m->encoder);
    steno_part_file_close(&m->decoder);
    steno_cmvn_close(m->cmvn);
}

/* ---- a piece --------------------------------------------------------------------------------- */

/* Encode features [n, BINS] and hand the cross keys and values to the decoder. *frames: of the
 * encoder. */
static steno_status encode_fire_red(struct worker *w, const float *x, size_t n, size_t *frames,
                                    steno_err *err)
{
    const struct model *m = w->base.model;
    const int64_t dim[] = {1, (int64_t)n, BINS}, one = 1, length = (int64_t)n;
    steno_status st = steno_part_set(w->nets.encoder, 0, STENO_F32, dim, 3, x, err);
    if (!st)
        st = steno_part_set(w->nets.encoder, 1, STENO_I64, &one, 1, &length, err);
    if (!st)
        st = steno_full_cache_encode(&w->nets, frames, err);
    return st ? steno_fail_in(err, st, "%s", m->encoder.name) : STENO_OK;
}

static steno_status write_tokens(struct worker *w, size_t most, steno_err *err)
{
    const struct model *m = w->base.model;
    const int64_t open = (int64_t)most + SPARE;
    return steno_full_cache_write(&w->nets, &m->begin, 1, most,
                                  open < m->positions ? open : m->positions, (int32_t)m->end, err);
}

static steno_status recognize_fire_red(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    const struct model *m = w->base.model;
    struct steno_piece_features *f = &w->base.features;
    size_t n, frames = 0, most;
    steno_status st = steno_piece_features_compute(f, p->pcm, p->n, &n, p->err);
    if (st || n < LEAST_FRAMES)
        return st;
    steno_cmvn_apply(m->cmvn, f->frames, n);
    most = n * TOKENS_A_SECOND / 100;
    if (most > (size_t)m->positions / 2)
        most = (size_t)m->positions / 2;
    if (m->cache.dim[2] && most > (size_t)m->cache.dim[2])
        most = (size_t)m->cache.dim[2];
    st = encode_fire_red(w, f->frames, n, &frames, p->err);
    if (!st)
        st = write_tokens(w, most, p->err);
    if (st)
        return st;
    steno_greedy_text_share(&w->nets.text, frames);
    return steno_greedy_text_list(&w->nets.text, p);
}

static steno_status open_worker_fire_red(void *worker, const void *model, int max, steno_err *err)
{
    const struct model *m = model;
    struct worker *w = worker;
    (void)max;
    return steno_full_cache_run_open(&w->nets, &m->cache, &m->base, m->encoder.net, m->decoder.net,
                                     err);
}

static void close_worker_fire_red(void *worker)
{
    struct worker *w = worker;
    steno_full_cache_run_close(&w->nets);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_fire_red(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    out->network = m->encoder.name;
    out->languages = "zh en";
    out->weight_bytes =
        steno_network_weight_bytes(m->encoder.net) + steno_network_weight_bytes(m->decoder.net);
}

static void describe_fire_red(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    fprintf(out, "model      %s, %s, attention decoder, FireRedASR\n", i->name, i->family);
    fprintf(out, "directory  %s\n", m->base.dir);
    fprintf(out, "languages  %s\n", i->languages);
    fprintf(out, "features   %d mel bins, %d Hz\n", i->feature_bins, i->sample_rate);
    fprintf(out, "networks   %s, %s%s\n", m->encoder.name, m->decoder.name,
            m->encoder.quantized ? ", 8 bits" : "");
    fprintf(out, "decoder    %zu tokens, %lld layers, %lld positions, no hot words\n",
            i->vocab_size, (long long)m->layers, (long long)m->positions);
    fprintf(out, "times      estimates: the networks give none\n");
    steno_offline_describe(&m->base.offline, i, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .worker_bytes = sizeof(struct worker),
                                         .open = open_model_fire_red,
                                         .close = close_model_fire_red,
                                         .info = get_info_fire_red,
                                         .describe = describe_fire_red,
                                         .worker_open = open_worker_fire_red,
                                         .worker_close = close_worker_fire_red,
                                         .recognize = recognize_fire_red};

const struct steno_family steno_family_fire_red = {.name = FAMILY,
                                                   .probe = probe_fire_red,
                                                   .languages = languages,
                                                   .shell = &shell,
                                                   STENO_OFFLINE_SHELL};
