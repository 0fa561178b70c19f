#include "tools/convert/convert.h"

#include "tools/convert/output.h"
#include "tools/convert/sources.h"

#include <string.h>

const char *steno_convert_flag(const struct steno_convert_options *o, const char *name)
{
    for (int i = 0; i < o->n_flags; i++)
        if (o->flag[i].value && !strcmp(o->flag[i].name, name))
            return o->flag[i].value;
    return NULL;
}

/* The first whose probe knows the files is taken: Whisper before icefall, which takes every file of
 * torch.save. */
static const struct steno_convert_source *const sources[] = {
    &steno_source_espnet,   &steno_source_hf,      &steno_source_wenet, &steno_source_whisper,
    &steno_source_speakers, &steno_source_icefall, &steno_source_nemo};
#define N_SOURCES (sizeof sources / sizeof *sources)

static steno_status unknown(const char *in, steno_err *err)
{
    char known[300 * N_SOURCES] = "";
    for (size_t i = 0; i < N_SOURCES; i++) {
        strncat(known, i ? "; " : "", sizeof known - strlen(known) - 1);
        strncat(known, sources[i]->known, sizeof known - strlen(known) - 1);
    }
    return steno_fail(err, STENO_ERR_UNSUPPORTED,
                      "%s: not a checkpoint that can be converted; known are %s", in, known);
}

static steno_status check_request(const struct steno_convert_source *s, const char *out,
                                  const struct steno_convert_options *o, steno_err *err)
{
    for (int i = 0; i < o->n_flags; i++)
        if (o->flag[i].value && !(s->takes && s->takes(o->flag[i].name)))
            return steno_fail(err, STENO_ERR_INVAL, "--%s: checkpoints of %s take no such option",
                              o->flag[i].name, s->name);
    return strlen(out) > STENO_OUTPUT_DIR
               ? steno_fail(err, STENO_ERR_INVAL, "a path of %zu bytes", strlen(out))
               : STENO_OK;
}

steno_status steno_convert(const char *in, const char *out, const struct steno_convert_options *o,
                           const char **what, steno_err *err)
{
    struct steno_bundle b;
    const struct steno_convert_source *s = NULL;
    steno_status st = steno_bundle_open(&b, in, err);
    if (st == STENO_ERR_IO || st == STENO_ERR_NOMEM)
        return st;
    for (size_t i = 0; i < N_SOURCES && !s; i++)
        if (sources[i]->probe(&b))
            s = sources[i];
    if (s) {
        *what = s->name;
        st = check_request(s, out, o, err);
        st = st ? st : s->convert(&b, out, o, err);
    } else {
        st = unknown(in, err);
    }
    steno_bundle_close(&b);
    return st;
}
