#include "convert/convert.h"

#include "convert/bundle.h"
#include "convert/espnet.h"

steno_status steno_convert(const char *in, const char *out, const char **what, steno_err *err)
{
    struct steno_bundle b;
    steno_status st = steno_bundle_open(&b, in, err);
    if (st == STENO_ERR_IO || st == STENO_ERR_NOMEM)
        return st;
    if (!st && steno_convert_espnet_probe(&b)) {
        *what = "ESPnet2";
        st = steno_convert_espnet(&b, out, err);
    } else {
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: not a checkpoint that can be converted; known are ESPnet2 models (a "
                        "ZIP archive or directory with meta.yaml, or with config.yaml and one "
                        "*.pth)",
                        in);
    }
    steno_bundle_close(&b);
    return st;
}
