/* What a ggml file of whisper.cpp's project or a GGUF file holds: they begin alike, whatever the
 * model. Pure. */
#ifndef STENO_FAMILIES_COMMON_GGML_KIND_H
#define STENO_FAMILIES_COMMON_GGML_KIND_H

#include "base/status.h"

enum steno_ggml_kind {
    STENO_GGML_NONE,     /* no such file */
    STENO_GGML_WHISPER,  /* .. or another that begins like it */
    STENO_GGML_SILERO,   /* voice activity */
    STENO_GGML_OTHER,    /* GGUF of another architecture */
    STENO_GGML_PARAKEET, /* of NeMo and GigaAM; from here on of families that ask */
    STENO_GGML_SENSE_VOICE,
    STENO_GGML_MOONSHINE
};

/* Values of general.architecture that have a family. */
#define STENO_GGUF_ARCHITECTURES                                                                   \
    "whisper, parakeet, nemotron, canary, gigaam, moonshine, sensevoice, SenseVoiceSmall"

/* Kind of n bytes, the whole file. */
enum steno_ggml_kind steno_ggml_kind_of(const void *bytes, size_t n);
/* The same of the file at a path; NONE: it is a folder, or cannot be read. */
enum steno_ggml_kind steno_ggml_kind_of_file(const char *path);

#endif
