/* Token sequences of hypotheses, which share their beginnings: chains of nodes, one for each token.
 * A sequence is the number of its last node. Nodes count their users, which are hypotheses and
 * longer sequences, and are used again when there are none, so that memory is that of the sequences
 * in use. Confined. */
#ifndef STENO_SEARCH_SEQUENCES_H
#define STENO_SEARCH_SEQUENCES_H

#include "base/span.h"
#include "base/status.h"

#define STENO_NO_SEQUENCE (-1) /* no token yet */

struct steno_sequence {
    struct steno_span span; /* the last token */
    uint64_t hash;          /* of all tokens */
    int32_t before;         /* the sequence without it; of an unused node: the next one */
    uint32_t users, length;
};

/* Zeros: empty. Reading of nodes by number is free; the functions below change them. */
struct steno_sequences {
    struct steno_sequence *node; /* [used] */
    size_t cap;
    int32_t used;
    int32_t unused; /* list: the number of a node, plus 1; 0: none */
};

void steno_sequences_free(struct steno_sequences *s);
/* Drop all sequences, whoever uses them. */
void steno_sequences_reset(struct steno_sequences *s);
/* Make room for n more sequences, so that extend does not fail. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_sequences_reserve(struct steno_sequences *s, size_t n);
/* The sequence `before` with one token more. The caller is its first user. STENO_NO_SEQUENCE: out
 * of memory. */
int32_t steno_sequence_extend(struct steno_sequences *s, int32_t before,
                              const struct steno_span *token);
/* One user more, or less, of a sequence, which may be none. */
void steno_sequence_keep(struct steno_sequences *s, int32_t i);
void steno_sequence_drop(struct steno_sequences *s, int32_t i);

size_t steno_sequence_length(const struct steno_sequences *s, int32_t i);
/* Whether two sequences have the same tokens. */
bool steno_sequence_same(const struct steno_sequences *s, int32_t a, int32_t b);
/* The longest sequence that both begin with, node for node. */
int32_t steno_sequence_common(const struct steno_sequences *s, int32_t a, int32_t b);
/* The last tokens, `most` or all; returns their number. */
size_t steno_sequence_tokens(const struct steno_sequences *s, int32_t i, int32_t *out, size_t most);
/* The last n tokens, n <= length. */
void steno_sequence_spans(const struct steno_sequences *s, int32_t i, struct steno_span *out,
                          size_t n);

#endif
