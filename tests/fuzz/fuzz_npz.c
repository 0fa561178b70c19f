/* feats_stats.npz: members of a ZIP archive, each a NumPy array; small limits, as for real ones. */
/* covers: engine/base/npy.c engine/base/zip.c */
#include <stdlib.h>

#include "base/arena.h"
#include "base/npy.h"
#include "base/zip.h"

#define LIMIT ((size_t)1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_zip_member m;
    for (size_t i = 0; i < 16 && !steno_zip_member(data, n, "fuzz", i, &m, NULL); i++) {
        struct steno_npy a;
        void *bytes;
        if (steno_zip_read(data, n, "fuzz", &m, LIMIT, &bytes, NULL))
            continue;
        if (!steno_npy_parse(bytes, m.size, "fuzz", LIMIT, &a, NULL)) {
            if (a.bytes > m.size)
                abort();
            steno_aligned_free(a.data);
        }
        free(bytes);
    }
    return 0;
}
