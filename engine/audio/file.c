/* One struct for all origins. `source` hides whether the bytes come from memory, a file or a pipe;
 * `fill` hides which reader decodes. Both readers give blocks of interleaved samples, which
 * steno_audio_read mixes to mono. */
#include "audio/file.h"

#include "audio/ogg_opus.h"
#include "audio/ogg_vorbis.h"
#include "audio/wav.h"
#include "base/buf.h"

#include <errno.h>
#include <inttypes.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IN_BYTES 65536
#define BLOCK_SAMPLES 8192 /* interleaved */
#define SNIFF 64           /* enough for an Ogg page with OpusHead */
#define SHOWN 9            /* bytes shown in the message when the input is not audio */
#define PIPE_BYTES_DEFAULT ((size_t)512 << 20)

struct source {
    const unsigned char *data; /* memory, or NULL */
    int fd;
    bool pipe;
    int64_t base; /* offset of the descriptor at open */
    int64_t size; /* -1 = pipe */
    int64_t pos;
    unsigned char head[SNIFF]; /* the first bytes of a pipe, read to detect the format */
    size_t head_len;
};

struct steno_audio {
    struct source src;
    struct steno_buf held; /* the whole input of a pipe, for formats that need it */
    struct steno_audio_options opt;
    struct steno_audio_info info;
    int64_t delivered, limit; /* frames; limit -1 = none */
    int last_errno;

    steno_wav *wav;
    steno_ogg_opus *opus;
    size_t in_at, in_len;
    unsigned char in[IN_BYTES];

    SNDFILE *snd;

    size_t block_at, block_frames;
    bool ended;
    float block[BLOCK_SAMPLES];
};

/* ---- source ----------------------------------------------------------------------------------*/

static ssize_t read_retry(int fd, void *buf, size_t n)
{
    ssize_t k;
    do
        k = read(fd, buf, n);
    while (k < 0 && errno == EINTR);
    return k;
}

/* Read up to n bytes at the current position: 0 = end, -1 = error in errno. */
static ssize_t source_read(struct source *s, void *buf, size_t n)
{
    ssize_t k;
    if (s->pipe && (size_t)s->pos < s->head_len) {
        k = (ssize_t)(s->head_len - (size_t)s->pos);
        if ((size_t)k > n)
            k = (ssize_t)n;
        memcpy(buf, s->head + s->pos, (size_t)k);
    } else if (s->pipe) {
        k = read_retry(s->fd, buf, n);
    } else {
        int64_t left = s->size > s->pos ? s->size - s->pos : 0;
        if ((uint64_t)left < n)
            n = (size_t)left;
        if (!n)
            return 0;
        if (s->data) {
            memcpy(buf, s->data + s->pos, n);
            k = (ssize_t)n;
        } else {
            do
                k = pread(s->fd, buf, n, s->base + s->pos);
            while (k < 0 && errno == EINTR);
        }
    }
    if (k > 0)
        s->pos += k;
    return k;
}

/* Get the first bytes without a change of the position. */
static ssize_t source_sniff(struct source *s, unsigned char *head)
{
    ssize_t k = 0;
    size_t got = 0;
    if (s->pipe) {
        while (s->head_len < SNIFF) {
            k = read_retry(s->fd, s->head + s->head_len, SNIFF - s->head_len);
            if (k <= 0)
                break;
            s->head_len += (size_t)k;
        }
        memcpy(head, s->head, s->head_len);
        return k < 0 ? -1 : (ssize_t)s->head_len;
    }
    while (got < SNIFF && (k = source_read(s, head + got, SNIFF - got)) > 0)
        got += (size_t)k;
    s->pos = 0;
    return k < 0 ? -1 : (ssize_t)got;
}

static steno_status io_error(steno_err *err, int e)
{
    return steno_fail(err, STENO_ERR_IO, "reading the audio: %s", strerror(e));
}

/* ---- format detection ------------------------------------------------------------------------ */

enum kind { KIND_WAV, KIND_OPUS, KIND_SNDFILE, KIND_WEBM, KIND_MP4, KIND_UNKNOWN };

static bool starts(const unsigned char *h, size_t n, const char *magic, size_t len)
{
    return n >= len && !memcmp(h, magic, len);
}

