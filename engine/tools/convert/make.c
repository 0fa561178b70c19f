#include "tools/convert/make.h"

#include "tools/optimize/write.h"

steno_status steno_make_save(struct steno_graph *g, const char *path,
                             struct steno_onnx_written *written, steno_err *err)
{
    const struct steno_onnx_write_options opt = {.opset = STENO_MAKE_OPSET,
                                                 .external = STENO_EXTERNAL_AUTO,
                                                 .producer_version = STENO_VERSION};
    const steno_status st = steno_onnx_write(g, path, &opt, written, err);
    steno_graph_free(g);
    return st;
}

steno_status steno_make_write(struct steno_make *m, const char *path,
                              struct steno_onnx_written *written)
{
    struct steno_graph *g = NULL;
    return steno_make_take(m, &g) ? m->st : steno_make_save(g, path, written, m->err);
}
