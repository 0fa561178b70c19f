/* The files of a model whose catalogue entry names patterns instead of files: chosen from the list
 * that a model hub gives of a repository (GET /api/models/OWNER/NAME/tree/REVISION, with
 * ?recursive=true also those of its folders). Pure. */
#ifndef STENO_STORE_HUB_LISTING_H
#define STENO_STORE_HUB_LISTING_H

#include "speech/store/catalogue.h"

/* Chosen files. Large files have their SHA-256 in the list, small ones have none. */
struct steno_chosen {
    size_t n;
    struct steno_catalogue_file files[STENO_CATALOGUE_FILES]; /* names point into `names` */
    char names[STENO_CATALOGUE_FILES][STENO_CATALOGUE_NAME];
    bool picked[STENO_CATALOGUE_FILES]; /* per pattern of the model: a file was chosen */
};

/* Add a file if the model's patterns take its name; other names, and names that could leave the
 * directory, are passed over. A checksum of the catalogue replaces the given one (NULL: none).
 * STENO_ERR_LIMIT: more files than STENO_CATALOGUE_FILES. */
STENO_MUST steno_status steno_choose(struct steno_chosen *io, const struct steno_catalogue_model *m,
                                     const char *name, int64_t bytes, const uint8_t *sha256,
                                     steno_err *err);
/* True if a pattern of the model names a folder, so that the list must have files of folders. */
bool steno_chooses_below_folders(const struct steno_catalogue_model *m);
/* Check that each pattern has chosen a file. STENO_ERR_FORMAT names the one that has not; where:
 * for the message. */
STENO_MUST steno_status steno_choose_end(const struct steno_chosen *c,
                                         const struct steno_catalogue_model *m, const char *where,
                                         steno_err *err);
/* Choose from a hub's answer, bytes [n]. STENO_ERR_FORMAT: not such a list. */
STENO_MUST steno_status steno_choose_listed(struct steno_chosen *io,
                                            const struct steno_catalogue_model *m,
                                            const void *bytes, size_t n, steno_err *err);

/* ---- what was fetched --------------------------------------------------------------------------
 * A fetched model of patterns has a record of its files, STENO_RECORD, beside them. */
#define STENO_RECORD "steno-fetched.json"

/* Append the record. */
struct steno_buf;
STENO_MUST steno_status steno_record_write(struct steno_buf *out,
                                           const struct steno_catalogue_file *files, size_t n);
/* Read a record, bytes [n], in the form of chosen files. STENO_ERR_FORMAT: it is none. */
STENO_MUST steno_status steno_record_read(struct steno_chosen *out, const void *bytes, size_t n,
                                          const char *name, steno_err *err);

#endif
