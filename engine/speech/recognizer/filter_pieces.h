/* A text as a list of pieces: its words, or, where they have no times, what lies between blanks. A
 * filter changes the text of a piece, or joins several into one. Pieces are compared by their
 * cores: lower case, without the marks around them. Pure. */
#ifndef STENO_RECOGNIZER_FILTER_PIECES_H
#define STENO_RECOGNIZER_FILTER_PIECES_H

#include "base/arena.h"
#include "steno.h"

struct steno_filter_piece {
    const char *text; /* [n] */
    size_t n;
    size_t gap;       /* bytes before it that lie between it and the piece before */
    const char *core; /* [core_n] text + at in lower case */
    size_t core_n, at;
    size_t first, last; /* the words that it comes from */
    bool changed, gone;
};

struct steno_filter_text {
    steno_arena *arena;
    const struct steno_word *words; /* NULL: the pieces are not words */
    bool partial;                   /* more words may follow */
    struct steno_filter_piece *piece;
    size_t n;
    bool changed;
};

/* Lower-case a text in place. A letter whose lower case has another number of bytes stays. */
void steno_filter_lower(char *text, size_t n);

/* Make pieces of the words t->words [n_words] of a text. If they are not the text, one after the
 * other, *fits is false and there are no pieces. False: out of memory. */
bool steno_filter_take_words(struct steno_filter_text *t, const char *text, size_t n_words,
                             bool *fits);
/* Make pieces of what lies between blanks. False: out of memory. */
bool steno_filter_take_blanks(struct steno_filter_text *t, const char *text);
/* Join the pieces [from, to) into one with this text, between the first one's marks before and the
 * last one's marks behind. False: out of memory. */
bool steno_filter_change(struct steno_filter_text *t, size_t from, size_t to, const char *text);
/* Remove the pieces that are gone: joined into others, or empty. */
void steno_filter_drop(struct steno_filter_text *t);

#endif
