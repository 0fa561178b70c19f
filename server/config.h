/* Settings of the daemon: defaults < configuration file < environment < command line.
 *
 * One table (config_table.h) holds for every key its section, name, environment variable, type,
 * range, default and sentence of documentation; the parser, --print-config, --check-config and the
 * page docs/configuration.md follow it. Options of model families are keys of [model] and come from
 * the families' own table (steno.h). An unknown key is an error with file and line. Confined while
 * it is being filled, frozen afterwards. */
#ifndef STENO_SERVER_CONFIG_H
#define STENO_SERVER_CONFIG_H

#include "protocol/options.h"

#include <stdio.h>

#define STENO_CONFIG_OPTIONS 64 /* rows of the families' table that can be settings */

struct steno_config {
    /* [server] */
    char *listen;         /* "ADDR:PORT[, ADDR:PORT]"; port 0 = any free one */
    char *admin;          /* path of the administrator's socket; "" = none */
    double drain_timeout; /* s: longest time between SIGTERM and the end */
    /* [model] */
    char *model;                  /* directory; "" = the model that ships */
    char *aliases;                /* other names that requests may use for it, comma separated */
    char *precision;              /* auto, fp32, bf16, fp16, int8 */
    char *search;                 /* "NAME=VALUE, ...": see steno_config_search */
    struct steno_options options; /* of families, each a key of its own */
    /* [models] */
    char *models_dir;     /* directory of further models; "" = none */
    double models_idle;   /* s without use after which one is unloaded; 0 = never */
    size_t models_memory; /* of the weights of all loaded; 0 = no limit */
    /* [vad] */
    char *vad_mode;  /* off, energy, silero */
    char *vad_model; /* directory of silero-vad; "" = none */
    /* [auth] */
    char *keys; /* file of API keys; "" = none are asked for */
    /* [pool] */
    int threads;           /* that run networks; 0 = processors */
    double buffer_seconds; /* audio waiting in one stream */
    int batch;             /* most streams of one run of the network; 0 = as measured */
    double batch_wait;     /* s a step waits for company at most */
    int capacity;          /* live streams; 0 = as measured */
    char *calibration;     /* directory of what was measured at earlier starts */
    /* [limits] */
    int sessions;           /* WebSocket streams at once */
    int uploads;            /* uploads at once, waiting ones included */
    int connections;        /* open sockets */
    int per_address;        /* open sockets of one address; 0 = no limit */
    size_t body_bytes;      /* one upload */
    size_t upload_bytes;    /* all uploads in memory together */
    double audio_seconds;   /* one recording or stream; 0 = no limit */
    double header_timeout;  /* s from accept to the end of the request head */
    double idle_timeout;    /* s without a byte on a kept-alive connection or a running upload */
    double body_timeout;    /* s for one whole request body */
    double request_timeout; /* s from the end of an upload to its answer */
    double retry_after;     /* s that a refused client is told to wait */
    /* [http] */
    int http_threads; /* that own HTTP connections */
    /* [websocket] */
    char *ws_root;           /* dialect of "/": none, vosk or sherpa */
    double ws_idle_timeout;  /* s without audio or message */
    double ws_ping_interval; /* s of silence after which the server pings */
    double ws_slow_timeout;  /* s in which a client takes nothing of what is sent; more = closed */
    size_t ws_message_bytes; /* largest message */
    double ws_resume;        /* s that a session waits for its client to come back; 0 = never */
    size_t ws_resume_bytes;  /* results kept for that, per session */
    size_t ws_send_bytes;    /* results waiting for a client that does not read; more = closed */
    /* [log] */
    char *log_level;  /* error, warning, notice, info, debug */
    char *log_format; /* text, json */
    bool log_requests;

    unsigned char from[64]; /* per table row: enum steno_config_source of its value */
    unsigned char option_from[STENO_CONFIG_OPTIONS]; /* per row of the families' table */
};

enum steno_config_source {
    STENO_CONFIG_DEFAULT,
    STENO_CONFIG_FILE,
    STENO_CONFIG_ENVIRONMENT,
    STENO_CONFIG_FLAG
};

/* Every key at its default. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_config_init(struct steno_config *c, steno_err *err);
void steno_config_free(struct steno_config *c);
/* Set SECTION.KEY (or its name alone where that is unique) from text. STENO_ERR_INVAL names the
 * key, the value and what is allowed. */
STENO_MUST steno_status steno_config_set(struct steno_config *c, const char *section,
                                         const char *key, const char *value,
                                         enum steno_config_source from, steno_err *err);
/* "SECTION.KEY=VALUE" */
STENO_MUST steno_status steno_config_assign(struct steno_config *c, const char *assignment,
                                            enum steno_config_source from, steno_err *err);
/* Read an INI file. STENO_ERR_IO when it cannot be read; STENO_ERR_INVAL "FILE:LINE: ...". */
STENO_MUST steno_status steno_config_read_file(struct steno_config *c, const char *path,
                                               steno_err *err);
/* The same from memory; name stands for the file in messages. */
STENO_MUST steno_status steno_config_read_text(struct steno_config *c, const char *name,
                                               const char *text, size_t len, steno_err *err);
/* Read the variables the table names (STENO_LISTEN, ...); of an option of a family that is
 * STENO_MODEL_ and its name in capitals. */
STENO_MUST steno_status steno_config_read_environment(struct steno_config *c, steno_err *err);
/* Relations between keys (a body must fit the memory of all uploads, ...). */
STENO_MUST steno_status steno_config_check(const struct steno_config *c, steno_err *err);
/* What a stream leaves open is taken from the options of [model] and from model.search: its beam,
 * in io, and those options that its model's family has. STENO_ERR_INVAL as of
 * steno_options_read_list. */
STENO_MUST steno_status steno_config_search(const struct steno_config *c, const char *family,
                                            struct steno_options *options,
                                            struct steno_stream_options *io, steno_err *err);
/* Every key as a configuration file that reads back to the same values, with where each came from.
 */
void steno_config_print(const struct steno_config *c, FILE *out);
/* The table as a commented sample file (conf/steno.conf is this). */
void steno_config_print_sample(FILE *out);

#endif
