#include "ops/op.h"

#include <string.h>

static const struct steno_op *const families[] = {
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
