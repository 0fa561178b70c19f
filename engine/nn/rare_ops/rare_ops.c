#include "nn/rare_ops/rare_ops.h"

#include "nn/ops/registry.h"
#include "nn/rare_ops/families.h"

void steno_rare_ops_add(void)
{
    static const struct steno_op *const families[] = {
#define FAMILY(NAME) steno_ops_##NAME,
        STENO_RARE_OPS_FAMILIES(FAMILY)
#undef FAMILY
            NULL,
    };
    steno_op_add_rare(families);
}
