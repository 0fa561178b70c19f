#include "protocol/subtitle.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "protocol/cues.h"
#include "protocol/query.h"
#include "protocol/word.h"
#include "protocol/then.h"

static const struct steno_subtitle_options defaults = {
    .line_chars = 42, .lines = 2, .max_seconds = 7, .speed = 17, .pause_seconds = 1.0};

/* ---- options --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int most; /* 0: true or false */
    size_t at;
} names[] = {{"max_line_width", 1000, offsetof(struct steno_subtitle_options, line_chars)},
             {"max_line_count", 100, offsetof(struct steno_subtitle_options, lines)},
             {"max_words_per_line", 1000, offsetof(struct steno_subtitle_options, line_words)},
             {"highlight_words", 0, offsetof(struct steno_subtitle_options, highlight)}};
#define N_NAMES (sizeof names / sizeof *names)

bool steno_subtitle_option_known(const char *name)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (!strcmp(name, names[i].name))
            return true;
    return false;
}

steno_status steno_subtitle_option_set(struct steno_subtitle_options *o, const char *name,
                                       const char *value, steno_err *err)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        void *field = (char *)o + names[i].at;
        if (!strcmp(name, names[i].name))
            return names[i].most ? steno_query_int(name, value, 1, names[i].most, field, err)
                                 : steno_query_bool(name, value, field, err);
    }
    return steno_fail(err, STENO_ERR_INVAL, "%.40s is none of " STENO_SUBTITLE_NAMES, name);
}

/* ---- cues ------------------------------------------------------------------------------------ */

struct writer {
    struct steno_buf *out;
    enum steno_subtitle_format format;
    struct steno_subtitle_options opt;
    size_t cues;
    unsigned channel; /* of the segment, from 1; 0 = the recording has one */
    unsigned speaker; /* of the segment, from 1; 0 = not known */
    const char *name; /* of the speaker; NULL: none is known */
    double *ends;     /* [channels + 1] of their last cues: they may talk at once */
};

static steno_status write_time(struct writer *w, double seconds)
{
    long long ms = seconds > 0 ? llround(seconds * 1000) : 0;
    if (w->format == STENO_LRC)
        return steno_buf_printf(w->out, "[%02lld:%02lld.%02lld]", ms / 60000, ms / 1000 % 60,
                                ms / 10 % 100);
    return steno_buf_printf(w->out, "%02lld:%02lld:%02lld%c%03lld", ms / 3600000, ms / 60000 % 60,
                            ms / 1000 % 60, w->format == STENO_SRT ? ',' : '.', ms % 1000);
}

/* VTT: escape markup in a word. SRT has no escapes; angle brackets are its markup, so they are left
 * out. */
static steno_status write_word(struct writer *w, const char *s)
{
    steno_status st = STENO_OK;
    for (; *s && !st; s++) {
        const char *esc = *s == '&' ? "&amp;" : *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : NULL;
        if (w->format == STENO_LRC)
            st = steno_buf_add(w->out, s, 1);
        else if (w->format == STENO_SRT)
            st = *s == '<' || *s == '>' ? STENO_OK : steno_buf_add(w->out, s, 1);
        else
            st = esc ? steno_buf_puts(w->out, esc) : steno_buf_add(w->out, s, 1);
    }
    return st;
}

static steno_status write_head(struct writer *w, struct steno_cue_times at)
{
    steno_status st;
    w->cues++;
    if (w->format == STENO_LRC)
        return write_time(w, at.start);
    st = w->cues > 1 || w->format == STENO_VTT ? steno_buf_puts(w->out, "\n") : STENO_OK;
    if (!st && w->format == STENO_SRT)
        st = steno_buf_printf(w->out, "%lld\n", (long long)w->cues + w->opt.before);
    THEN(st, write_time(w, at.start));
    THEN(st, steno_buf_puts(w->out, " --> "));
    THEN(st, write_time(w, at.end));
    return st ? st : steno_buf_puts(w->out, "\n");
}

/* Who speaks. WebVTT has a mark for it (W3C WebVTT, 4.2.2). */
static steno_status write_voice_mark(struct writer *w)
{
    const bool vtt = w->format == STENO_VTT;
    steno_status st = steno_buf_puts(w->out, vtt ? "<v " : "");
    if (!st && w->name)
        st = write_word(w, w->name);
    else if (!st)
        st = steno_buf_printf(w->out, "%s %u", w->speaker ? "Speaker" : "Channel",
                              w->speaker ? w->speaker : w->channel);
    return st ? st : steno_buf_puts(w->out, vtt ? ">" : ": ");
}

/* A line of LRC is one. Word `marked` of the n is underlined; n: none. */
static steno_status write_cue(struct writer *w, const struct steno_cue_word *x, size_t n,
                              struct steno_cue_times at, size_t marked)
{
    steno_status st = write_head(w, at);
    if (!st && (w->channel || w->speaker))
        st = write_voice_mark(w);
    for (size_t i = 0; i < n && !st; i++) {
        if (i && x[i - 1].after == STENO_CUE_LINE_ENDS && w->format != STENO_LRC)
            st = steno_buf_puts(w->out, "\n");
        else if (i && x[i].spaced)
            st = steno_buf_puts(w->out, " ");
        if (!st && i == marked)
            st = steno_buf_puts(w->out, "<u>");
        THEN(st, write_word(w, x[i].text));
        if (!st && i == marked)
            st = steno_buf_puts(w->out, "</u>");
    }
    return st ? st : steno_buf_puts(w->out, "\n");
}

