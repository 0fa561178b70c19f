#include "server/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RATION 10          /* lines per second */
#define MESSAGE_BYTES 1280 /* a steno_err and the words around it */

static int threshold = LOG_INFO; /* written by steno_log_open only, before threads start */
static bool journal, as_json;

static const struct {
    const char *name;
    int level;
} levels[] = {{"error", LOG_ERR},
              {"warning", LOG_WARNING},
              {"notice", LOG_NOTICE},
              {"info", LOG_INFO},
              {"debug", LOG_DEBUG}};

steno_status steno_log_level(const char *name, int *level, steno_err *err)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (!strcmp(name, levels[i].name)) {
            *level = levels[i].level;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL,
                      "'%.40s' is not a log level: error, warning, notice, info, debug", name);
}

/* JOURNAL_STREAM names device and inode of the journal's socket. A shell started from a service
 * passes the variable on although its standard error is a terminal (systemd.exec(5)). */
static bool is_journal(void)
{
    const char *text = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat sb;
    return text && sscanf(text, "%llu:%llu", &dev, &ino) == 2 && !fstat(STDERR_FILENO, &sb) &&
           sb.st_dev == (dev_t)dev && sb.st_ino == (ino_t)ino;
}

void steno_log_open(int level, bool json)
{
    threshold = level;
    as_json = json;
    journal = is_journal();
}

static const char *level_name(int level)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (levels[i].level == level)
            return levels[i].name;
    return "error"; /* alert and critical, which the daemon does not use */
}

/* Write "2026-11-21T09:24:25.123Z notice: ", or "<5>" for the journal, which adds its own time. */
static size_t prefix(char *out, size_t size, int level)
{
    struct timespec ts;
    struct tm tm;
    char when[32];
    if (journal)
        return (size_t)snprintf(out, size, "<%d>", level);
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
    return (size_t)snprintf(out, size, "%s.%03ldZ %s: ", when, ts.tv_nsec / 1000000,
                            level_name(level));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A line that is being built. What does not fit is left out, whole members at a time. */
struct line {
    char text[4096];
    size_t n;
};

static void line_print(struct line *l, const char *fmt, ...) STENO_PRINTF(2, 3);
static void line_print(struct line *l, const char *fmt, ...)
{
    size_t room = sizeof l->text - 2 - l->n; /* "}" and the line end always fit */
    va_list ap;
    int n;
    va_start(ap, fmt);
    n = vsnprintf(l->text + l->n, room, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < room)
        l->n += (size_t)n;
}

/* Bytes that are not printable ASCII become '?', so that text from a client cannot forge a line. */
static void line_field(struct line *l, const char *name, const char *text)
{
    char safe[2 * MESSAGE_BYTES];
    size_t n = 0;
    for (; *text && n + 2 < sizeof safe; text++) {
        if (*text == '"' || *text == '\\')
            safe[n++] = '\\';
        safe[n++] = (unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f ? '?' : *text;
    }
    safe[n] = '\0';
    line_print(l, ",\"%s\":\"%s\"", name, safe);
}

static void write_json(int level, const char *event, const struct steno_log_field *fields, size_t n,
                       const char *message)
{
    struct line l = {.n = 0};
    struct timespec ts;
    struct tm tm;
    char when[32];
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
    if (journal)
        line_print(&l, "<%d>", level);
    line_print(&l, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\"", when, ts.tv_nsec / 1000000,
               level_name(level));
    if (event)
        line_field(&l, "event", event);
    for (size_t i = 0; i < n; i++)
        if (fields[i].text)
            line_field(&l, fields[i].name, fields[i].text);
        else
            line_print(&l, ",\"%s\":%.10g", fields[i].name, fields[i].number);
    line_field(&l, "message", message);
    l.text[l.n++] = '}';
    l.text[l.n++] = '\n';
    if (write(STDERR_FILENO, l.text, l.n) < 0)
        return; /* there is no place to report it */
}

/* ---- text ------------------------------------------------------------------------------------ */

static void write_text(int level, const char *message)
{
    char line[MESSAGE_BYTES + 128];
    size_t at = prefix(line, sizeof line, level), end;
    int n = snprintf(line + at, sizeof line - at - 1, "%s", message);
    if (n < 0)
        return;
    end = at + (size_t)n < sizeof line - 2 ? at + (size_t)n : sizeof line - 2;
    for (; at < end; at++)
        if ((unsigned char)line[at] < 0x20 || line[at] == 0x7f)
            line[at] = '?';
    line[end++] = '\n';
    if (write(STDERR_FILENO, line, end) < 0)
        return; /* there is no place to report it */
}

static void write_line(int level, const char *event, const struct steno_log_field *fields, size_t n,
                       const char *fmt, va_list ap) STENO_PRINTF(5, 0);
static void write_line(int level, const char *event, const struct steno_log_field *fields, size_t n,
                       const char *fmt, va_list ap)
{
    char message[MESSAGE_BYTES];
    if (vsnprintf(message, sizeof message, fmt, ap) < 0)
        return;
    if (as_json)
        write_json(level, event, fields, n, message);
    else
        write_text(level, message);
}

void steno_log(int level, const char *fmt, ...)
{
    va_list ap;
    if (level > threshold)
        return;
    va_start(ap, fmt);
    write_line(level, NULL, NULL, 0, fmt, ap);
    va_end(ap);
}

void steno_log_event(int level, const char *event, const struct steno_log_field *fields, size_t n,
                     const char *fmt, ...)
{
    va_list ap;
    if (level > threshold)
        return;
    va_start(ap, fmt);
    write_line(level, event, fields, n, fmt, ap);
    va_end(ap);
}

bool steno_log_ration_take(struct steno_log_ration *r, int64_t now_ns)
{
    int64_t second = now_ns / 1000000000;
    if (second != r->second)
        *r = (struct steno_log_ration){.second = second};
    return r->lines++ < RATION;
}
