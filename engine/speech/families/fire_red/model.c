/* Family fire_red: FireRedASR's encoder and attention decoder, a piece of audio at once.
 *
 *     encoder   x [1,T,80], x_lens [1] -> cross keys and values [L,1,T',d]
 *     decoder   tokens [1,1] i64, self keys and values [L,1,C,heads,d/heads], cross keys and
 * values, offset [1] i64 -> logits [1,1,vocab], self keys and values
 *
 * Greedy, as sherpa-onnx 2.0.1: at most 8 tokens a second, and half of the decoder's positions. */
#include <string.h>

#include "base/path.h"
#include "speech/families/common/full_cache.h"
#include "speech/families/common/metadata.h"
#include "speech/families/common/network_file.h"
#include "speech/families/entries.h"
#include "speech/features/cmvn.h"

#define FAMILY "fire_red"
#define RATE 16000
#define BINS 80
#define FRAME_SAMPLES 640 /* of an encoder frame */
#define FULL 30.0         /* s: of a chunk; an utterance is not longer unless a stream says so */
#define SLACK 50          /* frames: tokens have no times of their own */
#define TOKENS_A_SECOND 8
#define SPARE 4        /* positions beyond the tokens, where the file leaves their number open */
#define LEAST_FRAMES 8 /* feature frames that the convolutions need */

enum { ENCODER, DECODER, PARTS };
static const char *const stems[PARTS] = {"encoder", "decoder"};

/* Frozen after open. */
struct model {
    struct steno_full_cache_model base;
    steno_cmvn *cmvn;
    int64_t layers, heads, width;  /* width: of a head */
    int64_t begin, end, positions; /* positions: of the decoder */
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_fire_red(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    return type && strcmp(type, "fire-red-asr") == 0;
}

static bool probe_fire_red(const char *dir)
{
    return steno_path_readable(dir, "tokens.txt") &&
           steno_network_file_is(dir, stems[ENCODER], is_fire_red);
}

static bool languages(const char *dir, struct steno_model_languages *out)
{
    snprintf(out->languages, sizeof out->languages, "zh en");
    return *dir;
}

static steno_status read_metadata(struct model *m, steno_err *err)
{
    const char *file = m->base.base.part[ENCODER].name;
    const struct steno_metadata_number want[] = {
        {"num_decoder_layers", 1, 256, &m->layers, true},
        {"num_head", 1, 1024, &m->heads, true},
        {"head_dim", 1, 4096, &m->width, true},
        {"sos", 0, STENO_TOKENS_MAX, &m->begin, true},
        {"eos", 0, STENO_TOKENS_MAX, &m->end, true},
        {"max_len", 2, STENO_FULL_CACHE_POSITIONS, &m->positions, true},
    };
    steno_onnx_head *h = NULL;
    steno_status st = steno_network_file_head(&h, m->base.base.dir, file, err);
    if (!st)
        st = steno_metadata_read(h, want, sizeof want / sizeof *want, file, err);
    if (!st)
        st = steno_metadata_cmvn(h, "cmvn_mean", "cmvn_inv_stddev", file, BINS, &m->cmvn, err);
    steno_onnx_head_close(h);
    return st;
}

/* The caches are [layers,1,positions,heads,width]. */
static steno_status bind_decoder_fire_red(struct model *m, steno_err *err)
{
    const struct steno_part_file *part = m->base.base.part;
    const int64_t *dim = m->base.cache.dim;
    steno_status st = steno_full_cache_bind(&m->base.cache, &part[DECODER], 2,
                                            steno_tokens_count(m->base.base.tokens), err);
    if (!st && (steno_network_n_outputs(part[ENCODER].net) != 2 || dim[0] != m->layers ||
                dim[3] != m->heads || dim[4] != m->width))
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: expected caches [%lld,1,C,%lld,%lld] as the metadata of %s says",
                        part[DECODER].name, (long long)m->layers, (long long)m->heads,
                        (long long)m->width, part[ENCODER].name);
    return st;
}

static steno_status open_tokens_fire_red(struct model *m, steno_err *err)
{
    static const char *const marks[] = {"<pad>", "<unk>", "<sos>", "<eos>"};
    steno_status st = steno_shell_open_tokens(&m->base.base, "tokens.txt", err);
    steno_tokens *t = m->base.base.tokens;
    const int32_t n = st ? 0 : steno_tokens_count(t);
    if (!st && (m->begin >= n || m->end >= n))
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "tokens.txt: %d tokens, and sos is %lld, eos %lld in %s", (int)n,
                        (long long)m->begin, (long long)m->end, m->base.base.part[ENCODER].name);
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !st; i++)
        if (steno_tokens_find(t, marks[i]) >= 0)
            st = steno_tokens_drop(t, marks[i], err);
    return st;
}

