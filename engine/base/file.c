#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static steno_status read_stream(FILE *f, const char *path, size_t max, char **bytes, size_t *n,
                                steno_err *err)
{
    size_t cap = 1 << 12, len = 0, k;
    char *p = malloc(cap);
    while (p && (k = fread(p + len, 1, cap - len - 1, f)) > 0) {
        char *q;
        len += k;
        if (len > max) {
            free(p);
            return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %zu bytes", path, max);
        }
        if (len + 1 < cap)
            continue;
        q = realloc(p, cap * 2);
        if (!q)
            free(p);
        p = q;
        cap *= 2;
    }
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    if (ferror(f)) {
        free(p);
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    }
    p[len] = '\0';
    *bytes = p;
    *n = len;
    return STENO_OK;
}

steno_status steno_file_read(const char *path, size_t max, char **bytes, size_t *n, steno_err *err)
{
    FILE *f = fopen(path, "rbe");
    steno_status st;
    if (!f)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    st = read_stream(f, path, max, bytes, n, err);
    fclose(f);
    return st;
}

steno_status steno_file_hash(const char *path, uint64_t out[2], steno_err *err)
{
    enum { BLOCK = 1 << 18 };
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    XXH3_state_t *s = XXH3_createState();
    char *block = malloc(BLOCK);
    steno_status st = STENO_OK;
    ssize_t n = 0;
    if (!s || !block || XXH3_128bits_reset(s))
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    while (!st && fd >= 0 && (n = read(fd, block, BLOCK)) > 0)
        (void)XXH3_128bits_update(s, block, (size_t)n);
    if (!st && (fd < 0 || n < 0))
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    if (!st) {
        const XXH128_hash_t h = XXH3_128bits_digest(s);
        out[0] = h.low64;
        out[1] = h.high64;
    }
    free(block);
    XXH3_freeState(s);
    if (fd >= 0)
        close(fd);
    return st;
}
