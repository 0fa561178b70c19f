/* Functions of one variable, recognised by their values: exporters write one activation in a dozen
 * ways (orders of factors, powers as products, 1 / (1 + exp(-x)) for a sigmoid). A cone of
 * elementwise nodes between one value and one result, with nothing else but numbers in it, is
 * computed at many points and compared with the function in question. */
#ifndef STENO_NN_PASSES_CURVE_H
#define STENO_NN_PASSES_CURVE_H

#include "nn/passes/passes.h"

struct steno_curve {
    const char *type; /* operator that computes it, of ai.onnx if nothing else is said */
    int opset;
    double (*f)(double x, double p); /* p: the attribute's value */
    double (*find)(double y1);       /* the attribute from the value at 1; NULL: there is none */
    const char *attr;                /* its name; the operator takes it as a float */
    const char *form;                /* "approximate" of Gelu, or NULL */
    const char *domain;              /* NULL: ai.onnx */
    struct {
        const char *name;
        float v;
    } fixed[2]; /* attributes with these values; nothing or both */
};

/* Cones that compute one of `curves` (ends with an entry without type) become one node each. f32.
 */
STENO_MUST steno_status steno_pass_curves(struct steno_graph *g, const struct steno_curve *curves,
                                          int *changed, steno_err *err);

#endif
