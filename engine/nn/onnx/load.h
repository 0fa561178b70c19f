/* ONNX file -> graph IR. */
#ifndef STENO_NN_ONNX_LOAD_H
#define STENO_NN_ONNX_LOAD_H

#include "base/buf.h"
#include "nn/graph/graph.h"

struct steno_onnx_options {
    size_t max_bytes; /* of weights, each counted once; 0 = 64 GiB */
    /* True if the engine runs (domain, type) itself; a model-local function of that name is then
     * one node and not inlined. NULL: never. */
    bool (*native)(const char *domain, const char *type, int opset);
    /* Fused operators (nn/ops/body.h). `fused` gives domain and version of the engine's operator
     * that a function ai.steno:type stands for (false: none); `body` gives the text of its body. A
     * call becomes a node of that operator if the file's function has exactly that body, else it is
     * inlined. NULL: inline. */
    bool (*fused)(const char *type, const char **domain, int *opset);
    steno_status (*body)(const struct steno_graph *g, const struct steno_node *n, int opset,
                         struct steno_buf *text); /* steno_body_text of nn/ops/body.h */
    /* Keep what the engine cannot run and not even read (other value kinds, element types, kinds of
     * attributes), for a graph that is rewritten and written again. False: they are errors. */
    bool keep_unknown;
    /* True if an input with an initializer stays an input, whose initializer is its default
     * (steno_value.initial). NULL: never; the initializer is a constant. ir: the file's version. */
    bool (*overridable)(void *arg, const char *name, int64_t ir);
    void *overridable_arg;
    /* For a private copy (nn/onnx/private_copy.h): the stored elements, borrowed as long as the
     * graph lives. NULL: an ordinary file. */
    const void *stored;
    size_t n_stored;
    /* Matrices of at least this many bytes stay in the bytes read, which then live as long as the
     * graph (nn/graph/graph.h). 0: from memory none, from a file those of 64 KiB. */
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
    char external[4][256]; /* names of external-data files in the model's folder */
    int n_external;        /* may be more than `external` holds */
};

/* Read, check and convert a file. The graph comes back sorted, with uses counted. opt and info may
 * be NULL. External data must be in the file's folder.
 * Errors name the file's object and the place: STENO_ERR_IO (cannot read), STENO_ERR_FORMAT (not
 * ONNX, broken, contradictory), STENO_ERR_UNSUPPORTED (value kinds and element types that the
 * engine lacks), STENO_ERR_LIMIT (sizes, nesting). */
STENO_MUST steno_status steno_onnx_load(struct steno_graph **out, const char *path,
                                        const struct steno_onnx_options *opt,
                                        struct steno_onnx_info *info, steno_err *err);
/* The same from memory, borrowed for the call. dir: folder for external data, NULL: refuse any. */
STENO_MUST steno_status steno_onnx_parse(struct steno_graph **out, const void *data, size_t size,
                                         const char *dir, const struct steno_onnx_options *opt,
                                         struct steno_onnx_info *info, steno_err *err);

#endif
