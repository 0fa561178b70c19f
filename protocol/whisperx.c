#include "protocol/whisperx.h"

#include <stdio.h>
#include <string.h>

#include "protocol/json_text.h"
#include "protocol/then.h"

#define LABEL 32 /* bytes */

bool steno_word_is_placed(const struct steno_word *w)
{
    return w->confidence > 0 || w->end > w->start;
}

static steno_status put_times(struct steno_buf *out, double start, double end)
{
    steno_status st = steno_json_put_seconds(out, "start", start);
    THEN(st, steno_buf_puts(out, ","));
    return THEN(st, steno_json_put_seconds(out, "end", end));
}

static steno_status put_placed_word(struct steno_buf *out, const struct steno_word *w,
                                    const char *speaker)
{
    steno_status st = steno_json_printf(out, "{\"word\":%s", w->text);
    if (steno_word_is_placed(w)) {
        THEN(st, steno_buf_puts(out, ","));
        THEN(st, put_times(out, w->start, w->end));
        THEN(st, steno_buf_printf(out, ",\"score\":%.3f", (double)w->confidence));
    }
    if (speaker) {
        THEN(st, steno_json_printf(out, ",\"speaker\":%s", speaker));
    }
    return THEN(st, steno_buf_puts(out, "}"));
}

/* Append the words of a segment, behind others if `more`. */
static steno_status put_words(struct steno_buf *out, const struct steno_event *seg,
                              const char *speaker, bool more)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < seg->n_words; i++) {
        if (i || more)
            THEN(st, steno_buf_puts(out, ","));
        THEN(st, put_placed_word(out, &seg->words[i], speaker));
    }
    return st;
}

static steno_status put_chars(struct steno_buf *out, const struct steno_event *seg)
{
    const int32_t length = (int32_t)strlen(seg->text);
    const struct steno_section *line = seg->n_sections ? &seg->sections[0] : NULL;
    steno_status st = steno_buf_puts(out, ",\"chars\":[");
    bool more = false;
    for (size_t i = 0; line && 2 * i + 1 < line->n_ids && i < seg->n_tokens; i++) {
        const struct steno_token *k = &seg->tokens[i];
        const int32_t from = line->ids[2 * i], to = line->ids[2 * i + 1];
        if (from < 0 || to <= from || to > length || !(k->confidence > 0))
            continue;
        THEN(st, steno_buf_puts(out, more ? ",{\"char\":" : "{\"char\":"));
        THEN(st, steno_json_put_string(out, seg->text + from, (size_t)(to - from)));
        THEN(st, steno_buf_puts(out, ","));
        THEN(st, put_times(out, k->start, k->end));
        THEN(st, steno_buf_printf(out, ",\"score\":%.3f}", (double)k->confidence));
        more = true;
    }
    return THEN(st, steno_buf_puts(out, "]"));
}

/* Who speaks segment i; NULL: it is not known. */
static const char *speaker_of(const steno_transcript *t, size_t i, char label[LABEL])
{
    const unsigned speaker = steno_transcript_segment_speaker(t, i);
    const unsigned channel = steno_transcript_segment_channel(t, i);
    const char *name = steno_transcript_speaker_name(t, speaker);
    if (name || (!speaker && !channel))
        return name;
    if (speaker)
        snprintf(label, LABEL, "SPEAKER_%02u", speaker - 1);
    else
        snprintf(label, LABEL, "Channel %u", channel);
    return label;
}

static steno_status put_segment(struct steno_buf *out, const steno_transcript *t, size_t i,
                                bool chars)
{
    const struct steno_event *seg = steno_transcript_segment(t, i);
    char label[LABEL];
    const char *speaker = speaker_of(t, i, label);
    steno_status st = steno_buf_puts(out, i ? ",{" : "{");
    THEN(st, put_times(out, seg->start, seg->end));
    THEN(st, steno_json_printf(out, ",\"text\":%s", seg->text));
    if (speaker) {
        THEN(st, steno_json_printf(out, ",\"speaker\":%s", speaker));
    }
    THEN(st, steno_buf_puts(out, ",\"words\":["));
    THEN(st, put_words(out, seg, speaker, false));
    THEN(st, steno_buf_puts(out, "]"));
    if (chars)
        THEN(st, put_chars(out, seg));
    return THEN(st, steno_buf_puts(out, "}"));
}

steno_status steno_whisperx_write(struct steno_buf *out, const steno_transcript *t,
                                  const char *language, bool chars)
{
    const size_t n = steno_transcript_n_segments(t);
    bool more = false;
    steno_status st = steno_buf_puts(out, "{\"segments\":[");
    for (size_t i = 0; i < n; i++)
        THEN(st, put_segment(out, t, i, chars));
    THEN(st, steno_buf_puts(out, "],\"word_segments\":["));
    for (size_t i = 0; i < n; i++) {
        char label[LABEL];
        THEN(st, put_words(out, steno_transcript_segment(t, i), speaker_of(t, i, label), more));
        more = more || steno_transcript_segment(t, i)->n_words;
    }
    return THEN(st, steno_json_printf(out, "],\"language\":%s}", language ? language : ""));
}
