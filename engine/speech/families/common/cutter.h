/* Cuts a recording into chunks of bounded length, in pauses of speech, for models that recognize a
 * piece of audio at once. Every sample that somebody speaks in is in a chunk. A chunk that has no
 * pause ends where it is quietest, and overlaps with the next one. Confined.
 *
 * Use: push samples and say of each whether somebody speaks; after each push, take chunks.
 * speech_cutter.h asks a VAD who speaks. */
#ifndef STENO_FAMILIES_COMMON_CUTTER_H
#define STENO_FAMILIES_COMMON_CUTTER_H

#include "base/status.h"

#define STENO_CUTTER_MAX_PIECES 64 /* of a chunk: each but the first begins with 0.4 s of silence  \
                                    */

struct steno_cutter_options {
    int rate;    /* Hz */
    double full; /* s: maximum length of a chunk */
    double late; /* s: the longest pause from here on ends a full chunk; without one the last pause
                  * before it does, if the chunk is then at least `earliest` */
    double earliest;
    double quiet_from; /* s: without a pause a chunk ends where it is quietest from here on */
    /* Silence stays as it is, and a recording that fits into one chunk is that chunk. Else silence
     * of more than a second is shortened. In both cases a full chunk without speech is dropped. */
    bool keep_silence;
    /* s, with keep_silence: a chunk that was cut in speech goes on for this long after the cut, and
     * the next one begins this long before it. */
    double overlap;
    size_t grain; /* samples: with keep_silence, chunks begin and are cut at multiples; 0 = 1 */
};

typedef struct steno_cutter steno_cutter;

/* Samples at and after number `at` of the chunk are samples at and after `from` of the recording,
 * until the next piece. */
struct steno_cutter_piece {
    size_t at;
    int64_t from;
};

struct steno_cutter_chunk {
    const float *pcm; /* [n] */
    size_t n, spoken; /* nobody speaks in samples `spoken` and on */
    size_t before;    /* samples of overlap before the cut at the chunk's begin; 0: a pause */
    size_t after;     /* samples of overlap after the cut at its end; 0: a pause, or the end */
    const struct steno_cutter_piece *pieces; /* [n_pieces], by `at`; the first is at 0 */
    size_t n_pieces;
};

/* STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_cutter_open(steno_cutter **out, const struct steno_cutter_options *o,
                                          steno_err *err);
void steno_cutter_close(steno_cutter *c);
/* Take samples [n], in all of which somebody speaks or nobody does. *used: how many were taken;
 * fewer than n if a chunk is complete or there is no room for more. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_cutter_push(steno_cutter *c, const float *pcm, size_t n, bool speech,
                                          size_t *used);
/* The recording has ended: the rest is a chunk, unless it is silence after an earlier chunk. */
void steno_cutter_end(steno_cutter *c);
/* The complete chunk; false: there is none. Borrowed until drop. */
bool steno_cutter_peek(steno_cutter *c, struct steno_cutter_chunk *out);
/* The samples so far of the chunk that is not complete. Borrowed until push. */
void steno_cutter_so_far(const steno_cutter *c, struct steno_cutter_chunk *out);
void steno_cutter_drop(steno_cutter *c);

/* The sample of the recording that is number `at` of a chunk of these pieces. `end`: `at` is the
 * end of something, and belongs to the piece before if it is where a piece begins. */
int64_t steno_cutter_time(const struct steno_cutter_piece *p, size_t n, size_t at, bool end);

#endif
