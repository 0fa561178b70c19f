#include "protocol/json_audio.h"

#include <string.h>

#include "base/base64.h"

static const char name[] = "audio"; /* of the member */
#define NAME_BYTES 5

static void fail_at(struct steno_json_audio *a, size_t at)
{
    if (!a->fail.code)
        (void)steno_fail(&a->fail, STENO_ERR_INVAL, "audio: invalid base64 at byte %zu", at);
}

/* Decode p [n]: whole groups of four digits, or the last ones. */
static steno_status decode_audio(struct steno_json_audio *a, const char *p, size_t n,
                                 struct steno_buf *audio, steno_err *err)
{
    size_t at, len;
    if (!n || a->fail.code)
        return STENO_OK;
    if (a->ended) {
        fail_at(a, a->digits);
        return STENO_OK;
    }
    if (steno_buf_reserve(audio, STENO_BASE64_DECODED(n)))
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    at = steno_base64_decode(p, n, audio->data + audio->len, &len);
    audio->len += len;
    audio->data[audio->len] = '\0';
    if (at < n)
        fail_at(a, a->digits + at);
    a->digits += n;
    a->ended = p[n - 1] == '=';
    return STENO_OK;
}

static steno_status end_group(struct steno_json_audio *a, struct steno_buf *audio, steno_err *err)
{
    const unsigned n = a->n_four;
    a->n_four = 0;
    return decode_audio(a, a->four, n, audio, err);
}

/* Take digits that stand in the string as they are. */
static steno_status take_digits(struct steno_json_audio *a, const char *p, size_t n,
                                struct steno_buf *audio, steno_err *err)
{
    steno_status st = STENO_OK;
    size_t whole;
    while (n && a->n_four) {
        a->four[a->n_four++] = *p++;
        n--;
        if (a->n_four == 4 && (st = end_group(a, audio, err)))
            return st;
    }
    whole = n / 4 * 4;
    st = decode_audio(a, p, whole, audio, err);
    for (size_t i = whole; i < n; i++)
        a->four[a->n_four++] = p[i];
    return st;
}

static int hexadecimal(char c)
{
    static const char all[] = "0123456789abcdef";
    const char *at = c ? strchr(all, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    return at ? (int)(at - all) : -1;
}

/* Writers may escape digits of base64: PHP's the slash, .NET's the plus (\u002B). Anything else is
 * not a digit. */
static steno_status take_escape(struct steno_json_audio *a, char c, struct steno_buf *audio,
                                steno_err *err)
{
    char digit = '\\';
    a->escape[a->n_escape++] = c;
    if (a->n_escape == 2 && c == '/') {
        digit = c;
    } else if (a->escape[1] == 'u' && a->n_escape < 6) {
        return STENO_OK;
    } else if (a->n_escape == 6) {
        int code = 0;
        for (unsigned i = 2; i < 6; i++) {
            const int h = hexadecimal(a->escape[i]);
            code = h < 0 || code > 7 ? 255 : code * 16 + h;
        }
        digit = code > 0 && code < 128 ? (char)code : '\\';
    }
    a->n_escape = 0;
    return take_digits(a, &digit, 1, audio, err);
}

/* Take the part of p [n] that is in the string; *at grows by its length with the closing quote. */
static steno_status take_inside(struct steno_json_audio *a, const char *p, size_t n,
                                struct steno_buf *audio, size_t *at, steno_err *err)
{
    steno_status st = STENO_OK;
    size_t i = 0;
    while (i < n && !st) {
        const size_t from = i;
        if (a->n_escape) {
            st = take_escape(a, p[i++], audio, err);
            continue;
        }
        while (i < n && p[i] != '"' && p[i] != '\\')
            i++;
        st = take_digits(a, p + from, i - from, audio, err);
        if (i == n || st)
            break;
        if (p[i++] == '"') {
            a->inside = false;
            st = end_group(a, audio, err);
            break;
        }
        a->escape[a->n_escape++] = '\\';
    }
    *at += i;
    return st;
}

/* A character within another string. */
static void see_quoted(struct steno_json_audio *a, char c)
{
    if (a->escaped || c == '\\') {
        a->escaped = !a->escaped;
        a->matched = -1;
    } else if (c == '"') {
        a->quoted = false;
        a->named = a->matched == NAME_BYTES;
    } else if (a->matched >= 0) {
        const bool goes_on = a->matched < NAME_BYTES && c == name[a->matched];
        a->matched = goes_on ? a->matched + 1 : -1;
    }
}

/* A character outside strings. */
static void see(struct steno_json_audio *a, char c)
{
    const bool named = a->named, valued = a->valued;
    if (strchr(" \t\r\n", c) && c)
        return;
    a->named = a->valued = false;
    switch (c) {
    case '"':
        if (valued) {
            a->inside = true;
            a->n_four = a->n_escape = 0;
            a->digits = 0;
            a->ended = false;
        } else {
            a->quoted = true;
            a->matched = a->depth == 1 && a->name_next ? 0 : -1;
        }
        a->name_next = false;
        break;
    case ':':
        a->valued = named;
        break;
    case '{':
    case '[':
        a->depth++;
        a->name_next = c == '{';
        break;
    case '}':
    case ']':
        a->depth -= a->depth > 0;
        break;
    case ',':
        a->name_next = true;
        break;
    default:
        break;
    }
}

/* Append to what remains of the message. */
static steno_status keep_rest(struct steno_buf *rest, const char *p, size_t n, steno_err *err)
{
    steno_status st = steno_buf_add(rest, p, n);
    if (st == STENO_ERR_LIMIT)
        return steno_fail(err, st, "message: more than %zu bytes of text beside audio", rest->max);
    return st ? steno_fail(err, st, "message: out of memory") : STENO_OK;
}

steno_status steno_json_audio_push(struct steno_json_audio *a, const char *p, size_t n,
                                   struct steno_buf *rest, struct steno_buf *audio, steno_err *err)
{
    steno_status st = STENO_OK;
    size_t i = 0;
    while (i < n && !st) {
        size_t from = i;
        if (a->inside) {
            st = take_inside(a, p + i, n - i, audio, &i, err);
            from = i - !a->inside; /* the closing quote */
        }
        for (; i < n && !a->inside; i++)
            a->quoted ? see_quoted(a, p[i]) : see(a, p[i]);
        if (!st)
            st = keep_rest(rest, p + from, i - from, err);
    }
    return st;
}
