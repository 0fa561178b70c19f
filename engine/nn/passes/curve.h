/* Functions of one variable, recognised by their values. Exporters write one activation in a dozen
 * ways (orders of factors, powers as products, 1 / (1 + exp(-x)) for a sigmoid). A cone of
 * elementwise nodes between one value and one result, with only numbers as other inputs, is first
 * cut at the breakpoints of its piecewise operators, so that it is analytic on each piece. Then it
 * is computed at many points and compared with the function in question. */
#ifndef STENO_NN_PASSES_CURVE_H
#define STENO_NN_PASSES_CURVE_H

#include "nn/passes/passes.h"

struct steno_curve {
    const char *type; /* operator that computes it, of ai.onnx unless `domain` is set */
    int opset;
    double (*f)(double x, double p); /* p: the attribute's value */
    double scale;              /* errors count beside this, |x| or |f(x)|, whichever is largest */
    double (*find)(double y1); /* the attribute from the value at 1; NULL: no attribute */
    const char *attr;          /* its name; the operator takes it as a float */
    const char *form;          /* "approximate" of Gelu, or NULL */
    const char *domain;        /* NULL: ai.onnx */
    struct {
        const char *name;
        float v;
        /* Attributes with these values; none or both. */
    } fixed[2];
};

/* Replace each cone that computes one of `curves` with one node. The last entry of `curves` has no
 * type. f32. */
STENO_MUST steno_status steno_pass_curves(struct steno_graph *g, const struct steno_curve *curves,
                                          int *changed, steno_err *err);

#endif
