/* The JSON of whisperX (github.com/m-bain/whisperX: alignment.py, SingleAlignedSegment), which its
 * tools read:
 *
 *     {"segments": [{"start", "end", "text", "speaker"?,
 *                    "words": [{"word", "start"?, "end"?, "score"?, "speaker"?}],
 *                    "chars"?: [{"char", "start", "end", "score"}]}],
 *      "word_segments": the words of all segments, "language"}
 *
 * A word that was not found in the audio has no times and no score. Speakers are "SPEAKER_00", ...
 * or the names that they are known by. Pure. */
#ifndef STENO_PROTOCOL_WHISPERX_H
#define STENO_PROTOCOL_WHISPERX_H

#include "base/buf.h"
#include "protocol/transcript.h"

/* Append it, without a newline. language: code; NULL: not known. chars: with the characters of a
 * transcript of lines (steno_stream_open_lines). STENO_ERR_LIMIT, STENO_ERR_NOMEM of the buffer.
 */
STENO_MUST steno_status steno_whisperx_write(struct steno_buf *out, const steno_transcript *t,
                                             const char *language, bool chars);
/* Whether a word has a time: it was found in the audio. */
bool steno_word_is_placed(const struct steno_word *w);

#endif
