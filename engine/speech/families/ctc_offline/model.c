/* Family ctc_offline: CTC over a piece of audio at once.
 *
 *     x [N, frames, bins], lengths [N] or a mask [N, frames] i64 -> scores [N, T, vocab], lengths
 * [N] feats [1, frames, bins] -> scores [T, 1, vocab]
 */
#include <string.h>

#include "base/arena.h"
#include "base/path.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/scores.h"
#include "speech/families/common/search_options.h"
#include "speech/families/common/shell.h"
#include "speech/families/ctc_offline/kinds.h"
#include "speech/families/entries.h"
#include "speech/families/option.h"
#include "speech/features/cepstrum.h"

#define FAMILY "ctc_offline"
#define FULL 30.0       /* s: of a chunk; an utterance is not longer unless a stream says so */
#define SLACK 2         /* frames: how far the time of a token may differ between two chunks */
#define TRIAL_FRAMES 24 /* of 10 ms */
#define LEAST_FRAMES 8  /* feature frames that the convolutions need */

static const char *const stems[] = {"model"};

/* Frozen after open. */
struct model {
    struct steno_shell_model base;
    struct steno_ctc_offline_meta meta;
    bool sherpa; /* features as sherpa-onnx computes them */
    size_t bins;
    float *cepstrum; /* [bins, bins]; NULL: the filters are the features */
};

struct worker {
    struct steno_shell_worker base;
    float *scores; /* [cap] log-probabilities of a piece */
    size_t cap;
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_ctc_offline(const steno_onnx_head *h)
{
    return steno_ctc_offline_kind_of(h) != NULL;
}

static bool probe_ctc_offline(const char *dir)
{
    return steno_path_readable(dir, "tokens.txt") &&
           steno_network_file_is(dir, stems[0], is_ctc_offline);
}

static bool languages(const char *dir, struct steno_model_languages *out)
{
    steno_onnx_head *h = steno_network_file_peek(dir, stems[0]);
    const struct steno_ctc_offline_kind *k = h ? steno_ctc_offline_kind_of(h) : NULL;
    snprintf(out->languages, sizeof out->languages, "%s", k ? k->languages : "");
    steno_onnx_head_close(h);
    return *out->languages;
}

static steno_status open_network_ctc_offline(struct model *m, const struct steno_family_open *o,
                                             steno_err *err)
{
    const struct steno_part_file *net = &m->base.part[0];
    steno_onnx_head *h = NULL;
    steno_status st = steno_shell_open_parts(&m->base, o, stems, 1, err);
    if (!st)
        st = steno_network_file_head(&h, o->dir, net->name, err);
    if (!st)
        st = steno_ctc_offline_meta_read(&m->meta, h, net->name, err);
    steno_onnx_head_close(h);
    return st ? steno_fail_in(err, st, "%s", o->dir) : STENO_OK;
}

/* Marks, "<...>", have no text but for bytes, "<0xE4>". */
static void hide_marks(steno_tokens *t)
{
    for (int32_t i = 0; i < steno_tokens_count(t); i++) {
        const char *piece = steno_tokens_piece(t, i);
        const size_t n = strlen(piece);
        if (n > 2 && piece[0] == '<' && piece[n - 1] == '>' && !strpbrk(piece, " \t") &&
            !(steno_tokens_flags(t, i) & STENO_TOKEN_BYTE))
            steno_tokens_hide(t, &i, 1);
    }
}

static steno_status find_blank(struct steno_shell_model *m, steno_err *err)
{
    static const char *const names[] = {"<blk>", "<blank>", "<eps>", "<epsilon>"};
    m->blank = -1;
    for (size_t i = 0; i < sizeof names / sizeof *names && m->blank < 0; i++)
        m->blank = steno_tokens_find(m->tokens, names[i]);
    return m->blank >= 0
               ? STENO_OK
               : steno_fail(err, STENO_ERR_FORMAT,
                            "%s/tokens.txt: there is no <blk>, <blank>, <eps> or <epsilon>",
                            m->dir);
}

static steno_status open_tokens_ctc_offline(struct model *m, steno_err *err)
{
    steno_status st = steno_shell_open_tokens(&m->base, "tokens.txt", err);
    if (!st && m->meta.vocab && steno_tokens_count(m->base.tokens) != m->meta.vocab)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s/tokens.txt: %d tokens, expected %lld: metadata vocab_size of %s",
                        m->base.dir, (int)steno_tokens_count(m->base.tokens),
                        (long long)m->meta.vocab, m->base.part[0].name);
    if (!st)
        st = find_blank(&m->base, err);
    if (!st)
        hide_marks(m->base.tokens);
    return st;
}

