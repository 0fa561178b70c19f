/* The form of whisper-asr-webservice (POST /asr and /detect-language; app/webservice.py of
 * ahmetoner/whisper-asr-webservice 1.8, with the JSON of its default engine openai_whisper), which
 * Bazarr speaks: parameters of the query become a struct, transcripts become its answers. Pure.
 *
 * What both have is read into OpenAI's request. Functions that append return STENO_ERR_LIMIT or
 * STENO_ERR_NOMEM of the buffer. */
#ifndef STENO_PROTOCOL_WHISPER_ASR_H
#define STENO_PROTOCOL_WHISPER_ASR_H

#include "protocol/openai_rest.h"
#include "protocol/subtitle.h"

#define STENO_WHISPER_ASR_RATE 16000 /* Hz, of samples without a header: mono, s16le */

enum steno_whisper_asr_output {
    STENO_WHISPER_ASR_TXT,
    STENO_WHISPER_ASR_JSON,
    STENO_WHISPER_ASR_SRT,
    STENO_WHISPER_ASR_VTT,
    STENO_WHISPER_ASR_TSV
};

struct steno_whisper_asr_wants { /* zero-initialised = nothing given */
    enum steno_whisper_asr_output output;
    bool raw;   /* encode=false: the recording is samples without a header */
    bool words; /* in JSON */
    struct steno_subtitle_options subtitle;
};

/* Take a pair of the query; an empty value counts as absent, and an unknown name, like one without
 * effect here, is ignored. STENO_ERR_INVAL names the parameter. */
STENO_MUST steno_status steno_whisper_asr_query(struct steno_openai_request *ask,
                                                struct steno_whisper_asr_wants *wants,
                                                const char *name, const char *value,
                                                steno_err *err);
/* "txt", "json", ...: the extension of the answer's file name. */
const char *steno_whisper_asr_extension(enum steno_whisper_asr_output output);
/* Append the answer: a line of text for each segment; {"text", "segments": [{"id", "seek", "start",
 * "end", "text", "tokens", "temperature", "avg_logprob", "compression_ratio", "no_speech_prob",
 * "speaker"?, "words"?}], "language"}, with WhisperX's labels of speakers ("SPEAKER_00"), which
 * lines of text have too; subtitles as subtitle.h makes them, with a blank line after each cue; or
 * lines of start and end in ms and text, with tabs between. */
STENO_MUST steno_status steno_whisper_asr_write(struct steno_buf *out,
                                                const struct steno_openai_result *r,
                                                const struct steno_whisper_asr_wants *wants);
/* Append {"detected_language", "language_code", "confidence"}; without a language its code is
 * "und". */
STENO_MUST steno_status steno_whisper_asr_write_language(struct steno_buf *out,
                                                         const struct steno_openai_result *r);
/* Append {"detail": "MESSAGE"}. */
STENO_MUST steno_status steno_whisper_asr_write_error(struct steno_buf *out, const char *message);

#endif
