/* The file of keys' usage. What was read is written so that it reads back to the same text. */
/* covers: server/core/keys.c */
/* link: server/core/keys.c server/port/retry_spreader.c server/core/word_list.c */
#include "server/core/keys.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_usage(steno_keys *k, struct steno_buf *out)
{
    steno_buf_init(out, 1 << 24);
    if (steno_keys_write_usage(k, out))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    steno_keys *k, *again;
    struct steno_buf one, two;
    steno_err err = {STENO_OK, ""};
    if (steno_keys_open(&k, NULL, NULL))
        return 0;
    if (steno_keys_read_usage(k, "fuzz", (const char *)data, size, &err)) {
        if (!err.msg[0] || steno_keys_next_new(k))
            abort();
    } else if (!steno_keys_open(&again, NULL, NULL)) {
        write_usage(k, &one);
        if (!steno_keys_read_usage(again, "fuzz", one.data, one.len, &err)) {
            write_usage(again, &two);
            if (one.len != two.len || memcmp(one.data, two.data, one.len))
                abort();
            steno_buf_free(&two);
        }
        steno_buf_free(&one);
        steno_keys_close(again);
    }
    steno_keys_close(k);
    return 0;
}
