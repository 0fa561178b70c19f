#include "protocol/word.h"

#include "base/utf8.h"
#include "protocol/json_text.h"

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
        const size_t step = steno_utf8_next(word + at, all - at, &c);
        if (c < 0 || !is_mark(c)) {
            begin = at < begin ? at : begin;
            end = at + step;
        }
        at += step;
    }
    *n = end > begin ? end - begin : all;
    return end > begin ? word + begin : word;
}

steno_status steno_word_add_low(struct steno_buf *out, const char *word)
{
    size_t n;
    const char *p = steno_word_bare(word, &n);
    steno_status st = STENO_OK;
    for (size_t at = 0; at < n && !st;) {
        utf8proc_int32_t c;
        utf8proc_uint8_t low[4];
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)p + at, (utf8proc_ssize_t)(n - at), &c);
        if (k <= 0) {
            st = steno_buf_add(out, p + at++, 1);
            continue;
        }
        at += (size_t)k;
        k = utf8proc_encode_char(utf8proc_tolower(c), low);
        st = steno_buf_add(out, low, (size_t)k);
    }
    return st;
}

bool steno_word_is_spaced(const char *text, size_t *at, const char *word)
{
    const char *p = strstr(text + *at, word);
    bool gap = !p || p > text + *at;
    if (p)
        *at = (size_t)(p - text) + strlen(word);
    return gap;
}

static steno_status put_word(struct steno_buf *out, const struct steno_word *w, bool spaced,
                             bool times)
{
    steno_status st = steno_json_put_spaced(out, "word", w->text, spaced);
    if (!st && times)
        st = steno_buf_puts(out, ",");
    if (!st && times)
        st = steno_json_put_seconds(out, "start", w->start);
    if (!st && times)
        st = steno_buf_puts(out, ",");
    if (!st && times)
        st = steno_json_put_seconds(out, "end", w->end);
    return st ? st : steno_buf_printf(out, ",\"probability\":%.4f", (double)w->confidence);
}

steno_status steno_words_write(struct steno_buf *out, const char *text, const struct steno_word *w,
                               size_t n, bool times, const char *speaker)
{
    steno_status st = steno_buf_puts(out, "[");
    size_t at = 0;
    for (size_t i = 0; i < n && !st; i++) {
        st = steno_buf_puts(out, i ? ",{" : "{");
        if (!st)
            st = put_word(out, &w[i], steno_word_is_spaced(text, &at, w[i].text), times);
        if (!st && *speaker)
            st = steno_json_printf(out, ",\"speaker\":%s", speaker);
        if (!st)
            st = steno_buf_puts(out, "}");
    }
    return st ? st : steno_buf_puts(out, "]");
}

bool steno_closes(int32_t c)
{
    const utf8proc_category_t k = utf8proc_category(c);
    return c == '"' || c == '\'' || k == UTF8PROC_CATEGORY_PE || k == UTF8PROC_CATEGORY_PF;
}

bool steno_word_ends_sentence(const char *word)
{
    static const int32_t ends[] = {'.',    '!',    '?',    0x2026, 0x3002,
                                   0xFF01, 0xFF1F, 0x061F, 0x06D4, 0x0964};
    const utf8proc_uint8_t *p = (const void *)word;
    utf8proc_int32_t c, last = 0;
    while (*p) {
        const utf8proc_ssize_t k = utf8proc_iterate(p, -1, &c);
        p += k > 0 ? k : 1; /* not UTF-8 */
        last = k > 0 && !steno_closes(c) ? c : last;
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (last == ends[i])
            return true;
    return false;
}
