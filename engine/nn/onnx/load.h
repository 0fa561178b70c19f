/* ONNX file -> graph IR. */
#ifndef STENO_NN_ONNX_LOAD_H
#define STENO_NN_ONNX_LOAD_H

#include "base/buf.h"
#include "nn/graph/graph.h"

struct steno_onnx_options {
    size_t max_bytes; /* of weights, each counted once; 0 = 64 GiB */
    /* True when the engine runs (domain, type) itself, so that a model-local function of that name
     * is left as one node instead of being inlined. NULL = never. */
    bool (*native)(const char *domain, const char *type, int opset);
    /* Fused operators (nn/ops/body.h): domain and version of the engine's operator that a
     * function ai.steno:type stands for, false when there is none, and the text of its body. A call
     * becomes a node of that operator when the file's function has exactly that body, else it is
     * inlined. NULL = inline. */
    bool (*fused)(const char *type, const char **domain, int *opset);
    steno_status (*body)(const struct steno_graph *g, const struct steno_node *n, int opset,
                         struct steno_buf *text); /* steno_body_text of nn/ops/body.h */
    /* A private copy (nn/onnx/stow.h): where the stowed elements lie. They are
     * borrowed as long as the graph lives. NULL: an ordinary file. */
    const void *stowed;
    size_t n_stowed;
    /* Matrices of so many bytes and more stay where they are in the bytes read, which live as long
     * as the graph (nn/graph/graph.h); 0: from memory none, from a file those of 64 KiB. */
    size_t borrow_from;
};

struct steno_onnx_info {
    int64_t ir_version;
    char producer[64];
    struct {
        char domain[48];
        int64_t version;
    } opset[16];
    int n_opset;
    char external[4][256]; /* files of external data, within the model's folder */
    int n_external;        /* may be more than are named here */
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
