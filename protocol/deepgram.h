/* Deepgram's /v1/listen: the answer of its REST form. Its WebSocket dialect is
 * steno_dialect_deepgram (dialect.h). Source: the OpenAPI and AsyncAPI of deepgram-api-specs
 * (2026-07). Pure. */
#ifndef STENO_PROTOCOL_DEEPGRAM_H
#define STENO_PROTOCOL_DEEPGRAM_H

#include "base/arena.h"
#include "protocol/openai_rest.h"
#include "protocol/stream_native.h"

/* What a request wants of the answer, from its query. */
struct steno_deepgram_wants {
    bool detect_language; /* "detected_language" is in the answer */
    bool punctuate;       /* words without marks beside "punctuated_word" */
    bool numerals;        /* numbers as digits */
    bool smart_format;    /* both, paragraphs, and money, dates and times */
    bool dictation;       /* said marks as signs, with punctuate */
    bool measurements;    /* units as signs */
    bool paragraphs, utterances;
    bool own_punctuation; /* our option was given: Deepgram's parameters do not set it */
    double offset;        /* s: added to the times of words */
    bool not_english;     /* nothing was rewritten: the language is not, or not known as, English */
    bool no_networks;     /* for diarize */
    const steno_transcript *voices; /* words have the speakers of its segments; NULL: none */
    const struct steno_live_voices *live_voices; /* the same of a final of a live session */
    const struct steno_buf *search; /* terms of uploads, each with its NUL, borrowed; NULL: none */
    char unsupported[256];          /* parameters that have no effect, with spaces between */
};

/* Whether a parameter is taken by the next function: language, detect_language, keywords, keyterm,
 * punctuate, numerals, smart_format, dictation, measurements, paragraphs, utterances, filters of
 * the text, and our option punctuation. */
bool steno_deepgram_is_want(const char *name);
/* Take it. Keywords ("word" or "word:boost") and keyterms become hotwords, but for
 * those with a boost of 0 or less. punctuate, smart_format
 * and paragraphs allow the option punctuation, which is off before. STENO_ERR_INVAL names the
 * parameter. */
STENO_MUST steno_status steno_deepgram_want(struct steno_deepgram_wants *w,
                                            struct steno_hint_store *hints,
                                            struct steno_options *options, const char *name,
                                            const char *value, steno_err *err);
/* Add a term of `search` to those of an upload, each with its NUL. STENO_ERR_INVAL: empty, not
 * UTF-8, more than 50, or longer than the buffer. */
STENO_MUST steno_status steno_deepgram_add_search(struct steno_buf *terms, const char *term,
                                                  steno_err *err);
/* Append ,"search":[{"query","hits":[{"confidence","start","end","snippet"}]}]: where the words of
 * a hypothesis spell the terms, whatever their case, marks and blanks. A hit has the least
 * confidence of its words. */
STENO_MUST steno_status steno_deepgram_put_search(struct steno_buf *b,
                                                  const struct steno_deepgram_wants *w,
                                                  const struct steno_alternative *a);
/* The options of a request before its parameters. */
void steno_deepgram_default_options(struct steno_options *o);

/* A parameter that no other function takes. *speakers becomes true if it asks for them (diarize,
 * diarize_model) and there are networks, else it is one of the next function. STENO_ERR_INVAL: the
 * value of diarize is neither true nor false, or that of diarize_model no model. */
STENO_MUST steno_status steno_deepgram_diarize(struct steno_deepgram_wants *w, const char *name,
                                               const char *value, bool *speakers, steno_err *err);
/* A parameter that nothing takes: remember it for the answer, unless its value is false or it asks
 * for nothing of the answer (tag, mip_opt_out, ...). */
void steno_deepgram_note_unsupported(struct steno_deepgram_wants *w, const char *name,
                                     const char *value);
/* The language of the texts to come: a code, or "" and NULL for one that is not known. Sets
 * not_english if something is wanted that is for English alone. */
void steno_deepgram_note_language(struct steno_deepgram_wants *w, const char *language);
/* Append ,"warnings":[{"parameter","type","message"}], or nothing if there are none. recording:
 * what is to be said of the audio; "" and NULL: nothing. */
