#include "families/common/metadata.h"

#include <stdio.h>
#include <string.h>

steno_status steno_metadata_check(const steno_network *net, const char *file,
                                  const struct steno_metadata *want, size_t n, steno_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *is = steno_network_meta(net, want[i].key);
        char value[24];
        snprintf(value, sizeof value, "%lld", (long long)want[i].value);
        if (is && strcmp(is, value) != 0)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: metadata %s is %.40s, the model directory says %s", file,
                              want[i].key, is, value);
    }
    return STENO_OK;
}
