/* Before: e = Erf(x / sqrt 2 or x * sqrt 0.5), y = x * (e + 1) * 0.5, in any order
 * After:  y = Gelu(x) (opset 20)
 * Before: y = 0.5 x (1 + Tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the power as Pow or products
 * After:  y = Gelu(x; approximate tanh)
 * Hendrycks and Gimpel 2016. The order does not matter: see curve.h. */
#include "nn/passes/curve.h"

#include <math.h>

static double by_erf(double x, double p)
{
    (void)p;
    return 0.5 * x * (1 + erf(x * sqrt(0.5)));
}

static double by_tanh(double x, double p)
{
    (void)p;
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

steno_status steno_pass_gelu(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                             steno_err *err)
{
    static const struct steno_curve curves[] = {
        {.type = "Gelu", .opset = 20, .f = by_erf},
        {.type = "Gelu", .opset = 20, .f = by_tanh, .form = "tanh"},
        {0}};
    (void)env;
    return steno_pass_curves(g, curves, changed, err);
}
