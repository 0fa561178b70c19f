/* What a server keeps of a live session for another one. What is read is written as it was read. */
/* covers: protocol/session_head.c */
#include "protocol/session_head.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_session_head h, again;
    struct steno_buf one, two;
    steno_err err = {STENO_OK, ""};
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (steno_session_head_read(text, &h, &err)) {
        if (!*err.msg)
            abort();
        free(text);
        return 0;
    }
    steno_buf_init(&one, 1 << 20);
    steno_buf_init(&two, 1 << 20);
    if (steno_session_head_write(&one, &h) || steno_session_head_read(one.data, &again, &err) ||
        steno_session_head_write(&two, &again) || strcmp(one.data, two.data) != 0)
        abort();
    steno_session_head_free(&again);
    steno_session_head_free(&h);
    steno_buf_free(&one);
    steno_buf_free(&two);
    free(text);
    return 0;
}