static enum kind sniff(const unsigned char *h, size_t n)
{
    /* MPEG audio: 11 set bits, then version, layer, bitrate and rate with no reserved value. */
    bool mpeg = n >= 4 && h[0] == 0xFF && (h[1] & 0xE0) == 0xE0 && (h[1] & 0x18) != 0x08 &&
                (h[1] & 0x06) != 0 && (h[2] & 0xF0) != 0xF0 && (h[2] & 0x0C) != 0x0C;
    if (starts(h, n, "RIFF", 4) || starts(h, n, "RF64", 4) || starts(h, n, "BW64", 4))
        return KIND_WAV;
    if (starts(h, n, "OggS", 4) && n >= 44 && !memcmp(h + 28, "OpusHead", 8))
        return KIND_OPUS;
    if (mpeg || starts(h, n, "ID3", 3) || starts(h, n, "fLaC", 4) || starts(h, n, "OggS", 4) ||
        starts(h, n, "FORM", 4) || starts(h, n, ".snd", 4) || starts(h, n, "caff", 4) ||
        starts(h, n, "RIFX", 4) || starts(h, n, "riff\x2E\x91\xCF\x11", 8))
        return KIND_SNDFILE;
    if (starts(h, n, "\x1A\x45\xDF\xA3", 4))
        return KIND_WEBM;
    if (n >= 8 && !memcmp(h + 4, "ftyp", 4))
        return KIND_MP4;
    return KIND_UNKNOWN;
}

static steno_status refuse(enum kind k, const unsigned char *h, size_t n, steno_err *err)
{
    char text[4 * SHOWN + 1];
    size_t len = 0;
    if (k == KIND_WEBM || k == KIND_MP4)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s files are not read (WAV, FLAC, Ogg, MP3, AIFF, AU, CAF are)",
                          k == KIND_WEBM ? "WebM and Matroska" : "MP4 and M4A");
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        bool plain = h[i] >= 0x20 && h[i] < 0x7F && h[i] != '"' && h[i] != '\\';
        len += (size_t)snprintf(text + len, sizeof text - len, plain ? "%c" : "\\x%02x", h[i]);
    }
    return steno_fail(err, STENO_ERR_FORMAT, "not a recognised audio format (starts with \"%s\")",
                      text);
}

/* ---- our own WAV reader ----------------------------------------------------------------------*/

/* Read more input into a->in if it is used up; *end at the end of the input. */
static steno_status refill(steno_audio *a, bool *end, steno_err *err)
{
    ssize_t k;
    *end = false;
    if (a->in_at < a->in_len)
        return STENO_OK;
    k = source_read(&a->src, a->in, sizeof a->in);
    if (k < 0)
        return io_error(err, errno);
    *end = !k;
    a->in_at = 0;
    a->in_len = (size_t)k;
    return STENO_OK;
}

