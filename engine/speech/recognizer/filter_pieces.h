/* A text as a list of pieces: its words, or, where they have no times, what lies between blanks. A
 * filter makes one piece of several, or changes its text. Pieces are compared by their cores: small
 * letters without the marks around them. Pure. */
#ifndef STENO_RECOGNIZER_FILTER_PIECES_H
#define STENO_RECOGNIZER_FILTER_PIECES_H

#include "base/arena.h"
#include "steno.h"

struct steno_filter_piece {
    const char *text; /* [n] */
    size_t n;
    size_t gap;         /* bytes before it that lie between it and the piece before */
    const char *core;   /* [core_n] in text, but small letters */
    size_t core_n, at;  /* of the core in text */
    size_t first, last; /* the words that it comes from */
    bool changed, gone;
};

struct steno_filter_text {
    steno_arena *arena;
    const struct steno_word *words; /* NULL: pieces are no words */
    bool partial;
    struct steno_filter_piece *piece;
    size_t n;
    bool changed;
};

/* The character at the begin of text [n > 0], and its bytes; a byte that is no text is one itself,
 * and *c is -1. */
size_t steno_filter_character(const char *text, size_t n, int32_t *c);
/* Make small letters in place. The few that have another number of bytes stay. */
void steno_filter_small(char *text, size_t n);

/* The words t->words [n_words] of a text as pieces. *fits is false, and there are none, if they do
 * not follow each other in it. False: out of memory. */
bool steno_filter_take_words(struct steno_filter_text *t, const char *text, size_t n_words,
                             bool *fits);
/* What lies between blanks as pieces. False: out of memory. */
bool steno_filter_take_blanks(struct steno_filter_text *t, const char *text);
/* Make one piece of [from, to), with another text and the last one's marks behind it. False: out of
 * memory. */
bool steno_filter_change(struct steno_filter_text *t, size_t from, size_t to, const char *text);
/* Leave out pieces that became part of others. */
void steno_filter_drop(struct steno_filter_text *t);

#endif
