/* All operators. One family per file op_<family>.c, each with a table
 *     const struct steno_op steno_ops_<family>[] = {{...}, {0}};
 * listed in nn/ops/families.h. */
#ifndef STENO_NN_OPS_REGISTRY_H
#define STENO_NN_OPS_REGISTRY_H

#include "nn/exec/op.h"

/* NULL when there is none. domain "" and "ai.onnx" are the same. */
const struct steno_op *steno_op_find(const char *domain, const char *type, int opset);
/* Walk over all rows of all families: the first one for NULL, NULL after the last. */
const struct steno_op *steno_op_next(const struct steno_op *op);
/* STENO_ERR_FORMAT, with the names of node and operator, when an input or output is absent that the
 * operator cannot be without (nn/ops/arity.c). n->op is set. */
STENO_MUST steno_status steno_op_check_arity(const struct steno_node *n, steno_err *err);

#endif
