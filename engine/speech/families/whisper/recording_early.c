/* An end that is taken back if samples follow. Steps behind it work on the recording itself, which
 * keeps what they change: a copy of the recording would have a second window of keys and values. */
#include "speech/families/whisper/recording_internal.h"

/* The copy has a context of its own, whose memory is used again. */
static steno_status copy_place(struct steno_whisper_place *to,
                               const struct steno_whisper_place *from, steno_err *err)
{
    struct steno_whisper_pieces context = to->context;
    steno_status st;
    context.n = 0;
    st = steno_whisper_pieces_add(&context, from->context.ids, from->context.n, err);
    if (st)
        return st;
    *to = *from;
    to->context = context;
    return STENO_OK;
}

steno_status steno_whisper_recording_end_early(steno_whisper_recording *r, steno_err *err)
{
    steno_status st = copy_place(&r->early.was, &r->at, err);
    if (!st && r->live)
        st = steno_whisper_live_keep(r->live, err);
    if (!st)
        st = steno_whisper_mel_end_early(r->mel, err);
    if (st)
        return st;
    r->ended = r->early.ended = true;
    return STENO_OK;
}

void steno_whisper_recording_resume(steno_whisper_recording *r)
{
    const struct steno_whisper_place dropped = r->at;
    if (!r->early.ended)
        return;
    steno_whisper_end_times(r);
    r->at = r->early.was;
    r->early.was = dropped; /* for the memory of its context */
    if (r->live)
        steno_whisper_live_restore(r->live);
    steno_whisper_mel_resume(r->mel);
    r->n_cuts = r->n_read = 0;
    r->ended = r->early.ended = r->forced = r->encoded = false;
    r->phase = STENO_WHISPER_LISTENING;
}
