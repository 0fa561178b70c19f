#include "speech/speakers/voiceprint.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/base64.h"
#include "base/hex.h"
#include "base/little_endian.h"
#include "base/path.h"
#include "base/utf8.h"
#include "steno.h"

#define HEAD "steno voice print 1"
#define PRINT "print "

/* ---- content --------------------------------------------------------------------------------- */

/* Take the line at *p, at most 63 characters, without its end. False: there is none, or it is
 * longer. */
static bool take_line(const char **p, const char *end, char line[64])
{
    const char *stop = memchr(*p, '\n', (size_t)(end - *p));
    const size_t n = stop ? (size_t)(stop - *p) : 64;
    if (n > 63)
        return false;
    memcpy(line, *p, n);
    line[n] = '\0';
    *p = stop + 1;
    return strlen(line) == n;
}

static bool read_head(struct steno_voiceprint *v, const char **p, const char *end, int *line_no)
{
    char line[64];
    int used = 0;
    *line_no = 1;
    if (!take_line(p, end, line) || strcmp(line, HEAD) != 0)
        return false;
    *line_no = 2;
    if (!take_line(p, end, line) || strlen(line) != strlen("network ") + 16 ||
        sscanf(line, "network %16" SCNx64 "%n", &v->network, &used) != 1 || line[used])
        return false;
    *line_no = 3;
    if (!take_line(p, end, line) || sscanf(line, "seconds %lf%n", &v->seconds, &used) != 1 ||
        line[used] || !isfinite(v->seconds) || v->seconds < 0)
        return false;
    *line_no = 4;
    return take_line(p, end, line) && sscanf(line, "since %" SCNd64 "%n", &v->since, &used) == 1 &&
           !line[used];
}

/* The last line. False: it is wrong, or *no_memory. */
static bool read_print(struct steno_voiceprint *v, const char *p, const char *end, bool *no_memory)
{
    const size_t mark = strlen(PRINT);
    size_t n = (size_t)(end - p), bytes;
    if (n <= mark + 1 || memcmp(p, PRINT, mark) != 0 || end[-1] != '\n')
        return false;
    n -= mark + 1;
    v->print = malloc(STENO_BASE64_DECODED(n));
    *no_memory = !v->print;
    if (!v->print || steno_base64_decode(p + mark, n, v->print, &bytes) != n)
        return false;
    v->n = bytes / sizeof *v->print;
    if (!v->n || v->n > STENO_VOICEPRINT_FLOATS || bytes % sizeof *v->print)
        return false;
    for (size_t i = 0; i < v->n; i++) {
        v->print[i] = steno_le_f32(&v->print[i]);
        if (!(fabsf(v->print[i]) <= 1))
            return false;
    }
    return true;
}

steno_status steno_voiceprint_parse(struct steno_voiceprint *out, const char *text, size_t n,
                                    steno_err *err)
{
    const char *p = text;
    int line_no;
    bool no_memory = false;
    *out = (struct steno_voiceprint){0};
    if (!read_head(out, &p, text + n, &line_no))
        return steno_fail(err, STENO_ERR_FORMAT, "line %d is not that of a voice print", line_no);
    if (read_print(out, p, text + n, &no_memory))
        return STENO_OK;
    free(out->print);
    out->print = NULL;
    return no_memory ? steno_fail(err, STENO_ERR_NOMEM, "out of memory")
                     : steno_fail(err, STENO_ERR_FORMAT, "line 5 is not that of a voice print");
}

steno_status steno_voiceprint_write(struct steno_buf *out, const struct steno_voiceprint *v)
{
    steno_status st = steno_buf_printf(
        out, HEAD "\nnetwork %016" PRIx64 "\nseconds %.1f\nsince %" PRId64 "\n" PRINT, v->network,
        v->seconds, v->since);
    if (!st) /* the machines that it is built for are little-endian */
        st = steno_base64_put(out, v->print, v->n * sizeof *v->print);
    return st ? st : steno_buf_puts(out, "\n");
}

/* ---- names ----------------------------------------------------------------------------------- */

bool steno_voiceprint_name_ok(const char *name)
{
    const size_t n = strlen(name);
    if (!n || n >= STENO_SPEAKER_NAME || name[0] == ' ' || name[n - 1] == ' ')
        return false;
    for (size_t i = 0; i < n;) {
        int32_t c;
        i += steno_utf8_next(name + i, n - i, &c);
        if (c < 0 || utf8proc_category(c) == UTF8PROC_CATEGORY_CC)
            return false;
    }
    return true;
}

static bool is_plain(unsigned char c)
{
    return c < 128 && (isalnum(c) || c == '-' || c == '_');
}

void steno_voiceprint_file(char *out, const char *name)
{
    static const char digits[] = "0123456789ABCDEF";
    for (; *name; name++) {
        const unsigned char c = (unsigned char)*name;
        *out++ = is_plain(c) ? *name : '%';
        if (!is_plain(c)) {
            *out++ = digits[c >> 4];
            *out++ = digits[c & 15];
        }
    }
    memcpy(out, STENO_VOICEPRINT_ENDING, sizeof STENO_VOICEPRINT_ENDING);
}

bool steno_voiceprint_person(char *out, const char *file)
{
    const size_t n = strlen(file), ending = strlen(STENO_VOICEPRINT_ENDING);
    char again[STENO_VOICEPRINT_FILE];
    size_t len = 0;
    if (!steno_path_ends(file, STENO_VOICEPRINT_ENDING))
        return false;
    for (size_t i = 0; i < n - ending; len++) {
        const bool coded = file[i] == '%';
        if (len + 1 >= STENO_SPEAKER_NAME ||
            (coded && (i + 2 >= n || steno_hex(file[i + 1]) < 0 || steno_hex(file[i + 2]) < 0)))
            return false;
        out[len] = coded ? (char)(steno_hex(file[i + 1]) * 16 + steno_hex(file[i + 2])) : file[i];
        i += coded ? 3 : 1;
    }
    out[len] = '\0';
    if (!steno_voiceprint_name_ok(out))
        return false;
    steno_voiceprint_file(again, out);
    return !strcmp(again, file); /* one file for a name */
}
