/* The boxes of an MP4 stream: the same verdict for every division of the input, with a message, and
 * nothing after the damage is taken. */
/* covers: engine/tools/decode/boxes.c */
/* link: engine/tools/decode/boxes.c */
#include "tools/decode/boxes.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static bool take(const uint8_t *data, size_t n, size_t piece, steno_err *err)
{
    struct steno_boxes b = {0};
    size_t at = 0;
    *err = (steno_err){STENO_OK, ""};
    while (at < n) {
        const size_t k = piece && piece < n - at ? piece : n - at;
        const size_t good = steno_boxes_take(&b, data + at, k, err);
        if (good > k || (good < k && !b.damaged) || b.damaged != (err->code != STENO_OK) ||
            (b.damaged && !*err->msg))
            abort();
        at += k;
        if (b.damaged && steno_boxes_take(&b, data, n, NULL))
            abort();
    }
    return b.damaged;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const size_t pieces[] = {1, 3, 7, 16, 1000};
    steno_err whole, err;
    const bool damaged = take(data, n, 0, &whole);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (take(data, n, pieces[i], &err) != damaged || strcmp(err.msg, whole.msg))
            abort();
    return 0;
}
