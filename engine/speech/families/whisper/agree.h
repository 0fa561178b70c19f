/* Agreement of consecutive hypotheses of a growing recording (LocalAgreement-n: Machacek, Dabre,
 * Bojar: Turning Whisper into Real-Time Transcription System, 2023, section 3.1). Text at the head
 * of n hypotheses in a row, in whole words, is agreed. The next hypothesis is decoded from there,
 * so agreed text never changes. The last word of a hypothesis is never agreed: more audio may add
 * to it. */
#ifndef STENO_FAMILIES_WHISPER_AGREE_H
#define STENO_FAMILIES_WHISPER_AGREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STENO_WHISPER_AGREE_MAX 224 /* pieces of a hypothesis */
#define STENO_WHISPER_AGREE_MOST 8  /* hypotheses that must agree, at most */

/* Confined. */
struct steno_whisper_agreement {
    int32_t first_time; /* this piece and those after it are timestamps, which need not agree */
    bool (*begins_word)(const void *arg, int32_t id);
    const void *arg;
    size_t needed;                        /* hypotheses in a row: 2 to STENO_WHISPER_AGREE_MOST */
    size_t hold;                          /* agreed words that wait until so many follow them */
    int32_t ids[STENO_WHISPER_AGREE_MAX]; /* the newest hypothesis, timestamps among them */
    float log_probs[STENO_WHISPER_AGREE_MAX];
    size_t n;
    size_t agreed; /* pieces at its head; the last one is text */
    /* pieces of text that the newest hypothesis has in common with the one before it, those two
     * before, ... */
    size_t common[STENO_WHISPER_AGREE_MOST - 1];
};

/* Take the next hypothesis: ids [n], log_probs [n], n <= STENO_WHISPER_AGREE_MAX. It begins with
 * the agreed pieces. */
void steno_whisper_agreement_add(struct steno_whisper_agreement *a, const int32_t *ids,
                                 const float *log_probs, size_t n);
/* Whether the text of ids [n] begins with the agreed text. *used: number of pieces of agreed text
 * that ids has, if it ends within it. */
bool steno_whisper_agreement_kept(const struct steno_whisper_agreement *a, const int32_t *ids,
                                  size_t n, size_t *used);
/* Pieces of text among the agreed ones. */
size_t steno_whisper_agreement_text(const struct steno_whisper_agreement *a);
/* Take pieces off the head up to the last pair of timestamps that agreed text follows: the first of
 * the pair is the last piece that goes. Returns their number, at most `most`; 0: no such pair.
 * Timestamps of the rest count from the pair, which is at *shift. */
size_t steno_whisper_agreement_split(struct steno_whisper_agreement *a, size_t most, int32_t *ids,
                                     float *log_probs, int32_t *shift);
/* Put n pieces back before the others: their inverse. shift: the time of the pair. */
void steno_whisper_agreement_join(struct steno_whisper_agreement *a, const int32_t *ids,
                                  const float *log_probs, size_t n, int32_t shift);
/* A window was finished, which had the first `used` pieces of agreed text: what is left of it is
 * agreed text of the next window, behind timestamp 0 if it has timestamps. */
void steno_whisper_agreement_move(struct steno_whisper_agreement *a, size_t used);

#endif
