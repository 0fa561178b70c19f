/* The answer to `status`. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/watch/admin.h"
#include "server/watch/gauges.h"

#define PAGE_BYTES (8 << 20)

static json_t *batches_of(const struct steno_pool_stats *p)
{
    json_t *list = json_array();
    for (int i = 0; i < STENO_POOL_BATCH_SIZES; i++)
        json_array_append_new(list, json_integer((json_int_t)p->batches[i]));
    return list;
}

static json_t *model_json(const struct steno_model_view *v)
{
    const struct steno_pool_stats *p = &v->pool;
    json_t *m = json_pack("{s:s, s:b, s:b, s:i, s:i, s:I, s:s, s:s, s:s}", "name", v->name,
                          "default", v->is_default, "loaded", v->loaded, "generation",
                          v->generation, "users", v->users, "weight_bytes", (json_int_t)v->bytes,
                          "family", v->family, "language", v->language, "version", v->version);
    json_t *pool;
    if (!m || !v->loaded)
        return m;
    pool = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "workers", p->workers, "busy",
                     p->busy, "active", p->active, "live", p->live, "places", p->places, "capacity",
                     p->capacity, "ready", p->ready, "batch_max", p->batch_max, "measuring",
                     p->measuring);
    json_object_set_new(pool, "batches", batches_of(p));
    json_object_set_new(pool, "steps", json_integer((json_int_t)p->steps));
    json_object_set_new(pool, "audio_seconds", json_real(p->audio_seconds));
    json_object_set_new(pool, "inference_seconds", json_real(p->inference_seconds));
    json_object_set_new(pool, "network_seconds", json_real(p->network_seconds));
    json_object_set_new(m, "pool", pool);
    return m;
}

static json_t *models_of(steno_models *models)
{
    json_t *list = json_array();
    struct steno_model_slot *slot;
    for (size_t i = 0; (slot = steno_models_slot(models, i)); i++) {
        struct steno_model_view v;
        steno_model_slot_view(slot, &v);
        json_array_append_new(list, model_json(&v));
    }
    return list;
}

/* The lines of the metrics page that are not comments, as "series": value. */
static json_t *metrics_of(struct steno_server *srv)
{
    struct steno_buf page;
    json_t *out = NULL;
    char *line, *rest;
    steno_buf_init(&page, PAGE_BYTES);
    if (!steno_gauges_write(srv, false, &page))
        out = json_object();
    for (line = out ? strtok_r(page.data, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *value = strrchr(line, ' ');
        double v;
        if (*line == '#' || !value)
            continue;
        *value = '\0';
        v = strtod(value + 1, NULL);
        json_object_set_new(out, line, isfinite(v) ? json_real(v) : json_null());
    }
    steno_buf_free(&page);
    return out;
}

steno_status steno_admin_status(struct steno_server *srv, struct steno_buf *out)
{
    json_t *root = json_pack("{s:s, s:I, s:I, s:b, s:o, s:o}", "version", steno_version(),
                             "started", (json_int_t)srv->started, "now", (json_int_t)time(NULL),
                             "draining", steno_limits_draining(srv->limits), "models",
                             models_of(srv->models), "metrics", metrics_of(srv));
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    steno_status st = text ? steno_buf_puts(out, text) : STENO_ERR_NOMEM;
    free(text);
    json_decref(root);
    return st;
}
