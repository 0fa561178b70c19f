#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/nemo/internal.h"
#include "families/option.h"
#include "text/language.h"

#define TOKENS_OF_TDT 5   /* of a frame at most, as in sherpa-onnx */
#define TOKENS_OF_RNNT 10 /* the same without durations */
#define TOKENS_OF_BEAM 10 /* the same of the beam search */

static int most_tokens(const struct steno_nemo_model *m, int32_t durations, bool modified)
{
    if (m->conf.onnx_asr)
        return m->conf.max_tokens ? (int)m->conf.max_tokens : TOKENS_OF_RNNT;
    if (modified)
        return TOKENS_OF_BEAM;
    return durations ? TOKENS_OF_TDT : TOKENS_OF_RNNT;
}

/* Hot words need the rules of the beam, with whatever number of hypotheses. */
static steno_status open_transducer(struct steno_nemo_search *s, const struct steno_nemo_model *m,
                                    int beam, const struct steno_nemo_settings *set, steno_err *err)
{
    const int32_t vocab = steno_tokens_count(m->tokens);
    const int32_t durations = (int32_t)m->transducer.outputs - vocab;
    const bool modified = beam > 1 || set->modified || s->hotwords;
    const struct steno_tdt_options t = {.vocab = vocab,
                                        .blank = m->blank,
                                        .silent = m->unknown,
                                        .durations = durations,
                                        .max_tokens = most_tokens(m, durations, modified),
                                        .blank_penalty = (float)set->blank_penalty,
                                        .beam = beam,
                                        .modified = modified,
                                        .hotwords = s->hotwords,
                                        .boost = (float)set->hotwords_score,
                                        .lm = modified ? steno_fusion_lm(&m->lm, set->lm_weight)
                                                       : (struct steno_token_lm){0},
                                        .state = steno_nemo_state_size(&m->transducer),
                                        .width = steno_nemo_row_size(&m->transducer)};
    return steno_tdt_open(&s->tdt, &t, err);
}

static const char *code_of(const char *language)
{
    const int i = steno_language_find(language);
    return i < 0 ? NULL : steno_language_code_at(i);
}

/* The text is in the language that is spoken, unless a target is given. Without a hint the first
 * language of the vocabulary is spoken. */
static steno_status choose_languages(struct steno_nemo_search *s, const struct steno_nemo_model *m,
                                     const struct steno_family_stream *o, steno_err *err)
{
    const char *target = steno_option_value(o->options, o->n_options, "target_language");
    char first[3] = "";
    if (o->beam > 1)
        return steno_fail(err, STENO_ERR_INVAL, "beam: Canary is decoded greedily, with 1");
    memcpy(first, m->canary.languages, 2);
    s->language = code_of(o->hints.language && *o->hints.language ? o->hints.language : first);
    s->source = s->language ? steno_canary_language(m->tokens, s->language) : -1;
    if (o->hints.translate)
        target = "en";
    else if (!target)
        target = m->target;
    if (*target && strcmp(target, "same") != 0)
        s->language = code_of(target);
    s->target = s->language ? steno_canary_language(m->tokens, s->language) : -1;
    if (s->source < 0 || s->target < 0)
        return steno_fail(err, STENO_ERR_INVAL, "language: the model knows %s",
                          m->canary.languages);
    return STENO_OK;
}

static steno_status open_ctc(struct steno_nemo_search *s, const struct steno_nemo_model *m,
                             const struct steno_family_stream *o,
                             const struct steno_nemo_settings *set, steno_err *err)
{
    const struct steno_ctc_options c = {.vocab = steno_tokens_count(m->tokens),
                                        .blank = m->blank,
                                        .blank_penalty = (float)set->blank_penalty,
                                        .beam = o->beam,
                                        .top_k = STENO_CTC_TOP_K,
                                        .margin = STENO_CTC_MARGIN,
                                        .hotwords = s->hotwords,
                                        .lm = steno_fusion_lm(&m->lm, set->lm_weight)};
    return steno_ctc_search_open(&s->ctc, &c, o->n_best, err);
}

