#include "protocol/variant.h"

#include <string.h>

#include "protocol/query.h"

bool steno_variant_is_option(const char *name)
{
    return !strcmp(name, "quantized") || !strcmp(name, "compat");
}

static enum steno_choice choice(bool yes)
{
    return yes ? STENO_CHOICE_YES : STENO_CHOICE_NO;
}

steno_status steno_variant_set(struct steno_variant *v, const char *name, const char *value,
                               steno_err *err)
{
    bool yes;
    if (!strcmp(name, "quantized")) {
        steno_status st = steno_query_bool(name, value, &yes, err);
        if (!st)
            v->quantized = choice(yes);
        return st;
    }
    if (strcmp(name, "compat"))
        return steno_fail(err, STENO_ERR_INVAL,
                          "unknown option '%.40s', known are " STENO_VARIANT_NAMES, name);
    yes = !strcmp(value, STENO_COMPAT_NAME);
    if (!yes && strcmp(value, "none"))
        return steno_fail(err, STENO_ERR_INVAL,
                          "compat: '%.40s' is neither " STENO_COMPAT_NAME " nor none", value);
    v->compat = choice(yes);
    return STENO_OK;
}
