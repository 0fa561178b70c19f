#include "server/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int threshold = LOG_INFO; /* written by steno_log_open only, before threads start */
static bool journal;

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
                      "'%.40s' is no log level: error, warning, notice, info, debug", name);
}

/* JOURNAL_STREAM names device and inode of the journal's socket; a shell started from a service hands
 * the variable on while standard error is a terminal (systemd.exec(5)). */
static bool is_journal(void)
{
    const char *text = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat sb;
    return text && sscanf(text, "%llu:%llu", &dev, &ino) == 2 && !fstat(STDERR_FILENO, &sb) &&
           sb.st_dev == (dev_t)dev && sb.st_ino == (ino_t)ino;
}

void steno_log_open(int level)
{
    threshold = level;
    journal = is_journal();
}

static const char *level_name(int level)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (levels[i].level == level)
            return levels[i].name;
    return "error"; /* alert and critical, which nobody here uses */
}

/* "2026-11-21T09:24:25.123Z notice: ", or "<5>" for the journal, which keeps its own time. */
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

void steno_log(int level, const char *fmt, ...)
{
    char line[1024];
    size_t at, end;
    int n;
    va_list ap;
    if (level > threshold)
        return;
    at = prefix(line, sizeof line, level);
    va_start(ap, fmt);
    n = vsnprintf(line + at, sizeof line - at - 1, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    end = at + (size_t)n < sizeof line - 2 ? at + (size_t)n : sizeof line - 2;
    for (; at < end; at++)
        if ((unsigned char)line[at] < 0x20 || line[at] == 0x7f)
            line[at] = '?';
    line[end++] = '\n';
    if (write(STDERR_FILENO, line, end) < 0)
        return; /* nowhere to say so */
}
