#include "server/http/known_voices.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "speech/audio/file.h"

#define FIELD_BYTES ((size_t)8 << 20)

steno_status steno_known_voices_begin(struct steno_known_voices *k, steno_err *err)
{
    if (k->n == STENO_KNOWN_VOICES)
        return steno_fail(err, STENO_ERR_INVAL, STENO_KNOWN_VOICE_FIELD "[]: more than %d",
                          STENO_KNOWN_VOICES);
    steno_buf_init(&k->field, FIELD_BYTES);
    return STENO_OK;
}

steno_status steno_known_voices_add(struct steno_known_voices *k, const char *p, size_t n,
                                    steno_err *err)
{
    const steno_status st = steno_buf_add(&k->field, p, n);
    return st ? steno_fail(err, st, STENO_KNOWN_VOICE_FIELD "[]: longer than %zu bytes",
                           FIELD_BYTES)
              : STENO_OK;
}

/* The bytes of a data URL, which the caller frees. */
static steno_status decode_url(const struct steno_buf *url, char **bytes, size_t *n, steno_err *err)
{
    static const char mark[] = ";base64";
    const char *text = url->len ? url->data : "";
    const char *comma = memchr(text, ',', url->len);
    const size_t head = comma ? (size_t)(comma - text) : 0;
    size_t rest, wrong;
    if (head < sizeof mark - 1 || strncasecmp(text, "data:", 5) != 0 ||
        strncasecmp(comma - (sizeof mark - 1), mark, sizeof mark - 1) != 0)
        return steno_fail(err, STENO_ERR_INVAL,
                          STENO_KNOWN_VOICE_FIELD "[]: not a data URL in base64 "
                                                  "(data:audio/wav;base64,...)");
    rest = url->len - head - 1;
    *bytes = malloc(STENO_BASE64_DECODED(rest));
    if (!*bytes)
        return steno_fail(err, STENO_ERR_NOMEM, STENO_KNOWN_VOICE_FIELD "[]: out of memory");
    wrong = steno_base64_decode(comma + 1, rest, *bytes, n);
    if (wrong == rest && *n)
        return STENO_OK;
    free(*bytes);
    *bytes = NULL;
    return steno_fail(err, STENO_ERR_INVAL,
                      STENO_KNOWN_VOICE_FIELD "[]: character %zu is not base64", head + 1 + wrong);
}

static steno_status read_samples(steno_audio *a, struct steno_known_voice *v, steno_err *err)
{
    struct steno_audio_info info;
    size_t cap, k = 1;
    steno_status st = steno_audio_ready(a, err);
    if (st)
        return st;
    steno_audio_get_info(a, &info);
    cap = (size_t)(STENO_KNOWN_VOICE_SECONDS * info.sample_rate) + 1;
    v->rate = info.sample_rate;
    v->pcm = malloc(cap * sizeof *v->pcm);
    if (!v->pcm)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    while (!st && k && v->n < cap) {
        st = steno_audio_read(a, v->pcm + v->n, cap - v->n, &k, err);
        v->n += st ? 0 : k;
    }
    return st;
}

static steno_status decode_audio(const char *bytes, size_t n, struct steno_known_voice *v,
                                 steno_err *err)
{
    const struct steno_audio_options opt = {.max_seconds = STENO_KNOWN_VOICE_SECONDS,
                                            .dont_wait = true};
    steno_audio *a;
    steno_status st = steno_audio_open_mem(&a, bytes, n, &opt, err);
    if (st)
        return st;
    st = read_samples(a, v, err);
    steno_audio_close(a);
    return st == STENO_NEED_MORE ? steno_fail(err, STENO_ERR_UNSUPPORTED,
                                              "this format needs another program; WAV, "
                                              "FLAC, MP3 and Ogg do not")
                                 : st;
}

steno_status steno_known_voices_end(struct steno_known_voices *k, steno_err *err)
{
    struct steno_known_voice *v = &k->voice[k->n];
    char *bytes;
    size_t n;
    steno_status st = decode_url(&k->field, &bytes, &n, err);
    steno_buf_free(&k->field);
    if (st)
        return st;
    st = decode_audio(bytes, n, v, err);
    free(bytes);
    k->n++;
    return st ? steno_fail_in(err, st, STENO_KNOWN_VOICE_FIELD "[]") : STENO_OK;
}

void steno_known_voices_free(struct steno_known_voices *k)
{
    steno_buf_free(&k->field);
    for (int i = 0; i < STENO_KNOWN_VOICES; i++)
        free(k->voice[i].pcm);
}

steno_status steno_known_voices_identify(const struct steno_known_voices *k,
                                         const steno_enrolled *enrolled,
                                         const steno_speakers *speakers, const steno_diarization *d,
                                         int *who, int *mute, steno_err *err)
{
    const size_t floats = steno_speaker_print_floats(speakers);
    const size_t more = enrolled ? steno_enrolled_count(enrolled) : 0, n = (size_t)k->n + more;
    float *prints = calloc(n * floats + 1, sizeof *prints);
    steno_status st =
        prints ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory for the speakers");
    *mute = 0;
    for (int i = 0; !st && i < k->n; i++) {
        const struct steno_known_voice *v = &k->voice[i];
        st = steno_speaker_print_make(speakers, v->rate, v->pcm, v->n, prints + (size_t)i * floats,
                                      NULL, err);
        if (st == STENO_ERR_INVAL) { /* a print of zeros is like nobody */
            *mute = i + 1;
            st = STENO_OK;
        }
    }
    if (!st && more)
        memcpy(prints + (size_t)k->n * floats, steno_enrolled_prints(enrolled),
               more * floats * sizeof *prints);
    if (!st)
        st = steno_diarization_identify(d, speakers, prints, n, 0, who, err);
    free(prints);
    return st;
}