static steno_status fill_wav(steno_audio *a, steno_err *err)
{
    steno_status st;
    size_t used, frames = 0;
    while (!frames) {
        st = refill(a, &a->ended, err);
        if (st || a->ended)
            return st ? st : steno_wav_end(a->wav, &a->info.truncated, err);
        st = steno_wav_push(a->wav, a->in + a->in_at, a->in_len - a->in_at, &used, a->block,
                            BLOCK_SAMPLES, &frames, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        a->in_at += used;
    }
    a->block_at = 0;
    a->block_frames = frames;
    return STENO_OK;
}

static int64_t frames_expected(const struct steno_wav_info *w, int64_t size)
{
    uint64_t align = w->channels * steno_pcm_bytes(w->format), there;
    if (size < 0)
        return w->frames;
    there = ((uint64_t)size - w->data_offset) / align;
    return w->frames < 0 || (uint64_t)w->frames > there ? (int64_t)there : w->frames;
}

static steno_status open_wav(steno_audio *a, steno_err *err)
{
    const struct steno_wav_info *w;
    steno_status st;
    a->wav = steno_wav_new();
    if (!a->wav)
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    st = fill_wav(a, err); /* up to the first samples, or the end */
    if (st)
        return st;
    w = steno_wav_info(a->wav);
    a->info.sample_rate = w->sample_rate;
    a->info.channels = w->channels;
    a->info.format = "wav";
    a->info.codec = steno_pcm_name(w->format);
    a->info.frames = frames_expected(w, a->src.size);
    return STENO_OK;
}

/* ---- our own Ogg Opus reader, for pipes: libsndfile would have to wait for the end
 * ------------ */

static steno_status fill_opus(steno_audio *a, steno_err *err)
{
    steno_status st;
    size_t used, made = 0;
    while (!made) {
        st = refill(a, &a->ended, err);
        if (st || a->ended)
            return st ? st : steno_ogg_opus_end(a->opus, &a->info.truncated, err);
        st = steno_ogg_opus_push(a->opus, a->in + a->in_at, a->in_len - a->in_at, &used, a->block,
                                 BLOCK_SAMPLES, &made, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        a->in_at += used;
    }
    a->block_at = 0;
    a->block_frames = made;
    return STENO_OK;
}

/* head: the first page. The rate is that of the encoder's input (RFC 7845 section 5.1, field 5), as
 * libsndfile gives it for files. */
static steno_status open_opus(steno_audio *a, const unsigned char *head, steno_err *err)
{
    const unsigned char *field = head + 28 + 12;
    uint32_t rate = (uint32_t)field[0] | (uint32_t)field[1] << 8 | (uint32_t)field[2] << 16 |
                    (uint32_t)field[3] << 24;
    steno_status st;
    a->info.sample_rate = rate && rate < 48000 ? steno_opus_rate_for((int)rate) : 48000;
    a->info.format = "ogg";
    a->info.codec = "opus";
    a->info.frames = -1;
    st = steno_ogg_opus_open(&a->opus, a->info.sample_rate, a->opt.channel, err);
    if (!st)
        st = fill_opus(a, err);
    a->info.channels = steno_ogg_opus_channels(a->opus);
    return st;
}

/* ---- libsndfile ------------------------------------------------------------------------------*/

static sf_count_t vio_size(void *user)
{
    const steno_audio *a = user;
    return a->src.size;
}

static sf_count_t vio_seek(sf_count_t offset, int whence, void *user)
{
    struct source *s = &((steno_audio *)user)->src;
    int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? s->pos : s->size, to;
    if (!__builtin_add_overflow(from, (int64_t)offset, &to) && to >= 0)
        s->pos = to;
    return s->pos;
}

static sf_count_t vio_read(void *ptr, sf_count_t n, void *user)
{
    steno_audio *a = user;
    sf_count_t got = 0;
    while (got < n) {
        ssize_t k = source_read(&a->src, (char *)ptr + got, (size_t)(n - got));
        if (k < 0)
            a->last_errno = errno;
        if (k <= 0)
            break;
        got += k;
    }
    return got;
}

static sf_count_t vio_tell(void *user)
{
    return ((const steno_audio *)user)->src.pos;
}

static const char *container_name(int format)
{
    switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_FLAC:
        return "flac";
    case SF_FORMAT_OGG:
        return "ogg";
    case SF_FORMAT_MPEG:
        return "mp3";
    case SF_FORMAT_AIFF:
        return "aiff";
    case SF_FORMAT_AU:
        return "au";
    case SF_FORMAT_CAF:
        return "caf";
    case SF_FORMAT_W64:
        return "w64";
    case SF_FORMAT_WAV:
    case SF_FORMAT_WAVEX:
        return "wav";
    default:
        return "other";
    }
}

static const char *codec_name(int format)
{
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_S8:
        return "s8";
    case SF_FORMAT_PCM_U8:
        return "u8";
    case SF_FORMAT_PCM_16:
        return "s16";
    case SF_FORMAT_PCM_24:
        return "s24";
    case SF_FORMAT_PCM_32:
        return "s32";
    case SF_FORMAT_FLOAT:
        return "f32";
    case SF_FORMAT_DOUBLE:
        return "f64";
    case SF_FORMAT_ULAW:
        return "mulaw";
    case SF_FORMAT_ALAW:
        return "alaw";
    case SF_FORMAT_IMA_ADPCM:
        return "ima_adpcm";
    case SF_FORMAT_MS_ADPCM:
        return "ms_adpcm";
    case SF_FORMAT_GSM610:
        return "gsm";
    case SF_FORMAT_VORBIS:
        return "vorbis";
    case SF_FORMAT_OPUS:
        return "opus";
    case SF_FORMAT_MPEG_LAYER_I:
    case SF_FORMAT_MPEG_LAYER_II:
    case SF_FORMAT_MPEG_LAYER_III:
        return "mpeg";
    default:
        return "other";
    }
}

static steno_status check_layout(int rate, int channels, steno_err *err)
{
    if (rate < STENO_RATE_MIN || rate > STENO_RATE_MAX)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "sample rate %d Hz is outside %d to %d", rate,
                          STENO_RATE_MIN, STENO_RATE_MAX);
    if (channels < 1 || channels > STENO_CHANNELS_MAX)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%d channels (1 to %d are possible)",
                          channels, STENO_CHANNELS_MAX);
    return STENO_OK;
}

