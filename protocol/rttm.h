/* Who spoke when, as text: RTTM ("Rich Transcription Time Marked", NIST RT-09 evaluation plan,
 * appendix A), a line for each turn:
 *
 *     SPEAKER NAME 1 START LENGTH <NA> <NA> SPEAKER_00 <NA> <NA>
 *
 * and JSON: {"file", "duration", "speakers", "turns": [{"start", "end", "speaker" (from 1), "name"
 * (of one who is known)}]}.
 * Times are in seconds with three decimals. Pure. */
#ifndef STENO_PROTOCOL_RTTM_H
#define STENO_PROTOCOL_RTTM_H

#include "base/buf.h"
#include "steno.h"

/* Append turns [n] to out. name: of the recording. names: of the speakers, in place of SPEAKER_00;
 * NULL: of one who is not known, and nobody is. Bytes of names that would end a field (blanks,
 * control characters) become '_', an empty one too. STENO_ERR_NOMEM, STENO_ERR_LIMIT from the
 * buffer. */
STENO_MUST steno_status steno_rttm_write(struct steno_buf *out, const char *name,
                                         const struct steno_turn *turn, size_t n,
                                         const char *const *names);
/* Append one line of JSON with its newline. */
STENO_MUST steno_status steno_turns_json_write(struct steno_buf *out, const char *name,
                                               double duration, int speakers,
                                               const struct steno_turn *turn, size_t n,
                                               const char *const *names);

#endif
