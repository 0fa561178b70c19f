#include "server/live/ws_turn.h"

steno_status steno_ws_turn(const struct steno_server *srv, const struct steno_native_start *s,
                           struct steno_pool_stream_options *opt, steno_err *err)
{
    double *silence = &opt->stream.endpoint.silence_after;
    if (s->turn.kind == STENO_TURN_SILENCE || !s->endpointing)
        return STENO_OK;
    if (!srv->turn)
        return s->turn.kind == STENO_TURN_IF_THERE
                   ? STENO_OK
                   : steno_fail(err, STENO_ERR_INVAL,
                                "turn: the server has no network that judges turns (steno model "
                                "fetch smart-turn, or turn.model)");
    opt->turn = srv->turn;
    opt->turn_threshold = s->turn.threshold;
    opt->turn_early = s->turn.early;
    if (s->turn.early > 0) /* the network tells, not silence */
        opt->stream.utterance_end = 0;
    if (s->turn.wait > 0)
        *silence = s->turn.wait;
    else if (!(*silence > 0))
        *silence = STENO_TURN_WAIT;
    return STENO_OK;
}
