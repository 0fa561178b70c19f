/* Recorded grammars and pairs of ../shared/itn. */
#ifndef STENO_TESTS_ITN_RECORDED_H
#define STENO_TESTS_ITN_RECORDED_H

#include <jansson.h>
#include <stdbool.h>

/* Write a file of shared/itn/wetext, unpacked, into a folder. False: it is not there. */
bool itn_recorded_file(const char *folder, const char *name);
/* The same of a language's tagger and verbalizer. */
bool itn_recorded_unpack(const char *folder, const char *language);
/* The language's recorded pairs: an array of objects. */
json_t *itn_recorded_rows(const char *language);

#endif
