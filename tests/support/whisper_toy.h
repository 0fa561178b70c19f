/* A Whisper model of a few thousand weights, written in the formats of real models. */
#ifndef STENO_TESTS_WHISPER_TOY_H
#define STENO_TESTS_WHISPER_TOY_H

#include "base/buf.h"
#include "speech/families/whisper/weights.h"
#include "tests/support/gguf_make.h"

enum whisper_toy_format {
    WHISPER_TOY_CT2_F32,
    WHISPER_TOY_CT2_F16,
    WHISPER_TOY_CT2_I8,
    WHISPER_TOY_HF_F32,
    WHISPER_TOY_HF_F16,
    WHISPER_TOY_GGML_F16,
    WHISPER_TOY_GGML_Q8_0,
    WHISPER_TOY_GGUF_F16,
    WHISPER_TOY_GGUF_Q8_0,
    WHISPER_TOY_FORMATS
};

/* Its sizes: one layer on each side, two heads of 16 and two. */
enum {
    WHISPER_TOY_MELS = 2,
    WHISPER_TOY_STATE = 32,
    WHISPER_TOY_CTX = 6,
    WHISPER_TOY_TEXT_CTX = 8,
    WHISPER_TOY_VOCAB = 9
};

/* Append the file in this format. */
void whisper_toy_write(enum whisper_toy_format f, struct steno_buf *out);
/* Of GGUF: the name of a tensor, by OpenAI's, and the keys. */
void whisper_toy_gguf_name(const char *name, char *out, size_t size);
void whisper_toy_gguf_keys(struct gguf_make *g);
/* Element i of a tensor, by OpenAI's name. */
float whisper_toy_element(const char *name, size_t i);
/* Fail the test if these weights do not have the sizes above. */
void whisper_toy_check_dims(const steno_whisper_weights *w);

#endif
