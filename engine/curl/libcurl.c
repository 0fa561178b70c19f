#include "curl/libcurl.h"

#include <dlfcn.h>
#include <string.h>

steno_status libcurl_load(struct libcurl *out, steno_err *err)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW), *p;
    if (!library)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "a download needs libcurl: %s", dlerror());
#define FIND(f)                                                                                    \
    p = dlsym(library, "curl_" #f);                                                                \
    if (!p)                                                                                        \
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "libcurl has no curl_" #f);                  \
    memcpy(&out->f, &p, sizeof p); /* POSIX: a pointer from dlsym may be a function pointer */
    LIBCURL_FUNCTIONS(FIND)
#undef FIND
    return STENO_OK;
}
