/* ONNX file -> graph IR. */
#ifndef STENO_ONNX_LOAD_H
#define STENO_ONNX_LOAD_H

#include "graph/graph.h"

struct steno_onnx_options {
    size_t max_bytes; /* of weights, each counted once; 0 = 64 GiB */
    /* True when the engine runs (domain, type) itself, so that a model-local function of that name
     * is left as one node instead of being inlined. NULL = never. */
    bool (*native)(const char *domain, const char *type, int opset);
};

struct steno_onnx_info {
    int64_t ir_version;
    char producer[64];
    struct {
        char domain[48];
        int64_t version;
    } opset[16];
    int n_opset;
};

/* Read, check and convert; the graph comes back sorted, with uses counted. opt and info may be
 * NULL. Errors name the file's object and the place: STENO_ERR_IO (cannot read), STENO_ERR_FORMAT
 * (not ONNX, broken, contradictory), STENO_ERR_UNSUPPORTED (value kinds and element types that the
 * engine lacks), STENO_ERR_LIMIT (sizes, nesting). External data must lie in the file's folder. */
STENO_MUST steno_status steno_onnx_load(struct steno_graph **out, const char *path,
                                        const struct steno_onnx_options *opt,
                                        struct steno_onnx_info *info, steno_err *err);
/* The same from memory, borrowed for the call; dir: folder for external data, NULL = refuse any. */
STENO_MUST steno_status steno_onnx_parse(struct steno_graph **out, const void *data, size_t size,
                                         const char *dir, const struct steno_onnx_options *opt,
                                         struct steno_onnx_info *info, steno_err *err);

#endif
