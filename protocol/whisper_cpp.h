/* The form of whisper.cpp's server (POST /inference; examples/server/server.cpp and
 * examples/server-common.cpp of ggml-org/whisper.cpp, 2026): fields become a struct, transcripts
 * become its answers. Pure.
 *
 * What both have is read into OpenAI's request. Functions that append return STENO_ERR_LIMIT or
 * STENO_ERR_NOMEM of the buffer. */
#ifndef STENO_PROTOCOL_WHISPER_CPP_H
#define STENO_PROTOCOL_WHISPER_CPP_H

#include "protocol/openai_rest.h"
#include "protocol/options.h"
#include "protocol/subtitle.h"

#define STENO_WHISPER_CPP_CUES 1000000 /* the largest offset_n */

struct steno_whisper_cpp_wants { /* zero-initialised = nothing given */
    /* Options of the search, for the models that have them; others ignore them. */
    struct steno_options options;
    int beam;       /* beam_size; 0 = the model's default */
    int max_len;    /* characters of a cue; 0 = two lines of subtitles */
    int offset_n;   /* cues before the first */
    double seconds; /* duration: of the recording, from its beginning; 0 = all */
    bool detect;    /* detect_language: nothing else */
    bool speakers;  /* diarize: the channels are speakers */
    bool no_times;  /* no_timestamps: neither of segments nor of words */
    bool no_word_times;
    bool no_probabilities; /* no_language_probabilities */
};

/* Whether the form has a field of this name that has an effect here. */
bool steno_whisper_cpp_known(const char *name);
/* Take one text field of the form; an empty one counts as absent, and an unknown one, like one
 * without effect here, is ignored. STENO_ERR_INVAL names the field; *param receives its name
 * (static). */
STENO_MUST steno_status steno_whisper_cpp_field(struct steno_openai_request *ask,
                                                struct steno_whisper_cpp_wants *wants,
                                                const char *name, const char *value, size_t len,
                                                const char **param, steno_err *err);

struct steno_whisper_cpp_about {
    const struct steno_whisper_cpp_wants *wants;
    struct steno_subtitle_options subtitle; /* max_len goes before */
    double temperature;                     /* asked for */
    bool detected;                          /* the request named no language */
};
/* Append the answer in a format: a line of text for each segment; {"text"}; {"task", "language",
 * "duration", "text", "segments": [{"id", "text", "start"?, "end"?, "speaker"?, "words", "tokens",
 * "temperature", "avg_logprob", "no_speech_prob"}], "detected_language"?,
 * "detected_language_probability"?, "language_probabilities"?}; or subtitles as subtitle.h makes
 * them, with a blank line after each cue. A format that the form lacks is as json. */
STENO_MUST steno_status steno_whisper_cpp_write(struct steno_buf *out,
                                                enum steno_openai_format format,
                                                const struct steno_openai_result *r,
                                                const struct steno_whisper_cpp_about *about);
/* Append {"error": "MESSAGE"}. */
STENO_MUST steno_status steno_whisper_cpp_write_error(struct steno_buf *out, const char *message);

#endif
