#include "tools/cli/progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR 24
#define REDRAW_NS INT64_C(100000000)

const char *progress_size(int64_t bytes, char *out, size_t size)
{
    if (bytes >= 1000000000)
        snprintf(out, size, "%.2f GB", (double)bytes * 1e-9);
    else if (bytes >= 1000000)
        snprintf(out, size, "%.1f MB", (double)bytes * 1e-6);
    else
        snprintf(out, size, "%.1f kB", (double)bytes * 1e-3);
    return out;
}

static void draw_progress(struct progress *p, int64_t have, const char *words)
{
    char bar[BAR + 1], whole[32], got[32];
    int full = p->bytes > 0 ? (int)(have * BAR / p->bytes) : 0;
    memset(bar, '#', (size_t)full);
    memset(bar + full, '.', (size_t)(BAR - full));
    bar[BAR] = '\0';
    fprintf(stderr, "\r\033[K  %s [%s] %s of %s%s", p->name, bar,
            progress_size(have, got, sizeof got), progress_size(p->bytes, whole, sizeof whole),
            words);
    fflush(stderr);
}

void progress_begin(struct progress *p, const char *name, int64_t bytes, int64_t have, bool quiet)
{
    char whole[32], got[32];
    *p = (struct progress){.name = name,
                           .bytes = bytes,
                           .from = have,
                           .start_ns = steno_now_ns(),
                           .terminal = isatty(2),
                           .quiet = quiet};
    if (quiet || p->terminal)
        return;
    fprintf(stderr, "  %s: %s", name, progress_size(bytes, whole, sizeof whole));
    if (have)
        fprintf(stderr, ", continued after %s", progress_size(have, got, sizeof got));
    fputs("\n", stderr);
}

void progress_show(struct progress *p, int64_t have)
{
    int64_t now = steno_now_ns();
    double seconds = (double)(now - p->start_ns) * 1e-9;
    char words[64] = "";
    if (p->quiet || !p->terminal || now - p->shown_ns < REDRAW_NS)
        return;
    p->shown_ns = now;
    if (seconds > 0.5 && have > p->from) {
        double rate = (double)(have - p->from) / seconds, left = (double)(p->bytes - have) / rate;
        snprintf(words, sizeof words, ", %.1f MB/s, %d:%02d left", rate * 1e-6, (int)left / 60,
                 (int)left % 60);
    }
    draw_progress(p, have, words);
}

void progress_note(struct progress *p, const char *words)
{
    if (!p->quiet)
        fprintf(stderr, "%s  %s: %s%s", p->terminal ? "\r\033[K" : "", p->name, words,
                p->terminal ? "" : "\n");
    fflush(stderr);
}

void progress_end(struct progress *p, int64_t have, bool whole)
{
    char size[32];
    if (p->quiet || !p->terminal)
        return;
    fputs("\r\033[K", stderr);
    if (whole)
        fprintf(stderr, "  %s: %s in %.1f s\n", p->name, progress_size(have, size, sizeof size),
                (double)(steno_now_ns() - p->start_ns) * 1e-9);
    fflush(stderr);
}
