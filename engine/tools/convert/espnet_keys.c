#include "tools/convert/espnet_job.h"

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
    return steno_conf_int(y, path, min, max, out, j->err);
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
    return steno_conf_unsupported(y, path, value, known, j->err);
}

steno_status steno_espnet_check_keys(struct steno_espnet_job *j, const steno_yaml *y,
                                     const char *section, const char *known)
{
    return steno_conf_keys(y, section, known, j->err);
}

steno_status steno_espnet_only(struct steno_espnet_job *j, const steno_yaml *y, const char *path,
                               const char *want)
{
    return steno_conf_only(y, path, want, j->err);
}
