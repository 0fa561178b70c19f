/* Normalisation of rows, recognised by its values: LayerNorm and RMSNorm are written as nine nodes
 * by one exporter and as twelve others by the next (x * (r gamma) + (beta - mean r gamma) by Keras,
 * 1 / Sqrt, Pow -0.5, the mean of squares less the square of the mean). A cone of elementwise nodes
 * and means along the last axis is computed on random rows; scale and shift are what a least
 * squares fit says, and more rows, small ones among them, have to agree. */
#ifndef STENO_NN_PASSES_NORM_H
#define STENO_NN_PASSES_NORM_H

#include "nn/passes/passes.h"

/* Cones that normalise rows become LayerNormalization (opset 17) or, when rms, RMSNormalization
 * (opset 23), with the factors and summands of the last axis that follow. f32. */
STENO_MUST steno_status steno_pass_norms(struct steno_graph *g, bool rms, int *changed,
                                         steno_err *err);

#endif
