#include "tools/convert/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

steno_status steno_output_make(const char *dir, steno_err *err)
{
    if (!mkdir(dir, 0777) || errno == EEXIST)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_IO, "%s: %s", dir, strerror(errno));
}

const char *steno_output_network(char path[STENO_OUTPUT_PATH], const char *dir, const char *name)
{
    snprintf(path, STENO_OUTPUT_PATH, "%s/%s.onnx", dir, name);
    return path;
}

steno_status steno_output_write(const char *dir, const char *name, const void *p, size_t n,
                                steno_err *err)
{
    char path[STENO_OUTPUT_PATH];
    FILE *f;
    bool bad;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wbe");
    bad = !f || (n && fwrite(p, 1, n, f) != n);
    if (f && fclose(f))
        bad = true;
    return bad ? steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno)) : STENO_OK;
}
