#include "speech/speakers/embedding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "nn/network/run.h"
#include "speech/features/cmvn.h"
#include "speech/speakers/metadata.h"

#define MAX_DIM 4096
#define MAX_SECONDS 60 /* of a stretch */
#define MISSING (-1)   /* within no bounds: the file must have the number */

/* sherpa-onnx divides by the deviation + 1e-5, with divisor frames. */
#define PER_FEATURE ((struct steno_utterance_norm){.vars = true, .eps = 1e-5})
#define MEAN_ONLY ((struct steno_utterance_norm){.vars = false})

struct steno_embedder {
    const struct steno_embedding *e;
    steno_session *session;
    steno_fbank *fbank;
    float *frames; /* [frames, bins] */
    float *turned; /* [bins, frames] where channels come first */
    size_t cap, cap_turned;
};

bool steno_embedding_is(const steno_onnx_head *h)
{
    const char *framework = steno_onnx_head_meta(h, "framework");
    return framework && steno_onnx_head_meta(h, "output_dim") &&
           (!strcmp(framework, "3d-speaker") || !strcmp(framework, "wespeaker") ||
            !strcmp(framework, "nemo"));
}

/* What the metadata of 3D-Speaker and WeSpeaker says beyond rate and size. */
static steno_status read_kaldi(struct steno_embedding *e, steno_err *err)
{
    const char *type = steno_network_meta(e->net, "feature_normalize_type");
    long normalize;
    steno_status st =
        steno_speakers_number(e->net, "normalize_samples", MISSING, 0, 1, &normalize, err);
    if (st)
        return st;
    e->fbank = steno_fbank_kaldi(e->rate, 80);
    e->fbank.edges = STENO_EDGES_REFLECT;
    e->fbank.high = -400;
    e->fbank.scale = normalize ? 1 : 32768;
    e->mean = type && !strcmp(type, "global-mean");
    return !type || !*type || e->mean
               ? STENO_OK
               : steno_fail(err, STENO_ERR_UNSUPPORTED,
                            "metadata feature_normalize_type is '%.40s', known: global-mean", type);
}

static steno_status read_nemo(struct steno_embedding *e, steno_err *err)
{
    const char *type = steno_network_meta(e->net, "feature_normalize_type");
    const char *window = steno_network_meta(e->net, "window_type");
    long bins, shift, length;
    steno_status st = steno_speakers_number(e->net, "feat_dim", MISSING, 1, 512, &bins, err);
    if (!st)
        st = steno_speakers_number(e->net, "window_size_ms", MISSING, 1, 100, &length, err);
    if (!st)
        st = steno_speakers_number(e->net, "window_stride_ms", MISSING, 1, 100, &shift, err);
    if (st)
        return st;
    if (!type || strcmp(type, "per_feature"))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "metadata feature_normalize_type is '%.40s', known: per_feature",
                          type ? type : "");
    if (window && strcmp(window, "hann"))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "metadata window_type is '%.40s', known: hann", window);
    e->fbank = steno_fbank_nemo(e->rate, (size_t)bins);
    e->fbank.edges = STENO_EDGES_SNIP;
    e->fbank.length_ms = (double)length;
    e->fbank.shift_ms = (double)shift;
    e->channels_first = true;
    return STENO_OK;
}

/* Inputs: the features_embedding, and for NeMo their number. The vector is the only output, or
 * NeMo's second one. */
static steno_status bind_embedding(struct steno_embedding *e, steno_err *err)
{
    const int inputs = e->channels_first ? 2 : 1;
    e->length = -1;
    if (steno_network_n_inputs(e->net) != inputs)
        return steno_fail(err, STENO_ERR_FORMAT, "%d inputs, expected %d",
                          steno_network_n_inputs(e->net), inputs);
    if (e->channels_first) {
        e->input = steno_network_find_input(e->net, "audio_signal");
        e->length = steno_network_find_input(e->net, "length");
        e->output = steno_network_find_output(e->net, "embs");
        if (e->input < 0 || e->length < 0 || e->output < 0)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "inputs audio_signal, length and output embs expected");
    }
    return STENO_OK;
}

static steno_status read_meta(struct steno_embedding *e, steno_err *err)
{
    const char *framework = steno_network_meta(e->net, "framework");
    long rate, dim;
    steno_status st =
        steno_speakers_number(e->net, "sample_rate", MISSING, 8000, 48000, &rate, err);
    if (!st)
        st = steno_speakers_number(e->net, "output_dim", MISSING, 1, MAX_DIM, &dim, err);
    if (st)
        return st;
    e->rate = (int)rate;
    e->dim = (size_t)dim;
    return framework && !strcmp(framework, "nemo") ? read_nemo(e, err) : read_kaldi(e, err);
}

