/* What Granite Speech and Voxtral have of their own: names, languages, what the decoder reads
 * before and behind a recording; and what the JSON files of a directory say. */
#ifndef STENO_FAMILIES_TRANSFORMERS_JS_KIND_H
#define STENO_FAMILIES_TRANSFORMERS_JS_KIND_H

#include "formats/json.h"
#include "speech/families/llm/decoder.h"

struct steno_tjs_kind {
    const char *type;  /* model_type of config.json */
    const char *title; /* for a description */
    const char *input; /* of the encoder */
    const char *languages;
    bool pads;   /* pieces are made 30 s long */
    bool speaks; /* it takes instructions and words, and no language */
};

/* Frozen after read. */
struct steno_tjs_config {
    const struct steno_tjs_kind *kind;
    struct steno_llm_sizes sizes;
    int32_t end[2]; /* tokens that end a text */
    int n_ends;
};

/* The kind that dir's config.json names; NULL: it names none of them, or cannot be read. */
const struct steno_tjs_kind *steno_tjs_kind_of(const char *dir);
/* Read dir's config.json and, where there is one, generation_config.json. STENO_ERR_FORMAT: a key
 * is missing or wrong; STENO_ERR_UNSUPPORTED: chat_template.jinja is not the one that is known;
 * errors of steno_json_open. */
STENO_MUST steno_status steno_tjs_read(struct steno_tjs_config *c, const char *dir, steno_err *err);
/* The first half of it: of the parsed files `path`, which is for messages; generation may be NULL.
 */
STENO_MUST steno_status steno_tjs_parse(struct steno_tjs_config *c, const steno_json *config,
                                        const steno_json *generation, const char *path,
                                        steno_err *err);

/* Make the prompt of a stream: Granite takes o's prompt as its instruction, hot words and
 * vocabulary as keywords, of which at most `most` tokens are kept; Voxtral takes the language.
 * path: of the vocabulary, for messages. STENO_ERR_INVAL: several languages; STENO_ERR_FORMAT: a
 * mark is missing; errors of steno_llm_draft_take. Close also after a failure. */
STENO_MUST steno_status steno_tjs_prompt_make(struct steno_llm_prompt *p,
                                              const struct steno_tjs_kind *k,
                                              const struct steno_llm_vocabulary *v,
                                              const struct steno_family_stream *o, size_t most,
                                              const char *path, steno_err *err);

#endif
