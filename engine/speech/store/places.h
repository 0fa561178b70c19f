/* Where files that ship with the program and fetched models lie. */
#ifndef STENO_STORE_PLACES_H
#define STENO_STORE_PLACES_H

#include "base/status.h"

#define STENO_PLACE_MAX 4096 /* bytes of a path */

/* Find a file or directory that ships with the program: TREE/conf/NAME if the executable is
 * TREE/build/..., as long as that exists, else DATADIR/steno/NAME, which may be missing. */
void steno_place_shipped(char out[STENO_PLACE_MAX], const char *name);

/* Directory i of fetched models; false past the last one. The first one is where this user's
 * models are put: the environment's STENO_DATA followed by "/models", which is then the only one;
 * for root /var/lib/steno/models; else $XDG_DATA_HOME/steno/models or ~/.local/share/steno/models,
 * with root's directory as the second one. */
bool steno_place_models(char out[STENO_PLACE_MAX], size_t i);
/* Where this user's voice prints are kept: "voices" beside the first of these. False: no place. */
bool steno_place_voices(char out[STENO_PLACE_MAX]);
/* Find the directory of a fetched model in the directories above. False if there is none. */
bool steno_place_fetched(char out[STENO_PLACE_MAX], const char *name);

#endif
