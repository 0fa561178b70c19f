/* Family icefall: opens a directory of networks that icefall's scripts have exported, as
 * sherpa-onnx has them (docs/icefall.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "families/common/path.h"
#include "families/icefall/family.h"
#include "families/icefall/internal.h"
#include "families/option.h"

#define FAMILY "icefall"
#define SAMPLE_RATE 16000
#define HIGH_FREQ (-400.0) /* Hz below half the rate: the end of the mel bins */
#define QUIET_SCORE -30.0F /* CTC: log-probability of each token in a skipped window */
/* sherpa-onnx's clients send 0.66 s of silence after a recording for windows of 0.45 s: it decodes
 * 0.21 s past the end. */
#define TAIL_FRAMES 21
#define MAX_FRAMES 100000 /* feature frames of a window: 1,000 s */

static const struct steno_option_info options[] = {
    {FAMILY, "blank_penalty", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, 0, 20, NULL, "0",
     "taken off the blank's log-probability: with more, fewer words are missed"},
};

static bool has_ctc(enum steno_icefall_role kind)
{
    return kind == STENO_ICEFALL_STREAMING_CTC || kind == STENO_ICEFALL_OFFLINE_CTC;
}

static bool streams(enum steno_icefall_role kind)
{
    return kind == STENO_ICEFALL_STREAMING_ENCODER || kind == STENO_ICEFALL_STREAMING_CTC;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A quantized encoder is preferred where int8 is wanted, or nothing is said and the CPU multiplies
 * such numbers. */
static steno_status prefers_quantized(const struct steno_family_open *o, bool *out, steno_err *err)
{
    unsigned has = 0;
    steno_status st = steno_cpu_choose(o->cpu, &has, err);
    *out = o->precision == STENO_INT8_WEIGHTS ||
           (o->precision == STENO_AUTO_WEIGHTS && has & STENO_CPU_VNNI);
    return st;
}

static steno_status find_files(struct steno_icefall_model *m, const struct steno_family_open *o,
                               steno_err *err)
{
    bool quantized = false;
    int n;
    const char *name = steno_path_name(m->dir, &n);
    steno_status st = prefers_quantized(o, &quantized, err);
    if (!st)
        st = steno_icefall_files_find(&m->files, m->dir, quantized, err);
    if (st)
        return st;
    m->ctc = has_ctc(m->files.kind);
    m->streaming = streams(m->files.kind);
    snprintf(m->name, sizeof m->name, "%.*s", n, name);
    name = steno_path_name(m->files.encoder, &n);
    snprintf(m->network, sizeof m->network, "%.*s", n, name);
    return STENO_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static int32_t find_token(const steno_tokens *t, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t id = steno_tokens_find(t, names[i]);
        if (id >= 0)
            return id;
    }
    return -1;
}

/* Marks have no text. */
static steno_status drop_marks(steno_tokens *t, steno_err *err)
{
    static const char *const marks[] = {"<blk>", "<eps>", "<blank>", "<unk>", "<sos/eos>"};
    steno_status st = STENO_OK;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !st; i++)
        if (steno_tokens_find(t, marks[i]) >= 0)
            st = steno_tokens_drop(t, marks[i], err);
    return st;
}

/* A transducer's blank is token 0 (icefall's decoders have it so); that of CTC has a name. */
static steno_status open_tokens(struct steno_icefall_model *m, steno_err *err)
{
    static const char *const blanks[] = {"<blk>", "<eps>", "<blank>"};
    steno_status st = steno_tokens_open(&m->tokens, m->files.tokens, err);
    if (st)
        return st;
    m->unknown = steno_tokens_find(m->tokens, "<unk>");
    m->blank = m->ctc ? find_token(m->tokens, blanks, sizeof blanks / sizeof *blanks) : 0;
    if (m->blank < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: there is no blank: <blk>, <eps> or <blank>",
                          m->files.tokens);
    return drop_marks(m->tokens, err);
}

/* The list may have more tokens than the network, such as #0 of graphs. */
static steno_status check_vocab(const struct steno_icefall_model *m, steno_err *err)
{
    if (steno_tokens_count(m->tokens) >= m->vocab && m->blank < m->vocab)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %d tokens, expected the %d of the network",
                      m->files.tokens, (int)steno_tokens_count(m->tokens), (int)m->vocab);
}

/* ---- networks -------------------------------------------------------------------------------- */

static steno_status load_network(const char *path, const struct steno_family_open *o,
                                 steno_network **out, steno_err *err)
{
    const struct steno_network_options opt = {
        .cpu = o->cpu,
        .cache_dir = steno_cache_dir(),
        .observer = o->observer,
        .precision = o->precision == STENO_AUTO_WEIGHTS ? STENO_AUTO_WEIGHTS : o->precision,
        .opt_level = o->plain ? 0 : -1};
    return steno_network_open(out, path, &opt, err);
}

