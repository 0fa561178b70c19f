/* Shared by upload.c (the life of a request), upload_form.c (parameters and body), upload_answer.c
 * (what is answered) and upload_raw.c (what is written to the socket without libmicrohttpd). */
#ifndef STENO_SERVER_HTTP_UPLOAD_INTERNAL_H
#define STENO_SERVER_HTTP_UPLOAD_INTERNAL_H

#include "base/sha256.h"
#include "protocol/deepgram.h"
#include "protocol/multipart.h"
#include "protocol/openai_rest.h"
#include "protocol/options.h"
#include "protocol/subtitle.h"
#include "protocol/text_lines.h"
#include "protocol/whisper_asr.h"
#include "protocol/whisper_cpp.h"
#include "protocol/word_times.h"
#include "server/http/known_voices.h"
#include "server/http/upload.h"
#include "server/port/origin.h"

#include <pthread.h>

/* The form of the request and its answer. OpenAI's form has its own verbose JSON; /v1/transcribe
 * has the project's. */
enum steno_upload_form {
    STENO_UPLOAD_OPENAI,
    STENO_UPLOAD_NATIVE,
    STENO_UPLOAD_DEEPGRAM,
    STENO_UPLOAD_WHISPER_CPP,
    STENO_UPLOAD_WHISPER_ASR,
    STENO_UPLOAD_ALIGN,  /* /v1/align: when a text is spoken */
    STENO_UPLOAD_DETECT, /* whisper-asr-webservice's: which language is spoken */
    STENO_UPLOAD_ENROLL  /* of /v1/speakers: a voice */
};
#define STENO_DETECT_SECONDS 30 /* of a recording; as the service */

/* What is asked for. The connection's thread writes it until the body is complete; then both sides
 * read it. */
struct steno_upload_wants {
    struct steno_openai_request ask;
    struct steno_deepgram_wants deepgram;
    struct steno_buf search; /* its terms */
    struct steno_whisper_cpp_wants cpp;
    struct steno_whisper_asr_wants asr;
    struct steno_subtitle_options subtitle;
    bool no_words;
    int beam, n_best;
    double seconds;             /* of the recording, from its beginning; 0 = all */
    bool multichannel;          /* each channel has a transcript of its own */
    struct steno_raw_audio raw; /* as the query names it; sample_rate 0: it does not */
    bool raw_named;             /* its encoding is of samples without a header */
    enum steno_vad_choice vad;
    struct steno_options options; /* options not set here: the server's */
    bool no_endpointing;
    struct steno_known_voices known; /* whose names ask.speakers has */
    struct steno_buf text;           /* that is to be found in the recording */
    struct steno_text_lines lines;   /* its lines, once it is complete */
    bool characters;                 /* times of characters too */
    bool aligned;                    /* word_times=aligned: by the model of align.model */
    char enroll[STENO_SPEAKER_NAME]; /* of whom the recording is, to be enrolled */
};

/* The body while it comes. Of the connection's thread, unless a comment says otherwise. */
struct steno_upload_body {
    struct steno_multipart *parts;
    struct steno_buf body, field;
    size_t reserved; /* memory; the transcription's side gives it back once it has the body */
    size_t content_length;
    size_t ignored;          /* bytes of fields without effect */
    size_t discarded;        /* of the body after it went wrong */
    struct steno_sha256 sum; /* of the body, in Deepgram's form */
    char sha256[STENO_SHA256_HEX];
    char field_name[64], file_name[256];
    bool field_is_file;             /* it has a file name */
    bool in_reference;              /* a recording that tells a voice */
    bool in_text;                   /* the text to be aligned */
    bool in_file, started, refused; /* refused: told to come back */
    bool fetched;        /* the recording that the body names; under lock while it is suspended */
    steno_err fetch_err; /* likewise; code OK: it is the body now */
    steno_hangup_id watch;
};

/* What is wrong with the body, sent at its end. Of the connection's thread. */
struct steno_upload_fault {
    int http; /* status; 0 = nothing is wrong */
    const char *param, *code;
    steno_err err;
};

/* The connection. Under the upload's lock. */
struct steno_upload_client {
    struct MHD_Connection *conn; /* NULL after the request is over */
    const char *id;              /* the request's, while conn is not NULL */
    bool suspended, gone, timed_out;
    bool body_over, expired; /* expired: the body stopped, and was answered 408 */
    int fd;
    bool http11, *linger;
    char cors[STENO_ORIGIN_LINES]; /* header lines of answers without libmicrohttpd */
};

/* What came of it. Under the upload's lock. Who sets `over` has written the rest, and the
 * connection's side reads it after that; received_ns is the connection's side's. */
struct steno_upload_outcome {
    bool over;
    bool answered;           /* written without libmicrohttpd */
    struct steno_buf answer; /* the answer's body */
    int code;
    steno_err err;
    double audio_seconds, inference_seconds;
    struct steno_pool_stream_stats pool;
    int64_t received_ns, result_ns; /* the body was complete; the result was there; 0: not yet */
    char audio_format[32], warning[256];
};