STENO_MUST steno_status steno_deepgram_put_warnings(struct steno_buf *b,
                                                    const struct steno_deepgram_wants *w,
                                                    const char *recording);
/* Append ,"created":"2026-11-26T08:00:00Z". seconds: since 1970. */
STENO_MUST steno_status steno_deepgram_put_created(struct steno_buf *b, int64_t seconds);
/* The encoding of a name; STENO_ERR_UNSUPPORTED lists them. */
STENO_MUST steno_status steno_deepgram_encoding(const char *value, enum steno_encoding *out,
                                                steno_err *err);
/* The first bytes p [n] of audio. named: its encoding was given; otherwise they tell the container.
 * STENO_ERR_FORMAT: they do not. STENO_ERR_INVAL: the encoding needs a rate. */
STENO_MUST steno_status steno_deepgram_first_audio(struct steno_audio_format *f, bool named,
                                                   const char *p, size_t n, steno_err *err);

/* Write numbers of a hypothesis as digits, and said marks and units as signs, as wanted. *arena
 * gets the memory of *a, and may be NULL. */
STENO_MUST steno_status steno_deepgram_format(const struct steno_deepgram_wants *w,
                                              struct steno_alternative *a, steno_arena **arena);
/* Append "transcript","confidence","words":[{"word","start","end","confidence"}] of a hypothesis:
 * members, without braces. With punctuate, "word" is in lower case without punctuation around it,
 * and "punctuated_word" has the word as it is. With numerals, numbers of English are digits. */
STENO_MUST steno_status steno_deepgram_put_text(struct steno_buf *b,
                                                const struct steno_deepgram_wants *w,
                                                const struct steno_alternative *a);
/* Make the hotwords of d->asked those of a Configure message: a list of strings. NULL and null:
 * those that were there stay. STENO_ERR_INVAL: no such list, or too long. */
struct json_t;
struct steno_dialect_session;
STENO_MUST steno_status steno_deepgram_set_terms(struct steno_dialect_session *d,
                                                 const struct json_t *terms, steno_err *err);
/* Append ,"name":[...] of a text with commas between, as hotwords and languages are kept. NULL: the
 * list is empty. */
STENO_MUST steno_status steno_deepgram_put_list(struct steno_buf *b, const char *name,
                                                const char *text);
/* Append {"name","version","arch"} of a model. */
STENO_MUST steno_status steno_deepgram_put_model(struct steno_buf *b, const char *name,
                                                 const char *version, const char *family);

struct steno_deepgram_about {
    const char *sha256; /* of the recording's bytes, in hexadecimal digits */
    const char *request_id, *model, *version, *family;
    int channels;
    int64_t created; /* s since 1970 */
    struct steno_deepgram_wants wants;
};

/* Append the answer of POST /v1/listen: {"metadata", "results"}, with what the request wants. */
STENO_MUST steno_status steno_deepgram_write(struct steno_buf *out,
                                             const struct steno_openai_result *r,
                                             const struct steno_deepgram_about *about);
/* Read {"url": "..."}, the body of a request that names its recording, into out [size].
 * STENO_ERR_INVAL, STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_deepgram_url(const char *p, size_t n, char *out, size_t size,
                                           steno_err *err);
/* Read {"ttl_seconds": 30}, the body of POST /v1/auth/grant: 1 to 3600, 30 unless given. An empty
 * body gives nothing. STENO_ERR_INVAL, STENO_ERR_FORMAT, STENO_ERR_LIMIT, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_deepgram_grant(const char *p, size_t n, double *seconds,
                                             steno_err *err);
/* Write an id of this server ("sess_..." or "req_...") as the UUID that Deepgram's clients expect;
 * an id that a client chose stays. out: STENO_DEEPGRAM_ID bytes. */
#define STENO_DEEPGRAM_ID 72
void steno_deepgram_request_id(const char *id, char *out);
/* Write a message as the value of the header dg-error: printable ASCII, cut at its end. */
#define STENO_DEEPGRAM_ERROR 200
void steno_deepgram_error_header(const char *message, char out[STENO_DEEPGRAM_ERROR]);
/* Append {"err_code", "err_msg", "request_id"}. */
STENO_MUST steno_status steno_deepgram_write_error(struct steno_buf *out, const char *code,
                                                   const char *message, const char *request_id);

#endif
