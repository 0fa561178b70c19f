/* Family paraformer: Paraformer of a piece of audio at once (Gao et al., "Paraformer: Fast and
 * Accurate Parallel Transformer for Non-autoregressive End-to-End Speech Recognition", Interspeech
 * 2022). The network has encoder, predictor (CIF) and decoder in it: one run gives the scores of
 * all tokens. BiCif models also give the frames in which tokens fired. */
#include <string.h>

#include "base/arena.h"
#include "speech/families/common/greedy_text.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/scores.h"
#include "speech/families/entries.h"
#include "speech/families/funasr/model.h"

#define FAMILY "paraformer"
#define FULL 30.0     /* s: maximum length of a chunk */
#define LONGEST 600.0 /* s: maximum length of an utterance */
#define UPSAMPLED 3   /* frames of BiCif's peaks in a frame of the input */
#define FIRED (1 - 1e-4f)
#define TOKEN_FRAMES 12 /* longest token, in frames of peaks: FunASR's MAX_TOKEN_DURATION */
#define SLACK_SECONDS 0.5

enum { LOGITS, TOKEN_NUM, ALPHAS, PEAKS };

struct model {
    struct steno_funasr_model m;
    int vocab;
    int32_t end; /* "</s>" */
    bool timed;  /* the network gives peaks */
};

struct worker {
    struct steno_shell_worker base;
    struct steno_funasr_frames frames;
    struct steno_greedy_text text;
};

/* ---- open ------------------------------------------------------------------------------------ */

static bool is_paraformer(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    return type ? strcmp(type, "paraformer") == 0
                : steno_onnx_head_has_input(h, "speech_lengths") &&
                      steno_onnx_head_has_output(h, "token_num");
}

static bool probe_paraformer(const char *dir)
{
    return steno_network_file_is(dir, "model", is_paraformer);
}

static steno_status check_network(struct model *m, steno_err *err)
{
    const int in = steno_network_n_inputs(m->m.base.part[0].net),
              out = steno_network_n_outputs(m->m.base.part[0].net);
    m->timed = out > PEAKS;
    m->end = steno_tokens_find(m->m.base.tokens, "</s>");
    if (m->end < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s/tokens.txt: '</s>' is not in the vocabulary",
                          m->m.base.dir);
    if (in == 2 && out > TOKEN_NUM)
        return STENO_OK;
    return steno_fail(
        err, STENO_ERR_FORMAT,
        "%s: %d inputs and %d outputs, expected 2 (frames, their number) and at least "
        "2 (scores, number of tokens)",
        m->m.base.part[0].name, in, out);
}

static steno_status open_model_paraformer(void *model, const struct steno_family_open *o,
                                          steno_err *err)
{
    struct model *m = model;
    struct steno_funasr_source source;
    size_t frame;
    steno_status st = steno_funasr_model_open(&m->m, o, "model", err);
    if (st)
        return st;
    source = steno_funasr_source_of(&m->m.base.part[0]);
    st = steno_funasr_number(&source, "vocab_size", 3, STENO_FUNASR_MAX_VOCAB, &m->vocab, err);
    if (!st)
        st = steno_funasr_tokens_open(&m->m, m->vocab, err);
    if (!st)
        st = check_network(m, err);
    if (st)
        return st;
    steno_tokens_set_joining(m->m.base.tokens);
    frame = STENO_FUNASR_HOP * m->m.front.lfr.shift / (m->timed ? UPSAMPLED : 1);
    steno_shell_set_cuts(&m->m.base, STENO_FUNASR_RATE, FULL, frame,
                         (int64_t)(SLACK_SECONDS * STENO_FUNASR_RATE) / (int64_t)frame);
    return STENO_OK;
}

static void get_info_paraformer(const void *model, struct steno_family_info *out)
{
    (void)model;
    out->chunk_seconds = FULL;
    out->endpoint.longest = LONGEST;
}

