/* Progress of a transfer on standard error: a bar in a terminal, one line elsewhere. */
#ifndef STENO_CLI_PROGRESS_H
#define STENO_CLI_PROGRESS_H

#include "base/status.h"

struct progress {
    const char *name;
    int64_t bytes, from; /* whole size; what was there at the start */
    int64_t start_ns, shown_ns;
    bool terminal, quiet;
};

void progress_begin(struct progress *p, const char *name, int64_t bytes, int64_t have, bool quiet);
/* Draw the bar anew, ten times a second at most. */
void progress_show(struct progress *p, int64_t have);
/* Show a few words in place of the speed. */
void progress_note(struct progress *p, const char *words);
/* whole: leave a line with size and time; else only clear the bar. */
void progress_end(struct progress *p, int64_t have, bool whole);
/* Write a size: "75.5 MB". */
const char *progress_size(int64_t bytes, char *out, size_t size);

#endif
