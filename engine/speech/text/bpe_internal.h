/* Shared by the files of bpe.h. */
#ifndef STENO_TEXT_BPE_INTERNAL_H
#define STENO_TEXT_BPE_INTERNAL_H

#include "base/arena.h"
#include "speech/text/bpe.h"

struct steno_bpe {
    steno_arena *mem;
    struct steno_bpe_piece *piece; /* [n] */
    int32_t n, regular;
    size_t cap;
    enum steno_bpe_pattern pattern;
    int32_t *slots; /* [n_slots] hash table of numbers, -1 = free */
    size_t n_slots; /* a power of two */
};

/* An empty vocabulary that takes numbers below STENO_BPE_MAX_PIECES. NULL: out of memory. */
steno_bpe *steno_bpe_empty(void);
/* Set piece `id` to n bytes, copied. Lower numbers that are never set are not used. */
STENO_MUST steno_status steno_bpe_put(steno_bpe *b, int64_t id, const char *bytes, size_t n,
                                      const char *name, steno_err *err);
/* The same from GPT-2's printable form. */
STENO_MUST steno_status steno_bpe_put_printed(steno_bpe *b, int64_t id, const char *text, size_t n,
                                              const char *name, steno_err *err);
/* Call when all pieces are set: finds the special ones and fills the hash table. */
STENO_MUST steno_status steno_bpe_finish(steno_bpe *b, const char *name, steno_err *err);

#endif
