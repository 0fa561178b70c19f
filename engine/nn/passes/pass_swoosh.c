/* Before: z = x - 4, l = Log(Exp(z) + 1), w = Where(l == inf, z, l), y = w - 0.08 x - 0.035
 *         or w = Max(0, z) + Log(1 + Exp(-Abs(z))), or with 1 and 0.313261687
 * After:  y = ai.steno:Swoosh(x; shift, offset)      (nn/ops/op_fused_zipformer.c)
 * Zipformer's two activations, SwooshL and SwooshR (Yao et al. 2024, section 3.4). The order does
 * not matter: see curve.h. */
#include "nn/passes/curve.h"

#include <math.h>

static double swoosh(double x, double shift, double offset)
{
    double z = x - shift;
    return fmax(z, 0) + log1p(exp(-fabs(z))) - 0.08 * x - offset;
}

static double left(double x, double p)
{
    (void)p;
    return swoosh(x, 4, 0.035);
}

static double right(double x, double p)
{
    (void)p;
    return swoosh(x, 1, 0.313261687);
}

steno_status steno_pass_swoosh(struct steno_graph *g, const struct steno_pass_env *env,
                               int *changed, steno_err *err)
{
    static const struct steno_curve curves[] = {{.type = "Swoosh",
                                                 .opset = 1,
                                                 .f = left,
                                                 .scale = 0.3,
                                                 .domain = "ai.steno",
                                                 .fixed = {{"shift", 4}, {"offset", 0.035f}}},
                                                {.type = "Swoosh",
                                                 .opset = 1,
                                                 .f = right,
                                                 .scale = 0.3,
                                                 .domain = "ai.steno",
                                                 .fixed = {{"shift", 1}, {"offset", 0.313261687f}}},
                                                {0}};
    (void)env;
    return steno_pass_curves(g, curves, changed, err);
}
