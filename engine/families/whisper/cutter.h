/* Cuts a recording into chunks of at most 30 s, in pauses of speech, as faster-whisper's batched
 * pipeline does. Silence of more than a second is shortened. Confined.
 *
 * Use: push samples and say of each whether somebody speaks; after each push, take chunks. */
#ifndef STENO_FAMILIES_WHISPER_CUTTER_H
#define STENO_FAMILIES_WHISPER_CUTTER_H

#include "base/status.h"

#define STENO_WHISPER_MAX_PIECES                                                                   \
    64 /* of a chunk: each but the first begins with 0.4 s of silence */

typedef struct steno_whisper_cutter steno_whisper_cutter;

/* Samples at and after number `at` of the chunk are samples at and after `from` of the recording,
 * until the next piece. */
struct steno_whisper_piece {
    size_t at;
    int64_t from;
};

struct steno_whisper_chunk {
    const float *pcm;                         /* [n] at STENO_WHISPER_RATE */
    size_t n, spoken;                         /* nobody speaks in samples `spoken` and on */
    const struct steno_whisper_piece *pieces; /* [n_pieces], by `at`; the first is at 0 */
    size_t n_pieces;
};

STENO_MUST steno_status steno_whisper_cutter_open(steno_whisper_cutter **out, steno_err *err);
void steno_whisper_cutter_close(steno_whisper_cutter *c);
/* Take samples [n], in all of which somebody speaks or nobody does. Takes at most as many as there
 * is room for, and returns how many; fewer than n if a chunk is complete. STENO_WHISPER_RATE. */
size_t steno_whisper_cutter_push(steno_whisper_cutter *c, const float *pcm, size_t n, bool speech);
/* The recording has ended: what is left is a chunk. */
void steno_whisper_cutter_end(steno_whisper_cutter *c);
/* The chunk that is complete; false: there is none. Borrowed until drop. A chunk has speech. */
bool steno_whisper_cutter_peek(steno_whisper_cutter *c, struct steno_whisper_chunk *out);
void steno_whisper_cutter_drop(steno_whisper_cutter *c);

/* The sample of the recording that is number `at` of a chunk of these pieces. `end`: `at` is the
 * end of something, and belongs to the piece before if it is where a piece begins. */
int64_t steno_whisper_piece_time(const struct steno_whisper_piece *p, size_t n, size_t at,
                                 bool end);

#endif
