#include "server/core/word_list.h"

#include "base/file.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

steno_status steno_word_list_read(char **out, const char *path, size_t max, steno_err *err)
{
    char *text;
    size_t n;
    steno_status st = steno_file_read(path, max, &text, &n, err);
    if (st)
        return st;
    if (strlen(text) != n || !steno_utf8_valid(text, n))
        st = steno_fail(err, STENO_ERR_INVAL, "%s is not UTF-8 text", path);
    else if (!text[strspn(text, " \t\r\n")])
        st = steno_fail(err, STENO_ERR_INVAL, "%s has no word", path);
    if (st)
        free(text);
    else
        *out = text;
    return st;
}
