/* link: server/core/config_check.c server/core/aligners.c */
/* link: server/core/config.c server/port/proxy.c server/port/address.c server/base/log.c */
/* covers: server/core/config.c server/port/address.c */
#include "server/core/config.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any file is read, or gives an error that names it. Settings that were read can be printed. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_config c;
    steno_err err = {STENO_OK, ""};
    if (steno_config_init(&c, &err))
        return 0;
    if (steno_config_read_text(&c, "fuzz", (const char *)data, size, &err)) {
        if (!err.msg[0])
            abort();
    } else {
        FILE *null = fopen("/dev/null", "w");
        (void)!steno_config_check(&c, &err);
        if (null) {
            steno_config_print(&c, null);
            fclose(null);
        }
    }
    steno_config_free(&c);
    return 0;
}
