#include "speech/recognizer/aligned.h"

#include <math.h>
#include <string.h>

steno_status steno_aligned_open(steno_stream *s, const struct steno_line *lines, size_t n,
                                steno_err *err)
{
    s->opt.no_endpointing = s->opt.no_partials = true;
    return steno_alignment_open(&s->alignment, lines, n, err);
}

steno_status steno_aligned_begin(steno_stream *s, steno_err *err)
{
    const struct steno_family_info *i = &s->model->info;
    const double before =
        i->feeding == STENO_FEED_WINDOWS ? (double)(i->windows.left_padding * i->hop) : 0;
    if (!steno_alignment_attached(s->alignment))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "text: %s gives no scores of CTC, so it cannot find a text in the audio",
                          i->name);
    steno_alignment_set_clock(s->alignment, before / (double)i->frame_samples,
                              (double)i->sample_rate / (double)i->frame_samples);
    return STENO_OK;
}

/* ---- the final ------------------------------------------------------------------------------- */

/* What the final is made of. */
struct parts {
    const struct steno_aligned_line *lines;
    const struct steno_aligned_word *words;
    const struct steno_aligned_unit *units;
    size_t n_lines, n_words, n_units;
    struct steno_word *word;       /* [n_words] */
    struct steno_token *token;     /* [n_units] */
    int32_t *id;                   /* [n_units, 2] */
    struct steno_section *section; /* [n_lines] */
    size_t bytes;                  /* of all lines, with something between */
    char *text; /* of words, each terminated, then of the whole, then of lines, terminated */
};

static bool is_found(const struct parts *p, const struct steno_aligned_word *w)
{
    bool found = w->n_units > 0;
    for (size_t i = 0; i < w->n_units; i++)
        found = found && p->units[w->unit + i].span.first >= 0;
    return found;
}

static float score_of(const struct parts *p, const struct steno_aligned_word *w)
{
    double sum = 0;
    for (size_t i = 0; i < w->n_units; i++)
        sum += (double)p->units[w->unit + i].span.peak;
    return fmaxf((float)exp(sum / (double)w->n_units), 1e-6F); /* 0: not found */
}

/* The words with their times. Those that were not found are where the one before them ends. */
static void fill_words(const steno_stream *s, const struct parts *p)
{
    double end = (double)s->base / s->opt.sample_rate;
    for (size_t i = 0; i < p->n_words; i++) {
        const struct steno_aligned_word *w = &p->words[i];
        struct steno_word_frames at = {-1, 0, 0, -1};
        p->word[i].start = p->word[i].end = end;
        if (!is_found(p, w))
            continue;
        at.first = p->units[w->unit].span.first;
        at.last = p->units[w->unit + w->n_units - 1].span.last;
        if (w->unit)
            at.before = p->units[w->unit - 1].span.last;
        if (w->unit + w->n_units < p->n_units)
            at.after = p->units[w->unit + w->n_units].span.first;
        steno_results_place(s, &at, &p->word[i]);
        p->word[i].start = fmax(p->word[i].start, end);
        p->word[i].end = end = fmax(p->word[i].end, p->word[i].start);
        p->word[i].confidence = score_of(p, w);
    }
}

/* Where a line's first word begins: the section's text does, too. */
static size_t first_byte(const struct parts *p, const struct steno_aligned_line *l)
{
    return l->n_words ? p->words[l->word].from : 0;
}

static void fill_tokens(const steno_stream *s, const struct parts *p)
{
    for (size_t i = 0; i < p->n_units; i++) {
        const struct steno_aligned_unit *u = &p->units[i];
        if (u->span.first >= 0)
            p->token[i] = (struct steno_token){.id = u->span.token,
                                               .confidence = expf(u->span.peak),
                                               .start = s->feeder->frame_time(s, u->span.first),
                                               .end = s->feeder->frame_time(s, u->span.last + 1)};
        else
            p->token[i].id = u->span.token;
    }
    for (size_t i = 0; i < p->n_lines; i++) {
        const struct steno_aligned_line *l = &p->lines[i];
        const size_t from = first_byte(p, l);
        for (size_t k = l->word; k < l->word + l->n_words; k++)
            for (size_t j = p->words[k].unit; j < p->words[k].unit + p->words[k].n_units; j++) {
                p->id[2 * j] = (int32_t)(p->units[j].from - from);
                p->id[2 * j + 1] = (int32_t)(p->units[j].to - from);
            }
    }
}

/* Copy the words' texts. */
static char *fill_texts(const struct parts *p)
{
    char *at = p->text;
    for (size_t i = 0; i < p->n_lines; i++)
        for (size_t k = 0; k < p->lines[i].n_words; k++) {
            const struct steno_aligned_word *w = &p->words[p->lines[i].word + k];
            const size_t n = w->to - w->from;
            p->word[p->lines[i].word + k].text = memcpy(at, p->lines[i].text + w->from, n);
            at[n] = '\0';
            at += n + 1;
        }
    return at;
}

