/* A delimiter is CR LF "--" boundary. The body is read as if CR LF stood before its first byte, so
 * the first boundary needs no special rule. A boundary has no CR. So when a match fails, a new
 * match can begin only at the byte that failed, not inside the matched bytes: the matched bytes are
 * data, and that byte is checked again. */
#include "protocol/multipart.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum state {
    TEXT,    /* preamble or part body, up to a delimiter */
    CLOSING, /* after a delimiter: CR LF opens a part, "--" ends the body */
    HEADERS,
    EPILOGUE
};

struct steno_multipart {
    struct steno_multipart_events on;
    char delimiter[4 + 70 + 1];
    size_t delimiter_len, matched;
    enum state state;
    int part; /* 0: preamble; else counted from 1 */
    char headers[STENO_MULTIPART_HEADERS + 1];
    size_t n_headers;
    char closing[2];
    size_t n_closing;
};

/* Read one parameter value at *at, quoted or a token, into out [size]; *at moves past it. Within
 * quotes a backslash escapes a quote or a backslash (RFC 9110, 5.6.4; browsers write %22 instead).
 */
static bool parameter_value(const char **at, char *out, size_t size)
{
    const char *p = *at;
    bool quoted = *p == '"', fits = true;
    size_t n = 0;
    for (p += quoted; *p && !strchr(quoted ? "\"" : "; \t\r\n", *p); p++) {
        if (quoted && *p == '\\' && (p[1] == '"' || p[1] == '\\'))
            p++;
        if (n + 1 < size)
            out[n++] = *p;
        else
            fits = false;
    }
    out[n] = '\0';
    if (quoted && *p++ != '"')
        return false;
    *at = p;
    return fits;
}

/* Find a parameter (name="a b" or name=token) of a header value; false when it is absent, broken or
 * does not fit out. */
static bool parameter(const char *value, const char *name, char *out, size_t size)
{
    const char *p = strchr(value, ';');
    char skipped[512];
    while (p && *p == ';') {
        bool wanted;
        size_t len;
        p += 1 + strspn(p + 1, " \t");
        len = strcspn(p, "=; \t");
        wanted = len == strlen(name) && !strncasecmp(p, name, len);
        p += len + strspn(p + len, " \t");
        if (*p != '=') {
            p = strchr(p, ';');
            continue;
        }
        p += 1 + strspn(p + 1, " \t");
        if (wanted)
            return parameter_value(&p, out, size);
        if (!parameter_value(&p, skipped, sizeof skipped) && *p != ';' && *p)
            return false;
        p = strchr(p, ';');
    }
    return false;
}

static bool good_boundary(const char *b)
{
    size_t n = strlen(b);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)b[i] < 0x20 || (unsigned char)b[i] > 0x7e)
            return false;
    return n >= 1 && n <= 70 && b[n - 1] != ' ';
}

steno_status steno_multipart_open(steno_multipart **out, const char *content_type,
                                  const struct steno_multipart_events *events, steno_err *err)
{
    static const char type[] = "multipart/form-data";
    char boundary[80];
    steno_multipart *mp;
    if (!content_type || strncasecmp(content_type, type, sizeof type - 1) ||
        !strchr("; \t", content_type[sizeof type - 1]))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "Content-Type is '%.80s', expected multipart/form-data",
                          content_type ? content_type : "");
    if (!parameter(content_type, "boundary", boundary, sizeof boundary) || !good_boundary(boundary))
        return steno_fail(err, STENO_ERR_INVAL,
                          "Content-Type: boundary is missing or not 1..70 characters");
    mp = calloc(1, sizeof *mp);
    if (!mp)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    mp->on = *events;
    memcpy(mp->delimiter, "\r\n--", 4);
    memcpy(mp->delimiter + 4, boundary, strlen(boundary) + 1);
    mp->delimiter_len = strlen(mp->delimiter);
    mp->matched = 2;
    *out = mp;
    return STENO_OK;
}

void steno_multipart_close(steno_multipart *mp)
{
    free(mp);
}

static steno_status give_data(steno_multipart *mp, const char *data, size_t n, steno_err *err)
{
    return mp->part && n ? mp->on.data(mp->on.user, data, n, err) : STENO_OK;
}

