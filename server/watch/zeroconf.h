/* Announces a service on the local network by DNS-SD (RFC 6763), through the Avahi daemon of this
 * machine. The announcement lasts as long as the object. Confined. */
#ifndef STENO_SERVER_WATCH_ZEROCONF_H
#define STENO_SERVER_WATCH_ZEROCONF_H

#include "base/status.h"

typedef struct steno_zeroconf steno_zeroconf;

/* Announce "NAME.TYPE.local" at `port` of this host. type: "_wyoming._tcp". Waits for Avahi's
 * answers, at most 2 s each. STENO_ERR_IO: no system bus, no Avahi, or it refused (the name is
 * taken, for instance). */
STENO_MUST steno_status steno_zeroconf_open(steno_zeroconf **out, const char *name,
                                            const char *type, uint16_t port, steno_err *err);
/* Withdraw the announcement. Accepts NULL. */
void steno_zeroconf_close(steno_zeroconf *z);

#endif