/* The first or last of the words [from, end) that was found; the first if none was. */
static const struct steno_word *found_word(const struct parts *p, size_t from, size_t end,
                                           bool last)
{
    for (size_t i = 0; i < end - from; i++) {
        const struct steno_word *w = &p->word[last ? end - 1 - i : from + i];
        if (w->confidence > 0)
            return w;
    }
    return &p->word[from];
}

/* A section for each line that has words; their number. */
static size_t fill_sections(const struct parts *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_lines; i++) {
        const struct steno_aligned_line *l = &p->lines[i];
        const size_t end = l->word + l->n_words;
        const size_t unit = l->n_words ? p->words[l->word].unit : 0;
        if (!l->n_words)
            continue;
        p->section[n++] = (struct steno_section){
            .start = found_word(p, l->word, end, false)->start,
            .end = found_word(p, l->word, end, true)->end,
            .first_word = l->word,
            .n_words = l->n_words,
            .first_token = unit,
            .ids = p->id + 2 * unit,
        };
        p->section[n - 1].n_tokens = (end < p->n_words ? p->words[end].unit : p->n_units) - unit;
        p->section[n - 1].n_ids = 2 * p->section[n - 1].n_tokens;
    }
    return n;
}

/* The lines with words, joined by blanks; each is the text of its section, with its blank. */
static const char *join_lines(const struct parts *p, char *to)
{
    char *whole = to, *end = to + p->bytes, *at = end;
    size_t k = 0;
    for (size_t i = 0; i < p->n_lines; i++) {
        const struct steno_aligned_line *l = &p->lines[i];
        const char *text = l->text + first_byte(p, l);
        const size_t n = strlen(text);
        if (!l->n_words)
            continue;
        p->section[k].text = at;
        if (k++)
            *to++ = *at++ = ' ';
        memcpy(to, text, n);
        memcpy(at, text, n + 1);
        to += n;
        at += n + 1;
    }
    *to = '\0';
    return whole;
}

static float mean_confidence(const struct parts *p)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->n_words; i++)
        if (p->word[i].confidence > 0) {
            sum += log((double)p->word[i].confidence);
            n++;
        }
    return n ? (float)exp(sum / (double)n) : 0;
}

static steno_status make_room(steno_stream *s, struct parts *p)
{
    struct steno_results *r = &s->results;
    size_t bytes;
    p->bytes = 1;
    for (size_t i = 0; i < p->n_lines; i++)
        p->bytes += strlen(p->lines[i].text) + 2;
    bytes = 2 * p->bytes;
    for (size_t i = 0; i < p->n_words; i++)
        bytes += p->words[i].to - p->words[i].from + 1;
    if (!r->written)
        r->written = steno_arena_new(0);
    if (!r->written)
        return STENO_ERR_NOMEM;
    steno_arena_reset(r->written);
    p->word = steno_arena_calloc(r->written, p->n_words + 1, sizeof *p->word);
    p->token = steno_arena_calloc(r->written, p->n_units + 1, sizeof *p->token);
    p->id = steno_arena_calloc(r->written, 2 * p->n_units + 1, sizeof *p->id);
    p->section = steno_arena_calloc(r->written, p->n_lines + 1, sizeof *p->section);
    p->text = steno_arena_alloc(r->written, bytes);
    return p->word && p->token && p->id && p->section && p->text ? STENO_OK : STENO_ERR_NOMEM;
}

steno_status steno_aligned_final(steno_stream *s, enum steno_final_reason reason)
{
    struct parts p = {0};
    struct steno_event ev = {
        .kind = STENO_FINAL, .reason = reason, .language = s->given ? s->given : ""};
    struct steno_alternative *best = &s->results.alts[0];
    char *rest;
    steno_status st;
    steno_alignment_end(s->alignment);
    p.lines = steno_alignment_lines(s->alignment, &p.n_lines);
    p.words = steno_alignment_words(s->alignment, &p.n_words);
    p.units = steno_alignment_units(s->alignment, &p.n_units);
    st = make_room(s, &p);
    if (st)
        return st;
    fill_words(s, &p);
    fill_tokens(s, &p);
    rest = fill_texts(&p);
    ev.n_sections = fill_sections(&p);
    ev.sections = p.section;
    *best = (struct steno_alternative){.text = join_lines(&p, rest),
                                       .confidence = mean_confidence(&p),
                                       .n_words = p.n_words,
                                       .words = p.word,
                                       .n_tokens = p.n_units,
                                       .tokens = p.token};
    ev.alternatives = best;
    ev.n_alternatives = 1;
    ev.segment = s->results.segment;
    ev.time = s->feeder->processed(s);
    ev.text = best->text;
    ev.stable_bytes = strlen(ev.text);
    ev.confidence = best->confidence;
    ev.words = p.word;
    ev.stable_words = ev.n_words = p.n_words;
    ev.tokens = p.token;
    ev.n_tokens = p.n_units;
    ev.start = p.n_words ? p.word[0].start : s->feeder->begin(s);
    ev.end = p.n_words ? p.word[p.n_words - 1].end : ev.start;
    return steno_results_end_segment(s, &ev);
}
