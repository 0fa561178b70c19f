#include "loadtest/support/clip.h"

#include <ctype.h>
#include <opus/opus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/support/recording.h"

#define MAX_BYTES ((size_t)1 << 31)
#define MAX_WORDS 65536

/* ITU-T G.711, from 14-bit (mu) and 13-bit (A) magnitudes: the recommendation's tables as
 * shifts. */
static unsigned char mulaw(int16_t x)
{
    int sign = x < 0 ? 0x80 : 0, v = (x < 0 ? -(int)x : x) + 132, seg = 7;
    if (v > 32767)
        v = 32767;
    while (seg > 0 && !(v & (0x80 << seg)))
        seg--;
    return (unsigned char)~(sign | seg << 4 | (v >> (seg + 3) & 15));
}

static unsigned char alaw(int16_t x)
{
    int sign = x < 0 ? 0 : 0x80, v = (x < 0 ? ~x : x) >> 3, seg = 0;
    while (seg < 7 && v >> (seg + 5))
        seg++;
    return (unsigned char)((sign | seg << 4 | (v >> (seg < 2 ? 1 : seg) & 15)) ^ 0x55);
}

static size_t encode(const char *encoding, int16_t x, char *out)
{
    float f = (float)x / 32768.0f;
    switch (encoding[0]) {
    case 'f':
        memcpy(out, &f, sizeof f);
        return sizeof f;
    case 'm':
        out[0] = (char)mulaw(x);
        return 1;
    case 'a':
        out[0] = (char)alaw(x);
        return 1;
    default:
        memcpy(out, &x, sizeof x);
        return sizeof x;
    }
}

static steno_status add_header(struct clip *c, size_t bytes)
{
    unsigned char h[44];
    uint32_t n = (uint32_t)bytes, rate = (uint32_t)c->rate;
    /* RIFF header of 16-bit mono PCM */
    memcpy(h, "RIFF....WAVEfmt \20\0\0\0\1\0\1\0........\2\0\20\0data....", 44);
    for (int i = 0; i < 4; i++) {
        h[4 + i] = (unsigned char)((n + 36) >> 8 * i);
        h[24 + i] = (unsigned char)(rate >> 8 * i);
        h[28 + i] = (unsigned char)(rate * 2 >> 8 * i);
        h[40 + i] = (unsigned char)(n >> 8 * i);
    }
    c->header = sizeof h;
    return steno_buf_add(&c->data, h, sizeof h);
}

static steno_status add_samples(struct clip *c, const struct recording *r, size_t n, int times)
{
    for (int k = 0; k < times; k++)
        for (size_t i = 0; i < n; i++) {
            char out[4];
            steno_status st =
                steno_buf_add(&c->data, out, encode(c->encoding, i < r->n ? r->pcm[i] : 0, out));
            if (st)
                return st;
        }
    return STENO_OK;
}

/* ---- Opus ---------------------------------------------------------------------------------- */

static steno_status add_packets(struct clip *c, const struct recording *r, OpusEncoder *enc,
                                size_t n)
{
    enum { LONGEST = 1275 }; /* bytes of a frame (RFC 6716, 3.2.1) */
    int16_t block[960];
    unsigned char out[LONGEST];
    steno_status st = STENO_OK;
    for (size_t i = 0; i < c->n_packets && !st; i++) {
        int len;
        for (size_t k = 0; k < c->packet_samples; k++) {
            size_t at = (i * c->packet_samples + k) % n;
            block[k] = at < r->n ? r->pcm[at] : 0;
        }
        len = opus_encode(enc, block, (int)c->packet_samples, out, sizeof out);
        if (len <= 0)
            return STENO_ERR_INTERNAL;
        c->packets[i] = c->data.len;
        st = steno_buf_add(&c->data, out, (size_t)len);
    }
    c->packets[c->n_packets] = c->data.len;
    return st;
}

/* Encode n samples `times` times; the last packet is padded. */
static steno_status add_opus(struct clip *c, const struct recording *r, size_t n, int times,
                             steno_err *err)
{
    int code;
    OpusEncoder *enc = opus_encoder_create(c->rate, 1, OPUS_APPLICATION_VOIP, &code);
    steno_status st;
    if (!enc)
        return steno_fail(err, STENO_ERR_INVAL, "%s: Opus does not support %d Hz: %s", c->file,
                          c->rate, opus_strerror(code));
    c->packet_samples = (size_t)c->rate / 50;
    c->n_packets = (n * (size_t)times + c->packet_samples - 1) / c->packet_samples;
    c->samples = c->n_packets * c->packet_samples;
    c->packets = calloc(c->n_packets + 1, sizeof *c->packets);
    st = c->packets ? add_packets(c, r, enc, n) : STENO_ERR_NOMEM;
    opus_encoder_destroy(enc);
    return st ? steno_fail(err, st, "%s: cannot encode as Opus: %s", c->file,
                           steno_status_info(st)->name)
              : STENO_OK;
}

