/* Before: s = Sigmoid(a x) or 1 / (1 + Exp(-a x)), y = Mul(x, s)
 * After:  y = Swish(x; alpha a) (opset 24); with a = 1.702 it is known as the quick Gelu
 * Before: y = x * Clip(x + 3, 0, 6) / 6 or x * HardSigmoid(x; 1/6, 1/2)
 * After:  y = HardSwish(x) (opset 14)
 * Before: y = x * Tanh(Softplus(x))
 * After:  y = Mish(x) (opset 18)
 * The order does not matter: see curve.h. */
#include "nn/passes/curve.h"

#include <math.h>

static double swish(double x, double alpha)
{
    return x / (1 + exp(-alpha * x));
}

/* y = 1 / (1 + exp(-alpha)) */
static double alpha_of(double y1)
{
    double a = y1 > 0 && y1 < 1 ? log(y1 / (1 - y1)) : 0;
    return fabs(a) > 1e-3 ? a : (double)NAN; /* x / 2 is not a Swish */
}

static double hard_swish(double x, double p)
{
    (void)p;
    return x * fmax(0, fmin(1, x / 6 + 0.5));
}

static double mish(double x, double p)
{
    (void)p;
    return x * tanh(fmax(x, 0) + log1p(exp(-fabs(x))));
}

steno_status steno_pass_swish(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    static const struct steno_curve curves[] = {
        {.type = "Swish", .opset = 24, .f = swish, .find = alpha_of, .attr = "alpha"},
        {.type = "HardSwish", .opset = 14, .f = hard_swish},
        {.type = "Mish", .opset = 18, .f = mish},
        {0}};
    (void)env;
    return steno_pass_curves(g, curves, changed, err);
}
