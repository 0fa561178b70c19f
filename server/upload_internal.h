/* Shared by upload.c (the request's life), upload_form.c (what is asked, what the body holds) and
 * upload_raw.c (what is written to the socket past libmicrohttpd). */
#ifndef STENO_SERVER_UPLOAD_INTERNAL_H
#define STENO_SERVER_UPLOAD_INTERNAL_H

#include "protocol/multipart.h"
#include "protocol/openai_rest.h"
#include "protocol/options.h"
#include "server/upload.h"

#include <pthread.h>

/* How the answer looks; the OpenAI form has its own verbose JSON, /v1/transcribe the project's. */
enum steno_upload_form { STENO_UPLOAD_OPENAI, STENO_UPLOAD_NATIVE, STENO_UPLOAD_DEEPGRAM };

struct steno_upload {
    pthread_mutex_t lock;
    int sides; /* connection, job */
    const struct steno_services *sv;
    enum steno_session_api api;
    enum steno_upload_form form;
    struct steno_openai_request ask;
    bool no_words;
    int beam, n_best;
    enum steno_vad_choice vad;
    struct steno_options options; /* what is not set is the server's */
    bool no_endpointing;

    /* receiving: the connection's */
    struct steno_multipart *parts;
    struct steno_buf body, field;
    size_t reserved, content_length, discarded;
    char field_name[64];
    bool in_file, started, refused; /* refused: told to come back */
    int fail_http;                  /* what was wrong with the body, told at its end; 0 = nothing */
    const char *fail_param, *fail_code;
    steno_err fail;
    steno_hangup_id watch;

    /* lock */
    struct steno_served *served; /* the model, once it is settled */
    steno_key *key;              /* NULL: nobody's */
    struct MHD_Connection *conn; /* NULL once it is over */
    bool suspended, over, gone, timed_out;
    bool body_over, expired; /* expired: the body stopped: answered 408 by us */
    int fd;
    bool http11, *linger;
    const char *id;          /* the request's, while conn is there */
    steno_job *job;          /* until its done */
    struct steno_buf answer; /* when over: the body */
    bool answered;           /* written by us, past libmicrohttpd */
    int code;
    steno_err err;
    double audio_seconds, inference_seconds;
    char audio_format[32], warning[160];

    /* server-sent events: lock */
    bool sse, sse_begun, sse_ended;
    steno_status sse_failure; /* an event could not be written: none follows but an error */
    struct steno_buf events;
    int64_t segment;   /* whose text is being sent */
    size_t sent_bytes; /* of that segment's text */
    bool any_sent;
};

/* ---- upload_form.c: the connection's thread ---- */

/* Content-Length; false when it is nonsense. 0 also when there is none. */
bool steno_upload_read_length(struct steno_request *rq, struct steno_upload *up);
/* STENO_ERR_LIMIT in OpenAI's wording. */
steno_status steno_upload_too_large(const struct steno_upload *up, steno_err *err);
/* Read the query, get ready for the body. */
STENO_MUST steno_status steno_upload_open_body(struct steno_request *rq, struct steno_upload *up,
                                               steno_err *err);
/* A piece of the body. */
STENO_MUST steno_status steno_upload_take(struct steno_upload *up, const char *data, size_t n,
                                          steno_err *err);

/* ---- upload_raw.c ---- */

/* Nothing more comes from the client: find out whether it left. Lock held. */
void steno_upload_probe(struct steno_upload *up);
/* Our own deadline while the body comes, and a later one for libmicrohttpd. */
void steno_upload_watch_body(struct steno_request *rq, struct steno_upload *up);
/* More of it came: false when it takes too long on the whole. */
bool steno_upload_body_goes_on(struct steno_request *rq, struct steno_upload *up);
/* The body is here. False when it came too late. */
bool steno_upload_end_body(struct steno_request *rq, struct steno_upload *up);
/* The answer is ready: write it ourselves when the client has closed its sending side, which
 * libmicrohttpd (0.9.75) takes for the end of the connection. Lock held. */
void steno_upload_answer_half_closed(struct steno_upload *up);

#endif