/* A positive number of the encoder's metadata. */
static steno_status read_meta(const struct steno_icefall_model *m, const char *key, int64_t *out,
                              steno_err *err)
{
    const char *value = steno_network_meta(m->encoder_net, key);
    char *end = NULL;
    long long v;
    if (!value)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: there is no metadata %s", m->files.encoder,
                          key);
    v = strtoll(value, &end, 10);
    if (end == value || *end || v < 1 || v > MAX_FRAMES)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata %s is '%.40s', expected a number from 1 to %d",
                          m->files.encoder, key, value, MAX_FRAMES);
    *out = v;
    return STENO_OK;
}

static steno_status open_transducer(struct steno_icefall_model *m,
                                    const struct steno_family_open *o, steno_err *err)
{
    steno_status st = load_network(m->files.decoder, o, &m->decoder_net, err);
    if (!st)
        st = load_network(m->files.joiner, o, &m->joiner_net, err);
    if (st)
        return st;
    m->nets = (struct steno_icefall_nets){.decoder = m->decoder_net,
                                          .joiner = m->joiner_net,
                                          .decoder_name = m->files.decoder,
                                          .joiner_name = m->files.joiner,
                                          .rounds_together = m->files.decoder_quantized &&
                                                             o->precision == STENO_FP32};
    st = steno_icefall_nets_bind(&m->nets, err);
    m->vocab = (int32_t)m->nets.vocab;
    return st;
}

/* Values of a feature frame: the last extent of input x. */
static steno_status find_bins(const struct steno_icefall_model *m, int64_t *out, steno_err *err)
{
    int x = steno_network_find_input(m->encoder_net, "x");
    const struct steno_shape *s = &steno_network_input(m->encoder_net, x)->shape;
    const char *feature = steno_network_meta(m->encoder_net, "feature");
    if (feature && strcmp(feature, "whisper") == 0)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: metadata feature is whisper; expected networks on Kaldi's features",
                          m->files.encoder);
    if (s->rank != 3 || s->dim[2] < 1 || s->dim[2] > 512)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: input x is not [N,T,bins]", m->files.encoder);
    *out = s->dim[2];
    return STENO_OK;
}

static steno_status bind_streaming(struct steno_icefall_model *m, steno_err *err)
{
    struct steno_cached_encoder_shape shape = {.width = m->ctc ? m->vocab : m->nets.width};
    steno_status st = read_meta(m, "T", &shape.window, err);
    if (!st)
        st = read_meta(m, "decode_chunk_len", &m->shift, err);
    if (!st)
        st = find_bins(m, &shape.bins, err);
    if (st)
        return st;
    if (m->shift > shape.window || m->shift % STENO_ICEFALL_SUBSAMPLING)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata decode_chunk_len is %d and T is %d, expected a multiple of "
                          "%d that is at most T",
                          m->files.encoder, (int)m->shift, (int)shape.window,
                          STENO_ICEFALL_SUBSAMPLING);
    shape.frames = m->shift / STENO_ICEFALL_SUBSAMPLING;
    return steno_cached_encoder_bind(&m->encoder, m->encoder_net, "x", &shape, m->files.encoder,
                                     err);
}

