#include "protocol/word.h"

#include <stdbool.h>
#include <string.h>
#include <utf8proc.h>

static bool is_mark(utf8proc_int32_t c)
{
    const utf8proc_category_t k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

const char *steno_word_bare(const char *word, size_t *n)
{
    const size_t all = strlen(word);
    size_t begin = all, end = 0;
    for (size_t at = 0; at < all;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)word + at, (utf8proc_ssize_t)(all - at), &c);
        size_t step = k > 0 ? (size_t)k : 1;
        if (k <= 0 || !is_mark(c)) {
            begin = at < begin ? at : begin;
            end = at + step;
        }
        at += step;
    }
    *n = end > begin ? end - begin : all;
    return end > begin ? word + begin : word;
}
