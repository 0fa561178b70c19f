/* A monotone map of the confidences that one model gives to words: from what its network says to
 * the share of such words that are right. `steno model calibrate` fits it on recordings of known
 * text (docs/decoder.md), and it lies beside the model:
 *
 *     {"knots": [[0.31, 0.4], [0.8, 0.97]], "language": "en"}
 *
 * Between two knots it is a straight line, outside of them the nearest knot's. With a language it
 * is for results in that one alone. Frozen. */
#ifndef STENO_TEXT_CONFIDENCE_MAP_H
#define STENO_TEXT_CONFIDENCE_MAP_H

#include "base/status.h"
#include "formats/json.h"

#define STENO_CONFIDENCE_FILE "confidence.json"
#define STENO_CONFIDENCE_KNOTS 16
#define STENO_CONFIDENCE_LEAST 0.001f /* of what a map gives: logarithms are taken of it */

struct steno_confidence_map {
    size_t n;         /* 0: confidences stay */
    char language[8]; /* "": every one */
    struct steno_confidence_knot {
        float from, to; /* 0..1; from rises, to does not fall */
    } knot[STENO_CONFIDENCE_KNOTS];
};

/* Parse n bytes, borrowed for the call; name is used in messages. STENO_ERR_FORMAT names line and
 * fault: not JSON, an unknown member, numbers out of range or order. */
STENO_MUST steno_status steno_confidence_map_parse(struct steno_confidence_map *out,
                                                   const char *bytes, size_t n, const char *name,
                                                   steno_err *err);
/* The same of a parsed object. */
STENO_MUST steno_status steno_confidence_map_read(struct steno_confidence_map *out,
                                                  const struct steno_json_node *object,
                                                  const char *name, steno_err *err);
/* Read the map of a model's directory. One without a file has an empty map, which is no error. */
STENO_MUST steno_status steno_confidence_map_open(struct steno_confidence_map *out, const char *dir,
                                                  steno_err *err);
/* Write it there. STENO_ERR_IO: the reason. */
STENO_MUST steno_status steno_confidence_map_store(const struct steno_confidence_map *m,
                                                   const char *dir, steno_err *err);
/* The mapped confidence; m NULL: as it is. */
float steno_confidence_map_of(const struct steno_confidence_map *m, float confidence);

#endif
