/* A Parakeet of a few thousand weights in one file, as GGUF of transcribe.cpp or as whisper.cpp's
 * ggml file. */
#ifndef STENO_TESTS_NEMO_TOY_H
#define STENO_TESTS_NEMO_TOY_H

#include "base/buf.h"

enum nemo_toy_format {
    NEMO_TOY_GGUF, /* a transducer with durations */
    NEMO_TOY_GGUF_CTC,
    NEMO_TOY_GGUF_RNNT, /* a transducer without durations */
    NEMO_TOY_GGUF_LIVE, /* with caches and a prompt, and no durations */
    NEMO_TOY_CRISPASR,  /* the first as CrispASR's GGUF */
    NEMO_TOY_GGML,      /* the weights of the first */
    NEMO_TOY_FORMATS
};

/* Append the file in this format. */
void nemo_toy_write(enum nemo_toy_format f, struct steno_buf *out);

#endif
