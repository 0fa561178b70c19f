/* Family whisper: a faster-whisper (CTranslate2), Hugging Face or ONNX directory, a ggml or GGUF
 * file. */
#include "speech/families/entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/common/precision.h"
#include "speech/families/whisper/internal.h"
#include "speech/text/language.h"

#define FAMILY "whisper"
#define LONGEST 20.0 /* s of an utterance without a pause */
#define PAUSE 1.0    /* s of silence that end one */
#define UNSURE -0.6f /* log-probability of a text where there may be no speech */
#define FRAME_SAMPLES 320
#define PARTIAL_EVERY 0.8 /* s */

static void close_model_whisper(void *model)
{
    struct steno_whisper_model *m = model;
    if (!m)
        return;
    steno_whisper_close(m->net);
    steno_tokens_close(m->tokens);
    free(m->suppressed);
    free(m->dir);
    free(m);
}

static void list_languages(const struct steno_whisper_specials *s, char *out, size_t size)
{
    const int n = s->multilingual ? s->n_languages : 1;
    size_t at = 0;
    for (int i = 0; i < n && at < size; i++)
        at +=
            (size_t)snprintf(out + at, size - at, "%s%s", i ? " " : "", steno_language_code_at(i));
}

static steno_status open_parts(struct steno_whisper_model *m, const struct steno_family_open *o,
                               steno_err *err)
{
    struct steno_whisper_options w = {
        .cpu = o->cpu, .threads = o->threads, .plain = o->plain, .cache_dir = steno_cache_dir()};
    const char *name;
    int n;
    steno_status st = steno_choose_precision(o->precision, o->cpu, true, true, &w.precision, err);
    if (!st)
        st = steno_whisper_open(&m->net, o->dir, &w, err);
    if (!st)
        st = steno_whisper_spellings_open(&m->tokens, m->net->bpe, o->dir, err);
    if (st)
        return st;
    name = steno_path_name(o->dir, &n);
    snprintf(m->name, sizeof m->name, "%.*s", n, name);
    m->format = steno_whisper_weights_format(m->net->weights);
    m->defaults = steno_whisper_recording_default(m->net);
    m->defaults.words = true;
    m->defaults.decode.loops_are_silence = true;
    m->defaults.decode.silence_log_prob = UNSURE;
    m->defaults.words_move = false; /* texts do not depend on the times of words */
    list_languages(&m->net->special, m->languages, sizeof m->languages);
    return steno_whisper_options_apply(m->net, o->options, o->n_options, &m->defaults,
                                       &m->suppressed, err);
}

static steno_status open_model_whisper(void **model, const struct steno_family_open *o,
                                       steno_err *err)
{
    struct steno_whisper_model *m = calloc(1, sizeof *m);
    steno_status st = STENO_ERR_NOMEM;
    if (m && (m->dir = strdup(o->dir)))
        st = open_parts(m, o, err);
    else
        st = steno_fail(err, st, "%s: out of memory", o->dir);
    if (st)
        close_model_whisper(m);
    else
        *model = m;
    return st;
}

/* Keys and values of a window's cross attention, and of a beam's texts. */
static size_t stream_bytes(const struct steno_whisper *w)
{
    const struct steno_whisper_dims *d = &w->dims;
    const size_t row = (size_t)(2 * d->text_state * d->text_layers) * sizeof(float);
    return steno_whisper_window_bytes(w, (size_t)d->audio_ctx) + 2 * row * (size_t)d->text_ctx +
           (size_t)(4 * d->audio_ctx * d->mels) * sizeof(float);
}

/* turbo and the distilled models have fewer layers in the decoder than in the encoder, and were
 * not trained to translate: they write the language that is spoken. */
static bool translates(const struct steno_whisper_specials *s, const struct steno_whisper_dims *d)
{
    return s->multilingual && d->text_layers == d->audio_layers;
}

/* The files are mapped, and only their names and sizes are read. */
static bool languages(const char *dir, struct steno_model_languages *out)
{
    struct steno_whisper_specials special;
    struct steno_whisper_dims dims;
    steno_whisper_weights *w = NULL;
    bool known = !steno_whisper_weights_open(&w, dir, NULL);
    if (known) {
        dims = steno_whisper_weights_dims(w);
        known = !steno_whisper_specials(dims.vocab, steno_whisper_weights_marks(w), dir, &special,
                                        NULL);
    }
    if (known) {
        list_languages(&special, out->languages, sizeof out->languages);
        out->translates = translates(&special, &dims);
    }
    steno_whisper_weights_close(w);
    return known;
}