/* Server-sent events. Workers write them and the connection's thread reads them, under the upload's
 * lock. */
struct steno_upload_events {
    bool on, begun, ended;
    steno_status failure; /* an event could not be written: only an error may follow */
    struct steno_buf events;
    int64_t segment;       /* the one whose text is being sent */
    size_t sent_bytes;     /* of that segment's text */
    size_t sent_sections;  /* of a model that cuts */
    size_t told_segments;  /* of diarized_json */
    bool any_sent;         /* of that channel */
    unsigned sent_channel; /* whose text is being sent, with multichannel; else 0 */
};

struct steno_upload {
    /* frozen once the head is read */
    const struct steno_services *sv;
    enum steno_session_api api;
    enum steno_upload_form form;
    enum steno_error_form errors;
    struct steno_stored *stored; /* NULL: not a request for a job */
    bool json;                   /* the body does not hold the recording, but names it */
    bool background;             /* of a job that runs: it waits, and is not refused */
    char trace[33];              /* id of its trace; "": not recorded */
    steno_key *key;              /* NULL: no key */

    struct steno_upload_wants want;
    struct steno_served *served;  /* the model, once it is chosen; as want */
    struct steno_served *aligner; /* of word_times=aligned, where the language is known; as want */
    char *vocabulary;             /* the operator's words, then; NULL: none */
    struct steno_upload_body in;
    struct steno_upload_fault fault;

    pthread_mutex_t lock;      /* guards what follows */
    int sides;                 /* still in use by: connection, transcription */
    steno_transcription *work; /* NULL after its done */
    struct steno_upload_client client;
    struct steno_upload_outcome out;
    struct steno_upload_events sse;
};

/* ---- upload.c ---- */

struct steno_upload *steno_upload_new(const struct steno_services *sv, enum steno_session_api api);
void steno_upload_free(struct steno_upload *up);  /* accepts no NULL; of one that has one side */
void steno_upload_leave(struct steno_upload *up); /* one side has ended */
void steno_upload_give_back(struct steno_upload *up); /* the memory that is reserved for it */
/* Resume the connection if it is suspended. Lock held. */
void steno_upload_resume(struct steno_upload *up);
struct steno_upload_refused {
    int http;
    const char *code, *param;
};
/* Choose the model, and check that it can do what is asked for. False: the request must be refused
 * with *why. */
bool steno_upload_choose_model(struct steno_upload *up, struct steno_upload_refused *why,
                               steno_err *err);
/* Check what is asked for together; up->fault.param names what is wrong. */
STENO_MUST steno_status steno_upload_check_wants(struct steno_upload *up, steno_err *err);
/* Note what is wrong with the body: it is answered at its end. */
void steno_upload_fail(struct steno_upload *up, int http, const char *code, const char *param,
                       const steno_err *err);
void steno_upload_fail_status(struct steno_upload *up, const char *param, const steno_err *err);
/* What the request asks of a job; its model is chosen. The recording and the callbacks are to be
 * set. */
struct steno_transcription_request steno_upload_transcription(const struct steno_upload *up);

/* ---- upload_answer.c ---- */

/* The result of a job in the form of the next function. */
struct steno_openai_result steno_upload_result(const struct steno_upload *up,
                                               const struct steno_transcription_result *r);
/* Append the answer, in up->want.ask.format, to up->out.answer. STENO_ERR_LIMIT, STENO_ERR_NOMEM.
 */
STENO_MUST steno_status steno_upload_write(struct steno_upload *up,
                                           const struct steno_openai_result *r);
/* The media type of that answer. */
const char *steno_upload_media_type(const struct steno_upload *up);
struct steno_upload_headers {
    struct steno_header v[5]; /* after the last one: name NULL */
    char disposition[4 * sizeof((struct steno_upload *)0)->in.file_name];
};
/* Write the headers that an answer of 200 has beside those of every answer. They point into both
 * structs. */
void steno_upload_write_headers(const struct steno_upload *up, struct steno_upload_headers *out);
/* The deltas to come are of this channel, from 1. Its text begins on a new line, like that of each
 * channel that has none, so that all deltas add up to the text of the whole. Lock held. */
void steno_upload_enter_channel(struct steno_upload *up, unsigned channel);
/* An event of the job becomes server-sent events; user: the upload. On a pool's thread. */
void steno_upload_on_event(void *user, unsigned channel, const struct steno_event *ev);
/* Answer with the events, as they come. */
enum MHD_Result steno_upload_respond_events(struct steno_request *rq, struct steno_upload *up);

/* ---- requests that become jobs: jobs/upload_stored.c ---- */

