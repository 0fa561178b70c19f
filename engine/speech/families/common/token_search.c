#include "speech/families/common/token_search.h"

#include <stdlib.h>

#include "speech/families/option.h"

#define HOTWORDS_SCORE 1.5   /* of each token */
#define QUIET_SCORE (-30.0F) /* log-probability of each token in a frame without speech */

/* ---- hints ----------------------------------------------------------------------------------- */

static void read_settings(struct steno_search_settings *s, const struct steno_option *o, size_t n)
{
    (void)steno_option_get_number(o, n, "blank_penalty", &s->blank_penalty);
    (void)steno_option_get_number(o, n, "hotwords_score", &s->hotwords_score);
    (void)steno_option_get_number(o, n, "lm_weight", &s->lm_weight);
}

steno_status steno_search_hints_open(struct steno_search_hints *h,
                                     const struct steno_family_open *o, const steno_tokens *tokens,
                                     int32_t vocab, steno_err *err)
{
    steno_status st = steno_phrases_open_in(&h->phrases, tokens, o->dir, err);
    h->defaults = (struct steno_search_settings){.hotwords_score = HOTWORDS_SCORE,
                                                 .lm_weight = STENO_FUSION_WEIGHT};
    read_settings(&h->defaults, o->options, o->n_options);
    return st ? st : steno_fusion_open_in(&h->lm, o->dir, tokens, vocab, err);
}

void steno_search_hints_close(struct steno_search_hints *h)
{
    steno_fusion_close(&h->lm);
    steno_phrases_close(&h->phrases);
}

/* ---- opening --------------------------------------------------------------------------------- */

steno_status steno_beam_choose(struct steno_family_stream *o, steno_err *err)
{
    if (o->beam == 0)
        o->beam = o->n_best > 1 ? o->n_best : 1;
    if (o->n_best == 0)
        o->n_best = 1;
    return o->n_best <= o->beam
               ? STENO_OK
               : steno_fail(err, STENO_ERR_INVAL, "n_best is %d, more than the beam, %d", o->n_best,
                            o->beam);
}

static bool is_given(const char *text)
{
    return text && *text;
}

steno_status steno_beam_choose_hotwords(struct steno_family_stream *o, steno_err *err)
{
    if (o->beam == 1 && o->beam_yields && is_given(o->hints.hotwords))
        o->beam = 0;
    if (o->beam == 1 && is_given(o->hints.hotwords))
        return steno_fail(err, STENO_ERR_INVAL, "hotwords: the beam is 1, expected more");
    if (o->beam == 1)
        o->vocabulary = NULL;
    if (o->beam == 0 && (is_given(o->hints.hotwords) || is_given(o->vocabulary)) &&
        o->n_best < STENO_PHRASES_BEAM)
        o->beam = STENO_PHRASES_BEAM;
    return steno_beam_choose(o, err);
}

float *steno_ctc_quiet(int64_t frames, int32_t vocab, int32_t blank)
{
    const size_t n = (size_t)(frames * vocab);
    float *scores = malloc(n * sizeof *scores);
    for (size_t i = 0; scores && i < n; i++)
        scores[i] = i % (size_t)vocab == (size_t)blank ? 0 : QUIET_SCORE;
    return scores;
}

steno_status steno_token_search_begin(struct steno_token_search *s,
                                      const struct steno_search_hints *h,
                                      const struct steno_family_stream *o,
                                      struct steno_search_settings *out, steno_err *err)
{
    *out = h->defaults;
    read_settings(out, o->options, o->n_options);
    s->n_best = s->n_best ? s->n_best : (size_t)o->n_best;
    s->hyps = calloc(s->n_best, sizeof *s->hyps);
    if (!s->hyps)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    s->alignment = o->alignment;
    if (o->alignment)
        return steno_phrases_spell_lines(&h->phrases, o->alignment, err);
    if (!is_given(o->hints.hotwords) && !is_given(o->vocabulary))
        return STENO_OK;
    return steno_phrases_build(&s->hotwords, &h->phrases,
                               (const char *[]){o->hints.hotwords, o->vocabulary}, 2,
                               (float)out->hotwords_score, err);
}

struct steno_ctc_options steno_ctc_options_of(const struct steno_token_search *s,
                                              const struct steno_search_hints *h,
                                              const struct steno_search_settings *set,
                                              const struct steno_family_stream *o, int32_t vocab,
                                              int32_t blank)
{
    return (struct steno_ctc_options){.vocab = vocab,
                                      .blank = blank,
                                      .blank_penalty = (float)set->blank_penalty,
                                      .beam = o->beam,
                                      .top_k = STENO_CTC_TOP_K,
                                      .margin = STENO_CTC_MARGIN,
                                      .hotwords = s->hotwords,
                                      .lm = steno_fusion_lm(&h->lm, set->lm_weight)};
}

steno_status steno_token_search_open(struct steno_token_search *s,
                                     const struct steno_ctc_options *o, steno_err *err)
{
    s->vocab = (size_t)o->vocab;
    if (s->alignment) {
        steno_alignment_attach(s->alignment, o->vocab, o->blank);
        return STENO_OK;
    }
    return o->beam > 1 ? steno_ctc_beam_open(&s->beam, o, err)
                       : steno_ctc_greedy_open(&s->greedy, o, err);
}

steno_status steno_token_search_open_ctc(struct steno_token_search *s,
                                         const struct steno_search_hints *h,
                                         struct steno_family_stream *o, int32_t vocab,
                                         int32_t blank, steno_err *err)
{
    struct steno_search_settings set;
    struct steno_ctc_options c;
    steno_status st = steno_beam_choose_hotwords(o, err);
    if (!st)
        st = steno_token_search_begin(s, h, o, &set, err);
    if (st)
        return st;
    c = steno_ctc_options_of(s, h, &set, o, vocab, blank);
    return steno_token_search_open(s, &c, err);
}

