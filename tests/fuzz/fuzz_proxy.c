/* link: server/port/proxy.c server/port/address.c */
/* covers: server/port/proxy.c */
#include "server/port/address.h"
#include "server/port/proxy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* A header is found at the same place however its bytes arrive, and never before it is complete. */
static void header(const char *p, size_t size)
{
    struct steno_proxy_header whole, part;
    steno_err err = {STENO_OK, ""};
    steno_status st = steno_proxy_parse(p, size, &whole, &err);
    require(st == STENO_OK || st == STENO_NEED_MORE || *err.msg);
    if (st)
        return;
    require(whole.len <= size && whole.len >= 15);
    require(!whole.known || whole.client.ss_family == AF_INET ||
            whole.client.ss_family == AF_INET6);
    require(steno_proxy_parse(p, whole.len - 1, &part, NULL) == STENO_NEED_MORE);
    require(!steno_proxy_parse(p, whole.len, &part, NULL) && part.len == whole.len);
}

/* What proxies write into headers, and the setting that says whom to believe. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_networks w;
    struct sockaddr_storage client;
    steno_err err = {STENO_OK, ""};
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    header(text, size);
    if (steno_networks_parse(text, &w, &err))
        require(*err.msg);
    else
        require(w.n <= STENO_MAX_NETWORKS);
    require(!steno_networks_parse("10.0.0.0/8, ::1", &w, NULL));
    if (steno_forwarded_client(text, &w, &client))
        require(client.ss_family == AF_INET || client.ss_family == AF_INET6);
    (void)steno_path_skip(text, strlen(text), "/stt", 4);
    free(text);
    return 0;
}
