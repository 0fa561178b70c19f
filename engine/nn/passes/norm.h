/* Normalisation of rows, recognised by algebra. Exporters write LayerNorm and RMSNorm as
 * different sets of nodes: nine nodes, or x * (r gamma) + (beta - mean r gamma) (Keras), 1 / Sqrt,
 * Pow -0.5, the mean of squares minus the square of the mean. A cone of elementwise nodes and means
 * along the last axis is turned into a polynomial in the row's element, mean, mean of squares and
 * root (norm.c). It matches when that is the operator's formula, so for every row. */
#ifndef STENO_NN_PASSES_NORM_H
#define STENO_NN_PASSES_NORM_H

#include "nn/passes/passes.h"

/* Replace cones that normalise rows with LayerNormalization (opset 17) or, if rms, RMSNormalization
 * (opset 23). Factors and summands of the last axis that follow are included. f32. */
STENO_MUST steno_status steno_pass_norms(struct steno_graph *g, bool rms, int *changed,
                                         steno_err *err);

#endif
