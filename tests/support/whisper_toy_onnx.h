/* The toy of whisper_toy.h as exported networks. */
#ifndef STENO_TESTS_WHISPER_TOY_ONNX_H
#define STENO_TESTS_WHISPER_TOY_ONNX_H

#include "tests/support/whisper_toy.h"

enum whisper_toy_onnx {
    WHISPER_TOY_SHERPA,    /* cross keys and values in the encoder, caches with ScatterND */
    WHISPER_TOY_SHERPA_I8, /* MatMulInteger, ConvInteger, embeddings of u8 */
    WHISPER_TOY_OPTIMUM,   /* a decoder's first step; logits by a transposed copy */
    WHISPER_TOY_MERGED,    /* the same as one branch of an If */
    WHISPER_TOY_Q4,        /* MatMulNBits */
    WHISPER_TOY_ONNX_KINDS
};

/* Append the encoder and the decoder. No initializer has a name that says anything. */
void whisper_toy_onnx_write(enum whisper_toy_onnx kind, struct steno_buf *encoder,
                            struct steno_buf *decoder);

#endif
