/* What a language model reads before it writes: marks and texts as ids, and between them the rows
 * of a recording. */
#ifndef STENO_FAMILIES_LLM_PROMPT_H
#define STENO_FAMILIES_LLM_PROMPT_H

#include "speech/families/family.h"
#include "speech/families/llm/vocabulary.h"

/* A language that a model knows. */
struct steno_llm_language {
    const char *code, *name; /* the name in its prompts and texts */
};
/* The codes of n languages with blanks between: out [size]. */
void steno_llm_list_languages(const struct steno_llm_language *l, size_t n, char *out, size_t size);
/* That of a code, which may be NULL; NULL: none of n has it. */
const struct steno_llm_language *steno_llm_find_language(const struct steno_llm_language *l,
                                                         size_t n, const char *code);

#define STENO_LLM_CONTEXT_BYTES ((size_t)1 << 18) /* of a request's context, at most */

/* Of a stream. Frozen after take. */
struct steno_llm_prompt {
    int64_t *ids;         /* [n] */
    size_t n, n_before;   /* rows of audio stand before ids[n_before] */
    const char *language; /* code of the text; NULL: none is given. Static */
};
void steno_llm_prompt_close(struct steno_llm_prompt *p);

/* A prompt in the making. Confined. The first failure stays in st and is reported by take. */
struct steno_llm_draft {
    const struct steno_llm_vocabulary *vocabulary; /* borrowed */
    struct steno_buf ids;                          /* i64 */
    size_t n_before;
    steno_status st;
    steno_err *err; /* or NULL */
};

void steno_llm_draft_open(struct steno_llm_draft *d, const struct steno_llm_vocabulary *v,
                          steno_err *err);
void steno_llm_put_mark(struct steno_llm_draft *d, int32_t id);
/* The first `most` ids of text [n]. */
void steno_llm_put_text(struct steno_llm_draft *d, const char *text, size_t n, size_t most);
void steno_llm_put_line(struct steno_llm_draft *d, const char *text);
/* Here stand the rows. */
void steno_llm_put_rows(struct steno_llm_draft *d);
/* The draft as *p, whose language stays as it is, and which is to be closed also after a failure;
 * the draft is closed. STENO_ERR_FORMAT: the pieces cannot spell a text; STENO_ERR_NOMEM;
 * STENO_ERR_LIMIT: of add_words.
 */
STENO_MUST steno_status steno_llm_draft_take(struct steno_llm_draft *d, struct steno_llm_prompt *p);

/* Append the phrases of a list of hot words (phrases.h), or of NULL, to text, with `between`
 * between all of its phrases; those that are there begin at byte `from`. A failure is the
 * draft's. */
void steno_llm_add_words(struct steno_llm_draft *d, struct steno_buf *text, size_t from,
                         const char *list, const char *between);

#endif
