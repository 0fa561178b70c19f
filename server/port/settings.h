/* What the one port is told. Strings are borrowed. */
#ifndef STENO_SERVER_PORT_SETTINGS_H
#define STENO_SERVER_PORT_SETTINGS_H

#include <stdbool.h>

struct steno_port_settings {
    const char *listen;          /* as of steno_address_parse_list */
    const char *wyoming_listen;  /* likewise; "" = none */
    const char *cors_origins;    /* "*", or origins, comma separated; "" = none */
    const char *trusted_proxies; /* see steno_networks_parse */
    bool proxy_protocol;         /* connections of trusted proxies begin with a PROXY header */
    bool tls_required;           /* no connections without TLS */
    int connections;             /* open sockets */
    int per_address;             /* ... from one address; 0 = no limit */
    double header_timeout;       /* s from accept to the end of the request head */
    double retry_after;          /* s until a refused client may come back */
};

#endif
