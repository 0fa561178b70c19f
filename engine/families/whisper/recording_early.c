/* An end that is taken back if samples follow. Steps behind it work on the recording itself, which
 * keeps what they change: a copy of the recording would have a second window of keys and values. */
#include "families/whisper/recording_internal.h"

steno_status steno_whisper_recording_end_early(steno_whisper_recording *r, steno_err *err)
{
    struct steno_whisper_early *e = &r->early;
    steno_status st;
    e->language = r->language;
    e->first_language = r->first_language;
    e->heard = r->heard;
    e->language_probability = r->language_probability;
    e->last_speech = r->last_speech;
    e->windows = r->windows;
    e->seek = r->seek;
    e->size = r->size;
    e->next_seek = r->next_seek;
    e->context.n = 0;
    st = steno_whisper_pieces_add(&e->context, r->context.ids, r->context.n, err);
    if (!st && r->live)
        st = steno_whisper_live_keep(r->live, err);
    if (!st)
        st = steno_whisper_mel_end_early(r->mel, err);
    if (st)
        return st;
    r->ended = e->ended = true;
    return STENO_OK;
}

void steno_whisper_recording_resume(steno_whisper_recording *r)
{
    struct steno_whisper_early *e = &r->early;
    const struct steno_whisper_pieces used = r->context;
    if (!e->ended)
        return;
    steno_whisper_end_times(r);
    r->language = e->language;
    r->first_language = e->first_language;
    r->heard = e->heard;
    r->language_probability = e->language_probability;
    r->last_speech = e->last_speech;
    r->windows = e->windows;
    r->seek = e->seek;
    r->size = e->size;
    r->next_seek = e->next_seek;
    r->context = e->context;
    e->context = used;
    if (r->live)
        steno_whisper_live_restore(r->live);
    steno_whisper_mel_resume(r->mel);
    r->n_cuts = r->n_read = 0;
    r->ended = e->ended = r->forced = r->encoded = false;
    r->phase = STENO_WHISPER_LISTENING;
}
