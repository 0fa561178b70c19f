/* One file with a whole model of NeMo (Parakeet: TDT, RNNT, CTC; Canary) or GigaAM: whisper.cpp's
 * ggml-parakeet-*.bin, and GGUF as transcribe.cpp, CrispASR and parakeet.cpp write it. The file has
 * weights, vocabulary and sizes, no networks; those are made by build.h. Frozen after open. */
#ifndef STENO_FAMILIES_NEMO_FILE_H
#define STENO_FAMILIES_NEMO_FILE_H

#include "speech/families/nemo/build.h"

typedef struct steno_nemo_file steno_nemo_file;

/* Is there such a file at this path? Looks at its keys, or at its first numbers. */
bool steno_nemo_file_probe(const char *path);
/* Whether it has an encoder with caches. False also where the file cannot be opened. */
bool steno_nemo_file_streams(const char *path);
/* Map the file at `path`, or take bytes [n], which must outlive the object. STENO_ERR_IO;
 * STENO_ERR_FORMAT names file, key or tensor, what was expected and what was found;
 * STENO_ERR_UNSUPPORTED: an encoder, an element type or a feature that is not known. */
STENO_MUST steno_status steno_nemo_file_open(steno_nemo_file **out, const char *path,
                                             const void *bytes, size_t n, steno_err *err);
void steno_nemo_file_close(steno_nemo_file *f);
/* STENO_ERR_IO: the file was overwritten since it was opened (base/map.h). */
STENO_MUST steno_status steno_nemo_file_check(const steno_nemo_file *f, steno_err *err);

/* Choose one of the chunks that a streaming encoder was trained with, by the encoder frames behind
 * its first one; before the networks are built. STENO_ERR_INVAL names those that the file has. */
STENO_MUST steno_status steno_nemo_file_look(steno_nemo_file *f, int64_t frames, steno_err *err);

/* What the file says of its model. */
struct steno_nemo_file_info {
    const char *format;          /* "GGUF" or "ggml" */
    const char *languages;       /* codes with blanks between them; "": not said */
    const char *tokens;          /* [n_tokens] lines "piece id", <blk> the last one */
    size_t n_tokens;             /* bytes of them */
    struct steno_nemo_arch arch; /* durations 0: none */
    bool gigaam;                 /* other features */
    bool rounded;                /* .. whose window is in 16 bits (bfloat16) */
    bool leads;                  /* Canary: the prompt begins with an empty word */
    bool ctc;                    /* the head is one layer of scores */
    bool per_feature;            /* normalisation by the statistics of the segment */
    bool blocks;                 /* matrices are rounded to 8 bits or fewer */
    int64_t max_tokens;          /* of a frame; 0: not said */
    const char *prompts;         /* JSON object, language to number of the prompt; NULL: none */
    int64_t automatic;           /* the number where no language is given */
};
const struct steno_nemo_file_info *steno_nemo_file_info(const steno_nemo_file *f);

enum steno_nemo_part { STENO_NEMO_ENCODER, STENO_NEMO_DECODER, STENO_NEMO_JOINER };
/* Make one of the networks. f lives as long as the graph. STENO_ERR_INVAL: CTC, whose scores are in
 * the encoder, has no other, and Canary no joiner. */
STENO_MUST steno_status steno_nemo_file_build(const steno_nemo_file *f, enum steno_nemo_part part,
                                              struct steno_graph **out, steno_err *err);

#endif
