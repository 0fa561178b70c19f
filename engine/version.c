#include "steno.h"

const char *steno_version(void)
{
    return STENO_VERSION;
}
