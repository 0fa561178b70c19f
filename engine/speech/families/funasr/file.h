/* One file with SenseVoice: GGUF as transcribe.cpp, CrispASR and SenseVoice.cpp write it. The file
 * has weights, vocabulary and sizes, no network; that is made by build.h. Frozen after open. */
#ifndef STENO_FAMILIES_FUNASR_FILE_H
#define STENO_FAMILIES_FUNASR_FILE_H

#include "speech/families/funasr/build.h"
#include "speech/families/funasr/meta.h"

typedef struct steno_sense_voice_file steno_sense_voice_file;

/* Is there such a file at this path? Looks at its keys. */
bool steno_sense_voice_file_probe(const char *path);
/* Map the file at `path`, or take bytes [n], which must outlive the object. Statistics of frames
 * that it lacks are those of am.mvn beside it. STENO_ERR_IO; STENO_ERR_FORMAT names file, key or
 * tensor, what was expected and what was found; STENO_ERR_UNSUPPORTED: an element type or a feature
 * that is not known, no statistics. */
STENO_MUST steno_status steno_sense_voice_file_open(steno_sense_voice_file **out, const char *path,
                                                    const void *bytes, size_t n, steno_err *err);
void steno_sense_voice_file_close(steno_sense_voice_file *f);
/* STENO_ERR_IO: the file was overwritten since it was opened (base/map.h). */
STENO_MUST steno_status steno_sense_voice_file_check(const steno_sense_voice_file *f,
                                                     steno_err *err);

/* What the file says of its model. */
struct steno_sense_voice_file_info {
    const char *program; /* that wrote it */
    const char *tokens;  /* [n_tokens] lines "piece id" */
    size_t n_tokens;     /* bytes of them */
    struct steno_sense_voice_meta meta;
    struct steno_lfr lfr;
    const float *neg_mean, *inv_stddev; /* [arch.in] each */
    struct steno_sense_voice_arch arch;
    bool blocks; /* matrices are rounded to 8 bits or fewer */
};
const struct steno_sense_voice_file_info *
steno_sense_voice_file_info(const steno_sense_voice_file *f);

/* Make the network. f lives as long as the graph. */
STENO_MUST steno_status steno_sense_voice_file_build(const steno_sense_voice_file *f,
                                                     struct steno_graph **out, steno_err *err);

/* Read FunASR's am.mvn: the n numbers behind <AddShift> and behind <Rescale>, in brackets. bytes
 * need no end. STENO_ERR_FORMAT: other numbers, or another count. */
STENO_MUST steno_status steno_funasr_mvn_parse(const char *bytes, size_t size, const char *name,
                                               float *neg_mean, float *inv_stddev, size_t n,
                                               steno_err *err);

#endif
