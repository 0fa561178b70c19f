/* Files of API keys. Any bytes are read or refused with a message. Keys that were read are found
 * again, are counted, and the file can be read again over them. */
/* link: server/core/keys.c server/port/retry_spreader.c server/core/word_list.c */
/* covers: server/core/keys.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1);
    steno_keys *k;
    steno_key *key = NULL;
    double after = 0;
    steno_err err;
    if (!text || steno_keys_open(&k, NULL, NULL)) {
        free(text);
        return 0;
    }
    memcpy(text, data, n);
    text[n] = '\0';
    err.msg[0] = '\0';
    if (steno_keys_read_text(k, "fuzz", text, n, &err)) {
        if (!err.msg[0])
            abort();
    } else if (steno_keys_read_text(k, "fuzz", text, n, &err)) {
        abort();
    }
    if (!steno_keys_find(k, "0123456789abcdef", &key, &err) && key) {
        int64_t now = 1;
        for (int i = 0; i < 20; i++, now += INT64_C(7000000000)) {
            if (!steno_key_enter(k, key, now, &after, &err)) {
                (void)!steno_key_audio(k, key, now, 10, NULL, &err);
                steno_key_leave(k, key);
            } else if (!(after > 0)) {
                abort();
            }
        }
    }
    steno_keys_close(k);
    free(text);
    return 0;
}
