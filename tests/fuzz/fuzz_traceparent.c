/* The traceparent header: what parses is written back as the same ids. The same bytes as a
 * tracestate: what is passed on parses again as itself. */
/* covers: server/watch/traceparent.c */
/* link: server/watch/traceparent.c */
#include "server/watch/traceparent.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_traceparent t, again;
    char out[STENO_TRACEPARENT_SIZE], list[STENO_TRACESTATE_SIZE], same[STENO_TRACESTATE_SIZE];
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    if (steno_traceparent_parse(text, size, &t)) {
        steno_traceparent_write(&t, out);
        if (strlen(out) != STENO_TRACEPARENT_SIZE - 1 || memcmp(out + 3, text + 3, 49) ||
            !steno_traceparent_parse(out, strlen(out), &again) || again.sampled != t.sampled)
            abort();
    }
    if (steno_tracestate_parse(text, size, list)) {
        if (strlen(list) > size || !steno_tracestate_parse(list, strlen(list), same) ||
            strcmp(list, same) != 0)
            abort();
    } else if (*list)
        abort();
    free(text);
    return 0;
}
