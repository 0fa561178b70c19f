/* Log lines on standard error. In systemd's journal (JOURNAL_STREAM) each line begins with its
 * syslog priority "<N>" (sd-daemon(3)), elsewhere with a time stamp and the level's name. A line is
 * one write(2), so lines of different threads do not mix. The level is set once, before threads
 * start. */
#ifndef STENO_SERVER_BASE_LOG_H
#define STENO_SERVER_BASE_LOG_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <syslog.h> /* LOG_ERR ... LOG_DEBUG */

/* Parse "error", "warning", "notice", "info" or "debug". STENO_ERR_INVAL lists them. */
STENO_MUST steno_status steno_log_level(const char *name, int *level, steno_err *err);
/* json: each line is an object {"time","level","message", ...}, in the journal too. */
void steno_log_open(int level, bool json);
/* Write a line. Bytes below 0x20 and 0x7f become '?', so that text from a client cannot forge a
 * line. */
void steno_log(int level, const char *fmt, ...) STENO_PRINTF(2, 3);

/* Write a line about one event: text for people, and in JSON the fields beside it. Fields must not
 * hold audio or recognised text. */
struct steno_log_field {
    const char *name; /* [a-z_]+ */
    const char *text; /* NULL: it is a number */
    double number;
};
#define STENO_LOG_FIELDS(a) (a), sizeof(a) / sizeof *(a)
void steno_log_event(int level, const char *event, const struct steno_log_field *fields, size_t n,
                     const char *fmt, ...) STENO_PRINTF(5, 6);

/* Limits lines about refused clients. When many come, writing a line for each costs more than the
 * refusal. A few lines per second are written, and the metrics count all refusals. Zero at first.
 * Confined. */
struct steno_log_ration {
    int64_t second; /* of CLOCK_MONOTONIC */
    unsigned lines; /* written in that second */
};
/* Whether one more line may be written now. */
bool steno_log_ration_take(struct steno_log_ration *r, int64_t now_ns);

#endif
