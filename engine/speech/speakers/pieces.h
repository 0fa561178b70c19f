/* Vectors of pieces of clean speech, so that speech that several windows hear is embedded once. A
 * piece is what one speaker says alone in a cell, the time from one window's start to the next's.
 * Pure. */
#ifndef STENO_SPEAKERS_PIECES_H
#define STENO_SPEAKERS_PIECES_H

#include "base/status.h"

#define STENO_PIECE_FRAMES 20 /* a third of a second: shorter pieces say little */

/* Confined. Zeros but for dim and frames: empty. */
struct steno_pieces {
    size_t dim, frames; /* of a vector; of a cell, at most */
    size_t n, cap_cells, cap_masks, cap_vectors;
    size_t *cell;  /* [n] */
    uint8_t *mask; /* [n, frames] 1: the speaker talks alone */
    float *vector; /* [n, dim] of unit length */
};

/* The vector of the piece of this cell that has nearly these frames; NULL: there is none. */
const float *steno_pieces_find(const struct steno_pieces *p, size_t cell, const uint8_t *mask);
/* Add a piece. vector: [dim], scaled to unit length here. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_pieces_add(struct steno_pieces *p, size_t cell, const uint8_t *mask,
                                         const float *vector, steno_err *err);
/* Drop the pieces of cells before this one. */
void steno_pieces_forget(struct steno_pieces *p, size_t before);
void steno_pieces_free(struct steno_pieces *p);

#endif
