#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"
#include "speech/families/whisper/internal.h"

#define MARK "\xE2\x96\x81" /* U+2581: a word begins */
#define TEXT_MAX ((size_t)64 << 20)
#define BROKEN "<broken " /* how the list names what is spelled by its bytes */

/* Whole characters, none of which has a meaning in a list of tokens. */
static bool is_plain(const char *p, size_t n)
{
    bool blank = true;
    for (size_t at = 0; at < n;) {
        utf8proc_int32_t c;
        const size_t step = steno_utf8_next(p + at, n - at, &c);
        if (c < 0x20 || c == 0x7F || c == 0xFEFF || (!at && c == 0x2581))
            return false;
        blank = blank && c == ' ';
        at += step;
    }
    return n && !blank && (n < 3 || memcmp(p, "<0x", 3));
}

static steno_status write_piece(struct steno_buf *list, struct steno_bpe_piece p, int32_t id)
{
    const size_t blank = p.n > 1 && p.p[0] == ' ';
    if (!is_plain(p.p, p.n))
        return steno_buf_printf(list, BROKEN "%d> %d\n", (int)id, (int)id);
    return steno_buf_printf(list, "%s%.*s %d\n", blank ? MARK : "", (int)(p.n - blank), p.p + blank,
                            (int)id);
}

steno_status steno_whisper_spellings_open(steno_tokens **out, const steno_bpe *b, const char *name,
                                          steno_err *err)
{
    const int32_t n = steno_bpe_regular(b);
    struct steno_buf list;
    steno_status st = STENO_OK;
    steno_buf_init(&list, TEXT_MAX);
    for (int32_t i = 0; i < n && !st; i++)
        st = write_piece(&list, steno_bpe_piece(b, i), i);
    for (int i = 0; i < 256 && !st; i++)
        st = steno_buf_printf(&list, "<0x%02X> %d\n", (unsigned)i, (int)n + i);
    if (st)
        st = steno_fail(err, st, "%s: out of memory for the vocabulary", name);
    else
        st = steno_tokens_parse(out, list.data, list.len, name, err);
    steno_buf_free(&list);
    return st;
}

bool steno_whisper_is_broken(const steno_tokens *t, int32_t id)
{
    return !strncmp(steno_tokens_piece(t, id), BROKEN, strlen(BROKEN));
}
