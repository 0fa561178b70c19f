/* The families: one line for each here, and one table for each in op_<family>.c. */
#include "nn/ops/registry.h"

#include "nn/ops/families.h"
#include "nn/ops/internal.h"

static const struct steno_op *const families[] = {
#define FAMILY(NAME) steno_ops_##NAME,
    STENO_OPS_FAMILIES(FAMILY)
#undef FAMILY
        NULL,
};

const struct steno_op *steno_op_find(const char *domain, const char *type, int opset)
{
    if (!strcmp(domain, "ai.onnx"))
        domain = "";
    for (size_t f = 0; families[f]; f++)
        for (const struct steno_op *op = families[f]; op->type; op++)
            if (!strcmp(op->type, type) && !strcmp(op->domain, domain) && op->since <= opset &&
                (!op->until || opset <= op->until))
                return op;
    return NULL;
}

const struct steno_op *steno_op_next(const struct steno_op *op)
{
    if (!op)
        return families[0];
    if (op[1].type)
        return op + 1;
    for (size_t f = 0; families[f]; f++)
        for (const struct steno_op *o = families[f]; o->type; o++)
            if (o == op)
                return families[f + 1];
    return NULL;
}
