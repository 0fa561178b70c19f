/* Pages of a Python package index. Any bytes give a link or an error. */
/* covers: engine/speech/store/package_index.c */
#include <stdlib.h>
#include <string.h>

#include "speech/store/package_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char link[STENO_PACKAGE_LINK] = "untouched";
    steno_err err = {0};
    if (steno_package_link((const char *)data, n, "some_package-1.0-py3-none-any.whl", link,
                           &err)) {
        if (!err.code || !*err.msg || strcmp(link, "untouched"))
            abort();
        return 0;
    }
    if (!*link || strchr(link, '#') || strlen(link) >= sizeof link)
        abort();
    return 0;
}
