/* Log lines on standard error. Into systemd's journal (JOURNAL_STREAM) each begins with its syslog
 * priority "<N>" (sd-daemon(3)), elsewhere with a time stamp and the level's name. A line is one
 * write(2), so lines of several threads never mix. The level is set once, before threads start. */
#ifndef STENO_SERVER_LOG_H
#define STENO_SERVER_LOG_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <syslog.h> /* LOG_ERR ... LOG_DEBUG */

/* "error", "warning", "notice", "info", "debug"; STENO_ERR_INVAL lists them. */
STENO_MUST steno_status steno_log_level(const char *name, int *level, steno_err *err);
/* json: each line is an object {"time","level","message", ...}, in the journal, too. */
void steno_log_open(int level, bool json);
/* Bytes below 0x20 and 0x7f become '?', so that what a client sent cannot forge a line. */
void steno_log(int level, const char *fmt, ...) STENO_PRINTF(2, 3);

/* A line about one thing that happened, with what is known of it: the text for people, in JSON the
 * fields beside it. Fields must not hold audio or what was said. */
struct steno_log_field {
    const char *name; /* [a-z_]+ */
    const char *text; /* NULL: it is a number */
    double number;
};
#define STENO_LOG_FIELDS(a) (a), sizeof(a) / sizeof *(a)
void steno_log_event(int level, const char *event, const struct steno_log_field *fields, size_t n,
                     const char *fmt, ...) STENO_PRINTF(5, 6);

/* In a rush writing a line for each that is refused costs more than refusing does: a few in a
 * second may be written, and the metrics count all. Zero at first. Confined. */
struct steno_log_ration {
    int64_t second; /* of CLOCK_MONOTONIC */
    unsigned lines; /* in it */
};
/* Whether one more may be. */
bool steno_log_ration_take(struct steno_log_ration *r, int64_t now_ns);

#endif
