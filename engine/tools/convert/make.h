/* Graphs that nn/build makes, written to files. */
#ifndef STENO_CONVERT_MAKE_H
#define STENO_CONVERT_MAKE_H

#include "nn/build/make.h"

struct steno_onnx_written;
/* Write the graph to a file and free it, in any case. Returns m->st. */
STENO_MUST steno_status steno_make_write(struct steno_make *m, const char *path,
                                         struct steno_onnx_written *written);
/* The same of a graph that was taken. */
STENO_MUST steno_status steno_make_save(struct steno_graph *g, const char *path,
                                        struct steno_onnx_written *written, steno_err *err);

#endif
