/* One window decoded: temperatures are tried until the text is good (openai/whisper,
 * whisper/transcribe.py, decode_with_fallback; faster-whisper's choice where none is). */
#ifndef STENO_FAMILIES_WHISPER_DECODE_H
#define STENO_FAMILIES_WHISPER_DECODE_H

#include "families/whisper/search.h"

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

/* The runner and search are lent; state has the window. */
STENO_MUST steno_status steno_whisper_decode(steno_whisper_runner *r, steno_whisper_search *s,
                                             steno_whisper_state *state,
                                             const struct steno_whisper_decode_options *o,
                                             const int32_t *prompt, size_t n,
                                             struct steno_whisper_decoded *out, steno_err *err);
/* Silence: no text is to be written. */
bool steno_whisper_decoded_silent(const struct steno_whisper_decode_options *o,
                                  const struct steno_whisper_decoded *d);

/* Probability of each language [n_languages of the model] from a window that state has; out is in
 * the order of tokens.h. Of a model for English alone: 1 for English. */
STENO_MUST steno_status steno_whisper_languages(steno_whisper_runner *r, steno_whisper_state *state,
                                                float *out, steno_err *err);

/* First byte and number of bytes of text [n] without the white space at its ends (Python's strip).
 */
const char *steno_whisper_strip(const char *text, size_t n, size_t *len);

#endif
