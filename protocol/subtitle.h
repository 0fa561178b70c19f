/* Subtitles from word times: SubRip (.srt: de facto format, times HH:MM:SS,mmm) and WebVTT (W3C
 * WebVTT, section 4: HH:MM:SS.mmm, &, < and > escaped). Pure. */
#ifndef STENO_PROTOCOL_SUBTITLE_H
#define STENO_PROTOCOL_SUBTITLE_H

#include "base/buf.h"
#include "protocol/transcript.h"

enum steno_subtitle_format { STENO_SRT, STENO_VTT };

/* How words become cues; a zero field means the default in brackets. */
struct steno_subtitle_options {
    int line_chars;       /* [42] longest line, in columns: a wide character takes two */
    int lines;            /* [2] per cue */
    double max_seconds;   /* [7] longest cue */
    double pause_seconds; /* [1.0] a pause this long starts a new cue */
    int before;           /* [0] SubRip: the first cue has the number after this */
    bool blank_end; /* [no] a blank line after the last cue too, so that files can be joined */
};

/* Append the whole file to out; cues.h says how words become cues. opt may be NULL.
 * STENO_ERR_LIMIT from the buffer, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_subtitle_write(struct steno_buf *out, const steno_transcript *t,
                                             enum steno_subtitle_format format,
                                             const struct steno_subtitle_options *opt);

#endif
