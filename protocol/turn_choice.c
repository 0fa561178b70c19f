#include "protocol/turn_choice.h"

#include <string.h>

steno_status steno_turn_kind_parse(const char *text, enum steno_turn_kind *out, steno_err *err)
{
    for (int i = STENO_TURN_SILENCE; i <= STENO_TURN_SEMANTIC; i++)
        if (!strcmp(text, steno_turn_kind_name((enum steno_turn_kind)i))) {
            *out = (enum steno_turn_kind)i;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL, "turn: '%.40s' is none of " STENO_TURN_NAMES, text);
}

const char *steno_turn_kind_name(enum steno_turn_kind kind)
{
    return kind == STENO_TURN_SILENCE ? "silence" : "semantic";
}
