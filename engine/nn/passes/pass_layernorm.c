/* Before: m = ReduceMean(x), d = Sub(x, m), v = ReduceMean(Pow(d, 2) or Mul(d, d)),
 *         y = d / Sqrt(v + eps) [* gamma] [+ beta]          all along the last axis
 *         or other nodes that compute the same value; or LayerNormalization followed by factors or
 *         summands of the last axis
 * After:  y = LayerNormalization(x, gamma, beta) (opset 17)
 * Ba, Kiros, Hinton 2016. Recognised by value: see norm.h. */
#include "nn/passes/norm.h"

steno_status steno_pass_layernorm(struct steno_graph *g, const struct steno_pass_env *env,
                                  int *changed, steno_err *err)
{
    (void)env;
    return steno_pass_norms(g, false, changed, err);
}