static ssize_t ogg_read(void *user, void *buf, size_t n)
{
    return source_read(user, buf, n);
}

static steno_status check_ogg(steno_audio *a, steno_err *err)
{
    steno_status st = steno_ogg_vorbis_check(ogg_read, &a->src, err);
    a->src.pos = 0;
    return st;
}

static steno_status open_sndfile(steno_audio *a, steno_err *err)
{
    SF_VIRTUAL_IO vio = {vio_size, vio_seek, vio_read, NULL, vio_tell};
    SF_INFO info;
    memset(&info, 0, sizeof info);
    a->snd = sf_open_virtual(&vio, SFM_READ, &info, a);
    if (a->last_errno)
        return io_error(err, a->last_errno);
    if (!a->snd) /* the error text of a failed open is one global of libsndfile; it is good enough
                    to show */
        return steno_fail(err, STENO_ERR_FORMAT, "the audio cannot be opened: %s",
                          sf_strerror(NULL));
    a->info.sample_rate = info.samplerate;
    a->info.channels = (unsigned)info.channels;
    a->info.format = container_name(info.format);
    a->info.codec = codec_name(info.format);
    a->info.frames = info.frames > 0 && info.frames < SF_COUNT_MAX ? info.frames : -1;
    return check_layout(info.samplerate, info.channels, err);
}

static steno_status fill_sndfile(steno_audio *a, steno_err *err)
{
    sf_count_t want = BLOCK_SAMPLES / (sf_count_t)a->info.channels, got;
    got = sf_readf_float(a->snd, a->block, want);
    if (a->last_errno)
        return io_error(err, a->last_errno);
    if (got <= 0) {
        a->ended = true;
        if (sf_error(a->snd))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: cannot be decoded after %" PRId64 " samples: %s", a->info.format,
                              a->delivered, sf_strerror(a->snd));
        a->info.truncated = a->info.frames > a->delivered;
        return STENO_OK;
    }
    a->block_at = 0;
    a->block_frames = (size_t)got;
    steno_pcm_clean(a->block, (size_t)got * a->info.channels, a->block);
    return STENO_OK;
}

/* ---- both ------------------------------------------------------------------------------------*/

static steno_status hold_pipe(steno_audio *a, steno_err *err)
{
    size_t max = a->opt.max_bytes ? a->opt.max_bytes : PIPE_BYTES_DEFAULT;
    ssize_t k;
    steno_status st;
    steno_buf_init(&a->held, max);
    while ((k = source_read(&a->src, a->in, sizeof a->in)) > 0) {
        st = steno_buf_add(&a->held, a->in, (size_t)k);
        if (st)
            return st == STENO_ERR_LIMIT
                       ? steno_fail(err, st, "the input is longer than %zu bytes", max)
                       : steno_fail(err, st, "audio: out of memory");
    }
    if (k < 0)
        return io_error(err, errno);
    a->src.data = (const unsigned char *)a->held.data;
    a->src.size = (int64_t)a->held.len;
    a->src.pos = 0;
    a->src.pipe = false;
    return STENO_OK;
}

static steno_status check_options(steno_audio *a, steno_err *err)
{
    double seconds = (double)a->info.frames / a->info.sample_rate;
    if (a->opt.channel > a->info.channels)
        return steno_fail(err, STENO_ERR_INVAL, "channel %u was requested, the audio has %u",
                          a->opt.channel, a->info.channels);
    a->limit = -1;
    if (a->opt.max_seconds <= 0)
        return STENO_OK;
    if (seconds > a->opt.max_seconds)
        return steno_fail(err, STENO_ERR_LIMIT, "the audio is %.1f s long, the limit is %.1f s",
                          seconds, a->opt.max_seconds);
    if (a->opt.max_seconds < 1e12)
        a->limit = (int64_t)(a->opt.max_seconds * a->info.sample_rate);
    return STENO_OK;
}

/* WAV of an encoding that our reader lacks (ADPCM, GSM): libsndfile may support it. */
static steno_status open_wav_by_libsndfile(steno_audio *a, steno_err *err)
{
    steno_err ours = err ? *err : (steno_err){0};
    steno_wav_free(a->wav);
    a->wav = NULL;
    a->src.pos = 0;
    if (open_sndfile(a, NULL) == STENO_OK)
        return STENO_OK;
    if (err)
        *err = ours;
    return STENO_ERR_UNSUPPORTED;
}

