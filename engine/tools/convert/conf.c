#include "tools/convert/conf.h"

#include "base/list.h"

#include <string.h>

steno_status steno_conf_open(steno_yaml **out, const struct steno_bundle *b, const char *name,
                             size_t max, steno_err *err)
{
    struct steno_blob blob;
    steno_status st = steno_bundle_read(b, name, max, &blob, err);
    if (!st)
        st = steno_yaml_parse(out, blob.p, blob.n, name, err);
    steno_blob_close(&blob);
    return st;
}

steno_status steno_conf_int(const steno_yaml *y, const char *path, long min, long max, int64_t *out,
                            steno_err *err)
{
    long v = (long)*out;
    steno_status st = steno_yaml_int(y, path, min, max, &v, err);
    *out = v;
    return st;
}

steno_status steno_conf_unsupported(const steno_yaml *y, const char *path, const char *value,
                                    const char *known, steno_err *err)
{
    return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: %s: %.100s; known: %s", steno_yaml_name(y),
                      path, value, known);
}

/* Is v one of "a|b|c"? */
static bool among(const char *v, const char *known)
{
    const size_t n = strlen(v);
    for (const char *p = known; p; p = strchr(p, '|')) {
        p += *p == '|';
        if (n && !strncmp(p, v, n) && (p[n] == '|' || !p[n]))
            return true;
    }
    return false;
}

steno_status steno_conf_choice(const steno_yaml *y, const char *path, const char *known,
                               const char **out, steno_err *err)
{
    const char *v = NULL;
    steno_status st = steno_yaml_str(y, path, &v, err);
    if (st || !v)
        return st;
    if (!among(v, known))
        return steno_conf_unsupported(y, path, v, known, err);
    *out = v;
    return STENO_OK;
}

steno_status steno_conf_only(const steno_yaml *y, const char *path, const char *want,
                             steno_err *err)
{
    const struct steno_yaml_node *n = steno_yaml_find(y, path);
    if (steno_yaml_null(n) || (n->kind != STENO_YAML_SCALAR && !n->n) ||
        (n->kind == STENO_YAML_SCALAR && !strcmp(n->text, want)))
        return STENO_OK;
    return steno_conf_unsupported(y, path, n->kind == STENO_YAML_SCALAR ? n->text : "a list", want,
                                  err);
}

steno_status steno_conf_keys(const steno_yaml *y, const char *section, const char *known,
                             steno_err *err)
{
    const struct steno_yaml_node *s = steno_yaml_find(y, section);
    for (const struct steno_yaml_node *n = s ? s->first : NULL; n; n = n->next)
        if (n->key && !steno_list_holds(known, n->key))
            return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: line %zu: %s.%.80s is not known",
                              steno_yaml_name(y), n->line, section, n->key);
    return STENO_OK;
}
