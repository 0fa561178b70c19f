/* Tar archives, and the same in gzip with a small limit. The input is also read with right
 * checksums in all its blocks, because a changed header rarely has one. */
/* covers: engine/formats/tar.c engine/formats/gzip.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void repair(uint8_t *p, size_t n)
{
    for (; n >= 512; p += 512, n -= 512) {
        unsigned sum = 0;
        char digits[16];
        memset(p + 148, ' ', 8);
        for (int i = 0; i < 512; i++)
            sum += p[i];
        if (sum == 8 * ' ') /* the end of the archive */
            memset(p + 148, 0, 8);
        else
            memcpy(p + 148, digits, (size_t)snprintf(digits, sizeof digits, "%06o", sum));
    }
}

static void list_repaired(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    if (!copy)
        return;
    memcpy(copy, data, n);
    repair(copy, n);
    list(copy, n);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    void *out = NULL;
    size_t size = 0;
    list(data, n);
    list_repaired(data, n);
    if (steno_gzip_probe(data, n) &&
        !steno_gzip_unpack(data, n, "fuzz", LIMIT, &out, &size, NULL)) {
        list(out, size);
        free(out);
    }
    return 0;
}
