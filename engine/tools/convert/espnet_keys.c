#include "tools/convert/espnet_job.h"

#include <string.h>

steno_status steno_espnet_read_yaml(struct steno_espnet_job *j, const char *name, steno_yaml **out)
{
    struct steno_blob blob;
    steno_status st = steno_bundle_read(j->b, name, STENO_ESPNET_MAX_YAML, &blob, j->err);
    if (!st)
        st = steno_yaml_parse(out, blob.p, blob.n, name, j->err);
    steno_blob_close(&blob);
    return st;
}

steno_status steno_espnet_int(struct steno_espnet_job *j, const steno_yaml *y, const char *path,
                              long min, long max, int64_t *out)
{
    long v = (long)*out;
    steno_status st = steno_yaml_int(y, path, min, max, &v, j->err);
    *out = v;
    return st;
}

steno_status steno_espnet_text(struct steno_espnet_job *j, const steno_yaml *y, const char *path,
                               const char **out)
{
    return steno_yaml_str(y, path, out, j->err);
}

steno_status steno_espnet_flag(struct steno_espnet_job *j, const steno_yaml *y, const char *path,
                               bool *out)
{
    return steno_yaml_bool(y, path, out, j->err);
}

steno_status steno_espnet_unsupported(struct steno_espnet_job *j, const steno_yaml *y,
                                      const char *path, const char *value, const char *known)
{
    return steno_fail(j->err, STENO_ERR_UNSUPPORTED, "%s: %s: %.100s; known: %s",
                      steno_yaml_name(y), path, value, known);
}

bool steno_espnet_one_of(const char *v, const char *const *known)
{
    for (; *known; known++)
        if (!strcmp(v, *known))
            return true;
    return false;
}

steno_status steno_espnet_check_keys(struct steno_espnet_job *j, const steno_yaml *y,
                                     const char *section, const char *const *known)
{
    const struct steno_yaml_node *s = steno_yaml_find(y, section);
    for (const struct steno_yaml_node *n = s ? s->first : NULL; n; n = n->next)
        if (n->key && !steno_espnet_one_of(n->key, known))
            return steno_fail(j->err, STENO_ERR_UNSUPPORTED, "%s: line %zu: %s.%.80s is not known",
                              steno_yaml_name(y), n->line, section, n->key);
    return STENO_OK;
}

steno_status steno_espnet_only(struct steno_espnet_job *j, const steno_yaml *y, const char *path,
                               const char *want)
{
    const struct steno_yaml_node *n = steno_yaml_find(y, path);
    if (steno_yaml_null(n) || (n->kind != STENO_YAML_SCALAR && !n->n) ||
        (n->kind == STENO_YAML_SCALAR && !strcmp(n->text, want)))
        return STENO_OK;
    return steno_espnet_unsupported(j, y, path, n->kind == STENO_YAML_SCALAR ? n->text : "a list",
                                    want);
}
