/* A network in ONNX Runtime, which Python runs in a process of its own: for `steno verify`. Nothing
 * of it is needed to build or to serve. Confined. */
#ifndef STENO_CLI_ONNXRUNTIME_H
#define STENO_CLI_ONNXRUNTIME_H

#include "tools/cli/inputs.h"

typedef struct onnxruntime onnxruntime;

/* Start $STENO_PYTHON, else python3, with the network at path. outputs: [n] names. STENO_ERR_INVAL:
 * there is no such Python, it lacks the packages onnxruntime and numpy, or ONNX Runtime refuses the
 * network; the message has its words. */
STENO_MUST steno_status onnxruntime_open(onnxruntime **out, const char *path,
                                         const char *const *outputs, int n, steno_err *err);
/* Run on tensors in [n] with these names. The outputs are valid until the next run.
 * STENO_ERR_INVAL: ONNX Runtime refuses them, or the process has ended. */
STENO_MUST steno_status onnxruntime_run(onnxruntime *o, const struct steno_tensor *in,
                                        const char *const *names, int n, steno_err *err);
/* Output i, in the order of open. */
const struct steno_tensor *onnxruntime_get(const onnxruntime *o, int i);
void onnxruntime_close(onnxruntime *o); /* accepts NULL */

#endif
