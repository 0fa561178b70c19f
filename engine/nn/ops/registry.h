/* All operators. A file op_<family>.c has one family, with a table
 *     const struct steno_op steno_ops_<family>[] = {{...}, {0}};
 * that is listed in nn/ops/families.h, or in nn/rare_ops/families.h. */
#ifndef STENO_NN_OPS_REGISTRY_H
#define STENO_NN_OPS_REGISTRY_H

#include "nn/exec/op.h"

/* Find an operator; NULL if there is no such operator. The domains "" and "ai.onnx" are the
 * same. */
const struct steno_op *steno_op_find(const char *domain, const char *type, int opset);
/* Add families, up to a NULL, to those above (nn/rare_ops/rare_ops.h). */
void steno_op_add_rare(const struct steno_op *const *families);
/* True for an operator of nn/rare_ops, known or not yet. */
bool steno_op_is_rare(const char *domain, const char *type);
bool steno_op_has_rare(void); /* they have been added */
/* Iterate over all rows of all families: NULL gives the first row; after the last, NULL. */
const struct steno_op *steno_op_next(const struct steno_op *op);
/* Check that a node has the inputs and outputs that its operator requires (nn/ops/arity.c).
 * STENO_ERR_FORMAT names the node and the operator. n->op is set. */
STENO_MUST steno_status steno_op_check_arity(const struct steno_node *n, steno_err *err);

#endif
