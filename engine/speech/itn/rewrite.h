/* A text rewritten by a transducer: the path of least weight that reads the whole text, in time and
 * memory that grow with the text's length only as far as the transducer leaves its choice open.
 * Where two paths weigh the same, the choice is that of OpenFst (ShortestPath of Compose), as
 * weights are sums of 32-bit numbers in its order. Confined. */
#ifndef STENO_ITN_REWRITE_H
#define STENO_ITN_REWRITE_H

#include "speech/itn/fst.h"

typedef struct steno_rewrite steno_rewrite;

/* A step of the path: the byte that it reads and the one that it writes. 0: none. */
struct steno_rewrite_step {
    uint8_t in, out;
};

struct steno_rewrite_path {
    const struct steno_rewrite_step *step; /* borrowed, until the next run */
    size_t n;
    float weight;
    bool found; /* false: no path reads the text */
};

/* NULL: out of memory. */
steno_rewrite *steno_rewrite_new(void);
void steno_rewrite_free(steno_rewrite *w);
/* text: n bytes; one that has a zero byte is read by no path. Buffers grow, and shrink after a text
 * that needed much. STENO_ERR_LIMIT: the transducer leaves too much open. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_rewrite_run(steno_rewrite *w, const struct steno_fst *f,
                                          const char *text, size_t n,
                                          struct steno_rewrite_path *out);
/* How many bytes of a text, n that more will follow, a tagger has decided: the tokens up to there
 * are those of every longer text. Paths that end within a token of the name `but` do not count;
 * NULL: all do. Errors as above. */
STENO_MUST steno_status steno_rewrite_decided(steno_rewrite *w, const struct steno_fst *f,
                                              const char *text, size_t n, const char *but,
                                              size_t *decided);

#endif
