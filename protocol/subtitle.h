/* Subtitles from word times: SubRip (.srt: de facto format, times HH:MM:SS,mmm) and WebVTT (W3C
 * WebVTT, section 4: HH:MM:SS.mmm, &, < and > escaped). Pure. */
#ifndef STENO_PROTOCOL_SUBTITLE_H
#define STENO_PROTOCOL_SUBTITLE_H

#include "base/buf.h"
#include "protocol/transcript.h"

/* STENO_LRC: lyrics, a line for each cue with its start. */
enum steno_subtitle_format { STENO_SRT, STENO_VTT, STENO_LRC };

/* How words become cues; a zero field means the default in brackets. */
struct steno_subtitle_options {
    int line_chars;       /* [42] longest line, in columns: a wide character takes two */
    int lines;            /* [2] per cue */
    double max_seconds;   /* [7] longest cue */
    int line_words;       /* [no limit] words of a line */
    double speed;         /* [17] columns a second that can be read */
    double pause_seconds; /* [1.0] a pause this long starts a new cue */
    int before;           /* [0] SubRip: the first cue has the number after this */
    bool highlight;       /* [no] each word has a cue, in which it is underlined among the others */
    bool blank_end; /* [no] a blank line after the last cue too, so that files can be joined */
};

/* Options of requests, with the names of openai-whisper: max_line_width, max_line_count,
 * max_words_per_line, highlight_words. */
#define STENO_SUBTITLE_NAMES "max_line_width, max_line_count, max_words_per_line, highlight_words"
bool steno_subtitle_option_known(const char *name);
/* Set one of them. STENO_ERR_INVAL names it. */
STENO_MUST steno_status steno_subtitle_option_set(struct steno_subtitle_options *o,
                                                  const char *name, const char *value,
                                                  steno_err *err);

/* Append the whole file to out; cues.h says how words become cues. opt may be NULL.
 * STENO_ERR_LIMIT from the buffer, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_subtitle_write(struct steno_buf *out, const steno_transcript *t,
                                             enum steno_subtitle_format format,
                                             const struct steno_subtitle_options *opt);

#endif
