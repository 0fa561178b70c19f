#include "speech/recognizer/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "speech/recognizer/aligned.h"
#include "speech/recognizer/stream_internal.h"
#include "speech/recognizer/filters.h"
#include "speech/recognizer/written.h"

#define FIRST_WORDS 16 /* room per utterance at first */
#define FIRST_TEXT 100 /* bytes of text */
#define FIRST_TOKENS 32

/* ---- memory ---------------------------------------------------------------------------------- */

/* Make room for words and tokens of all alternatives. */
static steno_status reserve_parts(struct steno_results *r, size_t words, size_t tokens)
{
    const steno_status st = STENO_RESERVE(&r->w, &r->cap_words, words);
    return st ? st : STENO_RESERVE(&r->tokens, &r->cap_tokens, tokens);
}

steno_status steno_results_open(struct steno_results *r, int n_best)
{
    steno_status st = STENO_OK;
    r->n_best = (size_t)n_best;
    r->words = calloc(r->n_best, sizeof *r->words);
    r->hyps = calloc(r->n_best, sizeof *r->hyps);
    r->alts = calloc(r->n_best, sizeof *r->alts);
    if (!r->words || !r->hyps || !r->alts)
        st = STENO_ERR_NOMEM;
    for (size_t i = 0; r->words && i < r->n_best; i++) {
        steno_words_init(&r->words[i]);
        if (!st)
            st = steno_words_reserve(&r->words[i], FIRST_WORDS, FIRST_TEXT);
    }
    return st ? st : reserve_parts(r, FIRST_WORDS * r->n_best, FIRST_TOKENS * r->n_best);
}

void steno_results_close(struct steno_results *r)
{
    for (size_t i = 0; r->words && i < r->n_best; i++)
        steno_words_free(&r->words[i]);
    free(r->words);
    free(r->hyps);
    free(r->alts);
    free(r->w);
    free(r->tokens);
    free(r->sections);
    steno_arena_free(r->written);
    steno_arena_free(r->filtered);
    steno_steady_free(&r->steady);
    steno_begun_free(&r->begun);
    steno_events_free(&r->events);
}

/* ---- times ----------------------------------------------------------------------------------- */

void steno_results_place(const steno_stream *s, const struct steno_word_frames *at,
                         struct steno_word *out)
{
    double (*time)(const steno_stream *, int64_t) = s->feeder->frame_time;
    double before = s->model->info.word_before, after = s->model->info.word_after;
    double start = time(s, at->first), end = time(s, at->last + 1);
    double low = (double)s->base / s->opt.sample_rate, high = s->feeder->processed(s), share;
    out->start = start;
    out->end = end;
    if (before + after <= 0)
        return;
    share = before / (before + after);
    if (at->before >= 0)
        low = start - (start - time(s, at->before + 1)) * share;
    if (at->after >= 0)
        high = end + (time(s, at->after) - end) * (1 - share);
    out->start = fmin(start, fmax(start - before, low));
    out->end = fmax(end, fmin(end + after, high));
}

static void fill_words(const steno_stream *s, const struct steno_words *w, struct steno_word *out)
{
    for (size_t i = 0; i < w->n; i++) {
        out[i] = (struct steno_word){.text = w->words.data + w->w[i].text,
                                     .confidence = w->w[i].confidence};
        steno_results_place(s,
                            &(struct steno_word_frames){i ? w->w[i - 1].last : -1, w->w[i].first,
                                                        w->w[i].last,
                                                        i + 1 < w->n ? w->w[i + 1].first : -1},
                            &out[i]);
        if (i) /* words may share a frame */
            out[i].start = fmax(out[i].start, out[i - 1].end);
        out[i].end = fmax(out[i].end, out[i].start);
    }
}

