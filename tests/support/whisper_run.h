/* A Whisper model without a recognizer, and a whole recording through it. */
#ifndef STENO_TESTS_WHISPER_RUN_H
#define STENO_TESTS_WHISPER_RUN_H

#include "speech/families/whisper/recording.h"

struct whisper_net {
    struct steno_whisper *m;
    steno_whisper_runner *r;
};
/* Fails the test if the model cannot be opened. */
void whisper_net_open(struct whisper_net *net, const char *path, enum steno_precision precision);
void whisper_net_close(struct whisper_net *net);

struct whisper_sink {
    void (*segment)(void *arg, const struct steno_whisper_segment *s);
    /* before a window's segments; or NULL */
    void (*window)(void *arg, const int32_t *prompt, size_t n,
                   const struct steno_whisper_decoded *d);
    void *arg;
};

/* pcm [n] in pieces of `piece` samples, 0: all at once. *language, *probability: as of
 * steno_whisper_recording_language. */
STENO_MUST steno_status whisper_run(steno_whisper_runner *r, const float *pcm, size_t n,
                                    size_t piece, const struct steno_whisper_recording_options *o,
                                    const struct whisper_sink *sink, int *language,
                                    float *probability, steno_err *err);

#endif
