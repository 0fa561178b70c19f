/* What the family's model and its streams share. */
#ifndef STENO_FAMILIES_WHISPER_INTERNAL_H
#define STENO_FAMILIES_WHISPER_INTERNAL_H

#include "speech/families/family.h"
#include "speech/families/whisper/recording.h"
#include "speech/text/tokens.h"

/* Frozen. */
struct steno_whisper_model {
    struct steno_whisper *net;
    steno_tokens *tokens; /* of steno_whisper_spellings_open */
    struct steno_whisper_recording_options defaults;
    int32_t *suppressed; /* of defaults, where an option names them; or NULL */
    char *dir;
    char name[256];
    char languages[400]; /* codes, with blanks between */
    const char *format;
};

/* Byte-level pieces as a list of tokens that words are made of: number i is regular piece i where
 * that is whole characters, and number count + b is byte b, for all others. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_spellings_open(steno_tokens **out, const steno_bpe *b,
                                                     const char *name, steno_err *err);
/* Piece i is spelled by its bytes. */
bool steno_whisper_is_broken(const steno_tokens *t, int32_t id);

/* options.c: the family's table; options of it into the settings of a recording (STENO_ERR_INVAL);
 * hints likewise, whose texts are copied: *texts is the caller's to free, after the recordings.
 * *suppressed, NULL or the io's list of pieces that are never sampled, likewise. */
#define STENO_WHISPER_N_OPTIONS 21
extern const struct steno_option_info steno_whisper_options[STENO_WHISPER_N_OPTIONS];
STENO_MUST steno_status steno_whisper_options_apply(const struct steno_whisper *m,
                                                    const struct steno_option *options, size_t n,
                                                    struct steno_whisper_recording_options *io,
                                                    int32_t **suppressed, steno_err *err);
STENO_MUST steno_status steno_whisper_hints_apply(const struct steno_hints *h,
                                                  const char *vocabulary,
                                                  struct steno_whisper_recording_options *io,
                                                  char **texts, steno_err *err);

/* As of struct steno_family. */
steno_status steno_whisper_state_new(void **state, void *model, struct steno_family_stream *o,
                                     steno_err *err);
void steno_whisper_state_free(void *state);
steno_status steno_whisper_reset(void *state, enum steno_reset what, steno_err *err);
steno_status steno_whisper_worker_open(void **worker, void *model, int max, steno_err *err);
void steno_whisper_worker_close(void *worker);
void steno_whisper_step_items(void *worker, struct steno_step_item *items, size_t n, int size,
                              struct steno_network_time *spent);
steno_status steno_whisper_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                      size_t *n, size_t *stable);
steno_status steno_whisper_accept(void *state, const float *pcm, size_t dropped, size_t end,
                                  bool *due);
size_t steno_whisper_accepted(const void *state);
size_t steno_whisper_missing(const void *state);
double steno_whisper_share(const void *state);

#endif
