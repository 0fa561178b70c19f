/* Before: v = ReduceMean(Pow(x, 2) or Mul(x, x)), y = x / Sqrt(v + eps) [* gamma], or x times
 *         1 / Sqrt, or Pow(v + eps, -0.5), along the last axis, in any order
 * After:  y = RMSNormalization(x, gamma) (opset 23)
 * Zhang and Sennrich 2019; SimplifiedLayerNormalization of ONNX Runtime. Recognised by value: see
 * norm.h. */
#include "nn/passes/norm.h"

steno_status steno_pass_rmsnorm(struct steno_graph *g, const struct steno_pass_env *env,
                                int *changed, steno_err *err)
{
    (void)env;
    return steno_pass_norms(g, true, changed, err);
}
