#include <stdlib.h>

#include "steno.h"

const char *steno_version(void)
{
    return STENO_VERSION;
}

int steno_abi_version(void)
{
    return STENO_ABI_VERSION;
}

void steno_free(void *p)
{
    free(p);
}
