/* Family nemo: encoders that take whole segments. */
#include <math.h>

#include "speech/families/entries.h"
#include "speech/families/nemo/internal.h"

#define FAMILY "nemo"
#define LONGEST 30.0 /* s: of a chunk; an utterance is not longer unless a stream says so */
#define LONGEST_OF_GIGAAM 25.0 /* s: its authors let no longer piece in */
#define TOKENS_PER_SECOND 30.0
#define TRIAL_FRAMES 24 /* of 10 ms */
#define SLACK 2         /* frames: how far the time of a token may differ between two chunks */

static bool probe_nemo_offline(const char *dir)
{
    bool streaming;
    return steno_nemo_conf_probe(dir, &streaming) && !streaming;
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct worker {
    struct steno_nemo_worker base;
    steno_canary_decoder *canary;
};

static void close_worker_nemo_offline(void *worker)
{
    steno_canary_decoder_close(((struct worker *)worker)->canary);
    steno_nemo_worker_close(worker);
}

static steno_status open_worker_nemo_offline(void *worker, const void *model, int max,
                                             steno_err *err)
{
    const struct steno_nemo_model *m = model;
    struct worker *w = worker;
    return m->conf.kind == STENO_NEMO_CANARY
               ? steno_canary_decoder_open(&w->canary, &m->canary, m->base.threads, err)
               : steno_nemo_worker_open(worker, model, max, err);
}

static const struct steno_nemo_model *model_of_nemo_offline(const void *worker)
{
    return ((const struct steno_shell_worker *)worker)->model;
}

static steno_status features(void *worker, struct steno_piece *p, float **x, size_t *n)
{
    struct steno_piece_features *f = &((struct steno_shell_worker *)worker)->features;
    const struct steno_nemo_model *m = model_of_nemo_offline(worker);
    steno_status st = steno_piece_features_compute(f, p->of->pcm, p->of->n, n, p->of->err);
    if (!st && m->conf.per_feature && *n)
        steno_cmvn_utterance(f->frames, *n, (size_t)m->conf.bins, &m->norm);
    *x = f->frames;
    return st;
}

/* Search pieces of a transducer together. */
static void search_together(void *worker, struct steno_piece *p, size_t n)
{
    struct steno_nemo_worker *w = worker;
    struct steno_transducer_nets nets;
    steno_tdt *t[STENO_BATCH_MAX];
    struct steno_tdt_frames f[STENO_BATCH_MAX];
    steno_err why = {0};
    steno_status st = STENO_OK;
    if (!w->joint)
        return;
    for (size_t i = 0; i < n && !st; i++) {
        struct steno_token_search *s = &((struct steno_shell_stream *)p[i].of->settings)->search;
        st = steno_token_search_restart(s, 0);
        t[i] = s->tdt;
        f[i] = (struct steno_tdt_frames){p[i].rows, p[i].n, model_of_nemo_offline(w)->dim};
    }
    nets = steno_nemo_joint_nets(w->joint);
    if (!st)
        st = steno_tdt_push(t, f, n, &nets, w->work, &why);
    for (size_t i = 0; i < n; i++) {
        steno_token_search_finish(&((struct steno_shell_stream *)p[i].of->settings)->search);
        p[i].of->st = st;
        if (st && p[i].of->err)
            *p[i].of->err = why;
    }
}

/* Canary: at most 30 tokens for each second of encoder frames, and one. */
static steno_status decode_nemo_offline(struct worker *w, const struct steno_piece *p)
{
    const struct steno_nemo_stream *s = p->of->settings;
    const double seconds =
        (double)(p->n * steno_nemo_frame(model_of_nemo_offline(w))) / STENO_NEMO_RATE;
    if (!p->n)
        return STENO_OK;
    p->of->language = s->language;
    p->of->language_probability = 1;
    return steno_canary_decode(w->canary, p->rows, p->n, model_of_nemo_offline(w)->dim, s->source,
                               s->target, (size_t)(seconds * TOKENS_PER_SECOND) + 1, p->of);
}

/* Frames of scores of CTC. sherpa-onnx leaves GigaAM's last one out where the feature frames are no
 * multiple of the subsampling. */
static size_t scores_of(const struct steno_nemo_model *m, const struct steno_piece *p)
{
    const size_t whole = (size_t)steno_fbank_whole_count(m->base.front, (int64_t)p->of->n) /
                         (size_t)m->conf.subsampling;
    return m->sherpa && m->conf.gigaam && whole < p->n ? whole : p->n;
}

static steno_status search(void *worker, const struct steno_piece *p)
{
    struct worker *w = worker;
    const struct steno_nemo_model *m = model_of_nemo_offline(w);
    steno_status st = STENO_OK;
    if (w->canary)
        return decode_nemo_offline(w, p);
    if (!w->base.joint)
        st = steno_shell_search_scores(p->of, p->rows, scores_of(m, p), m->conf.encoder);
    return st ? st : steno_shell_list(p->of);
}

/* ---- a model --------------------------------------------------------------------------------- */

static steno_status open_pieces(struct steno_nemo_model *m, steno_err *err)
{
    const bool canary = m->conf.kind == STENO_NEMO_CANARY;
    m->base.pieces = (struct steno_piece_encoder){.net = m->encoder,
                                                  .name = m->conf.encoder,
                                                  .x = m->audio,
                                                  .length = m->length,
                                                  .y = m->scores,
                                                  .lengths = m->lengths,
                                                  .ahead = -1,
                                                  .every = m->conf.subsampling,
                                                  .bins = (size_t)m->conf.bins,
                                                  .dim = m->dim,
                                                  .bins_first = !canary || m->conf.onnx_asr,
                                                  .dim_first = steno_nemo_is_transducer(m),
                                                  .least = 1,
                                                  .trial_frames = TRIAL_FRAMES};
    return steno_piece_encoder_try(&m->base.pieces, m->base.threads, m->conf.quantized, err);
}

static steno_status open_model_nemo_offline(void *model, const struct steno_family_open *o,
                                            steno_err *err)
{
    struct steno_nemo_model *m = model;
    steno_status st = steno_nemo_open(m, o, false, err);
    if (st)
        return st;
    steno_shell_set_cuts(&m->base, STENO_NEMO_RATE,
                         fmin(m->conf.gigaam ? LONGEST_OF_GIGAAM : LONGEST, m->limit),
                         steno_nemo_frame(m), SLACK);
    return open_pieces(m, err);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct steno_nemo_model),
                                         .stream_bytes = sizeof(struct steno_nemo_stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .open = open_model_nemo_offline,
                                         .close = steno_nemo_close,
                                         .info = steno_nemo_info,
                                         .describe = steno_nemo_describe,
                                         .stream_open = steno_nemo_stream_open,
                                         .worker_open = open_worker_nemo_offline,
                                         .worker_close = close_worker_nemo_offline,
                                         .features = features,
                                         .search_together = search_together,
                                         .search = search};

static const struct steno_option_info options[] = {
    STENO_NEMO_OPTIONS(FAMILY),
    {FAMILY, "target_language", STENO_OPTION_CHOICE, STENO_OPTION_OF_STREAM, 0, 0,
     "same|en|de|es|fr", "same", "Canary: language of the text; same: as spoken"}};

const struct steno_family steno_family_nemo = {.name = FAMILY,
                                               .options = options,
                                               .n_options = sizeof options / sizeof *options,
                                               .probe = probe_nemo_offline,
                                               .languages = steno_nemo_languages,
                                               .shell = &shell,
                                               STENO_OFFLINE_SHELL};
