/* The choice of a speech detector in a request or the configuration: whether windows without speech
 * go through the network, and which detector decides. Pure. */
#ifndef STENO_PROTOCOL_VAD_H
#define STENO_PROTOCOL_VAD_H

#include "base/status.h"

enum steno_vad_choice {
    STENO_VAD_UNSET, /* the server's choice */
    STENO_VAD_OFF,
    STENO_VAD_ENERGY,
    STENO_VAD_SILERO
};
#define STENO_VAD_NAMES "off, energy, silero"

/* Parse a choice. STENO_ERR_INVAL names the value and what is allowed. */
STENO_MUST steno_status steno_vad_choice_parse(const char *text, enum steno_vad_choice *out,
                                               steno_err *err);

#endif