void steno_token_search_close(struct steno_token_search *s)
{
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    steno_tdt_close(s->tdt);
    steno_stateless_close(s->stateless);
    steno_hotwords_close(s->hotwords);
    free(s->hyps);
}

/* ---- frames ---------------------------------------------------------------------------------- */

steno_status steno_token_search_reset(struct steno_token_search *s)
{
    if (s->alignment)
        return STENO_OK;
    if (s->stateless)
        return steno_stateless_reset(s->stateless);
    if (s->tdt)
        steno_tdt_reset(s->tdt);
    else if (s->beam)
        steno_ctc_beam_reset(s->beam);
    else
        steno_ctc_greedy_reset(s->greedy);
    return STENO_OK;
}

steno_status steno_token_search_restart(struct steno_token_search *s, int64_t frame)
{
    s->left = 0;
    s->read = false;
    if (s->alignment)
        return STENO_OK;
    if (s->stateless)
        return steno_stateless_restart(s->stateless, frame);
    if (s->tdt)
        steno_tdt_restart(s->tdt, frame);
    else if (s->beam)
        steno_ctc_beam_restart(s->beam, frame);
    else
        steno_ctc_greedy_restart(s->greedy, frame);
    return STENO_OK;
}

steno_status steno_token_search_push(struct steno_token_search *s, const float *scores, size_t n)
{
    if (!n)
        return STENO_OK;
    if (s->alignment)
        return steno_alignment_push(s->alignment, scores, n);
    return s->beam ? steno_ctc_beam_push(s->beam, scores, n)
                   : steno_ctc_greedy_push(s->greedy, scores, n);
}

void steno_token_search_give(struct steno_token_search *s, const float *scores, size_t n)
{
    s->scores = scores;
    s->left = n;
}

void steno_token_search_skip(struct steno_token_search *s, size_t n)
{
    if (s->stateless)
        steno_stateless_skip(s->stateless, (int64_t)n);
    else
        steno_tdt_skip(s->tdt, n);
    s->read = true;
}

void steno_token_search_finish(struct steno_token_search *s)
{
    if (s->stateless)
        steno_stateless_finish(s->stateless);
    else if (s->tdt)
        steno_tdt_finish(s->tdt);
}

steno_status steno_token_search_consume(struct steno_token_search *s, bool *left)
{
    const float *row = s->scores;
    *left = s->left > 0 || s->read;
    s->read = false;
    if (!s->left)
        return STENO_OK;
    s->left--;
    s->scores += s->vocab;
    return steno_token_search_push(s, row, 1);
}

/* ---- results --------------------------------------------------------------------------------- */

/* The best `max` hypotheses into s->hyps. */
static steno_status find_best(struct steno_token_search *s, size_t max, size_t *n)
{
    *n = 0;
    if (s->alignment) /* nothing is recognized */
        return STENO_OK;
    if (s->stateless)
        return steno_stateless_nbest(s->stateless, s->hyps, max, n);
    if (s->tdt)
        return steno_tdt_nbest(s->tdt, s->hyps, max, n);
    if (s->beam)
        return steno_ctc_beam_nbest(s->beam, s->hyps, max, n);
    s->hyps[0] = steno_ctc_greedy_best(s->greedy);
    *n = 1;
    return STENO_OK;
}

static size_t count_stable(const struct steno_token_search *s)
{
    return s->alignment   ? 0
           : s->stateless ? steno_stateless_stable(s->stateless)
           : s->tdt       ? steno_tdt_stable(s->tdt)
           : s->beam      ? steno_ctc_beam_stable(s->beam)
                          : s->hyps[0].n; /* the best path only gets longer */
}

steno_status steno_token_search_list(struct steno_token_search *s, struct steno_hypothesis *out,
                                     size_t max, size_t *n, size_t *stable)
{
    const steno_status st = find_best(s, max < s->n_best ? max : s->n_best, n);
    *stable = count_stable(s);
    for (size_t i = 0; !st && i < *n; i++)
        out[i] = (struct steno_hypothesis){
            .spans = s->hyps[i].spans, .n = s->hyps[i].n, .score = s->hyps[i].score};
    return st;
}

int64_t steno_token_search_frames(const struct steno_token_search *s)
{
    return s->alignment   ? steno_alignment_frames(s->alignment)
           : s->stateless ? steno_stateless_frames(s->stateless)
           : s->tdt       ? steno_tdt_frames(s->tdt)
           : s->beam      ? steno_ctc_beam_frames(s->beam)
                          : steno_ctc_greedy_frames(s->greedy);
}

int64_t steno_token_search_last_sound(const struct steno_token_search *s)
{
    return s->alignment   ? steno_alignment_frames(s->alignment) - 1 /* all are looked at */
           : s->stateless ? steno_stateless_last_sound(s->stateless)
           : s->tdt       ? steno_tdt_last_sound(s->tdt)
           : s->beam      ? steno_ctc_beam_last_sound(s->beam)
                          : steno_ctc_greedy_last_sound(s->greedy);
}

size_t steno_token_search_n_tokens(const struct steno_token_search *s)
{
    return s->alignment   ? 0
           : s->stateless ? steno_stateless_n_tokens(s->stateless)
           : s->tdt       ? steno_tdt_n_tokens(s->tdt)
           : s->beam      ? steno_ctc_beam_stable(s->beam)
                          : steno_ctc_greedy_best(s->greedy).n;
}