/* Read FILE.txt beside FILE.wav, without its line end. */
static char *text_beside(const char *file)
{
    const char *dot = strrchr(file, '.');
    char path[4096], line[65536] = "";
    FILE *f;
    snprintf(path, sizeof path, "%.*s.txt", (int)(dot ? dot - file : (long)strlen(file)), file);
    f = fopen(path, "r");
    if (!f)
        return NULL;
    if (!fgets(line, sizeof line, f))
        line[0] = '\0';
    fclose(f);
    line[strcspn(line, "\r\n")] = '\0';
    return strdup(line);
}

static steno_status set_text(struct clip *c, const char *text, int times)
{
    char *once = text ? strdup(text) : text_beside(c->file);
    struct steno_buf all;
    steno_status st = STENO_OK;
    if (!once)
        return STENO_OK;
    steno_buf_init(&all, MAX_BYTES);
    for (int i = 0; i < times && !st; i++)
        st = steno_buf_printf(&all, "%s%s", i && *once ? " " : "", once);
    free(once);
    c->text = steno_buf_take(&all, NULL);
    return st;
}

steno_status clip_read(struct clip *c, const char *file, const char *encoding, int gap_ms,
                       int times, const char *text, steno_err *err)
{
    static const struct {
        const char *name;
        size_t frame;
    } known[] = {{"s16le", 2}, {"f32le", 4}, {"mulaw", 1}, {"alaw", 1}, {"wav", 2}, {"opus", 0}};
    struct recording r = {0};
    steno_status st;
    size_t n;
    *c = (struct clip){.file = file};
    steno_buf_init(&c->data, MAX_BYTES);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, encoding)) {
            c->encoding = known[i].name;
            c->frame = known[i].frame;
        }
    if (!c->encoding)
        return steno_fail(err, STENO_ERR_INVAL,
                          "encoding '%s' is not one of s16le, f32le, mulaw, alaw, wav, opus",
                          encoding);
    st = recording_read(&r, file, err);
    if (st)
        return st;
    c->rate = r.rate;
    n = r.n + (size_t)gap_ms * (size_t)r.rate / 1000;
    c->samples = n * (size_t)times;
    if (!c->samples) {
        recording_free(&r);
        return steno_fail(err, STENO_ERR_INVAL, "%s: contains no audio", file);
    }
    if (!strcmp(encoding, "wav"))
        st = add_header(c, c->samples * c->frame);
    if (!st && !c->frame) {
        st = add_opus(c, &r, n, times, err);
    } else if (!st) {
        st = add_samples(c, &r, n, times);
        if (st)
            steno_fail(err, st, "%s: too long", file);
    }
    if (!st && (st = set_text(c, text, times)))
        steno_fail(err, st, "%s: its text is too long", file);
    recording_free(&r);
    if (st)
        clip_free(c);
    return st;
}

void clip_free(struct clip *c)
{
    steno_buf_free(&c->data);
    free(c->packets);
    c->packets = NULL;
    free(c->text);
    c->text = NULL;
}

/* ---- words ------------------------------------------------------------------------------- */

void clip_make_plain(char *text)
{
    char *out = text;
    for (; *text; text++)
        if (!ispunct((unsigned char)*text))
            *out++ = (char)tolower((unsigned char)*text);
    *out = '\0';
}

struct word {
    const char *p;
    size_t n;
};

static size_t split(const char *s, struct word *w, size_t max)
{
    size_t n = 0;
    while (*s && n < max) {
        size_t len = strcspn(s, " ");
        if (len)
            w[n++] = (struct word){s, len};
        s += len;
        s += strspn(s, " ");
    }
    return n;
}

static bool same(struct word a, struct word b)
{
    return a.n == b.n && !memcmp(a.p, b.p, a.n);
}

static size_t least(size_t a, size_t b, size_t c)
{
    a = a < b ? a : b;
    return a < c ? a : c;
}

/* Keeps one row of the distance table. */
static size_t distance(const struct word *a, size_t na, const struct word *b, size_t nb,
                       size_t *row)
{
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + !same(a[i - 1], b[j - 1]));
            diagonal = above;
        }
    }
    return row[nb];
}

size_t clip_word_errors(const char *want, const char *got, size_t *n)
{
    size_t most = strlen(want) > strlen(got) ? strlen(want) : strlen(got), nb, d = 0;
    struct word *a, *b;
    size_t *row;
    most = most / 2 + 2 < MAX_WORDS ? most / 2 + 2 : MAX_WORDS;
    a = calloc(most, sizeof *a);
    b = calloc(most, sizeof *b);
    row = calloc(most + 1, sizeof *row);
    *n = 0;
    if (a && b && row) {
        *n = split(want, a, most);
        nb = split(got, b, most);
        d = distance(a, *n, b, nb, row);
    }
    free(a);
    free(b);
    free(row);
    return d;
}
