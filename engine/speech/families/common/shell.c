#include "speech/families/common/shell.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/common/noise.h"
#include "speech/families/common/precision.h"
#include "speech/families/common/scores.h"

/* ---- models ---------------------------------------------------------------------------------- */

steno_status steno_shell_open(void **model, const struct steno_family_open *o, steno_err *err)
{
    const struct steno_shell *shell = o->family->shell;
    struct steno_shell_model *m = calloc(1, shell->model_bytes);
    steno_status st;
    if (m) {
        m->shell = shell;
        m->threads = o->threads;
        m->dir = strdup(o->dir);
        steno_path_copy_name(m->name, sizeof m->name, o->dir);
    }
    st = m && m->dir ? shell->open(m, o, err)
                     : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    if (st)
        steno_shell_close(m);
    else
        *model = m;
    return st;
}

void steno_shell_close(void *model)
{
    struct steno_shell_model *m = model;
    if (!m)
        return;
    if (m->shell->close)
        m->shell->close(m);
    steno_cached_encoder_unbind(&m->encoder);
    for (int i = 0; i < STENO_SHELL_PARTS; i++)
        steno_part_file_close(&m->part[i]);
    free(m->quiet);
    steno_search_hints_close(&m->hints);
    steno_fbank_close(m->front);
    steno_tokens_close(m->tokens);
    free(m->dir);
    free(m);
}

steno_status steno_shell_open_parts(struct steno_shell_model *m, const struct steno_family_open *o,
                                    const char *const *stems, int n, steno_err *err)
{
    bool int8 = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    for (int i = 0; i < n && !st; i++)
        st = steno_part_file_open(&m->part[i], o, stems[i], int8, err);
    return st;
}

steno_status steno_shell_open_tokens(struct steno_shell_model *m, const char *file, steno_err *err)
{
    char *path = steno_path_join(m->dir, file);
    const steno_status st = path ? steno_tokens_open(&m->tokens, path, err)
                                 : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    free(path);
    return st;
}

static bool is_offline(const struct steno_shell *s)
{
    return s->recognize || s->search;
}

static void fill_windows(const struct steno_shell_model *m, struct steno_family_info *out)
{
    out->stream_bytes =
        m->encoder.state_bytes + steno_cached_encoder_window(&m->encoder) * sizeof(float);
    out->batches = m->encoder.batches;
    out->feeding = STENO_FEED_WINDOWS;
    out->windows = (struct steno_windows_info){.front = m->front,
                                               .frames = (size_t)m->encoder.shape.window,
                                               .rows = (size_t)m->encoder.shape.frames};
}

void steno_shell_info(const void *model, struct steno_family_info *out)
{
    const struct steno_shell_model *m = model;
    const char *network = m->part[0].name;
    *out = (struct steno_family_info){.name = m->name,
                                      .version = "",
                                      .language = "",
                                      .license = "",
                                      .network = network ? network : "",
                                      .results_of = "",
                                      .tokens = m->tokens,
                                      .sample_rate = m->offline.cuts.rate,
                                      .feature_bins = 1,
                                      .takes_hotwords = m->hints.phrases.tokens != NULL};
    for (int i = 0; i < STENO_SHELL_PARTS; i++)
        if (m->part[i].net)
            out->weight_bytes += steno_network_weight_bytes(m->part[i].net);
    if (m->front) {
        out->hop = steno_fbank_shift(m->front);
        out->feature_bins = (int)steno_fbank_bins(m->front);
    }
    if (is_offline(m->shell)) {
        steno_offline_info(&m->offline, out);
        out->chunk_seconds = STENO_OFFLINE_FIRST_PARTIAL;
        out->batches = m->pieces.batches;
    }
    if (m->encoder.net)
        fill_windows(m, out);
    m->shell->info(m, out);
}

void steno_shell_describe(const void *model, const struct steno_model_info *i, FILE *out)
{
    ((const struct steno_shell_model *)model)->shell->describe(model, i, out);
}

void steno_shell_describe_head(const struct steno_model_info *i, const char *kind, FILE *out)
{
    fprintf(out, "model      %s, %s%s%s\n", i->name, i->family, *kind ? ", " : "", kind);
    fprintf(out, "directory  %s\n", i->dir);
    fprintf(out, "languages  %s\n", *i->languages ? i->languages : "not named in the directory");
}

void steno_shell_describe_search(const struct steno_shell_model *m,
                                 const struct steno_model_info *i, const char *blank, FILE *out)
{
    fprintf(out, "decoder    %zu tokens, blank %s%s, hotwords by %s and characters\n",
            i->vocab_size, blank, m->hints.lm.ngram ? ", an n-gram model" : "",
            steno_phrases_source(&m->hints.phrases));
}

