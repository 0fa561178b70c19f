/* Words laid out as subtitles: which of them make a cue, and where its lines end. Pure.
 *
 * Of all layouts within the limits the cheapest is taken (dynamic programming, as Knuth and Plass,
 * "Breaking paragraphs into lines", 1981). Cues end where sentences and clauses end, are not too
 * short to read, and long sentences are divided evenly. Within a clause a break comes at a pause or
 * before a conjunction rather than behind an article, and not within a name or number. */
#ifndef STENO_PROTOCOL_CUES_H
#define STENO_PROTOCOL_CUES_H

#include "protocol/subtitle.h"

enum steno_cue_break { STENO_CUE_GOES_ON, STENO_CUE_LINE_ENDS, STENO_CUE_ENDS };

struct steno_cue_word {
    const char *text;           /* UTF-8, borrowed */
    double start, end;          /* seconds */
    bool spaced;                /* a blank before it, within a line */
    bool ends_segment;          /* of the transcript */
    enum steno_cue_break after; /* written */
};

/* Set `after` of words [n], in the order of their times. Every field of the options is set. A word
 * that is wider than a line has one of its own. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_cues_make(struct steno_cue_word *words, size_t n,
                                        const struct steno_subtitle_options *opt);

/* The end of the cue that begins with word i. */
static inline size_t steno_cue_end(const struct steno_cue_word *words, size_t i)
{
    while (words[i].after != STENO_CUE_ENDS)
        i++;
    return i + 1;
}

/* When the cue of words [i, end) of n is shown, in seconds: while it is heard, and longer until it
 * can be read, a second at least, if there is a pause behind it; for a second also if there is one
 * before it; 0.1 s at least. Cues never overlap: `from` is the end of the last one (0 = none). */
struct steno_cue_times {
    double start, end;
};
struct steno_cue_times steno_cue_times(const struct steno_cue_word *words, size_t i, size_t end,
                                       size_t n, double from,
                                       const struct steno_subtitle_options *opt);

#endif
