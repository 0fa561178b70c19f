#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/nemo/internal.h"
#include "speech/families/option.h"
#include "speech/text/language.h"

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
static steno_status open_transducer_nemo_search(struct steno_token_search *s,
                                                const struct steno_nemo_model *m,
                                                const struct steno_family_stream *o,
                                                const struct steno_search_settings *set,
                                                steno_err *err)
{
    const int32_t vocab = steno_tokens_count(m->base.tokens);
    const int32_t durations = (int32_t)m->transducer.outputs - vocab;
    bool modified = m->modified;
    struct steno_tdt_options t;
    (void)steno_option_get_flag(o->options, o->n_options, "modified_beam", &modified);
    modified = modified || o->beam > 1 || s->hotwords;
    t = (struct steno_tdt_options){.vocab = vocab,
                                   .blank = m->base.blank,
                                   .silent = m->unknown,
                                   .durations = durations,
                                   .max_tokens = most_tokens(m, durations, modified),
                                   .blank_penalty = (float)set->blank_penalty,
                                   .beam = o->beam,
                                   .modified = modified,
                                   .hotwords = s->hotwords,
                                   .boost = (float)set->hotwords_score,
                                   .lm = modified
                                             ? steno_fusion_lm(&m->base.hints.lm, set->lm_weight)
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
static steno_status choose_languages(struct steno_nemo_stream *s, const struct steno_nemo_model *m,
                                     const struct steno_family_stream *o, steno_err *err)
{
    const char *target = steno_option_value(o->options, o->n_options, "target_language");
    char first[3] = "";
    if (o->beam > 1)
        return steno_fail(err, STENO_ERR_INVAL, "beam: Canary is decoded greedily, with 1");
    memcpy(first, m->canary.languages, 2);
    s->language = code_of(o->hints.language && *o->hints.language ? o->hints.language : first);
    s->source = s->language ? steno_language_mark(m->base.tokens, s->language) : -1;
    if (o->hints.translate)
        target = "en";
    else if (!target)
        target = m->target;
    if (*target && strcmp(target, "same") != 0)
        s->language = code_of(target);
    s->target = s->language ? steno_language_mark(m->base.tokens, s->language) : -1;
    if (s->source < 0 || s->target < 0)
        return steno_fail(err, STENO_ERR_INVAL, "language: the model knows %s",
                          m->canary.languages);
    return STENO_OK;
}

/* The region of the language counts: "en-GB" is another prompt than "en". */
static void choose_prompt(struct steno_nemo_stream *s, const struct steno_nemo_model *m,
                          const struct steno_family_stream *o)
{
    const char *language = o->asked ? o->asked : o->hints.language;
    s->prompt = steno_nemo_prompts_find(&m->prompts, language);
    s->language = language ? code_of(language) : NULL;
}

static steno_status choose_beam(const struct steno_nemo_model *m, struct steno_family_stream *o,
                                steno_err *err)
{
    if (steno_nemo_is_transducer(m) && o->beam == 1)
        return steno_beam_choose(o, err);
    return steno_beam_choose_hotwords(o, err);
}

steno_status steno_nemo_stream_open(void *stream, const void *model, struct steno_family_stream *o,
                                    steno_err *err)
{
    const struct steno_nemo_model *m = model;
    struct steno_token_search *s = &((struct steno_nemo_stream *)stream)->base.search;
    struct steno_search_settings set;
    struct steno_ctc_options c;
    steno_status st = choose_beam(m, o, err);
    if (!st && m->prompt >= 0)
        choose_prompt(stream, m, o);
    if (!st && m->conf.kind == STENO_NEMO_CANARY)
        return choose_languages(stream, m, o, err);
    if (!st)
        st = steno_token_search_begin(s, &m->base.hints, o, &set, err);
    if (st || steno_nemo_is_transducer(m))
        return st ? st : open_transducer_nemo_search(s, m, o, &set, err);
    c = steno_ctc_options_of(s, &m->base.hints, &set, o, steno_tokens_count(m->base.tokens),
                             m->base.blank);
    return steno_token_search_open(s, &c, err);
}
