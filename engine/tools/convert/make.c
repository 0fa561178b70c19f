#include "tools/convert/make.h"

#include "tools/optimize/save.h"

steno_status steno_make_save(struct steno_graph *g, const char *path,
                             struct steno_onnx_written *written, steno_err *err)
{
    const steno_status st = steno_graph_save(g, path, STENO_MAKE_OPSET, written, err);
    steno_graph_free(g);
    return st;
}

steno_status steno_make_write(struct steno_make *m, const char *path,
                              struct steno_onnx_written *written)
{
    struct steno_graph *g = NULL;
    return steno_make_take(m, &g) ? m->st : steno_make_save(g, path, written, m->err);
}