static steno_status open_features_ctc_offline(struct model *m, const struct steno_family_open *o,
                                              steno_err *err)
{
    const struct steno_ctc_offline_kind *k = m->meta.kind;
    const char *front = steno_option_value(o->options, o->n_options, "frontend");
    struct steno_fbank_options f;
    steno_status st;
    m->sherpa = !k->trained || (front && strcmp(front, "sherpa") == 0);
    f = k->front(m->sherpa);
    m->bins = f.bins;
    st = steno_fbank_open(&m->base.front, &f, err);
    if (st || k->lifter <= 0)
        return st;
    m->cepstrum = steno_aligned_alloc(m->bins * m->bins * sizeof *m->cepstrum);
    if (!m->cepstrum)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->base.dir);
    steno_cepstrum_fill(m->cepstrum, m->bins, m->bins, k->lifter);
    return STENO_OK;
}

static bool is_length(const struct steno_value *v)
{
    return (v->dtype == STENO_I64 && (v->shape.rank == 1 || v->shape.rank == 2)) ||
           (v->dtype == STENO_I32 && v->shape.rank == 1);
}

static steno_status open_encoder(struct model *m, steno_err *err)
{
    const char *name = m->base.part[0].name;
    steno_network *net = m->base.part[0].net;
    const bool alone = m->meta.kind->frames_first;
    const int inputs = alone ? 1 : 2, outputs = steno_network_n_outputs(net);
    if (steno_network_n_inputs(net) != inputs || outputs < 1 ||
        steno_network_input(net, 0)->dtype != STENO_F32 ||
        (!alone && !is_length(steno_network_input(net, 1))))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s/%s: expected an input [N,frames,%zu] f32%s, and scores", m->base.dir,
                          name, m->bins, alone ? "" : " and lengths [N] or a mask i64");
    m->base.pieces = (struct steno_piece_encoder){.net = net,
                                                  .name = name,
                                                  .x = 0,
                                                  .length = alone ? -1 : 1,
                                                  .y = 0,
                                                  .lengths = outputs > 1 ? 1 : -1,
                                                  .ahead = -1,
                                                  .bins = m->bins,
                                                  .dim = (size_t)steno_tokens_count(m->base.tokens),
                                                  .frames_first = alone,
                                                  .least = LEAST_FRAMES,
                                                  .trial_frames = TRIAL_FRAMES};
    return steno_piece_encoder_try(&m->base.pieces, m->base.threads, m->base.part[0].quantized,
                                   err);
}

static steno_status open_model_ctc_offline(void *model, const struct steno_family_open *o,
                                           steno_err *err)
{
    struct model *m = model;
    steno_status st = open_network_ctc_offline(m, o, err);
    if (!st)
        st = open_tokens_ctc_offline(m, err);
    if (!st)
        st = open_features_ctc_offline(m, o, err);
    if (!st)
        st = steno_search_hints_open(&m->base.hints, o, m->base.tokens,
                                     steno_tokens_count(m->base.tokens), err);
    if (st)
        return st;
    steno_shell_set_cuts(&m->base, STENO_CTC_OFFLINE_RATE, FULL,
                         steno_fbank_shift(m->base.front) * (size_t)m->meta.subsampling, SLACK);
    return open_encoder(m, err);
}

