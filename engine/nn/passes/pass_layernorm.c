/* Before: m = ReduceMean(x), d = Sub(x, m), v = ReduceMean(Pow(d, 2) or Mul(d, d)),
 *         y = d / Sqrt(v + eps) [* gamma] [+ beta]          all along the last axis
 *         or the same value by other nodes in another order; or LayerNormalization and factors or
 *         summands of the last axis behind it
 * After:  y = LayerNormalization(x, gamma, beta) (opset 17)
 * Ba, Kiros, Hinton 2016. What counts is the value: norm.h. */
#include "nn/passes/norm.h"

steno_status steno_pass_layernorm(struct steno_graph *g, const struct steno_pass_env *env,
                                  int *changed, steno_err *err)
{
    (void)env;
    return steno_pass_norms(g, false, changed, err);
}
