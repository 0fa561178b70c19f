#include "protocol/subtitle.h"

#include <math.h>
#include <string.h>

static const struct steno_subtitle_options defaults = {
    .line_chars = 42, .lines = 2, .max_seconds = 7, .pause_seconds = 1.0};

struct writer {
    struct steno_buf *out;
    enum steno_subtitle_format format;
    struct steno_subtitle_options opt;
    size_t cues;
    unsigned channel; /* of the segment, from 1; 0 = the recording has one */
};

/* Number of characters, not bytes. */
static int width(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static steno_status write_time(struct writer *w, double seconds)
{
    long long ms = seconds > 0 ? llround(seconds * 1000) : 0;
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
        if (w->format == STENO_SRT)
            st = *s == '<' || *s == '>' ? STENO_OK : steno_buf_add(w->out, s, 1);
        else
            st = esc ? steno_buf_puts(w->out, esc) : steno_buf_add(w->out, s, 1);
    }
    return st;
}

static steno_status write_head(struct writer *w, double start, double end)
{
    steno_status st;
    w->cues++;
    st = w->cues > 1 || w->format == STENO_VTT ? steno_buf_puts(w->out, "\n") : STENO_OK;
    if (!st && w->format == STENO_SRT)
        st = steno_buf_printf(w->out, "%zu\n", w->cues);
    if (!st)
        st = write_time(w, start);
    if (!st)
        st = steno_buf_puts(w->out, " --> ");
    if (!st)
        st = write_time(w, end > start ? end : start + 0.001);
    return st ? st : steno_buf_puts(w->out, "\n");
}

/* Whether a space separates the words. The segment's text shows this: words of scripts without
 * spaces are adjacent. *at: where in text the last word ended. */
static bool spaced(const char *text, size_t *at, const char *word)
{
    const char *p = strstr(text + *at, word);
    bool gap = !p || p > text + *at;
    if (p)
        *at = (size_t)(p - text) + strlen(word);
    return gap;
}

/* Write words [from, to) as lines. */
static steno_status write_cue(struct writer *w, const struct steno_event *seg, size_t from,
                              size_t to, size_t *at)
{
    steno_status st = write_head(w, seg->words[from].start, seg->words[to - 1].end);
    int used = 0;
    if (!st && w->channel) /* WebVTT has a mark for the voice (W3C WebVTT, 4.2.2) */
        st = steno_buf_printf(
            w->out, w->format == STENO_VTT ? "<v Channel %u>" : "Channel %u: ", w->channel);
    for (size_t i = from; i < to && !st; i++) {
        const char *word = seg->words[i].text;
        bool gap = spaced(seg->text, at, word) && used;
        if (used && used + gap + width(word) > w->opt.line_chars) {
            st = steno_buf_puts(w->out, "\n");
            used = gap = 0;
        }
        if (!st && gap)
            st = steno_buf_puts(w->out, " ");
        if (!st)
            st = write_word(w, word);
        used += gap + width(word);
    }
    return st ? st : steno_buf_puts(w->out, "\n");
}

/* The end of the cue that begins with word `from`. */
static size_t cue_end(const struct writer *w, const struct steno_event *seg, size_t from)
{
    const struct steno_word *x = seg->words;
    int line = 1, used = 0;
    size_t i;
    for (i = from; i < seg->n_words; i++) {
        int n = width(x[i].text);
        if (i > from && (x[i].start - x[i - 1].end >= w->opt.pause_seconds ||
                         x[i].end - x[from].start > w->opt.max_seconds))
            break;
        if (used && used + 1 + n > w->opt.line_chars) {
            if (line == w->opt.lines)
                break;
            line++;
            used = 0;
        }
        used += (used > 0) + n;
    }
    return i;
}

static steno_status write_segment(struct writer *w, const struct steno_event *seg)
{
    steno_status st = STENO_OK;
    size_t at = 0;
    for (size_t i = 0; i < seg->n_words && !st;) {
        size_t end = cue_end(w, seg, i);
        st = write_cue(w, seg, i, end, &at);
        i = end;
    }
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
    if (!(w.opt.pause_seconds > 0))
        w.opt.pause_seconds = defaults.pause_seconds;
    if (format == STENO_VTT)
        st = steno_buf_puts(out, "WEBVTT\n");
    for (size_t i = 0; i < steno_transcript_n_segments(t) && !st; i++) {
        w.channel = steno_transcript_segment_channel(t, i);
        st = write_segment(&w, steno_transcript_segment(t, i));
    }
    return st;
}