void steno_nemo_settings_read(struct steno_nemo_settings *s, const struct steno_option *o, size_t n)
{
    (void)steno_option_get_number(o, n, "blank_penalty", &s->blank_penalty);
    (void)steno_option_get_number(o, n, "hotwords_score", &s->hotwords_score);
    (void)steno_option_get_number(o, n, "lm_weight", &s->lm_weight);
    (void)steno_option_get_flag(o, n, "modified_beam", &s->modified);
}

static steno_status choose_beam(const struct steno_nemo_model *m, struct steno_family_stream *o,
                                steno_err *err)
{
    if (steno_nemo_is_transducer(m) && o->beam == 1)
        return steno_beam_choose(o, err);
    return steno_beam_choose_hotwords(o, err);
}

steno_status steno_nemo_search_open(struct steno_nemo_search *s, const struct steno_nemo_model *m,
                                    struct steno_family_stream *o, steno_err *err)
{
    struct steno_nemo_settings set = m->defaults;
    steno_status st = choose_beam(m, o, err);
    if (st)
        return st;
    steno_nemo_settings_read(&set, o->options, o->n_options);
    s->n_best = (size_t)o->n_best;
    if (m->conf.kind == STENO_NEMO_CANARY)
        return choose_languages(s, m, o, err);
    if (o->hints.hotwords && *o->hints.hotwords)
        st = steno_phrases_build(&s->hotwords, &m->phrases, o->hints.hotwords,
                                 (float)set.hotwords_score, err);
    if (st)
        return st;
    if (!steno_nemo_is_transducer(m))
        return open_ctc(s, m, o, &set, err);
    s->hyps = calloc(s->n_best, sizeof *s->hyps);
    return s->hyps ? open_transducer(s, m, o->beam, &set, err)
                   : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
}

void steno_nemo_search_close(struct steno_nemo_search *s)
{
    steno_tdt_close(s->tdt);
    steno_ctc_search_close(&s->ctc);
    steno_hotwords_close(s->hotwords);
    free(s->hyps);
}

void steno_nemo_search_reset(struct steno_nemo_search *s)
{
    if (s->tdt)
        steno_tdt_reset(s->tdt);
    else
        steno_ctc_search_reset(&s->ctc);
}

void steno_nemo_search_restart(struct steno_nemo_search *s)
{
    if (s->tdt)
        steno_tdt_restart(s->tdt, 0);
    else
        steno_ctc_search_restart(&s->ctc, 0);
}

void steno_nemo_search_finish(struct steno_nemo_search *s)
{
    if (s->tdt)
        steno_tdt_finish(s->tdt);
}

steno_status steno_nemo_search_list(struct steno_nemo_search *s, struct steno_hypothesis *out,
                                    size_t max, size_t *n, size_t *stable)
{
    steno_status st;
    if (!s->tdt)
        return steno_ctc_search_list(&s->ctc, out, max, n, stable);
    st = steno_tdt_nbest(s->tdt, s->hyps, max < s->n_best ? max : s->n_best, n);
    *stable = steno_tdt_stable(s->tdt);
    for (size_t i = 0; !st && i < *n; i++)
        out[i] = (struct steno_hypothesis){
            .spans = s->hyps[i].spans, .n = s->hyps[i].n, .score = s->hyps[i].score};
    return st;
}

int64_t steno_nemo_search_frames(const struct steno_nemo_search *s)
{
    return s->tdt ? steno_tdt_frames(s->tdt) : steno_ctc_search_frames(&s->ctc);
}

int64_t steno_nemo_search_last_sound(const struct steno_nemo_search *s)
{
    return s->tdt ? steno_tdt_last_sound(s->tdt) : steno_ctc_search_last_sound(&s->ctc);
}

size_t steno_nemo_search_n_tokens(const struct steno_nemo_search *s)
{
    return s->tdt ? steno_tdt_n_tokens(s->tdt) : steno_ctc_search_n_tokens(&s->ctc);
}
