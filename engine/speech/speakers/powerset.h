/* The classes of a segmentation network as sets of speakers: the empty set, then all sets of one
 * speaker, of two, ... up to a greatest size, each size in lexicographic order (Plaquet and Bredin,
 * "Powerset multi-class cross entropy loss for neural speaker diarization", Interspeech 2023).
 * Pure. */
#ifndef STENO_SPEAKERS_POWERSET_H
#define STENO_SPEAKERS_POWERSET_H

#include "base/status.h"

#define STENO_POWERSET_SPEAKERS 8 /* a set is a byte */
#define STENO_POWERSET_CLASSES 256

/* Fill in the set of each class, bit s for speaker s. speakers: 1..STENO_POWERSET_SPEAKERS,
 * together: 1..speakers. Returns the number of classes. */
size_t steno_powerset(uint8_t sets[STENO_POWERSET_CLASSES], int speakers, int together);
/* The set of the greatest of scores [classes] of each frame, the first one of equals; NaN is never
 * the greatest. scores: [frames, classes]; out: [frames]. */
void steno_powerset_decode(const uint8_t *sets, size_t classes, const float *scores, size_t frames,
                           uint8_t *out);
/* Mark the frames of sets [frames] in which speaker s alone talks: mask [frames], 0 or 1. Returns
 * their number. */
size_t steno_powerset_alone(const uint8_t *sets, size_t frames, int s, uint8_t *mask);

#endif