void steno_shell_describe_limits(const struct steno_model_info *i, FILE *out)
{
    fprintf(out, "endpoint   %g s of silence, %g s after speech, %g s at most\n",
            i->endpoint.silence_alone, i->endpoint.silence_after, i->endpoint.longest);
    fprintf(out, "memory     weights %.2f MiB shared, %.2f MiB for each stream\n",
            (double)i->weight_bytes / 1048576, (double)i->stream_bytes / 1048576);
}

/* ---- streams --------------------------------------------------------------------------------- */

void steno_shell_state_free(void *state)
{
    struct steno_shell_stream *s = state;
    const struct steno_shell_model *m = s ? s->model : NULL;
    if (!s)
        return;
    if (m->shell->stream_close)
        m->shell->stream_close(s);
    steno_token_search_close(&s->search);
    steno_cached_encoder_state_free(&s->encoder);
    free(s);
}

steno_status steno_shell_state_new(void **state, void *model, struct steno_family_stream *o,
                                   steno_err *err)
{
    const struct steno_shell_model *m = model;
    struct steno_shell_stream *s;
    steno_status st;
    if (!m->shell->stream_open) {
        o->beam = o->n_best = 1;
        return STENO_OK;
    }
    s = calloc(1, m->shell->stream_bytes);
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    s->model = m;
    s->encoder.fresh = true;
    st = m->shell->stream_open(s, m, o, err);
    if (st)
        steno_shell_state_free(s);
    else
        *state = s;
    return st;
}

steno_status steno_shell_offline_new(void **state, void *model, struct steno_family_stream *o,
                                     steno_err *err)
{
    const struct steno_shell_model *m = model;
    void *settings = NULL;
    const steno_status st = steno_shell_state_new(&settings, model, o, err);
    return st ? st : steno_offline_new(state, &m->offline, settings, o, err);
}

steno_status steno_shell_open_ctc_stream(void *stream, const void *model,
                                         struct steno_family_stream *o, steno_err *err)
{
    const struct steno_shell_model *m = model;
    return steno_token_search_open_ctc(&((struct steno_shell_stream *)stream)->search, &m->hints, o,
                                       steno_tokens_count(m->tokens), m->blank, err);
}

/* ---- workers --------------------------------------------------------------------------------- */

steno_status steno_shell_worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct steno_shell_model *m = model;
    struct steno_shell_worker *w = calloc(1, m->shell->worker_bytes);
    steno_status st = STENO_OK;
    if (!w)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    w->model = m;
    if (m->pieces.net)
        st = steno_piece_runs_open(&w->runs, &m->pieces, m->threads, err);
    for (int i = 0; i < m->shell->sessions && !m->pieces.net && !st; i++)
        if (m->part[i].net)
            st = steno_shell_session_open(&w->session[i], m, m->part[i].net, err);
    if (!st && m->encoder.net)
        st = steno_cached_encoder_batch_open(&w->batch, &m->encoder, max, m->threads, err);
    if (!st && m->front && is_offline(m->shell))
        st = steno_piece_features_open(&w->features, m->front, err);
    if (!st && m->shell->worker_open)
        st = m->shell->worker_open(w, m, max, err);
    if (st)
        steno_shell_worker_close(w);
    else
        *worker = w;
    return st;
}

void steno_shell_worker_close(void *worker)
{
    struct steno_shell_worker *w = worker;
    const struct steno_shell_model *m = w ? w->model : NULL;
    if (!w)
        return;
    if (m->shell->worker_close)
        m->shell->worker_close(w);
    for (int i = STENO_SHELL_PARTS; i-- > 0;) /* one may borrow from those before it */
        steno_session_close(w->session[i]);
    steno_piece_runs_close(w->runs);
    steno_piece_features_close(&w->features);
    steno_cached_encoder_batch_close(w->batch);
    free(w);
}

steno_status steno_shell_session_open(steno_session **out, const struct steno_shell_model *m,
                                      steno_network *net, steno_err *err)
{
    const struct steno_session_options o = {.threads = m->threads};
    return steno_session_open(out, net, &o, err);
}

struct steno_run steno_shell_run(const void *worker, int part, steno_err *err)
{
    const struct steno_shell_worker *w = worker;
    const struct steno_shell_model *m = w->model;
    return steno_run_begin(w->session[part], m->part[part].name, err);
}

