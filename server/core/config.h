/* Settings of the daemon. Later sources override earlier ones: defaults, configuration file,
 * environment, command line.
 *
 * One table (config_table.h) has the section, name, environment variable, type, range, default and
 * description of every key. The parser, --print-config, --check-config and the page
 * docs/configuration.md follow it. Options of model families are keys of [model] and come from the
 * families' own table (steno.h). An unknown key is an error with file and line. Confined while it
 * is filled, frozen afterwards. */
#ifndef STENO_SERVER_CORE_CONFIG_H
#define STENO_SERVER_CORE_CONFIG_H

#include "protocol/options.h"
#include "server/port/settings.h"

#include <stdio.h>

#define STENO_CONFIG_OPTIONS 128 /* rows of the families' table that can be settings */

struct steno_config {
    /* [server] */
    char *listen;          /* "ADDR:PORT[, unix:/PATH]"; port 0 = any free port */
    char *admin;           /* path of the administrator's socket; "" = none */
    double drain_timeout;  /* s: longest time between SIGTERM and exit */
    char *agent_listen;    /* addresses of HAProxy's agent checks; "" = none */
    char *node;            /* in ids of sessions that can be resumed; "" = none */
    char *state;           /* directory of what outlives a restart; "" = systemd's or none */
    char *cors_origins;    /* "*", or origins, comma separated; "" = none */
    char *hosts;           /* names of this server, comma separated; "*" = any */
    bool proxy_protocol;   /* connections of trusted proxies begin with a PROXY header */
    char *trusted_proxies; /* see steno_networks_parse */
    char *path_prefix;     /* "/stt"; "" = none */
    /* [tls] */
    char *tls_certificate, *tls_key; /* PEM files; "" = no TLS */
    bool tls_required;               /* no connections without TLS */
    /* [model] */
    char *model;                  /* directory; "" = the built-in model */
    char *aliases;                /* other names that requests may use for it, comma separated */
    bool strict;                  /* no other names than these and those of models */
    char *precision;              /* auto, fp32, bf16, fp16, int8 */
    char *search;                 /* "NAME=VALUE, ...": see steno_config_search */
    struct steno_options options; /* of model families; each has its own key */
    /* [models] */
    char *models_dir;     /* directory of further models; "" = none */
    double models_idle;   /* s without use until a model is unloaded; 0 = never */
    size_t models_memory; /* bytes of all loaded weights; 0 = no limit */
    /* [vad] */
    char *vad_mode;          /* off, energy, silero */
    char *vad_model;         /* directory of silero-vad; "" = the fetched one, "none" */
    char *grammars;          /* "en=DIR,...", "none"; "" = the fetched ones */
    char *punctuators;       /* the same */
    char *align_model;       /* as aligners.h has it; "" = none */
    char *profanity;         /* file of words; "" = none */
    char *vocabulary;        /* the same */
    char *speakers_model;    /* directory of the networks; "" = the fetched ones, "none" */
    double speakers_latency; /* 0 = the network's */
    int speakers_threads;
    char *speakers_store; /* directory of voice prints; "" = none are kept */
    char *turn_model;     /* the network that judges turns; "" = the fetched one, "none" */
    /* [auth] */
    char *keys; /* file of API keys; "" = no key is required */
    /* [audio] */
    int helpers; /* processes of steno-decode at once */
    /* [pool] */
    int threads;           /* threads that run networks; 0 = one per processor */
    double buffer_seconds; /* s of audio that may wait in one stream */
    int batch;             /* largest number of streams in a batch; 0 = measured */
    int capacity;          /* live streams; 0 = measured */
    char *calibration;     /* directory of the costs measured at earlier starts */
    /* [limits] */
    int sessions;           /* WebSocket streams at once */
    int uploads;            /* uploads at once, including waiting ones */
    int connections;        /* open sockets */
    int per_address;        /* open sockets from one address; 0 = no limit */
    size_t body_bytes;      /* one upload */
    size_t upload_bytes;    /* all uploads in memory together */
    double audio_seconds;   /* one recording or stream; 0 = no limit */
    double header_timeout;  /* s from accept to the end of the request head */
    double idle_timeout;    /* s without a byte on a kept-alive connection or a running upload */
    double body_timeout;    /* s for one whole request body */
    double request_timeout; /* s from the end of an upload to its answer */
    double retry_after;     /* s until a refused client may come back */
    /* [http] */
    int http_threads; /* threads that own HTTP connections */
    /* [websocket] */
    char *fetch_hosts; /* from which recordings are fetched; "" = none */
    bool fetch_private;
    double fetch_timeout;
    char *ws_root;           /* dialect of "/": auto, none, vosk, sherpa, wenet */
    double ws_idle_timeout;  /* s without audio or message */
    double ws_ping_interval; /* s of silence until the server pings */
    double ws_slow_timeout;  /* s in which a client reads nothing; then it is closed */
    size_t ws_message_bytes; /* largest message */
    double ws_resume;        /* s that a session waits for its client to return; 0 = never */
    size_t ws_resume_bytes;  /* bytes of results kept for that, per session */
    size_t ws_send_bytes;    /* bytes of unread results; more = closed */
    /* [jobs] */
    char *jobs_dir;          /* the store of jobs; "" = none */
    char *jobs_queue;        /* URL of a store that machines share; "" = jobs_dir has it */
    char *jobs_password;     /* file of its password; "" = the URL has it */
    int jobs_workers;        /* jobs that run at once */
    double jobs_lease;       /* s without a heartbeat after which a run counts as dead */
    size_t jobs_bytes;       /* one recording */
    int jobs_max;            /* jobs that are not over; 0 = no limit */
    int jobs_per_key;        /* likewise of one key */
    double jobs_keep;        /* s that a job is kept after it was over */
    double jobs_timeout;     /* s of one try */
    char *callback_hosts;    /* to which results are sent; "" = none */
    bool callback_private;   /* to private addresses too */
    bool callback_http;      /* without TLS too */
    char *callback_secret;   /* file of the key that signs them; "" = not signed */
    char *callback_ca;       /* PEM file of issuers; "" = those of the system */
    double callback_retry;   /* s between the first try and the second */
    double callback_give_up; /* s */
    /* [calls] */
    char *calls_callback; /* URL that takes the messages of telephone calls; "" = none */
    /* [wyoming] */
    char *wyoming_listen;    /* as listen; "" = none */
    char *wyoming_key;       /* name of a key; "" = none */
    char *wyoming_advertise; /* name of the service; "" = not announced */
    /* [log] */
    char *log_level;  /* error, warning, notice, info, debug */
    char *log_format; /* text, json */
    bool log_requests, log_transcripts;
    /* [metrics] */
    bool metrics_keys; /* series with the names of keys */
    /* [tracing] */
    char *trace_endpoint; /* URL of an OTLP collector; "" = the environment's, else none */
    double trace_sample;  /* share of the traces that are recorded */