struct steno_upload_storing {
    /* Find out whether the request becomes a job, and prepare up->stored for it. The others are
     * called only when it is there. */
    steno_status (*want)(struct steno_request *rq, struct steno_upload *up, steno_err *err);
    steno_status (*open)(struct steno_request *rq, struct steno_upload *up, steno_err *err);
    /* Take a parameter of the query, a field of the form or a member of the JSON. */
    steno_status (*take_pair)(void *upload, const char *name, const char *value, steno_err *err);
    steno_status (*keep)(struct steno_upload *up, const char *data, size_t n, steno_err *err);
    /* Note why the body cannot be stored. */
    void (*fail)(struct steno_upload *up, const steno_err *err);
    /* The body is complete: check everything and suspend the connection while the disk takes the
     * job. False: it is refused, as steno_upload_fail says. */
    bool (*store)(struct steno_request *rq, struct steno_upload *up);
    enum MHD_Result (*answer)(struct steno_request *rq, struct steno_upload *up);
    void (*free)(struct steno_upload *up);
};
static inline const struct steno_upload_storing *
steno_upload_storing_of(const struct steno_upload *up)
{
    return up->sv->job_calls->storing;
}

/* ---- upload_form.c: the connection's thread ---- */

/* Read the parameters of a target. When one is wrong, up->fault.param names it. */
STENO_MUST steno_status steno_upload_read_target(struct steno_upload *up, const char *target,
                                                 steno_err *err);
/* Prepare for a multipart body. */
STENO_MUST steno_status steno_upload_open_parts(struct steno_request *rq, struct steno_upload *up,
                                                steno_err *err);

/* Read Content-Length; 0 when absent. False when it is not a valid length. */
bool steno_upload_read_length(struct steno_request *rq, struct steno_upload *up);
size_t steno_upload_max(const struct steno_upload *up); /* bytes of the body */
/* Fail with STENO_ERR_LIMIT in OpenAI's wording. */
steno_status steno_upload_too_large(const struct steno_upload *up, steno_err *err);
/* Read the query and prepare for the body. */
STENO_MUST steno_status steno_upload_open_body(struct steno_request *rq, struct steno_upload *up,
                                               steno_err *err);
/* Check the whole form after its last part. */
STENO_MUST steno_status steno_upload_check_form(struct steno_upload *up, steno_err *err);
/* The field of the form that has the recording. */
const char *steno_upload_file_field(const struct steno_upload *up);
/* Take a part of the body into up->in.body, whose memory is reserved. */
STENO_MUST steno_status steno_upload_keep_memory(struct steno_upload *up, const char *data,
                                                 size_t n, steno_err *err);
/* Take a part of the body. */
STENO_MUST steno_status steno_upload_take(struct steno_upload *up, const char *data, size_t n,
                                          steno_err *err);

/* ---- upload_values.c: the connection's thread ---- */

/* Set the form of the answer as /v1/transcribe names it. STENO_ERR_INVAL. */
STENO_MUST steno_status steno_upload_set_format(struct steno_upload *up, const char *value,
                                                steno_err *err);
/* Set the wanted model. STENO_ERR_INVAL: its name is too long. */
STENO_MUST steno_status steno_upload_set_model(struct steno_upload *up, const char *value,
                                               steno_err *err);
/* Check that the form has a recording, in the field `file`. STENO_ERR_INVAL. */
STENO_MUST steno_status steno_upload_check_file(struct steno_upload *up, const char *file,
                                                steno_err *err);

/* ---- upload_align.c: the connection's thread ---- */

#define STENO_ALIGN_TEXT "text" /* the field with it */
/* Take a pair of the query. user: the upload. */
steno_status steno_upload_align_parameter(void *user, const char *name, const char *value,
                                          steno_err *err);
/* Take the field of up->in.field_name and up->in.field. */
STENO_MUST steno_status steno_upload_align_field(struct steno_upload *up, steno_err *err);
/* Take a part of the text. */
STENO_MUST steno_status steno_upload_align_text(struct steno_upload *up, const char *data, size_t n,
                                                steno_err *err);
/* Check the whole form after its last part. */
STENO_MUST steno_status steno_upload_align_check(struct steno_upload *up, steno_err *err);
/* The wanted model, or that of align.model. */
const char *steno_upload_align_model(const struct steno_upload *up, char *room, size_t size);
/* Check that the chosen model can align. STENO_ERR_UNSUPPORTED: it cannot. */
STENO_MUST steno_status steno_upload_align_check_model(const struct steno_upload *up,
                                                       steno_err *err);

/* ---- upload_raw.c ---- */

/* The client sends nothing more: find out whether it left. Lock held. */
void steno_upload_probe(struct steno_upload *up);
/* Set the server's own deadline while the body comes, and a later one in libmicrohttpd. */
void steno_upload_watch_body(struct steno_request *rq, struct steno_upload *up);
/* More of the body came. False when the whole body takes too long. */
bool steno_upload_body_goes_on(struct steno_request *rq, struct steno_upload *up);
/* The body is complete. False when it came too late. */
bool steno_upload_end_body(struct steno_request *rq, struct steno_upload *up);
/* The answer is ready: write it here if the client has closed its sending side, because
 * libmicrohttpd (0.9.75) takes that for the end of the connection. Lock held. */
void steno_upload_answer_half_closed(struct steno_upload *up);

#endif
