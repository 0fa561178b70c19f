#include "tests/support/shared.h"

#include <stdio.h>
#include <stdlib.h>

void *steno_test_slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *data = NULL;
    long size;
    if (!f)
        return NULL;
    if (!fseek(f, 0, SEEK_END) && (size = ftell(f)) >= 0 && !fseek(f, 0, SEEK_SET)) {
        data = malloc((size_t)size + 1);
        if (data)
            *n = fread(data, 1, (size_t)size, f);
    }
    fclose(f);
    return data;
}

void *steno_test_shared(const char *rel, size_t *n)
{
    const char *root = getenv("STENO_SHARED");
    char path[4096];
    void *data;
    snprintf(path, sizeof path, "%s/%s", root ? root : "../shared", rel);
    data = steno_test_slurp(path, n);
    if (!data)
        fprintf(stderr, "# skipped: %s is not there\n", path);
    return data;
}
