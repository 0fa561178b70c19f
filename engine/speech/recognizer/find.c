/* Finds the model or detector to open: by its directory, by its name in the catalogue, or the
 * default one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "steno.h"
#include "speech/itn/itn.h"
#include "speech/punctuation/punctuation.h"
#include "speech/store/catalogue.h"
#include "speech/store/places.h"

#define SHIPPED "models/digits-en"
#define DETECTOR "silero-vad"
#define SPEAKERS "speakers"
#define TURN "smart-turn"

static bool has_model(const char *dir)
{
    return steno_path_readable(dir, "model.conf");
}

static bool ships(char out[STENO_PLACE_MAX], const char *name)
{
    char place[STENO_PLACE_MAX];
    if (strchr(name, '/') || *name == '.' ||
        snprintf(place, sizeof place, "models/%s", name) >= (int)sizeof place)
        return false;
    steno_place_shipped(out, place);
    return has_model(out);
}

/* A directory that someone else put among the fetched models. */
static bool in_models(char out[STENO_PLACE_MAX], const char *name)
{
    return !strchr(name, '/') && *name != '.' && steno_place_fetched(out, name);
}

/* The first model of the catalogue, in its order of preference, that is on this machine. */
static bool first_fetched(char out[STENO_PLACE_MAX])
{
    const struct steno_catalogue_model *m;
    steno_catalogue *c = NULL;
    bool found = false;
    if (steno_catalogue_open(&c, NULL, NULL))
        return false;
    for (size_t i = 0; !found && (m = steno_catalogue_at(c, i)); i++)
        found = steno_place_fetched(out, m->name) && !steno_vad_is_dir(out) &&
                !steno_speakers_is_dir(out) && !steno_turn_detector_is_dir(out) &&
                !steno_itn_is_dir(out) && !steno_punctuator_is_dir(out);
    steno_catalogue_close(c);
    return found;
}

/* A name that is no path may be one of the catalogue, of a directory among the fetched models, or
 * of a model that ships. *out is `given` where it is none of them. */
static steno_status resolve(char out[STENO_PLACE_MAX], const char *given, steno_err *err)
{
    const struct steno_catalogue_model *m = NULL, *alike;
    steno_catalogue *c = NULL;
    steno_status st = STENO_OK;
    if (access(given, F_OK) && !steno_catalogue_open(&c, NULL, NULL))
        m = steno_catalogue_find(c, given);
    if (m && !steno_place_fetched(out, m->name))
        st = steno_fail(err, STENO_ERR_IO,
                        "%s is not on this machine; `steno model fetch %s` downloads it", m->name,
                        m->name);
    else if (!m && !in_models(out, given) && !ships(out, given)) {
        alike = strchr(given, '/') ? NULL : steno_catalogue_similar(c, given);
        if (alike)
            st = steno_fail(err, STENO_ERR_IO,
                            "%s: no such directory, and no model of the catalogue (%s is known)",
                            given, alike->name);
        else if (snprintf(out, STENO_PLACE_MAX, "%s", given) >= STENO_PLACE_MAX)
            st = steno_fail(err, STENO_ERR_INVAL, "the path is too long");
    }
    steno_catalogue_close(c);
    return st;
}

/* What was named: `given`, else by the environment's variable; NULL: nothing. */
static const char *named(const char *given, const char *variable)
{
    const char *value = getenv(variable);
    if (given && *given)
        return given;
    return value && *value ? value : NULL;
}

static steno_status give(char **out, const char *found, steno_err *err)
{
    *out = strdup(found);
    return *out ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

steno_status steno_model_find(char **out, const char *given, steno_err *err)
{
    char found[STENO_PLACE_MAX] = "";
    const char *name = named(given, "STENO_MODEL");
    steno_status st = STENO_OK;
    if (name)
        st = resolve(found, name, err);
    else if (!first_fetched(found)) {
        steno_place_shipped(found, SHIPPED);
        if (!has_model(found))
            st = steno_fail(err, STENO_ERR_IO,
                            "no model: none given, STENO_MODEL not set, none fetched (steno model "
                            "fetch), nothing in %s",
                            found);
    }
    return st ? st : give(out, found, err);
}

steno_status steno_vad_find(char **out, const char *given, steno_err *err)
{
    char found[STENO_PLACE_MAX] = "";
    steno_status st = STENO_OK;
    if (given)
        st = resolve(found, given, err);
    else if (!steno_place_fetched(found, DETECTOR) || !steno_vad_is_dir(found))
        st = steno_fail(err, STENO_ERR_IO,
                        DETECTOR " is not on this machine; `steno model fetch " DETECTOR
                                 "` downloads it");
    return st ? st : give(out, found, err);
}

/* A network beside the models: as named, else the one of the catalogue. absent: what to say of the
 * latter. */
static steno_status find_beside(char **out, const char *given, const char *variable,
                                const char *fallback, const char *absent, steno_err *err)
{
    char found[STENO_PLACE_MAX] = "";
    const char *name = named(given, variable);
    steno_status st = STENO_OK;
    if (name)
        st = resolve(found, name, err);
    else if (!steno_place_fetched(found, fallback))
        st = steno_fail(err, STENO_ERR_IO, "%s; `steno model fetch %s` downloads what is needed",
                        absent, fallback);
    return st ? st : give(out, found, err);
}

steno_status steno_speakers_find(char **out, const char *given, steno_err *err)
{
    return find_beside(out, given, "STENO_SPEAKERS", SPEAKERS,
                       "no networks that tell speakers apart are on this machine", err);
}

steno_status steno_turn_detector_find(char **out, const char *given, steno_err *err)
{
    return find_beside(out, given, "STENO_TURN", TURN,
                       "the network for ends of turns is not on this machine", err);
}
