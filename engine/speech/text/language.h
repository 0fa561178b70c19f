/* Languages that recordings may be in: codes and English names. Pure. */
#ifndef STENO_TEXT_LANGUAGE_H
#define STENO_TEXT_LANGUAGE_H

/* Number i, in the order of Whisper's pieces: large-v3 has the first 100, earlier models 99; those
 * behind are of other models. NULL past the last. Static. */
const char *steno_language_code_at(int i); /* "en" */
const char *steno_language_name_at(int i); /* "english" */
/* Number of a language given by code, name or an alias that openai/whisper takes, any case, or as
 * en-US; -1: none of them. */
int steno_language_find(const char *text);

/* The next item of a list with commas, without blanks around it and cut where it is too long to be
 * a language. *list moves behind it: NULL when it was the last one. */
#define STENO_LANGUAGE_ITEM 40 /* bytes, with the NUL */
void steno_language_next(const char **list, char out[STENO_LANGUAGE_ITEM]);

#endif
