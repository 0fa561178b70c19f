/* How the ends of turns of a live session are found: by silence alone, or by a network that judges
 * pauses (docs/turns.md). Pure. */
#ifndef STENO_PROTOCOL_TURN_CHOICE_H
#define STENO_PROTOCOL_TURN_CHOICE_H

#include "base/status.h"

enum steno_turn_kind {
    STENO_TURN_SILENCE,
    STENO_TURN_SEMANTIC, /* a server without the network refuses */
    STENO_TURN_IF_THERE  /* silence, if the server has no network */
};
#define STENO_TURN_NAMES "silence, semantic"

struct steno_turn_choice {
    enum steno_turn_kind kind;
    double threshold; /* from which probability on a pause is an end; 0 = the default */
    double early;     /* from which on it may be one, where a network judges; 0 = not told */
    double wait; /* s of silence that end the turn whatever the network says; 0 = the endpoint rule,
                  * or STENO_TURN_WAIT if the client gave none */
};
#define STENO_TURN_WAIT 3.0 /* s, as in pipecat */

/* Parse a kind that clients may name. STENO_ERR_INVAL names the value and what is allowed. */
STENO_MUST steno_status steno_turn_kind_parse(const char *text, enum steno_turn_kind *out,
                                              steno_err *err);
/* Its name. */
const char *steno_turn_kind_name(enum steno_turn_kind kind);

#endif
