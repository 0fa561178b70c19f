/* Which file of a directory is what. Names of files vary, so each ONNX file is known by its inputs,
 * outputs and metadata, as icefall's export scripts write them. */
#ifndef STENO_FAMILIES_ICEFALL_FILES_H
#define STENO_FAMILIES_ICEFALL_FILES_H

#include "base/precision.h"
#include "base/status.h"

/* What a network is. An encoder is that of a transducer; a CTC network has encoder and output layer
 * in one. */
enum steno_icefall_role {
    STENO_ICEFALL_NONE, /* of another family */
    STENO_ICEFALL_STREAMING_ENCODER,
    STENO_ICEFALL_OFFLINE_ENCODER,
    STENO_ICEFALL_STREAMING_CTC,
    STENO_ICEFALL_OFFLINE_CTC,
    STENO_ICEFALL_DECODER,
    STENO_ICEFALL_JOINER,
    STENO_ICEFALL_ROLES
};

/* Paths; those that a model does not need are NULL. */
struct steno_icefall_files {
    enum steno_icefall_role kind; /* of encoder: an encoder or a CTC network */
    char *encoder, *decoder, *joiner;
    bool quantized; /* the encoder or the joiner is */
    bool decoder_quantized;
    char *tokens; /* never NULL */
};

/* Whether dir has a list of tokens, and networks of one of the models. Reads the heads of ONNX
 * files. *streaming: whether one of them streams, or none is an encoder. */
bool steno_icefall_probe(const char *dir, bool *streaming);
/* Find the files of a model. A directory may have each network in several forms: of quantized and
 * other files `quantized` says which are preferred for encoder and joiner; the prediction network
 * is preferred as it is. Free the result after success.
 * STENO_ERR_FORMAT: a part is missing, or networks of different models are there. */
STENO_MUST steno_status steno_icefall_files_find(struct steno_icefall_files *out, const char *dir,
                                                 bool quantized, steno_err *err);
void steno_icefall_files_free(struct steno_icefall_files *f);

#endif
