#include "tests/support/whisper_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *whisper_model(const char *which)
{
    const bool base = !strcmp(which, "base");
    const char *variable = base ? "STENO_WHISPER_BASE" : "STENO_WHISPER_TINY_EN";
    const char *dir = getenv(variable), *here = base ? "build/models/base" : "build/models/tiny.en";
    dir = dir && *dir ? dir : here;
    if (access(dir, R_OK) == 0)
        return dir;
    fprintf(stderr, "# %s is not there: set %s to a faster-whisper directory of %s\n", dir,
            variable, which);
    return NULL;
}

bool whisper_model_file(const char *which, const char *name, char *path, size_t size)
{
    const char *dir = whisper_model(which);
    if (!dir)
        return false;
    snprintf(path, size, "%s/%s", dir, name);
    if (access(path, R_OK) == 0)
        return true;
    fprintf(stderr, "# %s is not there\n", path);
    return false;
}
