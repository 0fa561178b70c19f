/* The families: one line for each here, and one table for each in op_<family>.c. */
#include "nn/ops/registry.h"

#include "nn/ops/families.h"
#include "nn/ops/internal.h"

static const struct steno_op *const families[] = {
#define FAMILY(NAME) steno_ops_##NAME,
    STENO_OPS_FAMILIES(FAMILY)
#undef FAMILY
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

/* Written once, before there are threads. */
static const struct steno_op *const no_family = NULL, *const *rare_families = &no_family;

static const struct steno_op *family_at(size_t f)
{
    return f < N_FAMILIES ? families[f] : rare_families[f - N_FAMILIES];
}

void steno_op_add_rare(const struct steno_op *const *rare)
{
    rare_families = rare;
}

bool steno_op_has_rare(void)
{
    return *rare_families != NULL;
}

bool steno_op_is_rare(const char *domain, const char *type)
{
    static const char names[] = "AffineGrid Bernoulli CenterCropPad Col2Im DeformConv "
                                "DepthToSpace Det GridSample LRN MaxRoiPool MaxUnpool "
                                "NegativeLogLikelihoodLoss NonMaxSuppression Optional "
                                "OptionalGetElement OptionalHasElement RandomNormal "
                                "RandomNormalLike RandomUniform RandomUniformLike RoiAlign "
                                "SoftmaxCrossEntropyLoss SpaceToDepth Unique";
    if (!strcmp(domain, "ai.onnx.preview"))
        return !strcmp(type, "FlexAttention");
    return !*domain && steno_op_type_in(type, names);
}

const struct steno_op *steno_op_find(const char *domain, const char *type, int opset)
{
    if (!strcmp(domain, "ai.onnx"))
        domain = "";
    for (size_t f = 0; family_at(f); f++)
        for (const struct steno_op *op = family_at(f); op->type; op++)
            if (!strcmp(op->type, type) && !strcmp(op->domain, domain) && op->since <= opset &&
                (!op->until || opset <= op->until))
                return op;
    return NULL;
}

const struct steno_op *steno_op_next(const struct steno_op *op)
{
    if (!op)
        return family_at(0);
    if (op[1].type)
        return op + 1;
    for (size_t f = 0; family_at(f); f++)
        for (const struct steno_op *o = family_at(f); o->type; o++)
            if (o == op)
                return family_at(f + 1);
    return NULL;
}
