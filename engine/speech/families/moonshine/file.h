/* One file with Moonshine: GGUF as transcribe.cpp and CrispASR write it. The file has weights and
 * sizes, no networks; those are made by build.h. Frozen after open. */
#ifndef STENO_FAMILIES_MOONSHINE_FILE_H
#define STENO_FAMILIES_MOONSHINE_FILE_H

#include "speech/families/moonshine/build.h"
#include "speech/text/tokens.h"

typedef struct steno_moonshine_file steno_moonshine_file;

/* Is there such a file at this path? Looks at its keys. */
bool steno_moonshine_file_probe(const char *path);
/* Map the file at `path`, or take bytes [n], which must outlive the object. STENO_ERR_IO;
 * STENO_ERR_FORMAT names file, key or tensor, what was expected and what was found;
 * STENO_ERR_UNSUPPORTED: an element type or a feature that is not known. */
STENO_MUST steno_status steno_moonshine_file_open(steno_moonshine_file **out, const char *path,
                                                  const void *bytes, size_t n, steno_err *err);
void steno_moonshine_file_close(steno_moonshine_file *f);
/* STENO_ERR_IO: the file was overwritten since it was opened (base/map.h). */
STENO_MUST steno_status steno_moonshine_file_check(const steno_moonshine_file *f, steno_err *err);

/* What the file says of its model. */
struct steno_moonshine_file_info {
    const char *program;   /* that wrote it */
    const char *languages; /* codes with blanks between them; "": not said */
    struct steno_moonshine_arch arch;
    bool blocks; /* matrices are rounded to 8 bits or fewer */
};
const struct steno_moonshine_file_info *steno_moonshine_file_info(const steno_moonshine_file *f);

/* Open the vocabulary of the file, or tokenizer.bin beside it, where CrispASR has it. Pieces that
 * control the decoder are not written. Errors of steno_tokens_parse; STENO_ERR_IO;
 * STENO_ERR_FORMAT: another number of pieces than the embedding has rows. */
STENO_MUST steno_status steno_moonshine_file_tokens(const steno_moonshine_file *f,
                                                    steno_tokens **out, steno_err *err);
/* Make encoder or decoder. f lives as long as the graph. */
STENO_MUST steno_status steno_moonshine_file_build(const steno_moonshine_file *f, bool decoder,
                                                   struct steno_graph **out, steno_err *err);

#endif
