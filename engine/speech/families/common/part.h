/* One network of a model directory: its file, open. */
#ifndef STENO_FAMILIES_COMMON_PART_H
#define STENO_FAMILIES_COMMON_PART_H

#include "nn/network/network.h"
#include "speech/families/family.h"

/* Frozen. */
struct steno_part_file {
    steno_network *net;
    char *name;     /* of the file in the directory, for messages */
    bool quantized; /* the file has operators in 8 bits */
};

/* The options of o, with its precision as it is, for networks that are opened otherwise. */
struct steno_network_options steno_part_options(const struct steno_family_open *o);

/* Find the file of `stem` (network_file.h), else stem.ort, in o->dir and open it with o's settings.
 * quantized: the int8 file if there is one. STENO_ERR_IO: there is no such file; errors of
 * steno_network_open. */
STENO_MUST steno_status steno_part_file_open(struct steno_part_file *out,
                                             const struct steno_family_open *o, const char *stem,
                                             bool quantized, steno_err *err);
/* The same of a decoder, of whose output 0, scores [1, T, N], the last row alone is computed: [1,
 * 1, N]. */
STENO_MUST steno_status steno_part_decoder_open(struct steno_part_file *out,
                                                const struct steno_family_open *o, const char *stem,
                                                bool quantized, steno_err *err);
/* A network that is made from the weights of the one file at o->dir. blocks: matrices are rounded
 * to 8 bits or fewer, and `auto` may round them again, as the programs that write them round
 * activations, too. Errors of steno_network_open. */
STENO_MUST steno_status steno_part_made_open(steno_network **out, const struct steno_family_open *o,
                                             const struct steno_graph_source *source, bool blocks,
                                             steno_err *err);
void steno_part_file_close(struct steno_part_file *p);

#endif
