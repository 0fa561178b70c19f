/* Speakers of recordings for the commands that tell them apart. */
#ifndef STENO_CLI_VOICES_H
#define STENO_CLI_VOICES_H

#include "tools/cli/options.h"
#include "steno.h"

struct cli_voice_options {
    long speakers, min, max, threads;
    double threshold;
    double latency; /* s, of a Sortformer live; 0: its own */
};
#define CLI_VOICE_OPTIONS(V)                                                                       \
    CLI_ROW("--speakers", CLI_NUMBER, "N", &(V)->speakers, 1, 1000,                                \
            "how many there are, if known"),                                                       \
        CLI_ROW("--min", CLI_NUMBER, "N", &(V)->min, 1, 1000, "there are at least N"),             \
        CLI_ROW("--max", CLI_NUMBER, "N", &(V)->max, 1, 1000, "there are at most N"),              \
        CLI_ROW("--threshold", CLI_REAL, "T", &(V)->threshold, 0, 0,                               \
                "cosine distance from which two voices are two speakers, above 0 to 2"),           \
        CLI_ROW("--threads", CLI_NUMBER, "N", &(V)->threads, 1, 256,                               \
                "threads of the engine (default 1)")

/* Check the options, and open the networks. Returns an exit code; an error is printed. */
int cli_voices_open(steno_speakers **out, const char *dir, const struct cli_voice_options *o);
/* Begin the diarization of a recording that will be pushed. */
STENO_MUST steno_status cli_voices_begin(steno_diarization **out, const steno_speakers *s,
                                         int sample_rate, const struct cli_voice_options *o,
                                         steno_err *err);
/* Diarize a recording. Errors name it. */
STENO_MUST steno_status cli_voices_of(steno_diarization **out, const steno_speakers *s,
                                      const char *path, int channel,
                                      const struct cli_voice_options *o, steno_err *err);
/* The speakers of a recording as they are told live, one at a time. */
struct cli_live_turns {
    struct steno_turn *turn; /* [n]; belongs to the caller: free */
    size_t n;
    double seconds; /* of audio */
    int speakers;
    int person[STENO_LIVE_SPEAKERS]; /* which known voice a speaker is; -1: none */
};
/* Tell them. most: as max_speakers of steno_live_speakers_open; prints: [n] of known voices. Errors
 * name the recording. */
STENO_MUST steno_status cli_voices_live(struct cli_live_turns *out, const steno_speakers *s,
                                        const char *path, int channel, int most,
                                        const float *prints, size_t n, steno_err *err);

#endif
