/* How far the confidences of words are from the shares that are right, and the monotone map that
 * brings them there. Pure. */
#ifndef STENO_CLI_CONFIDENCE_FIT_H
#define STENO_CLI_CONFIDENCE_FIT_H

#include "speech/text/confidence_map.h"

struct confidence_sample {
    float confidence; /* of a word, 0..1 */
    bool right;
    bool second; /* half of the recordings that it belongs to */
};

/* Sort samples by confidence: what the functions below take. */
void confidence_sort(struct confidence_sample *s, size_t n);
/* Expected calibration error: the mean over words of the distance between mean confidence and share
 * of right words in each of ten equal bins. map NULL: confidences as they are. 0 without words. */
double confidence_error(const struct confidence_sample *s, size_t n,
                        const struct steno_confidence_map *map);
/* Area under the curve: how often a right word has more confidence than a wrong one, ties as one
 * half. NaN: all are right, or none is. */
double confidence_area(const struct confidence_sample *s, size_t n);
/* Isotonic regression of right on confidence (pool adjacent violators): fit [n], which does not
 * fall, and is one value where confidences are equal. False: out of memory. */
bool confidence_isotonic(const struct confidence_sample *s, size_t n, double *fit);
/* A map of at most 8 steps: isotonic regression, whose neighbouring steps are joined, the nearest
 * first, until each has 20 words at least. Within a step the map is level. STENO_ERR_INVAL: fewer
 * than 40 words; STENO_ERR_NOMEM. */
STENO_MUST steno_status confidence_fit(const struct confidence_sample *s, size_t n,
                                       struct steno_confidence_map *out, steno_err *err);

#endif