static void fill_tokens(const steno_stream *s, const struct steno_hypothesis *h,
                        struct steno_token *out)
{
    for (size_t i = 0; i < h->n; i++)
        out[i] = (struct steno_token){.id = h->spans[i].token,
                                      .confidence = expf(h->spans[i].peak),
                                      .start = s->feeder->frame_time(s, h->spans[i].first),
                                      .end = s->feeder->frame_time(s, h->spans[i].last + 1)};
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The language of a hypothesis, which may be NULL: as the model has it, else the one given; "": not
 * known. */
static const char *language_of(const steno_stream *s, const struct steno_hypothesis *h)
{
    const char *language = h && h->language ? h->language : s->given;
    return language ? language : "";
}

/* Make the words of a hypothesis, with the model's map of confidences if it is for its language. */
static steno_status build_words(const steno_stream *s, const struct steno_hypothesis *h,
                                size_t stable, struct steno_words *out)
{
    const struct steno_confidence_map *map = &s->model->confidence;
    out->map = !*map->language || !strcmp(map->language, language_of(s, h)) ? map : NULL;
    return steno_words_build(out, s->model->info.tokens, h->spans, h->n, stable);
}

/* ---- sections -------------------------------------------------------------------------------- */

/* The words that begin in spans [from, to). *at: the first word that may. */
static size_t words_of(const struct steno_words *w, size_t to, size_t *at)
{
    size_t n = 0;
    for (; *at < w->n && w->w[*at].token < to; ++*at)
        n++;
    return n;
}

/* Sections of the best hypothesis: its spans become words, its seconds those of the stream. */
static steno_status fill_sections(steno_stream *s, const struct steno_hypothesis *h)
{
    struct steno_results *r = &s->results;
    const double from = s->feeder->frame_time(s, 0), end = (double)s->taken / s->opt.sample_rate;
    size_t word = 0;
    steno_status st = STENO_RESERVE(&r->sections, &r->cap_sections, h->n_sections);
    for (size_t i = 0; i < h->n_sections && !st; i++) {
        struct steno_section *o = &r->sections[i];
        *o = h->sections[i];
        o->first_word = word;
        o->n_words = words_of(&r->words[0], o->first_token + o->n_tokens, &word);
        o->start = fmin(from + o->start, end);
        o->end = fmin(from + o->end, end);
        o->seek = from + o->seek;
    }
    return st;
}

/* What is known of the best hypothesis besides its words; h NULL: there is none. */
static steno_status add_details(steno_stream *s, const struct steno_hypothesis *h,
                                struct steno_event *ev)
{
    steno_status st = h && h->n_sections ? fill_sections(s, h) : STENO_OK;
    ev->n_sections = h && !st ? h->n_sections : 0;
    ev->sections = s->results.sections;
    ev->language = language_of(s, h);
    ev->language_probability = h && h->language ? h->language_probability : *ev->language ? 1 : 0;
    ev->labels = h ? h->labels : (struct steno_labels){0};
    return st;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void fill_event(const steno_stream *s, struct steno_event *ev)
{
    const struct steno_results *r = &s->results;
    const struct steno_words *w = &r->words[0];
    ev->segment = r->segment;
    ev->time = s->feeder->processed(s);
    ev->text = steno_words_line(w);
    ev->stable_words = w->stable_words;
    ev->stable_bytes = w->stable_bytes;
    ev->confidence = w->confidence;
    ev->n_words = w->n;
    ev->words = r->w;
    ev->tokens = r->tokens;
    ev->start = w->n ? r->w[0].start : s->feeder->begin(s);
    ev->end = w->n ? r->w[w->n - 1].end : ev->start;
}

steno_status steno_results_start(steno_stream *s, bool voice)
{
    double begin = s->feeder->begin(s);
    s->results.pausing = false;
    struct steno_event ev = {.kind = STENO_SPEECH_START,
                             .segment = s->results.segment,
                             .time = s->feeder->processed(s),
                             .start = begin,
                             .end = begin,
                             .confidence = voice,
                             .text = "",
                             .language = ""};
    return steno_events_add(&s->results.events, &ev);
}

/* Make the words of the running best hypothesis, hyps[0]. */
static steno_status build_best(steno_stream *s)
{
    struct steno_results *r = &s->results;
    struct steno_hypothesis *h = &r->hyps[0];
    size_t n = 0, stable = 0;
    steno_status st = s->family->hypotheses(s->state, r->hyps, 1, &n, &stable);
    if (!n)
        *h = (struct steno_hypothesis){0};
    if (!st)
        st = build_words(s, h, stable, &r->words[0]);
    if (!st)
        st = reserve_parts(r, r->words[0].n, h->n);
    if (st)
        r->shown = 0; /* its words are gone */
    return st;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Whether a text is rewritten: always, or if it is as it was spoken. */
static bool is_due(const steno_stream *s, enum steno_when when, const char *text)
{
    return when == STENO_WHEN_ON ||
           (when == STENO_WHEN_AUTO && !s->model->info.closed && steno_written_is_spoken(text));
}

/* The tool for a text; auto takes none where it can only guess the language. */
static const struct steno_tool *choose_tool(const steno_stream *s, enum steno_when when,
                                            const struct steno_by_language *of,
                                            const char *language, const char *text)
{
    const struct steno_family_info *i = &s->model->info;
    const struct steno_tool *t =
        is_due(s, when, text) ? steno_by_language_choose(of, language, text) : NULL;
    return t && when == STENO_WHEN_AUTO && !*language &&
                   !steno_by_language_is_sure(t, i->languages ? i->languages : i->language)
               ? NULL
               : t;
}

/* The language of a hypothesis, or the model's only one; "": not known. */
static const char *written_language(const steno_stream *s, const struct steno_hypothesis *h)
{
    const struct steno_family_info *i = &s->model->info;
    const bool one = *i->language && !strchr(i->language, ' ');
    const char *known = language_of(s, h);
    return !*known && one ? i->language : known;
}

/* The grammar that writes a text of a hypothesis; none: it stays as it is. */
static steno_status open_grammar(const steno_stream *s, const struct steno_hypothesis *h,
                                 const char *text, struct steno_written_by *by)
{
    const struct steno_tool *grammar =
        choose_tool(s, s->itn, &s->model->grammars, written_language(s, h), text);
    *by = (struct steno_written_by){0};
    if (!grammar)
        return STENO_OK;
    by->grammar = grammar->tool;
    by->shielded = s->itn == STENO_WHEN_AUTO && !strcmp(grammar->language, "en");
    by->digits = s->itn_digits && !strcmp(grammar->language, "en");
    by->itn = steno_itn_writer_new();
    return by->itn ? STENO_OK : STENO_ERR_NOMEM;
}

/* What a final is written with, marks too. */
static steno_status open_hand(const steno_stream *s, const struct steno_hypothesis *h,
                              struct steno_written_by *by)
{
    const char *text = s->results.alts[0].text;
    const struct steno_tool *marks =
        choose_tool(s, s->punctuation, &s->model->punctuators, written_language(s, h), text);
    const steno_status st = open_grammar(s, h, text, by);
    return st || !marks ? st : steno_punctuation_writer_open(&by->marks, marks->tool, NULL);
}

/* Write the begin of a partial, as far as it is decided. */
static steno_status write_partial(steno_stream *s, struct steno_event *ev)
{
    struct steno_results *r = &s->results;
    struct steno_written_by by;
    const bool more = ev->stable_words > r->begun.seen;
    steno_status st;
    if (ev->n_sections || !s->model->grammars.n || (!more && !r->begun.seen))
        return STENO_OK;
    if (more) {
        st = open_grammar(s, &r->hyps[0], ev->text, &by);
        if (!st && by.grammar && steno_itn_decides(by.grammar))
            st = steno_begun_extend(&r->begun, ev, &by);
        steno_itn_writer_free(by.itn);
        if (st || !r->begun.seen)
            return st;
    }
    return steno_arena_renew(&r->written) ? steno_begun_apply(&r->begun, ev, r->written)
                                          : STENO_ERR_NOMEM;
}

/* ---- partials ------------------------------------------------------------------------------- */

/* Queue a partial or final as it is to be seen. */
static steno_status add_shown(steno_stream *s, struct steno_event *ev)
{
    const bool anew = s->model->info.feeding == STENO_FEED_SEGMENTS && ev->kind == STENO_PARTIAL;
    struct steno_results *r = &s->results;
    steno_status st = anew && s->steady ? steno_steady_apply(&r->steady, ev) : STENO_OK;
    if (!st && ev->kind == STENO_PARTIAL)
        st = write_partial(s, ev);
    if (!st && s->filters)
        st = steno_arena_renew(&r->filtered) ? steno_filters_apply(s->filters, ev, r->filtered)
                                             : STENO_ERR_NOMEM;
    return st ? st : steno_events_add(&r->events, ev);
}

steno_status steno_results_partial(steno_stream *s)
{
    struct steno_event ev = {.kind = STENO_PARTIAL};
    struct steno_results *r = &s->results;
    struct steno_words *w = &r->words[0];
    struct steno_hypothesis *h = &r->hyps[0];
    uint64_t print;
    steno_status st = build_best(s);
    if (st)
        return st;
    print = steno_hash_text(STENO_HASH ^ w->stable_bytes, steno_words_line(w));
    if (print == r->shown || (!w->n && !r->shown))
        return STENO_OK;
    r->shown = print;
    fill_words(s, w, r->w);
    fill_tokens(s, h, r->tokens);
    fill_event(s, &ev);
    ev.n_tokens = h->n;
    st = add_details(s, h, &ev);
    return st ? st : add_shown(s, &ev);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

/* confidence: of a network; 0 = none judged it. */
static steno_status add_utterance_end(steno_stream *s, double word_end, double confidence)
{
    struct steno_event ev = {.kind = STENO_UTTERANCE_END,
                             .segment = s->results.segment,
                             .time = s->feeder->processed(s),
                             .start = word_end,
                             .end = word_end,
                             .confidence = (float)confidence,
                             .text = "",
                             .language = ""};
    return steno_events_add(&s->results.events, &ev);
}

/* The end of the last word of the running best hypothesis; < 0: there is none. A word may end after
 * its last symbol. */
static steno_status last_word_end(steno_stream *s, double *end)
{
    struct steno_results *r = &s->results;
    steno_status st = build_best(s);
    *end = -1;
    if (st || !r->words[0].n)
        return st;
    fill_words(s, &r->words[0], r->w);
    *end = r->w[r->words[0].n - 1].end;
    return STENO_OK;
}

steno_status steno_results_has_words(steno_stream *s, bool *words)
{
    steno_status st = build_best(s);
    *words = s->results.words[0].n > 0;
    return st;
}

steno_status steno_results_turn(steno_stream *s)
{
    const double likely = steno_turn_watch_likely(s->turn);
    double end = -1;
    steno_status st = STENO_OK;
    if (!(likely > 0))
        return STENO_OK;
    if (!s->opt.no_partials) /* what is said comes before that it may be all */
        st = steno_results_partial(s);
    if (!st)
        st = last_word_end(s, &end);
    return st || end < 0 ? st : add_utterance_end(s, end, likely);
}

steno_status steno_results_pause(steno_stream *s, double now)
{
    struct steno_results *r = &s->results;
    if (!r->pausing || s->opt.utterance_end <= 0 || now - r->word_end < s->opt.utterance_end)
        return STENO_OK;
    r->pausing = false;
    return add_utterance_end(s, r->word_end, 0);
}

steno_status steno_results_pause_within(steno_stream *s, double last_end, double now, bool *done)
{
    steno_status st;
    *done = false;
    if (s->opt.utterance_end <= 0 || now - last_end < s->opt.utterance_end)
        return STENO_OK;
    st = last_word_end(s, &last_end);
    *done = !st && last_end >= 0 && now - last_end >= s->opt.utterance_end;
    return *done ? add_utterance_end(s, last_end, 0) : st;
}

/* ---- writing of finals ------------------------------------------------------------------------
 */

/* Write each section, whose words are of the best alternative, and put that together anew. */
static steno_status write_sections(struct steno_results *r, size_t n,
                                   const struct steno_written_by *by)
{
    struct steno_alternative *whole = &r->alts[0];
    struct steno_alternative *part = steno_arena_calloc(r->written, n, sizeof *part);
    size_t words = 0, bytes = 0;
    struct steno_word *w;
    char *text;
    for (size_t i = 0; part && i < n; i++) {
        const struct steno_section *o = &r->sections[i];
        steno_status st;
        part[i] = (struct steno_alternative){.text = o->text + strspn(o->text, " "),
                                             .words = whole->words + o->first_word,
                                             .n_words = o->n_words};
        st = steno_written_apply(&part[i], by, r->written);
        if (st)
            return st;
        words += part[i].n_words;
        bytes += strlen(part[i].text) + 1;
    }
    w = part ? steno_arena_calloc(r->written, words + 1, sizeof *w) : NULL;
    text = w ? steno_arena_alloc(r->written, 2 * bytes + n + 2) : NULL;
    if (!text)
        return steno_arena_failure(r->written);
    whole->text = text;
    whole->words = w;
    whole->n_words = words;
    for (size_t i = 0, at = 0, end = 0; i < n; i++) { /* texts of sections lie behind the whole */
        struct steno_section *o = &r->sections[i];
        const int length =
            snprintf(text + at, bytes + 1 - at, "%s%s", *o->text == ' ' ? " " : "", part[i].text);
        o->text = memcpy(text + bytes + 1 + end, text + at, (size_t)length + 1);
        at += (size_t)length;
        end += (size_t)length + 1;
        memcpy(w, part[i].words, part[i].n_words * sizeof *w);
        w += part[i].n_words;
        o->first_word = i ? o[-1].first_word + o[-1].n_words : 0;
        o->n_words = part[i].n_words;
    }
    return STENO_OK;
}

/* Write the n alternatives of a final as people do. */
static steno_status write_alternatives(steno_stream *s, size_t n, size_t n_sections)
{
    struct steno_results *r = &s->results;
    struct steno_written_by by = {0};
    steno_status st = n ? open_hand(s, &r->hyps[0], &by) : STENO_OK;
    if (!st && (by.grammar || by.marks)) {
        st = steno_arena_renew(&r->written) ? STENO_OK : STENO_ERR_NOMEM;
        if (!st && n_sections)
            st = write_sections(r, n_sections, &by);
        for (size_t i = n_sections > 0; !st && i < n; i++)
            st = steno_written_apply(&r->alts[i], &by, r->written);
    }
    steno_itn_writer_free(by.itn);
    steno_punctuation_writer_close(by.marks);
    return st;
}

/* ---- finals ---------------------------------------------------------------------------------- */

/* Make alternative *n of hypothesis i. A hypothesis that spells the text of an earlier one in other
 * pieces is dropped, unless hypotheses have sequences of their own (ids). */
static steno_status build_alternative(steno_stream *s, size_t i, size_t *n)
{
    struct steno_results *r = &s->results;
    struct steno_words *w = &r->words[*n];
    const struct steno_hypothesis h = r->hyps[i];
    steno_status st = build_words(s, &h, h.n, w);
    if (st)
        return st;
    for (size_t k = 0; !h.ids && k < *n; k++)
        if (strcmp(steno_words_line(&r->words[k]), steno_words_line(w)) == 0)
            return STENO_OK;
    r->hyps[*n] = h;
    r->alts[*n] = (struct steno_alternative){.text = h.text,
                                             .confidence = w->confidence,
                                             .score = h.score,
                                             .n_words = w->n,
                                             .n_tokens = h.n,
                                             .n_ids = h.n_ids,
                                             .ids = h.ids};
    ++*n;
    return STENO_OK;
}

/* Fill in texts, words and tokens of the alternatives, after all memory is allocated. */
static steno_status place_alternatives(steno_stream *s, size_t n)
{
    struct steno_results *r = &s->results;
    size_t words = 0, tokens = 0;
    steno_status st;
    for (size_t i = 0; i < n; i++) {
        words += r->alts[i].n_words;
        tokens += r->alts[i].n_tokens;
    }
    st = reserve_parts(r, words, tokens);
    words = tokens = 0;
    for (size_t i = 0; i < n && !st; i++) {
        struct steno_alternative *a = &r->alts[i];
        if (!a->text)
            a->text = steno_words_line(&r->words[i]);
        a->words = r->w + words;
        a->tokens = r->tokens + tokens;
        fill_words(s, &r->words[i], r->w + words);
        fill_tokens(s, &r->hyps[i], r->tokens + tokens);
        words += a->n_words;
        tokens += a->n_tokens;
    }
    return st;
}

static steno_status build_alternatives(steno_stream *s, size_t *n_alts)
{
    struct steno_results *r = &s->results;
    size_t n = 0, stable;
    steno_status st = s->family->hypotheses(s->state, r->hyps, r->n_best, &n, &stable);
    *n_alts = 0;
    for (size_t i = 0; i < n && !st; i++)
        st = build_alternative(s, i, n_alts);
    if (!st && !n)
        st = steno_words_build(&r->words[0], s->model->info.tokens, NULL, 0, 0);
    return st ? st : place_alternatives(s, *n_alts);
}

steno_status steno_results_end_segment(steno_stream *s, struct steno_event *final)
{
    struct steno_results *r = &s->results;
    const bool words = final->n_words > 0;
    const steno_status st = add_shown(s, final);
    if (st)
        return st;
    r->segment++;
    steno_steady_reset(&r->steady);
    steno_begun_reset(&r->begun);
    r->pausing = words;
    r->word_end = final->end;
    return STENO_OK;
}

steno_status steno_results_final(steno_stream *s, enum steno_final_reason reason)
{
    struct steno_results *r = &s->results;
    struct steno_event ev = {.kind = STENO_FINAL, .reason = reason};
    steno_status st;
    if (s->alignment)
        return steno_aligned_final(s, reason);
    st = build_alternatives(s, &ev.n_alternatives);
    r->shown = 0;
    if (st)
        return st;
    fill_event(s, &ev);
    st = add_details(s, ev.n_alternatives ? &r->hyps[0] : NULL, &ev);
    if (!st)
        st = write_alternatives(s, ev.n_alternatives, ev.n_sections);
    if (st)
        return st;
    if (ev.n_alternatives) {
        ev.text = r->alts[0].text;
        ev.words = r->alts[0].words;
        ev.n_words = r->alts[0].n_words;
        ev.n_tokens = r->alts[0].n_tokens;
    }
    ev.stable_words = ev.n_words;
    ev.stable_bytes = strlen(ev.text);
    ev.alternatives = r->alts;
    return steno_results_end_segment(s, &ev);
}

/* The words of the last partial are still there. */
static steno_status rescue_partial(steno_stream *s)
{
    struct steno_results *r = &s->results;
    struct steno_event ev = {.kind = STENO_FINAL, .reason = STENO_FINAL_END};
    const struct steno_hypothesis known = {.language = r->hyps[0].language,
                                           .language_probability = r->hyps[0].language_probability};
    fill_event(s, &ev);
    r->alts[0] = (struct steno_alternative){
        .text = ev.text, .confidence = ev.confidence, .n_words = ev.n_words, .words = ev.words};
    ev.alternatives = r->alts;
    ev.n_alternatives = 1;
    r->shown = 0;
    ev.stable_words = ev.n_words;
    ev.stable_bytes = strlen(ev.text);
    return add_details(s, &known, &ev) ? STENO_ERR_NOMEM : steno_results_end_segment(s, &ev);
}

steno_status steno_results_rescue(steno_stream *s)
{
    const struct steno_results *r = &s->results;
    steno_status st;
    if (r->shown && r->words[0].n)
        return rescue_partial(s);
    st = build_best(s);
    return st || !r->words[0].n ? st : steno_results_final(s, STENO_FINAL_END);
}
