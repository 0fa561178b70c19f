/* Where real Whisper models are, which the repository does not hold. */
#ifndef STENO_TESTS_WHISPER_MODELS_H
#define STENO_TESTS_WHISPER_MODELS_H

#include <stdbool.h>
#include <stddef.h>

/* Directory of "tiny.en" or "base": $STENO_WHISPER_TINY_EN, $STENO_WHISPER_BASE, or
 * build/models/NAME. NULL after saying on standard error what is missing: the caller then skips. */
const char *whisper_model(const char *which);
/* A file of it, into path; false as above. */
bool whisper_model_file(const char *which, const char *name, char *path, size_t size);

/* Samples of a recording at 16 kHz below ../shared, malloc'd; NULL after saying why. "noise10" and
 * "silence10" are made: ten seconds of noise as ../shared/zoo/whisper/make.py has it, and of zeros.
 */
float *whisper_recording(const char *rel, size_t *n);

#endif