static void close_model_ctc_offline(void *model)
{
    struct model *m = model;
    steno_cmvn_close(m->meta.cmvn);
    steno_aligned_free(m->cepstrum);
}

/* ---- a piece --------------------------------------------------------------------------------- */

static steno_status features(void *worker, struct steno_piece *p, float **x, size_t *n)
{
    struct steno_piece_features *f = &((struct worker *)worker)->base.features;
    const struct model *m = ((struct worker *)worker)->base.model;
    steno_status st = steno_piece_features_compute(f, p->of->pcm, p->of->n, n, p->of->err);
    if (!st && m->cepstrum)
        steno_cepstrum_apply(m->cepstrum, m->bins, m->bins, f->frames, *n, f->frames);
    if (!st && m->meta.cmvn)
        steno_cmvn_apply(m->meta.cmvn, f->frames, *n);
    *x = f->frames;
    return st;
}

/* Some networks give logits, others log-probabilities, which the softmax leaves as they are. */
static steno_status search_ctc_offline(void *worker, const struct steno_piece *p)
{
    struct worker *w = worker;
    const struct model *m = w->base.model;
    const size_t vocab = m->base.pieces.dim;
    steno_status st;
    if (!steno_floats_reserve(&w->scores, &w->cap, p->n * vocab))
        return steno_fail(p->of->err, STENO_ERR_NOMEM, "stream: out of memory");
    for (size_t i = 0; i < p->n; i++)
        steno_log_softmax(p->rows + i * vocab, vocab, w->scores + i * vocab);
    st = steno_shell_search_scores(p->of, w->scores, p->n, m->base.part[0].name);
    return st ? st : steno_shell_list(p->of);
}

static void close_worker_ctc_offline(void *worker)
{
    steno_aligned_free(((struct worker *)worker)->scores);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_ctc_offline(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    out->languages = m->meta.kind->languages;
    if (!strchr(out->languages, ' '))
        out->language = out->languages;
    out->results_of = m->sherpa ? "sherpa-onnx" : "";
}

static void describe_ctc_offline(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    char kind[64];
    snprintf(kind, sizeof kind, "CTC, %s", m->meta.kind->title);
    steno_shell_describe_head(i, kind, out);
    fprintf(out, "features   %d %s, %d Hz, as %s\n", i->feature_bins,
            m->cepstrum ? "cepstra" : "mel bins", i->sample_rate,
            m->sherpa ? "sherpa-onnx computes them" : "in training");
    fprintf(out, "network    %s%s\n", i->network, m->base.part[0].quantized ? ", 8 bits" : "");
    steno_shell_describe_search(&m->base, i, steno_tokens_piece(m->base.tokens, m->base.blank),
                                out);
    fprintf(out, "steps      whole segments of at most %.0f s, scores every %.0f ms\n", FULL,
            i->frame_seconds * 1e3);
    steno_offline_describe(&m->base.offline, i, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct steno_shell_stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .open = open_model_ctc_offline,
                                         .close = close_model_ctc_offline,
                                         .info = get_info_ctc_offline,
                                         .describe = describe_ctc_offline,
                                         .stream_open = steno_shell_open_ctc_stream,
                                         .worker_close = close_worker_ctc_offline,
                                         .features = features,
                                         .search = search_ctc_offline};

static const struct steno_option_info options[] = {STENO_FRONTEND_OPTION(FAMILY),
                                                   STENO_SEARCH_OPTIONS(FAMILY)};

const struct steno_family steno_family_ctc_offline = {.name = FAMILY,
                                                      .options = options,
                                                      .n_options = sizeof options / sizeof *options,
                                                      .probe = probe_ctc_offline,
                                                      .languages = languages,
                                                      .shell = &shell,
                                                      STENO_OFFLINE_SHELL};
