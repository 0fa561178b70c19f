/* Files with measured costs of models. Any bytes give usable costs or none. Costs stored over
 * them can be read back. */
/* link: server/core/costs.c */
/* covers: server/core/costs.c */
#include <math.h>

#include "server/core/costs.h"
#include "tests/fuzz/folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct steno_pool_costs *c)
{
    if (!(c->host >= 0 && c->host < 3600) || !(c->step[0] >= 0 && c->step[0] < 3600))
        abort();
    for (size_t i = 1; i < STENO_POOL_BATCH_SIZES; i++)
        if (!(c->step[i] > 0) || (isfinite(c->step[i]) && c->step[i] >= 3600))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct steno_pool_costs now = {
        {0.001, 0.0015, 0.0021, 0.004, (double)INFINITY, (double)INFINITY}, 0.0003};
    struct steno_pool_costs got;
    struct steno_costs_id id;
    const bool quiet = n % 2;
    folder_make();
    folder_write("costs", data, n);
    folder_path(id.file, "costs");
    if (steno_costs_load(&id, &got))
        check(&got);
    if (steno_costs_store(&id, &now, quiet, NULL) || steno_costs_load(&id, &got) != quiet ||
        (quiet && fabs(got.host - now.host) > 1e-9))
        abort();
    return 0;
}
