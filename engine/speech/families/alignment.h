/* A text whose words are looked for in the audio of a stream, by the scores of a model with CTC.
 * The recognizer makes it of the lines; the family spells it and gives it the scores; then the
 * recognizer reads where words and characters are. Confined. docs/align.md has the rules. */
#ifndef STENO_FAMILIES_ALIGNMENT_H
#define STENO_FAMILIES_ALIGNMENT_H

#include "base/span.h"
#include "base/status.h"
#include "speech/text/tokens.h"
#include "steno.h"

typedef struct steno_alignment steno_alignment;

#define STENO_ALIGNMENT_TEXT ((size_t)1 << 20) /* bytes of all lines */

/* What a family spells words with. */
struct steno_speller {
    const steno_tokens *tokens;
    const void *of;    /* of spell */
    bool upper, lower; /* no token has a small letter; a capital */
    bool letters;      /* each character is spelled by itself */
    /* The tokens of a word, terminated, in the case of the vocabulary: ids, at most twice its bytes
     * and one. False: it cannot be spelled. */
    bool (*spell)(const void *of, const char *word, int32_t *ids, size_t *n);
};

/* A token's place. In bytes of its line, both ends; first < 0: it was not found. */
struct steno_aligned_unit {
    size_t from, to;
    struct steno_span span;
};

struct steno_aligned_word {
    size_t from, to;      /* bytes of its line */
    size_t unit, n_units; /* its tokens; none: it is not spoken, as "-" */
};

struct steno_aligned_line {
    const char *text; /* the alignment's */
    size_t word, n_words;
};

/* Take the lines [n], copied. STENO_ERR_INVAL: a line is no UTF-8, or lines with times are not in
 * their order; STENO_ERR_LIMIT: they have too many bytes; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_alignment_open(steno_alignment **out, const struct steno_line *lines,
                                             size_t n, steno_err *err);
void steno_alignment_close(steno_alignment *a);
/* The family: spell the words. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_alignment_spell(steno_alignment *a, const struct steno_speller *s,
                                              steno_err *err);
/* The family: it will give scores of so many symbols. */
void steno_alignment_attach(steno_alignment *a, int32_t vocab, int32_t blank);
/* Whether it has. */
bool steno_alignment_attached(const steno_alignment *a);
/* The recognizer, before the first frame: that of time 0, and the frames of a second. */
void steno_alignment_set_clock(steno_alignment *a, double zero, double per_second);
/* The family: scores [n, vocab], log-probabilities, of the next frames. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_alignment_push(steno_alignment *a, const float *scores, size_t n);
/* The same of frames from number `frame` on: without those that came before, and behind quiet ones
 * where some are missing. */
STENO_MUST steno_status steno_alignment_push_at(steno_alignment *a, int64_t frame,
                                                const float *scores, size_t n);
int64_t steno_alignment_frames(const steno_alignment *a); /* so far */
/* The recognizer: all frames are there. */
void steno_alignment_end(steno_alignment *a);

const struct steno_aligned_line *steno_alignment_lines(const steno_alignment *a, size_t *n);
const struct steno_aligned_word *steno_alignment_words(const steno_alignment *a, size_t *n);
const struct steno_aligned_unit *steno_alignment_units(const steno_alignment *a, size_t *n);

#endif
