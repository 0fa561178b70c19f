/* link: server/head.c server/address.c */
/* covers: server/head.c server/address.c */
#include "server/address.h"
#include "server/head.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the acceptor reads before it knows anybody: the head, and addresses of the settings. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_request_head h;
    struct steno_address a;
    steno_err err = {STENO_OK, ""};
    const char *text = (const char *)data;
    if (steno_request_head_length(text, size) > size)
        abort();
    if (steno_request_head_parse(text, size, &h) &&
        (h.path < text || h.path + h.path_len > text + size))
        abort();
    if (steno_address_parse(text, size, &a, &err) && !err.msg[0])
        abort();
    return 0;
}
