/* Avahi's D-Bus interface (avahi-daemon/org.freedesktop.Avahi.*.xml): an entry group holds the
 * announcement. Avahi drops the group when the connection to the bus ends. */
#include "server/watch/zeroconf.h"

#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>

#define AVAHI "org.freedesktop.Avahi"
#define TIMEOUT_US (2 * 1000 * 1000)
#define ANY_INTERFACE (-1)
#define ANY_PROTOCOL (-1)

struct steno_zeroconf {
    sd_bus *bus;
};

static steno_status make_group(sd_bus *bus, char **path, sd_bus_error *e)
{
    sd_bus_message *m = NULL;
    const char *text;
    int rc = sd_bus_call_method(bus, AVAHI, "/", AVAHI ".Server", "EntryGroupNew", e, &m, "");
    if (rc >= 0)
        rc = sd_bus_message_read(m, "o", &text);
    if (rc >= 0 && !(*path = strdup(text)))
        rc = -1;
    sd_bus_message_unref(m);
    return rc < 0 ? STENO_ERR_IO : STENO_OK;
}

static steno_status announce(sd_bus *bus, const char *group, const char *name, const char *type,
                             uint16_t port, sd_bus_error *e)
{
    int rc = sd_bus_call_method(bus, AVAHI, group, AVAHI ".EntryGroup", "AddService", e, NULL,
                                "iiussssqaay", ANY_INTERFACE, ANY_PROTOCOL, 0u, name, type,
                                "" /* domain */, "" /* host */, (unsigned)port, 0 /* texts */);
    if (rc >= 0)
        rc = sd_bus_call_method(bus, AVAHI, group, AVAHI ".EntryGroup", "Commit", e, NULL, "");
    return rc < 0 ? STENO_ERR_IO : STENO_OK;
}

steno_status steno_zeroconf_open(steno_zeroconf **out, const char *name, const char *type,
                                 uint16_t port, steno_err *err)
{
    sd_bus_error e = SD_BUS_ERROR_NULL;
    char *group = NULL;
    steno_status st;
    steno_zeroconf *z = calloc(1, sizeof *z);
    int rc;
    if (!z)
        return steno_fail(err, STENO_ERR_NOMEM, "DNS-SD: out of memory");
    rc = sd_bus_open_system(&z->bus);
    if (rc < 0) {
        free(z);
        return steno_fail(err, STENO_ERR_IO, "DNS-SD: no system bus: %s", strerror(-rc));
    }
    (void)sd_bus_set_method_call_timeout(z->bus, TIMEOUT_US);
    st = make_group(z->bus, &group, &e);
    if (!st)
        st = announce(z->bus, group, name, type, port, &e);
    if (st)
        steno_fail(err, st, "DNS-SD: Avahi did not announce '%s': %s", name,
                   e.message ? e.message : "no answer");
    sd_bus_error_free(&e);
    free(group);
    if (st)
        steno_zeroconf_close(z);
    else
        *out = z;
    return st;
}

void steno_zeroconf_close(steno_zeroconf *z)
{
    if (!z)
        return;
    sd_bus_flush_close_unref(z->bus);
    free(z);
}
