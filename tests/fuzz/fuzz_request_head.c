/* link: server/head.c server/address.c */
/* covers: server/head.c server/address.c */
#include "server/address.h"
#include "server/head.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A list of addresses, each of which is the same host as what it is printed as. */
static void addresses(const uint8_t *data, size_t size)
{
    struct steno_address list[STENO_MAX_ADDRESSES], again;
    char text[STENO_ADDRESS_TEXT];
    size_t n = 0;
    char *copy = malloc(size + 1);
    if (!copy)
        return;
    if (size)
        memcpy(copy, data, size);
    copy[size] = '\0';
    if (!steno_address_parse_list(copy, list, &n, NULL) && (n < 1 || n > STENO_MAX_ADDRESSES))
        abort();
    for (size_t i = 0; i < n; i++) {
        steno_address_print(&list[i].addr, text);
        if (steno_address_parse(text, strlen(text), &again, NULL) ||
            !steno_address_same_host(&list[i].addr, &again.addr))
            abort();
    }
    free(copy);
}

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
    if (size)
        (void)steno_request_head_framing(text, size);
    if (steno_address_parse(text, size, &a, &err) && !err.msg[0])
        abort();
    addresses(data, size);
    return 0;
}
