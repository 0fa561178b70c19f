/* The announcement by DNS-SD, against a stand-in for Avahi on a bus of its own. The names, paths
 * and signatures are those of Avahi's introspection files. Skipped where there is no dbus-daemon.
 */
/* link: server/watch/zeroconf.c */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "server/watch/zeroconf.h"
#include "tests/support/test.h"

struct avahi {
    sd_bus *bus;
    pthread_t thread;
    atomic_bool stop;
    atomic_int groups, services, commits;
    char name[64], type[64];
    int port;
};

static pid_t daemon_pid;

static int new_group(sd_bus_message *m, void *user, sd_bus_error *e)
{
    struct avahi *a = user;
    (void)e;
    atomic_fetch_add(&a->groups, 1);
    return sd_bus_reply_method_return(m, "o", "/Client1/EntryGroup1");
}

static int add_service(sd_bus_message *m, void *user, sd_bus_error *e)
{
    struct avahi *a = user;
    int interface, protocol;
    uint32_t flags;
    uint16_t port;
    const char *name, *type, *domain, *host;
    int rc = sd_bus_message_read(m, "iiussssq", &interface, &protocol, &flags, &name, &type,
                                 &domain, &host, &port);
    if (rc < 0)
        return rc;
    if (!strcmp(name, "taken"))
        return sd_bus_error_set(e, "org.freedesktop.Avahi.CollisionError", "Local name collision");
    snprintf(a->name, sizeof a->name, "%s", name);
    snprintf(a->type, sizeof a->type, "%s", type);
    a->port = port;
    atomic_fetch_add(&a->services, 1);
    return sd_bus_reply_method_return(m, "");
}

static int commit(sd_bus_message *m, void *user, sd_bus_error *e)
{
    (void)e;
    atomic_fetch_add(&((struct avahi *)user)->commits, 1);
    return sd_bus_reply_method_return(m, "");
}

static const sd_bus_vtable server_table[] = {SD_BUS_VTABLE_START(0),
                                             SD_BUS_METHOD("EntryGroupNew", "", "o", new_group, 0),
                                             SD_BUS_VTABLE_END};
static const sd_bus_vtable group_table[] = {
    SD_BUS_VTABLE_START(0), SD_BUS_METHOD("AddService", "iiussssqaay", "", add_service, 0),
    SD_BUS_METHOD("Commit", "", "", commit, 0), SD_BUS_VTABLE_END};

static void *serve(void *user)
{
    struct avahi *a = user;
    while (!atomic_load(&a->stop))
        if (!sd_bus_process(a->bus, NULL))
            (void)sd_bus_wait(a->bus, 20000);
    return NULL;
}

static void start_avahi(struct avahi *a)
{
    memset(a, 0, sizeof *a);
    assert_true(sd_bus_open_system(&a->bus) >= 0);
    assert_true(sd_bus_add_object_vtable(a->bus, NULL, "/", "org.freedesktop.Avahi.Server",
                                         server_table, a) >= 0);
    assert_true(sd_bus_add_object_vtable(a->bus, NULL, "/Client1/EntryGroup1",
                                         "org.freedesktop.Avahi.EntryGroup", group_table, a) >= 0);
    assert_true(sd_bus_request_name(a->bus, "org.freedesktop.Avahi", 0) >= 0);
    assert_int_equal(pthread_create(&a->thread, NULL, serve, a), 0);
}

static void stop_avahi(struct avahi *a)
{
    atomic_store(&a->stop, true);
    pthread_join(a->thread, NULL);
    sd_bus_flush_close_unref(a->bus);
}

/* A bus of this test's own. False: this machine has no dbus-daemon. */
static bool start_bus(void)
{
    char address[512];
    int out[2];
    ssize_t n;
    if (access("/usr/bin/dbus-daemon", X_OK) || pipe(out))
        return false;
    daemon_pid = fork();
    if (!daemon_pid) {
        dup2(out[1], 1);
        execl("/usr/bin/dbus-daemon", "dbus-daemon", "--session", "--nofork", "--print-address",
              (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    n = read(out[0], address, sizeof address - 1);
    close(out[0]);
    if (n <= 0)
        return false;
    address[n] = '\0';
    address[strcspn(address, "\n")] = '\0';
    setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1);
    return true;
}

static void a_service_is_announced(void **state)
{
    struct avahi a;
    steno_zeroconf *z = NULL;
    steno_err err;
    (void)state;
    start_avahi(&a);
    assert_int_equal(steno_zeroconf_open(&z, "steno", "_wyoming._tcp", 10300, &err), STENO_OK);
    assert_int_equal(atomic_load(&a.groups), 1);
    assert_int_equal(atomic_load(&a.services), 1);
    assert_int_equal(atomic_load(&a.commits), 1);
    assert_string_equal(a.name, "steno");
    assert_string_equal(a.type, "_wyoming._tcp");
    assert_int_equal(a.port, 10300);
    steno_zeroconf_close(z);
    stop_avahi(&a);
}

static void a_refusal_is_named(void **state)
{
    struct avahi a;
    steno_zeroconf *z = NULL;
    steno_err err;
    (void)state;
    start_avahi(&a);
    assert_int_equal(steno_zeroconf_open(&z, "taken", "_wyoming._tcp", 1, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "'taken': Local name collision"));
    assert_null(z);
    assert_int_equal(atomic_load(&a.commits), 0);
    stop_avahi(&a);
}

static void without_avahi_the_error_says_so(void **state)
{
    steno_zeroconf *z = NULL;
    steno_err err;
    (void)state;
    assert_int_equal(steno_zeroconf_open(&z, "steno", "_wyoming._tcp", 1, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "DNS-SD: Avahi did not announce 'steno'"));
}

static void without_a_bus_the_error_says_so(void **state)
{
    steno_zeroconf *z = NULL;
    steno_err err;
    (void)state;
    setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent", 1);
    assert_int_equal(steno_zeroconf_open(&z, "steno", "_wyoming._tcp", 1, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "DNS-SD: no system bus"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_service_is_announced),
        cmocka_unit_test(a_refusal_is_named),
        cmocka_unit_test(without_avahi_the_error_says_so),
        cmocka_unit_test(without_a_bus_the_error_says_so),
    };
    int failed;
    if (!start_bus()) {
        puts("1..0 # SKIP no dbus-daemon on this machine");
        return 0;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kill(daemon_pid, SIGTERM);
    waitpid(daemon_pid, NULL, 0);
    return failed;
}
