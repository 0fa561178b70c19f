/* Joins the tokens of two chunks of audio that overlap, so that no token of the overlap is lost or
 * doubled. */
#ifndef STENO_FAMILIES_COMMON_JOIN_H
#define STENO_FAMILIES_COMMON_JOIN_H

#include <stddef.h>

#include "base/span.h"

/* Frames of both chunks are on one clock. The overlap is frames [cut - overlap, cut + overlap).
 * There both should have the same tokens, at most `slack` frames apart: the longest run that they
 * share is where the second chunk takes over. Without one it takes over at the cut.
 * a [na]: the earlier chunk; *keep of its tokens stay. b [nb]: *skip of its tokens fall away. */
void steno_join_spans(const struct steno_span *a, size_t na, const struct steno_span *b, size_t nb,
                      int64_t cut, int64_t overlap, int64_t slack, size_t *keep, size_t *skip);

#endif
