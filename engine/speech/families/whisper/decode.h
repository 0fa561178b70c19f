/* One window decoded: temperatures are tried until the text is good (openai/whisper,
 * whisper/transcribe.py, decode_with_fallback; faster-whisper's choice where none is). */
#ifndef STENO_FAMILIES_WHISPER_DECODE_H
#define STENO_FAMILIES_WHISPER_DECODE_H

#include "speech/families/whisper/search.h"

#define STENO_WHISPER_MAX_TEXT 224
#define STENO_WHISPER_MAX_TEMPERATURES 8

struct steno_whisper_decode_options {
    struct steno_whisper_search_options search; /* its temperature is not read */
    float temperatures[STENO_WHISPER_MAX_TEMPERATURES];
    size_t n_temperatures; /* >= 1 */
    /* A text that compresses by more, or is less likely, is tried again; INFINITY, -INFINITY: never
     */
    float compression, log_prob;
    float no_speech; /* more likely than that, and the text unlikely: silence; INFINITY: never */
    /* Where speech is as unlikely as that, a text that repeats itself is silence too, and no other
     * temperature is tried: on noise the first one that does not loop would be believed. Not
     * faster-whisper's. */
    bool loops_are_silence;
    /* Where speech is as unlikely as that, a text less likely than this is silence: as log_prob,
     * where that is higher. faster-whisper has log_prob alone, and writes "You" for zeros and
     * "Thank you." for music. -INFINITY: log_prob alone. */
    float silence_log_prob;
};

/* Beam of 5, best of 5, temperatures 0 to 1 by 0.2, 2.4, -1, 0.6: faster-whisper's defaults. */
struct steno_whisper_decode_options steno_whisper_decode_default(const struct steno_whisper *m);

struct steno_whisper_decoded {
    int32_t ids[STENO_WHISPER_MAX_TEXT];
    float log_probs[STENO_WHISPER_MAX_TEXT + 1]; /* of each piece, and of the end where it ended */
    size_t n;
    bool ended;
    double sum, avg_log_prob; /* sum / (n + 1) */
    float no_speech, compression, temperature;
};

/* One window's temperatures, a step at a time, as search.h has it. Confined. */
typedef struct steno_whisper_decoder steno_whisper_decoder;
STENO_MUST steno_status steno_whisper_decoder_open(steno_whisper_decoder **out,
                                                   const struct steno_whisper *m, steno_err *err);
void steno_whisper_decoder_close(steno_whisper_decoder *d);
/* state has the window. Errors as of steno_whisper_search_start. */
STENO_MUST steno_status steno_whisper_decoder_start(steno_whisper_decoder *d,
                                                    const struct steno_whisper_decode_options *o,
                                                    steno_whisper_state *state,
                                                    const int32_t *prompt, size_t n,
                                                    steno_err *err);
/* What it wants of the next step; false: the result is there. */
bool steno_whisper_decoder_ask(steno_whisper_decoder *d, struct steno_whisper_ask *ask);
STENO_MUST steno_status steno_whisper_decoder_take(steno_whisper_decoder *d,
                                                   const struct steno_whisper_ask *ask,
                                                   steno_err *err);
const struct steno_whisper_decoded *steno_whisper_decoder_result(const steno_whisper_decoder *d);

/* Texts of the search that the result is from [n], at most max, the result first; valid until the
 * next start. Returns n: 0 if other temperatures were tried after it. */
size_t steno_whisper_decoder_texts(const steno_whisper_decoder *d, struct steno_whisper_text *out,
                                   size_t max);

/* Set d->compression by its pieces. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_decoded_measure(const struct steno_whisper *m,
                                                      struct steno_whisper_decoded *d,
                                                      steno_err *err);
/* Silence: no text is to be written. */
bool steno_whisper_decoded_silent(const struct steno_whisper_decode_options *o,
                                  const struct steno_whisper_decoded *d);

/* First byte and number of bytes of text [n] without the white space at its ends (Python's strip).
 */
const char *steno_whisper_strip(const char *text, size_t n, size_t *len);

#endif
