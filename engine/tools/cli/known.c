#include "tools/cli/known.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "speech/store/places.h"

#define PRINT_SECONDS 60 /* of a recording that are listened to */

steno_status cli_print_make(const steno_speakers *s, const char *path, float *out, double *seconds,
                            steno_err *err)
{
    struct steno_recording_info info;
    steno_recording *r;
    float *pcm;
    size_t most, have = 0, n = 1;
    steno_status st = steno_recording_open(&r, path, 0, err);
    if (st)
        return st; /* names the path */
    steno_recording_get_info(r, &info);
    most = PRINT_SECONDS * (size_t)info.sample_rate;
    pcm = malloc(most * sizeof *pcm);
    if (!pcm)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (; !st && n && have < most; have += n)
        st = steno_recording_read(r, pcm + have, most - have, &n, err);
    if (!st)
        st = steno_speaker_print_make(s, info.sample_rate, pcm, have, out, seconds, err);
    free(pcm);
    steno_recording_close(r);
    return st ? steno_fail_in(err, st, "%s", path) : STENO_OK;
}

/* *out: NULL: nobody. */
static steno_status open_enrolled(steno_enrolled **out, const char *dir, const steno_speakers *s,
                                  steno_err *err)
{
    char place[STENO_PLACE_MAX];
    *out = NULL;
    if (dir && !strcmp(dir, "none"))
        return STENO_OK;
    if (!dir && !steno_place_voices(place))
        return STENO_OK;
    return steno_enrolled_open(out, dir ? dir : place, s, err);
}

/* Take one that was given as "NAME=FILE". */
static steno_status take_given(struct cli_known *k, size_t i, const steno_speakers *s,
                               steno_err *err)
{
    const char *text = k->given.v[i], *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1])
        return steno_fail(err, STENO_ERR_INVAL, "--known: '%.80s' is not NAME=FILE", text);
    k->names[i] = strndup(text, (size_t)(eq - text));
    return k->names[i]
               ? cli_print_make(s, eq + 1, k->prints + i * steno_speaker_print_floats(s), NULL, err)
               : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

static steno_status take_all(struct cli_known *k, const steno_enrolled *e, const steno_speakers *s,
                             steno_err *err)
{
    const size_t given = (size_t)k->given.n, floats = steno_speaker_print_floats(s);
    struct steno_enrolled_speaker who;
    k->n = given + (e ? steno_enrolled_count(e) : 0);
    k->prints = calloc(k->n * floats + 1, sizeof *k->prints);
    k->names = calloc(k->n + 1, sizeof *k->names);
    if (!k->prints || !k->names)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < given; i++) {
        const steno_status st = take_given(k, i, s, err);
        if (st)
            return st;
    }
    if (k->n > given)
        memcpy(k->prints + given * floats, steno_enrolled_prints(e),
               (k->n - given) * floats * sizeof *k->prints);
    for (size_t i = given; i < k->n && steno_enrolled_at(e, i - given, &who); i++) {
        k->names[i] = strdup(who.name);
        if (!k->names[i])
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    return STENO_OK;
}

int cli_known_open(struct cli_known *k, const steno_speakers *s)
{
    steno_err err = {0};
    steno_enrolled *e;
    const char *dir = k->enrolled_dir;
    int rc = dir && strcmp(dir, "none") != 0 ? cli_readable(dir) : EX_OK;
    for (int i = 0; rc == EX_OK && i < k->given.n; i++) {
        const char *eq = strchr(k->given.v[i], '=');
        rc = eq && eq[1] ? cli_readable(eq + 1) : EX_OK;
    }
    if (rc != EX_OK)
        return rc;
    if (open_enrolled(&e, dir, s, &err) || take_all(k, e, s, &err))
        rc = cli_fail(&err);
    steno_enrolled_close(e);
    return rc;
}

steno_status cli_known_names(const struct cli_known *k, const steno_speakers *s,
                             const steno_diarization *d, const char ***out, steno_err *err)
{
    const size_t n = (size_t)steno_diarization_speakers(d);
    int *who = malloc((n + 1) * sizeof *who);
    const char **names = calloc(n + 1, sizeof *names);
    steno_status st = who && names ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_diarization_identify(d, s, k->prints, k->n, 0, who, err);
    for (size_t i = 0; !st && i < n; i++)
        names[i] = who[i] < 0 ? NULL : k->names[who[i]];
    free(who);
    if (st)
        free(names);
    else
        *out = names;
    return st;
}

void cli_known_close(struct cli_known *k)
{
    for (size_t i = 0; k->names && i < k->n; i++)
        free(k->names[i]);
    free(k->names);
    free(k->prints);
    cli_list_free(&k->given);
}