static void describe_paraformer(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    steno_funasr_describe(&m->m, i, out);
    fprintf(out, "languages  not named in the directory\n");
    fprintf(out, "search     the likeliest token, no hot words\n");
    fprintf(out, "times      %s\n",
            m->timed ? "of each token, by the network" : "estimates: the network gives none");
    steno_offline_describe(&m->m.base.offline, i, out);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void close_worker_paraformer(void *worker)
{
    struct worker *w = worker;
    steno_aligned_free(w->frames.rows);
    steno_greedy_text_close(&w->text);
}

static steno_status open_worker_paraformer(void *worker, const void *model, int max, steno_err *err)
{
    (void)max;
    return steno_greedy_text_open(&((struct worker *)worker)->text,
                                  ((const struct model *)model)->vocab, err);
}

/* ---- a chunk --------------------------------------------------------------------------------- */

static steno_status run_paraformer(struct worker *w, size_t rows, steno_err *err)
{
    const struct model *m = w->base.model;
    const int32_t n = (int32_t)rows;
    const int64_t one = 1, x[] = {1, n, (int64_t)(STENO_FUNASR_BINS * m->m.front.lfr.window)};
    struct steno_run r = steno_shell_run(w, 0, err);
    steno_run_set(&r, 0, STENO_F32, x, 3, w->frames.rows);
    steno_run_set(&r, 1, STENO_I32, &one, 1, &n);
    return steno_run_end(&r);
}

/* How many tokens the network says there are, at most `max` frames of scores. */
static steno_status read_count(const struct worker *w, size_t max, size_t *n, steno_err *err)
{
    const struct steno_tensor *t = steno_session_get(w->base.session[0], TOKEN_NUM);
    int64_t count;
    if (!t || steno_numel(t) != 1 || (t->dtype != STENO_I32 && t->dtype != STENO_I64))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: token_num is not one whole number",
                          ((const struct model *)w->base.model)->m.base.part[0].name);
    count = t->dtype == STENO_I32 ? *(const int32_t *)t->data : *(const int64_t *)t->data;
    *n = count < 0 ? 0 : (size_t)count < max ? (size_t)count : max;
    return STENO_OK;
}

/* The likeliest token of each frame of scores up to the end of the text. */
static steno_status read_tokens(struct worker *w, steno_err *err)
{
    const struct model *m = w->base.model;
    const struct steno_tensor *y = steno_session_get(w->base.session[0], LOGITS);
    const float *scores;
    size_t count = 0;
    steno_status st = steno_funasr_check_output(&m->m.base.part[0], y, m->vocab, err);
    if (!st)
        st = steno_scores_check(y->data, steno_numel(y), m->m.base.part[0].name, err);
    if (!st)
        st = read_count(w, (size_t)y->shape.dim[1], &count, err);
    if (!st)
        st = steno_greedy_text_begin(&w->text, count, err);
    if (st)
        return st;
    scores = y->data;
    for (size_t i = 0; i < count && steno_greedy_text_add(&w->text, scores, m->end) != m->end; i++)
        scores += m->vocab;
    return STENO_OK;
}

/* Frames of the tokens by the network's peaks. The last peak is the end of the text. False: there
 * are not as many as tokens. */
static bool place_by_peaks(struct worker *w)
{
    const size_t n = w->text.n;
    const struct steno_tensor *t = steno_session_get(w->base.session[0], PEAKS);
    const float *peak;
    size_t k = 0, all = 0;
    if (!t || t->dtype != STENO_F32)
        return false;
    peak = t->data;
    for (size_t i = 0; i < steno_numel(t); i++)
        all += peak[i] > FIRED;
    if (all != n + 1)
        return false;
    for (size_t i = 0; i < steno_numel(t) && k < n; i++)
        if (peak[i] > FIRED)
            w->text.spans[k++].first = (int64_t)i;
    for (k = 0; k < n; k++) {
        const int64_t longest = w->text.spans[k].first + TOKEN_FRAMES - 1;
        const int64_t next = k + 1 < n ? w->text.spans[k + 1].first - 1 : longest;
        w->text.spans[k].last = next < longest ? next : longest;
    }
    return true;
}

/* One piece at a time: zeros behind a shorter piece reach its tokens through the convolutions of
 * the predictor and the memory of the decoder. */
static steno_status recognize_paraformer(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    const struct model *m = w->base.model;
    size_t rows;
    steno_status st = steno_funasr_frames_of(&w->frames, &m->m.front, &w->base.features, p->pcm,
                                             p->n, &rows, p->err);
    if (st || !rows)
        return st;
    st = run_paraformer(w, rows, p->err);
    if (!st)
        st = read_tokens(w, p->err);
    if (st)
        return st;
    if (!(m->timed && place_by_peaks(w)))
        steno_greedy_text_share(&w->text, rows * (m->timed ? UPSAMPLED : 1));
    return steno_greedy_text_list(&w->text, p);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .worker_bytes = sizeof(struct worker),
                                         .sessions = 1,
                                         .open = open_model_paraformer,
                                         .close = steno_funasr_model_close,
                                         .info = get_info_paraformer,
                                         .describe = describe_paraformer,
                                         .worker_open = open_worker_paraformer,
                                         .worker_close = close_worker_paraformer,
                                         .recognize = recognize_paraformer};

static const struct steno_option_info options[] = {
    {FAMILY, "quantized", STENO_OPTION_FLAG, STENO_OPTION_OF_MODEL, 0, 0, NULL, "no",
     "use model.int8.onnx where model.onnx is there too"},
};

const struct steno_family steno_family_paraformer = {.name = FAMILY,
                                                     .options = options,
                                                     .n_options = sizeof options / sizeof *options,
                                                     .probe = probe_paraformer,
                                                     .shell = &shell,
                                                     STENO_OFFLINE_SHELL};
