/* Tar archives, and the same in gzip with a small limit. */
/* covers: engine/formats/tar.c engine/formats/gzip.c */
#include <stdlib.h>

#include "formats/gzip.h"
#include "formats/tar.h"

#define LIMIT ((size_t)1 << 18)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void list(const uint8_t *p, size_t n)
{
    struct steno_tar t;
    volatile unsigned sum = 0;
    if (steno_tar_list(p, n, "fuzz", &t, NULL))
        return;
    for (size_t i = 0; i < t.n; i++) {
        const struct steno_tar_member *m = &t.member[i];
        if (!m->name_len || m->at > n || m->size > n - m->at)
            abort();
        sum = sum + (unsigned)m->name[0] + (unsigned)m->name[m->name_len - 1];
        if (m->size)
            sum = sum + p[m->at + m->size - 1];
    }
    steno_tar_close(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    void *out = NULL;
    size_t size = 0;
    list(data, n);
    if (steno_gzip_probe(data, n) &&
        !steno_gzip_unpack(data, n, "fuzz", LIMIT, &out, &size, NULL)) {
        list(out, size);
        free(out);
    }
    return 0;
}