/* The same cue for each word, which is underlined while it is heard, and without a mark between. */
static steno_status write_highlights(struct writer *w, const struct steno_cue_word *x, size_t n,
                                     struct steno_cue_times at)
{
    double now = at.start;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++) {
        const double start = fmin(fmax(x[i].start, now), at.end);
        const double end = fmin(fmax(x[i].end, start), at.end);
        if (llround(start * 1000) > llround(now * 1000))
            st = write_cue(w, x, n, (struct steno_cue_times){now, start}, n);
        if (!st && llround(end * 1000) > llround(start * 1000))
            st = write_cue(w, x, n, (struct steno_cue_times){start, end}, i);
        now = end;
    }
    if (!st && llround(at.end * 1000) > llround(now * 1000))
        st = write_cue(w, x, n, (struct steno_cue_times){now, at.end}, n);
    return st;
}

static steno_status write_cues(struct writer *w, struct steno_cue_word *x, size_t n)
{
    double *from = &w->ends[w->channel];
    steno_status st = steno_cues_make(x, n, &w->opt);
    for (size_t i = 0, end = 0; i < n && !st; i = end) {
        struct steno_cue_times at;
        end = steno_cue_end(x, i);
        at = steno_cue_times(x, i, end, n, *from, &w->opt);
        *from = at.end;
        st = w->opt.highlight && w->format != STENO_LRC ? write_highlights(w, x + i, end - i, at)
                                                        : write_cue(w, x + i, end - i, at, end - i);
    }
    return st;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* Begins with a character of two columns: of a script that has no blanks, but for Hangul. */
static bool begins_wide(const char *word)
{
    utf8proc_int32_t c;
    return utf8proc_iterate((const utf8proc_uint8_t *)word, -1, &c) > 0 &&
           utf8proc_charwidth(c) == 2 && !(c >= 0xAC00 && c <= 0xD7A3);
}

/* The words of a segment, appended to out. Returns their number. */
static size_t take_words(struct steno_cue_word *out, const struct steno_event *seg)
{
    size_t at = 0;
    for (size_t i = 0; i < seg->n_words; i++) {
        const struct steno_word *x = &seg->words[i];
        const bool spaced = steno_word_is_spaced(seg->text, &at, x->text);
        out[i] = (struct steno_cue_word){.text = x->text,
                                         .start = x->start,
                                         .end = x->end,
                                         .spaced = i ? spaced : !begins_wide(x->text),
                                         .ends_segment = i + 1 == seg->n_words};
    }
    return seg->n_words;
}

/* Segments of one voice that follow each other, from *i on, are laid out together. */
static steno_status write_voice(struct writer *w, const steno_transcript *t, size_t *i,
                                struct steno_cue_word *words)
{
    size_t n = 0;
    w->channel = steno_transcript_segment_channel(t, *i);
    w->speaker = steno_transcript_segment_speaker(t, *i);
    w->name = steno_transcript_speaker_name(t, w->speaker);
    for (; *i < steno_transcript_n_segments(t) &&
           steno_transcript_segment_channel(t, *i) == w->channel &&
           steno_transcript_segment_speaker(t, *i) == w->speaker;
         ++*i)
        n += take_words(words + n, steno_transcript_segment(t, *i));
    return write_cues(w, words, n);
}

static steno_status write_subtitle(struct writer *w, const steno_transcript *t)
{
    struct steno_cue_word *words;
    steno_status st = STENO_OK;
    size_t n = 0;
    for (size_t i = 0; i < steno_transcript_n_segments(t); i++)
        n += steno_transcript_segment(t, i)->n_words;
    words = malloc((n + 1) * sizeof *words);
    w->ends = calloc(steno_transcript_n_channels(t) + 1, sizeof *w->ends);
    if (!words || !w->ends)
        st = STENO_ERR_NOMEM;
    for (size_t i = 0; i < steno_transcript_n_segments(t) && !st;)
        st = write_voice(w, t, &i, words);
    free(words);
    free(w->ends);
    return st;
}

steno_status steno_subtitle_write(struct steno_buf *out, const steno_transcript *t,
                                  enum steno_subtitle_format format,
                                  const struct steno_subtitle_options *opt)
{
    struct writer w = {.out = out, .format = format, .opt = opt ? *opt : defaults};
    steno_status st = STENO_OK;
    if (w.opt.line_chars <= 0)
        w.opt.line_chars = defaults.line_chars;
    if (w.opt.lines <= 0)
        w.opt.lines = defaults.lines;
    if (!(w.opt.max_seconds > 0))
        w.opt.max_seconds = defaults.max_seconds;
    if (!(w.opt.speed > 0))
        w.opt.speed = defaults.speed;
    if (!(w.opt.pause_seconds > 0))
        w.opt.pause_seconds = defaults.pause_seconds;
    if (format == STENO_VTT)
        st = steno_buf_puts(out, "WEBVTT\n");
    THEN(st, write_subtitle(&w, t));
    if (!st && w.opt.blank_end && (w.cues || format == STENO_VTT))
        st = steno_buf_puts(out, "\n");
    return st;
}