/* State TEXT: pass data on until the delimiter is complete; *used: bytes that were read. */
static steno_status read_text(steno_multipart *mp, const char *data, size_t n, size_t *used,
                              steno_err *err)
{
    size_t i = 0;
    while (i < n) {
        steno_status st;
        if (!mp->matched) {
            const char *cr = memchr(data + i, '\r', n - i);
            size_t plain = cr ? (size_t)(cr - data) - i : n - i;
            st = give_data(mp, data + i, plain, err);
            if (st)
                return st;
            i += plain;
            if (!cr)
                break;
        }
        if (data[i] == mp->delimiter[mp->matched]) {
            i++;
            if (++mp->matched < mp->delimiter_len)
                continue;
            mp->matched = 0;
            mp->n_closing = 0;
            mp->state = CLOSING;
            *used = i;
            return mp->part ? mp->on.end(mp->on.user, err) : STENO_OK;
        }
        st = give_data(mp, mp->delimiter, mp->matched, err);
        mp->matched = 0;
        if (st)
            return st;
    }
    *used = n;
    return STENO_OK;
}

static steno_status read_closing(steno_multipart *mp, char c, steno_err *err)
{
    if (!mp->n_closing && (c == ' ' || c == '\t'))
        return STENO_OK;
    mp->closing[mp->n_closing++] = c;
    if (mp->n_closing < 2)
        return STENO_OK;
    if (!memcmp(mp->closing, "--", 2)) {
        mp->state = EPILOGUE;
        return STENO_OK;
    }
    if (memcmp(mp->closing, "\r\n", 2))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "multipart: the boundary before part %d does not end its line",
                          mp->part + 1);
    if (mp->part >= STENO_MULTIPART_PARTS)
        return steno_fail(err, STENO_ERR_LIMIT, "multipart: more than %d parts",
                          STENO_MULTIPART_PARTS);
    mp->state = HEADERS;
    mp->n_headers = 0;
    return STENO_OK;
}

/* The headers of a part are complete: take the field's name from Content-Disposition. */
static steno_status begin_part(steno_multipart *mp, steno_err *err)
{
    static const char disposition[] = "Content-Disposition:";
    char name[256], filename[256];
    char *line = mp->headers, *next;
    mp->part++;
    for (; *line; line = next) {
        next = strstr(line, "\r\n");
        if (!next)
            break;
        *next = '\0';
        next += 2;
        if (strncasecmp(line, disposition, sizeof disposition - 1))
            continue;
        if (!parameter(line, "name", name, sizeof name))
            return steno_fail(err, STENO_ERR_FORMAT, "multipart: part %d has no name", mp->part);
        if (!parameter(line, "filename", filename, sizeof filename))
            return mp->on.part(mp->on.user, name, NULL, err);
        return mp->on.part(mp->on.user, name, filename, err);
    }
    return steno_fail(err, STENO_ERR_FORMAT, "multipart: part %d has no Content-Disposition",
                      mp->part);
}

static steno_status read_part_header(steno_multipart *mp, char c, steno_err *err)
{
    size_t n;
    if (mp->n_headers >= STENO_MULTIPART_HEADERS)
        return steno_fail(err, STENO_ERR_LIMIT, "multipart: the headers of part %d exceed %d bytes",
                          mp->part + 1, STENO_MULTIPART_HEADERS);
    if (!c)
        return steno_fail(err, STENO_ERR_FORMAT, "multipart: NUL in the headers of part %d",
                          mp->part + 1);
    mp->headers[mp->n_headers++] = c;
    n = mp->n_headers;
    mp->headers[n] = '\0';
    if (n < 2 || memcmp(mp->headers + n - 2, "\r\n", 2))
        return STENO_OK;
    if (n > 2 && (n < 4 || memcmp(mp->headers + n - 4, "\r\n\r\n", 4)))
        return STENO_OK;
    /* the line end before an empty body belongs to its delimiter too: RFC 2046 wants another one */
    mp->state = TEXT;
    return begin_part(mp, err);
}

steno_status steno_multipart_push(steno_multipart *mp, const char *data, size_t n, steno_err *err)
{
    size_t i = 0;
    while (i < n && mp->state != EPILOGUE) {
        steno_status st;
        size_t used = 1;
        if (mp->state == TEXT)
            st = read_text(mp, data + i, n - i, &used, err);
        else if (mp->state == CLOSING)
            st = read_closing(mp, data[i], err);
        else
            st = read_part_header(mp, data[i], err);
        if (st)
            return st;
        i += used;
    }
    return STENO_OK;
}

steno_status steno_multipart_end(steno_multipart *mp, steno_err *err)
{
    if (mp->state == EPILOGUE)
        return STENO_OK;
    if (!mp->part && mp->state == TEXT)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "multipart: the boundary '%s' of the Content-Type header does not occur "
                          "in the body",
                          mp->delimiter + 4);
    return steno_fail(err, STENO_ERR_FORMAT, "multipart: the body ends inside part %d",
                      mp->part ? mp->part : 1);
}
