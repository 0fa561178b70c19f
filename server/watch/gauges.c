#include "server/watch/gauges.h"

#include "base/cpu.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double cpu_seconds(void *ctx)
{
    struct timespec ts = {0, 0};
    (void)ctx;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double resident_bytes(void *ctx)
{
    unsigned long total, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re"); /* proc(5): pages */
    (void)ctx;
    if (!f)
        return 0;
    if (fscanf(f, "%lu %lu", &total, &resident) != 2)
        resident = 0;
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double open_fds(void *ctx)
{
    int n = -3; /* ".", "..", and the descriptor of the listing itself */
    DIR *d = opendir("/proc/self/fd");
    (void)ctx;
    if (!d)
        return 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static double max_fds(void *ctx)
{
    struct rlimit lim;
    (void)ctx;
    return getrlimit(RLIMIT_NOFILE, &lim) ? 0 : (double)lim.rlim_cur;
}

static double start_time(void *ctx)
{
    return (double)((const struct steno_server *)ctx)->started;
}

static double gauge_one(void *ctx)
{
    (void)ctx;
    return 1;
}

/* ---- the models; ctx is a slot --------------------------------------------------------------- */

static struct steno_model_view view(void *slot)
{
    struct steno_model_view v;
    steno_model_slot_view(slot, &v);
    return v;
}

static double loaded(void *ctx)
{
    return view(ctx).loaded;
}

static double generation(void *ctx)
{
    return view(ctx).generation;
}

static double users(void *ctx)
{
    return view(ctx).users;
}

static double queue_depth(void *ctx)
{
    return view(ctx).pool.ready;
}

static double capacity(void *ctx)
{
    return view(ctx).pool.capacity;
}

/* ---- all models together; ctx is the server -------------------------------------------------- */

static double sum_pools(void *ctx, double (*of)(const struct steno_pool_stats *))
{
    steno_models *m = ((struct steno_server *)ctx)->models;
    struct steno_model_slot *slot;
    double total = 0;
    for (size_t i = 0; (slot = steno_models_slot(m, i)); i++) {
        struct steno_model_view v = view(slot);
        total += of(&v.pool);
    }
    return total;
}

static double workers_of(const struct steno_pool_stats *st)
{
    return st->workers;
}

static double busy_of(const struct steno_pool_stats *st)
{
    return st->busy;
}

static double steps_of(const struct steno_pool_stats *st)
{
    return (double)st->steps;
}

static double workers(void *ctx)
{
    return sum_pools(ctx, workers_of);
}

static double workers_busy(void *ctx)
{
    return sum_pools(ctx, busy_of);
}

static double steps(void *ctx)
{
    return sum_pools(ctx, steps_of);
}

static double decoders(void *ctx)
{
    return steno_decoders_running(((struct steno_server *)ctx)->decoders);
}

static double draining(void *ctx)
{
    return steno_limits_draining(((struct steno_server *)ctx)->limits);
}

/* A label value: quotes, backslashes and line ends escaped (exposition format 0.0.4). */
static const char *escape(const char *s, char *out, size_t size)
{
    size_t n = 0;
    for (; *s && n + 3 < size; s++) {
        if (*s == '"' || *s == '\\' || *s == '\n')
            out[n++] = '\\';
        out[n++] = *s == '\n' ? 'n' : *s;
    }
    out[n] = '\0';
    return out;
}

static void register_process(struct steno_server *srv, steno_metrics *m)
{
    steno_metrics_sample(m, "process_cpu_seconds_total", "Processor time used.", "", true,
                         cpu_seconds, NULL);
    steno_metrics_sample(m, "process_resident_memory_bytes", "Resident memory.", "", false,
                         resident_bytes, NULL);
    steno_metrics_sample(m, "process_open_fds", "Open descriptors.", "", false, open_fds, NULL);
    steno_metrics_sample(m, "process_max_fds", "Descriptors that may be open.", "", false, max_fds,
                         NULL);
    steno_metrics_sample(m, "process_start_time_seconds", "Start, seconds since 1970.", "", false,
                         start_time, srv);
}

static void register_model(steno_metrics *m, struct steno_model_slot *slot)
{
    struct steno_model_view v = view(slot);
    char name[128], family[64], language[32], version[64], labels[400];
    escape(v.name, name, sizeof name);
    snprintf(labels, sizeof labels, "model=\"%s\",family=\"%s\",language=\"%s\",version=\"%s\"",
             name, escape(v.family, family, sizeof family),
             escape(v.language, language, sizeof language),
             escape(v.version, version, sizeof version));
    if (*v.family) /* before the first load only the name is known */
        steno_metrics_sample(m, "steno_model_info", "Models, as they were first loaded.", labels,
                             false, gauge_one, NULL);
    snprintf(labels, sizeof labels, "model=\"%s\"", name);
    steno_metrics_sample(m, "steno_model_loaded", "1 when the model is loaded.", labels, false,
                         loaded, slot);
    steno_metrics_sample(m, "steno_model_generation", "Times the model was loaded.", labels, false,
                         generation, slot);
    steno_metrics_sample(m, "steno_model_users", "Sessions on the model's newest generation.",
                         labels, false, users, slot);
    steno_metrics_sample(m, "steno_stream_capacity", "Live streams that may run at once.", labels,
                         false, capacity, slot);
    steno_metrics_sample(m, "steno_queue_depth", "Streams waiting for a worker.", labels, false,
                         queue_depth, slot);
}

/* ---- keys; ctx is one ------------------------------------------------------------------------ */

static struct steno_key_use use(void *key)
{
    struct steno_key_use u;
    steno_key_get_use(key, &u);
    return u;
}

static double key_sessions(void *ctx)
{
    return use(ctx).sessions;
}

static double key_requests(void *ctx)
{
    return (double)use(ctx).requests;
}

static double key_refused(void *ctx)
{
    return (double)use(ctx).refused;
}

static double key_audio(void *ctx)
{
    return use(ctx).audio_seconds;
}

/* Names of keys are those of customers, and whoever reads /metrics need not know them. */
static void register_keys(const struct steno_server *srv)
{
    steno_metrics *m = srv->stats->registry;
    steno_key *key;
    while (srv->conf->metrics_keys && (key = steno_keys_next_new(srv->keys))) {
        char labels[STENO_KEY_NAME + 8]; /* a name has no character that needs an escape */
        snprintf(labels, sizeof labels, "key=\"%s\"", steno_key_name(key));
        steno_metrics_sample(m, "steno_key_sessions", "Sessions of a key that run now.", labels,
                             false, key_sessions, key);
        steno_metrics_sample(m, "steno_key_requests_total", "Sessions of a key that were admitted.",
                             labels, true, key_requests, key);
        steno_metrics_sample(m, "steno_key_refused_total", "Sessions refused by a key's quota.",
                             labels, true, key_refused, key);
        steno_metrics_sample(m, "steno_key_audio_seconds_total",
                             "Audio of a key, as its quota counts it, in seconds.", labels, true,
                             key_audio, key);
    }
}

static void register_models(const struct steno_server *srv)
{
    struct steno_model_slot *slot;
    while ((slot = steno_models_next_new(srv->models)))
        register_model(srv->stats->registry, slot);
}

void steno_gauges_register(struct steno_server *srv)
{
    steno_metrics *m = srv->stats->registry;
    char labels[160], cpu[96];
    snprintf(labels, sizeof labels, "version=\"%s\",cpu=\"%s\"", steno_version(),
             steno_cpu_str(steno_cpu_detect(), cpu, sizeof cpu));
    steno_metrics_sample(m, "steno_build_info", "Version of the daemon.", labels, false, gauge_one,
                         NULL);
    register_models(srv);
    steno_metrics_sample(m, "steno_workers", "Threads that run networks.", "", false, workers, srv);
    steno_metrics_sample(m, "steno_workers_busy", "Threads that run a network now.", "", false,
                         workers_busy, srv);
    steno_metrics_sample(m, "steno_inference_steps_total", "Times a worker took a stream.", "",
                         true, steps, srv);
    steno_metrics_sample(m, "steno_decoders", "Processes of steno-decode.", "", false, decoders,
                         srv);
    steno_metrics_sample(m, "steno_draining", "1 from SIGTERM on.", "", false, draining, srv);
    register_process(srv, m);
}

steno_status steno_gauges_write(const struct steno_server *srv, bool open, struct steno_buf *out)
{
    register_models(srv);
    register_keys(srv);
    return open ? steno_metrics_write_open(srv->stats->registry, out)
                : steno_metrics_write(srv->stats->registry, out);
}