    /* NULL: reading and checking end at the first error. Otherwise every error is passed here, and
     * they go on; the status they return is that of the first. */
    void (*on_error)(const char *message);

    unsigned char from[96];                          /* per table row: the source of its value */
    unsigned char option_from[STENO_CONFIG_OPTIONS]; /* per row of the families' table */
    char file[256];                                  /* the one that was read last */
    int line[96 + STENO_CONFIG_OPTIONS];             /* of it; rows of both tables */
};

enum steno_config_source {
    STENO_CONFIG_DEFAULT,
    STENO_CONFIG_FILE,
    STENO_CONFIG_ENVIRONMENT,
    STENO_CONFIG_FLAG
};

/* Set every key to its default. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_config_init(struct steno_config *c, steno_err *err);
void steno_config_free(struct steno_config *c);
/* Set SECTION.KEY from text; the section may be left out where the key is unique. STENO_ERR_INVAL
 * names the key, the value and what is allowed. */
STENO_MUST steno_status steno_config_set(struct steno_config *c, const char *section,
                                         const char *key, const char *value,
                                         enum steno_config_source from, steno_err *err);
/* Set a key from "SECTION.KEY=VALUE". Errors as of steno_config_set. */
STENO_MUST steno_status steno_config_assign(struct steno_config *c, const char *assignment,
                                            enum steno_config_source from, steno_err *err);
/* Read an INI file. STENO_ERR_IO when it cannot be read; STENO_ERR_INVAL begins with "FILE:LINE: ".
 */
STENO_MUST steno_status steno_config_read_file(struct steno_config *c, const char *path,
                                               steno_err *err);
/* Read the same from memory. Messages use name as the file's name. */
STENO_MUST steno_status steno_config_read_text(struct steno_config *c, const char *name,
                                               const char *text, size_t len, steno_err *err);
/* Read the environment variables that the table names (STENO_LISTEN, ...). The variable of a
 * family's option is STENO_MODEL_ and the option's name in capitals. */
STENO_MUST steno_status steno_config_read_environment(struct steno_config *c, steno_err *err);
/* Check the relations between keys (a body must fit the memory of all uploads, ...).
 * STENO_ERR_INVAL. */
STENO_MUST steno_status steno_config_check(const struct steno_config *c, steno_err *err);
/* Keep the first error of several, and pass each on to on_error. True if the caller shall go on. */
bool steno_config_note_error(const struct steno_config *c, const steno_err *what,
                             steno_status *first, steno_err *err);
/* Name i of the environment variables of settings, some of them in out; "" past the last one. */
const char *steno_config_variable(size_t i, char *out, size_t size);
/* What the one port needs; the strings are c's. */
struct steno_port_settings steno_config_port(const struct steno_config *c);
/* Where the value of a setting comes from: "FILE:LINE: ", "environment variable NAME: " or "".
 * text: SECTION.KEY, and anything behind it. False: it begins with no setting. */
bool steno_config_place(const struct steno_config *c, const char *text, char *out, size_t size);
/* Tell of each environment variable whose name begins with STENO_, is of no program of ours, and is
 * by a letter or two that of one: what it should have set stays as it was. Other names may be
 * anybody's, such as those that Kubernetes gives (STENO_SERVICE_HOST). Returns their number.
 * In misspelt.c. */
size_t steno_config_misspelt(void (*tell)(const char *message));
/* Whether a key has another value than its default. */
bool steno_config_differs(const struct steno_config *c, const char *section, const char *key);
/* Tell of each setting that was changed and does nothing, because another one is as it is: a time
 * of jobs where there are no jobs. Both may be meant; no start fails for it. In config_idle.c. */
void steno_config_idle(const struct steno_config *c, void (*tell)(const char *message));
/* Complete what a stream did not set from the options of [model] and from model.search: its beam,
 * in io, and the options that its model's family has. STENO_ERR_INVAL as of
 * steno_options_read_list. */
STENO_MUST steno_status steno_config_search(const struct steno_config *c, const char *family,
                                            struct steno_options *options,
                                            struct steno_stream_options *io, steno_err *err);
/* Print every key, and where its value came from, as a configuration file that reads back to the
 * same values. */
void steno_config_print(const struct steno_config *c, FILE *out);
/* Print the table as a commented sample file (conf/steno.conf is this). */
void steno_config_print_sample(FILE *out);

#endif
