#include "protocol/vad.h"

#include <string.h>

steno_status steno_vad_choice_parse(const char *text, enum steno_vad_choice *out, steno_err *err)
{
    static const char *const names[] = {
        [STENO_VAD_OFF] = "off", [STENO_VAD_ENERGY] = "energy", [STENO_VAD_SILERO] = "silero"};
    for (int i = STENO_VAD_OFF; i <= STENO_VAD_SILERO; i++)
        if (!strcmp(text, names[i])) {
            *out = (enum steno_vad_choice)i;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL, "vad: '%.40s' is none of " STENO_VAD_NAMES, text);
}