static steno_status open_model_fire_red(void *model, const struct steno_family_open *o,
                                        steno_err *err)
{
    struct steno_fbank_options front = steno_fbank_kaldi(RATE, BINS);
    struct model *m = model;
    struct steno_shell_model *base = model;
    steno_status st = steno_shell_open_parts(base, o, stems, PARTS, err);
    front.scale = 32768;
    if (!st)
        st = read_metadata(m, err);
    if (!st)
        st = open_tokens_fire_red(m, err);
    if (!st)
        st = bind_decoder_fire_red(m, err);
    if (!st)
        st = steno_fbank_open(&base->front, &front, err);
    if (st)
        return steno_fail_in(err, st, "%s", o->dir);
    steno_shell_set_cuts(base, RATE, FULL, FRAME_SAMPLES, SLACK);
    return steno_shell_try_piece(base, err);
}

static void close_model_fire_red(void *model)
{
    steno_cmvn_close(((struct model *)model)->cmvn);
}

/* ---- a piece --------------------------------------------------------------------------------- */

/* Encode features [n, BINS] and hand the cross keys and values to the decoder. *frames: of the
 * encoder. */
static steno_status encode_fire_red(struct steno_full_cache_worker *w, const float *x, size_t n,
                                    size_t *frames, steno_err *err)
{
    const int64_t dim[] = {1, (int64_t)n, BINS}, one = 1, length = (int64_t)n;
    struct steno_run r = steno_shell_run(w, ENCODER, err);
    steno_run_set(&r, 0, STENO_F32, dim, 3, x);
    steno_run_set(&r, 1, STENO_I64, &one, 1, &length);
    return steno_full_cache_encode(w, &r, frames);
}

static steno_status write_tokens(struct steno_full_cache_worker *w, size_t most, steno_err *err)
{
    const struct model *m = w->base.model;
    const int64_t open = (int64_t)most + SPARE;
    return steno_full_cache_write(w, &m->begin, 1, most, open < m->positions ? open : m->positions,
                                  (int32_t)m->end, err);
}

static steno_status recognize_fire_red(void *worker, struct steno_offline_piece *p)
{
    struct steno_full_cache_worker *w = worker;
    const struct model *m = w->base.model;
    const size_t positions = (size_t)m->base.cache.dim[2];
    struct steno_piece_features *f = &w->base.features;
    size_t n, frames = 0, most;
    steno_status st = steno_piece_features_compute(f, p->pcm, p->n, &n, p->err);
    if (st || n < LEAST_FRAMES)
        return st;
    steno_cmvn_apply(m->cmvn, f->frames, n);
    most = n * TOKENS_A_SECOND / 100;
    if (most > (size_t)m->positions / 2)
        most = (size_t)m->positions / 2;
    if (positions && most > positions)
        most = positions;
    st = encode_fire_red(w, f->frames, n, &frames, p->err);
    if (!st)
        st = write_tokens(w, most, p->err);
    if (st)
        return st;
    steno_greedy_text_share(&w->text, frames);
    return steno_greedy_text_list(&w->text, p);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_fire_red(const void *model, struct steno_family_info *out)
{
    (void)model;
    out->languages = "zh en";
}

static void describe_fire_red(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    const struct steno_part_file *part = m->base.base.part;
    steno_shell_describe_head(i, "attention decoder, FireRedASR", out);
    fprintf(out, "features   %d mel bins, %d Hz\n", i->feature_bins, i->sample_rate);
    fprintf(out, "networks   %s, %s%s\n", part[ENCODER].name, part[DECODER].name,
            part[ENCODER].quantized ? ", 8 bits" : "");
    fprintf(out, "decoder    %zu tokens, %lld layers, %lld positions, no hot words\n",
            i->vocab_size, (long long)m->layers, (long long)m->positions);
    fprintf(out, "times      estimates: the networks give none\n");
    steno_offline_describe(&m->base.base.offline, i, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .worker_bytes = sizeof(struct steno_full_cache_worker),
                                         .sessions = PARTS,
                                         .open = open_model_fire_red,
                                         .close = close_model_fire_red,
                                         .info = get_info_fire_red,
                                         .describe = describe_fire_red,
                                         .worker_open = steno_full_cache_worker_open,
                                         .worker_close = steno_full_cache_worker_close,
                                         .recognize = recognize_fire_red};

const struct steno_family steno_family_fire_red = {.name = FAMILY,
                                                   .probe = probe_fire_red,
                                                   .languages = languages,
                                                   .shell = &shell,
                                                   STENO_OFFLINE_SHELL};
