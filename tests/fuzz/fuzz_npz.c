/* feats_stats.npz: members of a ZIP archive, each a NumPy array, with small limits as for real
 * files. The input is also read as a single array, because a changed member rarely passes its
 * checksum. */
/* covers: engine/formats/npy.c engine/formats/zip.c */
#include <stdlib.h>

#include "base/arena.h"
#include "formats/npy.h"
#include "formats/zip.h"

#define LIMIT ((size_t)1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void array(const void *bytes, size_t n)
{
    struct steno_npy a;
    if (steno_npy_parse(bytes, n, "fuzz", LIMIT, &a, NULL))
        return;
    if (a.bytes > n)
        abort();
    steno_aligned_free(a.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_zip_member m;
    array(data, n);
    for (size_t i = 0; i < 16 && !steno_zip_member(data, n, "fuzz", i, &m, NULL); i++) {
        void *bytes;
        if (steno_zip_read(data, n, "fuzz", &m, LIMIT, &bytes, NULL))
            continue;
        array(bytes, m.size);
        free(bytes);
    }
    return 0;
}