steno_status steno_shell_trial_open(void **trial, void *worker, steno_err *err)
{
    struct steno_shell_worker *w = worker;
    *trial = NULL;
    return w->runs ? steno_piece_trial_open(trial, w->runs, err) : STENO_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static const struct steno_shell *shell_of(const void *worker)
{
    return ((const struct steno_shell_model *)((const struct steno_shell_worker *)worker)->model)
        ->shell;
}

static steno_status compute(void *worker, struct steno_piece *p, float **x, size_t *n)
{
    struct steno_piece_features *f = &((struct steno_shell_worker *)worker)->features;
    steno_status st;
    if (shell_of(worker)->features)
        return shell_of(worker)->features(worker, p, x, n);
    st = steno_piece_features_compute(f, p->of->pcm, p->of->n, n, p->of->err);
    *x = f->frames;
    return st;
}

static void search(void *worker, struct steno_piece *p, size_t n)
{
    const struct steno_shell *shell = shell_of(worker);
    if (shell->search_together)
        shell->search_together(worker, p, n);
    for (size_t i = 0; i < n; i++)
        if (!p[i].of->st)
            p[i].of->st = shell->search(worker, &p[i]);
}

static void recognize_shell(void *worker, struct steno_offline_piece *p, size_t n)
{
    static const struct steno_piece_functions f = {compute, search};
    struct steno_shell_worker *w = worker;
    if (w->runs) {
        steno_piece_runs_recognize(w->runs, &f, worker, p, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        p[i].st = shell_of(worker)->recognize(worker, &p[i]);
}

void steno_shell_set_cuts(struct steno_shell_model *m, int rate, double full, size_t frame_samples,
                          int64_t slack)
{
    m->offline =
        (struct steno_offline_family){.cuts = steno_offline_cuts(rate, full, frame_samples),
                                      .frame_samples = frame_samples,
                                      .slack = slack,
                                      .tokens = m->tokens,
                                      .recognize = recognize_shell,
                                      .settings_free = steno_shell_state_free};
}

steno_status steno_shell_try_piece(struct steno_shell_model *m, steno_err *err)
{
    const size_t n = (size_t)m->offline.cuts.rate;
    float *noise = malloc(n * sizeof *noise);
    struct steno_family_stream o = {0};
    struct steno_hypothesis_list out;
    struct steno_offline_piece p = {.pcm = noise, .n = n, .partial = true, .out = &out, .err = err};
    void *w = NULL;
    steno_status st = noise ? steno_shell_worker_open(&w, m, 1, err)
                            : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
    steno_hypothesis_list_init(&out);
    if (!st)
        st = steno_shell_state_new(&p.settings, m, &o, err);
    if (!st) {
        steno_noise_fill(noise, n, 1);
        recognize_shell(w, &p, 1);
        st = p.st;
    }
    steno_hypothesis_list_free(&out);
    steno_shell_state_free(p.settings);
    steno_shell_worker_close(w);
    free(noise);
    return st;
}

steno_status steno_shell_list(const struct steno_offline_piece *p)
{
    struct steno_token_search *s = &((struct steno_shell_stream *)p->settings)->search;
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t n = 0, stable;
    steno_status st = steno_token_search_list(s, h, p->partial ? 1 : s->n_best, &n, &stable);
    if (!st)
        st = steno_hypothesis_list_add_all(p->out, h, n);
    return st ? steno_fail(p->err, st, "stream: out of memory") : STENO_OK;
}

/* The frames that are this chunk's alone; the last ones of a chunk that ends in a pause may be
 * fewer than its samples say. */
static steno_status push_aligned(const struct steno_token_search *s,
                                 const struct steno_offline_piece *p, const float *scores, size_t n)
{
    const int64_t end = (int64_t)n < p->end ? (int64_t)n : p->end;
    return end <= p->before ? STENO_OK
                            : steno_alignment_push_at(s->alignment, p->frame + p->before,
                                                      scores + (size_t)p->before * s->vocab,
                                                      (size_t)(end - p->before));
}

steno_status steno_shell_search_scores(const struct steno_offline_piece *p, const float *scores,
                                       size_t n, const char *file)
{
    struct steno_token_search *s = &((struct steno_shell_stream *)p->settings)->search;
    steno_status st = steno_scores_check(scores, n * s->vocab, file, p->err);
    if (st)
        return st;
    if (s->alignment)
        st = p->partial ? STENO_OK : push_aligned(s, p, scores, n);
    else
        st = steno_token_search_restart(s, 0);
    if (!st && !s->alignment)
        st = steno_token_search_push(s, scores, n);
    return st ? steno_fail(p->err, st, "stream: out of memory") : STENO_OK;
}