static steno_status open_reader(steno_audio *a, enum kind k, const unsigned char *head, size_t n,
                                steno_err *err)
{
    steno_status st = STENO_OK;
    if (k == KIND_WAV) {
        st = open_wav(a, err);
        return st == STENO_ERR_UNSUPPORTED && !a->src.pipe ? open_wav_by_libsndfile(a, err) : st;
    }
    if (k == KIND_OPUS && a->src.pipe)
        return open_opus(a, head, err);
    if (a->src.pipe)
        st = hold_pipe(a, err);
    if (!st && starts(head, n, "OggS", 4))
        st = check_ogg(a, err);
    return st ? st : open_sndfile(a, err);
}

static steno_status open_source(steno_audio *a, steno_err *err)
{
    unsigned char head[SNIFF] = {0};
    ssize_t n = source_sniff(&a->src, head);
    steno_status st;
    enum kind k;
    if (n < 0)
        return io_error(err, errno);
    if (!n)
        return steno_fail(err, STENO_ERR_FORMAT, "the input is empty");
    k = sniff(head, (size_t)n);
    if (k > KIND_SNDFILE)
        return refuse(k, head, (size_t)n, err);
    st = open_reader(a, k, head, (size_t)n, err);
    return st ? st : check_options(a, err);
}

static steno_status open_any(steno_audio **out, const struct source *src,
                             const struct steno_audio_options *opt, steno_err *err)
{
    steno_audio *a = calloc(1, sizeof *a);
    steno_status st;
    if (!a)
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    a->src = *src;
    if (opt)
        a->opt = *opt;
    st = open_source(a, err);
    if (st)
        steno_audio_close(a);
    else
        *out = a;
    return st;
}

steno_status steno_audio_open_mem(steno_audio **out, const void *data, size_t n,
                                  const struct steno_audio_options *opt, steno_err *err)
{
    struct source s = {.data = data, .fd = -1};
    if (!n || n > INT64_MAX / 2)
        return steno_fail(err, STENO_ERR_FORMAT,
                          n ? "the input is too long" : "the input is empty");
    s.size = (int64_t)n;
    return open_any(out, &s, opt, err);
}

steno_status steno_audio_open_fd(steno_audio **out, int fd, const struct steno_audio_options *opt,
                                 steno_err *err)
{
    struct source s = {.fd = fd, .pipe = true, .size = -1};
    struct stat sb;
    if (fstat(fd, &sb))
        return io_error(err, errno);
    if (S_ISDIR(sb.st_mode))
        return io_error(err, EISDIR);
    if (S_ISREG(sb.st_mode)) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        s.base = at > 0 ? at : 0;
        s.size = sb.st_size > s.base ? sb.st_size - s.base : 0;
        s.pipe = false;
    }
    return open_any(out, &s, opt, err);
}

void steno_audio_close(steno_audio *a)
{
    if (!a)
        return;
    if (a->snd)
        sf_close(a->snd);
    steno_wav_free(a->wav);
    steno_ogg_opus_close(a->opus);
    steno_buf_free(&a->held);
    free(a);
}

void steno_audio_get_info(const steno_audio *a, struct steno_audio_info *info)
{
    *info = a->info;
}

static steno_status over_limit(const steno_audio *a, steno_err *err)
{
    return steno_fail(err, STENO_ERR_LIMIT, "the audio is longer than the limit of %.1f s",
                      a->opt.max_seconds);
}

steno_status steno_audio_read(steno_audio *a, float *mono, size_t max, size_t *n, steno_err *err)
{
    size_t k = a->block_frames;
    steno_status st;
    if (!k && !a->ended) {
        st = a->wav ? fill_wav(a, err) : a->opus ? fill_opus(a, err) : fill_sndfile(a, err);
        if (st)
            return st;
        k = a->block_frames;
    }
    if (k > max)
        k = max;
    if (a->limit >= 0 && k) {
        if (a->delivered >= a->limit)
            return over_limit(a, err);
        if (k > (uint64_t)(a->limit - a->delivered))
            k = (size_t)(a->limit - a->delivered);
    }
    if (a->opus) /* already mono */
        memcpy(mono, a->block + a->block_at, k * sizeof *mono);
    else
        steno_pcm_mix(a->block + a->block_at * a->info.channels, k, a->info.channels,
                      a->opt.channel, mono);
    a->block_at += k;
    a->block_frames -= k;
    a->delivered += (int64_t)k;
    *n = k;
    return STENO_OK;
}