static void get_info_whisper(const void *model, struct steno_family_info *out)
{
    const struct steno_whisper_model *m = model;
    *out = (struct steno_family_info){
        .name = m->name,
        .version = "",
        .language = m->net->special.multilingual ? "" : "en",
        .license = "",
        .network = m->format,
        .results_of = "",
        .tokens = m->tokens,
        .sample_rate = STENO_WHISPER_RATE,
        .hop = STENO_WHISPER_HOP,
        .feature_bins = (int)m->net->dims.mels,
        .frame_samples = FRAME_SAMPLES,
        .chunk_seconds = (double)(m->net->dims.audio_ctx * FRAME_SAMPLES) / STENO_WHISPER_RATE,
        .weight_bytes = steno_whisper_weight_bytes(m->net),
        .stream_bytes = stream_bytes(m->net),
        .endpoint = {5, PAUSE, LONGEST},
        .batches = true,
        .languages = m->languages,
        .detects_language = m->net->special.multilingual,
        .translates = translates(&m->net->special, &m->net->dims),
        .takes_prompt = true,
        .takes_prefix = true,
        .takes_hotwords = true,
        .writes = true,
        .untimed = true,
        .feeding = STENO_FEED_SEGMENTS,
        .segments = {
            .incremental = true, .cuts = true, .partial_every = PARTIAL_EVERY, .early = true}};
}

static void describe_whisper(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct steno_whisper_model *m = model;
    const struct steno_whisper_dims *d = &m->net->dims;
    fprintf(out, "model      %s, %s, %s\n", i->name, i->family,
            m->net->special.multilingual ? "multilingual" : "English");
    if (m->net->special.multilingual)
        fprintf(out, "languages  %d, detected where none is named%s\n", m->net->special.n_languages,
                translates(&m->net->special, d) ? "; translates to English" : "");
    fprintf(out, "weights    %s, %s\n", steno_whisper_weights_file(m->net->weights), m->format);
    fprintf(out, "features   log-mel, %d Hz, %d bins\n", i->sample_rate, i->feature_bins);
    fprintf(out, "encoder    %lld layers of %lld, %lld heads\n", (long long)d->audio_layers,
            (long long)d->audio_state, (long long)d->audio_heads);
    fprintf(out, "decoder    %lld layers of %lld, %lld heads, %lld pieces\n",
            (long long)d->text_layers, (long long)d->text_state, (long long)d->text_heads,
            (long long)d->vocab);
    fprintf(out, "endpoint   %g s of silence after speech, %g s at most\n",
            i->endpoint.silence_after, i->endpoint.longest);
    fprintf(out, "memory     weights %.2f MiB shared, %.2f MiB for each stream\n",
            (double)i->weight_bytes / 1048576, (double)i->stream_bytes / 1048576);
}

/* Times of steps depend on how much is said. */
static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    (void)worker;
    (void)err;
    *trial = NULL;
    return STENO_OK;
}

static steno_status trial_run(void *trial, int size, steno_err *err)
{
    (void)trial;
    (void)size;
    return steno_fail(err, STENO_ERR_INTERNAL, "whisper has no trial");
}

static void trial_close(void *trial)
{
    (void)trial;
}

const struct steno_family steno_family_whisper = {.name = FAMILY,
                                                  .options = steno_whisper_options,
                                                  .n_options = STENO_WHISPER_N_OPTIONS,
                                                  .probe = steno_whisper_weights_probe,
                                                  .languages = languages,
                                                  .open = open_model_whisper,
                                                  .close = close_model_whisper,
                                                  .info = get_info_whisper,
                                                  .describe = describe_whisper,
                                                  .state_new = steno_whisper_state_new,
                                                  .state_free = steno_whisper_state_free,
                                                  .reset = steno_whisper_reset,
                                                  .worker_open = steno_whisper_worker_open,
                                                  .worker_close = steno_whisper_worker_close,
                                                  .step = steno_whisper_step_items,
                                                  .share = steno_whisper_share,
                                                  .hypotheses = steno_whisper_hypotheses,
                                                  .trial_open = trial_open,
                                                  .trial_run = trial_run,
                                                  .trial_close = trial_close,
                                                  .accept = steno_whisper_accept,
                                                  .accepted = steno_whisper_accepted,
                                                  .missing = steno_whisper_missing};