/* A second of a quiet hum: errors that only a run shows come at open. */
static steno_status try_hum(struct steno_embedding *e, steno_err *err)
{
    steno_embedder *m = NULL;
    float *out = malloc(e->dim * sizeof *out), *x = malloc((size_t)e->rate * sizeof *x);
    steno_status st = out && x ? steno_embedder_open(&m, e, 1, err)
                               : steno_fail(err, STENO_ERR_NOMEM, "embedding: out of memory");
    for (int i = 0; x && i < e->rate; i++)
        x[i] = 0.01f * (float)((i * 7919) % 101 - 50) / 50;
    if (!st) {
        st = steno_embedder_run(m, x, (size_t)e->rate, out, err);
        if (st == STENO_NEED_MORE)
            st = steno_fail(err, STENO_ERR_FORMAT, "the network gives no finite numbers");
    }
    steno_embedder_close(m);
    free(out);
    free(x);
    return st;
}

steno_status steno_embedding_open(struct steno_embedding *e, const char *path, steno_err *err)
{
    uint64_t hash[2] = {0};
    steno_status st =
        steno_network_open(&e->net, path, &(struct steno_network_options){.opt_level = -1}, err);
    if (st)
        return st;
    st = read_meta(e, err);
    if (!st)
        st = bind_embedding(e, err);
    if (!st)
        st = try_hum(e, err);
    st = st ? steno_fail_in(err, st, "%.200s", path) : steno_file_hash(path, hash, err);
    if (st)
        steno_embedding_close(e);
    e->tag = hash[0];
    return st;
}

void steno_embedding_close(struct steno_embedding *e)
{
    steno_network_close(e->net);
    e->net = NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

steno_status steno_embedder_open(steno_embedder **out, const struct steno_embedding *e, int threads,
                                 steno_err *err)
{
    steno_embedder *m = calloc(1, sizeof *m);
    steno_status st = m ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "embedding: out of memory");
    if (m) {
        m->e = e;
        st = steno_fbank_open(&m->fbank, &e->fbank, err);
    }
    if (!st)
        st = steno_session_open(&m->session, e->net,
                                &(struct steno_session_options){.threads = threads}, err);
    if (st) {
        steno_embedder_close(m);
        return st;
    }
    *out = m;
    return STENO_OK;
}

void steno_embedder_close(steno_embedder *m)
{
    if (!m)
        return;
    steno_session_close(m->session);
    steno_fbank_close(m->fbank);
    free(m->frames);
    free(m->turned);
    free(m);
}

static steno_status reserve_embedding(steno_embedder *m, size_t frames, steno_err *err)
{
    const size_t n = frames * m->e->fbank.bins;
    steno_status st = STENO_RESERVE(&m->frames, &m->cap, n);
    if (!st && m->e->channels_first)
        st = STENO_RESERVE(&m->turned, &m->cap_turned, n);
    return st ? steno_fail(err, st, "embedding: out of memory") : STENO_OK;
}

/* Normalized features of the samples, frames [*n, bins]. */
static steno_status features_embedding(steno_embedder *m, const float *samples, size_t n,
                                       size_t *frames, steno_err *err)
{
    const int64_t want = steno_fbank_whole_count(m->fbank, (int64_t)n);
    steno_status st;
    if (want < 1)
        return STENO_NEED_MORE;
    st = reserve_embedding(m, (size_t)want, err);
    if (!st)
        st = steno_fbank_whole(m->fbank, samples, n, m->frames, (size_t)want, frames);
    if (st)
        return st;
    if (m->e->channels_first)
        steno_cmvn_utterance(m->frames, *frames, m->e->fbank.bins, &PER_FEATURE);
    else if (m->e->mean)
        steno_cmvn_utterance(m->frames, *frames, m->e->fbank.bins, &MEAN_ONLY);
    for (size_t t = 0; m->e->channels_first && t < *frames; t++)
        for (size_t k = 0; k < m->e->fbank.bins; k++)
            m->turned[k * *frames + t] = m->frames[t * m->e->fbank.bins + k];
    return STENO_OK;
}

static steno_status run_embedding(steno_embedder *m, size_t frames, steno_err *err)
{
    const int64_t t = (int64_t)frames, bins = (int64_t)m->e->fbank.bins;
    const bool turned = m->e->channels_first;
    struct steno_run r = steno_run_begin(m->session, NULL, err);
    steno_run_set(&r, m->e->input, STENO_F32,
                  (const int64_t[]){1, turned ? bins : t, turned ? t : bins}, 3,
                  turned ? m->turned : m->frames);
    steno_run_set(&r, m->e->length, STENO_I64, (const int64_t[]){1}, 1, &t);
    return steno_run_end(&r);
}

steno_status steno_embedder_run(steno_embedder *m, const float *samples, size_t n, float *out,
                                steno_err *err)
{
    const float *y;
    size_t frames, count;
    steno_status st;
    if (n > (size_t)m->e->rate * MAX_SECONDS)
        n = (size_t)m->e->rate * MAX_SECONDS;
    st = features_embedding(m, samples, n, &frames, err);
    if (!st)
        st = run_embedding(m, frames, err);
    if (st)
        return st;
    count = steno_run_floats(m->session, m->e->output, &y);
    if (count != m->e->dim)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "embedding: the network gave %zu numbers, its metadata says %zu", count,
                          m->e->dim);
    memcpy(out, y, m->e->dim * sizeof *out);
    for (size_t i = 0; i < m->e->dim; i++)
        if (!isfinite(out[i]))
            return STENO_NEED_MORE;
    return STENO_OK;
}
