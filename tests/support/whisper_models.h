/* Finds real Whisper models, which are not in the repository. */
#ifndef STENO_TESTS_WHISPER_MODELS_H
#define STENO_TESTS_WHISPER_MODELS_H

#include <stdbool.h>
#include <stddef.h>

#include "steno.h"

/* The directory of "tiny.en" or "base": $STENO_WHISPER_TINY_EN, $STENO_WHISPER_BASE, or
 * build/models/NAME. NULL after printing on standard error what is missing; the caller then
 * skips. */
const char *whisper_model(const char *which);
/* The path of a file in it. False as above. */
bool whisper_model_file(const char *which, const char *name, char *path, size_t size);
/* It is opened once in a program, without other options, and closed by whisper_models_close, a
 * group's teardown. NULL as above; fails the test if it cannot be opened. */
steno_model *whisper_model_kept(const char *which, enum steno_precision precision);
int whisper_models_close(void **state);

/* The samples of a recording at 16 kHz below ../shared, malloc'd. NULL after printing the
 * reason. "noise10" and "silence10" are generated: ten seconds of noise as in
 * ../shared/zoo/whisper/make.py, and of zeros. */
float *whisper_recording(const char *rel, size_t *n);

/* Recordings of ../shared/zoo/whisper: NAME.json of each model has what faster-whisper made of it.
 */
struct whisper_zoo {
    const char *name, *file; /* below ../shared, or a name that whisper_recording knows */
    bool brief;              /* seconds long: for every run of the tests */
};
extern const struct whisper_zoo whisper_zoo[]; /* ends with one without name */
/* Whether tests take it: the brief ones; $STENO_WHISPER_ALL: all; $STENO_WHISPER_ONLY: the one of
 * that name. What is not English is not for models of English. */
bool whisper_zoo_wanted(const struct whisper_zoo *z, const char *which);

#endif