static steno_status open_networks(struct steno_icefall_model *m, const struct steno_family_open *o,
                                  steno_err *err)
{
    const char *type;
    steno_status st = load_network(m->files.encoder, o, &m->encoder_net, err);
    if (st)
        return st;
    type = steno_network_meta(m->encoder_net, "model_type");
    snprintf(m->type, sizeof m->type, "%s", type ? type : "?");
    if (m->ctc)
        m->vocab = steno_tokens_count(m->tokens);
    else
        st = open_transducer(m, o, err);
    if (!st)
        st = check_vocab(m, err);
    if (!st && !m->streaming)
        st = steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: offline models do not run yet",
                        m->files.encoder);
    return st ? st : bind_streaming(m, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status open_features(struct steno_icefall_model *m, steno_err *err)
{
    struct steno_fbank_options o = steno_fbank_kaldi(SAMPLE_RATE, (size_t)m->encoder.shape.bins);
    steno_status st;
    o.high = HIGH_FREQ;
    o.edges = STENO_EDGES_REFLECT;
    st = steno_fbank_open(&m->front, &o, err);
    if (!st)
        m->hop = steno_fbank_shift(m->front);
    return st;
}

/* The scores of a skipped window: blank in every frame. */
static steno_status make_quiet(struct steno_icefall_model *m, steno_err *err)
{
    size_t n = (size_t)(m->encoder.shape.frames * m->vocab);
    if (!m->ctc)
        return STENO_OK;
    m->quiet = malloc(n * sizeof *m->quiet);
    if (!m->quiet)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    for (size_t i = 0; i < n; i++)
        m->quiet[i] = (int32_t)(i % (size_t)m->vocab) == m->blank ? 0 : QUIET_SCORE;
    return STENO_OK;
}

static void close_model(void *model)
{
    struct steno_icefall_model *m = model;
    if (!m)
        return;
    steno_cached_encoder_unbind(&m->encoder);
    steno_network_close(m->encoder_net);
    steno_network_close(m->decoder_net);
    steno_network_close(m->joiner_net);
    steno_fbank_close(m->front);
    steno_tokens_close(m->tokens);
    steno_icefall_files_free(&m->files);
    free(m->quiet);
    free(m->dir);
    free(m);
}

static steno_status open_parts(struct steno_icefall_model *m, const struct steno_family_open *o,
                               steno_err *err)
{
    steno_status st = find_files(m, o, err);
    if (!st)
        st = open_tokens(m, err);
    if (!st)
        st = open_networks(m, o, err);
    if (!st)
        st = open_features(m, err);
    if (!st)
        st = make_quiet(m, err);
    return st ? st : steno_icefall_try(m, err);
}

static steno_status open_model(void **model, const struct steno_family_open *o, steno_err *err)
{
    struct steno_icefall_model *m = calloc(1, sizeof *m);
    steno_status st;
    if (m)
        m->dir = strdup(o->dir);
    if (!m || !m->dir) {
        free(m);
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    }
    m->threads = o->threads;
    (void)steno_option_get_number(o->options, o->n_options, "blank_penalty", &m->blank_penalty);
    st = open_parts(m, o, err);
    if (st)
        close_model(m);
    else
        *model = m;
    return st;
}

/* ---- description ----------------------------------------------------------------------------- */

static size_t weight_bytes(const struct steno_icefall_model *m)
{
    return steno_network_weight_bytes(m->encoder_net) +
           (m->ctc ? 0
                   : steno_network_weight_bytes(m->decoder_net) +
                         steno_network_weight_bytes(m->joiner_net));
}

static void get_info(const void *model, struct steno_family_info *out)
{
    const struct steno_icefall_model *m = model;
    const struct steno_cached_encoder_shape *e = &m->encoder.shape;
    double frame = (double)m->hop / SAMPLE_RATE;
    *out = (struct steno_family_info){
        .name = m->name,
        .version = "",
        .language = "",
        .license = "",
        .network = m->network,
        .results_of = "sherpa-onnx",
        .tokens = m->tokens,
        .sample_rate = SAMPLE_RATE,
        .hop = m->hop,
        .feature_bins = (int)e->bins,
        .frame_samples = m->hop * STENO_ICEFALL_SUBSAMPLING,
        .chunk_seconds = frame * (double)m->shift,
        .lookahead_seconds = frame * (double)(e->window - m->shift),
        .weight_bytes = weight_bytes(m),
        .stream_bytes = m->encoder.state_bytes + (size_t)(e->window * e->bins) * sizeof(float),
        .endpoint = {.silence_alone = 2.4, .silence_after = 1.2, .longest = 20},
        .batches = m->encoder.batches,
        .untimed = !m->ctc,
        .feeding = STENO_FEED_WINDOWS,
        .windows = {.front = m->front,
                    .frames = (size_t)e->window,
                    .shift = (size_t)m->shift,
                    .right_padding = TAIL_FRAMES,
                    .rows = (size_t)e->frames}};
}

static void describe(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct steno_icefall_model *m = model;
    fprintf(out, "model      %s, %s, %s %s %s\n", i->name, i->family,
            m->streaming ? "streaming" : "offline", m->type, m->ctc ? "CTC" : "transducer");
    fprintf(out, "directory  %s\n", i->dir);
    fprintf(out, "features   kaldi-fbank, %d Hz, %d bins, 20 to %g Hz\n", i->sample_rate,
            i->feature_bins, i->sample_rate / 2.0 + HIGH_FREQ);
    fprintf(out, "network    %s, %d states\n", i->network, m->encoder.n_states);
    fprintf(out, "steps      %.0f ms and %.0f ms of lookahead, scores every %.0f ms\n",
            i->chunk_seconds * 1e3, i->lookahead_seconds * 1e3, i->frame_seconds * 1e3);
    fprintf(out, "decoder    %zu tokens", i->vocab_size);
    if (!m->ctc)
        fprintf(out, ", the prediction network sees %d", m->nets.context);
    fprintf(out, "\nendpoint   %g s of silence, %g s after speech, %g s at most\n",
            i->endpoint.silence_alone, i->endpoint.silence_after, i->endpoint.longest);
    fprintf(out, "memory     weights %.2f MiB shared, %.2f MiB for each stream\n",
            (double)i->weight_bytes / 1048576, (double)i->stream_bytes / 1048576);
}

const struct steno_family steno_family_icefall = {
    .name = FAMILY,
    .layout = "encoder, decoder and joiner or a Zipformer CTC .onnx",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .probe = steno_icefall_probe,
    .open = open_model,
    .close = close_model,
    .info = get_info,
    .describe = describe,
    .state_new = steno_icefall_stream_new,
    .state_free = steno_icefall_stream_free,
    .reset = steno_icefall_reset,
    .worker_open = steno_icefall_worker_open,
    .worker_close = steno_icefall_worker_close,
    .step = steno_icefall_step,
    .hypotheses = steno_icefall_hypotheses,
    .trial_open = steno_icefall_trial_open,
    .trial_run = steno_icefall_trial_run,
    .trial_close = steno_icefall_trial_close,
    .consume = steno_icefall_consume,
    .skip = steno_icefall_skip,
    .frames = steno_icefall_frames,
    .last_sound = steno_icefall_last_sound,
    .n_tokens = steno_icefall_n_tokens};
